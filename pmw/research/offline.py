"""Offline private multiplicative weights: rounds of a private choice, a measurement and a refit.

For those who know their workload: where a session waits for questions and tests each, a release looks at
all of them in every round, and measures what the model misses most. What it returns is public: a model, its
measurements and its ledger.

Rounds are proposed, drawn and settled, as in a session. A proposal is public: what is chosen among, compared
with what, under which noise. Its draws are a function of it, the table and 32 bytes expanded in a fixed
order, in exact integers: one choice by the exponential mechanism, and one measurement. The model is rounded
to the grid before it meets a true count. What the measurement makes of the model is post-processing, and
free.

What rounds choose among, and what each may cost, is public: the candidates of a workload, and a schedule.

Source: Hardt, Ligett and McSherry (2012), MWEM, where a question is measured; McKenna, Mullins, Sheldon and
    Miklau (2022), AIM, where a whole marginal is. Departures: exact integers and noise, a filter, and a refit
    to all measurements where MWEM averages its models.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.data import CountSource, Table, as_source
from pmw.display.texts import counted
from pmw.errors import BudgetError, DataError, NoiseError, ReleaseError
from pmw.loop.fit import correct, fitted_to, model_holds
from pmw.loop.untested import draw_opening, settle_opening
from pmw.model.dense import DenseDistribution
from pmw.model.distribution import SyntheticDistribution
from pmw.model.estimate import noise_variance
from pmw.model.fitting import refit, step
from pmw.model.junction_tree import DEFAULT_MAX_CELLS
from pmw.model.measurement import MarginalMeasurement, Measurement, QueryMeasurement, half_width
from pmw.model.mirror_descent import DescentRule
from pmw.planning import opening
from pmw.planning.calibration import marginal_noise, selection_epsilon, value_noise
from pmw.planning.refusals import check_model_size, check_neighbors
from pmw.privacy.budget import Budget, Charge, Number, floor_price
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.noise import NoiseDistribution
from pmw.privacy.random_bits import BitSource, fresh_seed, person_key, repeatable_seed
from pmw.privacy.selection import ExponentialMechanism
from pmw.privacy.tail_bounds import l1_mean
from pmw.public.answer import Answer
from pmw.public.answers import Answers
from pmw.public.charges import (
    Event,
    LedgerEntry,
    charged,
    l1_sensitivity,
    marginal_charge,
    number_charge,
    opening_entries,
    query_sensitivity,
)
from pmw.public.contract import Contract, agreed
from pmw.public.export import RowPlan, draw_rows, export
from pmw.public.free_answers import ModelAnswers
from pmw.public.ledger import Ledger, ledger_of
from pmw.public.options import ModelKind, Opening, Options, TestKind, UpdateRule
from pmw.public.state import PublicState, coarse_model, paid_for, singly
from queries.domain import Domain, require_domain
from queries.errors import QueryError
from queries.factors import UNITS
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.parsing import parse_where
from queries.questions import QuestionList

if TYPE_CHECKING:
    import pandas as pd

_FINAL_REFITS = 30

# Choices of a session that a release has no use for, and what it has in their place.
_OF_SESSIONS = {
    "update_limit": "; choose rounds",
    "threshold": "",
    "learning_rate": "",
    "sparse_vector": "",
    "sides": "",
    "expected_queries": "",
    "simultaneous": "",
    "accuracy": ", and records with it",
    "prior": "",
    "expected": "",
    "minimum_count": "",
    "drafts": "",
}
MOST_CANDIDATES = 100_000
_LONGEST_SCOPE = 16  # attributes; a scope of 16 has 65,535 parts
WorkloadItem: TypeAlias = LinearQuery | Sequence[str]
# Chosen on random streams with other seeds than the benchmark's; from 2 to 16 rounds, and from a price
# that grows by half to one that grows fourfold, the errors differ by a tenth.
ROUNDS_PER_ATTRIBUTE = 4  # that the first, smallest shares would last for
_GROWTH = 2  # of a round's price, where a measurement no longer paid


class Targets(enum.Enum):
    """What each round chooses among, and measures."""

    MARGINAL = "marginal"  # the marginals of the workload's scopes, and of every part of them
    QUERY = "query"  # the workload's questions, as in the textbook


@dataclass(frozen=True, slots=True)
class OfflineOptions:
    """The custodian's choices; None leaves a choice to the release.

    Args:
        rounds: number of rounds, with equal shares of what opening leaves; None begins with small shares,
            and doubles them whenever a measurement moved the model no more than its noise would.
        selection_share: part of a round's price that pays for the choice, strictly between 0 and 1.
        final_refits: how often the model is refitted after the last round; free, each from the one before,
            and where marginals are measured ten steps of a descent.
        policy: the choices that a session has too: neighbours, records per person, opening, composition,
            confidence and seed; where questions are measured the update rule (with ``test = query``); where
            marginals of a large domain are, the kind of model and its cells; with ``early_stop`` the
            threshold. Any other is refused.
        early_stop: where questions are measured in a fixed number of rounds, end at the first error that is
            measured as small: at most the threshold, or, without one, what the noise of the measurement
            alone reaches at the stated confidence. What is left of the budget stays unspent.
    """

    targets: Targets = Targets.MARGINAL
    rounds: int | None = None
    selection_share: Fraction = Fraction(1, 5)
    final_refits: int = _FINAL_REFITS
    policy: Options = field(default_factory=Options)
    early_stop: bool = False

    @classmethod
    def textbook(
        cls, *, rounds: int, threshold: float | None = None, policy: Options | None = None
    ) -> OfflineOptions:
        """Return the textbook's offline private multiplicative weights.

        From a uniform start each round chooses the question that the model answers worst by the exponential
        mechanism, measures its error, returns the model where that is small, and otherwise makes one
        multiplicative weights step. No refit follows.

        Args:
            rounds: the most there will be, O(log|X| / alpha^2) in the lecture.
            threshold: the error that is small, in records; None for what noise alone reaches.
            policy: neighbours, records per person, composition, confidence and seed.

        Source: Kamath, Lecture 9, private multiplicative weights, steps 1 to 3; Hardt, Ligett and McSherry
            (2012), Figure 1, for the length of a step and for halves of a round's price.
        """
        chosen = replace(
            policy or Options(),
            test=TestKind.QUERY,
            update=UpdateRule.STEP,
            opening=Opening.NONE,
            threshold=threshold,
        )
        share = Fraction(1, 2)  # a stop is as good as the choice: one of a small error ends the release
        return cls(Targets.QUERY, rounds, share, final_refits=0, policy=chosen, early_stop=True)

    def __post_init__(self) -> None:
        rounds = self.rounds
        if rounds is not None and (isinstance(rounds, bool) or not 1 <= rounds <= 10**6):
            raise BudgetError(f"expected rounds from 1 to 1,000,000, got {rounds!r}")
        if isinstance(self.final_refits, bool) or not 0 <= self.final_refits <= 10**4:
            raise BudgetError(f"expected final_refits from 0 to 10,000, got {self.final_refits!r}")
        share = self.selection_share
        if not isinstance(share, Fraction) or not 0 < share < 1:
            raise BudgetError(
                f"expected a selection_share, a fraction strictly between 0 and 1, got {share!r}"
            )
        self._check_policy()

    def _check_policy(self) -> None:
        """Refuse choices that the release would not look at."""
        policy, usual = self.policy, Options()
        for name, instead in _OF_SESSIONS.items():
            if name == "threshold" and self.early_stop:
                continue
            if getattr(policy, name) != getattr(usual, name):
                raise BudgetError(
                    f"{name} is for sessions; an offline release has no use for it: leave it out{instead}"
                )
        if self.targets is Targets.MARGINAL and not policy.tests_marginals:
            raise BudgetError("test = query goes with targets = query; leave it out, or choose these targets")
        if self.early_stop and (self.targets is not Targets.QUERY or self.rounds is None):
            raise BudgetError("early_stop goes with targets = query and a number of rounds; choose both")
        if policy.update is UpdateRule.STEP and self.final_refits not in (0, _FINAL_REFITS):
            raise BudgetError("final_refits belongs to update = refit; leave it out with update = step")


def release_policy(domain: Domain, options: OfflineOptions) -> Options:
    """Return the policy of a release's contract.

    Where marginals are measured and an array over the domain would be long to fit, long attributes are
    binned, and the model is that of a session's marginal test. Otherwise opening is that of the textbook
    mode, and the model is dense on the declared cells.
    """
    policy = options.policy
    if options.targets is Targets.MARGINAL and domain.size > DEFAULT_MAX_CELLS:
        return policy
    if policy.model is ModelKind.GRAPHICAL or policy.max_cells is not None:
        name = "max_cells" if policy.max_cells is not None else "model = graphical"
        raise BudgetError(
            f"{name} belongs to marginals of a domain of more than {DEFAULT_MAX_CELLS:,} cells; this release "
            "has a dense model; leave it out"
        )
    return replace(policy, test=TestKind.QUERY)


def candidates_of(
    domain: Domain, workload: Iterable[WorkloadItem], targets: Targets
) -> tuple[tuple[tuple[str, ...], ...], tuple[LinearQuery, ...]]:
    """Return what rounds choose among: scopes, and questions, each once.

    Scopes are every part of every scope of the workload, shorter ones first; none where questions are chosen.
    Questions are those of the workload; none where it lists scopes alone.
    """
    queries: dict[bytes, LinearQuery] = {}
    wide: dict[tuple[str, ...], None] = {}
    for item in workload:
        if isinstance(item, LinearQuery):
            if item.domain != domain:
                raise QueryError("the workload was made for another domain", code="bad_request")
            queries.setdefault(item.key(), item)
            wide[item.scope] = None
        else:
            wide[domain.scope([item] if isinstance(item, str) else item)] = None
    if targets is Targets.QUERY:
        if not queries:
            raise QueryError("expected a workload of questions to choose among, got none", code="bad_request")
        if len(queries) == 1:
            raise QueryError(
                "expected a workload of at least two different questions to choose among, got one; a session "
                "measures it without paying for a choice",
                code="bad_request",
            )
        return (), tuple(queries.values())
    scopes = _parts(wide)
    if not scopes:
        raise QueryError("expected a workload that names an attribute, got none", code="bad_request")
    return tuple(sorted(scopes, key=lambda scope: (len(scope), scope))), tuple(queries.values())


def _parts(wide: Iterable[tuple[str, ...]]) -> set[tuple[str, ...]]:
    scopes: set[tuple[str, ...]] = set()
    for scope in wide:
        if len(scope) > _LONGEST_SCOPE:
            raise QueryError(
                f"expected scopes of at most {_LONGEST_SCOPE} attributes, got one of {len(scope)}",
                code="too_large",
            )
        for length in range(1, len(scope) + 1):
            scopes.update(itertools.combinations(scope, length))
        if len(scopes) > MOST_CANDIDATES:
            raise QueryError(
                f"expected a workload of at most {MOST_CANDIDATES:,} scopes with their parts",
                code="too_large",
            )
    return scopes


class RoundPrices(NamedTuple):
    """What one round may cost, in the filter's own measure; multiples of 1/RHO_GRID."""

    selection: Fraction
    measurement: Fraction


