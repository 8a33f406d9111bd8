"""Sub-queries and conditions on answers where bars are wide, or groups have no records.

Others are rows of ``tests/statements``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.session.local import _left_of
from queries import CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute, QueryError
from queries.parsing import parse_sql
from tests.worlds import ends, opened

DOMAIN = Domain(
    (
        IntegerAttribute("age", 18, 90),
        CategoricalAttribute("sex", ("Female", "Male")),
        CategoricalAttribute("region", ("north", "south", "east", "west", "none")),
        NumericAttribute("income", (0, 10_000, 20_000, 30_000, 50_000, 100_000)),
        CategoricalAttribute("smoker", ("yes", "no"), missing=True),
    ),
    name="people",
)


@pytest.fixture(scope="module")
def wide(people: pd.DataFrame) -> Iterator[pmw.Session]:
    """A session whose noise is large."""
    with opened(people, DOMAIN, epsilon=0.1, options=pmw.Options(seed=1)) as session:
        yield session


GROUPED = "(SELECT region, sex, COUNT(*) AS n, AVG(age) AS a FROM people GROUP BY region, sex) AS q"
STATEMENTS = re.split(
    r"\n(?! )",
    f"""\
SELECT COUNT(DISTINCT region) AS n FROM people
SELECT COUNT(DISTINCT smoker) AS n FROM people WHERE age > 30
SELECT sex, COUNT(DISTINCT region) AS n, COUNT(*) AS c, AVG(age) AS a, MAX(age) AS m FROM people GROUP
    BY sex
SELECT COUNT(DISTINCT sex) FILTER (WHERE age > 40) AS n, COUNT(*) FILTER (WHERE age > 40) AS m FROM
    people
SELECT AVG(n) AS a, MAX(n) AS b, MIN(n) AS c, SUM(n) AS d, COUNT(*) AS e FROM {GROUPED}
SELECT sex, MAX(n) AS m, COUNT(*) AS k, MIN(a) AS l FROM {GROUPED} GROUP BY sex ORDER BY m DESC
SELECT sex, SUM(n) AS s FROM {GROUPED} GROUP BY sex HAVING SUM(n) > 100
SELECT SUM(CASE WHEN n > 2000 THEN 1 ELSE 0 END) AS big FROM {GROUPED}
SELECT SUM(CASE WHEN n < 500 THEN 1 ELSE 0 END) AS small, SUM(n + 1) AS more FROM {GROUPED}
SELECT AVG(n * 2.0) AS a, SUM(CASE WHEN n > 900 THEN 1 ELSE 0 END) * 1.0 / COUNT(*) AS part FROM {GROUPED}
SELECT MAX(p) AS a, MIN(p) AS b FROM (SELECT region, 100.0 * COUNT(*) FILTER (WHERE smoker = 'yes') / COUNT(*)
    AS p FROM people GROUP BY region) AS q
