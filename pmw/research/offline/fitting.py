"""Offline private multiplicative weights: rounds of a private choice, a measurement and a refit.

For those who know their workload: where a session waits for questions and tests each, a release looks at
all of them in every round, and measures what the model misses most. What it returns is public: a model, its
measurements and its ledger.

Source: Hardt, Ligett and McSherry (2012), MWEM, where a question is measured; McKenna, Mullins, Sheldon and
    Miklau (2022), AIM, where a whole marginal is. Departures: exact integers and noise, a filter, and a refit
    to all measurements where MWEM averages its models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from pmw.data import CountSource, Table, as_source
from pmw.errors import ReleaseError
from pmw.loop import draw_opening, settle_opening
from pmw.model import Measurement, QueryMeasurement, SyntheticDistribution, half_width
from pmw.planning import opening
from pmw.planning.refusals import check_model_size, check_neighbors
from pmw.privacy.budget import Budget, Number
from pmw.privacy.random_bits import BitSource, fresh_seed, person_key, repeatable_seed
from pmw.public.answer import Answer
from pmw.public.answers import Answers
from pmw.public.charges import Event, LedgerEntry, charged, opening_entries, query_sensitivity
from pmw.public.contract import Contract, agreed
from pmw.public.export import RowPlan, export, synthetic_frame
from pmw.public.free_answers import ModelAnswers
from pmw.public.ledger import Ledger, ledger_of
from pmw.public.state import PublicState
from pmw.research.offline.options import (
    Candidates,
    OfflineOptions,
    RoundPrices,
    Schedule,
    Targets,
    WorkloadItem,
    candidates_of,
    first_schedule,
    release_policy,
)
from pmw.research.offline.rounds import (
    Played,
    Round,
    RoundMeasurement,
    TrueAnswers,
    draw_marginal,
    draw_query,
    finished,
    propose_marginal,
    propose_query,
    round_charges,
    settle_round,
)
from queries.domain import Domain, require_domain
from queries.errors import QueryError
from queries.factors import UNITS
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.parsing import parse_where
from queries.questions import QuestionList

if TYPE_CHECKING:
    import pandas as pd

Entries: TypeAlias = tuple[LedgerEntry, ...]
Play: TypeAlias = Callable[[PublicState, RoundPrices], Played | None]
_Proposal = TypeVar("_Proposal", bound=Round)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OfflineRelease:
    """What ``fit_workload`` releases.

    Args:
        state: everything released, in the form of a session that is closed.
        ledger: every charge, in order.
        workload: the questions that it was made for, each once; empty where scopes were given.
    """

    state: PublicState
    ledger: Ledger
    workload: tuple[LinearQuery, ...]

    @property
    def model(self) -> SyntheticDistribution:
        """The synthetic distribution."""
        return self.state.model

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """Every released number but the total, in order: opening first."""
        return self.state.measurements

    def answer(self, question: str | Mapping[str, Any] | LinearQuery) -> Answer:
        """Return the model's answer to a question, with an interval where measured numbers cover it; free.

        Raises:
            QueryError: the question is refused, or was made for another domain.
        """
        query = question if isinstance(question, LinearQuery) else parse_where(question, self.state.domain)
        if query.domain != self.state.domain:
            raise QueryError("the query was made for another domain", code="bad_request")
        return ModelAnswers(self.state).answer(query)

    def answers(self) -> Answers:
        """Return the answers to the workload's questions, in their order; free."""
        asked = QuestionList(self.workload)
        return Answers.of(self.state, list(map(ModelAnswers(self.state).answer, self.workload)), asked)

    def synthetic_records(
        self, rows: int | None = None, *, seed: int | None = None, independent: bool = False
    ) -> pd.DataFrame:
        """Return a synthetic table drawn from the model; free.

        Args:
            rows: number of rows; None for the released total, rounded.
            seed: repeats a drawing; None draws again.
            independent: independent draws instead of systematic rounding.

        Raises:
            ReleaseError: the number of rows is out of range.
        """
        return synthetic_frame(self.state, RowPlan(rows, independent, seed))

    def export(
        self,
        path: str | Path,
        plan: RowPlan | None = None,
        *,
        format: str | None = None,
        force: bool = False,
    ) -> dict[str, Any]:
        """Write a synthetic table or the measurements, with a manifest beside it, and return that; free.

        Args:
            path: the file to write.
            plan: how rows are drawn; measurements have none.
            format: csv, parquet or measurements; None goes by the file's name (.csv, .parquet).
            force: overwrite existing files.

        Raises:
            ReleaseError: the format is unknown or has no rows to plan, a file exists and ``force`` is not
                given, or a file cannot be written.
        """
        return export(self.state, Path(path), plan, format=format, force=force)

    def __repr__(self) -> str:
        rounds = len(self.measurements)
        return f"OfflineRelease({self.state.domain.name!r}, {rounds} measurements, {self.ledger.sentence()})"


