"""Ceilings: what one question may charge is held against the most that it could, before anything is drawn."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import pmw
from pmw.errors import BudgetError, BudgetExhaustedError, PriceError
from pmw.loop.loop import may_test
from pmw.privacy.budget import Composition
from pmw.public.answer import Source
from pmw.public.options import TestKind
from pmw.public.tables import AnswerTable
from pmw.session.engine import Engine
from pmw.session.store.store import SessionStore
from queries import Domain, IntegerAttribute
from queries.workloads import parse_workload
from tests import worlds

PAIR, OTHER = "sex = 'Female' AND region = 'north'", "member = TRUE AND region = 'east'"
LISTED = [PAIR, "age >= 40", OTHER, "age < 30 AND sex = 'Male'", "", "sex = 'Male' AND region = 'west'"]
TWO_PAIRS = (
    "SELECT COUNT(*) FILTER (WHERE sex = 'Male' AND region = 'north') AS a, "
    "COUNT(*) FILTER (WHERE sex = 'Male' AND member = TRUE) AS b FROM study"
)
BY_PAIR = "SELECT sex, region, COUNT(*) FROM study GROUP BY sex, region"


def opened(path: Path | None = None, **choices: Any) -> pmw.Session:
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
    "a workload": lambda one, **most: one.ask_all(parse_workload("marginals:sex,region", one.domain), **most),
    "an array": lambda one, **most: one.answer_arrays(["sex", "region"], [[0, 1]], [[0, 1]], **most),
    "a statement": lambda one, **most: one.sql(BY_PAIR, **most),
    "a statement of two": lambda one, **most: one.sql(TWO_PAIRS, **most),
    "a mean": lambda one, **most: one.mean("age", "region = 'north'", **most),
    "groups": lambda one, **most: one.group_by(["sex", "region"], **most),
    "a sum": lambda one, **most: one.sum("age", "region = 'north'", **most),
    "a quantile": lambda one, **most: one.quantile("age", 0.5, "region = 'north'", **most),
}
FREE_OF_TESTS = ("a mean", "a sum", "a quantile")  # where single questions are tested


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


@pytest.mark.parametrize("test", list(TestKind))
@pytest.mark.parametrize(
    ("kind", "composition"),
    [*((kind, Composition.ZCDP) for kind in ASKED), *(("several", one) for one in Composition)],
)
def test_less_than_the_most_is_refused_before_anything_is_drawn_and_the_most_is_enough(
    kind: str, composition: Composition, test: TestKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = ASKED[kind]
    with (
        opened(composition=composition, test=test, seed=3) as session,
        opened(composition=composition, test=test, seed=3) as other,
    ):
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
        free = ask(other)  # as it answers where the cap alone binds
        assert charged(free) == charged(found)
        same = (found, free) if not isinstance(found, AnswerTable) else (found.to_dict(), free.to_dict())
        assert same[0] == same[1]
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
    with opened(seed=1) as session:
        session.ask("sex = 'Female' AND region = 'north'")
        assert any(session.state.rounds)
        yield session


def test_a_statement_is_priced_as_a_whole_and_many_questions_each(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened() as session, opened() as other:
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


@pytest.mark.parametrize("test", list(TestKind))
@pytest.mark.parametrize("kind", ASKED)
def test_at_0_everybody_gets_what_a_reader_gets_and_brings_no_charge(kind: str, test: TestKind) -> None:
    ask = ASKED[kind]
    with opened(test=test, seed=4) as session, opened(test=test, seed=4) as other:
        before = session.state
        found, read = ask(session, at_most=0), ask(other.analyst("rea", 0))
        assert charged(found) == 0
        same = (found, read) if not isinstance(found, AnswerTable) else (found.to_dict(), read.to_dict())
        assert same[0] == same[1]
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
    with opened() as session:
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


@pytest.mark.parametrize("most", [0, 1e-9])
def test_a_stored_answer_and_a_free_one_are_never_refused(most: float) -> None:
    with opened() as session:
        for ask in ASKED.values():
            ask(session)
        before = session.state.ledger
        for kind in ("a question", "several", "a workload", "an array", "a statement", "groups"):
            first, again = ASKED[kind](session), ASKED[kind](session, at_most=most)
            assert charged(again) == 0
            if not isinstance(first, AnswerTable):
                assert again == first
        assert session.ask("age >= 33", at_most=most).source is Source.SYNTHETIC  # covered by opening
        assert session.state.ledger == before


@pytest.mark.parametrize("most", [0, 1e-9, None, 1])
def test_a_key_gets_its_answer_whatever_may_be_charged(most: float | None) -> None:
    with opened() as session:
        ann = session.analyst("ann", 1)
        with pytest.raises(PriceError):
            ann.ask(PAIR, request_id="k", at_most=1e-9)
        first = ann.ask(PAIR, request_id="k", at_most=1)  # a refused request leaves its key free
        quote = ann.measure(["sex", "member"], request_id="m", at_most=1)
        bar = ann.ask_within(OTHER, 60, request_id="w", at_most=1)
        before = session.state.ledger
        assert ann.ask(PAIR, request_id="k", at_most=most) == first
        assert ann.measure(["sex", "member"], request_id="m", at_most=most) == quote
        again = ann.ask_within(OTHER, 60, request_id="w", at_most=most)
        assert again == bar
        assert again.spent.charged == bar.spent.charged > 0
        assert session.state.ledger == before


def test_what_was_interrupted_is_finished_whatever_may_be_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "s.pmw") as session:
        with monkeypatch.context() as patch:
            patch.setattr(SessionStore, "finish", None)
            with pytest.raises(TypeError):
                session.ask(PAIR, at_most=1)
        spent = session.state.ledger.spent
        answer = session.ask(PAIR, at_most=0)
        assert session.state.ledger.spent > spent
        assert answer.source in (Source.SYNTHETIC, Source.MEASURED)
        assert session.verify().holds


# --- unless told --------------------------------------------------------------------------------------------


def test_a_tenth_of_a_share_may_be_charged_unless_told_and_of_what_is_left_where_that_is_less() -> None:
    with opened() as session:
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


def test_a_reader_is_never_refused_a_question() -> None:
    with opened() as session:
        reader = session.analyst("rea", 0)
        for ask in ASKED.values():
            assert charged(ask(reader)) == charged(ask(reader, at_most=1e-9)) == 0


def test_what_is_left_and_no_ceiling_is_told_of_a_share() -> None:
    with opened() as session:
        ann, share = session.analyst("ann", Fraction(1, 5)), session._left() / 5
        assert ann.budget().left == share
        ann.ask(PAIR, at_most=1)
        spent = ann.budget().spent
        assert ann.budget().left == share - spent > 0
        while session.measure(["age"], dry_run=True).affordable:
            session.measure(["age"])
        rest = session.state.ledger.remaining / session.state.ledger.cap
        assert ann.budget().left == min(rest, share - spent) == rest
        assert ann.budget().to_dict()["left"] == float(rest)
        session.finalize()
        assert ann.budget().left == 0


@pytest.mark.parametrize("most", [-0.1, 1.1, float("nan"), "much", True])
def test_a_ceiling_is_a_part_of_the_budget(most: Any) -> None:
    with opened() as session:
        before = stands(session)
        for ask in ASKED.values():
            with pytest.raises(BudgetError, match="at_most"):
                ask(session, at_most=most)
        with pytest.raises(BudgetError, match="at_most"):
            session.measure("sex", at_most=most)
        with pytest.raises(BudgetError, match="at_most"):
            session.analyst("ann", at_most=most)
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
    found = pay(summing, at_most=price)
    assert summing.ledger().lines[-1].share == price
    if "bar" in kind:
        assert found.spent.charged == price
    else:
        assert found.share == price


def test_a_share_that_is_told_is_a_price_of_its_own(summing: pmw.Session) -> None:
    ann = summing.analyst("ann", Fraction(1, 10) / summing._left())
    with pytest.raises(PriceError, match=r"and 1\.00% may be charged"):
        ann.measure_sum("age", "sex")
    assert ann.measure_sum("age", "sex", share="0.05").share <= 0.05
    with pytest.raises(PriceError):
        ann.measure_sum("age", "region", share="0.04", at_most="0.03")


def test_a_bar_of_a_mean_charges_its_price_alone_and_tests_nothing() -> None:
    statement = "SELECT AVG(age) FROM people WHERE sex = 'Male'"
    with worlds.opened(worlds.YEARS.frame, summed_years(), epsilon=1, seed=2) as session:
        assert session.forecast(statement).most > 0  # asked without a bar, its counts may be tested
        price, before = session.quote_aggregate(statement, 0.3).share, stands(session)
        with pytest.raises(PriceError) as refused:
            session.sql_within(statement, 0.3, at_most=price * (1 - 1e-9))
        assert refused.value.price == price
        assert stands(session) == before
        charges = len(session.ledger().lines)
        session.sql_within(statement, 0.3, at_most=price)
        (line,) = session.ledger().lines[charges:]
        assert (line.event, line.share) == ("sum of values", price)


# --- what was charged ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("test", list(TestKind))
def test_answers_say_all_that_was_charged_together_and_one_by_one(test: TestKind) -> None:
    with opened(test=test, seed=5) as one, opened(test=test, seed=5) as many:
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


def test_a_question_of_several_tests_says_all_that_it_charged() -> None:
    with worlds.WIDE.opened(seed=6) as session:
        before = session.state.ledger
        answer = session.ask("a = 0 AND b = 0 AND c = 0")
        spent = float((session.state.ledger.spent - before.spent) / before.cap)
        assert session.state.positives_used > 1
        assert answer.spent.charged == pytest.approx(spent)
