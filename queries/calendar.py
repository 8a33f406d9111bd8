"""The calendar: dates and times as whole numbers, their periods, and how texts write them.

A date is its number of days (1 January of the year 1 is day 1), a time the number of seconds that the clock
of one declared zone shows, counted like the days. So an hour that a clock shows twice in autumn is one hour
that holds twice as much, and one that it leaves out in spring is an hour like any other, which may be empty.

Texts are ISO 8601 (``2023-03-31``, ``2023-03-31 14:05``, ``2023-03-31T14:05:09.5Z``, ``…+02:00``), or as a
declared format says. Fractions of a second are cut off.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING

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
_LONGEST = 80  # characters of a text that is read
_DIRECTIVES = {"Y": "[0-9]{4}", **dict.fromkeys("mdHMS", "[0-9]{1,2}")}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


# --- texts ------------------------------------------------------------------------------------------------


def read_days(value: object, format: str | None = None) -> int | None:
    """Return the day of a text (with a format also of a whole number) in UTC, or None where it is none."""
    second = read_seconds(value, "UTC", format)
    return None if second is None else second // DAY


def read_seconds(value: object, zone: str, format: str | None = None) -> int | None:
    """Return the second of a text that the clock of a zone shows then, or None where it is no time.

    A text without a zone is what the clock shows; a date alone is its midnight. ``format`` is another way to
    write times than ISO's.
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
    name = found.get("b")
    month = int(found["m"] or 0) if name is None else _MONTHS.index(name.casefold()) + 1
    try:
        day = datetime.date(int(found["Y"] or 0), month, int(found["d"] or 0)).toordinal()
    except ValueError:  # 29 February, for one
        return None
    hour, minute, second = (int(found.get(name) or 0) for name in "HMS")
    if hour > 23 or minute > 59 or second > 59:
        return None
    return day * DAY + hour * 3600 + minute * 60 + second


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
    minutes = f"{rest // 3600:02}:{rest // 60 % 60:02}"
    return f"{date_text(day)} {minutes}" + (f":{rest % 60:02}" if rest % 60 else "")


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
