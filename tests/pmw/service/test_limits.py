"""Limits: what one request may ask for, who waits for whom, and what ends work that nobody waits for."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from fastapi.testclient import TestClient

import pmw.service.limits
from pmw.errors import PMWError, ServiceError
from pmw.service import asking
from pmw.service.app import create_app
from pmw.service.connection import Connection, Response, drawn_part, pause_before
from pmw.service.guard import Log
from pmw.service.hosting import Hosted, Service
from pmw.service.limits import OWN_PLACES, BusyError, GoneError, LargeRequests, Queue, cells_of
from pmw.session.engine import Engine
from pmw.session.turns import TURN_WORK
from queries.parsing import parse_sql
from queries.work import MOST_TOGETHER
from tests import worlds
from tests.pmw.service.studies import posted
from tests.waiting import WAIT

pytest.importorskip("fastapi", reason="the extra 'service' is not installed")
pytest.importorskip("uvicorn", reason="the extra 'service' is not installed")

import uvicorn

from pmw.service.server import PatientProtocol

ASK = "/sessions/study/ask"
BY_SEX = "SELECT sex, COUNT(*) FROM people GROUP BY sex"
WIDE = "SELECT age, sex, region, member, COUNT(*) FROM people GROUP BY age, sex, region, member"
WIDE_CELLS = 42 * 4 * 6 * 4


@pytest.fixture
def hosted(service: Service) -> Hosted:
    return service._hosted["study"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many questions each call of the engine has."""
    counts, real = list[int](), Engine.answer

    def counted(engine: Engine, asks: Any, *others: Any) -> Any:
        counts.append(len(asks))
        return real(engine, asks, *others)

    monkeypatch.setattr(Engine, "answer", counted)
    return counts


# --- the cells of a request ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "cells"),
    [
        ("SELECT COUNT(*) FROM people", 1),
        ("SELECT COUNT(*) FROM people WHERE sex = 'Male'", 1),
        (BY_SEX, 4),
        ("SELECT COUNT(*) FILTER (WHERE NOT (age > 30)) AS n, COUNT(*) FROM people", 2),
        (WIDE, WIDE_CELLS),
        ("SELECT AVG(age) FROM people", 1),
        ("SELECT MEDIAN(age), MAX(age), COUNT(*) FROM people", 41 + 41 + 1),
        ("SELECT sex, QUANTILE_CONT(age, 0.1) FROM people GROUP BY sex", 4 * 41),
        ("SELECT sex, AVG(age), COUNT(*) FROM people GROUP BY sex", 8),
        ("SELECT sex, AVG(age), 2 * COUNT(*) - COUNT(*) FROM people GROUP BY sex HAVING COUNT(*) > 3", 12),
        ("SELECT sex, region FROM people GROUP BY sex, region", 24),
    ],
)
def test_cells_are_groups_times_aggregates(sql: str, cells: int) -> None:
    assert cells_of(parse_sql(sql, worlds.WHOLE_YEARS.domain)) == cells


def test_a_request_of_too_many_cells_is_refused_before_anything_is_asked(
    client: TestClient, add: Any, asked: list[int], hosted: Hosted
) -> None:
    ann = add("ann")
    few = 20_000 // WIDE_CELLS
    narrow = "SELECT age, sex, region, COUNT(*) FROM people GROUP BY age, sex, region"  # 1,008 cells
    left = 20_000 - few * WIDE_CELLS - 3 * 1008
    alone = WIDE.replace("COUNT(*)", "COUNT(*), AVG(age), MAX(age), MIN(age), SUM(age), STDDEV(age)")
    bodies: list[dict[str, Any]] = [
        {"queries": [{"sql": WIDE}] * (few + 1)},
        {"queries": [{"sql": WIDE}] * few + [{"sql": narrow}] * 3 + [{"where": "age >= 30"}] * (left + 1)},
        {"queries": [{"where": "height > 3"}] + [{"sql": f"{WIDE} LIMIT {n}"} for n in range(1, few + 3)]},
        *({"sql": alone, **more} for more in ({}, {"dry_run": True}, {"explain": True})),
    ]
    messages = list[str]()
    for body in bodies:
        got = client.post(ASK, json=body, headers=ann)
        error = got.json()["error"]
        assert (got.status_code, error["code"]) == (400, "too_large")
        assert "expected at most 20,000 cells" in error["message"]
        assert "in several requests" in error["message"]
        messages.append(error["message"])
    assert f"got {(few + 1) * WIDE_CELLS:,} in the first {few + 1} questions" in messages[0]
    shown = client.post("/page/study/ask", data={"q": alone}, headers=ann)
    assert "expected at most 20,000 cells" in shown.text
    assert asked == []
    assert hosted.session.status().queries_answered == 0


