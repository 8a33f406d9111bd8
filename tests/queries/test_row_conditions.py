"""Conditions cell by cell against DuckDB record by record: what a cell leaves open is said to be open."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

import duckdb
import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from queries.categories import CategoricalAttribute
from queries.dates import DateAttribute
from queries.domain import Domain
from queries.errors import QueryError
from queries.expressions import Linear
from queries.linear import LinearQuery
from queries.numbers import IntegerAttribute
from queries.parsing import parse_sql, parse_where
from queries.records import encode_records
from tests.queries.meaning import full_weights, refusal

Truth: TypeAlias = Callable[..., "list[pd.Series[bool]]"]

TEXTS = ("x", "y", "Xy", "x%")
DOMAIN = Domain(
    (
        CategoricalAttribute("a", TEXTS, missing=True, other=True),
        CategoricalAttribute("b", ("x", "y", "(o)"), other=True),
        IntegerAttribute("n", 0, 4, missing=True),
        IntegerAttribute("m", -2, 3, 2),
    ),
    name="t",
)
# Every declared value, an empty one, and some that are not declared, among them those of the other one.
RECORDS = pd.DataFrame(
    itertools.product(
        [*TEXTS, None, "q", "XY", "xq", "(o)"],
        ["x", "y", "(o)", "q", "XY", "Xy", "x%"],
        [*range(5), None],
        range(-2, 4),
    ),
    columns=["a", "b", "n", "m"],
)  # fmt: skip
RECORDS["n"] = RECORDS["n"].astype("Int64")


def places(records: pd.DataFrame, domain: Domain) -> NDArray[np.intp]:
    """Return the cell of each record."""
    return np.ravel_multi_index(encode_records(records, domain).columns, domain.shape)


PLACES = places(RECORDS, DOMAIN)


@pytest.fixture(scope="module")
def truth() -> Iterator[Truth]:
    """Return of which records DuckDB says that each of some conditions is true."""
    with duckdb.connect() as connection:
        connection.execute("SET integer_division = true")
        connection.register("t", RECORDS)

        def asked(*conditions: str) -> list[pd.Series[bool]]:
            if not conditions:
                return []
            each = ", ".join(
                f"coalesce(({condition}), false) AS c{place}" for place, condition in enumerate(conditions)
            )
            found = connection.execute(f"SELECT {each} FROM t").df()
            return [found[name].astype(bool) for name in found]

        yield asked


def readings(query: LinearQuery) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return in which cells a condition holds for every value, and in which for some."""
    least, most = query.readings or (query, query)
    return full_weights(least).ravel() > 0, full_weights(most).ravel() > 0


