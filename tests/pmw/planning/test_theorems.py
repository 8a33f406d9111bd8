"""The textbook's theorems: numbers worked by hand, and runs of the algorithms that must keep to them."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.model.dense import DenseDistribution
from pmw.model.fitting import step
from pmw.planning.theorems import (
    above_threshold_accuracy,
    laplace_accuracy,
    multiplicative_weights_update_limit,
    numeric_sparse_accuracy,
    online_pmw_accuracy,
    sparse_accuracy,
)
from pmw.privacy.noise import DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.sparse_vector import AboveThreshold, NumericSparse, Sparse
from queries import UNITS, Domain, IntegerAttribute, LinearQuery

GRID = 1000  # units per record in the runs: fine enough for the continuous theorems


# --- numbers worked by hand -------------------------------------------------------------------------------


BY_HAND: list[tuple[Callable[[], float], float]] = [
    # 8 (ln 10000 + ln 40) = 8 (9.21034 + 3.68888)
    (lambda: above_threshold_accuracy(10_000, epsilon=1, beta=0.05), 103.1938),
    (lambda: above_threshold_accuracy(10_000, epsilon=0.5, beta=0.05), 206.3875),
    # 1000 ln 20000 = 1000 * 9.90349
    (lambda: laplace_accuracy(1000, epsilon=1, beta=0.05), 9903.488),
    (lambda: laplace_accuracy(1000, epsilon=2, beta=0.05), 9903.488 / 2),
    # 80 (9.21034 + ln 400) and sqrt(5120 * 20.72327) (9.21034 + 5.99146)
    (lambda: sparse_accuracy(10_000, 10, epsilon=1, beta=0.05), 1216.144),
    (lambda: sparse_accuracy(10_000, 10, epsilon=1, delta=1e-9, beta=0.05), 4951.756),
    # 90 (9.21034 + ln 800) for delta = 0; 23.62742 sqrt(10 * 21.41641) (ln 10^8 + ln 800) for many queries
    (lambda: numeric_sparse_accuracy(10_000, 10, epsilon=1, beta=0.05), 1430.545),
    (
        lambda: numeric_sparse_accuracy(10**8, 10, epsilon=1, delta=1e-9, beta=0.05),
        23.62742 * 14.63435 * (18.42068 + 6.68461),
    ),
    # Its values need more than is printed where queries are few: sqrt(8) ln(2c/beta) = 21.4985 exceeds
    # ln k + ln(4c/beta) = 17.5044 at c = 50, k = 10^4.
    (
        lambda: numeric_sparse_accuracy(10_000, 50, epsilon=1, delta=1e-9, beta=0.05),
        23.62742 * math.sqrt(50 * 21.41641) * 21.4985,
    ),
    # 4 ln 1000 / 0.01 = 2763.1
    (lambda: multiplicative_weights_update_limit(1000, accuracy=0.1), 2764),
    (lambda: multiplicative_weights_update_limit(1, accuracy=0.1), 1),
]


@pytest.mark.parametrize(("formula", "number"), BY_HAND)
def test_a_formula_by_hand(formula: Callable[[], float], number: float) -> None:
    assert formula() == pytest.approx(number, rel=5e-6)


@pytest.mark.parametrize(("queries", "better"), [(100, True), (1000, False)])
def test_noise_on_every_count_beats_sparse_only_for_few_queries(queries: int, better: bool) -> None:
    # c = 20, beta = 0.05: 160 (ln k + ln 800) against k ln(20 k)
    naive = laplace_accuracy(queries, epsilon=1, beta=0.05)
    assert (naive < sparse_accuracy(queries, 20, epsilon=1, beta=0.05)) is better


@pytest.mark.parametrize(("positives", "smaller"), [(165, False), (166, True)])
def test_delta_pays_for_sparse_only_beyond_eight_logarithms(positives: int, smaller: bool) -> None:
    # sqrt(512 c ln(1/delta)) < 8 c where c > 8 ln(1/delta) = 165.8
    pure = sparse_accuracy(1000, positives, epsilon=1, beta=0.05)
    assert (sparse_accuracy(1000, positives, epsilon=1, delta=1e-9, beta=0.05) < pure) is smaller


@pytest.mark.parametrize("delta", [0, 1e-9])
def test_online_pmw_solves_its_own_equation(delta: float) -> None:
    found = online_pmw_accuracy(10**5, records=10**6, cells=10**7, epsilon=1, delta=delta, beta=0.05)
    fraction = found.alpha / 10**6
    assert found.update_limit == math.ceil(4 * math.log(10**7) / fraction**2)
    needed = numeric_sparse_accuracy(2 * 10**5, found.update_limit, epsilon=1, delta=delta, beta=0.05)
    assert needed <= found.alpha * (1 + 1e-9)
    assert found.alpha < needed * 1.01  # no smaller alpha would do
    assert found.error == pytest.approx(3 * found.alpha)
    assert found.threshold == pytest.approx(2 * found.alpha)
    assert found.learning_rate == pytest.approx(fraction / 2)


def test_online_pmw_by_hand() -> None:
    # alpha^3 = 36 ln 10^7 (ln 200000 + ln(16 ln 10^7 / (0.05 alpha^2))) / 10^6 at alpha = 0.2393: 0.01370.
    found = online_pmw_accuracy(10**5, records=10**6, cells=10**7, epsilon=1, beta=0.05)
    assert found.error / 10**6 == pytest.approx(0.718, abs=0.001)
    alpha = 0.2393
    logs = math.log(200_000) + math.log(16 * math.log(10**7) / (0.05 * alpha**2))
    assert 36 * math.log(10**7) * logs / 10**6 == pytest.approx(alpha**3, rel=0.005)


WRONG: list[Callable[[], object]] = [
    lambda: above_threshold_accuracy(0, epsilon=1, beta=0.1),
    lambda: above_threshold_accuracy(5, epsilon=0, beta=0.1),
    lambda: above_threshold_accuracy(5, epsilon=1, beta=1),
    lambda: laplace_accuracy(0, epsilon=1, beta=0.1),
    lambda: sparse_accuracy(5, 0, epsilon=1, beta=0.1),
    lambda: numeric_sparse_accuracy(5, 1, epsilon=1, delta=1, beta=0.1),
    lambda: multiplicative_weights_update_limit(0, accuracy=0.1),
    lambda: multiplicative_weights_update_limit(10, accuracy=0.0),
    lambda: multiplicative_weights_update_limit(10, accuracy=1e-200),
    lambda: online_pmw_accuracy(5, records=0, cells=4, epsilon=1, beta=0.1),
    lambda: online_pmw_accuracy(5, records=math.nan, cells=4, epsilon=1, beta=0.1),
]


@pytest.mark.parametrize("wrong", WRONG)
def test_parameters_out_of_range_are_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(BudgetError, match="expected"):
        wrong()


# --- runs ------------------------------------------------------------------------------------------------


def most(runs: int, beta: float) -> float:
    """Return the most violations that chance leaves where each run has one with probability beta."""
    return runs * beta + 4 * math.sqrt(runs * beta * (1 - beta))


def row(queries: int, positives: int, gap: float, bits: BitSource) -> NDArray[np.int64]:
    """Return values just below -gap except for ``positives`` at gap, the last value among them (T = 0)."""
    values = np.full(queries, -math.ceil(gap * GRID) - 1, dtype=np.int64)
    places = {queries - 1}
    while len(places) < positives:
        places.add(bits.bits(20) % queries)
    values[list(places)] = math.ceil(gap * GRID)
    return values


def violates(
    algorithm: Sparse | NumericSparse, values: NDArray[np.int64], gap: float, bits: BitSource
) -> bool:
    """Tell whether a run halts early, errs beyond the gap, or releases a value that is off by more."""
    state, place = algorithm.open(bits), 0
    while place < len(values):
        rest = values[place:]
        try:
            state, outcomes, *released = algorithm.scan(state, rest, np.zeros_like(rest), bits)
        except BudgetError:
            return True  # it halted
        if ((outcomes != 0) != (rest[: len(outcomes)] > 0)).any():
            return True
        for value in released:
            if value is not None and abs(value - int(rest[len(outcomes) - 1])) > gap * GRID:
                return True
        place += len(outcomes)
    return False


@pytest.mark.statistical
def test_noise_on_every_count_keeps_to_its_theorem_and_to_no_less() -> None:
    queries, beta, runs = 100, 0.1, 400
    noise = DiscreteLaplace(Fraction(queries * GRID))
    draws = np.abs(noise.sample_array(BitSource.from_integer(6), runs * queries)) / GRID
    largest = draws.reshape(runs, queries).max(axis=1)
    alpha = laplace_accuracy(queries, epsilon=1, beta=beta)
    assert (largest > alpha).sum() <= most(runs, beta)
    assert (largest > 0.7 * alpha).sum() > most(runs, beta)  # tight but for the union bound


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("kind", "delta"),
    [(AboveThreshold, 0), (Sparse, 0), (Sparse, 1e-6), (NumericSparse, 0), (NumericSparse, 1e-6)],
)
def test_a_sparse_vector_keeps_to_its_theorem_and_not_to_a_tenth_of_it(
    kind: type[AboveThreshold | Sparse | NumericSparse], delta: float
) -> None:
    queries, beta, bits = 100, 0.1, BitSource.from_integer(2)
    if kind is AboveThreshold:  # one round of it, with a single positive
        positives, alpha = 1, above_threshold_accuracy(queries, epsilon=1, beta=beta)
        algorithm: Sparse | NumericSparse = Sparse(
            AboveThreshold.textbook(epsilon=1, sensitivity=GRID).test, 1, redraw=True
        )
    else:
        positives, theorem = 4, sparse_accuracy if kind is Sparse else numeric_sparse_accuracy
        alpha = theorem(queries, positives, epsilon=1, delta=delta, beta=beta)
        textbook = Sparse.textbook if kind is Sparse else NumericSparse.textbook
        algorithm = textbook(epsilon=1, delta=delta, update_limit=positives, sensitivity=GRID)
    for gap, runs, keeps in ((alpha, 250, True), (alpha / 10, 60, False)):
        rows = (row(queries, positives, gap, bits) for _ in range(runs))
        violations = sum(violates(algorithm, values, gap, bits) for values in rows)
        assert (violations <= most(runs, beta)) is keeps


@pytest.mark.statistical
def test_the_printed_alpha_of_numeric_sparse_fails_where_ours_holds() -> None:
    # Released values alone: c = 50 draws of Lap(sigma(epsilon2)) at delta = 1e-9, with half of beta = 0.05.
    queries, positives, beta, runs = 10_000, 50, 0.05, 2000
    noise = NumericSparse.textbook(
        epsilon=1, delta=1e-9, update_limit=positives, sensitivity=GRID
    ).value_noise
    draws = np.abs(noise.sample_array(BitSource.from_integer(4), runs * positives)) / GRID
    largest = draws.reshape(runs, positives).max(axis=1)
    logs = math.log(queries) + math.log(4 * positives / beta)
    printed = (math.sqrt(512) + 1) * math.sqrt(positives * math.log(2e9)) * logs
    ours = numeric_sparse_accuracy(queries, positives, epsilon=1, delta=1e-9, beta=beta)
    assert (largest > printed).sum() > most(runs, beta)
    assert (largest > ours).sum() <= most(runs, beta / 2)


DOMAIN = Domain((IntegerAttribute("a", 0, 3), IntegerAttribute("b", 0, 3)))
RECORDS = 10**8
# Three quarters of the records in one cell: the uniform start is far off.
TABLE = np.full((4, 4), RECORDS // 60, dtype=np.int64)
TABLE[1, 2] += RECORDS - TABLE.sum()


def online_errors(queries: list[LinearQuery], bits: BitSource, beta: float) -> tuple[float, int]:
    """Run the textbook's loop; return the largest error in records, and the number of updates."""
    theorem = online_pmw_accuracy(len(queries), records=RECORDS, cells=DOMAIN.size, epsilon=1, beta=beta)
    vector = NumericSparse.textbook(epsilon=1, update_limit=theorem.update_limit, sensitivity=UNITS)
    thresholds = np.full(2, math.ceil(theorem.threshold * UNITS))
    model, state, largest = DenseDistribution.uniform(DOMAIN, float(RECORDS)), vector.open(bits), 0.0
    for query in queries:
        true = exact(query)
        answer = round(model.answer(query) * UNITS)
        gap = true - answer
        state, outcomes, released = vector.scan(state, np.array([gap, -gap]), thresholds, bits)
        if released is not None:
            answer += released if len(outcomes) == 1 else -released
            increase = len(outcomes) == 1
            model = step(model, query, learning_rate=theorem.learning_rate, increase=increase)
        largest = max(largest, abs(true - answer) / UNITS)
    return largest, state.positives


