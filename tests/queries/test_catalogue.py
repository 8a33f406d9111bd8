"""The catalogue: what tools ask of it is answered, and nothing that anybody writes leads to a file."""

from __future__ import annotations

import datetime
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp
from sqlglot.errors import ErrorLevel

from queries import (
    CategoricalAttribute,
    DateAttribute,
    Domain,
    IntegerAttribute,
    NumericAttribute,
    QueryError,
    TimeAttribute,
    parse_where,
)
from queries.catalogue import DATE, FLOAT8, FUNCTIONS, INT8, TEXT, Catalogue, Place
from queries.locked_engine import LockedTables

DOMAIN = Domain(
    (
        IntegerAttribute("age", 20, 59),
        CategoricalAttribute("sex", ("Female", "Male"), missing=True),
        NumericAttribute("in come", (0, 10, 20)),
    ),
    name="people",
)
CANARY = "a record of the canary"
FILES = ("t.csv", "t.parquet", "t.json", "t.db")


_SHARED = Catalogue("study", DOMAIN, ["BIGINT", "VARCHAR", "DOUBLE"])


@pytest.fixture
def catalogue() -> Catalogue:
    return _SHARED


@pytest.fixture
def canaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the test runs, with files that nobody may read."""
    monkeypatch.chdir(tmp_path)
    for name in FILES:
        (tmp_path / name).write_text(f'word\n"{CANARY}"\n')
    return tmp_path


def asked(catalogue: Catalogue, text: str, user: str = "ann") -> tuple[list[str], list[Any]]:
    """Return the titles and the rows of a statement about the catalogue."""
    reading = catalogue.read(text, user)
    assert reading.place is Place.CATALOGUE
    columns, rows = catalogue.rows(reading)
    return [one.name for one in columns], [*map(tuple, rows)]


# --- what tools ask -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "titles", "rows"),
    [
        ("SELECT 1", ["?column?"], [(1,)]),
        ("SELECT version()", ["version"], [("PostgreSQL 15.0 (online-pmw)",)]),
        ("SELECT pg_catalog.version()", ["version"], [("PostgreSQL 15.0 (online-pmw)",)]),
        (
            "SELECT current_user, session_user, current_database(), current_catalog",
            ["current_user", "session_user", "current_database", "current_catalog"],
            [("ann", "ann", "study", "study")],
        ),
        ("SELECT current_schema(), current_schema", ["current_schema"] * 2, [("public", "public")]),
        (
            "SELECT relname, relkind FROM pg_catalog.pg_class c WHERE c.relname OPERATOR(pg_catalog.~) "
            "'^(people)$' COLLATE pg_catalog.default AND pg_catalog.pg_table_is_visible(c.oid)",
            ["relname", "relkind"],
            [("people", "r")],
        ),
        (
            "SELECT attname AS a, pg_catalog.format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = 'public.people'::regclass AND attnum > 0 ORDER BY attnum",
            ["a", "format_type"],
            [("age", "bigint"), ("sex", "text"), ("in come", "double precision")],
        ),
        ("SELECT table_schema AS s, count(*) FROM information_schema.columns GROUP BY 1 ORDER BY 1",
         ["s", "count"], [("public", 3), ("synthetic", 3)]),
        # What the catalogue does not have is empty, with its columns.
        ("SELECT polname AS p FROM pg_catalog.pg_policy", ["p"], []),
        ("SELECT c.relname AS p FROM pg_class c, pg_nothing n", ["p"], []),
        ("SELECT relname AS p, no_such_function(oid) AS q FROM pg_class", ["p", "q"], []),
        ("SELECT no_such_column AS p FROM pg_class", ["p"], []),
        ("SELECT current_setting('TimeZone')", ["current_setting"], [("UTC",)]),
        ("SELECT has_table_privilege('people', 'SELECT')", ["has_table_privilege"], [(True,)]),
        ("SELECT E'a\\nb' AS x", ["x"], [("a\nb",)]),
        ("WITH x AS (SELECT 1 AS a) SELECT a FROM x", ["a"], [(1,)]),
        ("SELECT pg_is_in_recovery() AS a, pg_is_other_temp_schema(3) AS b", ["a", "b"], [(False, False)]),
        ("SELECT pg_has_role(10, 'USAGE')", ["pg_has_role"], [(True,)]),
        ("SELECT typlen AS a, format_type(oid, -1) AS b FROM pg_type "
         "WHERE typname IN ('name', 'int4') ORDER BY 1", ["a", "b"], [(4, "integer"), (64, "name")]),
        ("SELECT s, n FROM unnest(current_schemas(true)) WITH ORDINALITY AS t(s, n)", ["s", "n"],
         [("public", 1)]),
        ("SELECT x FROM unnest(current_schemas(false)) AS x", ["x"], [("public",)]),
        ("SELECT (current_schemas(false))[i] AS x FROM "
         "generate_series(1, array_upper(current_schemas(false), 1)) AS i", ["x"], [("public",)]),
        ("SELECT string_agg(word, ',') AS w FROM pg_catalog.pg_get_keywords()", ["w"], [(None,)]),
        ("SELECT COUNT(*) AS n, MAX(polname) AS m FROM pg_policy", ["n", "m"], [(None, None)]),
    ],
)  # fmt: skip
def test_statements_about_the_catalogue_are_answered(
    catalogue: Catalogue, text: str, titles: list[str], rows: list[Any]
) -> None:
    assert asked(catalogue, text) == (titles, rows)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("SELECT * FROM people LIMIT 0", [INT8, TEXT, FLOAT8]),
        ('SELECT "in come", age FROM public.people WHERE 1 = 0', [FLOAT8, INT8]),
        ("SELECT sex FROM People WHERE FALSE", [TEXT]),
        ("SELECT age + 1 AS n FROM people WHERE (1 <> 1) LIMIT 5", [INT8]),
        ("SELECT * FROM (SELECT * FROM people) AS v LIMIT 0", [INT8, TEXT, FLOAT8]),
    ],
)
def test_columns_are_told_without_rows(catalogue: Catalogue, text: str, kinds: list[Any]) -> None:
    columns, rows = catalogue.rows(catalogue.read(text, "ann"))
    assert ([one.type for one in columns], rows) == (kinds, [])


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM people LIMIT 0", "SELECT sex, COUNT(*) FROM people WHERE FALSE GROUP BY sex",
        "SELECT * FROM people WHERE 1 = 1", "SELECT * FROM people LIMIT 1",
        "SELECT age FROM people, pg_class LIMIT 0", "SELECT (SELECT COUNT(*) FROM people) FROM pg_class",
        "SELECT COUNT(*) FROM other.people", "nonsense", "", "SELECT " + "(" * 9000,
    ],
)  # fmt: skip
def test_what_asks_the_table_is_the_sessions(catalogue: Catalogue, text: str) -> None:
    assert catalogue.read(text, "ann").place is Place.SESSION


def test_parameters_have_the_types_of_what_they_are_compared_with(catalogue: Catalogue) -> None:
    text = "SELECT COUNT(*) FROM people WHERE age > $1 AND sex IN ($2, 'x') AND \"in come\" < $3 LIMIT $4"
    found = catalogue.read(text, "ann").parameters
    assert {place: kind for place, (kind, _) in found.items()} == {1: INT8, 2: TEXT, 3: FLOAT8, 4: INT8}
    assert found[2][1] == "'Female'"
    lists = 'sex = ANY($1) AND age <> ALL($2) AND "in come" = ANY($3::float8[])'
    found = catalogue.read(f"SELECT COUNT(*) FROM people WHERE {lists}", "ann").parameters
    assert {place: (kind.oid, sample) for place, (kind, sample) in found.items()} == {
        1: (1009, "ARRAY['Female']"), 2: (1016, "ARRAY[1]"), 3: (1022, "ARRAY[1]"),
    }  # fmt: skip
    text = "SELECT COUNT(*) FROM visits WHERE day >= $1 AND start < $2"  # values that may be compared
    found = Catalogue("study", PERIODS, ["DATE", "TIME"]).read(text, "ann").parameters
    assert found == {1: (DATE, "'2023-01-02'"), 2: (TEXT, "'06:00'")}
    for name, (_, sample) in zip(PERIODS.names, found.values(), strict=True):
        parse_where(f"{name} >= {sample}", PERIODS)


PERIODS = Domain(
    (
        DateAttribute("day", datetime.date(2023, 1, 2), datetime.date(2023, 12, 31), "month"),
        TimeAttribute("start", datetime.time(6), datetime.time(21, 59, 59), "30 minutes"),
    ),
    name="visits",
)


def test_names_that_differ_in_case_alone_leave_the_catalogue_as_it_is() -> None:
    domain = Domain((IntegerAttribute("a", 0, 3), IntegerAttribute("A", 0, 3)), name='the "table"')
    catalogue = Catalogue("it's", domain, ["BIGINT", "BIGINT"])
    assert asked(catalogue, "SELECT attname FROM pg_attribute ORDER BY 1, attrelid")[1] == [
        ("A",), ("A",), ("a",), ("a",),
    ]  # fmt: skip
    assert asked(catalogue, "SELECT current_database()")[1] == [("it's",)]
    assert catalogue.read('SELECT * FROM "the ""table""" LIMIT 0', "ann").place is Place.SESSION


