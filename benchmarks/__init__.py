"""Benchmarks: `python -m benchmarks NAME` measures, stores the figures and renders docs/performance.md."""
