"""The options that tell whose records are bounded, and the domain that they and a schema declare."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pmw.cli.usage import typed, wrong_values

if TYPE_CHECKING:
    from pathlib import Path

    from queries.domain import Domain

_Command = TypeVar("_Command", bound=Callable[..., Any])

PERSON_OPTIONS = (
    click.option(
        "--records-per-person",
        type=int,
        default=1,
        show_default=True,
        metavar="K",
        help="The most records of one person: so many of each are kept where there is a column of ids; "
        "declared, not checked, where there is none.",
    ),
    click.option(
        "--person-column",
        metavar="NAME",
        help="The column of ids, which tell whose a record is. [default: that of the schema's [person]]",
    ),
)


def person_options(command: _Command) -> _Command:
    """Add the options that tell whose records are bounded to a command."""
    for option in reversed(PERSON_OPTIONS):
        command = option(command)
    return command


def load_domain(schema: Path, given: dict[str, Any]) -> Domain:
    """Return the domain of a schema, with the persons that the schema and the options declare.

    Raises:
        SchemaError: the file does not describe a domain.
        BudgetError: the options name another column of ids, or another number of records, than the schema.
        DomainError: the column of ids is an attribute.
    """
    from pmw.errors import BudgetError
    from pmw.public.contract import Options, agreed
    from queries.schema import load_schema

    domain, records = load_schema(schema), given["records_per_person"]
    declared = None if domain.person is None else domain.person.records
    if declared not in (None, records) and typed("records_per_person"):
        raise BudgetError(
            f"the schema's [person] keeps {declared} records of each, and --records-per-person {records} is "
            "given; give one number, or leave it out in one place"
        )
    with wrong_values():
        options = Options(person_column=given["person_column"], records_per_person=records)
    return agreed(domain, options)[0]
