"""What a session measures unasked: when it is due, who can pay for it, and to whom it is booked."""

from __future__ import annotations

import itertools
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pmw
from pmw.data import MemorySource
from pmw.errors import BudgetError, DataError
from pmw.loop.finishing import Payer, Spare, plan_spare
from pmw.loop.loop import may_test
from pmw.loop.tiers import QuestionTier
from pmw.planning.error_quantiles import quantiles_left
from pmw.privacy.budget import Composition, NeighboringRelation, pure_charge
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.public.answer import Basis
from pmw.public.charges import (
    WHOLE,
    CellNumbers,
    Event,
    LedgerEntry,
    Parts,
    marginal_charge,
    quantile_entry,
    reservation,
)
from pmw.public.error_quantiles import SHARE, rank_of
from pmw.public.quotes import affordable_price
from pmw.public.state import PublicState, requested
from pmw.session import releases
from pmw.session.accounts import SESSION
from pmw.session.loading import load_scopes
from pmw.session.releases import due_marginal
from pmw.session.requests import Request, Requests
from queries import (
    UNITS,
    Domain,
    IntegerAttribute,
    LinearQuery,
    random_conjunctions,
)
from queries.cells import quoted_name
from queries.range_texts import RangeTexts
from tests.pmw.session.stored import cut_off, edit, failed, tamper
from tests.worlds import PEOPLE, VISITS, WHOLE_YEARS, marginal_plan, state_with

DUE = 256
Opened = Callable[..., pmw.Session]
UNASKED = (Event.REQUESTED, Event.QUANTILE)


@pytest.fixture(scope="module")
def opened() -> Opened:
    def open_(path: Path | None = None, **choices: Any) -> pmw.Session:
        return VISITS.opened(path, **{"seed": 2 if path is None else None, **choices})

    return open_


@pytest.fixture(autouse=True)
def repeatable_files(repeatable: None) -> None:
    """Let sessions in files repeat their noise, too."""


def ask_for_two(session: pmw.Session, questions: Sequence[LinearQuery]) -> tuple[pmw.Analyst, pmw.Analyst]:
    """Ask in turns for two analysts, every fourth question for the second, and return them."""
    ann, bob = (
        session.analyst("ann", Fraction(3, 4), at_most=1),
        session.analyst("bob", Fraction(3, 4), at_most=1),
    )
    for place, question in enumerate(questions):
        (bob if place % 4 == 0 else ann).ask(question)
    return ann, bob


def due_spare(session: pmw.Session) -> Any:
    """Return what would be measured unasked now."""
    payers = session._engine.bookings.payers(session.state.ledger)
    return due_marginal(session._engine._store, session.state, payers)


def unasked(session: pmw.Session) -> list[tuple[str, Parts]]:
    return [(line.event, line.booked) for line in session.ledger().lines if line.event in UNASKED]


def requests_booked(session: pmw.Session) -> list[Parts]:
    return [booked for event, booked in unasked(session) if event == Event.REQUESTED]


# --- what counts --------------------------------------------------------------------------------------------


def test_what_a_spent_share_left_untested_does_not_count(opened: Opened, stream: list[LinearQuery]) -> None:
    with opened() as session:
        poor = session.analyst("poor", Fraction(1, 10**6), at_most=1)
        answers = poor.ask_all(stream[: DUE + 5])
        assert {answer.source for answer in answers} >= {pmw.Source.UNVERIFIED}
        assert session.state.settled == 0
        assert not unasked(session)
        assert session.ledger().lines[-1].booked == WHOLE
        rich = session.analyst("rich", 1, at_most=1)
        rich.ask_all(stream[: DUE + 5])
        assert session.state.settled > DUE // 4  # what was untested is tested for who can pay


