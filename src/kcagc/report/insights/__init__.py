"""What clusters mean to one party: which of its own columns mark each, how sure each node is, how the graph joins them.

All of it is computed by one party alone, after a run, from its own table, its own points and the graph it knows.
Nothing here is ever sent. `describe` puts it all together; the modules are imported one by one, because a map and
quality need much that a role in the middle of a run does not.
"""
