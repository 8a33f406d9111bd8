"""Settling: what a round's measurement makes of the model. All of it is post-processing, and free."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pmw.errors import BudgetError
from pmw.loop.fit import coarse_model, correct, fitted_to
from pmw.model import DenseDistribution, DescentRule, MarginalMeasurement, refit, step
from pmw.public.charges import LedgerEntry
from pmw.public.contract import UpdateRule
from pmw.public.state import PublicState
from pmw.research.offline.options import OfflineOptions, Targets
from pmw.research.offline.rounds import (
    Round,
    RoundMeasurement,
    expected_noise,
    round_entries,
)
from queries.linear import UNITS

__all__ = [
    "finished",
    "settle_round",
]

_LARGEST_STEP = 10.0
_LAST_STEPS = 10  # of a descent, for each final refit
_LAST_TOLERANCE = 1e-6


def settle_round(
    state: PublicState, proposal: Round, measured: RoundMeasurement
) -> tuple[PublicState, tuple[LedgerEntry, ...], bool]:
    """Return the state with the model corrected, the round's entries, and whether the measurement paid.

    It paid where it moved the model by more than its noise is expected to; post-processing.
    """
    entries = round_entries(proposal, measured, state.contract.options)
    if isinstance(measured, MarginalMeasurement):
        before = coarse_model(state).marginal(measured.scope)
        if state.contract.options.tests_marginals:
            state = correct(state, measured)
        else:
            state = fitted_to(replace(state, opening=(*state.opening, measured)))
        moved = float(np.abs(coarse_model(state).marginal(measured.scope) - before).sum())
        return state, entries, moved * UNITS > before.size * expected_noise(measured.noise)
    state = replace(state, measured=(*state.measured, measured))
    error = (measured.units - measured.model_units) / UNITS
    if state.contract.options.update is UpdateRule.REFIT:
        state = _refitted(state)
    elif error:
        rate = min(abs(error) / (2 * state.total.value), _LARGEST_STEP)
        model = step(_dense(state), measured.query, learning_rate=rate, increase=error > 0)
        state = replace(state, model=model)
    return state, entries, abs(error) * UNITS > expected_noise(measured.noise)


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
