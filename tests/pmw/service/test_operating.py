"""What an operator asks of a service: whether it is ready, what it counted, and why something failed."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from fractions import Fraction
from io import StringIO
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient

from pmw.errors import DataError, PMWError, ServiceError, SessionCorruptError, SessionLockedError, StoreError
from pmw.service import guard
from pmw.service.app import create_app
from pmw.service.guard import Log, reason_of
from pmw.service.hosting import Service, hosting
from pmw.service.users import Role, User, UsersFile
from pmw.session.maintenance import backup_session
from tests.pmw.service.studies import INITIALIZE, Running, opened_study
from tests.waiting import WAIT

ASK = "/sessions/study/ask"
PAGE = Path(__file__).parents[3] / "docs" / "service.md"
PRIVATE = "age = 41 AND region = 'north'"


def test_a_service_is_ready_without_a_token_or_tells_in_a_word_why_not(
    client: TestClient, users: UsersFile, study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unready() -> str:
        told = client.get("/ready")
        assert told.status_code == 503, told.text
        assert "study" not in told.text  # whoever has no token learns no name
        return str(told.json()["error"]["code"])

    assert client.get("/ready").json() == {"status": "ready"}
    away = study.rename(study.with_name("away.pmw"))
    assert unready() == "session_unavailable"
    away.rename(study)
    with monkeypatch.context() as patched:
        patched.setattr("pmw.service.hosting._LEAST_ROOM", 2**80)
        assert unready() == "disk_full"
    assert client.get("/ready").status_code == 200
    users.path.unlink()
    assert unready() == "users_unavailable"


# --- metrics --------------------------------------------------------------------------------------------


def metrics(client: TestClient, headers: Any) -> dict[str, float]:
    told = client.get("/metrics", headers=headers)
    assert told.status_code == 200, told.text
    assert told.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = [line for line in told.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_metrics_count_requests_refusals_and_what_is_spent_and_name_no_user_and_no_question(
    client: TestClient, service: Service, add: Any
) -> None:
    ann, cat = add("ann-the-analyst"), add("cat-the-custodian", role=Role.CUSTODIAN)
    client.post(ASK, json={"where": "age >= 30", "at_most": 1}, headers=ann)
    client.post(ASK, json={"where": "height > 2"}, headers=ann)
    client.post(ASK, json={"where": PRIVATE, "at_most": 0}, headers=ann)
    client.get(f"/nothing/{PRIVATE}")
    client.get(f"/sessions/{PRIVATE}/you", headers=ann)
    client.request("PRIVATES", "/sessions", headers=ann)
    found = metrics(client, cat)
    asked = 'method="POST",route="/sessions/{name}/ask"'
    assert found[f'pmw_requests_total{{{asked},status="200"}}'] == 2
    assert found[f'pmw_requests_total{{{asked},status="400"}}'] == 1
    assert found['pmw_request_seconds_count{route="/sessions/{name}/ask"}'] == 3
    assert found['pmw_refusals_total{code="unknown_attribute"}'] == 1
    assert found['pmw_refusals_total{code="not_found"}'] == 1
    (hosted,) = service.visible(service.users.listed()[0])
    assert found['pmw_budget_spent_ratio{session="study"}'] == hosted.session.state.ledger.share > 0
    assert found['pmw_waiting{session="study"}'] == 0
    told = client.get("/metrics", headers=cat).text
    for text in ("ann-the-analyst", "cat-the-custodian", "age = 41", "north", "PRIVATES"):
        assert text not in told
    assert 'method="other"' in told


def test_metrics_are_for_custodians_alone_and_tell_of_their_sessions(client: TestClient, add: Any) -> None:
    for role in (Role.ANALYST, Role.READER):
        assert client.get("/metrics", headers=add(role.value, role=role)).status_code == 403
    assert client.get("/metrics").status_code == 401
    other = add("dan", role=Role.CUSTODIAN, sessions=("another",))
    assert not any("study" in name for name in metrics(client, other))


# --- HTTP -----------------------------------------------------------------------------------------------


def test_head_is_told_what_get_is_and_a_method_that_is_not_allowed_all_that_are(
    client: TestClient, log: StringIO, add: Any
) -> None:
    ann = add("ann")
    for path in ("/health", "/ready", "/sessions", "/sessions/study/schema", "/sessions/none", "/nothing"):
        got, head = client.get(path, headers=ann), client.head(path, headers=ann)
        assert head.status_code == got.status_code, path
        assert head.headers["content-type"] == got.headers["content-type"]
        assert abs(int(head.headers["content-length"]) - int(got.headers["content-length"])) < 3
    assert json.loads(log.getvalue().splitlines()[-1])["method"] == "HEAD"
    assert client.head("/sessions").status_code == 401
    for _ in range(2):  # the first export has ended, though nobody reads it
        assert client.head("/sessions/study/export?rows=50", headers=ann).status_code == 200
    for path, allowed in (("/sessions", "GET, HEAD"), (ASK, "POST"), ("/health", "GET, HEAD")):
        refused = client.request("DELETE", path)
        assert (refused.status_code, refused.headers["Allow"]) == (405, allowed)
        assert refused.json()["error"]["code"] == "method_not_allowed"
    assert client.head(ASK).status_code == 405


# --- the log --------------------------------------------------------------------------------------------


def raised(error: Exception, cause: Exception | None = None) -> Exception:
    try:
        try:
            if cause is not None:
                raise cause
        except Exception:  # noqa: BLE001
            raise error from None
        raise error
    except Exception as found:  # noqa: BLE001
        return found


def full() -> sqlite3.Error:
    """Return the driver's own error for a disk that is full."""
    file = sqlite3.connect(":memory:")
    try:
        file.execute("PRAGMA max_page_count = 1")
        file.execute("CREATE TABLE t (x)")
    except sqlite3.Error as error:
        return error
    finally:
        file.close()
    raise AssertionError


