"""Grouping sets: the keys that are taken together are those that DuckDB takes."""

from __future__ import annotations

import duckdb
import pytest

from queries.categories import CategoricalAttribute
from queries.domain import Domain
from queries.errors import QueryError
from queries.parsing import parse_sql
from tests.queries.meaning import refusal

DOMAIN = Domain(tuple(CategoricalAttribute(name, ("x", "y")) for name in "abc"), name="people")


@pytest.mark.parametrize(
    "keys",
    [
        "a, b", "()", "ALL", "ROLLUP (a)", "ROLLUP (a, b)", "ROLLUP ((a, b), c)", "CUBE (a, b)",
        "a, CUBE (b)",
        "GROUPING SETS ((a), (b, c), ())", "GROUPING SETS (a, ROLLUP (b, c))", "ROLLUP (a), ROLLUP (b)",
        "1, ROLLUP (b)",
    ],
)  # fmt: skip
def test_the_groups_are_those_of_duckdb(keys: str) -> None:
    """A table with one record in each cell has every group that is declared."""
    listed = "COUNT(*)" if keys == "()" else "a, b, c, COUNT(*)" if "c" in keys else "a, b, COUNT(*)"
    listed = listed.replace("a, b, COUNT", "a, COUNT") if keys == "ROLLUP (a)" else listed
    statement = f"SELECT {listed} FROM people GROUP BY {keys}"
    with duckdb.connect() as connection:
        ones = "(SELECT UNNEST(['x', 'y']) AS {0}) AS t{0}"
        connection.execute(f"CREATE TABLE people AS SELECT * FROM {', '.join(map(ones.format, 'abc'))}")
        expected = [row[:-1] for row in connection.execute(statement).fetchall()]
    parsed = parse_sql(statement, DOMAIN)
    places = [column.node.places[0] for column in parsed.columns if column.is_key]  # type: ignore[union-attr]
    found = [tuple(group.labels[place] for place in places) for group in parsed.groups()]
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
    sizes = [(8 >> len(group.held)) << 20 for group in parsed.groups()]
    for size, (_, _, question) in zip(sizes, parsed.questions(), strict=True):
        covered = question.weights().sum() * 8 // DOMAIN.scope_size(question.scope)
        assert covered == size


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
