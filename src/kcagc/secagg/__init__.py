"""Secure aggregation (Protocol 4): parties' vectors are summed while none of them is shown.

Small and alone in its folder, so that it can be audited alone. The primitives are borrowed from `cryptography`: X25519
for shared secrets, Ed25519 for identities, HKDF-SHA256 for keys, ChaCha20 for masks, ChaCha20-Poly1305 for boxes. The
operating system is the only source of randomness, and only `Identity.generate`, `Secrets.fresh` and `fresh_token` ask
it.

The modules in the order in which they build on one another: `framing` (fields as unambiguous bytes), `fixed_point`
(numbers as words of Z_2^64), `identity` (long-term keys), `session` (fresh keys, signed hellos, the session id),
`pairs` (what two parties derive from their shared secret), `masks` (Protocol 4 itself), `groups` (who sums, and whether
that hides anything), `encryption` (what a relay must not read), `shuffle` and `blinding` (orders, factors and shifts
that the receiver of a sum does not know), `link` (what is signed when a stream opens).
"""
