"""The textbook's plan: Theorem 5 solved for each of its numbers, and where it says nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pmw import BudgetError, Opening, Options, Sides, SparseVectorKind, TestKind, UpdateRule
from pmw.planning.theorems import (
    TextbookPlan,
    online_pmw_accuracy,
    online_pmw_epsilon,
    online_pmw_records,
    solve_textbook,
)
from queries import Domain, IntegerAttribute

DOMAIN = Domain((IntegerAttribute("age", 0, 99), IntegerAttribute("weight", 0, 9)))


def solved(
    *,
    records: int | None = None,
    epsilon: float | None = None,
    accuracy: float | None = None,
    delta: float = 0,
    options: Options | None = None,
) -> TextbookPlan:
    return solve_textbook(
        DOMAIN,
        records=records,
        epsilon=epsilon,
        delta=delta,
        accuracy=accuracy,
        options=options or Options.textbook(),
    )


def test_the_preset_is_the_loop_of_the_lecture() -> None:
    options = Options.textbook(
        update_limit=12, threshold=400.0, learning_rate=0.2, expected_queries=9, seed=5
    )
    assert options == Options(
        test=TestKind.QUERY,
        opening=Opening.NONE,
        update=UpdateRule.STEP,
        sides=Sides.TWO_SIDED,
        sparse_vector=SparseVectorKind.LAPLACE_ROUNDS,
        update_limit=12,
        threshold=400.0,
        learning_rate=0.2,
        expected_queries=9,
        seed=5,
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


def test_n_has_the_form_that_the_lecture_prints() -> None:
    # n = O~(log|Q| sqrt(log|X| log(1/delta)) / (alpha^2 epsilon)); without delta log|X| / alpha^3.
    one = online_pmw_records(1000, accuracy=0.1, cells=1000, epsilon=1, delta=1e-9, beta=0.05)
    half = online_pmw_records(1000, accuracy=0.05, cells=1000, epsilon=1, delta=1e-9, beta=0.05)
    assert 4 < half / one < 4.6
    assert online_pmw_records(1000, accuracy=0.1, cells=10**6, epsilon=1, delta=1e-9, beta=0.05) / one < 1.6
    pure = online_pmw_records(1000, accuracy=0.1, cells=1000, epsilon=1, beta=0.05)
    assert 8 < online_pmw_records(1000, accuracy=0.05, cells=1000, epsilon=1, beta=0.05) / pure < 9.2
    third = online_pmw_records(1000, accuracy=0.1, cells=1000, epsilon=0.5, beta=0.05) / pure
    assert third == pytest.approx(2, rel=1e-6)


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
