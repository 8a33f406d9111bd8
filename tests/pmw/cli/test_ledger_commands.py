"""``pmw ledger``, ``pmw verify`` and ``pmw close``: what they print, and with which exit code they end."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from benchmarks.damage import reseal
from pmw.session.maintenance import is_closed
from pmw.session.store.locking import SessionLock

Run = Callable[..., Result]
QUESTION = "age >= 40 AND NOT member = TRUE"


@pytest.fixture
def asked(textbook_study: Path, run: Run) -> Path:
    """Ask a study a question that is measured or certified, and return its path."""
    assert run("ask", "study.pmw", QUESTION).exit_code == 0
    return textbook_study


def test_books_are_read_while_the_session_is_in_use_and_without_the_table(asked: Path, run: Run) -> None:
    (asked.parent / "people.csv").unlink()
    lock = SessionLock(asked)
    assert run("ledger", "study.pmw").exit_code == 0
    assert run("verify", "study.pmw").exit_code == 0
    lock.release()


def test_verify_tells_each_check_in_words_and_what_it_cannot_prove(asked: Path, run: Run) -> None:
    result = run("verify", "study.pmw")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[2].startswith("ok      every charge is what its event costs: ")
    assert "All 14 checks hold. They cannot prove:" in lines
    assert lines[-5].startswith("  - that this is the newest copy of the file")
    form = json.loads(run("verify", "study.pmw", "--json").stdout)
    assert form["holds"] is True
    assert len(form["checks"]) == 14


def test_verify_ends_with_5_where_a_check_fails(asked: Path, run: Run) -> None:
    with sqlite3.connect(asked) as connection:
        connection.execute("UPDATE ledger SET rho = '0' WHERE sequence = 2")
        reseal(connection)
    connection.close()
    result = run("verify", "study.pmw")
    assert result.exit_code == 5
    assert (
        "FAILED  every charge is what its event costs: rho of charge 2 (marginal): expected " in result.stdout
    )
    assert "FAILED: the file was damaged or altered. Do not go on with it." in result.stdout
    result = run("verify", "study.pmw", "--json")
    assert result.exit_code == 5
    assert json.loads(result.stdout)["holds"] is False


def test_close_ends_all_spending(asked: Path, run: Run) -> None:
    first = run("ask", "study.pmw", QUESTION).stdout
    result = run("close", "study.pmw", "--yes")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Closed study.pmw: nothing is spent any more (")
    assert lines[1] == "Questions and exports go on from the model, without the table."
    (asked.parent / "people.csv").unlink()
    assert run("ask", "study.pmw", QUESTION).stdout == first
    share = json.loads(run("status", "study.pmw", "--json").stdout)["budget_share"]
    assert run("ask", "study.pmw", QUESTION, "--fresh").stdout == first
    strict = run("ask", "study.pmw", "sex = 'Male' AND region = 'east'", "--fresh", "--strict")
    assert strict.exit_code == 3
    assert "exhausted" in strict.stdout
    assert run("ask", "study.pmw", "age >= 40", "--strict").exit_code == 0
    assert run("export", "study.pmw", "--output", "rows.csv").exit_code == 0
    status = json.loads(run("status", "study.pmw", "--json").stdout)
    assert status["closed"] is True
    assert status["budget_share"] == share
    assert "closed" in run("status", "study.pmw").stdout
    assert "The session was closed permanently" in run("verify", "study.pmw").stdout


def test_close_twice_is_no_fault(asked: Path, run: Run) -> None:
    assert json.loads(run("close", "study.pmw", "--yes", "--json").stdout)["closed"] is True
    for again in (("close", "study.pmw"), ("close", "study.pmw", "--yes")):
        result = run(*again)
        assert result.exit_code == 0
        assert result.stdout == (
            "study.pmw is closed already, and its file was written again; questions and exports go on.\n"
        )


@pytest.mark.parametrize(("reply", "code", "closed"), [("n\n", 1, False), ("y\n", 0, True)])
def test_close_asks_on_a_terminal(
    asked: Path, run: Run, monkeypatch: pytest.MonkeyPatch, reply: str, code: int, closed: bool
) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)
    result = run("close", "study.pmw", stdin=reply)
    assert result.exit_code == code
    assert "Close study.pmw permanently?" in result.stderr
    assert is_closed(asked) == closed


def test_close_tells_of_a_batch_that_could_not_be_finished(asked: Path, run: Run) -> None:
    connection = sqlite3.connect(asked)
    connection.execute("CREATE TRIGGER full BEFORE INSERT ON blocks BEGIN SELECT RAISE(ABORT, 'full'); END")
    connection.commit()
    assert run("ask", "study.pmw", "age < 32 AND sex = 'Male'").exit_code == 1
    connection.execute("DROP TRIGGER full")
    connection.commit()
    connection.close()
    assert "An interrupted batch waits to be finished" in run("verify", "study.pmw").stdout
    (asked.parent / "people.csv").rename(asked.parent / "moved.csv")
    companion = asked.with_name("study.pmw-companion")
    kept = asked.read_bytes(), companion.read_bytes()
    refused = run("close", "study.pmw", "--yes")
    assert refused.exit_code == 1
    assert refused.stdout == ""
    assert "no such file; where the table was moved, name its new place with pmw move" in refused.stderr
    assert "To give the batch up, close with --abandon: all that was reserved for it (" in refused.stderr
    assert (asked.read_bytes(), companion.read_bytes()) == kept
    result = run("close", "study.pmw", "--yes", "--abandon")
    assert (
        "An interrupted batch could not be finished, for its table is gone: it was charged" in result.stdout
    )
    assert "abandoned batch" in run("ledger", "study.pmw").stdout
    asked.write_bytes(kept[0])
    companion.write_bytes(kept[1])
    assert run("move", "study.pmw", "--data", "moved.csv").exit_code == 0
    result = run("close", "study.pmw", "--yes", "--abandon")  # what can be finished is finished
    assert "Nothing was abandoned: no batch waited, or the one that did was finished." in result.stdout
    assert "abandoned batch" not in run("ledger", "study.pmw").stdout


def test_a_session_in_use_is_not_closed(asked: Path, run: Run) -> None:
    lock = SessionLock(asked)
    assert run("close", "study.pmw", "--yes", "--wait", "0").exit_code == 5
    lock.release()
    assert not is_closed(asked)


def test_backup_copies_a_session_that_is_never_spent_from(asked: Path, run: Run) -> None:
    lines = run("backup", "study.pmw", "--output", "copy.pmw").stdout.splitlines()
    assert lines[0].startswith("Copied study.pmw to copy.pmw: ")
    assert lines[1] == "The copy answers and exports, and never spends. Keep it as secret as the session."
    assert is_closed(asked.parent / "copy.pmw")
    again = run("backup", "study.pmw", "--output", "copy.pmw")
    assert (again.exit_code, again.stderr.splitlines()) == (
        1, ["Error: copy.pmw exists; choose another name"],
    )  # fmt: skip
    form = json.loads(run("backup", "study.pmw", "--output", "second.pmw", "--json").stdout)
    assert form["closed"] is True
    itself = run("backup", "study.pmw", "--output", "study.pmw-wal")
    assert itself.exit_code == 2
    assert "the backup would overwrite the session" in itself.stderr


def test_verify_keeps_an_anchor_and_ends_with_5_for_another_session(asked: Path, run: Run) -> None:
    result = run("verify", "study.pmw", "--anchor", "study.anchor")
    assert "ok      the session goes on from its anchor: " in result.stdout
    assert "a new anchor" in result.stdout
    assert "nothing was spent since the anchor was last written" in result.stdout
    anchor = asked.parent / "study.anchor"
    anchor.write_text(anchor.read_text().replace('"session": "', '"session": "00'))
    result = run("verify", "study.pmw", "--anchor", "study.anchor")
    assert result.exit_code == 5
    assert "FAILED  the session goes on from its anchor: the anchor is of another session" in result.stdout
    assert "FAILED: the file or the anchor is of another session, or the file is an older " in result.stdout
    assert run("verify", "study.pmw", "--anchor", "study.pmw").exit_code == 2
