"""Statements of a grammar: a seed and a number make the same one, and each way to fail has a name."""

from __future__ import annotations

import json

import duckdb
import pytest

import pmw
from benchmarks import fuzz_statements
from benchmarks.fuzz_statements import outcome, statement


@pytest.mark.parametrize("first", range(0, 100, 20))
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
