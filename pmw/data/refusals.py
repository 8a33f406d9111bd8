"""Refusals: why a table cannot be read, in our own words.

What an engine, a driver or another library raises may quote a record. So none of it is shown, and none is
kept as the error that another came from.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TypeVar

from pmw.errors import DataError
from queries.errors import RecordsError

MAKE_A_VIEW = "make a view that gives text or numbers"

_Result = TypeVar("_Result")


def detached(run: Callable[[], _Result]) -> _Result:
    """Return what a call gives; its refusal is raised anew, without the error that it came from."""
    try:
        return run()
    except (DataError, RecordsError) as error:
        refusal = DataError(str(error))
    try:
        raise refusal
    finally:
        # Nor does it keep the frames of the call, and what is open there, until the collector comes.
        del refusal


def quietly(told: str, run: Callable[[], _Result]) -> _Result:
    """Return what calls of a library give, without its warnings, and in our words what it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return run()
    except DataError:
        raise
    except Exception:  # noqa: BLE001 - a library, and the machine behind it, raise what they like
        failed = DataError(told)
    raise failed


def column_refusal(what: str, name: str, got: str, cure: str) -> DataError:
    """Return the refusal of a column whose type holds values that reading may fail at."""
    return DataError(f"{what}: expected plain values in column {name!r}, got {got}; {cure}")


def require_one_column(what: str, name: str, names: Sequence[str]) -> None:
    """Refuse a table in which a declared column is absent, or stands twice.

    The columns that are there are not listed: where there is no header they are a person's record.
    """
    if names.count(name) != 1:
        came = "it twice" if name in names else "no such column"
        raise DataError(f"{what}: expected one column {name!r}, got {came}")
