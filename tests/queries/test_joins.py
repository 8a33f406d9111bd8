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


CONDITIONS = [
    "a.name = 'Delta'",
    "a.name <> 'Delta'",
    "NOT a.name = 'Delta'",
    "a.name IN ('Delta', 'United')",
    "a.name NOT IN ('Delta', 'United')",
    "a.name LIKE '%e%'",
    "a.name NOT LIKE 'U%'",
    "a.name IS NULL",
    "a.name IS NOT NULL",
    "a.alliance IS NULL",
    "NOT (a.alliance = 'Star' AND f.stops = 1)",
    "a.alliance = 'Star' OR a.name = 'American'",
    "a.carrier = 'NW'",
    "alliance = 'Oneworld' OR stops > 1",
    "COALESCE(a.alliance, 'none') = 'none'",
    "CASE a.name WHEN 'Delta' THEN 2 ELSE stops END = 2",
    "CASE WHEN a.name = 'Delta' THEN 'd' ELSE a.alliance END = 'd'",
    "a.name = a.alliance",
    "a.alliance = 'Star' AND carrier = 'UA'",
]
PLACES = [
    "p.state = 'CA'",
    "p.state <> 'CA'",
    "p.city = 'San Diego'",
    "NOT p.city IN ('San Diego', 'Los Angeles')",
    "p.city LIKE 'San %'",
    "p.state IS NULL",
    "p.state IS NOT NULL AND stops = 1",
    "NOT (p.state = 'NY' OR stops < 2)",
    "p.city = 'Los Angeles' OR dest = 'BOS'",
    "p.faa = 'SAN'",
    "COALESCE(p.state, 'x') = 'x'",
    "p.city = p.state",
    "p.state <> p.city",
    "LOWER(p.city) = 'san diego'",
    "p.city || p.state = 'New YorkNY'",
    "CASE WHEN p.state = 'NY' THEN stops ELSE 1 END = 1",
    "p.faa = dest",
    "COALESCE(p.faa, 'JFK') = 'JFK'",
]


@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN", "INNER JOIN", "LEFT OUTER JOIN"])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_declared_values_are_counted_as_duckdb_counts_them(
    duck: duckdb.DuckDBPyConnection, join: str, condition: str
) -> None:
    text = f"SELECT COUNT(*) FROM flights f {join} airlines a USING (carrier) WHERE {condition}"
    ((low, high),) = _least_and_most(parse_sql(text, DOMAIN)).values()
    assert duck.sql(text).fetchall() == [(low,)] == [(high,)]


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


GROUPED = [
    ("a.name", "JOIN airlines a USING (carrier)"),
    ("name", "f JOIN airlines ON f.carrier = airlines.carrier"),
    ("a.name", "LEFT JOIN airlines a ON (a.carrier = flights.carrier)"),
    ("a.alliance", "JOIN airlines a USING (carrier)"),
    ("a.alliance", "LEFT JOIN airlines a USING (carrier)"),
    ("a.name, a.alliance", "LEFT JOIN airlines a USING (carrier) WHERE a.name <> 'American' AND stops > 0"),
    ("COALESCE(a.alliance, 'none')", "LEFT JOIN airlines a USING (carrier)"),
    ("CASE WHEN a.name LIKE '%a' THEN 'ends' ELSE a.alliance END", "JOIN airlines a USING (carrier)"),
    ("stops, a.name", "JOIN airlines a USING (carrier)"),
    (
        "a.name, b.alliance",
        "LEFT JOIN airlines a USING (carrier) JOIN airlines b ON b.carrier = flights.carrier",
    ),
]


@pytest.mark.parametrize(("keys", "source"), GROUPED)
def test_groups_are_those_of_duckdb(duck: duckdb.DuckDBPyConnection, keys: str, source: str) -> None:
    text = f"SELECT {keys}, COUNT(*) FROM flights {source} GROUP BY {keys}"
    found = _least_and_most(parse_sql(text, DOMAIN))
    assert all(low == high for low, high in found.values())
    true = {tuple(row[:-1]): row[-1] for row in duck.sql(text).fetchall()}
    assert {labels: low for labels, (low, _) in found.items() if low} == true


