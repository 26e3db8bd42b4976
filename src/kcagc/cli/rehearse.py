"""A rehearsal in the terminal: what `kcagc simulate` does with several settings, or with the user's files."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kcagc.cli import terminal
from kcagc.text import count, percent, printable, seconds, size

if TYPE_CHECKING:
    from kcagc.rehearsal.advice import Advice
    from kcagc.rehearsal.parties import Parties
    from kcagc.rehearsal.runs import Outcome, Rehearsal
    from kcagc.rehearsal.settings import Grid

_INTERRUPTED = 130  # as `kcagc` ends if the user interrupts it
_SHORT = 150  # characters of a reason that is like an earlier one
_WORTH = 2  # sentences about each party; the page has all


def rehearse(
    parties: Parties, grid: Grid, *, held_out: bool, page: Path | None, ledger: Path | None, as_json: bool
) -> None:
    """Run all settings; print a table, what is best, and the settings to copy; write the page."""
    from kcagc.disclosure import Ledger
    from kcagc.rehearsal.advice import advise
    from kcagc.rehearsal.page import write_page
    from kcagc.rehearsal.runs import Rehearsal

    rehearsal = Rehearsal.of(parties, grid, held_out=held_out)
    interrupted = _run_all(rehearsal)
    if len(grid.settings) == 1 and rehearsal.outcomes and rehearsal.outcomes[0].error is not None:
        raise rehearsal.outcomes[0].error
    advice = advise(rehearsal)
    if ledger is not None and rehearsal.outcomes:
        Ledger(rehearsal.outcomes[0].disclosed).save(ledger)
    if page is not None:
        write_page(page, rehearsal, advice)
    if as_json:
        copied = None if advice.chosen is None else rehearsal.grid.settings.index(advice.chosen.setting)
        equally = [rehearsal.grid.settings.index(one.setting) for one in advice.best]
        rest = {"equally_good": equally, "to_copy": copied, "advice": advice.sentences, "toml": advice.block}
        terminal.print_json({**rehearsal.as_dict(), **rest})
    else:
        _show(rehearsal, advice)
        if page is not None:
            terminal.out().print(f"\nThe page with curves and disclosures: {page}", soft_wrap=True, markup=False)
    if interrupted:
        click.echo(f"kcagc: interrupted after {len(rehearsal.outcomes)} of {len(grid.settings)} settings", err=True)
        sys.exit(_INTERRUPTED)
    errors = [one.error for one in rehearsal.outcomes if one.error is not None]
    if errors and len(errors) == len(rehearsal.outcomes):
        sys.exit(errors[0].exit_code)


def _run_all(rehearsal: Rehearsal) -> bool:
    """Run all settings and show the progress; return whether the user interrupted it."""
    total = len(rehearsal.grid.settings)
    moving = terminal.messages().is_terminal
    start = time.perf_counter()
    with terminal.steps("rehearsal", total * len(rehearsal.grid.seeds)) as step:

        def begin(setting: Any, seed: int) -> None:
            step(f"{setting.title}, seed {seed}{_left(rehearsal, start)}")

        def watch(_: str, progress: Any) -> None:
            if not moving:
                return
            setting = rehearsal.grid.settings[len(rehearsal.outcomes)]
            step(f"{setting.title}: {terminal.progress_text(progress)}{_left(rehearsal, start)}", new=False)

        try:
            for outcome in rehearsal.run(begin, watch):
                if not moving:
                    _line(outcome, len(rehearsal.outcomes), total)
        except KeyboardInterrupt:
            if not rehearsal.outcomes:
                raise
            return True
    return False


def _left(rehearsal: Rehearsal, start: float) -> str:
    """Return the time that the other settings will take, if they are like those that ran."""
    done, total = len(rehearsal.outcomes), len(rehearsal.grid.settings)
    if not done:
        return ""
    return f", about {seconds((time.perf_counter() - start) / done * (total - done))} left"


def _line(outcome: Outcome, number: int, total: int) -> None:
    took = sum(one.seconds for one in outcome.runs)
    what = seconds(took) if outcome.error is None else "refused"
    click.echo(f"{number} of {total}: {printable(f'{outcome.setting.title}: {what}')}", err=True)


# What it prints


def _show(rehearsal: Rehearsal, advice: Advice) -> None:
    from rich.markup import escape

    console, parties = terminal.out(), rehearsal.parties
    graph = parties.first.graph
    columns = ", ".join(f"{name} ({count(one.n_columns, 'column')})" for name, one in parties.inputs.items())
    console.print(f"[bold]Rehearsal[/] of {escape(columns)}: {count(graph.n_nodes, 'node')}, {graph.n_edges:,} edges")
    for note in parties.notes:
        console.print(f"[yellow]note[/] {escape(note)}", highlight=False)
    console.print()
    console.print(_table(rehearsal, advice))
    if len(advice.best) > 1 or (advice.clear and len(rehearsal.outcomes) > 1):
        marked = "The setting with a star is the best." if advice.clear else "Settings with a star are equally good."
        console.print(f"\n{marked}", highlight=False)
    _show_refused([one for one in rehearsal.outcomes if not one.ok])
    for sentence in ("", *advice.sentences):
        console.print(escape(sentence), highlight=False)
    if advice.block:
        console.print("\n[bold]The settings to copy into kcagc.toml[/] (the same for all roles)")
        console.print(escape(advice.block), highlight=False, soft_wrap=True)
    if advice.chosen is not None:
        _show_chosen(advice.chosen, several=len(rehearsal.outcomes) > 1)


def _show_refused(refused: list[Outcome]) -> None:
    """Print why settings were refused: the whole reason of the first of each kind, the beginning of the others."""
    from rich.markup import escape

    console, seen = terminal.out(), set()
    if refused:
        console.print()
    for one in refused:
        reason = str(one.error)
        if type(one.error) in seen and len(reason) > _SHORT:
            reason = f"{reason[:_SHORT].rsplit(' ', 1)[0]} …"
        seen.add(type(one.error))
        console.print(f"[red]refused[/] {escape(f'{one.setting.title}: {reason}')}", highlight=False)


def _show_chosen(chosen: Outcome, *, several: bool) -> None:
    from rich.markup import escape

    from kcagc.cli.simulate import disclosure_table
    from kcagc.report.worth import worth_sentences

    console = terminal.out()
    of = f" with {chosen.setting.title}" if several else ""
    console.print(f"[bold]Was it worth it?[/]{of} (each party's own columns alone, beside the joint clusters)")
    for name, worth in chosen.worth.items():
        console.print(
            f"[bold]{escape(name)}[/] {escape(' '.join(worth_sentences(worth, name)[:_WORTH]))}", highlight=False
        )
    console.print(f"\n[bold]Disclosures[/]{of}")
    console.print(
        disclosure_table(
            [(f"{who}", f"{text}{' (more than the default)' * more}") for who, text, more in chosen.learned]
        )
    )


def _table(rehearsal: Rehearsal, advice: Advice) -> Any:
    from rich.table import Table

    table, rows = Table(box=None, pad_edge=False), [table_row(rehearsal, one) for one in rehearsal.outcomes]
    titles = list(dict.fromkeys(title for row in rows for title in row))
    table.add_column("", no_wrap=True)
    for title in titles:
        table.add_column(title, justify="left" if title in ("ψ", "method") else "right", no_wrap=title != "method")
    for outcome, row in zip(rehearsal.outcomes, rows, strict=True):
        star = "*" if outcome in advice.best and len(rehearsal.outcomes) > 1 else ""
        table.add_row(star, *(row.get(title, "refused" if title == "sent" else "") for title in titles))
    return table


def table_row(rehearsal: Rehearsal, outcome: Outcome) -> Mapping[str, str]:
    """Return the cells of a setting by the title of their column; means over its runs."""
    from kcagc.rehearsal.page import taken

    row = {"k": str(outcome.setting.n_clusters), "ψ": taken(outcome)[0], "method": taken(outcome)[1]}
    if outcome.error is not None or not outcome.runs:
        return row
    held, stable, runs = rehearsal.held_out(outcome), rehearsal.stability(outcome), outcome.runs
    if rehearsal.parties.classes is not None:
        mean = {one: sum(found := rehearsal.known(outcome, one)) / len(found) for one in ("accuracy", "nmi", "ari")}
        row |= {"accuracy": percent(mean["accuracy"]), "NMI": f"{mean['nmi']:.2f}", "ARI": f"{mean['ari']:.2f}"}
    row |= {} if held is None else {"held out": f"{held:.3f}"}
    row["modularity"] = f"{rehearsal.modularity(outcome):.3f}"
    row |= {} if stable is None else {"stability": f"{stable:.2f}"}
    row["sent"] = size(sum(one.bytes for one in runs) / len(runs))
    row["time"] = seconds(sum(one.seconds for one in runs) / len(runs))
    return row
