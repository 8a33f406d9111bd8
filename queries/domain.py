"""Domains: the declared attributes of a table and the cells that their values fall into.

An attribute has *base cells* (numbers 0, 1, … in declared order), then, where declared, one cell for
empty values (``missing``) and one for undeclared ones (``other``). A domain is declared, never read off
the records.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from queries.errors import DomainError, ScopeError
from queries.person import Person, check_person
from queries.plain_values import shown_text, type_name

__all__ = [
    "Attribute",
    "canonical_text",
    "CategoricalAttribute",
    "CategoricalValue",
    "Domain",
    "GRAMMAR_WORDS",
    "IntegerAttribute",
    "MISSING_LABEL",
    "nearest",
    "number_text",
    "NumericAttribute",
    "OTHER_LABEL",
    "quoted_name",
    "require_domain",
]

CategoricalValue: TypeAlias = str | int | bool

_LARGEST_INTEGER = 2**53 - 1  # so that every boundary, one past the last included, is exact in float64
_MOST_CELLS = 1_000_000
_MOST_HINTS = 10_000  # names that are compared for a hint

# Words of a condition: as names they stand in double quotes.
GRAMMAR_WORDS = frozenset({"and", "between", "false", "in", "is", "like", "not", "null", "or", "true"})
MISSING_LABEL, OTHER_LABEL = "(missing)", "(other)"  # how the two special cells are called; no values


def canonical_text(value: CategoricalValue) -> str:
    """Return the text under which a categorical value is matched: ``3`` and ``"3"`` are one value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def nearest(name: str, names: Sequence[str]) -> str:
    """Return a hint such as ``; did you mean 'age'?`` or an empty text when nothing is near."""
    import difflib  # late: only needed once something is wrong

    folded = [candidate for candidate in names if candidate.casefold() == name.casefold()]
    found = folded[:1] or difflib.get_close_matches(name, names[:_MOST_HINTS], n=1, cutoff=0.6)
    return f"; did you mean {found[0]!r}?" if found else ""


@dataclass(frozen=True, slots=True)
class _Cells:
    """What the three kinds of attribute share: a name and the two optional cells."""

    name: str
    missing: bool = field(default=False, kw_only=True)
    other: bool = field(default=False, kw_only=True)

    def _check(self) -> None:
        name = self.name
        if not isinstance(name, str) or not name or name != name.strip() or not name.isprintable():
            raise DomainError(
                f"an attribute needs a printable name without spaces around it, got {name!r}", key="name"
            )
        for label, flag in (("missing", self.missing), ("other", self.other)):
            if not isinstance(flag, bool):
                raise self._wrong(label, f"{label} must be true or false, got {flag!r}")

    def _wrong(self, key: str, message: str) -> DomainError:
        return DomainError(f"attribute {self.name!r}: {message}", key=key)

    @property
    def base_size(self) -> int:
        raise TypeError("a kind of attribute defines its base cells")

    @property
    def size(self) -> int:
        """Number of cells, the ``missing`` and ``other`` cells included."""
        return self.base_size + self.missing + self.other

    @property
    def missing_code(self) -> int | None:
        """The cell of empty values, or None where none is declared."""
        return self.base_size if self.missing else None

    @property
    def other_code(self) -> int | None:
        """The cell of undeclared or malformed values, or None where none is declared."""
        return self.base_size + self.missing if self.other else None