def test_a_large_request_is_answered_in_turns(client: TestClient, add: Any, asked: list[int]) -> None:
    got = client.post(ASK, json={"queries": [{"sql": WIDE}] * 2, "at_most": 1}, headers=add("ann"))
    first, second = got.json()["answers"]
    assert first == second
    assert len(first["rows"]) == sum(asked) == WIDE_CELLS  # equal questions are asked once
    assert max(asked) <= TURN_WORK


# --- equal questions ----------------------------------------------------------------------------------------


def test_equal_questions_are_read_once_and_given_at_each_place(
    client: TestClient, add: Any, asked: list[int], hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, read = add("ann"), list[str]()
    real = type(hosted.session.reader).statement

    def counted(reader: Any, text: str) -> Any:
        read.append(text)
        return real(reader, text)

    monkeypatch.setattr(type(hosted.session.reader), "statement", counted)
    forms: list[dict[str, Any]] = [
        {"id": "a", "sql": BY_SEX}, {"where": "age >= 30"}, {"id": "b", "sql": BY_SEX},
        {"where": "height > 3"}, {"where": "age >= 30", "id": 3}, {"where": "height > 3", "id": 4},
    ]  # fmt: skip
    for fresh in (False, True):
        read.clear()
        asked.clear()
        found = client.post(ASK, json={"queries": forms, "fresh": fresh}, headers=ann).json()["answers"]
        assert read == [BY_SEX]
        assert sum(asked) <= 4 + 1
        assert [one.get("id") for one in found] == ["a", None, "b", None, 3, 4]
        for one, other in ((0, 2), (1, 4), (3, 5)):
            assert {**found[one], "id": 0} == {**found[other], "id": 0}


def test_no_question_is_given_what_another_is_answered(client: TestClient, add: Any) -> None:
    ann, same = add("ann"), {"where": "age >= 30"}
    forms: list[dict[str, Any]] = [
        same, {"where": {"age": {"ge": 60}}}, {"where": {"sex": {"eq": "Male"}}}, {"sql": "age >= 30"},
        {"aggregate": {"kind": "count", "by": ["sex"]}}, {"aggregate": {"kind": "count"}},
        {**same, "sql": BY_SEX}, {**same, "request_id": "k"}, {**same, "nothing": 1},
    ]  # fmt: skip
    together = client.post(ASK, json={"queries": forms}, headers=ann).json()["answers"]
    for form, found in zip(forms, together, strict=True):
        alone = client.post(ASK, json={"queries": [form]}, headers=ann).json()["answers"]
        assert [found] == alone, form
    assert len({one.get("count") for one in together[:3]}) == 3
    assert all("error" in one for one in together[6:])


def test_with_a_key_each_place_keeps_its_own_and_another_is_found_before_anything_is_asked(
    client: TestClient, add: Any, asked: list[int]
) -> None:
    ann, key = add("ann"), {"Idempotency-Key": "k"}
    forms = [{"sql": BY_SEX}, {"where": "age >= 30"}, {"sql": BY_SEX}, {"where": "age >= 30"}]
    first = client.post(ASK, json={"queries": forms}, headers={**ann, **key})
    assert first.json()["answers"][0] == first.json()["answers"][2]
    again = client.post(ASK, json={"queries": forms}, headers={**ann, **key})
    assert again.content == first.content
    asked.clear()
    for place in range(4):
        changed = [*forms]
        changed[place] = {"where": "age >= 41"}
        got = client.post(ASK, json={"queries": changed}, headers={**ann, **key})
        assert got.status_code == 409, place
    assert asked == []


# --- who waits for whom -------------------------------------------------------------------------------------


def test_requests_wait_in_order_and_are_told_when_to_come_again() -> None:
    order = list[str]()

    async def work(queue: Queue, name: str, hold: asyncio.Event) -> None:
        try:
            async with queue.place(name):
                order.append(name)
                await hold.wait()
        except BusyError as error:
            order.append(f"{name} refused, {error.retry_after} s")

    async def main() -> None:
        queue, hold = Queue(places=2, most=120), asyncio.Event()
        tasks = [asyncio.create_task(work(queue, str(number), hold)) for number in range(123)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert order == ["0", "1", "122 refused, 3 s"]
        tasks[5].cancel()  # who has left takes no place
        await asyncio.sleep(0)
        assert queue.retry_after == 3
        hold.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert queue.retry_after == 1
        async with queue.place("a"), queue.place("a"):  # both places are free again
            pass

    asyncio.run(main())
    assert order[3:] == [str(number) for number in range(2, 122) if number != 5]


def test_a_user_has_few_places_and_users_are_served_in_turns() -> None:
    order = list[str]()

    async def work(queue: Queue, name: str, hold: asyncio.Event) -> None:
        try:
            async with queue.place(name):
                order.append(name)
                await hold.wait()
        except BusyError as error:
            order.append(f"{name}: {error}")

    async def main() -> None:
        queue, hold = Queue(places=6), asyncio.Event()
        begun = [asyncio.create_task(work(queue, "ann", hold)) for _ in range(4 + 32 + 2)]
        await asyncio.sleep(0)
        refused = "ann: too many requests of yours wait for this session; ask again later"
        assert order == [*["ann"] * 4, refused, refused]
        order.clear()
        begun += [
            asyncio.create_task(work(queue, name, hold)) for name in ("bob", "cyd", "bob", "cyd", "bob")
        ]
        await asyncio.sleep(0)
        assert order == ["bob", "cyd"]  # there is room, though many of ann's wait
        order.clear()
        hold.set()
        await asyncio.gather(*begun)
        assert order[:6] == ["ann", "bob", "cyd", "ann", "bob", "ann"]
        assert order[6:] == ["ann"] * 29
        async with queue.place("ann"), queue.place("ann"), queue.place("bob"), queue.place("cyd"):
            assert (queue._free, queue.waiting) == (2, 0)

    asyncio.run(main())


def test_who_waits_for_too_long_is_told_so_and_a_place_that_is_free_by_then_is_not_lost() -> None:
    async def main() -> None:
        queue = Queue(places=1, most=9, seconds=0)

        async def enter() -> None:
            async with queue.place("ann"):
                pass

        async with queue.place("ann"):
            with pytest.raises(BusyError, match="no place within 0 seconds") as told:
                await enter()
            assert told.value.retry_after == 1
            assert queue.waiting == 0
        await enter()
        queue = Queue(places=1, most=9, seconds=WAIT)
        async with queue.place("ann"):
            waits = asyncio.create_task(enter())
            await asyncio.sleep(0)
            queue._waiting["ann"][0].cancel()  # as asyncio does it once the time is over
        assert queue._free == 1
        with pytest.raises(asyncio.CancelledError):
            await waits
        async with queue.place("bob"):
            assert queue.waiting == 0

    asyncio.run(main())


@pytest.mark.parametrize("address", ["/activity", "/activity?session=study", "/page/study"])
def test_requests_at_a_busy_session_leave_threads_to_others(
    service: Service, log: StringIO, add: Any, hosted: Hosted, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    ann, bea = add("ann"), add("bea")
    monkeypatch.setattr("pmw.service.app._THREADS", 2)
    monkeypatch.setattr("pmw.service.app.PLACES", 4)
    with TestClient(create_app(service, Log(log))) as client, ThreadPoolExecutor(20) as pool:
        turn = hosted.session._turn
        with turn:
            asked = [pool.submit(client.get, address, headers=ann) for _ in range(20)]
            while len(turn._waiting) < OWN_PLACES:
                time.sleep(0.001)
            assert client.get("/sessions", headers=bea).status_code == 200
            assert not any(one.done() for one in asked)
        assert {one.result(WAIT).status_code for one in asked} == {200}


def test_one_large_request_is_carried_out_at_a_time_and_few_wait() -> None:
    large, inside, most = LargeRequests(most=2), list[int](), list[int]()
    first, second = threading.Event(), threading.Event()

    def work(begun: threading.Event) -> None:
        with large.place(TURN_WORK + 1):
            inside.append(1)
            most.append(len(inside))
            begun.wait(WAIT)
            inside.pop()

    threads = [threading.Thread(target=work, args=(event,)) for event in (first, second)]
    for thread in threads:
        thread.start()
    while len(large._turns._waiting) < 1:
        threads[0].join(0.001)
    with pytest.raises(BusyError, match="too many large requests") as told, large.place(TURN_WORK + 1):
        pass
    assert told.value.retry_after == 5
    with large.place(TURN_WORK):  # a small one waits for none of them
        pass
    first.set()
    second.set()
    for thread in threads:
        thread.join(WAIT)
    assert most == [1, 1]
    with large.place(TURN_WORK + 1):
        pass


def test_an_export_on_its_way_holds_no_place_and_no_thread(
    client: TestClient, add: Any, service: Service, hosted: Hosted
) -> None:
    queue, seen = Queue(places=1, most=0), list[tuple[str, int, int]]()
    service._hosted["study"] = replace(hosted, queue=queue)
    told = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Any:
        return told.pop() if told else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        seen.append((message["type"], queue._free, hosted.working._count))

    scope = {**posted("/sessions/study/export", add("ann")), "method": "GET", "query_string": b"rows=10"}
    asyncio.run(client.app(scope, receive, send))  # type: ignore[arg-type]
    assert len(seen) > 1
    assert {one[1:] for one in seen} == {(1, 0)}


# --- work that nobody waits for -----------------------------------------------------------------------------


async def unheard(_: Any) -> None:
    """Send where nobody is there."""


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], None]]]:
    """What is done once the engine has answered the first part of a request."""
    acts, real = list[Callable[[], None]](), Engine.answer

    def answer(engine: Engine, asks: Any, *others: Any) -> Any:
        found = real(engine, asks, *others)
        while acts:
            acts.pop()()
        return found

    monkeypatch.setattr(Engine, "answer", answer)
    yield acts
    assert not acts


