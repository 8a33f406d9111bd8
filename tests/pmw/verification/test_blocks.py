"""Blocks of answers: what is accepted many at once would be accepted one by one, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.store import SessionStore, StoredAnswer
from pmw.verification.answers import Expected, expected_answers, require_an_expected_answer
from pmw.verification.blocks import are_expected
from pmw.verification.books import read_books
from pmw.verification.pieces import Pieces
from pmw.verification.replay import Replay
from pmw.verification.report import FAULTS
from pmw.verification.transcript import replay_of
from queries import CategoricalAttribute, Domain, IntegerAttribute, random_conjunctions

WIDE = Domain(
    (
        CategoricalAttribute("sex", ("Female", "Male")),
        IntegerAttribute("age", 0, 79),
        IntegerAttribute("hours", 0, 59),
        CategoricalAttribute("grade", tuple("abcdefgh")),
        IntegerAttribute("weeks", 0, 39),
    )
)
ASKED = ["", "age >= 40 OR sex = 'Male'", "age >= 40 AND hours = 7", "hours >= 59", "grade = 'c'"]

NOTHING = "nothing is found wrong"  # so that certificates are of the very version that answers

# Options of a session, and the least part of its answers that is recomputed at once.
KINDS: dict[str, tuple[dict[str, Any], float]] = {
    "marginals": ({}, 0.8),
    "all at once": ({"simultaneous": True}, 0.8),
    "plain sums": ({"composition": pmw.Composition.PURE, "update_limit": 3}, 0.8),
    "no opening": ({"opening": pmw.Opening.NONE}, 0.5),
    "few cells": ({"max_cells": 60}, 0.8),
    "few positives": ({"update_limit": 2}, 0.8),
    NOTHING: ({}, 0.6),
    "questions": ({"test": pmw.TestKind.QUERY, "threshold": 200.0, "update_limit": 4}, 0.4),
}


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    generator = np.random.default_rng(4)
    age = generator.integers(0, 80, 4000)
    return pd.DataFrame(
        {
            "sex": np.where(generator.random(4000) < age / 80, "Female", "Male"),
            "age": age,
            "hours": np.clip(age // 2 + generator.integers(0, 20, 4000), 0, 59),
            "grade": generator.choice(list("abcdefgh"), 4000),
            "weeks": generator.integers(0, 40, 4000),
        }
    )


@pytest.fixture(scope="module", params=list(KINDS))
def study(request: pytest.FixtureRequest, people: pd.DataFrame) -> Iterator[tuple[SessionStore, float]]:
    choices, least = KINDS[request.param]
    options, epsilon, count = pmw.Options(seed=8, **choices), 2.0, 700
    if request.param == NOTHING:
        shuffled = np.random.default_rng(5).permuted
        people = pd.DataFrame({name: shuffled(people[name].to_numpy()) for name in people})
        epsilon, count = 0.3, 1600
    with pmw.open_session(people, WIDE, epsilon=epsilon, delta=1e-9, options=options) as session:
        session.ask_all(ASKED)
        session.ask_all(list(random_conjunctions(WIDE, count, seed=3)))
        assert session.verify().holds
        session.seal()
        session.ask_all(list(random_conjunctions(WIDE, 60, seed=4)))
        yield session._open_store(), least


def blocks(store: SessionStore) -> Iterator[tuple[list[StoredAnswer], Replay, Pieces]]:
    """Yield the stored answers in blocks of one version, with their replay as a verification has it."""
    books = read_books(store)
    replay, pieces = replay_of(books, store), Pieces(books.coarsening)
    rows: list[StoredAnswer] = []
    for number, row in enumerate(store.answers()):
        if rows and (row.version != rows[0].version or row.source == "measured"):
            yield rows, replay, pieces
            rows = []
        if row.source != "measured":
            if not rows:
                replay.answers = number
            rows.append(row)
    yield rows, replay, pieces


def holds_alone(row: StoredAnswer, replay: Replay) -> bool:
    try:
        require_an_expected_answer(row, expected_answers(row, replay))
    except FAULTS:
        return False
    return True


def test_most_answers_are_recomputed_at_once_and_each_of_them_holds_alone(
    study: tuple[SessionStore, float],
) -> None:
    store, least = study
    total = accepted = 0
    for rows, replay, pieces in blocks(store):
        first = replay.answers
        found = are_expected(rows, replay, pieces)
        assert len(found) == len(rows)
        for place, row in enumerate(rows):
            replay.answers = first + place
            assert holds_alone(row, replay)
        total += len(rows)
        accepted += sum(found)
    assert accepted >= least * total


def alterations(row: StoredAnswer) -> Iterator[StoredAnswer]:
    """Yield the answer with one thing altered at a time."""
    off = max(1.0, 1e-3 * row.count)
    yield replace(row, count=row.count + off)
    yield replace(row, count=float("nan"))
    yield replace(row, count=float("inf"))
    yield replace(row, interval=(float("inf"), float("inf")))
    yield replace(row, confidence=row.confidence / 2)
    yield replace(row, query_key=bytes(32))
    yield replace(row, query=row.query + " ")
    for source in {"synthetic", "exhausted", "unverified", "told"} - {row.source}:
        yield replace(row, source=source)
    if row.interval is None:
        yield replace(row, interval=(row.count, row.count))
        return
    low, high = row.interval
    yield replace(row, interval=None)
    yield replace(row, interval=(low + off, high))
    yield replace(row, interval=(low, high + off))
    yield replace(row, interval=(row.count, row.count))


def test_no_altered_answer_is_accepted_that_would_not_be_alone(study: tuple[SessionStore, float]) -> None:
    refused = 0
    for rows, replay, pieces in blocks(study[0]):
        first = replay.answers
        altered = {place: list(alterations(rows[place])) for place in range(0, len(rows), 3)}
        for number in range(max(map(len, altered.values()))):
            chosen = {place: one[number] for place, one in altered.items() if number < len(one)}
            block = [chosen.get(place, row) for place, row in enumerate(rows)]
            found = are_expected(block, replay, pieces)
            for place, row in chosen.items():
                replay.answers = first + place
                alone = holds_alone(row, replay)
                assert alone or not found[place]
                refused += not alone
            replay.answers = first
    assert refused > 500


def test_an_altered_answer_is_found_among_many(study: tuple[SessionStore, float]) -> None:
    rows, replay, pieces = max(
        ((rows, replay, pieces) for rows, replay, pieces in blocks(study[0])), key=lambda block: len(block[0])
    )
    before = are_expected(rows, replay, pieces)
    place = before.index(True)
    rows[place] = replace(rows[place], count=rows[place].count + 5)
    after = are_expected(rows, replay, pieces)
    assert [number for number, pair in enumerate(zip(before, after, strict=True)) if len({*pair}) > 1] == [
        place
    ]


def test_a_verification_looks_at_few_answers_by_themselves(
    people: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = []

    def noted(row: StoredAnswer, replay: Replay) -> tuple[Expected, ...]:
        alone.append(row)
        return expected_answers(row, replay)

    monkeypatch.setattr("pmw.verification.transcript.expected_answers", noted)
    with pmw.open_session(people, WIDE, epsilon=2, delta=1e-9, options=pmw.Options(seed=8)) as session:
        session.ask_all(list(random_conjunctions(WIDE, 2000, seed=3)))
        assert session.verify().holds
        stored = session._open_store().answer_count()
    assert stored > 1500
    assert len(alone) < stored / 10
