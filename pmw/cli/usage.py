"""Usage: errors of what was typed, which have an exit code of their own."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import click


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
    """Refuse an epsilon or a delta that is no budget.

    Raises:
        UsageError: it is none, or charges cannot be added up so with it.
    """
    from pmw.privacy.budget import Budget, Composition
    from pmw.privacy.filter import open_filter

    with wrong_values():
        budget = Budget.of(given["epsilon"], given["delta"])
        if given.get("composition") is not None:
            open_filter(budget, Composition(given["composition"]))


def typed(*names: str) -> list[str]:
    """Return those options of the running command that were typed, as they are written: a default is not.

    Args:
        names: parameters, such as ``missing_text`` for ``--missing-text``.
    """
    context = click.get_current_context()
    written = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    default = click.core.ParameterSource.DEFAULT
    return [written[name] for name in names if context.get_parameter_source(name) is not default]


class Suggesting(click.Group):
    """A group of commands that names the nearest one where there is none of a name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names, and the words after it.

        Raises:
            UsageError: it names none.
        """
        name = args[0]
        if not (ctx.resilient_parsing or name.startswith("-") or self.get_command(ctx, name)):
            from queries.cells import nearest

            ctx.fail(f"No such command {name!r}{nearest(name, self.list_commands(ctx)) or '.'}")
        return super().resolve_command(ctx, args)


def finite(_: click.Context, parameter: click.Parameter, value: float) -> float:
    """Return a number that an option was given, unless it is infinite or none; for click's callbacks.

    Raises:
        BadParameter: it is.
    """
    if not math.isfinite(value):
        raise click.BadParameter(f"expected a finite number, got {value}", param=parameter)
    return value
