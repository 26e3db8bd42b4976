"""A federation that lasts: a standing coordinator, its folder, its runs, and the methods that it answers.

Nothing of a single run imports this package.
"""
