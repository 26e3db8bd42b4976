"""The report: one HTML page about a run, made only from the files in the result folder, that loads nothing.

`folder` reads the files, `page` joins the sections. `clusters` and `quality` show the result, `run` how the run went,
`disclosures` the ledger in plain words. `markup` escapes text, `drawing` draws SVG, `insights` computes the content.
"""
