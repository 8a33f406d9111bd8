"""Plain values: what a value of any Python type says, decided by its type.

A record must not decide whether a table can be read. So no code is run that a value brings along: its type
is looked up in a closed list, and a value of any other type, bytes or a list for instance, is ``UNREADABLE``,
hence undeclared. Nothing here fails or warns, whatever the value.

* ``None``, NaN, NaT and ``pandas.NA`` are empty.
* Booleans, whole and floating-point numbers, and texts are what they are, in numpy's types too, and so are
  values of classes that are made from Python's own ones, such as a member of an ``IntEnum``.
* Decimals and fractions, dates, times and durations, UUIDs, and the same of pandas, with its periods and
  intervals, are their texts. A time whose zone comes from another library than the known ones is unreadable.
* A whole number of more than 400 digits is unreadable, as its text is.
"""

from __future__ import annotations

import datetime
import enum
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any, Final, TypeAlias
from uuid import UUID

import numpy as np


class Unreadable(enum.Enum):
    """The type of ``UNREADABLE``."""

    UNREADABLE = "a value that has no text and is no number"


Plain: TypeAlias = str | int | float | bool | Unreadable | None
UNREADABLE: Final = Unreadable.UNREADABLE

_EXACT = 2**53  # whole floating-point numbers below are told apart
LONGEST_NUMBER = 400  # characters; what is longer is no number
_LARGEST_WHOLE = 10**LONGEST_NUMBER - 1
_SMALLEST = "01-01T00:00:00." + "0" * 18  # what a time of numpy leaves out behind its year
_LONGEST_SHOWN = 60  # characters of a text in a message
_ZONES = ("datetime", "zoneinfo", "pandas", "pytz", "dateutil")  # libraries whose zones do not fail


def plain_value(value: object) -> Plain:
    """Return a value as a text, a number, a boolean, ``None`` for an empty one, or ``UNREADABLE``.

    Its type is exactly one of these, whatever class the value is of.
    """
    kind = type(value)
    # These are asked of the type, not of the value, which may say that it is of another class. They call the
    # methods of Python's own types, which a class of the table's may have replaced.
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, float):
        return _floating(float.__float__(value))  # type: ignore[arg-type]  # a number, by its type
    if kind is bool:
        return bool(value)
    if issubclass(kind, int):
        return _whole(int.__add__(value, 0))  # type: ignore[operator]  # a whole number, by its type
    if type(kind) is not type and kind is not Fraction:  # even looking it up might run code of its own
        return UNREADABLE
    read = _READERS.get(kind) or _pandas_readers().get(kind)
    return UNREADABLE if read is None else read(value)


def canonical_value(value: object) -> Plain:
    """Return what ``plain_value`` does, but one text for all values of a type that are equal.

    Decimals that are equal may be written differently, as 1.0 and 1.00 are, and so may times: an instant is
    told in UTC, and numpy's times down to their smallest unit.
    """
    plain, kind = plain_value(value), type(value)
    if type(plain) is not str or issubclass(kind, str):  # a type that is not known has no text
        return plain
    if kind is Decimal:
        return _canonical_decimal(value)  # type: ignore[arg-type]  # by its type
    if kind is np.datetime64:
        year, rest = plain[:1] + plain[1:].partition("-")[0], plain[1:].partition("-")[2]
        return f"{year}-{rest}{_SMALLEST[len(rest) :]}"
    if issubclass(kind, datetime.datetime):
        return _canonical_time(value)  # type: ignore[arg-type]  # by its type
    return plain


def whole_text(number: float) -> str | None:
    """Return a whole floating-point number as the whole number's text; None for any other."""
    return str(int(number)) if abs(number) < _EXACT and number.is_integer() else None


