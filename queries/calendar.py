"""The calendar: dates and times as whole numbers, their periods and parts, and how texts write them.

A date is its number of days (1 January of the year 1 is day 1), a time the number of seconds that the clock
of one declared zone shows, counted like the days. So an hour that a clock shows twice in autumn is one hour
that holds twice as much, and one that it leaves out in spring is an hour like any other, which may be empty.

Texts are ISO 8601 (``2023-03-31``, ``2023-03-31 14:05``, ``2023-03-31T14:05:09.5Z``, ``…+02:00``), or as a
declared format says. Fractions of a second are cut off.
"""

from __future__ import annotations

import datetime
import re
from calendar import monthrange
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal
from zoneinfo import ZoneInfo

from queries.plain_values import whole_text

DAY = 86_400  # seconds
EPOCH = datetime.date(1970, 1, 1).toordinal() * DAY  # the second from which numpy and files count
_LAST_DAY = datetime.date.max.toordinal()
PERIODS = ("hour", "day", "week", "month", "quarter", "year")  # the shortest first

_ISO = re.compile(
    r"[ \t]*(?P<Y>[0-9]{4})-(?P<m>[0-9]{2})-(?P<d>[0-9]{2})"
    r"(?:[T ](?P<H>[0-9]{2}):(?P<M>[0-9]{2})(?::(?P<S>[0-9]{2})(?:\.[0-9]{1,12})?)?"
    r"(?P<zone>Z|[+-][0-9]{2}(?::?[0-9]{2}(?::[0-9]{2})?)?)?)?[ \t]*"
)
_LONGEST = 80  # characters of a text that is read
_DIRECTIVES = {"Y": "[0-9]{4}", **dict.fromkeys("mdHMS", "[0-9]{1,2}")}
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SHORT_MONTHS = tuple(name[:3].casefold() for name in _MONTHS)


# --- texts ------------------------------------------------------------------------------------------------


def read_days(value: object, format: str | None = None) -> int | None:
    """Return the day of a text, or None where it is none; a time of day is left out.

    A time in a zone of its own is none: its day depends on the zone.

    Args:
        value: a text, or with a format also a whole number; anything else is no date.
        format: another way to write dates than ISO's; None for none.
    """
    found = _matched(value, format)
    shown = None if found is None or found.get("zone") else _shown(found)
    return None if shown is None else shown // DAY


def read_seconds(value: object, zone: str, format: str | None = None) -> int | None:
    """Return the second of a text that the clock of a zone shows then, or None where it is no time.

    A text without a zone is what the clock shows; a date alone is its midnight.

    Args:
        value: as for ``read_days``.
        zone: the name of the zone.
        format: another way to write times than ISO's; None for none.
    """
    found = _matched(value, format)
    shown = None if found is None else _shown(found)
    written = (found or {}).get("zone")
    if shown is None or not written:
        return shown
    offset = _offset(written)
    return None if offset is None else _on_clock(shown - offset, zone_named(zone))


def _matched(value: object, format: str | None) -> dict[str, str | None] | None:
    if type(value) in (int, float) and format is not None:
        # A column of whole numbers becomes one of floats where one value of it is empty.
        value = str(value) if type(value) is int else whole_text(value)  # type: ignore[arg-type]  # by its type
    if not isinstance(value, str) or len(value) > _LONGEST:
        return None
    match = _ISO.fullmatch(value)
    if match is None and format is not None:
        match = format_pattern(format).fullmatch(value)
    return None if match is None else match.groupdict()


def _shown(found: dict[str, str | None]) -> int | None:
    """Return the second that a text shows, whatever its zone, or None where there is no such time."""
    day = _day(found)
    hour, minute, second = (int(found.get(name) or 0) for name in "HMS")
    if day is None or hour > 23 or minute > 59 or second > 59:
        return None
    return day * DAY + hour * 3600 + minute * 60 + second


def _day(found: dict[str, str | None]) -> int | None:
    name = found.get("b")
    month = int(found["m"] or 0) if name is None else _SHORT_MONTHS.index(name.casefold()) + 1
    try:
        return datetime.date(int(found["Y"] or 0), month, int(found["d"] or 0)).toordinal()
    except ValueError:  # 29 February, for one
        return None


def _offset(text: str) -> int | None:
    """Return the seconds of an offset such as ``+02:00``, or None where there is no such offset."""
    if text == "Z":
        return 0
    digits = text[1:].replace(":", "").ljust(6, "0")
    hours, minutes, seconds = (int(digits[place : place + 2]) for place in (0, 2, 4))
    if hours > 23 or minutes > 59 or seconds > 59:
        return None
    return (1 if text[0] == "+" else -1) * (hours * 3600 + minutes * 60 + seconds)


