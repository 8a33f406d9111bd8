"""Kinds of texts: what the columns of a CSV file hold, which stores no types, and nothing of what they say.

The first line is taken for the names. In a file without one it is a record, which a draft then tells unless
most of it is numbers.

Every other record is read, as a session reads it. A kind is what at least 99 % of the texts of a column are,
empty ones apart; texts that often mark an empty value, such as ``NA``, count as empty. So a record changes a
kind only where another one of the same text would do so too: at the boundary of 99 %.

Privacy: a kind is no private release, for it follows from the records without noise. It is for the custodian,
    who declares what is known in public.
"""

from __future__ import annotations

import enum
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from pmw.data.csv_file import MARKERS, csv_parts, swapped_decimal
from pmw.data.files import TableFile
from pmw.data.tables import Place
from pmw.errors import DataError
from queries.dates import read_clock, read_seconds
from queries.frozen import dataclass

WARNING = "the kinds are read off the table, exact and not private: declare only what is public"

_EMPTY = MARKERS | {""}
_MOST = 99  # percent; so many of something are nearly all
_FEW = 200  # texts; where these are nearly all, they are few
_LEAST = 20  # texts, of which one can say that they differ from each other as ids do
_AT_ONCE = 2**16  # texts of a part of the file, or several, before they are added up

WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]{0,14})")  # not 007: that is a code
NUMBER = re.compile(r"[+-]?((0|[1-9][0-9]{0,14})(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_WHOLE_AS_FLOAT = re.compile(WHOLE.pattern + r"(\.0*)?")
_SEPARATED = re.compile("[+-]?[0-9]+([,.' \u00a0\u202f][0-9]{3})*([,.][0-9]+)?")
_DIGITS = re.compile(r"[0-9]+")
_LIKE_A_DATE = re.compile(r"[0-9]{1,4}([./-])[0-9]{1,2}\1[0-9]{1,4}([T ].*)?")
_EIGHT_DIGITS = re.compile(r"(18|19|20|21)[0-9]{6}")
_LENGTHS = [f"{number} digits" for number in range(3, 16)]  # that codes may have
_DAYS = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d"),
    *("%d %b %Y", "%d-%b-%Y", "%b %d %Y", "%b %d, %Y"),
)
FORMATS = tuple(day + time for day in _DAYS for time in ("", " %H:%M", " %H:%M:%S"))


class TextKind(enum.Enum):
    """What nearly all texts of a column are."""

    EMPTY = "empty"
    WHOLE = "whole numbers"
    ALIKE = "whole numbers of one length"
    NUMBERS = "numbers"
    SEPARATED = "numbers with another decimal sign, or thousands apart"
    DAYS = "dates"
    TIMES = "dates with times of day"
    ZONED = "dates with times of day and a zone"
    UNREAD = "dates that no format reads, or in several ways"
    CLOCK = "times of day"
    CODES = "codes of digits"
    IDS = "different from each other, as ids are"
    FEW = "few different texts"
    MANY = "many different texts"
    MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """What a column holds.

    Args:
        formats: of ``FORMATS``, those by which dates are read that are not written as ISO 8601 does.
    """

    kind: TextKind
    formats: tuple[str, ...] = ()


def require_columns(table: Place, names: Sequence[str]) -> None:
    """Refuse a table whose columns cannot be told apart."""
    first: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        if first.setdefault(name, place) != place:  # not quoted: without a header it is a value
            raise DataError(f"{table}: columns {first[name]} and {place} have the same name; rename one")
    for delimiter, option in ((";", "';'"), ("\t", "tab"), ("|", "'|'")):
        if len(names) == 1 and delimiter in names[0]:
            raise DataError(
                f"{table}: expected several columns in the first line, got one; give --delimiter {option}"
            )


def column_kinds(table: TableFile) -> dict[str, ColumnKind]:
    """Return what the columns of a CSV file hold, by their names; the whole file is read.

    Privacy: outside the guarantee, for the custodian alone.
    """
    names = table.names()
    require_columns(table, names)
    tallies = {name: _Tally(name, table.dialect.decimal) for name in names}
    read = malformed = 0
    for part in csv_parts(table.path, names, table.dialect):
        for name, tally in tallies.items():
            tally.add(Counter(part.columns[name].series()))
        malformed += len(part.malformed)
        read += len(part.malformed) + max(map(len, part.columns.values()), default=0)
    if malformed and _are_most(malformed, read, 100 - _MOST):
        raise DataError(
            f"{table}: expected lines of as many fields as the first has, got others in at least "
            f"{100 - _MOST} of 100 lines; name the delimiter, the quote or the encoding, or mend the file"
        )
    if 2 * sum(tally.is_named_as_a_text for tally in tallies.values()) > len(tallies):
        raise DataError(
            f"{table}: expected column names in the first line, got what may be a record: most of them are "
            "numbers, or stand among the texts of their columns; write names there"
        )
    return {name: tally.kind() for name, tally in tallies.items()}


def _are_most(some: int, everything: int, percent: int = _MOST) -> bool:
    return 100 * some >= percent * everything


