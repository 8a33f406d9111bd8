"""Grouping sets: the keys that are taken together are those that DuckDB takes."""

from __future__ import annotations

import pytest

from queries.categories import CategoricalAttribute
from queries.domain import Domain
from queries.errors import QueryError
from queries.parsing import parse_sql
from tests.queries.meaning import refusal

DOMAIN = Domain(tuple(CategoricalAttribute(name, ("x", "y")) for name in "abc"), name="people")


def test_every_question_of_every_set_has_a_number_of_its_own() -> None:
    parsed = parse_sql("SELECT a, b, COUNT(*) FROM people WHERE a = 'y' GROUP BY CUBE (a, b)", DOMAIN)
    numbers = [parsed.question_number(leaf, group) for leaf, group, _ in parsed.questions()]
    assert numbers == [2, 3, 5, 6, 7, 8]  # of 4 + 2 + 2 + 1 groups those that the condition leaves


def test_grouping_tells_a_total_from_a_value() -> None:
    error = refusal(parse_sql, "SELECT GROUPING(c), COUNT(*) FROM people GROUP BY a", DOMAIN)
    assert error.message.startswith("GROUPING of what GROUP BY does not name is not supported")


@pytest.mark.parametrize("keys", [f"CUBE ({', '.join('abcabca')})", ", ".join(["CUBE (a, b, c)"] * 3)])
def test_too_many_sets_are_refused_before_they_are_made(keys: str) -> None:
    keys = keys if "CUBE (a, b, c)" not in keys else "CUBE (a, b, c), CUBE (b, a, c), CUBE (c, a, b)"
    with pytest.raises(QueryError, match="at most 64 grouping sets") as caught:
        parse_sql(f"SELECT COUNT(*) FROM people GROUP BY {keys}", DOMAIN)
    assert caught.value.code == "too_large"
