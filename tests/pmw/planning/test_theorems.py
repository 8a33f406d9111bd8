"""The textbook's theorems: numbers worked by hand, and its plan, solved for each of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from pmw import Options
from pmw.errors import BudgetError
from pmw.planning.theorems import (
    TextbookPlan,
    above_threshold_accuracy,
    laplace_accuracy,
    multiplicative_weights_update_limit,
    numeric_sparse_accuracy,
    online_pmw_accuracy,
    online_pmw_epsilon,
    online_pmw_records,
    solve_textbook,
    sparse_accuracy,
)
from pmw.privacy.random_bits import BitSource
from pmw.sparse_vector import NumericSparse
from queries import Domain, IntegerAttribute

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


# --- the textbook's plan --------------------------------------------------------------------------------


PLANNED = Domain((IntegerAttribute("age", 0, 99), IntegerAttribute("weight", 0, 9)))


def solved(
    *,
    records: int | None = None,
    epsilon: float | None = None,
    accuracy: float | None = None,
    delta: float = 0,
    options: Options | None = None,
) -> TextbookPlan:
    return solve_textbook(
        PLANNED,
        records=records,
        epsilon=epsilon,
        delta=delta,
        accuracy=accuracy,
        options=options or Options.textbook(),
    )


@pytest.mark.parametrize("delta", [0.0, 1e-9])
@pytest.mark.parametrize("accuracy", [0.02, 0.1, 0.9])
def test_each_number_of_theorem_5_gives_back_the_others(delta: float, accuracy: float) -> None:
    fixed = {"cells": 1000, "delta": delta, "beta": 0.05}
    records = online_pmw_records(10_000, accuracy=accuracy, epsilon=0.5, **fixed)  # type: ignore[arg-type]
    there = online_pmw_accuracy(10_000, records=records, epsilon=0.5, **fixed)  # type: ignore[arg-type]
    assert there.error / records == pytest.approx(accuracy, rel=2e-3)
    assert there.error / records <= accuracy * (1 + 1e-9)
    epsilon = online_pmw_epsilon(10_000, accuracy=accuracy, records=records, **fixed)  # type: ignore[arg-type]
    assert epsilon == pytest.approx(0.5, rel=1e-5)


def test_the_theorem_is_solved_for_what_is_missing() -> None:
    alpha = solved(records=10**8, epsilon=1, delta=1e-9)
    assert (alpha.solved, alpha.records, float(alpha.budget.epsilon)) == ("alpha", 10**8, 1.0)
    records = solved(epsilon=1, accuracy=0.1, delta=1e-9)
    assert records.solved == "n"
    assert records.alpha <= 0.1
    epsilon = solved(records=records.records, accuracy=0.1, delta=1e-9)
    assert epsilon.solved == "epsilon"
    assert 1 <= float(epsilon.budget.epsilon) <= 1.002  # rounded up to four digits
    assert epsilon.alpha <= 0.1
    form = epsilon.to_dict()
    assert form["online_pmw"]["threshold"] * 1.5 == pytest.approx(form["alpha"] * form["records"])
    assert form["test_scale"] == 2 * form["threshold_scale"]


def test_a_person_of_several_records_divides_epsilon() -> None:
    many = replace(Options.textbook(), records_per_person=4)
    assert solved(records=10**8, epsilon=2, options=many).loop == solved(records=10**8, epsilon=0.5).loop
    once = float(solved(records=10**8, accuracy=0.1).budget.epsilon)
    found = float(solved(records=10**8, accuracy=0.1, options=many).budget.epsilon)
    assert found == pytest.approx(4 * once, rel=2e-3)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"records": 1000, "epsilon": 1.0, "accuracy": 0.1}, "expected two of epsilon, alpha and n"),
        ({"records": 1000}, "expected two of epsilon, alpha and n"),
        ({"records": 10, "accuracy": 0.01}, "no epsilon up to 1,000 promises alpha=0.01"),
        ({"epsilon": 0.001, "accuracy": 0.0001}, "the theorem needs .* records for alpha=0.0001"),
        ({"records": 1000, "accuracy": 1e-9}, "alpha that needs at most 1e15 updates, got alpha=1e-09"),
        ({"epsilon": 1.0, "accuracy": 0.0}, "expected a positive alpha .*, got alpha=0"),
        ({"records": 1000, "epsilon": 300.0, "delta": 1e-6}, "the printed scales do not keep epsilon=300"),
        ({"epsilon": 300.0, "delta": 1e-6, "accuracy": 0.01}, "the printed scales do not keep epsilon=300"),
        ({"records": 10**7, "delta": 0.9, "accuracy": 0.01}, "the printed scales do not keep"),
    ],
)
def test_what_cannot_be_solved_is_refused(given: dict[str, float], told: str) -> None:
    with pytest.raises(BudgetError, match=told):
        solved(**given)  # type: ignore[arg-type]