@dataclass(frozen=True, slots=True)
class Schedule:
    """Shares of the budget for the rounds to come."""

    price: Fraction  # of the next round, if it is not the last
    rounds_left: int | None  # where their number is fixed; None where precision grows
    selection_share: Fraction  # part of a round's price that pays for the choice

    def is_last(self, budget_filter: PrivacyFilter) -> bool:
        """Tell whether the next round is the last one, which takes all that is left."""
        if self.rounds_left is not None:
            return self.rounds_left == 1
        return budget_filter.remaining < 2 * self.price

    def prices(self, budget_filter: PrivacyFilter) -> RoundPrices:
        """Return the prices of the next round."""
        price = budget_filter.remaining if self.is_last(budget_filter) else self.price
        selection = floor_price(price * self.selection_share)
        return RoundPrices(selection, floor_price(price) - selection)

    def after(self, *, paid: bool) -> Schedule:
        """Return the schedule after a round: twice the price where a measurement no longer paid.

        Source: McKenna, Mullins, Sheldon and Miklau (2022), AIM, Algorithm 3 (budget annealing), where the
            price grows fourfold.
        """
        if self.rounds_left is not None:
            return replace(self, rounds_left=self.rounds_left - 1)
        return self if paid else replace(self, price=_GROWTH * self.price)


