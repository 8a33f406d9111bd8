"""Options of a session, with what drafts of its schema were charged, and what is expected to be asked."""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, TypeAlias, cast

from pmw.errors import BudgetError
from pmw.privacy.budget import Budget, Composition, NeighboringRelation, as_fraction
from pmw.public.prior import Prior
from pmw.sparse_vector.noisy_comparison import Sides
from pmw.sparse_vector.sparse import SparseVectorKind
from queries.domain import Domain
from queries.frozen import dataclass
from queries.plain_values import shown_text


@dataclass(frozen=True, slots=True)
class DraftCharge:
    """What one draft was charged.

    Args:
        records_per_person: the most records of one person, K.
        person_column: the column of ids by which K is kept; None where K is promised.
        epsilon, delta: the guarantee of this draft alone.
    """

    what: str
    neighboring_relation: NeighboringRelation
    records_per_person: int
    person_column: str | None
    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON."""
        return {
            "what": self.what,
            "neighbors": self.neighboring_relation.value,
            "records_per_person": self.records_per_person,
            "person_column": self.person_column,
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
        }

    def __post_init__(self) -> None:
        if self.epsilon <= 0 or not 0 <= self.delta < 1 or self.records_per_person < 1:
            raise BudgetError(
                "expected a draft with an epsilon above 0, a delta in [0, 1) and K of 1 or more"
            )


def drafted(drafts: Sequence[DraftCharge]) -> tuple[Fraction, Fraction]:
    """Return the epsilon and the delta of drafts together: sums (basic composition).

    Source: Dwork and Roth 2014, Theorem 3.16.
    """
    return sum((one.epsilon for one in drafts), Fraction(0)), sum((one.delta for one in drafts), Fraction(0))


def with_drafts(budget: Budget, drafts: Sequence[DraftCharge]) -> Budget:
    """Return the guarantee of a session and of the drafts of its schema together."""
    epsilon, delta = drafted(drafts)
    return Budget(budget.epsilon + epsilon, budget.delta + delta)


@dataclass(frozen=True, slots=True)
class ExpectedQuestions:
    """The questions that opening makes narrow bars for. Made by ``expected_questions``.

    Args:
        scopes: the sets of attributes that they are about, each in declared order, sorted.
        counts: how many different questions are about each.
        digest: SHA-256 of their canonical texts, in hexadecimal; what a contract names them by.
    """

    scopes: tuple[tuple[str, ...], ...]
    counts: tuple[int, ...]
    digest: str

    def __post_init__(self) -> None:
        fits = len(self.scopes) == len(self.counts) and list(self.scopes) == sorted(set(self.scopes))
        if not (fits and self.counts and min(self.counts) > 0):
            raise BudgetError("expected a number of questions for each scope; see expected_questions")

    def __len__(self) -> int:
        return sum(self.counts)

    @property
    def by_scope(self) -> dict[tuple[str, ...], int]:
        """How many questions each scope has."""
        return dict(zip(self.scopes, self.counts, strict=True))

    def are_about(self, domain: Domain) -> bool:
        """Tell whether all attributes are declared, and in declared order."""
        places = {name: place for place, name in enumerate(domain.names)}
        found = [[places.get(name, -1) for name in scope] for scope in self.scopes]
        return all(one == sorted(set(one)) and min(one, default=0) >= 0 for one in found)

    def describe(self) -> str:
        """Return in words how many they are."""
        return f"{len(self):,} about {len(self.scopes):,} sets of attributes (SHA-256 {self.digest[:16]}…)"


class Opening(enum.Enum):
    """What is measured before the first question, besides the number of records."""

    NONE = "none"  # the uniform start of the textbooks
    ONE_WAY = "one-way"  # every one-attribute marginal
    PAIRS = "pairs"  # these, and all pairs where that leaves smaller errors than testing them
    TRIPLES = "triples"  # these, all pairs and all triples


class TestKind(enum.Enum):
    """What is tested, and measured where the test finds the model wrong."""

    __test__ = False  # no test case, whatever its name says

    QUERY = "query"  # one question at a time, as in the textbooks
    MARGINAL = "marginal"  # whole marginals


GREATEST_CONFIDENCE = 1 - 1e-9  # whose smallest part is still told apart from nothing
SMALL_DOMAIN = 2**16  # cells: up to here one array is as fast as a tree (benchmarks/stream.py)


class ModelKind(enum.Enum):
    """How the synthetic distribution is held."""

    AUTO = "auto"  # dense where the domain is small, else graphical
    DENSE = "dense"  # one array over the domain
    GRAPHICAL = "graphical"  # a junction tree of measured scopes


class UpdateRule(enum.Enum):
    """What a measurement does to the model."""

    STEP = "step"  # one multiplicative weights step of fixed length
    REFIT = "refit"  # multiplicative weights over all measurements until they are met


def is_dense(test: TestKind, model: ModelKind, cells: int) -> bool:
    """Tell whether a model over so many cells is one array."""
    if test is TestKind.QUERY or model is ModelKind.DENSE:
        return True
    return model is ModelKind.AUTO and cells <= SMALL_DOMAIN


_Fault: TypeAlias = tuple[bool, str]  # whether choices are wrong, and what is said of them then


@dataclass(frozen=True, slots=True)
class Options:
    """The custodian's choices; None leaves a choice to planning.

    A choice among kinds may be given as the command line's word, such as ``update="step"``.

    Args:
        neighboring_relation: which tables must be indistinguishable.
        records_per_person: the most records of one person: so many are kept where there is a column of ids;
            declared, not enforced, where there is none.
        person_column: the column of ids; None for that of the schema's [person], where it has one.
        accuracy: alpha of the accuracy contract: no error bar of a counting question is wider than this part
            of ``records`` either way, or the question is refused; 1 - ``confidence`` is its beta. None for no
            such contract. Where marginals are tested.
        records: the stated number of records that ``accuracy`` is a part of: a public number.
        prior: what is public about a table like this one, for the model to begin with; see ``public_prior``.
            For sessions that measure all pairs before any question; these drop it where it is far from what
            they measure.
        drafts: what drafts of the schema were charged, beside the session's budget.
        reserve: the part of the budget, in [0, 1), that opening leaves for what is asked: a question whose
            bar is wider than that of a number of its own is paid for. Where opening measures all pairs, or
            the whole table. None is .3 where opening measures all pairs with Gaussian noise, else 0.
        expected: what will be asked, declared public; see ``expected_questions``. Half of what opening spends
            goes by it, so that other bars are at most 1.42 times as wide. Where opening measures all pairs.
        update: what a measurement does to the model.
        opening: what is measured before the first question.
        update_limit: number of positives.
        threshold: T in records, of the query test.
        learning_rate: eta of the single step, of ``update = step``.
        sparse_vector: the tests; None for exponential noise, drawn again after each positive unless epsilons
            add.
        sides: of the query test: signed tests with two thresholds, or tests of the absolute error.
        composition: how charges add up.
        expected_queries: about how many different questions will come; it sets thresholds, not a limit. With
            0 opening keeps nothing for questions, unless tests are all that pairs are measured by.
        confidence: of the intervals.
        test: what is tested.
        model: how the synthetic distribution is held.
        max_cells: the most cells of a graphical model's tree; a measurement that would exceed them answers
            questions within its own scope only.
        simultaneous: intervals that hold for all questions at once, however they were chosen: of measured
            numbers, of tests and of the number of records; where marginals are tested.
        seed: makes the noise repeatable by anybody, for tests and experiments in memory: no privacy.
        minimum_count: numbers that may be of fewer persons are not shown, nor what would tell them within one
            table. A rule of display, on which privacy does not rest; None for none.

    Raises:
        BudgetError: a choice is out of range or contradicts another.
    """

    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_REMOVE
    records_per_person: int = 1
    update: UpdateRule = UpdateRule.REFIT
    opening: Opening = Opening.PAIRS
    update_limit: int | None = None
    threshold: float | None = None
    learning_rate: float | None = None
    sparse_vector: SparseVectorKind | None = None
    sides: Sides | None = None
    composition: Composition | None = None
    expected_queries: int = 10_000
    confidence: float = 0.95
    test: TestKind = TestKind.MARGINAL
    model: ModelKind = ModelKind.AUTO
    max_cells: int | None = None
    simultaneous: bool = False
    seed: int | None = None
    person_column: str | None = None
    accuracy: float | None = None
    records: int | None = None
    prior: Prior | None = None
    drafts: tuple[DraftCharge, ...] = ()
    reserve: Fraction | None = None
    expected: ExpectedQuestions | None = None
    minimum_count: int | None = None

    @classmethod
    def textbook(
        cls,
        *,
        update_limit: int | None = None,
        threshold: float | None = None,
        learning_rate: float | None = None,
        expected_queries: int = 10_000,
        seed: int | None = None,
    ) -> Options:
        """Return the textbook's loop: online private multiplicative weights by NumericSparse.

        A uniform start, a two-sided test of one question at a time with Laplace noise that is drawn again
        after each positive, one noisy number and one multiplicative weights step for each. ``replace`` of
        ``dataclasses`` makes any further choice.

        Departures: scales are planned for the session's own filter, which leaves less noise than the printed
        ones, and with delta > 0 a measured number has Gaussian noise. Under add/remove the number of records
        is measured first.

        Args:
            update_limit: c, the number of positives.
            threshold: T in records.
            learning_rate: eta of the step.
            expected_queries: k, about how many different questions will come.
            seed: makes the noise repeatable by anybody: no privacy.

        Raises:
            BudgetError: a choice is out of range.

        Source: Kamath, Lecture 9, Online Private Multiplicative Weights, steps 1 to 3; Dwork and Roth
            (2014), Algorithms 3 and 6.
        """
        return cls(
            update=UpdateRule.STEP,
            opening=Opening.NONE,
            update_limit=update_limit,
            threshold=threshold,
            learning_rate=learning_rate,
            sparse_vector=SparseVectorKind.LAPLACE_ROUNDS,
            sides=Sides.TWO_SIDED,
            expected_queries=expected_queries,
            test=TestKind.QUERY,
            seed=seed,
        )

    def __post_init__(self) -> None:
        for name, kind in _KINDS.items():
            object.__setattr__(self, name, _choice(name, kind, getattr(self, name)))
        if self.reserve is not None:
            object.__setattr__(self, "reserve", as_fraction(self.reserve, "reserve"))
        faults = (self._faults_of_numbers(), self._faults_of_choices(), self._faults_of_the_test())
        for is_wrong, told in itertools.chain(*faults):
            if is_wrong:
                raise BudgetError(told)

    def _faults_of_numbers(self) -> Iterator[_Fault]:
        for name, low, high in (
            ("records_per_person", 1, 10**6),
            ("update_limit", 1, 10**6),
            ("expected_queries", 0, 10**12),
            ("max_cells", 1, 10**8),
            ("records", 1, 10**12),
            ("minimum_count", 2, 10**6),
        ):
            value = getattr(self, name)
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            is_wrong = value is not None and not (is_whole and low <= value <= high)
            yield is_wrong, f"expected {name} from {low:,} to {high:,}, got {value!r}"
        for name in ("threshold", "learning_rate"):
            value = getattr(self, name)
            is_wrong = value is not None and not 0 < value < math.inf
            yield is_wrong, f"expected a positive {name}, got {value!r}"
        most = self.threshold is not None and self.threshold > 10**12
        yield most, f"expected a threshold of at most 1e12 records, got {self.threshold!r}"
        yield not 0 <= self.reserved < 1, f"expected a reserve in [0, 1), got {float(self.reserved):g}"
        beside = self.without_reserve
        told = f"a reserve does not go with {beside}; leave one of them out"
        yield bool(self.reserved and beside), told
        told = f"expected a confidence strictly between 0 and 1, got {self.confidence!r}"
        yield not 0 < self.confidence < 1, told
        told = f"expected a confidence of at most 1 - 1e-9, got {self.confidence!r}"
        yield self.confidence > GREATEST_CONFIDENCE, told

    def _faults_of_choices(self) -> Iterator[_Fault]:
        column, accuracy = self.person_column, self.accuracy
        is_wrong = column is not None and not issubclass(type(column), str)
        yield is_wrong, f"expected a name as person_column, got {shown_text(column)}"
        one_sided = self.sides is Sides.ONE_SIDED
        yield one_sided, "a loop tests for errors of both signs; choose two-sided or two-thresholds"
        is_wrong = self.sides is Sides.TWO_THRESHOLDS and not self.signs_agree
        yield is_wrong, "two thresholds need add-remove neighbours; choose two-sided under replace-one"
        is_wrong = self.composition is Composition.GDP and self.sparse_vector is SparseVectorKind.SECH2
        yield is_wrong, "sech2 tests have no price in GDP; choose composition zcdp or pure"
        is_wrong = accuracy is not None and not 0 < accuracy < 1
        yield is_wrong, f"expected an accuracy strictly between 0 and 1, got accuracy={accuracy!r}"
        told = "an accuracy is a part of a stated number of records; give accuracy and records together"
        yield (accuracy is None) != (self.records is None), told

    def _faults_of_the_test(self) -> Iterator[_Fault]:
        # All triples leave nothing for tests of marginals; their intervals hold for one question at a time.
        for name, is_asked in (
            ("test = query", not self.tests_marginals),
            ("update_limit", self.update_limit is not None),
            ("simultaneous", self.simultaneous),
            ("an accuracy contract", self.accuracy is not None),
        ):
            told = f"opening = triples does not go with {name}; choose opening = pairs"
            yield is_asked and self.opening is Opening.TRIPLES, told
        are_charges = all(isinstance(one, DraftCharge) for one in self.drafts)
        yield not are_charges, "expected charges of drafts, as read_charges gives them"
        told = (
            "the drafts of the schema are for other neighbouring tables than the session; open it with the "
            "same --neighbors as they were made with"
        )
        yield any(one.neighboring_relation is not self.neighboring_relation for one in self.drafts), told
        known = self.prior is None or isinstance(self.prior, Prior)
        yield not known, "expected a prior that public_prior made, or None"
        known = self.expected is None or isinstance(self.expected, ExpectedQuestions)
        yield not known, "expected questions that expected_questions made, or None"
        yield from self._faults_of_marginals() if self.tests_marginals else self._faults_of_questions()

    def _faults_of_marginals(self) -> Iterator[_Fault]:
        told = (
            "a single step corrects one question: update = step goes with test = query; where marginals are "
            "tested, choose update = refit"
        )
        yield self.update is UpdateRule.STEP, told
        for name in ("threshold", "learning_rate", "sides"):
            told = f"{name} belongs to test = query; where marginals are tested, leave it out"
            yield getattr(self, name) is not None, told
        told = (
            "simultaneous intervals need one-sided test noise: under Laplace noise a negative bounds its own "
            "test alone"
        )
        yield bool(self.simultaneous and self.sparse_vector and self.sparse_vector.is_laplace), told
        told = "max_cells bounds a graphical model's tree; a dense model has none"
        yield self.model is ModelKind.DENSE and self.max_cells is not None, told

    def _faults_of_questions(self) -> Iterator[_Fault]:
        told = "test = query tests the questions that come: expected_queries has to be above 0"
        yield not self.expected_queries, told
        told = "learning_rate is the length of a single step: choose update = step, or leave it out"
        yield self.learning_rate is not None and self.update is UpdateRule.REFIT, told
        told = "single questions need a dense model; choose test = marginal for a graphical one"
        yield self.model is ModelKind.GRAPHICAL, told
        told = "max_cells bounds a graphical model's tree, which goes with test = marginal"
        yield self.max_cells is not None, told
        yield self.simultaneous, "simultaneous intervals go with test = marginal"
        yield self.accuracy is not None, "an accuracy contract goes with test = marginal"

    @property
    def reserved(self) -> Fraction:
        """The reserve; 0 before planning chose one."""
        return self.reserve or Fraction(0)

    @property
    def tests_questions(self) -> bool:
        """Whether single questions are tested beside marginals.

        With a reserve they are not: a number costs less than a test that promises as much.
        """
        return not self.reserved and self.expected_queries > 0

    @property
    def without_reserve(self) -> str:
        """The choice that a reserve does not go with; empty where there is none."""
        found = (
            ("expected_queries = 0", not self.expected_queries),
            ("test = query", not self.tests_marginals),
            ("opening = none or one-way", self.opening in (Opening.NONE, Opening.ONE_WAY)),
            ("simultaneous", self.simultaneous),
            ("an accuracy contract", self.accuracy is not None),
            ("update_limit", self.update_limit is not None),
        )
        return next((name for name, is_chosen in found if is_chosen), "")

    @property
    def tests_marginals(self) -> bool:
        """Whether whole marginals are tested first, and questions that none of them holds after them."""
        return self.test is TestKind.MARGINAL

    @property
    def measures_apart(self) -> bool:
        """Whether sums of values and numbers of persons are measured.

        Plans whose intervals hold for all questions at once, or within an accuracy contract, or where single
        questions are tested, are for counts of records alone.
        """
        return self.tests_marginals and not self.simultaneous and self.bar_limit is None

    @property
    def public_count(self) -> bool:
        """The number of records is the same in all neighbours, so it is public.

        With a column of ids it never is: a person who is replaced may have had more records, or fewer.
        """
        return self.neighboring_relation is NeighboringRelation.REPLACE_ONE and self.person_column is None

    @property
    def bar_limit(self) -> float | None:
        """How far an error bar may reach either way, in records; None without an accuracy contract."""
        if self.accuracy is None or self.records is None:
            return None
        return self.accuracy * self.records

    @property
    def least_records(self) -> int | None:
        """The fewest records whose number is shown, ``minimum_count`` persons'; None where all are."""
        return None if self.minimum_count is None else self.minimum_count * self.records_per_person

    @property
    def signs_agree(self) -> bool:
        """Between neighbours all counts move the same way, so signed tests cost half."""
        return self.neighboring_relation is NeighboringRelation.ADD_REMOVE

    @property
    def replaces(self) -> bool:
        """A record is replaced between neighbours; else it is added or removed."""
        return self.neighboring_relation is NeighboringRelation.REPLACE_ONE

    def chosen_sparse_vector(self, composition: Composition) -> SparseVectorKind:
        """Return the tests asked for, or exponential noise, drawn again where squares of epsilons add up."""
        if self.sparse_vector is not None:
            return self.sparse_vector
        pure = composition is Composition.PURE
        return SparseVectorKind.EXPONENTIAL if pure else SparseVectorKind.EXPONENTIAL_ROUNDS

    @property
    def chosen_sides(self) -> Sides:
        """The sides asked for, or two thresholds where they are allowed."""
        if self.sides is not None:
            return self.sides
        return Sides.TWO_THRESHOLDS if self.signs_agree else Sides.TWO_SIDED


_KINDS: dict[str, type[enum.Enum]] = {
    "neighboring_relation": NeighboringRelation,
    "update": UpdateRule,
    "opening": Opening,
    "sparse_vector": SparseVectorKind,
    "sides": Sides,
    "composition": Composition,
    "test": TestKind,
    "model": ModelKind,
}
_LEFT_TO_PLANNING = ("sparse_vector", "sides", "composition")  # may be None


def _choice(name: str, kind: type[enum.Enum], value: object) -> enum.Enum | None:
    if issubclass(type(value), kind) or (value is None and name in _LEFT_TO_PLANNING):
        return cast("enum.Enum | None", value)
    words = {one.value.replace("_", "-"): one for one in kind}
    chosen = words.get(str.replace(value, "_", "-")) if isinstance(value, str) else None
    if chosen is None:
        raise BudgetError(f"{name}: expected one of {', '.join(map(repr, words))}, got {shown_text(value)}")
    return chosen
