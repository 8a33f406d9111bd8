"""Values and conditions cell by cell: what a row of each cell may hold, and whether a condition holds there.

A record is known to its cell, so a number is an interval: a point where the cell holds one value.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from queries.cells import OTHER_LABEL, GroupValue
from queries.dates import Periods
from queries.domain import Attribute, Domain
from queries.errors import QueryError
from queries.factors import UNITS, Factor, Span
from queries.frozen import dataclass
from queries.linear import LinearQuery, Readings
from queries.places import as_index
from queries.work import TEXT, count_cells, require_few_groups

_LARGEST = 1e100  # numbers whose squares are still numbers
_NOWHERE = np.zeros((), dtype=bool)


@dataclass(frozen=True, slots=True, eq=False)
class CellCondition:
    """Where a condition holds, cell by cell.

    Args:
        scope: attribute names in declared order.
        least: bool, one axis per attribute: it holds for every value of the cell.
        share: float64, the part of an evenly filled cell where it holds, in [0, 1].
        most: bool: it holds for some value of the cell.
    """

    scope: tuple[str, ...]
    least: NDArray[np.bool_]
    share: NDArray[np.float64]
    most: NDArray[np.bool_]

    @classmethod
    def of(cls, query: LinearQuery) -> CellCondition:
        """Return the condition that a counting query states."""
        domain = query.domain
        union_scope(domain, (query.scope,))
        share = query.weights() / UNITS
        if query.readings is None:
            holds = share > 0
            return cls(query.scope, holds, share, holds)
        least, most = (
            on_scope(domain, reading.scope, reading.weights() > 0, query.scope) for reading in query.readings
        )
        return cls(
            query.scope, np.broadcast_to(least, share.shape), share, np.broadcast_to(most, share.shape)
        )

    @classmethod
    def decided(cls, scope: tuple[str, ...], holds: NDArray[np.bool_]) -> CellCondition:
        """Return the condition that holds for every value of some cells, and for none of the others."""
        return cls(scope, holds, holds.astype(np.float64), holds)

    @classmethod
    def constant(cls, holds: bool) -> CellCondition:
        """Return the condition that holds for every record, or for none."""
        return cls.decided((), np.array(holds))

    @property
    def is_decided(self) -> bool:
        """No cell is left open."""
        return self.least is self.most or np.array_equal(self.least, self.most)

    @property
    def weights(self) -> NDArray[np.float64]:
        """The share of each cell that counts: 1 or 0 where the cell is decided."""
        return np.where(self.least, 1.0, np.where(self.most, self.share, 0.0))

    @property
    def is_indicator(self) -> bool:
        """Every weight is 0 or 1."""
        return self.is_decided or bool(np.isin(self.weights, (0.0, 1.0)).all())

    def placed(self, domain: Domain, scope: tuple[str, ...]) -> CellCondition:
        """Return the same over a wider scope."""
        shape = domain.scope_shape(scope)
        arrays = (on_scope(domain, self.scope, one, scope) for one in (self.least, self.share, self.most))
        return CellCondition(scope, *(np.broadcast_to(one, shape) for one in arrays))

    def both(self, other: CellCondition, domain: Domain) -> CellCondition:
        """Return where both hold; shares inside one cell are taken as independent."""
        return self._joined(other, domain, np.logical_and, lambda one, two: one * two)

    def either(self, other: CellCondition, domain: Domain) -> CellCondition:
        """Return where one of them holds; shares inside one cell are taken as independent."""
        return self._joined(other, domain, np.logical_or, lambda one, two: one + two - one * two)

    def _joined(
        self,
        other: CellCondition,
        domain: Domain,
        join: Callable[[Any, Any], Any],
        share: Callable[[Any, Any], Any],
    ) -> CellCondition:
        scope = union_scope(domain, (self.scope, other.scope))
        one, two = self.placed(domain, scope), other.placed(domain, scope)
        return CellCondition(
            scope, join(one.least, two.least), share(one.share, two.share), join(one.most, two.most)
        )

    def factor(self) -> Factor:
        """Return the weights, rounded to the grid."""
        if self.is_decided:
            return Factor.where(self.scope, self.least)
        return Factor(self.scope, np.rint(self.weights * UNITS).astype(np.int64))

    def readings(self) -> tuple[Factor, Factor]:
        """Return one record in each cell where it holds for every value, and where it does for some."""
        return Factor.where(self.scope, self.least), Factor.where(self.scope, self.most)

    def cells(self) -> CellCondition:
        """Return itself."""
        return self


@dataclass(frozen=True, slots=True, eq=False)
class CellRange:
    """A condition that holds in consecutive cells of one attribute, as ``CellCondition`` for any cells.

    Args:
        least: one record in each cell in which it holds for every value.
        most: the same of those in which it holds for some value: at most both ends more.
        ends: the part of the first and of the last of these where it holds; of a single one, twice the same.
    """

    least: Factor
    most: Factor
    ends: tuple[float, float] = (1.0, 1.0)

    @property
    def scope(self) -> tuple[str, ...]:
        """The attribute."""
        return self.most.scope

    @property
    def is_decided(self) -> bool:
        """No cell is left open."""
        return self.least is self.most

    @property
    def is_indicator(self) -> bool:
        """Every weight is 0 or 1."""
        return set(self.ends) <= {0.0, 1.0}

    def _inside(self) -> slice:
        return self.most.box[0] if self.most.box else slice(0, self.most.shape[0])

    def factor(self) -> Factor:
        """Return the weights, rounded to the grid."""
        if self.is_decided:
            return self.most
        inside = self._inside()
        first, last = [round(end * UNITS) for end in self.ends]
        inside = slice(inside.start + (not first), inside.stop - (not last))
        return Factor(self.scope, Span(self.most.shape[0], inside, (first or UNITS, last or UNITS)))

    def readings(self) -> tuple[Factor, Factor]:
        """Return one record in each cell where it holds for every value, and where it does for some."""
        return self.least, self.most

    def cells(self) -> CellCondition:
        """Return the same condition, cell by cell."""
        least, share, inside = self.least.weights > 0, self.most.weights / UNITS, self._inside()
        most = least if self.is_decided else share > 0
        share[inside.start], share[inside.stop - 1] = self.ends
        return CellCondition(self.scope, least, share, most)


def counted_where(conditions: Sequence[CellCondition | CellRange], domain: Domain) -> LinearQuery:
    """Return the query of conditions on different attributes that all hold; a weight is rounded once."""
    if all([one.is_decided for one in conditions]):  # noqa: C419  # a list is quicker
        return LinearQuery(domain, tuple([one.factor() for one in conditions]))
    kept = [one for one in conditions if one.is_indicator]
    if len(kept) + 1 < len(conditions):
        cut = [one.cells() for one in conditions if not one.is_indicator]
        kept.append(functools.reduce(lambda one, two: one.both(two, domain), cut))
    else:
        kept = list(conditions)
    # They share no attribute and weights are not negative: the least product is that of the least.
    both = zip(*[one.readings() for one in conditions], strict=True)
    least, most = [LinearQuery(domain, factors) for factors in both]
    if most.constant == 0:
        return most  # nobody, whatever others leave open
    return LinearQuery(domain, tuple([one.factor() for one in kept]), readings=Readings(least, most))


class Kind(enum.IntEnum):
    """What numbers are, as types of SQL have it; what is made of two kinds is of the greater one."""

    TRUTH = 0  # 1 for TRUE and 0 for FALSE
    WHOLE = 1
    DECIMAL = 2  # rounded half away from zero by a CAST
    DOUBLE = 3  # rounded half to even


class Line(NamedTuple):
    """Numbers that are those of an attribute times a factor, and a constant."""

    attribute: str
    factor: float


@dataclass(frozen=True, slots=True, eq=False)
class CellValues:
    """What a row of each cell of a scope holds: a number, or a label.

    Args:
        scope: attribute names in declared order.
        low, middle, high: float64, one axis per attribute: the least and the greatest number that a row of
            the cell may hold, and the number that stands for it. Zero where there is none.
        present: bool: whether the cell's rows hold a value at all; NULL where they do not.
        labels: object, of the cells, where the value is no number; None for numbers.
        kind: what the numbers are by their declaration.
        undecided: bool: the cell does not tell the value, as that of undeclared texts does not. What is
            compared with it is open there.
        declared: texts that no undecided cell holds.
        dated: ``dated`` or ``clock`` where the labels are periods of the calendar or of the day, and the
            numbers their first and last seconds; else empty.
        line: the numbers are those of one attribute times a factor, and a constant.
    """

    scope: tuple[str, ...]
    low: NDArray[np.float64]
    middle: NDArray[np.float64]
    high: NDArray[np.float64]
    present: NDArray[np.bool_]
    labels: NDArray[np.object_] | None = None
    kind: Kind = Kind.DOUBLE
    undecided: NDArray[np.bool_] = field(default_factory=lambda: _NOWHERE)
    declared: frozenset[str] = frozenset()
    dated: str = ""
    line: Line | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "undecided", np.broadcast_to(self.undecided, self.present.shape))

    @property
    def whole(self) -> bool:
        """The numbers are whole, so that a division drops the fraction."""
        return self.kind <= Kind.WHOLE

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """The three numbers of each cell."""
        return self.low, self.middle, self.high

    @property
    def constant(self) -> float | None:
        """The number of every cell, where it is one and the same; else None."""
        if self.scope or self.labels is not None or not self.present:
            return None
        return float(self.middle)

    def placed(self, domain: Domain, scope: tuple[str, ...]) -> CellValues:
        """Return the same over a wider scope."""
        shape = domain.scope_shape(scope)

        def wide(array: NDArray[Any]) -> NDArray[Any]:
            return np.broadcast_to(on_scope(domain, self.scope, array, scope), shape)

        labels = None if self.labels is None else wide(self.labels)
        low, middle, high = (wide(array) for array in self.arrays)
        return replace(
            self, scope=scope, low=low, middle=middle, high=high, present=wide(self.present), labels=labels,
            undecided=wide(self.undecided),
        )  # fmt: skip

    def groups(self) -> list[tuple[GroupValue, NDArray[np.int64]]]:
        """Return every value with the places of the cells that hold it, numbers growing, NULL last."""
        if self.labels is None and np.any((self.low != self.high) & self.present):
            raise QueryError(
                "GROUP BY cuts cells: values inside one cell would fall into several groups; group by "
                "whole cells, or by a condition at one of their edges",
                code="unaligned",
            )
        self._require_told()
        count_cells(self.present.size * (1 if self.labels is None else TEXT), self.scope)
        values, numbers = self._distinct()
        require_few_groups(len(values))
        order = np.argsort(numbers, kind="stable")
        counts = np.bincount(as_index(numbers), minlength=len(values))
        places = np.split(np.flatnonzero(self.present)[order], np.cumsum(counts)[:-1])
        found = list(zip(map(self.shown, values), places, strict=True)) if values else []
        if not np.all(self.present):
            found.append((None, np.flatnonzero(~self.present)))
        return found

    def _distinct(self) -> tuple[list[Any], NDArray[np.intp]]:
        if self.labels is None:
            values, numbers = np.unique(self.middle[self.present], return_inverse=True)
            return values.tolist(), numbers
        places: dict[Any, int] = {}
        told = [places.setdefault(one, len(places)) for one in self.labels[self.present].tolist()]
        return list(places), np.array(told, dtype=np.intp)

    def shown(self, cell: Any) -> Any:
        """Return a number, or a label, as a table has it: what a condition is as TRUE or FALSE."""
        if self.labels is not None:
            return cell
        if self.kind is Kind.TRUTH:
            return bool(cell)
        return int(cell) if cell == int(cell) else float(cell)

    def by_groups(self, owners: Sequence[NDArray[np.int64]]) -> dict[tuple[int, ...], GroupValue]:
        """Return the value of each group, by the numbers that its keys have in its cells."""
        count_cells(self.present.size * len(owners), self.scope)
        if self.labels is None and np.any((self.low != self.high) & self.present):
            raise QueryError(
                "what is computed of keys is not known of undeclared values, or inside cells of several; "
                "show the keys alone",
                code="unaligned",
            )
        sizes = [int(one.max()) + 2 for one in owners]  # of a total the number is -1
        codes = np.ravel_multi_index([one.ravel() + 1 for one in owners], sizes)
        numbers, first = np.unique(codes, return_index=True)
        cells: NDArray[Any] = (self.middle if self.labels is None else self.labels).ravel()
        told = zip(cells[first], self.present.ravel()[first], self.undecided.ravel()[first], strict=True)
        values = [
            OTHER_LABEL if is_open else self.shown(cell) if present else None
            for cell, present, is_open in told
        ]
        places = zip(*(one - 1 for one in np.unravel_index(numbers, sizes)), strict=True)
        return dict(zip(places, values, strict=True))

    def _require_told(self) -> None:
        """Refuse texts of which a cell may hold several, one of them that of another group."""
        if self.labels is None or not self.undecided.any():
            return
        named = self.labels[self.undecided] == OTHER_LABEL
        others = set(map(str, self.labels[self.present & ~self.undecided].tolist()))
        if not (named & self.present[self.undecided]).all() or not others <= self.declared:
            what = "undeclared texts" if named.any() else "values inside one cell"
            raise QueryError(
                f"GROUP BY cuts cells: {what} would fall into several groups; group by whole cells, by a "
                "condition at one of their edges, or by declared values",
                code="unaligned",
            )


def constant_value(value: float | str | None) -> CellValues:
    """Return a number, a text or NULL, the same for every row."""
    number = np.zeros(()) if value is None or isinstance(value, str) else np.array(float(value))
    labels = np.array(value, dtype=object) if isinstance(value, str) else None
    kind = Kind.TRUTH if isinstance(value, bool) else Kind.WHOLE if isinstance(value, int) else Kind.DOUBLE
    return CellValues((), number, number, number, np.array(value is not None), labels, kind)


def attribute_values(attribute: Attribute) -> CellValues:
    """Return what the cells of an attribute hold: numbers where it has some, else labels.

    Values beyond the declared ends count as the ends. Empty ones hold none; undeclared ones hold no number
    that sums count, and a text that is not declared.
    """
    scope, size = (attribute.name,), attribute.size
    present, undecided = np.ones(size, dtype=bool), np.zeros(size, dtype=bool)
    if attribute.missing_code is not None:
        present[attribute.missing_code] = False
    if attribute.other_code is not None:
        undecided[attribute.other_code] = True
    low, high = np.zeros(size), np.zeros(size)
    ends = attribute.number_ends()
    if ends is not None:
        low[: len(ends[0])], high[: len(ends[1])] = ends
        middle, present = (low + high) / 2, present & ~undecided
        line = Line(attribute.name, 1.0)
        kind = Kind.WHOLE if attribute.is_whole else Kind.DOUBLE
        return CellValues(scope, low, middle, high, present, None, kind, undecided, line=line)
    labels = np.array([attribute.value(code) for code in range(size)], dtype=object)
    span = attribute.seconds()
    if span is not None:
        low[: len(span[0])], high[: len(span[1])] = span
    declared = frozenset(attribute.label(code) for code in range(attribute.base_size))
    return CellValues(
        scope, low, (low + high) / 2, high, present, labels, Kind.WHOLE if span else Kind.DOUBLE, undecided,
        declared, attribute.shape if isinstance(attribute, Periods) else "",
    )  # fmt: skip


def union_scope(domain: Domain, scopes: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the attributes of several scopes, in declared order, over which arrays are made next."""
    scope = domain.scope(list({name for one in scopes for name in one}))
    count_cells(domain.scope_size(scope), scope)
    return scope


def on_scope(
    domain: Domain, scope: tuple[str, ...], array: NDArray[Any], wider: tuple[str, ...]
) -> NDArray[Any]:
    """Return an array over a scope, shaped to broadcast over a wider one."""
    return array.reshape([domain[name].size if name in scope else 1 for name in wider])


def too_large() -> QueryError:
    """Return the error of numbers whose squares may be none."""
    return QueryError(f"expected numbers of at most {_LARGEST:g} here", code="bad_request")


def require_finite(numbers: NDArray[np.float64]) -> None:
    """Refuse numbers whose squares may be none."""
    if not np.all(np.abs(numbers) <= _LARGEST):
        raise too_large()
