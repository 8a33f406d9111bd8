"""Messages of Postgres' protocol: values come back as they were sent, and torn bytes end their connection."""

from __future__ import annotations

import contextlib
import math
import re
import socket
import struct
import time
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import date, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("fastapi", reason="the extra 'service' is not installed")

from pmw.service import wire_server
from pmw.service.users import UsersFile
from pmw.service.wire import (
    Fields,
    WireError,
    constant_of,
    data,
    forms_of,
    parameters_of,
    statements,
    with_parameters,
)  # fmt: skip
from queries.catalogue import BOOL, DATE, FLOAT8, INT8, TEXT, TIMESTAMP, Column, ColumnType
from tests.pmw.service.studies import Wired, packed, start, until_ready
from tests.waiting import WAIT

BY_SEX = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
WHOLE = st.integers(-(2**63), 2**63 - 1)
DAYS, TIMES = st.dates(), st.datetimes()
VALUES: list[tuple[ColumnType, Any]] = [
    (BOOL, st.booleans()), (INT8, WHOLE), (FLOAT8, st.floats(allow_nan=False)), (TEXT, TEXTS), (DATE, DAYS),
    (TIMESTAMP, TIMES),
]  # fmt: skip
CELLS = st.one_of([st.tuples(st.just(kind), st.none() | values) for kind, values in VALUES])


def parts_of(row: bytes) -> list[bytes | None]:
    """Return the values in the message of a row."""
    assert row[:1] == b"D"
    assert struct.unpack("!I", row[1:5])[0] == len(row) - 1
    return Fields(row[5:]).values()


def read_text(kind: ColumnType, sent: bytes) -> Any:
    text = sent.decode()
    readers: dict[ColumnType, Callable[[str], Any]] = {
        BOOL: "t".__eq__, INT8: int, FLOAT8: float, TEXT: str, DATE: date.fromisoformat,
        TIMESTAMP: datetime.fromisoformat,
    }  # fmt: skip
    return readers[kind](text)


@given(st.lists(CELLS, max_size=8), st.booleans())
def test_values_come_back_as_they_were_sent(cells: list[tuple[ColumnType, Any]], binary: bool) -> None:
    columns = [Column("c", kind) for kind, _ in cells]
    (row,) = data(columns, [int(binary)] * len(cells), [[value for _, value in cells]])
    for (kind, value), sent in zip(cells, parts_of(row), strict=True):
        if value is None:
            assert sent is None
            continue
        assert sent is not None
        if not binary or kind is TEXT:
            assert read_text(kind, sent) == value
        elif kind is not TEXT:  # as a parameter of the same type is read
            constant = constant_of(sent, 1, kind.oid, kind)
            if kind in (INT8, FLOAT8) and math.isfinite(value):
                assert float(constant.strip("()")) == value
            elif kind in (DATE, TIMESTAMP):
                assert constant == f"'{value}'"
            elif kind is BOOL:
                assert constant == str(value).upper()


def test_infinite_ends_and_lists_are_written_as_postgres_does_and_what_is_no_number_is_null() -> None:
    columns = [
        Column("a", FLOAT8),
        Column("b", FLOAT8),
        Column("c"),
        Column("d", FLOAT8),
        Column("e", FLOAT8),
    ]
    (row,) = data(columns, [0] * 5, [[math.inf, -math.inf, ["x", "y"], math.nan, None]])
    assert parts_of(row) == [b"Infinity", b"-Infinity", b"{x,y}", None, None]


NO_LISTS: list[tuple[bytes, int, int]] = [
    (b"north", 0, 1009), (b"{{1,2},{3,4}}", 0, 1016), (b"{one}", 0, 1016),
    (struct.pack("!7i", 2, 0, 23, 1, 1, 1, 1), 1, 1007), (b"\0", 1, 1007),
    *((text.encode(), 0, 1009) for text in (
        "", "{", "}", "{a", "a}", "{a,}", "{,a}", '{"a"b}', '{"a}', "{{a}}", "{a}b}", '{"' + '\\"' * 2**18,
    )),  # the last one, a text of quotes alone, is refused after one look at each letter
]  # fmt: skip


