"""Postgres' protocol: drivers and psql ask a served session, under HTTP's limits, and pay if they say so."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from io import StringIO
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("psycopg", reason="the extra 'sources' is not installed")
pytest.importorskip("fastapi", reason="the extra 'service' is not installed")

import psycopg
from fastapi.testclient import TestClient

from pmw.errors import ServiceError
from pmw.service import wire_server
from pmw.service.guard import Log
from pmw.service.hosting import Hosted, Service
from pmw.service.limits import OWN_PLACES
from pmw.service.server import Address, _sockets
from pmw.service.users import Role, UsersFile
from pmw.service.wire_dialogue import columns_of
from pmw.service.wire_server import WireServer
from queries import CategoricalAttribute, DateAttribute, Domain, IntegerAttribute, TimeAttribute
from queries.dates import clock_time
from queries.parsing import parse_sql
from tests.pmw.service.conftest import AddUser
from tests.waiting import WAIT, joined

GROUPS = "SELECT sex, region, COUNT(*) AS n FROM people GROUP BY sex, region"
BY_SEX = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
PSQL = shutil.which("psql")

Connect = Callable[..., Any]


@pytest.fixture
def log() -> StringIO:
    return StringIO()


@pytest.fixture
def hosted(service: Service) -> Hosted:
    return service._hosted["study"]


@pytest.fixture
def wire(service: Service, log: StringIO) -> Iterator[WireServer]:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        server = WireServer(listening, service, Log(log))
        yield server
        server.close()
        assert not server._open


@pytest.fixture
def port(wire: WireServer) -> int:
    return int(wire._listening.getsockname()[1])


@pytest.fixture
def token(add: AddUser) -> Callable[..., str]:
    def made(name: str = "ann", **choices: Any) -> str:
        return str(cast("Any", add(name, **choices))["Authorization"]).removeprefix("Bearer ")

    return made


@pytest.fixture
def connect(port: int, token: Callable[..., str]) -> Iterator[Connect]:
    """Connect as a new user, or with a token; autocommit unless told."""
    opened = []

    def made(name: str = "ann", *, own: str | None = None, autocommit: bool = True, **choices: Any) -> Any:
        database, options = choices.pop("database", "study"), choices.pop("options", "")
        made = psycopg.connect(
            host="127.0.0.1", port=port, user="anybody", password=own or token(name, **choices),
            dbname=database, autocommit=autocommit, options=options, connect_timeout=int(WAIT),
        )  # fmt: skip
        opened.append(made)
        return made

    yield made
    for one in opened:
        one.close()


def refused(connection: Any, text: str, *values: Any) -> Any:
    """Return the error of a statement."""
    with pytest.raises(psycopg.Error) as found:
        connection.execute(text, values or None)
    return found.value


def lines(log: StringIO, event: str) -> list[dict[str, Any]]:
    return [one for one in map(json.loads, log.getvalue().splitlines()) if one["event"] == event]


# --- answers ------------------------------------------------------------------------------------------------


def test_answers_are_those_of_http_with_bars_as_columns(
    connect: Connect, client: TestClient, token: Callable[..., str]
) -> None:
    own = token()
    cursor = connect(own=own).execute(BY_SEX)
    body = {"sql": BY_SEX, "at_most": 0}
    told = client.post("/sessions/study/ask", json=body, headers={"Authorization": f"Bearer {own}"}).json()
    assert [one.name for one in cursor.description] == ["sex", "n", "n_low", "n_high"]
    assert cursor.fetchall() == [
        (row["sex"], row["n"]["value"], row["n"]["low"], row["n"]["high"]) for row in told["rows"]
    ]


def test_columns_stand_as_they_were_written(connect: Connect) -> None:
    text = "SELECT AVG(age) AS a, sex, COUNT(*) AS n, 'x' AS k FROM public.people GROUP BY sex"
    cursor = connect().execute(text)
    assert [one.name for one in cursor.description] == [
        "a", "sex", "n", "k", "a_low", "a_high", "n_low", "n_high",
    ]  # fmt: skip
    for row in cursor.fetchall():
        assert row[4] <= row[0] <= row[5]
        assert row[6] <= row[2] <= row[7]
        assert [type(one) for one in (row[0], row[2], row[3])] == [float, int, str]


def test_a_tool_that_reads_columns_by_their_places_gets_what_it_asked_for(connect: Connect) -> None:
    connection = connect()
    text = "SELECT sex, MIN(age) AS a, MAX(age) AS b, SUM(age) AS c FROM people GROUP BY sex"
    found = connection.execute(text).fetchall()
    connection.execute("SET pmw.bars = off")
    assert connection.execute(text).fetchall() == [row[:4] for row in found]


@pytest.mark.parametrize("form", ["%t", "%b"])
@pytest.mark.parametrize(
    ("test", "value", "plain"),
    [
        ("region = ANY({})", ["north", "south"], "region IN ('north', 'south')"),
        ("region <> ALL({})", ["north", "south"], "region NOT IN ('north', 'south')"),
        ("region = ANY({}::text[])", ["north"], "region = 'north'"),
        ("region <> ALL({}::text[])", ["north"], "region <> 'north'"),
        ("age = ANY({})", [30, 31, 45], "age IN (30, 31, 45)"),
    ],
)
def test_lists_are_parameters(connect: Connect, form: str, test: str, value: list[Any], plain: str) -> None:
    connection, text = connect(), "SELECT COUNT(*) AS n FROM people WHERE "
    expected = connection.execute(text + plain).fetchall()
    assert connection.execute(text + test.format(form), [value]).fetchall() == expected


def test_bars_are_left_out_where_they_are_not_wanted(connect: Connect) -> None:
    connection = connect()
    connection.execute("SET pmw.bars = off")
    assert [one.name for one in connection.execute(BY_SEX).description] == ["sex", "n"]
    connection.execute("RESET pmw.bars")
    assert len(connection.execute(BY_SEX).description) == 4


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("prepare", [False, True])
def test_parameters_and_both_forms_of_results(connect: Connect, binary: bool, prepare: bool) -> None:
    connection = connect()
    text = "SELECT sex, COUNT(*) AS n, AVG(age) AS a FROM people WHERE age >= {} AND region = {} GROUP BY sex"
    plain = connection.execute(text.format(30, "'north'")).fetchall()
    with connection.cursor(binary=binary) as cursor:
        for _ in range(3):
            found = cursor.execute(text.format("%s", "%s"), (30, "north"), prepare=prepare).fetchall()
            assert found == plain
        cursor.execute(f"{BY_SEX} LIMIT %s", (1,), prepare=prepare)
        assert cursor.rowcount == 1
    it_is = connection.execute("SELECT %s AS x", ("it's; $1 -- /*",)).fetchone()
    assert it_is == ("it's; $1 -- /*",)


def test_what_has_to_be_known_comes_as_notices(connect: Connect) -> None:
    connection, told = connect(), list[str]()
    connection.add_notice_handler(lambda one: told.append(one.message_primary))
    connection.execute("SELECT AVG(age) FROM people")
    assert "intervals hold at 95% each" in told
    assert any("numbers beyond the declared ends" in one for one in told)


def test_types_are_those_of_the_statement(connect: Connect) -> None:
    cursor = connect().execute(
        "SELECT member, COUNT(*) AS n, SUM(age) / COUNT(*) AS m FROM people GROUP BY member"
    )
    oids = {one.name: one.type_code for one in cursor.description}
    assert (oids["n"], oids["n_low"], oids["m"], oids["m_high"]) == (20, 20, 701, 701)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("SELECT day, COUNT(*) FROM t GROUP BY day", ["date", "int8"]),
        ("SELECT DATE_TRUNC('month', day) AS m, COUNT(*) FROM t GROUP BY 1", ["date", "int8"]),
        ("SELECT YEAR(day) AS y, COUNT(*) FROM t GROUP BY 1", ["int8", "int8"]),
        ("SELECT start, HOUR(start) AS h, COUNT(*) FROM t GROUP BY 1, 2", ["text", "int8", "int8"]),
        ("SELECT code, AVG(age) FROM t GROUP BY code", ["text", "float8"]),
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


def test_records_are_refused_with_the_name_of_the_synthetic_ones(connect: Connect) -> None:
    connection = connect()
    error = refused(connection, "SELECT * FROM people LIMIT 5")
    assert error.sqlstate == "0A000"
    assert 'synthetic."people"' in error.diag.message_hint
    cursor = connection.execute("SELECT * FROM synthetic.people LIMIT 7")
    assert (len(cursor.fetchall()), len(cursor.description)) == (7, 4)
    assert len(connection.execute("SELECT age FROM synthetic.people").fetchall()) == 1000
    assert connection.execute("SELECT * FROM people LIMIT 0").fetchall() == []


def test_synthetic_rows_are_drawn_anew_with_the_model(
    connect: Connect, hosted: Hosted, wire: WireServer
) -> None:
    connection = connect(share=Fraction(1))
    connection.execute("SELECT age FROM synthetic.people LIMIT 1")
    before = wire.desk(hosted)._drawn
    connection.execute("SELECT age FROM synthetic.people LIMIT 1")
    assert wire.desk(hosted)._drawn is before
    hosted.session.measure(["sex", "region"])
    connection.execute("SELECT age FROM synthetic.people LIMIT 1")
    assert wire.desk(hosted)._drawn is not before


@pytest.mark.parametrize(
    ("text", "state", "place"),
    [
        ("SELECT sexx FROM people GROUP BY sexx", "42703", 8),
        ("SELECT COUNT(* FROM people", "42601", 16),
        ("SELECT COUNT(*) FROM nobody", "42P01", 22),
        ("SELECT /* x */ COUNT(*) FROM people WHERE age > 'x'", "42804", 43),
        ("SELECT no_such_function(1)", "0A000", None),
        ("INSERT INTO people VALUES (1)", "0A000", None),
        ("UPDATE people SET age = 1", "0A000", None),
        ("CREATE TABLE x (a int)", "0A000", None),
        ("COPY people TO 'x.csv'", "0A000", None),
        ("PREPARE x AS SELECT 1", "0A000", None),
        ("SELECT 1; SELECT 2", "0A000", None),
        ("SET pmw.at_most = '120%'", "22023", None),
        ("SET pmw.nothing = 1", "22023", None),
        ("SET LOCAL pmw.at_most = '1%'", "0A000", None),
    ],
)
def test_refusals_have_a_state_and_a_place(
    connect: Connect, text: str, state: str, place: int | None
) -> None:
    connection = connect()
    error = refused(connection, text)
    assert error.sqlstate == state
    assert error.diag.statement_position == (None if place is None else str(place))
    assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_a_hint_says_what_to_do(connect: Connect) -> None:
    error = refused(connect(), "SELECT sexx FROM people GROUP BY sexx")
    assert error.diag.message_primary == "unknown attribute 'sexx'"
    assert "did you mean 'sex'?" in error.diag.message_hint


def test_transactions_are_told_as_drivers_expect(connect: Connect) -> None:
    connection = connect(autocommit=False)
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
    for text in (
        "DISCARD ALL",
        "DEALLOCATE ALL",
        "SET TimeZone TO 'UTC'",
        "SET x = 1; BEGIN; COMMIT; ",
        ";",
        "UNLISTEN *",
    ):
        connection.execute(text)
    assert connection.execute("SHOW transaction isolation level").fetchone() == ("repeatable read",)
    assert connection.execute("SHOW TimeZone").fetchone() == ("UTC",)


# --- what is spent ------------------------------------------------------------------------------------------


def test_nothing_is_spent_until_it_is_allowed_and_never_more(connect: Connect, hosted: Hosted) -> None:
    ledger = hosted.session.state.ledger
    before, connection = ledger.spent, connect(share=Fraction(1))
    connection.execute(GROUPS)
    connection.execute("SELECT AVG(age) FROM people WHERE region = 'north'")
    assert hosted.session.state.ledger.spent == before
    connection.execute("SET pmw.at_most = '0.0001%'")
    error = refused(connection, GROUPS)
    assert error.sqlstate == "53400"
    (price,) = re.findall(r"SET pmw.at_most = '([\d.]+%)'", error.diag.message_hint)
    assert hosted.session.state.ledger.spent == before
    connection.execute(error.diag.message_hint)
    connection.execute(GROUPS)
    charged = (hosted.session.state.ledger.spent - before) / ledger.cap
    assert 0 < charged <= Fraction(price.removesuffix("%")) / 100
    (booked,) = [one for one in hosted.session.bookings() if one.name == "ann"]
    assert booked.spent == charged
    connection.execute(GROUPS)  # settled
    assert (hosted.session.state.ledger.spent - before) / ledger.cap == charged


@pytest.mark.parametrize(
    "choices", [{"at_most": Fraction(0)}, {"role": Role.READER, "share": 0}, {"share": 0}]
)
def test_nobody_spends_above_the_own_ceiling(connect: Connect, hosted: Hosted, choices: Any) -> None:
    before, connection = hosted.session.state.ledger.spent, connect(**choices)
    connection.execute("SET pmw.at_most = '100%'")
    connection.execute(GROUPS)
    assert hosted.session.state.ledger.spent == before


def test_a_price_above_the_ceiling_of_a_user_is_refused(connect: Connect, hosted: Hosted) -> None:
    before, connection = (
        hosted.session.state.ledger.spent,
        connect(share=Fraction(1), at_most=Fraction(1, 10**6)),
    )
    connection.execute("SET pmw.at_most = 1")
    error = refused(connection, GROUPS)
    assert (error.sqlstate, error.diag.message_hint) == ("53400", None)
    assert "your ceiling" in error.diag.message_primary
    assert hosted.session.state.ledger.spent == before


def test_what_may_be_spent_ends_with_its_transaction_or_reset(connect: Connect) -> None:
    connection = connect(autocommit=False)
    shown = "SHOW pmw.at_most"
    for ending in ("rollback", "RESET pmw.at_most", "RESET ALL", "DISCARD ALL"):
        connection.execute("SET SESSION pmw.at_most TO '2%'")
        assert connection.execute(shown).fetchone() == ("2%",)
        connection.rollback() if ending == "rollback" else connection.execute(ending)
        assert connection.execute(shown).fetchone() == ("0%",)
    connection.execute("SET pmw.at_most = 0.5")
    connection.commit()
    refused(connection, "SELECT nothing FROM people")
    connection.rollback()
    assert connection.execute(shown).fetchone() == ("50%",)


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
        ("DEALLOCATE ALL", "1%"),
        ("DISCARD PLANS", "1%"),
        ("RESET pmw.bars", "1%"),
        ('SET "pmw.at_most" TO 0.02', "2%"),
        ("SET pmw . at_most=\n'2%'", "2%"),
        ("SET pmw.at_most = DEFAULT", "0%"),
        ("RESET pmw . at_most", "0%"),
        ('RESET "pmw.at_most"', "0%"),
    ],
)  # fmt: skip
def test_what_may_be_spent_is_what_was_kept(connect: Connect, texts: str, told: str) -> None:
    connection = connect(options="-c pmw.at_most=1%")
    with suppress(psycopg.Error):
        connection.execute(texts)
    connection.execute("COMMIT")
    assert connection.execute("SHOW pmw.at_most").fetchone() == (told,)


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
def test_what_pmw_does_not_set_is_refused(connect: Connect, texts: str, state: str) -> None:
    connection = connect(options="-c pmw.at_most=1%")
    assert refused(connection, texts).sqlstate == state
    connection.execute("ROLLBACK")
    assert connection.execute("SHOW pmw.at_most").fetchone() == ("1%",)


@pytest.mark.parametrize("begin", ["SET a", "SET SESSION a", "SET SESSION", "SET a TO", "RESET"])
def test_a_long_setting_is_read_in_time_that_grows_with_its_length(connect: Connect, begin: str) -> None:
    """A pattern that tries each way to part blanks takes ten minutes, in which nobody else is answered."""
    connection = connect(options="-c pmw.at_most=1%")
    connection.execute(f"{begin}{' ' * 8_000}x")
    assert refused(connection, f"SET pmw.{' ' * 8_000}x = 1").sqlstate == "22023"
    assert connection.execute("SHOW pmw.at_most").fetchone() == ("1%",)


def test_what_is_sent_along_with_what_fails_is_taken_back(port: int, token: Any) -> None:
    nothing, shown = struct.pack("!HHH", 0, 0, 0), []

    def sent(text: str) -> bytes:
        return packed(b"P", "", text, b"\0\0") + packed(b"B", "", "", nothing) + packed(b"E", "", bytes(4))

    with closing(raw(port, token())) as client:
        for texts in (["SET pmw.at_most = 1"], ["SET pmw.at_most = 0.5", "SELECT nothing FROM people"]):
            client.sendall(b"".join(map(sent, texts)) + packed(b"S"))
            until_ready(client)
            client.sendall(packed(b"Q", "SHOW pmw.at_most"))
            shown += [body[6:] for kind, body in until_ready(client) if kind == b"D"]
        client.sendall(packed(b"Q", "BEGIN") + packed(b"P", "", "SELECT 1; SELECT 2", b"\0\0") + packed(b"S"))
        until_ready(client)
        assert until_ready(client)[-1] == (b"Z", b"E")  # as after any other failure
    assert shown == [b"100%", b"100%"]


def test_settings_are_given_at_the_start(connect: Connect) -> None:
    connection = connect(options="-c pmw.at_most=0.1% -c geqo=off -c pmw.bars=off")
    assert connection.execute("SHOW pmw.at_most").fetchone() == ("0.1%",)
    assert len(connection.execute(BY_SEX).description) == 2


def test_a_settled_statement_is_answered_again_until_something_is_released(
    connect: Connect, hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, counts = connect(share=Fraction(1)), list[str]()
    real = type(hosted.session).analyst

    def counted(*of: Any, **how: Any) -> Any:
        counts.append("")
        return real(*of, **how)

    monkeypatch.setattr(type(hosted.session), "analyst", counted)
    connection.execute(GROUPS)
    first = connection.execute(GROUPS).fetchall()
    asked = len(counts)
    assert connection.execute(GROUPS).fetchall() == first
    assert len(counts) == asked
    hosted.session.measure(["sex", "region"])
    assert connection.execute(GROUPS).fetchall() != first
    assert len(counts) > asked


# --- who may ask --------------------------------------------------------------------------------------------


def test_only_the_owner_of_a_good_token_connects(connect: Connect, users: UsersFile, token: Any) -> None:
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    token("gone")
    users.revoke("gone")
    for own in ("nonsense", token("late", expires=yesterday), users.path.read_text()[:60]):
        with pytest.raises(psycopg.OperationalError, match="this token was never issued"):
            connect(own=own)


@pytest.mark.parametrize("database", ["other", "study.pmw", "../study"])
def test_a_session_of_others_is_no_database(connect: Connect, database: str) -> None:
    with pytest.raises(psycopg.OperationalError, match="one of your sessions"):
        connect(database=database)
    with pytest.raises(psycopg.OperationalError, match="one of your sessions"):
        connect("bea", sessions=("another",))


def test_a_user_who_is_revoked_or_changed_is_so_at_once(connect: Connect, users: UsersFile) -> None:
    connection = connect(share=Fraction(1))
    connection.execute(BY_SEX)
    assert connection.execute("SELECT current_user").fetchone() == ("ann",)
    users.revoke("ann")
    error = refused(connection, BY_SEX)
    assert error.sqlstate == "28P01"
    assert connection.broken or connection.closed


def test_the_rate_is_that_of_http(service: Service, port: int, connect: Connect) -> None:
    service.rate._at_once, service.rate._per_second = 3.0, 1e-9
    connection = connect()
    for _ in range(3):
        connection.execute("SELECT 1")
    connection.execute("SET x = 1")  # which asks nothing
    assert refused(connection, "SELECT 1").sqlstate == "53000"


def test_places_are_those_of_http(connect: Connect, hosted: Hosted, token: Any) -> None:
    own = token()
    several = [connect(own=own) for _ in range(OWN_PLACES + 2)]
    with hosted.session._turn:
        asked = [threading.Thread(target=one.execute, args=(BY_SEX,)) for one in several]
        for one in asked:
            one.start()
        ends = time.monotonic() + WAIT
        while hosted.queue.waiting < 2 and time.monotonic() < ends:
            time.sleep(0.01)
        assert (hosted.queue._held["ann"], hosted.queue.waiting) == (OWN_PLACES, 2)
    joined(*asked)


def test_what_is_described_is_asked_and_may_be_asked_again(
    service: Service, port: int, token: Any, hosted: Hosted
) -> None:
    service.rate._at_once, service.rate._per_second = 3.0, 1e-9
    with closing(raw(port, token())) as client:

        def described(text: str) -> bytes:
            name = packed(b"P", "", text, b"\0\0") + packed(b"D", b"S\0") + packed(b"S")
            client.sendall(name)
            return b"".join(kind for kind, _ in until_ready(client))

        for _ in range(4):  # read once
            assert described(BY_SEX) == b"1tTZ"
        assert described("SELECT 1") == b"1tTZ"  # read, and run
        assert described("SELECT 1") == b"1tEZ"
        assert described("SET x = 1") == b"1tnZ"  # which asks nothing
    assert hosted.queue._held["ann"] == 0


# --- cancelling, leaving, ending ----------------------------------------------------------------------------


def blocked(connection: Any, hosted: Hosted, text: str = GROUPS) -> tuple[threading.Thread, list[Any]]:
    """Begin a statement that waits for a turn, which the caller has."""
    found: list[Any] = []

    def work() -> None:
        with suppress(psycopg.Error):
            try:
                found.append(connection.execute(text).fetchall())
            except psycopg.Error as error:
                found.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    ends = time.monotonic() + WAIT
    while not hosted.queue._held["ann"] and time.monotonic() < ends:
        time.sleep(0.005)
    return worker, found


def test_a_statement_is_cancelled_by_its_own_key_alone(
    connect: Connect, hosted: Hosted, wire: WireServer, port: int, token: Any
) -> None:
    connection = connect(own=token())
    number = connection.info.backend_pid
    own = wire._open[number].key
    for key, text in ((bytes(4), GROUPS), (own, BY_SEX)):
        with hosted.session._turn:
            worker, found = blocked(connection, hosted, text)
            with socket.create_connection(("127.0.0.1", port), timeout=WAIT) as other:
                other.sendall(struct.pack("!III", 16, 80877102, number) + key)
                assert other.recv(1) == b""
        joined(worker)
        assert isinstance(found[0], list) if key != own else found[0].sqlstate == "57014"
    assert len(connection.execute(BY_SEX).fetchall()) == 4  # the next one is not cancelled
    wire._open[number].gone.set()  # such as after it was answered
    statement = "SELECT region, COUNT(*) FROM people WHERE age > %s GROUP BY region"
    assert len(connection.execute(statement, [30], prepare=True).fetchall()) > 1


def test_clients_that_are_killed_leave_the_service_whole(
    connect: Connect, hosted: Hosted, wire: WireServer, port: int, token: Any, log: StringIO
) -> None:
    own = token(share=Fraction(1))
    for number in range(20):
        with closing(raw(port, own)) as client:
            client.sendall(
                packed(b"Q", f"SELECT age, COUNT(*) FROM people WHERE age > {20 + number} GROUP BY age;")
            )
            if number % 3:
                client.recv(number)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", number % 2, 0))
    ends = time.monotonic() + WAIT
    while wire._open and time.monotonic() < ends:
        time.sleep(0.02)
    assert not wire._open
    assert len(connect(own=own).execute(BY_SEX).fetchall()) == 4
    assert lines(log, "failure") == []
    assert hosted.queue._free == type(hosted.queue)()._free
    assert hosted.session.status().queries_answered > 0


def test_the_service_ends_with_idle_and_busy_clients(
    connect: Connect, hosted: Hosted, wire: WireServer, service: Service, token: Any
) -> None:
    own = token()
    idle, busy = connect(own=own), connect(own=own)
    with hosted.session._turn:
        worker, found = blocked(busy, hosted)
        service.end()
        ending = threading.Thread(target=wire.close)
        ending.start()
    joined(worker, ending)
    assert found[0].sqlstate == "57P01"
    with pytest.raises(psycopg.OperationalError):
        idle.execute("SELECT 1")


# --- bytes --------------------------------------------------------------------------------------------------


def packed(kind: bytes, *fields: str | bytes) -> bytes:
    """Return a message of texts and other fields."""
    body = b"".join(one if isinstance(one, bytes) else one.encode() + b"\0" for one in fields)
    return kind + struct.pack("!I", len(body) + 4) + body


def start(database: str = "study") -> bytes:
    body = struct.pack("!I", 3 << 16) + f"user\0ann\0database\0{database}\0\0".encode()
    return struct.pack("!I", len(body) + 4) + body


def raw(port: int, own: str) -> socket.socket:
    """Return a connection that has signed in."""
    client = socket.create_connection(("127.0.0.1", port), timeout=WAIT)
    client.sendall(start() + packed(b"p", own))
    until_ready(client)
    return client


def until_ready(client: socket.socket) -> list[tuple[bytes, bytes]]:
    """Return the messages that come, up to the one that says that the server waits."""
    found: list[tuple[bytes, bytes]] = []
    while not found or found[-1][0] != b"Z":
        head = client.recv(5, socket.MSG_WAITALL)
        if len(head) < 5:
            break
        size = struct.unpack("!I", head[1:])[0] - 4
        found.append((head[:1], client.recv(size, socket.MSG_WAITALL) if size else b""))
    return found


def test_rows_come_in_parts_of_a_portal(port: int, token: Any) -> None:
    with closing(raw(port, token())) as client:
        client.sendall(
            packed(b"P", "", BY_SEX, struct.pack("!H", 0))
            + packed(b"B", "p", "", struct.pack("!HHH", 0, 0, 0))
            + packed(b"D", b"Pp\0")
            + 3 * packed(b"E", "p", struct.pack("!I", 2))
            + packed(b"C", b"Pp\0")
            + packed(b"S")
        )
        assert b"".join(kind for kind, _ in until_ready(client)) == b"12TDDsDDNCC3Z"
        client.sendall(
            packed(b"E", "p", struct.pack("!I", 0)) + packed(b"E", "p", struct.pack("!I", 0)) + packed(b"S")
        )
        assert [kind for kind, _ in until_ready(client)] == [b"E", b"Z"]  # all up to Sync is skipped


def test_who_is_revoked_reads_no_more_rows_of_a_portal(port: int, token: Any, users: UsersFile) -> None:
    with closing(raw(port, token())) as client:
        client.sendall(
            packed(b"Q", "BEGIN")
            + packed(b"P", "", BY_SEX, b"\0\0")
            + packed(b"B", "p", "", bytes(6))
            + packed(b"E", "p", struct.pack("!I", 1))
            + packed(b"S")
        )
        assert b"".join(kind for kind, _ in until_ready(client) + until_ready(client)) == b"CZ12DsZ"
        users.revoke("ann")
        client.sendall(packed(b"E", "p", struct.pack("!I", 1)) + packed(b"S"))
        ((kind, told),) = until_ready(client)
    assert kind == b"E"
    assert b"C28P01\0" in told


def test_prepared_statements_are_dropped_by_their_name_or_all(port: int, token: Any) -> None:
    with closing(raw(port, token())) as client:
        dropping = ["DEALLOCATE PREPARE a", 'DEALLOCATE "B"', "DEALLOCATE all", "DISCARD ALL"]
        for text in [*dropping, "DISCARD PLANS", "RESET ALL"]:
            kept = b"EZ" if text in dropping else b"tTZ"
            name = "B" if "B" in text else "a"
            client.sendall(packed(b"C", b"S" + name.encode() + b"\0") + packed(b"P", name, BY_SEX, b"\0\0"))
            client.sendall(packed(b"S") + packed(b"Q", text) + packed(b"D", b"S" + name.encode() + b"\0"))
            client.sendall(packed(b"S"))
            assert b"".join(kind for kind, _ in until_ready(client) + until_ready(client)) == b"31ZCZ"
            assert b"".join(kind for kind, _ in until_ready(client)) == kept


def test_days_that_no_form_has_are_refused_and_what_fails_is_told(
    port: int, token: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(raw(port, token())) as client:
        text = "SELECT CAST('20000-01-01' AS DATE) AS d"
        client.sendall(
            packed(b"P", "", text, b"\0\0") + packed(b"B", "", "", struct.pack("!HHHH", 0, 0, 1, 1))
        )
        client.sendall(packed(b"E", "", bytes(4)) + packed(b"S"))
        (error,) = [body for kind, body in until_ready(client) if kind == b"E"]
        assert b"C22008\0" in error
        monkeypatch.setattr(wire_server, "statements", lambda text: 1 / 0)
        client.sendall(packed(b"Q", "SELECT 1"))
        (error, _) = [body for _, body in until_ready(client)]
        assert b"CXX000\0" in error
        assert b"division" not in error


@pytest.mark.parametrize(
    "text",
    [
        "SELECT sex, COUNT(*) AS n FROM people WHERE age > $1 GROUP BY sex LIMIT $2",
        "SELECT relname FROM pg_class WHERE relname = $1",
        "SHOW TimeZone",
        "BEGIN",
        "",
    ],
)
def test_a_statement_is_described_before_it_has_values(port: int, token: Any, text: str) -> None:
    with closing(raw(port, token())) as client:
        client.sendall(packed(b"P", "s", text, struct.pack("!H", 0)) + packed(b"D", b"Ss\0") + packed(b"S"))
        found = dict(until_ready(client))
    count = struct.unpack("!H", found[b"t"][:2])[0]
    assert count == text.count("$")
    if "people" in text:
        assert struct.unpack("!II", found[b"t"][2:]) == (701, 20)
        assert re.findall(rb"(sex|n_low|n_high|n)\0", found[b"T"]) == [b"sex", b"n", b"n_low", b"n_high"]
    else:
        assert (b"T" in found) is ("SHOW" in text or "SELECT" in text)


def test_tls_is_the_proxys(port: int, token: Any) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT) as client:
        for code in (80877104, 80877103):
            client.sendall(struct.pack("!II", 8, code))
            assert client.recv(1) == b"N"
        client.sendall(start() + packed(b"p", token()))
        assert until_ready(client)[-1] == (b"Z", b"I")


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_torn_and_random_bytes_end_their_connection_alone(
    port: int, log: StringIO, data: st.DataObject
) -> None:
    whole = start() + packed(b"p", "no token") + packed(b"Q", BY_SEX) + packed(b"P", "", BY_SEX, b"\0\0")
    sent = data.draw(
        st.binary(max_size=80)
        | st.integers(0, len(whole)).map(lambda end: whole[:end])
        | st.tuples(st.integers(0, len(whole) - 1), st.binary(min_size=1, max_size=4)).map(
            lambda one: whole[: one[0]] + one[1] + whole[one[0] + len(one[1]) :]
        )
    )
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT) as client, suppress(ConnectionError):
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        while client.recv(4096):
            pass
    assert lines(log, "failure") == []


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    messages=st.lists(
        st.tuples(st.sampled_from([bytes([one]) for one in b"QPBDECSHFdcfpzX"]), st.binary(max_size=30)),
        max_size=6,
    )
)
def test_random_messages_of_a_user_do_nothing_else(
    port: int, service: Service, log: StringIO, messages: list[tuple[bytes, bytes]], hosted: Hosted
) -> None:
    with suppress(ServiceError):
        service.users.revoke("any")
    own = service.users.rotate("first")
    before = hosted.session.state.ledger.spent
    with closing(raw(port, own)) as client, suppress(ConnectionError):
        client.sendall(b"".join(packed(kind, body) for kind, body in messages) + packed(b"S"))
        client.shutdown(socket.SHUT_WR)
        while client.recv(4096):
            pass
    assert lines(log, "failure") == []
    assert hosted.session.state.ledger.spent == before


@pytest.mark.parametrize(
    ("sent", "state"),
    [
        (b"Q" + struct.pack("!I", 2**20 + 1), b"54000"),
        (b"Q" + struct.pack("!I", 3), b"54000"),
        (packed(b"Q", b"no end"), b"08P01"),
        (packed(b"Q", b"\xff\xfe\0"), b"22021"),
        (packed(b"F", b"x"), b"0A000"),
        (packed(b"P", "", "SELECT 1; SELECT 2", b"\0\0"), b"0A000"),
        (packed(b"P", "", "SELECT $1001", b"\0\0"), b"0A000"),
        (packed(b"B", "", "nothing", b"\0\0\0\0\0\0"), b"26000"),
        (packed(b"E", "nothing", b"\0\0\0\0"), b"34000"),
        (packed(b"P", "", "SELECT $1", b"\0\0") + packed(b"B", "", "", b"\0\0\0\0\0\0"), b"08P01"),
        (packed(b"P", "", "x" * 8193, b"\0\0"), b"54000"),
        (packed(b"Q", "x" * 8193), b"54000"),
        (packed(b"P", "n" * 64, "BEGIN", b"\0\0"), b"42622"),
        (packed(b"P", "", "BEGIN", b"\0\0") + packed(b"B", "n" * 64, "", b"\0\0\0\0\0\0"), b"42622"),
        (b"".join(packed(b"P", f"{n}", "SELECT" + " " * 8000, b"\0\0") for n in range(140)), b"54000"),
        (
            packed(b"P", "", "BEGIN", b"\0\0")
            + b"".join(packed(b"B", f"{n}", "", b"\0\0\0\0\0\0") for n in range(11)),
            b"54000",
        ),
    ],
)
def test_messages_are_bounded_and_whole(port: int, token: Any, sent: bytes, state: bytes) -> None:
    with closing(raw(port, token())) as client:
        client.sendall(sent + packed(b"S"))
        (error, *_) = [body for kind, body in until_ready(client) if kind == b"E"]
    assert b"C" + state + b"\0" in error


def test_half_a_message_and_a_client_that_does_not_read_end_in_a_line(
    port: int, token: Any, log: StringIO, wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire_server, "_START_SECONDS", 0.3)
    monkeypatch.setattr(wire_server, "_SENDING_SECONDS", 0.3)
    own = token()
    with closing(raw(port, own)) as half, closing(raw(port, own)) as deaf:
        half.sendall(b"Q\0\0")
        with suppress(OSError):
            for _ in range(300):
                deaf.sendall(packed(b"Q", "SELECT * FROM synthetic.people LIMIT 2000"))
        ends = time.monotonic() + WAIT
        while len(lines(log, "connection")) < 2 and time.monotonic() < ends:
            time.sleep(0.02)
    assert [one["ended"] for one in lines(log, "connection")] == ["late", "late"]
    assert lines(log, "failure") == []


def test_connections_are_bounded_and_strangers_give_way(
    port: int, connect: Connect, token: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire_server, "OWN_WIRES", 2)
    monkeypatch.setattr(wire_server, "STRANGERS", 3)
    own = token()
    strangers = [socket.create_connection(("127.0.0.1", port), timeout=WAIT) for _ in range(5)]
    assert [one.recv(1) for one in strangers[:2]] == [b"", b""]
    first, _ = connect(own=own), connect(own=own)
    with pytest.raises(psycopg.OperationalError, match="connections of a user"):
        connect(own=own)
    connect("bea")
    first.close()
    for _ in range(100):
        with suppress(psycopg.OperationalError):
            connect(own=own)
            break
        time.sleep(0.02)
    else:
        pytest.fail("a place was not free again")
    for one in strangers:
        one.close()


def test_the_log_tells_who_asked_and_nothing_of_it(connect: Connect, log: StringIO, token: Any) -> None:
    own = token()
    connection = connect(own=own)
    connection.execute("SELECT COUNT(*) FROM people WHERE age > 37")
    connection.execute("SELECT relname FROM pg_class")
    refused(connection, "SELECT secretword FROM people GROUP BY secretword")
    connection.close()
    told = [(one["user"], one["session"], one["route"], one["status"]) for one in lines(log, "request")]
    assert told == [
        ("ann", "study", "session", "00000"), ("ann", "study", "catalogue", "00000"),
        ("ann", "study", "session", "42703"),
    ]  # fmt: skip
    assert not re.search(rf"{own}|age >|secretword|pg_class", log.getvalue())


def test_a_token_that_comes_over_the_wire_is_used(connect: Connect, service: Service) -> None:
    assert service.history.used() == {}
    connect()
    assert list(service.history.used()) == ["ann"]


def test_what_was_asked_stands_in_the_history(connect: Connect, service: Service) -> None:
    connect().execute(BY_SEX)
    assert [one.text for one in service.history.questions("study", "ann")] == [BY_SEX]


# --- where it listens ---------------------------------------------------------------------------------------


def test_an_address_of_a_network_needs_a_proxy_with_tls() -> None:
    with pytest.raises(ServiceError, match="--behind-tls"), _sockets(Address("0.0.0.0", 0, 0)):  # noqa: S104
        pass
    with _sockets(Address("0.0.0.0", 0, 0, behind_tls=True)) as sockets:  # noqa: S104
        assert len(sockets) == 2
    with _sockets(Address("0.0.0.0", 0)) as sockets:  # noqa: S104
        assert len(sockets) == 1


def test_the_command_serves_both_and_ends_by_a_signal(study: Path, users: UsersFile, token: Any) -> None:
    own = token()
    command = [sys.executable, "-m", "pmw", "serve", str(study), "--users", str(users.path), "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen(
        [*command, "--postgres", "0"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        found = re.fullmatch(
            r"Serving at http://127\.0\.0\.1:\d+ and (postgresql://127\.0\.0\.1:\d+); Ctrl-C ends it\.\n",
            process.stdout.readline(),
        )
        try:
            assert found is not None
            idle = psycopg.connect(f"{found[1]}/study?user=ann&password={own}", autocommit=True)
            assert len(idle.execute(BY_SEX).fetchall()) == 4
            process.send_signal(signal.SIGTERM)
            _, told = process.communicate(timeout=WAIT)
            idle.close()
        finally:
            process.kill()
    assert process.returncode in (0, -signal.SIGTERM)
    assert json.loads(told.splitlines()[-1])["event"] == "end"


# --- files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM '{}'", 'SELECT * FROM "{}"', "SELECT * FROM read_csv('{}')", "SELECT read_text('{}')",
        "SELECT * FROM people, read_csv('{}')", "SELECT COUNT(*) FROM people, '{}'", "TABLE '{}'",
        "SELECT (SELECT word FROM '{}')", "COPY people TO '{}'", "ATTACH '{}'", "SELECT pg_read_file('{}')",
        "SELECT * FROM synthetic.people, '{}'", "SELECT read_text('{}') FROM synthetic.people",
        "WITH \"{}\" AS (SELECT 1) SELECT * FROM \"{}\" a, (SELECT * FROM '{}') b",
        "EXPLAIN SELECT * FROM '{}'",
    ],
)  # fmt: skip
def test_no_statement_reads_a_file(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: StringIO, text: str
) -> None:
    (tmp_path / "t.csv").write_text("word\ncanary of the disk\n")
    monkeypatch.chdir(tmp_path)
    connection = connect()
    for path in ("t.csv", str(tmp_path / "t.csv"), str(tmp_path / "people.csv")):
        try:
            found = str(connection.execute(text.replace("{}", path)).fetchall())
        except psycopg.Error as error:
            found = f"{error} {error.diag.message_hint}"
        assert "canary" not in found
        assert (
            found in ("[(None,)]",)
            or "ERROR" in repr(found)
            or "expected" in found
            or "supported" in found
            or ("unknown" in found)
        )
    assert sorted(one.name for one in tmp_path.iterdir() if one.suffix == ".csv") == ["people.csv", "t.csv"]
    assert lines(log, "failure") == []


# --- psql, SQLAlchemy, pandas -------------------------------------------------------------------------------


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
            ["ERROR: unknown attribute 'sexx'", "LINE 1: SELECT sexx", "HINT:"],
        ),
    ],
)
def test_psql_asks(port: int, token: Any, command: str, expected: list[str]) -> None:
    environment = {
        **os.environ,
        "PGPASSWORD": token(),
        "PAGER": "",
        "PGCONNECT_TIMEOUT": "60",
        "PSQLRC": "/dev/null",
    }
    found = subprocess.run(
        [str(PSQL), "-h", "127.0.0.1", "-p", str(port), "-U", "anybody", "study", "-c", command],
        env=environment, capture_output=True, text=True, timeout=WAIT, check=False,
    )  # fmt: skip
    told = re.sub(r" +", " ", found.stdout + found.stderr)
    for one in expected:
        assert one in told


# --- R, JDBC, ODBC and Superset, as they were recorded ------------------------------------------------------


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
def test_what_tools_were_recorded_to_send_is_answered(
    connect: Connect, text: str, columns: list[str], rows: list[Any] | int, prepare: bool
) -> None:
    cursor = connect().execute(text, prepare=prepare)
    assert [one.name for one in cursor.description] == columns
    found = [[*row] for row in cursor.fetchall()]
    assert (len(found) if isinstance(rows, int) else found) == rows


R_PACKAGES = ("DBI", "dplyr", "dbplyr")
R_DRIVERS = ("RPostgres::Postgres", "RPostgreSQL::PostgreSQL")


def test_the_program_of_the_guide_runs_in_r(port: int, token: Any, tmp_path: Path) -> None:
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
    (program,) = re.findall(r"```r\n(.*?)```", TOOLS, re.DOTALL)
    path = tmp_path / "guide.R"
    path.write_text(program.replace("5433", str(port)).replace(R_DRIVERS[0], driver))
    found = subprocess.run(
        [command, str(path)], env={**os.environ, "TOKEN": token()}, capture_output=True, text=True,
        timeout=WAIT, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert found.stdout.count("n_low") == 2
    assert len(re.findall("(?m)^.*age .*sex .*region .*member", found.stdout)) == 1


TOOLS = (Path(__file__).parents[3] / "docs" / "tools.md").read_text()


@pytest.mark.skipif(PSQL is None, reason="psql is not installed")
def test_commands_of_the_guide_run(port: int, token: Any) -> None:
    (block,) = re.findall(r"```sh\n(.*?)```", TOOLS, re.DOTALL)
    environment = {
        **os.environ,
        "PGPASSWORD": token(),
        "PAGER": "",
        "PGCONNECT_TIMEOUT": "60",
        "PSQLRC": "/dev/null",
    }
    for line in block.replace("5433", str(port)).splitlines():
        found = subprocess.run(
            shlex.split(line), env=environment, capture_output=True, text=True, timeout=WAIT, check=False
        )
        assert found.returncode == 0, found.stderr
        assert found.stdout.count("\n") > 4


def test_the_program_of_the_guide_runs(
    port: int, token: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", TOOLS, re.DOTALL)
    monkeypatch.setenv("TOKEN", token())
    exec(program.replace("5433", str(port)), {})  # noqa: S102 - our own
    assert "Female" in capsys.readouterr().out


def test_sqlalchemy_and_pandas_find_the_table_and_ask_it(port: int, token: Any) -> None:
    sa = pytest.importorskip("sqlalchemy", reason="sqlalchemy is not installed")
    import pandas as pd

    engine = sa.create_engine(f"postgresql+psycopg://ann:{token()}@127.0.0.1:{port}/study")
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
