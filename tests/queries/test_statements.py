"""Groups: a query for every declared value, and their sum is the whole."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from queries.categories import CategoricalAttribute
from queries.domain import Domain
from queries.errors import QueryError, ScopeError
from queries.factors import UNITS, Factor
from queries.linear import LinearQuery
from queries.numbers import IntegerAttribute, NumericAttribute
from queries.parsing import parse_where
from queries.statements import Statement
from queries.work import MOST_BINS
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


def test_a_constant_weight_stays_in_every_group() -> None:
    half = LinearQuery(DOMAIN, (Factor((), np.array(UNITS // 2)),), aligned=False)
    first, second = counts(half, ("member",))
    np.testing.assert_array_equal(full_weights(first) + full_weights(second), full_weights(half))
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


def test_a_group_by_one_attribute_of_a_joined_condition_holds_its_part() -> None:
    weights = full_weights(query := parse_where("sex = 'Female' OR age < 24", DOMAIN))
    for code, group in enumerate(counts(query, ("age",))):
        expected = np.zeros_like(weights)
        expected[code] = weights[code]
        np.testing.assert_array_equal(full_weights(group), expected)


@pytest.mark.parametrize(
    ("where", "names", "labels"),
    [
        ("sex = 'Male'", ("sex",), [("Male",)]),
        ("sex <> 'Male' OR age < 24", ("sex",), [("Female",), ("Male",), ("(other)",)]),
        ("sex = 'Male' OR age < 24", ("age",), [("20..23",), ("24..27",), ("28..29",), (None,)]),
        ("age IS NOT NULL AND member = TRUE", ("age", "member"), [
            ("20..23", True), ("24..27", True), ("28..29", True)]),
        ("income < 5", ("income",), [("[0, 10)",)]),  # the cell is cut: some of it may be meant
        ("income < 5 AND income >= 10", ("income",), []),
    ],
)  # fmt: skip
def test_groups_that_the_condition_excludes_are_left_out(
    where: str, names: tuple[str, ...], labels: list[tuple[object, ...]]
) -> None:
    statement = Statement.count_by(parse_where(where, DOMAIN), names)
    assert [group.labels for group in statement.groups()] == labels


def test_one_row_stays_where_nobody_is_asked_about() -> None:
    statement = Statement.count_by(parse_where("income < 5 AND income >= 10", DOMAIN))
    assert [group.labels for group in statement.groups()] == [()]


def test_numbers_of_questions_do_not_depend_on_what_is_excluded() -> None:
    """Stored answers of earlier versions have the numbers of all groups, those of excluded ones included."""
    every = Statement.count_by(LinearQuery.everything(DOMAIN), ("sex", "age"))
    some = Statement.count_by(parse_where("sex <> 'Female' AND age >= 24", DOMAIN), ("sex", "age"))
    numbered = {group.labels: every.question_number(leaf, group) for leaf, group, _ in every.questions()}
    assert list(numbered.values()) == list(range(12))
    found = {group.labels: some.question_number(leaf, group) for leaf, group, _ in some.questions()}
    assert len(found) == 4
    assert found == {labels: numbered[labels] for labels in found}