def test_a_question_that_no_tier_could_test_does_not_count_though_others_could_be(
    opened: Opened, stream: list[LinearQuery], monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened() as session:
        ledger, plan, options = session.state.ledger, session.state.plan, session.state.contract.options
        prices = [
            ledger.price(reservation(one, options, ledger.composition, round_open=False)) for one in plan
        ]
        analyst = session.analyst(
            "ann", sum(prices) / 2 / ledger.cap, at_most=1
        )  # enough for one of the tiers
        monkeypatch.setattr(QuestionTier, "wanted", lambda _, __, queries: [() for _ in queries])
        answers = [analyst.ask(one) for one in stream[:100]]
        assert may_test(session._engine.limited(analyst._account))
        held = [one for one in answers if one.source in (pmw.Source.SYNTHETIC, pmw.Source.MEASURED)]
        assert 0 < len(held) < len(answers)
        assert session.state.settled == len(held)


def test_questions_count_once_whoever_asks_and_in_whatever_form(
    opened: Opened, stream: list[LinearQuery], tmp_path: Path
) -> None:
    path = tmp_path / "s.pmw"
    ends = [np.array([[low, 0] for low in range(20)]), np.array([[low + 3, 1] for low in range(20)])]
    with opened(path) as session:
        ann, reader = session.analyst("ann", 1, at_most=1), session.analyst("reader", 0)
        ann.ask_all(stream[:100])
        assert session.state.settled == 100
        reader.ask_all(stream[:100], fresh=True)
        session.measure(["sex", "member"])  # what is asked afresh is stored once more from then on
        stored = session.state.asked
        ann.ask_all([*stream[:100], stream[100], stream[100]], fresh=True)
        assert session.state.asked > stored + 50
        assert session.state.settled == 101
        for who, more in ((ann, 20), (reader, 0), (ann, 0)):
            before = session.state.settled
            who.answer_arrays(("age", "visits"), *ends, fresh=True)
            assert session.state.settled == before + more
        ann.ask_all(
            [f"age BETWEEN {low + 20} AND {low + 23} AND visits BETWEEN 0 AND 1" for low in range(20)]
        )
        assert session.state.settled == 121
        asked = session.state.asked
    with pmw.resume_session(path) as session:
        assert (session.state.asked, session.state.settled) == (asked, 121)
        assert session.verify().holds


def test_a_question_under_two_keys_counts_once_in_one_call(opened: Opened, stream: list[LinearQuery]) -> None:
    with opened() as session:
        keyed = [Request(stream[0], stream[0].to_json(), key) for key in ("a", "b")]
        others = [Request(one, one.to_json()) for one in stream[1:1050]]
        session._engine.answer(Requests.of([keyed[0], *others, keyed[1]]))  # in several commits
        assert session.state.settled == session._engine._store.answers.settled_count() == 1050
        assert session.state.asked == 1051
    with opened() as session:
        session._engine.answer(Requests.of(keyed))  # in one
        assert session.state.settled == session._engine._store.answers.settled_count() == 1
        assert session.state.asked == 2


# --- who pays -----------------------------------------------------------------------------------------------


def test_who_asked_pays_in_proportion_and_keeps_a_test(opened: Opened, stream: list[LinearQuery]) -> None:
    with opened() as session:
        people = ask_for_two(session, stream[:DUE])
        assert session.state.settled == DUE
        _, booked = due_spare(session)
        before = session.state.ledger
        session.analyst("reader", 0).ask_all(stream[DUE:300], fresh=True)
        assert session.state.ledger == before  # readers bring nothing that others made due
        session.ask(stream[600])
        assert requests_booked(session)[0] == booked
        assert dict(booked).keys() == {"ann", "bob"}
        assert 0 < dict(booked)["bob"] < Fraction(1, 2)
        assert all(may_test(session._engine.limited(one._account)) for one in people)
        sums = {one.name: one.spent for one in session.bookings()}
        assert max(sums["ann"], sums["bob"]) <= Fraction(3, 4)


def test_what_is_measured_unasked_stays_within_a_share(opened: Opened, stream: list[LinearQuery]) -> None:
    share = Fraction(1, 10)
    with opened() as session:
        ann, store = session.analyst("ann", share, at_most=1), session._engine._store
        ann.ask_all(stream[:DUE])
        assert ann.budget().spent > share / 2
        assert due_marginal(store, session.state, {"ann": None})  # it would be, if the cap alone did bind
        ann.ask(stream[600])
        assert not requests_booked(session)
        assert ann.budget().spent <= share


def spare_of(state: PublicState, payers: Mapping[str, Payer | None]) -> Spare | None:
    """Return what is spare after questions of two analysts about every pair, of one ten times as many."""
    pairs: list[tuple[str, ...]] = [*itertools.combinations(state.domain.names, 2)]
    scopes = {"ann": dict.fromkeys(pairs, 30), "bob": dict.fromkeys(pairs, 3)}
    return plan_spare(state, lambda: scopes, lambda _: state.version, payers)


def test_whose_share_is_too_small_counts_for_nothing_and_whoever_pays_keeps_a_test(
    asked: PublicState,
) -> None:
    cap, options, composition = asked.ledger.cap, asked.contract.options, asked.ledger.composition

    def booked(**payers: Payer | None) -> Parts | None:
        spare = spare_of(asked, payers)
        return spare and spare.booked

    rich, none = Payer(Fraction(1), cap), Payer(Fraction(1, 5), Fraction(0))
    assert booked(ann=rich, bob=rich) == (("ann", Fraction(10, 11)), ("bob", Fraction(1, 11)))
    assert booked(ann=rich, bob=None) == booked(ann=None, bob=None) == booked(ann=rich, bob=rich)
    assert booked(ann=rich, bob=none) == booked(ann=rich) == (("ann", Fraction(1)),)
    assert booked(ann=none, bob=rich) == (("bob", Fraction(1)),)
    assert booked(ann=none, bob=none) is None
    assert booked() is None
    spare = spare_of(asked, {"ann": None})
    assert spare is not None
    price = asked.ledger.price(CellNumbers(spare.scope).entry(spare.noise, options).charge)
    test = asked.ledger.price(reservation(marginal_plan(asked), options, composition, round_open=False))
    little = Fraction(1, 10**6)  # of the cap: what is kept in proportion to it is less than a test
    assert spare_of(asked, {"ann": Payer(little, price + test)}) == spare
    assert spare_of(asked, {"ann": Payer(little, price + test * Fraction(99, 100))}) is None


FORMS = ("where", "fresh", "together", "arrays", "sql", "named")


@settings(max_examples=8)
@given(
    shares=st.lists(
        st.sampled_from([0, Fraction(1, 50), Fraction(1, 5), Fraction(3, 5), 1]), min_size=1, max_size=3
    ),
    turns=st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(FORMS), st.integers(0, 900), st.integers(1, 160)),
        max_size=8,
    ),
)
def test_every_charge_is_explained_and_nobody_is_booked_beyond_a_share(
    opened: Opened, stream: list[LinearQuery], shares: list[Fraction], turns: list[tuple[int, str, int, int]]
) -> None:
    with opened() as session:
        people = [session.analyst(f"a{place}", share, at_most=1) for place, share in enumerate(shares)]
        opening = session.state.ledger.spent
        for who, form, start, count in turns:
            analyst, before = people[who % len(people)], session.state.ledger
            ask_in_form(analyst, form, stream[start : start + count], start)
            if analyst.share == 0:
                assert session.state.ledger == before
        ledger, found = session.ledger(), {one.name: one.spent for one in session.bookings()}
        quantiles = sum((line.price for line in ledger.lines if line.event == Event.QUANTILE), Fraction(0))
        named = sum((spent for name, spent in found.items() if name), Fraction(0))
        assert opening + quantiles + named * ledger.cap == ledger.spent <= ledger.cap
        assert quantiles <= SHARE * ledger.cap
        assert all(found.get(one.name, 0) <= (one.share or 0) for one in people)
        assert all(sum(part for _, part in line.booked) == 1 for line in ledger.lines)
        assert session.verify().holds


