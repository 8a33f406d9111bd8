"""Statements of aggregates: what they are read as, cell by cell, beside DuckDB; and what is refused."""

from __future__ import annotations

import re

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queries import CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute, QueryError
from queries.cell_values import on_scope
from queries.parsing import parse_statement
from queries.reports import parse_report
from queries.statements import KeyColumn, Linear, Quantile, Ratio, Statement

DOMAIN = Domain(
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
    parsed = parse_report(statement, DOMAIN)
    (column,), (group,) = parsed.columns, parsed.groups()
    assert isinstance(column.node, Linear)
    scope = ("age", "sex")
    where = on_scope(DOMAIN, parsed.where.scope, parsed.where.least, scope)
    weights = on_scope(DOMAIN, column.node.scope, column.node.middle, scope)
    assert group.labels == ()
    return float(np.sum(np.broadcast_to(where * weights, (13, 2))))


def truth(statement: str) -> float:
    people = FRAME
    with duckdb.connect() as connection:
        connection.execute("SET integer_division = true")
        connection.register("people", people)
        row = connection.execute(statement).fetchone()
    assert row is not None
    return float(row[0] or 0)


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
def test_sums_and_counts_are_those_of_duckdb(term: str, where: str, filtered: str) -> None:
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
    parsed = parse_report("SELECT age / 5 * 5 AS five, sex, COUNT(*) FROM people GROUP BY five, 2", DOMAIN)
    assert [group.labels for group in parsed.groups()][:3] == [(0, "f"), (0, "m"), (5, "f")]
    assert [group.labels for group in parsed.groups()][-1] == (None, "m")
    parsed = parse_report(
        "SELECT CASE WHEN age < 3 THEN 'a' ELSE 'b' END AS k, AVG(age) FROM people GROUP BY k", DOMAIN
    )
    assert sorted(str(group.labels[0]) for group in parsed.groups()) == ["a", "b"]
    assert isinstance(parsed.columns[0].node, KeyColumn)
    assert isinstance(parsed.columns[1].node, Ratio)
    parsed = parse_report("SELECT wide, COUNT(*) FROM people GROUP BY wide HAVING COUNT(*) > 3", DOMAIN)
    assert [group.labels for group in parsed.groups()] == [("0..3",), ("4..7",), ("8..11",)]


def test_distinct_lists_declared_values_that_the_condition_leaves() -> None:
    parsed = parse_report("SELECT DISTINCT sex FROM people WHERE sex = 'f'", DOMAIN)
    assert [group.labels for group in parsed.groups()] == [("f",)]


def test_what_counts_alone_is_read_as_before() -> None:
    assert not isinstance(parse_statement("SELECT sex, COUNT(*) FROM people GROUP BY sex", DOMAIN), Statement)
    assert isinstance(parse_statement("SELECT MEDIAN(age) FROM people", DOMAIN), Statement)


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ("(SELECT * FROM people WHERE age > 3) t WHERE t.sex = 'f'", "age > 3 AND sex = 'f'"),
        ("(SELECT age, sex FROM people p WHERE p.age > 3) WHERE sex = 'f';", "age > 3 AND sex = 'f'"),
        ("people AS p WHERE p.AGE + 5 > 9", "age > 4"),
    ],
)
def test_a_source_that_filters_is_folded_in(source: str, where: str) -> None:
    assert total(f"SELECT SUM(age) FROM {source}") == truth(f"SELECT SUM(age) FROM people WHERE {where}")
    with_ = "WITH t AS (SELECT * FROM people WHERE age > 3), u AS (SELECT * FROM t WHERE sex = 'f') "
    assert total(with_ + "SELECT COUNT(age) FROM u") == truth(with_ + "SELECT COUNT(age) FROM u")


def test_numbers_are_known_to_their_cells() -> None:
    parsed = parse_report("SELECT SUM(wide), SUM(pay), AVG(pay * 2) FROM people", DOMAIN)
    wide, pay = parsed.columns[0].node, parsed.columns[1].node
    assert isinstance(wide, Linear)
    assert isinstance(pay, Linear)
    assert (wide.low.tolist(), wide.high.tolist()) == ([0, 4, 8], [3, 7, 11])
    assert (pay.low.tolist(), pay.high.tolist()) == ([0, 10], [10, 20])
    assert parsed.notes == ("numbers beyond the declared ends count as the ends",)


