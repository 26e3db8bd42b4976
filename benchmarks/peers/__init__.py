"""The same k-means by other systems: SPU and MPyC from their packages, each in a separate environment."""
