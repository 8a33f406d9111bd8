"""Assistants over HTTP: the tools of ``pmw mcp`` at a session's address, by the protocol's own client."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pmw.errors import ServiceError
from pmw.service.hosting import Service, hosting
from pmw.service.users import Role, User, UsersFile
from tests.pmw.service.conftest import AddUser

pytest.importorskip("mcp", reason="the extra 'mcp' is not installed")

import httpx2
from fastapi.testclient import TestClient
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from pmw.service import app, assistant_server, assistants
from pmw.service.app import create_app
from pmw.service.limits import BODY_BYTES, Rate
from tests.pmw.service.studies import INITIALIZE, serving
from tests.pmw.service.test_assistants import (
    FREE_TOOLS,
    GROUPS,
    PAID,
    PAIR,
    PROTOCOLS,
    YES,
    Calls,
    Person,
    asked,
    purse_of,
    read,
)
from tests.pmw.service.test_assistants import called as called_here
from tests.waiting import WAIT

ACCEPT = {"Accept": "application/json, text/event-stream"}


class Place:
    """A service over one session in this process, and its address."""

    def __init__(self, service: Service, url: str, users: UsersFile) -> None:
        self.service, self.url, self.users = service, url, users
        self.session = service.hosted(users.listed()[0], "study").session

    @property
    def address(self) -> str:
        return f"{self.url}/sessions/study/mcp"

    def add(self, name: str, share: Any = Fraction(1, 2), role: Role = Role.ANALYST, **how: Any) -> str:
        return self.users.add(User(name, role, Fraction(share), **how), beyond=True)

    def charged(self, name: str) -> float:
        return float(self.session.analyst(name).charged())

    def used(self, token: str, use: Callable[[Client], Awaitable[Any]], **how: Any) -> Any:
        """Return what comes of the use of a client with a token."""

        async def run() -> Any:
            headers = {"Authorization": f"Bearer {token}"}
            async with (
                httpx2.AsyncClient(headers=headers, timeout=WAIT) as http,
                Client(
                    streamable_http_client(self.address, http_client=http),
                    read_timeout_seconds=WAIT / 4,
                    **how,
                ) as client,
            ):
                return await use(client)

        return asyncio.run(run())

    def called(self, token: str, calls: Calls, person: Person | None = None, mode: Any = "auto") -> list[Any]:
        async def use(client: Client) -> list[Any]:
            return [read(await client.call_tool(*call)) for call in calls]

        found: list[Any] = self.used(token, use, elicitation_callback=person, mode=mode)
        return found

    def sent(self, token: str | None, body: Any = None, method: str = "POST", **headers: str) -> Any:
        """Return the response to one request that no client of the protocol makes."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named |= {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx2.request(method, self.address, json=body, headers={**ACCEPT, **named}, timeout=WAIT)

    def dialogue(self, token: str) -> str:
        """Begin a dialogue by hand, and return its id."""
        begun = self.sent(token, INITIALIZE)
        assert begun.status_code == 200, begun.text
        return str(begun.headers["mcp-session-id"])


