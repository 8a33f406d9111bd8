"""The catalogue: every mechanism of the audit by name, with its claim and its instances.

The sound ones come first: those of sessions, then the wider family: numbered algorithms, gaps, values, sech^2
tests and offline choices. The flawed ones follow, with the instances on which they are caught.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.privacy.noise import DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.research.audit import flawed
from pmw.research.audit.entries import Claim, Entry, Instance, Measure, Values, draw_from, table_distribution
from pmw.research.audit.exact import (
    Factors,
    OutcomeTables,
    OutputDistribution,
    Outputs,
    releasing,
    sharing_noise,
    tables_of,
    without_noise,
)
from pmw.research.audit.flawed import COUNTEREXAMPLES, FlawedSparse
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
_BOTH_WAYS = Instance((0,) * 10, (1,) * 5 + (-1,) * 5)  # five values rise, and as many fall
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
    """Return the entry of an implemented run of tests, at the epsilon, or else the rho, that it charges."""
    test, tables = sparse.test, partial(tables_of, sparse)
    opening, positive = test.threshold_charge, test.positive_charge
    if opening.epsilon is None or positive.epsilon is None:
        claim = Claim(Measure.RHO, opening.rho + sparse.update_limit * positive.rho, tight=False)
    else:
        claim = Claim(Measure.EPSILON, sparse.epsilon)

    return Entry(
        name=name,
        claim=claim,
        distribution=table_distribution(tables),
        instances=stated,
        draw=draw_from(replica_test(test, sparse.update_limit, redraw=sparse.redraw)),
        source=source,
        bases=_FAR_BASES if test.noise is NoiseKind.LAPLACE else NEAR,
        monotone=test.monotone,
        tables=tables,
    )


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
    optimal, rising, values = (
        Split.of(ratio, epsilon=1, update_limit=_LIMIT, values=part)
        for ratio, part in (
            (Ratio.OPTIMAL, 0), (Ratio.OPTIMAL_MONOTONE, 0), (Ratio.OPTIMAL, Fraction(1, 4))
        )
    )  # fmt: skip
    for name, sparse, stated in (
        ("1", algorithm_1(epsilon=1, update_limit=_LIMIT), (RUNS_NEAR, _FAR_RUNS)),
        ("2", algorithm_2(epsilon=1, update_limit=_LIMIT), (RUNS_NEAR, _FAR_ROUNDS)),
        ("7", algorithm_7(Comparison(), optimal, _LIMIT), (RUNS_NEAR, _FAR_RUNS)),
        ("7, monotone", algorithm_7(Comparison(monotone=True), rising, _LIMIT), (RUNS_RISING, _FAR_RISING)),
    ):
        source = f"Lyu, Su and Li (2017), Algorithm {name}"
        yield sparse_entry(f"algorithm-{name.replace(', ', '-')}", sparse, stated, source)
    yield numeric_entry(
        "algorithm-7-values",
        numeric_algorithm_7(Comparison(), values, _LIMIT),
        (RUNS_NEAR, _FAR_RUNS),
        "Lyu, Su and Li (2017), Algorithm 7, epsilon3 > 0",
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


# --- flawed -------------------------------------------------------------------------------------------------


def flawed_entries() -> Iterator[Entry]:
    """Return every flawed mechanism: those published, then slips that are easily made."""
    yield from _published()
    yield from _inside()
    yield from _shared_threshold()
    yield _bare()


def _published() -> Iterator[Entry]:
    lyu = "Lyu, Su and Li (2017), Algorithm"
    for name, mechanism, runs, source, flaw in (
        (
            "algorithm-3", flawed.algorithm_3(epsilon=1, update_limit=1),
            Instance((0, 0, 0, 0, 1), (1, 1, 1, 1, 0)), f"{lyu} 3; Roth (2011)",
            "releases the noisy value of the test itself",
        ),
        (
            "algorithm-4", flawed.algorithm_4(epsilon=1, update_limit=4),
            Instance((0,) * 7, (1,) * 3 + (-1,) * 4), f"{lyu} 4; Lee and Clifton (2014)",
            "test noise does not grow with c",
        ),
        (
            "algorithm-5", flawed.algorithm_5(epsilon=1),
            Instance((0, 1), (1, 0)), f"{lyu} 5; Stoddard et al. (2014)",
            "no noise on tests",
        ),
        (
            "algorithm-6", flawed.algorithm_6(epsilon=1),
            _BOTH_WAYS, f"{lyu} 6; Chen et al. (2015)",
            "no limit on positives",
        ),
        (
            "gptt", flawed.gptt(epsilon1="0.25", epsilon2="0.75"),
            _BOTH_WAYS, "Chen and Machanavajjhala (2015)",
            "no limit on positives, at 1:3",
        ),
        (
            "one-too-many", flawed.one_too_many(epsilon=4, update_limit=1),
            Instance((-1, -1, -1, 0) * 2, (0, 0, 0, -1) * 2), "Machanavajjhala's slides (2016), slide 25",
            "answers c + 1 positives at scales made for c",
        ),
    ):  # fmt: skip
        yield flawed_entry(name, mechanism, (runs,), source, flaw)


def _inside() -> Iterator[Entry]:
    hardt = "Hardt and Rothblum (2010); Roth and Roughgarden (2010)"
    yield flawed_entry(
        "exponential-inside",
        flawed.exponential_inside(epsilon=1, update_limit=1),
        (Instance((0, -20), (1, -19), 20),),
        hardt + ", with exponential noise",
        "noise inside the absolute value",
    )
    laplace = flawed_entry(
        "laplace-inside",
        flawed.laplace_inside(epsilon=1, update_limit=1),
        (Instance((2, 2, 2, 2, 2), (3, 3, 3, 1, 1), 2), Instance((-40, 0, 0), (-39, 1, 1), 40)),
        hardt,
        "a negative shows that T + rho > 0; it still keeps this claim",
    )
    bases = (*NEAR, ((-3, -2, -1, 2, -2), 2), ((30, -30, 30, -30, 0), 10))
    yield replace(laplace, bases=bases, keeps_claim=True)


def _shared_threshold() -> Iterator[Entry]:
    """Return one draw of threshold noise for both signs, at a price too low for it and at its own."""
    test = ThresholdTest(NoiseKind.EXPONENTIAL, Sides.TWO_THRESHOLDS, 1, True, Fraction(3), Fraction(4))
    two, replicas = Sparse(test, 2, redraw=False), replica_test(test, 2, redraw=False)

    def one_draw(runs: int, bits: BitSource) -> NDArray[np.int64]:
        return np.repeat(replicas.open(runs, bits)[:1], 2, axis=0)

    monotone = Entry(
        name="shared-threshold",
        claim=Claim(Measure.EPSILON, two.epsilon),
        distribution=table_distribution(lambda threshold: sharing_noise(tables_of(two, threshold))),
        instances=(Instance((1, -2, 2, 2), (2, -1, 3, 3), 2),),
        draw=draw_from(replace(replicas, open=one_draw)),
        source="Machanavajjhala's slides (2016), slide 26, at the price of two draws",
        flaw="one draw for both of two thresholds, at the monotone price",
        bases=(*NEAR, ((-1, 2, -2, 2, -2), 2)),
        monotone=True,
        keeps_claim=False,
    )
    yield monotone
    # A value and its negation move against each other, so that together they are never monotone.
    general = test.threshold_price + two.update_limit * 2 * test.positive_price
    yield replace(
        monotone,
        name="shared-threshold-general",
        claim=Claim(Measure.EPSILON, general),
        source="Machanavajjhala's slides (2016), slide 26",
        flaw="",
        remark="one draw for both of two thresholds, at the general price",
        monotone=False,
        keeps_claim=True,
    )


def _bare() -> Entry:
    """Return exponential test noise without threshold noise."""
    test = ThresholdTest(NoiseKind.EXPONENTIAL, Sides.ONE_SIDED, 1, False, Fraction(3), Fraction(4))
    sparse, replicas = Sparse(test, 2, redraw=False), replica_test(test, 2, redraw=False)
    return Entry(
        name="no-threshold-noise",
        claim=Claim(Measure.EPSILON, sparse.epsilon),
        distribution=table_distribution(lambda threshold: without_noise(tables_of(sparse, threshold))),
        instances=(Instance((1, 1), (2, 2), 2),),
        draw=draw_from(replace(replicas, open=lambda runs, bits: np.zeros((1, runs), dtype=np.int64))),
        source="a slip",
        flaw="exponential noise on tests alone",
        keeps_claim=False,
    )


def flawed_entry(
    name: str, mechanism: FlawedSparse, stated: tuple[Instance, ...], source: str, flaw: str
) -> Entry:
    """Return the entry of a published form, at the epsilon that was claimed for it.

    Stated outputs are those of ``COUNTEREXAMPLES`` for the same mechanism at the same claim, whatever its
    sensitivity and c.
    """
    shown = tuple(
        example
        for one, example in COUNTEREXAMPLES
        if (one.name, one.claimed, one.update_limit)
        == (mechanism.name, mechanism.claimed, mechanism.update_limit)
    )
    if not shown and mechanism.redraw:
        rounds = Instance(((20,) * 5 + (0,)) * 2, ((21,) * 5 + (-1,)) * 2)
        stated = (*stated, rounds)
    return Entry(
        name=name,
        claim=Claim(Measure.EPSILON, mechanism.claimed),
        distribution=table_distribution(mechanism.tables),
        instances=stated,
        source=source,
        flaw=flaw,
        shown=shown,
        keeps_claim=False,
    )


def catalogue() -> Mapping[str, Entry]:
    """Return every mechanism by name."""
    entries = [*sound_entries(), *flawed_entries()]
    return {entry.name: entry for entry in entries}


def chosen(names: Sequence[str], *, runs_only: bool = False) -> tuple[Entry, ...]:
    """Return the mechanisms of these names, all of them where none is given."""
    known = catalogue()
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"
            raise BudgetError(f"expected the name of a mechanism, got {name!r}{hint}")
        if runs_only and known[name].draw is None:
            raise BudgetError(f"expected mechanisms that are run, got {name!r}, which is only enumerated")
    if names:
        return tuple(known[name] for name in dict.fromkeys(names))
    return tuple(entry for entry in known.values() if entry.draw is not None or not runs_only)
