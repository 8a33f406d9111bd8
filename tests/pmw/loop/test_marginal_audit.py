"""Exact audits of the marginal test: the L1 distance of a marginal, tested, and the marginal measured.

Small tables are enumerated with all their neighbours. A stream is adaptive: the next marginal, the model and
the threshold are functions of the outputs so far. Counts and models live on a grid of 2 units per record, so
that models fall between counts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from pmw.loop.tiers import MarginalRequest, MarginalTier, l1_distance
from pmw.privacy.budget import NeighboringRelation
from pmw.privacy.noise import DiscreteLaplace, Geometric
from pmw.public.plans import MarginalTestPlan
from pmw.research.audit import (
    OutputDistribution,
    releasing,
    stream_distribution,
    tables_of,
    tree_distribution,
    worst_log_ratio,
)
from pmw.sparse_vector import NoiseKind, Sides, Sparse, SparseState, ThresholdTest
from queries import UNITS as RECORD
from queries import CategoricalAttribute, Domain
from tests.draws import MOVES, RELATIONS, Tape, coded, neighbors, read_from_tape, small_tables

UNITS = 2  # of the grid, per record

Outputs: TypeAlias = tuple[int, ...]
Table: TypeAlias = tuple[int, ...]  # records in each cell, row by row


@dataclass(frozen=True, slots=True)
class Asked:
    """A test: the marginal over some axes, the model's cells and the threshold in units."""

    axes: tuple[int, ...]
    model: Table
    threshold: int


Stream: TypeAlias = Callable[[Outputs], Asked | None]


def distance(table: Table, shape: tuple[int, ...], asked: Asked) -> int:
    """Return the sum over the marginal's cells of |count(D) - count(A)|, in units of this grid."""
    dropped = tuple(axis for axis in range(len(shape)) if axis not in asked.axes)
    counts = np.array(table).reshape(shape).sum(axis=dropped)
    model = np.array(asked.model).reshape(shape).sum(axis=dropped)
    finer = RECORD // UNITS  # of the session's grid, per unit of this one
    found = l1_distance(counts, model * finer)
    assert found % finer == 0
    return found // finer


def vector(
    relation: NeighboringRelation,
    limit: int,
    *,
    redraw: bool = False,
    noise: NoiseKind = NoiseKind.EXPONENTIAL,
) -> Sparse:
    sensitivity = UNITS * MOVES[relation]
    test = ThresholdTest(noise, Sides.ONE_SIDED, sensitivity, False, Fraction(6), Fraction(8))
    return Sparse(test, limit, redraw)


def distribution_of(
    sparse: Sparse, table: Table, shape: tuple[int, ...], stream: Stream
) -> OutputDistribution:
    def ask(outputs: Outputs) -> int | None:
        asked = stream(outputs)
        return None if asked is None else distance(table, shape, asked) - asked.threshold

    return tree_distribution(tables_of(sparse, 0), ask)


def worst(
    distributions: Callable[[Table], OutputDistribution],
    found: Sequence[Table],
    relation: NeighboringRelation,
) -> float:
    known = {table: distributions(table) for table in found}
    return max(worst_log_ratio(known[one], known[other]) for one, other in neighbors(found, relation))


def wandering(shape: tuple[int, ...], seed: int, tests: int, *, only_at_positives: bool) -> Stream:
    """A stream whose marginals, thresholds and models change at random with the outputs.

    The model changes with every output or, as in the loop, at positives only.
    """
    scopes = [
        axes for size in range(len(shape) + 1) for axes in itertools.combinations(range(len(shape)), size)
    ]

    @cache  # every table is asked the same
    def ask(outputs: Outputs) -> Asked | None:
        if len(outputs) == tests:
            return None
        generator = np.random.default_rng([seed, 1, *outputs])
        since = max((place + 1 for place, output in enumerate(outputs) if output), default=0)
        seen = outputs[:since] if only_at_positives else outputs
        model = np.random.default_rng([seed, 2, *seen]).integers(0, 4 * UNITS, math.prod(shape))
        axes = scopes[int(generator.integers(len(scopes)))]
        return Asked(axes, tuple(int(cell) for cell in model), int(generator.integers(0, 6 * UNITS)))

    return ask


