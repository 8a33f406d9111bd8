"""Groups: one counting query for every combination of declared values of some attributes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from queries.cells import nearest
from queries.domain import Attribute, CategoricalAttribute, Domain
from queries.errors import QueryError
from queries.linear import LinearQuery
from queries.numbers import IntegerAttribute
from queries.parts import part_groups

GroupValue: TypeAlias = str | int | bool | None  # None stands for an empty value, as NULL does

MOST_BINS = 10_000  # answers that one question may ask for

# What an answer says of a group besides its values; a column of values is called otherwise.
RESERVED_COLUMNS = ("count", "fraction", "interval", "low", "high", "source", "aligned", "version")


class _Group(NamedTuple):
    """Cells of an attribute that make a group, and what they stand for."""

    value: GroupValue
    cells: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GroupedQuery:
    """A counting query split by attributes, as ``GROUP BY`` splits it.

    Every declared value has its group, whether records fall into it or not: which values are empty is
    never read off the data. ``missing`` and ``other`` cells are groups too.

    Args:
        query: what is counted in every group.
        names: the attributes, in the order asked; none for one group that holds everybody.
        columns: what their columns are called; the attributes' names where it is empty.
        count_column: what the column of counts is called.
        parts: what of each attribute's values groups them (``queries.parts``); None, or no parts at all, for
            the values themselves.

    Raises:
        QueryError: an attribute stands twice with the same part or is not declared, it has no such part or
            its cells are wider, there are more groups than MOST_BINS, or a column would be called like
            another one.
    """

    query: LinearQuery
    names: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    count_column: str = "count"
    parts: tuple[str | None, ...] = ()
    _groups: tuple[tuple[_Group, ...], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        domain, names = self.domain, tuple(self.names)
        parts = tuple(self.parts) or (None,) * len(names)
        for name, part in zip(names, parts, strict=True):
            if name not in domain:
                listed = ", ".join(domain.names[:20]) + (", …" if len(domain) > 20 else "")
                raise QueryError(
                    f"unknown attribute {name!r}; declared are {listed}{nearest(name, domain.names)}",
                    code="unknown_attribute",
                )
            if list(zip(names, parts, strict=True)).count((name, part)) > 1:
                raise QueryError(f"GROUP BY names an attribute twice: {name!r}", code="bad_request")
        columns = tuple(self.columns) or names
        _check_columns(columns, self.count_column)
        plain = math.prod(domain[name].size for name, part in zip(names, parts, strict=True) if part is None)
        groups = () if plain > MOST_BINS else tuple(map(_groups_of, map(domain.__getitem__, names), parts))
        count = math.prod(map(len, groups)) if groups else plain
        if count > MOST_BINS:
            raise QueryError(
                f"expected at most {MOST_BINS:,} groups, got {count:,}; group by fewer attributes",
                code="too_large",
            )
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "_groups", groups)

    @property
    def domain(self) -> Domain:
        """The table's domain."""
        return self.query.domain

    def __len__(self) -> int:
        return math.prod(map(len, self._groups))

    def __iter__(self) -> Iterator[LinearQuery]:
        """Yield the query of each group."""
        for groups in itertools.product(*self._groups):
            chosen: dict[str, NDArray[np.int64]] = {}
            for name, group in zip(self.names, groups, strict=True):
                # YEAR(hired) and MONTH(hired) are both of one attribute.
                chosen[name] = np.intersect1d(chosen[name], group.cells) if name in chosen else group.cells
            yield self.query.within(chosen)

    def labels(self) -> tuple[tuple[GroupValue, ...], ...]:
        """Return the values of each group, in the order of ``names``."""
        return tuple(tuple(group.value for group in groups) for groups in itertools.product(*self._groups))


def cell_value(attribute: Attribute, code: int) -> GroupValue:
    """Return what a cell stands for: a declared value, a whole number, None for empty, or a label."""
    if code == attribute.missing_code:
        return None
    if code < attribute.base_size:
        if isinstance(attribute, CategoricalAttribute):
            return attribute.values[code]
        if isinstance(attribute, IntegerAttribute) and attribute.width == 1:
            return attribute.minimum + code
    return attribute.label(code)


def _check_columns(columns: tuple[str, ...], count_column: str) -> None:
    taken = [*columns, count_column]
    for place, name in enumerate(taken):
        reserved = name in RESERVED_COLUMNS and (place < len(columns) or name != "count")
        if reserved or name in taken[:place]:
            raise QueryError(
                f"two columns would be called {name!r}; give one another name with AS", code="bad_request"
            )


def _groups_of(attribute: Attribute, part: str | None) -> tuple[_Group, ...]:
    """Return the groups of an attribute's cells; those of empty and of undeclared values come last."""
    single = (_Group(cell_value(attribute, code), np.array([code])) for code in range(attribute.size))
    if part is None:
        return tuple(single)
    special = (code for code in (attribute.missing_code, attribute.other_code) if code is not None)
    return (
        *(_Group(*group) for group in part_groups(attribute, part)),
        *(_Group(cell_value(attribute, code), np.array([code])) for code in special),
    )