def test_several_keys_with_one_text_are_one_group() -> None:
    text = "SELECT a.name, COUNT(*) FROM flights JOIN airlines a USING (carrier) GROUP BY 1"
    (grouping,) = parse_sql(text, DOMAIN).groupings
    assert [(label, cells.tolist()) for label, cells in grouping.groups] == [
        ("United", [0]),
        ("American", [1]),
        ("Delta", [2, 3]),
    ]


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


REFUSED = {
    "FROM flights CROSS JOIN airlines": "CROSS JOIN",
    "FROM flights NATURAL JOIN airlines": "NATURAL JOIN",
    "FROM flights RIGHT JOIN airlines USING (carrier)": "RIGHT JOIN",
    "FROM flights FULL OUTER JOIN airlines USING (carrier)": "FULL OUTER JOIN",
    "FROM flights ANTI JOIN airlines USING (carrier)": "ANTI JOIN",
    "FROM flights, airlines WHERE flights.carrier = airlines.carrier": "anything but its key",
    "FROM flights JOIN airlines ON true": "anything but its key",
    "FROM flights JOIN airlines ON stops > 1": "anything but its key",
    "FROM flights JOIN airlines ON carrier = carrier": "anything but its key",
    "FROM flights JOIN airlines a ON a.carrier = a.carrier": "anything but its key",
    "FROM flights JOIN airlines a ON a.name = flights.carrier": "anything but its key",
    "FROM flights JOIN airlines a ON a.carrier = flights.dest": "anything but its key",
    "FROM flights JOIN airlines a ON a.carrier <> flights.carrier": "anything but its key",
    "FROM flights f JOIN airlines a ON a.carrier = f.carrier AND stops = 1": "anything but its key",
    "FROM flights JOIN airlines USING (carrier, name)": "anything but its key",
    "FROM flights JOIN ports USING (dest)": "anything but its key",
    "FROM flights f JOIN flights g USING (carrier)": "a join with 'flights'",
    "FROM flights JOIN airline USING (carrier)": "a join with 'airline'; did you mean 'airlines'?",
    'FROM flights JOIN "AIRLINES" USING (carrier)': "a join with 'AIRLINES'",
    "FROM flights JOIN (SELECT * FROM airlines) a USING (carrier)": "a join with a sub-query",
    "FROM flights a JOIN airlines a USING (carrier)": "'a' stands for two tables",
    "FROM flights WHERE carrier IN (SELECT carrier FROM airlines WHERE name = 'Delta')": (
        "a sub-query in IN"
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_any_other_join_is_refused_with_a_statement_that_runs(text: str) -> None:
    error = refusal(parse_sql, f"SELECT COUNT(*) {text}", DOMAIN)
    assert error.code == "unsupported"
    assert REFUSED[text] in error.message
    assert isinstance(error.position, int)
    assert error.position > len("SELECT COUNT(*) FROM ")
    parse_sql(_instead(error), DOMAIN)


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


@pytest.mark.parametrize(
    ("text", "code", "said", "at"),
    [
        ("SELECT COUNT(*) {} WHERE a.nam = 'x'", "unknown_attribute", "did you mean 'name'?", "a.nam"),
        ("SELECT COUNT(*) {} WHERE a.name = 'Unitd'", "unknown_value", "did you mean 'United'?", "a.name"),
        ("SELECT COUNT(*) {} WHERE airlines.name = 'x'", "unsupported", "a name with a dot", "airlines.name"),
        ("SELECT alliance, COUNT(*) {} JOIN airlines b ON b.carrier = flights.carrier GROUP BY 1", "syntax",
         "'alliance' is a column of a and of b; write a.alliance", "alliance"),
        ("SELECT stops AS alliance, COUNT(*) {} GROUP BY alliance", "syntax",
         "'alliance' is a title of the statement and a column of a; write a.alliance", "alliance"),
        ("SELECT a.name, COUNT(*) {}", "syntax", "'name' stands outside of an aggregate", "a.name"),
        ("SELECT AVG(a.name) {}", "wrong_kind", "AVG needs numbers", "a.name"),
    ],
)  # fmt: skip
def test_names_and_texts_are_refused_where_they_stand(text: str, code: str, said: str, at: str) -> None:
    text = text.format("FROM flights JOIN airlines a USING (carrier)")
    error = refusal(parse_sql, text, DOMAIN)
    assert error.code == code
    assert said in error.message
    assert error.position == (text.rindex(at) if "stops" in text else text.index(at))


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
