"""`kcagc completion`: the script that lets a shell complete commands, options and file names."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_KCAGC_COMPLETE"  # the shell sets it when it asks us; click derives the same name from "kcagc"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes kcagc's commands and options in SHELL.

    For bash, put this line into ~/.bashrc: eval "$(kcagc completion bash)". For zsh the same with zsh, into ~/.zshrc.
    For fish: kcagc completion fish > ~/.config/fish/completions/kcagc.fish
    """
    root = context.find_root().command
    kind = get_completion_class(shell)
    if kind is None:
        raise click.BadParameter(f"click knows no completion for {shell}")
    # Not kind.source(), which for bash starts the bash of this machine to see how old it is.
    click.echo(ShellComplete.source(kind(root, {}, "kcagc", _VARIABLE)))