@pytest.fixture
def audit(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


@pytest.fixture
def place(study: Path, users: UsersFile, add: AddUser, audit: Path) -> Iterator[Place]:
    add("first")
    with hosting([study], users, audit=audit) as service, serving(service) as url:
        yield Place(service, url, users)


@pytest.mark.parametrize("mode", PROTOCOLS)
def test_the_tools_and_the_resource_are_those_of_the_command(place: Place, mode: str) -> None:
    token, here = place.add("ann"), purse_of(place.session)
    calls: Calls = [
        ("attributes", {}), ("ask", {"question": "age >= 40"}), ("cost", {"question": GROUPS}),
        ("price", PAID), ("ask", {"question": "sexx = 1"}), ("nothing", {}),
    ]  # fmt: skip
    assert place.called(token, calls, mode=mode) == called_here(here, calls)
    uri = "pmw://schema"

    async def listed(client: Client) -> tuple[Any, Any]:
        return (await client.list_tools()).tools, (await client.read_resource(uri)).contents

    tools, (content,) = place.used(token, listed, mode=mode)
    assert tools == asked(here, lambda client: client.list_tools()).tools
    assert {one.name for one in tools} == {*FREE_TOOLS, "pay"}
    assert json.loads(content.text) == place.session.schema() | {
        name: json.loads(content.text)[name] for name in ("words", "questions")
    }
    assert place.charged("ann") == 0


@pytest.mark.parametrize("mode", PROTOCOLS)
def test_a_person_agrees_to_the_price_and_pays_it_once_as_the_user(place: Place, mode: str) -> None:
    token, person, price = place.add("ann", 1), Person(YES), place.session.quote(PAIR, 60).share
    answer, again = place.called(token, [("pay", PAID), ("pay", PAID)], person, mode)
    assert len(person.read) == 1
    assert person.read[0].startswith("Pay up to ")
    assert answer["spent"]["charged"] == price
    assert "charged" not in again["spent"]
    assert place.charged("ann") == pytest.approx(price)


def test_up_to_what_the_custodian_told_it_pays_by_itself_however_often_it_connects(place: Place) -> None:
    price = Fraction(place.session.quote(PAIR, 60).share)
    place.service.unasked = price
    ann, bea = place.add("ann", 1), place.add("bea", 1)
    (paid,) = place.called(ann, [("pay", PAID)])
    assert paid["spent"]["charged"] == price
    other = {"question": "sex = 'Female' AND member = true", "within": 60}
    spent = place.session.state.ledger.spent
    for renewed in (False, True):  # neither another dialogue nor another token fills it
        (told,) = place.called(place.users.rotate("ann") if renewed else ann, [("pay", other)])
        assert told["code"] == "not_paid"
        assert "0.00% may be paid without a person" in told["message"]
    assert place.session.state.ledger.spent == spent
    assert "code" not in place.called(bea, [("pay", other)])[0], "each user has an own one"


def test_ceilings_shares_and_sessions_are_those_of_the_user(place: Place) -> None:
    person = Person(YES)
    (dear,) = place.called(place.add("ann", 1, at_most=Fraction(1, 1000)), [("pay", PAID)], person)
    assert dear["code"] == "above_ceiling"
    (read_only,) = place.called(place.add("eve", 0, Role.READER), [("pay", PAID)], person)
    assert "code" in read_only
    elsewhere = place.sent(place.add("oda", 1, sessions=("else",)), INITIALIZE)
    assert (elsewhere.status_code, elsewhere.json()["error"]["code"]) == (403, "forbidden")
    assert "none of your sessions" in elsewhere.text
    assert not place.charged("ann") + place.charged("eve")


def test_what_was_taken_away_while_a_person_thinks_is_not_paid_and_no_file_is_named(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(_: Any) -> Any:
        raise ServiceError(f"{place.users.path}: the users file cannot be read")

    token, person = place.add("ann", 1), Person(YES)
    person.before = lambda: monkeypatch.setattr(assistant_server, "user_of", unknown)
    (told,) = place.called(token, [("pay", PAID)], person, "legacy")
    monkeypatch.undo()
    assert told["code"] == "service"
    assert str(place.users.path) not in told["message"]
    person.before = lambda: place.users.change("ann", lambda user: User(user.name, user.role, Fraction(0)))
    (told,) = place.called(token, [("pay", PAID)], person, "legacy")
    assert "code" in told
    assert place.charged("ann") == 0


@pytest.mark.parametrize("mode", [PROTOCOLS[1], pytest.param(PROTOCOLS[0], marks=pytest.mark.slow)])
def test_a_token_that_is_revoked_while_a_person_thinks_pays_nothing(place: Place, mode: str) -> None:
    token, person = place.add("ann", 1), Person(YES, lambda: place.users.revoke("ann"))
    with pytest.raises((MCPError, ExceptionGroup)):  # as the client tells of 401
        place.called(token, [("pay", PAID)], person, mode)
    assert len(person.read) == 1
    assert place.charged("ann") == 0


def test_nobody_without_a_good_token_is_answered_and_a_cookie_of_the_page_is_none(place: Place) -> None:
    for token, method in itertools.product([None, "wrong", "pmw_" + "x" * 43], ["POST", "GET", "DELETE"]):
        refused = place.sent(token, INITIALIZE, method)
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "unauthorized")
    with httpx2.Client(base_url=place.url) as page:
        page.post("/sign-in", data={"token": place.add("ann")})
        assert page.get("/sessions").status_code == 200
        assert page.post("/sessions/study/mcp", json=INITIALIZE, headers=ACCEPT).status_code == 401


def test_another_users_dialogue_is_not_found(place: Place) -> None:
    ann, bea = place.add("ann"), place.add("bea", role=Role.CUSTODIAN)
    own = place.dialogue(ann)
    place.dialogue(bea)
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    for method in ("POST", "GET", "DELETE"):
        refused = place.sent(bea, listing, method, mcp_session_id=own)
        never = place.sent(bea, listing, method, mcp_session_id="0" * 32)
        assert (refused.status_code, refused.text) == (404, never.text)
    assert place.sent(ann, listing, mcp_session_id=own).status_code == 200
    rotated = place.users.rotate("ann")
    assert place.sent(rotated, listing, mcp_session_id=own).status_code == 404, "a new token begins anew"


def test_a_revoked_token_ends_its_dialogues_and_their_open_streams(place: Place) -> None:
    token = place.add("ann")
    own = place.dialogue(token)
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream", "Mcp-Session-Id": own}
    with httpx2.stream("GET", place.address, headers=headers, timeout=WAIT) as stream:
        assert stream.status_code == 200
        place.users.revoke("ann")
        end = time.monotonic() + WAIT / 6
        for text in stream.iter_text():  # a sign of life, every 15 seconds
            assert "event: message" not in text
            assert time.monotonic() < end, "it ends with its token"
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    assert place.sent(token, listing, mcp_session_id=own).status_code == 401


def test_dialogues_calls_and_bodies_are_bounded(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    token = place.add("ann")
    for _ in range(assistant_server._OWN_DIALOGUES):
        place.dialogue(token)
    full = place.sent(token, INITIALIZE)
    assert (full.status_code, full.json()["error"]["message"]) == (503, "Too many open sessions")
    assert place.sent(token, {**INITIALIZE, "more": "x" * BODY_BYTES}).status_code == 413
    bea = place.add("bea")
    monkeypatch.setattr(assistant_server, "OWN_CALLS", 0)
    busy = place.sent(token, INITIALIZE)
    assert (busy.status_code, busy.json()["error"]["code"]) == (429, "busy")
    monkeypatch.setattr(assistant_server, "_MOST_SERVERS", 1)
    crowded = place.sent(bea, INITIALIZE)
    assert (crowded.status_code, crowded.headers["retry-after"]) == (429, "60")
    monkeypatch.setattr(assistant_server, "_MOST_SERVERS", 64)
    monkeypatch.setattr(assistant_server, "_OWN_SERVERS", 1)
    assert place.sent(place.users.rotate("ann"), INITIALIZE).status_code == 429
    monkeypatch.undo()
    own = place.dialogue(bea)
    place.service.rate = Rate(0.001, 2)
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    statuses = [place.sent(bea, listing, mcp_session_id=own).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]


def test_calls_that_clients_left_open_are_bounded_and_end_with_the_dialogue(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assistants, "_OPEN_CALLS", 2)
    token = place.add("ann", 1)
    own = place.dialogue(token)
    called = {"name": "pay", "arguments": PAID}
    headers = {**ACCEPT, "Authorization": f"Bearer {token}", "Mcp-Session-Id": own}
    started = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert place.sent(token, started, mcp_session_id=own).status_code == 202
    for number in range(2, 4):
        body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": called}
        with httpx2.stream("POST", place.address, json=body, headers=headers, timeout=WAIT) as left:
            assert any("elicitation/create" in line for line in left.iter_lines())
    (told,) = place.called(token, [("budget", {})])
    assert told["code"] == "busy"
    assert place.sent(token, None, "DELETE", mcp_session_id=own).status_code == 200
    assert "code" not in place.called(token, [("budget", {})])[0]
    assert place.charged("ann") == 0


def test_what_nobody_asks_for_long_ends(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    token = place.add("ann")
    own = place.dialogue(token)
    monkeypatch.setattr(assistant_server, "_IDLE_SECONDS", 0.0)
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    time.sleep(2 * assistant_server._LOOK_SECONDS)
    monkeypatch.setattr(assistant_server, "_IDLE_SECONDS", 100.0)
    assert place.sent(token, listing, mcp_session_id=own).status_code == 404
    assert "code" not in place.called(token, [("budget", {})])[0]


def test_each_question_is_in_the_audit_and_the_history_of_its_user(place: Place, audit: Path) -> None:
    token = place.add("ann", 1)
    calls: Calls = [("ask", {"question": PAIR}), ("ask", {"question": GROUPS}), ("pay", PAID)]
    place.called(token, [*calls, ("ask", {"question": "sexx = 1"}), ("price", PAID)], Person(YES), "legacy")
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    lines = [one for one in lines if one.get("user") == "ann"]
    kinds = [(one["kind"], one["code"]) for one in lines]
    assert kinds == [
        ("ask", None),
        ("sql", None),
        ("ask_within", "not_paid"),
        ("ask_within", None),
        ("ask", "unknown_attribute"),
        ("quote", None),
    ]
    assert len({one["request"] for one in lines}) == 5, "what a person agreed to belongs to one call"
    charged = [Fraction(one["charge"]) for one in lines]
    assert sum(charged) == charged[3] > 0
    kept = [one.text for one in place.service.history.questions("study", "ann")]
    assert sorted(kept) == sorted([PAIR, GROUPS])


def test_without_the_extra_the_address_says_so_in_one_line(
    service: Service, add: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "find_spec", lambda name: None if name == "mcp" else find_spec(name))
    with TestClient(create_app(service)) as client:
        told = client.post("/sessions/study/mcp", json=INITIALIZE, headers=add("ann"))
        assert client.get("/sessions", headers=add("bea")).status_code == 200
    assert told.status_code == 404
    message = told.json()["error"]["message"]
    assert "install the extra 'mcp'" in message
    assert "\n" not in message
