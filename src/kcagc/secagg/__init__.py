"""Secure aggregation (Protocol 4): roles add the vectors of several parties without seeing any single vector.

The package is small and imports nothing else of kcagc but the error classes, so that it can be audited alone. All
primitives but those of `matching` come from `cryptography`: X25519 for shared secrets, Ed25519 for identities,
HKDF-SHA256 for keys, ChaCha20 for masks, ChaCha20-Poly1305 for encrypted messages. The operating system is the only
source of randomness, and only `Identity.generate`, `Secrets.fresh` and `random_token` use it.

`keys` holds identities, session secrets, the keys of a pair of parties and encryption to a party; `masks` the encoding
of numbers, masked sums and groups; `blinding` the secret orders, factors, signs and offsets; `shares` pads, secret
rotations and the shares of two holders. `matching` hides ids as points of a curve, with `openmined-psi`, an extra.
"""