def test_what_is_no_list_and_no_number_is_refused_after_one_look_at_each_letter() -> None:
    for value, form, oid in NO_LISTS:
        with pytest.raises(WireError, match="for a parameter") as refused:
            constant_of(value, form, oid, TEXT)
        assert refused.value.state == "22P02"
    for text in ("1" * 2**19 + "x", "1." + "1" * 2**19 + "x", "+" * 2**19, "1e" + "1" * 2**19):
        with pytest.raises(WireError, match="expected a value of the type bigint"):
            constant_of(text.encode(), 0, 20, INT8)


@given(st.binary(max_size=20), st.sampled_from([0, 16, 17, 20, 21, 23, 25, 701, 1082, 1114, 1700, 2950]),
       st.sampled_from([0, 1]), st.sampled_from([kind for kind, _ in VALUES]))  # fmt: skip
def test_a_parameter_is_one_constant_or_refused(value: bytes, oid: int, form: int, kind: ColumnType) -> None:
    constant = ""
    with contextlib.suppress(WireError):
        constant = constant_of(value, form, oid, kind)
    if constant:
        assert statements(constant) in ([constant], [])
        assert parameters_of(constant) == 0  # all of it is one text or one number
        assert constant[0] in "'(0123456789.TFA"


@pytest.mark.parametrize(
    ("value", "form", "oid", "kind", "constant"),
    [
        (None, 0, 0, TEXT, "NULL"),
        (b"65", 0, 23, INT8, "65"),
        (b"65", 0, 0, INT8, "65"),
        (b"65", 0, 0, TEXT, "'65'"),
        (b"65", 0, 25, TEXT, "'65'"),
        (b"-1e3", 0, 701, TEXT, "(-1000)"),
        (struct.pack("!h", -5), 1, 21, INT8, "(-5)"),
        (struct.pack("!d", 0.00001), 1, 701, FLOAT8, "0.00001"),
        (struct.pack("!HhHHHH", 2, 0, 0, 2, 12, 3400), 1, 1700, FLOAT8, "12.3400"),
        (struct.pack("!HhHHHHH", 3, 1, 0x4000, 1, 1, 2, 5000), 1, 1700, FLOAT8, "(-10002.5000)"),
        (b"it's", 0, 25, TEXT, "'it''s'"),
        (b"2023-03-01 +00", 0, 0, DATE, "'2023-03-01'"),
        (b"2023-03-01 -03:30", 0, 0, TIMESTAMP, "'2023-03-01'"),
        (b"2023-03-01 +00", 0, 25, TEXT, "'2023-03-01 +00'"),
        (b"{}", 0, 1009, TEXT, "ARRAY[]"),
        (b'{north, "a \\"b\\", {c}",it\'s}', 0, 1009, TEXT, "ARRAY['north', 'a \"b\", {c}', 'it''s']"),
        (b"{1,-2}", 0, 1016, TEXT, "ARRAY[1, (-2)]"),
        (b'{null, "NULL" ,x y }', 0, 1009, TEXT, "ARRAY[NULL, 'NULL', 'x y']"),
        (struct.pack("!7i", 1, 1, 25, 2, 1, -1, 0), 1, 1009, TEXT, "ARRAY[NULL, '']"),
        (b"{t,f}", 0, 1000, TEXT, "ARRAY[TRUE, FALSE]"),
        (struct.pack("!5iiqiq", 1, 0, 20, 2, 1, 8, 7, 8, -7), 1, 1016, TEXT, "ARRAY[7, (-7)]"),
        (struct.pack("!3i", 0, 0, 25), 1, 1009, TEXT, "ARRAY[]"),
        (b"true", 0, 16, TEXT, "TRUE"),
        (struct.pack("!i", 8401), 1, 1082, DATE, "'2023-01-01'"),
    ],
)
def test_parameters_are_written_as_constants(
    value: bytes | None, form: int, oid: int, kind: ColumnType, constant: str
) -> None:
    assert constant_of(value, form, oid, kind) == constant


def test_a_list_that_no_statement_has_room_for_is_refused_before_its_numbers_are_written_out() -> None:
    value = "{" + ",".join(["1e999"] * 10_000) + "}"
    with pytest.raises(WireError, match=r"at most 8,192 characters with its values, got 9,000 or more"):
        constant_of(value.encode(), 0, 1022, TEXT)


