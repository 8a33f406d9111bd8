"""What tests of a long stream do not need is measured on the way, in parts, charged as any request."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.data import MemorySource
from pmw.loop import Payer, plan_spare
from pmw.planning.error_quantiles import quantiles_left
from pmw.privacy.budget import Composition, NeighboringRelation
from pmw.privacy.random_bits import repeatable_seed
from pmw.public.charges import Event, Parts, marginal_charge
from pmw.public.plans import marginal_tier
from pmw.public.quotes import affordable_price
from pmw.public.state import PublicState, is_requested
from pmw.session.accounts import SESSION
from pmw.session.engine import Engine
from pmw.session.loading import load_scopes
from pmw.session.releases import MarginalRelease, Release, StoredAnswers
from queries import (
    UNITS,
    Domain,
    IntegerAttribute,
    LinearQuery,
    random_conjunctions,
)
from queries.cells import quoted_name
from queries.range_texts import RangeTexts
from tests.worlds import VISITS

Opened = Callable[..., pmw.Session]
NOBODY: dict[str, Payer | None] = {"": None}  # is named: the cap alone binds
KEPT = 32  # answers after which all of the budget would be kept for tests


@pytest.fixture(scope="module")
def study() -> Domain:
    return VISITS.domain


@pytest.fixture
def opened() -> Opened:
    return VISITS.opened


@pytest.fixture(scope="module")
def stream(study: Domain) -> list[LinearQuery]:
    """Distinct questions: a repeated one is not counted where releases come due."""
    found = {one.to_json(): one for one in random_conjunctions(study, 4000, seed=9)}
    return list(found.values())[:1100]


@dataclass(frozen=True)
class Told:
    """Questions, and the version that the model had when half as many were answered."""

    told: Sequence[LinearQuery]
    half: int

    def scopes(self) -> dict[str, Counter[tuple[str, ...]]]:
        return {"": Counter(query.scope for query in self.told)}

    def version(self, place: int) -> int:
        return self.half


@pytest.fixture
def begin_noise(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return what makes the noise of the next session in a file repeatable."""

    def begin(seed: int) -> None:
        numbers = itertools.count()
        monkeypatch.setattr("pmw.session.journal.fresh_seed", lambda: repeatable_seed(seed, next(numbers)))

    return begin


@pytest.mark.parametrize("relation", list(NeighboringRelation))
@pytest.mark.parametrize("composition", [Composition.ZCDP, Composition.GDP])
@pytest.mark.parametrize("persons", [1, 3])
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
        plan, options = marginal_tier(session.state.plan), session.state.contract.options
        assert plan is not None
        least = session.state.ledger.price(marginal_charge(plan.noise, options))
        for due in (256, 512, 1024):
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
            assert all(map(is_requested, new))
            kept = after.ledger.cap * Fraction(KEPT, due) + quantiles_left(before)
            prices = [after.ledger.price(marginal_charge(one.noise, options)) for one in new]
            assert after.ledger.spent - before.ledger.spent == sum(prices)
            parts = [4 if one.scope in before.certificates else 1 for one in new]
            assert all(
                0.99 * part <= price / least <= part for part, price in zip(parts, prices, strict=True)
            )
            assert affordable_price(after) >= min(kept, affordable_price(before))
            assert affordable_price(after) < kept + least  # one that was measured takes one price
            assert (
                plan_spare(after, StoredAnswers(session._engine._store, after.domain), NOBODY) is None
            )  # not again before the next
        lines = [line for line in session.ledger().lines if line.event == Event.REQUESTED]
        assert len(lines) == sum(map(is_requested, session.state.measured)) > 0
        assert session.verify().holds


def test_nothing_is_spare_while_pairs_of_attributes_wait_to_be_asked(
    opened: Opened, stream: list[LinearQuery], study: Domain
) -> None:
    about_age = [
        LinearQuery.cells(study, {"age": (low, high)}) for low in range(29) for high in range(low, 29)
    ]
    with opened(seed=2) as session:
        session.ask_all(about_age[:300])
        assert session.state.asked == 300
        assert not any(map(is_requested, session.state.measured))
    with opened(seed=2) as session:
        session.ask_all(stream[:256])
        state = session.state
        assert plan_spare(state, Told(stream[:256], state.version), NOBODY) is not None
        assert (
            plan_spare(replace(state, settled=300), Told(stream[:256], state.version), NOBODY) is None
        )  # not due
        options = replace(state.contract.options, accuracy=0.1, records=20_000)
        contract = replace(state.contract, options=options)
        assert (
            plan_spare(replace(state, contract=contract), Told(stream[:256], state.version), NOBODY) is None
        )
        single = [one for one in stream[:256] if len(one.scope) < 2]
        assert plan_spare(state, Told(single, state.version), NOBODY) is None


