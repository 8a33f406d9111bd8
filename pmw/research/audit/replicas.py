"""Replicas: many independent runs of a mechanism at once, with its own exact noise.

All runs make the same test at the same time, each with its own threshold noise. The comparison and the noise
are the implementation's; only the loop over tests stands here, since an implementation runs one stream after
the other. The draws come in another order than in single runs; their distribution is the same, and the tests
compare both with the distribution that is enumerated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from pmw.privacy.random_bits import BitSource
from pmw.sparse_vector import NoisyComparison, NoisyThreshold, Sides

NOT_RUN = -(2**40)  # stands in place of the tests after the halt


@dataclass(frozen=True, slots=True, eq=False)
class ReplicaTest:
    """What a mechanism does at one test, for many runs at once.

    Args:
        open: draws the threshold noise of a round in each of so many runs: int64, shape (draws, runs).
        outcome: for threshold noise of shape (draws, runs), a value and its threshold, what each run
            releases: int64, shape (runs,); 0 is a negative, any other number a positive.
        update_limit: positives after which a run halts.
        redraw: new threshold noise after each positive.
    """

    open: Callable[[int, BitSource], NDArray[np.int64]]
    outcome: Callable[[NDArray[np.int64], int, int, BitSource], NDArray[np.int64]]
    update_limit: int
    redraw: bool = False


def replica_test(test: NoisyComparison, update_limit: int, *, redraw: bool) -> ReplicaTest:
    """Return the replicas of an implemented comparison: its own noise and its own ``compare``."""
    draws = 2 if test.sides is Sides.TWO_THRESHOLDS else 1

    def open_round(runs: int, bits: BitSource) -> NDArray[np.int64]:
        return test.threshold_noise.sample_array(bits, draws * runs).reshape(draws, runs)

    def outcome(noisy: NDArray[np.int64], value: int, threshold: int, bits: BitSource) -> NDArray[np.int64]:
        # One run per entry: the comparison adds its threshold noise to the thresholds, whatever its shape.
        kept = NoisyThreshold(cast(int, noisy[0]), None if draws == 1 else cast(int, noisy[1]))
        runs = noisy.shape[1]
        outcomes = test.compare(kept, np.full(runs, value), np.full(runs, threshold), bits)
        return outcomes.astype(np.int64)

    return ReplicaTest(open_round, outcome, update_limit, redraw)


def run_replicas(
    test: ReplicaTest, values: Sequence[int], thresholds: Sequence[int], runs: int, bits: BitSource
) -> NDArray[np.int64]:
    """Return what each run releases at each test: int64, shape (runs, tests), NOT_RUN after its halt.

    Args:
        test: the mechanism.
        values: the statistic of each test, shape (tests,).
        thresholds: of each test, shape (tests,).
        runs: independent runs.
        bits: source of the noise.
    """
    released = np.full((runs, len(values)), NOT_RUN, dtype=np.int64)
    noisy = test.open(runs, bits)
    positives = np.zeros(runs, dtype=np.int64)
    active = np.arange(runs)
    for place, (value, threshold) in enumerate(zip(values, thresholds, strict=True)):
        outcomes = test.outcome(noisy[:, active], value, threshold, bits)
        released[active, place] = outcomes
        passed = active[outcomes != 0]
        positives[passed] += 1
        if test.redraw and len(passed):
            noisy[:, passed] = test.open(len(passed), bits)
        active = active[positives[active] < test.update_limit]
        if not len(active):
            break
    return released


def output_codes(*sides: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return a number for each run's whole output, the same for equal outputs on all sides.

    Args:
        sides: int64, shape (runs, tests) each, with the same number of tests.
    """
    rows = np.concatenate(sides)
    codes = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        names, numbers = np.unique(column, return_inverse=True)
        # Renumbered at every column: codes stay below the number of rows, and products below 2^63.
        codes = np.unique(codes * len(names) + numbers, return_inverse=True)[1]
    return np.split(codes, np.cumsum([len(side) for side in sides])[:-1])
