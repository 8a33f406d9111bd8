"""Sound mechanisms with their claims, and the instances on which they are audited.

Those of sessions come first; then the wider family: numbered algorithms, gaps, values, sech^2 tests and
offline choices.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np

from pmw.privacy.noise import DiscreteLaplace
from pmw.research.audit.entries import Claim, Entry, Instance, Measure, Values, draw_from, table_distribution
from pmw.research.audit.exact import (
    Factors,
    OutcomeTables,
    OutputDistribution,
    Outputs,
    releasing,
    tables_of,
)
from pmw.research.audit.statistical import replica_test
from pmw.research.sparse_vectors import (
    FreeGap,
    NaiveAboveThreshold,
    Retraversal,
    TopC,
    algorithm_1,
    algorithm_2,
    algorithm_7,
    numeric_algorithm_7,
)
from pmw.sparse_vector import (
    AboveThreshold,
    Comparison,
    NoiseKind,
    NumericSparse,
    Ratio,
    Sech2Test,
    Sides,
    Sparse,
    Split,
    ThresholdNoise,
    ThresholdTest,
)

_LIMIT = 2  # positives of each run
# One-sided noise attains its bound where values lie at the threshold, two-sided noise far from it.
NEAR: tuple[tuple[Values, int], ...] = (
    ((2, 2, 2, 2, 2), 2), ((1, 4, 1, 4, 1), 2), ((4, 1, 2, 4, 4), 2), ((0, 2, 4, 2, 0), 2),
)  # fmt: skip
_FAR_BASES = (*NEAR[:1], ((-6, 9, -6, 9, 2), 2))
RUNS_NEAR = Instance((2, 2, 2, 2, 2), (3, 3, 3, 1, 1), 2)
RUNS_RISING = Instance((2, 2, 2, 2, 2), (3, 3, 3, 2, 2), 2)
_FAR_RUNS = Instance((60,) * 8 + (-60,) * _LIMIT, (61,) * 8 + (-61,) * _LIMIT)
_FAR_RISING = Instance((60,) * 8 + (-60,) * _LIMIT, (61,) * 8 + (-60,) * _LIMIT)
_FAR_ROUNDS = Instance(((30,) * 7 + (-60,)) * 2, ((31,) * 7 + (-61,)) * 2)
# Of the tests, the tail alone costs its whole price.
_TAIL = Instance((12,) * 3 + (-60,) * _LIMIT, (13,) * 3 + (-61,) * _LIMIT, 2)
_TAIL_RISING = Instance((12,) * 3 + (-60,) * _LIMIT, (13,) * 3 + (-60,) * _LIMIT, 2)
_GAPS = (0, 1, 4, 12)
_FAR_VALUES = (-200, 200)


def sound_entries() -> Iterator[Entry]:
    """Return every sound mechanism, each at the epsilon or rho that it charges."""
    yield from _textbook()
    yield from _exponential()
    yield from _numbered()
    yield _naive()
    yield _free_gap()
    yield from _sech2()
    yield _composed()
    yield from _offline()


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
        return tables_of(sparse, threshold)

    return Entry(
        name=name,
        claim=_claim_of(sparse),
        distribution=table_distribution(tables),
        instances=stated,
        draw=draw_from(replica_test(test, sparse.update_limit, redraw=sparse.redraw)),
        source=source,
        bases=_FAR_BASES if test.noise is NoiseKind.LAPLACE else NEAR,
        monotone=test.monotone,
        tables=tables,
    )


def _claim_of(sparse: Sparse) -> Claim:
    """Return the epsilon of a run, or the rho of one whose noise is not pure."""
    threshold, positive = sparse.test.threshold_charge, sparse.test.positive_charge
    if threshold.epsilon is None or positive.epsilon is None:
        return Claim(Measure.RHO, threshold.rho + sparse.update_limit * positive.rho, tight=False)
    return Claim(Measure.EPSILON, sparse.epsilon)


def numeric_entry(name: str, numeric: NumericSparse, stated: tuple[Instance, ...], source: str) -> Entry:
    """Return the entry of an implemented run of tests that releases values with fresh Laplace noise.

    Values are enumerated at two places far to either side. Between neighbours, the log-ratio of discrete
    Laplace noise is largest outside of both values and the same all the way, so these two outputs show the
    worst of all.
    """

    def results(value: int) -> Mapping[int, float]:
        chances = numeric.value_noise.pmf(np.array(_FAR_VALUES) - value)
        return dict(zip(_FAR_VALUES, chances.tolist(), strict=True))

    def tables(threshold: int) -> OutcomeTables:
        return releasing(tables_of(numeric.sparse, threshold), results)

    return replace(
        sparse_entry(name, numeric.sparse, stated, source),
        claim=Claim(Measure.EPSILON, numeric.epsilon),
        distribution=table_distribution(tables),
        draw=None,
        tables=tables,
    )


def _numbered() -> Iterator[Entry]:
    source = "Lyu, Su and Li (2017), Algorithm"
    yield sparse_entry(
        "algorithm-1", algorithm_1(epsilon=1, update_limit=_LIMIT), (RUNS_NEAR, _FAR_RUNS), f"{source} 1"
    )
    yield sparse_entry(
        "algorithm-2", algorithm_2(epsilon=1, update_limit=_LIMIT), (RUNS_NEAR, _FAR_ROUNDS), f"{source} 2"
    )
    split = Split.of(Ratio.OPTIMAL, epsilon=1, update_limit=_LIMIT)
    yield sparse_entry(
        "algorithm-7", algorithm_7(Comparison(), split, _LIMIT), (RUNS_NEAR, _FAR_RUNS), f"{source} 7"
    )
    rising = Split.of(Ratio.OPTIMAL_MONOTONE, epsilon=1, update_limit=_LIMIT)
    yield sparse_entry(
        "algorithm-7-monotone",
        algorithm_7(Comparison(monotone=True), rising, _LIMIT),
        (RUNS_RISING, _FAR_RISING),
        f"{source} 7, monotone",
    )
    values = Split.of(Ratio.OPTIMAL, epsilon=1, update_limit=_LIMIT, values=Fraction(1, 4))
    yield numeric_entry(
        "algorithm-7-values",
        numeric_algorithm_7(Comparison(), values, _LIMIT),
        (RUNS_NEAR, _FAR_RUNS),
        f"{source} 7, epsilon3 > 0",
    )


def _naive() -> Entry:
    noise, limit = DiscreteLaplace(Fraction(3)), 3
    naive = NaiveAboveThreshold(noise, limit)

    def tables(threshold: int) -> OutcomeTables:
        # Every value is released; the ratio of its distribution is largest far to either side, and constant
        # there.
        def outcomes(value: int) -> Mapping[int, Factors]:
            low, high = noise.pmf(np.array(_FAR_VALUES) - value)
            return {1: (np.array([low]),), 2: (np.array([high]),)}

        return OutcomeTables((np.ones(1),), outcomes, None)

    return Entry(
        name="naive",
        claim=Claim(Measure.EPSILON, naive.epsilon),
        distribution=table_distribution(tables),
        instances=(Instance((0,) * limit, (1,) * limit),),
        source="Dwork and Roth (2014), Section 3.6: each value under noise of its own",
        bases=(((2, 0, -1), 2),),
    )


def _free_gap() -> Entry:
    test = ThresholdTest(NoiseKind.EXPONENTIAL, Sides.ONE_SIDED, 1, False, Fraction(3), Fraction(4))
    gap = FreeGap(Sparse(test, _LIMIT, redraw=False))

    def tables(threshold: int) -> OutcomeTables:
        below = tables_of(gap.sparse, threshold)
        limits = threshold + np.arange(len(below.weights[0]))

        def outcomes(value: int) -> Mapping[int, Factors]:
            shown = {1 + one: (test.query_noise.pmf(limits + one - value),) for one in _GAPS}
            return {0: below.outcomes(value)[0], **shown}

        return replace(below, outcomes=outcomes)

    return Entry(
        name="free-gap",
        claim=Claim(Measure.EPSILON, gap.epsilon),
        distribution=table_distribution(tables),
        instances=(RUNS_NEAR,),
        source="Ding et al. (2019), with exponential noise",
        bases=tuple((base[:4], threshold) for base, threshold in NEAR),
        tables=tables,
    )


def _sech2() -> Iterator[Entry]:
    source = "the sech^2 test, docs/proofs/zcdp-sparse-vector.md"
    for noise, sides, monotone in (
        (ThresholdNoise.EXPONENTIAL, Sides.ONE_SIDED, False),
        (ThresholdNoise.LAPLACE, Sides.TWO_THRESHOLDS, True),
        (ThresholdNoise.GAUSSIAN, Sides.TWO_THRESHOLDS, True),
    ):
        test = Sech2Test(noise, sides, 1, monotone, Fraction(3), Fraction(4))
        stated = (RUNS_RISING, _TAIL_RISING) if monotone else (RUNS_NEAR, _TAIL)
        entry = sparse_entry(f"sech2-{noise.value}", Sparse(test, _LIMIT, redraw=False), stated, source)
        yield replace(entry, bases=NEAR)


def _composed() -> Entry:
    limit = 3
    sparse = Sparse.composed(
        Comparison(NoiseKind.EXPONENTIAL), epsilon=1, delta=Fraction(1, 100), update_limit=limit
    )
    entry = sparse_entry(
        "sparse-composed",
        sparse,
        (Instance((0, 0, 0, 0, 0, 0), (1, -1, 1, -1, 1, -1)),),
        "Dwork and Roth (2014), Algorithm 2, under the exact composition of its rounds",
    )
    claim = Claim(Measure.EPSILON, Fraction(1), Fraction(1, 100), tight=False)
    return replace(entry, claim=claim, bases=(((2, 2, 2, 2), 2),))


def _offline() -> Iterator[Entry]:
    for monotone in (False, True):
        chooser = TopC.of(epsilon=1, count=2, monotone=monotone)
        moved = (0, 0, 61, 61) if monotone else (1, 1, 59, 59)
        yield Entry(
            name="top-c-monotone" if monotone else "top-c",
            claim=Claim(Measure.EPSILON, chooser.epsilon),
            distribution=chooser_distribution(chooser),
            instances=(
                Instance((0, 0, 2, 2), (0, 0, 3, 3) if monotone else (1, 1, 1, 1)),
                Instance((0, 0, 60, 60), moved),
            ),
            source="McSherry and Talwar (2007); Lyu, Su and Li (2017), Section 5",
            bases=(((0, 0, 1, 3), 0),),
            monotone=monotone,
        )
    sparse = algorithm_7(
        Comparison(NoiseKind.EXPONENTIAL), Split.of(Ratio.OPTIMAL, epsilon=1, update_limit=_LIMIT), _LIMIT
    )
    again = Retraversal(sparse, Fraction(1, 4), passes=6)
    yield Entry(
        name="retraversal",
        claim=Claim(Measure.EPSILON, again.epsilon),
        distribution=retraversal_distribution(again),
        instances=(Instance((2, 2, 2), (3, 1, 3), 2),),
        source="Lyu, Su and Li (2017), Section 5",
        bases=(((2, 2, 2), 2), ((8, 4, 6), 2), ((6, 6, 6), 2)),
    )


def chooser_distribution(chooser: TopC) -> Callable[[Values, int], OutputDistribution]:
    """Return the distribution of the ordered choice, whatever the threshold."""

    def distribution(values: Values, threshold: int) -> OutputDistribution:
        found: dict[Outputs, float] = {}
        for places in itertools.permutations(range(len(values)), chooser.count):
            left, probability = list(range(len(values))), 1.0
            for place in places:
                shares = chooser.mechanism.probabilities(np.array([values[one] for one in left]))
                probability *= float(shares[left.index(place)])
                left.remove(place)
            found[places] = probability
        return found

    return distribution


def retraversal_distribution(again: Retraversal) -> Callable[[Values, int], OutputDistribution]:
    """Return the distribution of each selected value's pass and place: as much as all outcomes tell."""

    def distribution(values: Values, threshold: int) -> OutputDistribution:
        tables = tables_of(again.sparse, threshold + again.raised)
        above = [tables.outcomes(value)[1][0] for value in values]
        positives = list(itertools.product(range(1, again.passes + 1), range(len(values))))
        found: dict[Outputs, float] = {}
        for count in range(again.sparse.update_limit + 1):
            for hits in itertools.combinations(positives, count):
                places = [place for _, place in hits]
                if len(set(places)) < count:
                    continue  # a selected value is not tested again
                ended = hits[-1] if count == again.sparse.update_limit else (again.passes, len(values))
                (weights,) = tables.weights
                for hit, place in hits:
                    weights = weights * (1.0 - above[place]) ** (hit - 1) * above[place]
                for place in set(range(len(values))) - set(places):
                    weights = weights * (1.0 - above[place]) ** (ended[0] - (place > ended[1]))
                found[tuple(itertools.chain(*hits))] = float(weights.sum())
        return found

    return distribution