def ask_in_form(analyst: pmw.Analyst, form: str, questions: Sequence[LinearQuery], start: int) -> None:
    """Ask in one of the forms in which questions come."""
    if form == "arrays":
        low = np.array([[place % 30, place % 10] for place in range(start, start + len(questions))])
        analyst.answer_arrays(("age", "visits"), low, low, fresh=bool(start % 2))
    elif form == "sql":
        statement = "SELECT region, visits, COUNT(*) FROM study GROUP BY region, visits"
        analyst.tabulate(analyst.reader.statement(statement))
    elif form == "where":
        analyst.ask(
            f"age >= {20 + start % 30} AND member = true AND region = 'east' AND visits > {start % 9}"
        )
    elif form == "named":
        for place, question in enumerate(questions[:20]):
            analyst.ask(question, request_id=f"{start} {place}")
    else:
        analyst.ask_all(questions, fresh=form == "fresh")


# --- the ledger ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "booked",
    [
        (),
        (("ann", Fraction(1, 3)), ("bob", Fraction(1, 3))),
        (("ann", Fraction(2)), ("bob", Fraction(-1))),
        (("ann", Fraction(1)), ("bob", Fraction(0))),
        (("ann", Fraction(1, 2)), ("ann", Fraction(1, 2))),
        (("bob", Fraction(1, 2)), ("ann", Fraction(1, 2))),
    ],
)
def test_parts_that_are_not_those_of_a_whole_are_refused(booked: Parts) -> None:
    with pytest.raises(BudgetError, match="with the sum 1"):
        LedgerEntry("marginal", "age", pure_charge(Fraction(1)), booked)


