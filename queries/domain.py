"""Domains: the declared attributes of a table and the cells that their values fall into.

What attributes have in common, and their cells, is in ``queries.cells``. A domain is declared, never read off
the records.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from queries.cells import (
    MISSING_LABEL,
    MOST_CELLS,
    OTHER_LABEL,
    CategoricalValue,
    Cells,
    GroupValue,
    canonical_text,
    nearest,
)
from queries.dates import DateAttribute, DatetimeAttribute
from queries.errors import DomainError, ScopeError
from queries.levels import Level, check_levels, prefix_level
from queries.numbers import IntegerAttribute, NumericAttribute
from queries.person import Person, check_person
from queries.plain_values import shown_text, type_name


@dataclass(frozen=True, slots=True)
class CategoricalAttribute(Cells):
    """Declared values, one cell each; the text ``3`` and the integer 3 are one value.

    Args:
        values: at least one.
        levels: coarser values that questions may name instead, and that measurements and bins follow: for
            codes the lengths of prefixes, such as 2, or ``Level``; a value of one lies in one of the next.

    Attributes:
        codes: the cell of each value by its text.
    """

    values: tuple[CategoricalValue, ...]
    levels: tuple[Level, ...] = field(default=(), kw_only=True)
    codes: dict[str, int] = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.check()
        given: object = self.values
        if isinstance(given, str):
            raise self.wrong("values", f"values must be a list, got the text {given!r}")
        values = tuple(self.values)
        if not values:
            raise self.wrong("values", "values must list at least one value, got none")
        for value in values:
            self._check_value(value)
        texts = [canonical_text(value) for value in values]
        if len(set(texts)) != len(texts):
            written = Counter(texts)
            twice = next(text for text in texts if written[text] > 1)
            raise self.wrong("values", f"values must differ, got {twice!r} more than once")
        if len(values) > MOST_CELLS:
            raise self.wrong("values", f"at most {MOST_CELLS:,} values, got {len(values):,}")
        for label, flag in ((MISSING_LABEL, self.missing), (OTHER_LABEL, self.other)):
            if flag and label in texts:
                raise self.wrong("values", f"{label!r} names the special cell and is no value")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "levels", self._checked_levels(texts))
        object.__setattr__(self, "codes", {text: code for code, text in enumerate(texts)})
        object.__setattr__(self, "_hash", hash((self.name, self.missing, self.other, values)))

    def _checked_levels(self, texts: list[str]) -> tuple[Level, ...]:
        levels: list[Level] = []
        for level in tuple(self.levels):
            given: object = level  # of a schema, or of a caller
            if isinstance(given, Level):
                levels.append(prefix_level(self.name, texts, given.prefix) if given.prefix else given)
            elif isinstance(given, int) and not isinstance(given, bool) and given > 0:
                levels.append(prefix_level(self.name, texts, given))
            else:
                raise self.wrong("levels", f"levels must be lengths of prefixes, at least 1, got {given!r}")
        try:
            return check_levels(levels, texts)
        except ValueError as error:
            raise self.wrong("levels", str(error)) from None

    def _check_value(self, value: object) -> None:
        if not isinstance(value, str | int):
            raise self.wrong("values", f"values must be strings, integers or booleans, got {value!r}")
        if isinstance(value, str) and not _is_encodable(value):
            raise self.wrong("values", f"values must be valid Unicode text, got {value!a}")
        if value == "":
            raise self.wrong("values", "an empty text is no value; declare missing = true instead")

    def _identity(self) -> tuple[object, ...]:
        # 1 and True are equal and hash alike, but they are different declarations.
        return self.name, self.missing, self.other, self.levels, self.values, tuple(map(type, self.values))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CategoricalAttribute) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return self._hash

    @property
    def hierarchy(self) -> tuple[tuple[int, ...], ...]:
        """The node of each value in each level that tells some values apart and not all, coarsest first."""
        different = {len(set(level.parents)): level.codes for level in self.levels}
        return tuple(codes for nodes, codes in sorted(different.items()) if 1 < nodes < self.base_size)

    def level(self, name: str) -> Level | None:
        """Return the level of a name, or None where there is none."""
        return next((level for level in self.levels if level.name == name), None)

    @property
    def base_size(self) -> int:
        """Number of declared values."""
        return len(self.values)

    def label(self, code: int) -> str:
        """Return the text of a cell: the value as it is matched in text."""
        special = self.special_label(code)
        return canonical_text(self.values[code]) if special is None else special

    def value(self, code: int) -> GroupValue:
        """Return what a cell stands for: a declared value, None for empty ones, or a label."""
        return self.values[code] if code < self.base_size else Cells.value(self, code)

    def number_ends(self) -> tuple[list[float], list[float]] | None:
        """Return the number of each declared value twice; None where one is no whole number."""
        if not all(isinstance(value, int) and not isinstance(value, bool) for value in self.values):
            return None
        numbers = [float(value) for value in self.values]
        return numbers, numbers


def _is_encodable(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


OrderedAttribute: TypeAlias = IntegerAttribute | NumericAttribute | DateAttribute | DatetimeAttribute
Attribute: TypeAlias = OrderedAttribute | CategoricalAttribute


@dataclass(frozen=True, slots=True)
class Domain:
    """The declared attributes of one table, in order.

    Args:
        attributes: at least one, with different names.
        name: the table's name, used in ``FROM`` and in reports.
        person: the column that says whose a record is; None where nothing does. No part of equality.

    Attributes:
        names: attribute names in declared order.
        shape: number of cells per attribute, in declared order.
    """

    attributes: tuple[Attribute, ...]
    name: str = "records"
    person: Person | None = field(default=None, compare=False)
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
        if not self.attributes:
            raise DomainError("a domain needs at least one attribute, got none", key="attributes")
        if not isinstance(self.name, str) or not self.name or not self.name.isprintable():
            raise DomainError(f"a domain needs a printable name, got name={self.name!r}", key="name")
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise DomainError(f"attribute names must differ, got {twice!r} more than once")
        for attribute in attributes:
            for level in attribute.levels if isinstance(attribute, CategoricalAttribute) else ():
                if level.name in names or level.name in self._levels:
                    raise attribute.wrong("levels", f"another attribute or level is called {level.name!r}")
                self._levels[level.name] = attribute.name
        check_person(self.person, names)

    @property
    def size(self) -> int:
        """Number of cells of the whole domain, an exact Python integer."""
        return math.prod(self.shape)

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
    """Refuse what is no domain, such as a table in its place, by its type alone.

    Raises:
        DomainError: it is none; the message names its type and shows nothing of it.
    """
    if not issubclass(type(domain), Domain):
        raise DomainError(f"expected a Domain, got a {type_name(domain)}; load_schema and Domain make one")
