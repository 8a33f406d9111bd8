"""What a session draws and charges: its noise is that of its charges, and its audit tells no more."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import mpmath
import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad

import pmw
from pmw.data import CountSource, MemorySource
from pmw.errors import BudgetError
from pmw.loop.loop import draw_tests
from pmw.loop.measuring import Tables
from pmw.loop.tiers import MarginalTier, Proposal, QuestionTier, l1_distance
from pmw.loop.untested import Requested
from pmw.model.measurement import (
    HierarchicalMeasurement,
    MarginalMeasurement,
    Measurement,
    OneWayMeasurement,
    QueryMeasurement,
    ResidualMeasurement,
)
from pmw.privacy.budget import Composition, NeighboringRelation, zcdp_epsilon
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, Geometric, NoiseDistribution, SechSquared
from pmw.privacy.random_bits import BitSource
from pmw.public.charges import Event
from pmw.public.options import ModelKind, Opening, TestKind, UpdateRule
from pmw.public.plans import MarginalTestPlan
from pmw.public.state import PublicState
from pmw.session import releases
from pmw.sparse_vector import NoisyComparison, Outcome, Sides, SparseVectorKind
from queries import UNITS, CategoricalAttribute, Domain, IntegerAttribute, LinearQuery, random_conjunctions
from queries.domain import Attribute
from tests.worlds import JOINED, PEOPLE, WHOLE_YEARS

GRID = Fraction(1, 2**60)  # that a charge in rho is rounded up to


PEOPLE_ASKED = [
    "",
    "sex = 'Male' AND region = 'north'",
    "age BETWEEN 24 AND 31 AND member = TRUE",
    "age >= 40 AND NOT member = TRUE",  # the opening's model is far off: a positive
    *(f"age >= {age} AND member = TRUE" for age in range(24, 60, 4)),
]


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """One call for noise: its distribution, scale in units, what it drew, and whether that was one number."""

    distribution: type
    scale: Fraction
    values: NDArray[np.int64]
    single: bool

    @property
    def count(self) -> int:
        return self.values.size


@dataclass(slots=True)
class Watch:
    """Every draw, in the batch that it was drawn in; the first batch is the opening."""

    batches: list[tuple[Proposal | None, list[Drawn]]] = field(default_factory=lambda: [(None, [])])
    depth: int = 0


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    seen = Watch()

    def note(distribution: type, name: str) -> None:
        original: Callable[..., Any] = getattr(distribution, name)

        def noted(self: Any, bits: Any, *count: int) -> Any:
            seen.depth += 1
            try:
                drawn = original(self, bits, *count)
            finally:
                seen.depth -= 1
            if not seen.depth:  # distributions draw from each other
                scale = self.sigma if isinstance(self, DiscreteGaussian) else self.scale
                numbers = np.array(drawn, dtype=np.int64).ravel()
                assert numbers.size == (count[0] if count else 1)
                seen.batches[-1][1].append(Drawn(distribution, scale, numbers, not count))
            return drawn

        monkeypatch.setattr(distribution, name, noted)

    for distribution in (DiscreteGaussian, DiscreteLaplace, Geometric, SechSquared):
        note(distribution, "sample")
        note(distribution, "sample_array")

    def opened(proposal: Proposal, *rest: Any) -> Any:
        seen.batches.append((proposal, []))
        return draw_tests(proposal, *rest)

    monkeypatch.setattr("pmw.session.engine.draw_tests", opened)
    return seen


def split(drawn: list[Drawn]) -> tuple[list[Drawn], Drawn, list[Drawn]]:
    """Return what a batch drew for its thresholds, its tests, and what it measured."""
    kept = list(itertools.takewhile(lambda one: one.single, drawn))
    tests, *measured = drawn[len(kept) :]
    return kept, tests, measured


@dataclass(frozen=True, slots=True)
class Prices:
    """What noise costs, from the definition of neighbours alone."""

    composition: Composition
    people: int  # records of one person
    moves: int  # cells of a marginal that one record changes

    def released(self, drawn: Drawn, *, marginal: bool, levels: int = 1) -> Fraction:
        """Return the price of a marginal, a tree of so many levels, or one answer, under fresh noise."""
        moved = self.people * UNITS
        moves = self.moves if marginal else 1
        if drawn.distribution is DiscreteLaplace:
            return self.pure(levels * moves * moved / drawn.scale)
        assert self.composition is not Composition.PURE, "Gaussian noise has no pure price"
        squared = levels * moves * moved**2 / drawn.scale**2
        if self.composition is Composition.ZCDP:
            return squared / 2
        return squared * (1 + 1 / (2 * drawn.scale)) ** 2

    def pure(self, epsilon: Fraction) -> Fraction:
        if self.composition is Composition.GDP:
            return gaussian_square(epsilon)
        return epsilon**2 / 2 if self.composition is Composition.ZCDP else epsilon

    def batch(self, proposal: Proposal, drawn: list[Drawn], state: PublicState) -> tuple[Fraction, bool]:
        """Return the price of what a batch drew, and whether it was a positive."""
        plan = state.plan[proposal.tier]
        marginal, sparse = isinstance(plan, MarginalTestPlan), plan.sparse
        kept, tests, measured = split(drawn)
        moved = self.people * UNITS * (self.moves if marginal else 1)
        two_thresholds = tests.count == 2 * len(proposal.requests)
        assert two_thresholds or tests.count == len(proposal.requests)
        assert len(kept) in (0, 1 + two_thresholds)
        assert not (two_thresholds and marginal)
        rate = 1 if two_thresholds else 2  # values of one sign alone move together
        positive = rate * moved / tests.scale
        price = Fraction(0)
        if kept:
            kept_price = moved / kept[0].scale
            if tests.distribution is SechSquared:
                price += kept_price**2 / 2 if kept[0].distribution is DiscreteGaussian else kept_price
                assert self.composition is not Composition.GDP
                zcdp = self.composition is Composition.ZCDP
                assert (kept[0].distribution is DiscreteGaussian) == zcdp
            elif sparse.redraw:
                price += self.pure(kept_price + positive)
            elif self.composition is not Composition.PURE:
                price += self.pure(kept_price + sparse.update_limit * positive)
            else:
                price += kept_price
        if measured:
            assert len(measured) == 1
            if tests.distribution is SechSquared:
                price += self.pure(positive)
            elif not sparse.redraw and self.composition is Composition.PURE:
                price += positive
            price += self.released(measured[0], marginal=marginal)
        return price, bool(measured)


def gaussian_square(epsilon: Fraction) -> Fraction:
    """Return the square of the mu whose Gaussian curve touches the corner of an epsilon-DP event's curve."""
    with mpmath.workdps(80):
        corner = mpmath.tanh(mpmath.mpf(epsilon.numerator) / epsilon.denominator / 2)
        exact = 8 * mpmath.erfinv(corner) ** 2  # (2 sqrt(2) erfinv)^2
        return Fraction(int(mpmath.floor(exact * mpmath.mpf(2) ** 200)), 2**200)


