"""Withholding: which numbers of a table are not shown, where a session withholds numbers of few persons.

A number is withheld where a count of the records that it is made of is too small. So are others beside it,
the smallest first, until no withheld one is a sum or a difference of shown ones: until its weights, cell by
cell, are no linear combination of theirs. A mean counts as if it told both its sum and its number of records.

All counts are released or answered numbers, so this is post-processing. It is a rule of display within one
table: numbers of two tables may tell a withheld one, and privacy does not rest on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
        line: the weights of a sum of other numbers; None for a number of records, or no sum.
        size: the smallest of these counts, in records.
        is_small: the number is withheld whatever is shown beside it.
    """

    key: Key
    part: tuple[int, tuple[int, ...]]
    counts: tuple[LinearQuery, ...]
    line: GroupWeights | None
    size: float
    is_small: bool

    @property
    def scopes(self) -> list[tuple[str, ...]]:
        """The attributes of each of its weights."""
        return [*(one.scope for one in self.counts), *([] if self.line is None else [self.line.scope])]

    def weights(self, domain: Domain, scope: tuple[str, ...]) -> Iterable[NDArray[np.float64]]:
        """Yield what records weigh in each of its numbers, the greatest as 1: float64, one axis."""
        arrays = [(one.scope, one.weights() / UNITS) for one in self.counts]
        arrays += [] if self.line is None else [(self.line.scope, self.line.middle)]
        for own, array in arrays:
            most = float(np.abs(array).max(initial=0.0))
            if most > 0:  # what weighs nothing is 0 by the declaration
                wide = np.broadcast_to(on_scope(domain, own, array / most, scope), domain.scope_shape(scope))
                yield wide.reshape(-1)


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
    rows = [(place, own) for place, one in enumerate(numbers) for own in one.weights(domain, scope)]
    if not rows:
        return hidden
    weights = np.unique(np.array([own for _, own in rows]), axis=1)  # alike cells are one
    owner, sizes = np.array([place for place, _ in rows]), np.array([one.size for one in numbers])
    is_hidden = np.array([one.key in hidden for one in numbers])
    while True:
        at, told = np.flatnonzero(~is_hidden[owner]), weights[is_hidden[owner]].T
        shown, tellable = weights[at].T, np.zeros(0, dtype=np.bool_)
        if shown.size and told.size:
            parts = np.linalg.lstsq(shown, told, rcond=None)[0]
            tellable = np.abs(shown @ parts - told).max(axis=0) <= _NEAR
        if not tellable.any():
            return {one.key for one, is_one in zip(numbers, is_hidden, strict=True) if is_one}
        for used in (np.abs(parts[:, tellable]) > _NEAR).T:
            places = owner[at[used]]
            is_hidden[places[np.argmin(sizes[places])]] = True
