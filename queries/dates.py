"""Attributes of dates and times: calendar periods as cells."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from itertools import islice

from queries.calendar import (
    DATE_PARTS,
    DAY,
    TIME_PARTS,
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

_DATE_WIDTHS = ("day", "week", "month", "quarter", "year")
_TIME_WIDTHS = ("hour", *_DATE_WIDTHS)


@dataclass(frozen=True, slots=True)
class DateAttribute(OrderedCells):
    """Dates from ``minimum`` to ``maximum`` in cells of one calendar period; others are clipped to the ends.

    Its numbers are days (``queries.calendar``). The first and the last cell hold what lies of their periods
    within the ends. Weeks begin on Monday.

    Args:
        minimum: the first day.
        maximum: the last day.
        width: day, week, month, quarter or year.
        format: how texts of a table write dates besides ISO's ``2023-03-31``, such as ``%d.%m.%Y``.
    """

    minimum: datetime.date
    maximum: datetime.date
    width: str = "day"
    format: str | None = None
    boundaries: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.check()
        for label, value in (("min", self.minimum), ("max", self.maximum)):
            if type(value) is not datetime.date:
                raise self.wrong(label, f"{label} must be a date such as 2023-03-31, got {value!r}")
        _check_choices(self, _DATE_WIDTHS)
        first, last = self.minimum.toordinal(), self.maximum.toordinal()
        if first > last:
            raise self.wrong("min", f"min must not exceed max, got min={self.minimum}, max={self.maximum}")
        starts = list(islice(day_starts(first, last, self.width), MOST_CELLS + 1))
        _check_count(self, len(starts))
        object.__setattr__(self, "boundaries", (first, *starts[1:], last + 1))

    @property
    def base_size(self) -> int:
        """Number of cells without ``missing`` and ``other``."""
        return len(self.boundaries) - 1

    @property
    def ends(self) -> tuple[int, int]:
        """Start of the first cell and end of the last, half-open, in days."""
        return self.boundaries[0], self.boundaries[-1]

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of a value that a question may name, as in ``YEAR(hired)``."""
        return DATE_PARTS

    def read(self, value: object) -> int | None:
        """Return the day that a value is, or None where it is no date."""
        return read_days(value, self.format)

    def literal(self, number: float) -> str:
        """Return how a question writes a day."""
        return f"'{date_text(int(number))}'"

    def label(self, code: int) -> str:
        """Return the text of a cell, such as ``2023-03-31``, ``2023-03`` or ``2023-Q1``."""
        special = self.special_label(code)
        if special is not None:
            return special
        return period_text(self.boundaries[code], self.boundaries[code + 1] - 1, self.width)


@dataclass(frozen=True, slots=True)
class DatetimeAttribute(OrderedCells):
    """Times from ``minimum`` to ``maximum`` in cells of one calendar period; others are clipped to the ends.

    Its numbers are the seconds that the clock of ``zone`` shows (``queries.calendar``). The first and the
    last cell hold what lies of their periods within the ends.

    Args:
        minimum: the first second, without a zone.
        maximum: the last second, without a zone.
        width: hour, day, week, month, quarter or year.
        zone: the time zone whose clock is meant, by its name, such as ``Europe/Berlin``. A time that a
            table writes with a zone of its own is put on this clock.
        format: how texts of a table write times besides ISO's ``2023-03-31 14:05:00``.
    """

    minimum: datetime.datetime
    maximum: datetime.datetime
    width: str = "day"
    zone: str = "UTC"
    format: str | None = None
    boundaries: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.check()
        for label, value in (("min", self.minimum), ("max", self.maximum)):
            if type(value) is not datetime.datetime or value.tzinfo is not None or value.microsecond:
                raise self.wrong(
                    label, f"{label} must be a time such as 2023-03-31T14:05:00 without a zone, got {value!r}"
                )
        _check_choices(self, _TIME_WIDTHS)
        try:
            zone_named(self.zone)
        except (ValueError, TypeError):
            raise self.wrong(
                "zone", f"zone must be the name of a time zone such as 'Europe/Berlin', got {self.zone!r}"
            ) from None
        first, last = seconds_of(self.minimum), seconds_of(self.maximum)
        if first > last:
            raise self.wrong("min", f"min must not exceed max, got min={self.minimum}, max={self.maximum}")
        if self.width == "hour":
            _check_count(self, last // 3600 - first // 3600 + 1)
            starts = list(range(first - first % 3600, last + 1, 3600))
        else:
            days = islice(day_starts(first // DAY, last // DAY, self.width), MOST_CELLS + 1)
            starts = [day * DAY for day in days]
            _check_count(self, len(starts))
        object.__setattr__(self, "boundaries", (first, *starts[1:], last + 1))

    @property
    def base_size(self) -> int:
        """Number of cells without ``missing`` and ``other``."""
        return len(self.boundaries) - 1

    @property
    def ends(self) -> tuple[int, int]:
        """Start of the first cell and end of the last, half-open, in seconds."""
        return self.boundaries[0], self.boundaries[-1]

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of a value that a question may name, as in ``HOUR(arrived)``."""
        return TIME_PARTS

    def read(self, value: object) -> int | None:
        """Return the second that the zone's clock shows at a value, or None where it is no time."""
        return read_seconds(value, self.zone, self.format)

    def literal(self, number: float) -> str:
        """Return how a question writes a second."""
        return f"'{time_text(int(number))}'"

    def label(self, code: int) -> str:
        """Return the text of a cell, such as ``2023-03-31 14:00``, ``2023-03-31`` or ``2023-Q1``."""
        special = self.special_label(code)
        if special is not None:
            return special
        start, last = self.boundaries[code], self.boundaries[code + 1] - 1
        if self.width == "hour":
            return f"{date_text(start // DAY)} {start % DAY // 3600:02}:00"
        return period_text(start // DAY, last // DAY, self.width)


def _check_choices(attribute: DateAttribute | DatetimeAttribute, widths: tuple[str, ...]) -> None:
    if attribute.width not in widths:
        hint = nearest(attribute.width, widths) if isinstance(attribute.width, str) else ""
        raise attribute.wrong(
            "width", f"width must be one of {', '.join(widths)}, got {attribute.width!r}{hint}"
        )
    if attribute.format is None:
        return
    try:
        if not isinstance(attribute.format, str):
            raise ValueError("it is no text")
        pattern = format_pattern(attribute.format)
    except ValueError as reason:
        raise attribute.wrong(
            "format", f"format must be one such as '%d.%m.%Y', got {attribute.format!r}: {reason}"
        ) from None
    if "H" in pattern.groupindex and isinstance(attribute, DateAttribute):
        raise attribute.wrong("format", f"the format of a date has no %H, got {attribute.format!r}")


def _check_count(attribute: DateAttribute | DatetimeAttribute, cells: int) -> None:
    if cells > MOST_CELLS:
        raise attribute.wrong("width", f"at most {MOST_CELLS:,} cells; choose a larger width")