# --- what never leads to a file -----------------------------------------------------------------------------

HOSTILE = [
    "SELECT * FROM '{}'", 'SELECT * FROM "{}"', "FROM '{}'", "TABLE '{}'", 'TABLE "{}"',
    "SELECT * FROM read_csv('{}')", "SELECT * FROM read_csv_auto('{}')", "SELECT * FROM read_text('{}')",
    "SELECT * FROM read_blob('{}')", "SELECT * FROM read_json('{}')", "SELECT * FROM parquet_scan('{}')",
    "SELECT * FROM sniff_csv('{}')", "SELECT * FROM glob('*')", "SELECT * FROM main.read_csv('{}')",
    "SELECT * FROM system.main.read_csv('{}')", "SELECT * FROM pg_catalog.read_csv('{}')",
    "SELECT * FROM pg_class, read_csv('{}')", "SELECT * FROM pg_class JOIN '{}' ON true",
    "SELECT * FROM pg_class, LATERAL (SELECT * FROM read_text('{}'))", "SELECT read_text('{}')",
    "SELECT main.read_text('{}') FROM pg_class", "SELECT pg_read_file('{}')", "SELECT getenv('HOME')",
    "SELECT * FROM $$t$$ || '{}'", "SELECT * FROM $x${}$x$",
    "SELECT /* FROM '{}' */ * FROM read_csv /* */ ('{}')", "SELECT 1 -- \n FROM '{}'",
    "SELECT 1; SELECT * FROM '{}'", "SELECT 1; COPY pg_class TO '{}'",
    "WITH x AS (SELECT * FROM '{}') SELECT * FROM x",
    'WITH "{}" AS (SELECT 1) SELECT * FROM pg_class, "{}"',
    'SELECT * FROM "{}" WHERE EXISTS (WITH "{}" AS (SELECT 1) SELECT 1)',
    "SELECT EXTRACT(\"x FROM current_date) FROM read_csv('{}') --\" FROM current_date)",
    "SELECT * FROM pg_class WHERE relname IN (SELECT * FROM '{}')",
    "SELECT * FROM pg_class UNION SELECT * FROM '{}'", 'SELECT * FROM "pg_x/../{}"',
    'SELECT * FROM pg_catalog."{}"', 'SELECT * FROM information_schema."{}"',
    "SELECT * FROM \"people\" , '{}' LIMIT 0", 'SELECT * FROM people."{}" LIMIT 0',
    "SELECT * FROM query('SELECT * FROM ''{}''')", "SELECT * FROM query_table('{}')",
    "SELECT COLUMNS(*) FROM '{}'",
    "SELECT * FROM pg_class PIVOT (count(*) FOR relkind IN (SELECT * FROM '{}'))", "ATTACH '{}' AS x",
    "COPY pg_class TO '{}'", "COPY pg_class FROM '{}'", "EXPORT DATABASE '{}'", "IMPORT DATABASE '{}'",
    "INSTALL '{}'", "LOAD '{}'", "PRAGMA database_list", "PRAGMA import_database('{}')",
    "SUMMARIZE SELECT * FROM '{}'", "DESCRIBE '{}'", "EXPLAIN ANALYZE SELECT * FROM '{}'",
    "SET enable_external_access = true", "CALL read_csv('{}')", "EXECUTE '{}'",
    "VALUES ((SELECT * FROM '{}'))",
    "SELECT * FROM unnest(ARRAY[read_text('{}')]) AS t(x)",
    "SELECT * FROM unnest(current_schemas(true)) AS t(x), '{}'",
    "SELECT * FROM unnest(current_schemas(true), (SELECT list(x) FROM '{}')) WITH ORDINALITY AS t(x, n)",
    "SELECT i FROM generate_series(1, (SELECT len(current_schemas(true)) FROM '{}')) AS i",
    "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY read_text('{}')) FROM pg_class",
    "SELECT LAG(oid) OVER (ORDER BY (SELECT * FROM '{}')) FROM pg_class",
    "SELECT strptime((SELECT * FROM '{}'), '%Y')", "SELECT SQRT(x) FROM '{}'",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_no_spelling_reads_or_writes_a_file(
    catalogue: Catalogue, canaries: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    before, name = {path: path.read_text() for path in canaries.iterdir()}, FILES[0]
    for path in (name, str(canaries / name)):
        reading = catalogue.read(text.replace("{}", path), "ann")
        assert reading.text is None or name not in re.sub(r"'[^']*'", "''", reading.text), reading.text
        if reading.place is Place.CATALOGUE:
            try:
                found = str(catalogue.rows(reading))
            except QueryError as error:
                found = str(error)
            assert CANARY not in found
            assert "known tables" in found or "[]" in found or "None" in found or "public" in found
    assert {path: path.read_text() for path in canaries.iterdir()} == before
    assert caplog.text == ""  # the parser logs no statement


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM 't.csv'", "SELECT * FROM read_csv('t.csv')", "SELECT * FROM read_text('t.csv')",
        "SELECT * FROM glob('*')", "ATTACH 'x.db'", "COPY (SELECT 1) TO 'x.csv'", "LOAD httpfs",
        "INSTALL httpfs", "SET enable_external_access = true", "SET lock_configuration = false",
        "SET memory_limit = '9GB'", "SELECT * FROM CANARY", "EXPORT DATABASE 'x'",
    ],
)  # fmt: skip
def test_the_database_behind_is_locked_whatever_comes_to_it(canaries: Path, text: str) -> None:
    tables = LockedTables("CREATE TABLE t AS FROM r", {"a": np.arange(3)})
    with pytest.raises(QueryError) as refused:
        tables.asked(text, seconds=5)
    assert str(canaries) not in str(refused.value)
    assert {path.name for path in canaries.iterdir()} == set(FILES)


