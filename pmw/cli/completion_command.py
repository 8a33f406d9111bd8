"""``pmw completion``: what has a shell complete commands, options and files."""

from __future__ import annotations

import click

_INSTALLING = {
    "bash": """put  eval "$(pmw completion bash)"  into ~/.bashrc""",
    "zsh": """put  eval "$(pmw completion zsh)"  into ~/.zshrc, after compinit""",
    "fish": "run  pmw completion fish > ~/.config/fish/completions/pmw.fish",
}


@click.command(
    "completion",
    short_help="Print what has your shell complete commands.",
    epilog="""\b
Examples:
  eval "$(pmw completion bash)"
  pmw completion fish > ~/.config/fish/completions/pmw.fish
""",
)
@click.argument("shell", type=click.Choice(list(_INSTALLING)))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print a script that has SHELL complete commands, options and files, and where to put it."""
    from click.shell_completion import get_completion_class

    from pmw.cli.texts import say

    script = get_completion_class(shell)
    if script is None:
        raise click.UsageError(f"expected one of {', '.join(_INSTALLING)}, got {shell!r}")
    source = script(context.find_root().command, {}, "pmw", "_PMW_COMPLETE").source()
    say(f"{source.rstrip()}\n\n# To install it: {_INSTALLING[shell]}")
