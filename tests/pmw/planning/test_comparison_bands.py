"""Bands of tests: what lies outside them is told right as often as they say."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from pmw.planning.calibration import half_band
from pmw.privacy.random_bits import BitSource
from pmw.sparse_vector import NoiseKind, NoisyComparison, Sech2Test, Sides, ThresholdNoise, ThresholdTest

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
        thresholds = np.full(45, shift)
        for _ in range(300):
            outcomes = test.compare(test.draw_threshold(bits), values, thresholds, bits)
            wrong[part] += bool(outcomes[:40].any() or not outcomes[40:].all())
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


def test_a_wider_test_has_a_wider_band() -> None:
    narrow, wide = exponential(0.2, 10), exponential(0.2, 20)
    assert half_band(narrow, 1000, 10) < half_band(narrow, 10_000, 10) < half_band(wide, 10_000, 10)
