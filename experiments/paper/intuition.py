"""Figure 2: the plane cut by the local clusters of two parties that hold one coordinate each."""

from __future__ import annotations

import numpy as np

from experiments.paper.experiment import Config, Experiment, Options, Result
from experiments.paper.plots import COLOURS, Figures
from experiments.paper.store import Book
from kcagc.cluster.kmeans import fit_kmeans
from kcagc.protocol.cells import intersect, virtual_nodes

N_POINTS, K, LOCAL = 600, 2, 5


def cells(options: Options) -> list[Config]:
    """Return the only cell."""
    return [{"points": 200 if options.quick else N_POINTS, "clusters": K, "local": LOCAL, "seed": 0}]


def compute(cell: Config) -> Result:
    """Cluster points of the plane together, and through the cells of each coordinate's clusters."""
    random = np.random.RandomState(cell["seed"])
    half = cell["points"] // 2
    points = np.concatenate([random.normal((-1.2, -0.6), 0.75, (half, 2)), random.normal((1.1, 0.9), 0.75, (half, 2))])
    pooled = fit_kmeans(points, cell["clusters"], random_state=0)
    local = [fit_kmeans(points[:, [axis]], cell["local"], random_state=0) for axis in (0, 1)]
    parts = intersect([one.labels for one in local])
    nodes = np.hstack([virtual_nodes(points[:, [axis]], parts, "cell", local[axis].labels) for axis in (0, 1)])
    joint = fit_kmeans(nodes, cell["clusters"], weights=parts.sizes, random_state=0)
    found = joint.labels[parts.of_node]
    if np.mean(found == pooled.labels) < 0.5:
        found, joint_centers = 1 - found, joint.centers[::-1]
    else:
        joint_centers = joint.centers
    borders = []
    for one in local:
        centers = np.sort(one.centers.ravel())
        borders.append(((centers[1:] + centers[:-1]) / 2).round(4).tolist())
    return {
        "points": points.round(3).tolist(),
        "pooled": pooled.labels.tolist(),
        "found": found.tolist(),
        "pooled_centers": pooled.centers.round(4).tolist(),
        "found_centers": joint_centers.round(4).tolist(),
        "borders": borders,
        "nodes": nodes.round(4).tolist(),
        "sizes": parts.sizes.tolist(),
        "mixed": int(sum(len(set(pooled.labels[parts.of_node == cell_])) > 1 for cell_ in range(len(parts)))),
        "differ": int(np.count_nonzero(found != pooled.labels)),
    }


def render(book: Book, figures: Figures) -> str:
    """Draw the three panels."""
    (config, found), *_ = book["intuition"].all()
    points, nodes = np.array(found["points"]), np.array(found["nodes"])
    pooled, joint = np.array(found["pooled_centers"]), np.array(found["found_centers"])
    sizes = np.array(found["sizes"])
    colours = np.array(COLOURS[:2])
    with figures.figure("intuition", panels=(1, 3), size=(13, 4.2), sharex=True, sharey=True) as (_, axes):
        axes[0].scatter(*points.T, s=8, c=colours[np.array(found["pooled"])], alpha=0.6, lw=0)
        axes[0].plot(*_middle_line(pooled), color="black", lw=1)
        axes[0].set_title("(a) pooled: one line cuts the plane")
        for across, along in zip(found["borders"][0], found["borders"][1], strict=True):
            axes[1].axvline(across, color="#999999", lw=0.8)
            axes[1].axhline(along, color="#999999", lw=0.8)
        axes[1].scatter(*points.T, s=3, c="#BBBBBB", lw=0)
        axes[1].scatter(*nodes.T, s=12 + 3 * sizes, c="#444444", alpha=0.75, lw=0)
        axes[1].plot(*_middle_line(pooled), color=COLOURS[1], lw=1)
        axes[1].set_title(f"(b) {len(nodes)} cells; {found['mixed']} of them on the line")
        axes[2].scatter(*points.T, s=8, c=colours[np.array(found["found"])], alpha=0.5, lw=0)
        axes[2].scatter(*joint.T, marker="s", s=90, c="#444444", label="through cells", zorder=3)
        axes[2].set_title(f"(c) result: {found['differ']} of {len(points)} points differ")
        for axis in (axes[0], axes[2]):
            axis.scatter(*pooled.T, marker="x", s=80, c="#D00000", label="pooled centres", zorder=4)
        axes[2].legend(loc="upper left", fontsize=8)
        for axis in axes:
            axis.set(xlabel="coordinate of party A", aspect="equal")
            axis.set_xlim(points[:, 0].min() - 0.2, points[:, 0].max() + 0.2)
            axis.set_ylim(points[:, 1].min() - 0.2, points[:, 1].max() + 0.2)
        axes[0].set_ylabel("coordinate of party B")
    words = (
        f"Each party cuts its own coordinate into {config['local']} clusters; a cell moves as a whole, so only those "
        "that the pooled border crosses can have points on the wrong side."
    )
    return figures.shown("intuition", words)


def _middle_line(centers: np.ndarray) -> tuple[list[float], list[float]]:
    """Return two points of the line with equal distance to both centres."""
    middle, normal = centers.mean(axis=0), centers[1] - centers[0]
    along = np.array([-normal[1], normal[0]]) / np.linalg.norm(normal)
    ends = np.stack([middle - 9 * along, middle + 9 * along])
    return ends[:, 0].tolist(), ends[:, 1].tolist()


EXPERIMENT = Experiment("intuition", "Figure 2: the plane cut by local clusters", cells, compute, render)