@pytest.mark.parametrize(
    ("address", "came"),
    [
        ("/page/study/ask", b"question=age >= 3"),  # of 30
        (ASK, b'{"where": "age >= 30"}'),  # spaces were to come
        ("/sessions/study/measure", b'{"scope": ["sex"]}'),
    ],
)
def test_a_request_whose_client_leaves_within_its_body_is_dropped(
    client: TestClient, add: Any, hosted: Hosted, log: StringIO, address: str, came: bytes
) -> None:
    ann, spent = add("ann"), hosted.session.ledger().spent
    told = [{"type": "http.disconnect"}, {"type": "http.request", "body": came, "more_body": True}]
    head = {"content-type": "application/json", "content-length": str(len(came) + 1)}

    async def receive() -> Any:
        return told.pop() if len(told) > 1 else told[0]

    asyncio.run(client.app(posted(address, {**ann, **head}), receive, unheard))  # type: ignore[arg-type]
    assert hosted.session.status().queries_answered == 0
    assert hosted.session.ledger().spent == spent
    (line,) = [json.loads(line) for line in log.getvalue().splitlines()]
    assert (line["event"], line["status"], line["user"]) == ("request", 499, None)  # nobody was looked up


def test_work_stops_when_the_client_has_left(
    client: TestClient, add: Any, hosted: Hosted, cut: list[Callable[[], None]], log: StringIO
) -> None:
    ann = add("ann")
    body = json.dumps({"sql": WIDE, "at_most": 1}).encode()
    scope = posted(ASK, {**ann, "content-type": "application/json"})
    left = threading.Event()

    async def main() -> None:
        told = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            while not told and not left.is_set():
                await asyncio.sleep(0.001)
            return told.pop() if told else {"type": "http.disconnect"}

        await client.app(scope, receive, unheard)

    real = hosted.working.look

    def look(event: threading.Event) -> None:
        if left.is_set():
            assert event.wait(WAIT)
        real(event)

    object.__setattr__(hosted.working, "look", look)
    cut.append(left.set)
    asyncio.run(main())
    (line,) = [json.loads(line) for line in log.getvalue().splitlines()]
    assert (line["status"], line["route"], line["user"]) == (499, "/sessions/{name}/ask", "ann")
    assert 0 < hosted.session.status().queries_answered <= TURN_WORK
    assert hosted.session.verify().holds


