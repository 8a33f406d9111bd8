"""Events: what the rows of a file say, applied one after another, is the session's state."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pmw
from pmw.loop.untested import apply, settle_opening
from pmw.public.charges import charged
from pmw.session.events import Contents
from pmw.session.released import duals_of
from pmw.session.store.store import SessionStore
from queries import Domain, IntegerAttribute
from tests.worlds import YEARS, opened

DOMAIN = Domain(
    tuple(replace(one, resolution=1) if isinstance(one, IntegerAttribute) else one for one in YEARS.domain),
    name="people",
)

QUESTIONS = [
    "age >= 40",
    "sex = 'Male' AND age < 35",
    "age BETWEEN 24 AND 31 AND member = TRUE",
    "sex = 'Female' AND region = 'south'",
]


def test_events_applied_in_order_give_the_state_of_the_session(tmp_path: Path) -> None:
    path = tmp_path / "study.pmw"
    with opened(YEARS.frame, DOMAIN, path, epsilon=6, opening=pmw.Opening.ONE_WAY) as session:
        session.ask_all(QUESTIONS)
        session.measure(["sex", "region"])
        session.measure("age < 30 AND member = TRUE", share=0.01)
        session.measure_sum("age", "sex")
        session.ask_all([f"age < {age} AND sex = 'Male'" for age in range(21, 50)])
        lived = session.state
    with closing(SessionStore.open(path)) as store:
        contents = Contents(store)
    ledger = charged(contents.cap, contents.entries[: contents.opened])
    state = settle_opening(contents.contract, contents.opening, contents.draws, ledger, contents.test)
    assert len(contents.events) > 3
    for event in contents.events:
        ledger = charged(ledger, [entry for _, entry in event.charges])
        for one in event.released:
            state = apply(state, one, ledger)
    assert state.ledger.spent <= ledger.spent == lived.ledger.spent
    assert [one.noise for one in state.measured] == [one.noise for one in lived.measured]
    assert len(state.apart) == len(lived.apart)
    assert len(state.quantiles) == len(lived.quantiles)
    assert duals_of(state).tolist() == duals_of(lived).tolist()


def test_every_charge_after_opening_and_every_measurement_is_of_one_event(tmp_path: Path) -> None:
    path = tmp_path / "study.pmw"
    with YEARS.opened(path, epsilon=6) as session:
        session.ask_all(QUESTIONS)
        session.measure(["sex", "region"])
    with closing(SessionStore.open(path)) as store:
        contents = Contents(store)
    batches = [event.batch for event in contents.events]
    assert batches == sorted(set(batches))
    places = [place for event in contents.events for place, _ in event.charges]
    assert places == list(range(contents.opened + 1, len(contents.entries) + 1))
    rows = len(contents.chained.measurements)
    assert len(contents.released) == rows - 1 - len(contents.draws.marginals) - len(contents.draws.sums)
