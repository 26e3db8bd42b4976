"""`kcagc verify`: check, offline, that nothing in the result folder of a finished run was changed."""

from __future__ import annotations

from pathlib import Path

import click

from kcagc.cli import terminal
from kcagc.cli.options import JSON
from kcagc.cli.roles import FILE


@click.command()
@click.argument(
    "folders", metavar="RUN_DIR...", nargs=-1, required=True, type=click.Path(file_okay=False, path_type=Path)
)
@click.option("--config", type=FILE, help="A kcagc.toml that pins the identity keys  [default: that above RUN_DIR].")
@click.option("--fingerprint", help='The fingerprint of all participants ("all together"), instead of a configuration.')
@JSON
def verify(folders: tuple[Path, ...], config: Path | None, fingerprint: str | None, *, as_json: bool) -> None:
    """Verify RUN_DIR, the result folder of a finished run: no byte of its files was changed since its role signed them.

    The command needs no network and no private key. It checks the signature of audit.json, the digests of labels,
    ledger, model and run.json, and the signatures of the approved proposal. With the folders of several roles, it also
    checks that their receipts agree: each role has received what the other has sent.
    """
    from kcagc.errors import ParameterError
    from kcagc.federation.verify import Pins, verify_folder, verify_together

    if config is not None and fingerprint is not None:
        raise ParameterError("--config and --fingerprint: give one of them")
    given = Pins.of_config(config) if config is not None else None
    if fingerprint is not None:
        given = Pins.of_fingerprint(fingerprint)
    runs = [verify_folder(folder, given or Pins.beside(folder)) for folder in folders]
    together = verify_together(runs)
    if as_json:
        terminal.print_json({"runs": [one.as_dict() for one in runs], "together": together})
        return
    for one in runs:
        click.echo(f"{one.folder}: verified ({one.audit.task} of {one.audit.name}, {one.audit.finished})")
        for statement in one.statements:
            click.echo(f"  {statement}")
    for statement in together:
        click.echo(statement)
