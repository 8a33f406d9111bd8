"""Accounts: what is booked to whom, shares that bind, and the most that one question may charge."""

from __future__ import annotations

import itertools
import json
import math
import threading
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import pmw
from pmw.errors import BudgetError, BudgetExhaustedError, PriceError, SessionError
from pmw.loop.loop import may_test, tiers_of
from pmw.privacy.budget import Composition, pure_charge
from pmw.public.answer import Source
from pmw.public.charges import WHOLE
from pmw.public.ledger import OTHERS
from pmw.public.options import TestKind
from pmw.public.tables import AnswerTable
from pmw.session import engine as engine_module
from pmw.session.accounts import Account, Bookings, require_named
from pmw.session.engine import Engine
from pmw.session.journal import Recorded, read_reserved, recorded_text
from pmw.session.store.rows import IntentRow
from pmw.session.store.store import SessionStore
from queries import Domain, IntegerAttribute, QueryError
from queries.parsing import Question, parse_where
from tests import worlds
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


@pytest.mark.parametrize(("composition", "kind"), [*zip(Composition, [*TestKind] * 2, strict=False)])
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


# --- shares -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("composition", "kind"), [*zip(Composition, [*TestKind] * 2, strict=False)])
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
        state = session.state  # the part of the cap that the cheapest test may charge at most
        price = (
            min(state.ledger.price(tier.reserved(state)) for tier in tiers_of(state.plan)) / state.ledger.cap
        )
        short = session.analyst("short", price / session._left() - Fraction(1, 10**30), at_most=1)
        answer = short.ask(QUESTIONS[0])
        assert not drawn  # nothing was drawn whatever the table holds: no refusal follows a positive
        assert "short" not in of_ledger(session)
        assert answer.source in (Source.UNVERIFIED, Source.SYNTHETIC)
        enough = session.analyst("enough", price / session._left(), at_most=1)
        enough.ask(QUESTIONS[0])
        assert len(drawn) == 1
        assert 0 < of_ledger(session)["enough"] <= price


def test_the_cap_binds_where_shares_add_up_to_more(opened: Opener) -> None:
    with opened(epsilon=4, seed=2) as session:
        ann, bob = session.analyst("ann", 1, at_most=1), session.analyst("bob", 1, at_most=1)
        others = Bookings(session._engine._store)  # whom nobody tells of a charge, and who adds up again
        while ann.measure(["sex", "region"], dry_run=True).affordable:
            ann.measure(["sex", "region"])
            ledger = session.state.ledger
            assert others.of("ann", ledger) / ledger.cap == ann.budget().spent > 0
        bob.ask_all(QUESTIONS)
        left = session.state.ledger.remaining / session.state.ledger.cap
        assert bob.budget().left == left < 1 - bob.budget().spent
        quote = bob.measure(["age", "region"], dry_run=True)
        assert not quote.affordable
        with pytest.raises(BudgetExhaustedError):
            bob.measure(["age", "region"])
        assert sum(booked(session).values()) <= 1


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


def test_the_same_key_of_two_analysts_is_two_keys_and_an_answer_within_a_bar_takes_none(
    opened: Opener,
) -> None:
    with opened(epsilon=4) as session:
        ann, bob = session.analyst("ann"), session.analyst("bob")
        asked = Question(parse_where(QUESTIONS[1], session.domain), request_id="1")
        for _ in range(2):  # else the second would be paid for and not be given
            assert bob.ask_within(asked, 60).interval is not None
        with pytest.raises(QueryError, match="request_id must be"):
            bob.ask_within(replace(asked, request_id="ann\x1f1"), 60)  # as ann's is kept
        first = ann.ask(QUESTIONS[0], request_id="1")
        other = bob.ask(QUESTIONS[1], request_id="2")
        ann.ask(QUESTIONS[2], request_id="2")
        assert ann.ask(QUESTIONS[0], request_id="1") == first
        assert bob.ask(QUESTIONS[1], request_id="2").to_dict() == other.to_dict()
        session.ask(QUESTIONS[2], request_id="1")
        with pytest.raises(QueryError, match="request_id '1' was used for another question"):
            ann.ask(QUESTIONS[1], request_id="1")
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
        newest, before = session.analyst("bob").history()
        assert [(one.name, one.query) for one in (newest, before)] == [("bob", texts[4]), ("bob", texts[1])]
        told = (newest.count, newest.interval, newest.source)
        assert told == (last.count, last.interval, last.source.value)
        assert [one.name for one in session.history(2)] == ["", "bob"]
        assert {one.name: one.questions for one in session.bookings()} == {"": 1, "ann": 3, "bob": 2}
        assert ann.budget().questions == 3
        assert session.status().queries_answered == 3 + 2 + 2
        session.export(tmp_path / "m.model")
    assert b'"ann"' not in (tmp_path / "m.model").read_bytes()
    with pmw.resume_session(path) as again:
        assert len(again.analyst("bob").history()) == 2
        assert again.verify().holds


