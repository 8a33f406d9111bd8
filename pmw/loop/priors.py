"""Priors, made: of a table that the custodian declares public, or of a model that somebody released.

The session's own table is not looked at, here or anywhere: whether a prior is of its records would be a test
of all of them.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pmw.errors import DataError
from pmw.model.bins import CoarsenedDistribution, Coarsening, choose_coarsening
from pmw.model.distribution import SyntheticDistribution
from pmw.public.prior import LARGEST_PAIR, Prior, PriorPair, attributes_text
from queries.domain import Domain

if TYPE_CHECKING:
    from pmw.data import CountSource

BINS = 32  # of a long ordered attribute: twice as many as sessions have at first
_FEWEST = 1.0  # standard deviation of a count in records: a value that fewer than three have is pooled


def prior_of_table(source: CountSource) -> Prior:
    """Return the prior of a public table.

    Privacy: exact counts of a table that its owner declares public; none of them is protected.
    """
    domain = source.domain
    source.prepare((name,) for name in domain.names)
    counts = {name: source.counts((name,)).counts.astype(np.float64) for name in domain.names}
    records = source.counts(()).total
    if not records:
        raise DataError(
            "expected a public table with records that the schema keeps, got none; see pmw check --data"
        )
    coarsening = choose_coarsening(domain, counts, dict.fromkeys(domain.names, _FEWEST), bins=BINS)
    coarse = source if coarsening.is_identity else source.coarsened(coarsening.coarse, coarsening.bins)
    scopes = _scopes(coarsening.coarse)
    coarse.prepare(scopes)
    pairs = tuple(PriorPair(scope, coarse.counts(scope).counts / records) for scope in scopes)
    one_ways = {name: numbers / records for name, numbers in counts.items()}
    return Prior(attributes_text(domain), one_ways, _bins(coarsening), pairs)


def prior_of_model(model: SyntheticDistribution, domain: Domain) -> Prior:
    """Return the prior of a released model."""
    for attribute in domain:
        if attribute.name not in model.domain.names or model.domain[attribute.name] != attribute:
            raise DataError(
                f"expected a prior with the schema's attribute {attribute.name!r}, got one that lacks it or "
                "declares it otherwise; open the session with the prior's schema, or leave the prior out"
            )
    coarsening, coarse = Coarsening.identity(model.domain), model
    if isinstance(model, CoarsenedDistribution):
        coarsening, coarse = model.coarsening, model.model
    pairs = []
    for scope in _scopes(Domain(tuple(coarsening.coarse[name] for name in domain.names))):
        ordered = coarse.domain.scope(scope)
        shares = _normalised(coarse.marginal(ordered))
        pairs.append(PriorPair(scope, shares if ordered == scope else shares.T))
    one_ways = {name: _normalised(model.marginal((name,))) for name in domain.names}
    own = _bins(coarsening)
    bins = {name: own[name] for name in domain.names}
    return Prior(attributes_text(domain), one_ways, bins, tuple(pairs))


def _scopes(coarse: Domain) -> list[tuple[str, ...]]:
    """Return the pairs of attributes that a prior has shares of, in order."""
    pairs = itertools.combinations(coarse.names, 2)
    return [pair for pair in pairs if math.prod(coarse.scope_shape(pair)) <= LARGEST_PAIR]


def _bins(coarsening: Coarsening) -> dict[str, NDArray[np.int64]]:
    """Return the bin of each cell, attribute by attribute; cells by themselves are their own bins."""
    return {
        attribute.name: np.arange(attribute.size) if bin_ is None else bin_
        for attribute, bin_ in zip(coarsening.fine, coarsening.bins, strict=True)
    }


def _normalised(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    shares: NDArray[np.float64] = np.maximum(counts, 0.0) / np.maximum(counts, 0.0).sum()
    return shares
