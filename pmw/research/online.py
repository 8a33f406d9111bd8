"""Online private multiplicative weights on a histogram, of the parts that sessions run.

    answer(q):
      e = q(D) - q(A)                    an integer, in units of 2^-20 records
      if the sparse vector finds e small: return q(A)
      y = q(A) + e + fresh noise;  A = update(A, q, y);  return y

One record changes q(D) by at most one record, for weights lie in [0, 1]: so the sensitivity of e is 2^20
units, times the records of a person, under either relation. Under add/remove all errors of one sign move the
same way, under replace-one they do not: there a sparse vector with the monotone price is refused.

Everything is charged to a privacy filter before its noise is drawn: the number of records at opening (under
replace-one it is public), then for each test what it can cost at most. What a test did not cost is given
back once its outcome is known to be negative.

Source: Hardt and Rothblum (2010); Dwork and Roth (2014), Section 4.2, Algorithm 6, with c positives, not
    c + 1; its tests and their price by docs/proofs/above-threshold.md.
"""

from __future__ import annotations

import math
import os
import threading
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmw.data import CountSource
from pmw.errors import BudgetError, SessionError
from pmw.loop.untested import draw_opening, settle_opening
from pmw.model.dense import DenseDistribution
from pmw.model.distribution import MarginalTerm
from pmw.planning.opening import choose_filter, plan_opening
from pmw.planning.refusals import check_neighbors
from pmw.planning.tiers import plan_query_test
from pmw.privacy.budget import NOTHING, Budget, Charge, Composition, Number
from pmw.privacy.random_bits import BitSource, repeatable_seed
from pmw.public.answer import Source
from pmw.public.charges import charged, opening_entries, query_sensitivity
from pmw.public.contract import Contract, agreed
from pmw.public.options import Opening, Options, TestKind
from pmw.public.options import UpdateRule as StepOrRefit
from pmw.public.state import PublicState
from pmw.research.histograms import Counts, Question, counted, query_of
from queries.domain import Domain
from queries.factors import UNITS
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.plain_values import type_name

State = TypeVar("State")


class SparseVector(Protocol[State]):
    """Tests whether an error is large, and measures it where it is; ``NumericSparse`` is one.

    Values are signed errors, q(D) - q(A), integers in units of 2^-20 records. What it says of itself is what
    it is charged for: ``pmw.research.audit.audit_sparse_vector`` holds the two against each other.

    Privacy: for neighbours whose values differ by at most ``sensitivity`` each, and in one direction where it
        is ``monotone``, a run of any number of tests that are chosen by what came before, with at most
        ``update_limit`` positives, costs at most the sum of ``charges``: the first whenever threshold noise
        is drawn, the second for each positive with its value.
    """

    @property
    def sensitivity(self) -> int:
        """The most that a value may differ between neighbours, in units of 2^-20 records."""

    @property
    def monotone(self) -> bool:
        """Its price holds only where all values move the same way between neighbours."""

    @property
    def update_limit(self) -> int:
        """c, the number of positives; the loop tests nothing after them."""

    @property
    def redraw(self) -> bool:
        """New threshold noise is drawn after each positive, and charged again."""

    def charges(self, composition: Composition) -> tuple[Charge, Charge]:
        """Return what is charged before threshold noise is drawn, and for each positive with its value."""

    def open(self, bits: BitSource) -> State:
        """Return the secret state before the first test."""

    def step(
        self, state: State, value: int, threshold: int, bits: BitSource
    ) -> tuple[State, int, int | None]:
        """Test one value.

        Args:
            value: the error, in units; secret.
            threshold: T, in units; public.
            bits: the only source of noise.

        Returns:
            The next state; 0 where the error is not large, else another number; and the value with fresh
            noise, in units, where it is large, else None.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Correction:
    """What an update is told: all of it public.

    Args:
        cells: float64, the histogram's shape, the model's records per cell; read-only.
        weights: float64, the same shape, of the question, in [0, 1]; read-only.
        estimate: the model's answer, in records.
        measured: the noisy answer, in records.
        total: the number of records that the model spreads.
    """

    cells: NDArray[np.float64]
    weights: NDArray[np.float64]
    estimate: float
    measured: float
    total: float
    updates: int


class UpdateRule(Protocol):
    """How the model is corrected: a function, or an object that is called like one.

    Privacy: it is told released numbers alone, so whatever it does is post-processing, and free.
    """

    def __call__(self, correction: Correction, /) -> ArrayLike:
        """Return the exponents: each cell is multiplied by e to its exponent, and the model normalised.

        Every positive distribution can be written so: the logarithm of its ratio to ``correction.cells``.

        Returns:
            Finite numbers, an array of the histogram's shape.
        """


@dataclass(frozen=True, slots=True)
class MultiplicativeWeights:
    """The textbook's update: A(x) becomes A(x) exp(+-eta q(x)), up where the measured answer is higher.

    Source: Dwork and Roth (2014), Algorithm 5, as ``pmw.model.fitting.step``.
    """

    learning_rate: float

    def __post_init__(self) -> None:
        if not 0 < self.learning_rate < math.inf:
            raise BudgetError(f"expected a positive learning rate, got {self.learning_rate}")

    def __call__(self, correction: Correction, /) -> NDArray[np.float64]:
        """Return the exponents: float64, the histogram's shape."""
        up = correction.measured > correction.estimate
        exponents: NDArray[np.float64] = correction.weights * (
            self.learning_rate if up else -self.learning_rate
        )
        return exponents


