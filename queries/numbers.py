"""Attributes of numbers: whole numbers in cells of one width, and numbers between declared edges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from fractions import Fraction
from itertools import pairwise
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from queries.cells import LARGEST_INTEGER, MOST_CELLS, Cells, GroupValue, OrderedCells, number_text
from queries.frozen import dataclass

_MOST_ATOMS = 1000
_GRID = "\0"  # before the name of an attribute, the name of its grid: none is declared so
MOST_STEPS = 2**20  # of a grid of values
_USUAL_STEPS = 1000  # of a grid of values, at least, where the schema tells no resolution


@dataclass(frozen=True, slots=True)
class NumberCells(OrderedCells):
    """What attributes of numbers share.

    Args:
        resolution: the step of the grid on which values are summed, from the least declared one on; a whole
            number where values are. None where they are not summed, and nothing is kept of where in its cell
            a value lies.
    """

    resolution: float | None = field(default=None, kw_only=True)

    def check_resolution(self) -> None:
        """Refuse a step that is no positive number, or of which too many fit between the ends."""
        step = self.resolution
        if step is None:
            return
        if not _is_finite(step) or step <= 0:
            raise self.wrong(f"resolution must be a number above 0, got {step!r}")
        if self.is_whole and step != int(step):
            raise self.wrong(f"resolution must be a whole number, as the values are, got {step!r}")
        low, high = self.ends[0], self.last
        if not (high - low) / step < MOST_STEPS:
            least = (high - low) / (MOST_STEPS - 1)
            least = math.ceil(least) if self.is_whole else least
            raise self.wrong(
                f"at most {MOST_STEPS:,} steps of resolution fit between the ends; choose {least:.6g} or more"
            )

    @property
    def usual_resolution(self) -> float | None:
        """The resolution where a schema tells none: the coarsest round step of 1,000 between the ends.

        Round is 1, 2 or 5 times a power of ten; of whole numbers it is at least 1. It follows from the ends
        alone. None where they are too near each other.
        """
        width = Fraction(self.last) - Fraction(self.ends[0])
        if not width:
            return None
        wanted = max(width / _USUAL_STEPS, Fraction(self.is_whole))
        digits = math.floor(math.log10(wanted.numerator) - math.log10(wanted.denominator)) + 2
        steps = (Fraction(10) ** digits / part for part in (1, 2, 5, 10, 20, 50, 100, 200, 500))
        step = next(step for step in steps if step <= wanted)
        return (int(step) if 1 <= step <= LARGEST_INTEGER else float(step)) or None

    def grid(self, clip: float | None = None) -> ValueGrid | None:
        """Return the grid on which its values are summed, a person's up to ``clip``; None where none is."""
        if self.resolution is None:
            return None
        low, high = self.ends[0], self.last
        return ValueGrid(_GRID + self.name, low, high, float(self.resolution), self.is_whole, clip)

    def number_ends(self) -> tuple[Sequence[float], Sequence[float]]:
        edges, closed = self.boundaries, 1 if self.is_whole else 0
        return [*edges[:-1], *self.atoms], [*(edge - closed for edge in edges[1:]), *self.atoms]