@dataclass(frozen=True, slots=True)
class IntegerAttribute(_Cells):
    """Whole numbers from ``minimum`` to ``maximum`` in cells of ``width``; others are clipped to the ends.

    The last cell is narrower where ``width`` does not divide the range.
    """

    minimum: int
    maximum: int
    width: int = 1

    def __post_init__(self) -> None:
        self._check()
        for label, value in (("min", self.minimum), ("max", self.maximum), ("width", self.width)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise self._wrong(label, f"{label} must be a whole number, got {value!r}")
            if abs(value) > _LARGEST_INTEGER:
                raise self._wrong(label, f"{label} must be within ±(2^53 - 1)")
        if self.minimum > self.maximum:
            raise self._wrong("min", f"min must not exceed max, got min={self.minimum}, max={self.maximum}")
        if self.width < 1:
            raise self._wrong("width", f"width must be at least 1, got width={self.width}")
        if self.base_size > _MOST_CELLS:
            raise self._wrong(
                "width", f"at most {_MOST_CELLS:,} cells, got {self.base_size:,}; choose a larger width"
            )

    @property
    def base_size(self) -> int:
        """Number of cells without ``missing`` and ``other``."""
        return (self.maximum - self.minimum) // self.width + 1

    @property
    def ends(self) -> tuple[int, int]:
        """Start of the first cell and end of the last, half-open."""
        return self.minimum, self.maximum + 1

    @property
    def boundaries(self) -> tuple[int, ...]:
        """Half-open cell boundaries, ``base_size + 1`` of them: value v fills [v, v + 1)."""
        starts = range(self.minimum, self.maximum + 1, self.width)
        return (*starts, self.maximum + 1)

    def label(self, code: int) -> str:
        """Return the text of a cell, such as ``30`` or ``30..34``."""
        special = _special_label(self, code)
        if special is not None:
            return special
        low = self.minimum + code * self.width
        high = min(low + self.width - 1, self.maximum)
        return str(low) if low == high else f"{low}..{high}"


@dataclass(frozen=True, slots=True)
class NumericAttribute(_Cells):
    """Real numbers in half-open cells between ``edges``; the last cell is closed, others are clipped."""

    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        self._check()
        edges = tuple(self.edges)
        if len(edges) < 2:
            raise self._wrong("edges", f"edges must list at least 2 numbers, got {len(edges)}")
        for edge in edges:
            if isinstance(edge, bool) or not isinstance(edge, int | float) or not _is_finite(edge):
                shown = (
                    "a number beyond float64" if isinstance(edge, int) and edge not in (0, 1) else repr(edge)
                )
                raise self._wrong("edges", f"edges must be finite numbers, got {shown}")
        for low, high in pairwise(edges):
            if not float(low) < float(high):
                raise self._wrong("edges", f"edges must increase or cells overlap, got {low!r}, {high!r}")
        if not math.isfinite(float(edges[-1]) - float(edges[0])):
            raise self._wrong("edges", "edges must span a finite width")
        if len(edges) - 1 > _MOST_CELLS:
            raise self._wrong("edges", f"at most {_MOST_CELLS:,} cells, got {len(edges) - 1:,}")
        object.__setattr__(self, "edges", tuple(float(edge) for edge in edges))

    @property
    def base_size(self) -> int:
        """Number of cells without ``missing`` and ``other``."""
        return len(self.edges) - 1

    @property
    def ends(self) -> tuple[float, float]:
        """Start of the first cell and end of the last."""
        return self.edges[0], self.edges[-1]

    @property
    def boundaries(self) -> tuple[float, ...]:
        """Half-open cell boundaries, ``base_size + 1`` of them."""
        return self.edges

    def label(self, code: int) -> str:
        """Return the text of a cell, such as ``[10000, 25000)``."""
        special = _special_label(self, code)
        if special is not None:
            return special
        close = "]" if code == self.base_size - 1 else ")"
        return f"[{number_text(self.edges[code])}, {number_text(self.edges[code + 1])}{close}"


@dataclass(frozen=True, slots=True)
class CategoricalAttribute(_Cells):
    """Declared values, one cell each; the text ``3`` and the integer 3 are one value."""

    values: tuple[CategoricalValue, ...]

    def __post_init__(self) -> None:
        self._check()
        given: object = self.values
        if isinstance(given, str):
            raise self._wrong("values", f"values must be a list, got the text {given!r}")
        values = tuple(self.values)
        if not values:
            raise self._wrong("values", "values must list at least one value, got none")
        for value in values:
            self._check_value(value)
        texts = [canonical_text(value) for value in values]
        if len(set(texts)) != len(texts):
            written = Counter(texts)
            twice = next(text for text in texts if written[text] > 1)
            raise self._wrong("values", f"values must differ, got {twice!r} more than once")
        if len(values) > _MOST_CELLS:
            raise self._wrong("values", f"at most {_MOST_CELLS:,} values, got {len(values):,}")
        for label, flag in ((MISSING_LABEL, self.missing), (OTHER_LABEL, self.other)):
            if flag and label in texts:
                raise self._wrong("values", f"{label!r} names the special cell and is no value")
        object.__setattr__(self, "values", values)

    def _check_value(self, value: object) -> None:
        if not isinstance(value, str | int):
            raise self._wrong("values", f"values must be strings, integers or booleans, got {value!r}")
        if isinstance(value, str) and not _is_encodable(value):
            raise self._wrong("values", f"values must be valid Unicode text, got {value!a}")
        if value == "":
            raise self._wrong("values", "an empty text is no value; declare missing = true instead")

    def _identity(self) -> tuple[object, ...]:
        # 1 and True are equal and hash alike, but they are different declarations.
        return self.name, self.missing, self.other, self.values, tuple(map(type, self.values))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CategoricalAttribute) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((self.name, self.missing, self.other, self.values))

    @property
    def base_size(self) -> int:
        """Number of declared values."""
        return len(self.values)

    def label(self, code: int) -> str:
        """Return the text of a cell: the value as it is matched in text."""
        special = _special_label(self, code)
        return canonical_text(self.values[code]) if special is None else special


def quoted_name(name: str) -> str:
    """Return a name as it stands in SQL: in double quotes unless it is letters and digits, and no word."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.casefold() not in GRAMMAR_WORDS
    return name if plain else '"' + name.replace('"', '""') + '"'


def number_text(number: float) -> str:
    """Return the shortest text of a number, without a needless ``.0``."""
    return repr(float(number)).removesuffix(".0")


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def _is_encodable(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


Attribute: TypeAlias = IntegerAttribute | NumericAttribute | CategoricalAttribute


def _special_label(attribute: Attribute, code: int) -> str | None:
    if not 0 <= code < attribute.size:
        raise ScopeError(f"attribute {attribute.name!r} has cells 0..{attribute.size - 1}, got code={code}")
    if code == attribute.missing_code:
        return MISSING_LABEL
    if code == attribute.other_code:
        return OTHER_LABEL
    return None


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

    def __post_init__(self) -> None:
        attributes = tuple(self.attributes)
        names = tuple(attribute.name for attribute in attributes)
        object.__setattr__(self, "attributes", attributes)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "shape", tuple(attribute.size for attribute in attributes))
        object.__setattr__(self, "_positions", {name: position for position, name in enumerate(names)})
        if not self.attributes:
            raise DomainError("a domain needs at least one attribute, got none", key="attributes")
        if not isinstance(self.name, str) or not self.name or not self.name.isprintable():
            raise DomainError(f"a domain needs a printable name, got name={self.name!r}", key="name")
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise DomainError(f"attribute names must differ, got {twice!r} more than once")
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
