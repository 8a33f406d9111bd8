"""Parts of dates and times: numbers such as the month, starts of periods, texts by a format.

A part is one value in every period of one kind, so it is known where the cells lie inside such periods.
"""

from __future__ import annotations

import datetime
import re
from calendar import monthrange
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Literal

from queries.calendar import DAY, day_starts, time_text
from queries.frozen import dataclass

PERIODS = ("hour", "day", "week", "month", "quarter", "year")  # the shortest first
_LAST_DAY = datetime.date.max.toordinal()
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_Reading = Callable[[datetime.datetime], str]

NUMBERS: dict[str, tuple[str, Callable[[datetime.datetime], int]]] = {
    "year": ("year", lambda time: time.year),
    "quarter": ("quarter", lambda time: (time.month + 2) // 3),
    "month": ("month", lambda time: time.month),
    "day": ("day", lambda time: time.day),
    "hour": ("hour", lambda time: time.hour),
    "dow": ("day", lambda time: time.isoweekday() % 7),
    "isodow": ("day", lambda time: time.isoweekday()),
    "doy": ("day", lambda time: time.timetuple().tm_yday),
    "week": ("week", lambda time: time.isocalendar().week),
    "isoyear": ("week", lambda time: time.isocalendar().year),
    "yearweek": ("week", lambda time: time.isocalendar().year * 100 + time.isocalendar().week),
}  # parts that are numbers: the period in which each is one number, and that number

_DIRECTIVE_TEXTS: dict[str, tuple[str, _Reading]] = {
    "%Y": ("year", lambda time: f"{time.year:04}"),
    "%y": ("year", lambda time: f"{time.year % 100:02}"),
    "%q": ("quarter", lambda time: str((time.month + 2) // 3)),
    "%m": ("month", lambda time: f"{time.month:02}"),
    "%-m": ("month", lambda time: str(time.month)),
    "%B": ("month", lambda time: _MONTHS[time.month - 1]),
    "%b": ("month", lambda time: _MONTHS[time.month - 1][:3]),
    "%d": ("day", lambda time: f"{time.day:02}"),
    "%-d": ("day", lambda time: str(time.day)),
    "%j": ("day", lambda time: f"{time.timetuple().tm_yday:03}"),
    "%-j": ("day", lambda time: str(time.timetuple().tm_yday)),
    "%A": ("day", lambda time: _DAYS[time.weekday()]),
    "%a": ("day", lambda time: _DAYS[time.weekday()][:3]),
    "%u": ("day", lambda time: str(time.isoweekday())),
    "%w": ("day", lambda time: str(time.isoweekday() % 7)),
    "%H": ("hour", lambda time: f"{time.hour:02}"),
    "%-H": ("hour", lambda time: str(time.hour)),
    "%G": ("week", lambda time: f"{time.isocalendar().year:04}"),
    "%V": ("week", lambda time: f"{time.isocalendar().week:02}"),
}
_TEXT_PIECES = re.compile(r"%-?.|[^%]+|%", re.DOTALL)


def begins_in(shorter: str, longer: str) -> bool:
    """Tell whether every period of one kind lies inside one of another kind, as days do in weeks."""
    weeks = shorter == "week" and longer != "week"  # may begin in one month and end in the next
    return PERIODS.index(shorter) <= PERIODS.index(longer) and not weeks


def period_start(second: int, period: str) -> int:
    """Return the second on which the period begins that a second lies in."""
    if period == "hour":
        return second - second % 3600
    return next(day_starts(second // DAY, second // DAY, period)) * DAY


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

    def apply(self, second: int) -> int:
        """Return what becomes of a second.

        Raises:
            ValueError: it lies outside of the calendar.
        """
        if self.period:
            second = period_start(second, self.period)
        if self.months:
            day, rest = divmod(second, DAY)
            date = datetime.date.fromordinal(day)
            year, month = divmod(date.year * 12 + date.month - 1 + self.months, 12)
            if not datetime.MINYEAR <= year <= datetime.MAXYEAR:
                raise ValueError(f"year {year}")
            last = min(date.day, monthrange(year, month + 1)[1])
            second = datetime.date(year, month + 1, last).toordinal() * DAY + rest
        second += self.seconds
        if not DAY <= second < (_LAST_DAY + 1) * DAY:
            raise ValueError(f"second {second}")
        return second


@dataclass(frozen=True, slots=True)
class DatePart:
    """What of a date or time is asked for, such as its month, or the day on which its month begins.

    Args:
        kind: a ``number``, a ``text``, or a ``moment``: a date or time itself.
        what: the number's name, or the text's format (``format_texts``); empty for a moment.
        steps: what is done before; months are added behind the first period's start alone.
    """

    kind: Literal["number", "text", "moment"]
    what: str = ""
    steps: tuple[Step, ...] = ()

    @property
    def period(self) -> str:
        """The longest period in which it is one value, if ``offset`` is added first; empty for none."""
        found = [step.period for step in self.steps if step.period]
        if found or self.kind == "moment":
            return found[0] if found else ""
        if self.kind == "number":
            return NUMBERS[self.what][0]
        return _common_period([period for period, _ in format_texts(self.what)])

    @property
    def offset(self) -> int:
        """Seconds that are added before a period begins."""
        return sum(step.seconds for step in self.steps[: self._first])

    @property
    def _first(self) -> int:
        """The place of the first step that goes back to a period's start."""
        return next((place for place, step in enumerate(self.steps) if step.period), len(self.steps))

    def value(self, start: int) -> int | str:
        """Return it in the period that begins on a second; a moment is a second.

        Raises:
            ValueError: a step leaves the calendar.
        """
        for step in self.steps[self._first :]:
            start = step.apply(start)
        if self.kind == "moment":
            return start
        time = datetime.datetime.fromordinal(start // DAY)
        if start % DAY:
            time += datetime.timedelta(seconds=start % DAY)
        if self.kind == "number":
            return NUMBERS[self.what][1](time)
        return "".join(text(time) for _, text in format_texts(self.what))

    def label(self, value: int | str) -> int | str:
        """Return how a group shows a value: a moment as ISO writes it."""
        return time_text(int(value)) if self.kind == "moment" else value

    def shown(self, name: str) -> str:
        """Return how SQL writes it, of an attribute of some name."""
        if self.kind == "number":
            return f"{self.what.upper()}({name})"
        if self.kind == "text":
            return f"strftime({name}, '{self.what}')"
        periods = [step.period for step in self.steps if step.period]
        moved = f"{name} + INTERVAL" if self.offset else name
        return f"DATE_TRUNC('{periods[-1]}', {name})" if periods else moved


@lru_cache(maxsize=256)
def format_texts(format: str) -> tuple[tuple[str, _Reading], ...]:
    """Return the texts that a format is made of, each with the period in which it is the same.

    Its directives are those of the C library's strftime, in English; %q is the quarter.

    Raises:
        ValueError: names a directive that no cells can decide, or that is unknown.
    """
    found: list[tuple[str, _Reading]] = []
    for piece in _TEXT_PIECES.findall(format.replace("%F", "%Y-%m-%d")):
        known = _DIRECTIVE_TEXTS.get(piece)
        if known is None and piece.startswith("%") and piece != "%%":
            raise ValueError(piece)
        found.append(known or ("year", _constant_text("%" if piece == "%%" else piece)))
    return tuple(found)


def _constant_text(text: str) -> _Reading:
    return lambda _: text


def _common_period(periods: Sequence[str]) -> str:
    """Return the longest period that lies inside one of each kind."""
    return next(
        period for period in reversed(PERIODS) if all(begins_in(period, longer) for longer in periods)
    )
