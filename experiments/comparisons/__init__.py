"""Three ways to find the signs of sums that no role may see: blinded values, function shares, replicated shares.

The package uses the first. The other two are prototypes: correct on every value, semi-honest roles, no network.
"""
