"""Charges computed a second time: both computations agree, and a fault of the first is found."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.model.value_sums import SummedValues
from pmw.privacy.budget import NeighboringRelation
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.public import charges
from pmw.public.charges import CellNumbers, Measurable, PersonNumbers, QuestionNumbers, SumNumbers
from pmw.public.options import Options
from pmw.public.row_sensitivity import Moved
from pmw.session.verification.charges import moved_by_person, price_of
from queries import CategoricalAttribute, Domain, IntegerAttribute, parse_where
from queries.person import Person
from tests.worlds import PEOPLE, World

PRICES = "every charge is what its event costs"
QUESTIONS = tuple(parse_where(text, PEOPLE.domain) for text in ("sex = 'Male'", "age < 40", "age < 50"))
THINGS: dict[str, Measurable | None] = {
    "an answer": None,
    "cells": CellNumbers(("age", "sex")),
    "questions": QuestionNumbers(QUESTIONS),
    "nobody's persons": PersonNumbers((), 1),
    "persons by two groups": PersonNumbers(("sex",), 2),
    "persons by many groups": PersonNumbers(("region",), 60),
    "sums": SumNumbers(SummedValues("age", ("sex",))),
    "clipped sums": SumNumbers(SummedValues("age", ("sex",), clipped=True)),
    "clipped sums with numbers": SumNumbers(SummedValues("age", (), clipped=True, count_units=2**15)),
    "sums with numbers": SumNumbers(SummedValues("age", ("sex",), count_units=2**15)),
    "sums with squares": SumNumbers(SummedValues("age", ("sex",), count_units=2**15, squared=True)),
}


@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("relation", list(NeighboringRelation))
@pytest.mark.parametrize("records", [1, 3])
def test_both_computations_of_a_price_agree(thing: str, relation: NeighboringRelation, records: int) -> None:
    what = THINGS[thing]
    options = Options(neighboring_relation=relation, records_per_person=records)
    for noise in (DiscreteLaplace(Fraction(2**24, 3)), DiscreteGaussian(Fraction(2**25, 7))):
        first = charges.number_charge(noise, options) if what is None else what.charge(noise, options)
        assert price_of([(what, noise)], options) == first
    moved = moved_by_person(what, options)
    alone = charges.query_sensitivity(options)
    assert moved == (Moved(alone, alone**2) if what is None else what.sensitivity(options))


def _visits() -> World:
    draw = np.random.default_rng(3)
    attributes = (
        CategoricalAttribute("region", ("n", "s", "w")),
        IntegerAttribute("visit", 0, 9, resolution=1),
    )
    frame = pd.DataFrame(
        {
            "id": draw.integers(0, 2000, 6000),
            "region": draw.choice(["n", "s", "w"], 6000),
            "visit": draw.integers(0, 10, 6000),
        }
    )
    return World(Domain(attributes, name="visits", person=Person("id", 3)), frame)


VISITS = _visits()


def _half(moved: Moved) -> Moved:
    return Moved(moved.l1 // 2, moved.l2_squared // 4)


def _half_of(kind: type[Any]) -> Callable[[pytest.MonkeyPatch], None]:
    def change(patch: pytest.MonkeyPatch) -> None:
        rightly = kind.sensitivity
        patch.setattr(kind, "sensitivity", lambda self, options: _half(rightly(self, options)))

    return change


def _answers_move_half(patch: pytest.MonkeyPatch) -> None:
    rightly = charges.query_sensitivity
    patch.setattr(charges, "query_sensitivity", lambda options: rightly(options) // 2)


def _trees_have_one_level(patch: pytest.MonkeyPatch) -> None:
    rightly = charges.marginal_charge
    patch.setattr(charges, "marginal_charge", lambda noise, options, levels=1: rightly(noise, options))


# Wrong prices, and what is measured after opening so that one is charged.
WRONG: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], Callable[[pmw.Session], object]]] = {
    "answers": (_answers_move_half, lambda _: None),
    "cells": (_half_of(CellNumbers), lambda _: None),
    "sums": (_half_of(SumNumbers), lambda session: session.measure_sum("visit")),
    "persons": (_half_of(PersonNumbers), lambda session: session.measure_heads("region")),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_price_that_is_wrong_wherever_it_is_computed_is_found(
    monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    change, measure = WRONG[wrong]
    change(monkeypatch)
    with VISITS.opened(epsilon=2, seed=4) as session:
        measure(session)
        checks = {check.name: check for check in session.verify().checks}
    assert not checks[PRICES].holds
    assert checks[PRICES].detail.split(" of ")[0] in ("epsilon", "rho", "mu^2")


def test_a_tree_that_is_charged_for_one_level_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    _trees_have_one_level(monkeypatch)
    incomes = Domain((IntegerAttribute("income", 0, 99),), name="incomes")
    frame = pd.DataFrame({"income": np.random.default_rng(1).integers(0, 100, 3000)})
    world = World(incomes, frame)
    with world.opened(epsilon=1, test=pmw.TestKind.QUERY, seed=4) as session:
        assert "hierarchical histogram" in {line.event for line in session.ledger().lines}
        assert PRICES in {check.name for check in session.verify().checks if not check.holds}