@pytest.mark.parametrize(
    ("error", "cause", "word"),
    [
        (DataError(PRIVATE), None, "table"),
        (SessionCorruptError(PRIVATE), None, "damaged"),
        (SessionLockedError(PRIVATE), None, "locked"),
        (StoreError(PRIVATE), None, "file"),
        (StoreError(PRIVATE), OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "disk_full"),
        (StoreError(PRIVATE), full(), "disk_full"),
        (ServiceError(PRIVATE), OSError(errno.EACCES, os.strerror(errno.EACCES), "/secret"), "not_permitted"),
        (ServiceError(PRIVATE), FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)), "not_there"),
        (OSError(errno.EIO, os.strerror(errno.EIO)), None, "disk_fails"),
        (OSError(errno.EPIPE, PRIVATE), None, "system"),
        (MemoryError(PRIVATE), None, "memory"),
        (PMWError(PRIVATE), None, "refused"),
        (ValueError(PRIVATE), None, "unexpected"),
        (KeyError(PRIVATE), ValueError(PRIVATE), "unexpected"),
    ],
)
def test_a_failure_has_its_reason_as_a_word_of_a_list(
    error: Exception, cause: Exception | None, word: str
) -> None:
    written = StringIO()
    Log(written).failure(raised(error, cause), request_id="1")
    line = json.loads(written.getvalue())
    assert (line["error"], line["reason"]) == (type(error).__name__, word)
    assert PRIVATE not in written.getvalue()
    assert "/secret" not in written.getvalue()


def test_every_reason_is_a_word_of_the_list_on_the_page_and_errors_made_from_each_other_have_one() -> None:
    one, two = ValueError("a"), StoreError("b")
    one.__context__, two.__context__ = two, one
    assert reason_of(one) == reason_of(two) == "file"
    words = {*guard._SYSTEM.values(), *(word for _, word in guard._REASONS), "unexpected"}
    listed = PAGE.read_text().partition("of a fixed list: ")[2].partition(". ")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == words


