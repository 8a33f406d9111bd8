"""Statistical audits: bounds that hold as often as stated, and events chosen on runs of their own."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pmw.errors import BudgetError
from pmw.privacy.random_bits import BitSource
from pmw.research.audit import (
    StatisticalFinding,
    certify,
    clopper_pearson,
    replica_test,
    run_replicas,
    stream_distribution,
    tables_of,
)
from pmw.research.audit.statistical import (
    NOT_RUN,
    Draw,
    alpha_of,
    certified_epsilon,
    choose_event,
    output_codes,
)
from pmw.sparse_vector import NoiseKind, Sides, Sparse, ThresholdTest
from tests.distributions import fit, require_scale


@pytest.mark.parametrize("alpha", [0.025, 1e-8])
@pytest.mark.parametrize(("count", "runs"), [(1, 100), (37, 100), (99, 100), (500, 100_000)])
def test_the_bounds_are_those_of_the_binomial_distribution(count: int, runs: int, alpha: float) -> None:
    low, up = clopper_pearson(count, runs, alpha)
    assert stats.binom.sf(count - 1, runs, low) == pytest.approx(alpha, rel=1e-6)
    assert stats.binom.cdf(count, runs, up) == pytest.approx(alpha, rel=1e-6)


def test_epsilon_is_the_logarithm_of_the_bounds_and_never_negative() -> None:
    low, up = clopper_pearson(900, 1000, 1e-3)[0], clopper_pearson(100, 1000, 1e-3)[1]
    assert certified_epsilon(900, 100, 1000, alpha=1e-3) == pytest.approx(math.log(low / up))
    shifted = certified_epsilon(900, 100, 1000, alpha=1e-3, delta=0.2)
    assert shifted == pytest.approx(math.log((low - 0.2) / up))
    assert certified_epsilon(100, 900, 1000, alpha=1e-3) == 0


def test_the_event_is_the_outputs_that_one_table_favours() -> None:
    generator = np.random.default_rng(3)
    first = generator.choice(5, 50_000, p=[0.3, 0.3, 0.2, 0.1, 0.1])
    second = generator.choice(5, 50_000, p=[0.1, 0.1, 0.2, 0.3, 0.3])
    event, swapped = choose_event(first, second, alpha=1e-6)
    assert set(event.tolist()) in ({0, 1}, {3, 4})
    assert swapped == (3 in event)


def certified(draws: tuple[Draw, Draw], runs: int, rate: float = 1e-6) -> StatisticalFinding:
    return certify(draws, runs, alpha_of(rate, 1), BitSource.from_integer(1))


def randomised_response(seed: int) -> tuple[Draw, Draw]:
    """Return the outputs of randomised response at epsilon = 1, on a table and on its neighbour."""
    generator = np.random.default_rng(seed)

    def draw(count: int, probability: float) -> NDArray[np.int64]:
        return (generator.random(count) < probability).astype(np.int64).reshape(-1, 1)

    likely = math.e / (1 + math.e)
    return (lambda count, _: draw(count, likely)), (lambda count, _: draw(count, 1 - likely))


@pytest.mark.statistical
def test_false_alarms_are_as_rare_as_stated() -> None:
    # A loose rate, so that alarms would be seen: 300 audits.
    draws = randomised_response(5)
    alarms = sum(certified(draws, 2000, 0.3).epsilon > 1 for _ in range(300))
    assert alarms <= stats.binom.ppf(0.9999, 300, 0.3)


@pytest.mark.statistical
@pytest.mark.parametrize(("claimed", "caught"), [(1.0, False), (0.7, True)])
def test_randomised_response_is_certified_up_to_its_epsilon(claimed: float, caught: bool) -> None:
    found = certified(randomised_response(8), 20_000)
    assert (found.epsilon > claimed) == caught
    assert found.runs == 20_000
    assert found.occurrences[0] > found.occurrences[1]


def test_nothing_is_certified_where_the_event_was_chosen() -> None:
    # Outputs that never repeat: the runs that choose would tell the tables apart, others cannot.
    numbers = np.arange(10**6, dtype=np.int64).reshape(-1, 1)
    found = certified((lambda count, _: numbers[:count], lambda count, _: numbers[-count:]), 1000)
    assert found.epsilon == 0


@pytest.mark.parametrize(("rate", "instances"), [(0.0, 1), (1.0, 1), (0.1, 0)])
def test_an_impossible_rate_and_too_few_runs_are_refused(rate: float, instances: int) -> None:
    with pytest.raises(BudgetError, match="expected"):
        alpha_of(rate, instances)
    assert alpha_of(0.3, 5) == pytest.approx(0.03)  # all instances share the rate, two bounds each
    with pytest.raises(BudgetError, match="expected at least 100 runs"):
        certified(randomised_response(1), 99)


# --- replicas: many runs at once have the distribution that is enumerated -----------------------------------

VALUES, THRESHOLD, RUNS = (1, -3, 3, 2), 2, 20_000


def sparse(sides: Sides, redraw: bool, factor: Fraction = Fraction(1)) -> Sparse:
    monotone, scales = sides is Sides.TWO_THRESHOLDS, (3 * factor, Fraction(4))
    return Sparse(ThresholdTest(NoiseKind.EXPONENTIAL, sides, 1, monotone, *scales), 2, redraw)


def released(sides: Sides, redraw: bool) -> NDArray[np.int64]:
    replicas = replica_test(sparse(sides, redraw).test, 2, redraw=redraw)
    return run_replicas(replicas, VALUES, (THRESHOLD,) * 4, RUNS, BitSource.from_integer(17))


@pytest.mark.statistical
@pytest.mark.parametrize("redraw", [False, True])
@pytest.mark.parametrize("sides", list(Sides))
def test_many_runs_at_once_have_the_enumerated_distribution(sides: Sides, redraw: bool) -> None:
    rows = released(sides, redraw).tolist()
    drawn = Counter(tuple(output for output in row if output != NOT_RUN) for row in rows)

    def p_value(factor: Fraction) -> float:
        tables = tables_of(sparse(sides, redraw, factor), THRESHOLD)
        return fit(drawn, stream_distribution(tables, VALUES))

    require_scale(p_value)


def test_equal_outputs_get_equal_codes_on_both_sides() -> None:
    first, second = np.array([[0, 1], [5, NOT_RUN]]), np.array([[5, NOT_RUN], [0, 2], [0, 1]])
    ours, theirs = output_codes(first, second)
    assert ours[0] == theirs[2]
    assert ours[1] == theirs[0]
    assert len({*ours.tolist(), *theirs.tolist()}) == 3
