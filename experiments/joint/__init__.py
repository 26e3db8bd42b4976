"""How near every method comes to the clusters of the pooled data: `python -m experiments.joint`."""
