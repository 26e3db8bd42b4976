"""Texts of disclosures and risks: for every kind of disclosure its title and what the receiver learns.

A kind without a text cannot be disclosed: every message asks for its text before a role sends it. The texts describe
what is sent and what the receiver can compute from it, as far as this is known.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcagc.secagg.masks import TWO_PARTY_SUM, Group


@dataclass(frozen=True)
class DisclosureText:
    """Text of one kind of disclosure.

    Attributes
    ----------
    title : str
        Name of the disclosure in a few words.
    learns : str
        What the receiver learns, in full sentences.
    paper : str
        Place in the paper's security analysis that names this disclosure; empty if there is none.
    about_data : bool
        Whether the receiver learns something that depends on the data of a party.
    weaker : bool
        Whether this discloses more than the default settings do.
    """

    title: str
    learns: str
    paper: str = ""
    about_data: bool = False
    weaker: bool = False


_ASSIGNMENT = "security analysis of the basic method, first item: the assignment (Protocol 2, lines 14 and 29)"
_DISTANCES = (
    "security analysis of both methods, second item: sums of distances (Protocol 2, lines 12 and 27; Protocol 3, "
    "line 16)"
)
_LOCAL = (
    "security analysis of the optimized method, first item for Cli_l and Cli_L: node ids of local clusters and of "
    "their intersections (Protocol 3, lines 2 and 10)"
)

CONNECTIONS = {
    "opening": DisclosureText(
        "Connection opened",
        "The aggregator learns that this role is running, its address and certificate, the parameters that it agrees "
        "to, its random name of the session, and how many messages it has sent and received. It learns nothing about "
        "data.",
    ),
    "welcome": DisclosureText(
        "Connection accepted",
        "The party learns the aggregator's random name of the session, its message counts, and which roles are not "
        "connected yet. It learns nothing about data.",
    ),
}

MESSAGES = {
    "hello": DisclosureText(
        "Hello: parameters and public keys",
        "The aggregator learns the participants, the parameters, and a new nonce and public key of the sender. It "
        "learns nothing about data.",
    ),
    "hellos": DisclosureText(
        "Hellos of all participants",
        "The party learns the parameters, nonces and public keys of all roles. It learns nothing about data.",
    ),
    "encrypted": DisclosureText(
        "Encrypted messages, sent to the relay",
        "The aggregator relays messages that it cannot decrypt. It learns which parties exchange messages, and how "
        "long the messages are. The length of local labels reveals the number of nodes.",
    ),
    "relayed": DisclosureText(
        "Encrypted messages, forwarded",
        "The party receives the encrypted messages of other parties. Their content has its own entries.",
    ),
    "masked": DisclosureText(
        "Masked vectors",
        "The aggregator receives numbers that are uniformly random on their own. Only the sum over the whole group "
        "becomes visible, which has its own entry.",
        _DISTANCES,
    ),
    "plain": DisclosureText(
        "Vectors without a mask",
        "The aggregator learns the values of the sender. There is no second party to share a mask with.",
        _DISTANCES,
        about_data=True,
        weaker=True,
    ),
    "answer": DisclosureText(
        "Answers to secure sums",
        "Each party learns the nearest cluster of every row in this iteration and restart, which restarts end, which "
        "restart has the lowest cost so far, and this cost summed over the parties. With two parties, each learns the "
        "other's part of the cost.",
        _ASSIGNMENT,
        about_data=True,
    ),
    "choice": DisclosureText(
        "Chosen initial centres", "Each party learns which row was drawn as an initial centre.", about_data=True
    ),
    "finished": DisclosureText(
        "End of the secure sums of a group", "The aggregator learns that this group needs no further sums."
    ),
    "abort": DisclosureText(
        "Abort of the run",
        "The receiver learns that the run has ended, which role ended it, and a general reason, for example that its "
        "data cannot be used. It learns no values.",
    ),
}

_COMPARISON = (
    "The receiving party learns the number of nodes, whether node ids are numbers or text, and whether its node ids "
    "and graph are the same as the sender's. It also receives the keys that hide the order of rows from the "
    "aggregator and, from the first party, the seed of all common choices."
)

ENCRYPTED = {
    "confirmation": DisclosureText("Comparison of ids and graph", _COMPARISON),
    "confirmation.starts": DisclosureText(
        "Comparison of ids and graph, with proposed initial centres",
        f"{_COMPARISON} It learns which nodes the sender proposes as initial centres; these nodes are far apart in the "
        "sender's features.",
        about_data=True,
    ),
    "labels": DisclosureText(
        "Local labels",
        "The receiving party learns the sender's local label of every node, that is, which nodes the sender's features "
        "make similar. It does not receive the positions of the clusters. If the sender has few columns, local labels "
        "can reveal values of these columns.",
        _LOCAL,
        about_data=True,
    ),
    "labels.whole": DisclosureText(
        "Local labels that reveal a whole table",
        "The receiving party learns the sender's filtered table up to the names of its values: the table has no more "
        "distinct rows than local clusters, so each local label stands for one row.",
        _LOCAL,
        about_data=True,
        weaker=True,
    ),
    "labels.merged": DisclosureText(
        "Labels of a lower merge",
        "The receiving party learns the cluster of every node in a lower merge of the tree, and how many rounds that "
        "merge took.",
        _LOCAL,
        about_data=True,
    ),
    "receipt": DisclosureText(
        "Receipts",
        "The receiving party learns whether both parties received the same answers and found the same labels.",
    ),
}

_COSTS = (
    "For each active restart and in every iteration, the aggregator learns the mean squared distance of the nodes to "
    "their centres, summed over the parties."
)

# What a sum discloses to the aggregator depends on the values and on what the aggregator knows: a coordinator receives
# rows in a secret order ("shuffled"); a party knows which row is which ("labelled"), and in a sum of two parties it
# can subtract its own values ("two-party").
OPENED = {
    "distances.shuffled": DisclosureText(
        "Opened sums: distances to cluster centres",
        "The aggregator receives one row for each node or cell and each restart: the squared distances to the cluster "
        "centres, summed over the parties. Rows and columns are in a secret order, each row is multiplied by a secret "
        "factor and, except in the first assignment, shifted by a secret number. No row has a name. The aggregator "
        "learns the number of rows and the order of the values in each row. From ratios of values it can also link "
        "many rows of the same cell across restarts and iterations, compute their relative distances, and group the "
        "unnamed rows.",
        _DISTANCES,
        about_data=True,
    ),
    "distances.labelled": DisclosureText(
        "Opened sums: distances to cluster centres",
        "The aggregator is a party. For every node or cell and every cluster it learns the squared distance, summed "
        "over the parties. It also knows the labels, so it can separate the shares of the parties: approximately, and "
        "exactly if virtual nodes are local means.",
        _DISTANCES,
        about_data=True,
        weaker=True,
    ),
    "distances.two-party": DisclosureText(
        "Opened sums: distances to cluster centres",
        "The aggregator is one of two parties. It subtracts its own values and learns the other party's squared "
        "distance of every node or cell to every cluster centre.",
        _DISTANCES,
        about_data=True,
        weaker=True,
    ),
    "seeding.shuffled": DisclosureText(
        "Opened sums: distances to initial centres",
        "The aggregator receives, in a secret order, the squared distances of every row to the initial centres drawn "
        "so far, multiplied by the size of the row and by one secret factor, and summed over the parties. It can "
        "compare rows with each other, compute ratios of their sizes, and recognise them in the first assignment.",
        about_data=True,
        weaker=True,
    ),
    "seeding.labelled": DisclosureText(
        "Opened sums: distances to initial centres",
        "The aggregator is a party. For every node or cell it learns the squared distances to the initial centres "
        "drawn so far, multiplied by its size and summed over the parties.",
        about_data=True,
        weaker=True,
    ),
    "seeding.two-party": DisclosureText(
        "Opened sums: distances to initial centres",
        "The aggregator is one of two parties. It learns the other party's squared distances of every node or cell to "
        "the initial centres drawn so far.",
        about_data=True,
        weaker=True,
    ),
    "inertia.shuffled": DisclosureText("Opened sums: cost of each restart", _COSTS, about_data=True),
    "inertia.labelled": DisclosureText("Opened sums: cost of each restart", _COSTS, about_data=True),
    "inertia.two-party": DisclosureText(
        "Opened sums: cost of each restart",
        "The aggregator is one of two parties. For each active restart it learns the other party's mean squared "
        "distance of the nodes to their centres.",
        about_data=True,
        weaker=True,
    ),
}

OUTPUTS = {
    "labels": DisclosureText(
        "Result",
        "The party learns the cluster of every node, which is the purpose of the run.",
        _ASSIGNMENT,
        about_data=True,
    ),
    "prediction": DisclosureText(
        "Result",
        "The party learns the cluster of every new node, which is the purpose of the run.",
        _ASSIGNMENT,
        about_data=True,
    ),
}

TEXTS: dict[str, DisclosureText] = {
    f"{prefix}/{kind}": text
    for prefix, texts in (
        ("link", CONNECTIONS),
        ("message", MESSAGES),
        ("encrypted", ENCRYPTED),
        ("opened", OPENED),
        ("output", OUTPUTS),
    )
    for kind, text in texts.items()
}


_SUMMED = {"seeding": "seeding", "costs": "inertia"}


def opened_kind(group: Group, stage: str) -> str:
    """Return the kind of disclosure of a sum that this group opens at this stage."""
    knowledge = "two-party" if group.exposes_one_party else "labelled" if group.aggregator_is_member else "shuffled"
    return f"opened/{_SUMMED.get(stage, 'distances')}.{knowledge}"


# Disclosures beyond the default settings, which an operator must accept by name.

LABELLED_SUMS = "labelled-sums"
LOCAL_MEANS = "local-means"


@dataclass(frozen=True)
class Risk:
    """A disclosure beyond the default settings.

    Attributes
    ----------
    name : str
        Name by which an operator accepts it.
    discloses : str
        What it discloses, in full sentences.

    Examples
    --------
    >>> RISKS["two-party-sum"].name
    'two-party-sum'
    """

    name: str
    discloses: str


RISKS = {
    risk.name: risk
    for risk in (
        Risk(
            TWO_PARTY_SUM,
            "The aggregator is a party and adds its values to those of only one other party. It learns the other "
            "party's distances by subtraction.",
        ),
        Risk(
            LABELLED_SUMS,
            "The aggregator is a party and knows which node or cell each sum belongs to. It can separate the parties' "
            "shares by least squares: approximately, if virtual nodes are cell means.",
        ),
        Risk(
            LOCAL_MEANS,
            "Virtual nodes are local means, and the aggregator knows the labels. It can compute the distances between "
            "the local centres of each party to the last digits, for any number of parties.",
        ),
    )
}
