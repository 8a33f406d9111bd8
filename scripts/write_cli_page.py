"""Write docs/cli.md: the help of every command, as the command line prints it."""

from collections.abc import Iterator
from pathlib import Path

import click
from click.testing import CliRunner

from pmw.cli import main

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"

_HEAD = """\
# The command line

What `pmw --help` and `pmw COMMAND --help` print, on one page; `scripts/write_cli_page.py` writes it again,
and a test keeps it current. The [custodian's](custodian.md) and the [analyst's](analyst.md) guide show the
commands at work.

Data goes to standard output; progress, warnings and errors go to standard error, progress on a terminal only.

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | an error of the work: its line says what was expected, what came and what to do |
| 2 | wrong usage: an option that is unknown or would do nothing, or a value that can never be |
| 3 | under `--strict`: the tests' budget is exhausted, so an answer came without a promise |
| 4 | a question was refused, or every line of a stream; under `--strict`, any line, or it was never tested |
| 5 | the session is in use by another process, damaged, or fails `pmw verify` |
| 130 | interrupted; everything printed so far is durable |
"""


def names(group: click.Group) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command, those of a command's own commands after it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        yield (name,)
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from ((name, *words) for words in names(command))


def page() -> str:
    """Return the page."""
    runner = CliRunner(env={"COLUMNS": "100"})
    sections = [_HEAD]
    for words in ((), *names(main)):
        printed = runner.invoke(main, [*words, "--help"], prog_name="pmw", terminal_width=100).stdout
        sections.append(f"## {' '.join(('pmw', *words))}\n\n```text\n{printed.rstrip()}\n```\n")
    return "\n".join(sections)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
