"""The API: answers, roles and refusals over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from pmw.data import CountSource, as_source
from pmw.errors import DataError, ServiceError, SessionCorruptError, SessionLockedError, StoreError
from pmw.public.export import RowPlan
from pmw.public.ledger import OTHERS
from pmw.service.app import SentInParts
from pmw.service.hosting import Service, hosting
from pmw.service.limits import Queue, Rate
from pmw.service.users import Role, UsersFile
from tests.pmw.service.studies import posted
from tests.waiting import WAIT

ASK, MEASURE = "/sessions/study/ask", "/sessions/study/measure"
TESTED = "age >= 30 AND sex = 'Male' AND region = 'north' AND member = true"
MANY_GROUPS = "SELECT age, sex, region, member, COUNT(*) AS n FROM people"


def test_what_needs_no_token(client: TestClient) -> None:
    assert client.get("/health").json() == {"status": "ok"}
    paths = client.get("/openapi.json").json()["paths"]
    assert set(paths) >= {"/sessions", "/sessions/{name}/ask", "/activity"}
    assert client.get("/docs").status_code == client.get("/redoc").status_code == 404
    for address in ("/health", "/nothing", "/sessions"):
        headers = client.get(address).headers
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def test_an_answer_is_the_object_that_the_command_prints(client: TestClient, add: Any) -> None:
    ann = add("ann")
    answer = client.post(ASK, json={"where": "age >= 30"}, headers=ann)
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {
        "count", "fraction", "interval", "typical", "confidence", "source", "aligned", "version", "spent",
    }  # fmt: skip
    groups = client.post(ASK, json={"sql": "SELECT sex, COUNT(*) FROM people GROUP BY sex"}, headers=ann)
    assert [one["sex"] for one in groups.json()["rows"]][:2] == ["Female", "Male"]
    several: list[Any] = [{"id": "a", "where": "age >= 30"}, {"id": 2, "where": "height > 2"}]
    several.append({"where": {"sex": {"eq": "Male"}}})
    answers = client.post(ASK, json={"queries": several}, headers=ann).json()["answers"]
    assert answers[0] == {"id": "a", **answer.json(), "spent": answers[0]["spent"]}
    assert answers[0]["spent"]["share"] >= answer.json()["spent"]["share"]
    assert (answers[1]["id"], answers[1]["error"]["code"]) == (2, "unknown_attribute")
    assert answers[2]["interval"] is not None


def test_a_question_above_its_ceiling_is_403_with_the_price_and_costs_nothing(
    client: TestClient, add: Any
) -> None:
    ann, question = add("ann", "1/2"), {"where": "sex = 'Male' AND region = 'north'"}

    def spent() -> float:
        return float(client.get("/sessions/study/you", headers=ann).json()["spent"])

    refused = client.post(ASK, json=question, headers={**ann, "Idempotency-Key": "k"})
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["position"]) == (403, "not_paid", None)
    assert set(error) == {"code", "message", "position", "request_id", "price"}
    assert error["price"] == client.post(ASK, json={**question, "dry_run": True}, headers=ann).json()["most"]
    assert "and 4.25% may be charged for it (a tenth of what may be spent, unless told)" in error["message"]
    free = client.post(ASK, json={**question, "at_most": 0}, headers=ann).json()
    assert (free["source"], "charged" in free["spent"]) == ("unverified", False)
    assert spent() == 0
    paid = client.post(
        ASK, json={**question, "at_most": error["price"]}, headers={**ann, "Idempotency-Key": "k"}
    ).json()
    assert paid["spent"]["charged"] == pytest.approx(spent(), rel=1e-5)
    assert 0 < spent() <= error["price"]
    for most in (None, 0, 1e-9):
        again = client.post(
            ASK, json={**question, "at_most": most}, headers={**ann, "Idempotency-Key": "k"}
        ).json()
        assert again["interval"] == paid["interval"]
    for bad in (-0.1, 1.1, "1", True):
        assert client.post(ASK, json={**question, "at_most": bad}, headers=ann).status_code == 400


def test_among_several_each_that_could_cost_more_has_its_own_error(client: TestClient, add: Any) -> None:
    ann = add("ann", "1/2")
    dear = {"where": "sex = 'Male' AND region = 'north'"}
    queries = [
        {"id": 1, "where": "region = 'north'"}, {"id": 2, **dear},
        {"id": 3, "sql": "SELECT sex, member, COUNT(*) FROM people GROUP BY sex, member"},
        {"id": 4, "where": "height > 2"}, {"id": 5, **dear},
        {"id": 6, "sql": "SELECT sex, COUNT(*) FROM people GROUP BY sex"},
    ]  # fmt: skip

    def sent(**more: Any) -> tuple[list[Any], list[str | None]]:
        body, headers = {"queries": queries, **more}, {**ann, "Idempotency-Key": "k"}
        answers = client.post(ASK, json=body, headers=headers).json()["answers"]
        assert [one["id"] for one in answers] == [1, 2, 3, 4, 5, 6]
        return answers, [one.get("error", {}).get("code") for one in answers]

    answers, codes = sent()
    assert codes == [None, "not_paid", "not_paid", "unknown_attribute", "not_paid", None]
    assert answers[1]["error"]["price"] > 0.05
    assert client.get("/sessions/study/you", headers=ann).json()["spent"] == 0
    answers, codes = sent(at_most=1)
    assert codes == [None, None, None, "unknown_attribute", None, None]
    charged = sum(one.get("spent", {}).get("charged", 0) for one in answers)
    assert charged == pytest.approx(client.get("/sessions/study/you", headers=ann).json()["spent"], rel=1e-5)


def test_whose_a_charge_and_a_question_is_are_told_to_those_who_may_know(
    client: TestClient, add: Any, service: Service
) -> None:
    ann, bea, cat, dan = add("ann", "1/2"), add("bea", "1/2"), add("cat", role=Role.CUSTODIAN), add("dan", 0)
    reader = add("rea", "1/2", role=Role.READER)  # whose share counts for nothing: the role decides
    where = {"where": "age >= 30 AND member = TRUE AND region = 'north'", "at_most": 1}
    for headers, scope, status in (
        (ann, "sex", 200), (bea, "region", 200), (dan, "member", 403), (reader, "member", 403)
    ):  # fmt: skip
        body = {"scope": [scope], "at_most": 1}
        measured = client.post("/sessions/study/measure", json=body, headers=headers)
        assert measured.status_code == status
        assert status == 200 or measured.json()["error"]["code"] == "budget_exhausted"
    for headers in (ann, dan, reader):
        assert client.post(ASK, json=where, headers=headers).status_code == 200
    booked = {one.name: one for one in service._hosted["study"].session.bookings()}

    def told(headers: Any) -> Any:
        return client.get("/sessions/study/ledger", headers=headers).json()

    everything = told(cat)
    assert everything["analysts"] == [one.to_dict() for one in booked.values()]
    assert sum(one["spent"] for one in everything["analysts"]) == pytest.approx(everything["share"])
    assert {name for name, one in booked.items() if one.spent} == {"", "ann", "bea"}
    for headers, whose in (
        (ann, {"ann"}),
        (bea, {"bea"}),
        (cat, {"ann", "bea"}),
        (dan, set()),
        (reader, set()),
    ):
        seen = told(headers)
        assert {one["analyst"] for line in seen["entries"] for one in line.get("booked", ())} == whose
        assert [one["exact"] for one in seen["entries"]] == [one["exact"] for one in everything["entries"]]
    for headers, name, other in ((ann, "ann", "bea"), (bea, "bea", "ann"), (reader, "rea", "ann")):
        seen, (own,) = told(headers), told(headers)["analysts"]
        assert (own["name"], own["exact"]) == (name, str(booked[name].spent))
        payers = [{one["analyst"] for one in line.get("booked", ())} for line in everything["entries"]]
        of_others = [bool(each - {name}) for each in payers]
        assert [one["label"] == OTHERS for one in seen["entries"]] == of_others
        assert any(of_others)
        assert other not in str(seen)
    assert client.get("/sessions/study", headers=ann).json()["you"]["questions"] == 1
    for headers, names in ((dan, {"dan"}), (ann, {"ann"}), (cat, {"ann"})):  # who asked it first
        asked = client.get("/activity", headers=headers).json()["activity"]
        assert {(one["name"], one["session"]) for one in asked} == {(name, "study") for name in names}


def test_a_price_of_a_mean_is_told_and_paid_and_tests_nothing(client: TestClient, add: Any) -> None:
    ann = add("ann")
    sql = "SELECT sex, AVG(age) AS a FROM people WHERE region = 'north' GROUP BY sex"
    body = {"sql": sql, "within": 3}

    def entries() -> Any:
        return client.get("/sessions/study/ledger", headers=ann).json()["entries"]

    before = entries()
    priced = client.post(ASK, json={**body, "dry_run": True}, headers=ann)
    assert priced.is_success
    assert entries() == before
    quote = priced.json()
    assert (quote["sum"], quote["scope"]) == ("age", ["sex", "region"])
    answer = client.post(ASK, json={**body, "at_most": 1}, headers=ann)
    assert answer.is_success
    (line,) = entries()[len(before) :]
    assert line["event"] == "sum of values"
    assert answer.json()["spent"]["charged"] == pytest.approx(quote["share"])
    assert any("the widest that came out" in note for note in answer.json()["notes"])


PAYING: dict[str, tuple[str, dict[str, Any]]] = {
    "a bar": (ASK, {"where": "sex = 'Male' AND region = 'north'", "within": 40}),
    "the bar of a mean": (ASK, {"sql": "SELECT AVG(age) FROM people", "within": 0.5}),
    "a measurement": (MEASURE, {"scope": ["sex"], "sum": "age", "share": 0.01}),
}
OTHERS_OF_A_KEY: list[tuple[str, dict[str, Any]]] = [
    (ASK, {"where": "age >= 30"}), (ASK, {"queries": [{"where": "age >= 30"}, {"where": "age >= 31"}]}),
    (ASK, {"where": "sex = 'Male' AND region = 'north'", "within": 41}), (MEASURE, {"scope": ["sex"]}),
    (ASK, {"sql": "SELECT AVG(age) FROM people", "within": 0.4}), (MEASURE, {"scope": ["sex"], "sum": "age"}),
]  # fmt: skip


@pytest.fixture
def keyed(client: TestClient) -> Callable[..., Any]:
    def sent(headers: Any, address: str, key: str = "k1", **body: Any) -> Any:
        return client.post(address, json=body, headers={**headers, "Idempotency-Key": key})

    return sent


def test_a_key_pays_once_and_gets_the_same_answer(client: TestClient, add: Any, keyed: Any) -> None:
    reader, cat = add("rea", role=Role.READER), add("cat", role=Role.CUSTODIAN)

    def lines() -> list[dict[str, Any]]:
        return list(client.get("/sessions/study/ledger", headers=cat).json()["entries"])

    for what, (address, body) in PAYING.items():
        ann, before = add(what, "1/8"), len(lines())
        priced = keyed(ann, address, **body, dry_run=True)  # charges nothing, and no key is used
        question = {name: part for name, part in body.items() if name != "within"}
        assert address == MEASURE or keyed(ann, ASK, **question, explain=True).is_success
        assert keyed(reader, address, **body, at_most=1).status_code == 403
        assert len(lines()) == before
        with ThreadPoolExecutor(2) as pool:
            each = [pool.submit(keyed, ann, address, **body, at_most=1) for _ in range(4)]
            answers = [one.result(WAIT) for one in each]
        assert all(one.is_success for one in (priced, *answers))
        assert {one.content for one in answers} == {answers[0].content}
        assert address == ASK or answers[0].content == priced.content
        assert len(lines()) == before + 1, what
        for other, another in OTHERS_OF_A_KEY:
            refused = keyed(ann, other, **another)
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "key_reused"), what
        assert len(lines()) == before + 1
    address, body = PAYING["a measurement"]
    assert keyed(add("another"), address, **body).is_success  # whose key it is not
    assert client.post(address, json=body, headers=ann).is_success
    assert len(lines()) == before + 3
    assert "k1" not in json.dumps(lines())


def test_a_key_of_a_question_gets_the_same_answer_and_no_other(add: Any, keyed: Any) -> None:
    ann = add("ann")
    first = keyed(ann, ASK, where="age >= 30")
    assert keyed(ann, ASK, where="age >= 30").content == first.content
    for address, body in ((ASK, {"where": "age >= 31"}), PAYING["a measurement"]):
        other = keyed(ann, address, **body)
        assert (other.status_code, other.json()["error"]["code"]) == (409, "key_reused")
        assert keyed(add(address), address, **body).is_success
        for bad in ("", "x" * 201, "a\tb"):
            assert keyed(ann, address, bad, **body).status_code == 400


def test_a_user_has_one_export_at_a_time_and_one_that_is_refused_or_sent_makes_room_for_the_next(
    client: TestClient, add: Any, service: Service
) -> None:
    ann = add("ann")
    for _ in range(2):
        assert client.get("/sessions/none/export", headers=ann).status_code == 403
        for bad in ("format=exe", "seed=-1", "format=model&seed=1"):
            assert client.get(f"/sessions/study/export?{bad}", headers=ann).status_code == 400
        for format in ("csv", "parquet", "model"):
            got = client.get(f"/sessions/study/export?format={format}", headers=ann)
            assert (got.status_code, len(got.content) > 1000) == (200, True)
    service.exports.begin("ann")
    for format in ("csv", "parquet", "model"):
        got = client.get(f"/sessions/study/export?format={format}", headers=ann)
        assert (got.status_code, got.headers["retry-after"]) == (429, "1")
        assert got.json()["error"]["code"] == "busy"
        assert "another export of yours" in got.json()["error"]["message"]
    assert client.get("/sessions/study/export?rows=1", headers=add("bea")).status_code == 200
    service.exports.end("ann")
    assert client.get("/sessions/study/export?rows=1", headers=ann).status_code == 200


@pytest.mark.parametrize(("rows", "seed"), [(25_001, 7), (None, 3)])
def test_an_export_holds_the_bytes_of_the_file(
    client: TestClient, add: Any, service: Service, tmp_path: Path, rows: int | None, seed: int
) -> None:
    (hosted,) = service.visible(service.users.listed()[0])
    hosted.session.export(tmp_path / "rows.csv", RowPlan(rows, seed=seed))
    asked = f"seed={seed}" if rows is None else f"seed={seed}&rows={rows}"
    got = client.get(f"/sessions/study/export?{asked}", headers=add("ann"))
    assert got.headers["content-type"] == "text/csv; charset=utf-8"
    assert "content-length" not in got.headers  # it is sent as it is written
    assert got.content == (tmp_path / "rows.csv").read_bytes()


def test_an_export_ends_where_its_client_stops_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pmw.service.app._STALLED_SECONDS", 0.01)
    ended: list[bool] = []

    async def never(_: object = None) -> Any:
        await asyncio.Event().wait()

    sent = SentInParts([b"x"], "csv", lambda: ended.append(True))
    asyncio.run(sent({"type": "http"}, never, never))
    assert ended == [True]


# --- bad input ----------------------------------------------------------------------------------------------


def test_who_has_no_good_token_is_refused(client: TestClient, add: Any, users: UsersFile) -> None:
    ann = add("ann")
    assert client.get("/sessions", headers=ann).status_code == 200
    basic = {"Authorization": ann["Authorization"].replace("Bearer", "Basic")}
    assert client.get("/sessions", headers=basic).status_code == 401
    users.revoke("ann")
    for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Basic x"}, ann):
        for address in ("/sessions", "/sessions/study", "/sessions/study/ledger", "/activity"):
            got = client.get(address, headers=headers)
            assert (got.status_code, got.headers["www-authenticate"]) == (401, "Bearer")
        assert client.post(ASK, json={"where": ""}, headers=headers).status_code == 401


def test_a_session_of_others_is_not_told_from_none(client: TestClient, add: Any) -> None:
    ann = add("ann", sessions=("other",))
    assert client.get("/sessions", headers=ann).json()["sessions"] == []
    for name in ("study", "other", "none", "..", "%2e%2e%2fstudy", "study.pmw", "a%00b"):
        got = client.get(f"/sessions/{name}/ledger", headers=ann)
        assert got.status_code in (403, 404), name
        assert client.get(f"/page/{name}/history.csv", headers=ann).status_code in (403, 404), name
    assert client.get("/page/study", headers=ann).status_code == 403
    assert client.get("/activity?session=study", headers=ann).status_code == 403


NO_BARS: list[dict[str, Any]] = [
    {"queries": [{"where": ""}], "within": 40}, {"where": "", "within": 40, "fresh": True},
    {"where": "", "dry_run": True, "explain": True}, {"where": "", "within": 0},
    {"where": "", "within": -1.5},
    {"where": "", "within": "x"}, {"sql": "SELECT sex, COUNT(*) * 2 FROM people GROUP BY sex", "within": 40},
    {"sql": "SELECT MEDIAN(age) FROM people", "within": 40}, {"where": "height > 3", "within": 40},
    {"where": "sex = 'Male' AND region = 'north'", "within": 1e-9},
]  # fmt: skip
NOT_MEASURED: list[dict[str, Any]] = [
    {"scope": ["nope"], "heads": True}, {"scope": ["age", "age"], "heads": True},
    {"scope": ["nope"], "sum": "age"}, {"scope": ["age", "age"], "sum": "age"}, {"scope": ["nope"]},
    {"scope": ["sex"], "sum": "\ud800"}, {"scope": ["\ud800"], "sum": "age"}, {"scope": ["sex"], "within": 3},
    {"questions": []}, {"questions": ["age >= 30"], "scope": ["sex"]},
    {"questions": ["age >= 30"], "heads": True}, {"questions": ["age >= 30"], "share": 0.1, "within": 3},
    {"questions": ["height >= 30"]}, {"questions": ["SELECT AVG(age) FROM people"]},
    {"questions": [f"{MANY_GROUPS} WHERE age > {age} GROUP BY ALL" for age in range(20, 49)]},
]  # fmt: skip
HALF = "\ud800"  # of a letter, which no file can hold
ODD_TEXTS: list[dict[str, Any]] = [
    {"sql": f'SELECT COUNT(*) AS "{HALF}" FROM people'}, {"sql": HALF},
    {"sql": f"SELECT COUNT(*) FROM people -- {HALF}"}, {"where": HALF}, {"where": f"age > 3 /* {HALF} */"},
    {"where": {HALF: 1}}, {"where": {"sex": {HALF: 1}}}, {"where": {"sex": {"in": ["Male", HALF]}}},
    {"where": f"region LIKE '{HALF}%'"}, {"query": HALF}, {HALF: 1},
    {"aggregate": {"kind": "count", "by": [HALF]}}, {"aggregate": {"kind": "count", "where": {HALF: HALF}}},
]  # fmt: skip
BAD_FORMS: list[dict[str, Any]] = [
    {"aggregate": {}}, {"aggregate": 5}, {"aggregate": None}, {"aggregate": {"kind": ["count"]}},
    {"aggregate": {"kind": "count", "by": 5}}, {"aggregate": {"kind": "count", "by": [["sex"]]}},
    {"aggregate": {"kind": "mean", "name": "sex"}}, {"aggregate": {"kind": "count"}, "where": "age > 3"},
    {"query": '{"factors":[]}', "sql": "SELECT COUNT(*) FROM people"}, {"query": 5}, {"query": ""},
    {"query": "{}"},
    {"query": '{"factors": []}'}, {"query": '{"factors":[],"x":1}'}, {"query": '{"factors":[[["sex"]]]}'},
    {"query": '{"factors":[[["sex"],[[0,1,5],[0,1,7]]]]}'},
    {"query": '{"factors":[[["sex"],[[0,1,2000000]]]]}'},
    {"query": '{"factors":[[["sex"],[[0,1,9]]],[["sex"],[[0,1,9]]]]}'}, {"query": "[" * 5000},
    {"query": '{"factors":[[["height"],[[0,1,9]]]]}'}, {"query": "x" * 70_000},
]  # fmt: skip


def test_what_cannot_be_read_or_measured_is_refused_by_itself_and_costs_nothing(
    client: TestClient, add: Any, service: Service, log: StringIO
) -> None:
    session = service._hosted["study"].session
    headers, spent = {**add("ann"), "Content-Type": "application/json"}, session.ledger().spent

    def sent(address: str, body: dict[str, Any]) -> Any:
        return client.post(address, content=json.dumps(body), headers=headers)

    for body in NOT_MEASURED:
        for more in ({}, {"dry_run": True}):
            got = sent("/sessions/study/measure", {**body, **more})
            assert (got.status_code, got.json()["error"]["message"] != "") == (400, True), body
    for body in NO_BARS:
        assert sent(ASK, body).status_code == 400, body
    for form in ODD_TEXTS:
        for how in ({}, {"explain": True}, {"within": 100}):
            assert sent(ASK, {**form, **how}).status_code == 400, ascii(form)
    forms = [*ODD_TEXTS, *BAD_FORMS]
    answered, *refused = sent(ASK, {"queries": [{"where": "age >= 41"}, *forms]}).json()["answers"]
    assert answered["count"] > 0
    for form, one in zip(forms, refused, strict=True):
        assert one["error"]["code"], ascii(form)[:80]
        assert one["error"]["message"]
        assert "count" not in one
    assert session.status().queries_answered == 1
    assert session.ledger().spent == spent
    assert '"failure"' not in log.getvalue()


LITERAL = "zebra77"
BODIES = [
    b"", b"{", b"[]", b'"x"', b"\xff\xfe", b"{}", b'{"where": 7}', b'{"where": "", "sql": ""}',
    b'{"queries": []}', b'{"queries": [1]}', b'{"queries": [{}' + b", {}" * 1000 + b"]}", b'{"zebra77": 1}',
    b'{"where": {"zebra77": {"eq": "zebra77"}}, "fresh": "zebra77"}',
    b'{"where": "", "request_id": "zebra77"}', b'{"sql": {"a": "zebra77"}}', b"[" * 100_000,
]  # fmt: skip


def test_a_body_that_is_none_gets_one_error_object(client: TestClient, add: Any, log: StringIO) -> None:
    headers = {**add("ann"), "Content-Type": "application/json"}
    for body, address in product(BODIES, (ASK, "/sessions/study/measure")):
        got = client.post(address, content=body, headers=headers)
        assert got.status_code == 400, got.text
        assert set(got.json()["error"]) == {"code", "message", "position", "request_id"}
        assert LITERAL not in got.text
    assert LITERAL not in log.getvalue()
    assert client.get("/sessions", headers=headers).status_code == 200


def test_too_many_requests_wait_or_come(client: TestClient, add: Any, service: Service) -> None:
    ann = add("ann")
    (hosted,) = service.visible(service.users.listed()[0])
    service._hosted["study"] = replace(hosted, queue=Queue(places=0, most=0))
    for address in ("/sessions/study", "/sessions/study/ledger", "/page/study"):
        got = client.get(address, headers=ann)
        assert (got.status_code, got.headers["retry-after"]) == (429, "1"), address
    service._hosted["study"] = hosted
    assert client.get("/page/study", headers=ann).status_code == 200
    service.rate = Rate(1, 2, lambda: 0.0)
    codes = [client.get("/sessions", headers=ann).status_code for _ in range(4)]
    assert codes == [200, 200, 429, 429]
    assert client.get("/sessions", headers=add("bea")).status_code == 200


def test_a_users_file_that_is_no_good_stops_all_until_it_is_mended(
    client: TestClient, add: Any, users: UsersFile
) -> None:
    ann = add("ann")
    good = users.path.read_text()
    for text, mode in ((good, 0o644), ("[" * 100_000, 0o600), (good.replace('"1/2"', '"1/0"'), 0o600)):
        users.path.write_text(text)
        users.path.chmod(mode)
        for address in ("/sessions", "/sessions/study"):
            got = client.get(address, headers=ann)
            assert (got.status_code, got.json()["error"]["code"]) == (503, "unavailable")
            assert str(users.path) not in got.text
        assert client.post("/sign-in", data={"token": "x"}).status_code == 503
    users.path.write_text(good)
    assert client.get("/sessions", headers=ann).status_code == 200


def test_a_session_damaged_behind_the_service_is_an_error_of_its_own(
    client: TestClient, add: Any, study: Path, log: StringIO
) -> None:
    ann = add("ann")
    for file in study.parent.glob("study.pmw*"):
        if not file.name.endswith("lock"):
            file.write_bytes(b"\x00" * max(1, file.stat().st_size))
    codes = {
        client.post(ASK, json={"where": f"age >= {age} AND sex = 'Male'"}, headers=ann).status_code
        for age in range(21, 40)
    }
    assert codes <= {200, 503}
    assert 500 not in codes
    assert client.get("/health").status_code == 200
    assert client.get("/sessions", headers=ann).status_code == 200


def test_what_fails_tells_its_code_and_the_log_its_kind_and_nothing_else(
    client: TestClient, add: Any, log: StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = add("ann")
    for kind in (RuntimeError, DataError, StoreError, SessionCorruptError, SessionLockedError):

        def fails(*_: object, kind: type[Exception] = kind, **__: object) -> None:
            raise kind(LITERAL)

        monkeypatch.setattr("pmw.service.asking.answered", fails)
        got = client.post(ASK, json={"where": ""}, headers=ann)
        told = (500, "internal") if kind is RuntimeError else (503, "session_unavailable")
        assert (got.status_code, got.json()["error"]["code"]) == told
        assert LITERAL not in got.text + log.getvalue()
        assert kind.__name__ in log.getvalue()
        assert kind is not RuntimeError or got.json()["error"]["request_id"] in log.getvalue()


def test_the_log_has_no_question_and_no_token(client: TestClient, add: Any, log: StringIO) -> None:
    ann = add("ann")
    client.post(ASK, json={"where": "region = 'north'"}, headers=ann)
    client.post(ASK, json={"where": f"region = '{LITERAL}'"}, headers=ann)
    client.get(f"/{LITERAL}", headers=ann)
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [line["status"] for line in lines] == [200, 400, 404]
    assert lines[0]["user"] == "ann"
    assert len({line["request_id"] for line in lines}) == 3
    for told in (LITERAL, "north", ann["Authorization"].split()[1]):
        assert told not in log.getvalue()


# --- the page's cookie --------------------------------------------------------------------------------------


def test_a_cookie_stands_for_a_token(client: TestClient, users: UsersFile) -> None:
    token = users.rotate("first")
    refused = client.post("/sign-in", data={"token": "x"}, follow_redirects=False)
    assert (refused.status_code, refused.headers["location"]) == (303, "/?refused=1")
    assert "not good" in client.get(refused.headers["location"]).text
    taken = client.post("/sign-in", data={"token": token}, follow_redirects=False)
    cookie = taken.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert token not in cookie
    assert client.get("/sessions").status_code == 200
    assert "Sign out first" in client.get("/").text
    assert client.post(ASK, json={"where": ""}).status_code == 200
    foreign = {"Origin": "https://evil.example"}
    assert client.post(ASK, json={"where": ""}, headers=foreign).status_code == 403
    assert client.post(ASK, json={"where": ""}, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    kept = {"Cookie": f"pmw_session={client.cookies['pmw_session']}"}
    client.post("/sign-out", follow_redirects=False)
    assert client.get("/sessions", headers=kept).status_code == 401
    client.post("/sign-in", data={"token": token}, follow_redirects=False)
    assert client.get("/page/study").status_code == 200
    users.rotate("first")  # which ends the page, too
    assert client.get("/sessions").status_code == client.get("/page/study").status_code == 401


def signed_in(client: TestClient, headers: dict[str, str]) -> str:
    """Sign in; return the cookie, as a request's header holds it, and keep none."""
    token = headers["Authorization"].partition(" ")[2]
    taken = client.post("/sign-in", data={"token": token}, follow_redirects=False)
    client.cookies.clear()
    return str(taken.headers["set-cookie"]).partition(";")[0]


