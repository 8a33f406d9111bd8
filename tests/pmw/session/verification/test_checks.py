"""What verification computes itself: each charge a second time, and answers that are stored together."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
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
from pmw.session.events import Contents
from pmw.session.store.columns import AnswerColumns, StoredAnswer
from pmw.session.store.store import SessionStore
from pmw.session.verification.charges import moved_by_person, price_of
from pmw.session.verification.checks import answer_checks
from queries import CategoricalAttribute, Domain, IntegerAttribute, parse_where
from queries.person import Person
from tests.pmw.session.stored import columns_of
from tests.worlds import INCOMES, PEOPLE, World, repeat_noise

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


def _half_of(kind: type[Any]) -> Callable[[pytest.MonkeyPatch], None]:
    def change(patch: pytest.MonkeyPatch) -> None:
        def half(self: Any, options: Options) -> Moved:
            moved = rightly(self, options)
            return Moved(moved.l1 // 2, moved.l2_squared // 4)

        rightly = kind.sensitivity
        patch.setattr(kind, "sensitivity", half)

    return change


def _answers_move_half(patch: pytest.MonkeyPatch) -> None:
    rightly = charges.query_sensitivity
    patch.setattr(charges, "query_sensitivity", lambda options: rightly(options) // 2)


def _trees_have_one_level(patch: pytest.MonkeyPatch) -> None:
    rightly = charges.marginal_charge
    patch.setattr(charges, "marginal_charge", lambda noise, options, levels=1: rightly(noise, options))


# Wrong prices, records, and what is measured after opening so that one is charged.
WRONG: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], World, Callable[[pmw.Session], object]]] = {
    "answers": (_answers_move_half, VISITS, lambda _: None),
    "cells": (_half_of(CellNumbers), VISITS, lambda _: None),
    "sums": (_half_of(SumNumbers), VISITS, lambda session: session.measure_sum("visit")),
    "persons": (_half_of(PersonNumbers), VISITS, lambda session: session.measure_heads("region")),
    "trees": (_trees_have_one_level, INCOMES, lambda _: None),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_price_that_is_wrong_wherever_it_is_computed_is_found(
    monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    change, world, measure = WRONG[wrong]
    change(monkeypatch)
    test = pmw.TestKind.QUERY if world is INCOMES else pmw.TestKind.MARGINAL
    with world.opened(test=test, seed=4) as session:
        measure(session)
        events = {line.event for line in session.ledger().lines}
        assert ("hierarchical histogram" in events) == (world is INCOMES)
        (check,) = (check for check in session.verify().checks if check.name == PRICES)
    assert not check.holds
    assert check.detail.split(" of ")[0] in ("epsilon", "rho", "mu^2")


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> tuple[Contents, list[StoredAnswer], int]:
    """Return a session's contents, its stored answers, some with typical errors, and how many were asked.

    Its noise is the same in every run: without a positive, no version can fall.
    """
    with pytest.MonkeyPatch.context() as patch:
        repeat_noise(patch, 6)
        return answered(tmp_path_factory)


def answered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Contents, list[StoredAnswer], int]:
    """Ask a new session many questions, and return what its file holds."""
    age = np.random.default_rng(1).integers(0, 20, 4000)
    hours = np.minimum(age // 2 + np.random.default_rng(2).integers(0, 6, 4000), 11)
    table = tmp_path_factory.mktemp("table") / "people.csv"
    pd.DataFrame({"age": age, "hours": hours}).to_csv(table, index=False)
    domain = Domain(tuple(IntegerAttribute(name, 0, size) for name, size in SIZES.items()), "people")
    path = table.with_name("study.pmw")
    frame = pd.read_csv(table).assign(k=2, m=1)
    options = pmw.Options(opening=pmw.Opening.ONE_WAY)
    with pmw.open_session(frame, domain, epsilon=1, delta=1e-9, path=path, options=options) as session:
        generator = np.random.default_rng(3)
        for names in (("age", "hours"), ("age", "k"), ("hours", "k"), ("k", "m"), ("age",)):
            ends = [np.sort(generator.integers(0, SIZES[name] + 1, (300, 2)), axis=1) for name in names]
            session.answer_arrays(names, *(np.stack([one[:, end] for one in ends], axis=1) for end in (0, 1)))
    with closing(SessionStore.open(path)) as store:
        newer = {first + one for first, run in store.answers.newer_runs() for one in range(run.total())}
        stored = [one for number, one in enumerate(store.answers.each(), 1) if number not in newer]
        assert sum(len(one) > 1 for one in store.answers.blocks()) > 3
        assert stored[-1].version > 0
        return Contents(store), stored, store.asked()


SIZES = {"age": 19, "hours": 11, "k": 6, "m": 3}


class Given:
    """A store of answers."""

    def __init__(self, stored: list[StoredAnswer], asked: int) -> None:
        self._stored = stored
        self._asked = asked

    @property
    def answers(self) -> Given:
        return self

    def blocks(self) -> tuple[AnswerColumns, ...]:
        return columns_of(self._stored)

    def asked(self) -> int:
        return self._asked

    def newer_runs(self) -> list[Any]:
        return []


def found(contents: Contents, stored: list[StoredAnswer], asked: int) -> dict[str, str]:
    """Return what fails, by the check."""
    store: Any = Given(stored, asked)
    return {check.name: check.detail for check in answer_checks(contents, store) if not check.holds}


def test_what_holds_is_looked_at_together(read: tuple[Contents, list[StoredAnswer], int]) -> None:
    _, stored, _ = read
    assert {one.typical is None for one in stored} == {False, True}
    assert len(columns_of(stored)) < 20
    assert not found(*read)


def moved(pair: tuple[float, float] | None, low: float, high: float) -> tuple[float, float] | None:
    return None if pair is None else (pair[0] + low, pair[1] + high)


MEASURED = "measured answers are the stored measurements"
FORM = "every answer has the form that its source promises"
ORDER = "the share in answers never falls and never exceeds 1"
OUTSIDE = "the interval .* does not hold it"
PROMISED = "it lacks an interval that its source promises"
TYPICAL = "typical error: .* is not that of the quantiles before it"
NOT_MEASURED = "(model version . is not a new one|measurement . does not contain its question)"
TAMPERINGS: dict[str, tuple[Callable[[StoredAnswer], dict[str, Any]], str, str]] = {
    "no number": (lambda one: {"count": math.nan}, FORM, "the count nan is no number of records"),
    "no finite number": (
        lambda one: {"count": math.inf, "interval": (0.0, math.inf)}, FORM, "the count inf is no number .*",
    ),
    "below zero": (lambda one: {"count": -1.0}, FORM, "the count -1.0 is no number of records"),
    "above its interval": (lambda one: {"count": (one.interval or (0, 0))[1] + 1}, FORM, OUTSIDE),
    "below its interval": (lambda one: {"interval": moved(one.interval, one.count + 1, 0)}, FORM, OUTSIDE),
    "an infinite end": (lambda one: {"interval": (0.0, math.inf)}, FORM, OUTSIDE),
    "a low end below zero": (lambda one: {"interval": (-1.0, 4000.0)}, FORM, OUTSIDE),
    "no interval": (lambda one: {"interval": None}, FORM, PROMISED),
    "an interval of what was refused": (
        lambda one: {"source": "refused"}, FORM, "it has an interval where it was refused",
    ),
    "typical moved": (lambda one: {"typical": moved(one.typical, 0, 1e-9)}, FORM, TYPICAL),
    "typical taken away": (lambda one: {"typical": None}, FORM, TYPICAL),
    "typical without a kind": (lambda one: {"kind": None, "typical": (0.0, 1.0)}, FORM, TYPICAL),
    "another kind": (lambda one: {"kind": "1 bins", "typical": (0.0, 2.0)}, FORM, TYPICAL),
    "confidence": (lambda one: {"confidence": 0.9}, FORM, "confidence: expected 0.95, found 0.9"),
    "a share above one": (lambda one: {"share": 1.5}, ORDER, "the share 1.5 exceeds 1"),
    "a share that falls": (lambda one: {"share": 0.0}, ORDER, "the share falls from .* to 0"),
    "a share that never was": (
        lambda one: {"share": one.share + 1e-9}, ORDER, "the share .* is none that the ledger ever had",
    ),
    "a version that falls": (lambda one: {"version": 0}, ORDER, "the model version falls from . to 0"),
    "a version that never was": (
        lambda one: {"version": one.version + 9}, ORDER, "there is no model version .*",
    ),
    "measured": (lambda one: {"source": "measured"}, MEASURED, NOT_MEASURED),
}  # fmt: skip


@pytest.mark.parametrize("tampering", TAMPERINGS)
@pytest.mark.parametrize("whole", [False, True])
def test_what_is_wrong_with_one_answer_or_with_a_run_is_found(
    read: tuple[Contents, list[StoredAnswer], int], tampering: str, *, whole: bool
) -> None:
    contents, stored, asked = read
    change, check, fault = TAMPERINGS[tampering]
    last = [one for one in stored if one.typical][-1]
    alike = [
        place
        for place, one in enumerate(stored)
        if one.typical is not None and (one.share, one.version) == (last.share, last.version)
    ]
    changed = list(stored)
    for place in alike if whole else alike[len(alike) // 2 :][:1]:
        changed[place] = replace(stored[place], **change(stored[place]))
    first = alike[0 if whole else len(alike) // 2] + 1
    assert re.fullmatch(f"answer {first}: {fault}", found(contents, changed, asked)[check])


def test_an_accuracy_contract_bounds_how_far_ends_are(
    read: tuple[Contents, list[StoredAnswer], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    contents, stored, _ = read
    reaches = [
        max(high - one.count, one.count - low) for one in stored for low, high in [one.interval or (0, 0)]
    ]
    limit = max(reaches) / 2
    monkeypatch.setattr(type(contents.contract.options), "bar_limit", property(lambda _: limit))
    first = next(number for number, reach in enumerate(reaches, start=1) if reach > limit)
    assert re.fullmatch(
        f"answer {first}: the interval .* is wider than the accuracy contract allows", found(*read)[FORM]
    )