SECH2 = {"sparse_vector": SparseVectorKind.SECH2}
VECTOR = {"sparse_vector": SparseVectorKind.EXPONENTIAL}
PURE = {"composition": Composition.PURE}
GDP = {"composition": Composition.GDP}
REPLACED = {"neighboring_relation": NeighboringRelation.REPLACE_ONE}
KINDS: dict[str, list[dict[str, Any]]] = {
    "marginal": [
        PURE, {**SECH2, **PURE}, {"sparse_vector": SparseVectorKind.LAPLACE_ROUNDS}, {"simultaneous": True},
        {**SECH2, "opening": Opening.NONE, "records_per_person": 3}, {"max_cells": 60, "update_limit": 2},
        {**PURE, "sparse_vector": SparseVectorKind.EXPONENTIAL_ROUNDS},
    ],
    "years": [  # with a tree of single years, and a cell for every record
        {}, {**REPLACED, **PURE}, {**REPLACED, **GDP, "records_per_person": 3, "epsilon": 9},
        {**REPLACED, **SECH2, "epsilon": 8}, {**GDP, "records_per_person": 20, "epsilon": 20},
        {**REPLACED, "simultaneous": True, "update_limit": 1},
    ],
    "query": [
        {**VECTOR, "records_per_person": 4}, PURE, {**VECTOR, **PURE}, SECH2, {**SECH2, **PURE},
        {**SECH2, "sides": Sides.TWO_SIDED, "update_limit": 2},
        {"update": UpdateRule.STEP, "opening": Opening.NONE},
        {"sparse_vector": SparseVectorKind.LAPLACE_ROUNDS, "sides": Sides.TWO_SIDED},
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "choices"), [(kind, one) for kind, some in KINDS.items() for one in some])
def test_every_kind_of_session_charges_what_it_draws_and_its_books_hold(
    kind: str, choices: dict[str, Any], watch: Watch
) -> None:
    joined, people = (("a", "b"), "abc", "abcde", ("b", "c")), (*PEOPLE_ASKED, *PEOPLE_ASKED[:3])
    asked: list[Any] = [LinearQuery.cells(JOINED.domain, dict.fromkeys(one, (0, 3))) for one in joined]
    world, chosen = JOINED, {"epsilon": 4, "update_limit": 4, "model": ModelKind.GRAPHICAL}
    if kind == "years":
        world, asked, chosen = WHOLE_YEARS, list(people), {"epsilon": 4, "update_limit": 5}
    if kind == "query":
        chosen = {"epsilon": 4, "update_limit": 5, "threshold": 40.0, "test": TestKind.QUERY}
        world, asked = PEOPLE, list(people)
    delta = 0 if choices.get("composition") is Composition.PURE else 1e-9
    with world.opened(delta=delta, seed=5, **{**chosen, **choices}) as session:
        session.ask_all(asked, fresh=True)
        assert session.state.measured
        check_charges(session.state, watch)
        check_noise(session, watch)
        assert [check for check in session.verify().checks if not check.holds] == []
        session.finalize()
        session.ask(asked[0], fresh=True)
        assert session.verify().holds
        assert session.verify().closed


