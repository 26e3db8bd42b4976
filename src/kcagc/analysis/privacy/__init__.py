"""The paper's two privacy measures (Appendix B), and estimators of the entropies they are made of.

With Y what is shared and X the original features that somebody wants to know, the paper measures

- the privacy *level* 2^h(Y|X): among how many values Y is still spread for whoever knows X (a count for a discrete
  entropy, a volume in the units of Y for a differential one), and
- the privacy *leakage* 1 - 2^(h(Y|X) - h(Y)) = 1 - 2^(-I(X;Y)): the share of that spread which X takes away; the
  information of X about Y is that of Y about X.

What they say is an average over nodes, under an estimator, for the X and the Y that were put in. `plug_in` counts
how often values occur: rows that hardly ever repeat have the entropy of a list of numbers, whatever they hold, so that
it cannot tell a sum that hides everything from a table published whole. `nearest` compares distances to near neighbours
and can tell these two apart; in more than a few dimensions it sees too little rather than too much.

**Neither bounds what an aggregator can compute.** A high level and a low leakage stand beside an exact recovery: where
virtual nodes lie at the means of local clusters, whoever sees the sums *and* knows the cells separates the parties by
least squares, and finds all distances between one party's local centres but for rounding. What a role learns is in the
disclosure ledger (`kcagc.disclosure`); labels, cells and order are withheld from the aggregator.
These numbers are for comparison with the paper; they are no guarantee, and nothing in kcagc decides by them.
"""

from kcagc.analysis.privacy.measures import Privacy, nearest, plug_in, plug_in_by_column

__all__ = ["Privacy", "nearest", "plug_in", "plug_in_by_column"]
