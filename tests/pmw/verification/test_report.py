"""The words of a verification's report."""

from __future__ import annotations

from pmw.verification.report import counted


def test_one_thing_is_not_many() -> None:
    assert [counted(number, "answer") for number in (0, 1, 1_000)] == [
        "0 answers",
        "1 answer",
        "1,000 answers",
    ]
