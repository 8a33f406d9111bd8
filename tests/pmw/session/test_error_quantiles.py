"""Error quantiles in sessions: when they are due, of which answers, what they charge, and faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import pmw
from pmw.data import MemorySource
from pmw.privacy.budget import Composition, NeighboringRelation
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.public.answer import Basis
from pmw.public.charges import quantile_entry
from pmw.public.error_quantiles import SHARE, rank_of
from pmw.session.accounts import SESSION
from queries import (
    UNITS,
    Domain,
    LinearQuery,
    random_conjunctions,
)
from tests.pmw.session.stored import edit, failed, tamper
from tests.worlds import PEOPLE, WHOLE_YEARS

DUE = 256
Opened = Callable[..., pmw.Session]


@pytest.fixture
def opened(opened: Opened) -> Opened:
    return partial(opened, composition=Composition.ZCDP)


def questions(domain: Domain, size: int) -> list[LinearQuery]:
    """Return distinct questions."""
    found = {one.to_json(): one for one in random_conjunctions(domain, 2 * size, seed=9)}
    return list(found.values())[:size]


def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let single numbers be drawn without noise from now on."""
    for kind in (DiscreteGaussian, DiscreteLaplace):
        monkeypatch.setattr(kind, "sample", lambda *_: 0)


def errors(asked: Sequence[LinearQuery], answers: Sequence[pmw.Answer]) -> list[tuple[pmw.Answer, float]]:
    source = MemorySource.from_frame(PEOPLE.frame, asked[0].domain)
    truth = [query.answer(source.counts(query.scope)) / UNITS for query in asked]
    return [(answer, abs(answer.count - true)) for answer, true in zip(answers, truth, strict=True)]


def test_the_quantile_is_of_the_first_answers_of_distinct_questions(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = questions(WHOLE_YEARS.domain, 250)
    with opened(seed=5, epsilon=4) as session:
        first: Sequence[pmw.Answer] = session.ask_all(asked)
        session.measure(["sex", "member"])
        again = session.ask_all(asked[:12], fresh=True)
        assert any(one.count != other.count for one, other in zip(first, again, strict=False))
        assert session.state.asked > DUE
        last = questions(WHOLE_YEARS.domain, DUE)[250:]
        first = (*first, *session.ask_all(last))
        assert not session.state.quantiles
        still(monkeypatch)
        session.ask("age = 33")  # question 257 looks at those before it
        released = session.state.quantiles
    assert released
    assert all(one.asked == DUE + 12 for one in released)
    found = errors([*asked, *last], list(first))
    for one in released:
        alike = sorted(error for answer, error in found if answer.kind == one.kind)
        rank = rank_of(len(alike), 0.95)
        assert rank is not None
        assert one.questions == len(alike) >= 40
        assert one.units == pytest.approx(alike[rank - 1] * UNITS, abs=1)


def test_answers_say_what_is_typical_from_then_on_and_repeat_what_they_said(opened: Opened) -> None:
    asked = questions(WHOLE_YEARS.domain, 400)
    with opened(seed=1) as session:
        answers = session.ask_all(asked)
        state = session.state
        known = {one.kind: one for one in state.quantiles}
        for number, answer in enumerate(answers, start=1):
            if number <= DUE or answer.kind not in known:
                assert answer.typical is None
                continue
            width = known[answer.kind].half_width(0.95)
            assert answer.typical == (max(0.0, answer.count - width), answer.count + width)
            assert answer.interval is not None
        typical = [answer for answer in answers if answer.typical is not None]
        assert len(typical) > 20
        told_again = zip(session.ask_all(asked), answers, strict=True)
        assert all(replace(again, spent=answer.spent) == answer for again, answer in told_again)
        assert session.verify().holds
    assert {one.kind.basis for one in state.quantiles} <= {Basis.TESTED, Basis.BINS}
    shown = typical[0].to_dict()
    assert shown["typical"] == list(typical[0].typical or ())
    assert "of such questions were as near as" in max(typical, key=gain).sentence()


def gain(answer: pmw.Answer) -> float:
    assert answer.interval is not None
    assert answer.typical is not None
    return answer.interval[1] - answer.interval[0] - (answer.typical[1] - answer.typical[0])


@pytest.mark.parametrize("relation", list(NeighboringRelation))
@pytest.mark.parametrize("composition", list(Composition))
def test_what_is_charged_is_what_the_noise_costs_and_at_most_its_share(
    opened: Opened, composition: Composition, relation: NeighboringRelation
) -> None:
    choices = {"composition": composition, "neighboring_relation": relation}
    with opened(seed=2, epsilon=12 if composition is Composition.PURE else 3, **choices) as session:
        session.ask_all(questions(WHOLE_YEARS.domain, 530))
        state, ledger = session.state, session.ledger()
        assert session.verify().holds
    assert state.quantiles
    entries = [
        quantile_entry(one.kind.describe(), one.noise, state.contract.options) for one in state.quantiles
    ]
    lines = [line for line in ledger.lines if line.event == "error quantile"]
    assert [line.label for line in lines] == [entry.label for entry in entries]
    assert [line.price for line in lines] == [state.ledger.price(entry.charge) for entry in entries]
    assert 0 < sum(line.price for line in lines) <= ledger.cap * SHARE
    assert state.ledger.spent == sum(line.price for line in ledger.lines)


def test_asked_one_at_a_time_they_are_due_after_the_same_answer(opened: Opened) -> None:
    with opened(seed=5) as session:
        for question in questions(WHOLE_YEARS.domain, DUE):
            session.ask(question)
        assert not session.state.quantiles
        session.ask("age = 33")
        assert {one.asked for one in session.state.quantiles} == {DUE}


@pytest.mark.usefixtures("repeatable")
def test_without_its_table_a_session_answers_what_is_free_and_releases_no_quantile(
    opened: Opened, tmp_path: Path
) -> None:
    path = tmp_path / "study.pmw"
    asked = questions(WHOLE_YEARS.domain, DUE)
    with opened(path) as session:
        session.ask_all(asked)
        spent = session.state.ledger.spent
    with pmw.resume_session(path) as session:  # the table was in memory, and is not given
        answer = session.ask("age BETWEEN 23 AND 58")
        assert answer.interval is not None
        assert session.state.quantiles == ()
        assert session.state.settled == DUE + 1
        assert session.state.ledger.spent == spent
    with pmw.resume_session(path, PEOPLE.frame) as session:
        session.ask("sex = 'Female'", fresh=True)
        assert session.state.quantiles == ()  # it was due before, and goes by


@pytest.mark.usefixtures("repeatable")
def test_a_quantile_that_was_not_due_or_lost_its_charge_is_found(opened: Opened, tmp_path: Path) -> None:
    path = tmp_path / "study.pmw"
    with opened(path) as session:
        session.ask_all(questions(WHOLE_YEARS.domain, DUE))
        session._engine._release_due(SESSION)  # what the next question does first
        assert session.state.quantiles
    whole = path.read_bytes()
    edit(path, "measurements", "what", "kind = 'error quantiles'", lambda text: text.replace("256", "255"))
    assert "the error quantiles are those that were due" in failed(path)
    path.write_bytes(whole)
    tamper(path, "DELETE FROM ledger WHERE event = 'error quantile'")
    assert len(failed(path)) > 0
