"""The cost of a run before it: bytes, time and memory of every role, from sizes and settings alone."""
