"""Parts of dates and times: numbers such as the month, starts of periods, texts by a format.

A part is one value in every period of one kind, so it is known where the cells lie inside such periods. Its
values are DuckDB's; seconds are those of ``queries.dates``.
"""

from __future__ import annotations

import datetime
import itertools
import re
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from queries.cells import quoted_name
from queries.comparisons import Position, quoted_text
from queries.dates import CLOCK_WIDTHS, DAY, Periods
from queries.domain import Attribute
from queries.errors import QueryError
from queries.frozen import dataclass

PERIODS = ("hour", "day", "week", "month", "quarter", "year")  # the shortest first
CALENDAR = DAY, (datetime.date.max.toordinal() + 1) * DAY  # its first second, and the one behind its last
NUMBERS = {
    "year": "year", "quarter": "quarter", "month": "month", "day": "day", "hour": "hour", "dow": "day",
    "isodow": "day", "doy": "day", "week": "week", "isoyear": "week", "yearweek": "week",
}  # fmt: skip  # parts that are numbers, and the period in which each is one number
_DIRECTIVES = {
    "%%": "year", "%Y": "year", "%y": "year", "%q": "quarter", "%m": "month", "%-m": "month", "%B": "month",
    "%b": "month", "%d": "day", "%-d": "day", "%j": "day", "%-j": "day", "%A": "day", "%a": "day",
    "%u": "day", "%w": "day", "%F": "day", "%H": "hour", "%-H": "hour", "%G": "week", "%V": "week",
}  # fmt: skip  # of the C library's strftime, in English, and the period in which each is one text
_TEXT_PIECES = re.compile(r"%-?.|[^%]+|%", re.DOTALL)
_EPOCH = f"{datetime.date(1970, 1, 1).toordinal() * DAY}e0"
_MOST_PERIODS = 1_000_000


def begins_in(shorter: str, longer: str) -> bool:
    """Tell whether every period of one kind lies inside one of another kind, as days do in weeks."""
    if shorter in CLOCK_WIDTHS:
        return CLOCK_WIDTHS.get(longer, DAY) % CLOCK_WIDTHS[shorter] == 0
    weeks = shorter == "week" and longer != "week"  # may begin in one month and end in the next
    return PERIODS.index(shorter) <= PERIODS.index(longer) and not weeks


def format_pieces(format: str) -> list[str]:
    """Return the directives of a format, and the texts between them."""
    pieces: list[str] = _TEXT_PIECES.findall(format)
    for piece in pieces:
        if piece.startswith("%") and piece not in _DIRECTIVES:
            raise ValueError(piece)
    return pieces


def _time(second: str) -> str:
    return f"make_timestamp(CAST({second} - {_EPOCH} AS BIGINT) * 1000000)"


def _second(time: str) -> str:
    return f"(epoch({time}) + {_EPOCH})"


