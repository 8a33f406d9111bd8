"""Drafts: a schema to fill in, from a table's column names and storage types alone.

A domain that is read off the table would publish what the table holds, such as its oldest person. So a draft
holds no value: every domain is a TODO, and a schema that still has one is refused. A CSV file stores no
types: the custodian may have its texts looked at for their kinds (``pmw.data.text_kinds``).

Domains may be filled from another table that the custodian declares to be public. What does that reads values
and promises nothing: what it returns is as public as that table is. Its ends, its edges, its frequent
numbers, its texts and its first and last dates all stand in a schema then. What tells the table again stands
there too.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import os
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, islice, pairwise
from pathlib import Path

from pmw.data.csv_file import bytes_of, swapped_decimal
from pmw.data.files import TableFile
from pmw.data.tables import Place
from pmw.data.text_kinds import NUMBER, WHOLE, ColumnKind, TextKind, require_columns
from pmw.errors import DataError
from queries.categories import CategoricalAttribute
from queries.dates import (
    DAY,
    DateAttribute,
    DatetimeAttribute,
    TimeAttribute,
    clock_time,
    day_starts,
    read_clock,
    read_seconds,
)
from queries.domain import Attribute, Domain
from queries.errors import DomainError
from queries.frozen import dataclass
from queries.numbers import IntegerAttribute, NumericAttribute
from queries.plain_values import UNREADABLE, Plain, plain_value
from queries.schema import stored_schema

_WHOLE_TYPES = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?")
_NUMBER_TYPES = re.compile(r"FLOAT|DOUBLE|DECIMAL.*")
_POINT_ZERO = re.compile(r"(?<=[0-9])\.0(?=[,\]\n])")
_NOTES = {
    "atoms": "each in more than 5 % of the rows of the public table",
    "width": "or another of hour (of times), day, week, month, quarter, year",
}

_NO_VALUE = """\
# A draft of a schema, from the names and the storage types of a table's columns; no value of it was read.
"""
_LOOKED = """\
# A draft of a schema, from the names of a table's columns and from what kinds of texts they hold.
# pmw looked at the table: declare only what is public. No value, end or number of values of it stands here,
# but its kinds are as exact as what `pmw check` shows, and nothing protects them. A kind is what at least
# 99 of 100 texts of a column are. Texts such as NA, ? and - count as empty: a session needs --missing-text
# for each of them.
"""
_MAY_LOOK = """\
# A CSV file stores no types: `pmw draft --look` reads the kinds of its columns off all of its texts.
"""
_NAMES_ALONE = """\
# A draft of a schema, from the names and the storage types of a table's columns; no value of it stands here.
"""
_COMPARED = """\
# Its bytes were compared with those of {name}, and differ.
"""
_IS_PUBLIC = """\
# A draft of a schema, from the names and the storage types of a table's columns.
# The custodian declares that table public.
"""
_DECLARED = """\
#
# Domains without a TODO were read off {name}, which the custodian declares public.
# They show its texts, its least and largest whole numbers, its first and last dates, numbers that many of
# its rows share, and round numbers near its quantiles; nothing protects these. By drafted_from, digests
# of its path and of its bytes, `pmw open` refuses that very table; no session and no export repeats them.
# If that table is not public after all, delete this file: whoever guesses all of the table could check
# the guess.
"""
_HEAD = """\
# Fill in each TODO from what is known in public, such as the questionnaire or the code book, never from the
# table itself. Delete the attributes that nobody will ask about: columns that are not named are never read.
#
#   kind = "integer"        whole numbers: min = 0, max = 99; those outside are set to the nearer end
#   kind = "numeric"        numbers in cells: edges = [0, 10000, 25000, 50000]
#   resolution = 1          of numbers: values are summed in steps of 1, for totals and averages; without it
#                           in about 1,000 steps, and with false not at all
#   kind = "categorical"    values = ["north", "south"]
#   kind = "date"           min = 2020-01-01, max = 2025-12-31, width = "month"; "datetime" has a zone besides
#   kind = "time"           times of day: min = "06:00", max = "21:59", width = "30 minutes"
#   missing = true          one more cell, for empty values; without it their record is dropped
#   other = true            one more cell, for undeclared values; without it their record is dropped
#
# Where a person may have several records, name the column of ids here, and delete its attribute:
# [person]
# column = "id"
# records = 4             at most so many of each are kept
"""
_INTEGER = """\
kind = "integer"
min = "TODO"    # such as 0
max = "TODO"    # such as 99
"""
_NUMERIC = """\
kind = "numeric"
edges = "TODO"    # such as [0, 10000, 25000, 50000]
"""
_CATEGORICAL = """\
kind = "categorical"
values = "TODO"    # such as ["north", "south"]
"""
_BOOLEAN = """\
kind = "categorical"
values = [false, true]
"""
_DATE = """\
kind = "date"
min = "TODO"    # such as 2020-01-01
max = "TODO"    # such as 2025-12-31
width = "day"   # or week, month, quarter, year
"""
_DATETIME = """\
kind = "datetime"
min = "TODO"    # such as 2020-01-01T00:00:00
max = "TODO"    # such as 2025-12-31T23:59:59
width = "day"   # or hour, week, month, quarter, year
zone = "UTC"    # whose clock the cells are of, such as "Europe/Berlin"
"""
_TIME = """\
kind = "time"
min = "TODO"    # such as "06:00"
max = "TODO"    # such as "21:59"
width = "hour"  # or minute, 5 minutes, 10, 15, 20 or 30; 2 hours, 3, 4, 6, 8 or 12
"""
_UNKNOWN = """\
kind = "TODO"    # such as: kind = "integer", then min = 0 and max = 99
"""
_QUESTIONS = {  # about a column by what its texts are, and the section to fill in
    TextKind.WHOLE: ("Which ends are possible (or are these codes)? Empty ones (missing = true)?", _INTEGER),
    TextKind.ALIKE: ("A code? Then declare its values. Else: which ends are possible?", _INTEGER),
    TextKind.NUMBERS: ("Between which round numbers are cells? Empty ones (missing = true)?", _NUMERIC),
    TextKind.SEPARATED: ("Is --decimal right? Can thousands be written unparted?", _UNKNOWN),
    TextKind.DAYS: ("Which first and last day are possible?", _DATE),
    TextKind.TIMES: ("Which first and last time are possible, on which zone's clock?", _DATETIME),
    TextKind.ZONED: ("On which zone's clock are they asked for?", _DATETIME),
    TextKind.UNREAD: ("Can the table have them written like 2023-03-31?", _UNKNOWN),
    TextKind.CLOCK: ("Which first and last time of day are possible?", _TIME),
    TextKind.CODES: ("Which ones does the code book list (values, or values_file)?", _CATEGORICAL),
    TextKind.FEW: ("Which ones does the questionnaire list? Are there others (other = true)?", _CATEGORICAL),
    TextKind.MANY: ("Which ones are public (values_file), or worth --keys? Else delete it.", _CATEGORICAL),
    TextKind.MIXED: ("Does one text mean empty (--missing-text)? Are numbers codes (categorical)?", _UNKNOWN),
}
_LEFT_OUT = {  # columns that have no section
    TextKind.EMPTY: "is nearly always empty. Is it worth an attribute?",
    TextKind.IDS: "differs between records, as ids do. Is it one ([person]), or a number to declare?",
}
_LARGEST = 1e300  # of numbers; the width of what is declared must be finite
_MOST_VALUES = 1_000  # of a category that a public table fills
_MOST_CELLS = 200  # of whole numbers, one cell each; above that, numeric cells
_NUMERIC_CELLS = 16
_ATOM = Fraction(5, 100)  # of the rows; a number that more of them share has a cell of its own
_MOST_PERIODS = 100  # of time: days of three months, months of eight years, quarters of 25 years; then years
_BLOCK = 2**20  # bytes read at a time
_STEPS = (Fraction(5), Fraction(5, 2), Fraction(2), Fraction(1))  # times a power of ten, the coarsest first
_LAST_DAY = datetime.date.max.toordinal()


@dataclass(frozen=True, slots=True)
class PublicTable:
    """A table that the custodian declares public, for the domains of another.

    Args:
        is_the_table: the other table is declared public too; it may be the same.
    """

    file: TableFile
    marks: tuple[str, ...]
    is_the_table: bool = False


def file_marks(place: Place) -> tuple[str, ...]:
    """Return what tells the files of a table again: digests of their absolute paths and of their bytes.

    Of a compressed CSV file they are the bytes inside. A table of a database has none.

    Privacy: whoever guesses all bytes of a file can check the guess. So marks are written of a table that is
        declared public alone; those of any other are compared with them and forgotten.
    """
    if not isinstance(place, TableFile):
        return ()
    marks = []
    for file in place.files:
        digest = hashlib.sha256()
        with bytes_of(file) as stream:
            while block := stream.read(_BLOCK):
                digest.update(block)
        marks += [digest, hashlib.sha256(os.fsencode(file.resolve()))]
    return tuple(f"sha256:{mark.hexdigest()}" for mark in marks)


def are_marked(place: Place, marks: Iterable[str]) -> bool:
    """Return whether a file of a table is one that the marks are of, or has the same bytes.

    Privacy: for the custodian, before anything is drawn. Yes says that the table is one that was declared
        public; no says of its records only that they are not, byte for byte, that public table.
    """
    return not set(marks).isdisjoint(file_marks(place))


def public_attributes(public: TableFile, wanted: Sequence[str]) -> Iterator[tuple[str, Attribute]]:
    """Yield the attributes whose domains the values of a public table give."""
    columns = public.names()
    names = [name for name in wanted if columns.count(name) == 1]
    if not names:
        raise DataError(f"{public.path}: expected a column of the table, got none of that name")
    texts = Domain(tuple(CategoricalAttribute(name, ("a",)) for name in names))
    seen: dict[str, Counter[Plain]] = {name: Counter() for name in names}
    for part in public.parts(texts):
        for name in names:
            for value, count in part.columns[name].series().value_counts(dropna=False).items():
                seen[name][plain_value(value)] += count
    for name in names:
        attribute = _attribute_of(name, seen[name], public.dialect.decimal)
        if attribute is not None:
            yield name, attribute


def is_number(text: str) -> bool:
    """Return whether a text is a number, and no code such as 007."""
    return _number(text, ".") is not None


def _attribute_of(name: str, counts: Counter[Plain], decimal: str) -> Attribute | None:
    """Return an attribute whose cells hold these values, or None where they are too many."""
    given = {value: count for value, count in counts.items() if value not in ("", None)}
    missing = len(given) < len(counts)
    if not given or UNREADABLE in given:
        return None
    if all(isinstance(value, bool) for value in given):
        return CategoricalAttribute(name, (False, True), missing=missing)
    dates = [read_seconds(value, "UTC") for value in given]
    if None not in dates:
        timed = any(len(str(value).strip()) > len("2023-03-31") for value in given)
        return _dated(name, [date for date in dates if date is not None], timed, missing)
    numbers: Counter[float] = Counter()
    for value, count in given.items():
        number = _number(value, decimal)
        if number is None:
            return _of_texts(name, {str(value) for value in given}, missing)
        numbers[number] += count
    if all(WHOLE.fullmatch(str(value)) for value in given) and max(numbers) - min(numbers) < _MOST_CELLS:
        return IntegerAttribute(name, int(min(numbers)), int(max(numbers)), missing=missing)
    return _numeric(name, numbers, counts.total(), missing)


def _of_texts(name: str, texts: set[str], missing: bool) -> Attribute | None:
    """Return whole hours of times of day, or a category; None where its texts are too many."""
    clocks = [second for text in texts if (second := read_clock(text)) is not None]
    if len(clocks) == len(texts):
        low, high = min(clocks) // 3600, max(clocks) // 3600
        return TimeAttribute(name, clock_time(3600 * low), clock_time(3600 * high + 3599), missing=missing)
    if len(texts) > _MOST_VALUES:
        return None
    return CategoricalAttribute(name, tuple(sorted(texts)), missing=missing)


def _number(value: Plain, decimal: str) -> float | None:
    if isinstance(value, str):
        text = swapped_decimal(value) if decimal == "," else value
        value = float(text) if NUMBER.fullmatch(text) else None
    return float(value) if isinstance(value, int | float) and abs(value) <= _LARGEST else None


# --- numbers ----------------------------------------------------------------------------------------------


def _numeric(name: str, counts: Mapping[float, int], rows: int, missing: bool) -> Attribute:
    """Return numeric cells: frequent numbers as atoms, and round edges near the quantiles of the others."""
    atoms = tuple(number for number, count in counts.items() if count > 1 and count > _ATOM * rows)
    others = {number: count for number, count in counts.items() if number not in atoms}
    edges = _round_edges(others or counts, min(counts), max(counts))
    return NumericAttribute(name, edges, atoms=atoms, missing=missing)


def _round_edges(counts: Mapping[float, int], low: float, high: float) -> tuple[float, ...]:
    """Return growing round edges of at most 16 cells between two ends, near the quantiles of the rows."""
    if low == high:
        return (min(low, 0.0), max(low, 0.0)) if low else (0.0, 1.0)
    numbers = sorted(counts)
    sums = list(accumulate(counts[number] for number in numbers))
    parts = [Fraction(part * sums[-1], _NUMERIC_CELLS) for part in range(1, _NUMERIC_CELLS)]
    quantiles = {numbers[bisect_left(sums, part)] for part in parts}
    inner = sorted(quantile for quantile in quantiles if low < quantile < high)
    points = [Fraction(point) for point in (low, *inner, high)]
    quarters = [(after - before) / 4 for before, after in pairwise(points)]
    whole = all(number.is_integer() for number in (low, high, *numbers))  # an end may be an atom alone
    edges = [_roundest(points[0] - quarters[0], points[0], points[0], whole)]
    for place, point in enumerate(points[1:-1]):
        edges.append(_roundest(point - quarters[place], point, point + quarters[place + 1], whole))
    edges.append(_roundest(points[-1], points[-1], points[-1] + quarters[-1], whole))
    return tuple(sorted(set(edges)))


def _roundest(low: Fraction, point: Fraction, high: Fraction, whole: bool) -> float:
    """Return the multiple of the coarsest step from ``low`` to ``high`` that is nearest to ``point``."""
    if low <= 0 <= high:
        return 0.0
    exponent = math.ceil(math.log10(max(abs(low), abs(high))))
    while True:
        for factor in _STEPS:
            step = factor * Fraction(10) ** exponent
            first, last = math.ceil(low / step), math.floor(high / step)
            if first <= last and not (whole and step.denominator > 1):
                return float(min(max(round(point / step), first), last) * step)
        exponent -= 1


# --- dates ------------------------------------------------------------------------------------------------


def _dated(name: str, seconds: list[int], timed: bool, missing: bool) -> Attribute | None:
    """Return whole periods from the first of these times to the last, narrow ones where they are few."""
    low, high = min(seconds), max(seconds)
    first, last = low // DAY, high // DAY
    if not 1 <= first <= last <= _LAST_DAY:  # a zone may move a time out of the calendar
        return None
    if timed and high // 3600 - low // 3600 < _MOST_PERIODS:
        ends = _time(low - low % 3600), _time(high - high % 3600 + 3599)
        return DatetimeAttribute(name, *ends, width="hour", missing=missing)
    few = (
        one
        for one in ("day", "month", "quarter")
        if len(list(islice(day_starts(first, last, one), _MOST_PERIODS + 1))) <= _MOST_PERIODS
    )
    width = next(few, "year")
    first = next(day_starts(first, last, width))
    _, *following = islice(day_starts(last, min(last + 366, _LAST_DAY), width), 2)
    last = following[0] - 1 if following else _LAST_DAY
    if timed:
        ends = _time(first * DAY), _time(last * DAY + DAY - 1)
        return DatetimeAttribute(name, *ends, width=width, missing=missing)
    return DateAttribute(
        name, datetime.date.fromordinal(first), datetime.date.fromordinal(last), width=width, missing=missing
    )


def _time(second: int) -> datetime.datetime:
    return datetime.datetime.fromordinal(second // DAY) + datetime.timedelta(seconds=second % DAY)


def draft_schema(
    table: Place, public: PublicTable | None = None, looked: Mapping[str, ColumnKind] | None = None
) -> str:
    """Return a schema to fill in: one attribute per column, its domain a TODO.

    Args:
        table: where it is; of a CSV file the first line is read, of others the names and types.
        public: a table that the custodian declares to be public; its values fill the domains of the columns
            that both have. The draft names it, and holds what tells it again.
        looked: what the columns of a CSV file hold; None where nobody looked.

    Returns:
        TOML text, the same for all tables of the same columns and types, and of the same ``looked``.

    Privacy: no value of ``table`` is read here. Of ``public`` every value is, outside the guarantee.
    """
    names, kinds = table.names(), table.kinds()
    require_columns(table, names)
    filled = {} if public is None else dict(public_attributes(public.file, names))
    parts = [_head(table, public, is_looked_at=looked is not None)]
    marks = "" if public is None else "".join(f"    {json.dumps(mark)},\n" for mark in public.marks)
    parts.append('name = "records"\n' + ("" if public is None else f"drafted_from = [\n{marks}]\n"))
    parts += filter(None, [file_section(table)])
    for place, name in enumerate(names, start=1):
        why = _left_out(name, None if looked is None or name in filled else looked[name].kind)
        if why is not None:
            parts.append(f"# Column {place} is left out: {why}\n")
        elif looked is None or name in filled:
            parts.append(_section(name, kinds.get(name), filled.get(name)))
        else:
            parts.append(_looked_section(name, looked[name]))
    if looked is not None and not any(part.startswith("[[attributes]]") for part in parts):
        raise DataError(
            f"{table}: expected a table with a column to ask about, got ids or empty columns alone"
        )
    return "\n".join(parts)


def file_section(table: Place) -> str:
    """Return the section of a schema that says how a CSV file is written; empty where that is as usual."""
    told = table.dialect.unusual if isinstance(table, TableFile) else {}
    lines = [f"{name.removesuffix('s')} = {json.dumps(value)}" for name, value in told.items()]
    return "\n".join(["[file]", *lines, ""]) if lines else ""


def _left_out(name: str, kind: TextKind | None) -> str | None:
    """Return why a column has no section; None where it has one."""
    try:
        CategoricalAttribute(name, ("a",))
    except DomainError:
        return "it has no name that can be declared."
    if is_number(name):  # the first line may be a record
        return "its name is a number. Is there a header?"
    return None if kind not in _LEFT_OUT else f"{json.dumps(name)} {_LEFT_OUT[kind]}"


def _head(table: Place, public: PublicTable | None, *, is_looked_at: bool) -> str:
    """Return what a draft says of itself: what was read, and whose values stand in it."""
    may_look = _MAY_LOOK if isinstance(table, TableFile) and not table.is_parquet else ""
    read = _LOOKED if is_looked_at else _NO_VALUE + may_look
    if public is None:
        return read + _HEAD
    name = json.dumps(Path(public.file.path).name)
    if public.is_the_table:
        read = _IS_PUBLIC
    elif isinstance(table, TableFile):
        read = (read if is_looked_at else _NAMES_ALONE + may_look) + _COMPARED.format(name=name)
    return read + _HEAD + _DECLARED.format(name=name)


def _section(name: str, kind: str | None, filled: Attribute | None) -> str:
    if filled is not None:
        text = stored_schema(Domain((filled,)))
        notes = {"width": "or another, such as 30 minutes"} if isinstance(filled, TimeAttribute) else {}
        lines = text[text.index("[[attributes]]") :].splitlines(keepends=True)
        return "".join(_shown(line, _NOTES | notes) for line in lines)
    return _begun(name) + ("" if kind is None else f"# stored as {kind}\n") + _body(kind)


def _looked_section(name: str, looked: ColumnKind) -> str:
    """Return the section of a column by what its texts are: a reason, a question, and what to fill in."""
    question, body = _QUESTIONS[looked.kind]
    formats = [json.dumps(format) for format in looked.formats]
    if len(formats) == 1:
        body += f"format = {formats[0]}\n"
    elif formats:
        body += f'format = "TODO"    # {" or ".join(formats)}: each reads them\n'
    return f"{_begun(name)}# Its texts: {looked.kind.value}. {question}\n{body}"


def _begun(name: str) -> str:
    head, _, _ = stored_schema(Domain((CategoricalAttribute(name, ("a",)),))).partition("kind =")
    return head[head.index("[[attributes]]") :]


def _shown(line: str, notes: Mapping[str, str]) -> str:
    """Return a line of a filled section with whole numbers as such, and what there is to know of it."""
    key, _, value = line.partition(" = ")
    if key in ("edges", "atoms"):
        value = _POINT_ZERO.sub("", value)
    note = notes.get(key)
    if not value:
        return line
    return f"{key} = {value}" if note is None else f"{key} = {value.rstrip()}    # {note}\n"


def _body(kind: str | None) -> str:
    if kind is None:
        return _UNKNOWN
    if _WHOLE_TYPES.fullmatch(kind):
        return _INTEGER
    if _NUMBER_TYPES.fullmatch(kind):
        return _NUMERIC
    if kind.startswith("TIMESTAMP"):
        return _DATETIME
    return {"BOOLEAN": _BOOLEAN, "DATE": _DATE, "TIME": _TIME, "VARCHAR": _CATEGORICAL}.get(kind, _UNKNOWN)
