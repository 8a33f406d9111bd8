"""``pmw check``: what a table holds, exactly, for its custodian."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pmw.cli.options import (
    dialect_options,
    load_domain,
    person_options,
    place_given,
    schema_option,
    table_options,
)
from pmw.cli.usage import echo, json_line, json_option
from pmw.display.texts import counted, shown_name, text_table

_MOST_LISTED = 5  # keys of a lookup

if TYPE_CHECKING:
    from pmw.data import Place
    from pmw.data.inspection import AttributeFacts, PeopleFacts, TableFacts
    from queries.domain import Domain
    from queries.lookups import Lookup


@click.command(
    "check",
    short_help="Show what a table holds and what would be dropped.",
    epilog="""\b
Examples:
  pmw check --data people.csv --schema people.toml
  pmw check --data people.csv --schema people.toml --missing-text "?" --trim
  pmw check --data visits.csv --schema visits.toml --person-column patient
  pmw check --data people.parquet --schema people.toml --json
""",
)
@table_options
@schema_option
@person_options
@dialect_options
@json_option("Print one line of JSON.")
def command(data: Path | str, schema: Path, as_json: bool, **given: Any) -> None:
    """Show what the table in --data holds, and what a session with --schema would drop of it.

    It counts the records kept and dropped and, for each attribute, its cells and the values that are empty,
    undeclared, no number, or outside the declared ends; it lists malformed lines with the cause, columns that
    are ignored or missing, and what may help. With a column of ids it shows what share of the records is kept
    for several numbers of records per person.

    The numbers are exact: they are outside the privacy guarantee, for the custodian of the table alone. A
    session never shows them, and this command touches no session and writes no file. Declare an attribute by
    what is known of it in public, not by the values listed here.

    Ends with exit code 1 where a declared column is missing, for a session would refuse the table, and where
    no record would be kept.
    """
    from pmw.data.inspection import WARNING, inspect_table
    from pmw.planning.refusals import check_attributes

    place = place_given(given, data)
    domain = load_domain(schema, given)
    check_attributes(domain)  # which no session holds, whatever its options
    echo(f"Warning: {WARNING}.", err=True)
    facts = inspect_table(place, domain)
    lookups = [_lookup_form(one, domain) for one in domain.lookups]
    form, lines = facts.to_dict(), list(_lines(place, facts))
    if lookups:
        form["lookups"] = lookups
        lines += ["", *map(_lookup_line, domain.lookups, lookups)]
    echo(json_line(form) if as_json else "\n".join(lines))
    if not facts.kept and not facts.absent:
        what = (
            "would keep none of these records" if facts.read else "would be over no records: there are none"
        )
        echo(f"Warning: a session {what}.", err=True)
    if facts.absent or not facts.kept:
        raise click.exceptions.Exit(1)


def _refusal(data: Place, facts: TableFacts) -> Iterator[str]:
    from queries.cells import nearest

    yield f"{data}: a session would refuse this table."
    yield f"Declared columns that are missing or stand there twice: {_listed(facts.absent)}."
    for name in facts.absent:
        if hint := nearest(name, facts.ignored):
            yield f"  {name}{hint}"
    if facts.delimiter is not None:
        yield f"With another delimiter they are there: {facts.delimiter}."


def _lines(data: Place, facts: TableFacts) -> Iterator[str]:
    from pmw.data.inspection import MOST_LINES

    if facts.absent:
        yield from _refusal(data, facts)
    else:
        yield (
            f"{data}: {counted(facts.read, 'record')}; a session keeps {facts.kept:,} "
            f"and drops {facts.dropped:,}."
        )
    if facts.malformed:
        held = bool(facts.attributes) and all(one.undeclared_kept for one in facts.attributes)
        outcome = "undeclared in every column" if held else "dropped"
        yield f"Malformed lines, each {outcome}: {facts.malformed:,}."
        for why, lines in facts.malformed_lines.items():
            more = ", …" if len(lines) > MOST_LINES else ""
            yield f"  {len(lines):,} (line {', '.join(map(str, lines[:MOST_LINES]))}{more}): {why}"
    yield from (
        f"Impossible, and dropped: {counted(records, 'record')} where {where}."
        for where, records in facts.impossible.items()
    )
    if facts.people is not None:
        yield from _people(facts.people)
    if facts.ignored:
        yield f"Columns that the schema does not name, ignored: {_listed(facts.ignored)}."
    if facts.attributes:
        yield ""
        yield from _table(facts.attributes)
    for attribute in facts.attributes:
        yield from _details(attribute)


def _people(people: PeopleFacts) -> Iterator[str]:
    most = counted(people.most, "record")
    text = f"People, by {shown_name(people.column)!r}: {people.persons:,}, with up to {most} each"
    if people.own:
        text += f"; {counted(people.own, 'record')} without an id, each a person of its own"
    yield f"{text}; {people.without:,} without an id that can be read, dropped."
    shares = ", ".join(
        f"{kept / max(people.records, 1):.1%} at K = {limit}{' (chosen)' if limit == people.limit else ''}"
        for limit, kept in people.kept.items()
    )
    yield f"Records kept where at most K of each person are: {shares}."


def _table(attributes: tuple[AttributeFacts, ...]) -> Iterator[str]:
    header = ("attribute", "kind", "cells", "empty", "undeclared", "clipped low", "clipped high")
    rows = [
        (
            shown_name(facts.name),
            facts.kind,
            f"{facts.cells:,}",
            _outcome(facts.empty, facts.empty_kept),
            _outcome(facts.undeclared, facts.undeclared_kept),
            f"{facts.clipped_low:,}",
            f"{facts.clipped_high:,}",
        )
        for facts in attributes
    ]
    yield text_table(header, rows, left=2)


def _details(facts: AttributeFacts) -> Iterator[str]:
    if not facts.undeclared and not facts.suggestions:
        return
    yield ""
    if facts.undeclared:
        notes = [
            f"{count:,} {words}"
            for count, words in ((facts.no_number, "no number"), (facts.fractions, "no whole number"))
            if count
        ]
        values = ", ".join(f"{text!r} ({count:,})" for text, count in facts.examples)
        yield f"{shown_name(facts.name)}: undeclared {values}" + (f"; {', '.join(notes)}" if notes else "")
    else:
        yield f"{shown_name(facts.name)}:"
    for suggestion in facts.suggestions:
        yield f"  {suggestion}"


def _lookup_form(lookup: Lookup, domain: Domain) -> dict[str, Any]:
    attribute = domain[lookup.attribute]
    return {
        "name": lookup.name,
        "attribute": lookup.attribute,
        "key": lookup.key,
        "columns": list(lookup.columns),
        "keys": len(lookup.rows),
        "unnamed": lookup.unnamed(attribute),
        "undeclared": lookup.undeclared(attribute),
    }


def _lookup_line(lookup: Lookup, form: dict[str, Any]) -> str:
    text = f"Lookup {shown_name(lookup.name)!r} of {shown_name(lookup.attribute)!r}"
    text += f" ({_listed(lookup.columns)}): {counted(len(lookup.rows), 'key')}"
    kinds = {"unnamed": "declared values without one", "undeclared": "keys that are no declared value"}
    for kind, words in kinds.items():
        if found := form[kind]:
            more = ", …" if len(found) > _MOST_LISTED else ""
            text += f"; {words}: {_listed(tuple(found[:_MOST_LISTED]))}{more}"
    return f"{text}."


def _outcome(count: int, kept: bool) -> str:
    return f"{count:,} {'kept' if kept else 'dropped'}" if count else "0"


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(shown_name, names))
