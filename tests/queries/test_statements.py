"""Groups: a query for every declared value, and their sum is the whole."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queries.categories import CategoricalAttribute
from queries.domain import Domain
from queries.errors import QueryError, ScopeError
from queries.factors import UNITS, Factor
from queries.linear import LinearQuery
from queries.marginal import Histogram
from queries.numbers import IntegerAttribute, NumericAttribute
from queries.parsing import parse_where
from queries.statements import MOST_BINS, Statement
from tests.queries.meaning import full_weights

DOMAIN = Domain(
    (
        IntegerAttribute("age", 20, 29, width=4, missing=True),
        NumericAttribute("income", (0, 10, 30)),
        CategoricalAttribute("sex", ("Female", "Male"), other=True),
        CategoricalAttribute("member", (True, False)),
    ),
    name="people",
)
COUNTS = Histogram(DOMAIN, np.random.default_rng(5).integers(0, 50, DOMAIN.shape))
CONDITIONS = (
    "",
    "age >= 22",
    "age >= 22 AND income < 7",
    "sex = 'Female' OR age < 24",
    "income BETWEEN 3 AND 6",
    "NOT (member = TRUE AND income >= 10)",
    "age IS NULL",
)


@given(where=st.sampled_from(CONDITIONS), names=st.permutations(DOMAIN.names))
def test_a_group_counts_what_the_condition_counts_in_its_cells(where: str, names: list[str]) -> None:
    query = parse_where(where, DOMAIN)
    scope = tuple(names[:2])
    groups = counts(query, scope)
    weights = full_weights(query)
    codes = itertools.product(*(range(DOMAIN[name].size) for name in scope))
    for cells, group in zip(codes, groups, strict=True):
        expected = np.zeros_like(weights)
        inside = tuple(cells[scope.index(name)] if name in scope else slice(None) for name in DOMAIN.names)
        expected[inside] = weights[inside]
        np.testing.assert_array_equal(full_weights(group), expected)


def counts(query: LinearQuery, names: Sequence[str] = ()) -> list[LinearQuery]:
    """Return the counting question of each group."""
    return [question for _, _, question in Statement.count_by(query, names).questions()]


def test_groups_run_in_the_order_asked_the_last_attribute_fastest() -> None:
    statement = Statement.count_by(LinearQuery.everything(DOMAIN), ("sex", "age"))
    assert statement.size == 12
    assert [column.title for column in statement.columns] == ["sex", "age", "count"]
    assert tuple(group.labels for group in statement.groups())[:5] == (
        ("Female", "20..23"), ("Female", "24..27"), ("Female", "28..29"), ("Female", None),
        ("Male", "20..23"),
    )  # fmt: skip


def test_cells_are_named_by_what_they_hold() -> None:
    whole = IntegerAttribute("n", 3, 5)
    assert [whole.value(code) for code in range(3)] == [3, 4, 5]
    assert [DOMAIN["income"].value(code) for code in range(2)] == ["[0, 10)", "[10, 30]"]
    assert [DOMAIN["sex"].value(code) for code in range(3)] == ["Female", "Male", "(other)"]
    assert [DOMAIN["member"].value(code) for code in range(2)] == [True, False]


def test_a_group_outside_the_cut_is_aligned() -> None:
    groups = counts(parse_where("income >= 5", DOMAIN), ("income",))
    assert [group.aligned for group in groups] == [False, True]
    outside = counts(parse_where("income BETWEEN 3 AND 6", DOMAIN), ("income",))
    assert outside[1].answer(COUNTS) == 0
    assert outside[1].aligned


def test_without_attributes_there_is_one_group() -> None:
    query = parse_where("age >= 24", DOMAIN)
    assert [group.key() for group in counts(query)] == [query.key()]
    assert [group.labels for group in Statement.count_by(query).groups()] == [()]


def test_a_constant_weight_stays_in_every_group() -> None:
    half = LinearQuery(DOMAIN, (Factor((), np.array(UNITS // 2)),), aligned=False)
    first, second = counts(half, ("member",))
    assert first.answer(COUNTS) + second.answer(COUNTS) == half.answer(COUNTS)
    assert not first.aligned


def test_groups_that_cannot_be_are_refused() -> None:
    everybody = LinearQuery.everything(DOMAIN)
    with pytest.raises(QueryError, match="names an attribute twice: 'sex'"):
        counts(everybody, ("sex", "sex"))
    with pytest.raises(QueryError, match="unknown attribute 'height'; declared are age, income, sex, member"):
        counts(everybody, ("height",))
    wide = Domain((IntegerAttribute("a", 1, 101), IntegerAttribute("b", 1, 100)))
    with pytest.raises(QueryError, match="at most 10,000 groups, got 10,100") as caught:
        counts(LinearQuery.everything(wide), ("a", "b"))
    assert caught.value.code == "too_large"
    assert MOST_BINS == 10_000
    with pytest.raises(ScopeError):
        everybody.within({"sex": 3})
