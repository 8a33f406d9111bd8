"""Cells: what all kinds of attribute share, and how names and values are written.

An attribute has *base cells* (numbers 0, 1, … in declared order); then, where declared, one cell for each of
the numbers that have a cell of their own (``atoms``), one for empty values (``missing``) and one for
undeclared ones (``other``).
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import field
from decimal import Decimal
from typing import TypeAlias

from queries.errors import DomainError, ScopeError
from queries.frozen import dataclass

CategoricalValue: TypeAlias = str | int | bool
GroupValue: TypeAlias = CategoricalValue | None  # None stands for an empty value, as NULL does

LARGEST_INTEGER = 2**53 - 1  # so that every boundary, one past the last included, is exact in float64
MOST_CELLS = 1_000_000
_MOST_HINTS = 10_000  # names that are compared for a hint
_WRITTEN_OUT = 10**9  # cells; nobody reads more digits
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

# Words of a condition: as names they stand in double quotes.
GRAMMAR_WORDS = frozenset({"and", "between", "false", "in", "is", "like", "not", "null", "or", "true"})


MISSING_LABEL, OTHER_LABEL = "(missing)", "(other)"  # how the two special cells are called; no values


def canonical_text(value: CategoricalValue | float) -> str:
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


def in_quotes(name: str) -> str:
    """Return a name in double quotes, as SQL writes any."""
    return '"' + name.replace('"', '""') + '"'


def quoted_name(name: str) -> str:
    """Return a name as it stands in SQL: in double quotes unless it is letters and digits, and no word."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.casefold() not in GRAMMAR_WORDS
    return name if plain else in_quotes(name)


def number_text(number: float) -> str:
    """Return the shortest text of a number, without a needless ``.0``."""
    return repr(float(number)).removesuffix(".0")


def cell_count(cells: int) -> str:
    """Return a number of cells, such as ``10,950``; above 10⁹ two digits of it, such as ``2 × 10⁴⁷``."""
    if cells <= _WRITTEN_OUT:
        return f"{cells:,}"
    digits, _, power = f"{Decimal(cells):.1e}".partition("e+")  # a float ends at 10³⁰⁸
    return f"{digits.removesuffix('.0')} × 10{power.translate(_RAISED)}"