TOKENS = """
SELECT FROM WHERE pg_class 't.csv' "t.csv" read_csv ( ) , * AS x relname WITH UNION ALL JOIN ON EXTRACT CAST
:: text
regclass $$t.csv$$ || 1 ORDER BY pg_catalog . main LATERAL VALUES CASE WHEN THEN END OVER FILTER INTERVAL
-- /* */ E'\\' ' information_schema tables people LIMIT 0 [ ] COPY TO
"""


@settings(max_examples=150)
@given(st.lists(st.sampled_from(TOKENS.split()), max_size=12).map(" ".join))
def test_what_comes_to_the_database_names_its_own_tables_alone(text: str) -> None:
    reading = _SHARED.read(f"SELECT {text}", "ann")
    if reading.text is not None:
        (tree,) = sqlglot.parse(reading.text, read="duckdb", error_level=ErrorLevel.IGNORE)
        assert tree is not None
        for table in tree.find_all(exp.Table):
            assert table.db in ("pg", "info", "public") or (not table.db and table.name == "x"), reading.text
        assert {one.name.lower() for one in tree.find_all(exp.Anonymous)} <= FUNCTIONS


# --- what is bounded ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM range(100000000)", "SELECT COUNT(*) FROM generate_series(1, 100000000)",
        "WITH RECURSIVE t AS (SELECT 1 AS a UNION ALL SELECT a FROM t) SELECT COUNT(*) FROM t",
        "SELECT repeat('x', 1000000000)", "SELECT " + " || ".join(["'x'"] * 20),
        "SELECT '" + "x" * 300 + "'", "SELECT ARRAY[ARRAY[1, 2], ARRAY[3]]",
        "SELECT ARRAY[oid] FROM pg_class", "SELECT (1, (2, 3))",
        "SELECT " + "ARRAY[" * 200 + "1" + "]" * 200,
        "SELECT " + "CAST(1 AS STRUCT(a " * 60 + "INT" + "))" * 60, "SELECT $" + "9" * 5000,
        "SELECT 1 FROM " + ", ".join(f"pg_class a{n}" for n in range(25)),
    ],
)  # fmt: skip
def test_what_grows_without_bound_is_not_run(catalogue: Catalogue, text: str) -> None:
    assert catalogue.read(text, "ann").text is None


