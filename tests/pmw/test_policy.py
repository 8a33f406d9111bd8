"""Options: what a custodian may choose."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pmw.errors import BudgetError
from pmw.policy import Contract, Options
from pmw.privacy import Budget, NeighboringRelation
from pmw.sparse_vector import Sides
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
    assert Options(sides=Sides.TWO_SIDED).chosen_sides is Sides.TWO_SIDED


def test_a_seed_makes_a_contract_without_privacy() -> None:
    domain = Domain((IntegerAttribute("a", 0, 1),))
    assert Contract(domain, Budget.of(1), Options(seed=3)).seeded
    assert not Contract(domain, Budget.of(1), Options()).seeded
