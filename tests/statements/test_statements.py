"""Rows of statements: each is held against DuckDB, or against the words of its refusal.

A file has a row a line; lines that begin with ``--`` are comments::

    SELECT sex, COUNT(*) AS n FROM people GROUP BY sex
    SELECT age / 2 AS k FROM people GROUP BY k => SELECT age // 2 AS k FROM people GROUP BY k
    SELECT * FROM people -> unsupported: a list of records @ *

Behind ``=>`` stands what DuckDB is asked, behind ``->`` what a refusal says, behind ``@`` where it points.
``{ < | > }`` makes a row of each choice; where the same braces stand twice in a line, both have the same
choice. ``\\n`` is a new line.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import duckdb
import pandas as pd
import pytest

import pmw
from benchmarks.fuzz_statements import connected, difference, exact_session, outcome, people, statement
from benchmarks.statements import way_on
from queries import QueryError

_CHOICES = re.compile(r"\{ (.*?) \}")


class StatementRow(NamedTuple):
    """A statement, and what is right: what DuckDB is asked, or words of the refusal, and where it points."""

    name: str  # of its file, with the number of the line, and of the choice
    text: str
    reference: str
    refusal: str
    place: str


def rows_of(path: Path) -> Iterator[StatementRow]:
    """Yield the rows of a file."""
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if line and not line.startswith("--"):
            for choice, expanded in enumerate(_expanded(line), 1):
                rest, _, told = expanded.partition(" -> ")
                refusal, _, place = told.partition(" @ ")
                statement, _, reference = rest.partition(" => ")
                numbered = f"{path.stem}:{number}.{choice}"
                yield StatementRow(numbered, statement, reference or statement, refusal, place)


def _expanded(line: str) -> Iterator[str]:
    """Yield a line with each choice in each of its braces."""
    groups = list(dict.fromkeys(_CHOICES.findall(line)))
    for chosen in itertools.product(*(group.split(" | ") for group in groups)):
        found = line.replace("\\n", "\n")
        for group, choice in zip(groups, chosen, strict=True):
            found = found.replace(f"{{ {group} }}", choice)
        yield found


NOT_YET = frozenset({"not_yet"})  # files whose rows may be refused; what is answered has to be right
ROWS = [row for path in sorted(Path(__file__).parent.glob("*.sql")) for row in rows_of(path)]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return people()


@pytest.fixture(scope="module")
def session(frame: pd.DataFrame) -> Iterator[pmw.Session]:
    with exact_session(frame) as one:
        yield one


@pytest.fixture(scope="module")
def judge(frame: pd.DataFrame) -> Iterator[duckdb.DuckDBPyConnection]:
    with connected(frame) as connection:
        yield connection


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_statement_is_answered_as_duckdb_answers_it_or_refused_in_its_words(
    session: pmw.Session, judge: duckdb.DuckDBPyConnection, row: StatementRow
) -> None:
    spent = session.state.ledger.share
    try:
        found = session.sql(row.text)
    except QueryError as error:
        told, position = f"{error.code}: {error.message}", error.position
    else:
        told, position = "", None
        assert difference(found, row.reference, judge) == "", row.text
    if told and row.name.partition(":")[0] in NOT_YET:
        pytest.xfail(f"not yet: {told}")
    assert bool(told) == bool(row.refusal), f"{row.text}: {told}"
    assert row.refusal in told
    assert not row.place or position == row.text.index(row.place)
    assert "; write SELECT" not in told or way_on(session, told) is not None
    assert session.state.ledger.share == spent  # everything was measured before


def test_each_row_has_a_name_of_its_own_and_stands_in_one_file() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert [text for text, count in Counter(row.text for row in ROWS).items() if count > 1] == []


def test_a_wrong_answer_is_told(session: pmw.Session, judge: duckdb.DuckDBPyConnection) -> None:
    """Each kind of difference, of an answer to one statement and DuckDB's to another."""
    asked = "SELECT region, COUNT(*) AS n, AVG(age) AS v FROM people GROUP BY region ORDER BY region"
    found = session.sql(asked)
    assert difference(found, asked, judge) == ""
    for wrong, told in (
        (asked.replace("AS v", "AS w"), "columns"),
        (asked.replace(", AVG(age) AS v", ""), "columns"),
        (asked.replace("ORDER", "HAVING n > 7000 ORDER"), "4 rows, and DuckDB's 3"),
        (asked.replace("BY region ORDER", "BY region, sex ORDER"), "4 rows, and DuckDB's 12"),
        (f"{asked} DESC", "the row of ('east',)"),
        (asked.replace("SELECT region", "SELECT UPPER(region) AS region"), "the row of ('east',)"),
        (asked.replace("COUNT(*)", "COUNT(*) + 3"), "n of ('east',)"),
        (asked.replace("COUNT(*)", "NULL"), "n of ('east',)"),
        (asked.replace("AVG(age)", "AVG(age) + 0.01"), "beyond the bar"),
        (asked.replace("AVG(age)", "NULL"), "v of ('east',)"),
    ):
        assert told in difference(found, wrong, judge), wrong


# --- fuzz statements ------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in (20, 40))])
def test_what_is_answered_is_what_duckdb_says(
    session: pmw.Session, judge: duckdb.DuckDBPyConnection, first: int
) -> None:
    asked = [statement(1, number) for number in range(first, first + 20)]
    found = [(text, *outcome(session, judge, text)) for text in asked]
    assert [one for one in found if one[1] not in ("same", "wide", "refused")] == []
    assert sum(one[1] == "same" for one in found) >= 10
