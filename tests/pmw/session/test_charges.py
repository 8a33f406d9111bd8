"""Charges against noise: what a session charged, recomputed from the noise that it was seen to draw.

Sessions of random schemas, budgets and options are watched from below: every draw of noise is noted with its
distribution. The prices are worked out here from the scales alone, with formulas of their own, so that
neither a plan nor the ledger is believed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import pmw
from pmw.data import CountSource
from pmw.loop.loop import draw_tests
from pmw.loop.tiers import Proposal
from pmw.model.measurement import HierarchicalMeasurement, Measurement, QueryMeasurement
from pmw.privacy.budget import Composition, NeighboringRelation, zcdp_epsilon
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, Geometric, SechSquared
from pmw.public.options import ModelKind, Opening, UpdateRule
from pmw.public.plans import MarginalTestPlan
from pmw.public.state import PublicState
from pmw.sparse_vector import Sides, SparseVectorKind
from queries import UNITS, CategoricalAttribute, Domain, LinearQuery
from tests.worlds import JOINED, PEOPLE

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
KINDS: dict[str, list[dict[str, Any]]] = {
    "marginal": [
        {}, VECTOR, PURE, SECH2, {**SECH2, **PURE}, {"sparse_vector": SparseVectorKind.LAPLACE_ROUNDS},
        {"simultaneous": True}, {"opening": Opening.NONE}, {"records_per_person": 3}, {"max_cells": 60},
        {"update_limit": 2}, {**PURE, "sparse_vector": SparseVectorKind.EXPONENTIAL_ROUNDS},
    ],
    "query": [
        VECTOR, PURE, {**VECTOR, **PURE}, SECH2, {**SECH2, **PURE}, {**SECH2, "sides": Sides.TWO_SIDED},
        {"update": UpdateRule.STEP, "opening": Opening.NONE}, {"records_per_person": 4}, {"update_limit": 2},
        {"sparse_vector": SparseVectorKind.LAPLACE_ROUNDS, "sides": Sides.TWO_SIDED},
    ],
}  # fmt: skip


@pytest.mark.parametrize(("test", "choices"), [(test, one) for test, some in KINDS.items() for one in some])
def test_every_kind_of_session_charges_what_it_draws_and_its_books_hold(
    test: str, choices: dict[str, Any], watch: Watch
) -> None:
    joined, people = (("a", "b"), "abc", "abcde", ("b", "c")), (*PEOPLE_ASKED, *PEOPLE_ASKED[:3])
    asked: list[Any] = [LinearQuery.cells(JOINED.domain, dict.fromkeys(one, (0, 3))) for one in joined]
    world, chosen = JOINED, {"update_limit": 4, "model": ModelKind.GRAPHICAL}
    if test == "query":
        world, asked, chosen = PEOPLE, list(people), {"update_limit": 5, "threshold": 40.0}
    delta = 0 if choices.get("composition") is Composition.PURE else 1e-9
    with world.opened(epsilon=4, delta=delta, seed=5, test=test, **{**chosen, **choices}) as session:
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