def test_statements_end_at_semicolons_outside_of_texts_and_comments_leave_every_place_as_it_is() -> None:
    for text, parts in (
        ("SELECT 1; SELECT 2;", ["SELECT 1", " SELECT 2"]), (";; ;", []), ("-- nothing", []),
        ("/* ; */ SELECT 1", ["        SELECT 1"]), ("SELECT 'it''s;'", ["SELECT 'it''s;'"]),
    ):  # fmt: skip
        assert statements(text) == parts
    assert len(statements("SELECT ';' AS \";\" -- ;\n, $$;$$, $a$;$$;$a$, E'\\';'")) == 1
    text = "SELECT /* ä */ 1 -- x\nFROM t"
    (found,) = statements(text)
    assert (len(found), found.index("FROM")) == (len(text), text.index("FROM"))


def test_parameters_stand_outside_of_texts() -> None:
    text = "SELECT $1, '$1', \"$2\", $$ $1 $$, $2 -- $3"
    assert parameters_of(statements(text)[0]) == 2
    assert with_parameters(text, ["a", "b", "c"]) == "SELECT a, '$1', \"$2\", $$ $1 $$, b -- $3"
    with pytest.raises(WireError, match=r"\$2, got none"):
        with_parameters(text, ["a"])
    assert len(with_parameters("$1" * 4, ["x" * 2046])) == 8184
    with pytest.raises(WireError, match=r"at most 8,192 characters with its values, got 8,200"):
        with_parameters("$1" * 4, ["x" * 2048])  # as long as the statement may be, without its parameters


def test_forms_are_told_for_all_columns_or_for_each() -> None:
    columns = [Column("a"), Column("b")]
    assert [forms_of(columns, one) for one in ([], [1], [0, 1])] == [[0, 0], [1, 1], [0, 1]]
    for wrong in ([0, 1, 0], [2], [0, 7]):
        with pytest.raises(WireError):
            forms_of(columns, wrong)


# --- A connection: messages are bounded, whole, and come in the protocol's order --------------------------


def test_rows_come_in_parts_of_a_portal(shared: Wired) -> None:
    with closing(shared.raw()) as client:
        client.sendall(
            packed(b"P", "", BY_SEX, bytes(2)) + packed(b"B", "p", "", bytes(6)) + packed(b"D", b"Pp\0")
            + 3 * packed(b"E", "p", b"\0\0\0\2") + packed(b"C", b"Pp\0") + packed(b"S")
        )  # fmt: skip
        assert b"".join(kind for kind, _ in until_ready(client)) == b"12TDDsDDNCC3Z"
        client.sendall(2 * packed(b"E", "p", bytes(4)) + packed(b"S"))
        assert [kind for kind, _ in until_ready(client)] == [b"E", b"Z"]  # all up to Sync is skipped


def test_who_is_revoked_reads_no_more_rows_of_a_portal(wire: Wired, users: UsersFile) -> None:
    one_row = packed(b"E", "p", struct.pack("!I", 1)) + packed(b"S")
    with closing(wire.raw()) as client:
        bound = packed(b"P", "", BY_SEX, b"\0\0") + packed(b"B", "p", "", bytes(6))
        client.sendall(packed(b"Q", "BEGIN") + bound + one_row)
        assert b"".join(kind for kind, _ in until_ready(client) + until_ready(client)) == b"CZ12DsZ"
        users.revoke("ann")
        client.sendall(one_row)
        ((kind, told),) = until_ready(client)
    assert kind == b"E"
    assert b"C28P01\0" in told


def test_prepared_statements_are_dropped_by_their_name_or_all(shared: Wired) -> None:
    with closing(shared.raw()) as client:
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
    wire: Wired, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "SELECT CAST('20000-01-01' AS DATE) AS d"
    with closing(wire.raw()) as client:
        bound = packed(b"P", "", text, b"\0\0") + packed(b"B", "", "", struct.pack("!HHHH", 0, 0, 1, 1))
        client.sendall(bound + packed(b"E", "", bytes(4)) + packed(b"S"))
        (error,) = [body for kind, body in until_ready(client) if kind == b"E"]
        assert b"C22008\0" in error
        monkeypatch.setattr(wire_server, "statements", lambda text: 1 / 0)
        client.sendall(packed(b"Q", "SELECT 1"))
        (error, _) = [body for _, body in until_ready(client)]
        assert b"CXX000\0" in error
        assert b"division" not in error


