"""Replicas: many runs at once have the distribution that is enumerated."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pmw.privacy.random_bits import BitSource
from pmw.research.audit import OutputDistribution, output_distribution_of, replica_test, run_replicas
from pmw.research.audit.statistical import NOT_RUN, output_codes
from pmw.sparse_vector import NoiseKind, Sides, Sparse, ThresholdTest

VALUES, THRESHOLD, RUNS = (1, -3, 3, 2), 2, 20_000


def released(scale: Fraction, sides: Sides, redraw: bool) -> NDArray[np.int64]:
    monotone = sides is Sides.TWO_THRESHOLDS
    test = ThresholdTest(NoiseKind.EXPONENTIAL, sides, 1, monotone, scale, Fraction(4))
    replicas = replica_test(test, 2, redraw=redraw)
    return run_replicas(replicas, VALUES, (THRESHOLD,) * 4, RUNS, BitSource.from_integer(17))


def distribution_of(sides: Sides, redraw: bool) -> OutputDistribution:
    monotone = sides is Sides.TWO_THRESHOLDS
    test = ThresholdTest(NoiseKind.EXPONENTIAL, sides, 1, monotone, Fraction(3), Fraction(4))
    return output_distribution_of(Sparse(test, 2, redraw), THRESHOLD, VALUES)


def fit(rows: NDArray[np.int64], distribution: OutputDistribution) -> float:
    """Return the probability of so bad a fit."""
    outputs = list(distribution)
    padded = np.array([list(one) + [NOT_RUN] * (4 - len(one)) for one in outputs])
    counts = np.array([int((rows == one).all(axis=1).sum()) for one in padded])
    assert counts.sum() == len(rows), "an output without a place in the distribution"
    expected = np.array([distribution[one] for one in outputs]) * len(rows)
    kept = expected >= 5
    statistic = float((((counts - expected) ** 2) / expected)[kept].sum())
    return float(stats.chi2.sf(statistic, int(kept.sum())))


@pytest.mark.statistical
@pytest.mark.parametrize("redraw", [False, True])
@pytest.mark.parametrize("sides", list(Sides))
def test_many_runs_at_once_have_the_enumerated_distribution(sides: Sides, redraw: bool) -> None:
    distribution = distribution_of(sides, redraw)
    assert fit(released(Fraction(3), sides, redraw), distribution) > 1e-4
    for wrong in (Fraction(10, 13), Fraction(13, 10)):
        assert fit(released(3 * wrong, sides, redraw), distribution) < 1e-6


def test_a_run_ends_with_its_last_positive() -> None:
    rows = released(Fraction(3), Sides.ONE_SIDED, True)
    for row in rows[:500]:
        ended = np.flatnonzero(row == NOT_RUN)
        asked = row[: ended[0]] if len(ended) else row
        assert (asked != 0).sum() <= 2
        assert not len(ended) or (asked[-1] == 1 and (asked != 0).sum() == 2)


def test_equal_outputs_get_equal_codes_on_both_sides() -> None:
    first, second = np.array([[0, 1], [5, NOT_RUN]]), np.array([[5, NOT_RUN], [0, 2], [0, 1]])
    ours, theirs = output_codes(first, second)
    assert ours[0] == theirs[2]
    assert ours[1] == theirs[0]
    assert len({*ours.tolist(), *theirs.tolist()}) == 3