def is_encodable(text: str) -> bool:
    """Tell whether a text is valid Unicode, without half of a pair of surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def type_name(thing: object) -> str:
    """Return the full name of the type of a thing, such as ``pyarrow.lib.Table``; nothing of its value."""
    kind = type(thing)
    # Past whatever the class puts in their place.
    module = type.__dict__["__module__"].__get__(kind)
    name = type.__dict__["__qualname__"].__get__(kind)
    return f"{module}.{name}" if type(module) is str and module != "builtins" else str(name)


def shown_text(thing: object) -> str:
    """Return how a message shows what came in place of a name.

    A text stands in quotes, cut where it is long; of anything else, the name of its type stands there alone.
    """
    if not issubclass(type(thing), str):
        return f"a {type_name(thing)}"
    text = str.__str__(thing)
    return repr(text) if len(text) <= _LONGEST_SHOWN else repr(text[: _LONGEST_SHOWN - 3])[:-1] + "…'"


def _canonical_decimal(value: Decimal) -> str:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):  # infinite, or no number
        return str(value)
    kept = "".join(map(str, digits)).rstrip("0")
    if not kept:
        return "0"
    exponent += len(digits) - len(kept)
    short = Decimal(f"{'-' * sign}{kept}E{exponent}")
    return f"{short:f}" if abs(exponent) < LONGEST_NUMBER else str(short)


def _canonical_time(value: datetime.datetime) -> str | Unreadable:
    if value.tzinfo is None:
        return str(value)
    try:
        return str(value.astimezone(datetime.UTC))
    except (ValueError, OverflowError):  # at the end of all times
        return UNREADABLE


# --- one kind of value ------------------------------------------------------------------------------------


def _floating(number: float) -> float | None:
    return None if number != number else number + 0.0  # noqa: PLR0124 - NaN differs from itself


def _whole(number: int) -> int | Unreadable:
    return number if -_LARGEST_WHOLE <= number <= _LARGEST_WHOLE else UNREADABLE


def _numpy_floating(value: np.floating[Any]) -> float | None:
    with np.errstate(all="ignore"):  # a long double may be too large, a NaN may signal
        return _floating(float(value))


def _fraction(value: Fraction) -> str | Unreadable:
    if UNREADABLE in (_whole(value.numerator), _whole(value.denominator)):
        return UNREADABLE
    return str(value)


def _zoned(value: datetime.datetime | datetime.time) -> str | Unreadable:
    zone = value.tzinfo
    if zone is not None and type_name(zone).partition(".")[0] not in _ZONES:
        return UNREADABLE
    return _written(value)


def _written(value: object) -> str | Unreadable:
    try:
        return str(value)
    except (ValueError, OverflowError, NotImplementedError):  # a time that its zone would move past all times
        return UNREADABLE


def _readers() -> dict[type, Callable[[Any], Plain]]:
    readers: dict[type, Callable[[Any], Plain]] = {
        type(None): lambda _: None,
        Decimal: lambda value: None if value.is_qnan() else str(value),
        Fraction: _fraction,
        datetime.date: str,
        datetime.datetime: _zoned,
        datetime.time: _zoned,
        datetime.timedelta: str,
        UUID: str,
        np.bool_: bool,
        np.datetime64: lambda value: None if np.isnat(value) else str(value),
        # without a unit it has no meaning, and not always a text
        np.timedelta64: lambda value: None if np.isnat(value) else UNREADABLE,
    }
    for kind in set(np.sctypeDict.values()) - set(readers):
        if issubclass(kind, np.integer):
            readers[kind] = int
        elif issubclass(kind, np.floating):
            readers[kind] = _numpy_floating
    return readers


_READERS = _readers()


def _pandas_readers() -> dict[type, Callable[[Any], Plain]]:
    """Return the readers of pandas' own types, of which there are values only where it was imported."""
    return _readers_of_pandas() if hasattr(sys.modules.get("pandas"), "Interval") else {}


@cache
def _readers_of_pandas() -> dict[type, Callable[[Any], Plain]]:
    pandas: Any = sys.modules["pandas"]
    return {
        type(pandas.NA): lambda _: None,
        type(pandas.NaT): lambda _: None,
        pandas.Timestamp: _zoned,
        pandas.Timedelta: str,
        pandas.Period: str,
        pandas.Interval: _written,  # its ends may be such times
    }