def test_a_share_is_a_part_and_a_name_is_printable_and_short() -> None:
    for name in ("", " ann", "a\nb", "x" * 101, "a\x1fb", 7, None):
        with pytest.raises(SessionError, match="name of an analyst"):
            Account.of(name, None)  # type: ignore[arg-type]
    refused: list[tuple[Any, str]] = [
        (-0.1, "one below 0"), (1.1, "one above 1"), (Fraction(10**400), "one above 1"),
        (math.nan, "a number that is none"), (math.inf, "a number that is none"), (True, "a bool"),
        ("0.5", "a str"),
    ]  # fmt: skip
    for share, got in refused:
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


PAIR, OTHER = "sex = 'Female' AND region = 'north'", "member = TRUE AND region = 'east'"
LISTED = [PAIR, "age >= 40", OTHER, "age < 30 AND sex = 'Male'", "", "sex = 'Male' AND region = 'west'"]
TWO_PAIRS = (
    "SELECT COUNT(*) FILTER (WHERE sex = 'Male' AND region = 'north') AS a, "
    "COUNT(*) FILTER (WHERE sex = 'Male' AND member = TRUE) AS b FROM study"
)
BY_PAIR = "SELECT sex, region, COUNT(*) FROM study GROUP BY sex, region"


def visits(path: Path | None = None, **choices: Any) -> pmw.Session:
    return worlds.VISITS.opened(path, **{"epsilon": 1, **choices})


def stands(session: pmw.Session) -> tuple[Any, ...]:
    """Return all that asking changes in a session."""
    return session.state, session.status().queries_answered, session.bookings(), session.history(10_000)


def forbid_writing(patch: pytest.MonkeyPatch) -> None:
    """Let nothing be recorded or written from then on."""

    def never(*_: object, **__: object) -> None:
        raise AssertionError("something was recorded")

    patch.setattr(SessionStore, "begin", never)
    patch.setattr(SessionStore, "finish", never)


ASKED: dict[str, Callable[..., Any]] = {
    "a question": lambda one, **most: one.ask(PAIR, **most),
    "several": lambda one, **most: one.ask_all(LISTED, **most),
    "an array": lambda one, **most: one.answer_arrays(["sex", "region"], [[0, 1]], [[0, 1]], **most),
    "a statement": lambda one, **most: one.sql(BY_PAIR, **most),
    "a statement of two": lambda one, **most: one.sql(TWO_PAIRS, **most),
    "groups": lambda one, **most: one.group_by(["sex", "region"], **most),
    "a mean": lambda one, **most: one.mean("age", "region = 'north'", **most),
    "a quantile": lambda one, **most: one.quantile("age", 0.5, "region = 'north'", **most),
}
FREE_OF_TESTS = ("a mean", "a quantile")  # where single questions are tested


def price_of(ask: Callable[..., Any], session: pmw.Session) -> float:
    """Return the price that a refusal tells; 0 where nothing is to be tested."""
    try:
        ask(session, at_most=1e-9)
    except PriceError as refused:
        return refused.price
    return 0.0


def charged(found: Any) -> float:
    """Return what answers say that they charged."""
    if isinstance(found, pmw.Answer | AnswerTable):
        return found.spent.charged
    return float(found.charged.sum())


# --- before anything is drawn -------------------------------------------------------------------------------


ALTERNATE = [*zip(ASKED, [*TestKind] * 4, strict=True)]


def require_same(found: Any, other: Any) -> None:
    one, two = (each.to_dict() if isinstance(each, AnswerTable) else each for each in (found, other))
    assert one == two