def test_a_long_join_ends(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queries.catalogue._SECONDS", 0.2)
    tables = ", ".join(f"pg_type a{n}" for n in range(20))
    began = time.process_time()
    assert asked(catalogue, f"SELECT COUNT(*) FROM {tables}")[1] == []  # interrupted
    assert time.process_time() - began < 20


def test_rows_and_their_bytes_are_bounded(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    many = "pg_type a, pg_type b, pg_type c, pg_type d"
    assert len(asked(catalogue, f"SELECT 1 FROM {many}")[1]) == 1000
    assert len(asked(catalogue, f"SELECT 1 FROM {many} LIMIT 2::INTEGER")[1]) == 2
    assert len(asked(catalogue, f"SELECT 1 FROM pg_class LIMIT {'9' * 5000}")[1]) > 1
    wide = ", ".join(f"pg_class a{n}" for n in range(15))
    assert asked(catalogue, f"SELECT * FROM {wide} LIMIT 10000000")[1] == []  # too large
    assert len(asked(catalogue, "SELECT oid FROM pg_type")[1]) > 1
    monkeypatch.setattr("queries.locked_engine._MOST_BYTES", 100)
    assert asked(catalogue, "SELECT oid FROM pg_type")[1] == []


def test_synthetic_rows_are_asked_with_their_types(catalogue: Catalogue) -> None:
    columns: dict[str, list[str | None]]
    columns = {"age": ["20", "30"], "sex": [None, "Male"], "in come": ["1.5", "2"]}
    tables = catalogue.synthetic(columns)
    reading = catalogue.read('SELECT age + 1, sex, "in come" FROM synthetic.people ORDER BY 1', "ann")
    assert reading.place is Place.SYNTHETIC
    found, rows = catalogue.rows(reading, tables)
    assert rows == [(21, None, 1.5), (31, "Male", 2.0)]
    assert [one.type for one in found] == [INT8, TEXT, FLOAT8]
    with pytest.raises(QueryError):
        catalogue.rows(catalogue.read("SELECT nope FROM synthetic.people", "ann"), tables)
    refused = catalogue.read("SELECT pg_read_file(sex) FROM synthetic.people", "ann")
    assert refused.text is None  # NULL in its place would be a wrong answer
    with pytest.raises(QueryError, match=r"got pg_read_file$"):
        catalogue.rows(refused, tables)
