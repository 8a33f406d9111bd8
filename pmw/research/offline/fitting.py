"""Offline private multiplicative weights: rounds of a private choice, a measurement and a refit.

For those who know their workload: where a session waits for questions and tests each, a
release looks at all of them in every round, and measures what the model misses most.

Source: Hardt, Ligett and McSherry (2012), MWEM, where a question is measured; McKenna, Mullins, Sheldon and
    Miklau (2022), AIM, where a whole marginal is. Departures: exact integers and noise, a filter, and a refit
    to all measurements where MWEM averages its models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeAlias

from pmw.data import CountSource, Table, as_source
from pmw.loop import draw_opening, settle_opening
from pmw.planning import opening
from pmw.privacy.budget import Budget, Number
from pmw.privacy.random_bits import BitSource, fresh_seed, person_key, repeatable_seed
from pmw.public.charges import LedgerEntry, opening_entries
from pmw.public.contract import Contract, agreed
from pmw.public.ledger import ledger_of
from pmw.public.state import PublicState
from pmw.research.offline.draws import TrueAnswers, draw_marginal, draw_query
from pmw.research.offline.options import OfflineOptions, Targets, release_policy
from pmw.research.offline.release import OfflineRelease
from pmw.research.offline.rounds import (
    Round,
    propose_marginal,
    propose_query,
    round_charges,
)
from pmw.research.offline.schedule import RoundPrices, Schedule, first_schedule
from pmw.research.offline.settling import Played, finished, settle_round
from pmw.research.offline.workload import Candidates, WorkloadItem, candidates_of
from queries.domain import Domain, require_domain

Entries: TypeAlias = tuple[LedgerEntry, ...]


Play: TypeAlias = Callable[[PublicState, RoundPrices], Played | None]


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
    domain, policy = agreed(domain, release_policy(domain, chosen))
    budget = Budget.of(epsilon, delta)
    opening.check_model_size(domain, policy)
    opening.check_neighbors(domain, policy)
    candidates = candidates_of(domain, workload, chosen.targets)
    planned = replace(policy, update_limit=chosen.rounds)
    ledger = opening.choose_filter(domain, budget, planned, selects=True)
    contract = Contract(domain, budget, replace(policy, composition=ledger.composition))
    plan = opening.plan_opening(domain, ledger, contract.options)
    entries = opening_entries(plan, contract.options)
    for entry in entries:
        ledger = ledger.charge(entry.charge)
    source = as_source(data, domain, None if domain.person is None else person_key(policy.seed))
    bits = BitSource(fresh_seed() if policy.seed is None else repeatable_seed(policy.seed, 0))
    opened = settle_opening(contract, plan, draw_opening(plan, source, bits), ledger, ())
    if not opened.coarsening.is_identity:
        source = source.coarsened(opened.coarsening.coarse, opened.coarsening.bins)
    play = _player(chosen, candidates, source, bits)
    schedule = first_schedule(ledger, len(domain), chosen)
    state, entries = _rounds(replace(opened, closed=True), entries, play, schedule)
    state = finished(state, chosen)
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

        def play_query(state: PublicState, prices: RoundPrices) -> Played | None:
            proposal = propose_query(state, candidates.queries, prices)
            if proposal is None:
                return None
            charged = _charged(state, proposal)
            return settle_round(charged, proposal, draw_query(proposal, truth, bits), options)

        return play_query

    def play_marginal(state: PublicState, prices: RoundPrices) -> Played | None:
        proposal = propose_marginal(state, candidates.scopes, prices)
        if proposal is None:
            return None
        charged = _charged(state, proposal)
        return settle_round(charged, proposal, draw_marginal(proposal, source, bits), options)

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
