"""Every table and figure of the paper, computed anew and shown beside the paper's own numbers.

`python -m experiments.paper NAME` computes one (or `all`), keeps its raw results as JSON in `experiments/results`, and
renders `docs/paper.md` from them. A finished cell is not computed again.
"""
