"""Every table and figure of the paper, computed with kcagc and compared with the printed numbers.

`python -m experiments.paper NAME` computes one experiment (or `all`), stores its raw results as JSON in
`experiments/results`, and renders `docs/paper.md` from them. A finished cell is not computed again.
"""
