"""Accounts: what is booked to whom, shares that bind before anything is tested, keys and histories."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import pmw
from pmw.errors import BudgetError, BudgetExhaustedError, SessionError
from pmw.loop.loop import tiers_of
from pmw.privacy.budget import Composition, pure_charge
from pmw.public.answer import Source
from pmw.public.charges import WHOLE
from pmw.public.ledger import OTHERS
from pmw.public.options import TestKind
from pmw.session import engine as engine_module
from pmw.session.accounts import Account, Bookings, require_named
from pmw.session.journal import Recorded, read_reserved, recorded_text
from pmw.session.store.rows import IntentRow
from queries import QueryError
from queries.parsing import Question, parse_where
from tests.pmw.service.studies import opened_study

QUESTIONS = [
    f"{first} AND {second}"
    for first in ("sex = 'Female'", "sex = 'Male'", "member = true")
    for second in ("region = 'north'", "region = 'east'", "age < 40", "age BETWEEN 30 AND 50", "age > 44")
]
Opener = Callable[..., pmw.Session]


def booked(session: pmw.Session) -> dict[str, Fraction]:
    return {one.name: one.spent for one in session.bookings()}


def of_ledger(session: pmw.Session) -> dict[str, Fraction]:
    """Return what the ledger's own lines say, as parts of the cap."""
    ledger, sums = session.ledger(), dict[str, Fraction]()
    for line in ledger.lines:
        for name, part in line.booked:
            sums[name] = sums.get(name, Fraction(0)) + part * line.price / ledger.cap
    return sums


# --- whose charges ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(TestKind))
@pytest.mark.parametrize("composition", list(Composition))
def test_every_charge_is_booked_to_who_asked_and_the_rest_to_the_session(
    opened: Opener, tmp_path: Path, composition: Composition, kind: TestKind
) -> None:
    with opened(tmp_path / "s.pmw", composition=composition, test=kind, epsilon=4) as session:
        opening = session.state.ledger.share
        ann, bob = session.analyst("ann"), session.analyst("bob", Fraction(1, 2), at_most=1)
        ann.ask_all(QUESTIONS[::2])
        spent = session.state.ledger.spent
        bob.ask_all(QUESTIONS[1::2])
        after = session.state.ledger.spent
        found, cap = booked(session), session.state.ledger.cap
        assert found == {"ann": 0, "bob": 0, **of_ledger(session)}
        assert float(found[""]) == pytest.approx(opening)
        assert found.get("bob", 0) == (after - spent) / cap
        assert sum(found.values()) == after / cap
        assert found["ann"] > 0  # a round at least
        assert session.verify().holds
    with pmw.resume_session(tmp_path / "s.pmw") as again:
        assert booked(again) == found
        assert again.analyst("bob", 0.5, at_most=1).budget().spent == found.get("bob", 0)


def test_a_named_analyst_gets_the_answers_that_nobody_in_particular_gets(opened: Opener) -> None:
    with opened(seed=5) as one, opened(seed=5) as other:
        plain = [answer.to_dict() for answer in one.ask_all(QUESTIONS)]
        assert [answer.to_dict() for answer in other.analyst("ann", 1, at_most=1).ask_all(QUESTIONS)] == plain
        assert one.state.ledger == other.state.ledger


# --- shares -------------------------------------------------------------------------------------------------


def smallest_test(session: pmw.Session) -> Fraction:
    """Return the part of the cap that the cheapest test may charge at most."""
    state = session.state
    return min(state.ledger.price(tier.reserved(state)) for tier in tiers_of(state.plan)) / state.ledger.cap


@pytest.mark.parametrize("kind", list(TestKind))
@pytest.mark.parametrize("composition", list(Composition))
def test_a_test_is_made_only_where_all_that_it_may_charge_is_left_of_the_share(
    opened: Opener, monkeypatch: pytest.MonkeyPatch, composition: Composition, kind: TestKind
) -> None:
    drawn = list[object]()
    real = vars(engine_module)["draw_tests"]

    def draw(*values: Any) -> Any:
        drawn.append(values)
        return real(*values)

    monkeypatch.setattr(engine_module, "draw_tests", draw)
    with opened(composition=composition, test=kind, epsilon=4) as session:
        price = smallest_test(session)
        short = session.analyst("short", price / session._left() - Fraction(1, 10**30), at_most=1)
        answer = short.ask(QUESTIONS[0])
        assert not drawn  # nothing was drawn whatever the table holds: no refusal follows a positive
        assert "short" not in of_ledger(session)
        assert answer.source in (Source.UNVERIFIED, Source.SYNTHETIC)
        enough = session.analyst("enough", price / session._left(), at_most=1)
        enough.ask(QUESTIONS[0])
        assert len(drawn) == 1
        assert 0 < of_ledger(session)["enough"] <= price


