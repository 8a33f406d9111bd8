"""Statements whose rows are known: what SQL says, beside DuckDB where that knows it too."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import duckdb
import numpy as np
import pandas as pd
import pytest

import pmw
from queries import CategoricalAttribute, Domain, IntegerAttribute, QueryError

Ask: TypeAlias = Callable[[str], list[tuple[Any, ...]]]

# 10, 20, 30, 40, 50, 60 records with m = 0, 1, 2, 3, 4, 5; 3 of the north, 6 of the south; some have no kids.
TABLES = {
    "steps": (Domain((IntegerAttribute("m", 0, 5),), name="steps"),
              pd.DataFrame({"m": np.repeat(np.arange(6), np.arange(10, 70, 10))})),
    "places": (Domain((CategoricalAttribute("g", ("north", "south")), CategoricalAttribute("h", (True, False))), name="places"),  # noqa: E501
               pd.DataFrame({"g": ["north"] * 3 + ["south"] * 6, "h": [True, False, False] * 3})),
    "families": (Domain((CategoricalAttribute("g", ("a", "b")), IntegerAttribute("kids", 0, 5, missing=True)),
                        name="families"),
                 pd.DataFrame({"g": ["a", "a", "b"] * 10, "kids": pd.array([2, None, None] * 10, dtype="Int64")})),  # noqa: E501
}  # fmt: skip
SESSIONS: dict[str, pmw.Session] = {}


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """Answer a statement by a session whose noise is below a record, with numbers rounded."""
    opened = {
        name: pmw.open_session(frame, domain, epsilon=1000, delta=1e-9, options=pmw.Options(seed=1))
        for name, (domain, frame) in TABLES.items()
    }

    def answered(statement: str) -> list[tuple[Any, ...]]:
        table = opened[table_of(statement)].sql(statement)
        return [(*keys, *(shown(one.value) for one in found)) for keys, found in table.rows]

    SESSIONS.update(opened)
    yield answered
    for session in opened.values():
        session.close()


def shown(value: float | None) -> float | None:
    return None if value is None else round(value, 1) + 0.0


def table_of(statement: str) -> str:
    found = re.search(r"FROM (\w+)", statement, re.IGNORECASE)
    assert found is not None
    return found[1].lower()


def of_duckdb(statement: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.execute("SET integer_division = true")
        connection.register(table_of(statement), TABLES[table_of(statement)][1])
        return connection.execute(statement).fetchall()


RIGHT: dict[str, list[tuple[Any, ...]]] = {
    # a function of a key is known in each row
    "SELECT g, UPPER(g) AS u, COUNT(*) AS n FROM places GROUP BY g":
        [("north", "NORTH", 3), ("south", "SOUTH", 6)],
    "SELECT g, COUNT(*) AS n FROM places GROUP BY g ORDER BY CASE g WHEN 'south' THEN 1 ELSE 2 END":
        [("south", 6), ("north", 3)],
    "SELECT g, COUNT(*) AS n FROM places GROUP BY g HAVING LENGTH(g) = 5 ORDER BY LOWER(g)":
        [("north", 3), ("south", 6)],
    "SELECT CASE g WHEN 'north' THEN 'cold' ELSE 'warm' END AS w, COUNT(*) AS n FROM places GROUP BY g":
        [("cold", 3), ("warm", 6)],
    "SELECT g, COUNT(*) AS n FROM places GROUP BY g HAVING g LIKE 's%'": [("south", 6)],
    "SELECT UPPER(g) AS u, CASE u WHEN 'NORTH' THEN 1 ELSE 2 END AS k, COUNT(*) AS n FROM places GROUP BY g":
        [("NORTH", 1, 3), ("SOUTH", 2, 6)],
    "SELECT COALESCE(g, 'all') AS g, UPPER(g) AS u, GROUPING(g) AS t, COUNT(*) AS n FROM places GROUP BY ROLLUP (g)":  # noqa: E501
        [("north", "NORTH", 0, 3), ("south", "SOUTH", 0, 6), ("all", None, 1, 9)],
    "SELECT g, h, h = TRUE AND g = 'north' AS b, COUNT(*) AS n FROM places GROUP BY g, h":
        [("north", True, True, 1), ("north", False, False, 2), ("south", True, False, 2),
         ("south", False, False, 4)],
    "SELECT m, m * 2 + 1 AS k, m / 2 AS h, COUNT(*) AS n FROM steps WHERE m > 3 GROUP BY m":
        [(4, 9, 2, 50), (5, 11, 2, 60)],
    # ORDER BY takes the output's name first; keys that stay whole numbers are shown whole
    "SELECT 5 - m AS m, COUNT(*) AS n FROM steps GROUP BY m ORDER BY m LIMIT 2": [(0, 60), (1, 50)],
    "SELECT 5 - m AS m, COUNT(*) AS n FROM steps GROUP BY m ORDER BY steps.m LIMIT 2": [(5, 10), (4, 20)],
    "SELECT 5 - m AS m, COUNT(*) AS n FROM steps GROUP BY m ORDER BY m + 0 LIMIT 2": [(5, 10), (4, 20)],
    "SELECT 5 - m AS m, COUNT(*) AS n FROM steps WHERE m > 3 GROUP BY m HAVING m > 4": [(0, 60)],
    "SELECT m % 2 AS g, SUM(m) AS m FROM steps GROUP BY g ORDER BY m DESC": [(1, 440.0), (0, 260.0)],
    # a CAST of a half
    "SELECT CAST(m / 2.0 AS INTEGER) AS h, COUNT(*) AS n FROM steps GROUP BY h ORDER BY h":
        [(0, 30), (1, 30), (2, 150)],
    "SELECT CAST(m * 0.5 AS INTEGER) AS h, COUNT(*) AS n FROM steps GROUP BY h ORDER BY h":
        [(0, 10), (1, 50), (2, 90), (3, 60)],
    "SELECT ROUND(m / 2.0) AS h, COUNT(*) AS n FROM steps GROUP BY h ORDER BY h":
        [(0, 10), (1, 50), (2, 90), (3, 60)],
    # keys that are conditions
    "SELECT m > 2 AS big, COUNT(*) AS n FROM steps GROUP BY big": [(False, 60), (True, 150)],
    "SELECT m > 2 AS big, COUNT(*) AS n FROM steps GROUP BY big HAVING big": [(True, 150)],
    "SELECT m > 2 AS big, COUNT(*) AS n FROM steps GROUP BY big HAVING NOT big": [(False, 60)],
    "SELECT CASE WHEN m > 2 THEN TRUE ELSE FALSE END AS big, COUNT(*) AS n FROM steps GROUP BY 1":
        [(False, 60), (True, 150)],
    "SELECT CAST(m > 2 AS INTEGER) AS big, COUNT(*) AS n FROM steps GROUP BY 1": [(0, 60), (1, 150)],
    "SELECT CAST(m > 2 AS VARCHAR) AS big, COUNT(*) AS n FROM steps GROUP BY 1": [("false", 60), ("true", 150)],  # noqa: E501
    "SELECT kids > 1 AS some, COUNT(*) AS n FROM families GROUP BY some": [(False, 0), (True, 10), (None, 20)],  # noqa: E501
    # SUM of what is NULL by the declaration
    "SELECT SUM(kids) AS s, AVG(kids) AS a, MIN(kids) AS m, COUNT(kids) AS n FROM families WHERE kids IS NULL":  # noqa: E501
        [(None, None, None, 0)],
    "SELECT kids, SUM(kids) AS s, SUM(kids) * 1.0 / COUNT(*) AS r FROM families GROUP BY kids HAVING kids IS NULL":  # noqa: E501
        [(None, None, None)],
    "SELECT SUM(kids) AS s, SUM(1) AS o, COUNT(*) AS n FROM families WHERE kids > 3 AND kids < 2":
        [(None, None, 0)],
    "SELECT SUM(kids) FILTER (WHERE kids IS NULL) AS s, SUM(CASE WHEN kids IS NULL THEN 1 END) AS n FROM families":  # noqa: E501
        [(None, 20)],
    "SELECT SUM(CASE WHEN kids > 3 THEN 1 END) AS s, SUM(CASE WHEN kids > 3 THEN 1 ELSE 0 END) AS z FROM families WHERE kids < 2":  # noqa: E501
        [(None, 0)],
    "SELECT SUM(kids > 3) AS s, SUM(CAST(kids > 3 AS INTEGER)) AS z FROM families WHERE kids < 2": [(0, 0)],
    "SELECT COALESCE(SUM(kids), 0) AS z, COALESCE(AVG(kids), -1) AS a FROM families WHERE kids IS NULL": [(0, -1)],  # noqa: E501
    "SELECT kids, SUM(SUM(kids)) OVER () AS s FROM families GROUP BY kids HAVING kids = 2 OR kids IS NULL":
        [(2, 20), (None, 20)],
    "SELECT kids, MAX(SUM(kids)) OVER () AS s FROM families GROUP BY kids HAVING kids = 2 OR kids IS NULL":
        [(2, 20), (None, 20)],
}  # fmt: skip


@pytest.mark.parametrize("statement", RIGHT)
def test_rows_are_the_right_ones(ask: Ask, statement: str) -> None:
    assert ask(statement) == RIGHT[statement]
    rows = SESSIONS[table_of(statement)].sql(statement).rows
    for (keys, _), right in zip(rows, RIGHT[statement], strict=True):  # 1 and 1.0 equal TRUE, but are not it
        assert list(map(type, keys)) == list(map(type, right[: len(keys)]))


FRAMES = [
    f"{kind} {frame}"
    for kind in ("ROWS", "RANGE")
    for frame in (
        *("UNBOUNDED PRECEDING", "BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
        "BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
        *(
            ()
            if kind == "RANGE"
            else (
                *("1 PRECEDING", "CURRENT ROW", "BETWEEN 1 PRECEDING AND 1 FOLLOWING"),
                *("BETWEEN 1 PRECEDING AND CURRENT ROW", "BETWEEN CURRENT ROW AND 2 FOLLOWING"),
                *("BETWEEN 2 PRECEDING AND 1 PRECEDING", "BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING"),
            )
        ),
    )
]


@pytest.mark.parametrize("frame", FRAMES)
def test_words_of_frames_have_no_case(ask: Ask, frame: str) -> None:
    mixed = "".join(letter.lower() if place % 3 else letter for place, letter in enumerate(frame))
    for written in (frame, frame.lower(), frame.title(), mixed):
        for function in ("SUM(COUNT(*))", "COUNT(*)", "FIRST_VALUE(COUNT(*))"):
            over = f"SELECT m, {function} OVER (ORDER BY m {written}) AS v FROM steps GROUP BY m ORDER BY m"
            for statement in (over, over.lower().replace(written.lower(), written)):
                right = [(m, None if v is None else float(v)) for m, v in of_duckdb(statement)]
                assert [(m, v) for m, v in ask(statement)] == right, statement


CASTS = [
    "CAST(m / 2.0 AS INTEGER)", "CAST(m * 0.5 AS INTEGER)", "CAST(m + 0.5 AS INTEGER)", "CAST(-m / 2.0 AS INTEGER)",  # noqa: E501
    "CAST(m * 5e-1 AS INTEGER)", "CAST(CAST(m AS DOUBLE) * 0.5 AS INTEGER)", "CAST(m / 2 AS INTEGER)",
    "CAST(CASE WHEN m > 2 THEN 0.5 ELSE 1 END AS INTEGER)", "CAST(CASE WHEN m > 2 THEN 5e-1 ELSE 1 END AS INTEGER)",  # noqa: E501
    "CAST(ABS(m - 2.5) AS INTEGER)", "CAST(GREATEST(m, 2.5) AS INTEGER)", "CAST(ROUND(m / 2.0, 1) AS INTEGER)",  # noqa: E501
    "ROUND(m / 2.0)", "ROUND(-m / 2.0)", "ROUND(m * 0.5)", "FLOOR(-m / 2.0)", "CEIL(-m / 2.0)", "-m // 2", "-m % 2",  # noqa: E501
    "m > 2", "m > 2 AND m < 4", "CASE WHEN m > 2 THEN m END", "CAST(m > 2 AS INTEGER) + 1",
]  # fmt: skip


@pytest.mark.parametrize("key", CASTS)
def test_keys_are_those_of_duckdb_and_known_in_each_row_of_the_attribute(ask: Ask, key: str) -> None:
    for grouped, first in ((f"SELECT {key} AS k", "1"), (f"SELECT m, {key} AS k", "m")):
        statement = f"{grouped}, COUNT(*) AS n FROM steps GROUP BY {first} ORDER BY 1"
        right = [tuple(plain(one) for one in row) for row in of_duckdb(statement)]
        assert ask(statement) == right, statement


def plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool) else float(value)


def test_conditions_as_keys_are_booleans_everywhere(ask: Ask) -> None:
    assert ask("SELECT m, COUNT(*) AS n FROM steps GROUP BY m")
    expected: dict[str, list[bool | None]] = {
        "SELECT m > 2 AS big, COUNT(*) AS n FROM steps GROUP BY big": [False, True],
        "SELECT kids > 1 AS big, COUNT(*) AS n FROM families GROUP BY big": [False, True, None],
    }
    for statement, values in expected.items():
        table = SESSIONS[table_of(statement)].sql(statement)
        words = ["(missing)" if one is None else str(one).lower() for one in values]
        assert [line.split()[0] for line in table.to_text().splitlines()[1 : len(values) + 1]] == words
        assert [row["big"] for row in json.loads(json.dumps(table.to_dict()))["rows"]] == values
        assert table.to_pandas()["big"].tolist() == values
        pytest.importorskip("pyarrow", reason="Arrow tables need the extra frames")
        pytest.importorskip("polars", reason="Polars tables need the extra frames")
        assert str(table.to_arrow().schema.field("big").type) == "bool"
        assert table.to_polars()["big"].to_list() == values


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT UPPER(g) AS u, COUNT(*) AS n FROM places GROUP BY h", "a value of single records"),
        ("SELECT m % 2 AS g, SUM(m) AS m FROM steps GROUP BY g HAVING m > 3", "'m' stands outside of an aggregate"),  # noqa: E501
        ("SELECT m % 2 AS g, SUM(m) AS m FROM steps GROUP BY g ORDER BY m + 0", "'m' stands outside of an aggregate"),  # noqa: E501
    ],
)  # fmt: skip
def test_what_is_of_no_key_is_refused(ask: Ask, statement: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        ask(statement)
    assert caught.value.message.startswith(message)