def test_a_users_own_oldest_cookie_ends(client: TestClient, add: Any, service: Service) -> None:
    service.rate = Rate(1000, 1000)
    ann, bea = add("ann"), add("bea")
    other = signed_in(client, bea)
    cookies = [signed_in(client, ann) for _ in range(13)]

    def statuses() -> list[int]:
        return [client.get("/sessions", headers={"Cookie": one}).status_code for one in cookies]

    assert statuses() == [401] * 3 + [200] * 10
    client.post("/sign-out", headers={"Cookie": cookies[5]}, follow_redirects=False)
    client.cookies.clear()
    cookies.append(signed_in(client, ann))
    assert statuses() == [401] * 3 + [200] * 2 + [401] + [200] * 8
    assert client.get("/sessions", headers={"Cookie": other}).status_code == 200


def test_signing_in_is_counted_and_the_log_names_who_did(
    client: TestClient, add: Any, service: Service, log: StringIO
) -> None:
    ann = add("ann")
    token = ann["Authorization"].partition(" ")[2]
    service.rate = Rate(1, 2, lambda: 0.0)
    for status in (303, 303, 429, 429):
        taken = client.post("/sign-in", data={"token": token}, follow_redirects=False)
        assert taken.status_code == status
        assert ("set-cookie" in taken.headers) == (status == 303)
        assert taken.headers.get("retry-after") == (None if status == 303 else "1")
    assert client.get("/sessions", headers=ann).status_code == 429
    client.post("/sign-in", data={"token": "x"}, follow_redirects=False)
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [line["user"] for line in lines] == ["ann"] * 5 + [None]
    assert token not in log.getvalue()


