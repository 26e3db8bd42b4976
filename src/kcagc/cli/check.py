"""`kcagc check`: what would go wrong, found before anybody waits for anybody."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from kcagc.cli import terminal
from kcagc.cli.settings import FILE, WITH_DATA, loaded, options


@click.command()
@options(*WITH_DATA)
@click.option("--model", type=FILE, envvar="KCAGC_MODEL", help="Check for a prediction with this model.")
@click.option("--offline", is_flag=True, help="Do not try to reach the aggregator.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def check(config: Path, model: Path | None, offline: bool, as_json: bool, **given: Any) -> None:
    """Check configuration, keys, certificates, policy, data and whether the aggregator can be reached.

    No data leave this machine. Ends with the exit code of the first thing that is wrong.
    """
    from rich.markup import escape

    from kcagc.deploy.checks import as_row
    from kcagc.deploy.checks import check as look
    from kcagc.deploy.run import RoleRun

    own = loaded(config, predicting=model is not None, **given)
    task = RoleRun(own) if model is None else RoleRun.predict(own, model)
    console, findings = terminal.out(), []
    if not as_json:
        console.print(
            f"[bold]{escape(own.me)}[/], {own.role} of {', '.join(s.name for s in own.document.participants)}"
        )
    for finding in look(task, reach=not offline):
        findings.append(finding)
        if not as_json:
            mark = "[green]ok   [/]" if finding.sound else "[red]wrong[/]"
            console.print(f"{mark} {finding.what:<12} {escape(finding.words)}", soft_wrap=True)
            for warning in finding.warnings:
                console.print(f"[yellow]note [/] {'':<12} {escape(warning)}", soft_wrap=True)
    if as_json:
        terminal.print_json([as_row(finding) for finding in findings])
    wrong = [finding.error for finding in findings if finding.error is not None]
    if wrong:
        sys.exit(wrong[0].exit_code)
