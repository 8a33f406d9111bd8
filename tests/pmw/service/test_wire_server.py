"""Postgres' protocol: drivers and psql ask a served session, under HTTP's limits, and pay if they say so."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="the extra 'sources' is not installed")
pytest.importorskip("fastapi", reason="the extra 'service' is not installed")

import psycopg
from fastapi.testclient import TestClient

from pmw.errors import ServiceError
from pmw.service import wire_server
from pmw.service.limits import OWN_PLACES, Rate
from pmw.service.server import Address, _sockets
from pmw.service.users import Role, UsersFile
from pmw.service.wire_dialogue import columns_of
from queries import CategoricalAttribute, DateAttribute, Domain, IntegerAttribute, TimeAttribute
from queries.dates import clock_time
from queries.parsing import parse_sql
from tests.pmw.service.studies import Wired, packed, until_ready
from tests.waiting import WAIT, joined

GROUPS = "SELECT sex, region, COUNT(*) AS n FROM people GROUP BY sex, region"
BY_SEX = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
PSQL = shutil.which("psql")
GUIDE = (Path(__file__).parents[3] / "docs" / "tools.md").read_text()


@pytest.fixture
def connection(shared: Wired) -> Iterator[Any]:
    with closing(shared.connect()) as made:
        yield made


@pytest.fixture
def paying(connection: Any) -> Any:
    """A connection that may charge a hundredth of the budget."""
    connection.execute("SET pmw.at_most = '1%'")
    return connection


def refused(connection: Any, text: str) -> Any:
    """Return the error of a statement."""
    with pytest.raises(psycopg.Error) as found:
        connection.execute(text)
    return found.value


def names(cursor: Any) -> list[str]:
    return [one.name for one in cursor.description]


# --- answers ------------------------------------------------------------------------------------------------


def test_answers_are_those_of_http_with_bars_as_columns(wire: Wired, client: TestClient) -> None:
    cursor = wire.connect().execute(BY_SEX)
    body, headers = {"sql": BY_SEX, "at_most": 0}, {"Authorization": f"Bearer {wire.token()}"}
    told = client.post("/sessions/study/ask", json=body, headers=headers).json()
    assert names(cursor) == ["sex", "n", "n_low", "n_high"]
    assert cursor.fetchall() == [
        (row["sex"], row["n"]["value"], row["n"]["low"], row["n"]["high"]) for row in told["rows"]
    ]


def test_columns_stand_as_they_were_written_and_bars_behind_them_unless_unwanted(connection: Any) -> None:
    text = "SELECT AVG(age) AS a, sex, COUNT(*) AS n, 'x' AS k FROM public.people GROUP BY sex"
    told = list[str]()
    connection.add_notice_handler(lambda one: told.append(one.message_primary))
    cursor = connection.execute(text)
    assert "intervals hold at 95% each" in told
    assert any("numbers beyond the declared ends" in one for one in told)
    assert names(cursor) == ["a", "sex", "n", "k", "a_low", "a_high", "n_low", "n_high"]
    found = cursor.fetchall()
    for row in found:
        assert row[4] <= row[0] <= row[5]
        assert row[6] <= row[2] <= row[7]
        assert [type(one) for one in (row[0], row[2], row[3])] == [float, int, str]
    connection.execute("SET pmw.bars = off")
    assert connection.execute(text).fetchall() == [row[:4] for row in found]
    connection.execute("RESET pmw.bars")
    assert len(connection.execute(BY_SEX).description) == 4


def test_lists_are_parameters(connection: Any) -> None:
    text = "SELECT COUNT(*) AS n FROM people WHERE "
    cases: list[tuple[str, list[Any], str]] = [
        ("region = ANY({})", ["north", "south"], "region IN ('north', 'south')"),
        ("region <> ALL({}::text[])", ["north", "south"], "region NOT IN ('north', 'south')"),
        ("age = ANY({})", [30, 31, 45], "age IN (30, 31, 45)"),
    ]
    for test, value, plain in cases:
        expected = connection.execute(text + plain).fetchall()
        for form in ("%t", "%b"):
            assert connection.execute(text + test.format(form), [value]).fetchall() == expected


def test_parameters_and_both_forms_of_results(connection: Any) -> None:
    text = "SELECT sex, COUNT(*) AS n, AVG(age) AS a FROM people WHERE age >= {} AND region = {} GROUP BY sex"
    plain = connection.execute(text.format(30, "'north'")).fetchall()
    for binary, prepare in product((False, True), repeat=2):
        with connection.cursor(binary=binary) as cursor:
            for _ in range(2):
                found = cursor.execute(text.format("%s", "%s"), (30, "north"), prepare=prepare).fetchall()
                assert found == plain
            cursor.execute(f"{BY_SEX} LIMIT %s", (1,), prepare=prepare)
            assert cursor.rowcount == 1
    assert connection.execute("SELECT %s AS x", ("it's; $1 -- /*",)).fetchone() == ("it's; $1 -- /*",)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("SELECT day, COUNT(*) FROM t GROUP BY day", ["date", "int8"]),
        ("SELECT DATE_TRUNC('month', day) AS m, COUNT(*) FROM t GROUP BY 1", ["date", "int8"]),
        ("SELECT YEAR(day) AS y, COUNT(*) FROM t GROUP BY 1", ["int8", "int8"]),
        ("SELECT start, HOUR(start) AS h, COUNT(*) FROM t GROUP BY 1, 2", ["text", "int8", "int8"]),
        (
            "SELECT code, AVG(age), SUM(age) / COUNT(*) AS m FROM t GROUP BY code",
            ["text", "float8", "float8"],
        ),
        ("SELECT age, flag, COUNT(*) FROM t GROUP BY age, flag", ["int8", "bool", "int8"]),
        ("SELECT UPPER(code) AS u, 'x' AS k, COUNT(*) FROM t GROUP BY 1", ["text", "text", "int8"]),
        ("SELECT 'a' AS k, COUNT(*) AS n FROM t UNION ALL SELECT 'b', COUNT(*) FROM t", ["text", "int8"]),
    ],
)
def test_types_follow_from_the_declaration(text: str, kinds: list[str]) -> None:
    domain = Domain(
        (
            DateAttribute("day", date(2023, 1, 1), date(2023, 12, 31)),
            TimeAttribute("start", clock_time(6 * 3600), clock_time(22 * 3600 - 1)),
            CategoricalAttribute("code", ("2023-01-01", "2023-01-02")),
            IntegerAttribute("age", 0, 9),
            CategoricalAttribute("flag", (True, False)),
        ),
        name="t",
    )
    found = columns_of(parse_sql(text, domain), domain, bars=False)
    assert [one.type.name for one in found] == kinds


# --- what is not the session's ------------------------------------------------------------------------------


def test_records_are_refused_with_the_name_of_the_synthetic_ones(connection: Any) -> None:
    error = refused(connection, "SELECT * FROM people LIMIT 5")
    assert error.sqlstate == "0A000"
    assert 'synthetic."people"' in error.diag.message_hint
    cursor = connection.execute("SELECT * FROM synthetic.people LIMIT 7")
    assert (len(cursor.fetchall()), len(cursor.description)) == (7, 4)
    assert len(connection.execute("SELECT age FROM synthetic.people").fetchall()) == 1000
    assert connection.execute("SELECT * FROM people LIMIT 0").fetchall() == []


def test_synthetic_rows_are_drawn_anew_with_the_model(wire: Wired) -> None:
    connection, desk = wire.connect(), wire.server.desk(wire.hosted)
    connection.execute("SELECT age FROM synthetic.people LIMIT 1")
    before = desk._drawn
    connection.execute("SELECT age FROM synthetic.people LIMIT 1")
    assert desk._drawn is before
    wire.hosted.session.measure(["sex", "region"])
    connection.execute("SELECT age FROM synthetic.people LIMIT 1")
    assert desk._drawn is not before


def test_refusals_have_a_state_and_a_place(connection: Any) -> None:
    refusals = [
        ("SELECT sexx FROM people GROUP BY sexx", "42703", 8), ("SELECT COUNT(* FROM people", "42601", 16),
        ("SELECT COUNT(*) FROM nobody", "42P01", 22),
        ("SELECT /* x */ COUNT(*) FROM people WHERE age > 'x'", "42804", 43),
        *((text, "0A000", None) for text in (
            "SELECT no_such_function(1)", "INSERT INTO people VALUES (1)", "UPDATE people SET age = 1",
            "CREATE TABLE x (a int)", "COPY people TO 'x.csv'", "PREPARE x AS SELECT 1", "SELECT 1; SELECT 2",
        )),
    ]  # fmt: skip
    for text, state, place in refusals:
        error = refused(connection, text)
        assert error.sqlstate == state, text
        assert error.diag.statement_position == (None if place is None else str(place)), text
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_transactions_are_told_as_drivers_expect(shared: Wired) -> None:
    with closing(shared.connect(autocommit=False)) as connection:
        assert connection.info.transaction_status.name == "IDLE"
        connection.execute(BY_SEX)
        assert connection.info.transaction_status.name == "INTRANS"
        connection.execute("SAVEPOINT a")
        refused(connection, "SELECT nothing FROM people")
        assert connection.info.transaction_status.name == "INERROR"
        assert refused(connection, BY_SEX).sqlstate == "25P02"
        connection.execute("ROLLBACK TO a")
        assert connection.info.transaction_status.name == "INTRANS"
        connection.rollback()
        assert connection.info.transaction_status.name == "IDLE"
        others = ("DISCARD ALL", "DEALLOCATE ALL", "SET TimeZone TO 'UTC'", "SET x = 1; BEGIN; COMMIT; ", ";")
        for text in (*others, "UNLISTEN *"):
            connection.execute(text)
        assert connection.execute("SHOW transaction isolation level").fetchone() == ("repeatable read",)
        assert connection.execute("SHOW TimeZone").fetchone() == ("UTC",)


# --- what is spent ------------------------------------------------------------------------------------------


def test_nothing_is_spent_until_it_is_allowed_and_never_more(wire: Wired) -> None:
    before, connection, cap = wire.spent, wire.connect(share=1), wire.hosted.session.state.ledger.cap
    connection.execute(GROUPS)
    connection.execute("SELECT AVG(age) FROM people WHERE region = 'north'")
    assert wire.spent == before
    connection.execute("SET pmw.at_most = '0.0001%'")
    error = refused(connection, GROUPS)
    assert error.sqlstate == "53400"
    (price,) = re.findall(r"SET pmw.at_most = '([\d.]+%)'", error.diag.message_hint)
    assert wire.spent == before
    connection.execute(error.diag.message_hint)
    connection.execute(GROUPS)
    charged = (wire.spent - before) / cap
    assert 0 < charged <= Fraction(price.removesuffix("%")) / 100
    (booked,) = [one for one in wire.hosted.session.bookings() if one.name == "ann"]
    assert booked.spent == charged
    connection.execute(GROUPS)  # settled
    assert (wire.spent - before) / cap == charged


def test_nobody_spends_above_the_own_ceiling_or_share(shared: Wired) -> None:
    choices: dict[str, dict[str, Any]] = {
        "nil": {"at_most": Fraction(0)}, "rea": {"role": Role.READER, "share": 0}, "none": {"share": 0},
    }  # fmt: skip
    before = shared.spent
    for name, chosen in choices.items():
        connection = shared.connect(name, **chosen)
        connection.execute("SET pmw.at_most = '100%'")
        connection.execute(GROUPS)
        assert shared.spent == before, name
    connection = shared.connect("low", share=1, at_most=Fraction(1, 10**6))
    connection.execute("SET pmw.at_most = 1")
    error = refused(connection, GROUPS)
    assert (error.sqlstate, error.diag.message_hint) == ("53400", None)
    assert "your ceiling" in error.diag.message_primary


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        ("BEGIN; SAVEPOINT a; SET pmw.at_most = '2%'; ROLLBACK TO SAVEPOINT a", "1%"),
        ("BEGIN; SAVEPOINT a; SET pmw.at_most = '2%'; SAVEPOINT b; ROLLBACK WORK TO a", "1%"),
        ("BEGIN; SAVEPOINT a; SET pmw.at_most = '2%'; SAVEPOINT a; ROLLBACK TO A", "2%"),
        ('BEGIN; SAVEPOINT "A"; SET pmw.at_most = 0; SAVEPOINT a; ROLLBACK TO "A"', "1%"),
        ("BEGIN; SAVEPOINT a; SET pmw.at_most = '2%'; RELEASE SAVEPOINT a; ROLLBACK", "1%"),
        ("BEGIN; SAVEPOINT a; SET pmw.at_most = '2%'; RELEASE a; COMMIT", "2%"),
        ("BEGIN; SET pmw.at_most = '2%'; BEGIN; ROLLBACK", "1%"),
        ("BEGIN; SET pmw.at_most = '2%'; ABORT TRANSACTION AND NO CHAIN", "1%"),
        ("BEGIN; SET pmw.at_most = '2%'; END WORK", "2%"),
        ("SET pmw.at_most = '2%'; ROLLBACK", "1%"),  # what is sent together is one transaction
        ("SET pmw.at_most = '2%'; BEGIN; ROLLBACK", "1%"),
        ("SET pmw.at_most = '2%'; BEGIN; COMMIT; ROLLBACK", "2%"),
        ("SET pmw.at_most = '2%'; SAVEPOINT a", "1%"),  # the last one is refused
        ("SET pmw.at_most = '2%'; RELEASE a", "1%"),
        ("SET pmw.at_most = '2%'; ROLLBACK TO a", "1%"),
        ("SET pmw.at_most = '2%'; SELECT nothing FROM people", "1%"),
        ("DEALLOCATE ALL", "1%"),
        ("DISCARD PLANS", "1%"),
        ("RESET pmw.bars", "1%"),
        ('SET "pmw.at_most" TO 0.02', "2%"),
        ("SET pmw . at_most=\n'2%'", "2%"),
        ("SET SESSION pmw.at_most TO '2%'", "2%"),
        ("SET pmw.at_most = 0.5", "50%"),
        ("SET pmw.at_most = DEFAULT", "0%"),
        ("RESET pmw . at_most", "0%"),
        ('RESET "pmw.at_most"', "0%"),
        ("RESET ALL", "0%"),
        ("DISCARD ALL", "0%"),
    ],
)  # fmt: skip
def test_what_may_be_spent_is_what_was_kept(paying: Any, texts: str, told: str) -> None:
    with suppress(psycopg.Error):
        paying.execute(texts)
    paying.execute("COMMIT")
    assert paying.execute("SHOW pmw.at_most").fetchone() == (told,)


@pytest.mark.parametrize(
    ("texts", "state"),
    [
        ("SAVEPOINT a", "25P01"),
        ("RELEASE a", "25P01"),
        ("ROLLBACK TO a", "25P01"),
        ("BEGIN; ROLLBACK TO a", "3B001"),
        ("BEGIN; SAVEPOINT a; RELEASE a; ROLLBACK TO a", "3B001"),
        ("BEGIN; SAVEPOINT a b", "42601"),
        ("BEGIN; ROLLBACK AND CHAIN; SET pmw.at_most = '10%'", "0A000"),
        ("BEGIN; COMMIT WORK AND CHAIN", "0A000"),
        ("COMMIT PREPARED 'a'", "0A000"),
        ("SET pmw.at_most = '\u0665%'", "22023"),
        ("BEGIN" + "; SAVEPOINT a" * 101, "54000"),
        ("SET pmw.at_most FROM CURRENT", "22023"),
        ("SET pmw.at_most", "22023"),
        ("SET pmw.at_mast = 0", "22023"),
        ('SET SESSION"pmw.at_most" = 0', "22023"),
        ("SET pmw.at_most = '101%'", "22023"),
        ("SET pmw.bars = 3", "22023"),
        ("SET LOCAL pmw.at_most = 0", "0A000"),
        ("RESET pmw.nothing", "22023"),
    ],
)
def test_what_pmw_does_not_set_is_refused(paying: Any, texts: str, state: str) -> None:
    assert refused(paying, texts).sqlstate == state
    paying.execute("ROLLBACK")
    assert paying.execute("SHOW pmw.at_most").fetchone() == ("1%",)


def test_a_long_setting_is_read_in_time_that_grows_with_its_length(paying: Any) -> None:
    """A pattern that tries each way to part blanks takes ten minutes, in which nobody else is answered."""
    for begin in ("SET a", "SET SESSION a", "SET SESSION", "SET a TO", "RESET"):
        paying.execute(f"{begin}{' ' * 8_000}x")
    assert refused(paying, f"SET pmw.{' ' * 8_000}x = 1").sqlstate == "22023"
    assert paying.execute("SHOW pmw.at_most").fetchone() == ("1%",)


def test_what_is_sent_along_with_what_fails_is_taken_back(shared: Wired) -> None:
    nothing, shown = struct.pack("!HHH", 0, 0, 0), []

    def sent(text: str) -> bytes:
        return packed(b"P", "", text, b"\0\0") + packed(b"B", "", "", nothing) + packed(b"E", "", bytes(4))

    with closing(shared.raw()) as client:
        for texts in (["SET pmw.at_most = 1"], ["SET pmw.at_most = 0.5", "SELECT nothing FROM people"]):
            client.sendall(b"".join(map(sent, texts)) + packed(b"S"))
            until_ready(client)
            client.sendall(packed(b"Q", "SHOW pmw.at_most"))
            shown += [body[6:] for kind, body in until_ready(client) if kind == b"D"]
        client.sendall(packed(b"Q", "BEGIN") + packed(b"P", "", "SELECT 1; SELECT 2", b"\0\0") + packed(b"S"))
        until_ready(client)
        assert until_ready(client)[-1] == (b"Z", b"E")  # as after any other failure
    assert shown == [b"100%", b"100%"]


def test_a_settled_statement_is_answered_again_until_something_is_released(
    wire: Wired, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, connection, counts = wire.hosted.session, wire.connect(share=1), list[str]()
    real = type(session).analyst

    def counted(*of: Any, **how: Any) -> Any:
        counts.append("")
        return real(*of, **how)

    monkeypatch.setattr(type(session), "analyst", counted)
    connection.execute(GROUPS)
    first = connection.execute(GROUPS).fetchall()
    asked = len(counts)
    assert connection.execute(GROUPS).fetchall() == first
    assert len(counts) == asked
    session.measure(["sex", "region"])
    assert connection.execute(GROUPS).fetchall() != first
    assert len(counts) > asked


# --- who may ask --------------------------------------------------------------------------------------------


def test_only_the_owner_of_a_good_token_connects_and_is_refused_at_once_when_revoked(
    wire: Wired, users: UsersFile
) -> None:
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    gone, late = wire.token("gone"), wire.token("late", expires=yesterday)
    users.revoke("gone")
    for own in ("nonsense", gone, late, users.path.read_text()[:60]):
        with pytest.raises(psycopg.OperationalError, match="this token was never issued"):
            wire.connect(own=own)
    connection = wire.connect()
    connection.execute(BY_SEX)
    assert connection.execute("SELECT current_user").fetchone() == ("ann",)
    users.revoke("ann")
    assert refused(connection, BY_SEX).sqlstate == "28P01"
    assert connection.broken or connection.closed


def test_a_session_of_others_is_no_database_and_settings_are_given_at_the_start(shared: Wired) -> None:
    places: list[tuple[str, Any]] = [("ann", {"database": one}) for one in ("other", "study.pmw", "../study")]
    for name, how in (*places, ("bea", {"sessions": ("another",)})):
        with pytest.raises(psycopg.OperationalError, match="one of your sessions"):
            shared.connect(name, **how)
    with closing(shared.connect(options="-c pmw.at_most=0.1% -c geqo=off -c pmw.bars=off")) as connection:
        assert connection.execute("SHOW pmw.at_most").fetchone() == ("0.1%",)
        assert len(connection.execute(BY_SEX).description) == 2


def test_places_are_those_of_http(wire: Wired) -> None:
    several, queue = [wire.connect() for _ in range(OWN_PLACES + 2)], wire.hosted.queue
    with wire.hosted.session._turn:
        asked = [threading.Thread(target=one.execute, args=(BY_SEX,)) for one in several]
        for one in asked:
            one.start()
        ends = time.monotonic() + WAIT
        while queue.waiting < 2 and time.monotonic() < ends:
            time.sleep(0.01)
        assert (queue._held["ann"], queue.waiting) == (OWN_PLACES, 2)
    joined(*asked)


def test_the_rate_is_that_of_http_and_what_is_described_is_asked_and_may_be_asked_again(wire: Wired) -> None:
    wire.service.rate = Rate(1e-9, 3)
    with closing(wire.raw()) as client:

        def described(text: str) -> bytes:
            client.sendall(packed(b"P", "", text, b"\0\0") + packed(b"D", b"S\0") + packed(b"S"))
            return b"".join(kind for kind, _ in until_ready(client))

        for _ in range(4):  # read once
            assert described(BY_SEX) == b"1tTZ"
        assert described("SELECT 1") == b"1tTZ"  # read, and run
        assert described("SELECT 1") == b"1tEZ"
        assert described("SET x = 1") == b"1tnZ"  # which asks nothing
    assert wire.hosted.queue._held["ann"] == 0
    connection = wire.connect("bea")
    for _ in range(3):
        connection.execute("SELECT 1")
    connection.execute("SET x = 1")
    assert refused(connection, "SELECT 1").sqlstate == "53000"


# --- cancelling, leaving, ending ----------------------------------------------------------------------------


def blocked(wire: Wired, connection: Any, text: str = GROUPS) -> tuple[threading.Thread, list[Any]]:
    """Begin a statement that waits for a turn, which the caller has."""
    found: list[Any] = []

    def work() -> None:
        try:
            found.append(connection.execute(text).fetchall())
        except psycopg.Error as error:
            found.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    ends = time.monotonic() + WAIT
    while not wire.hosted.queue._held["ann"] and time.monotonic() < ends:
        time.sleep(0.005)
    return worker, found


def test_a_statement_is_cancelled_by_its_own_key_alone(wire: Wired) -> None:
    connection = wire.connect()
    number = connection.info.backend_pid
    own = wire.server._open[number].key
    for key, text in ((bytes(4), GROUPS), (own, BY_SEX)):
        with wire.hosted.session._turn:
            worker, found = blocked(wire, connection, text)
            with socket.create_connection(("127.0.0.1", wire.port), timeout=WAIT) as other:
                other.sendall(struct.pack("!III", 16, 80877102, number) + key)
                assert other.recv(1) == b""
        joined(worker)
        assert isinstance(found[0], list) if key != own else found[0].sqlstate == "57014"
    assert len(connection.execute(BY_SEX).fetchall()) == 4  # the next one is not cancelled
    wire.server._open[number].gone.set()  # such as after it was answered
    statement = "SELECT region, COUNT(*) FROM people WHERE age > %s GROUP BY region"
    assert len(connection.execute(statement, [30], prepare=True).fetchall()) > 1


def test_clients_that_are_killed_leave_the_service_whole(wire: Wired) -> None:
    for number in range(20):
        with closing(wire.raw()) as client:
            text = f"SELECT age, COUNT(*) FROM people WHERE age > {20 + number} GROUP BY age;"
            client.sendall(packed(b"Q", text))
            if number % 3:
                client.recv(number)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", number % 2, 0))
    ends = time.monotonic() + WAIT
    while wire.server._open and time.monotonic() < ends:
        time.sleep(0.02)
    assert not wire.server._open
    assert len(wire.connect().execute(BY_SEX).fetchall()) == 4
    assert wire.lines("failure") == []
    assert wire.hosted.queue._free == type(wire.hosted.queue)()._free
    assert wire.hosted.session.status().queries_answered > 0


def test_the_service_ends_with_idle_and_busy_clients(wire: Wired) -> None:
    idle, busy = wire.connect(), wire.connect()
    with wire.hosted.session._turn:
        worker, found = blocked(wire, busy)
        wire.service.end()
        ending = threading.Thread(target=wire.server.close)
        ending.start()
    joined(worker, ending)
    assert found[0].sqlstate == "57P01"
    with pytest.raises(psycopg.OperationalError):
        idle.execute("SELECT 1")


def test_connections_are_bounded_and_strangers_give_way(wire: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_server, "OWN_WIRES", 2)
    monkeypatch.setattr(wire_server, "STRANGERS", 3)
    strangers = [socket.create_connection(("127.0.0.1", wire.port), timeout=WAIT) for _ in range(5)]
    assert [one.recv(1) for one in strangers[:2]] == [b"", b""]
    first, _ = wire.connect(), wire.connect()
    with pytest.raises(psycopg.OperationalError, match="connections of a user"):
        wire.connect()
    wire.connect("bea")
    first.close()
    for _ in range(100):
        with suppress(psycopg.OperationalError):
            wire.connect()
            break
        time.sleep(0.02)
    else:
        pytest.fail("a place was not free again")
    for one in strangers:
        one.close()


def test_a_use_stands_in_the_log_and_the_history_and_only_the_latter_has_the_question(wire: Wired) -> None:
    history = wire.service.history
    assert history.used() == {}
    connection = wire.connect()
    assert list(history.used()) == ["ann"]
    connection.execute(asked := "SELECT COUNT(*) FROM people WHERE age > 37")
    connection.execute("SELECT relname FROM pg_class")
    refused(connection, "SELECT secretword FROM people GROUP BY secretword")
    connection.close()
    told = [(one["user"], one["session"], one["route"], one["status"]) for one in wire.lines("request")]
    assert told == [
        ("ann", "study", "session", "00000"), ("ann", "study", "catalogue", "00000"),
        ("ann", "study", "session", "42703"),
    ]  # fmt: skip
    assert not re.search(rf"{wire.token()}|age >|secretword|pg_class", wire.log.getvalue())
    assert [one.text for one in history.questions("study", "ann")] == [asked]


# --- where it listens ---------------------------------------------------------------------------------------


def test_an_address_of_a_network_needs_a_proxy_with_tls() -> None:
    with pytest.raises(ServiceError, match="--behind-tls"), _sockets(Address("0.0.0.0", 0, 0)):  # noqa: S104
        pass
    with _sockets(Address("0.0.0.0", 0, 0, behind_tls=True)) as sockets:  # noqa: S104
        assert len(sockets) == 2
    with _sockets(Address("0.0.0.0", 0)) as sockets:  # noqa: S104
        assert len(sockets) == 1


# --- files --------------------------------------------------------------------------------------------------


FILES = [
    "SELECT * FROM '{}'", 'SELECT * FROM "{}"', "SELECT * FROM read_csv('{}')", "SELECT read_text('{}')",
    "SELECT * FROM people, read_csv('{}')", "SELECT COUNT(*) FROM people, '{}'", "TABLE '{}'",
    "SELECT (SELECT word FROM '{}')", "COPY people TO '{}'", "ATTACH '{}'", "SELECT pg_read_file('{}')",
    "SELECT * FROM synthetic.people, '{}'", "SELECT read_text('{}') FROM synthetic.people",
    "WITH \"{}\" AS (SELECT 1) SELECT * FROM \"{}\" a, (SELECT * FROM '{}') b",
    "EXPLAIN SELECT * FROM '{}'",
]  # fmt: skip


def test_no_statement_reads_a_file(
    shared: Wired, connection: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.csv").write_text("word\ncanary of the disk\n")
    monkeypatch.chdir(tmp_path)
    for text, path in product(FILES, ("t.csv", str(tmp_path / "t.csv"))):
        try:
            found = str(connection.execute(text.replace("{}", path)).fetchall())
        except psycopg.Error as error:
            found = f"{error} {error.diag.message_hint}"
        assert "canary" not in found, text
        refusals = ("ERROR", "expected", "supported", "unknown")
        assert found == "[(None,)]" or any(word in found for word in refusals), text
    assert [one.name for one in tmp_path.iterdir()] == ["t.csv"]
    assert shared.lines("failure") == []


# --- psql, SQLAlchemy, pandas -------------------------------------------------------------------------------


def told_by(command: list[str], shared: Wired) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PGPASSWORD": shared.token(), "PAGER": "", "PSQLRC": "/dev/null"}
    environment["PGCONNECT_TIMEOUT"] = "60"
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=WAIT, check=False)


@pytest.mark.skipif(PSQL is None, reason="psql is not installed")
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (r"\d", ["public | people | table | pmw"]),
        (r"\dt *.*", ["public | people | table | pmw", "synthetic | people | table | pmw"]),
        (r"\d people", ["member | text | | |", "sex | text | | |"]),
        (r"\d+ people", ["sex | text | | | | plain"]),
        (r"\l", ["study | pmw | UTF8"]),
        (r"\dn", ["public | pmw"]),
        (BY_SEX, ["sex | n | n_low | n_high", "NOTICE: intervals hold at 95% each"]),
        (
            "SELECT sexx FROM people GROUP BY sexx",
            ["ERROR: unknown attribute 'sexx'", "LINE 1: SELECT sexx", "HINT:", "did you mean 'sex'?"],
        ),
    ],
)
def test_psql_asks(shared: Wired, command: str, expected: list[str]) -> None:
    place = ["-h", "127.0.0.1", "-p", str(shared.port), "-U", "anybody", "study"]
    found = told_by([str(PSQL), *place, "-c", command], shared)
    told = re.sub(r" +", " ", found.stdout + found.stderr)
    for one in expected:
        assert one in told


@pytest.mark.skipif(PSQL is None, reason="psql is not installed")
def test_commands_of_the_guide_run(shared: Wired) -> None:
    (block,) = re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)
    for line in block.replace("5433", str(shared.port)).splitlines():
        found = told_by(shlex.split(line), shared)
        assert found.returncode == 0, found.stderr
        assert found.stdout.count("\n") > 4


def recorded() -> Iterator[Any]:
    """Yield each statement of the file, its columns, and its rows, or how many they are."""
    tool = ""
    for block in Path(__file__).with_name("recorded_statements.txt").read_text("utf-8").strip().split("\n\n"):
        text, _, told = block.partition("\n⇒ ")
        if not told:
            tool = text.removeprefix("## ")
            continue
        columns, end = json.JSONDecoder().raw_decode(told)
        yield pytest.param(text, columns, json.loads(told[end:]), id=f"{tool}: {' '.join(text.split())[:40]}")


@pytest.mark.parametrize("prepare", [False, True])
@pytest.mark.parametrize(("text", "columns", "rows"), list(recorded()))
def test_what_r_jdbc_odbc_and_superset_were_recorded_to_send_is_answered(
    connection: Any, text: str, columns: list[str], rows: list[Any] | int, prepare: bool
) -> None:
    cursor = connection.execute(text, prepare=prepare)
    assert names(cursor) == columns
    found = [[*row] for row in cursor.fetchall()]
    assert (len(found) if isinstance(rows, int) else found) == rows


R_PACKAGES = ("DBI", "dplyr", "dbplyr")
R_DRIVERS = ("RPostgres::Postgres", "RPostgreSQL::PostgreSQL")


def test_the_program_of_the_guide_runs_in_r(shared: Wired, tmp_path: Path) -> None:
    command = shutil.which("Rscript")
    if command is None:
        pytest.skip("R is not installed")

    def has(name: str) -> bool:
        asked = f"quit(status = as.integer(!requireNamespace('{name}', quietly = TRUE)))"
        return subprocess.run([str(command), "-e", asked], capture_output=True, check=False).returncode == 0

    missing = [name for name in R_PACKAGES if not has(name)]
    driver = next((one for one in R_DRIVERS if not missing and has(one.partition(":")[0])), None)
    if driver is None:
        pytest.skip(f"R lacks packages: {missing or 'a driver for Postgres'}")
    (program,) = re.findall(r"```r\n(.*?)```", GUIDE, re.DOTALL)
    path = tmp_path / "guide.R"
    path.write_text(program.replace("5433", str(shared.port)).replace(R_DRIVERS[0], driver))
    found = subprocess.run(
        [command, str(path)], env={**os.environ, "TOKEN": shared.token()}, capture_output=True, text=True,
        timeout=WAIT, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert found.stdout.count("n_low") == 2
    assert len(re.findall("(?m)^.*age .*sex .*region .*member", found.stdout)) == 1


def test_the_program_of_the_guide_runs(
    shared: Wired, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    monkeypatch.setenv("TOKEN", shared.token())
    exec(program.replace("5433", str(shared.port)), {})  # noqa: S102 - our own
    assert "Female" in capsys.readouterr().out


def test_sqlalchemy_and_pandas_find_the_table_and_ask_it(shared: Wired) -> None:
    sa = pytest.importorskip("sqlalchemy", reason="sqlalchemy is not installed")
    import pandas as pd

    engine = sa.create_engine(f"postgresql+psycopg://ann:{shared.token()}@127.0.0.1:{shared.port}/study")
    found = sa.inspect(engine)
    assert found.get_schema_names() == ["public", "synthetic"]
    assert (found.get_table_names(), found.get_table_names("synthetic")) == (["people"], ["people"])
    assert [one["name"] for one in found.get_columns("people")] == ["age", "sex", "region", "member"]
    assert (found.get_indexes("people"), found.get_foreign_keys("people")) == ([], [])
    table = sa.Table("people", sa.MetaData(), autoload_with=engine)
    asked = (
        sa.select(table.c.sex, sa.func.count().label("n"))
        .where(table.c.region == "north")
        .group_by(table.c.sex)
    )
    frame = pd.read_sql(asked, engine)
    assert list(frame) == ["sex", "n", "n_low", "n_high"]
    assert (frame["n_low"] <= frame["n"]).all()
    rows = sa.Table("people", sa.MetaData(), autoload_with=engine, schema="synthetic")
    assert len(pd.read_sql(sa.select(rows).limit(9), engine)) == 9
    engine.dispose()
