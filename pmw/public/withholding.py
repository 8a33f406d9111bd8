"""Withholding: which numbers of a table are not shown, where a session withholds numbers of few persons.

A number is withheld where a count of the records that it is made of is too small. So are others beside it,
the smallest first, until no withheld one is a sum or a difference of shown ones: until its weights, cell by
cell, are no linear combination of theirs. A mean counts as if it told both its sum and its number of records.

All counts are answers, so this is post-processing. It is a rule of display within one table: numbers of two
tables may tell a withheld one, and privacy does not rest on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from queries.cell_values import on_scope
from queries.domain import Domain

_MOST_WEIGHTS = 2**22  # of numbers that are looked at together, in all cells
_MOST_TOGETHER = 2**10
_NEAR = 1e-5  # of weights of 1 at most: what rounding leaves of them

Key = tuple[int, int, tuple[int, ...]]  # of a statement's arm, an aggregate by its id, a group by its places


class Told(NamedTuple):
    """What a number of a table would tell: a count of records, or another sum of weights over them.

    Attributes:
        key: of the number; one that tells several things is shown with all, or withheld.
        part: the arm of the statement, and the keys that its group has values of. Groups of one part share
            no records.
        scope: attribute names in declared order.
        weights: returns the weights of the cells of the scope, in any unit, one axis per attribute.
        size: how many records it is made of.
        is_small: they may be of too few persons.
    """

    key: Key
    part: tuple[int, tuple[int, ...]]
    scope: tuple[str, ...]
    weights: Callable[[], NDArray[Any]]
    size: float
    is_small: bool


def withheld(told: Sequence[Told], domain: Domain) -> set[Key]:
    """Return which numbers of one table are not shown."""
    hidden = {one.key for one in told if one.is_small}
    parts = Counter(one.part for one in told)
    if len(parts) > 1 and hidden:
        if _fit_together(told, domain):
            return _protected(told, hidden, domain)
        kept = max(parts, key=parts.__getitem__)  # whose groups share no records, so that none tells another
        hidden |= {one.key for one in told if one.part != kept}
        told = [one for one in told if one.part == kept]
    groups = dict[tuple[int, ...], list[Told]]()
    for one in told:
        groups.setdefault(one.key[2], []).append(one)
    for group in groups.values():
        own = {one.key for one in group}
        if own & hidden and own - hidden:
            hidden |= _protected(group, own & hidden, domain) if _fit_together(group, domain) else own
    return hidden


def _fit_together(told: Sequence[Told], domain: Domain) -> bool:
    return (
        len(told) <= _MOST_TOGETHER and len(told) * domain.scope_size(_union(told, domain)) <= _MOST_WEIGHTS
    )


def _union(told: Sequence[Told], domain: Domain) -> tuple[str, ...]:
    return domain.scope(sorted({name for one in told for name in one.scope}))


def _protected(told: Sequence[Told], hidden: set[Key], domain: Domain) -> set[Key]:
    """Return what is withheld so that shown numbers tell none of what is."""
    scope, hidden = _union(told, domain), {*hidden}
    shape = domain.scope_shape(scope)
    wide = (np.broadcast_to(on_scope(domain, one.scope, one.weights(), scope), shape) for one in told)
    weights = np.unique(np.array([one.reshape(-1) for one in wide]), axis=1)  # alike cells are one
    greatest = np.abs(weights).max(axis=1)
    weights = weights / np.where(greatest > 0, greatest, 1)[:, None]
    secret = np.array([one.is_small for one in told]) & (greatest > 0)  # else 0 by the declaration
    while True:
        at = np.flatnonzero([one.key not in hidden for one in told])
        shown, sought = weights[at].T, weights[secret].T
        if not at.size or not sought.size:
            return hidden
        parts = np.linalg.lstsq(shown, sought, rcond=None)[0]
        tellable = np.abs(shown @ parts - sought).max(axis=0) <= _NEAR
        if not tellable.any():
            return hidden
        for used in (np.abs(parts[:, tellable]) > _NEAR).T:
            place = min(at[used], key=lambda own: told[own].size)
            secret[place] = True
            hidden.add(told[place].key)
