"""stub"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from pmw.privacy.budget import gaussian_charge, pure_charge
from pmw.privacy.noise import DiscreteLaplace
from pmw.public.charges import Event, LedgerEntry, rows_label
from pmw.public.options import Options
from queries.linear import LinearQuery


class Moved(NamedTuple):
    l1: int
    l2_squared: int


def rows_sensitivity(queries: Sequence[LinearQuery], options: Options, *, persons: bool) -> Moved:
    import numpy as np

    n = options.records_per_person
    names = {x for q in queries for x in q.scope}
    dom = queries[0].domain
    scope = dom.scope(names)
    tot = np.zeros(dom.scope_shape(scope))
    sq = tot.copy()
    for q in queries:
        w = q.weights()
        idx = tuple(slice(None) if x in q.scope else None for x in scope)
        tot = tot + w[idx]
        sq = sq + (w[idx].astype(float) ** 2)
    k = 2 if options.replaces else 1
    return Moved(int(k * n * tot.max()), int(k * n * n * sq.max()))


def rows_charge(queries, noise, options, *, persons):
    m = rows_sensitivity(queries, options, persons=persons)
    if isinstance(noise, DiscreteLaplace):
        return pure_charge(Fraction(m.l1) / noise.scale)
    return gaussian_charge(Fraction(m.l2_squared), noise.sigma)


def rows_entry(queries, noise, options):
    persons = queries[0].domain.person is not None
    return LedgerEntry(Event.ROWS, rows_label(queries), rows_charge(queries, noise, options, persons=persons))