def first_schedule(budget_filter: PrivacyFilter, attributes: int, options: OfflineOptions) -> Schedule:
    """Return the schedule after opening."""
    rounds = options.rounds or ROUNDS_PER_ATTRIBUTE * attributes
    return Schedule(floor_price(budget_filter.remaining / rounds), options.rounds, options.selection_share)


# --- rounds -----------------------------------------------------------------------------------------------

RoundMeasurement: TypeAlias = MarginalMeasurement | QueryMeasurement
_LARGEST_STEP = 10.0
_LAST_STEPS = 10  # of a descent, for each final refit
_LAST_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class MarginalRound:
    """A round that measures a whole marginal.

    The choice and each cell's noise are in units of 2^-20 records.
    """

    scopes: tuple[tuple[str, ...], ...]
    model: SyntheticDistribution  # what the candidates are compared with, over the coarse domain
    selection: ExponentialMechanism
    noise: NoiseDistribution


@dataclass(frozen=True, slots=True, eq=False)
class QueryRound:
    """A round that measures the answer to one question.

    The model's answers, int64 of shape (k,), the choice and the noise are in units of 2^-20 records.
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


# --- drawn: the private side --------------------------------------------------------------------------------


class TrueAnswers:
    """The exact answers to a workload: secret, counted once for all rounds.

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
    """What a round came to: public."""

    state: PublicState
    entries: tuple[LedgerEntry, ...]
    paid: bool  # the measurement moved the model by more than its noise is wide
    small: bool = False  # the error was measured as small, which ends the release; the model stays as it was


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
    selection, measurement = round_charges(proposal, state.contract.options)
    among = (
        counted(len(proposal.scopes), "marginal")
        if isinstance(proposal, MarginalRound)
        else counted(len(proposal.queries), "question")
    )
    choice = LedgerEntry(Event.SELECTION, f"one of {among}", selection)
    entries = choice, LedgerEntry(*paid_for(measured), measurement)
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
    if state.contract.options.update is UpdateRule.REFIT:
        state = _refitted(state)
    elif error:
        rate = min(abs(error) / (2 * state.total.value), _LARGEST_STEP)
        state = replace(
            state, model=step(_dense(state), measured.query, learning_rate=rate, increase=error > 0)
        )
    return Played(state, entries, abs(error) > l1_mean(measured.noise))


