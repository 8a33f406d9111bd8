"""The journal: a session that is read back from its file has the bits that it had."""

from __future__ import annotations

import itertools
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import pmw
from pmw.loop.secret import SecretState
from pmw.model.dense import DenseDistribution
from pmw.public.state import PublicState
from pmw.session.journal import secret_facts
from pmw.session.loading import load_secret
from pmw.session.maintenance import read_session
from pmw.session.store.rows import Outcome
from pmw.session.store.store import SessionStore
from pmw.sparse_vector import NoisyThreshold
from queries import LinearQuery, random_conjunctions
from tests.pmw.session.stored import execute, tamper
from tests.worlds import PEOPLE

TEXTBOOK = pmw.Options(test=pmw.TestKind.QUERY)


def questions() -> list[LinearQuery]:
    """Return narrow questions on the last attributes, and others."""
    last = [
        LinearQuery.cells(PEOPLE.domain, {"region": (cell, cell), "member": (flag, flag)})
        for cell in range(4)
        for flag in range(2)
    ]
    return [*last, *random_conjunctions(PEOPLE.domain, 40, seed=5), *reversed(last)]


def cells(state: PublicState) -> NDArray[np.float64]:
    """Return the model's records per cell."""
    assert isinstance(state.model, DenseDistribution)
    return state.model.values


def same_bits(first: PublicState, second: PublicState) -> bool:
    same_answers = all(first.model.answer(query) == second.model.answer(query) for query in questions())
    same_cells = np.array_equal(cells(first), cells(second))
    return first.version == second.version and same_answers and same_cells


@pytest.mark.usefixtures("repeatable")
@pytest.mark.parametrize("update", pmw.UpdateRule)
def test_a_session_has_the_same_model_to_the_last_bit_with_and_without_its_snapshot(
    tmp_path: Path, update: pmw.UpdateRule
) -> None:
    """Its noise is the same in every run: after a large threshold, 2,000 questions may correct nothing."""
    path, query = tmp_path / "study.pmw", questions()[0]
    with PEOPLE.opened(
        path, test=pmw.TestKind.QUERY, threshold=0.5, update_limit=20, update=update
    ) as session:
        states = [session.state]
        for asked in itertools.islice(itertools.cycle(questions()), 2000):
            if session.state.version == 15:
                break
            session.ask(asked, fresh=True)
            states.append(session.state)
            if session.state.version % 7 == 0:
                assert same_bits(read_session(path)[0], session.state)
    assert states[-1].version == 15
    answers = [state.model.answer(query) for state in states]  # earlier states still answer as they did
    assert len(set(answers)) > 10
    totals = [state.model.marginal(()).item() for state in states]
    assert totals == pytest.approx([state.total.value for state in states])
    assert [state.model.answer(query) for state in states] == answers
    first = cells(states[-1])  # made again from its terms, should the array be elsewhere
    for statement in ("", "DELETE FROM snapshots"):
        execute(path, statement)
        assert same_bits(read_session(path)[0], states[-1])
    with pmw.resume_session(path, PEOPLE.frame) as session:
        assert np.array_equal(cells(session.state), first)
        for asked in questions()[:5]:  # goes on
            session.ask(asked, fresh=True)
        assert same_bits(read_session(path)[0], session.state)


def test_a_session_whose_domain_is_beyond_the_limit_is_refused_before_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "study.pmw"
    PEOPLE.opened(path, epsilon=1, delta=0, options=TEXTBOOK).close()
    content = path.read_bytes()
    monkeypatch.setattr("pmw.model.dense.LARGEST_DENSE_DOMAIN", 239)
    for go_on in (pmw.resume_session, read_session):
        with pytest.raises(pmw.BudgetError, match="has 240 cells; a dense model holds at most 239"):
            go_on(path)
    monkeypatch.undo()
    assert path.read_bytes() == content
    pmw.resume_session(path, PEOPLE.frame).close()


def test_a_ledger_beyond_its_cap_is_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "s.pmw"
    PEOPLE.opened(path, epsilon=1, options=TEXTBOOK).close()
    tamper(path, "UPDATE ledger SET rho = '1/2' WHERE sequence = 2")
    with pytest.raises(pmw.SessionCorruptError, match="its charges exceed the cap"):
        read_session(path)


def test_threshold_noise_is_written_where_it_changed_and_wiped_where_its_round_closed() -> None:
    rounds = (None, NoisyThreshold(3), NoisyThreshold(3, 4), NoisyThreshold(3, 5), NoisyThreshold(-3, 5))
    states = [SecretState(pair) for pair in itertools.product(rounds, rounds)]
    with closing(SessionStore.create(None, bytes(32), Outcome())) as store:
        for before, after in itertools.product(states, states):
            store.finish(None, Outcome(secrets={"threshold 0": None, "threshold 1": None}))
            store.finish(None, Outcome(secrets=secret_facts(before, SecretState.closed(2))))
            facts = secret_facts(after, before)
            store.finish(None, Outcome(secrets=facts))
            assert load_secret(store, 2) == after
            for tier, (now, then) in enumerate(zip(after.thresholds, before.thresholds, strict=True)):
                assert (f"threshold {tier}" in facts) == (now != then)
