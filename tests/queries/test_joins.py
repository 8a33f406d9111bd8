"""Joins of lookups: what a statement counts is what DuckDB counts, whatever each record holds."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from queries import (
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    Lookup,
    Person,
    QueryError,
    Statement,
    parse_sql,
)
from queries.expressions import KeyFunction, Linear
from queries.factors import UNITS
from queries.sql_tree import SYNTHETIC
from tests.queries.meaning import refusal

AIRLINES = Lookup(
    "airlines",
    "carrier",
    {
        "UA": {"name": "United", "alliance": "Star"},
        "AA": {"name": "American", "alliance": "Oneworld"},
        "DL": {"name": "Delta"},
        "NW": {"name": "Delta", "alliance": "Star"},
    },
)
PORTS = Lookup(
    "ports",
    "dest",
    {
        "LAX": {"city": "Los Angeles", "state": "CA"},
        "SFO": {"city": "San Francisco", "state": "CA"},
        "SAN": {"city": "San Diego", "state": "CA"},
        "JFK": {"city": "New York", "state": "NY"},
    },
    key="faa",
)
CARRIERS = ("UA", "AA", "DL", "NW", "9E", None)  # 9E has no name
DESTS = ("LAX", "SFO", "BOS", "SAN", "JFK", "XXX")  # the last three are not declared, the last in no lookup
DOMAIN = Domain(
    (
        CategoricalAttribute("carrier", tuple(filter(None, CARRIERS)), missing=True),
        CategoricalAttribute("dest", DESTS[:3], other=True),
        IntegerAttribute("stops", 0, 2),
    ),
    "flights",
    lookups=(AIRLINES, PORTS),
)
# Each record once more than the one before, so that no two sets of records count alike by chance.
RECORDS = [(*record, place) for place, record in enumerate(itertools.product(CARRIERS, DESTS, (0, 1, 2)), 1)]


def _rows(lookup: Lookup) -> pd.DataFrame:
    return pd.DataFrame([{lookup.key: key, **row} for key, row in lookup.rows.items()])


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        frame = pd.DataFrame(RECORDS, columns=["carrier", "dest", "stops", "times"])
        connection.register("distinct_flights", frame)
        connection.execute(
            "CREATE TABLE flights AS SELECT carrier, dest, stops FROM distinct_flights, range(times)"
        )
        for lookup in DOMAIN.lookups:
            connection.register("read", _rows(lookup))
            connection.execute(f"CREATE TABLE {lookup.name} AS SELECT * FROM read")
        yield connection


def _counts() -> Any:
    """Return how many records each cell has: int64, shape ``DOMAIN.shape``."""
    counts = np.zeros(DOMAIN.shape, dtype=np.int64)
    for carrier, dest, stops, times in RECORDS:
        counts[CARRIERS.index(carrier), min(DESTS.index(dest), 3), stops] += times
    return counts


def _least_and_most(statement: Statement) -> dict[Any, tuple[int, int]]:
    """Return the least and the greatest count of each group, by its labels."""
    found = {}
    for _, group, query in statement.questions():
        readings = (query, query) if query.readings is None else query.readings
        ends = []
        for reading in readings:
            shape = [one.size if one.name in reading.scope else 1 for one in DOMAIN]
            ends.append(int((reading.weights().reshape(shape) * _counts()).sum()) // UNITS)
        found[group.labels] = (ends[0], ends[1])
    return found


def _instead(error: QueryError) -> str:
    """Return the statement that a refusal names."""
    return error.message.partition("; write ")[2].removesuffix(f", or run the statement on {SYNTHETIC}")


PLACES = [
    "p.state = 'CA'", "p.state <> 'CA'", "p.city = 'San Diego'",
    "NOT p.city IN ('San Diego', 'Los Angeles')", "p.city LIKE 'San %'", "p.state IS NULL",
    "p.state IS NOT NULL AND stops = 1", "NOT (p.state = 'NY' OR stops < 2)",
    "p.city = 'Los Angeles' OR dest = 'BOS'", "p.faa = 'SAN'", "COALESCE(p.state, 'x') = 'x'",
    "p.city = p.state", "p.state <> p.city", "LOWER(p.city) = 'san diego'",
    "p.city || p.state = 'New YorkNY'", "CASE WHEN p.state = 'NY' THEN stops ELSE 1 END = 1",
    "p.faa = dest", "COALESCE(p.faa, 'JFK') = 'JFK'",
]  # fmt: skip


@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN"])
@pytest.mark.parametrize("condition", PLACES)
def test_what_is_not_known_of_undeclared_values_lies_between_two_readings(
    duck: duckdb.DuckDBPyConnection, join: str, condition: str
) -> None:
    text = f"SELECT COUNT(*) FROM flights {join} ports p ON dest = p.faa WHERE {condition}"
    ((low, high),) = _least_and_most(parse_sql(text, DOMAIN)).values()
    ((true,),) = duck.sql(text).fetchall()
    assert low <= true <= high
    # Whatever the undeclared records hold: each reading is reached where all of them hold one value.
    reached = set()
    for one in ("SAN", "JFK", "XXX"):
        swapped = text.replace(
            "FROM flights",
            f"FROM (SELECT carrier, CASE WHEN dest IN ('SAN', 'JFK', 'XXX') THEN '{one}' ELSE dest END AS "
            "dest, stops FROM flights) flights",
        )
        reached |= {count for (count,) in duck.sql(swapped).fetchall()}
    assert (min(reached), max(reached)) == (low, high)


def test_undeclared_values_are_a_group_of_their_own_where_nothing_else_is_called_like_them() -> None:
    text = "SELECT p.city, COUNT(*) FROM flights JOIN ports p ON dest = p.faa GROUP BY p.city"
    found = _least_and_most(parse_sql(text, DOMAIN))
    everything = Counter({dest: sum(r[3] for r in RECORDS if r[1] == dest) for dest in DESTS})
    undeclared = sum(everything[dest] for dest in DESTS[3:])
    assert found == {
        ("Los Angeles",): (everything["LAX"],) * 2,
        ("San Francisco",): (everything["SFO"],) * 2,
        ("(other)",): (0, undeclared),
    }


@pytest.mark.parametrize(("key", "join"), [("p.state", "JOIN"), ("p.city", "LEFT JOIN")])
def test_a_key_that_cells_do_not_decide_is_refused_with_a_statement_that_runs(key: str, join: str) -> None:
    text = f"SELECT {key}, COUNT(*) FROM flights {join} ports p ON dest = p.faa GROUP BY {key}"
    error = refusal(parse_sql, text, DOMAIN)
    assert (error.code, error.position) == ("unaligned", text.rindex(key))
    assert "values that 'dest' does not declare may be called" in error.message
    parse_sql(error.message.rpartition("; ")[2].partition(": write ")[2], DOMAIN)


def test_a_value_of_undeclared_records_is_never_made_up() -> None:
    left = "SELECT COUNT(p.city) FROM flights LEFT JOIN ports p ON dest = p.faa"
    assert refusal(parse_sql, left, DOMAIN).code == "unaligned"  # some have one, and others have none
    key = "SELECT UPPER(p.state), COUNT(*) FROM flights JOIN ports p ON dest = p.faa GROUP BY 1"
    assert refusal(parse_sql, key, DOMAIN).code == "unaligned"


def test_what_all_rows_of_a_lookup_share_is_known_of_undeclared_records(
    duck: duckdb.DuckDBPyConnection,
) -> None:
    for column in ("COUNT(p.city)", "COUNT(*) FILTER (WHERE p.city = p.state)"):
        text = f"SELECT {column} FROM flights JOIN ports p ON dest = p.faa"
        (form,) = parse_sql(text, DOMAIN).leaves
        assert isinstance(form, Linear)
        weights = form.of_all_records(DOMAIN)
        assert np.array_equal(weights.low, weights.high)
        ((count,),) = duck.sql(text).fetchall()
        assert (count > 0) == bool(weights.high.any())


@pytest.mark.parametrize("text", ["p.city = 'Sam Diego'", "p.state < 'NY'", "'XY' = p.state"])
def test_a_column_of_a_lookup_is_compared_with_its_texts_alone(text: str) -> None:
    statement = f"SELECT COUNT(*) FROM flights JOIN ports p ON dest = p.faa WHERE {text}"
    error = refusal(parse_sql, statement, DOMAIN)
    assert error.code in ("unknown_value", "wrong_kind")
    assert "'p." in error.message


def test_aggregates_of_an_open_condition_have_ends() -> None:
    text = (
        "SELECT SUM(CASE WHEN p.state = 'CA' THEN 1 ELSE 0 END) AS n, COUNT(*) FILTER (WHERE p.state = 'NY') "
        "AS m FROM flights JOIN ports p ON dest = p.faa"
    )
    statement = parse_sql(text, DOMAIN)
    forms = [leaf.of_all_records(DOMAIN) for leaf in statement.leaves if isinstance(leaf, Linear)]
    ends = [[form.low.tolist(), form.high.tolist()] for form in forms]
    assert ends == [[[1, 1, 0, 0], [1, 1, 0, 1]], [[0, 0, 0, 0], [0, 0, 0, 1]]]
    assert statement.condition is not None
    assert statement.condition.least.tolist() == [True, True, False, False]
    assert statement.condition.most.tolist() == [True, True, False, True]


def test_a_join_that_keeps_everybody_is_no_condition() -> None:
    domain = Domain(
        (CategoricalAttribute("sex", ("m", "f")),),
        lookups=(Lookup("names", "sex", {"m": "Male", "f": "Female"}),),
    )
    statement = parse_sql("SELECT name, COUNT(*) FROM records JOIN names USING (sex) GROUP BY name", domain)
    assert statement.where.scope == ()


def test_a_function_of_a_column_is_known_in_each_group() -> None:
    domain = Domain(
        (CategoricalAttribute("code", ("zz", "a", "b", "c")),),
        lookups=(Lookup("names", "code", {"a": "ant", "b": "bee", "c": "bee"}),),
    )
    for join, names in (("JOIN", ["ant", "bee"]), ("LEFT JOIN", ["ant", "bee", None])):
        text = f"SELECT name, UPPER(name) AS u, COUNT(*) FROM records {join} names USING (code) GROUP BY name"
        statement = parse_sql(text, domain)
        plain, upper, _ = (column.node for column in statement.columns)
        assert isinstance(plain, KeyFunction)
        assert isinstance(upper, KeyFunction)
        assert [plain.value(group.places) for group in statement.groups()] == names
        assert [upper.value(group.places) for group in statement.groups()] == [
            name and name.upper() for name in names
        ]


def test_whole_numbers_may_be_keys() -> None:
    numbers = Lookup("words", "stops", {"0": "none", "1": "some", "2": "some", "7": "many"})
    domain = Domain(DOMAIN.attributes, "flights", lookups=(numbers,))
    statement = parse_sql("SELECT name, COUNT(*) FROM flights JOIN words USING (stops) GROUP BY name", domain)
    assert [(label, cells.tolist()) for label, cells in statement.groupings[0].groups] == [
        ("none", [0]),
        ("some", [1, 2]),
    ]


def test_titles_are_the_names_of_columns() -> None:
    text = (
        "SELECT a.name, a.ALLIANCE AS who, COALESCE(a.name, 'x') FROM flights LEFT JOIN airlines a "
        "USING (carrier) GROUP BY name, who, 3"
    )
    statement = parse_sql(text, DOMAIN)
    assert [column.title for column in statement.columns] == ["name", "who", "coalesce(a.name, 'x')"]


def test_the_statement_of_a_refusal_runs_where_its_groups_would_not() -> None:
    lookup = Lookup("ports", "dest", {"LAX": {"state": "C'A"}, "SAN": {"state": "C'A"}})
    domain = Domain(DOMAIN.attributes, "flights", lookups=(lookup,))
    error = refusal(parse_sql, "SELECT COUNT(*) FROM flights CROSS JOIN ports", domain)
    example = _instead(error)
    assert example == "SELECT COUNT(*) FROM flights JOIN ports USING (dest) WHERE ports.state = 'C''A'"
    assert parse_sql(example, domain).where.readings is not None


def test_a_sub_query_goes_before_a_lookup_of_its_name() -> None:
    text = "WITH airlines AS (SELECT * FROM flights) SELECT 1 FROM flights JOIN airlines USING (carrier)"
    error = refusal(parse_sql, text, DOMAIN)
    assert error.message.startswith("a join with 'airlines'")
    assert error.position == text.rindex("airlines")


def test_where_no_lookup_is_declared_the_refusal_says_what_views_are_for() -> None:
    domain = Domain(DOMAIN.attributes, "flights")
    error = refusal(parse_sql, "SELECT COUNT(*) FROM flights JOIN airlines USING (carrier)", domain)
    assert "private tables are joined in a view that the session is opened over" in error.message
    parse_sql(_instead(error), domain)


def test_a_column_called_like_an_attribute_needs_its_table() -> None:
    lookup = Lookup("airlines", "carrier", {"UA": {"dest": "LAX"}})
    domain = Domain(DOMAIN.attributes, "flights", lookups=(lookup,))
    source = "FROM flights f JOIN airlines a USING (carrier)"
    error = refusal(parse_sql, f"SELECT COUNT(*) {source} WHERE dest = 'LAX'", domain)
    assert error.message.startswith("'dest' is a column of flights and of a; write a.dest")
    own = parse_sql(f"SELECT COUNT(*) {source} WHERE f.dest = 'LAX'", domain)
    assert own.where.scope == ("carrier", "dest")
    assert parse_sql(f"SELECT COUNT(*) {source} WHERE a.dest = 'LAX'", domain).where.scope == ("carrier",)


@pytest.mark.parametrize("part", [" FILTER (WHERE a.name = 'Delta')", ""])
def test_people_are_counted_by_lookups_of_constant_attributes_alone(part: str) -> None:
    text = f"SELECT COUNT(DISTINCT id){part} FROM flights f JOIN airlines a USING (carrier)"
    text += "" if part else " WHERE a.name = 'Delta'"
    constant = Domain(DOMAIN.attributes, "flights", Person("id", 1, constant=("carrier",)), (AIRLINES,))
    assert parse_sql(text, constant).where.scope == ("carrier",)
    changing = Domain(DOMAIN.attributes, "flights", Person("id", 1), (AIRLINES,))
    assert "a condition on 'carrier'" in refusal(parse_sql, text, changing).message
