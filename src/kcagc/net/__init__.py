"""Ways for bytes to get from one role to another. Nothing here knows what a cluster is."""
