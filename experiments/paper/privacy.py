"""Table 7: privacy level and leakage by number of parties, in the reading that comes nearest to the paper's."""

from __future__ import annotations

from experiments.paper.configurations import SHOWN, dataset
from experiments.paper.experiment import Config, Experiment, Options, Result
from experiments.paper.plots import COLOURS, MARKERS, Figures
from experiments.paper.privacy_readings import SCALINGS, control, measured
from experiments.paper.published import PUBLISHED
from experiments.paper.store import Book, Records
from experiments.paper.tables import NOTHING, table

CONTROLS = {"features": "the features themselves, published", "numbers": "a number drawn for each node"}

_READING = """The paper defines the two measures, level 2^h(Y|X) and leakage 1 − 2^(h(Y|X) − h(Y)), but neither their
estimator nor Y and X in numbers. Level / (1 − leakage) of the printed pairs is 2^h(Y). It falls from 2689 to 2534, just
below the 2708 nodes of Cora: an entropy that counts distinct rows. Among the readings that we tried, this page uses the
one that is nearest to the printed numbers. It was chosen by looking at these numbers; it has no fitted parameter, and
the paper does not confirm it:

- Y is the term that *one* party adds to the sum: its filtered rows on their top k singular vectors, one row for each
  node. h(Y) is the entropy of its distinct rows. It falls with L because a party with fewer columns has more nodes
  without any of its features within ψ hops. The sum over all parties, which the text of the paper names, hardly falls:
  its rows are equally distinct for every L.
- X is one feature of that party at a time. Words are weighted (rare words more, rows of unit length), so that hardly
  any two nodes have the same non-zero value. Level and leakage are averaged over features, then over parties. Any
  weights that distinguish nodes give the same leakage; with binary words it is lower ("unweighted").
- Rows that are equal in theory differ in their last bits in practice. We compare rows with nine decimals and also bit
  for bit, which depends on the machine. Parties have contiguous columns, as in all tables; "columns dealt" gives each
  party as many random columns, which the paper does not exclude.
"""

_INTERPRETATION = """**The plug-in numbers say little about privacy.** Where rows hardly repeat, 2^h(Y) is the number of
distinct rows, and the leakage is the frequency of the words: a property of the features alone, equal for every Y that
distinguishes nodes. The controls show this: published features and random numbers have the same leakage, and nearly the
same level.

The differential estimate can distinguish these cases. There X is the unfiltered features of all parties in their k main
directions. Y is the sum of the projected rows over the parties, or the sum of the squared distances to the first
centres, with a row for each node and a column for each centre, because no role of kcagc sees projections. (A party that
is the aggregator sees differences of values in a row; a coordinator sees them in a secret order, blinded.) The level is
a volume in the units of Y, shown here as the side of a cube; compare it within a column only. The leakage has no unit.
Estimates from nearest neighbours in so many dimensions are too low rather than too high.

None of these numbers limits what an aggregator can compute. They are averages over nodes under an estimator. Where
virtual nodes are the means of local clusters, an aggregator that saw the sums and knew the cells separated the
distances of the parties up to rounding, for 2, 3 and 4 parties. The guarantee is the data that never leave a party; the
disclosure ledger lists the rest.
"""


def cells(options: Options) -> list[Config]:
    """Return a cell for each number of parties and configuration, and the controls."""
    found: list[Config] = []
    for name in options.pick("cora"):
        found += [{"dataset": name, "shared": shared} for shared in CONTROLS]
        for number in options.thinned((2, 4), tuple(range(2, 17, 2))):
            found += [{"dataset": name, "configuration": one, "parties": number, "seed": 0} for one in SCALINGS]
    return found


def compute(cell: Config) -> Result:
    """Measure what is shared."""
    data = dataset(cell["dataset"])
    if "shared" in cell:
        return control(data, cell["shared"])
    return measured(data, cell["configuration"], cell["parties"], cell["seed"])


def render(book: Book, figures: Figures) -> str:
    """Return the reading, the tables of both estimates and the controls, and their interpretation."""
    records = book["privacy"]
    parts = [_READING]
    for name in records.values("dataset"):
        parts += [f"### {name.capitalize()}\n", _agreement(records, name), _plug_in(records, name)]
        parts += [_differential(records, name), _controls(records, name), _plot(records, name, figures)]
    return "\n".join([*parts, _INTERPRETATION])


def published(name: str, parties: int) -> tuple[float, float] | None:
    """Return the paper's level and leakage."""
    found = PUBLISHED["privacy_cora_level_leakage"].get(str(parties)) if name == "cora" else None
    return (found[0], found[1]) if found else None


