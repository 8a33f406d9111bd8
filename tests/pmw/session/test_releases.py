"""What no test decides: of each kind it is recorded, drawn and charged once, and is known ever after."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.errors import DataError
from pmw.loop.untested import Requested
from pmw.session.store.store import SessionStore
from tests.pmw.session import test_mean_bars, test_persons, test_reserve, test_rows
from tests.pmw.session import test_value_sums as sums
from tests.pmw.session.stored import killed_drawing

Asked = pmw.Session | pmw.PublicModel


class Kind(NamedTuple):
    """A kind of release.

    Attributes:
        opened: opens a session over a table.
        frame: the table.
        ask: what it is released for.
        told: what is known of it then.
        is_asked_for: it is measured on request; else a question with a wide bar pays for it.
    """

    opened: Callable[[Path], pmw.Session]
    frame: pd.DataFrame
    ask: Callable[..., Any]
    told: Callable[[Any], Any]
    is_asked_for: bool = True


def bars_of(*conditions: str) -> Callable[[Asked], Any]:
    def told(asked: Asked) -> Any:
        answers = [asked.ask(where, at_most=0) for where in conditions]
        return [(answer.count, answer.interval) for answer in answers]

    return told


KINDS = {
    "marginal": Kind(
        test_rows.opened,
        test_rows.FRAME,
        lambda session, **given: session.measure(["sex", "region", "rooms"], at_most=1, **given),
        bars_of("sex = 'f' AND region = 'n' AND rooms > 2"),
    ),
    "questions": Kind(
        test_rows.opened,
        test_rows.FRAME,
        lambda session, **given: session.measure(test_rows.LIST, within=100, at_most=1, **given),
        bars_of(*test_rows.LIST),
    ),
    "sums": Kind(
        sums.open_trips,
        sums.FRAME,
        lambda session, **given: session.measure_sum("delay", "region", at_most=1, **given),
        lambda asked: [(one.value, one.interval) for one in asked.mean("delay", by="region").estimates()],
    ),
    "persons": Kind(
        test_persons.open_trips,
        test_persons.FRAME,
        lambda session, **given: session.measure_heads("region", at_most=1, **given),
        lambda asked: asked.sql(test_persons.BY_REGION).to_dict()["rows"],
    ),
    "a question's number": Kind(
        test_reserve.opened,
        test_rows.FRAME,
        lambda session, **given: session.ask(test_reserve.WIDE, **given),
        bars_of(test_reserve.WIDE, test_reserve.ALSO, test_reserve.NARROW),
        is_asked_for=False,
    ),
    "a statement's values": Kind(
        test_mean_bars.reserved,
        test_mean_bars.FRAME,
        lambda session, **_: session.sql(test_mean_bars.GROUPS),
        lambda asked: [*asked.sql(test_mean_bars.GROUPS, at_most=0).estimates()],
        is_asked_for=False,
    ),
}
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())


@kinds
def test_what_was_drawn_and_not_yet_durable_is_drawn_again_alike_and_charged_once(
    kind: Kind, tmp_path: Path
) -> None:
    path = tmp_path / "study.pmw"
    with kind.opened(path) as session:
        before = session.state.ledger.spent
        with killed_drawing() as drawn:
            kind.ask(session, request_id="k")
    with pmw.resume_session(path, kind.frame) as session:
        spent, line = session.state.ledger.spent, session.ledger().lines[-1]
        newest = (*session.state.measured[-1:], *session.state.apart[-1:])
        assert any(np.array_equal(one.units, drawn[0]) for one in newest)
        assert spent == before + line.price > before
        kind.ask(session, request_id="k")  # it is paid by now
        assert session.state.ledger.spent == spent
        assert len(drawn) == 1
        assert session.verify().holds


@kinds
def test_it_is_recorded_then_drawn_then_charged_and_a_resumed_session_and_its_model_know_it(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, begin, finish, really = list[str](), SessionStore.begin, SessionStore.finish, Requested.measured

    def begun(self: SessionStore, *rest: Any) -> int:
        events.append("recorded")
        return begin(self, *rest)

    def finished(self: SessionStore, intent: int | None, outcome: Any) -> None:
        finish(self, intent, outcome)
        events.append(f"charged {len(outcome.ledger)}")

    def drawn(requested: Requested, *rest: Any) -> Any:
        events.append("drawn")
        return really(requested, *rest)

    path = tmp_path / "study.pmw"
    with kind.opened(path) as session:
        with monkeypatch.context() as patch:
            patch.setattr(SessionStore, "begin", begun)
            patch.setattr(SessionStore, "finish", finished)
            patch.setattr(Requested, "measured", drawn)
            kind.ask(session)
        told = kind.told(session)
    assert events[:3] == ["recorded", "drawn", "charged 1"]
    assert set(events[3:]) <= {"charged 0"}  # what was answered
    with pmw.resume_session(path, kind.frame) as session:
        assert kind.told(session) == told
        session.export(tmp_path / "study.model")
    assert kind.told(pmw.load_model(tmp_path / "study.model")) == told
    assert pmw.verify_session(path).holds


@kinds
def test_without_the_table_nothing_is_measured_or_charged(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unread(*_: Any) -> None:
        raise DataError("gone")

    path = tmp_path / "study.pmw"
    kind.opened(path).close()
    with pmw.resume_session(path, kind.frame) as session:
        spent = session.state.ledger.spent
        monkeypatch.setattr("pmw.session.engine.session_table", unread)
        if kind.is_asked_for:
            with pytest.raises(DataError, match="gone"):
                kind.ask(session)
        else:
            assert kind.ask(session).spent.charged == 0
        assert session.state.ledger.spent == spent
        assert session.verify().holds


# --- what a question with a wide bar pays for ---------------------------------------------------------------

PAID = {
    "numbers": (test_reserve.opened, test_reserve.GROUPS),
    "values": (test_mean_bars.reserved, test_mean_bars.GROUPS),
    "numbers and values": (test_mean_bars.reserved, test_mean_bars.BOTH),
}


@pytest.mark.parametrize(("opened", "statement"), PAID.values(), ids=PAID)
def test_a_statement_that_threads_share_is_paid_for_as_one(
    opened: Callable[[], pmw.Session], statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pmw.session.dialogue.TURN_WORK", 3)
    with opened() as session, opened() as shared:
        shared._turn.is_shared = True
        for asked in (session, shared):  # a part of the reserve is due after some more
            asked.ask_all([f"{session.domain.names[0]} <= {number}" for number in range(40)])
        before = len(session.ledger().lines)
        one, other = session.sql(statement), shared.sql(statement)
        assert other.spent.charged == one.spent.charged > 0
        assert [*other.estimates()] == [*one.estimates()]
        assert shared.ledger().lines == session.ledger().lines
        assert len(session.ledger().lines) - before == 1 + (statement is test_mean_bars.BOTH)
