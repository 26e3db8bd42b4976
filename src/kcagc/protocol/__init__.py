"""The protocols of the paper, as roles that do no I/O.

One run, module by module:

1. All roles hold the same `parameters` and the same `agreement`. Each sends a signed hello through the aggregator, and
   each party derives the session id and one key for every other party.
2. Each `party` sends every other party an encrypted confirmation: number of nodes, ids, graph, keys and seed. Meanwhile
   it does its `local` work: filter, projection and local clusters (Protocol 1).
3. `plan` computes which parties form a group: all of them, or those of each merge in a tree. `fit` takes a party from
   its leaf to the root. In each merge the parties exchange labels and intersect them into `cells` (Protocol 3, lines 2
   to 15).
4. `joint_kmeans` clusters the cells, or in the basic method the nodes (Protocol 2, lines 7 to 36). Each round is one
   `secure_sum` (Protocol 4): every party sends a masked vector, and the `aggregator` answers with the nearest centres.
5. The parties exchange receipts. A party returns labels only if all parties have the same labels.

`predict` assigns new nodes to the centres of a fit. `messages` defines every message, and `effects` everything that a
role may ask of its driver.
"""
