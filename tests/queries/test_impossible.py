"""Impossible cells: what a schema may say of them, which records are dropped, what questions leave out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from queries import (
    CategoricalAttribute,
    Domain,
    DomainError,
    Factor,
    IntegerAttribute,
    LinearQuery,
    Marginal,
    encode_records,
    format_schema,
    parse_schema,
    parse_where,
    rule_out,
)
from queries.factors import UNITS
from queries.impossible import MOST_CONDITIONS, impossible_cells
from queries.reader import QuestionReader
from tests.queries.meaning import full_weights

PLAIN = Domain(
    (
        IntegerAttribute("age", 0, 9),
        CategoricalAttribute("married", ("no", "yes"), missing=True),
        CategoricalAttribute("sex", ("f", "m"), other=True),
    ),
    name="people",
)
CHILD = "age < 3 AND married = 'yes'"
DOMAIN = rule_out(PLAIN, CHILD, "sex = 'm' AND age = 9")
WIDE = Domain(tuple(IntegerAttribute(name, 0, 254) for name in "abc"), name="wide")


def impossible() -> NDArray[np.bool_]:
    """Return the impossible cells of the whole domain, by the definition of both conditions."""
    age, married, sex = np.indices(PLAIN.shape)
    return np.asarray(((age < 3) & (married == 1)) | ((sex == 1) & (age == 9)))


# --- schemas -----------------------------------------------------------------------------------------------


def test_a_schema_says_what_no_record_satisfies_and_is_written_as_it_was() -> None:
    assert parse_schema(format_schema(DOMAIN)) == DOMAIN
    assert f'[[impossible]]\nwhere = "{CHILD}"' in format_schema(DOMAIN)
    assert DOMAIN != PLAIN
    assert "impossible" not in format_schema(PLAIN)


def test_a_condition_that_cuts_cells_or_is_about_too_many_is_refused() -> None:
    binned = Domain((IntegerAttribute("age", 0, 99, 10), CategoricalAttribute("sex", ("f", "m"))))
    with pytest.raises(DomainError, match="impossible where age < 15"):
        rule_out(binned, "age < 15")
    with pytest.raises(DomainError, match=r"at most 65,536 cells together, got 16,581,375"):
        rule_out(WIDE, "a = 1 AND b = 2 AND c = 3")
    with pytest.raises(DomainError, match="at most 100 impossible conditions, got 101"):
        rule_out(PLAIN, *[CHILD] * (MOST_CONDITIONS + 1))


# --- records -----------------------------------------------------------------------------------------------

VALUES = st.tuples(
    st.integers(-2, 12) | st.none(), st.sampled_from(["no", "yes", "", "maybe"]), st.sampled_from("fmx")
)


@given(st.lists(VALUES, max_size=40))
def test_records_in_impossible_cells_are_dropped_by_their_own_values(rows: list[tuple[object, ...]]) -> None:
    frame = pd.DataFrame(rows, columns=["age", "married", "sex"])
    everybody, kept = encode_records(frame, PLAIN), encode_records(frame, DOMAIN)
    inside = impossible()[tuple(column.astype(int) for column in everybody.columns)]
    for of_all, of_kept in zip(everybody.columns, kept.columns, strict=True):
        np.testing.assert_array_equal(of_all[~inside], of_kept)


# --- questions ---------------------------------------------------------------------------------------------


@st.composite
def questions(draw: st.DrawFn) -> list[tuple[tuple[str, ...], list[int]]]:
    """Return weights over some attributes, by themselves or together; the first perhaps of fractions."""
    scopes: list[tuple[str, ...]] = draw(
        st.sampled_from(
            [
                [("age",)], [("age",), ("married",)], [("age", "married")], [("age", "sex"), ("married",)],
                [("age", "married", "sex")], [("married",), ("sex",)], [("age",), ("married",), ("sex",)],
            ]
        )
    )  # fmt: skip
    found = []
    for place, scope in enumerate(scopes):
        shape = PLAIN.scope_shape(scope)
        weights = st.integers(0, UNITS) if place == 0 else st.sampled_from([0, UNITS])
        size = int(np.prod(shape))
        found.append((scope, draw(st.lists(weights, min_size=size, max_size=size))))
    return found


@given(questions(), st.integers(0, 2**32))
def test_a_question_leaves_impossible_cells_out_and_no_answer_changes(
    weights: list[tuple[tuple[str, ...], list[int]]], seed: int
) -> None:
    factors = tuple(
        Factor(scope, np.array(one, dtype=np.int64).reshape(PLAIN.scope_shape(scope)))
        for scope, one in weights
    )
    plain, possible = LinearQuery(PLAIN, factors), LinearQuery(DOMAIN, factors)
    counts = np.random.default_rng(seed).integers(0, 50, PLAIN.shape)
    counts[impossible()] = 0
    tables = [Marginal(domain, domain.names, counts) for domain in (PLAIN, DOMAIN)]
    assert possible.answer(tables[1]) == plain.answer(tables[0])
    # Nothing but impossible cells is left out; of cells of the question's attributes, all of them are.
    found = full_weights(possible)
    np.testing.assert_array_equal(found[~impossible()], full_weights(plain)[~impossible()])
    cells = np.broadcast_to(impossible_cells(DOMAIN.impossible, plain.scope), PLAIN.scope_shape(plain.scope))
    shape = [size if name in plain.scope else 1 for name, size in PLAIN.sizes.items()]
    assert not found[np.broadcast_to(cells.reshape(shape), PLAIN.shape)].any()
    assert LinearQuery.from_dict(DOMAIN, possible.to_dict()).to_json() == possible.to_json()


TERMS = ("age < 5", "married = 'yes'", "sex = 'm'", "age >= 2", "sex <> 'f'")
WHERES = st.lists(st.sampled_from(TERMS), min_size=1, max_size=3, unique=True).map(" AND ".join)


@given(st.lists(WHERES, min_size=2, max_size=5))
def test_a_condition_means_the_same_whatever_was_read_before(asked: list[str]) -> None:
    """``age < 5`` is about fewer ages beside ``married = 'yes'`` than alone."""
    reader = QuestionReader(rule_out(DOMAIN, "married = 'yes' AND sex = 'm' OR age = 4 AND sex = 'f'"))
    for where in asked:
        expected = parse_where(where, reader.domain).to_json()
        assert reader.where(where).to_json() == expected
        assert reader.statement(f"SELECT COUNT(*) FROM people WHERE {where}").where.to_json() == expected


def test_what_is_impossible_whatever_else_holds_is_so_of_fewer_attributes() -> None:
    two = Domain((IntegerAttribute("age", 0, 9), CategoricalAttribute("sex", ("f", "m"))))
    domain = rule_out(two, "age < 3 AND sex = 'f' OR age < 2 AND sex = 'm'")
    assert parse_where("age < 5", domain).key() == parse_where("age >= 2 AND age < 5", domain).key()
    assert parse_where("age < 2", domain).constant == 0


def test_questions_about_too_many_cells_together_are_left_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("queries.impossible._MOST_TOGETHER", 1000)
    plain = Domain(tuple(IntegerAttribute(name, 0, 14) for name in "abc"))  # 3,375 cells
    together, domain = (
        Factor(("b", "c"), UNITS * np.eye(15, dtype=np.int64)),
        rule_out(plain, "a = 1 AND b = 2"),
    )
    assert LinearQuery(domain, (together,)).to_json() == LinearQuery(plain, (together,)).to_json()