TEXT_TERMS = [
    "a", "b", "COALESCE(a, 'y')", "COALESCE(a, 'q')", "COALESCE(a, b)", "NULLIF(a, 'x')",
    "NULLIF(LOWER(b), 'q')",
    "LOWER(a)", "UPPER(b)", "LEFT(a, 1)", "RIGHT(b, 1)", "SUBSTRING(a, 2)", "a || b", "a || '-'",
    "CASE WHEN n < 2 THEN a ELSE 'x' END", "CASE a WHEN 'y' THEN 'q' WHEN 'x' THEN b END",
    "CASE WHEN m < 0 THEN 'x' ELSE 'y' END", "CASE WHEN m < 1 THEN 'x' END", "CAST(n AS VARCHAR)",
]  # fmt: skip
TEXT_TESTS = [
    *(f"{{}} {sign} '{text}'" for sign in ("=", "<>") for text in ("x", "q", "XY", "1")),
    "{} = a", "{} <> b", "{} IN ('x', 'q')", "{} NOT IN ('y', 'XY')", "{} IN ('x', NULL)",
    "{} NOT IN ('x', NULL)",
    "{} LIKE 'x%'", "{} NOT LIKE 'x%'", "{} LIKE '%'", "{} LIKE 'x'", "{} LIKE 'q'", "{} NOT LIKE 'q'",
    "{} LIKE 'x!%' ESCAPE '!'", "{} LIKE '_'", "{} LIKE '%y%'", "{} ILIKE 'x%'", "{} NOT ILIKE '%Y'",
    "{} LIKE ''",
    "{} IS NULL", "{} IS NOT NULL", "{} IS DISTINCT FROM 'x'", "{} IS NOT DISTINCT FROM 'q'",
    "{} IS DISTINCT FROM a", "{} IS NOT DISTINCT FROM NULL", "({} = 'x') IS TRUE", "({} = 'q') IS NOT TRUE",
    "({} = 'x') IS FALSE", "({} LIKE 'x%') IS NOT FALSE", "({} = 'q') IS NULL", "starts_with({}, 'x')",
    "LENGTH({}) > 1",
]  # fmt: skip
NUMBER_TERMS = [
    "n", "m", "n + 2", "n - m", "m * n", "-m", "n // 2", "m / 2", "n % 3", "ABS(m)", "n * 0.5",
    "GREATEST(n, 2)",
    "LEAST(n, m)", "GREATEST(m, NULL)", "COALESCE(n, 1)", "COALESCE(n, m)", "NULLIF(n, 2)",
    "CASE WHEN a LIKE 'q%' THEN n ELSE m END", "CASE WHEN n > 2 THEN m END", "CAST(n AS DOUBLE)",
    "ROUND(n / 2)",
]  # fmt: skip
NUMBER_TESTS = [
    *(f"{{}} {sign} 2" for sign in ("=", "<>", "<", "<=", ">", ">=")), "{} > m", "{} = n", "{} <> m",
    "1 >= {}",
    "{} BETWEEN 1 AND 2", "{} NOT BETWEEN 1 AND m", "{} BETWEEN 3 AND 1", "1 BETWEEN m AND {}",
    "{} IN (1, NULL)",
    "{} NOT IN (NULL, 1)", "{} NOT IN (1, 2)", "{} IS NULL", "{} IS NOT NULL", "{} IS DISTINCT FROM 2",
    "{} IS DISTINCT FROM n", "{} IS NOT DISTINCT FROM m", "({} > 1) IS NOT TRUE", "({} > 1) IS FALSE",
    "({} > 1) = (n > 2)",
]  # fmt: skip


@pytest.mark.parametrize(
    ("term", "tests"),
    [*((term, TEXT_TESTS) for term in TEXT_TERMS), *((term, NUMBER_TESTS) for term in NUMBER_TERMS)],
)
def test_a_condition_holds_wherever_it_is_said_to_and_nowhere_else(
    truth: Truth, term: str, tests: list[str]
) -> None:
    read = dict[str, tuple[NDArray[np.bool_], NDArray[np.bool_]]]()
    for test in tests:
        inner = test.format(term)
        for condition in (inner, f"NOT ({inner})", f"({inner}) AND n > 1", f"({inner}) OR b = 'y'"):
            try:
                read[condition] = readings(parse_where(condition, DOMAIN))
            except QueryError as error:  # of an attribute alone: what it does not declare is told
                codes = ("unknown_value", "empty_range") if term in DOMAIN else ("unaligned", "empty_range")
                assert error.code in codes  # noqa: PT017
                assert error.code != "empty_range" or "values outside count as" in error.message  # noqa: PT017
    for (condition, (least, most)), true in zip(read.items(), truth(*read), strict=True):
        assert true[least[PLACES]].all(), condition
        assert not true[~most[PLACES]].any(), condition


CHOICES = [  # of conditions that cells leave open, and that may be unknown
    "COALESCE({0}, TRUE)", "COALESCE({0}, FALSE)", "COALESCE({0}, a = 'x')", "COALESCE(a = 'x', {0})",
    "COALESCE({0}, NULL, {1})", "CASE WHEN {0} THEN {1} ELSE a = 'x' END", "CASE WHEN {0} THEN {1} END",
    "CASE WHEN {0} THEN TRUE WHEN {1} THEN FALSE ELSE a = 'x' END", "IF({0}, {1}, NULL)",
    "IF({0}, {1}, TRUE)",
    "CASE WHEN {0} THEN 1 ELSE 0 END", "({0}) = TRUE", "FALSE <> ({0})", "({0}) <> TRUE",
    "({0}) IS DISTINCT FROM TRUE",
]  # fmt: skip
OPEN = ["m > 0", "m > 0 AND n > 1", "m > 0 OR n > 1", "n > 1", "n > m", "m = 1 AND a LIKE 'x%'"]


