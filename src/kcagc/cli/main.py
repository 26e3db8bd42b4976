"""The command line: the list of commands, and how errors end them."""

from __future__ import annotations

import os
from importlib import import_module

import click
from click.shell_completion import ShellComplete, get_completion_class

from kcagc import __version__
from kcagc.cli import terminal
from kcagc.deploy import interrupts
from kcagc.errors import KcagcError
from kcagc.text import printable

# gRPC writes a line to stderr for every TLS handshake that it refuses. These lines need knowledge of gRPC; the refused
# party explains the reason itself. Set GRPC_VERBOSITY=INFO to see them. gRPC reads the variable when it is imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

SHELLS = ("bash", "zsh", "fish")

# Commands in the order of `kcagc --help`, each with its module. A command imports only its own module.
_MODULES = {
    "demo": "demo",
    "init": "init",
    "invite": "meet",
    "join": "meet",
    "propose": "agree",
    "approve": "agree",
    "revoke": "agree",
    "identity": "init",
    "columns": "columns",
    "nodes": "maintenance",
    "match": "match",
    "check": "maintenance",
    "plan": "plan",
    "party": "roles",
    "coordinator": "roles",
    "predict": "roles",
    "serve": "serve",
    "runs": "serve",
    "verify": "verify",
    "forget": "maintenance",
    "report": "maintenance",
    "explain": "insight",
    "name": "insight",
    "simulate": "simulate",
    "diagnose": "diagnose",
    "datasets": "datasets",
    "completion": "main",
}


class _Commands(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _MODULES.get(cmd_name)
        return None if module is None else getattr(import_module(f"kcagc.cli.{module}"), cmd_name)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kcagc")
def cli() -> None:
    """Cluster the nodes of a shared graph with features that each organisation keeps to itself."""


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes kcagc's commands and options in SHELL.

    For bash, add this line to ~/.bashrc: eval "$(kcagc completion bash)". For zsh, add the same line with zsh to
    ~/.zshrc. For fish: kcagc completion fish > ~/.config/fish/completions/kcagc.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.BadParameter(f"click has no completion for {shell}")
    # kind.source() would start the bash of this machine to read its version.
    click.echo(ShellComplete.source(kind(context.find_root().command, {}, "kcagc", "_KCAGC_COMPLETE")))


def main() -> None:
    """Run the command line; each expected error ends in one line and the exit code of its class."""
    interrupts.handle_interrupts()
    terminal.replace_missing_characters()
    try:
        code = cli(standalone_mode=False)
    except KcagcError as error:
        code = _show_error(str(error), error.exit_code)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        code = _show_error(interrupts.MESSAGE, interrupts.EXIT_CODE)
    except MemoryError:
        code = _show_error("not enough memory", 1)
    except OSError as error:
        code = _show_error(f"{error.filename or 'output'}: {error.strerror or error}", 1)
    interrupts.end_process(code if isinstance(code, int) else 0)


def _show_error(message: str, code: int) -> int:
    click.echo(f"kcagc: {printable(message, keep=chr(10))}", err=True)
    return code
