"""Groups: one counting query for every combination of declared values of some attributes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from queries.domain import Attribute, CategoricalAttribute, Domain, IntegerAttribute, nearest
from queries.errors import QueryError
from queries.linear import LinearQuery

__all__ = [
    "cell_value",
    "GroupedQuery",
    "GroupValue",
    "MOST_BINS",
    "RESERVED_COLUMNS",
]

GroupValue: TypeAlias = str | int | bool | None  # None stands for an empty value, as NULL does

MOST_BINS = 10_000  # answers that one question may ask for

# What an answer says of a group besides its values; a column of values is called otherwise.
RESERVED_COLUMNS = ("count", "fraction", "interval", "low", "high", "source", "aligned", "version")


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

    Attributes:
        codes: the cells of each group, the last attribute running fastest.

    Raises:
        QueryError: an attribute stands twice or is not declared, there are more groups than MOST_BINS, or
            a column would be called like another one.
    """

    query: LinearQuery
    names: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    count_column: str = "count"
    codes: tuple[tuple[int, ...], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        domain, names = self.domain, tuple(self.names)
        for name in names:
            if name not in domain:
                listed = ", ".join(domain.names[:20]) + (", …" if len(domain) > 20 else "")
                raise QueryError(
                    f"unknown attribute {name!r}; declared are {listed}{nearest(name, domain.names)}",
                    code="unknown_attribute",
                )
            if names.count(name) > 1:
                raise QueryError(f"GROUP BY names an attribute twice: {name!r}", code="bad_request")
        columns = tuple(self.columns) or names
        _check_columns(columns, self.count_column)
        groups = math.prod(domain[name].size for name in names)
        if groups > MOST_BINS:
            raise QueryError(
                f"expected at most {MOST_BINS:,} groups, got {groups:,}; group by fewer attributes",
                code="too_large",
            )
        cells = itertools.product(*(range(domain[name].size) for name in names))
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "codes", tuple(cells))

    @property
    def domain(self) -> Domain:
        """The table's domain."""
        return self.query.domain

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[LinearQuery]:
        """Yield the query of each group."""
        for cells in self.codes:
            yield self.query.within(dict(zip(self.names, cells, strict=True)))

    def labels(self) -> tuple[tuple[GroupValue, ...], ...]:
        """Return the values of each group, in the order of ``names``."""
        attributes = [self.domain[name] for name in self.names]
        return tuple(_values(attributes, cells) for cells in self.codes)


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


def _values(attributes: Sequence[Attribute], cells: Sequence[int]) -> tuple[GroupValue, ...]:
    return tuple(cell_value(attribute, code) for attribute, code in zip(attributes, cells, strict=True))
