"""Withholding: which numbers of a table are not shown, where a session withholds numbers of few persons.

A number is withheld where a count of the records that it is made of is too small. So are others beside it,
the smallest first, until no withheld one is a sum or a difference of shown ones: until its weights, cell by
cell, are no linear combination of theirs. A mean counts as if it told both its sum and its number of records.

All counts are released or answered numbers, so this is post-processing. It is a rule of display within one
table: numbers of two tables may tell a withheld one, and privacy does not rest on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmw.public.sums import GroupWeights
from queries.cell_values import on_scope
from queries.domain import Domain
from queries.factors import UNITS
from queries.frozen import dataclass
from queries.linear import LinearQuery

_MOST_WEIGHTS = 2**22  # of numbers that are looked at together, in all cells
_MOST_TOGETHER = 2**10
_NEAR = 1e-5  # of weights of 1 at most: what rounding leaves of them

Key = tuple[int, int, tuple[int, ...]]  # of a statement's arm, an aggregate by its id, a group by its places


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """A number that a table would show.

    Args:
        part: the arm of the statement, and the keys that its group has values of. Groups of one part share
            no records.
        counts: the questions of how many records it is made of.
        sizes: these numbers of records.
        are_small: which of them are of few persons.
        line: returns the weights of a sum of other numbers; None for a number of records, or no sum.
    """

    key: Key
    part: tuple[int, tuple[int, ...]]
    counts: tuple[LinearQuery, ...]
    sizes: tuple[float, ...]
    are_small: tuple[bool, ...]
    line: Callable[[], GroupWeights | None]

    @property
    def is_small(self) -> bool:
        """The number is withheld whatever is shown beside it."""
        return any(self.are_small)

    @property
    def scopes(self) -> list[tuple[str, ...]]:
        """The attributes of each of its weights."""
        line = self.line()
        return [*(one.scope for one in self.counts), *([] if line is None else [line.scope])]

    def weights(self, domain: Domain, scope: tuple[str, ...]) -> Iterator[_Weights]:
        """Yield the weights of each of its numbers, the greatest as 1."""
        line = self.line()
        arrays = [(one.scope, one.weights() / UNITS) for one in self.counts]
        arrays += [] if line is None else [(line.scope, line.middle)]
        sizes, are_small = (*self.sizes, min(self.sizes)), (*self.are_small, self.is_small)
        for (own, array), size, is_small in zip(arrays, sizes, are_small, strict=False):
            most = float(np.abs(array).max(initial=0.0))
            if most > 0:  # what weighs nothing is 0 by the declaration
                wide = np.broadcast_to(on_scope(domain, own, array / most, scope), domain.scope_shape(scope))
                yield _Weights(self.key, wide.reshape(-1), size, is_small)


class _Weights(NamedTuple):
    key: Key
    array: NDArray[np.float64]  # one axis, all cells
    size: float  # in records
    is_small: bool


def withheld(numbers: Sequence[Shown], domain: Domain) -> set[Key]:
    """Return which numbers of one table are not shown."""
    hidden = {one.key for one in numbers if one.is_small}
    parts = dict.fromkeys(one.part for one in numbers)
    if len(parts) > 1 and hidden:
        if _fit_together(numbers, domain):
            return _protected(numbers, hidden, domain)
        sizes = {part: sum(one.part == part for one in numbers) for part in parts}
        kept = max(sizes, key=sizes.__getitem__)  # whose groups share no records, so that none tells another
        hidden |= {one.key for one in numbers if one.part != kept}
        numbers = [one for one in numbers if one.part == kept]
    rows = dict[tuple[int, ...], list[Shown]]()
    for one in numbers:
        rows.setdefault(one.key[2], []).append(one)
    for row in rows.values():
        own = {one.key for one in row}
        if own & hidden and own - hidden:
            hidden |= _protected(row, own & hidden, domain) if _fit_together(row, domain) else own
    return hidden


def _fit_together(numbers: Sequence[Shown], domain: Domain) -> bool:
    scopes = [scope for one in numbers for scope in one.scopes]
    cells = domain.scope_size(_union(scopes, domain))
    return len(numbers) <= _MOST_TOGETHER and len(scopes) * cells <= _MOST_WEIGHTS


def _union(scopes: Iterable[tuple[str, ...]], domain: Domain) -> tuple[str, ...]:
    return domain.scope(sorted({name for scope in scopes for name in scope}))


def _protected(numbers: Sequence[Shown], hidden: set[Key], domain: Domain) -> set[Key]:
    """Return what is withheld so that shown numbers tell none of what is."""
    scope = _union((scope for one in numbers for scope in one.scopes), domain)
    rows = [own for one in numbers for own in one.weights(domain, scope)]
    if not rows:
        return hidden
    hidden, secret = {*hidden}, np.array([own.is_small for own in rows])
    weights = np.unique(np.array([own.array for own in rows]), axis=1)  # alike cells are one
    while True:
        at = np.flatnonzero([own.key not in hidden for own in rows])
        shown, told = weights[at].T, weights[secret].T
        if not shown.size or not told.size:
            return hidden
        parts = np.linalg.lstsq(shown, told, rcond=None)[0]
        tellable = np.abs(shown @ parts - told).max(axis=0) <= _NEAR
        if not tellable.any():
            return hidden
        for used in (np.abs(parts[:, tellable]) > _NEAR).T:
            place = min(at[used], key=lambda own: rows[own].size)
            secret[place] = True
            hidden.add(rows[place].key)
