"""Rounds: what is chosen among, compared with what, under which noise. Public proposals, as in a session.

What a round's measurement makes of the model stands here too. All of it is post-processing, and free.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.display.texts import counted
from pmw.errors import BudgetError, NoiseError
from pmw.loop.fit import coarse_model, correct, fitted_to, model_holds
from pmw.model import (
    DenseDistribution,
    DescentRule,
    MarginalMeasurement,
    QueryMeasurement,
    SyntheticDistribution,
    half_width,
    noise_variance,
    refit,
    step,
)
from pmw.planning.calibration import marginal_noise, selection_epsilon, value_noise
from pmw.privacy.budget import Charge, gaussian_charge, pure_charge
from pmw.privacy.noise import DiscreteLaplace, NoiseDistribution
from pmw.privacy.selection import ExponentialMechanism
from pmw.public.charges import Event, LedgerEntry, l1_sensitivity, l2_squared_sensitivity, query_sensitivity
from pmw.public.options import Options, UpdateRule
from pmw.public.state import PublicState, paid_for
from pmw.research.offline.options import OfflineOptions, RoundPrices, Targets
from queries.factors import UNITS
from queries.linear import LinearQuery

RoundMeasurement: TypeAlias = MarginalMeasurement | QueryMeasurement
_LARGEST_STEP = 10.0
_LAST_STEPS = 10  # of a descent, for each final refit
_LAST_TOLERANCE = 1e-6


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


@dataclass(frozen=True, slots=True)
class Played:
    """What a round came to: public.

    Args:
        state: with the round's charges, and the model corrected.
        entries: what it charged.
        paid: the measurement moved the model by more than its noise is wide.
        small: the error was measured as small, which ends the release: the model is not corrected.
    """

    state: PublicState
    entries: tuple[LedgerEntry, ...]
    paid: bool
    small: bool = False


def settle_round(
    state: PublicState, proposal: Round, measured: RoundMeasurement, options: OfflineOptions
) -> Played:
    """Return the state with the model corrected, or unchanged where the measured error is small.

    The measurement paid where it moved the model by more than its noise is expected to.

    Privacy: post-processing. The error that is compared is the released measurement less the model's answer,
        both public; the true error is not looked at again, and no noise is drawn. So whether a round follows
        is a function of what was released before it, on every table the same: the release is a sequence of
        mechanisms, each chosen by the outcomes of those before, each charged before it is drawn, of which
        an early end leaves the later ones out. The charges of the rounds that were played compose as in any
        release, the last round's among them, and the filter holds them under its cap.
    """
    entries = round_entries(proposal, measured, state.contract.options)
    if isinstance(measured, MarginalMeasurement):
        before = coarse_model(state).marginal(measured.scope)
        if state.contract.options.tests_marginals:
            state = correct(state, measured)
        else:
            state = fitted_to(replace(state, opening=(*state.opening, measured)))
        moved = float(np.abs(coarse_model(state).marginal(measured.scope) - before).sum())
        return Played(state, entries, moved * UNITS > before.size * expected_noise(measured.noise))
    state = replace(state, measured=(*state.measured, measured))
    error = (measured.units - measured.model_units) / UNITS
    if options.early_stop and abs(error) <= small_error(measured.noise, options.policy):
        return Played(state, entries, paid=False, small=True)
    return Played(
        _stepped(state, measured.query, error), entries, abs(error) * UNITS > expected_noise(measured.noise)
    )


def small_error(noise: NoiseDistribution, policy: Options) -> float:
    """Return the measured error at which an early stop returns the model, in records.

    Args:
        noise: of the measurement.
        policy: its threshold, or else its confidence: the noise alone stays within the result so often.
    """
    return half_width(noise, policy.confidence) if policy.threshold is None else policy.threshold


def _stepped(state: PublicState, query: LinearQuery, error: float) -> PublicState:
    """Return the state with the model corrected for the error that was measured of a question."""
    if state.contract.options.update is UpdateRule.REFIT:
        return _refitted(state)
    if not error:
        return state
    rate = min(abs(error) / (2 * state.total.value), _LARGEST_STEP)
    return replace(state, model=step(_dense(state), query, learning_rate=rate, increase=error > 0))


def finished(state: PublicState, options: OfflineOptions) -> PublicState:
    """Return the state with its model fitted further to all that was measured; post-processing, free."""
    if options.targets is Targets.MARGINAL:
        if not options.final_refits:
            return state
        return fitted_to(state, DescentRule(_LAST_STEPS * options.final_refits, _LAST_TOLERANCE))
    if state.contract.options.update is UpdateRule.REFIT:
        for _ in range(options.final_refits):
            state = _refitted(state)
    return state


def _refitted(state: PublicState) -> PublicState:
    return replace(state, model=refit(_dense(state), state.measurements))


def _dense(state: PublicState) -> DenseDistribution:
    """Return the model, which is dense where questions are measured, as in textbook sessions.

    Raises:
        BudgetError: it is not.
    """
    if not isinstance(state.model, DenseDistribution):
        raise BudgetError("expected a dense model")
    return state.model
