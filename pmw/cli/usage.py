"""Usage: options as help shows them, errors of what was typed, and refusals with their exit codes."""

from __future__ import annotations

import contextlib
import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pmw.display.texts import terminal_text

if TYPE_CHECKING:
    from fractions import Fraction

PATH = click.Path(path_type=Path)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)  # that is read
_written = json.JSONEncoder(ensure_ascii=False).encode  # one for all lines
_Command = TypeVar("_Command", bound=Callable[..., Any])
_PART = re.compile(
    r"([0-9]{1,3}|[0-9]{0,3}\.[0-9]{1,40}|[0-9]{1,9}/[0-9]{1,9})(e-[0-9]{1,2})?", re.IGNORECASE
)


def echo(text: str = "", *, err: bool = False, nl: bool = True, is_data: bool = False) -> None:
    """Print a text that may hold what somebody else wrote; of data a file or a pipe gets it as it is."""
    raw = is_data and not sys.stdout.isatty()
    click.echo(text if raw else terminal_text(text), err=err, nl=nl, color=raw or None)  # else it is stripped


def json_line(form: Any) -> str:
    """Return one line of JSON, for files and terminals: what cannot be seen, or written, stays an escape."""
    return terminal_text(_written(form))


def option(
    name: str, text: str, kind: Any = None, *, to: str | None = None, **how: Any
) -> Callable[[Any], Any]:
    """Return an option as its help shows it, such as ``--rows N``; ``to`` is its parameter's name."""
    names, _, metavar = name.replace(", ", ",").partition(" ")
    named = [*names.split(","), *([] if to is None else [to])]
    shown = how.get("default", "") != ""
    return click.option(*named, type=kind, metavar=metavar or None, help=text, show_default=shown, **how)


def flag(name: str, text: str, **how: Any) -> Callable[[Any], Any]:
    """Return an option without a value."""
    return option(name, text, is_flag=True, **how)


def json_option(text: str) -> Callable[[Any], Any]:
    """Return the option --json, for the parameter ``as_json``."""
    return flag("--json", text, to="as_json")


def together(*options: Callable[[Any], Any]) -> Callable[[_Command], _Command]:
    """Return what gives a command several options, in this order."""

    def given(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return given


@contextlib.contextmanager
def wrong_values() -> Iterator[None]:
    """Tell what the package refuses inside as wrong usage: values of options that cannot be.

    What was typed is looked at here alone, before any file is: what turns out to be wrong with a table, a
    schema, a session or what is left of its budget is no wrong usage.
    """
    from pmw.errors import BudgetError, DataError, ReleaseError

    try:
        yield
    except (BudgetError, DataError, ReleaseError) as error:
        raise click.UsageError(str(error)) from None


def read_budget(given: dict[str, Any]) -> None:
    """Refuse an epsilon or a delta that is no budget."""
    from pmw.privacy.budget import Budget, Composition
    from pmw.privacy.filter import open_filter

    with wrong_values():
        epsilon = given["epsilon"]
        budget = Budget.of("1" if epsilon is None else epsilon, given["delta"])  # where --accuracy chooses it
        if given.get("composition") is not None:
            open_filter(budget, Composition(given["composition"]))


def typed(*names: str) -> list[str]:
    """Return which of some parameters of the running command were typed, as the options are written."""
    context = click.get_current_context()
    written = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    default = click.core.ParameterSource.DEFAULT
    return [written[name] for name in names if context.get_parameter_source(name) is not default]


class Suggesting(click.Group):
    """A group of commands that names the nearest one where there is none of a name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names, and the words after it."""
        name = args[0]
        if not (ctx.resilient_parsing or name.startswith("-") or self.get_command(ctx, name)):
            from queries.cells import nearest

            ctx.fail(f"No such command {name!r}{nearest(name, self.list_commands(ctx)) or '.'}")
        return super().resolve_command(ctx, args)


def finite(_: click.Context, parameter: click.Parameter, value: float) -> float:
    """Return a number that an option was given, unless it is infinite or none; for click's callbacks."""
    if not math.isfinite(value):
        raise click.BadParameter(f"expected a finite number, got {value}", param=parameter)
    return value


class Refusal(click.ClickException):
    """An error of the packages, with the exit code that the manual lists."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(terminal_text(message))
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
    unmapped = isinstance(error, ImportError) and "failed to map segment" in str(error)  # a library, late
    if unmapped or isinstance(error, MemoryError):
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


def budget_part(_: click.Context, parameter: click.Parameter, value: str | None) -> Fraction | None:
    """Return the part of the budget that an option was given, for click."""
    if value is None:
        return None
    from pmw.errors import BudgetError
    from pmw.privacy.budget import as_fraction

    with contextlib.suppress(BudgetError):
        number = value.removesuffix("%")  # without a long exponent: 1e999999999 is long
        part = as_fraction(number if _PART.fullmatch(number) else "", "a part")
        part = part / 100 if value.endswith("%") else part
        if 0 <= part <= 1:
            return part
    raise click.BadParameter("expected a part of the budget from 0 to 100%, such as 2%", param=parameter)