def check_charges(state: PublicState, watch: Watch) -> None:
    options, ledger = state.contract.options, state.ledger
    moves = 2 if options.neighboring_relation is NeighboringRelation.REPLACE_ONE else 1
    prices = Prices(ledger.composition, options.records_per_person, moves)
    (_, opening), *batches = watch.batches
    spent, events = Fraction(0), len(opening)
    if moves == 1:
        total, *opening = opening
        assert total.single
        spent += prices.released(total, marginal=False)
    for one, measurement in zip(opening, state.opening, strict=True):
        assert one.count == measurement.units.size
        levels = measurement.tree.height if isinstance(measurement, HierarchicalMeasurement) else 1
        spent += prices.released(one, marginal=True, levels=levels)
    positives = 0
    for proposal, drawn in batches:
        assert proposal is not None
        assert proposal.reserved is not None
        price, positive = prices.batch(proposal, drawn, state)
        positives += positive
        events += 3
        assert price <= ledger.price(proposal.reserved)
        spent += price
    assert positives == len(state.measured)
    assert spent <= ledger.spent <= spent + (0 if ledger.composition is Composition.PURE else events * GRID)
    assert ledger.spent <= ledger.cap
    budget = state.contract.budget
    if ledger.composition is Composition.ZCDP:
        assert zcdp_epsilon(float(ledger.cap), float(budget.delta)) <= float(budget.epsilon) * (1 + 1e-9)
        assert math.isfinite(float(ledger.cap))
    elif ledger.composition is Composition.GDP:
        assert gaussian_delta(math.sqrt(ledger.cap), float(budget.epsilon)) <= float(budget.delta) * (
            1 + 1e-6
        )
    else:
        assert ledger.cap == budget.epsilon


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the delta of N(0, 1) against N(mu, 1) at epsilon."""
    near, far = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    return float(mpmath.ncdf(near) - mpmath.exp(epsilon) * mpmath.ncdf(far))


def check_noise(session: pmw.Session, watch: Watch) -> None:
    """Require that each released number is the true one and a draw of its own, made for nothing else."""
    state = session.state
    source = session._engine._table(state.contract)
    (_, opening), *batches = watch.batches
    total = opening[:1] if state.contract.options.signs_agree else []
    measured = [one for _, drawn in batches for one in split(drawn)[2]]
    drawn = [one.values.tolist() for one in (*opening[len(total) :], *measured)]
    assert drawn == [noise_on(one, state, source).tolist() for one in state.measurements]
    assert all(one.distribution is not Geometric for one in (*opening, *measured))


def noise_on(measurement: Measurement, state: PublicState, source: CountSource) -> NDArray[np.int64]:
    """Return the noise on each number of a measurement, in units: int64, flat."""
    if isinstance(measurement, QueryMeasurement):
        query = measurement.query
        return np.array([measurement.units - query.answer(source.counts(query.scope))])
    scope = measurement.scope
    if isinstance(measurement, HierarchicalMeasurement):
        counts = measurement.tree.node_counts(source.counts(scope).counts)
    else:
        groups = source.coarsened(state.coarsening.coarse, state.coarsening.bins)
        fine = measurement.units.shape == state.domain.scope_shape(scope)
        counts = (source if fine else groups).counts(scope).counts
    noise: NDArray[np.int64] = measurement.units - counts * UNITS
    return noise.ravel()


@pytest.mark.parametrize("relation", list(NeighboringRelation))
@pytest.mark.parametrize("composition", list(Composition))
def test_a_table_that_is_measured_whole_is_charged_exactly_the_noise_that_it_was_seen_to_draw(
    composition: Composition, relation: NeighboringRelation, watch: Watch
) -> None:
    domain = Domain(
        tuple(CategoricalAttribute(name, tuple(range(6)), missing=True, other=True) for name in "xy")
    )
    frame = pd.DataFrame({"x": [0, 1, 2] * 50, "y": [5, 4, 4] * 50})
    options = pmw.Options(neighboring_relation=relation, records_per_person=3, composition=composition)
    with pmw.open_session(frame, domain, epsilon=1, delta=1e-9, options=options) as session:
        session.ask("x = 1 AND y = 4")
        check_charges(session.state, watch)
        check_noise(session, watch)
        (_, drawn), *batches = watch.batches
        line = session.ledger().lines[-1]
    assert (line.label, batches) == ("the whole table", [])
    assert drawn[-1].count == domain.size
    moved = (1 if options.signs_agree else 2) * 3 * UNITS
    if composition is Composition.PURE:
        assert line.price == line.epsilon == moved / drawn[-1].scale
    else:  # two cells of three records each, or one
        squared = Fraction(moved**2, 1 if options.signs_agree else 2)
        scale = drawn[-1].scale
        price = squared / (2 * scale**2)
        if composition is Composition.GDP:
            price = squared / scale**2 * (1 + 1 / (2 * scale)) ** 2
        assert price <= line.price < price + GRID


def random_domain(generator: np.random.Generator) -> Domain:
    attributes: list[Attribute] = []
    for place in range(int(generator.integers(2, 6))):
        if generator.random() < 0.3:
            high = int(generator.choice([29, 79]))
            attributes.append(IntegerAttribute(f"a{place}", 0, high, missing=True, other=True))
        else:
            values = tuple(range(int(generator.integers(1, 12))))
            attributes.append(CategoricalAttribute(f"a{place}", values, missing=True, other=True))
    return Domain(tuple(attributes))


def random_options(generator: np.random.Generator, delta: float) -> pmw.Options:
    def one_of(*choices: Any) -> Any:
        return choices[int(generator.integers(len(choices)))]

    kind = one_of(None, *SparseVectorKind)
    return pmw.Options(
        neighboring_relation=one_of(*NeighboringRelation),
        records_per_person=one_of(1, 1, 3, 100),
        opening=one_of(Opening.ONE_WAY, Opening.ONE_WAY, Opening.NONE),
        update_limit=one_of(None, 1, 2, 4, 10**6),
        sparse_vector=kind,
        composition=composition_for(one_of(None, *Composition), kind) if delta else None,
        model=one_of(ModelKind.AUTO, ModelKind.GRAPHICAL),
        simultaneous=one_of(False, True) and not (kind and kind.is_laplace),
        seed=int(generator.integers(10**6)),
    )


def composition_for(composition: Composition | None, kind: SparseVectorKind | None) -> Composition | None:
    gdp = composition is Composition.GDP
    return None if gdp and kind is SparseVectorKind.SECH2 else composition  # it has no price in GDP


def random_question(domain: Domain, generator: np.random.Generator) -> LinearQuery:
    count = int(generator.integers(1, min(len(domain), 4) + 1))
    names = generator.choice(domain.names, count, replace=False).tolist()
    box = {}
    for name in names:
        low, high = sorted(int(end) for end in generator.integers(0, domain[name].size, 2))
        box[name] = (low, high)
    return LinearQuery.cells(domain, box)


def random_table(domain: Domain, generator: np.random.Generator) -> pd.DataFrame:
    """Return a table whose attributes hang together, so that tests find models wrong."""
    records = int(generator.choice([0, 4000, 4000, 4000]))
    common = generator.random(records)
    return pd.DataFrame(
        {one.name: np.minimum((common * one.base_size).astype(int), one.base_size - 1) for one in domain}
    )


@pytest.mark.parametrize(
    "case", [*range(8), *(pytest.param(one, marks=pytest.mark.slow) for one in range(8, 20))]
)
def test_a_session_charges_exactly_the_noise_that_it_is_seen_to_draw(case: int, watch: Watch) -> None:
    generator = np.random.default_rng([case, 7])
    epsilon = float(generator.choice([0.01, 1.0, 8.0, 100.0, 100.0]))
    delta = float(generator.choice([0.0, 1e-9, 0.01]))
    options, domain = random_options(generator, delta), random_domain(generator)
    try:
        session = pmw.open_session(
            random_table(domain, generator), domain, epsilon=epsilon, delta=delta, options=options
        )
    except BudgetError:
        assert epsilon == 0.01  # too little to measure anything
        return
    with session:
        for _ in range(12):
            session.ask_all([random_question(domain, generator) for _ in range(4)], fresh=True)
        check_charges(session.state, watch)
        check_noise(session, watch)
        assert session.verify().holds


QUESTIONS = 530  # error quantiles are due after 256 and 512 of them
FEW = 150  # where none are due, or another test looks at them
NO_BITS = BitSource(bytes(32))
ROUNDING = 1e-6  # of noise on the 2^-20 grid, which the audit takes as continuous where it is tested


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers under independent noise: what was released, and what it was drawn around on both tables."""

    event: Event
    noise: NoiseDistribution
    released: NDArray[np.int64]
    own: NDArray[np.int64]
    other: NDArray[np.int64]

    @property
    def log_ratio(self) -> float:
        """ln of the chance on the table over that on its neighbour; of Laplace noise."""
        assert isinstance(self.noise, DiscreteLaplace)
        farther = np.abs(self.released - self.other) - np.abs(self.released - self.own)
        return float(farther.sum() / float(self.noise.scale))

    @property
    def rho(self) -> float:
        """Rényi divergence of order alpha, over alpha; of Gaussian noise."""
        assert isinstance(self.noise, DiscreteGaussian)
        shift = (self.own - self.other).astype(float)
        return float((shift**2).sum() / (2 * float(self.noise.sigma) ** 2))


