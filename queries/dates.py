"""Dates, times and times of day as whole numbers, how texts write them, and attributes: periods as cells.

A date is its number of days (1 January of the year 1 is day 1), a time the number of seconds that the clock
of one declared zone shows, counted like the days. So an hour that a clock shows twice in autumn is one hour
that holds twice as much, and one that it leaves out in spring is an hour like any other, which may be empty.

Texts are ISO 8601 (``2023-03-31``, ``2023-03-31 14:05``, ``2023-03-31T14:05:09.5Z``, ``…+02:00``), or as a
declared format says. Fractions of a second are cut off. A time of day is the number of seconds since
midnight; texts of it are ``14:05``, ``14:05:09.5`` or ``2:05 pm``, and 24:00 is none.
"""

from __future__ import annotations

import datetime
import re
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import field
from functools import cache, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

from queries.cells import MOST_CELLS, OrderedCells, nearest
from queries.frozen import dataclass
from queries.plain_values import whole_text

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

DAY = 86_400  # seconds
EPOCH = datetime.date(1970, 1, 1).toordinal() * DAY  # the second from which numpy and files count
_LAST_DAY = datetime.date.max.toordinal()

_ISO = re.compile(
    r"[ \t]*(?P<Y>[0-9]{4})-(?P<m>[0-9]{2})-(?P<d>[0-9]{2})"
    r"(?:[T ](?P<H>[0-9]{2}):(?P<M>[0-9]{2})(?::(?P<S>[0-9]{2})(?:\.[0-9]{1,12})?)?"
    r"(?P<zone>Z|[+-][0-9]{2}(?::?[0-9]{2}(?::[0-9]{2})?)?)?)?[ \t]*"
)
_CLOCK = re.compile(
    r"[ \t]*(?P<H>[0-9]{1,2}):(?P<M>[0-9]{2})(?::(?P<S>[0-9]{2})(?:\.[0-9]{1,12})?)?"
    r"(?: ?(?P<half>[AaPp])[Mm])?[ \t]*"
)
CLOCK_WIDTHS = {
    "minute": 60, **{f"{number} minutes": 60 * number for number in (5, 10, 15, 20, 30)},
    "hour": 3600, **{f"{number} hours": 3600 * number for number in (2, 3, 4, 6, 8, 12)},
}  # fmt: skip  # seconds of the periods that are counted from midnight
_LONGEST = 80  # characters of a text that is read
_DIRECTIVES = {"Y": "[0-9]{4}", **dict.fromkeys("mdHMS", "[0-9]{1,2}")}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


# --- texts ------------------------------------------------------------------------------------------------


def read_seconds(value: object, zone: str, format: str | None = None) -> int | None:
    """Return the second of a text that the clock of a zone shows then, or None where it is no time.

    A text without a zone is what the clock shows; a date alone is its midnight. ``format`` is another way to
    write times than ISO's, perhaps as whole numbers.
    """
    found = _matched(value, format)
    shown = None if found is None else _shown(found)
    written = (found or {}).get("zone")
    if shown is None or not written:
        return shown
    offset = _offset(written)
    return None if offset is None else _on_clock(shown - offset, zone_named(zone))


def read_clock(value: object) -> int | None:
    """Return the second of the day that a text shows, or None where it is no time of day."""
    match = _CLOCK.fullmatch(value) if isinstance(value, str) and len(value) <= _LONGEST else None
    return None if match is None else _of_day(match.groupdict())


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
    name = found.get("b")
    month = int(found["m"] or 0) if name is None else _MONTHS.index(name.casefold()) + 1
    try:
        day = datetime.date(int(found["Y"] or 0), month, int(found["d"] or 0)).toordinal()
    except ValueError:  # 29 February, for one
        return None
    second = _of_day(found)
    return None if second is None else day * DAY + second


def _of_day(found: dict[str, str | None]) -> int | None:
    """Return the second of the day that a text shows, or None where no clock shows it."""
    hour, minute, second = (int(found.get(name) or 0) for name in "HMS")
    half = found.get("half")
    if half:
        hour = hour % 12 + 12 * (half in "Pp") if 1 <= hour <= 12 else 24
    return None if hour > 23 or minute > 59 or second > 59 else hour * 3600 + minute * 60 + second


def _offset(text: str) -> int | None:
    if text == "Z":
        return 0
    digits = text[1:].replace(":", "").ljust(6, "0")
    hours, minutes, seconds = (int(digits[place : place + 2]) for place in (0, 2, 4))
    if hours > 23 or minutes > 59 or seconds > 59:
        return None
    return (1 if text[0] == "+" else -1) * (hours * 3600 + minutes * 60 + seconds)


