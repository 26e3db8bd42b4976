"""Erasing what a role keeps on disk between interruption and resumption."""

from __future__ import annotations

from pathlib import Path

from kcagc.deployment.config import Config
from kcagc.deployment.results import Places, write_ledger
from kcagc.runtime.journal import DamagedError, Journal, remove


def forget_journals(config: Config) -> list[Path]:
    """Overwrite and remove the journals of a role; what they say of disclosures goes to where the results are."""
    output = config.document.output
    folders = {"fit": config.file(output.folder), "predict": config.file(output.folder) / "prediction"}
    erased = []
    for kind, folder in folders.items():
        path = config.file(output.state) / f"{kind}.sqlite"
        if not path.exists():
            continue
        try:
            journal = Journal(path)
            if disclosed := journal.ledger():
                write_ledger(Places(folder, output.labels), disclosed)
            journal.erase()
            journal.close()
        except DamagedError:
            pass  # there is nothing to overwrite that could be found
        remove(path)
        erased.append(path)
    return erased
