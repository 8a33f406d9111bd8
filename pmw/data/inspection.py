"""Inspection: what a file holds and what a session would drop of it, exactly, for the custodian alone.

Nothing here is private in the sense of the guarantee: every number is exact. It is for the person who holds
the table, before a session is opened, and no session can reach it.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pmw.data.csv_file import MARKERS, swapped_decimal
from pmw.data.files import TableFile
from pmw.data.memory import holds_malformed
from pmw.data.people import OWN, Roster, kept_by_limit
from pmw.data.tables import Place
from pmw.privacy.random_bits import fresh_seed
from queries.categories import CategoricalAttribute
from queries.cells import canonical_text
from queries.domain import Attribute, Domain
from queries.frozen import dataclass
from queries.numbers import IntegerAttribute, NumericAttribute
from queries.person import Person
from queries.records import Column, Columns, encode_columns, kept_records
from queries.schema import kind_name
from queries.values import DROPPED, Reading, values_of

if TYPE_CHECKING:
    import pandas as pd

WARNING = "these numbers are exact and not private: they are for the custodian alone; do not share them"

_LIMITS = (1, 2, 4, 8, 16)  # records per person that are tried
_MOST_EXAMPLES = 5
MOST_LINES = 10  # line numbers that are listed
_LONGEST_EXAMPLE = 80  # characters
_COMMA = re.compile(r"[ \t]*[+-]?[0-9]+,[0-9]+[ \t]*")
_OUTSIDE = (Reading.FRACTION, Reading.NO_NUMBER, Reading.NO_DATE, Reading.UNDECLARED)


@dataclass(frozen=True, slots=True)
class AttributeFacts:
    """What the values of one column are.

    Args:
        kind, cells: what the schema says of it.
        empty_kept: empty values have a cell, ``missing``; else each drops its record.
        undeclared: number of values that no cell was declared for.
        undeclared_kept: undeclared values have a cell, ``other``; else each drops its record.
        no_number: undeclared values of a number attribute that are no number.
        fractions: undeclared values of an integer attribute that are no whole number.
        clipped_low: number of values below the declared ends.
        clipped_high: number of values above the declared ends.
        examples: undeclared values with their number, most frequent first, at most 5.
    """

    name: str
    kind: str
    cells: int
    empty: int
    empty_kept: bool
    undeclared: int
    undeclared_kept: bool
    no_number: int
    fractions: int
    clipped_low: int
    clipped_high: int
    examples: tuple[tuple[str, int], ...]
    suggestions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PeopleFacts:
    """Whose the records of a file are that no value drops.

    Args:
        most: the most records of one id.
        without: number of records without an id that can be read; each is dropped.
        own: number of records without an id that are taken for persons of their own.
        limit: the most records of each person that a session would keep, K.
        kept: number of records that would be kept, by K.
        records: number of records that have a person.
    """

    column: str
    persons: int
    most: int
    without: int
    own: int
    limit: int
    kept: dict[int, int]
    records: int

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON."""
        return {
            **asdict(self),
            "kept": [{"records_per_person": limit, "kept": kept} for limit, kept in self.kept.items()],
        }


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What a file holds.

    Args:
        read: number of records, malformed lines included.
        kept: number of records that a session would count.
        malformed: number of lines that cannot be read; kept where every attribute has an ``other`` cell.
        malformed_lines: the numbers of these lines, the first of the file being 1, by why they cannot.
        ignored: columns that the schema does not name.
        absent: declared columns that are missing or stand there twice; the records are not read then.
        attributes: one per declared attribute; none where the records are not read.
        delimiter: the option that names a CSV file's, where its first line names every column with another
            one than was given; else None.
        people: whose the records are; None where no persons are declared or the records are not read.
        impossible: the number of records in the cells of each impossible condition, all of which are dropped.
    """

    read: int
    kept: int
    malformed: int
    malformed_lines: dict[str, list[int]]
    ignored: tuple[str, ...]
    absent: tuple[str, ...]
    attributes: tuple[AttributeFacts, ...]
    delimiter: str | None = None
    people: PeopleFacts | None = None
    impossible: Mapping[str, int] = field(default_factory=dict)

    @property
    def dropped(self) -> int:
        """Number of records that a session would not count."""
        return self.read - self.kept

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON."""
        attributes = [
            {
                **asdict(facts),
                "examples": [{"value": text, "count": count} for text, count in facts.examples],
                "suggestions": list(facts.suggestions),
            }
            for facts in self.attributes
        ]
        return {
            "warning": WARNING,
            "read": self.read,
            "kept": self.kept,
            "dropped": self.dropped,
            "malformed": self.malformed,
            "malformed_lines": [
                {"why": why, "count": len(lines), "lines": lines[:MOST_LINES]}
                for why, lines in self.malformed_lines.items()
            ],
            "ignored_columns": list(self.ignored),
            "absent_columns": list(self.absent),
            "attributes": attributes,
            **({} if self.people is None else {"people": self.people.to_dict()}),
            **({"impossible": dict(self.impossible)} if self.impossible else {}),
        }


