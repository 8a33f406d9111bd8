"""Comparisons, joined by AND, OR and NOT as a tree; what one means on an attribute, as cells or intervals.

The tree says what was asked; ``segments`` says what it counts.

Also levels of codes, which a question asks for in place of a whole value. Every refusal of a value is worded
here: it names what is declared, what came and what is near.
"""

from __future__ import annotations

import functools
import math
import operator
from abc import ABC, abstractmethod
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from queries.categories import CategoricalAttribute, Level
from queries.cells import OTHER_LABEL, Cells, OrderedCells, canonical_text, nearest, number_text, quoted_name
from queries.dates import DateAttribute, DatetimeAttribute, Periods, TimeAttribute
from queries.domain import Attribute, Domain
from queries.errors import QueryError
from queries.frozen import dataclass
from queries.numbers import IntegerAttribute, NumericAttribute

Position: TypeAlias = int | str | None
Scalar: TypeAlias = str | int | float | bool
Order: TypeAlias = Literal["eq", "ne", "lt", "le", "gt", "ge"]
Operator: TypeAlias = Order | Literal["between", "in", "missing", "other"]

LONGEST_SHOWN = 40  # characters of a value or a name in an example
COMPARE: dict[Order, Callable[[Any, Any], Any]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
    "ge": operator.ge,
}  # fmt: skip
_BOUNDS: dict[Operator, tuple[Order, ...]] = {
    "lt": ("lt",), "le": ("le",), "gt": ("gt",), "ge": ("ge",), "between": ("ge", "le"),
}  # fmt: skip


def shown_value(value: Scalar) -> str:
    """Return how a message shows a value that came in a question."""
    if isinstance(value, float):
        return number_text(value)
    text = repr(value) if isinstance(value, str) else canonical_text(value)
    return text if len(text) <= 60 else text[:57] + "…'"


def quoted_text(text: str) -> str:
    """Return a text as it stands in SQL."""
    return "'" + text.replace("'", "''") + "'"


