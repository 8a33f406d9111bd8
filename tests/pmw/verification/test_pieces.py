"""Pieces of questions: only what is written as the question would be is read."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from pmw.model import Coarsening
from pmw.verification.pieces import Pieces
from queries import (
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    LinearQuery,
    NumericAttribute,
    parse_where,
    random_conjunctions,
)

DOMAIN = Domain(
    (
        CategoricalAttribute("sex", ("Female", "Male")),
        IntegerAttribute("age", 0, 79),
        IntegerAttribute("hours", 0, 59),
    )
)
ONE = 2**20
SEX, AGE = [["sex"], [[0, 1, ONE]]], [["age"], [[0, 9, ONE]]]
CUT = [["age"], [[0, 9, 7], [9, 12, 8]]]
CUT_TOO = [["hours"], [[0, 9, 7], [9, 12, 8]]]


def read(form: dict[str, Any]) -> list[tuple[str, ...]] | None:
    """Return the scopes of the factors that are read of a form."""
    found = Pieces(Coarsening.identity(DOMAIN)).of(json.dumps(form, separators=(",", ":")))
    return None if found is None else [piece.scope for piece in found]


def test_a_question_is_read_as_its_factors() -> None:
    for query in random_conjunctions(DOMAIN, 100, seed=1):
        pieces = Pieces(Coarsening.identity(DOMAIN)).of(query.to_json())
        assert pieces is not None
        for factor, piece in zip(query.factors, pieces, strict=True):
            assert piece.scope == factor.scope
            for weights in (piece.fine, piece.mean, piece.inner, piece.outer):
                np.testing.assert_array_equal(weights, factor.weights.ravel() / ONE)


def test_the_flag_of_cut_cells_is_read() -> None:
    assert read({"factors": [SEX, CUT], "aligned": False}) == [("sex",), ("age",)]


@pytest.mark.parametrize("where", ["age > 4", "age > 4 AND sex = 'Male'", "age <= 0", "age < 79"])
def test_a_question_between_two_readings_is_left(where: str) -> None:
    ages = NumericAttribute("age", (0, 4, 9, 79))
    domain = Domain((CategoricalAttribute("sex", ("Female", "Male")), ages))
    query = parse_where(where, domain)
    assert query.readings is not None
    assert Pieces(Coarsening.identity(domain)).of(query.to_json()) is None


@pytest.mark.parametrize(
    "factors",
    [
        pytest.param([AGE, SEX], id="not in declared order"),
        pytest.param([SEX, SEX], id="twice over one attribute"),
        pytest.param([[["age"], [[0, 5, ONE], [5, 9, ONE]]]], id="two runs that are one"),
        pytest.param([[["age"], [[0, 80, ONE]]]], id="everybody"),
        pytest.param([[["age"], [[0, 9, ONE // 2]]]], id="a common share"),
        pytest.param([CUT, CUT_TOO], id="two factors of fractions"),
        pytest.param([[["income"], [[0, 9, ONE]]]], id="an unknown attribute"),
        pytest.param([[["age"], [[0, 9, "x"]]]], id="a weight that is no number"),
        pytest.param([[["age"], 3]], id="no runs"),
        pytest.param([SEX, 3], id="no factor"),
        pytest.param([], id="nothing"),
    ],
)
def test_a_question_that_is_not_written_as_it_would_be_is_left(factors: list[Any]) -> None:
    assert read({"factors": factors}) is None


@pytest.mark.parametrize("more", [{"constant": ONE // 2}, {"aligned": True}, {"other": 1}])
def test_a_rarer_form_is_left(more: dict[str, Any]) -> None:
    assert read({"factors": [SEX]}) == [("sex",)]
    assert read({"factors": [SEX], **more}) is None


def test_a_name_that_looks_like_the_end_of_a_factor_is_no_end() -> None:
    domain = Domain((CategoricalAttribute("x]]],[[", ("a", "b")), CategoricalAttribute("y", ("a", "b"))))
    pieces = Pieces(Coarsening.identity(domain))
    assert pieces.of(LinearQuery.cells(domain, {"x]]],[[": (0, 0), "y": (1, 1)}).to_json()) is None
    assert pieces.of(LinearQuery.cells(domain, {"y": (1, 1)}).to_json()) is not None