def _on_clock(instant: int, zone: ZoneInfo) -> int:
    try:
        known = datetime.datetime.fromordinal(instant // DAY) + datetime.timedelta(seconds=instant % DAY)
        offset = known.replace(tzinfo=datetime.UTC).astimezone(zone).utcoffset()
    except (ValueError, OverflowError):  # at the ends of the calendar
        return instant
    return instant if offset is None else instant + round(offset.total_seconds())


@cache
def zone_named(name: str) -> ZoneInfo:
    """Return a time zone."""
    from zoneinfo import ZoneInfo  # late: few texts name a zone

    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # KeyError: no such zone is known here
        raise ValueError(name) from None


@lru_cache(maxsize=256)
def format_pattern(format: str) -> re.Pattern[str]:
    """Return what matches texts of a format of %Y, %m or %b, %d, %H, %M and %S."""
    pattern, seen = "", ""
    for directive, letter in re.findall(r"(%(.?)|[^%])", format, re.DOTALL):
        if not directive.startswith("%") or letter == "%":
            pattern += re.escape(letter or directive)
        elif letter == "b":
            pattern += f"(?P<b>(?i:{'|'.join(_MONTHS)}))"
        elif letter in _DIRECTIVES and letter:
            pattern += f"(?P<{letter}>{_DIRECTIVES[letter]})"
        else:
            raise ValueError(f"%{letter} is none of %Y, %m, %b, %d, %H, %M, %S, %%")
        seen += letter.replace("%", "")
    of_day, of_time = seen.replace("b", "m").rstrip("HMS"), seen.lstrip("Ymbd")
    if sorted(of_day) != ["Y", "d", "m"] or of_time not in ("", "HM", "HMS"):
        raise ValueError("it needs %Y, %m or %b, and %d once each, then at most %H, %M and %S")
    compiled = re.compile(rf"[ \t]*{pattern}[ \t]*")
    match = compiled.fullmatch("2001-02-03") or compiled.fullmatch("2001-02-03 04:05:06")
    if match is not None and match.groupdict().get("m") != "02":
        raise ValueError("it reads ISO dates in another way, and these are always read")
    return compiled


# --- periods ----------------------------------------------------------------------------------------------


def day_starts(first: int, last: int, period: str) -> Iterator[int]:
    """Yield the days on which periods begin, from that of ``first`` to that of ``last``."""
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


def date_text(day: int) -> str:
    """Return a day as ISO writes it; past the last day of the calendar the words for it."""
    return datetime.date.fromordinal(day).isoformat() if day <= _LAST_DAY else "the calendar's end"


def time_text(second: int) -> str:
    """Return a second as ISO writes it, without the time of day where it is midnight."""
    day, rest = divmod(second, DAY)
    if rest == 0:
        return date_text(day)
    return f"{date_text(day)} {clock_text(rest)}"


def clock_text(second: int) -> str:
    """Return a second of the day as ISO writes it, without seconds where a minute begins."""
    return f"{second // 3600:02}:{second // 60 % 60:02}" + (f":{second % 60:02}" if second % 60 else "")


def clock_time(second: int) -> datetime.time:
    """Return a second of the day as a time of day."""
    return datetime.time(second // 3600, second // 60 % 60, second % 60)


def period_text(first: int, last: int, period: str) -> str:
    """Return a period's name: ``2023-03-31``, ``2023-03``, ``2023-Q1``, ``2023``, or a week's days."""
    date = datetime.date.fromordinal(first)
    if period == "week" and first < last:
        return f"{date_text(first)}..{date_text(last)}"
    if period in ("day", "week"):
        return date_text(first)
    year, quarter = f"{date.year:04}", (date.month + 2) // 3
    names = {"month": f"{year}-{date.month:02}", "quarter": f"{year}-Q{quarter}", "year": year}
    return names[period]


@lru_cache(maxsize=2**16)
def clock_gap(zone: str, day: int) -> tuple[int, int]:
    """Return the seconds that a clock leaves out about a day: the first, and the next one that it shows."""
    clock = zone_named(zone)
    low, high = (day - 1) * DAY, (day + 2) * DAY  # in UTC
    before, after = (_on_clock(instant, clock) - instant for instant in (low, high))
    while after > before and high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _on_clock(middle, clock) - middle == before else (low, middle)
    return (high + before, high + after) if after > before else (0, 0)


def time_on_clock(moment: datetime.datetime, zone: str) -> datetime.datetime:
    """Return what the clock of a zone shows at a time that has one; a zone that is none changes nothing."""
    try:
        return moment.astimezone(zone_named(zone)).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return moment


def seconds_of(moment: datetime.datetime) -> int:
    """Return the second of a time without a zone."""
    return moment.toordinal() * DAY + moment.hour * 3600 + moment.minute * 60 + moment.second


# --- attributes ---------------------------------------------------------------------------------------------


class Periods(OrderedCells):
    """What attributes of dates, times and times of day share: cells that are periods.

    The first and the last cell hold what lies of their periods within the ends. Weeks begin on Monday.
    """

    __slots__ = ()

    minimum: datetime.date | datetime.time
    maximum: datetime.date | datetime.time
    width: str
    zone: str = "UTC"
    format: str | None = None
    boundaries: tuple[int, ...]

    values_called: ClassVar[str]
    end_called: ClassVar[str]
    end_type: ClassVar[type]
    widths: ClassVar[tuple[str, ...]] = ("day", "week", "month", "quarter", "year")
    day: ClassVar[int]  # in numbers of the scale
    unit: ClassVar[str]  # of the scale, as numpy calls it
    shape: ClassVar[str] = "dated"  # of its values in expressions, of which those of one shape are compared

    def __post_init__(self) -> None:
        self.check()
        for label, value in (("min", self.minimum), ("max", self.maximum)):
            is_end = type(value) is self.end_type and getattr(value, "tzinfo", None) is None
            if not is_end or getattr(value, "microsecond", 0) != 0:
                raise self.wrong(f"{label} must be {self.end_called}, got {value!r}")
        self._check_choices()
        first, last = self._scale_ends()
        if first > last:
            raise self.wrong(f"min must not exceed max, got min={self.minimum}, max={self.maximum}")
        starts = list(islice(self.starts(first, last, self.width), MOST_CELLS + 1))
        if len(starts) > MOST_CELLS:
            raise self.wrong(f"at most {MOST_CELLS:,} cells; choose a larger width")
        object.__setattr__(self, "boundaries", (first, *starts[1:], last + 1))

    @abstractmethod
    def _scale_ends(self) -> tuple[int, int]:
        """Return the first and the last value as numbers of the scale."""

    def _check_choices(self) -> None:
        if self.width not in self.widths:
            hint = nearest(self.width, self.widths) if isinstance(self.width, str) else ""
            raise self.wrong(f"width must be one of {', '.join(self.widths)}, got {self.width!r}{hint}")
        if self.format is None:
            return
        try:
            if not isinstance(self.format, str):
                raise ValueError("it is no text")
            pattern = format_pattern(self.format)
        except ValueError as reason:
            raise self.wrong(
                f"format must be one such as '%d.%m.%Y', got {self.format!r}: {reason}"
            ) from None
        if "H" in pattern.groupindex and "hour" not in self.widths:
            raise self.wrong(f"the format of a date has no %H, got {self.format!r}")

    def starts(self, first: int, last: int, period: str) -> Iterator[int]:
        """Yield where the periods begin, from that of one number of the scale to that of another."""
        step = CLOCK_WIDTHS.get(period)
        if step is not None:
            yield from range(first - first % step, last + 1, step)
        else:
            yield from (day * self.day for day in day_starts(first // self.day, last // self.day, period))

    @property
    def scale(self) -> int:
        """Seconds of one number."""
        return DAY // self.day

    def seconds(self) -> tuple[list[float], list[float]]:
        starts, ends, scale = self.boundaries[:-1], self.boundaries[1:], self.scale
        return [float(one * scale) for one in starts], [float((one - 1) * scale) for one in ends]

    def read(self, value: object) -> int | None:
        """Return the number of the scale that a value of a table is, or None where it is none."""
        second = self.read_second(value)
        return None if second is None else second // self.scale

    def read_second(self, value: object) -> int | None:
        """Return the second that the zone's clock shows at a value, or None where it is no date or time."""
        return read_seconds(value, self.zone, self.format)

    def literal(self, number: float) -> str:
        return f"'{time_text(int(number) * self.scale)}'"

    def _own_label(self, code: int) -> str:
        start, stop = int(self.boundaries[code]), int(self.boundaries[code + 1])
        if self.width == "hour":
            return f"{date_text(start // DAY)} {start % DAY // 3600:02}:00"
        return period_text(start // self.day, (stop - 1) // self.day, self.width)


@dataclass(frozen=True, slots=True)
class DateAttribute(Periods):
    """Dates from ``minimum`` to ``maximum`` in cells of one calendar period; others are clipped to the ends.

    Its numbers are days.

    Args:
        minimum: the first day.
        maximum: the last day.
        width: day, week, month, quarter or year.
        format: how texts of a table write dates besides ISO's ``2023-03-31``, such as ``%d.%m.%Y``.
    """

    values_called: ClassVar[str] = "dates"
    end_called: ClassVar[str] = "a date such as 2023-03-31"
    end_type: ClassVar[type] = datetime.date
    day: ClassVar[int] = 1
    unit: ClassVar[str] = "D"

    minimum: datetime.date
    maximum: datetime.date
    width: str = "day"
    format: str | None = None
    boundaries: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def _scale_ends(self) -> tuple[int, int]:
        return self.minimum.toordinal(), self.maximum.toordinal()


@dataclass(frozen=True, slots=True)
class DatetimeAttribute(Periods):
    """Times from ``minimum`` to ``maximum`` in cells of one calendar period; others are clipped to the ends.

    Its numbers are the seconds that the clock of ``zone`` shows.

    Args:
        minimum: the first second, without a zone.
        maximum: the last second, without a zone.
        width: hour, day, week, month, quarter or year.
        zone: the time zone whose clock is meant, by its name, such as ``Europe/Berlin``. A time that a
            table writes with a zone of its own is put on this clock.
        format: how texts of a table write times besides ISO's ``2023-03-31 14:05:00``.
    """

    values_called: ClassVar[str] = "times"
    end_called: ClassVar[str] = "a time such as 2023-03-31T14:05:00 without a zone"
    end_type: ClassVar[type] = datetime.datetime
    widths: ClassVar[tuple[str, ...]] = ("hour", *Periods.widths)
    day: ClassVar[int] = DAY
    unit: ClassVar[str] = "s"

    minimum: datetime.datetime
    maximum: datetime.datetime
    width: str = "day"
    zone: str = "UTC"
    format: str | None = None
    boundaries: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def _scale_ends(self) -> tuple[int, int]:
        try:
            zone_named(self.zone)
        except (ValueError, TypeError):
            raise self.wrong(
                f"zone must be the name of a time zone such as 'Europe/Berlin', got {self.zone!r}"
            ) from None
        return seconds_of(self.minimum), seconds_of(self.maximum)


@dataclass(frozen=True, slots=True)
class TimeAttribute(Periods):
    """Times of day from ``minimum`` to ``maximum`` in cells of one width; others are clipped to the ends.

    Its numbers are seconds since midnight, from which widths are counted.

    Args:
        minimum: the first second, such as ``datetime.time(6)``.
        maximum: the last second, not before the first: no range goes over midnight.
        width: minute, 5 minutes, 10, 15, 20 or 30; hour, 2 hours, 3, 4, 6, 8 or 12.
    """

    values_called: ClassVar[str] = "times of day"
    end_called: ClassVar[str] = "a time of day from 00:00:00 to 23:59:59 without a zone"
    end_type: ClassVar[type] = datetime.time
    widths: ClassVar[tuple[str, ...]] = tuple(CLOCK_WIDTHS)
    day: ClassVar[int] = DAY
    unit: ClassVar[str] = "s"
    shape: ClassVar[str] = "clock"

    minimum: datetime.time
    maximum: datetime.time
    width: str = "hour"
    boundaries: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def _scale_ends(self) -> tuple[int, int]:
        first, last = (one.hour * 3600 + one.minute * 60 + one.second for one in (self.minimum, self.maximum))
        if first > last:
            raise self.wrong(
                f"a range does not go over midnight, got min={self.minimum}, max={self.maximum}; declare the "
                "whole day, 00:00:00 to 23:59:59"
            )
        return first, last

    def _own_label(self, code: int) -> str:
        start, stop = self.boundaries[code : code + 2]
        is_whole = start % 60 == stop % 60 == 0  # then the last minute is named, not its last second
        first, last = clock_text(start), clock_text(stop - (60 if is_whole else 1))
        return first if first == last else f"{first}..{last}"

    def read_second(self, value: object) -> int | None:
        """Return the second of the day that a value is, or None where it is no time of day."""
        return read_clock(value)

    def literal(self, number: float) -> str:
        return f"'{clock_text(int(number))}'"