@dataclass(slots=True)
class Run:
    """Tests against one noisy threshold: how far each value is above its threshold, and the outcome."""

    own: list[int] = field(default_factory=list)
    other: list[int] = field(default_factory=list)
    positives: list[bool] = field(default_factory=list)


@dataclass(slots=True)
class Round:
    """Tests that share their threshold noise; two thresholds are two runs with noise of their own."""

    test: NoisyComparison
    runs: tuple[Run, Run] = field(default_factory=lambda: (Run(), Run()))

    def add(self, own: int, other: int, threshold: int, outcome: int) -> None:
        """Add a test of a value, on the table and on its neighbour."""
        if self.test.sides is Sides.TWO_SIDED:
            own, other = abs(own), abs(other)
        self._add(self.runs[0], own - threshold, other - threshold, outcome == Outcome.ABOVE)
        if self.test.sides is Sides.TWO_THRESHOLDS and outcome != Outcome.ABOVE:  # else it is not looked at
            self._add(self.runs[1], -own - threshold, -other - threshold, outcome == Outcome.ABOVE_NEGATED)

    @staticmethod
    def _add(run: Run, own: int, other: int, positive: bool) -> None:
        run.own.append(own)
        run.other.append(other)
        run.positives.append(positive)

    def chance(self, excesses: list[int], positives: list[bool]) -> float:
        """Return the chance of a run's outcomes, for exponential noise on a grid too fine to matter.

        A positive has nu >= rho - s where rho and nu are the noise of threshold and value: certain where s is
        above rho, else exp((s - rho)/b).
        """
        first, second = float(self.test.threshold_scale), float(self.test.query_scale)
        signs = np.where(positives, 1, 0)
        above = np.array(excesses, dtype=float)

        def joint(rho: float) -> float:
            passed = np.exp(np.minimum(0.0, (above - rho * first) / second))
            return math.exp(-rho) * float(np.prod(np.where(signs, passed, 1 - passed)))

        kinks = sorted({0.0, *(excess / first for excess in excesses if 0 < excess < 60 * first)})
        edges = [*kinks, kinks[-1] + 1, kinks[-1] + 8, kinks[-1] + 40]
        return sum(
            quad(joint, low, high, epsabs=0, epsrel=1e-10, limit=200)[0]
            for low, high in itertools.pairwise(edges)
        )

    @property
    def log_ratio(self) -> float:
        """ln of the chance of the outcomes on the table over that on its neighbour."""
        return sum(
            math.log(self.chance(run.own, run.positives) / self.chance(run.other, run.positives))
            for run in self.runs
        )


