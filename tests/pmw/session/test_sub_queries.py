"""Sub-queries, WITH, UNION ALL and conditions on answers, against DuckDB and against each other."""

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
    GROUP BY region) AS q
SELECT MAX(n) AS m, SUM(n) AS s FROM (SELECT COUNT(*) AS n FROM people WHERE age > 40) AS q
SELECT COUNT(*) AS n FROM (SELECT DISTINCT age FROM people WHERE age < 30) AS q
SELECT * FROM (SELECT region, COUNT(*) AS n FROM people GROUP BY region) AS q WHERE n > 3000 ORDER BY n
    DESC LIMIT 2
SELECT q.region, n, RANK() OVER (ORDER BY n DESC) AS r FROM (SELECT region, COUNT(*) AS n FROM people
    GROUP BY 1) q
SELECT region FROM (SELECT region, RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM people GROUP BY
    region) q WHERE r <= 2
SELECT band, AVG(income) AS a FROM (SELECT *, CASE WHEN age < 40 THEN 'y' ELSE 'o' END AS band FROM
    people) q GROUP BY 1
SELECT r, COUNT(*) AS n FROM (SELECT UPPER(region) AS r, age FROM people WHERE age < 50) q WHERE r <>
    'NORTH' GROUP BY r
SELECT decade * 10 AS d, COUNT(*) AS n, AVG(two) AS m FROM (SELECT age // 10 AS decade, age * 2 AS two
    FROM people) GROUP BY 1
WITH t AS (SELECT region, sex, COUNT(*) AS n FROM people GROUP BY ALL), u AS (SELECT * FROM t WHERE n >
    900) SELECT region, sex, n FROM u ORDER BY n
WITH people AS (SELECT * FROM people WHERE age > 30) SELECT sex, COUNT(*) AS n FROM people GROUP BY sex
WITH a AS (SELECT region, COUNT(*) AS n FROM people GROUP BY region), b AS (SELECT region, COUNT(*) AS m
    FROM people WHERE smoker = 'yes' GROUP BY region) SELECT a.region, n, m, 1.0 * m / n AS rate FROM a
    JOIN b ON a.region = b.region
WITH a AS (SELECT region, COUNT(*) AS n FROM people GROUP BY region), b AS (SELECT COUNT(*) AS total
    FROM people) SELECT region, n, 100.0 * n / total AS pct FROM a CROSS JOIN b ORDER BY pct DESC
SELECT a.region, a.n, b.m FROM (SELECT region, COUNT(*) AS n FROM people WHERE age < 40 GROUP BY 1) a
    LEFT JOIN (SELECT region, AVG(age) AS m FROM people WHERE sex = 'Male' GROUP BY 1) b USING (region)
SELECT a.n, b.m FROM (SELECT COUNT(*) AS n FROM people) a, (SELECT AVG(age) AS m FROM people WHERE age >
    30) b
SELECT region, COUNT(*) * 1.0 / (SELECT COUNT(*) FROM people) AS s FROM people GROUP BY region
SELECT region, COUNT(*) AS n FROM people GROUP BY region HAVING COUNT(*) > (SELECT COUNT(*) FROM people
    WHERE smoker = 'yes') / 4.0
SELECT (SELECT COUNT(*) FROM people WHERE sex = 'Male') - (SELECT COUNT(*) FROM people WHERE sex =
    'Female') AS d
SELECT 'f' AS k, COUNT(*) AS n FROM people WHERE sex = 'Female' UNION ALL SELECT 'm', COUNT(*) FROM
    people WHERE sex = 'Male'
WITH a AS (SELECT * FROM people WHERE age > 40) SELECT region AS k, COUNT(*) AS n FROM a GROUP BY region
    UNION ALL SELECT sex, COUNT(*) FROM a GROUP BY sex UNION ALL SELECT 'all', COUNT(*) FROM a ORDER BY
    n DESC
SELECT COUNT(*) AS n, 'f' AS k FROM people WHERE sex = 'Female' UNION ALL SELECT COUNT(*), 'm' FROM
    people WHERE sex = 'Male' ORDER BY 1 DESC
(SELECT sex, COUNT(*) AS n FROM people GROUP BY sex) UNION ALL (SELECT region, COUNT(*) FROM people
    GROUP BY region ORDER BY 2 DESC LIMIT 1)
SELECT sex, CASE WHEN COUNT(*) > 9000 THEN 1 ELSE 0 END AS many, COUNT(*) > 100 AS some, COUNT(*) <> 0
    AND AVG(age) < 20 AS w FROM people GROUP BY sex
SELECT region, CASE WHEN COUNT(*) = 0 THEN NULL ELSE 100.0 * COUNT(*) FILTER (WHERE smoker = 'yes') /
    COUNT(*) END AS p FROM people GROUP BY region
SELECT COUNT(*) AS n FROM people WHERE income > (SELECT AVG(income) FROM people)
SELECT region, COUNT(*) AS n FROM people WHERE age > (SELECT AVG(age) FROM people WHERE sex = 'Male') *
    1.2 AND sex = 'Female' GROUP BY region