def _agreement(records: Records, name: str) -> str:
    """Return how near the reading is to the printed numbers."""
    found = []
    for number in records.values("parties", dataset=name):
        ours, paper = records.one(dataset=name, configuration="paper", parties=number), published(name, number)
        if ours and paper:
            found.append((ours, *paper))
    if not found:
        return ""

    def off(reading: str) -> str:
        level = max(abs(ours[f"{reading}_level"] / paper - 1) for ours, paper, _ in found)
        leakage = max(abs(ours[f"{reading}_leakage"] - paper) for ours, _, paper in found)
        return f"within {100 * level:.1f} % of the printed levels and {leakage:.5f} of the printed leakages"

    between = sum(ours["term_level"] <= paper <= ours["term_bits_level"] for ours, paper, _ in found)
    return (
        f"**One party's term in `{SHOWN['paper']}` is {off('term')}**, over {len(found)} numbers of parties; "
        f"with columns dealt at random {off('term_dealt')}. {between} of {len(found)} printed levels are between ours "
        "with nine decimals and bit for bit.\n"
    )


def _plug_in(records: Records, name: str) -> str:
    columns = [
        ("paper", ("term", "term_bits", "term_dealt", "term_counted", "sum")),
        ("default", ("term", "distances")),
    ]
    words = {
        "term_bits": "bit for bit",
        "term_dealt": "columns dealt",
        "term_counted": "unweighted",
        "sum": "Y the sum",
        "distances": "Y distances",
    }
    rows = []
    for number in records.values("parties", dataset=name):
        row = [str(number), _pair(*(published(name, number) or (None, None)))]
        for one, readings in columns:
            found = records.one(dataset=name, configuration=one, parties=number) or {}
            row += [_pair(found.get(f"{reading}_level"), found.get(f"{reading}_leakage")) for reading in readings]
        rows.append(row)
    header = [
        f"`{SHOWN[one]}`{', ' if reading in words else ''}{words.get(reading, '')}"
        for one, readings in columns
        for reading in readings
    ]
    return "Plug-in: level and leakage.\n\n" + table(["L", "paper", *header], rows)


def _differential(records: Records, name: str) -> str:
    rows = []
    for number in records.values("parties", dataset=name):
        row = [str(number)]
        for one in SCALINGS:
            found = records.one(dataset=name, configuration=one, parties=number) or {}
            row += [
                _pair(found.get(f"{shared}_nearest_side"), found.get(f"{shared}_nearest_leakage"), 3)
                for shared in ("sum", "distances")
            ]
        rows.append(row)
    header = [f"`{SHOWN[one]}`, Y {shared}" for one in SCALINGS for shared in ("the sum", "distances")]
    return "Differential: side of a cube of the level's volume, and leakage.\n\n" + table(["L", *header], rows)


def _controls(records: Records, name: str) -> str:
    rows = []
    for shared, words in CONTROLS.items():
        found = records.one(dataset=name, shared=shared) or {}
        leakage = found.get("nearest_leakage")
        plug_in = _pair(found.get("plug_in_level"), found.get("plug_in_leakage"))
        rows.append([words, plug_in, NOTHING if leakage is None else f"{leakage:.3f}"])
    return "Controls.\n\n" + table(["Y", "plug-in", "differential, leakage"], rows)


def _plot(records: Records, name: str, figures: Figures) -> str:
    parties = records.values("parties", dataset=name)
    if not parties:
        return ""
    lines = [  # panel, words, configuration, field
        (0, "one party's term, nine decimals", "paper", "term_level"),
        (0, "one party's term, bit for bit", "paper", "term_bits_level"),
        (0, "one party's term, columns dealt", "paper", "term_dealt_level"),
        (0, "the sum", "paper", "sum_level"),
        (1, "one party's term, plug-in", "paper", "term_leakage"),
        (1, "the sum, differential", "paper", "sum_nearest_leakage"),
        (1, "distances, differential", "default", "distances_nearest_leakage"),
    ]
    with figures.figure(f"privacy-{name}", panels=(1, 2), size=(9.2, 3.6)) as (_, axes):
        for side, axis in enumerate(axes):
            paper = [(number, printed[side]) for number in parties if (printed := published(name, number))]
            if paper:
                axis.plot(*zip(*paper, strict=True), c="#000000", marker="*", label="paper")
            axis.set(xlabel="parties", ylabel=("privacy level", "privacy leakage")[side])
        for order, (side, words, one, field) in enumerate(lines):
            found = [(number, records.one(dataset=name, configuration=one, parties=number)) for number in parties]
            points = [(number, result[field]) for number, result in found if result]
            if points:
                style = {"c": COLOURS[order % 4], "marker": MARKERS[order % 4], "ms": 4, "lw": 1}
                axes[side].plot(*zip(*points, strict=True), label=words, **style)
        axes[1].set_ylim(0, 1)
        for axis in axes:
            axis.legend(fontsize=8)
    words = f"Level (plug-in) and leakage on {name.capitalize()}, for each reading of Y."
    return figures.shown(f"privacy-{name}", words)


def _pair(level: float | None, leakage: float | None, digits: int = 0) -> str:
    if level is None or leakage is None:
        return NOTHING
    shown = f"{level:.{digits}g}" if digits else f"{level:.2f}"
    return f"{shown}, {leakage:.5f}" if not digits else f"{shown}, {leakage:.2f}"


EXPERIMENT = Experiment("privacy", "Table 7: privacy measures", cells, compute, render)
