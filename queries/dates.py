"""Attributes of dates and times: calendar periods as cells."""

from __future__ import annotations

import datetime
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import field
from itertools import islice
from typing import ClassVar

from queries.calendar import (
    DAY,
    date_text,
    day_starts,
    format_pattern,
    period_text,
    read_days,
    read_seconds,
    seconds_of,
    time_text,
    zone_named,
)
from queries.cells import MOST_CELLS, OrderedCells, nearest
from queries.frozen import dataclass


class Periods(OrderedCells):
    """What attributes of dates and of times share: cells that are periods of the calendar.

    The first and the last cell hold what lies of their periods within the ends. Weeks begin on Monday.
    """

    __slots__ = ()

    minimum: datetime.date
    maximum: datetime.date
    width: str
    format: str | None
    boundaries: tuple[int, ...]

    values_called: ClassVar[str]
    end_called: ClassVar[str]
    widths: ClassVar[tuple[str, ...]] = ("day", "week", "month", "quarter", "year")
    day: ClassVar[int]  # in numbers of the scale
    unit: ClassVar[str]  # of the scale, as numpy calls it

    def __post_init__(self) -> None:
        self.check()
        for label, value in (("min", self.minimum), ("max", self.maximum)):
            if not self._is_end(value):
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
    def _is_end(self, value: object) -> bool:
        """Tell whether a value can be the first or the last."""

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
        if period == "hour":
            yield from range(first - first % 3600, last + 1, 3600)
        else:
            yield from (day * self.day for day in day_starts(first // self.day, last // self.day, period))

    @property
    def scale(self) -> int:
        """Seconds of one number."""
        return DAY // self.day

    def seconds(self) -> tuple[list[float], list[float]]:
        starts, ends, scale = self.boundaries[:-1], self.boundaries[1:], self.scale
        return [float(one * scale) for one in starts], [float((one - 1) * scale) for one in ends]

    @abstractmethod
    def read_second(self, value: object) -> int | None:
        """Return the second that a value is, or None where it is no date or time."""

    def _own_label(self, code: int) -> str:
        start, stop = int(self.boundaries[code]), int(self.boundaries[code + 1])
        if self.width == "hour":
            return f"{date_text(start // DAY)} {start % DAY // 3600:02}:00"
        return period_text(start // self.day, (stop - 1) // self.day, self.width)


@dataclass(frozen=True, slots=True)
class DateAttribute(Periods):
    """Dates from ``minimum`` to ``maximum`` in cells of one calendar period; others are clipped to the ends.

    Its numbers are days (``queries.calendar``).

    Args:
        minimum: the first day.
        maximum: the last day.
        width: day, week, month, quarter or year.
        format: how texts of a table write dates besides ISO's ``2023-03-31``, such as ``%d.%m.%Y``.
    """

    values_called: ClassVar[str] = "dates"
    end_called: ClassVar[str] = "a date such as 2023-03-31"
    day: ClassVar[int] = 1
    unit: ClassVar[str] = "D"

    minimum: datetime.date
    maximum: datetime.date
    width: str = "day"
    format: str | None = None
    boundaries: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def _is_end(self, value: object) -> bool:
        return type(value) is datetime.date

    def _scale_ends(self) -> tuple[int, int]:
        return self.minimum.toordinal(), self.maximum.toordinal()

    def read(self, value: object) -> int | None:
        """Return the day that a value is, or None where it is no date."""
        return read_days(value, self.format)

    def read_second(self, value: object) -> int | None:
        return read_seconds(value, "UTC", self.format)

    def literal(self, number: float) -> str:
        return f"'{date_text(int(number))}'"


@dataclass(frozen=True, slots=True)
class DatetimeAttribute(Periods):
    """Times from ``minimum`` to ``maximum`` in cells of one calendar period; others are clipped to the ends.

    Its numbers are the seconds that the clock of ``zone`` shows (``queries.calendar``).

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
    widths: ClassVar[tuple[str, ...]] = ("hour", *Periods.widths)
    day: ClassVar[int] = DAY
    unit: ClassVar[str] = "s"

    minimum: datetime.datetime
    maximum: datetime.datetime
    width: str = "day"
    zone: str = "UTC"
    format: str | None = None
    boundaries: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def _is_end(self, value: object) -> bool:
        return type(value) is datetime.datetime and value.tzinfo is None and not value.microsecond

    def _scale_ends(self) -> tuple[int, int]:
        try:
            zone_named(self.zone)
        except (ValueError, TypeError):
            raise self.wrong(
                f"zone must be the name of a time zone such as 'Europe/Berlin', got {self.zone!r}"
            ) from None
        return seconds_of(self.minimum), seconds_of(self.maximum)

    def read(self, value: object) -> int | None:
        """Return the second that the zone's clock shows at a value, or None where it is no time."""
        return read_seconds(value, self.zone, self.format)

    def read_second(self, value: object) -> int | None:
        return self.read(value)

    def literal(self, number: float) -> str:
        return f"'{time_text(int(number))}'"