# --- the loop ---------------------------------------------------------------------------------------------

_OF_SESSIONS = ("accuracy", "records", "prior", "expected", "drafts", "simultaneous", "person_column")


@dataclass(frozen=True, slots=True)
class OnlineAnswer:
    """An answer.

    Args:
        count: records; for weights that are fractions, their weighted sum.
        source: ``MEASURED`` where the model was wrong and noise was drawn, ``SYNTHETIC`` where it was tested
            and not found wrong, ``EXHAUSTED`` where nothing could be tested any more.
    """

    count: float
    source: Source


class PrivateMultiplicativeWeights:
    """Answers counting queries on a histogram, privately; it holds its state, and changes in place.

    It lives in memory: a table that is asked for longer than a program runs belongs into a session, which
    survives a crash. Opening it again spends another budget.

    Args:
        histogram: records per cell, whole and at least 0: an array or nested lists; or a ``Histogram``, or a
            table that ``source_of`` read.
        delta: of the guarantee; 0 <= delta < 1.
        sparse_vector: the tests, in units of 2^-20 records; None plans what a session would take.
        update: how the model is corrected; None for multiplicative weights, at the rate that a session takes.
        threshold: T, how far the model may be off, in records; None plans it for the planned tests.
        options: neighbours, records per person, update limit, composition, expected queries, seed, and the
            kind of the planned tests, as for ``open_session``.

    Attributes:
        model: the distribution, expected records per cell; public.
        total: the number of records, as it was released; public.

    Privacy: all answers together are (epsilon, delta)-differentially private for the neighbours that
        ``options`` declares, for questions that may depend on all answers before; given that the sparse
        vector keeps what it claims. Noise comes from the operating system, unless ``options.seed`` makes it
        repeatable.

    Source: see the module.
    """

    def __init__(  # noqa: PLR0913 - each is a choice of its own
        self,
        histogram: Counts,
        epsilon: Number,
        delta: Number = 0,
        *,
        sparse_vector: SparseVector[State] | None = None,
        update: UpdateRule | None = None,
        threshold: float | None = None,
        options: Options | None = None,
    ) -> None:
        chosen = _chosen(options or Options(), sparse_vector is not None, update is not None, threshold)
        source = counted(histogram)
        _, chosen = agreed(source.domain, chosen)  # so many records of a person as the table keeps
        if isinstance(histogram, CountSource):
            check_neighbors(source.domain, chosen)  # from an array no record was dropped
        bits = BitSource(None if chosen.seed is None else repeatable_seed(chosen.seed, 0))
        state = _opened(source, Budget.of(epsilon, delta), chosen, bits)
        self.total: float = state.total.value
        self._ledger = state.ledger
        policy = state.contract.options
        if sparse_vector is None:
            plan = plan_query_test(source.domain, self._ledger, self.total, policy)
            if plan is None:
                raise BudgetError("expected a budget that holds a test, got a smaller one")
            self._run: _Run[Any] = _Run(plan.vector, self._ledger.composition)
            self._threshold, rate = plan.threshold, plan.learning_rate
        else:
            _require_fit(sparse_vector, policy)
            self._run = _Run(sparse_vector, self._ledger.composition)
            self._threshold = math.ceil((policy.threshold or 0) * UNITS)
            rate = policy.learning_rate or min(4 * self._threshold / UNITS / self.total, 10.0)
        if not self._is_affordable():
            raise BudgetError("expected a sparse vector whose first test fits the budget, got a dearer one")
        self._update = MultiplicativeWeights(rate) if update is None else update
        self.model = DenseDistribution.uniform(source.domain, self.total)
        self._exponents = np.zeros(source.domain.shape)
        self._source, self._bits = source, bits
        self._turn, self._process = threading.Lock(), os.getpid()

    @property
    def domain(self) -> Domain:
        """The histogram's attributes; of an array x0, x1 and so on."""
        return self.model.domain

    @property
    def positives(self) -> int:
        """How many questions were measured."""
        return self._run.positives

    @property
    def spent(self) -> float:
        """The part of the budget that was charged, in [0, 1]."""
        return self._ledger.share

    def answer(self, question: Question) -> OnlineAnswer:
        """Answer a question: by the model, or by a noisy count where the model was found wrong.

        Args:
            question: weights in [0, 1], an array of the histogram's shape or nested lists, rounded to
                multiples of 2^-20; a condition in words, such as ``x0 < 3``; or a ``LinearQuery``.

        Privacy: charged before anything is drawn. Whether a question is tested, and whether this fails before
            a test, depends on questions and released numbers alone.
        """
        if os.getpid() != self._process:
            raise SessionError("a loop lives in the process that opened it: a copy would draw the same noise")
        query = query_of(question, self.domain)
        with self._turn:
            units = round(self.model.answer(query) * UNITS)
            if not self._is_affordable():
                return OnlineAnswer(units / UNITS, Source.EXHAUSTED)
            released = self._tested(query, units)
            if released is None:
                return OnlineAnswer(units / UNITS, Source.SYNTHETIC)
            count = (units + released) / UNITS
            self._correct(query, units / UNITS, count)
            return OnlineAnswer(count, Source.MEASURED)

    def _is_affordable(self) -> bool:
        """Tell whether one more test may run, with its positive: a function of public numbers."""
        opening, positive = self._run.charges()
        return not self._run.is_over and self._ledger.allows(opening + positive)

    def _tested(self, query: LinearQuery, units: int) -> int | None:
        """Return the noisy error of the model's answer, in units, or None where it is not found large."""
        opening, positive = self._run.charges()
        opened = self._ledger.charge(opening)
        self._ledger = opened.charge(positive)  # all that the test may cost, before any of its noise
        value = query.answer(self._source.counts(query.scope)) - units
        released = self._run.test(value, self._threshold, self._bits)
        if released is None:
            self._ledger = opened  # a negative costs nothing
        return released

    def _correct(self, query: LinearQuery, estimate: float, measured: float) -> None:
        """Correct the model for a measured answer; post-processing, and free."""
        scoped = [attribute.size if attribute.name in query.scope else 1 for attribute in self.domain]
        weights = np.broadcast_to(query.weights().reshape(scoped) / UNITS, self.domain.shape)
        given = self._update(
            Correction(self.model.values, weights, estimate, measured, self.total, self.positives - 1)
        )
        exponents = self._exponents + _checked_exponents(given, self.domain.shape)
        if not np.isfinite(exponents).all():
            raise BudgetError("expected exponents whose sum is finite, got larger ones")
        terms = (MarginalTerm(self.domain.names, exponents),)
        self._exponents = exponents
        self.model = DenseDistribution.of_terms(self.domain, self.total, terms)

    def __repr__(self) -> str:
        return (
            f"PrivateMultiplicativeWeights({self.domain.name!r}, {self.positives} of "
            f"{self._run.update_limit} positives, {self.spent:.0%} of the budget)"
        )

    def __reduce__(self) -> tuple[object, ...]:
        raise SessionError("a loop over a sensitive histogram cannot be copied or pickled")


