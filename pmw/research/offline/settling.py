"""Settling: what a round's measurement makes of the model. All of it is post-processing, and free."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pmw.errors import BudgetError
from pmw.loop.fit import coarse_model, correct, fitted_to
from pmw.model import (
    DenseDistribution,
    DescentRule,
    MarginalMeasurement,
    NoiseDistribution,
    half_width,
    refit,
    step,
)
from pmw.public.charges import LedgerEntry
from pmw.public.contract import Options, UpdateRule
from pmw.public.state import PublicState
from pmw.research.offline.options import OfflineOptions, Targets
from pmw.research.offline.rounds import (
    Round,
    RoundMeasurement,
    expected_noise,
    round_entries,
)
from queries.factors import UNITS
from queries.linear import LinearQuery

_LARGEST_STEP = 10.0
_LAST_STEPS = 10  # of a descent, for each final refit
_LAST_TOLERANCE = 1e-6


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
