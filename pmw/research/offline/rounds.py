"""Rounds: what is chosen among, compared with what, under which noise. Public proposals, as in a session."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.display.texts import counted
from pmw.errors import NoiseError
from pmw.loop.fit import coarse_model, model_holds
from pmw.model import (
    MarginalMeasurement,
    NoiseDistribution,
    QueryMeasurement,
    SyntheticDistribution,
    noise_variance,
)
from pmw.planning.calibration import marginal_noise, selection_epsilon, value_noise
from pmw.privacy.budget import Charge, gaussian_charge, pure_charge
from pmw.privacy.noise import DiscreteLaplace
from pmw.privacy.selection import ExponentialMechanism
from pmw.public.charges import (
    Event,
    LedgerEntry,
    l1_sensitivity,
    l2_squared_sensitivity,
    paid_for,
    query_sensitivity,
)
from pmw.public.contract import Options
from pmw.public.state import PublicState
from pmw.research.offline.schedule import RoundPrices
from queries.factors import UNITS
from queries.linear import LinearQuery


@dataclass(frozen=True, slots=True, eq=False)
class MarginalRound:
    """A round that measures a whole marginal.

    Args:
        scopes: the candidates.
        model: what the candidates are compared with, over the coarse domain.
        selection: the choice, in units of 2^-20 records.
        noise: distribution of each cell's noise, in units.
    """

    scopes: tuple[tuple[str, ...], ...]
    model: SyntheticDistribution
    selection: ExponentialMechanism
    noise: NoiseDistribution


@dataclass(frozen=True, slots=True, eq=False)
class QueryRound:
    """A round that measures the answer to one question.

    Args:
        queries: the candidates.
        model_units: int64, shape (k,), the model's answers in units of 2^-20 records.
        selection: the choice, in units.
        noise: distribution of the answer's noise, in units.
    """

    queries: tuple[LinearQuery, ...]
    model_units: NDArray[np.int64]
    selection: ExponentialMechanism
    noise: NoiseDistribution


Round: TypeAlias = MarginalRound | QueryRound
RoundMeasurement: TypeAlias = MarginalMeasurement | QueryMeasurement


def expected_noise(noise: NoiseDistribution) -> float:
    """Return the mean absolute value of a distribution, in units: b for Laplace, sigma sqrt(2/pi) for
    Gaussian.

    Both are those of the continuous distributions, which the discrete ones approach where noise is wide.
    """
    if isinstance(noise, DiscreteLaplace):
        return float(noise.scale)
    return float(noise.sigma) * math.sqrt(2 / math.pi)


def propose_marginal(
    state: PublicState, scopes: Sequence[tuple[str, ...]], prices: RoundPrices
) -> MarginalRound | None:
    """Return a round over the scopes that could be worth their noise, or None where none is.

    Left out is what the model's tree could not hold. A scope inside one that was measured under no wider
    noise is not measured again. Two tables of ``total`` records differ by at most twice as many, so a
    marginal whose cells bring more noise than that cannot have a positive quality.
    """
    options, composition = state.contract.options, state.ledger.composition
    try:
        noise = marginal_noise(composition, prices.measurement, options)
        selection = ExponentialMechanism(
            l1_sensitivity(options), selection_epsilon(composition, prices.selection)
        )
    except NoiseError:
        return None  # a price for which no noise is made
    most_cells = 2 * state.total.value * UNITS / expected_noise(noise)
    known = [
        set(measured.scope)
        for measured in (*state.opening, *state.marginals)
        if measured.variance <= noise_variance(noise)
    ]
    hopeful = tuple(
        scope
        for scope in scopes
        if state.coarsening.coarse.scope_size(scope) < most_cells
        and not any(set(scope) <= wider for wider in known)
        and model_holds(state, scope)
    )
    return MarginalRound(hopeful, coarse_model(state), selection, noise) if hopeful else None


def propose_query(
    state: PublicState, queries: Sequence[LinearQuery], prices: RoundPrices
) -> QueryRound | None:
    """Return a round over the questions, or None where the price is too small for any noise."""
    options, composition = state.contract.options, state.ledger.composition
    try:
        noise = value_noise(composition, prices.measurement, options)
        selection = ExponentialMechanism(
            query_sensitivity(options), selection_epsilon(composition, prices.selection)
        )
    except NoiseError:
        return None
    answers = [round(state.model.answer(query) * UNITS) for query in queries]
    return QueryRound(tuple(queries), np.array(answers, dtype=np.int64), selection, noise)


def round_charges(proposal: Round, options: Options) -> tuple[Charge, Charge]:
    """Return what a round charges: its choice, and its measurement."""
    noise = proposal.noise
    marginal = isinstance(proposal, MarginalRound)
    if isinstance(noise, DiscreteLaplace):
        l1 = l1_sensitivity(options) if marginal else query_sensitivity(options)
        return proposal.selection.charge(), pure_charge(l1 / noise.scale)
    squared = l2_squared_sensitivity(options) if marginal else Fraction(query_sensitivity(options) ** 2)
    return proposal.selection.charge(), gaussian_charge(squared, noise.sigma)


def round_entries(
    proposal: Round, measured: RoundMeasurement, options: Options
) -> tuple[LedgerEntry, LedgerEntry]:
    """Return a round's charges with what they paid for."""
    selection, measurement = round_charges(proposal, options)
    among = (
        counted(len(proposal.scopes), "marginal")
        if isinstance(proposal, MarginalRound)
        else counted(len(proposal.queries), "question")
    )
    return (
        LedgerEntry(Event.SELECTION, f"one of {among}", selection),
        LedgerEntry(*paid_for(measured), measurement),
    )