class _Run(Generic[State]):
    """A sparse vector in use: its secret state, and what its next test may charge."""

    def __init__(self, vector: SparseVector[State], composition: Composition) -> None:
        self._vector = vector
        self._opening, self._positive = vector.charges(composition)
        self._state: State | None = None
        self._is_open = False  # the threshold noise of the round was charged and drawn
        self._has_failed = False
        self.update_limit = vector.update_limit
        self.positives = 0

    @property
    def is_over(self) -> bool:
        """All positives were used."""
        return self.positives >= self.update_limit

    def charges(self) -> tuple[Charge, Charge]:
        """Return what the next test charges for threshold noise, where it draws some, and for a positive."""
        if self._has_failed:
            raise SessionError("the sparse vector failed in a test, so nothing is tested any more")
        return NOTHING if self._is_open else self._opening, self._positive

    def test(self, value: int, threshold: int, bits: BitSource) -> int | None:
        """Return the value with fresh noise where it is found large, or None; both are charged for."""
        self._has_failed = True
        try:
            if self._state is None:
                self._state = self._vector.open(bits)
            self._state, outcome, released = self._vector.step(self._state, value, threshold, bits)
            released = None if not outcome or released is None else int(released)
        except Exception as error:  # noqa: BLE001 - whatever a user's own class raises
            raise SessionError(
                f"the sparse vector failed in a test ({type_name(error)}); open the loop again with one that "
                "does not"
            ) from None
        if bool(outcome) != (released is not None):
            raise SessionError("expected a value with each positive of the sparse vector, got none")
        self._has_failed = False
        self.positives += bool(outcome)
        self._is_open = not (outcome and self._vector.redraw)
        return released


