"""Measured runs for the timing tables: all roles as processes, over relays that simulate delay and rate."""