@pytest.mark.parametrize("form", CHOICES)
def test_a_choice_of_conditions_holds_wherever_it_is_said_to_and_nowhere_else(
    truth: Truth, form: str
) -> None:
    asked = [form.format(one, other) for one in OPEN for other in ("m < 2", "n < 3 AND m < 2")]
    asked += [f"NOT ({one})" for one in asked]
    for condition, true in zip(asked, truth(*asked), strict=True):
        least, most = readings(parse_where(condition, DOMAIN))
        assert true[least[PLACES]].all(), condition
        assert not true[~most[PLACES]].any(), condition


DECIDED = [
    "a = b", "a <> b", "n > m", "n = m", "COALESCE(a, 'y') = 'x'", "a LIKE 'x%'", "a NOT LIKE 'x%'",
    "b LIKE 'q'",
    "a LIKE '%'", "a IS DISTINCT FROM 'x'", "(a LIKE 'x%') IS NOT TRUE", "n + 1 IS NULL", "1 BETWEEN n AND m",
    "n NOT IN (1, NULL)", "COALESCE(a, 'q') = 'q'", "CASE WHEN n < 2 THEN a ELSE 'x' END = 'q'",
    "TRUE", "1 = 1",
    "n BETWEEN 3 AND 1", "m < 0 AND a ILIKE 'x%'", "n = 3 AND n + 1 = 4 AND m - 1 < 0", "GREATEST(n, m) = 3",
]  # fmt: skip


@pytest.mark.parametrize("condition", DECIDED)
def test_only_cells_whose_records_differ_are_open(truth: Truth, condition: str) -> None:
    least, most = readings(parse_where(condition, DOMAIN))
    by_cell = truth(condition)[0].groupby(PLACES)
    assert np.array_equal(least, by_cell.all().to_numpy())
    assert np.array_equal(most, by_cell.any().to_numpy())


@pytest.mark.parametrize("condition", [*DECIDED, "n > 3 AND a = 'x'", "m = 1 OR n = 2"])
def test_a_condition_is_read_alike_wherever_it_stands(condition: str) -> None:
    query = parse_where(condition, DOMAIN)
    statement = parse_sql(f"SELECT COUNT(*) FROM t WHERE {condition}", DOMAIN)
    assert statement.where.key() == query.key()
    filtered = parse_sql(f"SELECT COUNT(*) FILTER (WHERE {condition}) AS k FROM t", DOMAIN)
    (leaf,) = filtered.leaves
    assert isinstance(leaf, Linear)
    form = leaf.of_all_records(DOMAIN)
    assert [one.any() for one in (form.low > 0, form.high > 0)] == [one.any() for one in readings(query)]


def test_a_list_of_rows_is_an_or_of_ands() -> None:
    rows, spelt = "(a, n) IN (('x', 1), ('y', 3))", "(a = 'x' AND n = 1) OR (a = 'y' AND n = 3)"
    for condition, other in ((rows, spelt), (f"NOT ({rows})", f"NOT ({spelt})")):
        assert parse_where(condition, DOMAIN).key() == parse_where(other, DOMAIN).key()


def test_the_name_of_the_cell_of_undeclared_texts_stands_for_it() -> None:
    least, most = readings(parse_where("COALESCE(a, 'x') = '(other)'", DOMAIN))
    assert np.array_equal(least, most)
    assert np.array_equal(least, readings(parse_where("a = '(other)'", DOMAIN))[0])


DATES = Domain(
    (
        DateAttribute("d", pd.Timestamp(2023, 1, 1).date(), pd.Timestamp(2023, 2, 28).date(), "week"),
        DateAttribute("e", pd.Timestamp(2023, 1, 1).date(), pd.Timestamp(2023, 2, 28).date(), "month"),
    ),
    name="t",
)


