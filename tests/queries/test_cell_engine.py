"""The rules of docs/cells.md against DuckDB record by record, and what the engine of cells does not do."""

from __future__ import annotations

import datetime
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from queries.categories import CategoricalAttribute
from queries.cell_values import CellCondition
from queries.dates import DateAttribute
from queries.domain import Domain
from queries.errors import QueryError
from queries.linear import LinearQuery
from queries.locked_engine import evaluated
from queries.numbers import IntegerAttribute, NumericAttribute
from queries.parsing import parse_sql, parse_where
from queries.records import encode_records
from tests.queries.meaning import full_weights, refusal

WIDE = Domain(
    (
        NumericAttribute("x", (-3.0, 0.0, 1.5, 4.0, 10.0), missing=True),
        IntegerAttribute("n", 0, 29, 10, missing=True),
        IntegerAttribute("q", -20_000, 39_999, 20_000),
        DateAttribute("d", datetime.date(2023, 1, 1), datetime.date(2023, 4, 30), "month"),
        CategoricalAttribute("s", ("F", "M"), missing=True, other=True),
    ),
    name="t",
)  # fmt: skip
# Ends of cells, what lies next to them, the constants of the conditions, and inner points.
POINTS = (-3, -1, -0.5, 0, 0.5, 1, 1.4999, 1.5, 2, 2.5, 3, 3.9999, 4, 5, 7.5, 9.99, 10, None)
COUNTS = (0, 1, 2, 5, 9, 10, 15, 19, 20, 25, 29, None)
LARGE = (-20_000, -10_001, -1, 0, 1, 2, 9_999, 19_999, 20_000, 39_999)
DAYS = tuple(pd.to_datetime(["2023-01-01", "2023-01-31", "2023-02-14", "2023-03-01", "2023-04-30"]))
TEXTS = ("F", "M", "f", "Fx", "q", None)


def _records() -> pd.DataFrame:
    generator = np.random.default_rng(7)
    numbers = list(itertools.product(POINTS, COUNTS, LARGE))
    count = len(numbers) * 4
    picked = [numbers[place % len(numbers)] for place in range(count)]
    found = pd.DataFrame(picked, columns=["x", "n", "q"])
    found["x"], found["n"] = found["x"].astype("Float64"), found["n"].astype("Int64")
    found["d"] = generator.choice(np.array(DAYS), count)
    found["s"] = generator.choice(np.array(TEXTS, dtype=object), count)
    return found


RECORDS = _records()
ENCODED = RECORDS.assign(d=RECORDS["d"].dt.strftime("%Y-%m-%d"))


def places(records: pd.DataFrame, domain: Domain) -> NDArray[np.intp]:
    """Return the cell of each record."""
    return np.ravel_multi_index(encode_records(records, domain).columns, domain.shape)


PLACES = places(ENCODED, WIDE)

