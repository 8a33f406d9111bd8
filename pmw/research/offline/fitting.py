"""Offline private multiplicative weights: rounds of a private choice, a measurement and a refit.

The session's twin for those who know their workload: where a session waits for questions and tests each, a
release looks at all of them in every round, and measures what the model misses most.

Source: Hardt, Ligett and McSherry (2012), MWEM, where a question is measured; McKenna, Mullins, Sheldon and
    Miklau (2022), AIM, where a whole marginal is. Departures: exact integers and noise, a filter, and a refit
    to all measurements where MWEM averages its models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from pmw.data import CountSource, Table, as_source
from pmw.errors import BudgetError
from pmw.loop import draw_opening, settle_opening
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
from pmw.planning.opening import check_model_size, check_neighbors, choose_filter, plan_opening
from pmw.privacy.budget import Budget, Number
from pmw.privacy.random_bits import BitSource, fresh_seed, repeatable_seed
from pmw.public.charges import LedgerEntry, opening_entries
from pmw.public.contract import Contract, Options, UpdateRule
from pmw.public.ledger import ledger_of
from pmw.public.state import PublicState
from pmw.research.offline.draws import TrueAnswers, draw_marginal, draw_query
from pmw.research.offline.options import OfflineOptions, Targets, release_policy
from pmw.research.offline.release import OfflineRelease
from pmw.research.offline.rounds import (
    Round,
    RoundMeasurement,
    expected_noise,
    propose_marginal,
    propose_query,
    round_charges,
    round_entries,
)
from pmw.research.offline.schedule import RoundPrices, Schedule, first_schedule
from pmw.research.offline.workload import Candidates, WorkloadItem, candidates_of
from queries.domain import Domain, require_domain
from queries.linear import UNITS, LinearQuery

__all__ = [
    "fit_workload",
    "small_error",
]

_LARGEST_STEP = 10.0
_LAST_STEPS = 10  # of a descent, for each final refit
_LAST_TOLERANCE = 1e-6

Entries: TypeAlias = tuple[LedgerEntry, ...]


@dataclass(frozen=True, slots=True)
class _Played:
    """What a round came to: public.

    Args:
        state: with the round's charges, and the model corrected.
        entries: what it charged.
        paid: the measurement moved the model by more than its noise is wide.
        small: the error was measured as small, which ends the release: the model is not corrected.
    """

    state: PublicState
    entries: Entries
    paid: bool
    small: bool = False


Play: TypeAlias = Callable[[PublicState, RoundPrices], _Played | None]


def fit_workload(
    data: Table,
    domain: Domain,
    workload: Iterable[WorkloadItem],
    *,
    epsilon: Number,
    delta: Number = 0,
    options: OfflineOptions | None = None,
) -> OfflineRelease:
    """Fit a model to a table for a workload that is known, and release it.

    Args:
        data: a pandas table, or a CSV or Parquet file.
        domain: the declared attributes; other columns are ignored.
        workload: queries, or scopes as sequences of attribute names.
        epsilon: of the guarantee; positive.
        delta: of the guarantee; 0 <= delta < 1.
        options: further choices.

    Raises:
        BudgetError: a parameter is out of range, or the domain is too large for the dense model that single
            questions need.
        DataError: the table cannot be read or lacks a declared column.
        QueryError: the workload is empty, too large, made for another domain, or a single question.
        ScopeError: a scope names an unknown attribute, or one twice.

    Privacy: the release is (epsilon, delta)-differentially private for the neighbours that ``options.policy``
        declares. Nothing leaves this function before all of it is charged and drawn, so a failure releases
        nothing. Noise comes from the operating system's generator, unless ``options.policy.seed`` makes it
        repeatable.
    """
    require_domain(domain)
    chosen = options or OfflineOptions()
    policy = release_policy(domain, chosen)
    budget = Budget.of(epsilon, delta)
    check_model_size(domain, policy)
    check_neighbors(domain, policy)
    candidates = candidates_of(domain, workload, chosen.targets)
    ledger = choose_filter(domain, budget, replace(policy, update_limit=chosen.rounds))
    contract = Contract(domain, budget, replace(policy, composition=ledger.composition))
    plan = plan_opening(domain, ledger, contract.options)
    entries = opening_entries(plan, contract.options)
    for entry in entries:
        ledger = ledger.charge(entry.charge)
    source = as_source(data, domain)
    bits = BitSource(fresh_seed() if policy.seed is None else repeatable_seed(policy.seed, 0))
    opened = settle_opening(contract, plan, draw_opening(plan, source, bits), ledger, ())
    if not opened.coarsening.is_identity:
        source = source.coarsened(opened.coarsening.coarse, opened.coarsening.bins)
    play = _player(chosen, candidates, source, bits)
    schedule = first_schedule(ledger, len(domain), chosen)
    state, entries = _rounds(replace(opened, closed=True), entries, play, schedule)
    state = _finished(state, chosen)
    return OfflineRelease(state, ledger_of(budget, state.ledger, entries), candidates.queries)


def _rounds(
    state: PublicState, entries: Entries, play: Play, schedule: Schedule
) -> tuple[PublicState, Entries]:
    """Return the state after all rounds, and every charge."""
    while True:
        last = schedule.is_last(state.ledger)
        played = play(state, schedule.prices(state.ledger))
        if played is not None:
            state, entries = played.state, entries + played.entries
        if last or (played is not None and played.small):
            return state, entries
        schedule = schedule.after(paid=played is not None and played.paid)


def _player(options: OfflineOptions, candidates: Candidates, source: CountSource, bits: BitSource) -> Play:
    """Return how a round is played: charged, drawn and settled; None where its price allows nothing."""
    if options.targets is Targets.QUERY:
        truth = TrueAnswers(source, candidates.queries)

        def play_query(state: PublicState, prices: RoundPrices) -> _Played | None:
            proposal = propose_query(state, candidates.queries, prices)
            if proposal is None:
                return None
            charged = _charged(state, proposal)
            return _settled(charged, proposal, draw_query(proposal, truth, bits), options)

        return play_query

    def play_marginal(state: PublicState, prices: RoundPrices) -> _Played | None:
        proposal = propose_marginal(state, candidates.scopes, prices)
        if proposal is None:
            return None
        charged = _charged(state, proposal)
        return _settled(charged, proposal, draw_marginal(proposal, source, bits), options)

    return play_marginal


def _charged(state: PublicState, proposal: Round) -> PublicState:
    """Return the state with a round charged, before anything of it is drawn.

    Raises:
        BudgetExhaustedError: the round does not fit under the cap.
    """
    ledger = state.ledger
    for charge in round_charges(proposal, state.contract.options):
        ledger = ledger.charge(charge)
    return replace(state, ledger=ledger)


def _settled(
    state: PublicState, proposal: Round, measured: RoundMeasurement, options: OfflineOptions
) -> _Played:
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
        return _Played(state, entries, moved * UNITS > before.size * expected_noise(measured.noise))
    state = replace(state, measured=(*state.measured, measured))
    error = (measured.units - measured.model_units) / UNITS
    if options.early_stop and abs(error) <= small_error(measured.noise, options.policy):
        return _Played(state, entries, paid=False, small=True)
    return _Played(
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


def _finished(state: PublicState, options: OfflineOptions) -> PublicState:
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