def test_a_statement_is_described_before_it_has_values(shared: Wired) -> None:
    asked = "SELECT sex, COUNT(*) AS n FROM people WHERE age > $1 GROUP BY sex LIMIT $2"
    catalogue = "SELECT relname FROM pg_class WHERE relname = $1"
    with closing(shared.raw()) as client:
        for text in (asked, catalogue, "SHOW TimeZone", "BEGIN", ""):
            client.sendall(packed(b"P", "s", text, bytes(2)) + packed(b"D", b"Ss\0") + packed(b"C", b"Ss\0"))
            client.sendall(packed(b"S"))
            found = dict(until_ready(client))
            assert struct.unpack("!H", found[b"t"][:2])[0] == text.count("$")
            assert (b"T" in found) is ("SHOW" in text or "SELECT" in text)
            if text == asked:
                assert struct.unpack("!II", found[b"t"][2:]) == (701, 20)
                columns = re.findall(rb"(sex|n_low|n_high|n)\0", found[b"T"])
                assert columns == [b"sex", b"n", b"n_low", b"n_high"]


def test_tls_is_the_proxys(shared: Wired) -> None:
    with socket.create_connection(("127.0.0.1", shared.port), timeout=WAIT) as client:
        for code in (80877104, 80877103):
            client.sendall(struct.pack("!II", 8, code))
            assert client.recv(1) == b"N"
        client.sendall(start() + packed(b"p", shared.token()))
        assert until_ready(client)[-1] == (b"Z", b"I")


SIGNED = start() + packed(b"p", "no token") + packed(b"Q", BY_SEX) + packed(b"P", "", BY_SEX, b"\0\0")
TORN = (
    st.binary(max_size=80)
    | st.integers(0, len(SIGNED)).map(lambda end: SIGNED[:end])
    | st.tuples(st.integers(0, len(SIGNED) - 1), st.binary(min_size=1, max_size=4)).map(
        lambda one: SIGNED[: one[0]] + one[1] + SIGNED[one[0] + len(one[1]) :]
    )
)
LETTERS = st.sampled_from([bytes([one]) for one in b"QPBDECSHFdcfpzX"])
MESSAGES = st.lists(st.tuples(LETTERS, st.binary(max_size=30)), max_size=6)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent=TORN | MESSAGES)
def test_torn_and_random_bytes_of_anybody_end_their_connection_alone_and_spend_nothing(
    shared: Wired, sent: bytes | list[tuple[bytes, bytes]]
) -> None:
    before, is_torn = shared.spent, isinstance(sent, bytes)
    port, ends = ("127.0.0.1", shared.port), time.monotonic() + WAIT
    while len(shared.server._open) > 5 and time.monotonic() < ends:  # a user has 20 at most
        time.sleep(0.001)
    made = socket.create_connection(port, timeout=WAIT) if is_torn else shared.raw()
    with closing(made) as client, suppress(OSError):
        client.sendall(sent if isinstance(sent, bytes) else b"".join(packed(*one) for one in sent))
        client.sendall(b"" if is_torn else packed(b"S"))
        client.shutdown(socket.SHUT_WR)
        while client.recv(4096):
            pass
    assert shared.lines("failure") == []
    assert shared.spent == before


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
def test_messages_are_bounded_and_whole(shared: Wired, sent: bytes, state: bytes) -> None:
    with closing(shared.raw()) as client:
        client.sendall(sent + packed(b"S"))
        (error, *_) = [body for kind, body in until_ready(client) if kind == b"E"]
    assert b"C" + state + b"\0" in error


def test_half_a_message_and_a_client_that_does_not_read_end_in_a_line(
    wire: Wired, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire_server, "_START_SECONDS", 0.3)
    monkeypatch.setattr(wire_server, "_SENDING_SECONDS", 0.3)
    with closing(wire.raw()) as half, closing(wire.raw()) as deaf:
        half.sendall(b"Q\0\0")
        with suppress(OSError):
            for _ in range(300):
                deaf.sendall(packed(b"Q", "SELECT * FROM synthetic.people LIMIT 2000"))
        ends = time.monotonic() + WAIT
        while len(wire.lines("connection")) < 2 and time.monotonic() < ends:
            time.sleep(0.02)
    assert [one["ended"] for one in wire.lines("connection")] == ["late", "late"]
    assert wire.lines("failure") == []
