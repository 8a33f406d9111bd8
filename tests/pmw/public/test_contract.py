"""Contracts and priors: what may be chosen, and what is brought from outside."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import pmw
from pmw.errors import BudgetError
from pmw.privacy.budget import Budget, Charge, Composition, NeighboringRelation, pure_charge
from pmw.privacy.filter import PrivacyFilter
from pmw.public.charges import LedgerEntry
from pmw.public.codec import dumps, form_of, loads, read
from pmw.public.contract import Contract, guarantee, largest_belief
from pmw.public.ledger import ledger_cells, ledger_of
from pmw.public.options import ModelKind, Options, TestKind, UpdateRule
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
        ({"simultaneous": True, "sparse_vector": "laplace-rounds"}, "need one-sided test noise"),
        ({"confidence": 1.0}, "strictly between 0 and 1"),
        ({"confidence": math.nan}, "strictly between 0 and 1"),
        ({"sides": Sides.ONE_SIDED}, "errors of both signs"),
        ({"minimum_count": 1}, "expected minimum_count from 2 to 1,000,000"),
        ({"minimum_count": 10**6 + 1}, "expected minimum_count from 2 to 1,000,000"),
        ({"minimum_count": 2.5}, "expected minimum_count from 2 to 1,000,000"),
    ],
)
def test_an_impossible_choice_is_refused(choice: dict[str, Any], message: str) -> None:
    with pytest.raises(BudgetError, match=message):
        Options(**choice)


def test_two_thresholds_are_the_default_where_signs_agree() -> None:
    assert Options().chosen_sides is Sides.TWO_THRESHOLDS
    assert Options(neighboring_relation=NeighboringRelation.REPLACE_ONE).chosen_sides is Sides.TWO_SIDED
    assert Options(test=TestKind.QUERY, sides=Sides.TWO_SIDED).chosen_sides is Sides.TWO_SIDED


def test_the_textbooks_loop_can_be_written_in_words() -> None:
    words: Any = {"sparse_vector": "laplace-rounds", "sides": "two-sided", "test": "query"}
    assert Options(update="step", opening="none", **words) == Options.textbook()  # type: ignore[arg-type]


def test_what_is_no_kind_is_told_which_there_are() -> None:
    for name, words in (
        ("neighboring_relation", "'add-remove', 'replace-one'"),
        ("update", "'step', 'refit'"),
        ("opening", "'none', 'one-way', 'pairs', 'triples'"),
        ("sparse_vector", "'exponential', 'exponential-rounds', 'laplace', 'laplace-rounds', 'sech2'"),
        ("sides", "'one-sided', 'two-sided', 'two-thresholds'"),
        ("composition", "'pure', 'zcdp', 'gdp'"),
        ("test", "'query', 'marginal'"),
        ("model", "'auto', 'dense', 'graphical'"),
    ):
        for value, got in (("x", "'x'"), (3, "a int"), (["step"], "a list")):
            with pytest.raises(BudgetError) as refused:
                Options(**{name: value})  # type: ignore[arg-type]  # on purpose
            assert str(refused.value) == f"{name}: expected one of {words}, got {got}"


@given(st.floats(1e-3, 700), st.floats(0, 1))
def test_a_belief_grows_as_if_a_release_were_as_likely_as_epsilon_allows(
    epsilon: float, prior: float
) -> None:
    domain = Domain((IntegerAttribute("a", 0, 3),))
    belief = largest_belief(Contract(domain, Budget.of(epsilon, 1e-9), Options()), prior)
    factor = math.exp(epsilon)
    # As it is published:
    assert belief == pytest.approx(prior * factor / (1 + prior * (factor - 1)), rel=1e-9)
    assert prior * (1 - 1e-12) <= belief <= 1


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
    independent = made(pairs=()).shares(("x", "y"), (None, None))
    assert np.allclose(independent, np.multiply.outer(X, ONE_WAYS["y"]))


@given(st.lists(st.integers(0, 2), min_size=6, max_size=6))
def test_whatever_the_bins_shares_sum_to_the_attributes_own(numbers: list[int]) -> None:
    bin_: NDArray[np.int64] = np.unique(numbers, return_inverse=True)[1].astype(np.int64)
    found = made().shares(("x", "y"), (bin_, None))
    assert np.allclose(found.sum(axis=1), made().shares(("x",), (bin_,)))
    assert np.allclose(found.sum(axis=0), ONE_WAYS["y"])


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


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({}, "adding or removing all of one person's records (at most one record)"),
        ({"records_per_person": 3}, "(at most 3 records)"),
        (
            {"neighboring_relation": "replace-one"},
            "replacing all of one person's records (at most one record)",
        ),
    ],
)
def test_the_guarantee_in_words(choices: dict[str, Any], words: str) -> None:
    text = guarantee(Contract(DOMAIN, Budget.of("0.5", 1e-9), Options(**choices)))
    assert text.startswith("differential privacy with epsilon = 0.5, delta = 1e-09, for ")
    assert words in text
    assert "delta" not in guarantee(Contract(DOMAIN, Budget.of(1), Options(**choices)))


# --- the ledger ---------------------------------------------------------------------------------------------

PURE = PrivacyFilter(Composition.PURE, Fraction(2))
ZCDP = PrivacyFilter(Composition.ZCDP, Fraction(1, 2))
ENTRIES = [
    LedgerEntry("total", "number of records", pure_charge(Fraction(1, 2))),
    LedgerEntry("marginal", "age", pure_charge(Fraction(1, 4))),
]


def test_epsilons_are_added_under_a_pure_budget() -> None:
    ledger = ledger_of(Budget.of(2), PURE, ENTRIES)
    assert [line.price for line in ledger.lines] == [Fraction(1, 2), Fraction(1, 4)]
    assert [line.share for line in ledger.lines] == [0.25, 0.125]
    assert [line.running_share for line in ledger.lines] == [0.25, 0.375]
    assert (ledger.spent, ledger.share, ledger.unit) == (Fraction(3, 4), 0.375, "epsilon")
    assert ledger.sentence() == "Charged: 0.75 of 2 epsilon (37.5%); the cap is epsilon 2."
    form = ledger.to_dict()
    assert {name: value for name, value in form.items() if name != "entries"} == {
        "epsilon_cap": 2.0, "delta": 0.0, "composition": "pure", "unit": "epsilon", "cap": 2.0,
        "spent": 0.75, "share": 0.375,
    }  # fmt: skip
    assert form["entries"][1] == {
        "number": 2, "event": "marginal", "label": "age", "epsilon": 0.25, "charge": 0.25, "share": 0.125,
        "running_share": 0.375, "exact": "1/4",
        "theorem": "discrete Laplace noise: Ghosh, Roughgarden and Sundararajan (2012)",
    }  # fmt: skip
    with pytest.raises(BudgetError, match="expected a pure event"):
        ledger_of(Budget.of(2), PURE, [LedgerEntry("x", "y", Charge(None, Fraction(1)))])


def test_rhos_are_added_under_zcdp_and_epsilon_is_told_where_the_event_is_pure() -> None:
    gaussian = LedgerEntry("measurement", "age 3", Charge(None, Fraction(1, 16)))
    ledger = ledger_of(Budget.of(1, "1e-9"), ZCDP, [*ENTRIES, gaussian])
    assert [line.price for line in ledger.lines] == [Fraction(1, 8), Fraction(1, 32), Fraction(1, 16)]
    assert [line.epsilon for line in ledger.lines] == [Fraction(1, 2), Fraction(1, 4), None]
    assert ledger.share == 0.4375
    assert ledger_cells(ledger)[0] == ("no.", "event", "paid for", "epsilon", "rho", "share", "so far")
    assert ledger_cells(ledger)[3] == ("3", "measurement", "age 3", "", "0.0625", "12.50%", "43.75%")


@pytest.mark.parametrize("kind", list(SparseVectorKind))
@pytest.mark.parametrize("composition", [PURE, ZCDP])
def test_every_charge_says_which_theorem_it_rests_on(
    kind: SparseVectorKind, composition: PrivacyFilter
) -> None:
    free = Charge(Fraction(0), Fraction(0))
    events = ("total", "marginal", "sparse vector", "measurement", "marginal", "abandoned batch")
    lines = ledger_of(
        Budget.of(1, "1e-9"), composition, [LedgerEntry(event, "", free) for event in events], kind
    ).lines
    noise = "discrete Gaussian" if composition is ZCDP else "discrete Laplace"
    assert all(lines[place].theorem.startswith(noise) for place in (0, 1, 3, 4))
    assert lines[2].theorem == f"tests: {kind.theorem}"
    # Where a positive pays for its test as it comes, its price rests on two theorems; opening never tests.
    paid = kind is SparseVectorKind.SECH2 or (composition is PURE and not kind.redraw)
    assert [("tests" in lines[place].theorem) for place in (1, 3, 4)] == [False, paid, paid]
    assert "reserved" in lines[5].theorem
