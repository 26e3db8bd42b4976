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

_READING = """The paper defines the two measures, level 2^h(Y|X) and leakage 1 − 2^(h(Y|X) − h(Y)), but neither its
estimator nor what Y and X are in numbers. Level / (1 − leakage) of its pairs is 2^h(Y), and falls from 2689 to 2534,
just below the 2708 nodes of Cora: an entropy that counts distinct rows. The reading used here is the one that came
nearest to the printed numbers among those we tried. It was chosen by looking at them; it has no parameter that was
fitted, and the paper does not confirm it:

- Y is what *one* party adds to the sum, its filtered rows on their top k singular vectors, a row for each node; h(Y) is
  the entropy of its distinct rows. It falls with L because a party with fewer columns has more nodes with none of its
  features within ψ hops. The sum over all parties, which the paper's words name, hardly falls: its rows are as distinct
  for every L.
- X is one feature of that party at a time, with words weighted (rarer ones more, rows of unit length), so that hardly
  two nodes have the same value but zero; level and leakage are averaged over features, then over parties. Any weights
  that tell nodes apart give the same leakage; with words as they are stored, there or not, it is lower ("unweighted").
- Rows that are equal on paper differ in their last bits once computed. Ours are compared with nine decimals, and beside
  that bit for bit, which depends on the machine. Parties have columns that lie side by side, as in all tables; "columns
  dealt" gives each of them as many at random, which the paper does not exclude.
"""

_MEANING = """**The plug-in numbers say little of privacy.** Where rows hardly repeat, 2^h(Y) is how many of them
are distinct and the leakage how often words occur: a property of the features alone, the same for every Y that tells
nodes apart. The controls show it: features published whole and numbers drawn at random have the same leakage, and
nearly the same level.

The differential estimate can tell these apart. X is there the unfiltered features of all parties in their k main
directions, and Y the sum over the parties of the projected rows or, as in kcagc nobody ever sees projections, of the
squared distances to the first centres, a row for each node and a column for each centre. (A party that sums sees these
rows as they are; the coordinator sees them in secret order, times secret factors.) Its level is a volume in the units
of Y, given here as the side of a cube, and compares only within a column; the leakage has no unit. Estimates from near
neighbours in so many dimensions are too low rather than too high.

None of these numbers bounds what an aggregator can compute. They are averages over nodes under an estimator; where
virtual nodes lie at the means of local clusters, whoever saw the sums and knew the cells separated the parties'
distances but for rounding, for 2, 3 and 4 parties. The guarantee is what is withheld, and the ledger says what is not.
"""


def cells(options: Options) -> list[Config]:
    """Give a cell for each number of parties and configuration, and the controls."""
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
    """Give the reading, ours beside the paper's, the differential estimates, the controls, and what they mean."""
    records = book["privacy"]
    parts = [_READING]
    for name in records.values("dataset"):
        parts += [f"### {name.capitalize()}\n", _agreement(records, name), _plug_in(records, name)]
        parts += [_differential(records, name), _controls(records, name), _plot(records, name, figures)]
    return "\n".join([*parts, _MEANING])


def published(name: str, parties: int) -> tuple[float, float] | None:
    """Give the paper's level and leakage."""
    found = PUBLISHED["privacy_cora_level_leakage"].get(str(parties)) if name == "cora" else None
    return (found[0], found[1]) if found else None


def _agreement(records: Records, name: str) -> str:
    """Say how near the reading comes."""
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
        f"**One party's term, as `{SHOWN['paper']}` has it, is {off('term')}**, over {len(found)} numbers of parties; "
        f"with columns dealt at random {off('term_dealt')}. {between} of {len(found)} printed levels lie between ours "
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
    words = f"Level (plug-in) and leakage on {name.capitalize()}, by what Y is taken to be."
    return figures.shown(f"privacy-{name}", words)


def _pair(level: float | None, leakage: float | None, digits: int = 0) -> str:
    if level is None or leakage is None:
        return NOTHING
    shown = f"{level:.{digits}g}" if digits else f"{level:.2f}"
    return f"{shown}, {leakage:.5f}" if not digits else f"{shown}, {leakage:.2f}"


EXPERIMENT = Experiment("privacy", "Table 7: privacy measures", cells, compute, render)