TERMS = [
    "x", "-x", "x * 2", "x + n", "x - n", "x * x", "x * n", "x - x", "x / 2", "ABS(x)", "ABS(x - 2)",
    "ROUND(x)", "FLOOR(x)", "CEIL(x / 2)", "GREATEST(x, 2)", "LEAST(x, n)", "COALESCE(x, 2)",
    "COALESCE(n, x)", "NULLIF(x, 2)", "NULLIF(n, 2)", "CAST(x AS INTEGER)", "n * n", "n % 7", "n / 10", "q",
    "q + n", "q * 2", "NULLIF(q, 2)", "CASE WHEN x > 2 THEN n ELSE q END", "CASE WHEN x > 2 THEN x END",
    "IF(q > 1, x, n)", "CASE WHEN x * x > 4 THEN 2 WHEN n > 2 THEN x ELSE 1 END",
    "COALESCE(NULLIF(x, 2), n)", "GREATEST(ABS(x), x + 1)", "x * q", "ROUND(x * 3, 1)",
    "CASE WHEN s = 'F' THEN x ELSE -x END", "DAY(d) + n", "MONTH(d) - x",
]  # fmt: skip
TESTS = [
    "{} > 2", "{} <= 2", "{} = 2", "{} <> 2", "{} >= n", "{} BETWEEN 1 AND 2", "{} IN (1, 2)",
    "{} NOT IN (2, NULL)", "{} IS NULL", "{} IS NOT NULL", "{} IS DISTINCT FROM 2",
    "{} IS NOT DISTINCT FROM 2", "{} IS NOT DISTINCT FROM n", "COALESCE({} > 2, FALSE)",
    "COALESCE({} > 2, TRUE)", "CASE WHEN {} > 2 THEN TRUE ELSE FALSE END",
    "CASE WHEN {} > 2 THEN n > 2 END", "IF({} > 2, FALSE, TRUE)", "({} > 2) IS NOT TRUE",
    "({} > 2) IS FALSE", "({} > 2) IS NULL", "({} > 2) IS NOT NULL", "({} = 2) IS TRUE",
    "NULLIF({}, 2) IS NULL", "NULLIF({}, 2) > 1", "({} > 2) = (n > 2)", "({} = 2) IS DISTINCT FROM (n = 2)",
    "CASE WHEN {} = 2 THEN 1 ELSE 0 END = 1", "CASE WHEN {} > 2 THEN 'a' ELSE s END = 'a'",
    "({} > 2 AND n > 2) IS NOT TRUE",
]  # fmt: skip
OTHERS = [
    "s || 'x' = 'Fx'", "LOWER(s) = 'f'", "UPPER(s) = 'F'", "LENGTH(s) = 1", "s LIKE 'F%' OR x * 1 < 1",
    "s LIKE 'F_'", "COALESCE(s, 'q') = 'q'", "NULLIF(s, 'q') IS NULL",
    "CASE WHEN x > 2 THEN s ELSE 'q' END = 'q'", "CASE WHEN s = 'F' THEN 'q' ELSE s END = 'q'",
    "s IN (LOWER('Q'), 'F')", "s = LOWER('Q')", "s <> LOWER('F')", "COALESCE(s, LOWER('Q')) = 'q'",
    "NULLIF(s, LOWER('F')) IS NULL", "s = LOWER(s)", "LEFT(s, 1) = s", "CAST(n AS VARCHAR) = '15'",
    "CAST(n AS VARCHAR) = s", "CAST(n > 2 AS VARCHAR) = 'true'", "MONTH(d) + n > 4", "MONTH(d) * x > 2",
    "COALESCE(MONTH(d), 0) = 2", "CASE WHEN MONTH(d) = 2 THEN x END > 2", "d >= '2023-02-14' AND x * 2 > 3",
    "COALESCE(d > DATE '2023-02-14', FALSE)", "(d = DATE '2023-02-14') IS NOT TRUE",
    "CASE WHEN d < DATE '2023-02-14' THEN n ELSE 1 END = 1", "NULLIF(d, DATE '2023-02-14') IS NULL",
    "COALESCE(d, DATE '2023-02-14') = DATE '2023-02-14'", "x + n + q > 2", "x * n * 2 <= q",
    "x < n OR x * 1 >= n", "NOT (x + 1 > 3 OR n + 1 < 15)", "x BETWEEN n AND 20", "n BETWEEN 2 AND x",
    "(x > 2) = (n > 2)", "x - q > -2", "ABS(x * n - 2) < 3", "ABS(x - 2) < 0.25",
    "ABS(x - 2) = 0", "x / NULLIF(4, 2) > 0.5",
    "ROUND(x, 1 + 1) = 2", "x > NULLIF(0, 1.5) / -3", "ABS(ABS(x) - 2) = 2",
    "LEAST(GREATEST(x, 0), 4) = 4", "x * 0 = 0", "q * 0.5 > 2.5", "(x > 2) IS TRUE AND (n > 2) IS NOT TRUE",
    "COALESCE(x > 2, n > 2, FALSE)", "COALESCE(x > n, q > 2, TRUE)",
    "CASE WHEN x > 2 THEN 1 WHEN n > 2 THEN 2 ELSE 3 END IN (1, 3)",
    "CASE WHEN x IS NULL THEN 2 WHEN x * x > 2 THEN x ELSE n END <= 2", "IF(x > 2, n > 2, NULL)",
    "IF(NULLIF(x, 2) IS NULL, TRUE, q > 2)", "x IS NOT DISTINCT FROM n", "TRIM(s) = 'F'",
    "REPLACE(s, 'F', 'q') = 'q'", "CONCAT(s, 'x') = 'Fx'", "CONCAT(s, 'x') = 'x'", "SQRT(ABS(x)) > 1.5",
    "LN(ABS(x) + 1) > 1", "LN(n + 1) * x > 2", "n > CAST(2 AS TINYINT)",
    "CAST(q AS DOUBLE PRECISION) / 2 > 1", "LENGTH(TRIM(s)) = 2", "n >= CAST(2.5 AS INTEGER)",
    "MONTH(d) = 2", "YEAR(d) = 2023 AND MONTH(d) > 2", "DAY(d) > 14 OR MONTH(d) = 1", "DAY(d) = n",
    "DATE_TRUNC('month', d) > DATE '2023-02-14'", "d + INTERVAL 20 DAY > DATE '2023-02-28'",
    "COALESCE(DAY(d) > 14, FALSE)", "CASE WHEN DAY(d) > 14 THEN x ELSE n END > 2", "DAY(d) * x > 20",
    "strftime(d, '%d') > '13' AND s = 'F'", "DATE_TRUNC('week', d) = DATE '2023-02-13'",
]  # fmt: skip


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    """Return a connection with the records of both domains, which an engine of its own evaluates."""
    with duckdb.connect() as connection:
        connection.execute("SET integer_division = true")
        connection.register("given", RECORDS)
        connection.register("single", SINGLES)
        connection.execute(
            "CREATE TABLE wide AS SELECT CAST(x AS DOUBLE) AS x, n, CAST(q AS BIGINT) AS q, "
            "CAST(d AS DATE) AS d, s FROM given"
        )
        yield connection


