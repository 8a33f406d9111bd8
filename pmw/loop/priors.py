"""Priors: made of a table that the custodian declares public, or of a model, and taken or dropped.

The session's own table is not looked at, here or anywhere: whether a prior is of its records would be a test
of all of them. What opening released decides whether a session takes its prior.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pmw.errors import DataError
from pmw.model.bins import CoarsenedDistribution, Coarsening, choose_coarsening, coarse_target
from pmw.model.distribution import SyntheticDistribution
from pmw.model.measurement import MarginalMeasurement, Target
from pmw.public.foundations import due_scopes
from pmw.public.prior import LARGEST_PAIR, Prior, PriorPair, attributes_text
from pmw.public.state import PublicState
from queries.domain import Domain

if TYPE_CHECKING:
    from pmw.data import CountSource

BINS = 32  # of a long ordered attribute: twice as many as sessions have at first
_FEWEST = 1.0  # standard deviation of a count in records: a value that fewer than three have is pooled
_FARTHEST = 6.0  # times the variance of noise: priors that are farther off help no more, or harm
_SMOOTHED = 0.01  # share of independence in a prior's pairs, so that no cell is empty for ever
_RAKINGS = 20


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


# --- whether a session takes its prior ---------------------------------------------------------------------


def elected(state: PublicState) -> PublicState:
    """Return the state that knows whether its model begins with the contract's prior; free.

    That is decided by what was released before any question, once all of it is there. The prior's pairs,
    raked to the attributes' own released counts, are compared with the released pairs. They are taken where
    they are nearer than independence is, and at most ``_FARTHEST`` times the variance of noise away: per
    free number, for what is nearer errs by less than a few times of what a measurement does.

    Source: Deming and Stephan (1940) for raking, which keeps a table's interactions.
    """
    prior, pairs = state.contract.options.prior, opened_pairs(state)
    if prior is None or not pairs:
        return state
    margins = dict[str, NDArray[np.float64]]()
    for one in state.opening:
        values = np.maximum(coarse_target(state.coarsening, one, state.total.value).values, 1.0)
        margins[one.scope[0]] = values / values.sum()
    with_prior, alone, numbers = 0.0, 0.0, 0
    for one in pairs:
        target = coarse_target(state.coarsening, one, state.total.value)
        first, second = (margins[name] for name in one.scope)
        independent = np.multiply.outer(first, second)
        shares = (1 - _SMOOTHED) * prior_shares(state, prior, one.scope) + _SMOOTHED * independent
        with_prior += _misfit(target, raked(shares, first, second) * state.total.value)
        alone += _misfit(target, independent * state.total.value)
        numbers += target.free_numbers
    return replace(state, elects_prior=with_prior < min(alone, _FARTHEST * numbers))


def opened_pairs(state: PublicState) -> list[MarginalMeasurement]:
    """Return the pairs that were measured before any question; none as long as one of them is missing."""
    scopes = due_scopes(replace(state, measured=(), closed=False))
    due = sum(len(scope) == 2 for scope in scopes)  # pairs come first
    pairs = [one for one in state.measured[:due] if isinstance(one, MarginalMeasurement)]
    return pairs if len(pairs) == due else []


def raked(
    shares: NDArray[np.float64], first: NDArray[np.float64], second: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return shares of a pair whose sums are about those of its attributes, with the same interactions.

    Args:
        shares: positive, float64, shape (a, b).
        first: wanted sums of the first attribute, float64, shape (a,), summing to 1.
        second: wanted sums of the second, float64, shape (b,), summing to 1.
    """
    for _ in range(_RAKINGS):
        shares = shares * (first / shares.sum(axis=1))[:, None]
        shares = shares * (second / shares.sum(axis=0))
    return shares


def prior_shares(state: PublicState, prior: Prior, scope: tuple[str, ...]) -> NDArray[np.float64]:
    """Return a prior's shares of a pair, or of an attribute, on the cells of the model: float64."""
    coarsening = state.coarsening
    return prior.shares(scope, tuple(coarsening.bins[coarsening.fine.index(name)] for name in scope))


def _misfit(target: Target, values: NDArray[np.float64]) -> float:
    """Return chi squared of what a model says of a measurement, against its noise."""
    error = values - target.values
    return float(np.vdot(target.pull(error), error))