def inspect_table(place: Place, domain: Domain) -> TableFacts:
    """Return what a table holds and what a session over it would drop.

    The records are read and put into cells by the very functions that a session uses.

    Privacy: exact and secret, outside every guarantee: for the custodian's own terminal.
    """
    file = place if isinstance(place, TableFile) else None
    columns = place.names()
    ignored = tuple(name for name in columns if name not in domain.columns)
    absent = tuple(name for name in domain.columns if columns.count(name) != 1)
    if absent:
        option = None if file is None else file.delimiter_option(domain)
        return TableFacts(0, 0, 0, {}, ignored, absent, (), option)
    tallies = [_Tally(attribute, "." if file is None else file.dialect.decimal) for attribute in domain]
    people = None if domain.person is None else _PeopleTally(domain.person)
    read = kept = 0
    impossible = {one.where: 0 for one in domain.impossible}
    malformed: dict[str, list[int]] = {}
    for part in place.parts(domain):
        codes = encode_columns(part.columns, domain)
        for tally, cells in zip(tallies, codes, strict=True):
            tally.add(part.columns[tally.attribute.name], cells)
        for one in domain.impossible:
            impossible[one.where] += int(one.holds(domain.names, codes).sum())
        whole = kept_records(codes, domain)
        read += len(whole)
        kept += int(whole.sum())
        if people is not None:
            people.add(part.columns, whole)
        for number, why in part.malformed.items():
            malformed.setdefault(why, []).append(number)
    is_text = file is not None and not file.is_parquet
    facts = tuple(tally.facts(is_text=is_text) for tally in tallies)
    count = sum(map(len, malformed.values()))
    kept += count if holds_malformed(domain) else 0
    found = None if people is None else people.facts()
    kept = kept if found is None else found.kept[found.limit]
    return TableFacts(
        read + count, kept, count, malformed, ignored, (), facts, people=found, impossible=impossible
    )


class _PeopleTally:
    def __init__(self, person: Person) -> None:
        self._person = person
        self._roster = Roster(person, fresh_seed())  # nothing is chosen: any key will do
        self._without = 0

    def add(self, columns: Columns, whole: NDArray[np.bool_]) -> None:
        has_person = self._roster.add(columns[self._person.column].series()[whole])
        self._without += int((~has_person).sum())

    def facts(self) -> PeopleFacts:
        persons, keys = self._roster.finish()
        limit = self._person.records or 1
        return PeopleFacts(
            column=self._person.column,
            persons=keys.shape[1],
            most=int(np.bincount(persons + 1, minlength=2)[1:].max()),
            without=self._without,
            own=int((persons == OWN).sum()),
            limit=limit,
            kept=kept_by_limit(persons, sorted({*_LIMITS, limit})),
            records=len(persons),
        )


class _Tally:
    """Counts what the values of one column are."""

    def __init__(self, attribute: Attribute, decimal: str) -> None:
        self.attribute = attribute
        is_number = isinstance(attribute, IntegerAttribute | NumericAttribute)
        self._as_written = swapped_decimal if is_number and decimal == "," else str
        self._readings: Counter[Reading] = Counter()
        self._outside: Counter[str] = Counter()

    def add(self, column: Column, codes: NDArray[np.signedinteger[Any]]) -> None:
        attribute = self.attribute
        # Only values of these cells can be empty, undeclared or clipped.
        telling = {DROPPED, attribute.missing_code, attribute.other_code}
        if not isinstance(attribute, CategoricalAttribute):
            telling |= {0, attribute.base_size - 1}
        chosen = np.isin(codes, [code for code in telling if code is not None])
        for value, count in _distinct(column.series()[chosen]):
            reading = values_of(attribute).reading(value)
            self._readings[reading] += count
            if reading in _OUTSIDE:
                self._outside[_shortened(self._as_written(str(value)))] += count

    def facts(self, *, is_text: bool) -> AttributeFacts:
        """Return what was counted; ``is_text`` for a CSV file, where suggestions may name the dialect."""
        attribute, readings = self.attribute, self._readings
        listed = sorted(self._outside.items(), key=lambda item: (-item[1], item[0]))
        return AttributeFacts(
            name=attribute.name,
            kind=kind_name(attribute),
            cells=attribute.size,
            empty=readings[Reading.EMPTY],
            empty_kept=attribute.missing,
            undeclared=sum(readings[reading] for reading in _OUTSIDE),
            undeclared_kept=attribute.other,
            no_number=readings[Reading.NO_NUMBER],
            fractions=readings[Reading.FRACTION],
            clipped_low=readings[Reading.LOW],
            clipped_high=readings[Reading.HIGH],
            examples=tuple(listed[:_MOST_EXAMPLES]),
            suggestions=tuple(_suggestions(attribute, readings, [text for text, _ in listed], is_text)),
        )