@pytest.mark.parametrize(
    ("kind", "test", "composition"),
    [
        *((*each, Composition.ZCDP) for each in ALTERNATE),
        ("several", TestKind.MARGINAL, Composition.PURE),
        ("several", TestKind.QUERY, Composition.GDP),
        ("a mean", TestKind.MARGINAL, Composition.GDP),
    ],
)
def test_less_than_the_most_is_refused_before_anything_is_drawn_and_the_most_is_enough(
    kind: str, test: TestKind, composition: Composition, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, how = ASKED[kind], dict[str, Any](composition=composition, test=test, seed=3)
    with visits(**how) as session, visits(**how) as other:
        stood = stands(session)
        if price := (0.0 if test is TestKind.QUERY and kind in FREE_OF_TESTS else price_of(ask, session)):
            with monkeypatch.context() as patch:
                forbid_writing(patch)
                with pytest.raises(PriceError, match="Pay it with at_most=") as again:
                    ask(session, at_most=price * (1 - 1e-9))
            assert (again.value.price, again.value.code) == (price, "not_paid")
        assert stands(session) == stood
        before = session.state.ledger
        found = ask(session, at_most=price)
        spent = float((session.state.ledger.spent - before.spent) / before.cap)
        assert charged(found) == pytest.approx(spent)
        most = found.charged.max() if isinstance(found, pmw.Answers) else spent
        assert most <= price * (1 + 1e-12)
        free = ask(other.analyst("ann", 1, at_most=1))  # as it answers where the cap alone binds
        assert charged(free) == charged(found)
        require_same(found, free)
        assert session.state.ledger == other.state.ledger


def test_the_price_is_the_most_and_not_what_is_expected(opened_round: pmw.Session) -> None:
    """With a round open a negative test is free: the question is refused all the same, in the same words."""
    session = opened_round
    forecast = session.forecast(OTHER)
    assert forecast.least == 0
    assert forecast.most > 0
    with pytest.raises(PriceError) as refused:
        session.ask(OTHER, at_most=forecast.most * 0.99)
    assert refused.value.price == forecast.most
    told = -(-forecast.most * 10_000 // 1) / 10_000
    assert f"This can cost {told:.2%} of the budget" in str(refused.value)
    assert f"at_most={told:g} (--at-most {100 * told:g}%)" in str(refused.value)
    session.ask(OTHER, at_most=told)


@pytest.fixture
def opened_round() -> Any:
    """A session whose round is open: its first test was negative."""
    with visits(seed=1) as session:
        session.ask("sex = 'Female' AND region = 'north'")
        assert any(session.state.rounds)
        yield session


def test_a_statement_is_priced_as_a_whole_and_many_questions_each(monkeypatch: pytest.MonkeyPatch) -> None:
    with visits() as session, visits() as other:
        whole = session.forecast(TWO_PAIRS).most
        single = session.forecast("sex = 'Male' AND region = 'north'").most
        assert whole == pytest.approx(2 * single)
        pairs = ["sex = 'Male' AND region = 'north'", "sex = 'Male' AND member = TRUE"]
        assert other.ask_all(pairs, at_most=single).charged.max() <= single
        forbid_writing(monkeypatch)
        with pytest.raises(PriceError) as refused:
            session.sql(TWO_PAIRS, at_most=single)
        assert refused.value.price == whole


def test_a_statement_stays_below_its_ceiling_though_prices_have_risen_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two pairs are wrong. Where the price was found when one was enough, one is tested and measured."""
    statement = (
        "SELECT COUNT(*) FILTER (WHERE a = 0 AND b = 0) AS n, "
        "COUNT(*) FILTER (WHERE c = 0 AND d = 0) AS m FROM wide"
    )
    with worlds.WIDE.opened() as session:
        before, single = session.state.ledger, session.forecast("a = 0 AND b = 0").most
        assert session.forecast(statement).most == pytest.approx(2 * single)
        monkeypatch.setattr(Engine, "_price", lambda *_: Fraction(single) * before.cap * Fraction(1001, 1000))
        found = session.sql(statement, at_most=single)
        spent = float((session.state.ledger.spent - before.spent) / before.cap)
        assert found.spent.charged == pytest.approx(spent)
        assert single / 2 < spent <= single * 1.001
        assert session.state.positives_used == 1
        sources = [one.source for one in found.estimates()]
        assert Source.UNVERIFIED in sources


# --- in the turn of the charge ------------------------------------------------------------------------------


def test_the_ceiling_is_held_in_the_turn_of_the_charge(opened_round: pmw.Session) -> None:
    """What was enough before another thread closed the round is not enough after it, and nothing is drawn."""
    session = opened_round
    ann, bob = session.analyst("ann", 1), session.analyst("bob", 1)
    price, came, refused = ann.forecast(OTHER).most, threading.Event(), list[PriceError]()

    def ask() -> None:
        came.set()
        try:
            ann.ask(OTHER, at_most=price)
        except PriceError as error:
            refused.append(error)

    thread = threading.Thread(target=ask)
    with session._engaged():
        thread.start()
        assert came.wait(60)
        while not session._turn.awaited:
            pass
        bob.ask("age >= 30 AND visits >= 3", at_most=1)
        assert not any(session.state.rounds)  # it was wrong there: the round is over
        dearer = ann.forecast(OTHER).most
    thread.join(60)
    assert dearer > price
    assert [one.price for one in refused] == [dearer]
    assert ann.budget().spent == 0


# --- 0 never pays -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "test"), [(kind, [*TestKind][kind not in ("a question", "an array")]) for kind in ASKED]
)
def test_at_0_everybody_gets_what_a_reader_gets_and_brings_no_charge(kind: str, test: TestKind) -> None:
    ask = ASKED[kind]
    with visits(test=test, seed=4) as session, visits(test=test, seed=4) as other:
        before = session.state
        found = ask(session, at_most=0)
        assert charged(found) == 0
        require_same(found, ask(other.analyst("rea", 0)))
        sources = {one.source for one in (found.estimates() if isinstance(found, AnswerTable) else (
            [found] if isinstance(found, pmw.Answer) else found))}  # fmt: skip
        assert sources <= {Source.UNVERIFIED, Source.SYNTHETIC}
        assert may_test(session.state)
        assert session.state.ledger == before.ledger
        assert session.state.settled == before.settled == other.state.settled
        if price_of(ask, session):  # and is tested for whoever pays, without a word
            drawn = session.state.certificates, session.state.ledger.spent
            ask(session)
            assert (session.state.certificates, session.state.ledger.spent) != drawn


def test_an_analyst_may_have_a_ceiling_of_her_own_and_a_lower_one_for_one_question() -> None:
    with visits() as session:
        price = session.forecast(PAIR).most
        careful, brave = session.analyst("ann", at_most=price / 2), session.analyst("bob", 0.1, at_most=1)
        with pytest.raises(PriceError):
            careful.ask(PAIR)
        assert brave.ask(PAIR, at_most=0).source is Source.UNVERIFIED
        with pytest.raises(PriceError, match="your ceiling for one question is") as refused:
            careful.ask(PAIR, at_most=price)
        assert refused.value.code == "above_ceiling"
        with pytest.raises(PriceError) as lower:
            session.analyst("cy", at_most=2 * price).ask(PAIR, at_most=price / 2)
        assert lower.value.code == "not_paid"
        before = session.state.ledger
        assert session.analyst("dee", at_most=0).ask(PAIR, at_most=1).source is Source.UNVERIFIED
        assert session.state.ledger == before
        assert brave.ask(PAIR, at_most=price).spent.charged > 0


# --- what is never refused ----------------------------------------------------------------------------------


def test_a_stored_answer_and_a_free_one_are_never_refused() -> None:
    with visits() as session:
        for ask in ASKED.values():
            ask(session)
        before = session.state.ledger
        for kind in ("a question", "several", "an array", "a statement", "groups"):
            first = ASKED[kind](session)
            for most in (0, 1e-9):
                again = ASKED[kind](session, at_most=most)
                assert charged(again) == 0
                if not isinstance(first, AnswerTable):
                    assert again == first
        assert session.ask("age >= 33", at_most=1e-9).source is Source.SYNTHETIC  # covered by opening
        assert session.state.ledger == before


def test_a_key_gets_its_answer_whatever_may_be_charged() -> None:
    with visits() as session:
        ann = session.analyst("ann", 1)
        with pytest.raises(PriceError):
            ann.ask(PAIR, request_id="k", at_most=1e-9)
        first = ann.ask(PAIR, request_id="k", at_most=1)  # a refused request leaves its key free
        quote = ann.measure(["sex", "member"], request_id="m", at_most=1)
        bar = ann.ask_within(OTHER, 60, request_id="w", at_most=1)
        before = session.state.ledger
        for most in (0, 1e-9, None, 1):
            assert ann.ask(PAIR, request_id="k", at_most=most) == first
            assert ann.measure(["sex", "member"], request_id="m", at_most=most) == quote
            again = ann.ask_within(OTHER, 60, request_id="w", at_most=most)
            assert again == bar
            assert again.spent.charged == bar.spent.charged > 0
        assert session.state.ledger == before


# --- unless told --------------------------------------------------------------------------------------------


def test_a_tenth_of_a_share_may_be_charged_unless_told_and_of_what_is_left_where_that_is_less() -> None:
    with visits(seed=4) as session:
        price, left = session.forecast(PAIR).most, float(session._left())
        with pytest.raises(PriceError, match=f"and {price:.2%} may be charged for it"):
            session.analyst("ann", 10 * price * 0.9999 / left).ask(PAIR)
        assert session.analyst("ann", min(10 * price * 1.0001 / left, 1)).ask(PAIR).spent.charged > 0
        while session.measure(["age"], dry_run=True).affordable:
            session.measure(["age"])
        left = float(session.state.ledger.remaining / session.state.ledger.cap)
        question = "age < 30 AND sex = 'Male'"
        with pytest.raises(PriceError, match=f"and {left / 10:.2%} may be charged for it"):
            session.analyst("bob", 1).ask(question)
        session.ask(question)  # its own questions have no ceiling
        assert session.state.certificates.keys() >= {("age", "sex")} or session.state.positives_used


def test_a_ceiling_is_a_part_of_the_budget() -> None:
    with visits() as session:
        before = stands(session)
        measuring: list[Callable[..., Any]] = [lambda one, **most: one.measure("sex", **most)]
        measuring.append(lambda one, **most: one.analyst("ann", **most))
        wrong: tuple[Any, ...] = (-0.1, 1.1, math.nan, "much", True)
        for ask, most in itertools.product((*ASKED.values(), *measuring), wrong):
            with pytest.raises(BudgetError, match="at_most"):
                ask(session, at_most=most)
        assert stands(session) == before


# --- measurements -------------------------------------------------------------------------------------------

PAID: dict[str, tuple[Callable[..., Any], Callable[..., float]]] = {
    "counts": (
        lambda one, **how: one.measure(["sex", "region"], **how),
        lambda one: one.measure(["sex", "region"], dry_run=True).share,
    ),
    "a bar": (
        lambda one, **how: one.ask_within(PAIR, 30, **how),
        lambda one: one.quote(PAIR, 30).share,
    ),
    "sums": (
        lambda one, **how: one.measure_sum("age", "sex", **how),
        lambda one: one.measure_sum("age", "sex", dry_run=True).share,
    ),
    "a bar of a mean": (
        lambda one, **how: one.sql_within("SELECT AVG(age) FROM people", 0.4, **how),
        lambda one: one.quote_aggregate("SELECT AVG(age) FROM people", 0.4).share,
    ),
}


def summed_years() -> Domain:
    """Return the people by single years, whose years are summed on request."""
    age, *others = worlds.WHOLE_YEARS.domain
    assert isinstance(age, IntegerAttribute)
    return Domain((replace(age, resolution=1), *others), name="people")


@pytest.fixture
def summing() -> Any:
    """A session that sums ages, and knows that there are records."""
    with worlds.opened(worlds.YEARS.frame, summed_years(), epsilon=1) as session:
        session.sql("SELECT AVG(age) FROM people", at_most=1)
        yield session


@pytest.mark.parametrize("kind", PAID)
def test_a_price_above_what_may_be_paid_is_refused_and_the_price_itself_is_enough(
    kind: str, summing: pmw.Session
) -> None:
    pay, told = PAID[kind]
    price, before = told(summing), stands(summing)
    for most in (0, price * (1 - 1e-9)):
        with pytest.raises(PriceError) as refused:
            pay(summing, at_most=most)
        assert refused.value.price == price
        assert stands(summing)[0].ledger == before[0].ledger
    with pytest.raises(PriceError):
        pay(summing.analyst("ann", min(1, price * 9.9)))  # a tenth of the share, unless told
    with pytest.raises(BudgetExhaustedError):
        pay(summing.analyst("bob", price / 2), at_most=1)  # what is not left is no matter of a ceiling
    assert stands(summing)[0].ledger == before[0].ledger
    cy = summing.analyst("cy", 1)
    found, line = pay(cy, at_most=price), summing.ledger().lines[-1]
    assert (line.share, line.booked) == (price, Account("cy").whole)
    assert float(cy.budget().spent) == pytest.approx(price)
    assert (found.spent.charged if "bar" in kind else found.share) == price
    assert summing.verify().holds


# --- what was charged ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("test", list(TestKind))
def test_answers_say_all_that_was_charged_together_and_one_by_one(test: TestKind) -> None:
    with visits(test=test, seed=5) as one, visits(test=test, seed=5) as many:
        before = one.state.ledger
        singly = [one.ask(question).spent.charged for question in LISTED]
        together = many.ask_all(LISTED)
        spent = [float((of.state.ledger.spent - before.spent) / before.cap) for of in (one, many)]
        assert [sum(singly), together.charged.sum()] == pytest.approx(spent)
        assert min(spent) > 0
        told = [answer.to_dict()["spent"].get("charged", 0) for answer in together]
        assert told == pytest.approx(list(together.charged), rel=1e-5)
        for answer in together:
            assert ("charged for it" in answer.origin()) == (answer.spent.charged > 0)
        assert not many.ask_all(LISTED).charged.any()
