"""Refining: nothing new is released, the session stays the same, the model is nearer to what was measured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pmw
from pmw.loop.fit import refined, residual
from queries import all_marginals
from tests.worlds import WIDE

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