def _distinct(column: pd.Series[Any]) -> Iterator[tuple[object, int]]:
    """Yield the values of a column with their number; equal ones of different types apart."""
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        values, counts = np.unique(column.to_numpy(), return_counts=True)
        yield from zip(values, counts.tolist(), strict=True)
        return
    if dtype.name in ("str", "string"):
        yield from Counter(column.to_numpy(dtype=object)).items()
        return
    seen: Counter[tuple[type, object]] = Counter()
    for value in column.to_numpy(dtype=object):
        if type(value) in (str, int, float, bool, type(None)):
            seen[type(value), value] += 1
        else:  # a value that may have no hash, or be written in several ways
            yield value, 1
    yield from ((value, count) for (_, value), count in seen.items())


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_EXAMPLE else text[: _LONGEST_EXAMPLE - 1] + "…"


def _suggestions(
    attribute: Attribute, readings: Counter[Reading], outside: list[str], is_text: bool
) -> Iterator[str]:
    """Yield what may keep more records, for values that drop theirs or fall into ``other``."""
    if readings[Reading.EMPTY] and not attribute.missing:
        yield "declare missing = true to keep empty values"
    markers = [text for text in outside if text.strip().casefold() in MARKERS]
    if markers and is_text:
        declare = "" if attribute.missing else " and declare missing = true"
        options = " ".join(f"--missing-text {shlex.quote(text)}" for text in markers[:_MOST_EXAMPLES])
        yield f"{_if_empty(markers)}, give {options}{declare}"
    elif markers:
        yield f"{_if_empty(markers)}, write NULL in the table instead"
    if readings[Reading.FRACTION] and isinstance(attribute, IntegerAttribute):
        yield 'declare kind = "numeric" with edges to keep fractions'
    rest = [text for text in outside if text not in markers]
    if not isinstance(attribute, CategoricalAttribute):
        if readings[Reading.NO_DATE] and rest:
            yield "if these are dates, declare how they are written, such as format = '%d.%m.%Y'"
        if readings[Reading.NO_NUMBER]:
            yield from _suggestions_for_numbers(attribute, rest, is_text)
        return
    yield from _suggestions_for_values(attribute, rest, is_text)


def _suggestions_for_numbers(attribute: Attribute, rest: list[str], is_text: bool) -> Iterator[str]:
    if is_text and any(map(_COMMA.fullmatch, rest)):
        yield "give --decimal , if that is how the table writes fractions"
    if rest and not attribute.other:
        yield "declare other = true to keep values that are no number"


def _suggestions_for_values(attribute: CategoricalAttribute, rest: list[str], is_text: bool) -> Iterator[str]:
    if attribute.size == 1:
        yield "its one cell says nothing of a record: declare more values, or delete it"
    declared = {canonical_text(value): value for value in attribute.values}
    folded = {text.casefold() for text in declared}
    if is_text and any(text.strip(" \t") in declared for text in rest):
        yield "give --trim to drop spaces around fields"
    if any(text not in declared and text.casefold() in folded for text in rest):
        yield "declare values in the case in which the table writes them"
    composed = {unicodedata.normalize("NFC", text): text for text in declared}
    alike = [(text, composed.get(unicodedata.normalize("NFC", text))) for text in rest]
    for text, like in [(text, like) for text, like in alike if like is not None][:1]:
        way = "apart" if len(text) > len(like) else "together"
        yield f"{text!a} is {like!r} with its accents written {way}: write it in the schema as the table does"
    if rest and not attribute.other:
        yield "list these values, or declare other = true to keep them in one cell"


def _if_empty(markers: list[str]) -> str:
    shown = " and ".join(map(repr, markers[:_MOST_EXAMPLES]))
    return f"if {shown} {'means' if len(markers) == 1 else 'mean'} empty"