def _on_clock(instant: int, zone: ZoneInfo) -> int:
    """Return what the clock of a zone shows at a second of universal time."""
    try:
        known = datetime.datetime.fromordinal(instant // DAY) + datetime.timedelta(seconds=instant % DAY)
        offset = known.replace(tzinfo=datetime.UTC).astimezone(zone).utcoffset()
    except (ValueError, OverflowError):  # at the ends of the calendar
        return instant
    return instant if offset is None else instant + round(offset.total_seconds())


@cache
def zone_named(name: str) -> ZoneInfo:
    """Return a time zone.

    Raises:
        ValueError: there is none of this name.
    """
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # KeyError: no such zone is known here
        raise ValueError(name) from None


@lru_cache(maxsize=256)
def format_pattern(format: str) -> re.Pattern[str]:
    """Return what matches texts of a format: %Y, %m or %b, %d, and %H, %M, %S; anything else stands as it is.

    Raises:
        ValueError: it says of what a format needs; or the format would read ISO texts in another way.
    """
    pattern, seen = "", ""
    for directive, letter in re.findall(r"(%(.?)|[^%])", format, re.DOTALL):
        if not directive.startswith("%") or letter == "%":
            pattern += re.escape(letter or directive)
        elif letter == "b":
            pattern += f"(?P<b>(?i:{'|'.join(_SHORT_MONTHS)}))"
        elif letter in _DIRECTIVES and letter:
            pattern += f"(?P<{letter}>{_DIRECTIVES[letter]})"
        else:
            raise ValueError(f"%{letter} is none of %Y, %m, %b, %d, %H, %M, %S, %%")
        seen += letter.replace("%", "")
    if sorted(seen.replace("b", "m").rstrip("HMS")) != ["Y", "d", "m"] or seen.lstrip("Ymbd") not in (
        "",
        "HM",
        "HMS",
    ):
        raise ValueError("it needs %Y, %m or %b, and %d once each, then at most %H, %M and %S")
    compiled = re.compile(rf"[ \t]*{pattern}[ \t]*")
    match = compiled.fullmatch("2001-02-03") or compiled.fullmatch("2001-02-03 04:05:06")
    if match is not None and match.groupdict().get("m") != "02":
        raise ValueError("it reads ISO dates in another way, and these are always read")
    return compiled


# --- periods ----------------------------------------------------------------------------------------------


def day_starts(first: int, last: int, period: str) -> Iterator[int]:
    """Yield the days on which periods begin, from that of ``first`` to that of ``last``.

    Args:
        first: a day.
        last: a day that is not before it.
        period: day, week (from Monday), month, quarter or year.
    """
    if period in ("day", "week"):
        step = 1 if period == "day" else 7
        yield from range(first - (first - 1) % step, last + 1, step)  # day 1 is a Monday
        return
    months = {"month": 1, "quarter": 3, "year": 12}[period]
    began = datetime.date.fromordinal(first)
    number = (began.year * 12 + began.month - 1) // months
    while True:
        year, month = divmod(number * months, 12)
        if year > datetime.MAXYEAR:
            return
        start = datetime.date(year, month + 1, 1).toordinal()
        if start > last:
            return
        yield start
        number += 1


def begins_in(shorter: str, longer: str) -> bool:
    """Tell whether every period of one kind lies inside one of another kind, as days do in weeks."""
    weeks = shorter == "week" and longer != "week"  # may begin in one month and end in the next
    return PERIODS.index(shorter) <= PERIODS.index(longer) and not weeks


def period_start(second: int, period: str) -> int:
    """Return the second on which the period begins that a second lies in."""
    if period == "hour":
        return second - second % 3600
    return next(day_starts(second // DAY, second // DAY, period)) * DAY


def date_text(day: int) -> str:
    """Return a day as ISO writes it; past the last day of the calendar the words for it."""
    return datetime.date.fromordinal(day).isoformat() if day <= _LAST_DAY else "the calendar's end"


def time_text(second: int) -> str:
    """Return a second as ISO writes it, without the time of day where it is midnight."""
    day, rest = divmod(second, DAY)
    if rest == 0:
        return date_text(day)
    minutes = f"{rest // 3600:02}:{rest // 60 % 60:02}"
    return f"{date_text(day)} {minutes}" + (f":{rest % 60:02}" if rest % 60 else "")


def period_text(first: int, last: int, period: str) -> str:
    """Return what a period is called: ``2023-03-31``, ``2023-03``, ``2023-Q1``, ``2023``; a week by its days.

    Args:
        first: its first declared day.
        last: its last.
        period: day, week, month, quarter or year.
    """
    date = datetime.date.fromordinal(first)
    if period == "week" and first < last:
        return f"{date_text(first)}..{date_text(last)}"
    if period in ("day", "week"):
        return date_text(first)
    year, quarter = f"{date.year:04}", (date.month + 2) // 3
    names = {"month": f"{year}-{date.month:02}", "quarter": f"{year}-Q{quarter}", "year": year}
    return names[period]


def time_on_clock(moment: datetime.datetime, zone: str) -> datetime.datetime:
    """Return what the clock of a zone shows at a time that has one; a zone that is none changes nothing."""
    try:
        return moment.astimezone(zone_named(zone)).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return moment


def seconds_of(moment: datetime.datetime) -> int:
    """Return the second of a time without a zone."""
    return moment.toordinal() * DAY + moment.hour * 3600 + moment.minute * 60 + moment.second


# --- parts ------------------------------------------------------------------------------------------------

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
        time = datetime.datetime.fromordinal(start // DAY) + datetime.timedelta(seconds=start % DAY)
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
        return f"DATE_TRUNC('{periods[-1]}', {name})" if periods else f"{name} + INTERVAL"


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