def last_measured(release: OfflineRelease) -> QueryMeasurement:
    """Return what the last round measured, with the answer of the model that it was measured against.

    Raises:
        ReleaseError: there was no round, or marginals were measured.
    """
    last = release.state.measured[-1] if release.state.measured else None
    if not isinstance(last, QueryMeasurement):
        raise ReleaseError("expected a release with a round that measured a question, got none")
    return last


def largest_error(release: OfflineRelease, *, beta: float = 0.05) -> float:
    """Return a bound, in records, on the errors that the last round's model made on the whole workload.

    The measured error, what its noise may hide, and what the choice may have missed: 2 Delta ln(2k/beta) /
    epsilon. With probability 1 - beta no question's error was larger. It holds for the released model where
    the last round left it as it was: after an early stop.

    Args:
        release: one of questions, with at least one round.
        beta: failure probability, half of it for each of the two.

    Raises:
        ReleaseError: there was no round, or marginals were measured.

    Privacy: post-processing of the last measurement and of the public prices.

    Source: Dwork and Roth (2014), Corollary 3.12, for the choice.
    """
    last, options = last_measured(release), release.state.contract.options
    chosen = [line.epsilon for line in release.ledger.lines if line.event == Event.SELECTION]
    missed = (
        2 * query_sensitivity(options) * math.log(2 * len(release.workload) / beta) / float(chosen[-1] or 0)
    )
    noise = half_width(last.noise, 1 - beta / 2)
    return (abs(last.units - last.model_units) + missed) / UNITS + noise


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
    check_model_size(domain, policy)
    check_neighbors(domain, policy)
    candidates = candidates_of(domain, workload, chosen.targets)
    planned = replace(policy, update_limit=chosen.rounds)
    ledger = opening.choose_filter(domain, budget, planned, selects=True)
    contract = Contract(domain, budget, replace(policy, composition=ledger.composition))
    plan = opening.plan_opening(domain, ledger, contract.options)
    entries = opening_entries(plan, contract.options)
    ledger = charged(ledger, entries)
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
        queries = candidates.queries
        truth = TrueAnswers(source, queries)
        return _playing(
            options,
            lambda state, prices: propose_query(state, queries, prices),
            lambda proposal: draw_query(proposal, truth, bits),
        )
    return _playing(
        options,
        lambda state, prices: propose_marginal(state, candidates.scopes, prices),
        lambda proposal: draw_marginal(proposal, source, bits),
    )


def _playing(
    options: OfflineOptions,
    propose: Callable[[PublicState, RoundPrices], _Proposal | None],
    draw: Callable[[_Proposal], RoundMeasurement],
) -> Play:
    def play(state: PublicState, prices: RoundPrices) -> Played | None:
        proposal = propose(state, prices)
        if proposal is None:
            return None
        paid = _charged(state, proposal)
        return settle_round(paid, proposal, draw(proposal), options)

    return play


def _charged(state: PublicState, proposal: Round) -> PublicState:
    """Return the state with a round charged, before anything of it is drawn.

    Raises:
        BudgetExhaustedError: the round does not fit under the cap.
    """
    ledger = state.ledger
    for charge in round_charges(proposal, state.contract.options):
        ledger = ledger.charge(charge)
    return replace(state, ledger=ledger)
