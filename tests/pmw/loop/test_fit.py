"""Fit: what the model of bins aims at and takes in; what opening can count on, and what is refined."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pmw
from pmw.loop.fit import correct, model_holds, refined, residual
from pmw.loop.loop import forecast
from pmw.model.bins import Coarsening, coarse_target
from pmw.model.hierarchical_histogram import HierarchicalHistogram
from pmw.model.measurement import HierarchicalMeasurement, MarginalMeasurement, QueryMeasurement
from pmw.privacy.noise import DiscreteGaussian
from pmw.public.state import PublicState, coarse_model
from queries import (
    UNITS,
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    LinearQuery,
    random_conjunctions,
)
from tests.worlds import JOINED, YEARS, known

NOISE = DiscreteGaussian(Fraction(5 * UNITS))
FINE = Domain((IntegerAttribute("x", 0, 5), CategoricalAttribute("y", ("a", "b"))))
COARSE = Domain((IntegerAttribute("x", 0, 2), CategoricalAttribute("y", ("a", "b"))))
GROUPS = np.array([0, 0, 0, 1, 1, 2])
SHARES = np.array([0.5, 0.25, 0.25, 0.5, 0.5, 1.0])
COARSENING = Coarsening(FINE, COARSE, (GROUPS, None), (SHARES, None))


def test_a_marginal_of_declared_cells_is_aimed_at_in_sums_whose_variances_add() -> None:
    counts = np.array([[1, 10], [2, 20], [3, 30], [4, 40], [5, 50], [6, 60]])
    target = coarse_target(COARSENING, MarginalMeasurement(("x", "y"), counts * UNITS, NOISE), 231.0)
    assert target.values.tolist() == [[6, 60], [9, 90], [6, 60]]
    assert target.variance.tolist() == [[75, 75], [50, 50], [25, 25]]


def test_a_tree_of_ranges_is_aimed_at_with_the_variance_of_its_own_sums() -> None:
    tree = HierarchicalHistogram(6, 0, 2, 3)
    measurement = HierarchicalMeasurement(("x",), tree, np.full(tree.nodes, 7 * UNITS), NOISE)
    target = coarse_target(COARSENING, measurement, 42.0)
    assert target.values.sum() == pytest.approx(42)
    for bin_ in range(3):
        inside = np.where(bin_ == GROUPS, 1.0, 0.0)
        assert target.variance[bin_] == pytest.approx(measurement.estimate.weighted_variance(inside))


def opened(**choices: object) -> PublicState:
    return JOINED.state(seed=1, update_limit=3, **choices)


def measured(state: PublicState, *scope: str) -> MarginalMeasurement:
    counts = np.zeros((8,) * len(scope), dtype=np.int64)
    np.fill_diagonal(counts, 625)
    return MarginalMeasurement(scope, counts * UNITS, NOISE)


def test_a_dense_model_holds_every_scope_and_a_tree_those_within_its_bound() -> None:
    dense = opened(model=pmw.ModelKind.DENSE)
    assert model_holds(dense, dense.domain.names)
    small = opened(model=pmw.ModelKind.GRAPHICAL, max_cells=600)
    assert model_holds(small, ("a", "b", "c"))
    assert not model_holds(small, ("a", "b", "c", "d"))
    chained = correct(correct(small, measured(small, "a", "b")), measured(small, "b", "c"))
    assert chained.beside == ()
    # With a third side the three attributes would need one clique of 512 cells beside those of d, e and f.
    assert model_holds(chained, ("a", "c"))
    contract = chained.contract
    smaller = replace(contract, options=replace(contract.options, max_cells=500))
    assert not model_holds(replace(chained, contract=smaller), ("a", "c"))


@pytest.mark.parametrize("model", [pmw.ModelKind.DENSE, pmw.ModelKind.GRAPHICAL])
def test_a_correction_is_a_new_version_that_is_nearer_to_what_was_measured(model: pmw.ModelKind) -> None:
    state = opened(model=model)
    measurement = measured(state, "a", "b")
    after = correct(state, measurement)
    assert (after.version, after.beside) == (state.version + 1, ())
    before, now = (
        np.abs(coarse_model(one).marginal(("a", "b")) - measurement.values).sum() for one in (state, after)
    )
    assert now < before / 20
    assert after.model.total == state.model.total
    assert after.model.marginal(()).item() == pytest.approx(state.total.value)


def test_what_the_tree_cannot_hold_is_kept_beside_the_model() -> None:
    state = opened(model=pmw.ModelKind.GRAPHICAL, max_cells=100)
    first, second = measured(state, "a", "b"), measured(state, "a", "b", "c")
    one = correct(state, first)
    after = correct(one, second)
    assert after.beside == (1,)
    assert after.fitted == (first,)
    assert after.version == 2
    assert after.model is one.model
    assert state.query_plan is not None
    query = LinearQuery.cells(state.domain, {"d": (0, 3), "e": (0, 3)})
    asked = QueryMeasurement(query, 1200 * UNITS, state.query_plan.noise, 0)
    last = correct(after, asked)
    assert last.fitted == (first, asked) if last.beside == (1,) else last.beside == (1, 2)


# --- what opening can count on, and what it refines -----------------------------------------------------


OPTIONS: list[dict[str, Any]] = [
    {},
    {"update_limit": 3},
    {"test": pmw.TestKind.QUERY, "update_limit": 4},
    {"opening": pmw.Opening.NONE, "update_limit": 4},
]


@pytest.mark.parametrize(("options", "delta"), [*zip(OPTIONS, [1e-9, 0, 1e-9, 0], strict=True)])
@settings(max_examples=2)
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


# --- refine ---------------------------------------------------------------------------------------------


STEPS = {"test": pmw.TestKind.QUERY, "update": pmw.UpdateRule.STEP, "threshold": 20.0}


@pytest.mark.parametrize("choices", [{}, STEPS])
def test_a_refined_model_is_nearer_to_what_was_measured_and_the_session_stays_as_it_was(
    choices: dict[str, Any], tmp_path: Path
) -> None:
    with YEARS.opened(seed=1, **choices) as session:
        session.ask_all(list(random_conjunctions(YEARS.domain, 100, seed=1)))
        state = session.state
        before, marginal = known(residual(state)), np.array(state.model.marginal(("age", "sex")))
        finer = refined(state)
        assert known(residual(finer)) <= before * (1 + 1e-6)
        assert (finer.version, finer.ledger, finer.measured) == (state.version, state.ledger, state.measured)
        assert np.sum(finer.model.marginal(("age", "sex"))) == pytest.approx(state.total.value)
        for refine in (False, True):
            session.export(tmp_path / "t.csv", refine=refine, force=True)
            assert json.loads((tmp_path / "t.csv.manifest.json").read_text())["refined"] is refine
            assert len(session.synthetic_records(500, seed=3, refine=refine)) == 500
        assert session.state is state
        np.testing.assert_array_equal(state.model.marginal(("age", "sex")), marginal)
        assert residual(state) == before