SELECT COUNT(*) AS n FROM people WHERE region = ANY(ARRAY['north', 'south']) AND sex <> ALL(ARRAY['Male'])
    AND age = ANY(ARRAY[30, 31, 45]::int[])
SELECT COUNT(*) AS n FROM people WHERE age >= ('30'::int4) AND age > '-5'::bigint AND income <
    '50000.5'::double
SELECT * FROM people WHERE (0 = 1)
SELECT age, region AS r FROM people LIMIT 0
SELECT COUNT(*) AS failures, COUNT(*) <> 0 AS warn FROM (SELECT age FROM people WHERE age IS NULL) AS t
SELECT "public"."people"."region" AS "region", COUNT(*) AS "count" FROM "public"."people" GROUP BY
    "public"."people"."region" ORDER BY "public"."people"."region" FETCH NEXT 5 ROWS ONLY""",
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
    options = pmw.Options(seed=1)
    with pmw.open_session(people, DOMAIN, epsilon=1000, delta=1e-9, options=options) as opened:
        yield opened


@pytest.mark.parametrize("statement", STATEMENTS)
def test_what_duckdb_answers_lies_in_the_bars(
    statement: str, people: pd.DataFrame, session: pmw.Session
) -> None:
    with duckdb.connect() as connection:
        connection.register("people", people)
        true = connection.execute(statement.replace('"public".', "")).fetch_df()
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


def test_a_condition_on_answers_is_open_where_their_bars_are(people: pd.DataFrame) -> None:
    options = pmw.Options(seed=1)
    with pmw.open_session(people, DOMAIN, epsilon=0.1, delta=1e-9, options=options) as session:
        (count,) = session.sql("SELECT COUNT(*) AS n FROM people WHERE sex = 'Male'").column("n")
        assert count.interval is not None
        (low, high), value = count.interval, int(count.value or 0)
        assert low < value < high
        for number, ends in ((value, (0, 1)), (low - 500, (1, 1)), (high + 500, (0, 0))):
            text = f"SELECT CASE WHEN COUNT(*) > {number} THEN 1 ELSE 0 END AS n, COUNT(*) <= {number} AS m "
            table = session.sql(f"{text} FROM people WHERE sex = 'Male'")
            (one,), (other,) = table.column("n"), table.column("m")
            assert one.interval == ends
            assert other.interval == (1 - ends[1], 1 - ends[0])
            assert one.is_promised
            assert other.is_promised


def test_whether_there_are_records_is_open_where_a_bar_holds_none(people: pd.DataFrame) -> None:
    options = pmw.Options(seed=1)
    with pmw.open_session(people, DOMAIN, epsilon=0.1, delta=1e-9, options=options) as session:
        table = session.sql("SELECT region, SIGN(COUNT(*)) AS s FROM people GROUP BY region")
        ends = dict(zip(table.column("region"), [one.interval for one in table.column("s")], strict=True))
        assert ends["north"] == (1, 1)
        assert ends["none"] == (0, 1)
        (count,) = session.sql("SELECT COUNT(DISTINCT region) AS n FROM people").column("n")
        assert count.interval == (4, 5)


def test_what_no_answer_chooses_may_be_a_number_in_truth(people: pd.DataFrame) -> None:
    options = pmw.Options(seed=1)
    with pmw.open_session(people, DOMAIN, epsilon=0.1, delta=1e-9, options=options) as session:
        (count,) = session.sql("SELECT COUNT(*) AS n FROM people WHERE sex = 'Male'").column("n")
        number = int(count.value or 0) + 1
        text = f"SELECT CASE WHEN COUNT(*) > {number} THEN 1 END AS n FROM people WHERE sex = 'Male'"
        (none,) = session.sql(text).column("n")
        assert none.value is None
        assert not none.is_null


def test_a_statement_in_two_steps_is_priced_by_neither(session: pmw.Session) -> None:
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


def test_a_price_is_of_all_statements_that_are_joined(session: pmw.Session) -> None:
    text = "SELECT COUNT(*) AS n FROM people UNION ALL SELECT COUNT(*) * COUNT(*) FROM people"
    with pytest.raises(QueryError, match="a bar is for columns"):
        session.quote(text, 0.01)


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
    options = pmw.Options(seed=1)
    with pmw.open_session(people, DOMAIN, epsilon=0.2, delta=1e-9, options=options) as session:
        (mean,) = session.sql("SELECT AVG(age) AS a FROM people").column("a")
        text = "SELECT COUNT(*) AS n FROM people WHERE age > (SELECT AVG(age) FROM people)"
        table = session.sql(text)
        assert mean.interval is not None
        (count,) = table.column("n")
        most, least = (session.ask(f"age > {end}").interval for end in mean.interval)
        assert mean.interval[1] - mean.interval[0] > 1  # between whole numbers
        assert most is not None
        assert least is not None
        assert count.interval is not None
        assert count.interval[0] <= least[0] + 1
        assert count.interval[1] >= most[1] - 1
        assert "sub-query's answer" in table.notes[0]


def test_what_the_first_step_charged_is_off_the_ceiling_of_the_second() -> None:
    assert _left_of(Fraction(1, 10), Fraction(1, 25)) == Fraction(3, 50)
    assert _left_of(0.1, Fraction(1, 5)) == 0
    assert _left_of(None, Fraction(1, 5)) is None


def test_an_answer_equals_a_number_where_its_bar_is_that_number(people: pd.DataFrame) -> None:
    options = pmw.Options(seed=1)
    with pmw.open_session(people, DOMAIN, epsilon=0.1, delta=1e-9, options=options) as session:
        text = "SELECT COUNT(*) = COUNT(*) AS n FROM people WHERE sex = 'Male'"
        (same,) = session.sql(text).column("n")
        assert same.interval == (0, 1)


def test_an_analysts_own_ceiling_is_for_both_steps_together(people: pd.DataFrame) -> None:
    options = pmw.Options(seed=1, opening=pmw.Opening.ONE_WAY)
    inner = "SELECT AVG(age) FROM people WHERE sex = 'Male'"
    text = f"SELECT COUNT(*) AS n FROM people WHERE age > ({inner}) AND smoker = 'no' AND sex = 'Female'"
    with pmw.open_session(people, DOMAIN, epsilon=1, delta=1e-9, options=options) as session:
        first = session.analyst("ann", 1, at_most=0.15).sql(inner).spent.charged
        assert first > 0
    with pmw.open_session(people, DOMAIN, epsilon=1, delta=1e-9, options=options) as session:
        with pytest.raises(pmw.PriceError) as refused:
            session.analyst("ann", 1, at_most=0.15).sql(text)
        second = refused.value.price  # which alone is below the ceiling, as the first step is
    with pmw.open_session(people, DOMAIN, epsilon=1, delta=1e-9, options=options) as session:
        ann = session.analyst("ann", 1, at_most=second + first / 2)
        with pytest.raises(pmw.PriceError):
            ann.sql(text)
        assert ann.budget().spent <= second


@pytest.mark.parametrize(
    ("statement", "words"),
    {
        "SELECT COUNT(*) FROM people WHERE age = (SELECT MAX(age) FROM people)": "other than <, <=, > or >=",
        "SELECT a.n FROM (SELECT sex, COUNT(*) n FROM people GROUP BY sex) a, (SELECT region, COUNT(*) m "
        "FROM people GROUP BY region) b": "but all of their keys",
        "SELECT a.n FROM (SELECT sex, COUNT(*) n FROM people GROUP BY sex) a JOIN (SELECT sex, COUNT(*) m "
        "FROM people GROUP BY sex) b ON a.sex = b.m": "but all of their keys",
        "SELECT COUNT(*) FROM (SELECT sex, COUNT(*) AS n FROM people GROUP BY sex LIMIT 1) q": "LIMIT",
        "SELECT sex FROM (SELECT sex, COUNT(*) AS n FROM people GROUP BY sex LIMIT 1) q WHERE n > 3": "LIMIT",
        "SELECT MEDIAN(n) FROM (SELECT sex, COUNT(*) AS n FROM people GROUP BY sex)": "aggregate of groups",
        "SELECT MIN(n) FROM (SELECT region, COUNT(*) FILTER (WHERE smoker = 'yes') AS n FROM people "
        "GROUP BY region) q": "groups without records also have",
        "SELECT COUNT(*) FROM (SELECT DISTINCT income FROM people) q": "cells hold several values",
        "SELECT region, COUNT(*) / (SELECT COUNT(*) FROM people) FROM people GROUP BY CUBE (region)": "tot",
        "SELECT a.n FROM (SELECT sex, COUNT(*) AS n FROM people GROUP BY sex) a SEMI JOIN (SELECT sex, "
        "COUNT(*) AS m FROM people GROUP BY sex) b ON a.sex = b.sex": "a join other than",
        "SELECT COUNT(*) FROM (SELECT age FROM people LIMIT 3) q": "LIMIT of records",
        "SELECT zz FROM (SELECT sex, COUNT(*) AS n FROM people GROUP BY sex) q": "no column 'zz'",
        "SELECT COUNT(*) FROM people UNION SELECT COUNT(*) FROM people": "UNION",
        "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex UNION ALL SELECT region, COUNT(*) FROM people "
        "GROUP BY region ORDER BY n LIMIT 2": "in an order of answers",
        "SELECT region, CASE WHEN COUNT(*) > 3 THEN 'many' END AS c FROM people GROUP BY 1": "gives texts",
    }.items(),
)
def test_what_no_statement_over_the_table_asks_is_refused(
    statement: str, words: str, session: pmw.Session
) -> None:
    with pytest.raises(QueryError) as refused:
        session.sql(statement)
    assert words in refused.value.message