@dataclass(frozen=True, slots=True)
class Step:
    """What is done to a time before a part of it is taken: it goes back to a period's start, then forward.

    Args:
        period: to whose start it goes back; empty for nowhere.
        months: added then; the last day of a month stands for days that the month does not have.
        seconds: added last.
    """

    period: str = ""
    months: int = 0
    seconds: int = 0

    def sql(self, second: str) -> str:
        """Return SQL of what becomes of a second; whatever leaves the calendar is outside of it."""
        most = 2 * CALENDAR[1]
        months, seconds = (max(-limit, min(limit, given)) for given, limit in (
            (self.months, most // DAY // 28), (self.seconds, most),
        ))  # fmt: skip
        if self.period:
            second = _second(f"date_trunc('{self.period}', {_time(second)})")
        if months:
            second = _second(f"{_time(second)} + to_months({months})")
        return f"({second} + {seconds}e0)" if seconds else second


@dataclass(frozen=True, slots=True)
class DatePart:
    """What of a date or time is asked for, such as its month, or the day on which its month begins.

    Args:
        kind: a ``number``, a ``text``, or a ``moment``: a date or time itself.
        what: the number's name, or the text's format (``format_pieces``); empty for a moment.
        steps: what is done before; of a time months are added behind a period's start alone.
    """

    kind: Literal["number", "text", "moment"]
    what: str = ""
    steps: tuple[Step, ...] = ()

    @property
    def periods(self) -> tuple[str, ...]:
        """The kinds of periods in which it is one value, if ``offset`` is added first; of a moment none."""
        found = [step.period for step in self.steps if step.period][:1]
        if self.moves_months:
            return ("day",)
        if found or self.kind == "moment":
            return tuple(found)
        if self.kind == "number":
            return (NUMBERS[self.what],)
        return tuple({_DIRECTIVES.get(piece, "year") for piece in format_pieces(self.what)}) or ("year",)

    @property
    def _before(self) -> list[Step]:
        return list(itertools.takewhile(lambda step: not step.period, self.steps))

    @property
    def offset(self) -> int:
        """Seconds that are added before a period begins."""
        return sum(step.seconds for step in self._before)

    @property
    def moves_months(self) -> bool:
        """Months are added to a day itself, which then may be the last one of its month."""
        return any(step.months for step in self._before)

    def moment(self, second: str) -> str:
        """Return SQL of what the steps make of a second."""
        for step in self.steps:
            second = step.sql(second)
        return second

    def sql(self, second: str) -> str:
        """Return SQL of the part of a second: a number of type DOUBLE, a text, or a second."""
        moment = self.moment(second)
        if self.kind == "number":
            return f"CAST(date_part('{self.what}', {_time(moment)}) AS DOUBLE)"
        if self.kind == "text":
            return time_text_sql(moment, self.what)
        return moment

    def shown(self, name: str) -> str:
        """Return how SQL writes it, of an attribute of some name."""
        if self.kind == "number":
            return f"{self.what.upper()}({name})"
        if self.kind == "text":
            return f"strftime({name}, '{self.what}')"
        periods = [step.period for step in self.steps if step.period]
        moved = f"{name} + INTERVAL" if self.offset else name
        return f"DATE_TRUNC('{periods[-1]}', {name})" if periods else moved

    # --- of an attribute

    def of(self, attribute: Attribute, position: Position) -> Periods:
        """Return the attribute, whose values have the part."""
        if not isinstance(attribute, Periods):
            message = f"holds no dates, and has no {self.shown(quoted_name(attribute.name))}"
        elif "day" not in attribute.widths and (self.kind, self.what, self.steps) != ("number", "hour", ()):
            message = (
                f"holds times of day, whose one part is HOUR({quoted_name(attribute.name)}); they are "
                f"compared with texts such as {attribute.literal(attribute.boundaries[0])}"
            )
        elif "hour" not in attribute.widths and ("hour" in self.periods or self.offset % DAY):
            message = "holds dates, which have no hours; kind = 'datetime' with width = 'hour' has them"
        else:
            return attribute
        raise QueryError(f"attribute {attribute.name!r} {message}", code="wrong_kind", position=position)

    def starts(self, attribute: Periods, position: Position) -> NDArray[np.int64] | None:
        """Return the seconds at which its value may change, within the declared ends; None for any second."""
        periods = self.periods or (("day",) if attribute.scale == DAY else ())
        first, last, ahead = (
            *attribute.boundaries[:: len(attribute.boundaries) - 1],
            self.offset // attribute.scale,
        )
        for period in set(periods) & {"hour", "day"}:
            if (last - first) // (3600 if period == "hour" else attribute.day) > _MOST_PERIODS:
                raise QueryError(
                    f"attribute {attribute.name!r} has more than {_MOST_PERIODS:,} periods of one {period}; "
                    "compare with a longer one",
                    code="too_large",
                    position=position,
                )
        try:
            found = [
                one - ahead
                for period in periods
                for one in attribute.starts(first + ahead, last - 1 + ahead, period)
            ]
        except (ValueError, OverflowError):
            raise self.past_end(attribute, position) from None
        return np.array(found, dtype=np.int64) * attribute.scale if periods else None

    def past_end(self, attribute: Periods, position: Position) -> QueryError:
        """Return the error of a part that leaves the calendar."""
        shown = self.shown(quoted_name(attribute.name))
        return QueryError(
            f"attribute {attribute.name!r} leaves the calendar, which ends with the year 9999, at {shown}",
            code="wrong_kind",
            position=position,
        )

    def is_nowhere(self, attribute: Periods, position: Position) -> QueryError:
        """Return the error of a comparison that no declared value satisfies."""
        first, last = map(attribute.literal, (attribute.ends[0], attribute.last))
        return QueryError(
            f"an empty range: attribute {attribute.name!r} goes from {first} to {last}, and no such "
            f"{self.shown(quoted_name(attribute.name))} lies there",
            code="empty_range",
            position=position,
        )

    def cuts(self, attribute: Periods, position: Position) -> QueryError:
        """Return the error of a part that has several values in one cell; it names the width that decides."""
        name = quoted_name(attribute.name)
        fitting = [
            width
            for width in attribute.widths
            if self.periods and all(begins_in(width, one) for one in (*self.periods, attribute.width))
        ]
        if self.offset:
            lengths = {"hour": 3600, "day": DAY}
            fitting = [width for width in fitting if width in lengths and self.offset % lengths[width] == 0]
        way = f"declare {attribute.name!r} with width = {fitting[-1]!r}, or " if fitting else ""
        length = attribute.width if " " in attribute.width else f"one {attribute.width}"
        message = (
            f"{self.shown(name)} cuts cells: those of {attribute.name!r} are of {length} each; "
            f"{way}GROUP BY {name}, which counts each {attribute.width}"
        )
        return QueryError(message, code="unaligned", position=position)


def time_text_sql(second: str, format: str) -> str:
    """Return SQL of the text of a second by a format; %q, the quarter, is none of DuckDB's."""
    found = list[str]()
    for is_quarter, pieces in itertools.groupby(format_pieces(format), lambda piece: piece == "%q"):
        text = "".join("%Y-%m-%d" if piece == "%F" else piece for piece in pieces)
        found.append(
            f"repeat(CAST(quarter({_time(second)}) AS VARCHAR), {len(text) // 2})"
            if is_quarter
            else f"strftime({_time(second)}, {quoted_text(text)})"
        )
    return f"({' || '.join(found)})" if found else "''"


def moment_text_sql(second: str) -> str:
    """Return SQL of a second as ISO writes it, without the time of day where it is midnight."""
    length = f"CASE WHEN {second} % 86400 = 0 THEN 10 WHEN {second} % 60 = 0 THEN 16 ELSE 19 END"
    return f"left(strftime({_time(second)}, '%Y-%m-%d %H:%M:%S'), {length})"