def test_descending_order_turns_a_percentile_round() -> None:
    text = "SELECT PERCENTILE_CONT(0.2) WITHIN GROUP (ORDER BY age DESC) FROM people"
    (column,) = parse_report(text, DOMAIN).columns
    assert isinstance(column.node, Quantile)
    assert column.node.part == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("statement", "code", "message"),
    [
        ("SELECT AVG(sex) FROM people", "wrong_kind", "needs numbers"),
        ('SELECT SUM("count") FROM people', "wrong_kind", "needs numbers"),
        ("SELECT PERCENTILE_CONT(1.2) WITHIN GROUP (ORDER BY age) FROM people", "bad_request", "[0, 1]"),
        ("SELECT PERCENTILE_CONT(-0.5) WITHIN GROUP (ORDER BY age) FROM people", "bad_request", "[0, 1]"),
        ("SELECT AVG(agee) FROM people", "unknown_attribute", "agee"),
        ("SELECT AVG(age) FROM persons", "unknown_table", "persons"),
        ("SELECT AVG(age) FROM people LIMIT 1.5", "unsupported", "LIMIT"),
        ("SELECT AVG(age) FROM people LIMIT -1", "unsupported", "LIMIT"),
        ("SELECT sex, AVG(age) FROM people", "syntax", "GROUP BY does not name"),
        ("SELECT sex, AVG(age) FROM people GROUP BY sex HAVING wide > 3", "syntax", "GROUP BY does not name"),
        ("SELECT sex, AVG(age) FROM people GROUP BY sex HAVING oops > 3", "unknown_attribute", "oops"),
        ("SELECT QUANTILE_CONT(age, -0.1) FROM people", "bad_request", "got -0.1"),
        ("SELECT PERCENTILE_CONT(age) WITHIN GROUP (ORDER BY age) FROM people", "bad_request", "in [0, 1]"),
        ("SELECT SUM(1e400) FROM people", "bad_request", "at most 1e+100"),
        ("SELECT AVG(age * 1e308 * 10) FROM people", "bad_request", "at most 1e+100"),
        ("SELECT AVG(age) * 1e308 * 1e308 FROM people", "bad_request", "at most 1e+100"),
        ("SELECT AVG(*) FROM people", "unsupported", "AVG(*) of records"),
        ("SELECT ROUND(AVG(age), 1.5) FROM people", "unsupported", "whole number of digits"),
        ("SELECT ROUND(AVG(age), age) FROM people", "unsupported", "whole number of digits"),
        ("SELECT AVG(ROUND(age, 0.5)) FROM people", "unsupported", "whole number of digits"),
        ("SELECT COALESCE(sex, 1) AS k, AVG(age) FROM people GROUP BY k", "wrong_kind", "COALESCE"),
        ('SELECT "count", COUNT(*) FROM people GROUP BY "count"', "bad_request", "two columns"),
        ("SELECT age / 2, AVG(pay) FROM people GROUP BY sex", "syntax", "GROUP BY does not name"),
        ("SELECT AVG(age) FROM people GROUP BY 2", "syntax", "place of a column"),
        ("SELECT AVG(age), AVG(age) FROM people", "bad_request", "two columns"),
        ("SELECT wide / 3 AS k, AVG(age) FROM people GROUP BY k", "unaligned", "cuts cells"),
        ("SELECT AVG(age) / 0 FROM people", "bad_request", "division by 0"),
        ("SELECT SUM(age / sex) FROM people", "wrong_kind", "needs numbers"),
        ("SELECT SUM(AVG(age)) FROM people", "unsupported", "inside another"),
        ("SELECT SUM(DISTINCT age) FROM people", "unsupported", "DISTINCT"),
        ("SELECT AVG(age) FROM (SELECT sex, COUNT(*) FROM people GROUP BY sex)", "unsupported", "filter"),
        ("SELECT STRING_AGG(sex, ',') FROM people", "unsupported", "not supported"),
        ("SELECT AVG(age) FROM people GROUP BY sex, sex", "syntax", "twice"),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(statement: str, code: str, message: str) -> None:
    with pytest.raises(QueryError, match=re.escape(message)) as caught:
        parse_statement(statement, DOMAIN)
    assert caught.value.code == code
