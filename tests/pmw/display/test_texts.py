"""Small texts: numbers with their nouns."""

from __future__ import annotations

from pmw.display.texts import counted


def test_one_thing_is_not_many() -> None:
    assert [counted(number, "answer") for number in (0, 1, 1_000)] == [
        "0 answers",
        "1 answer",
        "1,000 answers",
    ]


def test_what_is_written_as_one_is_one() -> None:
    assert [counted(number, "record") for number in (0.6, 1.4, 1.6, "1", "0.5")] == [
        "1 record",
        "1 record",
        "2 records",
        "1 record",
        "0.5 records",
    ]
