"""Workloads: a name, a number of queries and how to make them; and families that are listed in full."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field

import numpy as np

from queries.boxes import Boxes
from queries.cells import cell_count, in_quotes
from queries.domain import Domain, require_domain
from queries.errors import ScopeError
from queries.factors import UNITS, Factor
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.plain_values import plain_value, shown_text, type_name

MOST_QUERIES = 2**63 - 1  # what ``len`` can say

_SOME = 2**13  # questions at a time, where they are ranges
_NAMES = (str, list, tuple, set, frozenset)  # types that names come in
LARGEST_PARITY = 2**16  # cells of one parity: its canonical text stays below a megabyte
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
    """Refuse a whole number outside ``low`` to ``high``."""
    require_whole(label, value)
    if not low <= value <= high:
        raise ScopeError(f"expected {label} from {low:,} to {high:,}, got {label}={shown(value)}")


def require_whole(label: str, value: object) -> None:
    """Refuse what is no whole number, by its type alone."""
    if not issubclass(type(value), int) and not isinstance(plain_value(value), int):
        raise ScopeError(f"expected {label} as a whole number, got a {type_name(value)}")


def shown(number: int) -> str:
    """Return the digits of a whole number, or words where there are too many."""
    return str(number) if abs(number) < 10**30 else "(more than 30 digits)"


def quoted(name: str) -> str:
    """Return an attribute's name as in a workload's name: in double quotes, doubled inside, where it must."""
    if any(mark in name for mark in ',:"') or is_like_number(name):
        return in_quotes(name)
    return name


def is_like_number(text: str) -> bool:
    """Return whether a bare text is read as a number, well formed or not, rather than as a name."""
    return _NUMBER.fullmatch(text) is not None


# --- families -----------------------------------------------------------------------------------------------


def all_marginals(domain: Domain, order: int) -> Workload:
    """Return every cell of every marginal over ``order`` attributes, ``marginals:ORDER``.

    Raises:
        DomainError: ``domain`` is none.
        ScopeError: ``order`` is not between 1 and the number of attributes, or the cells are more than
            2^63 - 1.
    """
    require_domain(domain)
    check_between("order", order, 1, len(domain))

    def boxes() -> Iterator[Boxes]:
        for scope in itertools.combinations(domain.names, order):
            yield from _cells(domain, scope)

    return _of_boxes(f"marginals:{order}", _products_sum(domain.shape, order), boxes)


def marginal_cells(domain: Domain, names: Sequence[str]) -> Workload:
    """Return every cell of the marginal over the named attributes, ``marginals:NAME,NAME,…``.

    Raises:
        DomainError: ``domain`` is none.
        ScopeError: no attribute is named, one is unknown or named twice, or the cells are more than
            2^63 - 1.
    """
    require_domain(domain)
    if not issubclass(type(names), _NAMES):
        raise ScopeError(f"expected a list of attributes' names, got {shown_text(names)}")
    scope = domain.scope([names] if isinstance(names, str) else names)
    if not scope:
        raise ScopeError("expected the names of at least one attribute, got none")
    name = "marginals:" + ",".join(map(quoted, scope))
    return _of_boxes(name, domain.scope_size(scope), lambda: _cells(domain, scope))


def all_ranges(domain: Domain, attribute: str) -> Workload:
    """Return every range of consecutive base cells of an ordered attribute, ``ranges:NAME``.

    Records with an empty or undeclared value (in the ``missing`` or ``other`` cell) are in no range, as
    they satisfy no comparison.

    Raises:
        DomainError: ``domain`` is none.
        ScopeError: the attribute is unknown, or categorical: its values have no order.
    """
    size = _ordered_size(domain, attribute, "ranges")
    pairs = functools.partial(itertools.combinations_with_replacement, range(size), 2)
    return _of_ranges(f"ranges:{quoted(attribute)}", math.comb(size + 1, 2), domain, attribute, pairs)


def prefixes(domain: Domain, attribute: str) -> Workload:
    """Return the cumulative counts of an ordered attribute, ``prefixes:NAME``.

    Query i counts the records whose value is in base cell i or before it, or a number with a cell of its own
    before its end. Records with an empty or
    undeclared value are in no prefix, so the last one counts the records with a declared value.

    Raises:
        DomainError: ``domain`` is none.
        ScopeError: the attribute is unknown, or categorical: its values have no order.
    """
    size = _ordered_size(domain, attribute, "prefixes")
    name = f"prefixes:{quoted(attribute)}"
    return _of_ranges(name, size, domain, attribute, lambda: ((0, cell) for cell in range(size)))


def parities(domain: Domain, order: int) -> Workload:
    """Return one parity query for each set of ``order`` attributes, ``parities:ORDER``.

    A parity counts the records for which the sum of their cell numbers over the set is odd. Cells are
    numbered from 0 as the domain declares them, the ``missing`` and ``other`` cells after the base cells.
    For attributes of two cells, number of records - 2 * parity is the Fourier coefficient of the table
    for that set; for longer ones only the lowest bit of the cell number counts.

    Raises:
        DomainError: ``domain`` is none.
        ScopeError: ``order`` is not between 1 and the number of attributes, or some ``order`` attributes
            have more than 65,536 cells together.

    Source:
        Barak, Chaudhuri, Dwork, Kale, McSherry and Talwar 2007, "Privacy, accuracy, and consistency too",
        for the Fourier basis over attributes of two values. The lowest bit is our extension to more.
    """
    require_domain(domain)
    check_between("order", order, 1, len(domain))
    largest = math.prod(sorted(domain.shape)[-order:])
    if largest > LARGEST_PARITY:
        raise ScopeError(
            f"a parity over {order} attributes would span up to {cell_count(largest)} cells, at most "
            f"{LARGEST_PARITY:,} fit; choose a lower order or declare wider cells"
        )

    def make() -> Iterator[LinearQuery]:
        for scope in itertools.combinations(domain.names, order):
            yield _parity(domain, scope)

    return Workload(f"parities:{order}", math.comb(len(domain), order), make)


def _of_boxes(name: str, size: int, boxes: Callable[[], Iterator[Boxes]]) -> Workload:
    def make() -> Iterator[LinearQuery]:
        for some in boxes():
            yield from map(some.query, range(len(some)))

    return Workload(name, size, make, boxes)


def _cells(domain: Domain, scope: Sequence[str]) -> Iterator[Boxes]:
    """Yield the cells of a scope, row by row, some at a time."""
    shape, cells = domain.scope_shape(scope), domain.scope_size(scope)
    for start in range(0, cells, _SOME):
        numbers = np.arange(start, min(cells, start + _SOME), dtype=np.int64)
        found = np.empty((numbers.size, len(shape)), dtype=np.int64)
        for axis in reversed(range(len(shape))):
            numbers, found[:, axis] = np.divmod(numbers, shape[axis])
        yield Boxes.of(domain, scope, found, found)


def _of_ranges(
    name: str, size: int, domain: Domain, attribute: str, pairs: Callable[[], Iterable[tuple[int, int]]]
) -> Workload:
    """Return a workload of ranges of an attribute's base cells; boxes where no number has its own cell."""

    def make() -> Iterator[LinearQuery]:
        for low, high in pairs():
            yield _between(domain, attribute, low, high)

    def boxes() -> Iterator[Boxes]:
        left = iter(pairs())
        while some := list(itertools.islice(left, _SOME)):
            ends = np.array(some, dtype=np.int64)
            yield Boxes.of(domain, [attribute], ends[:, 0], ends[:, 1])

    return Workload(name, size, make, None if domain[attribute].atoms else boxes)


