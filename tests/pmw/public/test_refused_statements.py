"""Refused statements: every way on that a refusal names is tried."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.public.export import export
from queries import CategoricalAttribute, Domain, IntegerAttribute, Person, QueryError
from queries.sql_tree import SYNTHETIC
from queries.statement_grammar import REFUSALS

DOMAIN = Domain(
    (
        IntegerAttribute("age", 0, 11),
        CategoricalAttribute("sex", ("f", "m")),
        CategoricalAttribute("count", ("a", "b", "c")),
    ),
    name="people",
    person=Person("id", records=1),
)
EXAMPLES = {
    "an aggregate of DISTINCT values": [
        "SELECT COUNT(DISTINCT age), AVG(age) FROM people",
        "SELECT COUNT(DISTINCT AGE) FROM people",
        "SELECT SUM(DISTINCT age) FROM people",
        "SELECT sex, COUNT(DISTINCT age / 5) FROM people GROUP BY sex",
    ],
    "a list of records": [
        "SELECT * FROM people",
        "SELECT * FROM people WHERE age > 3 ORDER BY age LIMIT 5",
        "SELECT age, sex FROM people",
        "SELECT age + 1 FROM people",
    ],
}


@pytest.fixture(scope="module")
def session() -> Iterator[pmw.Session]:
    """A session whose noise is negligible."""
    generator = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "id": [str(number) for number in range(3000)],
            "age": generator.integers(0, 12, 3000),
            "sex": generator.choice(["f", "m"], 3000),
            "count": generator.choice(["a", "b"], 3000),
        }
    )
    with pmw.open_session(frame, DOMAIN, epsilon=1000, delta=1e-9, options=pmw.Options(seed=1)) as opened:
        yield opened


@pytest.fixture(scope="module")
def synthetic(
    session: pmw.Session, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to the synthetic records that a session exports, and to a table of the analyst's own."""
    path: Path = tmp_path_factory.mktemp("export") / "people.csv"
    export(session.state, path)
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE people AS SELECT * FROM '{path}'")
        connection.execute("CREATE TABLE prices AS SELECT range AS age, range * 2 AS price FROM range(12)")
        yield connection


def test_every_refusal_has_examples() -> None:
    assert set(EXAMPLES) == set(REFUSALS)


@pytest.mark.parametrize("statement", [one for some in EXAMPLES.values() for one in some])
def test_every_way_on_runs(
    session: pmw.Session, synthetic: duckdb.DuckDBPyConnection, statement: str
) -> None:
    spent = session.state.ledger.share
    with pytest.raises(QueryError) as caught:
        session.sql(statement)
    assert session.state.ledger.share == spent
    message = caught.value.message
    for what, examples in EXAMPLES.items():
        assert (statement in examples) == message.startswith(f"{what} is not supported; ")
    assert SYNTHETIC in message or "; write SELECT" in message
    if SYNTHETIC in message:
        synthetic.execute(statement).fetchall()
    instead = message.partition("; write ")[2].partition(f", or run the statement on {SYNTHETIC}")[0]
    if instead.startswith("SELECT ") and "MEDIAN, PERCENTILE_CONT" not in instead:
        text, counts, _ = instead.partition(", and count its rows")
        answers = session.sql(text)
        if counts and "age" not in text:
            assert 2 <= len(answers) <= 3  # one declared value of three has no record, but some noise
