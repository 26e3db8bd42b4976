"""The words of the ledger: for every kind of disclosure what its receiver learns, and where the paper speaks of it.

A kind without a line cannot be disclosed: asking for its words is an error, and every message asks before it is sent.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcagc.secagg.masks import Group


@dataclass(frozen=True)
class Line:
    """What a receiver learns, and the place in the paper (its security analysis) that names this leak, if one does."""

    learns: str
    paper: str = ""
    weaker: bool = False  # opens more than the default mode does


_ASSIGNMENT = "security analysis, basic method, first place: the assignment is told (Protocol 2, lines 14 and 29)"
_DISTANCES = (
    "security analysis, second place of both methods: distances are summed (Protocol 2, lines 12 and 27; Protocol 3, "
    "line 16)"
)
_LOCAL = (
    "security analysis, optimized method, first place of Cli_l and of Cli_L: node ids of local clusters and of their "
    "intersections (Protocol 3, lines 2 and 10)"
)

MESSAGES = {
    "hello": Line("who takes part, the parameters, a fresh nonce and public key; nothing about data"),
    "hellos": Line("the same of every other role; nothing about data"),
    "encrypted": Line(
        "a relay: that these parties speak, and how long it is (the length of labels tells the number of nodes)"
    ),
    "relayed": Line("a relay: the same boxes, passed on unread"),
    "masked": Line(
        "noise by itself: uniform words; only the sum over the whole group opens, which has a line of its own",
        _DISTANCES,
    ),
    "plain": Line(
        "the values themselves: there is nobody to share masks with, and the receiver takes its own from the sum",
        _DISTANCES,
        weaker=True,
    ),
    "answer": Line(
        "who wins each row, in an order that only the group knows or that is common to it; which starts are given up, "
        "which is the cheapest so far, and its mean squared distance, summed over the parties: of two parties each "
        "learns the other's part",
        _ASSIGNMENT,
    ),
    "choice": Line("which row was drawn as a starting centre"),
    "finished": Line("that this group needs no further sums"),
    "abort": Line("that the run ends, which role ended it, and the kind of reason: no values, but that data misfit"),
}

_CONFIRMED = (
    "the number of nodes; whether they are called by numbers or by strings; whether ids and graph are the receiver's "
    "own too (a digest under the pair's key); the keys that hide rows from whoever sums; the first party's seed"
)

INSIDE_BOXES = {
    "confirmation": Line(_CONFIRMED),
    "confirmation.starts": Line(
        f"{_CONFIRMED}; and nodes proposed as starting centres, which lie far apart in the sender's features"
    ),
    "labels": Line("the sender's local cluster of every node; not where the clusters lie", _LOCAL),
    "labels.whole": Line(
        "the sender's filtered table, up to names: it has no more distinct rows than local clusters, so that cluster "
        "numbers tell them all apart",
        _LOCAL,
        weaker=True,
    ),
    "labels.merged": Line(
        "the cluster of every node in a lower merge of the tree, and how many rounds it took to find them", _LOCAL
    ),
    "receipt": Line("whether both parties were told the same to the end (a digest of all answers and labels)"),
}

_COSTS = "for each start that goes on, in every round, the mean squared distance of the nodes to their centres"

# What opens to whoever sums, by what was summed and by what the receiver knows: a coordinator has rows in secret order
# ("shuffled"); a member knows which row is which ("labelled"); of two parties it takes its own from the sum.
OPENED = {
    "distances.shuffled": Line(
        "how many rows there are and, in secret order, how the sums of squared distances of each row compare: a row is "
        "multiplied by a secret factor and (but for the 1/9 step) shifted. Neither which node or cell it is, nor which "
        "cluster a column, nor how far. While its own centre moves and three others stay, a row can be recognised from "
        "one sum to the next, which tells which unnamed rows move together",
        _DISTANCES,
    ),
    "distances.labelled": Line(
        "for every node or cell and every cluster the sum of the squared distances in all parties' features; as it "
        "knows the labels too, it can separate the parties' shares approximately, and exactly from local-cluster means",
        _DISTANCES,
        weaker=True,
    ),
    "distances.two-party": Line(
        "for every node or cell and every cluster the other party's own squared distance: a sum of two, less its own",
        _DISTANCES,
        weaker=True,
    ),
    "seeding.shuffled": Line(
        "in secret order, every row's squared distances to the starting rows drawn so far, times its size and a secret "
        "factor that all rows share, summed over the parties: rows can be compared with each other, and recognised in "
        "the 1/9 step",
        weaker=True,
    ),
    "seeding.labelled": Line(
        "for every node or cell its squared distances to the starting rows drawn so far, times its size, summed over "
        "the parties",
        weaker=True,
    ),
    "seeding.two-party": Line(
        "for every node or cell the other party's own squared distances to the starting rows drawn so far", weaker=True
    ),
    "inertia.shuffled": Line(f"{_COSTS}, summed over the parties"),
    "inertia.labelled": Line(f"{_COSTS}, summed over the parties"),
    "inertia.two-party": Line(
        "for each start that goes on the other party's own mean squared distance to the centres", weaker=True
    ),
}

OUTPUTS = {
    "labels": Line("the cluster of every node: what the run is for", _ASSIGNMENT),
    "prediction": Line("the cluster of every new node: what the run is for", _ASSIGNMENT),
}

LINKS = {
    "opening": Line(
        "that this role is there, from which address and with which certificate; what it agrees to, its random name of "
        "the session, and how many messages it has sent and had; nothing about data"
    ),
    "welcome": Line("the aggregator's name of the session and its counts; while it waits, who else is missing"),
}

LINES: dict[str, Line] = {
    **{f"link/{kind}": line for kind, line in LINKS.items()},
    **{f"message/{kind}": line for kind, line in MESSAGES.items()},
    **{f"inside/{kind}": line for kind, line in INSIDE_BOXES.items()},
    **{f"opened/{kind}": line for kind, line in OPENED.items()},
    **{f"output/{kind}": line for kind, line in OUTPUTS.items()},
}


_SUMMED = {"seeding": "seeding", "costs": "inertia"}


def opened_kind(group: Group, stage: str) -> str:
    """Give the line for a sum of this group that opens at this stage."""
    knows = "two-party" if group.exposes_one_party else "labelled" if group.aggregator_is_member else "shuffled"
    return f"opened/{_SUMMED.get(stage, 'distances')}.{knows}"
