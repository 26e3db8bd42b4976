"""The timing tables: all roles as processes, over links with a delay and a rate of our own making."""
