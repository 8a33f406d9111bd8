"""Rounds: proposed, drawn and settled, as in a session.

A proposal is public: what is chosen among, compared with what, under which noise. Its draws are a function of
it, the table and 32 bytes expanded in a fixed order, in exact integers: one choice by the exponential
mechanism, and one measurement. The model is rounded to the grid before it meets a true count. What the
measurement makes of the model is post-processing, and free.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.data import CountSource
from pmw.display.texts import counted
from pmw.errors import BudgetError, DataError, NoiseError
from pmw.loop.fit import correct, fitted_to, model_holds
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
from pmw.privacy.budget import Charge
from pmw.privacy.noise import NoiseDistribution
from pmw.privacy.random_bits import BitSource
from pmw.privacy.selection import ExponentialMechanism
from pmw.privacy.tail_bounds import l1_mean
from pmw.public.charges import (
    Event,
    LedgerEntry,
    l1_sensitivity,
    marginal_charge,
    number_charge,
    query_sensitivity,
)
from pmw.public.options import Options, UpdateRule
from pmw.public.state import PublicState, coarse_model, paid_for, singly
from pmw.research.offline.options import OfflineOptions, RoundPrices, Targets
from queries.factors import UNITS
from queries.frozen import dataclass
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
    most_cells = 2 * state.total.value / l1_mean(noise)
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
    charge = marginal_charge if isinstance(proposal, MarginalRound) else number_charge
    return proposal.selection.charge(), charge(proposal.noise, options)


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


# --- drawn: the private side --------------------------------------------------------------------------------


class TrueAnswers:
    """The exact answers to a workload: secret, counted once for all rounds.

    Args:
        source: the table.
        queries: the workload.

    Privacy: holds true data. Its ``repr`` shows nothing, and it cannot be copied or pickled.
    """

    __slots__ = ("_units",)

    def __init__(self, source: CountSource, queries: tuple[LinearQuery, ...]) -> None:
        self._units = np.array(
            [query.answer(source.counts(query.scope)) for query in queries], dtype=np.int64
        )

    @property
    def units(self) -> NDArray[np.int64]:
        """Exact and secret: int64, shape (k,), units of 2^-20 records."""
        return self._units

    def __repr__(self) -> str:
        return "TrueAnswers(not shown)"

    def __reduce__(self) -> tuple[object, ...]:
        raise DataError("true answers cannot be copied or pickled")


def draw_marginal(proposal: MarginalRound, source: CountSource, bits: BitSource) -> MarginalMeasurement:
    """Return the measurement of a marginal that the model misses by much.

    The quality of a candidate is the L1 distance of its true counts from the model's, less the L1 noise that
    measuring it would bring; both in units.

    Privacy: one choice, whose qualities a person moves by at most ``l1_sensitivity`` (a record changes one
        cell, under replace-one two, and what is subtracted is public), and one marginal with fresh noise.

    Source: McKenna, Mullins, Sheldon and Miklau (2022), AIM, equation 1, with equal weights.
    """
    each = l1_mean(proposal.noise) * UNITS
    qualities = []
    for scope in proposal.scopes:
        counts = source.counts(scope).counts
        model = np.rint(proposal.model.marginal(scope) * UNITS).astype(np.int64)
        distance = int(np.abs(counts * UNITS - model).sum())
        qualities.append(distance - math.ceil(each * counts.size))
    scope = proposal.scopes[proposal.selection.select(np.array(qualities, dtype=np.int64), bits)]
    counts = source.counts(scope).counts
    units = counts * UNITS + proposal.noise.sample_array(bits, counts.size).reshape(counts.shape)
    return MarginalMeasurement(scope, units, proposal.noise)


def draw_query(proposal: QueryRound, truth: TrueAnswers, bits: BitSource) -> QueryMeasurement:
    """Return the measurement of a question that the model answers badly.

    Privacy: one choice, whose qualities |q(D) - q(A)| a person moves by at most ``query_sensitivity``, and
        one answer with fresh noise.

    Source: Hardt, Ligett and McSherry (2012), MWEM, Figure 1.
    """
    place = proposal.selection.select(np.abs(truth.units - proposal.model_units), bits)
    units = int(truth.units[place]) + proposal.noise.sample(bits)
    model_units = int(proposal.model_units[place])
    return QueryMeasurement(proposal.queries[place], units, proposal.noise, model_units)


# --- settled: post-processing, and free ---------------------------------------------------------------------


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
        return Played(state, entries, moved > before.size * l1_mean(measured.noise))
    state = replace(state, measured=(*state.measured, measured))
    error = (measured.units - measured.model_units) / UNITS
    if options.early_stop and abs(error) <= small_error(measured.noise, options.policy):
        return Played(state, entries, paid=False, small=True)
    return Played(_stepped(state, measured.query, error), entries, abs(error) > l1_mean(measured.noise))


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
    return replace(state, model=refit(_dense(state), list(singly(state.measurements))))


def _dense(state: PublicState) -> DenseDistribution:
    """Return the model, which is dense where questions are measured, as in textbook sessions.

    Raises:
        BudgetError: it is not.
    """
    if not isinstance(state.model, DenseDistribution):
        raise BudgetError("expected a dense model")
    return state.model
