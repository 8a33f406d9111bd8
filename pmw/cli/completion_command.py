"""``pmw completion``: completion of commands and options by the shell."""

from __future__ import annotations

import click

__all__ = [
    "command",
]


@click.command(
    "completion",
    short_help="Print a script that completes pmw in a shell.",
    epilog="""\b
Examples:
  pmw completion bash > ~/.local/share/bash-completion/completions/pmw
  pmw completion zsh > ~/.zfunc/_pmw
  pmw completion fish > ~/.config/fish/completions/pmw.fish

\b
For the present shell only:
  eval "$(pmw completion bash)"
""",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the script that completes pmw's commands, options and file names in SHELL.

    Put it where the shell looks for completions (examples below), and open a new shell. For zsh the folder
    must be in fpath before compinit runs: add the line fpath+=~/.zfunc above it in ~/.zshrc.
    """
    from click.shell_completion import get_completion_class

    from pmw.cli.main import main

    found = get_completion_class(shell)
    if found is None:
        raise click.ClickException(f"expected bash, zsh or fish, got {shell}")
    script = found(main, {}, "pmw", "_PMW_COMPLETE")
    # Not script.source(), which runs bash to learn its version.
    click.echo(script.source_template % script.source_vars())
