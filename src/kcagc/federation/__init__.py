"""A federation: organisations that meet once, and then run with each other for months."""
