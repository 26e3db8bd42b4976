"""Insights: what one party can say about the clusters with its own table, its own points and the graph it knows.

A party computes them alone after a run and sends none of them. `measures` holds top features and links,
`quality` the comparison with known classes, `description` the file that the report reads.
"""
