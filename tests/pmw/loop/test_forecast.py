"""What opening can count on, and which attributes it refines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pmw
from pmw.loop.fit import refined, residual
from pmw.loop.loop import forecast
from queries import all_marginals, parse_sql, parse_where, random_conjunctions
from tests.worlds import WIDE, YEARS

OPTIONS: list[dict[str, Any]] = [
    {},
    {"update_limit": 3},
    {"test": pmw.TestKind.QUERY, "update_limit": 4},
    {"opening": pmw.Opening.NONE, "update_limit": 4},
]


@pytest.mark.parametrize("options", OPTIONS, ids=["default", "few", "questions", "nothing opened"])
@pytest.mark.parametrize("delta", [1e-9, 0])
@settings(max_examples=6)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 12))
def test_what_is_charged_lies_between_the_least_and_the_most(
    options: dict[str, Any], delta: float, seed: int, size: int
) -> None:
    with YEARS.opened(delta=delta, seed=seed, **options) as session:
        queries = list(random_conjunctions(session.domain, 60, seed=seed))
        for start in range(0, len(queries), size):
            asked = queries[start : start + size]
            told, before = forecast(session.state, asked), session.state.ledger.share
            session.ask_all(asked, fresh=True)
            charged = session.state.ledger.share - before
            assert told.least - 1e-12 <= charged <= told.most + 1e-12
            assert (told.most > 0) or charged == 0


def test_a_session_tells_the_cost_of_every_form_of_question() -> None:
    with YEARS.opened(seed=1, test=pmw.TestKind.QUERY) as session:
        domain = session.domain
        where = parse_where("age >= 40 AND sex = 'Female'", domain)
        told = session.forecast(where)
        assert (told.questions, told.stored) == (1, 0)
        assert 0 <= told.least < told.most
        assert "at most" in told.sentence()
        before = session.state
        grouped = session.forecast(
            parse_sql("SELECT sex, region, COUNT(*) FROM people GROUP BY sex, region", domain)
        )
        assert grouped.questions == 12
        assert grouped.most >= told.most
        assert session.state is before
        session.ask(where)
        again = session.forecast(where)
        assert (again.stored, again.least, again.most) == (1, 0.0, 0.0)
        assert again.sentence() == "is free: it was answered before, and gets the same answer"
        session.finalize()
        later = session.forecast(parse_where("age >= 33 AND sex = 'Male'", domain))
        assert later.sentence() == "is free: nothing is to be tested"


# --- refine ---------------------------------------------------------------------------------------------


CHOICES: list[dict[str, Any]] = [
    {},
    {"model": pmw.ModelKind.GRAPHICAL},
    {"test": pmw.TestKind.QUERY},
    {"test": pmw.TestKind.QUERY, "update": pmw.UpdateRule.STEP},
]


@pytest.fixture(scope="module")
def asked() -> Iterator[list[pmw.Session]]:
    """Sessions of each choice that were asked all pairs, twice."""
    sessions = [WIDE.opened(seed=1, **choices) for choices in CHOICES]
    for session in sessions * 2:
        session.ask_all(all_marginals(WIDE.domain, 2), fresh=True)
    yield sessions
    for session in sessions:
        session.close()


@pytest.mark.parametrize("place", range(len(CHOICES)))
def test_a_refined_model_is_nearer_to_what_was_measured_and_the_session_stays_as_it_was(
    asked: list[pmw.Session], place: int
) -> None:
    session = asked[place]
    state = session.state
    before, marginal = residual(state), np.array(state.model.marginal(("a", "b")))
    finer = refined(state)
    after = residual(finer)
    assert before is not None
    assert after is not None
    assert after <= before * (1 + 1e-6)
    assert (finer.version, finer.ledger, finer.measured) == (state.version, state.ledger, state.measured)
    assert session.state is state
    np.testing.assert_array_equal(state.model.marginal(("a", "b")), marginal)
    assert residual(state) == before
    assert np.sum(finer.model.marginal(("a", "b"))) == pytest.approx(state.total.value)


def test_refining_twice_changes_nothing_more(asked: list[pmw.Session]) -> None:
    once = refined(asked[0].state)
    twice = refined(once)
    np.testing.assert_allclose(
        twice.model.marginal(("c", "d")), once.model.marginal(("c", "d")), atol=once.total.value * 1e-4
    )


def test_where_nothing_was_measured_there_is_nothing_to_be_far_from() -> None:
    with WIDE.opened(seed=1) as session:
        assert residual(session.state) is None
        assert refined(session.state).version == 0


def test_an_export_says_whether_it_was_refined(asked: list[pmw.Session], tmp_path: Path) -> None:
    for name, refine in (("plain", False), ("fine", True)):
        asked[0].export(tmp_path / f"{name}.csv", refine=refine)
        assert json.loads((tmp_path / f"{name}.csv.manifest.json").read_text())["refined"] is refine
        assert len(asked[0].synthetic_records(500, seed=3, refine=refine)) == 500
