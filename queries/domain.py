"""Domains: the declared attributes of a table.

A domain is declared, never read off the records.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from queries.categories import CategoricalAttribute
from queries.cells import nearest
from queries.dates import DateAttribute, DatetimeAttribute, TimeAttribute
from queries.errors import DomainError, ScopeError
from queries.frozen import dataclass
from queries.impossible import Impossible, check_impossible
from queries.numbers import MOST_STEPS, IntegerAttribute, NumberCells, NumericAttribute, ValueGrid
from queries.person import Person, check_person
from queries.plain_values import shown_text, type_name

if TYPE_CHECKING:
    from queries.lookups import Lookup

OrderedAttribute: TypeAlias = (
    IntegerAttribute | NumericAttribute | DateAttribute | DatetimeAttribute | TimeAttribute
)
Attribute: TypeAlias = OrderedAttribute | CategoricalAttribute


@dataclass(frozen=True, slots=True)
class Domain:
    """The declared attributes of one table, in order.

    Args:
        attributes: at least one, with different names.
        name: the table's name, used in ``FROM`` and in reports.
        person: the column that says whose a record is; None where nothing does. No part of equality.
        lookups: what values are called, for statements that join them. No part of equality.
        impossible: the conditions that no record satisfies; see ``rule_out``.

    Attributes:
        names: attribute names in declared order.
        shape: number of cells per attribute, in declared order.
    """

    attributes: tuple[Attribute, ...]
    name: str = "records"
    person: Person | None = field(default=None, compare=False)
    lookups: tuple[Lookup, ...] = field(default=(), compare=False, repr=False)
    impossible: tuple[Impossible, ...] = ()
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    shape: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _positions: dict[str, int] = field(init=False, repr=False, compare=False)
    _levels: dict[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        attributes = tuple(self.attributes)
        names = tuple(attribute.name for attribute in attributes)
        object.__setattr__(self, "attributes", attributes)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "shape", tuple(attribute.size for attribute in attributes))
        object.__setattr__(self, "_positions", {name: position for position, name in enumerate(names)})
        object.__setattr__(self, "_levels", {})
        object.__setattr__(self, "lookups", tuple(self.lookups))
        object.__setattr__(self, "impossible", tuple(self.impossible))
        if not self.attributes:
            raise DomainError("a domain needs at least one attribute, got none")
        if not isinstance(self.name, str) or not self.name or not self.name.isprintable():
            raise DomainError(f"a domain needs a printable name, got name={self.name!r}")
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise DomainError(f"attribute names must differ, got {twice!r} more than once")
        for attribute in attributes:
            for level in attribute.level_names:
                if level in names or level in self._levels:
                    raise attribute.wrong(f"another attribute or level is called {level!r}")
                self._levels[level] = attribute.name
        check_person(self.person, names)
        self._check_clips()
        if self.lookups:
            from queries.lookups import check_lookups  # late: nothing but statements rests on them

            check_lookups(self.lookups, attributes, self.name)
        check_impossible(self.impossible, self.sizes)

    @property
    def size(self) -> int:
        """Number of cells of the whole domain, an exact Python integer."""
        return math.prod(self.shape)

    @property
    def sizes(self) -> dict[str, int]:
        """The number of cells of each attribute by its name, in declared order."""
        return dict(zip(self.names, self.shape, strict=True))

    def _check_clips(self) -> None:
        """Refuse a clip of what is not summed, or of values whose grid has no place for 0."""
        for name, most in () if self.person is None else self.person.clips:
            attribute = self[name]
            if not isinstance(attribute, NumberCells) or attribute.resolution is None:
                raise attribute.wrong("what a person's values are clipped to needs a resolution of theirs")
            grid = attribute.grid(most)
            if grid is None or not grid.holds_zero or not 1 <= grid.most <= MOST_STEPS:
                raise attribute.wrong(
                    "a clip needs ends that are multiples of the resolution, and at least one step of it, at "
                    f"most {MOST_STEPS:,}"
                )

    @property
    def grids(self) -> tuple[ValueGrid, ...]:
        """The grids of the attributes whose values are summed, in declared order."""
        clips = {} if self.person is None else self.person.clip
        found = (one.grid(clips.get(one.name)) for one in self.attributes if isinstance(one, NumberCells))
        return tuple(grid for grid in found if grid is not None)

    @property
    def stored(self) -> Domain:
        """The attributes, and behind them the grids of their values: what is kept of a record."""
        grids = self.grids
        if not grids:
            return self
        attributes: tuple[Any, ...] = (*self.attributes, *grids)
        return Domain(attributes, self.name, self.person, self.lookups, self.impossible)

    @property
    def declared(self) -> Domain:
        """The attributes without the grids of their values."""
        attributes = tuple(one for one in self.attributes if not isinstance(one, ValueGrid))
        if len(attributes) == len(self.attributes):
            return self
        return Domain(attributes, self.name, self.person, self.lookups, self.impossible)

    @property
    def counted(self) -> Domain:
        """The domain with no values that are summed: what counts are of, whatever its resolutions."""
        attributes = (replace(one, resolution=None) if isinstance(one, NumberCells) else one for one in self)
        return Domain(tuple(attributes), self.name, lookups=self.lookups)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that are read: those of the attributes, then that of ids, if any."""
        return self.names if self.person is None else (*self.names, self.person.column)

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def __contains__(self, name: object) -> bool:
        return name in self._positions

    def __getitem__(self, name: str) -> Attribute:
        return self.attributes[self.index(name)]

    def index(self, name: str) -> int:
        """Return the position of an attribute.

        Raises:
            ScopeError: the domain has no such attribute.
        """
        is_text = issubclass(type(name), str)
        if is_text and name in self._positions:
            return self._positions[name]
        hint = nearest(name, self.names) if is_text else ""
        raise ScopeError(f"expected an attribute of {self.name!r}, got {shown_text(name)}{hint}")

    @property
    def levels(self) -> Mapping[str, str]:
        """The attribute of each level by the level's name."""
        return MappingProxyType(self._levels)

    def scope(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names in declared order, each once.

        Raises:
            ScopeError: a name is unknown or given twice.
        """
        positions = sorted([self.index(name) for name in names])
        if len(set(positions)) != len(positions):
            raise ScopeError(f"expected each attribute once, got {list(names)}")
        return tuple([self.names[position] for position in positions])

    def scope_shape(self, scope: Sequence[str]) -> tuple[int, ...]:
        """Return the number of cells per attribute of a scope."""
        return tuple([self.shape[self.index(name)] for name in scope])

    def scope_size(self, scope: Sequence[str]) -> int:
        """Return the number of cells of a scope, an exact Python integer."""
        return math.prod(self.scope_shape(scope))


def require_domain(domain: object) -> None:
    """Refuse what is no domain, such as a table in its place, by its type alone."""
    if not issubclass(type(domain), Domain):
        raise DomainError(f"expected a Domain, got a {type_name(domain)}; load_schema and Domain make one")
