"""One offline HTML page about a run, made from the files in its folder and nothing else.

`folder` reads the files, `page` puts the sections together, each section a module; `markup` escapes, `drawing` draws.
"""