def test_nothing_is_spare_while_thresholds_come_down_or_positives_come(
    opened: Opened, stream: list[LinearQuery]
) -> None:
    with opened(seed=2) as session:
        session.ask_all(stream[:256])
        state = session.state
    tier = marginal_tier(state.plan)
    assert tier is not None
    assert state.version >= 2
    assert plan_spare(state, Told(stream[:256], state.version), NOBODY) is not None
    assert plan_spare(state, Told(stream[:256], 0), NOBODY) is None  # four times as many may come again

    def slower(length: int) -> PublicState:
        return replace(state, plan=(replace(tier, decay=(tier.decay[0], length)), *state.plan[1:]))

    assert plan_spare(slower(64), Told(stream[:256], state.version), NOBODY) is not None
    assert plan_spare(slower(65), Told(stream[:256], state.version), NOBODY) is None


def test_it_is_what_many_questions_rest_on_and_little_was_paid_for(
    opened: Opened, stream: list[LinearQuery], study: Domain
) -> None:
    with opened(seed=2) as session:
        session.ask_all(stream[:256])
        state = session.state
    (one, again), (other, *_) = [
        [part for part in state.marginals if set(part.scope) == set(scope)] * 2
        for scope in list({part.scope: None for part in state.marginals})[:2]
    ]
    all_pairs = [query for query in stream if len(query.scope) == 2]
    rests = {part.scope: next(q for q in stream if q.scope == part.scope) for part in (one, other)}

    def chosen(state: PublicState, counts: dict[tuple[str, ...], int]) -> tuple[str, ...]:
        extra = [rests[scope] for scope, count in counts.items() for _ in range(count)]
        found = plan_spare(state, Told([*all_pairs, *extra], state.version), NOBODY)
        assert found is not None
        return found[0]

    assert chosen(state, {one.scope: 10_000}) == one.scope
    assert chosen(state, {other.scope: 10_000}) == other.scope
    paid = replace(state, measured=(*state.measured, again, again))
    assert chosen(paid, {one.scope: 10_000, other.scope: 9_000}) == other.scope
    assert chosen(paid, {one.scope: 10_000, other.scope: 100}) == one.scope
    assert chosen(state, {one.scope: 10_000, other.scope: 9_000}) == one.scope


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
        assert not any(map(is_requested, session.state.measured))


def test_it_comes_due_after_the_same_answers_however_a_stream_is_cut(
    opened: Opened, stream: list[LinearQuery], monkeypatch: pytest.MonkeyPatch
) -> None:
    due: list[int] = []
    real = Engine._release

    def release(self: Engine, what: Release, booked: Parts) -> None:
        if isinstance(what, MarginalRelease):
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
    opened: Opened,
    stream: list[LinearQuery],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    begin_noise: Callable[[int], None],
) -> None:
    begin_noise(20)
    with opened(tmp_path / "whole.pmw") as session:
        expected = session.ask_all(stream[:300])
        measured = [one.scope for one in session.state.marginals if one.requested]
        assert len(measured) >= 2
    made, real = 0, Engine._carry_out_release

    def stop(self: Engine, *arguments: Any) -> None:
        nonlocal made
        made += 1
        if made == 2:
            raise KeyboardInterrupt
        real(self, *arguments)

    begin_noise(20)
    path = tmp_path / "study.pmw"
    with opened(path) as session:
        first = session.ask_all(stream[:256])
        monkeypatch.setattr(Engine, "_carry_out_release", stop)
        with pytest.raises(KeyboardInterrupt):
            session.ask_all(stream[256:300])
        monkeypatch.setattr(Engine, "_carry_out_release", real)
    with pmw.resume_session(path, VISITS.frame) as session:
        assert [one.scope for one in session.state.marginals if one.requested] == measured[:2]
        last = session.ask_all(stream[256:300])
        assert [one.scope for one in session.state.marginals if one.requested] == measured
        assert [one.count for one in (*first, *last)] == [one.count for one in expected]
        assert session.verify().holds


def test_without_the_table_what_is_free_is_answered(
    opened: Opened, stream: list[LinearQuery], tmp_path: Path, begin_noise: Callable[[int], None]
) -> None:
    begin_noise(2)
    path = tmp_path / "study.pmw"
    with opened(path) as session:
        session.ask_all(stream[:256])
        spent = session.state.ledger.spent
    with pmw.resume_session(path) as session:
        assert plan_spare(session.state, Told(session.asked(), session.state.version), NOBODY) is not None
        again = session.ask("age BETWEEN 30 AND 40")
        assert again.interval is not None
        assert session.state.asked == 257
        assert session.state.ledger.spent == spent


def test_errors_of_what_is_asked_later_become_smaller(
    opened: Opened,
    study: Domain,
    stream: list[LinearQuery],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = MemorySource.from_frame(VISITS.frame, study)
    truth = np.array([query.answer(source.counts(query.scope)) / UNITS for query in stream])

    def error(seed: int) -> float:
        with opened(seed=seed) as session:
            return float(np.abs([one.count for one in session.ask_all(stream)] - truth)[256:].mean())

    with_it = [error(seed) for seed in range(6)]
    monkeypatch.setattr("pmw.session.releases.due_marginal", lambda *_: None)
    gains = np.array([error(seed) for seed in range(6)]) - with_it
    assert gains.mean() > 2 * gains.std(ddof=1) / np.sqrt(len(gains))


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