def test_a_request_that_the_end_cuts_is_told_so_and_has_its_line(
    client: TestClient,
    add: Any,
    service: Service,
    hosted: Hosted,
    cut: list[Callable[[], None]],
    log: StringIO,
) -> None:
    ann, threads = add("ann"), list[int]()
    cut += [service.end, lambda: threads.append(hosted.working._count)]
    got = client.post(ASK, json={"sql": WIDE, "at_most": 1}, headers=ann)
    assert threads == [1]  # so that a session is not closed below it
    assert (got.status_code, got.headers["retry-after"]) == (503, "5")
    assert "the service ends" in got.json()["error"]["message"]
    (line,) = [json.loads(line) for line in log.getvalue().splitlines()]
    assert (line["event"], line["status"], line["questions"]) == ("request", 503, 1)
    assert 0 < hosted.session.status().queries_answered <= TURN_WORK
    assert hosted.session.verify().holds


def test_a_session_is_held_until_its_last_thread_has_ended() -> None:
    working = pmw.service.limits.Working()
    begun, end, waited = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        with working.thread():
            begun.set()
            end.wait(WAIT)

    def wait() -> None:
        for step in (working.wait, waited.set):
            step()

    threads = [threading.Thread(target=work)]
    threads[0].start()
    assert begun.wait(WAIT)
    threads.append(threading.Thread(target=wait))
    threads[1].start()
    assert not waited.wait(0.05)
    end.set()
    for thread in threads:
        thread.join(WAIT)
    assert waited.is_set()


