"""Synthesis: one session with all of a budget, closed, and rows of what it released."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.errors import BudgetError, DataError
from pmw.privacy.budget import Budget
from pmw.public.charges import Event
from pmw.public.status import held_pairs
from queries import Domain, IntegerAttribute, NumericAttribute
from tests.worlds import WIDE, World


def synthesized(world: World = WIDE, delta: float | str = "1e-9", **choices: Any) -> pmw.Synthesis:
    options = pmw.Options(seed=choices.pop("seed", 1), **choices.pop("options", {}))
    return pmw.synthesize(world.frame, world.domain, epsilon=1, delta=delta, options=options, **choices)


def test_what_is_charged_is_one_opening_under_the_contract() -> None:
    found = synthesized()
    state, ledger = found.state, found.facts.ledger
    assert state.contract.budget == Budget.of(1, "1e-9")
    assert {line.event for line in ledger.lines} <= {Event.TOTAL, Event.MARGINAL, Event.OPENING}
    assert 0.97 < state.ledger.share <= 1
    before = state.ledger.spent
    found.sample(100, where="a = 1")
    assert (found.state.ledger.spent, found.state.closed) == (before, True)


def test_nothing_is_kept_for_sums_and_questions() -> None:
    wide = NumericAttribute("income", (0, 10, 20, 50, 100), resolution=1)
    kept = World(Domain((*WIDE.domain.attributes, wide)), _with_incomes())
    usual = pmw.open_session(
        kept.frame, kept.domain, epsilon=1, delta="1e-9", options=pmw.Options(seed=1, reserve=Fraction(0))
    )
    with usual:
        assert usual.state.ledger.share < 0.9
    assert synthesized(kept).state.ledger.share > 0.97


def _with_incomes() -> pd.DataFrame:
    return WIDE.frame.assign(income=np.random.default_rng(3).exponential(20, len(WIDE.frame)).clip(0, 100))


@pytest.mark.parametrize("delta", [0, "1e-9"])
def test_the_pairs_of_a_target_are_measured_more_precisely(delta: float | str) -> None:
    usual, aimed = synthesized(delta=delta), synthesized(delta=delta, target="c")
    mine = {pair for pair in itertools.combinations(WIDE.domain.names, 2) if "c" in pair}
    assert mine <= held_pairs(aimed.state).held

    def deviation(found: pmw.Synthesis, pair: tuple[str, str]) -> float:
        own = [float(one.cell_variances.mean()) for one in found.state.marginals if one.scope == pair]
        return math.sqrt(min(own, default=math.inf))

    for pair in mine:
        assert deviation(aimed, pair) < 0.95 * deviation(usual, pair)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"target": "cc"}, "expected a declared attribute as target, got 'cc'"),
        ({"options": {"reserve": 0.1}}, "leave the reserve out"),
        ({"options": {"test": "query"}}, "rows have no error bars: leave test = query"),
        ({"options": {"simultaneous": True}}, "rows have no error bars"),
        ({"options": {"accuracy": 0.5, "records": 20_000}}, "rows have no error bars"),
    ],
)
def test_choices_that_cannot_be_are_refused_before_the_table_is_read(
    choices: dict[str, Any], words: str
) -> None:
    unread = World(WIDE.domain, pd.DataFrame({"nothing": [1]}))
    with pytest.raises(BudgetError, match=words) as refused:
        synthesized(unread, **choices)
    assert "\n" not in str(refused.value)
    with pytest.raises(DataError):
        synthesized(unread)


@pytest.mark.parametrize(
    ("attributes", "size", "neighbors", "delta"),
    [
        (1, 4, "add-remove", 0), (1, 4, "replace-one", "1e-9"), (2, 4, "replace-one", 0),
        (2, 4, "add-remove", "1e-9"), (5, 3, "add-remove", 0), (5, 3, "replace-one", "1e-9"),
        (34, 2, "add-remove", 0), (34, 2, "replace-one", "1e-9"),
    ],
)  # fmt: skip
def test_tables_of_every_shape_spend_their_budget(
    attributes: int, size: int, neighbors: str, delta: float | str
) -> None:
    domain = Domain(
        tuple(IntegerAttribute(f"x{n}", 1, size, missing=True, other=True) for n in range(attributes))
    )
    cells = np.random.default_rng(attributes).integers(1, size + 1, (5000, attributes))
    world = World(domain, pd.DataFrame(cells, columns=list(domain.names)))
    found = synthesized(world, delta, target="x0", options={"neighboring_relation": neighbors})
    assert 0.97 < found.state.ledger.share <= 1
    assert found.state.closed
    assert held_pairs(found.state).held or attributes == 1
