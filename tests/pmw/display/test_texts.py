"""Texts: numbers with their nouns, and tables that fit a screen."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmw.display.texts import at_most_percent, counted, number, percent, terminal_text, text_table


def test_one_thing_is_not_many() -> None:
    told = [counted(value, "record") for value in (0, 1, 1_000, 0.6, 1.4, 1.6, "1", "0.5")]
    plain = ["0 records", "1 record", "1,000 records"]
    assert told == [*plain, "1 record", "1 record", "2 records", "1 record", "0.5 records"]


def test_records_are_written_in_plain_numbers() -> None:
    values = (0, 0.123, 8.64, 9.87, 60, 121.3, 1_234.5, float("nan"))
    assert list(map(number, values)) == ["0", "0.12", "8.6", "9.9", "60", "121", "1,234", "none"]
    parts = ["100%", "49.4%", "1.2%", "0.30%", "0.0%", "0.000000%"]
    assert [percent(value) for value in (1, 0.494, 0.0123, 0.00301, 0, 1e-12)] == parts


# --- tables ------------------------------------------------------------------------------------------------


HEADER = ("occupation", "sex", "count", "low")
ROWS = [("Transport-moving", "Female", "1,234", "1,000"), ("Sales", "Male", "5", "0")]


def test_without_a_limit_nothing_is_cut() -> None:
    assert "Transport-moving  Female  1,234  1,000" in text_table(HEADER, ROWS, left=2)


@pytest.mark.parametrize("width", range(28, 45))
def test_texts_are_cut_and_numbers_never(width: int) -> None:
    lines = text_table(HEADER, ROWS, left=2, width=width).split("\n")
    assert all(len(line) <= width for line in lines)
    assert lines[1].endswith("1,234  1,000") or "count: 1,234" in lines
    assert (width < 38) == any("Transport-moving" not in lines[1] for _ in lines)


@pytest.mark.parametrize("width", [1, 10, 20])
def test_what_is_too_narrow_for_columns_gets_a_record_for_each_row(width: int) -> None:
    assert text_table(HEADER, ROWS, left=2, width=width) == (
        "occupation: Transport-moving\nsex: Female\ncount: 1,234\nlow: 1,000\n\n"
        "occupation: Sales\nsex: Male\ncount: 5\nlow: 0"
    )


def test_a_table_of_numbers_is_never_cut() -> None:
    assert text_table(("a", "b"), [("12345", "67890")], width=11) == "a: 12345\nb: 67890"


@given(text=st.text(st.characters(), max_size=30))
def test_a_terminal_acts_on_nothing_in_a_text_and_json_says_the_same(text: str) -> None:
    told = terminal_text(text)
    assert all(one.isprintable() or one == "\n" for one in told)
    assert json.loads(terminal_text(json.dumps(text, ensure_ascii=False))) == text
    assert terminal_text(told) == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("plain\ntext ± 3 größer 日本", "plain\ntext ± 3 größer 日本"),
        ("\x1b[2J\x1b]0;x\x07\x9b", "\\u001b[2J\\u001b]0;x\\u0007\\u009b"),
        ("\u202e\u2066\u200f\x7f\r\t", "\\u202e\\u2066\\u200f\\u007f\\r\\t"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_cannot_be_seen_stands_as_json_writes_it(text: str, told: str) -> None:
    assert terminal_text(text) == told


def test_a_cell_of_a_table_stays_in_its_line() -> None:
    told = text_table(["a\x1b", "n"], [["x\ny", "1"]], left=1)
    assert [line.split() for line in told.splitlines()] == [["a\\u001b", "n"], ["x\\ny", "1"]]


@given(st.floats(0, 1))
def test_a_percentage_at_most_is_never_below_the_fraction_and_tells_it_from_certainty(
    fraction: float,
) -> None:
    shown = float(at_most_percent(fraction).removesuffix("%"))
    assert 100 * fraction <= shown + 1e-9
    assert shown <= 100 * fraction + 0.1 + 1e-9
    assert (shown == 100) == (100 * (1 - fraction) < 1e-6)


def test_a_percentage_at_most_is_rounded_up() -> None:
    told = {0.5: "50.0%", 0.73105: "73.2%", 0.98201: "98.3%", 0.99967: "99.967%", 1.0: "100%"}
    assert {fraction: at_most_percent(fraction) for fraction in told} == told
