"""Rehearsals: all roles on one machine, with the user's files, in several settings, before the first joint run.

`parties` reads who takes part, `settings` holds what is tried, `runs` runs and measures it, `advice` says which
settings are best or equally good, `page` shows everything on one HTML page.
"""
