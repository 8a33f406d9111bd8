"""The catalogue: every mechanism of the audit by name, the sound ones first, then the flawed ones.

The flawed ones stand here with their claims, and the instances on which they are caught.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.privacy.random_bits import BitSource
from pmw.research.audit import flawed
from pmw.research.audit.entries import Claim, Entry, Instance, Measure, draw_from, table_distribution
from pmw.research.audit.exact import sharing_noise, tables_of, without_noise
from pmw.research.audit.flawed import COUNTEREXAMPLES, FlawedSparse
from pmw.research.audit.sound import NEAR, sound_entries
from pmw.research.audit.statistical import replica_test
from pmw.sparse_vector import NoiseKind, Sides, Sparse, ThresholdTest


def flawed_entries() -> Iterator[Entry]:
    """Return every flawed mechanism: those published, then slips that are easily made."""
    yield from _published()
    yield from _inside()
    yield from _slips()


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
            _both_ways(5), f"{lyu} 6; Chen et al. (2015)",
            "no limit on positives",
        ),
        (
            "gptt", flawed.gptt(epsilon1="0.25", epsilon2="0.75"),
            _both_ways(5), "Chen and Machanavajjhala (2015)",
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


def _slips() -> Iterator[Entry]:
    """Return scales that are right for something else."""
    yield from _shared_threshold()
    yield _bare()


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


def _both_ways(each: int) -> Instance:
    """Return so many values that rise and as many that fall."""
    return Instance((0,) * (2 * each), (1,) * each + (-1,) * each)


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
