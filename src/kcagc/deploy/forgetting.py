"""Erasing what a role keeps on disk between interruption and resumption."""

from __future__ import annotations

from pathlib import Path

from kcagc.deploy.config import Config
from kcagc.deploy.results import write_ledger
from kcagc.deploy.task import Kind, journal_of, places_of
from kcagc.runtime.journal import DamagedError, Journal, remove

_KINDS: tuple[Kind, ...] = ("fit", "predict")


def forget_journals(config: Config) -> list[Path]:
    """Overwrite and remove the journals of a role; what they say of disclosures goes to where the results are."""
    erased = []
    for kind in _KINDS:
        path = journal_of(config, kind)
        if not path.exists():
            continue
        try:
            journal = Journal(path)
            try:
                if disclosed := journal.ledger():
                    write_ledger(places_of(config, kind), disclosed)
                journal.erase()
            finally:
                journal.close()
        except DamagedError:
            pass  # there is nothing in it that could be found, to be overwritten
        remove(path)
        erased.append(path)
    return erased