@dataclass(frozen=True, slots=True)
class IntegerAttribute(NumberCells):
    """Whole numbers from ``minimum`` to ``maximum`` in cells of ``width``; others are clipped to the ends.

    The last cell is narrower where ``width`` does not divide the range.
    """

    minimum: int
    maximum: int
    width: int = 1

    def __post_init__(self) -> None:
        self.check()
        for label, value in (("min", self.minimum), ("max", self.maximum), ("width", self.width)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise self.wrong(f"{label} must be a whole number, got {value!r}")
            if abs(value) > LARGEST_INTEGER:
                raise self.wrong(f"{label} must be within ±(2^53 - 1)")
        if self.minimum > self.maximum:
            raise self.wrong(f"min must not exceed max, got min={self.minimum}, max={self.maximum}")
        if self.width < 1:
            raise self.wrong(f"width must be at least 1, got width={self.width}")
        if self.base_size > MOST_CELLS:
            raise self.wrong(f"at most {MOST_CELLS:,} cells, got {self.base_size:,}; choose a larger width")
        self.check_resolution()

    @property
    def base_size(self) -> int:
        return (self.maximum - self.minimum) // self.width + 1

    @property
    def ends(self) -> tuple[int, int]:
        return self.minimum, self.maximum + 1

    @property
    def boundaries(self) -> tuple[int, ...]:
        starts = range(self.minimum, self.maximum + 1, self.width)
        return (*starts, self.maximum + 1)

    def _own_label(self, code: int) -> str:
        low = self.minimum + code * self.width
        high = min(low + self.width - 1, self.maximum)
        return str(low) if low == high else f"{low}..{high}"

    def value(self, code: int) -> GroupValue:
        single = self.width == 1 and code < self.base_size
        return self.minimum + code if single else NumberCells.value(self, code)


@dataclass(frozen=True, slots=True)
class NumericAttribute(NumberCells):
    """Numbers in half-open cells between ``edges``; the last cell is closed, others are clipped.

    Args:
        edges: growing; of whole numbers where values are.
        atoms: numbers that have a cell of their own, behind the others. A number that is clipped to an end
            where an atom stands counts in its cell.
        integer: values are whole numbers; others are undeclared.
    """

    edges: tuple[float, ...]
    atoms: tuple[float, ...] = field(default=(), kw_only=True)
    integer: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        self.check()
        if not isinstance(self.integer, bool):
            raise self.wrong(f"integer must be true or false, got {self.integer!r}")
        edges, atoms = tuple(self.edges), tuple(self.atoms)
        if len(edges) < 2:
            raise self.wrong(f"edges must list at least 2 numbers, got {len(edges)}")
        self._check_numbers("edges", edges)
        self._check_numbers("atoms", atoms)
        for low, high in pairwise(edges):
            if not float(low) < float(high):
                raise self.wrong(f"edges must increase or cells overlap, got {low!r}, {high!r}")
        if not math.isfinite(float(edges[-1]) - float(edges[0])):
            raise self.wrong("edges must span a finite width")
        if len(edges) - 1 > MOST_CELLS:
            raise self.wrong(f"at most {MOST_CELLS:,} cells, got {len(edges) - 1:,}")
        object.__setattr__(self, "edges", tuple(float(edge) for edge in edges))
        object.__setattr__(self, "atoms", tuple(sorted(float(atom) + 0.0 for atom in atoms)))
        self._check_atoms()
        self.check_resolution()

    def _check_numbers(self, key: str, numbers: tuple[object, ...]) -> None:
        for number in numbers:
            if not _is_finite(number):
                huge = type(number) is int
                shown = "a number beyond float64" if huge else repr(number)
                raise self.wrong(f"{key} must be finite numbers, got {shown}")
            if self.integer and (number != int(number) or abs(number) > LARGEST_INTEGER):
                raise self.wrong(f"{key} must be whole where integer = true, got {number!r}")

    def _check_atoms(self) -> None:
        if len(self.atoms) > _MOST_ATOMS:
            raise self.wrong(f"at most {_MOST_ATOMS:,} atoms, got {len(self.atoms):,}")
        for atom in self.atoms:
            if not self.edges[0] <= atom <= self.edges[-1]:
                raise self.wrong(
                    f"atoms must lie between the edges {number_text(self.edges[0])} and "
                    f"{number_text(self.edges[-1])}, got {number_text(atom)}; move the edge out to it"
                )
            if self.atoms.count(atom) > 1:
                raise self.wrong(f"atoms must differ, got {number_text(atom)} more than once")
        for low, high in pairwise(self.boundaries if self.integer else ()):
            if sum(low <= atom < high for atom in self.atoms) == high - low:
                raise self.wrong(
                    f"the cell from {number_text(low)} to {number_text(high - 1)} holds atoms alone; leave "
                    "out one of its edges"
                )

    @property
    def is_whole(self) -> bool:
        return self.integer

    @property
    def base_size(self) -> int:
        return len(self.edges) - 1

    @property
    def boundaries(self) -> tuple[float, ...]:
        return (*self.edges[:-1], self.edges[-1] + 1) if self.integer else self.edges

    def _own_label(self, code: int) -> str:
        if code >= self.base_size:
            return number_text(self.atoms[code - self.base_size])
        low, high = self.edges[code], self.boundaries[code + 1]
        if not self.integer:
            close = "]" if code == self.base_size - 1 else ")"
            return f"[{number_text(low)}, {number_text(high)}{close}"
        high -= 1
        while low in self.atoms:
            low += 1
        while high in self.atoms:
            high -= 1
        return number_text(low) if low == high else f"{number_text(low)}..{number_text(high)}"


@dataclass(frozen=True, slots=True)
class ValueGrid(Cells):
    """The places of an attribute's values on a grid: how many whole steps each lies above the least one.

    Beside the places there are always cells of empty and of undeclared values, so it drops no record.

    Args:
        minimum, maximum: the declared ends, to which values are clipped.
        whole: values are whole numbers; others are undeclared.
        clip: the most that the values of one person may come to; 0 has a place then.
    """

    minimum: float
    maximum: float
    step: float
    whole: bool
    clip: float | None = None
    missing: bool = field(default=True, kw_only=True)
    other: bool = field(default=True, kw_only=True)

    @property
    def is_whole(self) -> bool:
        return self.whole

    @property
    def attribute(self) -> str:
        """The name of the attribute whose values they are."""
        return self.name.removeprefix(_GRID)

    @property
    def base_size(self) -> int:
        return int(self.place(self.maximum if self.clip is None else max(self.maximum, 0))) + 1

    @property
    def first(self) -> float:
        """The least number of the first place."""
        return float(self.minimum) if self.clip is None else min(float(self.minimum), 0.0)

    def place(self, value: float) -> float:
        """Return the whole steps from the first place to a value, by float64 as engines have them."""
        return math.floor((float(value) - self.first) / self.step)

    @property
    def zero(self) -> int:
        """The place of 0, where values are clipped."""
        return int(self.place(0))

    @property
    def holds_zero(self) -> bool:
        """Whether 0 is the least number of a place."""
        return self.first + self.zero * self.step == 0 and self.base_size <= 2 * MOST_STEPS

    @property
    def most(self) -> int:
        """The steps that the values of one person may come to, where they are clipped."""
        return math.floor((self.clip or 0.0) / self.step)

    @property
    def reach(self) -> float:
        """How far a value may be from the middle of those of its place."""
        return (self.step - 1) / 2 if self.whole else self.step / 2

    def squares(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the squares of how far places are from the middle of all: int64, 2^20 at either end, rounded
        down. No number on the way is above 2^60.
        """
        return np.asarray((2 * places - self._top) ** 2 * MOST_STEPS // self._divisor, dtype=np.int64)

    def square_in_words(self, place: str, divide: str, suffix: str = "") -> str:
        """Return the same as an expression of an engine, of the expression of a place."""
        from_middle = f"(2{suffix} * {place} - {self._top}{suffix})"
        return f"({from_middle} * {from_middle} * {MOST_STEPS}{suffix} {divide} {self._divisor}{suffix})"

    @property
    def _top(self) -> int:
        return self.base_size - 1

    @property
    def _divisor(self) -> int:
        return max(self._top, 1) ** 2

    def number(self, place: float) -> float:
        """Return the middle of the values of a place; of half a place, that between two."""
        return self.first + place * self.step + self.reach

    def _own_label(self, code: int) -> str:
        return number_text(self.first + code * self.step)


def places_of(attribute: NumberCells, grid: ValueGrid) -> tuple[list[int], list[int]]:
    """Return the least and the greatest place of each cell of an attribute but those without a number."""
    least, greatest = attribute.number_ends()
    return [int(grid.place(one)) for one in least], [int(grid.place(one)) for one in greatest]


def _is_finite(number: object) -> TypeGuard[float]:
    try:
        return isinstance(number, int | float) and type(number) is not bool and math.isfinite(number)
    except OverflowError:  # a whole number beyond float64
        return False