def test_dates_are_compared_as_days_and_not_as_the_texts_of_their_cells() -> None:
    days = [one.date() for one in pd.date_range("2023-01-01", "2023-02-28")]
    records = pd.DataFrame(itertools.product(days, days), columns=["d", "e"])
    cells = places(records, DATES)
    for sign, true in (
        ("<", records.d < records.e),
        ("=", records.d == records.e),
        (">=", records.d >= records.e),
    ):
        least, most = readings(parse_where(f"d {sign} e", DATES))
        by_cell = true.groupby(cells)
        assert np.array_equal(least, by_cell.all().to_numpy())
        assert np.array_equal(most, by_cell.any().to_numpy())
    assert refusal(parse_where, "COALESCE(d, e) > 'x'", DATES).message == (
        "expected two values of one kind, got dates of d and e and the text 'x'"
    )


@pytest.mark.parametrize("date", ["31.12.2023", "31/12/2023", "12-31-2023", "'31.12.2023'", "2023"])
def test_a_date_in_another_form_is_told_its_own(date: str) -> None:
    assert re.search(r"'\d{4}-\d\d-\d\d'", refusal(parse_where, f"d > {date}", DATES).message)


def test_a_decimal_that_rounding_may_have_moved_leaves_a_comparison_open() -> None:
    least, most = readings(parse_where("n * 0.1 = 0.3", DOMAIN))
    assert not least.any()
    assert most.reshape(DOMAIN.shape)[0, 0, :, 0].tolist() == [False, False, False, True, False, False]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT COALESCE(a, 'q') AS k, COUNT(*) FROM t GROUP BY k",  # an undeclared text may be 'q'
        "SELECT LOWER(a) AS k, COUNT(*) FROM t GROUP BY k",
        "SELECT CASE WHEN a = 'x' THEN b END AS k, COUNT(*) FROM t GROUP BY k HAVING k LIKE 'q%'",
        "SELECT CASE WHEN a LIKE 'q%' THEN 'y' ELSE 'n' END AS k, COUNT(*) FROM t GROUP BY k",
        "SELECT COUNT(NULLIF(LOWER(a), 'q')) FROM t",
        "SELECT AVG(LENGTH(a)) FROM t",
        *(
            f"SELECT {one}(m > 0 AND n > 1) FROM t" for one in ("COUNT", "AVG", "MAX")
        ),  # NULL of some of a cell
    ],
)
def test_groups_and_aggregates_of_what_cells_do_not_tell_are_refused(statement: str) -> None:
    assert refusal(parse_sql, statement, DOMAIN).code in ("unaligned", "unsupported")


def test_what_declared_texts_tell_is_a_key() -> None:
    for key, labels in (
        ("COALESCE(a, 'y')", [*TEXTS, "(other)"]),
        ("a IS NULL", [False, True]),
        ("n // 2", [0, 1, 2, None]),
        ("n > 2", [0, 1, None]),
        ("CAST(n AS VARCHAR)", [*"01234", None]),
    ):
        parsed = parse_sql(f"SELECT {key} AS k, COUNT(*) FROM t GROUP BY k", DOMAIN)
        assert [group.labels[0] for group in parsed.groups()] == labels


def test_a_condition_that_nobody_meets_is_answered_with_a_note() -> None:
    parsed = parse_sql("SELECT COUNT(*) FROM t WHERE n BETWEEN 3 AND 1", DOMAIN)
    assert parsed.notes == ("no declared value satisfies the condition",)
    assert parse_sql("SELECT COUNT(*) FROM t WHERE a LIKE 'ZZ%'", DOMAIN).notes == ()  # an undeclared one may


def test_a_list_that_would_be_compared_too_often_is_refused() -> None:
    wide = Domain((IntegerAttribute("p", 0, 499), IntegerAttribute("q", 0, 499)), name="t")
    values = ", ".join(map(str, range(10)))
    assert refusal(parse_where, f"p + q IN ({values})", wide).code == "too_large"
    assert parse_where("p + q IN (1)", wide).scope == ("p", "q")
