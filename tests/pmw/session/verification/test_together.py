"""Answers that are stored together: what each of them must hold is looked at together, and no less."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.privacy.random_bits import repeatable_seed
from pmw.session.store import AnswerColumns, SessionStore, StoredAnswer
from pmw.session.verification import answers
from pmw.session.verification.answers import answer_checks
from pmw.session.verification.contents import Contents, read_contents
from queries import Domain, IntegerAttribute


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> tuple[Contents, list[StoredAnswer], int]:
    """Return a session's contents, its stored answers, some with typical errors, and how many were asked.

    Its noise is the same in every run: without a positive, no version can fall.
    """
    numbers = itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pmw.session.journal.fresh_seed", lambda: repeatable_seed(6, next(numbers)))
        return answered(tmp_path_factory)


def answered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Contents, list[StoredAnswer], int]:
    """Ask a new session many questions, and return what its file holds."""
    age = np.random.default_rng(1).integers(0, 20, 4000)
    hours = np.minimum(age // 2 + np.random.default_rng(2).integers(0, 6, 4000), 11)
    table = tmp_path_factory.mktemp("table") / "people.csv"
    pd.DataFrame({"age": age, "hours": hours}).to_csv(table, index=False)
    domain = Domain(tuple(IntegerAttribute(name, 0, size) for name, size in SIZES.items()), "people")
    path = table.with_name("study.pmw")
    frame = pd.read_csv(table).assign(k=2, m=1)
    with pmw.open_session(frame, domain, epsilon=1, delta=1e-9, path=path) as session:
        generator = np.random.default_rng(3)
        for names in (("age", "hours"), ("age", "k"), ("hours", "k"), ("k", "m"), ("age",)):
            ends = [np.sort(generator.integers(0, SIZES[name] + 1, (300, 2)), axis=1) for name in names]
            session.answer_arrays(names, *(np.stack([one[:, end] for one in ends], axis=1) for end in (0, 1)))
    with closing(SessionStore.open(path)) as store:
        newer = {first + one for first, run in store.answers.newer_runs() for one in range(run.total())}
        stored = [one for number, one in enumerate(store.answers.each(), 1) if number not in newer]
        assert sum(len(one) > 1 for one in store.answers.blocks()) > 3
        assert stored[-1].version > 0
        return read_contents(store), stored, store.asked()


SIZES = {"age": 19, "hours": 11, "k": 6, "m": 3}


class Given:
    """A store of answers, in runs that have share and version in common."""

    def __init__(self, stored: list[StoredAnswer], asked: int, *, together: bool) -> None:
        self._stored = stored
        self._asked = asked
        self._together = together

    @property
    def answers(self) -> Given:
        return self

    def blocks(self) -> Iterator[AnswerColumns]:
        start = 0
        while start < len(self._stored):
            first, stop = self._stored[start], start + 1
            while stop < len(self._stored) and common(self._stored[stop]) == common(first):
                stop += 1
            run = self._stored[start:stop]
            yield from [AnswerColumns.of(run)] if self._together else (AnswerColumns.of([one]) for one in run)
            start = stop

    def asked(self) -> int:
        return self._asked

    def newer_runs(self) -> list[Any]:
        return []


def common(one: StoredAnswer) -> tuple[Any, ...]:
    return one.source == "measured", one.confidence, one.share, one.version


def found(contents: Contents, stored: list[StoredAnswer], asked: int, *, together: bool) -> list[Any]:
    store: Any = Given(stored, asked, together=together)
    return [(check.name, check.holds, check.detail) for check in answer_checks(contents, store)]


def test_what_holds_is_looked_at_together(
    read: tuple[Contents, list[StoredAnswer], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, stored, _ = read
    assert {one.typical is None for one in stored} == {False, True}
    alone = found(*read, together=False)
    assert all(holds for _, holds, _ in alone)
    looked = mock.create_autospec(answers._Transcript.read, side_effect=answers._Transcript.read)
    monkeypatch.setattr(answers._Transcript, "read", looked)
    assert found(*read, together=True) == alone
    assert looked.call_count < 20  # those that stand alone


def moved(
    pair: tuple[float, float] | None, low: float = 0.0, high: float = 0.0
) -> tuple[float, float] | None:
    return None if pair is None else (pair[0] + low, pair[1] + high)


TAMPERINGS: dict[str, Callable[[StoredAnswer], dict[str, Any]]] = {
    "no number": lambda one: {"count": math.nan},
    "below zero": lambda one: {"count": -1.0},
    "above its interval": lambda one: {"count": (one.interval or (0, 0))[1] + 1},
    "below its interval": lambda one: {"interval": moved(one.interval, low=one.count + 1)},
    "an infinite end": lambda one: {"interval": (0.0, math.inf)},
    "a low end below zero": lambda one: {"interval": (-1.0, 4000.0)},
    "no interval": lambda one: {"interval": None},
    "an interval without a promise": lambda one: {"source": "exhausted"},
    "typical moved": lambda one: {"typical": moved(one.typical, high=1e-9) or (0.0, 1.0)},
    "typical taken away": lambda one: {"typical": None},
    "typical without a kind": lambda one: {"kind": None, "typical": (0.0, 1.0)},
    "another kind": lambda one: {"kind": "1 bins" if one.typical else "3 bins", "typical": (0.0, 2.0)},
    "confidence": lambda one: {"confidence": 0.9},
    "a share above one": lambda one: {"share": 1.5},
    "a share that falls": lambda one: {"share": 0.0},
    "a share that never was": lambda one: {"share": one.share + 1e-9},
    "a version that falls": lambda one: {"version": 0},
    "a version that never was": lambda one: {"version": one.version + 9},
    "measured": lambda one: {"source": "measured"},
    "an unknown source": lambda one: {"source": "guessed"},
}


@pytest.mark.parametrize("tampering", TAMPERINGS)
@pytest.mark.parametrize("whole", [False, True])
def test_what_is_wrong_is_found_as_one_by_one(
    read: tuple[Contents, list[StoredAnswer], int], tampering: str, *, whole: bool
) -> None:
    """One answer of a run, and a whole run: the same checks fail, with the same words."""
    contents, stored, asked = read
    last = [one for one in stored if one.typical][-1]
    places = [
        place for place, one in enumerate(stored) if common(one) == common(last) and one.typical is not None
    ]
    changed = list(stored)
    for place in places if whole else places[len(places) // 2 :][:1]:
        changed[place] = replace(stored[place], **TAMPERINGS[tampering](stored[place]))
    alone = found(contents, changed, asked, together=False)
    assert not all(holds for _, holds, _ in alone)
    assert found(contents, changed, asked, together=True) == alone


def test_an_accuracy_contract_bounds_how_far_ends_are(
    read: tuple[Contents, list[StoredAnswer], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    contents, stored, _ = read
    reach = max((one.interval or (0, 0))[1] - one.count for one in stored)
    monkeypatch.setattr(type(contents.contract.options), "bar_limit", property(lambda _: reach / 2))
    alone = found(*read, together=False)
    assert not all(holds for _, holds, _ in alone)
    assert found(*read, together=True) == alone
