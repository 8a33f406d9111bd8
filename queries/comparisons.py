"""Comparisons: what one of them means on one attribute, as cells that it names or as intervals of numbers.

Also parts, which a question asks for in place of a whole value: the month of a date, a level of codes. Every
refusal of a value is worded here: it names what is declared, what came and what is near.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from queries.calendar import DAY, time_text
from queries.categories import CategoricalAttribute, Level
from queries.cells import (
    OTHER_LABEL,
    Cells,
    OrderedCells,
    canonical_text,
    nearest,
    number_text,
    quoted_name,
)
from queries.date_parts import DatePart, Step, begins_in
from queries.dates import DateAttribute, DatetimeAttribute
from queries.domain import Attribute, Domain
from queries.errors import QueryError
from queries.numbers import IntegerAttribute, NumericAttribute
from queries.predicates import COMPARE, Comparison, Part, Position, Scalar, example_texts, shown_value

_MOST_PERIODS = 1_000_000

Intervals: TypeAlias = tuple[tuple[float, float], ...]  # of numbers, half-open
_Kind = TypeVar("_Kind", bound=Cells)
_Scale = TypeVar("_Scale", bound=OrderedCells)


def resolve_operand(
    name: str, domain: Domain, position: Position, *, any_case: bool = False
) -> tuple[str, str | None]:
    """Return the declared attribute that a name in a question stands for, and its level if it is that one's.

    Args:
        name: the name that came.
        domain: the declared attributes.
        position: where it came from, for the message.
        any_case: also accept the one name that differs in upper and lower case only.

    Raises:
        QueryError: no attribute or level, or several, answer to the name.
    """
    name = _spelt(name, (*domain.names, *domain.levels), any_case)
    if name in domain.levels:
        return domain.levels[name], name
    return resolve_attribute(name, domain, position), None


def resolve_attribute(name: str, domain: Domain, position: Position = None, *, any_case: bool = False) -> str:
    """Return the declared attribute that a name in a question stands for; see ``resolve_operand``.

    Raises:
        QueryError: no attribute, or several, answer to the name.
    """
    if name in domain:
        return name
    found = _spelt(name, domain.names, any_case)
    if found in domain:
        return found
    hint = nearest(name, (*domain.names, *domain.levels))
    raise QueryError(
        f"unknown attribute {shown_value(name)}; declared are {listed_names(domain)}{hint}",
        code="unknown_attribute",
        position=position,
    )


def listed_names(domain: Domain) -> str:
    """Return how messages list the declared attributes."""
    return ", ".join(domain.names[:20]) + (", …" if len(domain) > 20 else "")


def _spelt(name: str, names: Sequence[str], any_case: bool) -> str:
    """Return a name as it is declared: in any case, where that is wanted and one alone answers to it."""
    folded = [known for known in names if known.casefold() == name.casefold()] if any_case else []
    return folded[0] if name not in names and len(folded) == 1 else name


class PartGroup(NamedTuple):
    """The base cells that share a part: its value, and the cells."""

    value: str | int
    cells: NDArray[np.int64]


def meaning_of(attribute: Attribute) -> Meaning[Any]:
    """Return what comparisons mean on an attribute; of one with an order it is kept."""
    return _KINDS[type(attribute)](attribute)


class Meaning(ABC, Generic[_Kind]):
    """What comparisons mean on one attribute."""

    def __init__(self, attribute: _Kind) -> None:
        self.attribute = attribute

    @abstractmethod
    def named_cells(self, comparison: Comparison) -> list[int] | None:
        """Return the cells that a comparison names, for ``<>`` too; None where it is of numbers of a scale.

        Raises:
            QueryError: a value is not declared, or the comparison needs an order or a cell that is not there.
        """

    @functools.cached_property
    def points(self) -> tuple[float, ...]:
        """Where the base cells begin, and where the last value ends, half-open; none without an order."""
        return self.attribute.points

    @functools.cached_property
    def boundaries(self) -> frozenset[float]:
        """The same, to look up."""
        return frozenset(self.points)

    def intervals(self, comparison: Comparison) -> Intervals:
        """Return the intervals of numbers where a comparison holds, within the declared range.

        Raises:
            QueryError: a value is no finite number, or the range is empty or outside the declared ends.
        """
        del comparison
        return ()

    def require_part(self, part: Part, position: Position = None) -> None:
        """Refuse a part that values of the attribute do not have, such as the year of a number.

        Raises:
            QueryError: they have no such part.
        """
        raise self._no_part(part, position)

    def part_groups(self, part: Part, position: Position = None) -> tuple[PartGroup, ...]:
        """Return the base cells of each value of a part, in the order of the cells or of the values.

        Raises:
            QueryError: the attribute has no such part, or a cell lies in more than one period.
        """
        self.require_part(part, position)
        return ()

    def _special_cell(self, comparison: Comparison) -> int:
        """Return the cell of empty or of undeclared values, which a comparison asks for."""
        flag = comparison.operator
        code = self.attribute.missing_code if flag == "missing" else self.attribute.other_code
        if code is None:
            values = "empty" if flag == "missing" else "undeclared"
            message = f"declares no cell for {values} values ({flag} = true)"
            raise self._refusal(message, "unknown_value", comparison.position)
        return code

    def _no_part(self, part: Part, position: Position) -> QueryError:
        name = quoted_name(self.attribute.name)
        shown = part.shown(name) if isinstance(part, DatePart) else f"{part}({name})"
        return self._refusal(f"holds no dates, and has no {shown}", "wrong_kind", position)

    def _refusal(self, message: str, code: str, position: Position) -> QueryError:
        return QueryError(f"attribute {self.attribute.name!r} {message}", code=code, position=position)


class _Categories(Meaning[CategoricalAttribute]):
    def named_cells(self, comparison: Comparison) -> list[int]:
        """Return the cells of the values that a comparison names, of a level those of the values in it."""
        if comparison.operator in ("missing", "other"):
            return [self._special_cell(comparison)]
        attribute = self.attribute
        if comparison.part is not None:
            return self._level_cells(self._level(comparison.part, comparison.position), comparison)
        if not comparison.listed:
            some = example_texts(attribute.texts() or (), 2) or [canonical_text(attribute.values[0])]
            way = f"{quoted_name(attribute.name)} IN ({', '.join(some)})"
            message = f"is categorical and has no order; use =, <> or IN, as in {way}"
            raise self._refusal(message, "wrong_kind", comparison.position)
        cells: Mapping[str, int] = attribute.codes
        if attribute.other_code is not None:
            cells = ChainMap({OTHER_LABEL: attribute.other_code}, attribute.codes)  # no declared value then
        return [self._declared_cell(cells, value, comparison.position) for value in comparison.listed]

    def _declared_cell(self, cells: Mapping[str, int], value: Scalar, position: Position) -> int:
        attribute = self.attribute
        if isinstance(value, float) and not math.isfinite(value):
            message = f"needs a finite number or a text, got {shown_value(value)}"
            raise self._refusal(message, "unknown_value", position)
        text = number_text(value) if isinstance(value, float) else canonical_text(value)
        if text in cells:
            return cells[text]
        listed = ", ".join(map(shown_value, attribute.values[:12])) + (", …" if len(cells) > 12 else "")
        special = f"; any other is {OTHER_LABEL!r}" if attribute.other else ""
        special += "; an empty one IS NULL" if attribute.missing else ""
        near = nearest(text, tuple(cells))
        message = f"has the values {listed}{special}; got {shown_value(value)}{near}"
        raise self._refusal(message, "unknown_value", position)

    def _level(self, part: Part, position: Position = None) -> Level:
        level = None if isinstance(part, DatePart) else self.attribute.level(part)
        if level is None:
            raise self._no_part(part, position)
        return level

    def require_part(self, part: Part, position: Position = None) -> None:
        """Refuse what is no level of the attribute."""
        self._level(part, position)

    def _level_cells(self, level: Level, comparison: Comparison) -> list[int]:
        position = comparison.position
        if not comparison.listed:
            message = f"level {level.name!r} is categorical and has no order; use =, <>, IN or LIKE"
            raise QueryError(message, code="wrong_kind", position=position)
        cells: list[int] = []
        for text in map(str, comparison.listed):
            if text == OTHER_LABEL and self.attribute.other_code is not None:
                cells.append(self.attribute.other_code)
            elif text not in level.parents:
                nodes = level.nodes
                listed = ", ".join(map(repr, nodes[:12])) + (", …" if len(nodes) > 12 else "")
                near = nearest(text, nodes)
                message = f"level {level.name!r} has the values {listed}; got {text[:60]!r}{near}"
                raise QueryError(message, code="unknown_value", position=position)
            cells += [code for code, parent in enumerate(level.parents) if parent == text]
        return cells

    def part_groups(self, part: Part, position: Position = None) -> tuple[PartGroup, ...]:
        """Return the cells of each value of a level."""
        level = self._level(part, position)
        numbers = np.array(level.codes)
        return tuple(PartGroup(node, np.flatnonzero(numbers == one)) for one, node in enumerate(level.nodes))


class _Ordered(Meaning[_Scale]):
    def named_cells(self, comparison: Comparison) -> list[int] | None:
        """Return the cell of empty or of undeclared values, where a comparison asks for it or names it."""
        if comparison.operator in ("missing", "other"):
            return [self._special_cell(comparison)]
        return [self.attribute.size - 1] if self._names_other(comparison) else None

    def _names_other(self, comparison: Comparison) -> bool:
        asked = comparison.operator in ("eq", "ne") and comparison.values == (OTHER_LABEL,)
        return self.attribute.other and asked

    def intervals(self, comparison: Comparison) -> Intervals:
        """Return the intervals of numbers where a comparison holds."""
        if comparison.operator in ("missing", "other") or self._names_other(comparison):
            return ()
        if comparison.part is not None:
            return self._part_intervals(comparison, comparison.part)
        points = tuple(self._point(value, comparison.position) for value in comparison.listed)
        if comparison.operator == "ne":
            ((low, high),) = points
            return (self.points[0], low), (high, self.points[-1])
        return points or self._range(comparison)

    def _part_intervals(self, comparison: Comparison, part: Part) -> Intervals:
        self.require_part(part, comparison.position)
        return ()

    def _range(self, comparison: Comparison) -> Intervals:
        """Return the interval of a comparison of order; none of BETWEEN whose first end is the greater."""
        start, end, numbers = self.points[0], self.points[-1], list[float]()
        for order, value in comparison.bounds:
            number = self._number(value, comparison.position)
            cut = self._at_least(number) if order in ("ge", "lt") else self._above(number)
            start, end = (max(cut, start), end) if order in ("ge", "gt") else (start, min(cut, end))
            numbers.append(number)
        if numbers[0] > numbers[-1]:
            return ()
        if start >= end:
            message = f"{self._goes()} (values outside count as these ends)"
            raise self._empty_range(message, comparison.position)
        return ((start, end),)

    def _goes(self) -> str:
        first, last = map(self.attribute.literal, (self.attribute.ends[0], self.attribute.last))
        return f"attribute {self.attribute.name!r} goes from {first} to {last}"

    def _empty_range(self, message: str, position: Position) -> QueryError:
        return QueryError(f"an empty range: {message}", code="empty_range", position=position)

    def _at_least(self, number: float) -> float:
        return float(math.ceil(number)) if self.attribute.is_whole else number

    def _above(self, number: float) -> float:
        return float(math.floor(number) + 1) if self.attribute.is_whole else math.nextafter(number, math.inf)

    def _point(self, value: Scalar, position: Position) -> tuple[float, float]:
        number, attribute = self._number(value, position), self.attribute
        first, last = attribute.ends[0], attribute.last
        if first <= number <= last and (number == math.floor(number) or not attribute.is_whole):
            return number, self._above(number)
        shown = shown_value(value)
        if attribute.is_whole:
            declared = f"{self._whole_called} from {attribute.literal(first)} to {attribute.literal(last)}"
            raise self._refusal(f"holds {declared}; got {shown}", "unknown_value", position)
        raise self._empty_range(f"got {shown}; {self._goes()} (values outside count as these ends)", position)

    _whole_called: ClassVar[str] = "whole numbers"

    def _number(self, value: Scalar, position: Position) -> float:
        """Return the number of the scale that a question compares with."""
        if isinstance(value, bool | str):
            raise self._refusal(f"holds numbers; got {shown_value(value)}", "wrong_kind", position)
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self._refusal(f"needs a finite number, got {shown_value(number)}", "wrong_kind", position)
        return number


class _Periods(_Ordered[DateAttribute | DatetimeAttribute]):
    _whole_called: ClassVar[str] = "values"

    def _number(self, value: Scalar, position: Position) -> float:
        number, rest = divmod(self._second(value, position), self.attribute.scale)
        if rest:  # a day is before none of its hours
            raise self._no_date(value, position)
        return float(number)

    def _second(self, value: Scalar, position: Position) -> int:
        second = self.attribute.read_second(value) if isinstance(value, str) else None
        if second is None:
            raise self._no_date(value, position)
        return second

    def _no_date(self, value: Scalar, position: Position) -> QueryError:
        what, example = self.attribute.values_called, self.attribute.literal(self.attribute.ends[0])
        message = f"holds {what}, written as {example}; got {shown_value(value)}"
        return self._refusal(message, "wrong_kind", position)

    def require_part(self, part: Part, position: Position = None) -> None:
        """Refuse what is no part of a date, and the hour of a date."""
        self._date_part(part, position)

    def _date_part(self, part: Part, position: Position) -> DatePart:
        if not isinstance(part, DatePart):
            raise self._no_part(part, position)
        if "hour" not in self.attribute.widths and (part.period == "hour" or part.offset % DAY):
            message = "holds dates, which have no hours; kind = 'datetime' with width = 'hour' has them"
            raise self._refusal(message, "wrong_kind", position)
        return part

    def _part_intervals(self, comparison: Comparison, part: Part) -> Intervals:
        part = self._date_part(part, comparison.position)
        if not part.period:
            return self._moved_intervals(comparison, part)
        holds = self._part_test(comparison, part)
        pieces: list[tuple[float, float]] = []
        for start, stop, value in self._periods(part, comparison.position):
            if holds(value):
                begin = pieces.pop()[0] if pieces and pieces[-1][1] == start else start
                pieces.append((begin, stop))
        if not pieces:
            message = f"{self._goes()}, and no such {self._shown(part)} lies there"
            raise self._empty_range(message, comparison.position)
        if self._decides_no_cell(pieces):
            raise self._cuts(part, comparison.position)
        return tuple(pieces)

    def _decides_no_cell(self, pieces: Sequence[tuple[float, float]]) -> bool:
        """Tell whether every cell lies partly in pieces of the scale, which do not touch each other."""
        cells = np.array(self.attribute.boundaries)
        starts, stops = np.array([*pieces, (math.inf, math.inf)]).T
        first = stops.searchsorted(cells[:-1], side="right")  # of the pieces that end behind a cell's start
        whole = (starts[first] <= cells[:-1]) & (stops[first] >= cells[1:])
        return bool(np.all((starts[first] < cells[1:]) & ~whole))

    def _moved_intervals(self, comparison: Comparison, part: DatePart) -> Intervals:
        """Return the intervals of ``d + INTERVAL …`` compared with values: of ``d`` with earlier values."""
        position, back = comparison.position, Step(seconds=-part.offset)
        seconds = [self._second(value, position) for value in comparison.values]
        try:
            moved = [time_text(back.apply(second)) for second in seconds]
        except ValueError:
            raise self._past_end(part, position) from None
        return self.intervals(replace(comparison, values=tuple(moved), part=None))

    def _part_test(self, comparison: Comparison, part: DatePart) -> Callable[[int | str], bool]:
        """Return what tells whether a comparison holds for a value of its part."""

        def known(value: Scalar) -> int | float | str:
            if part.kind == "moment":
                return self._second(value, comparison.position)
            whole = not isinstance(value, bool | str) and value == value // 1
            if not (isinstance(value, str) if part.kind == "text" else whole):
                wanted = "a text" if part.kind == "text" else "a whole number"
                message = f"{self._shown(part)} is {wanted}; got {shown_value(value)}"
                raise QueryError(message, code="wrong_kind", position=comparison.position)
            return value

        if comparison.listed:
            values, named = frozenset(map(known, comparison.listed)), comparison.operator != "ne"
            return lambda value: (value in values) == named
        bounds = [(COMPARE[order], known(value)) for order, value in comparison.bounds]
        return lambda value: all(compare(value, bound) for compare, bound in bounds)

    def _periods(self, part: DatePart, position: Position = None) -> Iterator[tuple[int, int, int | str]]:
        """Yield the start, the end and the part's value of each period within the declared ends."""
        attribute, period, scale = self.attribute, part.period, self.attribute.scale
        first, end = attribute.boundaries[0], attribute.boundaries[-1]
        shortest = 3600 if period == "hour" else attribute.day
        if period in ("hour", "day") and (end - first) // shortest > _MOST_PERIODS:
            message = f"has more than {_MOST_PERIODS:,} periods of one {period}; compare with a longer one"
            raise self._refusal(message, "too_large", position)
        ahead = part.offset // scale
        try:
            Step(seconds=part.offset).apply(first * scale)
            Step(seconds=part.offset).apply((end - 1) * scale)
            starts = list(attribute.starts(first + ahead, end - 1 + ahead, period))
            for start, stop in zip(starts, [*starts[1:], end + ahead], strict=True):
                yield max(start - ahead, first), stop - ahead, part.value(start * scale)
        except ValueError:
            raise self._past_end(part, position) from None

    def part_groups(self, part: Part, position: Position = None) -> tuple[PartGroup, ...]:
        """Return the base cells of each value of a part: numbers growing, others by the calendar."""
        part, boundaries = self._date_part(part, position), np.array(self.attribute.boundaries)
        if not part.period and self.attribute.scale == DAY:
            part = replace(part, steps=(*part.steps, Step("day")))
        if not part.period:
            raise self._cuts(part, position)
        periods = list(self._periods(part, position))
        starts = np.array([start for start, _, _ in periods])
        owner = starts.searchsorted(boundaries[:-1], side="right") - 1
        if not np.array_equal(owner, starts.searchsorted(boundaries[1:] - 1, side="right") - 1):
            raise self._cuts(part, position)
        numbers = {value: number for number, value in enumerate(dict.fromkeys(row[2] for row in periods))}
        codes = np.array([numbers[value] for _, _, value in periods])[owner]
        found = [(value, np.flatnonzero(codes == number)) for value, number in numbers.items()]
        if part.kind == "number":
            found.sort(key=lambda one: one[0])
        return tuple(PartGroup(part.label(value), cells) for value, cells in found if len(cells))

    def _cuts(self, part: DatePart, position: Position) -> QueryError:
        """Return the error of a part that has several values in one cell; it names the width that decides."""
        attribute, name = self.attribute, quoted_name(self.attribute.name)
        width = self._deciding_width(part)
        way = f"declare {attribute.name!r} with width = {width!r}, or " if width else ""
        message = (
            f"{self._shown(part)} cuts cells: those of {attribute.name!r} are of one {attribute.width} each; "
            f"{way}GROUP BY {name}, which counts each {attribute.width}"
        )
        return QueryError(message, code="unaligned", position=position)

    def _deciding_width(self, part: DatePart) -> str | None:
        """Return the width of cells, inside those of today, that hold one value of a part; None for none."""
        fitting = [
            width
            for width in self.attribute.widths
            if part.period and begins_in(width, part.period) and begins_in(width, self.attribute.width)
        ]
        if part.offset:
            lengths = {"hour": 3600, "day": DAY}
            fitting = [width for width in fitting if width in lengths and part.offset % lengths[width] == 0]
        return fitting[-1] if fitting else None

    def _past_end(self, part: DatePart, position: Position) -> QueryError:
        message = f"leaves the calendar, which ends with the year 9999, at {self._shown(part)}"
        return self._refusal(message, "wrong_kind", position)

    def _shown(self, part: DatePart) -> str:
        return part.shown(quoted_name(self.attribute.name))


_ordered: Callable[[Any], Meaning[Any]] = functools.lru_cache(maxsize=1024)(_Ordered)
_periods: Callable[[Any], Meaning[Any]] = functools.lru_cache(maxsize=1024)(_Periods)
_KINDS: dict[type, Callable[[Any], Meaning[Any]]] = {
    IntegerAttribute: _ordered,
    NumericAttribute: _ordered,
    CategoricalAttribute: _Categories,
    DateAttribute: _periods,
    DatetimeAttribute: _periods,
}