def truth(duck: duckdb.DuckDBPyConnection, table: str, conditions: Sequence[str]) -> list[NDArray[np.bool_]]:
    """Return of which records DuckDB says that each of some conditions is true."""
    each = ", ".join(f"coalesce(({one}), false) AS c{place}" for place, one in enumerate(conditions))
    return list(map(np.asarray, duck.execute(f"SELECT {each or 1} FROM {table}").fetchnumpy().values()))


def readings(query: LinearQuery) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return in which cells a condition holds for every value, and in which for some."""
    least, most = query.readings or (query, query)
    return full_weights(least).ravel() > 0, full_weights(most).ravel() > 0


def unsound(
    duck: duckdb.DuckDBPyConnection, table: str, conditions: Sequence[str]
) -> tuple[list[str], dict[str, QueryError]]:
    """Return the conditions of which a record belies a cell, and those that are refused."""
    domain, places = (WIDE, PLACES) if table == "wide" else (DOMAIN, CELLS_OF_SINGLES)
    read, refused = dict[str, tuple[NDArray[np.bool_], NDArray[np.bool_]]](), dict[str, QueryError]()
    for condition in conditions:
        try:
            read[condition] = readings(parse_where(condition, domain))
        except QueryError as error:
            refused[condition] = error
    pairs = zip(read.items(), truth(duck, table, list(read)), strict=False)
    wrong = [
        one for (one, (least, most)), true in pairs
        if not true[least[places]].all() or true[~most[places]].any()
    ]  # fmt: skip
    return wrong, refused


def refused_otherwise(refused: dict[str, QueryError], codes: str) -> list[str]:
    return [one for one, error in refused.items() if error.code not in codes.split()]


# A sixth of the tests of each term, other ones of the next; ``-m slow`` tries all with all.
some_and_all = pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])


def with_their_opposites(term: str, tests: list[str], first: int, every: int) -> list[str]:
    """Return tests of a term, every so many of them, and that each does not hold."""
    made = [test.format(term) for test in tests[first % every :: every]]
    return [*made, *(f"NOT ({test})" for test in made)]


WIDE_CODES = "unaligned empty_range unsupported unknown_value too_large"


@some_and_all
@pytest.mark.parametrize(("first", "term"), list(enumerate(TERMS)))
def test_a_condition_on_wide_cells_holds_wherever_it_is_said_to_and_nowhere_else(
    duck: duckdb.DuckDBPyConnection, first: int, term: str, every: int
) -> None:
    tests = with_their_opposites(term, TESTS, first, every)
    wrong, refused = unsound(duck, "wide", tests)
    assert wrong == refused_otherwise(refused, WIDE_CODES) == []
    assert len(refused) < len(tests) / 2


def test_conditions_of_every_kind_hold_wherever_they_are_said_to(duck: duckdb.DuckDBPyConnection) -> None:
    wrong, refused = unsound(duck, "wide", [*OTHERS, *(f"NOT ({one})" for one in OTHERS)])
    assert wrong == refused_otherwise(refused, WIDE_CODES) == []
    assert len(refused) < 0.2 * len(OTHERS)


SIGNS = st.sampled_from(["<", "<=", "=", "<>", ">", ">="])


def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner),
        st.builds("({} / {})".format, inner, st.sampled_from(["2", "-3", "0.5"])),
        st.builds(
            "{}({}, {})".format, st.sampled_from(["GREATEST", "LEAST", "COALESCE", "NULLIF"]), inner, inner
        ),
        st.builds("{}({})".format, st.sampled_from(["ABS", "-"]), inner),
        st.builds("CASE WHEN {} {} {} THEN {} ELSE {} END".format, inner, SIGNS, inner, inner, inner),
    )


NUMBERS = st.recursive(st.sampled_from(["x", "n", "q", "x", "2", "-1", "1.5"]), larger, max_leaves=6)
CONDITIONS = st.recursive(
    st.one_of(
        st.builds("{} {} {}".format, NUMBERS, SIGNS, NUMBERS),
        st.builds("{} IS NOT DISTINCT FROM {}".format, NUMBERS, NUMBERS),
        st.builds("{} IS NULL".format, NUMBERS),
    ),
    lambda inner: st.one_of(
        st.builds("COALESCE({}, {})".format, inner, inner),
        st.builds("(({}) IS NOT {})".format, inner, st.sampled_from(["TRUE", "FALSE", "NULL"])),
        st.builds("CASE WHEN {} THEN {} ELSE {} END".format, inner, inner, inner),
        st.builds("({} OR NOT ({}))".format, inner, inner),
    ),
    max_leaves=3,
)


@given(st.lists(CONDITIONS, min_size=1, max_size=6))
def test_no_condition_is_belied_by_a_record(duck: duckdb.DuckDBPyConnection, conditions: list[str]) -> None:
    wrong, refused = unsound(duck, "wide", conditions)
    assert wrong == refused_otherwise(refused, WIDE_CODES) == []


# --- the engine is locked -----------------------------------------------------------------------------------

ROWS = {"k": np.arange(3)}
secret = pd.DataFrame({"k": [1, 2, 3]})  # a name of Python's, which a replacement scan would find


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM '{file}'", "SELECT * FROM \"{file}\"", "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM read_csv_auto('{file}')", "SELECT * FROM read_text('{file}')",
        "SELECT * FROM read_blob('{file}')", "SELECT * FROM glob('{file}')",
        "SELECT * FROM sniff_csv('{file}')",
        "SELECT * FROM read_parquet('{file}')", "SELECT * FROM read_json('{file}')",
        "ATTACH '{file}.db' AS d",
        "COPY (SELECT 1) TO '{file}.out'", "EXPORT DATABASE '{file}.d'", "INSTALL httpfs", "LOAD httpfs",
        "SELECT * FROM 'https://example.org/t.csv'", "SELECT * FROM secret", "SELECT * FROM RECORDS",
        "SET enable_external_access = true", "SET threads = 4", "SET memory_limit = '8GB'",
        "SET lock_configuration = false", "RESET memory_limit", "SET python_enable_replacements = true",
        "PRAGMA disable_optimizer", "CREATE SECRET s (TYPE s3)", "SELECT getenv('HOME')",
    ],
)  # fmt: skip
def test_no_text_reads_a_file_or_a_name_or_changes_a_setting(text: str, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("k\n1\n")
    with pytest.raises(QueryError, match="cannot be evaluated over the declared values"):
        evaluated(text.format(file=file), ROWS, {})
    assert sorted(one.name for one in tmp_path.iterdir()) == ["t.csv"]
    assert [one.tolist() for one in evaluated("SELECT k + 1 FROM r", ROWS, {})] == [[1, 2, 3]]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT max(sin(range)) FROM range(1000000000000)",
        "WITH RECURSIVE c AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM c) SELECT max(n) FROM c",
        "SELECT list(a.range) FROM range(100000000) a",
    ],
)
def test_what_takes_too_long_or_too_much_memory_is_ended(text: str) -> None:
    began = time.process_time()
    with pytest.raises(QueryError, match="takes too long, or too much memory") as refused:
        evaluated(text, ROWS, {}, seconds=0.3)
    assert refused.value.code == "too_large"
    assert time.process_time() - began < 2
    assert [one.tolist() for one in evaluated("SELECT k FROM r", ROWS, {})] == [[0, 1, 2]]


def test_no_table_outlives_its_text() -> None:
    evaluated("SELECT k FROM r", ROWS, {})
    for tables in ("r", "secret"):
        with pytest.raises(QueryError, match="cannot be evaluated"):
            evaluated(f"SELECT * FROM {tables}", {}, {})


def test_threads_have_engines_of_their_own() -> None:
    def asked(number: int) -> list[int]:
        rows = {"k": np.arange(number, number + 50)}
        found = [evaluated("SELECT k * 1 AS k FROM r", rows, {}) for _ in range(15)]
        assert all(one[0].tolist() == list(range(number, number + 50)) for one in found)
        return [int(one) for one in found[0][0]]

    with ThreadPoolExecutor(4) as pool:
        assert [one[0] for one in pool.map(asked, range(0, 800, 100))] == list(range(0, 800, 100))


@pytest.mark.parametrize(
    "condition",
    [
        "read_text('/etc/passwd') = s", "getenv('HOME') = s", "x > (SELECT 1)", "x IN (SELECT k FROM r)",
        "current_setting('threads') = s", "s = $text0", "s = ?", "x > range(10)", "x > v0", "x > l0 + 1",
        "duckdb_settings() = s", "x + nextval('q') > 1", "x > random()", "x + 1 > r.k",
        "s || version() = 'a'",
        "x COLLATE nocase = s", "x > list_sum([1, 2])", "x + 1 > 2; SELECT 1",
        "x + 1 > 2 -- '\n OR getenv('A') = s",
    ],
)  # fmt: skip
def test_only_listed_parts_of_sql_are_written(condition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def passed(*_: object, **__: object) -> list[NDArray[np.generic]]:
        raise AssertionError("nothing may come as far as this")

    monkeypatch.setattr("queries.cell_engine.evaluated", passed)
    with pytest.raises(QueryError):
        parse_where(condition, WIDE)


def test_what_a_text_quotes_comes_as_a_parameter_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    written = list[str]()

    def watched(text: str, *given: Any, **named: Any) -> list[NDArray[Any]]:
        written.append(text)
        return evaluated(text, *given, **named)

    monkeypatch.setattr("queries.cell_engine.evaluated", watched)
    for text in ("evil'' OR 1=1", 'evil"', "evil$text1", "evil--", "evil\\", "evil\x00", "evil\x010\x02"):
        query = parse_where(f"COALESCE(s, '{text}') = '{text}'", WIDE)
        least, most = readings(query)
        assert most.any()
        assert not least.all()
    assert written
    assert not any("evil" in text or "'" in text for text in written)


def test_without_the_library_plain_conditions_are_answered_and_others_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert parse_where("x < 1.5 AND s = 'F' OR n BETWEEN 10 AND 19 AND x IS NULL", WIDE).scope
    with pytest.raises(QueryError, match="evaluated by DuckDB, which is not installed"):
        parse_where("x + n > 2", WIDE)


def test_two_undeclared_texts_may_be_equal_or_not() -> None:
    same = Domain(tuple(CategoricalAttribute(name, ("x",), other=True) for name in "ab"), name="t")
    for condition in ("a = b", "a <> b", "COALESCE(a, 'x') = b", "NULLIF(a, b) IS NULL"):
        least, most = (one.reshape(same.shape) for one in readings(parse_where(condition, same)))
        assert (least[1, 1], most[1, 1]) == (False, True), condition
        assert least[0, 1] == most[0, 1], condition


def test_the_least_absolute_value_is_0_where_0_lies_inside() -> None:
    for condition, some in (("ABS(x - 2) < 0.25", [0, 0, 1, 0, 0]), ("ABS(x - 2) < 2", [0, 1, 1, 0, 0])):
        assert CellCondition.of(parse_where(condition, WIDE)).most.tolist() == some


# --- texts, and whole numbers in single cells ---------------------------------------------------------------


WORDS = ("x", "y", "Xy", "x%")
DOMAIN = Domain(
    (
        CategoricalAttribute("a", WORDS, missing=True, other=True),
        CategoricalAttribute("b", ("x", "y", "(o)"), other=True),
        IntegerAttribute("n", 0, 4, missing=True),
        IntegerAttribute("m", -2, 3, 2),
    ),
    name="t",
)
# Every declared value, an empty one, and some that are not declared, among them those of the other one.
SINGLES = pd.DataFrame(
    itertools.product(
        [*WORDS, None, "q", "XY", "xq", "(o)"],
        ["x", "y", "(o)", "q", "XY", "Xy", "x%"],
        [*range(5), None],
        range(-2, 4),
    ),
    columns=["a", "b", "n", "m"],
)  # fmt: skip
SINGLES["n"] = SINGLES["n"].astype("Int64")


CELLS_OF_SINGLES = places(SINGLES, DOMAIN)
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


@some_and_all
@pytest.mark.parametrize(
    ("first", "term", "tests"),
    [
        *((first, term, TEXT_TESTS) for first, term in enumerate(TEXT_TERMS)),
        *((first, term, NUMBER_TESTS) for first, term in enumerate(NUMBER_TERMS)),
    ],
)
def test_a_condition_holds_wherever_it_is_said_to_and_nowhere_else(
    duck: duckdb.DuckDBPyConnection, first: int, term: str, tests: list[str], every: int
) -> None:
    wrong, refused = unsound(duck, "single", with_their_opposites(term, tests, first, every))
    # Of an attribute alone what it does not declare is told.
    codes = "unknown_value empty_range" if term in DOMAIN else "unaligned empty_range"
    assert wrong == refused_otherwise(refused, codes) == []
    told = [error.message for error in refused.values() if error.code == "empty_range"]
    assert all("values outside count as" in one for one in told)


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
    duck: duckdb.DuckDBPyConnection, form: str
) -> None:
    others = itertools.cycle(("m < 2", "n < 3 AND m < 2"))
    asked = [form.format(one, other) for one, other in zip(OPEN, others, strict=False)]
    assert unsound(duck, "single", [*asked, *(f"NOT ({one})" for one in asked)]) == ([], {})


DECIDED = [
    "a = b", "a <> b", "n > m", "n = m", "COALESCE(a, 'y') = 'x'", "a LIKE 'x%'", "a NOT LIKE 'x%'",
    "b LIKE 'q'",
    "a LIKE '%'", "a IS DISTINCT FROM 'x'", "(a LIKE 'x%') IS NOT TRUE", "n + 1 IS NULL", "1 BETWEEN n AND m",
    "n NOT IN (1, NULL)", "COALESCE(a, 'q') = 'q'", "CASE WHEN n < 2 THEN a ELSE 'x' END = 'q'",
    "TRUE", "1 = 1",
    "n BETWEEN 3 AND 1", "m < 0 AND a ILIKE 'x%'", "n = 3 AND n + 1 = 4 AND m - 1 < 0", "GREATEST(n, m) = 3",
]  # fmt: skip


def test_only_cells_whose_records_differ_are_open(duck: duckdb.DuckDBPyConnection) -> None:
    for condition, true in zip(DECIDED, truth(duck, "single", DECIDED), strict=True):
        least, most = readings(parse_where(condition, DOMAIN))
        by_cell = pd.Series(true).groupby(CELLS_OF_SINGLES)
        assert np.array_equal(least, by_cell.all().to_numpy()), condition
        assert np.array_equal(most, by_cell.any().to_numpy()), condition
    # A decimal that rounding may have moved is open too; the cell of undeclared texts has a name.
    least, most = readings(parse_where("n * 0.1 = 0.3", DOMAIN))
    assert not least.any()
    assert most.reshape(DOMAIN.shape)[0, 0, :, 0].tolist() == [False, False, False, True, False, False]
    named = [readings(parse_where(one, DOMAIN)) for one in ("COALESCE(a, 'x') = '(other)'", "a = '(other)'")]
    assert all(np.array_equal(one, named[1][0]) for one in (*named[0], *named[1]))


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


def test_a_condition_that_nobody_meets_is_answered_with_a_note() -> None:
    parsed = parse_sql("SELECT COUNT(*) FROM t WHERE n BETWEEN 3 AND 1", DOMAIN)
    assert parsed.notes == ("no declared value satisfies the condition",)
    assert parse_sql("SELECT COUNT(*) FROM t WHERE a LIKE 'ZZ%'", DOMAIN).notes == ()  # an undeclared one may
