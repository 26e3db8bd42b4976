"""How fast kcagc is: `python -m benchmarks NAME` measures, keeps the figures and renders docs/performance.md."""
