"""Scales of tests: each kind of sparse vector uses up the price that it is given, and no more."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from pmw.errors import BudgetError
from pmw.planning.calibration import (
    Statistic,
    half_band,
    marginal_noise,
    marginal_statistic,
    query_statistic,
    scaled_test,
    value_noise,
)
from pmw.privacy.budget import Budget, Composition, NeighboringRelation, floor_price
from pmw.privacy.filter import open_filter
from pmw.privacy.random_bits import BitSource
from pmw.public.charges import marginal_charge, quantile_entry
from pmw.public.options import Options, TestKind
from pmw.sparse_vector import (
    NoiseKind,
    NoisyComparison,
    NoisyThreshold,
    Sech2Test,
    Sides,
    Sparse,
    SparseVectorKind,
    ThresholdNoise,
    ThresholdTest,
)
from queries import UNITS

STATISTICS = [
    Statistic(Sides.TWO_THRESHOLDS, UNITS, 1000),
    Statistic(Sides.TWO_SIDED, 3 * UNITS, 10**6),
    Statistic(Sides.ONE_SIDED, 2 * UNITS, 50),
]


@pytest.mark.parametrize("limit", [1, 9, 300])
@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("kind", list(SparseVectorKind))
@pytest.mark.parametrize("composition", list(Composition))
def test_a_whole_run_costs_its_price_and_hardly_less(
    composition: Composition, kind: SparseVectorKind, statistic: Statistic, limit: int
) -> None:
    ledger = open_filter(Budget.of(1, "1e-9"), composition)
    price = ledger.cap / 7
    if kind.is_sech2 and composition is Composition.GDP:
        with pytest.raises(BudgetError, match="expected tests that are proved in GDP"):
            scaled_test(price, limit, statistic, kind, composition)
        return
    test = scaled_test(price, limit, statistic, kind, composition)
    assert (test.sides, test.sensitivity) == (statistic.sides, statistic.sensitivity)
    assert test.monotone == (statistic.sides is Sides.TWO_THRESHOLDS)
    assert isinstance(test, Sech2Test) == kind.is_sech2
    opening, positive = (
        ledger.price(charge) for charge in Sparse(test, limit, kind.redraw).charges(composition)
    )
    spent = (limit if kind.redraw else 1) * opening + limit * positive
    assert Fraction(999, 1000) * price < spent <= price


@pytest.mark.parametrize("relation", list(NeighboringRelation))
@pytest.mark.parametrize("records", [1, 3])
@pytest.mark.parametrize("composition", list(Composition))
def test_noise_costs_its_price_and_hardly_less(
    composition: Composition, records: int, relation: NeighboringRelation
) -> None:
    options = Options(neighboring_relation=relation, records_per_person=records)
    ledger = open_filter(Budget.of(1, "1e-9"), composition)
    for part in (Fraction(1), Fraction(3, 11), Fraction(7, 3001)):
        price = ledger.cap * part
        marginal = marginal_charge(marginal_noise(composition, price, options), options)
        noise = value_noise(composition, floor_price(price), options)
        value = quantile_entry("a kind", noise, options).charge
        for charge in (marginal, value):
            assert Fraction(99_999, 100_000) * price < ledger.price(charge) <= price


def test_statistics_move_as_neighbours_say() -> None:
    replace_one = NeighboringRelation.REPLACE_ONE
    signed = query_statistic(Options(test=TestKind.QUERY, expected_queries=77))
    assert (signed.sides, signed.sensitivity, signed.expected) == (Sides.TWO_THRESHOLDS, UNITS, 77)
    assert query_statistic(Options(neighboring_relation=replace_one)).sides is Sides.TWO_SIDED
    distance = marginal_statistic(5, Options(neighboring_relation=replace_one, records_per_person=3))
    assert (distance.sides, distance.sensitivity, distance.monotone) == (Sides.ONE_SIDED, 6 * UNITS, False)


# --- bands of tests -----------------------------------------------------------------------------------------

GRID = 10_000  # units of a record, so that scales are fine


def exponential(epsilon: float, positives: int) -> ThresholdTest:
    """Return monotone tests at epsilon 1 in all, of which the threshold takes a part."""
    scales = (math.ceil(GRID / epsilon), math.ceil(GRID * positives / (1 - epsilon)))
    return ThresholdTest(
        NoiseKind.EXPONENTIAL, Sides.ONE_SIDED, GRID, True, Fraction(scales[0]), Fraction(scales[1])
    )


@pytest.mark.parametrize(
    ("tests", "positives", "exact"),
    [
        (10**4, 10, 84),
        (10**4, 50, 360),
        (10**4, 200, 1333),
        (10**6, 10, 111),
        (10**6, 50, 483),
        (10**6, 200, 1815),
    ],
)
def test_the_band_is_a_little_wider_than_the_exact_one(tests: int, positives: int, exact: float) -> None:
    shares = [step / 100 for step in range(2, 40)]
    best = min(half_band(exponential(share, positives), tests - positives, positives) for share in shares)
    assert exact < best / GRID < 1.08 * exact


@pytest.mark.parametrize(
    "test",
    [
        ThresholdTest(NoiseKind.EXPONENTIAL, Sides.ONE_SIDED, 1, True, Fraction(300), Fraction(500)),
        ThresholdTest(NoiseKind.LAPLACE, Sides.ONE_SIDED, 1, True, Fraction(300), Fraction(500)),
        Sech2Test(ThresholdNoise.GAUSSIAN, Sides.ONE_SIDED, 1, True, Fraction(300), Fraction(500)),
        Sech2Test(ThresholdNoise.EXPONENTIAL, Sides.ONE_SIDED, 1, True, Fraction(300), Fraction(500)),
    ],
)
def test_runs_err_outside_the_band_no_more_often_than_stated_and_inside_they_do(
    test: NoisyComparison,
) -> None:
    band, bits = math.ceil(half_band(test, 40, 5, beta=0.2)), BitSource.from_integer(4)
    shift = _best_shift(test)
    wrong = {1.0: 0, 0.5: 0}
    for part in wrong:
        values = np.array([-round(part * band)] * 40 + [round(part * band)] * 5)
        kept = test.threshold_noise.sample_array(bits, 300)  # of each run, which its own tests share
        thresholds = np.repeat(shift + kept, 45)
        outcomes = test.compare(NoisyThreshold(0), np.tile(values, 300), thresholds, bits).reshape(300, 45)
        wrong[part] = int((outcomes[:, :40].any(axis=1) | ~outcomes[:, 40:].all(axis=1)).sum())
    assert wrong[1.0] <= 300 * 0.2
    assert wrong[0.5] > 300 * 0.2


def _best_shift(test: NoisyComparison) -> int:
    """Return where the threshold stands for the two kinds of errors to be equally far."""
    fresh = max(1, round(float(test.query_scale)))
    tail = np.arange(0, 60 * fresh, 5)
    tails = 4 if test.noise is NoiseKind.LAPLACE else 3 if test.noise is ThresholdNoise.GAUSSIAN else 2
    part = 0.2 / tails
    rise = int(tail[np.argmax(test.query_noise.survival(tail) <= part / 40)])
    kept = np.arange(0, 3000)
    fall = int(kept[np.argmax(test.threshold_noise.survival(kept) <= part)])
    if test.noise is NoiseKind.LAPLACE:
        rise += fall
        fall += int(tail[np.argmax(test.query_noise.survival(tail) <= part / 5)])
    elif test.noise is ThresholdNoise.GAUSSIAN:
        rise += fall
    return (rise - fall) // 2
