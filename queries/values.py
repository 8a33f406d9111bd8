"""Values: what a value of a table says about an attribute, its cell, and values drawn inside cells."""

from __future__ import annotations

import enum
import math
import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from queries.categories import CategoricalAttribute
from queries.cells import OTHER_LABEL, Cells, OrderedCells, canonical_text
from queries.dates import (
    DAY,
    EPOCH,
    DateAttribute,
    DatetimeAttribute,
    Periods,
    TimeAttribute,
    clock_gap,
    clock_time,
)
from queries.domain import Attribute
from queries.numbers import IntegerAttribute, NumberCells, NumericAttribute, ValueGrid
from queries.places import as_index
from queries.plain_values import LONGEST_NUMBER, UNREADABLE, plain_value, whole_text

DROPPED = -1  # the code of a value that drops its record

_NUMBER = re.compile(r"[ \t]*[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[ \t]*")
_WHOLE = re.compile(r"[ \t]*[+-]?[0-9]+[ \t]*")
Lean: TypeAlias = NDArray[np.float64]  # of each record, the mean place of its number in its cell, in (0, 1)
_Plain: TypeAlias = str | int | float | bool
_Codes: TypeAlias = NDArray[np.int64]
_Floats: TypeAlias = NDArray[np.float64]
_Drawn: TypeAlias = NDArray[Any]
_Kind = TypeVar("_Kind", bound=Cells)
_Scale = TypeVar("_Scale", bound=OrderedCells)
_Number = TypeVar("_Number", bound=NumberCells | ValueGrid)


class Reading(enum.Enum):
    """What a value is to an attribute."""

    DECLARED = "declared"
    EMPTY = "empty"
    LOW = "below the declared ends"  # clipped to them
    HIGH = "above the declared ends"
    FRACTION = "not a whole number"
    NO_NUMBER = "not a number"
    NO_DATE = "not a date or time"
    UNDECLARED = "not a declared value"


def values_of(attribute: Attribute | ValueGrid) -> Values[Any]:
    """Return what reads and draws values of an attribute."""
    return _KINDS[type(attribute)](attribute)


class Values(ABC, Generic[_Kind]):
    """Reads and draws values of one attribute."""

    def __init__(self, attribute: _Kind) -> None:
        self.attribute = attribute
        # The cells of empty and of undeclared values.
        self.empty = DROPPED if attribute.missing_code is None else attribute.missing_code
        self.undeclared = DROPPED if attribute.other_code is None else attribute.other_code

    def encode(self, value: object) -> int:
        """Return the cell of one value, or -1 where it drops its record; it fails for none."""
        plain = plain_value(value)
        if plain is None or plain == "":
            return self.empty
        code = None if plain is UNREADABLE else self._code(plain)
        return self.undeclared if code is None else code

    def encode_numbers(self, numbers: NDArray[Any]) -> NDArray[np.int64] | None:
        """Return what ``encode`` does of each int64 or float64; None where one is encoded after the other."""
        del numbers
        return None

    def reading(self, value: object) -> Reading:
        """Return what a value is; ``encode`` puts it into a cell accordingly.

        An empty value goes to ``missing``; a fraction, a text that is no number or no date, and an undeclared
        value go to ``other``; the rest goes to a base cell.
        """
        plain = plain_value(value)
        if plain is None or plain == "":
            return Reading.EMPTY
        return self._reading(None if plain is UNREADABLE else plain)

    @abstractmethod
    def draw(self, codes: _Codes, generator: np.random.Generator, lean: Lean | None = None) -> _Drawn:
        """Return a value for each cell number, evenly drawn among those that the cell may hold.

        Args:
            codes: int64, shape (records,).
            generator: draws the place inside a cell; nothing private depends on it.
            lean: of each record, how far up in its cell a number is on average: float64, in (0, 1), one half
                in the middle; None draws all evenly.

        Returns:
            Shape (records,): objects, with None for empty values and a label for undeclared ones; or int64,
            float64, datetime64[D] or datetime64[s], of which those of empty and undeclared values mean
            nothing.
        """

    @abstractmethod
    def _code(self, plain: _Plain) -> int | None: ...  # None where it is undeclared or malformed

    def _reading(self, plain: _Plain | None) -> Reading:  # of None where it is unreadable
        declared = plain is not None and self._code(plain) is not None
        return Reading.DECLARED if declared else Reading.UNDECLARED


def _number_of(plain: _Plain) -> int | float | None:
    """Return the finite number that a plain value is, by one grammar of texts; None where it is none."""
    if isinstance(plain, bool):
        return None
    if isinstance(plain, int):
        return plain
    if isinstance(plain, str):
        if len(plain) > LONGEST_NUMBER or not _NUMBER.fullmatch(plain):
            return None
        if _WHOLE.fullmatch(plain):
            return int(plain)
        plain = float(plain)
    return plain if math.isfinite(plain) else None


def written_text(plain: _Plain) -> str:
    """Return the text of a value that comes first among the declared ones which may hold it."""
    return repr(plain) if isinstance(plain, float) else canonical_text(plain)


