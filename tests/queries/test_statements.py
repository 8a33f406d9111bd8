"""Groups: a query for every declared value, and their sum is the whole."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
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
    Statement,
    parse_sql,
)
from queries.dates import DateAttribute
from queries.errors import QueryError, ScopeError
from queries.expressions import Linear
from queries.factors import UNITS
from queries.linear import LinearQuery
from queries.numbers import NumericAttribute
from queries.parsing import parse_line, parse_where, require_aligned
from queries.work import MOST_BINS
from tests.queries.meaning import refusal

DOMAIN = Domain(
    (
        IntegerAttribute("age", 20, 29, width=4, missing=True),
        NumericAttribute("income", (0, 10, 30)),
        CategoricalAttribute("sex", ("Female", "Male"), other=True),
        CategoricalAttribute("member", (True, False)),
    ),
    name="people",
)


def counts(query: LinearQuery, names: Sequence[str] = ()) -> list[LinearQuery]:
    """Return the counting question of each group."""
    return [question for _, _, question in Statement.count_by(query, names).questions()]


def test_groups_that_cannot_be_are_refused() -> None:
    everybody = LinearQuery.everything(DOMAIN)
    with pytest.raises(QueryError, match="names an attribute twice: 'sex'"):
        counts(everybody, ("sex", "sex"))
    with pytest.raises(QueryError, match="unknown attribute 'height'; declared are age, income, sex, member"):
        counts(everybody, ("height",))
    wide = Domain((IntegerAttribute("a", 1, 101), IntegerAttribute("b", 1, 100)))
    with pytest.raises(QueryError, match="at most 10,000 groups, got 10,100") as caught:
        counts(LinearQuery.everything(wide), ("a", "b"))
    assert caught.value.code == "too_large"
    assert MOST_BINS == 10_000
    with pytest.raises(ScopeError):
        everybody.within({"sex": 3})


@pytest.mark.parametrize(
    ("where", "names", "labels"),
    [
        ("sex = 'Male'", ("sex",), [("Male",)]),
        ("sex <> 'Male' OR age < 24", ("sex",), [("Female",), ("Male",), ("(other)",)]),
        ("sex = 'Male' OR age < 24", ("age",), [("20..23",), ("24..27",), ("28..29",), (None,)]),
        ("age IS NOT NULL AND member = TRUE", ("age", "member"), [
            ("20..23", True), ("24..27", True), ("28..29", True)]),
        ("income < 5", ("income",), [("[0, 10)",)]),  # the cell is cut: some of it may be meant
        ("income < 5 AND income >= 10", ("income",), []),
    ],
)  # fmt: skip
def test_groups_that_the_condition_excludes_are_left_out(
    where: str, names: tuple[str, ...], labels: list[tuple[object, ...]]
) -> None:
    statement = Statement.count_by(parse_where(where, DOMAIN), names)
    assert [group.labels for group in statement.groups()] == labels


def test_numbers_of_questions_do_not_depend_on_what_is_excluded() -> None:
    """Stored answers of earlier versions have the numbers of all groups, those of excluded ones included."""
    every = Statement.count_by(LinearQuery.everything(DOMAIN), ("sex", "age"))
    some = Statement.count_by(parse_where("sex <> 'Female' AND age >= 24", DOMAIN), ("sex", "age"))
    numbered = {group.labels: every.question_number(leaf, group) for leaf, group, _ in every.questions()}
    assert list(numbered.values()) == list(range(12))
    found = {group.labels: some.question_number(leaf, group) for leaf, group, _ in some.questions()}
    assert len(found) == 4
    assert found == {labels: numbered[labels] for labels in found}


# --- grouping sets ------------------------------------------------------------------------------------------


LETTERS = Domain(tuple(CategoricalAttribute(name, ("x", "y")) for name in "abc"), name="people")


def test_every_question_of_every_set_has_a_number_of_its_own() -> None:
    parsed = parse_sql("SELECT a, b, COUNT(*) FROM people WHERE a = 'y' GROUP BY CUBE (a, b)", LETTERS)
    numbers = [parsed.question_number(leaf, group) for leaf, group, _ in parsed.questions()]
    assert numbers == [2, 3, 5, 6, 7, 8]  # of 4 + 2 + 2 + 1 groups those that the condition leaves


def test_too_many_sets_are_refused_before_they_are_made() -> None:
    for keys in ("CUBE (a, b, c, a, b, c, a)", "CUBE (a, b, c), CUBE (b, a, c), CUBE (c, a, b)"):
        error = refusal(parse_sql, f"SELECT COUNT(*) FROM people GROUP BY {keys}", LETTERS)
        assert error.code == "too_large"
        assert "at most 64 grouping sets" in error.message


# --- statements that are read -------------------------------------------------------------------------------


PEOPLE = Domain(
    (
        IntegerAttribute("age", 17, 90),
        NumericAttribute("income", (0, 10_000, 25_000, 50_000)),
        CategoricalAttribute("sex", ("Female", "Male"), missing=True),
        CategoricalAttribute("marital-status", ("Married", "Never-married", "Married_AF"), other=True),
        CategoricalAttribute("count", ("one", "two")),
    ),
    name="people",
)


@pytest.mark.parametrize("keys", ["age, people.sex", "1, age", "3, 1", "sex, AGE"])
def test_keys_come_first_whoever_names_them(keys: str) -> None:
    statement = f"SELECT sex, COUNT(*) AS people, age FROM people WHERE age >= 65 GROUP BY {keys}"
    plain = parse_sql(statement, PEOPLE)
    assert [column.title for column in plain.columns] == ["sex", "age", "people"]
    for more in ("ORDER BY people DESC", "HAVING people > 3", "ORDER BY sex LIMIT 2"):
        other = parse_sql(f"{statement} {more}", PEOPLE)
        assert [column.names for column in other.columns] == [column.names for column in plain.columns]
        keyed = [[question.key() for _, _, question in one.questions()] for one in (plain, other)]
        assert keyed[0] == keyed[1]
        assert len(keyed[0]) == 3 * 26  # the condition excludes the other ages
    assert {"Male", None} < {label for group in plain.groups() for label in group.labels}


def test_a_line_may_hold_a_statement_and_its_groups_have_marks_that_no_analyst_can_give() -> None:
    line = '{"id": 1, "sql": "SELECT sex, COUNT(*) FROM people GROUP BY sex", "request_id": "a"}'
    for text, marks in ((line, ["a", "a\n1", "a\n2"]), (line.replace('"a"', "null"), [None] * 3)):
        parts = list(parse_line(text, PEOPLE).parts())
        assert [(part.id, part.request_id) for part in parts] == [(1, mark) for mark in marks]
    plain = parse_line('{"id": 1, "where": "", "request_id": "a"}', PEOPLE)
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
    statement = parse_sql(f"SELECT sex, COUNT(*) FROM people WHERE {where} GROUP BY sex", PEOPLE)
    for query in (parse_where(where, PEOPLE), statement.where):
        error = refusal(require_aligned, query)
        starts = f"; nearest to it: {nearest}; cells of 'income' begin at 0, 10000, 25000, 50000"
        assert error.message == f"the condition cuts cells, and only whole cells are asked for{starts}"
        assert error.code == "unaligned"
    for condition in nearest.split(", or "):
        require_aligned(parse_where(condition, PEOPLE))


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


# --- joins of lookups ---------------------------------------------------------------------------------------


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
FLIGHTS = Domain(
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
        for lookup in FLIGHTS.lookups:
            connection.register("read", _rows(lookup))
            connection.execute(f"CREATE TABLE {lookup.name} AS SELECT * FROM read")
        yield connection


def _counts() -> Any:
    """Return how many records each cell has: int64, shape ``FLIGHTS.shape``."""
    counts = np.zeros(FLIGHTS.shape, dtype=np.int64)
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
            shape = [one.size if one.name in reading.scope else 1 for one in FLIGHTS]
            ends.append(int((reading.weights().reshape(shape) * _counts()).sum()) // UNITS)
        found[group.labels] = (ends[0], ends[1])
    return found


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
    ((low, high),) = _least_and_most(parse_sql(text, FLIGHTS)).values()
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
    found = _least_and_most(parse_sql(text, FLIGHTS))
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
    error = refusal(parse_sql, text, FLIGHTS)
    assert (error.code, error.position) == ("unaligned", text.rindex(key))
    assert "values that 'dest' does not declare may be called" in error.message
    parse_sql(error.message.rpartition("; ")[2].partition(": write ")[2], FLIGHTS)


def test_a_value_of_undeclared_records_is_never_made_up() -> None:
    for text in (  # some have one, and others have none
        "SELECT COUNT(p.city) FROM flights LEFT JOIN ports p ON dest = p.faa",
        "SELECT UPPER(p.state), COUNT(*) FROM flights JOIN ports p ON dest = p.faa GROUP BY 1",
    ):
        assert refusal(parse_sql, text, FLIGHTS).code == "unaligned"


def test_what_all_rows_of_a_lookup_share_is_known_of_undeclared_records(
    duck: duckdb.DuckDBPyConnection,
) -> None:
    for column in ("COUNT(p.city)", "COUNT(*) FILTER (WHERE p.city = p.state)"):
        text = f"SELECT {column} FROM flights JOIN ports p ON dest = p.faa"
        (form,) = parse_sql(text, FLIGHTS).leaves
        assert isinstance(form, Linear)
        weights = form.of_all_records(FLIGHTS)
        assert np.array_equal(weights.low, weights.high)
        ((count,),) = duck.sql(text).fetchall()
        assert (count > 0) == bool(weights.high.any())


def test_a_sub_query_goes_before_a_lookup_of_its_name() -> None:
    text = "WITH airlines AS (SELECT * FROM flights) SELECT 1 FROM flights JOIN airlines USING (carrier)"
    error = refusal(parse_sql, text, FLIGHTS)
    assert error.message.startswith("a join with 'airlines'")
    assert error.position == text.rindex("airlines")


def test_a_column_called_like_an_attribute_needs_its_table() -> None:
    lookup = Lookup("airlines", "carrier", {"UA": {"dest": "LAX"}})
    domain = Domain(FLIGHTS.attributes, "flights", lookups=(lookup,))
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
    constant = Domain(FLIGHTS.attributes, "flights", Person("id", 1, constant=("carrier",)), (AIRLINES,))
    assert parse_sql(text, constant).where.scope == ("carrier",)
    changing = Domain(FLIGHTS.attributes, "flights", Person("id", 1), (AIRLINES,))
    assert "a condition on 'carrier'" in refusal(parse_sql, text, changing).message