def test_the_log_has_the_code_of_a_refused_request_and_why_a_session_cannot_be_used(
    service: Service, log: StringIO, add: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise StoreError(PRIVATE) from OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    ann = add("ann")
    with TestClient(create_app(service, Log(log)), raise_server_exceptions=False) as client:
        client.post(ASK, json={"where": "height > 2"}, headers=ann)
        client.get("/health")
        monkeypatch.setattr(type(service._hosted["study"].session), "_engaged", broken)
        assert client.post(ASK, json={"where": "age >= 30"}, headers=ann).status_code == 503
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    codes = [one["code"] for one in lines if one["event"] == "request"]
    assert codes == ["unknown_attribute", None, "session_unavailable"]
    assert [one["reason"] for one in lines if one["event"] == "failure"] == ["disk_full"]
    assert PRIVATE not in log.getvalue()


# --- New sessions and users of a service that goes on: nobody is signed out ---------------------------------


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
    before = signal.getsignal(signal.SIGHUP)
    with (
        hosting([folder], users, audit=folder / "audit.jsonl") as service,
        TestClient(create_app(service, Log(StringIO()))) as client,
    ):
        assert signal.getsignal(signal.SIGHUP) == before  # an application in another thread takes no signal
        client.post("/sign-in", data={"token": token})
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


def test_the_command_serves_both_protocols_takes_up_sessions_at_sighup_and_ends_at_once(
    folder: Path, other: Path, users: UsersFile
) -> None:
    psycopg = pytest.importorskip("psycopg", reason="the extra 'sources' is not installed")
    pytest.importorskip("mcp", reason="the extra 'mcp' is not installed")
    token = users.add(User("ann", Role.ANALYST, Fraction(1)))
    running = Running(folder, users.path, "--postgres", "0")
    with ExitStack() as held:
        held.callback(lambda: running.process.poll() is None and running.end())
        place = re.fullmatch(
            r"Serving at (http://127\.0\.0\.1:\d+) and (postgresql://127\.0\.0\.1:\d+); Ctrl-C ends it\.\n",
            running.told,
        )
        assert place is not None
        idle = held.enter_context(closing(psycopg.connect(f"{place[2]}/study?user=ann&password={token}")))
        assert len(idle.execute("SELECT sex, COUNT(*) FROM people GROUP BY sex").fetchall()) == 4
        http = held.enter_context(httpx2.Client(base_url=place[1], timeout=WAIT))
        http.headers.update(
            {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
        )
        address = "/sessions/study/mcp"
        begun = http.post(address, json=INITIALIZE)
        http.headers["Mcp-Session-Id"] = begun.headers["mcp-session-id"]
        odds: list[Any] = [[], "17 records", {"jsonrpc": "2.0"}, {**INITIALIZE, "id": {"of": "Ann"}}]
        for odd in odds:
            http.post(address, json=odd)
        put(other, folder, "survey")
        (folder / "broken.pmw").write_text("no session")
        running.process.send_signal(signal.SIGHUP)
        until(lambda: any('"failure"' in line for line in running.log))
        assert [one["name"] for one in http.get("/sessions").json()["sessions"]] == ["study", "survey"]
        stream = held.enter_context(http.stream("GET", address))  # an assistant listens
        assert stream.status_code == 200
        began = time.monotonic()
        assert running.end() in (0, -signal.SIGTERM)
        assert time.monotonic() - began < 20, "it waits 30 seconds for requests that do not end"
        with suppress(httpx2.RemoteProtocolError):  # it is cut
            assert "event: message" not in "".join(stream.iter_text())
    assert "Ann" not in "".join(running.log)
    lines = [json.loads(line) for line in running.log]
    assert {one["event"] for one in lines} == {"start", "connection", "request", "failure", "end"}
    (failure,) = [one for one in lines if one["event"] == "failure"]
    assert (failure["error"], failure["reason"]) == ("SessionCorruptError", "damaged")
    assert lines[-1]["event"] == "end"


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
