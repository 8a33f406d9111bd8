"""Attributes of numbers: whole numbers in cells of one width, and numbers between declared edges."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from queries.cells import LARGEST_INTEGER, MOST_CELLS, OrderedCells, number_text

__all__ = [
    "IntegerAttribute",
    "NumericAttribute",
]


@dataclass(frozen=True, slots=True)
class IntegerAttribute(OrderedCells):
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
                raise self.wrong(label, f"{label} must be a whole number, got {value!r}")
            if abs(value) > LARGEST_INTEGER:
                raise self.wrong(label, f"{label} must be within ±(2^53 - 1)")
        if self.minimum > self.maximum:
            raise self.wrong("min", f"min must not exceed max, got min={self.minimum}, max={self.maximum}")
        if self.width < 1:
            raise self.wrong("width", f"width must be at least 1, got width={self.width}")
        if self.base_size > MOST_CELLS:
            raise self.wrong(
                "width", f"at most {MOST_CELLS:,} cells, got {self.base_size:,}; choose a larger width"
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
        special = self.special_label(code)
        if special is not None:
            return special
        low = self.minimum + code * self.width
        high = min(low + self.width - 1, self.maximum)
        return str(low) if low == high else f"{low}..{high}"


@dataclass(frozen=True, slots=True)
class NumericAttribute(OrderedCells):
    """Real numbers in half-open cells between ``edges``; the last cell is closed, others are clipped."""

    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        self.check()
        edges = tuple(self.edges)
        if len(edges) < 2:
            raise self.wrong("edges", f"edges must list at least 2 numbers, got {len(edges)}")
        for edge in edges:
            if isinstance(edge, bool) or not isinstance(edge, int | float) or not _is_finite(edge):
                shown = (
                    "a number beyond float64" if isinstance(edge, int) and edge not in (0, 1) else repr(edge)
                )
                raise self.wrong("edges", f"edges must be finite numbers, got {shown}")
        for low, high in pairwise(edges):
            if not float(low) < float(high):
                raise self.wrong("edges", f"edges must increase or cells overlap, got {low!r}, {high!r}")
        if not math.isfinite(float(edges[-1]) - float(edges[0])):
            raise self.wrong("edges", "edges must span a finite width")
        if len(edges) - 1 > MOST_CELLS:
            raise self.wrong("edges", f"at most {MOST_CELLS:,} cells, got {len(edges) - 1:,}")
        object.__setattr__(self, "edges", tuple(float(edge) for edge in edges))

    @property
    def base_size(self) -> int:
        """Number of cells without ``missing`` and ``other``."""
        return len(self.edges) - 1

    @property
    def is_whole(self) -> bool:
        """Values are any numbers."""
        return False

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
        special = self.special_label(code)
        if special is not None:
            return special
        close = "]" if code == self.base_size - 1 else ")"
        return f"[{number_text(self.edges[code])}, {number_text(self.edges[code + 1])}{close}"


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:
        return False
