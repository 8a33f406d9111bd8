"""Messages of Postgres' protocol: values come back as they were sent, and torn bytes are refused."""

from __future__ import annotations

import contextlib
import math
import struct
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("fastapi", reason="the extra 'service' is not installed")

from pmw.service.wire import (
    Fields,
    WireError,
    c_text,
    constant_of,
    data,
    described,
    forms_of,
    message,
    notice,
    parameters_of,
    refusal,
    statements,
    with_parameters,
)  # fmt: skip
from queries.catalogue import BOOL, DATE, FLOAT8, INT8, TEXT, TIMESTAMP, Column, ColumnType

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


@pytest.mark.parametrize("value", [math.nan, None])
def test_what_is_no_number_is_null(value: Any) -> None:
    assert parts_of(next(iter(data([Column("c", FLOAT8)], [0], [[value]])))) == [None]


def test_infinite_ends_and_lists_are_written_as_postgres_does() -> None:
    columns = [Column("a", FLOAT8), Column("b", FLOAT8), Column("c")]
    (row,) = data(columns, [0, 0, 0], [[math.inf, -math.inf, ["x", "y"]]])
    assert parts_of(row) == [b"Infinity", b"-Infinity", b"{x,y}"]


@pytest.mark.parametrize(
    ("value", "form", "oid"),
    [
        (b"north", 0, 1009),
        (b"{{1,2},{3,4}}", 0, 1016),
        (b'{"north}', 0, 1009),
        (b"{one}", 0, 1016),
        (struct.pack("!7i", 2, 0, 23, 1, 1, 1, 1), 1, 1007),
        (b"\0", 1, 1007),
    ],
)
def test_what_is_no_list_is_refused(value: bytes, form: int, oid: int) -> None:
    with pytest.raises(WireError, match="for a parameter") as refused:
        constant_of(value, form, oid, TEXT)
    assert refused.value.state == "22P02"


@given(st.lists(st.tuples(TEXTS, st.sampled_from([kind for kind, _ in VALUES])), max_size=5))
def test_columns_are_described_by_name_and_type(listed: list[tuple[str, ColumnType]]) -> None:
    sent = described([Column(name, kind) for name, kind in listed], [0] * len(listed))
    fields = Fields(sent[5:])
    found = []
    for _ in range(fields.number()):
        name, (_, _, oid, _, _, _) = fields.text(), struct.unpack("!IhIhih", fields.take(18))
        found.append((name, oid))
    assert found == [(name, kind.oid) for name, kind in listed]


@given(
    st.binary(max_size=60),
    st.lists(st.sampled_from(["text", "number", "numbers", "values", "take"]), max_size=6),
)
def test_random_fields_are_read_or_refused(body: bytes, calls: list[str]) -> None:
    fields = Fields(body)
    with contextlib.suppress(WireError):
        for call in calls:
            found = fields.take(4) if call == "take" else getattr(fields, call)()
            assert found is not None


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


@pytest.mark.parametrize(
    "value",
    ["", "{", "}", "a", "{a", "a}", "{a,}", "{,a}", '{"a"b}', '{"a}', "{{a}}", "{a}b}", '{"' + '\\"' * 2**18],
)
def test_what_is_no_list_is_refused_after_one_look_at_each_letter(value: str) -> None:
    """A text of a megabyte, of quotes alone, would otherwise take minutes."""
    with pytest.raises(WireError, match="expected a value of the type text"):
        constant_of(value.encode(), 0, 1009, TEXT)


@pytest.mark.parametrize(
    "value", ["1" * 2**19 + "x", "1." + "1" * 2**19 + "x", "+" * 2**19, "1e" + "1" * 2**19]
)
def test_what_is_no_number_is_refused_after_one_look_at_each_letter(value: str) -> None:
    with pytest.raises(WireError, match="expected a value of the type bigint"):
        constant_of(value.encode(), 0, 20, INT8)


def test_a_list_that_no_statement_has_room_for_is_refused_before_its_numbers_are_written_out() -> None:
    value = "{" + ",".join(["1e999"] * 10_000) + "}"
    with pytest.raises(WireError, match=r"at most 8,192 characters with its values, got 9,000 or more"):
        constant_of(value.encode(), 0, 1022, TEXT)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("SELECT 1; SELECT 2;", ["SELECT 1", " SELECT 2"]),
        ("SELECT ';' AS \";\" -- ;\n, $$;$$, $a$;$$;$a$, E'\\';'", None),
        (";; ;", []),
        ("/* ; */ SELECT 1", ["        SELECT 1"]),
        ("-- nothing", []),
        ("SELECT 'it''s;'", ["SELECT 'it''s;'"]),
    ],
)
def test_statements_end_at_semicolons_outside_of_texts(text: str, parts: list[str] | None) -> None:
    found = statements(text)
    assert len(found) == 1 if parts is None else found == parts


def test_comments_leave_every_place_as_it_is() -> None:
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


@given(TEXTS, TEXTS)
def test_errors_and_notices_hold_their_texts(text: str, hint: str) -> None:
    sent = refusal(WireError("42601", text, hint, position=7))
    assert sent.startswith(b"E")
    assert c_text(f"M{text}")[:-1] in sent or not text
    assert b"P7\0" in sent
    assert notice(text).endswith(b"\0\0")


def test_forms_are_told_for_all_columns_or_for_each() -> None:
    columns = [Column("a"), Column("b")]
    assert [forms_of(columns, one) for one in ([], [1], [0, 1])] == [[0, 0], [1, 1], [0, 1]]
    for wrong in ([0, 1, 0], [2], [0, 7]):
        with pytest.raises(WireError):
            forms_of(columns, wrong)


def test_a_message_says_how_long_it_is() -> None:
    assert message(b"Z", b"I") == b"Z\0\0\0\5I"