def small_error(noise: NoiseDistribution, policy: Options) -> float:
    """Return the measured error at which an early stop returns the model, in records."""
    return half_width(noise, policy.confidence) if policy.threshold is None else policy.threshold


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
    """Return the model, which is dense where questions are measured, as in textbook sessions."""
    if not isinstance(state.model, DenseDistribution):
        raise BudgetError("expected a dense model")
    return state.model


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
        """Return the model's answer to a question, with an interval where measured numbers cover it; free."""
        query = question if isinstance(question, LinearQuery) else parse_where(question, self.state.domain)
        if query.domain != self.state.domain:
            raise QueryError("the query was made for another domain", code="bad_request")
        return ModelAnswers(self.state).answer(query)

    def answers(self) -> Answers:
        """Return the answers to the workload's questions, in their order; free."""
        asked = QuestionList(self.workload)
        return replace(ModelAnswers(self.state).answers(asked), asked=asked)

    def synthetic_records(
        self, rows: int | None = None, *, seed: int | None = None, independent: bool = False
    ) -> pd.DataFrame:
        """Return a synthetic table drawn from the model; free.

        Args:
            rows: number of rows; None for the released total, rounded.
            seed: repeats a drawing; None draws again.
        """
        return draw_rows(self.state, RowPlan(rows, independent, seed)).frame()

    def export(
        self, path: str | Path, plan: RowPlan | None = None, *, format: str | None = None, force: bool = False
    ) -> dict[str, Any]:
        """Write a synthetic table or the measurements, with a manifest beside it, and return that; free.

        Args:
            plan: how rows are drawn; measurements have none.
            format: csv, parquet or measurements; None goes by the file's name (.csv, .parquet).
        """
        return export(self.state, Path(path), plan, format=format, force=force)

    def __repr__(self) -> str:
        rounds = len(self.measurements)
        return f"OfflineRelease({self.state.domain.name!r}, {rounds} measurements, {self.ledger.sentence()})"


def last_measured(release: OfflineRelease) -> QueryMeasurement:
    """Return what the last round measured, with the answer of the model that it was measured against."""
    last = release.state.measured[-1] if release.state.measured else None
    if not isinstance(last, QueryMeasurement):
        raise ReleaseError("expected a release with a round that measured a question, got none")
    return last


def largest_error(release: OfflineRelease, *, beta: float = 0.05) -> float:
    """Return a bound, in records, on the errors that the last round's model made on the whole workload.

    The measured error, what its noise may hide, and what the choice may have missed: 2 Delta ln(2k/beta) /
    epsilon. With probability 1 - beta no question's error was larger. It holds for the released model where
    the last round left it as it was: after an early stop.

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
    scopes, queries = candidates_of(domain, workload, chosen.targets)
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
    of_questions = chosen.targets is Targets.QUERY
    truth = TrueAnswers(source, queries if of_questions else ())
    state, schedule = replace(opened, closed=True), first_schedule(ledger, len(domain), chosen)
    ended = False
    while not ended:
        ended = schedule.is_last(state.ledger)
        prices = schedule.prices(state.ledger)
        proposal: Round | None = (
            propose_query(state, queries, prices) if of_questions else propose_marginal(state, scopes, prices)
        )
        played = None if proposal is None else _played(state, proposal, (source, truth), bits, chosen)
        if played is not None:
            state, entries, ended = played.state, entries + played.entries, ended or played.small
        schedule = schedule.after(paid=played is not None and played.paid)
    state = finished(state, chosen)
    return OfflineRelease(state, ledger_of(budget, state.ledger, entries), queries)


def _played(
    state: PublicState,
    proposal: Round,
    true: tuple[CountSource, TrueAnswers],
    bits: BitSource,
    options: OfflineOptions,
) -> Played:
    """Return what a round came to: charged, then drawn, then settled."""
    ledger = state.ledger
    for charge in round_charges(proposal, state.contract.options):
        ledger = ledger.charge(charge)  # before anything of the round is drawn
    if isinstance(proposal, MarginalRound):
        measured: RoundMeasurement = draw_marginal(proposal, true[0], bits)
    else:
        measured = draw_query(proposal, true[1], bits)
    return settle_round(replace(state, ledger=ledger), proposal, measured, options)