SELECT AVG(n) AS a, MAX(n) AS b FROM (SELECT region, COUNT(*) FILTER (WHERE smoker = 'yes') AS n FROM people
    GROUP BY region) AS q""",
)


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    generator, count = np.random.default_rng(5), 12_000
    return pd.DataFrame(
        {
            "age": generator.integers(18, 91, count),
            "sex": generator.choice(["Female", "Male"], count, p=[0.2, 0.8]),
            "region": generator.choice(["north", "south", "east", "west"], count, p=[0.4, 0.3, 0.2, 0.1]),
            "income": np.minimum(np.round(generator.lognormal(9.9, 0.6, count), -1), 99_990),
            "smoker": generator.choice(np.array(["yes", "no", None], dtype=object), count, p=[0.3, 0.6, 0.1]),
        }
    )


@pytest.fixture(scope="module")
def session(people: pd.DataFrame) -> Iterator[pmw.Session]:
    """A session whose noise is small."""
    with opened(people, DOMAIN, epsilon=1000, options=pmw.Options(seed=1)) as session:
        yield session


@pytest.mark.parametrize("statement", STATEMENTS)
def test_what_duckdb_answers_lies_in_the_bars(
    statement: str, people: pd.DataFrame, session: pmw.Session
) -> None:
    with duckdb.connect() as connection:
        connection.register("people", people)
        true = connection.execute(statement).fetch_df()
    table = session.sql(statement)
    names = [*table.keys, *table.titles]
    assert sorted(names) == sorted(true.columns)
    numbers: dict[tuple[str, ...], dict[Hashable, Any]] = {
        tuple(str(row[name]) for name in table.keys): row for row in true.to_dict("records")
    }
    seen = 0
    for keys, found in table.rows:
        row = numbers.get(tuple(map(str, keys)))
        if row is None:
            continue
        seen += 1
        for title, one in zip(table.titles, found, strict=True):
            if one.is_promised and one.interval is not None and not pd.isna(row[title]):
                room = 1e-3 * max(1.0, abs(row[title]))  # for noise, which is small
                assert one.interval[0] - room <= row[title] <= one.interval[1] + room
    assert seen == len(true)
    if table.titles:
        assert sum(one.is_promised for one in table.estimates()) >= len(true)


def test_a_condition_on_answers_is_open_where_their_bars_are(wide: pmw.Session) -> None:
    (count,) = wide.sql("SELECT COUNT(*) AS n FROM people WHERE sex = 'Male'").column("n")
    (low, high), value = ends(count), int(count.value or 0)
    assert low < value < high
    for number, both in ((value, (0, 1)), (low - 500, (1, 1)), (high + 500, (0, 0))):
        text = f"SELECT CASE WHEN COUNT(*) > {number} THEN 1 ELSE 0 END AS n, COUNT(*) <= {number} AS m "
        table = wide.sql(f"{text} FROM people WHERE sex = 'Male'")
        (one,), (other,) = table.column("n"), table.column("m")
        assert one.interval == both
        assert other.interval == (1 - both[1], 1 - both[0])
        assert one.is_promised
        assert other.is_promised
    text = f"SELECT CASE WHEN COUNT(*) > {value + 1} THEN 1 END AS n FROM people WHERE sex = 'Male'"
    (none,) = wide.sql(text).column("n")  # what no answer chooses may be a number in truth
    assert none.value is None
    assert not none.is_null
    (same,) = wide.sql("SELECT COUNT(*) = COUNT(*) AS n FROM people WHERE sex = 'Male'").column("n")
    assert same.interval == (0, 1)  # an answer equals a number where its bar is that number


def test_whether_there_are_records_is_open_where_a_bar_holds_none(wide: pmw.Session) -> None:
    table = wide.sql("SELECT region, SIGN(COUNT(*)) AS s FROM people GROUP BY region")
    found = dict(zip(table.column("region"), [one.interval for one in table.column("s")], strict=True))
    assert found["north"] == (1, 1)
    assert found["none"] == (0, 1)
    (count,) = wide.sql("SELECT COUNT(DISTINCT region) AS n FROM people").column("n")
    assert count.interval == (4, 5)


def test_a_statement_in_two_steps_is_priced_by_neither_and_joined_ones_together(session: pmw.Session) -> None:
    text = "SELECT COUNT(*) AS n FROM people WHERE age > (SELECT AVG(age) FROM people)"
    read = parse_sql(text, DOMAIN)
    assert read.size == 1
    assert not read.counts_alone
    asked: list[Callable[[], object]] = [
        lambda: session.quote(text, 0.01),
        lambda: session.quote(text.replace("COUNT(*) AS n", "AVG(age) AS n"), 0.01),
        lambda: session.sql_within(text, 0.01),
        lambda: session.forecast(text),
        lambda: session.explain(text),
        lambda: session.measure([text], within=0.01),
        lambda: pmw.expected_questions([text], DOMAIN),
        lambda: list(read.questions()),
    ]
    for ask in asked:
        with pytest.raises(QueryError, match="two steps"):
            ask()
    with pytest.raises(QueryError, match="a bar is for columns"):
        session.quote(
            "SELECT COUNT(*) AS n FROM people UNION ALL SELECT COUNT(*) * COUNT(*) FROM people", 0.01
        )


@pytest.mark.parametrize("column", ["n + n", "x.n"])
def test_names_that_multiply_what_is_read_are_refused_at_once(column: str) -> None:
    one = "SELECT n + n AS n FROM c{}" if column == "n + n" else "SELECT x.n FROM c{0} x, c{0} y"
    more = "".join(f", c{place} AS ({one.format(place - 1)})" for place in range(1, 60))
    # Written out it would have 2^59 nodes.
    text = f"WITH c0 AS (SELECT COUNT(*) AS n FROM people){more} SELECT n FROM c59"
    with pytest.raises(QueryError) as refused:
        parse_sql(text, DOMAIN)
    assert refused.value.code == "too_large"


def test_the_number_of_a_sub_query_may_be_any_of_its_bar(people: pd.DataFrame) -> None:
    text = "SELECT COUNT(*) AS n FROM people WHERE age > (SELECT AVG(age) FROM people)"
    with opened(people, DOMAIN, epsilon=0.2, options=pmw.Options(seed=1)) as session:
        (mean,) = session.sql("SELECT AVG(age) AS a FROM people").column("a")
        table = session.sql(text)
        (count,) = table.column("n")
        most, least = (ends(session.ask(f"age > {end}")) for end in ends(mean))
        assert ends(mean)[1] - ends(mean)[0] > 1  # between whole numbers
        assert ends(count)[0] <= least[0] + 1
        assert ends(count)[1] >= most[1] - 1
        assert "sub-query's answer" in table.notes[0]


def test_what_the_first_step_charged_is_off_the_ceiling_of_the_second() -> None:
    assert _left_of(Fraction(1, 10), Fraction(1, 25)) == Fraction(3, 50)
    assert _left_of(0.1, Fraction(1, 5)) == 0
    assert _left_of(None, Fraction(1, 5)) is None


def test_an_analysts_own_ceiling_is_for_both_steps_together(people: pd.DataFrame) -> None:
    inner = "SELECT AVG(age) FROM people WHERE sex = 'Male'"
    text = f"SELECT COUNT(*) AS n FROM people WHERE age > ({inner}) AND smoker = 'no' AND sex = 'Female'"
    with opened(people, DOMAIN, epsilon=1, seed=1) as session:
        first = session.analyst("ann", 1, at_most=0.15).sql(inner).spent.charged
        assert first > 0
    with opened(people, DOMAIN, epsilon=1, seed=1) as session:
        with pytest.raises(pmw.PriceError) as refused:
            session.analyst("ann", 1, at_most=0.15).sql(text)
        second = refused.value.price  # which alone is below the ceiling, as the first step is
    with opened(people, DOMAIN, epsilon=1, seed=1) as session:
        ann = session.analyst("ann", 1, at_most=second + first / 2)
        with pytest.raises(pmw.PriceError):
            ann.sql(text)
        assert ann.budget().spent <= second