class _Tally:
    """Counts what the texts of a column are, and how often each stands there.

    Texts are kept as hashes, 16 bytes each with its number.
    """

    def __init__(self, name: str, decimal: str) -> None:
        self._name, self._decimal = name, decimal
        self._rows = self._given = self._named = 0
        self._forms: Counter[str] = Counter()
        self._hashes: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
        self._times: list[NDArray[np.int64]] = [np.empty(0, np.int64)]

    def add(self, texts: Counter[str]) -> None:
        """Count some texts, each with its number."""
        self._rows += texts.total()
        given = {text: count for text, count in texts.items() if text.strip().casefold() not in _EMPTY}
        self._given += sum(given.values())
        self._named += given.get(self._name, 0)
        for text, count in given.items():
            for form in _forms(text.strip(" \t"), self._decimal):
                self._forms[form] += count
        self._hashes.append(np.fromiter(map(hash, given), np.int64, len(given)))
        self._times.append(np.fromiter(given.values(), np.int64, len(given)))
        if sum(map(len, self._times[1:])) > max(_AT_ONCE, len(self._times[0])):
            self._merge()

    def _merge(self) -> None:
        hashes, places = np.unique(np.concatenate(self._hashes), return_inverse=True)
        times = np.zeros(hashes.size, np.int64)
        np.add.at(times, places, np.concatenate(self._times))
        self._hashes, self._times = [hashes], [times]

    @property
    def is_named_as_a_text(self) -> bool:
        """The column's name is a number, or the text of at least 1 % of its records."""
        is_text = self._given > 0 and _are_most(self._named, self._given, 100 - _MOST)
        return is_text or NUMBER.fullmatch(self._name) is not None

    def kind(self) -> ColumnKind:
        if _are_most(self._rows - self._given, self._rows):
            return ColumnKind(TextKind.EMPTY)
        return self._dates() or ColumnKind(self._others())

    def _are(self, *forms: str) -> bool:
        """Return whether nearly all texts have one of some forms, of which no text has two."""
        return _are_most(sum(self._forms[form] for form in forms), self._given)

    def _dates(self) -> ColumnKind | None:
        """Return in what way the texts are dates; None where they are none."""
        if self._are("day"):
            return ColumnKind(TextKind.DAYS)
        if self._are("day", "time"):
            return ColumnKind(TextKind.TIMES)
        if self._are("day", "time", "zoned"):
            return ColumnKind(TextKind.ZONED)
        formats = tuple(one for one in FORMATS if self._are("day", "time", "zoned", one))
        if formats:
            return ColumnKind(TextKind.TIMES if "%H" in formats[0] else TextKind.DAYS, formats)
        return ColumnKind(TextKind.UNREAD) if self._are("day", "time", "zoned", "dated") else None

    def _others(self) -> TextKind:
        """Return what the texts are that are no dates."""
        self._merge()
        few = _are_most(int(np.sort(self._times[0])[-_FEW:].sum()), self._given)
        are_different = self._given >= _LEAST and _are_most(self._times[0].size, self._given)
        texts = TextKind.IDS if are_different else TextKind.FEW if few else TextKind.MANY
        whole = TextKind.ALIKE if any(map(self._are, _LENGTHS)) else TextKind.WHOLE
        kinds = (
            (("clock",), TextKind.CLOCK),
            (("whole",), TextKind.IDS if are_different and not few else whole),
            (("whole", "number"), TextKind.NUMBERS),
            (("whole", "digits"), TextKind.IDS if are_different else TextKind.CODES),
            (("whole", "number", "separated"), TextKind.SEPARATED),
            (("text",), texts),
        )
        return next((kind for forms, kind in kinds if self._are(*forms)), TextKind.MIXED)


def _forms(text: str, decimal: str) -> Iterator[str]:
    """Yield the forms of a text: one, of a date with each format that reads it, of digits with how many."""
    if read_seconds(text, "UTC") is not None:
        of_day = text[len("2023-03-31") :]
        yield "day" if not of_day else "zoned" if any(one in of_day for one in "Z+-") else "time"
        return
    number = swapped_decimal(text) if decimal == "," else text
    shaped = [
        one for one in _BY_SHAPE.get(_shape(text), ()) if one != "%Y%m%d" or _EIGHT_DIGITS.fullmatch(text)
    ]
    formats = [one for one in shaped if read_seconds(text, "UTC", one) is not None]
    yield from formats
    if _LIKE_A_DATE.fullmatch(text) or (formats and formats != ["%Y%m%d"]):
        yield "dated"
    elif _WHOLE_AS_FLOAT.fullmatch(number):
        yield from ("whole", f"{len(text)} digits") if _DIGITS.fullmatch(text) else ("whole",)
    elif NUMBER.fullmatch(number):
        yield "number"
    elif _DIGITS.fullmatch(text):
        yield "digits"
    elif read_clock(text) is not None:
        yield "clock"
    else:
        yield "separated" if _SEPARATED.fullmatch(text) else "text"


def _shape(text: str) -> str:
    """Return a text, or a format, with one letter in place of its words and one digit of its numbers."""
    return re.sub("[A-Za-z]+", "a", re.sub("([0-9]|%[YmdHMS])+", "9", text.replace("%b", "a")))


_BY_SHAPE = {shape: tuple(found) for shape, found in groupby(sorted(FORMATS, key=_shape), _shape)}
