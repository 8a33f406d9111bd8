"""Tables that are declared public: domains are read off them, and no session is opened over them unasked."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from pmw.data import Place, TableFile
    from pmw.data.drafting import PublicTable

_Command = TypeVar("_Command", bound=Callable[..., Any])
_QUESTION = "Is the table in --data public, so that nobody in it needs protection"


def public_option(command: _Command) -> _Command:
    """Add the option by which a custodian declares the table in --data public to a command."""
    return click.option(
        "--data-is-public",
        is_flag=True,
        help="Say, without being asked, that --data may be the very table that domains were read off; "
        "required for that without a terminal.",
    )(command)


def declared_public(file: TableFile, place: Place, given: dict[str, Any]) -> PublicTable:
    """Return the table that --from-public names, if the table in --data is another, or declared public too.

    Raises:
        DataError: it is the same table, and nobody says that it is public; or it cannot be read.
        Abort: somebody who was asked said no.
    """
    from pmw.data.drafting import PublicTable, are_marked, file_marks

    marks = file_marks(file)
    same = given["data_is_public"] or are_marked(place, marks)
    if same and not given["data_is_public"]:
        _require_yes(f"{file} is the table in --data, or has the same bytes: the draft would hold its values")
    return PublicTable(file, marks, same)


def refuse_drafted(schema: Path, place: Place, given: dict[str, Any]) -> None:
    """Refuse a table that the domains of its schema were read off, unless it is declared public.

    Args:
        schema: the file, which was read before.
        place: of the table.
        given: the options.

    Raises:
        DataError: it is that table, and nobody says that it is public; or it cannot be read.
        Abort: somebody who was asked said no.

    Privacy: nothing is drawn yet, and what is compared is the whole file with one that was declared public.
        With --data-is-public nothing is compared.
    """
    from pmw.data.drafting import are_marked
    from queries.drafted import load_drafted_from

    marks = () if given["data_is_public"] else load_drafted_from(schema)
    if marks and are_marked(place, marks):
        _require_yes(f"the domains of {schema} were read off the table in --data: they hold its values")


def _require_yes(found: str) -> None:
    from pmw.errors import DataError

    if not sys.stdin.isatty():
        raise DataError(
            f"{found}; read domains off a table that is public, or fill in a draft without --from-public. If "
            "the table is public itself, say so with --data-is-public"
        )
    click.echo(f"{found[0].upper()}{found[1:]}.", err=True)
    click.confirm(_QUESTION, abort=True, err=True)
