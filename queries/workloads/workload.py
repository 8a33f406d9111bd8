"""A workload: a name, a number of queries, and how to make them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from queries.boxes import Boxes
from queries.errors import ScopeError
from queries.linear import LinearQuery
from queries.plain_values import plain_value, type_name

MOST_QUERIES = 2**63 - 1  # what ``len`` can say

_NUMBER = re.compile(r"[-+]?[0-9][0-9.]*")


@dataclass(frozen=True, slots=True)
class Workload:
    """A finite sequence of queries, made again on every walk and one at a time.

    Workloads over one domain are equal where they have one name: they ask the same questions.

    Args:
        name: how it was asked for, such as ``marginals:2``; ``parse_workload`` reads it.
        size: number of queries, at most 2^63 - 1.
        make: returns an iterator over exactly ``size`` queries, always the same ones.
        boxes: returns an iterator over the same questions, many at a time; None where some are no ranges.

    Raises:
        ScopeError: the size is out of range.
    """

    name: str
    size: int
    make: Callable[[], Iterator[LinearQuery]] = field(repr=False, compare=False)
    boxes: Callable[[], Iterator[Boxes]] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.size <= MOST_QUERIES:
            raise ScopeError(
                f"a workload has 0 to {MOST_QUERIES:,} queries, {self.name} would have {shown(self.size)}; "
                "name fewer attributes or ask fewer questions"
            )

    def __iter__(self) -> Iterator[LinearQuery]:
        return self.make()

    def __len__(self) -> int:
        return self.size


def check_between(label: str, value: int, low: int, high: int) -> None:
    """Refuse a whole number outside ``low`` to ``high``.

    Raises:
        ScopeError: it is outside, or no whole number.
    """
    require_whole(label, value)
    if not low <= value <= high:
        raise ScopeError(f"expected {label} from {low:,} to {high:,}, got {label}={shown(value)}")


def require_whole(label: str, value: object) -> None:
    """Refuse what is no whole number, by its type alone.

    Raises:
        ScopeError: it is none.
    """
    if not issubclass(type(value), int) and not isinstance(plain_value(value), int):
        raise ScopeError(f"expected {label} as a whole number, got a {type_name(value)}")


def shown(number: int) -> str:
    """Return the digits of a whole number, or words where there are too many."""
    return str(number) if abs(number) < 10**30 else "(more than 30 digits)"


def quoted(name: str) -> str:
    """Return an attribute's name as it stands in a workload's name: in double quotes where it must.

    A double quote inside is doubled, as in SQL. Quoted are names with a comma, a colon or a double quote,
    and names that could be taken for a number.
    """
    if any(mark in name for mark in ',:"') or is_like_number(name):
        return '"' + name.replace('"', '""') + '"'
    return name


def is_like_number(text: str) -> bool:
    """Return whether a bare text is read as a number, well formed or not, rather than as a name."""
    return _NUMBER.fullmatch(text) is not None