# --- what is served -----------------------------------------------------------------------------------------


def test_equal_names_and_a_session_in_use_are_refused(
    study: Path, users: UsersFile, service: Service
) -> None:
    with pytest.raises(SessionLockedError), hosting([study], users):
        pass
    with pytest.raises(ServiceError, match="same name 'study'"), hosting([study, Path("x/study.pmw")], users):
        pass


def test_tables_are_read_before_anybody_asks(
    study: Path, users: UsersFile, add: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[object]()

    def counted(*given: Any) -> CountSource:
        read.append(given[0])
        return as_source(*given)

    monkeypatch.setattr("pmw.data.as_source", counted)
    add("ann")
    with hosting([study], users) as service:
        assert len(read) == 1
        session = service.visible(users.listed()[0])[0].session
        before = session.state.ledger.spent
        session.ask(TESTED)
        assert session.state.ledger.spent > before
        assert len(read) == 1
        session.finalize()
    with hosting([study], users):
        assert len(read) == 1  # nothing is tested any more


def test_without_its_table_a_session_is_served_and_the_first_test_says_so(
    study: Path, users: UsersFile, add: Any
) -> None:
    add("ann")
    (study.parent / "people.csv").rename(study.parent / "moved.csv")
    with hosting([study], users) as service:
        session = service.visible(users.listed()[0])[0].session
        assert session.ask("age >= 30").interval is not None
        with pytest.raises(DataError, match="no such file"):
            session.ask(TESTED)
        (study.parent / "moved.csv").rename(study.parent / "people.csv")
        session.ask(TESTED)


def test_questions_are_listed_some_at_a_time(
    client: TestClient, add: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = add("ann", "1/2")
    for age in range(30, 34):
        client.post(ASK, json={"where": f"age >= {age}"}, headers=ann)
    monkeypatch.setattr("pmw.service.app._MOST_BYTES", 60)
    found: list[str] = []
    while more := client.get(f"/sessions/study/asked?after={len(found)}", headers=ann).json()["queries"]:
        assert len(more) == 1
        found += more
    assert len(found) == 4
    assert len(client.get("/sessions/study/history", headers=ann).json()["history"]) == 1
    bob = add("bob", "1/2")
    assert client.get("/sessions/study/asked", headers=bob).json() == {"queries": []}
    assert client.get("/sessions/study/history", headers=bob).json() == {"history": []}
    assert client.get("/activity", headers=bob).json() == {"activity": []}


# --- Shares over HTTP: told as parts of the whole budget, and no more than is left of that ------------------


def test_shares_tell_what_is_left_of_the_budget_where_that_is_less(
    client: TestClient, add: Any, service: Service
) -> None:
    ann, cat = add("ann", "1/2"), add("cat", role=Role.CUSTODIAN, share=1)
    session = service.hosted(service.users.listed()[0], "study").session
    you = client.get("/sessions/study/you", headers=ann).json()
    share = you["share"]
    assert share == you["left"] == pytest.approx((1 - session.state.ledger.share) / 2)
    while session.measure(["region"], dry_run=True).affordable:
        session.measure(["region"])
    left = float(session.state.ledger.remaining / session.state.ledger.cap)
    assert left < share
    you = client.get("/sessions/study/you", headers=ann).json()
    assert (you["share"], you["left"]) == (share, left)
    assert client.get("/sessions/study", headers=ann).json()["you"]["left"] == left
    assert client.get("/sessions", headers=ann).json()["sessions"][0]["share"] == left
    page = client.get("/page/study", headers=ann).text
    assert f"You may still spend {left:.2%} of the whole budget. Your share is {share:.1%} of it" in page
    known = client.get("/page/study/custodian", headers=cat).text
    assert f'<td class="text">{left:.1%}</td>' in known.replace("<td>", '<td class="text">')


# --- Bodies: how long one may be, and that nobody reads what a stranger sends -------------------------------


FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def test_bodies_and_forms_are_bounded_and_those_of_strangers_short(client: TestClient, add: Any) -> None:
    ann = add("ann")
    got = client.post(ASK, content=b"x" * 10_000_000, headers=ann)
    assert (got.status_code, got.json()["error"]["code"]) == (413, "too_long")
    parts = (b"x" * 100_000 for _ in range(100))
    assert client.post(ASK, content=parts, headers=ann).status_code == 413
    for address, most, status in (
        ("/sign-in", 4096, 303),
        (ASK, 2**14, 401),
        ("/page/study/ask", 2**14, 401),
    ):
        for size in (most, most + 1):
            got = client.post(address, content=b"&" * size, headers=FORM, follow_redirects=False)
            assert got.status_code == (status if size == most else 413), size
        assert f"at most {most:,} bytes" in got.text
    for count, status in ((4096, 200), (4097, 400)):
        many = "&".join(["q=age%3E3"] * count)
        assert client.post("/page/study/ask", content=many, headers={**ann, **FORM}).status_code == status
    token = ann["Authorization"].partition(" ")[2]
    for fields, address in ((6, "/page/study"), (9, "/?refused=1")):
        body = "&".join([f"token={token}", "to=/page/study", *["a=1"] * (fields - 2)])
        got = client.post("/sign-in", content=body, headers=FORM, follow_redirects=False)
        assert (got.status_code, got.headers["location"]) == (303, address)


def test_nobody_reads_what_is_in_the_body_of_a_stranger(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[Any]()
    for module, name in (("access", "parse_qs"), ("pages", "parse_qsl")):
        monkeypatch.setattr(f"pmw.service.{module}.{name}", lambda *given, **_: read.append(given))
    for address, headers in ((ASK, {"Content-Type": "application/json"}), ("/page/study/ask", FORM)):
        for body in (b"[" * 9000, b"a=1&" * 2000, b"{"):
            got = client.post(address, content=body, headers=headers)
            assert got.status_code == 401, (address, got.text)
    assert read == []


def test_a_bearer_that_is_no_good_is_refused_before_the_body_is_read(
    client: TestClient, add: Any, log: StringIO, users: UsersFile
) -> None:
    add("ann")
    sent = list[Any]()

    async def receive() -> Any:
        raise AssertionError("the body was read")

    async def send(message: Any) -> None:
        sent.append(message)

    scope = posted(ASK, {"authorization": "Bearer x", "content-length": "9"})
    asyncio.run(client.app(scope, receive, send))  # type: ignore[arg-type]
    assert sent[0]["status"] == 401
    assert (b"www-authenticate", b"Bearer") in sent[0]["headers"]
    assert "ask the custodian for a new one" in json.loads(sent[1]["body"])["error"]["message"]
    users.path.chmod(0o644)  # nobody can tell whose it is
    got = client.post(ASK, json={"where": ""}, headers={"Authorization": "Bearer x"})
    assert (got.status_code, got.json()["error"]["code"]) == (503, "unavailable")
