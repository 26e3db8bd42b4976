"""The protocols as roles that do no I/O: who says what to whom, and what each makes of it.

In the order in which a run goes through them: `agreement` and `hello` (who takes part, and that all mean the same),
`local` (what a party does alone), `plan` (who sums with whom), `cells` and `seeds`, `rounds` (collaborative k-means),
`fit` and `predict` (a party's whole part), `hub` (the role that relays and sums). `effects` says what a role may ask of
whoever runs it; `messages` lists every message; `sums` and `answers` are the two sides of one masked sum.
"""