class _Categories(Values[CategoricalAttribute]):
    def _code(self, plain: _Plain) -> int | None:
        codes = self.attribute.codes
        text = written_text(plain)  # 1.0 comes before 1
        code = codes.get(text)
        if code is None and isinstance(plain, float):
            # A column of whole numbers becomes one of floats where one value of it is empty.
            code = codes.get(whole_text(plain) or text)
        if code is not None:
            return code
        folded = text.casefold()
        if folded not in ("true", "false"):
            return self._whole_cell(text)
        cells = [code for text, code in codes.items() if text.casefold() == folded]
        return codes.get(folded, cells[0] if cells else None)  # a declared boolean comes first

    def _whole_cell(self, text: str) -> int | None:
        """Return the cell of a declared integer that is written otherwise, such as ``3.0`` or ``03``."""
        number = _number_of(text)
        if number is None or number != int(number):
            return None
        code = self.attribute.codes.get(str(int(number)))
        return None if code is None or isinstance(self.attribute.values[code], bool | str) else code

    def draw(self, codes: _Codes, generator: np.random.Generator, lean: Lean | None = None) -> _Drawn:
        """Return the value of each cell number: int64 where all are, with none undeclared, else objects."""
        del generator, lean
        values, other = self.attribute.values, self.attribute.other
        if not other and all(type(value) is int and -(2**63) <= value < 2**63 for value in values):
            return np.array([*values, 0], dtype=np.int64)[codes]
        listed = [*values, *([None] if self.attribute.missing else []), *([OTHER_LABEL] if other else [])]
        return np.array(listed, dtype=object)[codes]


class _Ordered(Values[_Scale]):
    _unread = Reading.NO_NUMBER

    def _number(self, plain: _Plain) -> float | None:
        return _number_of(plain)

    def _reading(self, plain: _Plain | None) -> Reading:
        number = None if plain is None else self._number(plain)
        if number is None:
            return self._unread
        if self.attribute.is_whole and number != int(number):
            return Reading.FRACTION
        low, high = self.attribute.ends[0], self.attribute.last
        return Reading.LOW if number < low else Reading.HIGH if number > high else Reading.DECLARED

    def draw(self, codes: _Codes, generator: np.random.Generator, lean: Lean | None = None) -> _Drawn:
        attribute = self.attribute
        cells, edges = np.minimum(codes, attribute.base_size - 1), np.array(attribute.boundaries)
        if attribute.is_whole:
            values: NDArray[Any] = self._whole_numbers(cells, edges.astype(np.int64), generator, lean)
        else:
            values = self._real_numbers(edges[cells], edges[cells + 1], generator, lean)
        for place, atom in enumerate(attribute.atoms, attribute.base_size):
            values[codes == place] = atom
        return values

    def _whole_numbers(
        self, cells: _Codes, edges: _Codes, generator: np.random.Generator, lean: Lean | None
    ) -> _Codes:
        atoms, base_size = np.array(self.attribute.atoms, dtype=np.int64), self.attribute.base_size
        owners = np.minimum(edges.searchsorted(atoms, side="right") - 1, base_size - 1)
        left = np.diff(edges) - np.bincount(as_index(owners), minlength=base_size)
        if lean is None:
            drawn: NDArray[np.int64] = edges[cells] + generator.integers(0, left[cells])
        else:
            drawn = edges[cells] + (_leaning(lean, generator) * left[cells]).astype(np.int64)
        for atom, owner in zip(atoms, owners, strict=True):  # growing, so that each moves what is above it
            drawn += (cells == owner) & (drawn >= atom)
        return drawn

    def _real_numbers(
        self, low: _Floats, high: _Floats, generator: np.random.Generator, lean: Lean | None
    ) -> _Floats:
        """Draw real numbers, rounded where the rounded one is in the cell too and has no cell of its own."""
        share = generator.random(len(low)) if lean is None else _leaning(lean, generator)
        drawn = low + (high - low) * share
        rounded = _rounded(drawn, low, high)
        for values in (drawn, (low + high) / 2, low + (high - low) / 3):
            taken = np.isin(rounded, self.attribute.atoms)
            if not taken.any():
                break
            rounded = np.where(taken & (values < high), values, rounded)
        return rounded


def _leaning(lean: Lean, generator: np.random.Generator) -> NDArray[np.float64]:
    """Return numbers in [0, 1) with these means: u^(1/m - 1), of which the mean is m, for even u."""
    return np.asarray(generator.random(len(lean)) ** (1 / lean - 1), dtype=np.float64)


def _rounded(values: _Floats, low: _Floats, high: _Floats) -> _Floats:
    """Round each number to a thousandth of its cell's width, keeping it inside its half-open cell."""
    digits = 3 - np.floor(np.log10(high - low))
    scale = 10.0 ** np.clip(digits, -300, 300)
    rounded = np.floor(values * scale) / scale
    return np.where((rounded >= low) & (rounded < high), rounded, low)


