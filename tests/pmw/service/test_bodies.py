"""Bodies: how long one may be, and that nobody reads what a stranger sends."""

from __future__ import annotations

import asyncio
import json
from io import StringIO
from typing import Any

import pytest
from fastapi.testclient import TestClient

from pmw.service.users import UsersFile

ASK = "/sessions/study/ask"


def test_a_long_body_is_refused_before_it_is_read(client: TestClient, add: Any) -> None:
    ann = add("ann")
    got = client.post(ASK, content=b"x" * 10_000_000, headers=ann)
    assert (got.status_code, got.json()["error"]["code"]) == (413, "too_long")
    parts = (b"x" * 100_000 for _ in range(100))
    assert client.post(ASK, content=parts, headers=ann).status_code == 413


@pytest.mark.parametrize(
    ("address", "most", "status"),
    [("/sign-in", 4096, 303), (ASK, 2**14, 401), ("/page/study/ask", 2**14, 401)],
)
def test_the_body_of_a_stranger_is_short(client: TestClient, address: str, most: int, status: int) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for size in (most, most + 1):
        got = client.post(address, content=b"&" * size, headers=form, follow_redirects=False)
        assert got.status_code == (status if size == most else 413), size
    assert f"at most {most:,} bytes" in got.text


def test_nobody_reads_what_is_in_the_body_of_a_stranger(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[Any]()
    for module, name in (("access", "parse_qs"), ("pages", "parse_qsl")):
        monkeypatch.setattr(f"pmw.service.{module}.{name}", lambda *given, **_: read.append(given))
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for address, headers in ((ASK, {"Content-Type": "application/json"}), ("/page/study/ask", form)):
        for body in (b"[" * 9000, b"a=1&" * 2000, b"{"):
            got = client.post(address, content=body, headers=headers)
            assert got.status_code == 401, (address, got.text)
    assert read == []


def test_many_fields_sign_nobody_in(client: TestClient, add: Any) -> None:
    token = add("ann")["Authorization"].partition(" ")[2]
    for fields, address in ((6, "/page/study"), (9, "/?refused=1")):
        body = "&".join([f"token={token}", "to=/page/study", *["a=1"] * (fields - 2)])
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        got = client.post("/sign-in", content=body, headers=form, follow_redirects=False)
        assert (got.status_code, got.headers["location"]) == (303, address)


def test_a_form_has_a_bound(client: TestClient, add: Any) -> None:
    form = {**add("ann"), "Content-Type": "application/x-www-form-urlencoded"}
    for count, status in ((4096, 200), (4097, 400)):
        got = client.post("/page/study/ask", content="&".join(["q=age%3E3"] * count), headers=form)
        assert got.status_code == status


def test_a_bearer_that_is_no_good_is_refused_before_the_body_is_read(
    client: TestClient, add: Any, log: StringIO, users: UsersFile
) -> None:
    add("ann")
    sent = list[Any]()

    async def receive() -> Any:
        raise AssertionError("the body was read")

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": ASK, "raw_path": ASK.encode(), "query_string": b"",
        "headers": [(b"authorization", b"Bearer x"), (b"content-length", b"9")],
        "http_version": "1.1", "scheme": "http", "server": ("testserver", 80), "client": ("c", 1),
    }  # fmt: skip
    asyncio.run(client.app(scope, receive, send))  # type: ignore[arg-type]
    assert sent[0]["status"] == 401
    assert (b"www-authenticate", b"Bearer") in sent[0]["headers"]
    assert "ask the custodian for a new one" in json.loads(sent[1]["body"])["error"]["message"]
    users.path.chmod(0o644)  # nobody can tell whose it is
    got = client.post(ASK, json={"where": ""}, headers={"Authorization": "Bearer x"})
    assert (got.status_code, got.json()["error"]["code"]) == (503, "unavailable")
