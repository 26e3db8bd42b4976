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
    "security analysis of the optimized method, first item for the parties (Cli_l) and the last party (Cli_L): node "
    "ids of local clusters and of their intersections (Protocol 3, lines 2 and 10)"
)

CONNECTIONS = {
    "opening": DisclosureText(
        "Connection opened",
        "The aggregator learns that the party is running, the party's address and certificate, the parameters that the "
        "party agrees to, the random name that the party chose for the session, and how many messages the party has "
        "sent and received. The aggregator learns nothing about data.",
    ),
    "welcome": DisclosureText(
        "Connection accepted",
        "The party learns the random name that the aggregator chose for the session, how many messages the aggregator "
        "has sent and received, and which roles are not connected yet. The party learns nothing about data.",
    ),
}

MESSAGES = {
    "hello": DisclosureText(
        "Hello: parameters and public keys",
        "The aggregator learns who takes part, the parameters, a random number that the sender uses only once (nonce), "
        "and a new public key of the sender. It learns nothing about data.",
    ),
    "hellos": DisclosureText(
        "Hellos of all participants",
        "The party learns the parameters, the nonces (random numbers that are used only once) and the public keys of "
        "all roles. It learns nothing about data.",
    ),
    "encrypted": DisclosureText(
        "Encrypted messages, sent to the relay",
        "The aggregator forwards messages that it cannot decrypt. It learns which parties exchange messages, and how "
        "long the messages are. The length of the message with local labels reveals the number of nodes.",
    ),
    "relayed": DisclosureText(
        "Encrypted messages, forwarded",
        "The party receives the encrypted messages of other parties. What they contain is recorded separately, under "
        "the kinds that begin with encrypted/.",
    ),
    "masked": DisclosureText(
        "Masked vectors",
        "The aggregator receives the numbers of one party, hidden by random masks: on their own they look like random "
        "noise. It can read only the sum over all parties of the group that clusters together, because the masks "
        "cancel in this sum. The sum is recorded separately, under the kinds that begin with opened/.",
        _DISTANCES,
    ),
    "plain": DisclosureText(
        "Vectors without a mask",
        "The aggregator learns the values of the sender. It is itself one of the two parties of this sum, so the "
        "sender has no third party with which it could share a mask.",
        _DISTANCES,
        about_data=True,
        weaker=True,
    ),
    "answer": DisclosureText(
        "Answers to secure sums",
        "Each party learns, in every iteration and restart of k-means, the nearest cluster of every row (node or "
        "cell). It also learns which restarts stop, which has the lowest cost so far (mean squared distance of the "
        "nodes to their centres), and this cost, summed over the parties. With two parties, each learns the other's "
        "part of the cost.",
        _ASSIGNMENT,
        about_data=True,
    ),
    "choice": DisclosureText(
        "Chosen initial centres",
        "Each party learns which row (node or cell) was selected at random as an initial centre.",
        about_data=True,
    ),
    "finished": DisclosureText(
        "End of the secure sums of a group", "The aggregator learns that this group of parties needs no further sums."
    ),
    "abort": DisclosureText(
        "Abort of the run",
        "The receiver learns that the run has ended, which role ended it, and a general reason, for example that the "
        "data of that role cannot be used. It learns no values.",
    ),
}

_COMPARISON = (
    "The receiving party learns the number of nodes, whether node ids are numbers or text, and whether its node ids "
    "and graph are the same as the sender's. It also receives the keys that hide the order of rows from the "
    "aggregator. If the sender is the first party in the list of participants, it also receives the seed from which "
    "all parties derive their common random choices."
)

ENCRYPTED = {
    "confirmation": DisclosureText("Comparison of ids and graph", _COMPARISON),
    "confirmation.starts": DisclosureText(
        "Comparison of ids and graph, with proposed initial centres",
        f"{_COMPARISON} It learns which nodes the sender proposes as initial centres, and so that these nodes are very "
        "different from each other in the sender's columns.",
        about_data=True,
    ),
    "labels": DisclosureText(
        "Local labels",
        "The receiving party learns the sender's local label of every node: the number of the node's cluster in the "
        "sender's own columns. So it learns which nodes are similar in these columns. It does not receive the values "
        "behind a label. If the sender has few columns, local labels can nevertheless reveal their values.",
        _LOCAL,
        about_data=True,
    ),
    "labels.whole": DisclosureText(
        "Local labels that reveal a whole table",
        "The receiving party learns the sender's whole table, after smoothing along the graph, except for the values "
        "themselves: it learns exactly which nodes have equal rows. The table has no more distinct rows than local "
        "clusters, so each local label stands for one distinct row.",
        _LOCAL,
        about_data=True,
        weaker=True,
    ),
    "labels.merged": DisclosureText(
        "Labels of a lower merge",
        "The receiving party learns the clusters that another group of parties has already found together (with more "
        "than three parties, groups cluster first and then merge), and how many rounds this took.",
        _LOCAL,
        about_data=True,
    ),
    "receipt": DisclosureText(
        "Receipts",
        "The receiving party learns whether both parties received the same answers and found the same labels.",
    ),
}

