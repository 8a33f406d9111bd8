"""The command group: lists commands without loading them, and words every error in one place."""

from __future__ import annotations

import importlib
from typing import Any

import click

__all__ = [
    "main",
]

_COMMANDS = (
    "ask", "audit", "backup", "check", "close", "demo", "draft", "export", "ledger", "measure", "move",
    "offline", "open", "plan", "status", "verify",
)  # fmt: skip


class _Refusal(click.ClickException):
    """An error of the packages, with the exit code that the manual lists."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        vars(self)["exit_code"] = exit_code


class _Commands(click.Group):
    """Loads a command's module when it is listed or run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = importlib.import_module(f"pmw.cli.{cmd_name}_command").command
        return command if isinstance(command, click.Command) else None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.ClickException, click.Abort):
            raise
        except KeyboardInterrupt:  # click would say "Aborted!", with the exit code of an error
            click.echo("interrupted; everything printed so far is durable", err=True)
            raise click.exceptions.Exit(130) from None
        except Exception as error:
            refusal = _refusal(error)
            if refusal is None:
                raise
            raise refusal from None


def _refusal(error: Exception) -> _Refusal | None:
    """Return the click error for an error of our packages, or None for any other."""
    from pmw.errors import ModelFileError, PMWError, SessionCorruptError, SessionLockedError
    from queries.errors import QueriesError, QueryError

    if isinstance(error, SessionLockedError | SessionCorruptError | ModelFileError):
        return _Refusal(str(error), 5)
    if isinstance(error, QueryError):
        return _Refusal(error.message + _mark(error.text, error.position), 4)
    if isinstance(error, PMWError | QueriesError):
        return _Refusal(str(error), 1)
    if isinstance(error, MemoryError):
        return _Refusal(
            "there is not enough memory; what was printed is durable, and nothing else was released; "
            "make room, then ask again: what was recorded keeps its outcome",
            1,
        )
    return None


def _mark(text: str | None, position: int | str | None) -> str:
    """Return where in a question its fault lies: a caret under its text, or a path into it."""
    if position is None:
        return ""
    if text is None or isinstance(position, str) or "\n" in text or len(text) > 200:
        return f" (at {position})"
    return f"\n  {text}\n  {' ' * position}^"


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 error, 2 usage, 3 exhausted (--strict), 4 question refused, "
    "5 session locked, or it or a model damaged, 130 interrupted.",
)
@click.version_option(package_name="online-pmw", prog_name="pmw")
def main() -> None:
    """Private answers over a sensitive table.

    A custodian opens a session over a table with a fixed privacy budget. Analysts ask counting questions
    without end; each gets an answer with an error bar. A synthetic table can be exported at any time.

    \b
    Try it on real data:
      pmw demo
    Or on your own:
      pmw open study.pmw --data people.csv --schema people.toml --epsilon 1 --delta 1e-9
      pmw ask study.pmw "age BETWEEN 30 AND 39 AND sex = 'Female'"
      pmw export study.pmw --output synthetic.csv
    """
