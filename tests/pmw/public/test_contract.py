"""Options: what a custodian may choose."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pmw.errors import BudgetError
from pmw.privacy.budget import Budget, NeighboringRelation
from pmw.public.contract import Contract, ModelKind, Opening, Options, TestKind, UpdateRule
from pmw.sparse_vector import Sides, SparseVectorKind
from queries import Domain, IntegerAttribute


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"records_per_person": 0}, "expected records_per_person from 1 to 1,000,000, got 0"),
        ({"records_per_person": 1.5}, "expected records_per_person"),
        ({"records_per_person": True}, "expected records_per_person"),
        ({"update_limit": 0}, "expected update_limit from 1 to 1,000,000, got 0"),
        ({"expected_queries": -1}, "expected expected_queries"),
        ({"threshold": 0.0}, "expected a positive threshold, got 0.0"),
        ({"threshold": math.inf}, "expected a positive threshold"),
        ({"threshold": 1e13}, "expected a threshold of at most 1e12"),
        ({"learning_rate": -1.0}, "expected a positive learning_rate"),
        ({"max_cells": 0}, "expected max_cells from 1 to 100,000,000, got 0"),
        ({"update": UpdateRule.STEP}, "update = step goes with test = query"),
        ({"threshold": 5.0}, "threshold belongs to test = query"),
        ({"learning_rate": 0.1}, "learning_rate belongs to test = query"),
        ({"sides": Sides.TWO_SIDED}, "sides belongs to test = query"),
        ({"model": ModelKind.DENSE, "max_cells": 9}, "a dense model has none"),
        ({"test": TestKind.QUERY, "model": ModelKind.GRAPHICAL}, "single questions need a dense model"),
        ({"test": TestKind.QUERY, "max_cells": 9}, "which goes with test = marginal"),
        ({"test": TestKind.QUERY, "simultaneous": True}, "simultaneous intervals go with test = marginal"),
        (
            {"simultaneous": True, "sparse_vector": SparseVectorKind.LAPLACE_ROUNDS},
            "need one-sided test noise",
        ),
        ({"confidence": 1.0}, "strictly between 0 and 1"),
        ({"confidence": math.nan}, "strictly between 0 and 1"),
        ({"sides": Sides.ONE_SIDED}, "errors of both signs"),
    ],
)
def test_an_impossible_choice_is_refused(choice: dict[str, Any], message: str) -> None:
    with pytest.raises(BudgetError, match=message):
        Options(**choice)


def test_two_thresholds_are_the_default_where_signs_agree() -> None:
    assert Options().chosen_sides is Sides.TWO_THRESHOLDS
    assert Options(neighboring_relation=NeighboringRelation.REPLACE_ONE).chosen_sides is Sides.TWO_SIDED
    assert Options(test=TestKind.QUERY, sides=Sides.TWO_SIDED).chosen_sides is Sides.TWO_SIDED


def test_choices_that_go_with_either_test_are_taken() -> None:
    for test in TestKind:
        assert (
            Options(
                test=test, opening=Opening.NONE, update_limit=3, sparse_vector=SparseVectorKind.EXPONENTIAL
            ).test
            is test
        )
    assert Options().test is TestKind.MARGINAL
    assert Options(model=ModelKind.GRAPHICAL, max_cells=9, simultaneous=True).max_cells == 9
    step = Options(test=TestKind.QUERY, update=UpdateRule.STEP, learning_rate=0.1, threshold=5.0)
    assert step.update is UpdateRule.STEP


def test_a_seed_makes_a_contract_without_privacy() -> None:
    domain = Domain((IntegerAttribute("a", 0, 1),))
    assert Contract(domain, Budget.of(1), Options(seed=3)).seeded
    assert not Contract(domain, Budget.of(1), Options()).seeded