_COSTS = (
    "In every iteration, for each restart that has not stopped, the aggregator learns the cost: the mean squared "
    "distance of the nodes to their centres, summed over the parties."
)

# What a sum discloses to the aggregator depends on the values and on what the aggregator knows: a coordinator receives
# rows in a secret order ("shuffled"); a party knows which row is which ("labelled"), and in a sum of two parties it
# can subtract its own values ("two-party").
OPENED = {
    "distances.shuffled": DisclosureText(
        "Sums of distances to cluster centres",
        "For each node (or cell: nodes with equal local labels) and each restart of k-means, the aggregator receives "
        "one row: squared distances to the cluster centres, summed over the parties. It does not know the order of "
        "rows and columns. Each row is multiplied by an unknown factor; except in the first assignment, an unknown "
        "number is also added. The aggregator learns the number of rows and, in each row, which value is smallest, "
        "second smallest and so on. From ratios it can also link many rows of a cell across restarts and iterations, "
        "compute relative distances, and group the rows, but without node ids.",
        _DISTANCES,
        about_data=True,
    ),
    "distances.labelled": DisclosureText(
        "Sums of distances to cluster centres",
        "The aggregator is a party. For every node or cell it learns the squared distance to every cluster centre, "
        "summed over the parties. It also knows the labels, so it can compute the share of each party: exactly if "
        'virtual_nodes is "local", approximately otherwise.',
        _DISTANCES,
        about_data=True,
        weaker=True,
    ),
    "distances.two-party": DisclosureText(
        "Sums of distances to cluster centres",
        "The aggregator is one of two parties. It subtracts its own values and learns, for every node or cell, the "
        "other party's squared distance to every cluster centre.",
        _DISTANCES,
        about_data=True,
        weaker=True,
    ),
    "seeding.shuffled": DisclosureText(
        "Sums of distances to initial centres",
        "For every row (node or cell), the aggregator receives the squared distances to the initial centres selected "
        "so far, summed over the parties and multiplied by the number of nodes in the row. All rows of a restart are "
        "multiplied by one factor that the aggregator does not know. It does not know the order of the rows. It can "
        "compare rows with each other, compute exactly how many nodes one row has relative to another, and recognise "
        "the rows in the first assignment to clusters.",
        about_data=True,
        weaker=True,
    ),
    "seeding.labelled": DisclosureText(
        "Sums of distances to initial centres",
        "The aggregator is a party. For every node or cell it learns the squared distances to the initial centres "
        "selected so far, summed over the parties and multiplied by the number of nodes in the cell.",
        about_data=True,
        weaker=True,
    ),
    "seeding.two-party": DisclosureText(
        "Sums of distances to initial centres",
        "The aggregator is one of two parties. For every node or cell it learns the other party's squared distances to "
        "the initial centres selected so far.",
        about_data=True,
        weaker=True,
    ),
    "inertia.shuffled": DisclosureText("Cost of each restart", _COSTS, about_data=True),
    "inertia.labelled": DisclosureText("Cost of each restart", _COSTS, about_data=True),
    "inertia.two-party": DisclosureText(
        "Cost of each restart",
        "The aggregator is one of two parties. In every iteration, for each restart of k-means that has not stopped, "
        "it learns the other party's part of the cost: the mean squared distance of the nodes to their centres.",
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
            "The aggregator is a party and adds its values to those of only one other party. It subtracts its own "
            "values from the sum and learns the other party's distances.",
        ),
        Risk(
            LABELLED_SUMS,
            "The aggregator is a party and knows which node or cell each sum belongs to. With more than two parties, "
            "it can estimate the share of each party by least squares, even if each cell is represented by the mean "
            "of its nodes (the default).",
        ),
        Risk(
            LOCAL_MEANS,
            'Each party represents a cell by the centre of its own local cluster (virtual_nodes = "local"), and the '
            "aggregator knows the local labels. For any number of parties, it can compute almost exactly how far apart "
            "the local centres of each party are.",
        ),
    )
}
