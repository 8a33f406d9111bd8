"""SQL: statements are read cell by cell, beside DuckDB; what cannot be answered is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from typing import TypeAlias

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queries.categories import CategoricalAttribute
from queries.cell_values import CellCondition, on_scope
from queries.dates import DateAttribute
from queries.domain import Domain
from queries.errors import QueryError
from queries.expressions import KeyFunction, Linear, Quantile, Ratio
from queries.numbers import IntegerAttribute, NumericAttribute
from queries.parsing import parse_line, parse_sql, parse_where, require_aligned
from tests.queries.meaning import refusal

Truth: TypeAlias = Callable[[str], float]

DOMAIN = Domain(
    (
        IntegerAttribute("age", 17, 90),
        NumericAttribute("income", (0, 10_000, 25_000, 50_000)),
        CategoricalAttribute("sex", ("Female", "Male"), missing=True),
        CategoricalAttribute("marital-status", ("Married", "Never-married", "Married_AF"), other=True),
        CategoricalAttribute("count", ("one", "two")),
    ),
    name="people",
)
FIRST = "; write SELECT sex, COUNT(*) FROM people GROUP BY sex"


@pytest.mark.parametrize(
    ("statement", "where"),
    [
        ("SELECT COUNT(*) FROM people", ""),
        ("select count ( * ) from PEOPLE;", ""),
        ("SELECT COUNT(*) AS n FROM people AS p WHERE p.age >= 65", "age >= 65"),
        ("SELECT COUNT(*) n FROM people WHERE people.sex = 'Male' -- men", "sex = 'Male'"),
        ('SELECT COUNT(*) FROM "people" WHERE "marital-status" <> \'Married\'',
         "\"marital-status\" <> 'Married'"),
        ("SELECT COUNT(*) FROM people WHERE age IN (30, 31) AND income < 2.5e4",
         "age IN (30, 31) AND income < 25000"),
        ("SELECT COUNT(*) FROM people WHERE sex IS NOT NULL", "sex IS NOT NULL"),
        ("SELECT COUNT(*) FROM people WHERE income > +.5E4", "income > 5000"),
        ("/* all */ SELECT COUNT(*) FROM people WHERE NOT (age < 30 OR age > 39)", "age BETWEEN 30 AND 39"),
    ],
)  # fmt: skip
def test_a_statement_without_groups_counts_like_its_condition(statement: str, where: str) -> None:
    parsed = parse_sql(statement, DOMAIN)
    ((_, _, question),) = parsed.questions()
    assert parsed.single_count is question
    assert question.key() == parse_where(where, DOMAIN).key()


@pytest.mark.parametrize(
    ("like", "code", "message"),
    [
        ("age LIKE '3%'", "wrong_kind", "LIKE compares texts, and age holds none; CAST(… AS VARCHAR) makes"),
        ("sex LIKE 3", "wrong_kind", "LIKE compares a text with a pattern in quotes, such as 'A%'"),
    ],
)
def test_a_like_of_what_is_no_text_is_refused(like: str, code: str, message: str) -> None:
    error = refusal(parse_where, like, DOMAIN)
    assert (error.code, error.position) == (code, 0)
    assert error.message.startswith(message)


def columns_of(statement: str) -> list[str]:
    return [column.title for column in parse_sql(statement, DOMAIN).columns]


@pytest.mark.parametrize("keys", ["age, people.sex", "1, age", "3, 1", "sex, AGE"])
def test_keys_come_first_whoever_names_them(keys: str) -> None:
    statement = f"SELECT sex, COUNT(*) AS people, age FROM people WHERE age >= 65 GROUP BY {keys}"
    assert columns_of(statement) == ["sex", "age", "people"]
    plain = parse_sql(statement, DOMAIN)
    for more in ("ORDER BY people DESC", "HAVING people > 3", "ORDER BY sex LIMIT 2"):
        other = parse_sql(f"{statement} {more}", DOMAIN)
        assert [column.names for column in other.columns] == [column.names for column in plain.columns]
        keyed = [[question.key() for _, _, question in one.questions()] for one in (plain, other)]
        assert keyed[0] == keyed[1]
        assert len(keyed[0]) == 3 * 26  # the condition excludes the other ages
    assert {label for group in plain.groups() for label in group.labels if label in ("Male", None)} == {
        *("Male", None)
    }


def test_columns_have_the_names_that_they_are_given() -> None:
    statement = 'SELECT count AS "how many", COUNT(*) n FROM people GROUP BY "how many"'
    assert columns_of(statement) == ["how many", "n"]


@pytest.mark.parametrize(
    ("statement", "position", "message"),
    [
        ("SELECT COUNT(*) FROM people JOIN b ON people.age = b.age", 33, "a join with 'b'"),
        ("SELECT COUNT(*) FROM people, b", 29, "a join with 'b'"),
        ("SELECT COUNT(DISTINCT age) FROM people", 22, "an aggregate of DISTINCT values"),
        ("SELECT COUNT(*) FROM people UNION SELECT 1", 7, "UNION"),
        ("SELECT COUNT(*) OVER () FROM people", 7, "a window over records"),
        ("SELECT sex, COUNT(*) FROM people GROUP BY sex WITH ROLLUP", 42, "ROLLUP"),
        ("SELECT COUNT(*) FROM people TABLESAMPLE (10 PERCENT)", 41, "TABLESAMPLE"),
        ("SELECT COUNT(*) FROM people; DROP TABLE people", 29, "a second statement"),
        ("SELECT COUNT(*) FROM people FOR UPDATE", 7, "FOR UPDATE"),
        ("SELECT COUNT(*) INTO t FROM people", 21, "SELECT INTO"),
        ("SELECT COUNT(*) FROM db.people", 21, "a table name with a dot"),
        ("SELECT * FROM people", 7, "a list of records"),
        ("SELECT COUNT(*) FROM people QUALIFY 1", 36, "this condition in HAVING"),
        ("SELECT COUNT(*) FROM people WHERE (age, sex) < (1, 'Male')", 35, "a tuple"),
        ("SELECT COUNT(*) FROM people PIVOT (SUM(age) FOR sex IN (1))", 35, "PIVOT"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(statement: str, position: int | None, message: str) -> None:
    error = refusal(parse_sql, statement, DOMAIN)
    assert (error.code, error.message.partition(" is not supported; ")[0]) == ("unsupported", message)
    assert (error.position, error.text) == (position, statement)


@pytest.mark.parametrize("word", ["DROP", "EXPLAIN", "PRAGMA", "COPY", "VALUES", "TABLE", "FROM"])
def test_any_other_statement_is_refused_by_its_first_word(
    word: str, capfd: pytest.CaptureFixture[str]
) -> None:
    error = refusal(parse_sql, f"  {word.lower()} people", DOMAIN)
    assert error.message == f"expected a statement that begins with SELECT, got {word}{FIRST}"
    assert error.position == 2
    assert capfd.readouterr() == ("", "")  # the parser says nothing of its own


@pytest.mark.parametrize(
    ("statement", "code", "message"),
    [
        ("", "syntax", f"expected a statement that begins with SELECT, got nothing{FIRST}"),
        ("SELECT COUNT(*) FROM persons", "unknown_table",
         "unknown table 'persons'; the session's table is people"),
        ('SELECT COUNT(*) FROM "People"', "unknown_table",
         "unknown table 'People'; the session's table is people; did you mean 'people'?"),
        ("SELECT sxe, COUNT(*) FROM people GROUP BY sxe", "unknown_attribute",
         "unknown attribute 'sxe'; declared are age, income, sex, marital-status, count; "
         "did you mean 'sex'?"),
        ("SELECT sex, COUNT(*) FROM people", "syntax",
         "'sex' stands outside of an aggregate, and GROUP BY does not name it; add it there: GROUP BY sex"),
        ("SELECT sex, COUNT(*) FROM people GROUP BY sex, sex", "syntax",
         "GROUP BY names \"sex\" twice; name it once"),
        ("SELECT count, COUNT(*) FROM people GROUP BY count", "bad_request",
         "two columns would be called 'count'; give one another name with AS"),
        ("SELECT sex AS n_low, COUNT(*) AS n FROM people GROUP BY sex", "bad_request",
         "two columns would be called 'n_low'; give one another name with AS"),
        ("SELECT COUNT(*) FROM people WHERE age = 30 AND", "syntax",
         "expected a statement such as SELECT sex, COUNT(*) FROM people GROUP BY sex; "
         "it cannot be read near 'AND'"),
        ("SELECT COUNT(*) FROM people WHERE " + " OR ".join(["age = 30"] * 1000), "too_long",
         "a condition or statement has at most 4,096 bytes"),
        (f"SELECT COUNT(*) FROM people WHERE {'(' * 1900}age = 30{')' * 1900}", "too_long",
         "the statement is nested too deeply; write fewer parentheses"),
    ],
    ids=range(11),
)  # fmt: skip
def test_a_statement_that_does_not_fit_says_why(statement: str, code: str, message: str) -> None:
    error = refusal(parse_sql, statement, DOMAIN)
    assert (error.code, error.message) == (code, message)


def test_a_line_may_hold_a_statement_and_its_groups_have_marks_that_no_analyst_can_give() -> None:
    line = '{"id": 1, "sql": "SELECT sex, COUNT(*) FROM people GROUP BY sex", "request_id": "a"}'
    for text, marks in ((line, ["a", "a\n1", "a\n2"]), (line.replace('"a"', "null"), [None] * 3)):
        parts = list(parse_line(text, DOMAIN).parts())
        assert [(part.id, part.request_id) for part in parts] == [(1, mark) for mark in marks]
    plain = parse_line('{"id": 1, "where": "", "request_id": "a"}', DOMAIN)
    assert list(plain.parts()) == [plain]


@pytest.mark.parametrize(
    ("where", "nearest"),
    [
        ("income >= 5000", "income >= 10000"),
        ("income > 25000", "income >= 25000"),
        ("income <= 10000", "income < 10000, or income < 25000"),
        ("income = 0", "income < 10000"),
        ("income BETWEEN 10000 AND 25000", "income >= 10000 AND income < 25000, or income >= 10000"),
        ("NOT income > 10000 AND sex = 'Male'", "income < 10000, or income < 25000"),
    ],
)
def test_questions_that_cut_cells_can_be_refused(where: str, nearest: str) -> None:
    statement = parse_sql(f"SELECT sex, COUNT(*) FROM people WHERE {where} GROUP BY sex", DOMAIN)
    for query in (parse_where(where, DOMAIN), statement.where):
        error = refusal(require_aligned, query)
        starts = f"; nearest to it: {nearest}; cells of 'income' begin at 0, 10000, 25000, 50000"
        assert error.message == f"the condition cuts cells, and only whole cells are asked for{starts}"
        assert error.code == "unaligned"
    for condition in nearest.split(", or "):
        require_aligned(parse_where(condition, DOMAIN))


WIDE_CELLS = Domain(
    (
        IntegerAttribute("age", 0, 79, 80),
        NumericAttribute("gain", (0, 100)),
        CategoricalAttribute("sex", ("f", "m")),
    )
)


@pytest.mark.parametrize("where", ["age = 5", "age > 3 AND gain < 7", "gain > 3 AND sex = 'm'"])
def test_where_no_cell_is_decided_the_edges_are_told(where: str) -> None:
    assert refusal(require_aligned, parse_where(where, WIDE_CELLS)).message == (
        "the condition cuts cells, and only whole cells are asked for; it decides no cell of an attribute: "
        "compare with an edge, or declare narrower cells; the edges of 'age' are 0, 80; "
        "the edges of 'gain' are 0, 100"
    )
    many = Domain(tuple(IntegerAttribute(f"a{number}", 0, 9, 10) for number in range(30)))
    assert refusal(require_aligned, parse_where("a7 = 5", many)).message.endswith("'a3' are 0, 10")


# --- aggregates ---------------------------------------------------------------------------------------------

CELLS = Domain(
    (
        IntegerAttribute("age", 0, 11, missing=True),
        CategoricalAttribute("sex", ("f", "m")),
        IntegerAttribute("wide", 0, 11, 4),
        NumericAttribute("pay", (0.0, 10.0, 20.0)),
        CategoricalAttribute("count", ("a", "b")),
    ),
    name="people",
)
AGES, SEXES = np.repeat(np.arange(12), 2), np.tile(["f", "m"], 12)
FRAME = pd.DataFrame({"age": pd.array([*AGES, None, None], dtype="Int64"), "sex": [*SEXES, "f", "m"]})


def total(statement: str) -> float:
    """Return a sum over one record in each cell of age and sex."""
    parsed = parse_sql(statement, CELLS)
    (column,), (group,) = parsed.columns, parsed.groups()
    assert isinstance(column.node, Linear)
    scope, condition = ("age", "sex"), parsed.condition or CellCondition.of(parsed.where)
    where = on_scope(CELLS, condition.scope, condition.least, scope)
    form = column.node.of_all_records(CELLS)
    weights = on_scope(CELLS, form.scope, form.middle, scope)
    assert group.labels == ()
    return float(np.sum(np.broadcast_to(where * weights, (13, 2))))


@pytest.fixture(scope="module")
def truth() -> Iterator[Truth]:
    """Return what DuckDB says of a statement over the same records."""
    with duckdb.connect() as connection:
        connection.execute("SET integer_division = true")
        connection.register("people", FRAME)

        def asked(statement: str) -> float:
            row = connection.execute(statement).fetchone()
            assert row is not None
            return float(row[0] or 0)

        yield asked


TERMS = st.sampled_from(
    [
     "age", "age + 3", "age / 3 * 3", "-age", "ABS(age - 5)", "age % 4", "ROUND(age / 2.0)", "FLOOR(age / 2.0)",  # noqa: E501
     "CAST(age / 2.0 AS DOUBLE)", "CASE WHEN age < 5 AND sex = 'f' THEN age ELSE 2 END",
     "CASE sex WHEN 'f' THEN 1 END", "CEIL(age / 4.0)", "CASE WHEN age IS NULL THEN 7 END"]
)  # fmt: skip
CONDITIONS = st.recursive(
    st.one_of(
        st.builds(
            "{} {} {}".format, TERMS, st.sampled_from(["<", "<=", "=", "<>", ">", ">="]), st.integers(-3, 9)
        ),
        st.builds("{} BETWEEN {} AND 7".format, TERMS, st.integers(0, 5)),
        st.builds("{} IN (1, {})".format, TERMS, st.integers(2, 5)),
        st.sampled_from(["sex = 'f'", "age IS NULL", "NOT sex = 'm'"]),
    ),
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("(NOT {})".format, inner),
    ),
    max_leaves=4,
)


@given(term=TERMS, where=CONDITIONS, filtered=CONDITIONS)
def test_sums_and_counts_are_those_of_duckdb(truth: Truth, term: str, where: str, filtered: str) -> None:
    for what in (f"SUM({term})", f"COUNT({term})", f"SUM({term}) FILTER (WHERE {filtered})", "COUNT(1)"):
        statement = f"SELECT {what} FROM people WHERE {where}"
        try:
            found = total(statement)
        except QueryError as error:
            if error.code in ("empty_range", "unknown_value"):
                continue
            raise
        assert found == pytest.approx(truth(statement)), statement


def test_keys_are_values_of_cells() -> None:
    parsed = parse_sql("SELECT age / 5 * 5 AS five, sex, COUNT(*) FROM people GROUP BY five, 2", CELLS)
    assert [group.labels for group in parsed.groups()][:3] == [(0, "f"), (0, "m"), (5, "f")]
    assert [group.labels for group in parsed.groups()][-1] == (None, "m")
    parsed = parse_sql(
        "SELECT CASE WHEN age < 3 THEN 'a' ELSE 'b' END AS k, AVG(age) FROM people GROUP BY k", CELLS
    )
    assert sorted(str(group.labels[0]) for group in parsed.groups()) == ["a", "b"]
    assert isinstance(parsed.columns[0].node, KeyFunction)
    assert isinstance(parsed.columns[1].node, Ratio)
    parsed = parse_sql("SELECT wide, COUNT(*) FROM people GROUP BY wide HAVING COUNT(*) > 3", CELLS)
    assert [group.labels for group in parsed.groups()] == [("0..3",), ("4..7",), ("8..11",)]


def test_distinct_lists_declared_values_that_the_condition_leaves() -> None:
    parsed = parse_sql("SELECT DISTINCT sex FROM people WHERE sex = 'f'", CELLS)
    assert [group.labels for group in parsed.groups()] == [("f",)]


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ("(SELECT * FROM people WHERE age > 3) t WHERE t.sex = 'f'", "age > 3 AND sex = 'f'"),
        ("(SELECT age, sex FROM people p WHERE p.age > 3) WHERE sex = 'f';", "age > 3 AND sex = 'f'"),
        ("people AS p WHERE p.AGE + 5 > 9", "age > 4"),
    ],
)
def test_a_source_that_filters_is_folded_in(truth: Truth, source: str, where: str) -> None:
    assert total(f"SELECT SUM(age) FROM {source}") == truth(f"SELECT SUM(age) FROM people WHERE {where}")
    with_ = "WITH t AS (SELECT * FROM people WHERE age > 3), u AS (SELECT * FROM t WHERE sex = 'f') "
    assert total(with_ + "SELECT COUNT(age) FROM u") == truth(with_ + "SELECT COUNT(age) FROM u")


def test_numbers_are_known_to_their_cells() -> None:
    parsed = parse_sql("SELECT SUM(wide), SUM(pay), AVG(pay * 2) FROM people", CELLS)
    wide, pay = parsed.columns[0].node, parsed.columns[1].node
    assert isinstance(wide, Linear)
    assert isinstance(pay, Linear)
    assert (wide.low.tolist(), wide.high.tolist()) == ([0, 4, 8], [3, 7, 11])
    assert (pay.low.tolist(), pay.high.tolist()) == ([0, 10], [10, 20])
    assert parsed.notes == ("numbers beyond the declared ends count as the ends",)


def test_descending_order_turns_a_percentile_round() -> None:
    text = "SELECT PERCENTILE_CONT(0.2) WITHIN GROUP (ORDER BY age DESC) FROM people"
    (column,) = parse_sql(text, CELLS).columns
    assert isinstance(column.node, Quantile)
    assert column.node.part == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("statement", "code", "message"),
    [
        ("SELECT AVG(sex) FROM people", "wrong_kind", "needs numbers"),
        ("SELECT PERCENTILE_CONT(1.2) WITHIN GROUP (ORDER BY age) FROM people", "bad_request", "[0, 1]"),
        ("SELECT PERCENTILE_CONT(-0.5) WITHIN GROUP (ORDER BY age) FROM people", "bad_request", "[0, 1]"),
        ("SELECT PERCENTILE_CONT(age) WITHIN GROUP (ORDER BY age) FROM people", "bad_request", "in [0, 1]"),
        ("SELECT QUANTILE_CONT(age, -0.1) FROM people", "bad_request", "got -0.1"),
        ("SELECT AVG(agee) FROM people", "unknown_attribute", "agee"),
        ("SELECT AVG(age) FROM people LIMIT 1.5", "unsupported", "LIMIT"),
        ("SELECT AVG(age) FROM people LIMIT -1", "unsupported", "LIMIT"),
        ("SELECT sex, AVG(age) FROM people GROUP BY sex HAVING wide > 3", "syntax", "GROUP BY does not name"),
        ("SELECT sex, AVG(age) FROM people GROUP BY sex HAVING oops > 3", "unknown_attribute", "oops"),
        ("SELECT age / 2, AVG(pay) FROM people GROUP BY sex", "syntax", "GROUP BY does not name"),
        ("SELECT AVG(age) FROM people GROUP BY 2", "syntax", "place of a column"),
        ("SELECT SUM(1e400) FROM people", "bad_request", "at most 1e+100"),
        ("SELECT AVG(age * 1e308 * 10) FROM people", "bad_request", "at most 1e+100"),
        ("SELECT AVG(age) * 1e308 * 1e308 FROM people", "bad_request", "at most 1e+100"),
        ("SELECT AVG(*) FROM people", "unsupported", "AVG(*) of records"),
        ("SELECT ROUND(AVG(age), 1.5) FROM people", "unsupported", "whole number of digits"),
        ("SELECT ROUND(AVG(age), age) FROM people", "unsupported", "whole number of digits"),
        ("SELECT AVG(ROUND(age, 0.5)) FROM people", "unsupported", "whole number of digits"),
        ("SELECT COALESCE(sex, 1) AS k, AVG(age) FROM people GROUP BY k", "wrong_kind", "COALESCE"),
        ("SELECT AVG(age), AVG(age) FROM people", "bad_request", "two columns"),
        ("SELECT wide / 3 AS k, AVG(age) FROM people GROUP BY k", "unaligned", "cuts cells"),
        ("SELECT STDDEV(sex) FROM people", "wrong_kind", "STDDEV needs numbers"),
        ("SELECT var_samp(sex) FROM people", "wrong_kind", "var_samp needs numbers"),
        (
            "SELECT BOOL_AND(sex) FROM people",
            "unsupported",
            "BOOL_AND here is not supported; write",
        ),
        ("SELECT frob(sex) FROM people", "unsupported", "frob here is not supported; write SELECT "),
        ("SELECT AVG(age) / 0 FROM people", "bad_request", "division by 0"),
        ("SELECT SUM(age / sex) FROM people", "wrong_kind", "needs numbers"),
        ("SELECT SUM(AVG(age)) FROM people", "unsupported", "inside another"),
        ("SELECT SUM(DISTINCT age) FROM people", "unsupported", "DISTINCT"),
        ("SELECT , FROM people", "unsupported", "a list of records"),
        (
            "SELECT AVG(age) FROM (SELECT sex, COUNT(*) FROM people GROUP BY sex)",
            "unknown_attribute",
            "no column",
        ),
        ("SELECT STRING_AGG(sex, ',') FROM people", "unsupported", "not supported"),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(statement: str, code: str, message: str) -> None:
    error = refusal(parse_sql, statement, CELLS)
    assert error.code == code
    assert message in error.message


@pytest.mark.parametrize(
    ("key", "edges"),
    [
        ("age < 18", "age < 15, or age < 20"),
        ("age BETWEEN 3 AND 17", "age >= 5 AND age < 15, or age < 20"),
        ("CASE WHEN age < 18 THEN 'a' WHEN age > 66 THEN 'b' END",
         "age < 15, or age < 20, or age >= 70, or age >= 65"),
        ("CASE WHEN age < 18 THEN 1 END", "age < 15, or age < 20"),
        ("NOT (pay > 50 AND age >= 20)", "pay >= 10"),
        ("d < DATE '2023-03-10'", "d < '2023-03-01', or d < '2023-04-01'"),
        ("age / 3", ""),
    ],
)  # fmt: skip
def test_a_key_that_cuts_cells_names_the_nearest_edges(key: str, edges: str) -> None:
    domain = Domain(
        (
            IntegerAttribute("age", 0, 99, 5),
            NumericAttribute("pay", (0, 10, 100)),
            DateAttribute("d", date(2023, 1, 1), date(2023, 12, 31), "month"),
        ),
        name="people",
    )
    error = refusal(parse_sql, f"SELECT {key} AS k, COUNT(*) FROM people GROUP BY k", domain)
    assert error.code == "unaligned"
    assert error.message.partition("; nearest to it: ")[2] == edges


@pytest.mark.parametrize(
    ("statement", "code", "position", "message"),
    [
        ("SELECT sex, COUNT(*) FROM people GROUP BY sex HAVING COUNT(*) > 'b'", "wrong_kind", 53, "numbers"),
        ("SELECT sex, COUNT(*) FROM people GROUP BY sex HAVING sex = 5", "wrong_kind", 53, "texts"),
        ("SELECT SUM(sex) FROM people", "wrong_kind", 11, "SUM needs numbers, 'sex' holds none"),
        ("SELECT COUNT(*) FROM people WHERE COUNT(*) > 5", "unsupported", 34, "HAVING COUNT(*) >= 10"),
        ("SELECT CASE WHEN income > 5 THEN 1 END k, COUNT(*) FROM people GROUP BY k", "unaligned", 17, ""),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(statement: str, code: str, position: int, message: str) -> None:
    error = refusal(parse_sql, statement, DOMAIN)
    assert (error.code, error.position) == (code, position)
    assert message in error.message
