"""Refusals: every error of the packages as an error of the command line, in words and with an exit code."""

from __future__ import annotations

import click


class Refusal(click.ClickException):
    """An error of the packages, with the exit code that the manual lists."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        vars(self)["exit_code"] = exit_code


def refusal(error: Exception) -> Refusal | None:
    """Return the click error for an error of our packages, or None for any other."""
    from pmw.errors import ModelFileError, PMWError, SessionCorruptError, SessionLockedError
    from queries.errors import QueryError

    if isinstance(error, SessionLockedError | SessionCorruptError | ModelFileError):
        return Refusal(str(error), 5)
    if isinstance(error, QueryError):
        return Refusal(error.message + _mark(error.text, error.position), 4)
    if isinstance(error, PMWError):
        return Refusal(str(error), 1)
    if isinstance(error, MemoryError):
        return Refusal(
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
