"""Statements that are written by hand, and those of a grammar, beside DuckDB."""

from __future__ import annotations

import json
from collections import Counter

import duckdb
import pytest

import pmw
from benchmarks import fuzz_statements
from benchmarks.exact import difference
from benchmarks.fuzz_statements import outcome, statement
from benchmarks.statements import way_on
from queries import QueryError
from tests.statements.rows import StatementRow, all_rows, rows_of

NOT_YET = frozenset({"not_yet"})  # files whose rows may be refused; what is answered has to be right
ROWS = all_rows()


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
    if told and row.file in NOT_YET:
        pytest.xfail(f"not yet: {told}")
    assert bool(told) == bool(row.refusal), f"{row.text}: {told}"
    assert row.refusal in told
    assert not row.place or position == row.text.index(row.place)
    assert "; write SELECT" not in told or way_on(session, told) is not None
    assert session.state.ledger.share == spent  # everything was measured before


def test_each_row_has_a_name_of_its_own_and_stands_in_one_file() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert [text for text, count in Counter(row.text for row in ROWS).items() if count > 1] == []


def test_the_same_choices_are_one_and_others_are_combined() -> None:
    text = "-- none\nA { 1 | 2 } B { x | y } => C { 1 | 2 }\nD\\nE -> { no | not } @ E\n"
    found = list(rows_of("some", text))
    assert [(row.name, row.text, row.reference) for row in found[:4]] == [
        ("some:2.1", "A 1 B x", "C 1"),
        ("some:2.2", "A 1 B y", "C 1"),
        ("some:2.3", "A 2 B x", "C 2"),
        ("some:2.4", "A 2 B y", "C 2"),
    ]
    assert [(row.text, row.refusal, row.place) for row in found[4:]] == [
        ("D\nE", "no", "E"),
        ("D\nE", "not", "E"),
    ]


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


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_what_is_answered_is_what_duckdb_says(
    session: pmw.Session, judge: duckdb.DuckDBPyConnection, first: int
) -> None:
    asked = [statement(1, number) for number in range(first, first + 20)]
    found = [(text, *outcome(session, judge, text)) for text in asked]
    assert [one for one in found if one[1] not in ("same", "wide", "refused")] == []
    assert sum(one[1] == "same" for one in found) >= 10


def test_a_number_makes_one_statement_and_others_make_others() -> None:
    asked = [statement(0, number) for number in range(50)]
    assert asked == [statement(0, number) for number in range(50)]
    assert len(set(asked)) == 50
    assert statement(1, 0) != asked[0]
    for word in ("WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "OVER", "FILTER", "NULLIF"):
        assert any(word in text for text in asked), word


def test_each_outcome_has_a_name(
    session: pmw.Session, judge: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert outcome(session, judge, "SELECT COUNT(*) AS n FROM people") == ("same", "")
    assert outcome(session, judge, "SELECT * FROM people") == (
        "refused",
        "a list of records is not supported",
    )
    assert (
        outcome(session, judge, "SELECT COUNT(*) - 36128 + 100 / (COUNT(*) - 36126) AS n FROM people")[0]
        == "wide"
    )
    wrong = session.sql("SELECT COUNT(*) + 3 AS n FROM people")
    monkeypatch.setattr(session, "sql", lambda text: wrong)
    kind, words = outcome(session, judge, "SELECT COUNT(*) AS n FROM people")
    assert kind == "differs"
    assert words.endswith("beyond the bar")
    assert outcome(session, judge, "SELECT COUNT(*) AS n FROM persons")[0] == "not run"

    def fails(text: str) -> None:
        raise IndexError(text)

    monkeypatch.setattr(session, "sql", fails)
    assert outcome(session, judge, "SELECT 1") == ("crashed", "IndexError: SELECT 1")


def test_the_last_line_has_the_number_of_each_outcome(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = iter([("same", ""), ("refused", "no"), ("differs", "n of ()"), ("same", "")])
    monkeypatch.setattr(fuzz_statements, "outcome", lambda *given: next(outcomes))
    monkeypatch.setattr("sys.argv", ["fuzz_statements", "--statements", "4", "--first", "7"])
    fuzz_statements.main()
    failed, counts = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert failed == {"number": 9, "outcome": "differs", "statement": statement(0, 9), "words": "n of ()"}
    assert counts == {"seed": 0, "same": 2, "refused": 1, "differs": 1, "refusals": {"no": 1}}
