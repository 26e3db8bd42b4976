"""The entry point: which commands there are, and how an error ends."""

from __future__ import annotations

import sys

import click

from kcagc import __version__
from kcagc.cli import terminal
from kcagc.cli.baselines import baselines
from kcagc.cli.check import check
from kcagc.cli.completion import completion
from kcagc.cli.datasets import datasets
from kcagc.cli.demo import demo
from kcagc.cli.diagnose import diagnose
from kcagc.cli.forget import forget
from kcagc.cli.init import identity, init
from kcagc.cli.nodes import nodes
from kcagc.cli.report import report
from kcagc.cli.roles import coordinator, party, predict
from kcagc.cli.simulate import simulate
from kcagc.errors import KcagcError
from kcagc.text import printable

_INTERRUPTED = 130  # what shells report for a program ended by Ctrl-C


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kcagc")
def cli() -> None:
    """Cluster the nodes of a graph that organisations share, using features that each holds and none may show."""


for command in (
    demo,
    init,
    identity,
    nodes,
    check,
    party,
    coordinator,
    predict,
    forget,
    report,
    simulate,
    diagnose,
    datasets,
    baselines,
    completion,
):
    cli.add_command(command)


def main() -> None:
    """Run the command line; every error that can be foreseen ends in one line and the exit code of its class."""
    terminal.speak_plainly()
    try:
        code = cli(standalone_mode=False)
    except KcagcError as error:
        code = _say(str(error), error.exit_code)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        code = _say("interrupted", _INTERRUPTED)
    except MemoryError:
        code = _say("there is not enough memory for this", 1)
    except OSError as error:
        code = _say(f"{error.filename or 'output'}: {error.strerror or error}", 1)
    sys.exit(code if isinstance(code, int) else 0)


def _say(message: str, code: int) -> int:
    click.echo("kcagc: " + printable(message, keep="\n"), err=True)
    return code
