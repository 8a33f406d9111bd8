"""What an operator asks of a service: whether it is ready, what it counted, and why something failed."""

from __future__ import annotations

import errno
import json
import os
import re
import sqlite3
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from pmw.errors import DataError, PMWError, ServiceError, SessionCorruptError, SessionLockedError, StoreError
from pmw.service import guard, hosting
from pmw.service.app import create_app
from pmw.service.guard import Log, reason_of
from pmw.service.hosting import Service
from pmw.service.users import Role, UsersFile

ASK = "/sessions/study/ask"
ROOT = Path(__file__).parents[3]
PRIVATE = "age = 41 AND region = 'north'"


def test_a_service_is_ready_without_a_token(client: TestClient) -> None:
    assert client.get("/ready").json() == {"status": "ready"}


def unready(client: TestClient) -> str:
    told = client.get("/ready")
    assert told.status_code == 503, told.text
    return str(told.json()["error"]["code"])


def test_a_service_without_its_users_file_is_not_ready(client: TestClient, users: UsersFile) -> None:
    users.path.unlink()
    assert unready(client) == "users_unavailable"


def test_a_service_without_a_session_file_is_not_ready(client: TestClient, study: Path) -> None:
    away = study.rename(study.with_name("away.pmw"))
    assert unready(client) == "session_unavailable"
    assert "study" not in client.get("/ready").text  # whoever has no token learns no name
    away.rename(study)
    assert client.get("/ready").status_code == 200


def test_a_service_without_room_on_its_disk_is_not_ready(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosting, "_LEAST_ROOM", 2**80)
    assert unready(client) == "disk_full"


# --- metrics --------------------------------------------------------------------------------------------


def metrics(client: TestClient, headers: Any) -> dict[str, float]:
    told = client.get("/metrics", headers=headers)
    assert told.status_code == 200, told.text
    assert told.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = [line for line in told.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_metrics_count_requests_refusals_and_what_is_spent(
    client: TestClient, service: Service, add: Any
) -> None:
    ann, cat = add("ann"), add("cat", role=Role.CUSTODIAN)
    client.post(ASK, json={"where": "age >= 30", "at_most": 1}, headers=ann)
    client.post(ASK, json={"where": "height > 2"}, headers=ann)
    client.get("/nothing/at/all")
    found = metrics(client, cat)
    asked = 'method="POST",route="/sessions/{name}/ask"'
    assert found[f'pmw_requests_total{{{asked},status="200"}}'] == 1
    assert found[f'pmw_requests_total{{{asked},status="400"}}'] == 1
    assert found['pmw_request_seconds_count{route="/sessions/{name}/ask"}'] == 2
    assert found['pmw_refusals_total{code="unknown_attribute"}'] == 1
    assert found['pmw_refusals_total{code="not_found"}'] == 1
    (hosted,) = service.visible(service.users.listed()[0])
    assert found['pmw_budget_spent_ratio{session="study"}'] == hosted.session.state.ledger.share > 0
    assert found['pmw_waiting{session="study"}'] == 0


def test_metrics_are_for_custodians_alone_and_tell_of_their_sessions(client: TestClient, add: Any) -> None:
    for role in (Role.ANALYST, Role.READER):
        assert client.get("/metrics", headers=add(role.value, role=role)).status_code == 403
    assert client.get("/metrics").status_code == 401
    other = add("dan", role=Role.CUSTODIAN, sessions=("another",))
    assert not any("study" in name for name in metrics(client, other))


def test_metrics_name_no_user_and_no_question_whatever_is_asked(client: TestClient, add: Any) -> None:
    ann, cat = add("ann-the-analyst"), add("cat-the-custodian", role=Role.CUSTODIAN)
    client.post(ASK, json={"where": PRIVATE}, headers=ann)
    client.get(f"/sessions/{PRIVATE}/you", headers=ann)
    client.request("PRIVATES", "/sessions", headers=ann)
    told = client.get("/metrics", headers=cat).text
    for text in ("ann-the-analyst", "cat-the-custodian", "age = 41", "north", "PRIVATES"):
        assert text not in told
    assert 'method="other"' in told


# --- HTTP -----------------------------------------------------------------------------------------------


def test_head_is_told_what_get_is(client: TestClient, log: StringIO, add: Any) -> None:
    ann = add("ann")
    for path in ("/health", "/ready", "/sessions", "/sessions/study/schema", "/sessions/none", "/nothing"):
        got, head = client.get(path, headers=ann), client.head(path, headers=ann)
        assert head.status_code == got.status_code, path
        assert head.headers["content-type"] == got.headers["content-type"]
        assert abs(int(head.headers["content-length"]) - int(got.headers["content-length"])) < 3
    assert json.loads(log.getvalue().splitlines()[-1])["method"] == "HEAD"
    assert client.head("/sessions").status_code == 401


def test_head_of_an_export_ends_it_so_that_another_one_may_begin(client: TestClient, add: Any) -> None:
    ann = add("ann")
    for _ in range(2):
        assert client.head("/sessions/study/export?rows=50", headers=ann).status_code == 200


def test_a_method_that_is_not_allowed_is_told_all_that_are(client: TestClient) -> None:
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
    assert "41" not in json.dumps([line["error"], line["reason"]])
    assert PRIVATE not in written.getvalue()
    assert "/secret" not in written.getvalue()


def test_errors_that_were_made_from_each_other_have_a_reason_too() -> None:
    one, two = ValueError("a"), StoreError("b")
    one.__context__, two.__context__ = two, one
    assert reason_of(one) == reason_of(two) == "file"


def test_every_reason_is_a_word_of_the_list_on_the_page() -> None:
    words = {*guard._SYSTEM.values(), *(word for _, word in guard._REASONS), "unexpected"}
    page = (ROOT / "docs" / "service.md").read_text()
    listed = page.partition("of a fixed list: ")[2].partition(". ")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == words


def test_a_refused_request_has_its_code_in_the_log(client: TestClient, log: StringIO, add: Any) -> None:
    client.post(ASK, json={"where": "height > 2"}, headers=add("ann"))
    client.get("/health")
    codes = [json.loads(line)["code"] for line in log.getvalue().splitlines()[-2:]]
    assert codes == ["unknown_attribute", None]


def test_a_session_that_cannot_be_used_is_told_in_the_log_by_its_reason(
    service: Service, log: StringIO, add: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise StoreError(PRIVATE) from OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (hosted,) = service._hosted.values()
    monkeypatch.setattr(type(hosted.session), "_engaged", broken)
    with TestClient(create_app(service, Log(log)), raise_server_exceptions=False) as client:
        refused = client.post(ASK, json={"where": "age >= 30"}, headers=add("ann"))
    assert refused.status_code == 503
    failures = [line for line in map(json.loads, log.getvalue().splitlines()) if line["event"] == "failure"]
    assert [one["reason"] for one in failures] == ["disk_full"]
    assert PRIVATE not in log.getvalue()