class _Numbers(Values[_Number]):
    def encode_numbers(self, numbers: NDArray[Any]) -> _Codes:
        if numbers.dtype.kind == "i":
            return self._clipped(numbers)
        valid = np.isfinite(numbers)
        if self.attribute.is_whole:
            valid &= numbers == np.floor(numbers)
        codes = self._clipped(np.where(valid, numbers, 0.0))
        codes[~valid], codes[np.isnan(numbers)] = self.undeclared, self.empty
        return codes

    @abstractmethod
    def _clipped(self, numbers: NDArray[Any]) -> _Codes: ...  # cells, clipped to the ends


class _Integers(_Numbers[IntegerAttribute], _Ordered[IntegerAttribute]):
    def _code(self, plain: _Plain) -> int | None:
        number, attribute = _number_of(plain), self.attribute
        if number is None or number != int(number):
            return None
        clipped = min(max(int(number), attribute.minimum), attribute.maximum)
        return (clipped - attribute.minimum) // attribute.width

    def _clipped(self, numbers: NDArray[Any]) -> NDArray[np.int64]:
        clipped = np.clip(numbers, self.attribute.minimum, self.attribute.maximum).astype(np.int64)
        return np.asarray((clipped - self.attribute.minimum) // self.attribute.width, dtype=np.int64)


class _Reals(_Numbers[NumericAttribute], _Ordered[NumericAttribute]):
    def _code(self, plain: _Plain) -> int | None:
        number, attribute = _number_of(plain), self.attribute
        if number is None or (attribute.integer and number != int(number)):
            return None
        clipped = float(min(max(number, attribute.edges[0]), attribute.edges[-1]))
        if clipped in attribute.atoms:
            return attribute.base_size + attribute.atoms.index(clipped)
        return min(max(bisect_right(attribute.edges, clipped) - 1, 0), attribute.base_size - 1)

    def _clipped(self, numbers: NDArray[Any]) -> NDArray[np.int64]:
        edges = np.array(self.attribute.edges)
        clipped = np.clip(numbers.astype(np.float64), edges[0], edges[-1])
        cells = np.searchsorted(edges, clipped, side="right") - 1
        cells = np.clip(cells, 0, self.attribute.base_size - 1).astype(np.int64)
        for place, atom in enumerate(self.attribute.atoms, self.attribute.base_size):
            cells[clipped == atom] = place
        return cells


class _Places(_Numbers[ValueGrid]):
    def _clipped(self, numbers: NDArray[Any]) -> _Codes:
        grid = self.attribute
        clipped = np.clip(numbers, grid.minimum, grid.maximum).astype(np.float64)
        codes: _Codes = np.floor((clipped - grid.first) / grid.step).astype(np.int64)
        return codes

    def draw(self, codes: _Codes, generator: np.random.Generator, lean: Lean | None = None) -> _Drawn:
        del generator, lean
        return self.attribute.first + codes * self.attribute.step

    def _code(self, plain: _Plain) -> int | None:
        number, grid = _number_of(plain), self.attribute
        if number is None or (grid.whole and number != int(number)):
            return None
        return int(grid.place(min(max(number, grid.minimum), grid.maximum)))


class _Periods(_Ordered[Periods]):
    _unread = Reading.NO_DATE

    def _number(self, plain: _Plain) -> float | None:
        return self.attribute.read(plain)

    def _code(self, plain: _Plain) -> int | None:
        number, boundaries = self.attribute.read(plain), self.attribute.boundaries
        if number is None:
            return None
        return bisect_right(boundaries, min(max(number, boundaries[0]), boundaries[-1] - 1)) - 1

    def draw(self, codes: _Codes, generator: np.random.Generator, lean: Lean | None = None) -> _Drawn:
        attribute, seconds = self.attribute, super().draw(codes, generator, lean) * self.attribute.scale
        if isinstance(attribute, DatetimeAttribute):  # a time that the clock leaves out is no time
            for day in np.unique(seconds // DAY).tolist() if attribute.zone != "UTC" else ():
                start, stop = clock_gap(attribute.zone, day)
                seconds[(seconds >= start) & (seconds < stop)] += stop - start
        return (seconds - EPOCH).astype("datetime64[s]").astype(f"datetime64[{attribute.unit}]")


class _TimesOfDay(_Periods):
    def draw(self, codes: _Codes, generator: np.random.Generator, lean: Lean | None = None) -> _Drawn:
        attribute, seconds = self.attribute, _Ordered.draw(self, codes, generator, lean)
        points, places = np.unique(seconds, return_inverse=True)
        drawn = np.array([clock_time(one) for one in points.tolist()], dtype=object)[places]
        for code, value in ((attribute.missing_code, None), (attribute.other_code, OTHER_LABEL)):
            if code is not None:
                drawn[codes == code] = value
        return drawn


_KINDS: dict[type, Callable[[Any], Values[Any]]] = {
    IntegerAttribute: _Integers,
    NumericAttribute: _Reals,
    CategoricalAttribute: _Categories,
    DateAttribute: _Periods,
    DatetimeAttribute: _Periods,
    TimeAttribute: _TimesOfDay,
    ValueGrid: _Places,
}