def opposed(negatives: int, threshold: int, *, cells: int = 2) -> Stream:
    """Negatives against a model without the first cell, each with a positive against one with nothing else.

    A record added to the first cell raises the first distance and lowers the second: the case that a price
    for values that all move the same way leaves out.
    """
    without = (0, 8, *[0] * (cells - 2))
    only = (8, 0, *[0] * (cells - 2))

    def ask(outputs: Outputs) -> Asked | None:
        if len(outputs) == 2 * (negatives + 1):
            return None
        place = len(outputs) % (negatives + 1)
        return Asked((0,), without if place < negatives else only, threshold)

    return ask


SHAPES = [((2,), 4), ((2, 2), 4), ((2, 3), 4)]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("shape", "records"), SHAPES)
@pytest.mark.parametrize(("limit", "redraw"), [(1, False), (2, False), (2, True)])
@pytest.mark.parametrize("noise", list(NoiseKind))
def test_every_adaptive_stream_stays_within_its_claim(
    relation: NeighboringRelation,
    shape: tuple[int, ...],
    records: int,
    limit: int,
    redraw: bool,
    noise: NoiseKind,
) -> None:
    sparse = vector(relation, limit, redraw=redraw, noise=noise)
    found = small_tables(math.prod(shape), records)
    for seed in range(2):
        stream = wandering(shape, seed, 4, only_at_positives=bool(seed % 2))
        assert worst(lambda t, ask=stream: distribution_of(sparse, t, shape, ask), found, relation) <= (  # type: ignore[misc]
            float(sparse.epsilon) + 1e-9
        )


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("limit", "redraw"), [(1, False), (2, False), (2, True)])
def test_the_claim_is_attained(relation: NeighboringRelation, limit: int, redraw: bool) -> None:
    # No cheaper price is sound: exponential noise meets the bound where distances lie at their thresholds.
    sparse = vector(relation, limit, redraw=redraw)
    found = small_tables(2, 4)
    ratios = [
        worst(lambda t, at=at: distribution_of(sparse, t, (2,), opposed(1, at)), found, relation)  # type: ignore[misc]
        for at in range(14)
    ]
    assert max(ratios) == pytest.approx(float(sparse.epsilon), abs=1e-9)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("noise", list(NoiseKind))
def test_the_price_of_monotone_values_is_caught(relation: NeighboringRelation, noise: NoiseKind) -> None:
    # The same noise at Delta/b for a positive: one table and its neighbour tell otherwise.
    sparse = vector(relation, 1, noise=noise)
    monotone = float(sparse.test.threshold_price + sparse.test.positive_price / 2)
    ratio = worst(lambda t: distribution_of(sparse, t, (2,), opposed(4, 4)), small_tables(2, 4), relation)
    assert ratio > monotone + 0.1
    assert ratio <= float(sparse.epsilon) + 1e-9


def test_the_counterexample_by_hand() -> None:
    # Three records in the first cell, then four. Against (0, 4) records the distance rises from 7 to 8,
    # against (4, 0) it falls from 1 to 0; thresholds of 7 and 1 records, scales of 3 and 4 records.
    # A negative needs rho > s - T: from 1 unit on for three records, from 3 units on for four.
    sparse = vector(NeighboringRelation.ADD_REMOVE, 1)
    stream = [Asked((0,), (0, 8), 14), Asked((0,), (8, 0), 2)]

    def ask(outputs: Outputs) -> Asked | None:
        return stream[len(outputs)] if len(outputs) < 2 else None

    first, second = (distribution_of(sparse, table, (2,), ask) for table in ((3, 0), (4, 0)))
    ratio = math.log(first[0, 1] / second[0, 1])
    assert ratio > 1 / 3 + 1 / 4 + 0.1  # what one threshold and one monotone positive would cost
    assert ratio == pytest.approx(1 / 3 + 2 / 4, abs=1e-9)


@pytest.mark.parametrize(
    ("halved", "relation", "at"),
    [
        (False, NeighboringRelation.REPLACE_ONE, 16),  # the sensitivity of one record added
        # The bound that a certificate gives is half a distance; the noise of the distance itself must stay
        # whole.
        (True, NeighboringRelation.ADD_REMOVE, 8),
    ],
)
def test_too_little_noise_at_the_full_price_is_caught(
    halved: bool, relation: NeighboringRelation, at: int
) -> None:
    claimed = sparse = vector(NeighboringRelation.ADD_REMOVE, 1)
    if halved:
        test = replace(claimed.test, threshold_scale=Fraction(3), query_scale=Fraction(4))
        sparse = replace(claimed, test=test)
    ratio = worst(lambda t: distribution_of(sparse, t, (2,), opposed(1, at)), small_tables(2, 4), relation)
    assert ratio > float(claimed.epsilon) + 0.1


