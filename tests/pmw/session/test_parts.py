"""Parts of the reserve in sessions: when they are due, who pays, and that a crash changes nothing."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import pmw
from pmw.cli.texts import finish_plan_text
from pmw.errors import BudgetExhaustedError
from pmw.model.measurement import ResidualMeasurement
from pmw.public.clear import left_for_parts, pot_of_parts
from pmw.public.ledger import LedgerLine
from pmw.public.quotes import affordable_price
from pmw.session.accounts import Account
from pmw.session.store.rows import PARTS
from pmw.session.store.store import SessionStore
from queries import LinearQuery, QueryError
from queries.workloads import random_conjunctions
from tests.pmw.session.stored import cut_off, failed, waiting_of
from tests.pmw.session.test_reserve import opened
from tests.pmw.session.test_rows import DOMAIN, FRAME
from tests.worlds import repeat_noise

STREAM = list({one.to_json(): one for one in random_conjunctions(DOMAIN, 700, seed=6)}.values())
_KNOWN = {one.to_json() for one in STREAM}
OTHERS = [one for one in random_conjunctions(DOMAIN, 300, seed=7) if one.to_json() not in _KNOWN]


def lines(session: pmw.Session) -> list[LedgerLine]:
    return [line for line in session.ledger().lines if line.event == "part of the reserve"]


def bought(session: pmw.Session) -> list[ResidualMeasurement]:
    return [one for one in session.state.measured if isinstance(one, ResidualMeasurement) and one.part]


def ask(asker: pmw.Session | pmw.Analyst, queries: Sequence[LinearQuery]) -> None:
    for start in range(0, len(queries), 64):  # a part is bought before what comes next is asked
        asker.ask_all(queries[start : start + 64])


# --- when, and for how much ---------------------------------------------------------------------------------


def test_half_of_what_the_pot_holds_goes_to_a_part_after_64_and_256_questions() -> None:
    with opened() as session:
        pot = float(pot_of_parts(session.state) / session.state.ledger.cap)
        assert pot == pytest.approx(0.3 * 0.15)
        nobody = session.analyst("nobody", 0.5, at_most=0)
        ask(session, STREAM[:63])
        ask(session, [*STREAM[:63], STREAM[63]])  # repeats count nothing, nor what is free or refused
        ask(nobody, OTHERS[:70])
        with pytest.raises(QueryError):
            session.ask("height > 3")
        assert not lines(session)
        session.ask(STREAM[64])
        first = lines(session)
        assert sum(line.share for line in first) == pytest.approx(pot / 2, rel=1e-4)
        ask(session, STREAM[65:256])
        assert lines(session) == first
        ask(session, STREAM[256:260])
        assert sum(line.share for line in lines(session)) == pytest.approx(pot * 3 / 4, rel=1e-4)
        held = {one.scope for one in session.state.marginals if not one.part}
        assert all(one.scope in held or len(one.scope) == 3 for one in bought(session) if len(one.scope) > 1)
        assert left_for_parts(session.state) == pot_of_parts(session.state) - sum(
            line.price for line in lines(session)
        )


def test_however_a_stream_is_cut_the_same_part_is_bought() -> None:
    found = []
    for sizes in ([7] * 12, [80]):
        with opened() as session:
            left = iter(STREAM[:84])
            for size in sizes:
                session.ask_all(list(itertools.islice(left, size)))
            session.ask(STREAM[90])
            found.append([(line.label, line.price) for line in lines(session)])
    assert found[0] == found[1] != []


def test_a_resumed_session_counts_the_same_questions(tmp_path: Path) -> None:
    path, found = tmp_path / "study.pmw", list[dict[str, int]]()
    with opened(path) as session:
        session._open_store().answers.settled_counts()  # from here on they are counted as they come
        ask(session, STREAM[:5])
        ask(session.analyst("nobody", 0.5, at_most=0), [*OTHERS[:7], STREAM[0]])
        found.append(session._open_store().answers.settled_counts())
    with pmw.resume_session(path, FRAME) as session:
        found.append(session._open_store().answers.settled_counts())
    assert [{name: number for name, number in one.items() if number} for one in found] == [{"": 5}] * 2


# --- who pays -----------------------------------------------------------------------------------------------


def test_each_analyst_pays_for_the_own_part_of_the_own_pot_alone() -> None:
    with opened() as session:
        ann = session.analyst("ann", Fraction(2, 5), at_most=1)
        bob = session.analyst("bob", Fraction(1, 5), at_most=1)
        pot = pot_of_parts(session.state)
        bob.ask(OTHERS[0])
        ask(ann, STREAM[:70])
        assert {line.booked for line in lines(session)} == {Account("ann").whole}
        spent = sum(line.price for line in lines(session))
        assert spent <= pot * Fraction(2, 5) / 2
        assert spent == pytest.approx(float(pot * Fraction(2, 5) / 2), rel=1e-4)
        left = session._engine.bookings.left_for_parts(session.state)
        assert left["bob"] == pot / 5
        assert left["ann"] == pot * Fraction(2, 5) - spent


def test_an_empty_share_buys_nothing() -> None:
    with opened() as session:
        bookings, state = session._engine.bookings, session.state
        for name, share in (("ann", 0), ("bob", Fraction(1, 4)), ("eve", None)):
            bookings.know(Account.of(name, share))
        left, pot = bookings.left_for_parts(state), pot_of_parts(state)
        assert left == {"": pot, "ann": 0, "bob": pot / 4, "eve": pot}
        ann = session.analyst("ann", 0)
        ask(ann, STREAM[:66])
        assert not lines(session)
        session._engine.measure_part([])
        assert not lines(session)


def test_nothing_else_is_paid_from_the_pot_of_parts() -> None:
    with opened() as session:
        pot, state = pot_of_parts(session.state), session.state
        limited = session._engine.limited(Account("ann", Fraction(1, 2)))
        assert affordable_price(limited) <= state.ledger.cap / 2 - pot / 2
        while session.measure(["age", "rooms"], dry_run=True).affordable:
            session.measure(["age", "rooms"])
        with pytest.raises(BudgetExhaustedError):
            session.measure(["age", "rooms"])
        assert session.state.ledger.remaining >= pot
        spent = session.state.ledger.spent
        ask(session, STREAM[:66])
        assert session.state.ledger.spent - spent <= pot / 2 + session.state.ledger.cap / 50
        assert sum(line.price for line in lines(session)) == pytest.approx(float(pot / 2), rel=1e-4)


# --- crashes ------------------------------------------------------------------------------------------------


def rows_of(path: Path) -> tuple[list[Any], list[Any]]:
    with closing(SessionStore.open(path)) as store:
        chained = store.chained()
        return list(chained.ledger), list(chained.measurements)


def test_a_part_that_was_cut_off_has_the_outcome_that_it_would_have_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = tmp_path / "whole.pmw", tmp_path / "cut.pmw"
    for path in paths:
        repeat_noise(monkeypatch, 20)
        with opened(path) as session:
            ask(session, STREAM[:64])
            before = session.state.ledger.spent
            if path == paths[0]:
                session._engine._release_parts(Account(""))
                assert lines(session)
            else:
                with cut_off():
                    session._engine._release_parts(Account(""))
                assert session.state.ledger.spent == before
    assert waiting_of(paths[1]).kind == PARTS
    assert failed(paths[1]) == {}

    def unplanned(*_: Any) -> None:
        raise AssertionError("what was recorded is not planned again")

    with monkeypatch.context() as patch:
        patch.setattr("pmw.session.releases.plan_part", unplanned)
        with pmw.resume_session(paths[1], FRAME) as session:
            assert rows_of(paths[1]) == rows_of(paths[0])
            ask(session, STREAM[:64])
            session.ask(STREAM[64])  # it was had
            assert session.verify().holds


def test_a_resumed_session_has_the_same_model_and_buys_no_part_twice(tmp_path: Path) -> None:
    path = tmp_path / "study.pmw"
    with opened(path) as session:
        ask(session, STREAM[:66])
        before, answers = lines(session), [session.ask(one).count for one in STREAM[:20]]
        assert [one.part for one in bought(session)] == list(range(len(before), 0, -1))
    with pmw.resume_session(path, FRAME) as session:
        assert [session.ask(one).count for one in STREAM[:20]] == answers
        ask(session, STREAM[66:70])
        assert lines(session) == before
        assert session.verify().holds


# --- the last part ------------------------------------------------------------------------------------------


def test_finish_spends_both_pots_on_what_was_asked_and_tells_it_before() -> None:
    with opened() as session:
        session.analyst("ann", 0.4, at_most=1).ask(OTHERS[0])
        ask(session, STREAM[:70])
        spent, had = session.state.ledger.spent, lines(session)
        quotes = session.finish(dry_run=True)
        assert session.state.ledger.spent == spent
        assert quotes
        assert all(quote.affordable for quote in quotes)
        told = finish_plan_text(quotes, session.state, 71, ["ann"]).splitlines()
        assert all(" now." in line for line in told[: len(quotes)])
        assert told[len(quotes)] == "This takes what ann did not spend of their shares."
        assert session.finish() == quotes
        last, numbers = lines(session)[len(had) :], session.ledger().lines[-1]
        *part, drawn = quotes
        assert [line.label for line in last] == [", ".join(quote.scope) for quote in part]
        assert drawn.of_questions
        assert numbers.event == "questions"
        assert numbers.share == pytest.approx(drawn.share)
        assert {line.booked for line in (*last, numbers)} == {Account("").whole}
        assert session.state.ledger.share == pytest.approx(1, abs=1e-4)
        assert session.state.closed
        assert session.verify().holds


def test_finish_serves_those_who_may_pay() -> None:
    wide = "age BETWEEN 13 AND 27 AND sex = 'f' AND region = 'n' AND rooms >= 3"
    with opened() as session:
        session.analyst("ann", 0.5, at_most=1).ask(wide)
        reader = session.analyst("eve", 0)
        reader.ask_all([f"age <= {age} AND sex = 'f' AND rooms > 2" for age in range(40)])
        (drawn,) = (quote for quote in session.finish(dry_run=True) if quote.of_questions)
        assert drawn.cells == 1
