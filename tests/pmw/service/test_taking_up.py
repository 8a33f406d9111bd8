"""New sessions and users of a service that goes on: nobody is signed out."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from pmw.errors import SessionCorruptError
from pmw.service.app import create_app
from pmw.service.guard import Log
from pmw.service.hosting import hosting
from pmw.service.users import Role, User, UsersFile
from pmw.session.maintenance import backup_session
from tests.pmw.service.studies import opened_study
from tests.pmw.service.studies import Running
from tests.waiting import WAIT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "served"
    folder.mkdir()
    opened_study(folder)
    return folder


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """The file of another session, elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    return opened_study(elsewhere)


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def put(session: Path, folder: Path, name: str) -> None:
    for end in ("-companion", ""):
        shutil.move(f"{session}{end}", folder / f"{name}.pmw{end}")


def names(client: TestClient, headers: Any = None) -> list[str]:
    return [one["name"] for one in client.get("/sessions", headers=headers).json()["sessions"]]


def test_a_session_that_is_put_into_a_folder_is_taken_up_and_nobody_is_signed_out(
    folder: Path, other: Path, users: UsersFile, add: Any
) -> None:
    token = add("ann")["Authorization"].split()[1]
    with (
        hosting([folder], users, audit=folder / "audit.jsonl") as service,
        TestClient(create_app(service)) as client,
    ):
        client.post("/sign-in", data={"token": token})
        assert names(client) == ["study"]
        put(other, folder, "survey")
        assert names(client) == ["study"]
        service.take_up()
        service.take_up()  # what is served already stays as it is
        assert names(client) == ["study", "survey"]
        asked = client.post("/sessions/survey/ask", json={"where": "age >= 30", "at_most": 0})
        assert asked.status_code == 200
        bea = add("bea", 0, role=Role.READER)  # users are taken over at once
        assert names(client, bea) == ["study", "survey"]
    with hosting([folder], users):  # both were let go
        pass


def test_a_file_that_cannot_be_opened_leaves_the_others(
    folder: Path, other: Path, users: UsersFile, add: Any
) -> None:
    ann = add("ann")
    with hosting([folder], users) as service, TestClient(create_app(service)) as client:
        (folder / "broken.pmw").write_text("no session")
        (folder / ".hidden.pmw").write_text("no session")
        put(other, folder, "survey")
        with pytest.raises(SessionCorruptError):
            service.take_up()
        assert names(client, ann) == ["study", "survey"]
    with pytest.raises(SessionCorruptError), hosting([folder], users):
        pass


def test_sighup_has_a_running_service_take_up_sessions(folder: Path, other: Path, users: UsersFile) -> None:
    token = users.add(User("ann", Role.ANALYST, Fraction(1)))
    running = Running(folder, users.path)

    def served() -> list[str]:
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=WAIT)
        with closing(connection):
            connection.request("GET", "/sessions", headers={"Authorization": f"Bearer {token}"})
            return [one["name"] for one in json.load(connection.getresponse())["sessions"]]

    try:
        assert served() == ["study"]
        put(other, folder, "survey")
        running.process.send_signal(signal.SIGHUP)
        until(lambda: served() == ["study", "survey"])
    finally:
        code = running.end()
    assert code in (0, -signal.SIGTERM)
    assert [json.loads(line)["event"] for line in running.log][-1] == "end"


def test_what_cannot_be_taken_up_is_in_the_log(folder: Path, users: UsersFile) -> None:
    users.add(User("ann", Role.ANALYST, Fraction(1)))
    running = Running(folder, users.path)
    try:
        (folder / "broken.pmw").write_text("no session")
        running.process.send_signal(signal.SIGHUP)
        until(lambda: any('"failure"' in line for line in running.log))
    finally:
        running.end()
    (failure,) = [one for one in map(json.loads, running.log) if one["event"] == "failure"]
    assert (failure["error"], failure["reason"]) == ("SessionCorruptError", "damaged")


def test_an_application_in_another_thread_takes_no_signal(folder: Path, users: UsersFile, add: Any) -> None:
    add("ann")
    before = signal.getsignal(signal.SIGHUP)
    with hosting([folder], users) as service, TestClient(create_app(service, Log(StringIO()))):
        assert signal.getsignal(signal.SIGHUP) == before


def test_backups_are_served_read_only_by_several_processes_at_once(
    folder: Path, users: UsersFile, add: Any, tmp_path: Path
) -> None:
    ann, wide = add("ann"), "age >= 30 AND sex = 'Male' AND region = 'north' AND member = true"
    copies = [tmp_path / name / "study.pmw" for name in ("one", "two")]
    for copy in copies:
        copy.parent.mkdir()
        backup_session(folder / "study.pmw", copy)
    (folder / "people.csv").unlink()  # no table is needed
    with hosting(copies[:1], users) as one, hosting(copies[1:], users) as two:
        answers = []
        for service in (one, two):
            with TestClient(create_app(service)) as client:
                asked = {"where": wide, "at_most": 1}
                answer = client.post("/sessions/study/ask", json=asked, headers=ann)
                assert answer.status_code == 200, answer.text
                assert "charged" not in answer.json()["spent"]
                answers.append((answer.json()["count"], answer.json()["source"]))
        assert answers[0] == answers[1]
        assert answers[0][1] == "exhausted"