def _between(domain: Domain, name: str, low: int, high: int) -> LinearQuery:
    """Return what counts an attribute's cells from one to another, and the atoms between their ends."""
    attribute = domain[name]
    if not attribute.atoms:
        return LinearQuery.cells(domain, {name: (low, high)})
    inside = np.zeros(attribute.size, dtype=np.int64)
    inside[low : high + 1] = UNITS
    for place, atom in enumerate(attribute.atoms, attribute.base_size):
        inside[place] = UNITS * (attribute.points[low] <= atom < attribute.points[high + 1])
    return LinearQuery(domain, (Factor((name,), inside),))


def _parity(domain: Domain, scope: tuple[str, ...]) -> LinearQuery:
    bits = [np.arange(size) & 1 for size in domain.scope_shape(scope)]
    odd = functools.reduce(np.bitwise_xor.outer, bits)
    return LinearQuery(domain, (Factor(scope, odd * UNITS),))


def _products_sum(sizes: Sequence[int], order: int) -> int:
    """Return the sum over all sets of ``order`` sizes of their product, without listing the sets."""
    sums = [1, *[0] * order]
    for size in sizes:
        for count in range(order, 0, -1):
            sums[count] += size * sums[count - 1]
    return sums[order]


def _ordered_size(domain: Domain, name: str, what: str) -> int:
    require_domain(domain)
    attribute = domain[name]
    if not attribute.is_ordered:
        raise ScopeError(
            f"attribute {name!r} is categorical and has no order, so it has no {what}; ask marginals:"
            f"{quoted(name)} for its values, or declare it as an integer or numeric attribute"
        )
    return attribute.base_size
