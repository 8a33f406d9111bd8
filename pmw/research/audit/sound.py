"""Sound mechanisms with their claims, and the instances on which they are audited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pmw.research.audit.entries import Claim, Entry, Instance, Measure, Values, draw_from, table_distribution
from pmw.research.audit.exact import tables_of
from pmw.research.audit.replicas import replica_test
from pmw.research.audit.trees import Factors, OutcomeTables, outcome_tables
from pmw.sparse_vector import AboveThreshold, NoiseKind, NumericSparse, Sides, Sparse, ThresholdTest

_LIMIT = 2  # positives of each run
# One-sided noise attains its bound where values lie at the threshold, two-sided noise far from it.
NEAR: tuple[tuple[Values, int], ...] = (
    ((2, 2, 2, 2, 2), 2), ((1, 4, 1, 4, 1), 2), ((4, 1, 2, 4, 4), 2), ((0, 2, 4, 2, 0), 2),
)  # fmt: skip
_FAR = (*NEAR[:1], ((-6, 9, -6, 9, 2), 2))
RUNS_NEAR = Instance((2, 2, 2, 2, 2), (3, 3, 3, 1, 1), 2)
RUNS_RISING = Instance((2, 2, 2, 2, 2), (3, 3, 3, 2, 2), 2)


def sound_entries() -> Iterator[Entry]:
    """Return every sound mechanism."""
    yield from _textbook()
    yield from _exponential()


def _textbook() -> Iterator[Entry]:
    far = Instance((30,) * 7 + (-60,), (31,) * 7 + (-61,))
    test = AboveThreshold.textbook(epsilon=1).test
    yield sparse_entry(
        "above-threshold",
        Sparse(test, 1, redraw=False),
        (RUNS_NEAR, far),
        "Dwork and Roth (2014), Algorithm 1",
    )
    sparse = Sparse.textbook(epsilon=1, update_limit=_LIMIT)
    rounds = Instance(2 * far.first, 2 * far.second)
    yield sparse_entry("sparse", sparse, (RUNS_NEAR, rounds), "Dwork and Roth (2014), Algorithm 2")
    numeric = NumericSparse.textbook(epsilon=1, update_limit=_LIMIT)
    yield numeric_entry("numeric-sparse", numeric, (RUNS_NEAR, rounds), "Dwork and Roth (2014), Algorithm 3")


def _exponential() -> Iterator[Entry]:
    source = "Liu et al. (2024) for exponential noise"
    for name, sides, monotone in (
        ("exponential", Sides.ONE_SIDED, False),
        ("exponential-monotone", Sides.ONE_SIDED, True),
        ("exponential-absolute", Sides.TWO_SIDED, False),
        ("two-thresholds", Sides.TWO_THRESHOLDS, True),
    ):
        test = ThresholdTest(NoiseKind.EXPONENTIAL, sides, 1, monotone, Fraction(3), Fraction(4))
        stated = (RUNS_RISING if monotone else RUNS_NEAR,)
        yield sparse_entry(name, Sparse(test, _LIMIT, redraw=False), stated, source)
        yield sparse_entry(name + "-redrawn", Sparse(test, _LIMIT, redraw=True), stated, source)


def sparse_entry(name: str, sparse: Sparse, stated: tuple[Instance, ...], source: str) -> Entry:
    """Return the entry of an implemented run of tests, at the epsilon that it charges."""
    test = sparse.test

    def tables(threshold: int) -> OutcomeTables:
        return outcome_tables(tables_of(test, threshold), sparse.update_limit, redraw=sparse.redraw)

    return Entry(
        name=name,
        claim=_claim_of(sparse),
        distribution=table_distribution(tables),
        instances=stated,
        draw=draw_from(replica_test(test, sparse.update_limit, redraw=sparse.redraw)),
        source=source,
        bases=_FAR if test.noise is NoiseKind.LAPLACE else NEAR,
        monotone=test.monotone,
        tables=tables,
    )


def _claim_of(sparse: Sparse) -> Claim:
    """Return the epsilon of a run, or the rho of one whose noise is not pure."""
    threshold, positive = sparse.test.threshold_charge, sparse.test.positive_charge
    if threshold.epsilon is None or positive.epsilon is None:
        return Claim(Measure.RHO, threshold.rho + sparse.update_limit * positive.rho, tight=False)
    return Claim(Measure.EPSILON, sparse.total_epsilon)


def numeric_entry(name: str, numeric: NumericSparse, stated: tuple[Instance, ...], source: str) -> Entry:
    """Return the entry of an implemented run of tests that releases values with fresh noise."""
    tests = sparse_entry(name, numeric.sparse, stated, source)
    epsilon = numeric.value_charge.epsilon
    price = Fraction(0) if epsilon is None else numeric.sparse.update_limit * epsilon

    def tables(threshold: int) -> OutcomeTables:
        return numeric_tables(numeric, threshold)

    return replace(
        tests,
        claim=Claim(Measure.EPSILON, numeric.sparse.total_epsilon + price),
        distribution=table_distribution(tables),
        draw=None,
        tables=tables,
    )


def numeric_tables(numeric: NumericSparse, threshold: int) -> OutcomeTables:
    """Return the outcomes of tests that release values with fresh noise, at two values far to either side.

    Between neighbours, the log-ratio of discrete Laplace noise is largest outside of both values and the same
    all the way, so these two outputs show the worst of all.
    """
    whole = outcome_tables(
        tables_of(numeric.sparse.test, threshold), numeric.sparse.update_limit, redraw=numeric.sparse.redraw
    )
    far = (-200, 200)

    def outcomes(value: int) -> Mapping[int, Factors]:
        kept: dict[int, Factors] = {}
        for output, factors in whole.outcomes(value).items():
            if output == 0:
                kept[0] = factors
            else:
                distribution: NDArray[np.float64] = numeric.value_noise.pmf(np.array(far) - value)
                kept |= {
                    one: (factors[0] * p, *factors[1:]) for one, p in zip(far, distribution, strict=True)
                }
        return kept

    return OutcomeTables(whole.weights, outcomes, whole.update_limit, whole.redraw)
