"""Bars of counts from residuals: they hold the truth as often as they say, and hardly more often."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from statistics import NormalDist

import numpy as np
import pytest
from numpy.typing import NDArray

from pmw.model.estimate import Estimate
from pmw.model.measurement import ResidualMeasurement
from pmw.privacy.noise import DiscreteGaussian
from pmw.privacy.random_bits import BitSource, repeatable_seed
from pmw.public.half_widths import AxisNoise, SumNoise
from pmw.public.state import Total
from queries import UNITS
from queries.products import CellSets
from tests.draws import require_scale
from tests.residuals import JOINT, SHORT, Several, Side, ordered_rows

NAMES = ["short", "public number", "tree and bins", "twice", "three short", "three, tree and bins"]
RUNS = 500


def drawn(numbers: list[NDArray[np.int64]], deviations: list[float]) -> list[list[NDArray[np.int64]]]:
    """Return numbers with the noise of each run, each on its own grid."""
    found = []
    for place, (own, deviation) in enumerate(zip(numbers, deviations, strict=True)):
        noise = np.zeros((RUNS, *own.shape), dtype=np.int64)
        if deviation > 0:
            bits = BitSource(repeatable_seed(7, place))
            noise += DiscreteGaussian(Fraction(deviation)).sample_array(bits, noise.size).reshape(noise.shape)
        found.append(own + noise)
    return [list(run) for run in zip(*found, strict=True)]


def table_of(joint: Several) -> NDArray[np.int64]:
    return np.random.default_rng(2).integers(0, 300, [side.cells for side in joint.sides])


@cache
def runs_of(name: str) -> tuple[Estimate, NDArray[np.float64]]:
    """Return the counts of one run, and the errors of all: float64, shape (runs, *cells)."""
    joint = JOINT[name]
    table = table_of(joint)
    numbers, deviations, truth = joint.numbers(table), joint.deviations(), joint.truth(table)
    counts = [joint.counts(run) for run in drawn(numbers, deviations)]
    return counts[0], np.array([one.values - truth for one in counts])


def require_coverage(errors: NDArray[np.float64], widths: dict[float, float]) -> None:
    """Require that errors lie within widths by confidence as often as is said, and of what size they are."""
    for confidence, width in widths.items():
        held, spread = float(np.mean(np.abs(errors) <= width)), math.sqrt(confidence * (1 - confidence))
        assert held >= confidence - 4 * spread / math.sqrt(len(errors))
        assert held <= confidence + 4 * spread / math.sqrt(len(errors))
        require_scale(errors, width / NormalDist().inv_cdf((1 + confidence) / 2), "norm")


def boxes_of(shape: tuple[int, ...]) -> list[tuple[tuple[int, int], ...]]:
    """Return some boxes: two cells, and ranges along one attribute, or along all."""
    last = [size - 1 for size in shape]

    def mixed(*ways: Callable[[int], tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        return tuple(way(one) for way, one in zip(itertools.cycle(ways), last, strict=False))

    return [
        mixed(lambda _: (0, 0)),
        mixed(lambda end: (end, end)),
        mixed(lambda end: (0, end), lambda end: (end, end)),
        mixed(lambda _: (0, 0), lambda end: (0, end)),
        mixed(lambda end: (0, end - 1)),
        mixed(lambda end: (1, end)),
    ]


@pytest.mark.statistical
@pytest.mark.parametrize("name", NAMES)
def test_cells_and_ranges_are_within_their_bars_as_often_as_stated(name: str) -> None:
    counts, errors = runs_of(name)
    for box in boxes_of(JOINT[name].shape):
        sides = tuple(slice(low, high + 1) for low, high in box)
        runs = [CellSets(np.array([low]), np.array([high])) for low, high in box]
        widths = {
            confidence: SumNoise(counts, confidence).product_half_widths(runs).item()
            for confidence in (0.5, 0.95)
        }
        require_coverage(errors[(slice(None), *sides)].sum(axis=tuple(range(1, errors.ndim))), widths)


@pytest.mark.statistical
@pytest.mark.parametrize("name", NAMES)
def test_sums_with_real_weights_are_within_their_bars_as_often_as_stated(name: str) -> None:
    counts, errors = runs_of(name)
    generator = np.random.default_rng(11)
    for _ in range(4):
        weights = generator.normal(generator.normal(0, 2), 1, JOINT[name].shape)
        widths = {one: SumNoise(counts, one).half_width(weights) for one in (0.5, 0.95)}
        require_coverage((errors * weights).sum(axis=tuple(range(1, errors.ndim))), widths)


def test_everybody_is_as_far_off_as_the_number_of_records() -> None:
    counts, _ = runs_of("twice")
    width = SumNoise(counts.over(()), 0.95).half_width(np.ones(()))
    assert width == pytest.approx(9 * NormalDist().inv_cdf(0.975), rel=1e-3)
    public, _ = runs_of("public number")
    assert SumNoise(public.over(()), 0.95).half_width(np.ones(())) == pytest.approx(0, abs=1e-6)


# --- one attribute, for all questions about it at once -----------------------------------------------------


LONG = Side(6, ordered_rows(6), 6.0, ordered_rows(6))


@cache
def alone(side: Side) -> tuple[ResidualMeasurement, NDArray[np.float64]]:
    """Return one attribute measured alone, and its errors in all runs: float64, shape (runs, cells)."""
    table = np.arange(side.cells) * 50 + 20
    numbers, deviations = (
        [np.array([table.sum() * UNITS]), side.numbers(table)],
        [9.0 * UNITS, side.deviation()],
    )
    errors, found = [], None
    for everybody, own in drawn(numbers, deviations):
        found = side.measured(own, Total(1.0, float(everybody[0]) / UNITS, 9.0))
        errors.append(found.values - table)
    assert isinstance(found, ResidualMeasurement)
    return found, np.array(errors)


@pytest.mark.statistical
@pytest.mark.parametrize("side", [SHORT, LONG])
def test_one_attributes_runs_are_within_their_bars_as_often_as_stated(side: Side) -> None:
    measured, errors = alone(side)
    for low, high in [(0, 0), (1, side.cells - 1), (0, side.cells - 2)]:
        run = [CellSets(np.array([low]), np.array([high]))]
        widths = {
            one: SumNoise(measured.estimate, one).product_half_widths(run).item() for one in (0.5, 0.95)
        }
        require_coverage(errors[:, low : high + 1].sum(axis=1), widths)


@pytest.mark.statistical
@pytest.mark.parametrize("confidence", [0.5, 0.95])
@pytest.mark.parametrize("side", [SHORT, LONG])
def test_all_runs_of_one_attribute_hold_together(side: Side, confidence: float) -> None:
    measured, errors = alone(side)
    noise = AxisNoise(measured.estimate, confidence)
    runs = list(itertools.combinations_with_replacement(range(side.cells), 2))
    first, last = np.array(runs).T
    widths = noise.product_half_widths([CellSets(first, last)])
    sums = np.array([errors[:, low : high + 1].sum(axis=1) for low, high in runs]).T
    held = float(np.mean((np.abs(sums) <= widths).all(axis=1)))
    assert held >= confidence - 4 * math.sqrt(confidence * (1 - confidence) / RUNS)
    # Each has its part of what may fail, and no less.
    every = SumNoise(measured.estimate, 1 - (1 - confidence) / len(runs))
    own = every.product_half_widths([CellSets(first, last)])
    assert widths == pytest.approx(own, rel=1e-6)
    assert float(np.mean((np.abs(sums) <= 0.6 * widths).all(axis=1))) < confidence
    # A sum may be chosen after its noise was seen: any weights are steps of runs that hold together.
    within = (np.abs(sums) <= widths).all(axis=1)
    generator = np.random.default_rng(4)
    for _ in range(20):
        weights = generator.integers(-1, 3, side.cells).astype(np.float64)
        assert (np.abs(errors[within] @ weights) <= noise.half_width(weights) + 1e-9).all()


def test_bars_follow_the_least_of_the_noises_that_they_rest_on() -> None:
    # Of noises on several grids the least is taken for all, with as much greater weights: the same variance.
    counts, _ = runs_of("tree and bins")
    weights = np.ones(counts.shape)
    weights[0] = 0.0
    wanted = math.sqrt(counts.weighted_variance(weights)) * NormalDist().inv_cdf(0.975)
    found = SumNoise(counts, 0.95).half_width(weights)
    assert wanted <= found <= 1.001 * wanted