@pytest.mark.parametrize(("units", "caught"), [(1, True), (2, False)])
def test_half_distances_need_a_grid_on_which_half_a_record_is_whole(units: int, caught: bool) -> None:
    # Rounded down, half the distance moves by at most Delta/2 where Delta is even, else by up to 1.
    noise = (Fraction(3 * units, 2), Fraction(2 * units))
    test = ThresholdTest(NoiseKind.EXPONENTIAL, Sides.ONE_SIDED, 1, False, *noise)
    claimed = units / 2 / float(noise[0]) + 2 * units / 2 / float(noise[1])

    def distribution(table: Table, threshold: int) -> OutputDistribution:
        def ask(outputs: Outputs) -> int | None:
            if len(outputs) == 2:
                return None
            model = ((0, 4 * units), (4 * units, 0))[len(outputs)]
            found = sum(abs(units * count - cell) for count, cell in zip(table, model, strict=True))
            return found // 2 - threshold

        return tree_distribution(tables_of(Sparse(test, 1, redraw=False), 0), ask)

    ratios = [
        worst(lambda t, at=at: distribution(t, at), small_tables(2, 4), NeighboringRelation.ADD_REMOVE)  # type: ignore[misc]
        for at in range(6)
    ]
    assert (max(ratios) > claimed + 0.1) if caught else (max(ratios) <= claimed + 1e-9)


# --- the marginal that a positive measures -----------------------------------------------------------------

LOW, HIGH = -1, 3  # noisy counts outside are shown as these, which is free: the ends collect the tails


def clipped(noise: DiscreteLaplace, count: int) -> NDArray[np.float64]:
    """Return the distribution of one noisy count, clipped to LOW..HIGH."""
    shown = np.arange(LOW, HIGH + 1)
    distribution = noise.pmf(shown - count)
    distribution[0] = 1 - noise.survival(np.array([LOW + 1 - count]))[0]
    distribution[-1] = noise.survival(np.array([HIGH - count]))[0]
    return distribution


def measured(noise: DiscreteLaplace, table: Table) -> NDArray[np.float64]:
    """Return the distribution of a noisy marginal of two cells, cell by cell: the product."""
    return np.outer(*(clipped(noise, count) for count in table)).ravel()


def shown(output: int) -> tuple[int, int]:
    """Return the two noisy counts of a positive's output."""
    first, second = divmod(output - 1, HIGH - LOW + 1)
    return first + LOW, second + LOW


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("redraw", [False, True])
def test_the_whole_loop_stays_within_its_claim(relation: NeighboringRelation, redraw: bool) -> None:
    # Test, measure the marginal, fit the model to the noisy counts, test again; at most two are measured. All
    # outcomes and noisy counts are outputs, and the next test is a function of them.
    noise = DiscreteLaplace(Fraction(4))
    sensitivity = MOVES[relation]
    test = ThresholdTest(NoiseKind.EXPONENTIAL, Sides.ONE_SIDED, sensitivity, False, Fraction(3), Fraction(4))
    sparse = Sparse(test, 2, redraw)
    claimed = float(sparse.epsilon + 2 * sensitivity / noise.scale)
    releases = {table: dict(enumerate(measured(noise, table).tolist(), 1)) for table in small_tables(2, 2)}

    def distribution(table: Table, thresholds: tuple[int, ...]) -> OutputDistribution:
        def ask(outputs: Outputs) -> int | None:
            if len(outputs) == len(thresholds):
                return None
            model: Table = (0, 3)
            for output in outputs:
                # LaterMeasurement: the noisy counts. Certified: the opposite, the worst that a next model may
                # be.
                model = tuple(max(0, count) for count in shown(output)) if output else model[::-1]
            found = sum(abs(count - cell) for count, cell in zip(table, model, strict=True))
            return found - thresholds[len(outputs)]

        return tree_distribution(releasing(tables_of(sparse, 0), lambda _: releases[table]), ask)

    ratios = [
        worst(lambda t, at=thresholds: distribution(t, at), small_tables(2, 2), relation)  # type: ignore[misc]
        for thresholds in (2 * pair for pair in itertools.product((1, 2), repeat=2))
    ]
    assert max(ratios) <= claimed + 1e-9
    assert max(ratios) > claimed - 0.35


