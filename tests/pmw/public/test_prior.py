"""Priors: what they hold, their shares on other bins, and what they are named by."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import pmw
from pmw.public.codec import dumps, form_of, loads, read
from pmw.public.prior import Prior, PriorPair, attributes_text, is_prior_of
from queries import CategoricalAttribute, Domain, IntegerAttribute, Person
from queries.schema import parse_schema, stored_schema

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
