"""Answers and status: their formats."""

from __future__ import annotations

import json

import pytest

from pmw.public.answer import Answer, Source, Spent

ANSWER = Answer(
    5321.4375, 0.108951234, (5210.0, 5433.0), 0.95, Source.SYNTHETIC, True, 12, Spent(0.31, 1.0, 1e-9)
)


def test_the_format_is_the_documented_one() -> None:
    assert json.dumps(ANSWER.to_dict()) == (
        '{"count": 5321.4375, "fraction": 0.108951234, "interval": [5210.0, 5433.0], "typical": null, '
        '"confidence": 0.95, "source": "synthetic", "aligned": true, "version": 12, '
        '"spent": {"share": 0.31, "epsilon_cap": 1.0, "delta": 1e-09}}'
    )


def test_a_seeded_answer_says_so() -> None:
    seeded = Answer(1.0, 0.1, None, 0.95, Source.EXHAUSTED, True, 0, Spent(1.0, 1.0, 0.0), seeded=True)
    assert seeded.to_dict()["seeded"] is True
    assert seeded.to_dict()["interval"] is None


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (ANSWER, "about 5,321 records (10.90%), between 5,210 and 5,433 at 95% confidence"),
        (
            Answer(7.0, 0.5, None, 0.9, Source.EXHAUSTED, False, 3, Spent(1.0, 1.0, 0.0)),
            "about 7 records (50.00%), without an error bar; "
            "cells do not decide the condition, and the count takes a part of their records",
        ),
        (
            Answer(7.0, 0.5, (0.0, 9.0), 0.9, Source.SYNTHETIC, False, 3, Spent(1.0, 1.0, 0.0)),
            "about 7 records (50.00%), between 0 and 9 at 90% confidence; "
            "cells do not decide the condition, and the count takes a part of their records, "
            "the error bar none to all",
        ),
    ],
)
def test_the_sentence(answer: Answer, sentence: str) -> None:
    assert answer.sentence() == sentence
