"""Parts: what a question asks for in place of a whole value: a month of dates, a level of codes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from queries.calendar import DAY, day_starts, part_of, period_text
from queries.cells import OTHER_LABEL, nearest, quoted_name
from queries.dates import DateAttribute, DatetimeAttribute
from queries.domain import Attribute, CategoricalAttribute
from queries.errors import QueryError
from queries.predicates import Between, Comparison, IsIn, Operator, Position, Scalar

CALENDAR = "calendar "  # before the name of a period: that very month, not that of any year
_MOST_PERIODS = 1_000_000
_COMPARE: dict[Operator, Callable[[float, float], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


class PartGroup(NamedTuple):
    """The base cells that share a part: its value, and the cells."""

    value: str | int
    cells: NDArray[np.int64]


def check_part(attribute: Attribute, part: str, position: Position = None) -> None:
    """Refuse a part that an attribute does not have.

    Raises:
        QueryError: the attribute holds no dates, or dates without such a part.
    """
    period = part.removeprefix(CALENDAR)
    if isinstance(attribute, CategoricalAttribute) and attribute.level(part) is not None:
        return
    if isinstance(attribute, DateAttribute | DatetimeAttribute):
        # A week is a period, and no part that has a number.
        if period in attribute.parts or (part == f"{CALENDAR}week"):
            return
        known = ", ".join(name.upper() for name in attribute.parts)
        message = f"attribute {attribute.name!r} has the parts {known}; got {period.upper()}"
    else:
        message = f"attribute {attribute.name!r} holds no dates, and has no {period.upper()}"
    raise QueryError(message, code="wrong_kind", position=position)


def part_intervals(
    attribute: DateAttribute | DatetimeAttribute, atom: Comparison | Between | IsIn
) -> tuple[tuple[float, float], ...]:
    """Return the half-open intervals of values where a comparison of a part holds, in declared ends.

    Raises:
        QueryError: the attribute has no such part, the comparison is with no whole number, or no value holds.
    """
    part = atom.part or ""
    check_part(attribute, part, atom.position)
    holds = _test(attribute, atom)
    pieces: list[tuple[float, float]] = []
    for start, stop, value in _periods(attribute, part, atom.position):
        if not holds(value):
            continue
        begin = pieces.pop()[0] if pieces and pieces[-1][1] == start else start
        pieces.append((begin, stop))
    if not pieces:
        raise QueryError(
            f"an empty range: attribute {attribute.name!r} goes from {attribute.literal(attribute.ends[0])} "
            f"to {attribute.literal(attribute.last)}, and no such {part.upper()} lies there",
            code="empty_range",
            position=atom.position,
        )
    return tuple(pieces)


def level_cells(attribute: CategoricalAttribute, atom: Comparison | Between | IsIn) -> list[int]:
    """Return the cells of the values that lie in the coarser ones which a comparison of a level names.

    Raises:
        QueryError: the attribute has no such level, the level no such value, or an order is needed.
    """
    check_part(attribute, atom.part or "", atom.position)
    level = attribute.level(atom.part or "")
    assert level is not None  # noqa: S101 - checked above
    if isinstance(atom, Between) or (isinstance(atom, Comparison) and atom.operator not in ("eq", "ne")):
        raise QueryError(
            f"level {level.name!r} is categorical and has no order; use =, <>, IN or LIKE",
            code="wrong_kind",
            position=atom.position,
        )
    texts = [str(value) for value in (atom.values if isinstance(atom, IsIn) else (atom.value,))]
    cells: list[int] = []
    for text in texts:
        if text == OTHER_LABEL and attribute.other_code is not None:
            cells.append(attribute.other_code)
        elif text not in level.parents:
            listed = ", ".join(map(repr, level.nodes[:12])) + (", …" if len(level.nodes) > 12 else "")
            raise QueryError(
                f"level {level.name!r} has the values {listed}; got {text[:60]!r}"
                f"{nearest(text, level.nodes)}",
                code="unknown_value",
                position=atom.position,
            )
        cells += [code for code, parent in enumerate(level.parents) if parent == text]
    return cells


def part_groups(attribute: Attribute, part: str) -> tuple[PartGroup, ...]:
    """Return the base cells of each value of a part, in the order of the values.

    Raises:
        QueryError: the attribute has no such part, or a cell lies in more than one period.
    """
    check_part(attribute, part)
    if isinstance(attribute, CategoricalAttribute):
        level = attribute.level(part)
        assert level is not None  # noqa: S101 - checked above
        numbers = np.array(level.codes)
        return tuple(
            PartGroup(node, np.flatnonzero(numbers == number)) for number, node in enumerate(level.nodes)
        )
    assert isinstance(attribute, DateAttribute | DatetimeAttribute)  # noqa: S101 - checked above
    periods = list(_periods(attribute, part))
    starts = np.array([start for start, _, _ in periods])
    boundaries = np.array(attribute.boundaries)
    owner = starts.searchsorted(boundaries[:-1], side="right") - 1
    if not np.array_equal(owner, starts.searchsorted(boundaries[1:] - 1, side="right") - 1):
        name = f"{part.removeprefix(CALENDAR).upper()}({quoted_name(attribute.name)})"
        raise QueryError(
            f"GROUP BY {name} cuts cells: those of {attribute.name!r} are of one {attribute.width} each; "
            "group by a longer period, or ask for narrower cells",
            code="unaligned",
        )
    if part.startswith(CALENDAR):
        unit, width = _unit(attribute), part.removeprefix(CALENDAR)
        texts = [
            attribute.label(int(np.flatnonzero(owner == number)[0]))
            if width == "hour"
            else period_text(start // unit, (stop - 1) // unit, width)
            for number, (start, stop, _) in enumerate(periods)
        ]
        return tuple(PartGroup(text, np.flatnonzero(owner == number)) for number, text in enumerate(texts))
    values = np.array([value for _, _, value in periods])[owner]
    return tuple(PartGroup(int(value), np.flatnonzero(values == value)) for value in np.unique(values))


def _unit(attribute: DateAttribute | DatetimeAttribute) -> int:
    """Return the numbers of an attribute's scale in a day."""
    return 1 if isinstance(attribute, DateAttribute) else DAY