def test_reading_takes_no_turn(client: TestClient, add: Any, hosted: Hosted) -> None:
    analyst, found = hosted.session.analyst("ann"), list[asking.Reading]()
    with hosted.session._turn:  # this thread's
        forms = [{"sql": "SELECT COUNT(*) FROM people WHERE age * 2 > 70"}]
        thread = threading.Thread(target=lambda: found.append(asking.read(analyst, forms, None)))
        thread.start()
        thread.join(WAIT)
        assert found


def test_reading_ends_where_nobody_waits_for_it(hosted: Hosted) -> None:
    looks, gone = list[int](), threading.Event()

    def look() -> None:
        looks.append(1)
        if len(looks) == 5:
            gone.set()
        hosted.working.look(gone)

    analyst = hosted.session.analyst("ann", stop=look)
    long = " OR ".join(f"age * {number} > 70" for number in range(1, 100))
    for forms in ([{"where": long}], [{"where": f"age >= {age}"} for age in range(30)]):
        looks.clear()
        gone.clear()
        with pytest.raises(GoneError):
            asking.read(analyst, forms, None)
        assert len(looks) == 5


def test_a_request_that_takes_too_much_to_read_is_refused_before_anything_is_asked(
    client: TestClient, add: Any, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = add("ann")
    queries = [{"where": f"age * {number} > 70"} for number in range(2, 12)]
    monkeypatch.setattr("pmw.service.asking.MOST_TOGETHER", 5000)
    got = client.post(ASK, json={"queries": queries}, headers=ann)
    assert (got.status_code, got.json()["error"]["code"]) == (400, "too_large")
    assert "evaluating at most 5,000 cells, got 5," in got.json()["error"]["message"]
    assert got.json()["error"]["message"].endswith("questions; ask in several requests")
    assert asked == []
    monkeypatch.undo()
    assert MOST_TOGETHER == 2**22
    assert client.post(ASK, json={"queries": queries}, headers=ann).status_code == 200


def test_a_question_that_takes_too_much_to_read_says_so_and_costs_nothing(
    client: TestClient, add: Any, hosted: Hosted
) -> None:
    ann, spent = add("ann"), hosted.session.ledger().spent
    text = "CAST(age AS VARCHAR) || region || sex || CASE WHEN member = true THEN 'a' ELSE 'b' END"
    where = " OR ".join(f"LEFT({text}, {number}) = 'a'" for number in range(1, 38))
    for more in ({}, {"within": 10, "dry_run": True}):
        got = client.post(ASK, json={"where": f"region = 'north' AND ({where})", **more}, headers=ann)
        error = got.json()["error"]
        assert (got.status_code, error["code"]) == (400, "too_large")
        assert "would evaluate more than 1,048,576 cells" in error["message"]
        assert where[error["position"] - len("region = 'north' AND (") :].startswith("LEFT(")
    assert hosted.session.ledger().spent == spent


# --- the client's patience ----------------------------------------------------------------------------------


def test_a_client_waits_as_long_as_it_is_told_and_no_two_alike() -> None:
    assert [pause_before(turn, "", 1) for turn in range(1, 10)] == [
        0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0,
    ]  # fmt: skip
    assert pause_before(3, "", 0) == 0.2
    assert pause_before(1, "7", 0) == 7
    assert pause_before(1, "7", 1) == 10.5
    assert pause_before(9, "100000", 0) == 30
    for odd in ("-1", "x", "1.5", "Wed, 21 Oct 2026 07:28:00 GMT", "\u00b2"):
        assert pause_before(1, odd, 1) == 0.1
    assert 0 <= drawn_part() < 1


def test_a_client_tries_ten_times(monkeypatch: pytest.MonkeyPatch) -> None:
    paused = list[float]()
    refusal = b'{"error": {"message": "too many requests wait for this session; ask again later"}}'

    def tried(*_: object) -> Response:
        if len(paused) < busy:
            return Response(status, refusal, retry_after="2")
        return Response(200, b'{"share": 0}')

    monkeypatch.setattr(Connection, "_tried", tried)
    monkeypatch.setattr("pmw.service.connection.time.sleep", paused.append)
    monkeypatch.setattr("pmw.service.connection.drawn_part", lambda: 0.5)
    session = Connection("http://127.0.0.1:9", token="x", session="study")  # noqa: S106
    for status in (429, 503):
        paused.clear()
        busy = 9
        assert session.sent("GET", "/ledger").content == b'{"share": 0}'
        assert paused == [2.5] * 9
        paused.clear()
        busy = 10
        with pytest.raises(ServiceError, match="too many requests wait") as refused:
            session.sent("GET", "/ledger")
        assert (refused.value.status, len(paused)) == (status, 9)


# --- Connections: those of nobody take no places of health checks and good tokens ---------------------------


MOST, KEPT, IDLE = 10, 3, 4


class Crowd:
    """A service in this process, and connections to it that stay open."""

    def __init__(self, port: int, held: ExitStack) -> None:
        self.port, self._held = port, held

    def connect(self, host: str = "127.0.0.1") -> socket.socket:
        """Open a connection that sends nothing."""
        made = socket.create_connection(("127.0.0.1", self.port), timeout=60, source_address=(host, 0))
        return self._held.enter_context(made)

    def begin(self, headers: dict[str, str] | None = None) -> socket.socket:
        """Begin a request whose body does not come; return once the service waits for it."""
        made = self.connect()
        sent = {"Host": "x", "Content-Length": "9", "Expect": "100-continue", **(headers or {})}
        lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        made.sendall(f"POST {ASK} HTTP/1.1\r\n{lines}\r\n".encode())
        assert made.recv(1000).startswith(b"HTTP/1.1 100 ")
        return made

    def get(self, path: str, headers: dict[str, str] | None = None) -> tuple[int, str | None, bytes]:
        """Return the status, the Retry-After and the content of a request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path, headers=headers or {})
            response = connection.getresponse()
            return response.status, response.getheader("Retry-After"), response.read()
        finally:
            connection.close()


def is_open(connection: socket.socket) -> bool:
    """Tell whether a connection still gets an answer."""
    try:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        return whole(connection).startswith(b"HTTP/1.1 200 ")
    except OSError:
        return False


def whole(connection: socket.socket) -> bytes:
    """Return a response to a health check; nothing where the connection ends before."""
    found = b""
    while not found.endswith(b"}"):
        part = connection.recv(1000)
        if not part:
            return b""
        found += part
    return found


@pytest.fixture
def crowd(service: Service, log: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Crowd]:
    for module in ("guard", "server"):
        monkeypatch.setattr(f"pmw.service.{module}.MOST_CONNECTIONS", MOST)
        monkeypatch.setattr(f"pmw.service.{module}.KEPT_CONNECTIONS", KEPT)
    monkeypatch.setattr("pmw.service.server.MOST_IDLE", IDLE)
    ready = threading.Event()
    app = create_app(service, Log(log), ready.set)
    server = uvicorn.Server(uvicorn.Config(app, http=PatientProtocol, ws="none", log_config=None))
    with socket.create_server(("127.0.0.1", 0)) as listening, ExitStack() as held:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            assert ready.wait(60)
            yield Crowd(listening.getsockname()[1], held)
        finally:
            server.should_exit = True
            held.close()
            thread.join(60)


def test_of_one_address_the_connections_that_wait_longest_close(crowd: Crowd) -> None:
    idle = [crowd.connect() for _ in range(IDLE + 2)]
    assert crowd.get("/health")[0] == 200  # it was idle too, until its head came
    assert [is_open(connection) for connection in idle] == [False] * 3 + [True] * (IDLE - 1)


def test_a_connection_waits_anew_after_each_request(crowd: Crowd) -> None:
    first, second = crowd.connect(), crowd.connect()
    assert is_open(second)
    assert is_open(first)
    for _ in range(IDLE - 1):
        assert is_open(crowd.connect())
    assert [is_open(first), is_open(second)] == [True, False]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8")
def test_where_all_are_many_the_address_with_the_most_gives_way(crowd: Crowd, add: Any) -> None:
    alone = crowd.connect("127.0.0.9")
    idle = [crowd.connect(f"127.0.0.{place % 3 + 2}") for place in range(3 * IDLE)]
    assert crowd.get("/sessions", add("ann"))[0] == 200
    assert is_open(alone)
    assert sum(map(is_open, idle)) == MOST - KEPT - 2  # room for the one alone and for the request
    assert crowd.get("/sessions")[0] == 401  # who is nobody is answered too


def test_requests_of_nobody_leave_places_to_health_and_good_tokens_and_cookies(
    crowd: Crowd, add: Any, log: Any
) -> None:
    ann = add("ann")
    connection = http.client.HTTPConnection("127.0.0.1", crowd.port, timeout=60)
    connection.request("POST", "/sign-in", f"token={ann['Authorization'].partition(' ')[2]}")
    cookie = str(connection.getresponse().getheader("Set-Cookie")).partition(";")[0]
    connection.close()

    def is_busy(headers: dict[str, str]) -> bool:
        status, retry, content = crowd.get("/sessions", headers)
        assert status == 200 or (status, retry, json.loads(content)["error"]["code"]) == (503, "1", "busy")
        return status != 200

    for _ in range(MOST - KEPT):
        crowd.begin()
    for headers in (
        {}, {"Authorization": "Bearer x"}, {"Authorization": "Basic x"}, {"Cookie": "pmw_session=x"},
        {"Cookie": cookie + "x"},
    ):  # fmt: skip
        assert is_busy(headers)
    assert crowd.get("/health")[0] == 200
    assert not is_busy(ann)
    assert not is_busy({"Cookie": cookie})
    for _ in range(KEPT):
        crowd.begin(ann)
    assert is_busy(ann)
    assert crowd.get("/health")[0] == 200
    assert sum(json.loads(line)["status"] == 503 for line in log.getvalue().splitlines()) == 6


def test_health_waits_for_no_body(crowd: Crowd) -> None:
    held = [crowd.connect() for _ in range(2)]
    for connection in held:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx")
        assert whole(connection).startswith(b"HTTP/1.1 200 ")


# --- The connection: whatever a service sends, a client gets a result or an error of ours -------------------


BROKEN = (
    b"", b"{}", b"[]", b"5", b"null", b"\xff", b"[" * 100_000, b'{"error": 5}', b'{"error": {"code": []}}',
    b'{"sessions": 5}',
)  # fmt: skip


def connection(monkeypatch: pytest.MonkeyPatch, status: int, content: bytes) -> Connection:
    monkeypatch.setattr(Connection, "_tried", lambda *_: Response(status, content))
    monkeypatch.setattr("pmw.service.connection.time.sleep", lambda _: None)
    return Connection("http://127.0.0.1:9", token="x", session="study")  # noqa: S106


@pytest.mark.parametrize("status", [200, 400, 403, 500])
def test_what_is_no_answer_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    for content in BROKEN:
        held = connection(monkeypatch, status, content)
        if status != 200:
            with pytest.raises(PMWError):
                held.sent("GET", "/ledger")
        with pytest.raises(ServiceError):
            Connection("http://127.0.0.1:9", token="x")  # noqa: S106


def test_messages_of_a_service_are_fit_for_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    content = b'{"error": {"code": "x", "message": "\\u001b]0;owned\\u0007' + b"a" * 5000 + b'"}}'
    with pytest.raises(ServiceError) as told:
        connection(monkeypatch, 403, content).sent("GET", "/ledger")
    assert str(told.value).isprintable()
    assert len(str(told.value)) <= 2000