def test_a_loop_that_forgets_the_price_of_what_it_measured_is_caught() -> None:
    noise = DiscreteLaplace(Fraction(2))
    sparse = vector(NeighboringRelation.ADD_REMOVE, 1)

    def distribution(table: Table) -> OutputDistribution:
        def ask(outputs: Outputs) -> int | None:
            asked = opposed(1, 4)(outputs)
            return None if asked is None else distance(table, (2,), asked) - asked.threshold

        counted = dict(enumerate(measured(noise, table).tolist(), 1))
        return tree_distribution(releasing(tables_of(sparse, 0), lambda _: counted), ask)

    ratio = worst(distribution, small_tables(2, 4), NeighboringRelation.ADD_REMOVE)
    assert float(sparse.epsilon) + 0.1 < ratio <= float(sparse.epsilon) + 1 / 2 + 1e-9


# --- what a negative promises -----------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.5, 0.05, 0.001])
def test_a_negative_bounds_every_distance_of_its_round(beta: float) -> None:
    # nu >= 0: a negative has s < T + rho, so all negatives of a round hold where rho - 1 <= b1 ln(1/beta).
    sparse = vector(NeighboringRelation.ADD_REMOVE, 1)
    test = sparse.test
    margin = test.negative_margin(1 - beta)
    outside = math.floor(margin) + 1  # the smallest excess s - T that the bound excludes
    assert float(test.threshold_noise.survival(np.array([outside + 1]))[0]) <= beta
    exact = tables_of(sparse, 0)
    (certified,) = exact.outcomes(outside)[0]
    for retests in (1, 10, 1000):  # asked again and again while negative
        assert float(np.sum(exact.weights[0] * certified**retests)) <= beta
    assert (
        float(test.threshold_noise.survival(np.array([outside - 1]))[0]) >= beta
    )  # wide by one unit at most


# --- the session's own draws, over all of their noise -----------------------------------------------------


ONE = Domain((CategoricalAttribute("a", ("p", "q")),))


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_sessions_draws_have_the_audited_distribution_and_release_the_marginal_they_tested(
    relation: NeighboringRelation, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_from_tape(monkeypatch, DiscreteLaplace, Geometric)
    # Scales of whole records: noise of 0, 1, 2, ... records, so that all of it can be enumerated.
    scales = (Fraction(1), Fraction(2))
    records = ThresholdTest(NoiseKind.EXPONENTIAL, Sides.ONE_SIDED, MOVES[relation], False, *scales)
    units = replace(
        records,
        sensitivity=MOVES[relation] * RECORD,
        threshold_scale=scales[0] * RECORD,
        query_scale=scales[1] * RECORD,
    )
    plan = MarginalTestPlan(
        Sparse(units, 1, redraw=True), DiscreteLaplace(Fraction(3 * RECORD)), 1.0, 0, (0, 1), 2, 2, 2, 16
    )
    request = MarginalRequest(("a",), np.array([2 * RECORD, 0]), RECORD, ("a",))
    sizes = 24, 46  # beyond, e^-23
    shares = [
        noise.pmf(np.arange(size))
        for noise, size in zip((records.threshold_noise, records.query_noise), sizes, strict=True)
    ]
    distributions: dict[Table, OutputDistribution] = {}
    for table in small_tables(2, 2):
        source = coded(ONE, np.repeat(np.arange(2), table))
        positive = 0.0
        for first, second in itertools.product(*map(range, sizes)):
            tape = Tape((first, second, 5, -7))
            draws, kept = MarginalTier(0, plan).draw([request], SparseState(None, 0), source, tape)
            assert kept is None if draws.outcomes[0] else kept is not None
            if draws.outcomes[0]:
                positive += shares[0][first] * shares[1][second]
                assert isinstance(draws.released, np.ndarray)
                assert draws.released.tolist() == [(table[0] + 5) * RECORD, (table[1] - 7) * RECORD]
            else:
                assert draws.released is None
            assert len(tape.left) == (0 if draws.outcomes[0] else 2)  # cells draw at a positive only
        distributions[table] = {(0,): 1 - positive, (1,): positive}
        exact = tables_of(Sparse(records, 1, redraw=True), 1)
        audited = stream_distribution(exact, (abs(table[0] - 2) + table[1],))
        assert distributions[table][1,] == pytest.approx(audited[1,], abs=1e-9)
    claimed = float(Sparse(records, 1, redraw=True).epsilon)
    found = max(
        worst_log_ratio(distributions[a], distributions[b])
        for a, b in neighbors(list(distributions), relation)
    )
    assert found <= claimed + 1e-6