def test_what_a_spent_share_left_open_is_tested_for_whoever_can_pay(opened: Opener) -> None:
    with opened(epsilon=4, seed=2) as session:
        poor, rich = session.analyst("poor", 0), session.analyst("rich", 1, at_most=1)
        first = poor.ask(QUESTIONS[0])
        assert first.source is Source.UNVERIFIED
        assert poor.ask(QUESTIONS[0]).to_dict() == first.to_dict()
        assert len(session.analyst("poor").history()) == 1  # the stored answer, not another
        second = rich.ask(QUESTIONS[0])
        assert second.interval is not None
        assert poor.ask(QUESTIONS[0]) == second  # the newest, free
        assert rich.ask(QUESTIONS[0]) == second


def test_the_cap_binds_where_shares_add_up_to_more(opened: Opener) -> None:
    with opened(epsilon=4, seed=2) as session:
        ann, bob = session.analyst("ann", 1, at_most=1), session.analyst("bob", 1, at_most=1)
        while ann.measure(["sex", "region"], dry_run=True).affordable:
            ann.measure(["sex", "region"])
        bob.ask_all(QUESTIONS)
        left = session.state.ledger.remaining / session.state.ledger.cap
        assert bob.budget().left == left < 1 - bob.budget().spent
        quote = bob.measure(["age", "region"], dry_run=True)
        assert not quote.affordable
        with pytest.raises(BudgetExhaustedError):
            bob.measure(["age", "region"])
        assert sum(booked(session).values()) <= 1


def test_charges_that_were_added_up_elsewhere_are_added_up_again(opened: Opener) -> None:
    with opened(epsilon=4, seed=2) as session:
        ann = session.analyst("ann", 1, at_most=1)
        others = Bookings(session._engine._store)  # whom nobody tells of a charge
        for names in (["sex", "region"], ["sex", "age"]):
            ann.measure(names)
            ledger = session.state.ledger
            assert others.of("ann", ledger) / ledger.cap == ann.budget().spent > 0


def test_measurements_are_paid_from_the_share(opened: Opener) -> None:
    with opened(epsilon=4, seed=2) as session:
        quote = session.measure(["sex", "region"], dry_run=True)
        ann = session.analyst("ann", quote.share * 1.5, at_most=1)
        assert ann.measure(["sex", "region"]).share == quote.share
        line = session.ledger().lines[-1]
        assert (line.event, line.booked) == ("requested", Account("ann").whole)
        assert float(ann.budget().spent) == pytest.approx(quote.share)
        with pytest.raises(BudgetExhaustedError):
            ann.measure(["sex", "age"])
        assert not ann.measure(["sex", "age"], dry_run=True).affordable
        assert session.measure(["sex", "age"], dry_run=True).affordable  # the session's cap has room
        bob = session.analyst("bob", 1, at_most=1)
        answer = bob.ask_within("sex = 'Male' AND region = 'north'", 0.5 * quote.half_width)
        assert answer.interval is not None
        assert of_ledger(session)["bob"] == session.ledger().lines[-1].price / session.ledger().cap
        forecast = ann.forecast(parse_where("member = true AND age > 44", session.domain))
        assert forecast.most <= quote.share * 0.5 + 1e-12
        assert session.verify().holds


# --- keys and histories -------------------------------------------------------------------------------------


def test_the_same_key_of_two_analysts_is_two_keys(opened: Opener) -> None:
    with opened() as session:
        ann, bob = session.analyst("ann"), session.analyst("bob")
        first = ann.ask(QUESTIONS[0], request_id="1")
        other = bob.ask(QUESTIONS[1], request_id="1")
        assert ann.ask(QUESTIONS[0], request_id="1") == first
        assert bob.ask(QUESTIONS[1], request_id="1").to_dict() == other.to_dict()
        session.ask(QUESTIONS[2], request_id="1")
        with pytest.raises(QueryError, match="request_id '1' was used for another question"):
            ann.ask(QUESTIONS[1], request_id="1")


