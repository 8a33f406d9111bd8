"""``pmw help`` and ``pmw completion``: what a command takes, as words and as a script for the shell."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from pmw.cli.usage import echo

_INSTALLING = {
    "bash": """put  eval "$(pmw completion bash)"  into ~/.bashrc""",
    "zsh": """put  eval "$(pmw completion zsh)"  into ~/.zshrc, after compinit""",
    "fish": "run  pmw completion fish > ~/.config/fish/completions/pmw.fish",
}


def _names(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the commands that begin so, for the shell's completion."""
    group = context.find_root().command
    names = group.list_commands(context) if isinstance(group, click.Group) else []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@click.command(
    "help",
    short_help="Show the help of a command.",
    epilog="""\b
Examples:
  pmw help
  pmw help open
  pmw help user add
""",
)
@click.argument("words", metavar="[COMMAND]", nargs=-1, shell_complete=_names)
@click.pass_context
def help_(context: click.Context, words: tuple[str, ...]) -> None:
    """Show what `pmw COMMAND --help` shows; without COMMAND, the list of all commands."""
    shown = context.find_root()
    for word in words:
        group = shown.command
        if not isinstance(group, click.Group):
            raise click.UsageError(f"{shown.command_path} has no commands of its own; leave {word!r} out")
        name, found, _ = group.resolve_command(shown, [word])
        if found is None:  # an option, which resolve_command passes over
            raise click.UsageError(f"expected a command, got {word!r}")
        shown = click.Context(found, info_name=name, parent=shown)
    echo(shown.get_help())


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
def completion(context: click.Context, shell: str) -> None:
    """Print a script that has SHELL complete commands, options and files, and where to put it."""
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    if script is None:
        raise click.UsageError(f"expected one of {', '.join(_INSTALLING)}, got {shell!r}")
    source = script(context.find_root().command, {}, "pmw", "_PMW_COMPLETE").source()
    echo(f"{source.rstrip()}\n\n# To install it: {_INSTALLING[shell]}")