def example_texts(texts: Sequence[str], most: int = 1) -> list[str]:
    """Return some texts as they stand in SQL: such as a message can show, where there are any."""
    shown = [one for one in texts if one.isprintable() and len(one) <= LONGEST_SHOWN]
    return [quoted_text(one) for one in (shown or texts)[:most]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """``attribute operator values``.

    Args:
        operator: what is compared; ``missing`` holds of empty values, ``other`` of undeclared ones.
        values: one; of ``between`` both ends, of ``in`` at least one, of ``missing`` and ``other`` none.
        position: where it came from: a character offset into a text, or a path into a structured question.
        part: the level of codes that is compared, by its name; None for the value itself.
    """

    attribute: str
    operator: Operator
    values: tuple[Scalar, ...] = ()
    position: Position = None
    part: str | None = None

    @property
    def listed(self) -> tuple[Scalar, ...]:
        """The values of which it names one, or for ``ne`` none; empty for a comparison of order."""
        return self.values if self.operator in ("eq", "ne", "in") else ()

    @property
    def bounds(self) -> tuple[tuple[Order, Scalar], ...]:
        """What it says of an order, such as ``("ge", 30)``; all of it holds."""
        return tuple(zip(_BOUNDS.get(self.operator, ()), self.values, strict=False))


@dataclass(frozen=True, slots=True)
class Junction:
    """Predicates that all hold (``and``), or one of which does (``or``); of none, ``and`` holds alone.

    The one of ``not`` is false.
    """

    kind: Literal["and", "or", "not"]
    children: tuple[Predicate, ...]


Predicate: TypeAlias = Comparison | Junction  # what holds for a record, or does not
Where: TypeAlias = Callable[[Comparison, bool], NDArray[np.bool_]]


def negation(predicate: Predicate) -> Predicate:
    """Return what holds where a predicate is false."""
    return Junction("not", (predicate,))


def comparisons_of(predicate: Predicate) -> Iterator[Comparison]:
    """Yield the comparisons of a predicate, from left to right."""
    if isinstance(predicate, Comparison):
        yield predicate
        return
    for child in predicate.children:
        yield from comparisons_of(child)


def joined_by(kind: Literal["and", "or"], predicate: Predicate, *, negated: bool = False) -> list[Predicate]:
    """Return what a predicate, or its negation, joins by AND, or by OR, with NOT at comparisons alone."""
    if isinstance(predicate, Comparison):
        return [negation(predicate) if negated else predicate]
    if predicate.kind == "not":
        return joined_by(kind, predicate.children[0], negated=not negated)
    own: Literal["and", "or"] = "and" if (predicate.kind == "and") != negated else "or"
    found = [one for child in predicate.children for one in joined_by(own, child, negated=negated)]
    return found if own == kind else [Junction(own, tuple(found))]  # De Morgan


def where_true(predicate: Predicate, where: Where, *, negated: bool = False) -> NDArray[np.bool_]:
    """Return where a predicate is true, or false; where neither, it is unknown (Kleene's logic).

    ``where`` tells of a comparison where it is true, or with True where it is false.
    """
    if isinstance(predicate, Comparison):
        return where(predicate, negated)
    if predicate.kind == "not":
        return where_true(predicate.children[0], where, negated=not negated)
    found = (where_true(child, where, negated=negated) for child in predicate.children)
    every = (predicate.kind == "and") != negated
    return functools.reduce(operator.and_ if every else operator.or_, found, np.array(every))


def connected_terms(terms: Sequence[Predicate]) -> list[list[Predicate]]:
    """Group the terms of an AND so that no attribute stands in two groups."""
    if len({one.attribute for one in terms if isinstance(one, Comparison)}) == len(terms):
        return [[one] for one in terms]
    groups: list[tuple[set[str], list[Predicate]]] = []
    for term in terms:
        names = {comparison.attribute for comparison in comparisons_of(term)}
        members = [term]
        for touched in [group for group in groups if group[0] & names]:
            names |= touched[0]
            members = touched[1] + members
            groups.remove(touched)
        groups.append((names, members))
    return [members for _, members in groups]


Intervals: TypeAlias = tuple[tuple[float, float], ...]  # of numbers, half-open
_Kind = TypeVar("_Kind", bound=Cells)
_Scale = TypeVar("_Scale", bound=OrderedCells)


def resolve_operand(
    name: str, domain: Domain, position: Position, *, any_case: bool = False
) -> tuple[str, str | None]:
    """Return the attribute that a name stands for, and its level if it names one."""
    name = _spelt(name, (*domain.names, *domain.levels), any_case)
    if name in domain.levels:
        return domain.levels[name], name
    return resolve_attribute(name, domain, position), None


def resolve_attribute(name: str, domain: Domain, position: Position = None, *, any_case: bool = False) -> str:
    """Return the declared attribute that a name in a question stands for; see ``resolve_operand``."""
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


def meaning_of(attribute: Attribute) -> Meaning[Any]:
    """Return what comparisons mean on an attribute; of one with an order it is kept."""
    return _KINDS[type(attribute)](attribute)


class Meaning(ABC, Generic[_Kind]):
    """What comparisons mean on one attribute."""

    def __init__(self, attribute: _Kind) -> None:
        self.attribute = attribute

    @abstractmethod
    def named_cells(self, comparison: Comparison) -> list[int] | None:
        """Return the cells that a comparison names, for ``<>`` too; None for numbers of a scale."""

    @functools.cached_property
    def points(self) -> tuple[float, ...]:
        """Where the base cells begin, and where the last value ends, half-open; none without an order."""
        return self.attribute.points

    @functools.cached_property
    def boundaries(self) -> frozenset[float]:
        """The points, as a set."""
        return frozenset(self.points)

    def intervals(self, comparison: Comparison) -> Intervals:
        """Return the intervals of numbers where a comparison holds, within the declared range."""
        del comparison
        return ()

    def _special_cell(self, comparison: Comparison) -> int:
        flag = comparison.operator
        code = self.attribute.missing_code if flag == "missing" else self.attribute.other_code
        if code is None:
            values = "empty" if flag == "missing" else "undeclared"
            message = f"declares no cell for {values} values ({flag} = true)"
            raise self._refusal(message, "unknown_value", comparison.position)
        return code

    def _refusal(self, message: str, code: str, position: Position) -> QueryError:
        return QueryError(f"attribute {self.attribute.name!r} {message}", code=code, position=position)


class _Categories(Meaning[CategoricalAttribute]):
    def named_cells(self, comparison: Comparison) -> list[int]:
        if comparison.operator in ("missing", "other"):
            return [self._special_cell(comparison)]
        attribute = self.attribute
        if comparison.part is not None:
            level = attribute.level(comparison.part)
            if level is None:
                raise self._refusal(f"has no level {comparison.part!r}", "wrong_kind", comparison.position)
            return self._level_cells(level, comparison)
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


class _Ordered(Meaning[_Scale]):
    def named_cells(self, comparison: Comparison) -> list[int] | None:
        if comparison.operator in ("missing", "other"):
            return [self._special_cell(comparison)]
        return [self.attribute.size - 1] if self._names_other(comparison) else None

    def _names_other(self, comparison: Comparison) -> bool:
        asked = comparison.operator in ("eq", "ne") and comparison.values == (OTHER_LABEL,)
        return self.attribute.other and asked

    def intervals(self, comparison: Comparison) -> Intervals:
        if comparison.operator in ("missing", "other") or self._names_other(comparison):
            return ()
        points = tuple(self._point(value, comparison.position) for value in comparison.listed)
        if comparison.operator == "ne":
            ((low, high),) = points
            return (self.points[0], low), (high, self.points[-1])
        return points or self._range(comparison)

    def _range(self, comparison: Comparison) -> Intervals:
        """Return the interval of a comparison of order; none of BETWEEN whose first end is the greater."""
        start, end, numbers = self.points[0], self.points[-1], list[float]()
        for order, value in comparison.bounds:
            number = self._number(value, comparison.position)
            whole = float(math.ceil(number)) if self.attribute.is_whole else number
            cut = whole if order in ("ge", "lt") else self._above(number)
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
        if isinstance(value, bool | str):
            raise self._refusal(f"holds numbers; got {shown_value(value)}", "wrong_kind", position)
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self._refusal(f"needs a finite number, got {shown_value(number)}", "wrong_kind", position)
        return number


class _Periods(_Ordered[Periods]):
    _whole_called: ClassVar[str] = "values"

    def _number(self, value: Scalar, position: Position) -> float:
        second = self.attribute.read_second(value) if isinstance(value, str) else None
        if second is not None and second % self.attribute.scale == 0:  # a day is before none of its hours
            return float(second // self.attribute.scale)
        what, example = self.attribute.values_called, self.attribute.literal(self.attribute.ends[0])
        message = f"holds {what}, written as {example}; got {shown_value(value)}"
        raise self._refusal(message, "wrong_kind", position)


_ordered: Callable[[Any], Meaning[Any]] = functools.lru_cache(maxsize=1024)(_Ordered)
_periods: Callable[[Any], Meaning[Any]] = functools.lru_cache(maxsize=1024)(_Periods)
_KINDS: dict[type, Callable[[Any], Meaning[Any]]] = {
    IntegerAttribute: _ordered,
    NumericAttribute: _ordered,
    CategoricalAttribute: _Categories,
    DateAttribute: _periods,
    DatetimeAttribute: _periods,
    TimeAttribute: _periods,
}
