"""Bins that grow with the table: from released numbers alone, as planned, and as recorded in the file."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.data import MemorySource
from pmw.loop.untested import OpeningDraws, draw_opening
from pmw.model.measurement import DEFAULT_BINS
from pmw.planning.opening import open_contract, plan_opened
from pmw.privacy.budget import Budget
from pmw.privacy.random_bits import BitSource
from pmw.public.contract import Contract
from pmw.public.plans import OpeningPlan
from pmw.public.state import planned_bins
from queries import UNITS, CategoricalAttribute, Domain, IntegerAttribute

LONG = Domain(
    (
        IntegerAttribute("age", 0, 89),
        CategoricalAttribute("sex", ("F", "M")),
        IntegerAttribute("state", 0, 59),
        IntegerAttribute("grade", 0, 9),
    ),
    name="long",
)
TESTED = pmw.Options(opening=pmw.Opening.ONE_WAY)


@cache
def table(records: int) -> pd.DataFrame:
    generator = np.random.default_rng(4)
    state = generator.integers(0, 60, records)
    sex = generator.integers(0, 2, records)
    age = (generator.integers(0, 60, records) + state // 2 * (1 - sex)) % 90
    grade = (age // 12 + generator.integers(0, 4, records)) % 10
    sexes = np.array(["F", "M"])[sex]
    return pd.DataFrame({"age": age, "sex": sexes, "state": state, "grade": grade})


def rule(records: float, epsilon: float = 1, delta: float = 1e-9, **choices: Any) -> int:
    """Return the bins that are planned for so many records."""
    return planned_bins(planned(records, epsilon, delta, **choices)[2])


def planned(
    records: float, epsilon: float, delta: float, **choices: Any
) -> tuple[Contract, OpeningPlan, Any]:
    budget, options = Budget.of(epsilon, delta), pmw.Options(**{"opening": pmw.Opening.ONE_WAY, **choices})
    contract, opening = open_contract(LONG, budget, options)
    return contract, opening, plan_opened(contract, opening, records).test


@pytest.mark.parametrize("delta", [0, 1e-9])
def test_bins_grow_with_the_root_of_records_times_epsilon(delta: float) -> None:
    found = [rule(records, delta=delta) for records in (1e3, 5e4, 1e6, 2e6, 4e6, 1e8)]
    assert found[:2] == [DEFAULT_BINS] * 2
    assert found[2:5] == sorted(found[2:5])
    assert found[3] / found[2] == pytest.approx(math.sqrt(2), rel=0.05)
    assert found[5] == 60  # which leaves 90 cells as they are: more would change nothing
    assert rule(2e6, epsilon=0.5, delta=0) == pytest.approx(rule(1e6, delta=0), abs=1)


@pytest.mark.parametrize("records", [1_000, 1_001])
def test_bins_follow_the_released_number_whatever_the_table_holds(records: int) -> None:
    """Two neighbours that release the same have the same bins: those of what was released."""

    def drawn(plan: OpeningPlan, *_: object) -> OpeningDraws:
        draws = draw_opening(plan, MemorySource.from_frame(table(1_000), LONG), BitSource.from_integer(3))
        scaled = [replace(one, units=one.units * 3_200) for one in draws.marginals]
        return OpeningDraws(3_200_000 * UNITS, tuple(scaled))

    with (
        patch("pmw.session.releases.draw_opening", drawn),
        pmw.open_session(
            table(records),
            LONG,
            epsilon=1,
            delta=1e-9,
            options=pmw.Options(seed=2, opening=pmw.Opening.ONE_WAY),
        ) as session,
    ):
        state = session.state
    assert planned_bins(state.plan) == rule(state.total.value)
    assert planned_bins(state.plan) == rule(3.2e6) > DEFAULT_BINS


# --- files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fewest", [False, True])
def test_bins_are_recorded_and_kept_and_verified(tmp_path: Path, fewest: bool) -> None:
    """Whatever is planned today: a session that was opened with the fewest keeps them."""
    path, question = tmp_path / "s.pmw", "age >= 30 AND state = 7 AND grade = 2 AND sex = 'F'"
    with (
        patch("pmw.planning.tiers.affordable_bins", return_value=DEFAULT_BINS) if fewest else nullcontext(),
        pmw.open_session(table(20_000), LONG, epsilon=100, delta=1e-9, path=path, options=TESTED) as session,
    ):
        first = session.ask(question)
        shape = session.state.coarsening.coarse.shape
        assert (planned_bins(session.state.plan) == DEFAULT_BINS) == fewest
    with pmw.resume_session(path, table(20_000)) as session:
        assert session.state.coarsening.coarse.shape == shape
        assert session.ask(question) == first
        session.ask("age < 30 AND grade >= 4")
        assert session.verify().holds


def test_verification_finds_bins_that_do_not_follow_from_the_released_number() -> None:
    with (
        patch("pmw.planning.tiers.affordable_bins", return_value=21),
        pmw.open_session(table(20_000), LONG, epsilon=100, delta=1e-9, options=TESTED) as session,
    ):
        session.ask("age >= 30 AND sex = 'F'")
        found = session.verify()
    assert not found.holds
    assert "bins of a long attribute" in str(found)
