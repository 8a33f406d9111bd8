"""What tests of a long stream do not need is measured on the way, in parts, charged as any request."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.loop.finishing import Payer, Spare, plan_spare
from pmw.planning.error_quantiles import quantiles_left
from pmw.privacy.budget import Composition, NeighboringRelation
from pmw.public.charges import Event, Parts, marginal_charge
from pmw.public.quotes import affordable_price
from pmw.public.state import PublicState, requested
from pmw.session.accounts import SESSION
from pmw.session.engine import Engine
from pmw.session.loading import load_scopes
from pmw.session.releases import MeasuredRelease, Release, due_marginal
from queries import Domain, IntegerAttribute, LinearQuery, random_conjunctions
from queries.boxes import RangeTexts
from queries.cells import quoted_name
from tests.pmw.session.stored import cut_off
from tests.worlds import VISITS, marginal_plan, repeat_noise, state_with

Opened = Callable[..., pmw.Session]
NOBODY: dict[str, Payer | None] = {"": None}  # is named: the cap alone binds
DUE = 256  # answers after which something may be spare, then twice as many, and so on
KEPT = 32  # answers after which all of the budget would be kept for tests


@pytest.fixture(scope="module")
def opened() -> Opened:
    return VISITS.opened


@pytest.fixture(scope="module")
def asked(opened: Opened, stream: list[LinearQuery]) -> PublicState:
    """The state of a session after as many questions as make something due."""
    with opened(seed=3) as session:
        session.ask_all(stream[:DUE])
        return session.state


def spare_of(state: PublicState, told: Sequence[LinearQuery], half: int | None = None) -> Spare | None:
    """Return what is spare after some questions; one version, the newest if not told, answered half."""
    scopes, version = {"": Counter(query.scope for query in told)}, state.version if half is None else half
    return plan_spare(state, lambda: scopes, lambda _: version, NOBODY)


@pytest.mark.parametrize(
    ("composition", "relation", "persons"),
    [
        (Composition.ZCDP, NeighboringRelation.ADD_REMOVE, 1),
        (Composition.ZCDP, NeighboringRelation.REPLACE_ONE, 3),
        (Composition.GDP, NeighboringRelation.REPLACE_ONE, 1),
        (Composition.GDP, NeighboringRelation.ADD_REMOVE, 3),
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
    with opened(composition=composition, epsilon=2 * persons, seed=2, **choices) as session:
        plan, options = marginal_plan(session.state), session.state.contract.options
        least = session.state.ledger.price(marginal_charge(plan.noise, options))
        for due in (DUE, 2 * DUE, 4 * DUE):
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


def test_nothing_is_spare_while_pairs_of_attributes_wait_to_be_asked(
    opened: Opened, asked: PublicState, stream: list[LinearQuery]
) -> None:
    ends = itertools.combinations_with_replacement(range(29), 2)
    about_age = [LinearQuery.cells(VISITS.domain, {"age": one}) for one in ends]
    with opened(seed=2) as session:
        session.ask_all(about_age[:300])
        assert session.state.asked == 300
        assert not any(map(requested, session.state.measured))
    told = stream[:DUE]
    assert spare_of(asked, told) is not None
    assert spare_of(replace(asked, settled=300), told) is None  # not due
    options = replace(asked.contract.options, accuracy=0.1, records=20_000)
    assert spare_of(replace(asked, contract=replace(asked.contract, options=options)), told) is None
    assert spare_of(asked, [one for one in told if len(one.scope) < 2]) is None


def test_nothing_is_spare_while_thresholds_come_down_or_positives_come(
    asked: PublicState, stream: list[LinearQuery]
) -> None:
    assert asked.version >= 2
    assert spare_of(asked, stream[:DUE]) is not None
    assert spare_of(asked, stream[:DUE], 0) is None  # four times as many may come again
    first = marginal_plan(asked).decay[0]
    for length, is_spare in ((64, True), (65, False)):
        slower = state_with(asked, decay=(first, length))
        assert (spare_of(slower, stream[:DUE]) is not None) == is_spare


def test_it_is_what_many_questions_rest_on_and_little_was_paid_for(
    asked: PublicState, stream: list[LinearQuery]
) -> None:
    one, other = list(dict.fromkeys(part.scope for part in asked.marginals))[:2]
    all_pairs = [query for query in stream if len(query.scope) == 2]
    rests = {scope: next(query for query in stream if query.scope == scope) for scope in (one, other)}

    def chosen(state: PublicState, counts: dict[tuple[str, ...], int]) -> tuple[str, ...]:
        extra = [rests[scope] for scope, count in counts.items() for _ in range(count)]
        found = spare_of(state, [*all_pairs, *extra])
        assert found is not None
        return found.scope

    assert chosen(asked, {one: 10_000}) == one
    assert chosen(asked, {other: 10_000}) == other
    again = next(part for part in asked.marginals if part.scope == one)
    paid = replace(asked, measured=(*asked.measured, again, again))
    assert chosen(paid, {one: 10_000, other: 9_000}) == other
    assert chosen(paid, {one: 10_000, other: 100}) == one
    assert chosen(asked, {one: 10_000, other: 9_000}) == one


@pytest.mark.parametrize(
    "choices",
    [
        {"test": pmw.TestKind.QUERY},
        {"simultaneous": True},
        {"accuracy": 0.1, "records": 20_000},
    ],
    ids=["single questions", "simultaneous", "an accuracy contract"],
)
def test_sessions_that_measure_nothing_on_request_or_must_answer_on_keep_all(
    opened: Opened, stream: list[LinearQuery], choices: dict[str, Any]
) -> None:
    with opened(seed=2, **choices) as session:
        session.ask_all(stream[:300])
        assert not any(map(requested, session.state.measured))


def test_it_comes_due_after_the_same_answers_however_a_stream_is_cut(
    opened: Opened, stream: list[LinearQuery], monkeypatch: pytest.MonkeyPatch
) -> None:
    due: list[int] = []
    real = Engine._release

    def release(self: Engine, what: Release, booked: Parts) -> None:
        if isinstance(what, MeasuredRelease):
            due.append(self.state.asked)
        real(self, what, booked)

    monkeypatch.setattr(Engine, "_release", release)
    for size in (600, 75):
        due.clear()
        with opened(seed=2) as session:
            for start in range(0, 600, size):
                session.ask_all(stream[start : start + size])
        assert {256} <= set(due) <= {256, 512}


def test_stopped_in_the_middle_the_same_is_measured_and_nothing_twice(
    opened: Opened, stream: list[LinearQuery], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repeat_noise(monkeypatch, 20)
    with opened(tmp_path / "whole.pmw") as session:
        expected = session.ask_all(stream[:300])
        measured = [one.scope for one in session.state.marginals if one.requested]
        assert len(measured) >= 2
    repeat_noise(monkeypatch, 20)
    path = tmp_path / "study.pmw"
    with opened(path) as session:
        first = session.ask_all(stream[:DUE])
        with cut_off(after=1):
            session.ask_all(stream[DUE:300])
    with pmw.resume_session(path, VISITS.frame) as session:
        assert [one.scope for one in session.state.marginals if one.requested] == measured[:2]
        last = session.ask_all(stream[DUE:300])
        assert [one.scope for one in session.state.marginals if one.requested] == measured
        assert [one.count for one in (*first, *last)] == [one.count for one in expected]
        assert session.verify().holds


@pytest.mark.parametrize("names", [("a", "b", "c"), ("a[1,2,3]", "a[1,2,4]", 'c"')])
def test_the_scopes_of_stored_questions_are_counted_without_reading_each(names: tuple[str, ...]) -> None:
    """Names may look like what stands for cells; questions come alone, in blocks, and again."""
    domain = Domain(tuple(IntegerAttribute(name, 0, 19) for name in names), "people")
    frame = pd.DataFrame(np.random.default_rng(0).integers(0, 20, (500, 3)), columns=list(names))
    options = pmw.Options(seed=4)
    with pmw.open_session(frame, domain, epsilon=1, delta=1e-9, options=options) as session:
        assert not load_scopes(session._engine._store, domain)
        stream = list(random_conjunctions(domain, 300, seed=1))
        some_of = " OR ".join(f"{quoted_name(name)} <= 3" for name in names)
        either: list[Any] = ["", {names[0]: {"ge": 3.5}}, some_of]
        for some in (stream[:200], stream, either):
            session.ask_all(some)
            session.ask_all(some[:90], fresh=True)
        ends = np.sort(np.random.default_rng(2).integers(0, 20, (2, 300, 2)), axis=0)
        session.finalize()  # nothing is tested any more: they are stored as ranges
        session.answer_arrays(names[:2], *ends)
        store = session._engine._store
        assert any(
            isinstance(texts, RangeTexts) and len(texts) > 9 for _, texts in store.answers.first_questions()
        )
        (found,) = load_scopes(store, domain).values()
        assert found == Counter(query.scope for query in session.asked())
        assert len(found) > 6