def _periods(
    attribute: DateAttribute | DatetimeAttribute, part: str, position: Position = None
) -> Iterator[tuple[int, int, int]]:
    """Yield the start, the end and the part's value of each period within the declared ends, half-open."""
    first, end = attribute.ends
    period, unit = part.removeprefix(CALENDAR), _unit(attribute)
    shortest = 3600 if period == "hour" else unit
    if period in ("hour", "day") and (end - first) // shortest > _MOST_PERIODS:
        raise QueryError(
            f"attribute {attribute.name!r} has more than {_MOST_PERIODS:,} periods of one {period}; "
            "compare with a longer one",
            code="too_large",
            position=position,
        )
    if period == "hour":
        starts = [(second, second // 3600 % 24) for second in range(first - first % 3600, end, 3600)]
    else:
        days = day_starts(first // unit, (end - 1) // unit, period)
        starts = [(day * unit, 0 if period == "week" else part_of(day, period)) for day in days]
    stops = [*(start for start, _ in starts[1:]), end]
    for (start, value), stop in zip(starts, stops, strict=True):
        yield max(start, first), stop, value


def _test(attribute: Attribute, atom: Comparison | Between | IsIn) -> Callable[[int], bool]:
    def number(value: Scalar) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
            raise QueryError(
                f"{(atom.part or '').upper()} of {attribute.name!r} is a whole number; got {value!r}",
                code="wrong_kind",
                position=atom.position,
            )
        return value

    if isinstance(atom, IsIn):
        values = frozenset(map(number, atom.values))
        return lambda value: value in values
    if isinstance(atom, Between):
        low, high = number(atom.low), number(atom.high)
        return lambda value: low <= value <= high
    compare, other = _COMPARE[atom.operator], number(atom.value)
    return lambda value: compare(value, other)
