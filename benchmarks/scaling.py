"""The local work of one party by stage: filter, projection, k-means on graphs of up to a million nodes."""

from __future__ import annotations

from benchmarks.harness import alone
from benchmarks.presentation import Target, against_nodes, targets_table
from experiments.paper.experiment import Config, Experiment, Options, Result
from experiments.paper.plots import COLOURS, MARKERS, Figures
from experiments.paper.store import Book
from experiments.paper.tables import table

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
DEGREE, COLUMNS, CLUSTERS, ORDER = 20, 64, 16, 10
STAGES = ("filter", "projection", "k-means")
GIB = 2**30


def cells(options: Options) -> list[Config]:
    """Return every size in float64, and the largest in float32."""
    sizes = options.thinned((2_000, 10_000), SIZES)
    return [
        {"nodes": nodes, "dtype": dtype, "degree": DEGREE, "columns": COLUMNS, "clusters": CLUSTERS, "psi": ORDER}
        for nodes, dtype in [*((nodes, "float64") for nodes in sizes), (sizes[-1], "float32")]
    ]


def compute(cell: Config) -> Result:
    """Run the stages one after the other in a process that has all cores."""
    found: Result = alone(
        "stages",
        n_nodes=cell["nodes"],
        degree=cell["degree"],
        columns=cell["columns"],
        n_clusters=cell["clusters"],
        psi=cell["psi"],
        dtype=cell["dtype"],
    )
    return found


def render(book: Book, figures: Figures) -> str:
    """Return every size, and how time and memory grow."""
    found = sorted(
        ((config["nodes"], config["dtype"], result) for config, result in book["scaling"].all()),
        key=lambda one: (one[1] != "float64", one[0]),
    )
    rows = [
        [
            f"{nodes:,}",
            f"{result['edges']:,}",
            dtype,
            *(f"{result['seconds'][stage]:.2f}" for stage in STAGES),
            f"{result['filter_ns']:.2f}",
            f"{result['input_bytes'] / GIB:.2f}",
            f"{result['peak_bytes'] / GIB:.2f}",
            f"{result['accuracy']:.1f}",
        ]
        for nodes, dtype, result in found
    ]
    header = ["nodes", "edges", "", *(f"{stage}, s" for stage in STAGES), "filter, ns", "GiB of input", "GiB held"]
    exact = [(nodes, result) for nodes, dtype, result in found if dtype == "float64"]
    wanted = []
    if len(exact) >= 3:
        (small, before), (large, after) = exact[-3], exact[-1]
        words = f"filter for each edge, column and step, {large:,} ÷ {small:,} nodes"
        wanted.append(Target(words, after["filter_ns"] / before["filter_ns"], 3.0, "×"))
    return (
        f"One process on all cores: {COLUMNS} dense columns, average degree {DEGREE}, ψ={ORDER}, projection and "
        f"k-means with ten restarts for {CLUSTERS} clusters, on generated graphs. Each stage computes its complete "
        "result (a run of a party computes only what it needs). Filter in nanoseconds for each edge, column and "
        "step.\n\n"
        + (targets_table(wanted) + "\n" if wanted else "")
        + table([*header, "accuracy, %"], rows, left=1)
        + "\n"
        + _plot(exact, figures)
    )


def _plot(exact: list[tuple[int, Result]], figures: Figures) -> str:
    sizes = [nodes for nodes, _ in exact]
    with figures.figure("scaling", panels=(1, 2), size=(8.6, 3.4)) as (_, (time, memory)):
        for number, stage in enumerate(STAGES):
            values = [result["seconds"][stage] for _, result in exact]
            time.plot(sizes, values, marker=MARKERS[number], c=COLOURS[number], label=stage)
        against_nodes(time, sizes)
        time.set(ylabel="seconds")
        time.legend()
        for number, (field, words) in enumerate({"peak_bytes": "held", "input_bytes": "input"}.items()):
            values = [result[field] / GIB for _, result in exact]
            memory.plot(sizes, values, marker=MARKERS[number], c=COLOURS[number], label=words)
        against_nodes(memory, sizes)
        memory.set(ylabel="GiB")
        memory.legend()
    return figures.shown("scaling", "Time of every stage of local work, and memory, against the number of nodes.")


BENCHMARK = Experiment("scaling", "Local work by stage", cells, compute, render, alone=True)
