"""The protocols as roles that do no I/O.

In the order of a run: `agreement` and `handshake` (who takes part, and that all mean the same), `local` (what a party
does alone), `plan` (which parties sum together), `cells` and `seeds`, `joint_kmeans`, `fit` and `predict` (a party's
whole part), `aggregator` (the role that relays and sums). `effects` lists what a role may ask of its driver; `messages`
lists every message; `secure_sum` and `answers` are the two sides of one masked sum.
"""
