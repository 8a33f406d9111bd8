"""The audit of a service: a chain of lines, whose charges the ledger has, and which tell no question."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

from pmw.errors import ServiceError, StoreError
from pmw.service.app import create_app
from pmw.service.audit import Asked, Audit, audit_checks, audit_lines
from pmw.service.guard import Log
from pmw.service.hosting import Service, hosting
from pmw.service.users import Role, UsersFile
from pmw.session.accounts import Booked
from pmw.session.maintenance import read_ledger
from tests.pmw.cli.commands import Run
from tests.pmw.service.studies import Wired, opened_study

ASK, MEASURE = "/sessions/study/ask", "/sessions/study/measure"
WORDS = ("age", "Female", "north", "region", "SELECT", "pmw_")
NEW: dict[str, Any] = {"where": "sex = 'Male' AND region = 'north'", "at_most": 1}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


@pytest.fixture
def service(study: Path, users: UsersFile, add: Any, path: Path) -> Iterator[Service]:
    add("first")
    with hosting([study], users, audit=path) as service:
        yield service


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in audit_lines(path)]


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def told(path: Path, study: Path) -> list[bool]:
    """Return whether the lines are a chain, and whether the ledger has what they charge."""
    return [check.holds for check in audit_checks(audit_lines(path), "study", read_ledger(study))]


def test_each_answered_or_refused_question_has_a_line_without_its_words(
    client: TestClient, add: Any, path: Path
) -> None:
    ann = add("ann")
    answer = client.post(ASK, json=NEW, headers=ann)
    client.post(ASK, json={"where": "height > 2"}, headers=ann)
    client.post(ASK, json={**NEW, "at_most": None, "dry_run": True}, headers=ann)
    client.post(ASK, json={"sql": "SELECT COUNT(*) FROM people", "at_most": 0}, headers=ann)
    several = {"queries": [{"where": "NOT age < 30"}, {"where": "height > 2"}], "at_most": 0}
    client.post(ASK, json=several, headers=ann)
    client.post(MEASURE, json={"scope": ["sex"], "dry_run": True}, headers=ann)
    client.post(ASK, json={"where": "age   >= 30  ", "at_most": 0}, headers=ann)
    found = lines(path)
    kinds = ["ask", "ask", "forecast", "sql", "ask", "ask", "quote", "ask"]
    assert [one["kind"] for one in found] == kinds
    codes = [None, "unknown_attribute", None, None, None, "unknown_attribute", None, None]
    assert [one["code"] for one in found] == codes
    assert {(one["user"], one["session"]) for one in found} == {("ann", "study")}
    assert Fraction(found[0]["charge"]) == pytest.approx(answer.json()["spent"]["charged"], rel=1e-9)
    assert all(one["charge"] == "0" for one in found[1:])
    assert found[0]["request"] == answer.headers["x-request-id"]
    assert found[4]["request"] == found[5]["request"] != found[3]["request"]
    canonical = client.get("/sessions/study/asked", headers=ann).json()["queries"]
    assert found[4]["question"] == found[7]["question"] == digest(canonical[-1])
    assert found[3]["question"] == digest("SELECT COUNT(*) FROM people")
    assert found[1]["question"] == digest(json.dumps({"where": "height > 2"}))  # which is unread
    text, token = path.read_text(), ann["Authorization"].removeprefix("Bearer ")
    for word in (*WORDS, token, digest(token), str(answer.json()["count"])):
        assert word not in text
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_page_is_audited_too(client: TestClient, add: Any, path: Path) -> None:
    ann, form = add("ann"), {"q": "sex = 'Male' AND region = 'north'"}
    client.post("/page/study/ask", data=form, headers=ann, follow_redirects=False)
    client.post("/page/study/ask", data={"q": "height > 2"}, headers=ann)
    client.get("/page/study", params=form, headers=ann)
    client.get("/page/study/answer.csv", params=form, headers=ann)
    client.get("/page/study", headers=ann)  # which asks nothing
    client.post("/page/study/ask", data={**form, "price": "1"}, headers=ann, follow_redirects=False)
    found = [(one["kind"], one["code"]) for one in lines(path)]
    refused = [("ask", "not_paid"), ("ask", "unknown_attribute")]
    assert found == [*refused, ("look", None), ("look", "not_asked"), ("ask", None)]
    charges = [Fraction(one["charge"]) for one in lines(path)]
    assert sum(charges) == charges[-1] > 0
    assert not any(word in path.read_text() for word in WORDS)


def test_a_chain_holds_and_its_charges_are_in_the_ledger(
    client: TestClient, add: Any, path: Path, study: Path
) -> None:
    ann, bob = add("ann", "1/4"), add("bob", "1/4")
    key = {"Idempotency-Key": "k"}
    for headers in (ann, bob):
        for one in (NEW, {"where": "age >= 41 AND sex = 'Female'", "at_most": 1, "fresh": True}):
            client.post(ASK, json=one, headers=headers)
        for _ in range(3):  # paid once
            what = {"questions": ["age >= 30"], "share": 0.01}
            measured = client.post(MEASURE, json=what, headers={**headers, **key})
            assert measured.status_code == 200, measured.text
    assert told(path, study) == [True, True]
    sums = {name: Fraction(0) for name in ("ann", "bob")}
    for one in lines(path):
        sums[str(one["user"])] += Fraction(str(one["charge"]))
    cat = add("cat", role=Role.CUSTODIAN)
    booked = client.get("/sessions/study/ledger", headers=cat).json()["analysts"]
    assert {one["name"]: Fraction(one["exact"]) for one in booked if one["name"] in sums} == sums
    assert min(sums.values()) > 0


def test_charges_add_up_whoever_asks_at_the_same_time(
    client: TestClient, add: Any, path: Path, study: Path
) -> None:
    ann = add("ann")
    asked = [{"where": f"age >= {age}", "at_most": 1} for age in range(20, 44)]
    with ThreadPoolExecutor(4) as threads:
        statuses = list(threads.map(lambda one: client.post(ASK, json=one, headers=ann).status_code, asked))
    assert statuses == [200] * len(asked)
    assert (told(path, study), len(lines(path))) == ([True, True], len(asked))


def written(path: Path, count: int = 3) -> list[bytes]:
    audit = Audit(path)
    audit.begin("study", [Booked("ann", Fraction(1, 3), 1)])
    for number in range(1, count + 1):
        audit.add(
            "ann", "study", "r", [Asked("ask", f"q{number}", None)], Fraction(number, 100) + Fraction(1, 3)
        )
    audit.close()
    return audit_lines(path)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_line_can_be_changed_left_out_or_put_elsewhere(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory, opened_ledger: Any
) -> None:
    whole = written(tmp_path_factory.mktemp("chain") / "audit.jsonl", 4)
    place = data.draw(st.integers(0, 2))
    how = data.draw(st.sampled_from(["change", "leave out", "repeat", "swap"]))
    altered = list(whole)
    if how == "change":
        at = data.draw(st.integers(0, len(whole[place]) - 1))
        byte = data.draw(st.integers(0, 255).filter(lambda one: one != whole[place][at]))
        altered[place] = whole[place][:at] + bytes([byte]) + whole[place][at + 1 :]
    elif how == "leave out":
        del altered[place]
    elif how == "repeat":
        altered.insert(place, whole[place])
    else:
        altered[place], altered[place + 1] = altered[place + 1], altered[place]
    assert audit_checks(whole, "other", opened_ledger)[0].holds
    assert not audit_checks(altered, "other", opened_ledger)[0].holds


@pytest.fixture(scope="module")
def opened_ledger(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return read_ledger(opened_study(tmp_path_factory.mktemp("opened")))


def test_what_is_no_line_is_told_as_such_and_a_charge_that_the_ledger_has_not_is_found(
    path: Path, opened_ledger: Any
) -> None:
    whole = written(path)
    # what was charged since the line before
    assert [json.loads(line)["charge"] for line in whole] == ["1/100"] * 3
    (chain, charges) = audit_checks(whole, "study", opened_ledger)
    assert (chain.holds, charges.holds) == (True, False)
    assert "1 of 1 users" in charges.detail
    assert all(check.holds for check in audit_checks(whole, "another", opened_ledger))
    assert chain.detail == f"3 lines, the last with the hash {hashlib.sha256(whole[-1]).hexdigest()}"
    changes: list[dict[str, Any]] = [
        {"user": ["ann"]}, {"charge": "1e999999999"}, {"charge": "-1"}, {"charge": "1/0"}, {"charge": 1},
        {"session": None}, {"before": 0}, {"answer": 5},
    ]  # fmt: skip
    for changed in changes:
        altered = json.dumps({**json.loads(whole[0]), **changed}).encode()
        assert [check.holds for check in audit_checks([altered], "study", opened_ledger)] == [False, False]


def test_an_audit_goes_on_after_a_restart_and_without_a_torn_line(path: Path, opened_ledger: Any) -> None:
    written(path)
    with path.open("ab") as file:
        file.write(b'{"time": "20')  # the power went
    assert len(audit_lines(path)) == 3
    assert len(written(path)) == 6
    assert audit_checks(audit_lines(path), "other", opened_ledger)[0].holds


def test_another_file_a_link_and_the_audit_of_another_service_are_not_written_to(
    path: Path, tmp_path: Path
) -> None:
    for content in (b"a line\n", b"{}\n", b"no end", b'{"time": 1}\n' * 5):
        path.write_bytes(content)
        with pytest.raises(ServiceError, match=r"expected a file that pmw serve --audit wrote; name another"):
            Audit(path)
        assert path.read_bytes() == content
    path.unlink()
    audit = Audit(path)
    with pytest.raises(ServiceError, match="another service writes this audit"):
        Audit(path)
    audit.close()
    Audit(path).close()
    (tmp_path / "link").symlink_to(path)
    for place in (tmp_path / "link", tmp_path / "none" / "audit.jsonl"):
        with pytest.raises(ServiceError, match="the audit cannot be written"):
            Audit(place)


def test_nothing_is_told_where_the_audit_cannot_be_written_and_what_was_paid_is_free_afterwards(
    service: Service, add: Any, path: Path, study: Path, log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, real = add("ann"), os.write

    def full(file: int, content: bytes) -> int:
        if b'"kind"' not in content:
            return real(file, content)
        real(file, content[:40])  # a part of a line is on the disk
        raise OSError(28, os.strerror(28))

    with TestClient(create_app(service, Log(log)), raise_server_exceptions=False) as client:
        with monkeypatch.context() as patched:
            patched.setattr("pmw.service.audit.os.write", full)
            refused = client.post(ASK, json=NEW, headers=ann)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "session_unavailable")
        assert "count" not in refused.text
        spent = client.get("/sessions/study/you", headers=ann).json()["spent"]
        assert spent > 0
        answer = client.post(ASK, json=NEW, headers=ann).json()
        assert "charged" not in answer["spent"]
        assert client.get("/sessions/study/you", headers=ann).json()["spent"] == spent
    (line,) = lines(path)
    assert Fraction(line["charge"]) == pytest.approx(spent)
    assert told(path, study) == [True, True]
    assert '"reason": "disk_full"' in log.getvalue()


def test_a_failed_write_leaves_the_chain_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(path)
    audit = Audit(path)
    with monkeypatch.context() as patched:
        patched.setattr("pmw.service.audit.os.write", lambda *_: 5)
        with pytest.raises(StoreError, match="the audit cannot be written; make room, then ask again"):
            audit.add("ann", "study", "r", [Asked("ask", "q", None)], Fraction(1))
    audit.add("ann", "study", "r", [Asked("ask", "q", None)], Fraction(1))
    audit.close()
    before = [json.loads(line)["before"] for line in audit_lines(path)]
    assert before[1:] == [hashlib.sha256(line).hexdigest() for line in audit_lines(path)[:-1]]
    assert json.loads(audit_lines(path)[-1])["charge"] == "1"


def test_what_is_asked_over_postgres_protocol_is_audited_too(
    wire: Wired, path: Path, study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    psycopg = pytest.importorskip("psycopg")
    connection, count = wire.connect(), "SELECT COUNT(*) FROM people"
    for _ in range(2):  # the second answer is remembered
        connection.execute(count)
    connection.execute("SELECT 1")  # which asks nothing of the session
    for text in ("SELECT height FROM synthetic.people", f"{count} WHERE height > 2"):  # nor does the first
        with pytest.raises(psycopg.Error):
            connection.execute(text)
    connection.execute("SET pmw.at_most = '50%'")
    connection.execute(f"{count} WHERE sex = 'Male' AND region = 'north'")
    with monkeypatch.context() as patched:
        patched.setattr("pmw.service.audit.os.write", lambda *_: 5)
        with pytest.raises(psycopg.Error):
            connection.execute(count)
    connection.execute(count)
    found = [(one["user"], one["kind"], one["code"]) for one in lines(path)]
    answered = ("ann", "sql", None)
    assert found == [answered, answered, ("ann", "sql", "unknown_attribute"), answered, answered]
    assert [one["question"] for one in lines(path)][:2] == [digest(count)] * 2
    assert Fraction(lines(path)[3]["charge"]) > 0
    assert told(path, study) == [True, True]


# --- pmw verify -----------------------------------------------------------------------------------------


def test_verify_checks_an_audit(client: TestClient, add: Any, path: Path, study: Path) -> None:
    run = Run()
    ann = add("ann")
    client.post(ASK, json=NEW, headers=ann)
    client.post(ASK, json={"where": "age >= 30", "at_most": 0}, headers=ann)
    client.post(ASK, json={"where": "age >= 31", "at_most": 0}, headers=ann)
    shown = run("verify", str(study), "--audit", str(path))
    assert shown.exit_code == 0, shown.output
    assert "ok      audit: each line follows the one before: 3 lines, the last with the hash" in shown.output
    assert "audit: what its users were charged is in the ledger: 3 lines of study" in shown.output
    whole = audit_lines(path)
    path.write_bytes(b"\n".join([whole[0], whole[2], b""]))
    shown = run("verify", str(study), "--audit", str(path))
    assert shown.exit_code == 5
    assert "the audit was damaged or altered, or is of another session" in shown.output
    missing = run("verify", str(study), "--audit", "none.jsonl")
    assert missing.exit_code == 1
    assert "the audit cannot be read" in missing.output
