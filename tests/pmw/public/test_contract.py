"""Contracts and priors: what may be chosen, and what is brought from outside."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import pmw
from pmw.errors import BudgetError
from pmw.privacy.budget import Budget, Composition, NeighboringRelation
from pmw.public.codec import dumps, form_of, loads, read
from pmw.public.contract import Contract, largest_belief
from pmw.public.options import ModelKind, Opening, Options, TestKind, UpdateRule
from pmw.public.prior import Prior, PriorPair, attributes_text, is_prior_of
from pmw.sparse_vector import Sides, SparseVectorKind
from queries import CategoricalAttribute, Domain, IntegerAttribute, Person
from queries.schema import parse_schema, stored_schema


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


@pytest.mark.parametrize(
    ("name", "word", "kind"),
    [
        ("neighboring_relation", "replace-one", NeighboringRelation.REPLACE_ONE),
        ("neighboring_relation", "replace_one", NeighboringRelation.REPLACE_ONE),
        ("update", "refit", UpdateRule.REFIT),
        ("opening", "none", Opening.NONE),
        ("sparse_vector", "laplace", SparseVectorKind.LAPLACE),
        ("composition", "pure", Composition.PURE),
        ("test", "query", TestKind.QUERY),
        ("model", "dense", ModelKind.DENSE),
    ],
)
def test_a_kind_may_be_given_as_the_command_lines_word(name: str, word: str, kind: object) -> None:
    assert getattr(Options(**{name: word}), name) is kind  # type: ignore[arg-type]  # any of the kinds
    assert Options(**{name: word}) == Options(**{name: kind})  # type: ignore[arg-type]


def test_the_textbooks_loop_can_be_written_in_words() -> None:
    words: dict[str, Any] = {
        "update": "step",
        "opening": "none",
        "sparse_vector": "laplace-rounds",
        "sides": "two-sided",
        "test": "query",
    }
    assert Options(**words) == Options.textbook()


_FIELDS_OF_KINDS = [
    ("neighboring_relation", "'add-remove', 'replace-one'"),
    ("update", "'step', 'refit'"),
    ("opening", "'none', 'one-way', 'pairs', 'triples'"),
    ("sparse_vector", "'exponential', 'exponential-rounds', 'laplace', 'laplace-rounds', 'sech2'"),
    ("sides", "'one-sided', 'two-sided', 'two-thresholds'"),
    ("composition", "'pure', 'zcdp', 'gdp'"),
    ("test", "'query', 'marginal'"),
    ("model", "'auto', 'dense', 'graphical'"),
]


@pytest.mark.parametrize(("name", "words"), _FIELDS_OF_KINDS)
@pytest.mark.parametrize(
    ("value", "got"),
    [("x", "'x'"), ("", "''"), (len, "a builtin_function_or_method"), (3, "a int"), (["step"], "a list")],
)
def test_what_is_no_kind_is_told_which_there_are(name: str, words: str, value: object, got: str) -> None:
    with pytest.raises(BudgetError) as refused:
        Options(**{name: value})  # type: ignore[arg-type]  # on purpose
    assert str(refused.value) == f"{name}: expected one of {words}, got {got}"


@pytest.mark.parametrize("name", ["neighboring_relation", "update", "opening", "test", "model"])
def test_none_is_no_kind_where_planning_chooses_none(name: str) -> None:
    with pytest.raises(BudgetError, match=f"{name}: expected one of"):
        Options(**{name: None})  # type: ignore[arg-type]


def test_every_field_of_a_kind_takes_words() -> None:
    kinds = {
        field.name for field in fields(Options) if any(str(field.type).startswith(one) for one in _KIND_NAMES)
    }
    assert kinds == {name for name, _ in _FIELDS_OF_KINDS}


_KIND_NAMES = (
    "NeighboringRelation", "UpdateRule", "Opening", "SparseVectorKind", "Sides", "Composition", "TestKind",
    "ModelKind",
)  # fmt: skip


@given(st.floats(1e-3, 700), st.floats(0, 1))
def test_a_belief_grows_as_if_a_release_were_as_likely_as_epsilon_allows(
    epsilon: float, prior: float
) -> None:
    domain = Domain((IntegerAttribute("a", 0, 3),))
    belief = largest_belief(Contract(domain, Budget.of(epsilon, 1e-9), Options()), prior)
    factor = math.exp(epsilon)
    assert belief == pytest.approx(
        prior * factor / (1 + prior * (factor - 1)), rel=1e-9
    )  # as it is published
    assert prior * (1 - 1e-12) <= belief <= 1


def test_somebody_who_thinks_it_half_likely_comes_to_73_percent_at_epsilon_1_whatever_delta() -> None:
    domain = Domain((IntegerAttribute("a", 0, 3),))
    for delta in (0, 1e-9, 0.01):
        belief = largest_belief(Contract(domain, Budget.of(1, delta), Options()))
        assert belief == pytest.approx(0.7310585786)


# --- prior ----------------------------------------------------------------------------------------------


DOMAIN = Domain((IntegerAttribute("x", 0, 5), CategoricalAttribute("y", ("a", "b"))))
X = np.array([0.1, 0.3, 0.0, 0.2, 0.15, 0.25])
BINS = {"x": np.array([0, 0, 1, 1, 1, 2]), "y": np.array([0, 1])}
TABLE = np.array([[0.1, 0.3], [0.3, 0.05], [0.05, 0.2]])
ONE_WAYS = {"x": X, "y": TABLE.sum(axis=0)}


def made(**changes: Any) -> Prior:
    parts: dict[str, Any] = {
        "schema": attributes_text(DOMAIN),
        "one_ways": ONE_WAYS,
        "bins": BINS,
        "pairs": (PriorPair(("x", "y"), TABLE),),
    }
    return Prior(**{**parts, **changes})


def test_on_declared_cells_a_pair_has_its_shares_inside_each_bin() -> None:
    found = made().shares(("x", "y"), (None, None))
    assert found[0].tolist() == pytest.approx([0.1 / 4, 0.3 / 4])
    assert found[2].tolist() == [0.0, 0.0]
    assert found[4].tolist() == pytest.approx([0.3 * 0.15 / 0.35, 0.05 * 0.15 / 0.35])


@given(st.lists(st.integers(0, 2), min_size=6, max_size=6))
def test_whatever_the_bins_shares_sum_to_the_attributes_own(numbers: list[int]) -> None:
    bin_: NDArray[np.int64] = np.unique(numbers, return_inverse=True)[1].astype(np.int64)
    found = made().shares(("x", "y"), (bin_, None))
    assert np.allclose(found.sum(axis=1), made().shares(("x",), (bin_,)))
    assert np.allclose(found.sum(axis=0), ONE_WAYS["y"])


def test_a_pair_that_is_left_out_is_independent() -> None:
    found = made(pairs=()).shares(("x", "y"), (None, None))
    assert np.allclose(found, np.multiply.outer(X, ONE_WAYS["y"]))


def test_it_is_written_and_read_and_any_change_of_it_has_another_digest() -> None:
    prior = made()
    assert read(Prior, loads(dumps(form_of(prior)))) == prior
    turned = TABLE[:, ::-1]
    others = [
        made(pairs=()),
        made(pairs=(PriorPair(("x", "y"), turned),)),
        made(one_ways={**ONE_WAYS, "x": X[::-1]}),
        made(bins={**BINS, "x": np.array([0, 1, 1, 1, 1, 2])}),
        made(schema="other"),
    ]
    assert len({prior.digest, *(other.digest for other in others)}) == 6
    options = pmw.Options(prior=prior)
    assert options == pmw.Options(prior=made())
    assert options != replace(options, prior=others[0])


@pytest.mark.parametrize(
    "changes",
    [
        {"one_ways": {**ONE_WAYS, "x": X * 2}},
        {"one_ways": {**ONE_WAYS, "x": np.append(X[:5], np.nan)}},
        {"one_ways": {**ONE_WAYS, "x": X[:3] / X[:3].sum()}},
        {"one_ways": {"y": ONE_WAYS["y"]}},
        {"bins": {**BINS, "x": np.array([0, 0, 0, 2, 2, 2])}},
        {"bins": {**BINS, "x": np.array([0, 0, 0, 0, 0, 2**61])}},
        {"bins": {**BINS, "x": np.array([-1, 0, 0, 0, 0, 1])}},
        {"pairs": (PriorPair(("x", "z"), TABLE),)},
        {"pairs": (PriorPair(("y", "x"), TABLE),)},
        {"pairs": (PriorPair(("x", "y"), TABLE), PriorPair(("x", "y"), TABLE))},
    ],
)
def test_parts_that_do_not_fit_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(pmw.BudgetError, match="expected a prior"):
        made(**changes)


def test_shares_below_nothing_are_refused() -> None:
    with pytest.raises(pmw.BudgetError, match="at least 0"):
        PriorPair(("x", "y"), TABLE - 0.06)


def test_it_is_of_the_attributes_alone() -> None:
    named = Domain(DOMAIN.attributes, "people", person=Person("id", 2))
    assert is_prior_of(made(), named)
    summed = parse_schema(stored_schema(DOMAIN))  # with the resolutions that schemas have today
    assert summed.grids
    assert is_prior_of(made(), summed)
    assert is_prior_of(replace(made(), schema=stored_schema(replace(summed, name="prior"))), summed)
    assert not is_prior_of(made(), Domain(DOMAIN.attributes[::-1]))
    assert not is_prior_of(made(), Domain((*DOMAIN.attributes, IntegerAttribute("z", 0, 1))))
    assert not is_prior_of(made(), Domain((IntegerAttribute("x", 0, 6), DOMAIN.attributes[1])))
