"""Values: what one value of a table says about an attribute, and the cell that it falls into."""

from __future__ import annotations

import enum
import math
import re
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from queries.cells import canonical_text
from queries.dates import DateAttribute, DatetimeAttribute
from queries.domain import Attribute, CategoricalAttribute
from queries.numbers import IntegerAttribute, NumericAttribute
from queries.plain_values import LONGEST_NUMBER, UNREADABLE, plain_value, whole_text

DROPPED = -1  # the code of a value that drops its record

_NUMBER = re.compile(r"[ \t]*[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[ \t]*")
_WHOLE = re.compile(r"[ \t]*[+-]?[0-9]+[ \t]*")


def encode_value(attribute: Attribute, value: object) -> int:
    """Return the cell of one value, or -1 where it drops its record; it fails for none."""
    plain = plain_value(value)
    if plain is None or plain == "":
        return DROPPED if attribute.missing_code is None else attribute.missing_code
    code = None if plain is UNREADABLE else _ENCODERS[type(attribute)](attribute, plain)
    if code is None:
        return DROPPED if attribute.other_code is None else attribute.other_code
    return code


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


def reading_of(attribute: Attribute, value: object) -> Reading:
    """Return what a value is to an attribute; ``encode_value`` puts it into a cell accordingly.

    An empty value goes to ``missing``; a fraction, a text that is no number or no date, and an undeclared
    value go to ``other``; the rest goes to a base cell.
    """
    plain = plain_value(value)
    if plain is None or plain == "":
        return Reading.EMPTY
    if isinstance(attribute, CategoricalAttribute):
        declared = plain is not UNREADABLE and _encode_categorical(attribute, plain) is not None
        return Reading.DECLARED if declared else Reading.UNDECLARED
    if isinstance(attribute, DateAttribute | DatetimeAttribute):
        number: float | None = None if plain is UNREADABLE else attribute.read(plain)
        if number is None:
            return Reading.NO_DATE
    else:
        number = None if plain is UNREADABLE else _as_number(plain)
        if number is None:
            return Reading.NO_NUMBER
    if attribute.is_whole and number != int(number):
        return Reading.FRACTION
    low, high = attribute.ends[0], attribute.last
    return Reading.LOW if number < low else Reading.HIGH if number > high else Reading.DECLARED


def _as_number(value: str | int | float | bool) -> int | float | None:
    """Return a finite number, or None where the value is not one."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        if len(value) > LONGEST_NUMBER or not _NUMBER.fullmatch(value):
            return None
        if _WHOLE.fullmatch(value):
            return int(value)
        value = float(value)
    return value if math.isfinite(value) else None


def _encode_integer(attribute: IntegerAttribute, value: str | int | float | bool) -> int | None:
    number = _as_number(value)
    if number is None or number != int(number):
        return None
    clipped = min(max(int(number), attribute.minimum), attribute.maximum)
    return (clipped - attribute.minimum) // attribute.width


def _encode_numeric(attribute: NumericAttribute, value: str | int | float | bool) -> int | None:
    number = _as_number(value)
    if number is None or (attribute.integer and number != int(number)):
        return None
    clipped = float(min(max(number, attribute.edges[0]), attribute.edges[-1]))
    if clipped in attribute.atoms:
        return attribute.base_size + attribute.atoms.index(clipped)
    cell = bisect_right(attribute.edges, clipped) - 1
    return min(max(cell, 0), attribute.base_size - 1)


def _encode_period(
    attribute: DateAttribute | DatetimeAttribute, value: str | int | float | bool
) -> int | None:
    number = attribute.read(value)
    if number is None:
        return None
    clipped = min(max(number, attribute.boundaries[0]), attribute.boundaries[-1] - 1)
    return bisect_right(attribute.boundaries, clipped) - 1


def _encode_categorical(attribute: CategoricalAttribute, value: str | int | float | bool) -> int | None:
    text = repr(value) if isinstance(value, float) else canonical_text(value)  # 1.0 comes before 1
    code = attribute.codes.get(text)
    if code is None and isinstance(value, float):
        # A column of whole numbers becomes one of floats where one value of it is empty.
        code = attribute.codes.get(whole_text(value) or text)
    if code is not None:
        return code
    if text.casefold() in ("true", "false"):
        return _boolean_cell(attribute, text.casefold())
    return _whole_cell(attribute, text)


def _boolean_cell(attribute: CategoricalAttribute, folded: str) -> int | None:
    """Return the cell of true or false, declared in any case; a declared boolean comes first."""
    if folded in attribute.codes:
        return attribute.codes[folded]
    cells = [code for text, code in attribute.codes.items() if text.casefold() == folded]
    return cells[0] if cells else None


def _whole_cell(attribute: CategoricalAttribute, text: str) -> int | None:
    """Return the cell of a declared integer that is written otherwise, such as ``3.0`` or ``03``."""
    number = _as_number(text)
    if number is None or number != int(number):
        return None
    code = attribute.codes.get(str(int(number)))
    if code is None or isinstance(attribute.values[code], bool | str):
        return None
    return code


_ENCODERS: dict[type, Callable[[Any, Any], int | None]] = {
    IntegerAttribute: _encode_integer,
    NumericAttribute: _encode_numeric,
    CategoricalAttribute: _encode_categorical,
    DateAttribute: _encode_period,
    DatetimeAttribute: _encode_period,
}


def numeric_cells(attribute: NumericAttribute, values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the cell of each finite number, clipped to the declared ends: int64, same shape."""
    clipped = np.clip(values, attribute.edges[0], attribute.edges[-1])
    cells = np.searchsorted(np.array(attribute.edges), clipped, side="right") - 1
    cells = np.clip(cells, 0, attribute.base_size - 1).astype(np.int64)
    for place, atom in enumerate(attribute.atoms):
        cells[clipped == atom] = attribute.base_size + place
    return cells