@dataclass(frozen=True, slots=True)
class Cells(ABC):
    """What all kinds of attribute share: a name and the two optional cells."""

    name: str
    missing: bool = field(default=False, kw_only=True)
    other: bool = field(default=False, kw_only=True)

    def check(self) -> None:
        """Refuse a name or a flag that cannot be."""
        name = self.name
        if not isinstance(name, str) or not name or name != name.strip() or not name.isprintable():
            raise DomainError(f"an attribute needs a printable name without spaces around it, got {name!r}")
        for label, flag in (("missing", self.missing), ("other", self.other)):
            if not isinstance(flag, bool):
                raise self.wrong(f"{label} must be true or false, got {flag!r}")

    def wrong(self, message: str) -> DomainError:
        """Return the error of what is declared, which names the attribute."""
        return DomainError(f"attribute {self.name!r}: {message}")

    # --- cells

    @property
    @abstractmethod
    def base_size(self) -> int:
        """Number of base cells."""

    @property
    def atoms(self) -> tuple[float, ...]:
        """Numbers that have a cell of their own, behind the base cells; growing."""
        return ()

    @property
    def size(self) -> int:
        """Number of cells, those of single numbers, empty and undeclared values included."""
        return self.base_size + len(self.atoms) + self.missing + self.other

    @property
    def missing_code(self) -> int | None:
        """The cell of empty values, or None where none is declared."""
        return self.base_size + len(self.atoms) if self.missing else None

    @property
    def other_code(self) -> int | None:
        """The cell of undeclared or malformed values, or None where none is declared."""
        return self.size - 1 if self.other else None

    @property
    def is_ordered(self) -> bool:
        """Whether the cells stand in the order of their values."""
        return False

    @property
    def is_whole(self) -> bool:
        """Whether its numbers, if it has some, are whole."""
        return True

    @property
    def boundaries(self) -> tuple[float, ...]:
        """Half-open boundaries of the base cells, ``base_size + 1`` of them; none without an order."""
        return ()

    @property
    def points(self) -> tuple[float, ...]:
        """Where the base cells begin, and where the last value ends, half-open; none without an order."""
        return ()

    def no_cell(self, came: object) -> ScopeError:
        """Return the error of what is no cell of the attribute."""
        return ScopeError(f"attribute {self.name!r} has cells 0..{self.size - 1}, got {came}")

    # --- what cells are called and stand for

    def label(self, code: int) -> str:
        """Return the text of a cell."""
        if not 0 <= code < self.size:
            raise self.no_cell(f"code={code}")
        if code == self.missing_code:
            return MISSING_LABEL
        return OTHER_LABEL if code == self.other_code else self._own_label(code)

    @abstractmethod
    def _own_label(self, code: int) -> str: ...  # of a cell that is neither

    def span_label(self, start: int, stop: int) -> str:
        """Return consecutive cells in words, such as ``Female to Male``."""
        first, last = self.label(start), self.label(stop - 1)
        return first if stop - start == 1 else f"{first} to {last}"

    def condition(self, start: int, stop: int) -> str | None:
        """Return a condition that holds in consecutive cells and cuts none; None where there is none."""
        del start, stop
        return None

    def value(self, code: int) -> GroupValue:
        """Return what a cell stands for: a value, a whole number, None for empty values, or a label."""
        return None if code == self.missing_code else self.label(code)

    def number_ends(self) -> tuple[Sequence[float], Sequence[float]] | None:
        """Return the least and the greatest number of each cell that holds some; None where none does."""
        return None

    def seconds(self) -> tuple[Sequence[float], Sequence[float]] | None:
        """Return the first and the last second of each cell that is a period; None where none is."""
        return None

    @property
    def level_names(self) -> tuple[str, ...]:
        """Names of coarser values that questions may ask for instead."""
        return ()

    def texts(self, part: str | None = None) -> tuple[str, ...] | None:
        """Return its declared texts, or those of a level of it; None where it declares no values."""
        del part
        return None


@dataclass(frozen=True, slots=True)
class OrderedCells(Cells):
    """What attributes with an order share: a scale of numbers, cut into cells.

    A whole number v of a scale of whole numbers (``is_whole``) fills [v, v + 1), and a real number v the
    interval up to the next float64: values are such numbers.
    """

    @property
    def base_size(self) -> int:
        return len(self.boundaries) - 1

    @property
    def is_ordered(self) -> bool:
        return True

    @property
    def ends(self) -> tuple[float, float]:
        """Start of the first cell and end of the last."""
        return self.boundaries[0], self.boundaries[-1]

    @property
    def last(self) -> float:
        """The greatest declared value."""
        end = self.ends[1]
        return end - 1 if self.is_whole else end

    @property
    def value_ends(self) -> tuple[float, float]:
        """Where the first value begins, and where the last ends, half-open: the last cell is closed."""
        start, end = self.ends
        return float(start), float(end) if self.is_whole else math.nextafter(end, math.inf)

    @property
    def points(self) -> tuple[float, ...]:
        return (*map(float, self.boundaries[:-1]), self.value_ends[1])

    def literal(self, number: float) -> str:
        """Return how a question writes a number of the scale."""
        return number_text(number)

    def span_label(self, start: int, stop: int) -> str:
        first, last = self.label(start), self.label(stop - 1)
        if stop - start == 1 or stop > self.base_size:
            return Cells.span_label(self, start, stop)
        if not self.is_whole:
            return f"{first.split(',')[0]},{last.split(',')[1]}"
        if ".." in first + last:
            return f"{first.split('..')[0]} to {last.split('..')[-1]}"
        return f"{first} to {last}"

    def condition(self, start: int, stop: int) -> str | None:
        if self.atoms:
            return None
        name, end = quoted_name(self.name), min(stop, self.base_size)
        terms = [f"{name} >= {self.literal(self.boundaries[start])}"] if 0 < start < end else []
        terms += [f"{name} < {self.literal(self.boundaries[end])}"] if end < self.base_size else []
        return " AND ".join(terms) or None