# --- faults -------------------------------------------------------------------------------------------------


def test_stopped_in_the_middle_the_very_same_parts_are_booked(
    opened: Opened, stream: list[LinearQuery], tmp_path: Path
) -> None:
    path, copy = tmp_path / "one" / "s.pmw", tmp_path / "other" / "s.pmw"
    path.parent.mkdir()
    with opened(path) as session:
        ann, _ = ask_for_two(session, stream[:DUE])
        _, parts = due_spare(session)
        with cut_off():
            ann.ask(stream[600])
    assert len(parts) == 2
    assert failed(path) == {}  # while it waits
    shutil.copytree(path.parent, copy.parent)
    pmw.finalize_session(copy, abandon=True)
    for each in (path, copy):
        with pmw.resume_session(each, VISITS.frame) as session:  # nobody's share is known here
            lines = session.ledger().lines[-1:]
            assert ([one.booked for one in lines] if each == copy else requests_booked(session)) == [parts]
            assert session.verify().holds


@pytest.mark.parametrize("other", ["due_quantiles", "due_marginal"])
def test_what_is_measured_unasked_waits_for_nobody_where_counts_fail(
    opened: Opened, stream: list[LinearQuery], monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    def fail(*_: object) -> None:
        raise DataError("the disk failed")

    with opened() as session:
        ann, reader, store = (
            session.analyst("ann", 1, at_most=1),
            session.analyst("reader", 0),
            session._engine._store,
        )
        ann.ask_all(stream[:DUE])
        before = session.state.ledger
        assert due_spare(session)
        assert releases.due_quantiles(store, session.state)
        monkeypatch.setattr(releases, other, lambda *_: None)
        monkeypatch.setattr(MemorySource, "counts", fail)
        assert ann.ask("age <= 33").interval is not None
        assert session.state.settled == DUE + 1
        assert reader.ask("age <= 35").interval is not None
        assert session.state.ledger == before
        assert store.pending() is None
        assert session.verify().holds


def test_newer_answers_shift_nothing_that_is_due(opened: Opened, stream: list[LinearQuery]) -> None:
    ends = [(20 + place % 25, 24 + place % 25 + place // 25, place % 7) for place in range(100)]
    repeated = [f"age BETWEEN {low} AND {high} AND visits <= {most}" for low, high, most in ends]
    with opened() as session:
        answers = session._engine._store.answers
        session.analyst("reader", 0).ask_all(repeated)
        session.ask_all(repeated)
        session.measure(["age", "visits"])
        session.ask_all(repeated)
        assert sum(run.total() for _, run in answers.newer_runs()) > 0
        session.ask_all(stream[: 2 * DUE])
        quantiles, settled = session.state.quantiles, session.state.settled
        assert answers.settled_count(session.state.asked) == answers.settled_count() == settled
        assert quantiles
        assert {answers.settled_count(one.asked) for one in quantiles} <= {DUE, 2 * DUE}


NOBODY: dict[str, Payer | None] = {"": None}  # is named: the cap alone binds
KEPT = 32  # answers after which all of the budget would be kept for tests


@pytest.fixture(scope="module")
def asked(opened: Opened, stream: list[LinearQuery]) -> PublicState:
    """The state of a session after as many questions as make something due."""
    with opened(seed=3) as session:
        session.ask_all(stream[:DUE])
        return session.state


@pytest.mark.parametrize(
    ("composition", "relation", "persons"),
    [
        (Composition.ZCDP, NeighboringRelation.ADD_REMOVE, 3),
        (Composition.GDP, NeighboringRelation.REPLACE_ONE, 1),
    ],
)
def test_what_is_kept_falls_with_the_answers_and_the_rest_is_measured_and_charged(
    opened: Opened,
    stream: list[LinearQuery],
    composition: Composition,
    relation: NeighboringRelation,
    persons: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    choices = {"neighboring_relation": relation, "records_per_person": persons}
    with opened(composition=composition, epsilon=2 * persons, **choices) as session:
        plan, options = marginal_plan(session.state), session.state.contract.options
        least = session.state.ledger.price(marginal_charge(plan.noise, options))
        for due in (DUE, 2 * DUE):
            session.ask_all(stream[session.state.asked : due])
            before = session.state
            assert before.asked == due
            session.measure("age", dry_run=True)
            assert session.state is before  # due, but nobody asks
            with monkeypatch.context() as patch:
                patch.setattr("pmw.session.releases.due_quantiles", lambda *_: None)
                session._engine._release_due(SESSION)  # what the next question does first
            after = session.state
            new = after.marginals[len(before.marginals) :]
            assert all(map(requested, new))
            kept = after.ledger.cap * Fraction(KEPT, due) + quantiles_left(before)
            prices = [after.ledger.price(marginal_charge(one.noise, options)) for one in new]
            assert after.ledger.spent - before.ledger.spent == sum(prices)
            for one, price in zip(new, prices, strict=True):
                part = 4 if one.scope in before.certificates else 1
                assert 0.99 * part <= price / least <= part
            assert affordable_price(after) >= min(kept, affordable_price(before))
            assert affordable_price(after) < kept + least  # one that was measured takes one price
            assert due_marginal(session._engine._store, after, NOBODY) is None  # not again before the next
        lines = [line for line in session.ledger().lines if line.event == Event.REQUESTED]
        assert len(lines) == sum(requested(one) is not None for one in session.state.measured) > 0
        assert session.verify().holds


def spare_after(state: PublicState, told: Sequence[LinearQuery], half: int | None = None) -> Spare | None:
    """Return what is spare after some questions; one version, the newest if not told, answered half."""
    scopes, version = {"": Counter(query.scope for query in told)}, state.version if half is None else half
    return plan_spare(state, lambda: scopes, lambda _: version, NOBODY)


def test_nothing_is_spare_where_nothing_is_due_or_positives_may_come(
    asked: PublicState, stream: list[LinearQuery]
) -> None:
    told, (first, _) = stream[:DUE], marginal_plan(asked).decay
    assert spare_after(asked, told) is not None
    assert spare_after(replace(asked, settled=300), told) is None  # not due
    options = replace(asked.contract.options, accuracy=0.1, records=20_000)
    assert spare_after(replace(asked, contract=replace(asked.contract, options=options)), told) is None
    assert spare_after(asked, [one for one in told if len(one.scope) < 2]) is None  # pairs wait to be asked
    assert asked.version >= 2
    assert spare_after(asked, told, 0) is None  # four times as many may come again
    for length, is_spare in ((64, True), (65, False)):  # thresholds come down
        assert (spare_after(state_with(asked, decay=(first, length)), told) is not None) == is_spare


def test_it_is_what_many_questions_rest_on_and_little_was_paid_for(
    asked: PublicState, stream: list[LinearQuery]
) -> None:
    one, other = list(dict.fromkeys(part.scope for part in asked.marginals))[:2]
    all_pairs = [query for query in stream if len(query.scope) == 2]
    rests = {scope: next(query for query in stream if query.scope == scope) for scope in (one, other)}

    def chosen(state: PublicState, counts: dict[tuple[str, ...], int]) -> tuple[str, ...]:
        extra = [rests[scope] for scope, count in counts.items() for _ in range(count)]
        found = spare_after(state, [*all_pairs, *extra])
        assert found is not None
        return found.scope

    again = next(part for part in asked.marginals if part.scope == one)
    paid = replace(asked, measured=(*asked.measured, again, again))
    assert chosen(asked, {other: 10_000}) == other
    assert chosen(paid, {one: 10_000, other: 9_000}) == other
    assert chosen(paid, {one: 10_000, other: 100}) == one
    assert chosen(asked, {one: 10_000, other: 9_000}) == one


def test_the_scopes_of_stored_questions_are_counted_without_reading_each() -> None:
    """Names may look like what stands for cells; questions come alone, in blocks, and again."""
    names = ("a[1,2,3]", "a[1,2,4]", 'c"')
    domain = Domain(tuple(IntegerAttribute(name, 0, 19) for name in names), "people")
    frame = pd.DataFrame(np.random.default_rng(0).integers(0, 20, (500, 3)), columns=list(names))
    with pmw.open_session(frame, domain, epsilon=1, delta=1e-9, options=pmw.Options(seed=4)) as session:
        store = session._engine._store
        assert not load_scopes(store, domain)
        stream = list(random_conjunctions(domain, 300, seed=1))
        some_of = " OR ".join(f"{quoted_name(name)} <= 3" for name in names)
        either: list[Any] = ["", {names[0]: {"ge": 3.5}}, some_of]
        for some in (stream[:200], stream, either):
            session.ask_all(some)
            session.ask_all(some[:90], fresh=True)
        ends = np.sort(np.random.default_rng(2).integers(0, 20, (2, 300, 2)), axis=0)
        session.finalize()  # nothing is tested any more: they are stored as ranges
        session.answer_arrays(names[:2], *ends)
        assert any(
            isinstance(texts, RangeTexts) and len(texts) > 9 for _, texts in store.answers.first_questions()
        )
        (found,) = load_scopes(store, domain).values()
        assert found == Counter(query.scope for query in session.asked())
        assert len(found) > 6


@pytest.fixture
def opened_zcdp() -> Opened:
    return partial(WHOLE_YEARS.opened, epsilon=1, composition=Composition.ZCDP)


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
    opened_zcdp: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = questions(WHOLE_YEARS.domain, 250)
    with opened_zcdp(seed=5, epsilon=4) as session:
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


def test_answers_say_what_is_typical_from_then_on_and_repeat_what_they_said(opened_zcdp: Opened) -> None:
    asked = questions(WHOLE_YEARS.domain, 400)
    with opened_zcdp(seed=1) as session:
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


def test_in_pure_dp_error_quantiles_cost_what_their_noise_does_and_at_most_their_share(
    opened_zcdp: Opened,
) -> None:
    choices = {"composition": Composition.PURE, "neighboring_relation": NeighboringRelation.REPLACE_ONE}
    with opened_zcdp(seed=2, epsilon=12, **choices) as session:
        session.ask_all(questions(WHOLE_YEARS.domain, 530))
        state, ledger = session.state, session.ledger()
    entries = [
        quantile_entry(one.kind.describe(), one.noise, state.contract.options) for one in state.quantiles
    ]
    paid = [line.price for line in ledger.lines if line.event == "error quantile"]
    assert paid == [state.ledger.price(entry.charge) for entry in entries] != []
    assert sum(paid) <= ledger.cap * SHARE


@pytest.mark.usefixtures("repeatable")
def test_without_its_table_a_session_answers_what_is_free_and_releases_no_quantile(
    opened_zcdp: Opened, tmp_path: Path
) -> None:
    path = tmp_path / "study.pmw"
    asked = questions(WHOLE_YEARS.domain, DUE)
    with opened_zcdp(path) as session:
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
def test_a_quantile_that_was_not_due_or_lost_its_charge_is_found(opened_zcdp: Opened, tmp_path: Path) -> None:
    path = tmp_path / "study.pmw"
    with opened_zcdp(path) as session:
        session.ask_all(questions(WHOLE_YEARS.domain, DUE))
        session._engine._release_due(SESSION)  # what the next question does first
        assert session.state.quantiles
    whole = path.read_bytes()
    edit(path, "measurements", "what", "kind = 'error quantiles'", lambda text: text.replace("256", "255"))
    assert "the error quantiles are those that were due" in failed(path)
    path.write_bytes(whole)
    tamper(path, "DELETE FROM ledger WHERE event = 'error quantile'")
    assert len(failed(path)) > 0
