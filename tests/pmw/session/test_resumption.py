"""Resumption: a session that is taken up again holds the rounds that it paid for, in both tiers."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.loop import draw_tests
from pmw.loop.secret import SecretState
from pmw.privacy.random_bits import BitSource
from pmw.session.loading import load_secret
from pmw.session.maintenance import read_session
from pmw.session.store import Outcome, SessionStore
from queries import CategoricalAttribute, Domain, LinearQuery

DOMAIN = Domain(tuple(CategoricalAttribute(name, tuple("stuvwxyz")) for name in "abcde"))
SINGLE, MARGINAL = "threshold noise drawn for single questions", "threshold noise drawn"


def boxed(*names: str, low: int = 0) -> LinearQuery:
    return LinearQuery.cells(DOMAIN, dict.fromkeys(names, (low, 5)))


def five(low: int) -> LinearQuery:
    """Return a question about more cells than a marginal is tested on: it is tested by itself."""
    return boxed(*"abcde", low=low)


def _people() -> pd.DataFrame:
    cells = np.random.default_rng(1).integers(0, 8, (5000, 5))
    return pd.DataFrame(np.array(list("stuvwxyz"))[cells], columns=list("abcde"))


PEOPLE = _people()
OPTIONS = pmw.Options(composition=pmw.Composition.ZCDP, update_limit=4)


@pytest.fixture
def path(tmp_path: Path, repeatable: None) -> Path:
    """Open a session on a file; return its path."""
    made, table = tmp_path / "s.pmw", tmp_path / "people.csv"
    PEOPLE.to_csv(table, index=False)
    pmw.open_session(table, DOMAIN, epsilon=2, delta=1e-9, path=made, options=OPTIONS).close()
    return made


def stored(path: Path) -> SecretState:
    with closing(SessionStore.open(path)) as store:
        return load_secret(store, 2)


def rounds(session: pmw.Session, label: str) -> int:
    return sum(line.label == label for line in session.ledger().lines)


def test_an_open_round_of_single_questions_is_neither_charged_nor_drawn_again_after_a_resumption(
    path: Path,
) -> None:
    with pmw.resume_session(path) as session:
        session.ask(five(0))
        assert session.state.rounds[1]
        assert not session.state.round_open
        drawn = session._engine._secret
    assert drawn.thresholds[0] is None
    assert drawn.thresholds[1] is not None
    for low in (1, 2):
        assert read_session(path)[0].rounds[1]
        with pmw.resume_session(path) as session:
            assert session.state.rounds[1]
            assert not session.state.round_open
            assert session._engine._secret == stored(path) == drawn
            spent = session.state.ledger.spent
            session.ask(five(low))
            assert session.state.positives(1) == 0
            assert session._engine._secret == stored(path) == drawn
            assert (rounds(session, SINGLE), rounds(session, MARGINAL)) == (1, 0)
            assert session.state.ledger.spent == spent


def test_the_rounds_of_both_tiers_come_back_each_to_its_own(path: Path) -> None:
    with pmw.resume_session(path) as session:
        session.ask(five(0))
        for pair in (("a", "b"), ("c", "d"), ("a", "e"), ("b", "d")):
            session.ask(boxed(*pair))
            if session.state.round_open:
                break
        assert session.state.round_open
        drawn = session._engine._secret
        paid = rounds(session, SINGLE), rounds(session, MARGINAL)
    marginals, questions = drawn.thresholds
    assert marginals is not None
    assert questions is not None
    assert marginals.lower is None
    assert questions.lower is not None
    with pmw.resume_session(path) as session:
        assert session.state.rounds == (True, True)
        assert session._engine._secret == stored(path) == drawn
        session.ask(five(1))
        assert session._engine._secret == drawn
        assert (rounds(session, SINGLE), rounds(session, MARGINAL)) == paid
        assert session.verify().holds


def test_tests_after_a_resumption_use_the_threshold_noise_that_was_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pmw.resume_session(path) as session:
        session.ask(five(0))
    seen: list[SecretState] = []

    def noting(*given: Any) -> Any:
        seen.append(given[2])
        return draw_tests(*given)

    monkeypatch.setattr("pmw.session.engine.draw_tests", noting)
    with pmw.resume_session(path) as session:
        session.ask(five(1))
    assert seen == [stored(path)]


@pytest.mark.parametrize("damage", ["gone", "differs"])
@pytest.mark.parametrize("question", [five(1), boxed("a", "b")])
def test_a_table_that_cannot_be_read_is_found_out_before_anything_is_recorded(
    path: Path, damage: str, question: LinearQuery
) -> None:
    table = path.with_name("people.csv")
    table.unlink()
    if damage == "differs":
        PEOPLE.iloc[1:].to_csv(table, index=False)
    companion = path.with_name("s.pmw-companion").read_bytes()
    with pmw.resume_session(path) as session:
        before = session.state
        for _ in range(2):
            with pytest.raises(pmw.DataError, match=r"differs|no such file"):
                session.ask(question)
            with closing(SessionStore.open(path)) as store:
                assert store.pending() is None
                assert load_secret(store, 2) == SecretState.closed(2)
            assert session.state is before
            assert path.with_name("s.pmw-companion").read_bytes() == companion
        session.ask(boxed("a"))  # what was measured answers: no table is needed
        PEOPLE.to_csv(table, index=False)
        session.ask(question)
        assert session.state.ledger.spent > before.ledger.spent
        assert session.verify().holds


def test_each_batch_of_a_session_with_repeatable_noise_has_bytes_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seeds, source = list[bytes](), BitSource.__init__

    def noting(bits: BitSource, seed: bytes) -> None:
        seeds.append(seed)
        source(bits, seed)

    monkeypatch.setattr(BitSource, "__init__", noting)
    options = replace(OPTIONS, seed=1)
    with pmw.open_session(PEOPLE, DOMAIN, epsilon=2, delta=1e-9, options=options) as session:
        for low in range(3):
            session.ask(five(low))
    assert len(set(seeds)) == len(seeds) == 4  # the opening's too


def test_what_is_written_goes_on_from_the_charges_that_its_state_was_made_of(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, told = SessionStore.finish, list[tuple[str, int | None, int]]()

    def noting(store: SessionStore, intent: int | None, outcome: Outcome) -> None:
        if intent is not None or outcome.columns:
            newer = "newer answers" if outcome.are_newer else "free answers"
            kind = newer if intent is None else "a batch" if outcome.columns else "a release"
            told.append((kind, outcome.charged_before, store.charge_count()))
        finish(store, intent, outcome)

    monkeypatch.setattr(SessionStore, "finish", noting)
    for low in range(2):
        with pmw.resume_session(path) as session:
            session.ask(five(low))
            session.ask(boxed("a", "b", low=low))
            session.ask(boxed("c", low=low))
    with pmw.resume_session(path) as session:
        session.measure(("a", "b"))
        session.ask(boxed("a", "b"))
    assert {kind for kind, *_ in told} == {"a batch", "a release", "free answers", "newer answers"}
    assert all(before == found for _, before, found in told)
    assert len({found for *_, found in told}) > 2


@pytest.mark.parametrize("kind", ["tests", "requested"])
def test_of_what_could_not_be_kept_nothing_is_seen_and_the_next_question_finishes_it(
    path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(store: SessionStore, intent: int | None, outcome: Outcome) -> None:
        raise pmw.StoreError("no room")

    with pmw.resume_session(path) as session:
        before = session.state
        with monkeypatch.context() as patch:
            patch.setattr(SessionStore, "finish", failing)
            with pytest.raises(pmw.StoreError, match="no room"):
                session.measure(("a", "b")) if kind == "requested" else session.ask(five(0))
            assert session.state is before
        with closing(SessionStore.open(path)) as store:
            waiting = store.pending()
        assert waiting is not None
        assert waiting.kind == kind
        session.ask(boxed("c"))  # which is free
        with closing(SessionStore.open(path)) as store:
            assert (store.last_intent(), store.pending()) == (waiting.id, None)
        assert session.state.ledger.spent > before.ledger.spent
        assert session.verify().holds