def exact(query: LinearQuery) -> int:
    """Return the true answer in units."""
    axes = tuple(axis for axis, name in enumerate(DOMAIN.names) if name not in query.scope)
    return int((query.weights().astype(np.int64) * TABLE.sum(axis=axes)).sum())


@pytest.mark.statistical
def test_online_pmw_keeps_to_its_theorem_and_not_to_a_tenth_of_it() -> None:
    beta, runs = 0.1, 12
    boxes = [
        LinearQuery.cells(DOMAIN, {"a": (low, low + 1), "b": (other, other + 1)})
        for low in range(3)
        for other in range(3)
    ] * 50
    theorem = online_pmw_accuracy(len(boxes), records=RECORDS, cells=DOMAIN.size, epsilon=1, beta=beta)
    assert theorem.error < RECORDS / 10  # the theorem says something here
    bits = BitSource.from_integer(5)
    found = [online_errors(boxes, bits, beta) for _ in range(runs)]
    errors = np.array([error for error, _ in found])
    assert (errors > theorem.error).sum() <= most(runs, beta)
    assert (errors > theorem.error / 10).sum() > most(runs, beta)
    updates = [positives for _, positives in found]
    assert 0 < min(updates) <= max(updates) < len(boxes)  # the model became right
    assert max(updates) <= multiplicative_weights_update_limit(DOMAIN.size, accuracy=theorem.alpha / RECORDS)


def test_the_textbook_scales_are_those_of_the_theorems() -> None:
    vector = NumericSparse.textbook(epsilon=1, update_limit=7)
    assert isinstance(vector.value_noise, DiscreteLaplace)
    assert vector.value_noise.scale == Fraction(63)  # 9 c / epsilon: alpha is its ln k + ln(4c/beta) fold