def drawn_noise(measured: OneWayMeasurement) -> NoiseDistribution:
    """Return the noise of each number: of rows, not that of the cells of the same price."""
    return measured.drawn if isinstance(measured, ResidualMeasurement) else measured.noise


@contextmanager
def without_noise() -> Iterator[None]:
    """Let single numbers and arrays be drawn without noise."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in (DiscreteGaussian, DiscreteLaplace):
            patch.setattr(kind, "sample", lambda *_: 0)
            patch.setattr(kind, "sample_array", lambda _, __, size: np.zeros(size, dtype=np.int64))
        yield


class Audit:
    """All draws of the sessions that run while it watches, each on the session's table and on a neighbour.

    Args:
        neighbour: the other table, over the declared cells.
        patch: how it comes to see the draws.
    """

    def __init__(self, neighbour: MemorySource, patch: pytest.MonkeyPatch) -> None:
        self.neighbour = neighbour
        self.coarse: CountSource | None = None  # the neighbour over bins
        self.numbers: list[Numbers] = []
        self.rounds: list[Round] = []
        self._open: dict[int, Round] = {}  # by tier
        self._error_pair: list[tuple[int, ...]] = []  # the session's, and the neighbour's
        self._count_pairs: dict[Any, tuple[Any, ...]] = {}  # the same of what is requested
        for where, name, watcher in (
            (releases, "draw_opening", self._opening),
            (releases, "ranked_errors", self._errors),
            (releases, "draw_quantiles", self._quantiles),
            (Requested, "counted", self._counted),
            (Requested, "measured", self._requested),
            (MarginalTier, "draw", self._marginals),
            (QuestionTier, "draw", self._questions),
            (MemorySource, "coarsened", self._coarsened),
        ):
            patch.setattr(where, name, self._watched(getattr(where, name), watcher))

    @staticmethod
    def _watched(real: Callable[..., Any], watcher: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: watcher(real, *arguments)

    def _add(
        self, event: Event, noise: NoiseDistribution | None, released: object, own: object, other: object
    ) -> None:
        arrays = [np.atleast_1d(np.asarray(one, dtype=np.int64)).ravel() for one in (released, own, other)]
        if noise is None:  # released as it is, because it is public
            assert (arrays[1] == arrays[2]).all()
        else:
            self.numbers.append(Numbers(event, noise, *arrays))

    def _coarsened(self, real: Callable[..., Any], source: MemorySource, *how: Any) -> MemorySource:
        if source is not self.neighbour:
            self.coarse = real(self.neighbour, *how)
        found: MemorySource = real(source, *how)
        return found

    def _opening(self, real: Callable[..., Any], plan: Any, source: CountSource, bits: BitSource) -> Any:
        draws = real(plan, source, bits)
        with without_noise():
            own, other = real(plan, source, NO_BITS), real(plan, self.neighbour, NO_BITS)
        self._add(Event.TOTAL, plan.total_noise, draws.total_units, own.total_units, other.total_units)
        for one, mine, theirs in zip(draws.marginals, own.marginals, other.marginals, strict=True):
            self._add(Event.MARGINAL, drawn_noise(one), one.units, mine.units, theirs.units)
        for one, mine, theirs in zip(draws.sums, own.sums, other.sums, strict=True):
            self._add(Event.SUM, one.noise, one.units, mine.units, theirs.units)
        return draws

    def _errors(self, real: Callable[..., Any], requests: Any, answers: Any, source: CountSource) -> Any:
        self._error_pair = [real(requests, answers, table) for table in (source, self.neighbour)]
        return self._error_pair[0]

    def _quantiles(self, real: Callable[..., Any], requests: Any, errors: Any, bits: BitSource) -> Any:
        drawn = real(requests, errors, bits)
        assert errors == self._error_pair[0]
        with without_noise():
            pair = [real(requests, each, NO_BITS) for each in self._error_pair]
        for one, mine, theirs in zip(drawn, *pair, strict=True):
            self._add(Event.QUANTILE, one.noise, one.units, mine.units, theirs.units)
        return drawn

    def _counted(self, real: Callable[..., Any], requested: Any, tables: Tables) -> Any:
        others = Tables(self.neighbour, self.coarse, tables.is_fine)
        pair = self._count_pairs[requested.what] = real(requested, tables), real(requested, others)
        return pair[0]

    def _requested(self, real: Callable[..., Any], requested: Any, counts: Any, bits: BitSource) -> Any:
        drawn = real(requested, counts, bits)
        pair = self._count_pairs[requested.what]
        assert (counts == pair[0]).all()
        with without_noise():
            own, other = (real(requested, one, NO_BITS) for one in pair)
        noise = drawn_noise(drawn) if isinstance(drawn, MarginalMeasurement) else drawn.noise
        self._add(requested.what.event, noise, drawn.units, own.units, other.units)
        return drawn

    def _marginals(self, real: Callable[..., Any], tier: MarginalTier, requests: Any, *rest: Any) -> Any:
        source, coarse = rest[1], rest[3]
        tables = ((source, coarse), (self.neighbour, self.coarse))

        def distances(request: Any) -> list[int]:
            counts = (self._counts(tier, request.scope, *table) for table in tables)
            return [l1_distance(one, request.model_units) for one in counts]

        def measured(request: Any) -> list[Any]:
            return [self._counts(tier, request.measured, *table) * UNITS for table in tables]

        return self._tested(real(tier, requests, *rest), tier, requests, distances, measured)

    def _questions(self, real: Callable[..., Any], tier: QuestionTier, requests: Any, *rest: Any) -> Any:
        def answers(request: Any) -> list[int]:
            tables = (rest[1], self.neighbour)
            return [request.query.answer(table.counts(request.query.scope)) for table in tables]

        def errors(request: Any) -> list[int]:
            return [one - request.model_units for one in answers(request)]

        return self._tested(real(tier, requests, *rest), tier, requests, errors, answers)

    def _tested(
        self,
        drawn: Any,
        tier: MarginalTier | QuestionTier,
        requests: Any,
        compared: Callable[[Any], list[int]],
        measured: Callable[[Any], list[Any]],
    ) -> Any:
        draws, kept = drawn
        if tier.place not in self._open:
            self._open[tier.place] = Round(tier.plan.sparse.test)
            self.rounds.append(self._open[tier.place])
        for request, outcome in zip(requests, draws.outcomes, strict=False):
            own, other = compared(request)
            self._open[tier.place].add(own, other, request.threshold, outcome)
        if draws.outcomes[-1]:
            last = requests[len(draws.outcomes) - 1]
            self._add(Event.MARGINAL, tier.plan.noise, draws.released, *measured(last))
        if kept is None:
            del self._open[tier.place]
        return drawn

    @staticmethod
    def _counts(
        tier: MarginalTier, scope: tuple[str, ...], table: CountSource, bins: CountSource | None
    ) -> NDArray[np.int64]:
        fine = bins is None or tier.plan.is_fine(table.domain.scope_size(scope))
        return (table if fine or bins is None else bins).counts(scope).counts


def changed(frame: pd.DataFrame, relation: NeighboringRelation, record: int) -> pd.DataFrame:
    """Return a neighbour: without a record, or with another in its place."""
    if relation is NeighboringRelation.ADD_REMOVE:
        return frame.drop(index=record)
    other = pd.DataFrame({"age": [58], "sex": ["Male"], "region": ["west"], "member": [True]})
    return pd.concat([frame.drop(index=record), other])


@dataclass(frozen=True, slots=True)
class Audited:
    """A session that opened, tested, measured on request and released error quantiles."""

    audit: Audit
    charged: dict[Event, float]  # in the filter's own measure
    quantile_price: float  # of one error quantile, likewise
    spent: Fraction


def run(
    frame: pd.DataFrame,
    domain: Domain,
    composition: Composition,
    relation: NeighboringRelation,
    opening: pmw.Opening,
    record: int,
) -> Audited:
    tells_quantiles = opening is pmw.Opening.ONE_WAY and not domain.grids
    charged: dict[Event, float] = defaultdict(float)
    price = math.nan
    choices = pmw.Options(
        composition=composition,
        neighboring_relation=relation,
        seed=record + 3,
        opening=opening,
    )
    asked = list(random_conjunctions(domain, QUESTIONS if tells_quantiles else FEW, seed=9))
    with pytest.MonkeyPatch.context() as patch:
        audit = Audit(MemorySource.from_frame(changed(frame, relation, record), domain), patch)
        table = MemorySource.from_frame(frame, domain)
        with pmw.open_session(table, domain, epsilon=4, delta=1e-9, options=choices) as session:
            session.ask_all(asked)
            if session.measure(["sex", "member"], dry_run=True).affordable:
                session.measure(["sex", "member"])
            session.measure(OVERLAPPING, share="0.002")
            if domain.grids:
                session.measure_sum("age", "sex", share="0.02")
            for line in session.ledger().lines:
                event = Event(line.event)  # what opening measures of all pairs is drawn like a request
                likewise = event in (Event.OPENING, Event.PART)
                charged[Event.REQUESTED if likewise else event] += float(line.price)
                if line.event == Event.QUANTILE:
                    price = float(line.price)
            return Audited(audit, charged, price, session.state.ledger.spent)


def told_by_numbers(composition: Composition, numbers: Numbers) -> float:
    """Return what released numbers tell, in the measure that a filter adds up."""
    if composition is Composition.PURE:
        return abs(numbers.log_ratio)
    return 2 * numbers.rho if composition is Composition.GDP else numbers.rho


def told_by_tests(composition: Composition, log_ratio: float) -> float:
    """Return what an event of this log-ratio tells, in the measure that a filter adds up."""
    if composition is Composition.GDP:
        return (2 * NormalDist().inv_cdf(1 / (1 + math.exp(-log_ratio)))) ** 2
    return abs(log_ratio) if composition is Composition.PURE else log_ratio**2 / 2


ALONE = (Event.TOTAL, Event.REQUESTED, Event.ROWS, Event.SUM, Event.QUANTILE)  # paid by themselves
OVERLAPPING = (
    "sex = 'Female'",
    "sex = 'Female' AND member = TRUE",
    "age >= 40",
    "age >= 40 AND member = FALSE",
)
RELATIONS = list(NeighboringRelation)
RECORDS = (5, 7, 1234)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    ("composition", "opening", "sums"),
    [
        *((one, pmw.Opening.ONE_WAY, False) for one in Composition),
        (Composition.PURE, pmw.Opening.ONE_WAY, True),
        (Composition.ZCDP, pmw.Opening.PAIRS, True),
        (Composition.GDP, pmw.Opening.PAIRS, True),
        (Composition.GDP, pmw.Opening.TRIPLES, False),
    ],
)
def test_a_session_tells_no_more_of_a_person_than_it_charged(
    frame: pd.DataFrame,
    whole_years: Domain,
    relation: NeighboringRelation,
    composition: Composition,
    opening: pmw.Opening,
    sums: bool,
) -> None:
    age = whole_years["age"]
    assert isinstance(age, IntegerAttribute)
    if sums:
        attributes = (replace(age, width=10, resolution=1), *whole_years.attributes[1:])
        whole_years = replace(whole_years, attributes=attributes)
    tells_quantiles = opening is pmw.Opening.ONE_WAY and not sums
    nearest, quantile, summed = 0.0, 0.0, 0.0
    for record in RECORDS if tells_quantiles and composition is not Composition.PURE else RECORDS[:1]:
        found = run(frame, whole_years, composition, relation, opening, record)
        charged, told = found.charged, defaultdict[Event, float](float)
        for one in found.audit.numbers:
            told[one.event] += told_by_numbers(composition, one)
            if one.event is Event.QUANTILE:
                quantile = max(quantile, told_by_numbers(composition, one) / found.quantile_price)
        for each in found.audit.rounds:
            told[Event.ROUND] += told_by_tests(composition, each.log_ratio)
        for event in ALONE:
            assert told[event] <= charged[event] * (1 + ROUNDING)
        # A positive pays for its test and for what it measures at once.
        tested = [sum(one.values()) - sum(map(one.__getitem__, ALONE)) for one in (told, charged)]
        assert tested[0] <= tested[1] * (1 + ROUNDING)
        assert sum(told.values()) <= sum(charged.values()) == pytest.approx(float(found.spent))
        # In pure DP, and of measured pairs, bars may be narrower than what a quantile could tell.
        assert charged[Event.QUANTILE] > 0 or not tells_quantiles or composition is Composition.PURE
        nearest = max(nearest, sum(told.values()) / sum(charged.values()))
        summed = max(summed, told[Event.SUM] / charged[Event.SUM]) if sums else 0.0
    assert nearest > (
        0.3 if sums and composition is Composition.PURE else 0.6
    )  # the audit sees most of what is charged
    assert not tells_quantiles or composition is Composition.PURE or 0.6 < quantile < 1 + ROUNDING
    assert not sums or summed > (0.2 if relation is NeighboringRelation.ADD_REMOVE else 0.05)
