"""Pictures of a fitted `KCAGC`, by matplotlib, which is an extra."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from kcagc._types import check_choice
from kcagc.errors import ParameterError
from kcagc.text import count, listed

_KINDS = ("map", "sizes", "psi", "sweep")
_WIDE, _HIGH = 3.6, 3.8  # inches of one panel
_MARKERS = "osD^vP"
_COLOURS = 10  # of matplotlib's own cycle; after these, the shape of the points changes


def draw(model: Any, kind: str | None, party: str | None) -> Any:
    """Return the figure of a kind; see `KCAGC.plot`."""
    check_choice("kind", kind, (None, *_KINDS))
    make_figure = _figure_class()
    names = list(model._parties())
    chosen = kind or ("sweep" if hasattr(model, "sweep_") else "map")
    if party is not None and chosen != "map":
        raise ParameterError(f'party: only "map" shows a single party, not {chosen!r}')
    if party is not None and party not in names:
        raise ParameterError(f"party: there is no {party!r}; the parties are {listed(names)}")
    if chosen == "sweep" and not hasattr(model, "sweep_"):
        raise ParameterError("kind: there are no curves over numbers of clusters; set n_clusters to a range")
    if chosen == "psi" and model.psi_search_ is None:
        raise ParameterError("kind: nothing was searched; psi was set, or there is no shared graph")
    if chosen in ("map", "sizes"):
        model._check_clustered()
    shown = [party] if party is not None else names
    panels = len(shown) if chosen == "map" else 1
    figure = make_figure(figsize=(_WIDE * panels, _HIGH), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, panels))
    if chosen == "map":
        for axis, name in zip(axes, shown, strict=True):
            _map(axis, model, name)
        _legend(figure, axes[0])
    else:
        {"sizes": _sizes, "psi": _psi, "sweep": _sweep}[chosen](axes[0], model)
    return figure


def _figure_class() -> Any:
    """Return a figure that notebooks show once, without the global state of pyplot."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra, and slow to import
    except ImportError:
        raise ParameterError("plot: needs the package matplotlib: pip install 'kcagc[plots]'") from None

    class ShownFigure(Figure):
        def _repr_png_(self) -> bytes:
            content = io.BytesIO()
            self.savefig(content, format="png", dpi=110)
            return content.getvalue()

    return ShownFigure


def _map(axis: Any, model: Any, party: str) -> None:
    found = model.insights_[party].clusters.get("map")
    axis.set_title(f"by the columns of {party}", fontsize=10)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_box_aspect(1)
    axis.set_xlim(-0.03, 1.03)
    axis.set_ylim(-0.03, 1.03)
    if found is None:
        axis.text(0.5, 0.5, "too few different nodes", ha="center", va="center")
        return
    x, y, clusters = (np.asarray(found[name]) for name in ("x", "y", "cluster"))
    for cluster in np.unique(clusters):
        mine = clusters == cluster
        axis.scatter(x[mine], 1 - y[mine], s=9, label=f"cluster {cluster}", **_style(int(cluster)))
    if len(x) < found["of"]:
        axis.set_xlabel(f"{count(len(x))} of {count(found['of'])} nodes", fontsize=8)


def _style(cluster: int) -> dict[str, Any]:
    marker = _MARKERS[cluster // _COLOURS % len(_MARKERS)]
    return {"color": f"C{cluster % _COLOURS}", "marker": marker, "linewidths": 0}


def _legend(figure: Any, axis: Any) -> None:
    handles, labels = axis.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 6), fontsize=8, frameon=False)


def _sizes(axis: Any, model: Any) -> None:
    sizes = np.bincount(model.labels_)
    bars = axis.barh(np.arange(len(sizes)), sizes, color=[_style(cluster)["color"] for cluster in range(len(sizes))])
    axis.bar_label(bars, [count(size) for size in sizes], padding=3, fontsize=8)
    axis.set_yticks(np.arange(len(sizes)), [f"cluster {cluster}" for cluster in range(len(sizes))], fontsize=8)
    axis.invert_yaxis()
    axis.set_xlabel("nodes")
    axis.margins(x=0.15)
    axis.spines[["top", "right"]].set_visible(False)


def _psi(axis: Any, model: Any) -> None:
    found = model.psi_search_
    _curve(axis, found.values, found.modularity, found.error)
    axis.axvline(found.psi, color="0.7", zorder=0)
    axis.set_title(f"ψ = {found.psi} was taken", fontsize=10)
    axis.set_xlabel("ψ, the number of averaging steps")


def _sweep(axis: Any, model: Any) -> None:
    found = model.sweep_
    _curve(axis, found.ks, found.modularity, found.error)
    if found.clear:
        axis.axvspan(found.low - 0.4, found.high + 0.4, color="0.9", zorder=0)
    axis.set_title(f"recommended: {found.recommendation}", fontsize=10)
    axis.set_xlabel("number of clusters k")


def _curve(axis: Any, xs: Any, ys: Any, errors: Any) -> None:
    axis.errorbar(xs, ys, yerr=errors, marker="o", capsize=3, linewidth=1)
    axis.set_ylabel("modularity of held-out edges")
    axis.spines[["top", "right"]].set_visible(False)
