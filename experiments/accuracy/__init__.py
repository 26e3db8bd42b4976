"""Which settings find the best clusters: `python -m experiments.accuracy`. It renders docs/accuracy.md, all of it."""
