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
from pmw.model.mirror_descent import Descent, DescentRule, descend
from pmw.planning.opening import open_contract, plan_opened
from pmw.planning.tiers import affordable_bins
from pmw.privacy.budget import Budget
from pmw.privacy.random_bits import BitSource
from pmw.public.contract import Contract
from pmw.public.plans import OpeningPlan, marginal_tier
from pmw.public.state import planned_bins
from queries import UNITS, CategoricalAttribute, Domain, IntegerAttribute, parse_where

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


def test_the_noise_of_a_pair_of_long_attributes_stays_within_what_is_not_noticed() -> None:
    for records in (1e6, 3e6):
        tier = marginal_tier(planned(records, 1, 1e-9)[2])
        assert tier is not None
        assert tier.bins**2 <= tier.fine_cells < (tier.bins + 1) ** 2


def test_bins_keep_to_the_cells_that_a_tree_may_have() -> None:
    contract, opening, test = planned(1e7, 1, 1e-9, max_cells=20_000)
    tier = marginal_tier(test)
    assert tier is not None
    # 16 bins each make 5,120 cells with sex and grade: 31 make 19,220, and 32 would make 20,480. But up to 16
    # times as many as 16 bins make are always allowed.
    assert tier.bins > 32
    assert affordable_bins(contract, opening, 1e7, 33**2) == 33
    assert affordable_bins(contract, opening, 1e7, 5) == DEFAULT_BINS
    wide = Domain((*LONG, *(IntegerAttribute(f"long{place}", 0, 99) for place in range(4))))
    contract, opening = open_contract(wide, contract.budget, replace(contract.options, max_cells=None))
    # No tree holds six long attributes: (b/16)^6 <= 16.
    assert affordable_bins(contract, opening, 1e9, 2**24) == math.floor(16 * 16 ** (1 / 6))


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


@pytest.mark.parametrize(("bins", "steps"), [(DEFAULT_BINS, 120), (DEFAULT_BINS + 1, 300)])
def test_a_model_of_bins_that_grew_is_fitted_more_closely(bins: int, steps: int) -> None:
    """Where there are more bins than the fewest, noise is so small that stopping early would show."""
    rules = []

    def noted(*given: Any, rule: DescentRule, **choices: Any) -> Descent:
        rules.append(rule)
        return descend(*given, rule=rule, **choices)

    options = pmw.Options(seed=1, opening=pmw.Opening.ONE_WAY)
    with (
        patch("pmw.planning.tiers.affordable_bins", return_value=bins),
        patch("pmw.loop.fit.descend", noted),
        pmw.open_session(table(2_000), LONG, epsilon=5, delta=1e-9, options=options) as session,
    ):
        session.ask("state = 3 AND sex = 'F'")
    assert {rule.steps for rule in rules} == {steps}
    assert {rule.tolerance for rule in rules} == {3e-4 if bins == DEFAULT_BINS else 1e-4}


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


# --- what an answer says of the bins that it cuts -----------------------------------------------------------


def test_an_answer_is_called_measured_unless_most_of_its_bar_is_a_bin_that_it_cuts() -> None:
    frame, cutting = table(20_000), "age >= 31 AND state = 3 AND sex = 'F'"
    for is_cut in (True, False):
        with pmw.open_session(
            frame, LONG, epsilon=2, delta=1e-9, options=pmw.Options(seed=5, opening=pmw.Opening.ONE_WAY)
        ) as session:
            session.ask("")
            bins = session.state.coarsening.bins[2]
            assert bins is not None
            states = ", ".join(str(cell) for cell in np.flatnonzero(bins < 3))
            where = cutting if is_cut else f"state IN ({states}) AND grade >= 4 AND sex = 'F'"
            answer = session.ask(where)
            assert session.state.coarsening.is_aligned(parse_where(where, LONG)) != is_cut
            assert session.state.marginals
            assert answer.source is (pmw.Source.SYNTHETIC if is_cut else pmw.Source.MEASURED)
        if is_cut:
            assert answer.interval is not None
            truth = int(((frame["age"] >= 31) & (frame["state"] == 3) & (frame["sex"] == "F")).sum())
            assert answer.interval[0] <= truth <= answer.interval[1]
