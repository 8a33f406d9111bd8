"""``pmw help``: what ``--help`` prints, by another way."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem


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
def command(context: click.Context, words: tuple[str, ...]) -> None:
    """Show what `pmw COMMAND --help` shows; without COMMAND, the list of all commands."""
    from pmw.cli.texts import say

    shown = context.find_root()
    for word in words:
        group = shown.command
        if not isinstance(group, click.Group):
            raise click.UsageError(f"{shown.command_path} has no commands of its own; leave {word!r} out")
        name, found, _ = group.resolve_command(shown, [word])
        if found is None:  # an option, which resolve_command passes over
            raise click.UsageError(f"expected a command, got {word!r}")
        shown = click.Context(found, info_name=name, parent=shown)
    say(shown.get_help())
