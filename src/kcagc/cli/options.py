"""Options of commands that take run parameters; names, choices, defaults and help come from their declaration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from kcagc.datasets.dataset import Dataset

FILE = click.Path(dir_okay=False, path_type=Path)
PARTIES = click.option(
    "--parties", type=click.IntRange(2, 16), help="Number of parties to split the columns among  [default: 3]."
)
PAPER = click.option("--paper", is_flag=True, help="Use the paper's configuration; other options change it.")
WEIGHTING = click.option(
    "--weighting",
    type=click.Choice(("auto", "idf", "none")),
    help="Weighting of columns by inverse document frequency  [default: auto].",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")


class ParameterCommand(click.Command):
    """A command with an option for each run parameter except those in `without`.

    The options are made when they are needed first: their declaration imports numerical libraries, and `kcagc --help`
    must not wait for these.
    """

    def __init__(self, *args: Any, without: tuple[str, ...] = (), **more: Any) -> None:
        super().__init__(*args, **more)
        self._without: tuple[str, ...] | None = without

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return all options."""
        if self._without is not None:
            from kcagc.protocol.parameters import PARAMETERS

            known = {*self._without, *(one.name for one in self.params)}
            self.params += [_option(one) for name, one in PARAMETERS.items() if name not in known]
            self._without = None
        return super().get_params(ctx)


def _number_or_word(text: str) -> int | str:
    """Return a whole number, or the word that stands for one."""
    return int(text) if text.removeprefix("-").isdecimal() else text


def _option(parameter: Any) -> click.Option:
    kinds = {"int": int, "int or None": int, "int or str": _number_or_word, "float": float}
    shown = "" if parameter.required or parameter.default is None else f"  [default: {parameter.default}]"
    return click.Option(
        [f"--{parameter.name.replace('_', '-')}", parameter.name],
        type=click.Choice(parameter.choices) if parameter.choices else kinds.get(parameter.type, str),
        metavar="NUMBER|WORD" if parameter.type == "int or str" and not parameter.choices else None,
        help=parameter.meaning + shown,
    )


def load_dataset(name: str) -> Dataset:
    """Load a dataset; write a line for each file that is downloaded."""
    from kcagc.datasets.catalog import load

    return load(name, progress=lambda file: click.echo(f"downloading {file}", err=True))


def split(data: Dataset, parties: int | None) -> Any:
    """Return the tables of the parties; without a number, those of the dataset or of 3 parties."""
    return data.parties(parties or (None if data.party_columns else 3))


def make_model(data: Dataset, seed: int, *, paper: bool, **given: Any) -> Any:
    """Return the estimator for a dataset with the given parameters; those that are None keep their default.

    In the paper's configuration, the default order of the filter is the paper's for this dataset.
    """
    from kcagc.datasets.catalog import EMBEDDED, entry
    from kcagc.estimator import KCAGC

    chosen = {name: value for name, value in given.items() if value is not None}
    if paper:
        chosen.setdefault("psi", 2 if data.name == EMBEDDED else entry(data.name).paper.psi)
    make = KCAGC.paper if paper else KCAGC
    return make(n_clusters=data.n_classes, random_state=seed, **chosen)