def _chosen(options: Options, own_tests: bool, own_update: bool, threshold: float | None) -> Options:
    """Return the options of the loop, once all that is given is found to be of use."""
    usual = Options()
    for name in _OF_SESSIONS:
        if getattr(options, name) != getattr(usual, name):
            raise BudgetError(f"{name} is for sessions; the loop on a histogram has no use for it")
    if threshold is not None and options.threshold is not None:
        raise BudgetError("expected one threshold, got it twice: leave it out of the options")
    options = replace(
        options,
        test=TestKind.QUERY,
        opening=Opening.NONE,
        update=StepOrRefit.STEP,
        threshold=options.threshold if threshold is None else threshold,
    )
    if own_update and options.learning_rate is not None:
        raise BudgetError("learning_rate is for multiplicative weights; an update of your own has its own")
    if own_tests and options.threshold is None:
        raise BudgetError("expected a threshold in records beside a sparse vector of your own, got none")
    if own_tests and (options.update_limit, options.sparse_vector, options.sides) != (None, None, None):
        raise BudgetError(
            "update_limit, sparse_vector and sides of the options plan tests; a sparse vector of your own "
            "has its own"
        )
    return options


def _require_fit(vector: SparseVector[State], options: Options) -> None:
    """Refuse a sparse vector whose price does not hold for what it is to test."""
    needed = query_sensitivity(options)
    if vector.sensitivity < needed:
        raise BudgetError(
            f"expected a sparse vector of a sensitivity of at least {needed:,} units, by which one person "
            f"changes an answer, got {vector.sensitivity:,}; a record has {UNITS:,} units"
        )
    if vector.monotone and not options.signs_agree:
        raise BudgetError(
            "under replace-one errors move both ways, so a sparse vector at the monotone price is not private"
        )
    if vector.update_limit < 1:
        raise BudgetError(f"expected at least one positive, got an update limit of {vector.update_limit}")


def _opened(source: CountSource, budget: Budget, options: Options, bits: BitSource) -> PublicState:
    """Return the state after the number of records was released, as a session without an opening has it."""
    ledger = choose_filter(source.domain, budget, options)
    contract = Contract(source.domain, budget, replace(options, composition=ledger.composition))
    plan = plan_opening(source.domain, ledger, contract.options)
    ledger = charged(ledger, opening_entries(plan, contract.options))
    return settle_opening(contract, plan, draw_opening(plan, source, bits), ledger, ())


def _checked_exponents(given: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the exponents of an update as an array of their own: float64."""
    try:
        exponents = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise BudgetError(
            f"expected exponents in an array, got a {type_name(given)} from the update"
        ) from None
    if exponents.shape != shape:
        raise BudgetError(
            f"expected exponents of shape {shape}, one for each cell, got {exponents.shape} from the update"
        )
    if not np.isfinite(exponents).all():
        raise BudgetError("expected finite exponents, got others from the update")
    return exponents