def test_an_answer_within_a_bar_takes_no_key_from_anybody(opened: Opener) -> None:
    with opened(epsilon=4) as session:
        ann, bob = session.analyst("ann"), session.analyst("bob")
        asked = Question(parse_where(QUESTIONS[1], session.domain), request_id="1")
        for _ in range(2):  # else the second would be paid for and not be given
            assert bob.ask_within(asked, 60).interval is not None
        with pytest.raises(QueryError, match="request_id must be"):
            bob.ask_within(replace(asked, request_id="ann\x1f1"), 60)  # as ann's is kept
        for name in (session, ann):
            assert name.ask(QUESTIONS[0], request_id="1").interval is not None
        assert session.verify().holds


def test_each_analyst_has_a_history_and_repeats_are_in_it_once(opened: Opener, tmp_path: Path) -> None:
    path = tmp_path / "s.pmw"
    with opened(path) as session:
        ann, bob = session.analyst("ann"), session.analyst("bob")
        ann.ask_all(QUESTIONS[:3])
        for _ in range(2):
            bob.ask(QUESTIONS[1])
        last = bob.ask(QUESTIONS[4])
        session.ask(QUESTIONS[5])
        texts = [parse_where(one, session.domain).to_json() for one in QUESTIONS]
        assert [one.query for one in session.analyst("ann").history()] == texts[2::-1]
        assert [(one.name, one.query) for one in session.analyst("bob").history()] == [
            ("bob", texts[4]), ("bob", texts[1]),
        ]  # fmt: skip
        newest = session.analyst("bob").history()[0]
        assert (newest.count, newest.interval, newest.source) == (
            last.count,
            last.interval,
            last.source.value,
        )
        assert [one.name for one in session.history(2)] == ["", "bob"]
        assert {one.name: one.questions for one in session.bookings()} == {"": 1, "ann": 3, "bob": 2}
        assert ann.budget().questions == 3
        assert session.status().queries_answered == 3 + 2 + 2
        session.export(tmp_path / "m.model")
    assert b'"ann"' not in (tmp_path / "m.model").read_bytes()
    with pmw.resume_session(path) as again:
        assert len(again.analyst("bob").history()) == 2
        assert again.verify().holds


def test_a_name_is_printable_and_short() -> None:
    for name in ("", " ann", "a\nb", "x" * 101, "a\x1fb", 7, None):
        with pytest.raises(SessionError, match="name of an analyst"):
            Account.of(name, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("share", "got"),
    [
        (-0.1, "one below 0"), (1.1, "one above 1"), (Fraction(10**400), "one above 1"), (5, "one above 1"),
        (math.nan, "a number that is none"), (math.inf, "a number that is none"), (True, "a bool"),
        ("0.5", "a str"),
    ],
)  # fmt: skip
def test_a_share_is_a_part(share: Any, got: str) -> None:
    with pytest.raises(BudgetError, match=rf"^expected a share in \[0, 1\], got {got}$"):
        Account.of("ann", share)


@pytest.mark.parametrize("booked", [{}, [["ann"]], [["ann", "1/0"]], [["ann", 1]], [[" ", "1"]]])
def test_a_batch_that_does_not_say_whom_it_is_booked_to_is_refused(booked: Any) -> None:
    form = json.loads(recorded_text(Recorded((), pure_charge(Fraction(1)), Account("").whole)))
    intent = IntentRow(1, "error quantiles", json.dumps({**form, "booked": booked}), bytes(32), 0)
    with pytest.raises(pmw.SessionCorruptError, match="damaged"):
        require_named(read_reserved(intent)[1])


def test_an_analyst_sees_neither_questions_nor_names_of_others_in_the_ledger(tmp_path: Path) -> None:
    with pmw.resume_session(opened_study(tmp_path)) as session:
        ann, bea = session.analyst("ann"), session.analyst("bea")
        ann.ask_within("age >= 33 AND sex = 'Male'", 60, at_most=1)
        bea.measure(["sex", "member"], at_most=1)
        whole = session.ledger()
        for own, other in ((ann, "bea"), (bea, "ann")):
            seen = own.ledger()
            assert [line.price for line in seen.lines] == [line.price for line in whole.lines]
            for line, full in zip(seen.lines, whole.lines, strict=True):
                if full.booked == ((other, Fraction(1)),):
                    assert (line.label, line.booked) == (OTHERS, WHOLE)
                else:
                    assert line == full
            assert other not in str(seen.to_dict())
        assert OTHERS in [line.label for line in ann.ledger().lines]
        assert OTHERS not in [line.label for line in whole.lines]
