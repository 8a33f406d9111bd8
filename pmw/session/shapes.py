"""Shapes: what a JSON form from elsewhere must look like before anything is made of it.

A shape is a test of one value, or a list of one shape that each entry has, or a dict of shapes by key. A key
that ends in ``?`` may be left out; no other key may be there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from pmw.errors import ModelFileError

__all__ = [
    "flag",
    "fraction",
    "one_of",
    "optional",
    "real",
    "require",
    "require_shape",
    "Shape",
    "text",
    "whole",
]

Shape: TypeAlias = Callable[[Any], bool] | Sequence["Shape"] | Mapping[str, "Shape"]

_LARGEST = 2**62  # of a whole number, so that sums of two fit in 64 bits
_FRACTION = re.compile("[0-9]{1,1000}(/[0-9]{1,1000})?")  # no exponent: 1e999999999 has as many digits


def text(value: Any) -> bool:
    """Tell whether a value is a text that can be written as UTF-8."""
    return isinstance(value, str) and not re.search("[\ud800-\udfff]", value)


def flag(value: Any) -> bool:
    """Tell whether a value is true or false."""
    return isinstance(value, bool)


def whole(value: Any) -> bool:
    """Tell whether a value is a whole number of at most 62 bits."""
    return type(value) is int and abs(value) <= _LARGEST


def real(value: Any) -> bool:
    """Tell whether a value is a finite number."""
    return whole(value) or (isinstance(value, float) and math.isfinite(value))


def fraction(value: Any) -> bool:
    """Tell whether a value is a fraction of at least 0, such as ``"3/4"``."""
    return isinstance(value, str) and _FRACTION.fullmatch(value) is not None


def optional(shape: Shape) -> Shape:
    """Return the shape of a value that may be null."""
    return lambda value: value is None or _has(value, shape)


def one_of(*values: str) -> Shape:
    """Return the shape of a text out of a few."""
    return lambda value: isinstance(value, str) and value in values


def require(holds: bool, fault: str) -> None:
    """Raise an error unless something holds.

    Raises:
        ModelFileError: it does not.
    """
    if not holds:
        raise ModelFileError(f"the model file is damaged: {fault}")


def require_shape(value: Any, shape: Shape, name: str) -> None:
    """Raise an error unless a value has a shape.

    Args:
        value: of a JSON text.
        shape: what it must look like.
        name: what messages call the value.

    Raises:
        ModelFileError: it looks different.
    """
    if callable(shape):
        require(shape(value), f"{name} is not as expected")
    elif isinstance(shape, Mapping):
        _require_keys(value, shape, name)
        for key, inner in shape.items():
            if key.rstrip("?") in value:
                require_shape(value[key.rstrip("?")], inner, f"{name}.{key.rstrip('?')}")
    else:
        require(isinstance(value, list), f"{name} is no list")
        for entry in value:
            require_shape(entry, shape[0], f"an entry of {name}")


def _require_keys(value: Any, shape: Mapping[str, Shape], name: str) -> None:
    require(isinstance(value, dict), f"{name} is no object")
    known = {key.rstrip("?") for key in shape}
    require(value.keys() <= known, f"{name} has a key that is not known")
    for key in shape:
        require(key.endswith("?") or key in value, f"{name} lacks {key}")


def _has(value: Any, shape: Shape) -> bool:
    try:
        require_shape(value, shape, "")
    except ModelFileError:
        return False
    return True
