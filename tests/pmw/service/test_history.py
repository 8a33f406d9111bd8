"""What users asked is kept as they asked it: whose, when, the newest first, and not for ever."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from pmw.errors import StoreError
from pmw.service import history as module
from pmw.service.history import History
from pmw.service.users import Role

pytest.importorskip("fastapi", reason="the extra 'service' is not installed")

from fastapi.testclient import TestClient

from pmw.service.hosting import Service

AddUser = Callable[..., Any]


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[History]:
    made = History(tmp_path / "asked")
    yield made
    made.close()


def told(kept: History, *chosen: Any, **more: Any) -> list[str]:
    return [one.text for one in kept.questions(*chosen, **more)]


def test_questions_are_kept_by_session_and_user_the_newest_first(kept: History) -> None:
    kept.add("study", "ann", ["age >= 30", "sex = 'Male'"])
    kept.add("study", "bob", ["age >= 30"])
    kept.add("other", "ann", ["age < 3"])
    kept.add("study", "ann", ["age >= 30"])  # asked again: the last time counts
    assert told(kept, "study", "ann") == ["age >= 30", "sex = 'Male'"]
    assert told(kept, "study", None) == ["age >= 30", "age >= 30", "sex = 'Male'"]
    assert told(kept, "study", "eve") == []
    assert told(kept, "study", "ann", "MALE") == ["sex = 'Male'"]
    assert told(kept, "study", "ann", "%") == []  # a text, and no pattern
    assert told(kept, "study", "ann", first=1, most=1) == ["sex = 'Male'"]
    counts = [kept.count("study", "ann"), kept.count("study", None), kept.count("study", None, "30")]
    assert counts == [2, 3, 2]
    assert datetime.fromisoformat(kept.questions("study", "ann")[0].time).year >= 2026


def test_the_file_is_its_owners_alone_and_no_link(tmp_path: Path) -> None:
    (tmp_path / "open").touch(mode=0o644)
    made = History(tmp_path / "open")
    made.add("study", "ann", ["age >= 30"])
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("open*")}
    assert modes == {0o600}  # of the log beside it, too
    made.close()
    (tmp_path / "linked").symlink_to(tmp_path / "open")
    with pytest.raises(StoreError, match="cannot be read or written"):
        History(tmp_path / "linked").add("study", "ann", ["age < 3"])
    again = History(tmp_path / "open")
    assert told(again, "study", None) == ["age >= 30"]
    again.close()


def test_a_very_long_question_is_not_kept_and_the_oldest_of_a_user_go(
    kept: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = "x" * 2**14
    kept.add("study", "ann", ["age >= 30", longest, f"{longest}x", "\u00e9" * (2**13 + 1)])
    assert told(kept, "study", "ann") == [longest, "age >= 30"]
    monkeypatch.setattr(module, "_MOST_KEPT", 3)
    kept.add("study", "bob", ["x = '\ud800'"])  # half a surrogate pair
    for number in range(5):
        kept.add("study", "ann", [str(number)])
    assert told(kept, "study", "ann", most=9) == ["4", "3", "2"]
    assert told(kept, "study", "bob") == ["x = '?'"]


def test_a_question_takes_its_length_once(kept: History, tmp_path: Path) -> None:
    kept.add("study", "ann", [f"{number:04}" + "x" * 3996 for number in range(1000)])
    kept.close()
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 1.3 * 4000 * 1000


def test_a_file_of_before_is_read_and_grows_smaller(tmp_path: Path) -> None:
    file = tmp_path / "asked"
    rows = [("study", "ann", "2026-11-01 09:00:00", f"{number:04}" + "x" * 3996) for number in range(200)]
    with closing(sqlite3.connect(file)) as connection:  # its index is over the questions
        connection.executescript(
            "CREATE TABLE questions (number INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, "
            "user TEXT NOT NULL, time TEXT NOT NULL, question TEXT NOT NULL, "
            "UNIQUE (session, user, question)); CREATE INDEX newest ON questions (session, user, number)"
        )
        into = "INSERT INTO questions (session, user, time, question) VALUES (?, ?, ?, ?)"
        with connection:
            connection.executemany(into, rows)
    before = file.stat().st_size
    for _ in range(2):
        kept = History(file)
        assert told(kept, "study", "ann") == [row[3] for row in reversed(rows)]
        assert kept.questions("study", "ann")[0].time == "2026-11-01 09:00:00"
        kept.close()
    assert file.stat().st_size < 0.6 * before
    kept = History(file)
    kept.add("study", "ann", [rows[0][3]])  # asked again: the last time counts
    assert told(kept, "study", "ann")[0] == rows[0][3]
    assert kept.count("study", "ann") == len(rows)
    kept.close()


def test_spending_is_noted_where_it_changed(kept: History, tmp_path: Path) -> None:
    for share in (0.1, 0.1, 0.3):
        kept.note_spending("study", share)
    kept.note_spending("other", 0.3)
    kept.close()
    again = History(tmp_path / "asked")
    again.note_spending("study", 0.3)  # as it was before the process began
    assert [share for _, share in again.spending("study")] == [0.1, 0.3]
    again.close()


def test_answers_are_given_where_nothing_can_be_kept(
    client: TestClient, service: Service, add: AddUser, log: StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_: Path) -> sqlite3.Connection:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(module, "_connected", failing)
    service.history.close()
    headers = add("ann")
    told = client.post("/sessions/study/ask", json={"where": "age >= 40"}, headers=headers)
    assert told.status_code == 200
    page = client.post("/page/study/ask", data={"q": "age >= 40"}, headers=headers)
    assert page.status_code == 200
    assert "holds the true count" in page.text
    assert "They cannot be read now" in page.text
    assert client.get("/page/study/history", headers=headers).status_code == 503
    assert client.get("/page/study/custodian", headers=add("carol", 1, Role.CUSTODIAN)).status_code == 200
    assert '"error": "StoreError"' in log.getvalue()
    assert "age >= 40" not in log.getvalue()


def test_what_the_interface_is_asked_is_kept_but_for_what_is_refused(
    client: TestClient, service: Service, add: AddUser
) -> None:
    headers = add("ann", 1)
    batch = [{"where": "age >= 30"}, {"where": "age >>"}, {"where": {"age": {"ge": 40}}}]
    bodies: list[Any] = [
        {"queries": batch}, {"where": "age >="}, {"where": "age >= 50", "within": 300, "dry_run": True},
        {"where": "age >= 51", "within": 300},
    ]  # fmt: skip
    for body in bodies:
        client.post("/sessions/study/ask", json=body, headers=headers)
    found = told(service.history, "study", "ann")
    assert found == ["age >= 51", '{"age": {"ge": 40}}', "age >= 30"]
    page = client.get("/page/study", params={"q": found[1]}, headers=headers).text
    assert "How many records: age 40 to 59" in page  # a structured condition has an address, too
