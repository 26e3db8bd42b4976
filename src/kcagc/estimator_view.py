"""What a notebook shows of a `KCAGC`: clusters, and what each role learned; nothing that is private to a party."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np

from kcagc.cluster.sweep import Sweep
from kcagc.disclosure import DisclosureSummary, Ledger
from kcagc.text import amount, count, number, percent, printable, size

_HIDDEN = ("get_metadata_routing", "set_fit_request", "set_predict_request", "set_score_request")
_PRIVATE = ("transformers", "nodes", "id_column", "callbacks")
_MOST_ROWS = 30  # clusters that a notebook lists
# The colours of the notebook stay: text inherits them, and bars are translucent.
_CELL = "text-align:left;padding:2px 12px 2px 0;border:0;vertical-align:top;background:none"


class ViewMixin:
    """How a `KCAGC` looks in a notebook, and which names an editor completes."""

    labels_: Any
    ledger_: Ledger
    sweep_: Sweep

    def _repr_html_(self) -> str:
        """Return the fitted clusters for a notebook, or how to fit."""
        title = f"<strong>{escape(type(self).__name__)}</strong>"
        if hasattr(self, "sweep_"):
            parts = [_paragraph(f"{title}: {escape(self.sweep_.recommendation)} recommended"), _curves(self.sweep_)]
        elif hasattr(self, "labels_"):
            parts = [_paragraph(f"{title}: {escape(self._summary())}"), _clusters(np.asarray(self.labels_))]
        else:
            call = "fit({'bank': table, 'shop': table}, adjacency=...)"
            return _frame([_paragraph(f"{title}: not fitted; next: {_code(call)}"), _parameters(self)])
        return _frame([*parts, _learned(self.ledger_, getattr(self, "feature_names_", ())), _parameters(self)])

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """Return text and page; scikit-learn's own page would show parameters and arrays of all parties."""
        fitted = hasattr(self, "labels_")
        text = f"{type(self).__name__}: {self._summary()}" if fitted else type(self).__name__
        return {"text/plain": text, "text/html": self._repr_html_()}

    def __dir__(self) -> list[str]:
        """List the public names, without helpers and without the routing of metadata."""
        names = super().__dir__()
        return [name for name in names if name not in _HIDDEN and (name[:1] != "_" or name[:2] == "__")]

    def _summary(self) -> str:
        model: Any = self
        found = [
            f"{amount(len(model.labels_), 'node')} in {amount(len(np.unique(model.labels_)), 'cluster')}",
            f"method {model.method_}",
            "no graph" if model._without_graph() else f"ψ = {model.psi_}" if model.psi_ is not None else "own filter",
            f"cost {number(model.cost_)}",
        ]
        if model.modularity_ is not None:
            found.append(f"modularity {model.modularity_:.3f}")
        return ", ".join(found)


def _frame(parts: Iterable[str]) -> str:
    return f'<div class="kcagc" style="max-width:50em">{"".join(parts)}</div>'


def _paragraph(content: str) -> str:
    return f'<p style="margin:.3em 0">{content}</p>'


def _code(text: str) -> str:
    return f'<code style="white-space:pre-wrap">{escape(text)}</code>'


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f'<th scope="col" style="{_CELL}">{escape(name)}</th>' for name in header)
    style = f'style="{_CELL}"'
    body = "".join(f"<tr>{''.join(f'<td {style}>{cell}</td>' for cell in row)}</tr>" for row in rows)
    look = "border:0;border-collapse:collapse;margin:.3em 0"
    return f'<table style="{look}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _clusters(labels: Any) -> str:
    sizes = np.bincount(labels)
    largest = int(sizes.max())
    rows = []
    for cluster, nodes in list(enumerate(sizes.tolist()))[:_MOST_ROWS]:
        bar = f'<div style="width:{8 * nodes / largest:.2f}em;height:.8em;margin-top:.3em;background:#2a7a9a99"></div>'
        rows.append([str(cluster), count(nodes), percent(nodes / len(labels)), bar])
    rest = len(sizes) - len(rows)
    return _table(["cluster", "nodes", "share", ""], rows) + (
        _paragraph(f"and {count(rest)} more clusters") if rest else ""
    )


def _curves(sweep: Sweep) -> str:
    rows = [
        [
            f"<strong>{k}</strong>" if sweep.clear and sweep.low <= k <= sweep.high else str(k),
            f"{one:.3f}",
            f"{two:.3f}",
        ]
        for k, one, two in zip(sweep.ks, sweep.modularity, sweep.error, strict=True)
    ]
    return _table(["clusters", "modularity of held-out edges", "error"], rows) + _paragraph(escape(sweep.reason))


def _learned(ledger: Ledger, parties: Iterable[str]) -> str:
    """Return a list of what each role learned about data, with the full sentences where it is opened."""
    by_role: dict[str, dict[str, DisclosureSummary]] = {name: {} for name in parties}  # a coordinator comes last
    for line in ledger.summary():
        if line.about_data:
            for receiver in line.receivers:
                by_role.setdefault(receiver, {}).setdefault(line.title, line)
    rows = []
    for role, lines in by_role.items():
        items = "".join(
            f"<details><summary>{escape(title)}</summary>{escape(line.learns)}</details>"
            for title, line in lines.items()
        )
        rows.append([escape(printable(role)), items, size(ledger.bytes_sent(role))])
    return _paragraph("Who learned what") + _table(["role", "learned about data", "sent"], rows)


def _parameters(model: Any) -> str:
    """Return the parameters that differ from their default; of private ones, with ids or columns, only that they do."""
    defaults = type(model)().get_params(deep=False)
    rows = [
        [f"<code>{name}</code>", "set" if name in _PRIVATE else escape(printable(repr(value)))]
        for name, value in model.get_params(deep=False).items()
        if value is not defaults[name] and (name in _PRIVATE or value != defaults[name])
    ]
    if not rows:
        return _paragraph("All parameters have their defaults.")
    changed = _table(["name", "value"], rows)
    return f"<details><summary>Parameters that differ from their default</summary>{changed}</details>"
