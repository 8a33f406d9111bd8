"""Conditions: every row satisfies them, and rows follow the model given them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import pmw
from pmw.errors import ReleaseError
from pmw.model.bins import CoarsenedDistribution, Coarsening
from pmw.model.dense import DenseDistribution
from pmw.model.distribution import MarginalTerm, SyntheticDistribution
from pmw.model.graphical import GraphicalDistribution
from pmw.public.export import RowPlan, draw_rows, export
from pmw.public.export.rows import ConditionedModel
from pmw.public.state import PublicState
from queries import CategoricalAttribute, Domain, IntegerAttribute
from queries.errors import QueryError
from queries.parsing import parse_where
from tests.worlds import WIDE

DOMAIN = Domain(
    (IntegerAttribute("a", 0, 5), CategoricalAttribute("b", ("x", "y", "z")), IntegerAttribute("c", 0, 3))
)
COARSE = Domain((IntegerAttribute("a", 0, 2), *DOMAIN.attributes[1:]))
BINS = np.array([0, 0, 0, 1, 1, 2])
SHARES = np.array([0.5, 0.25, 0.25, 0.9, 0.1, 1.0])
COARSENING = Coarsening(DOMAIN, COARSE, (BINS, None, None), (SHARES, None, None))
WHERES = (
    "a >= 3",
    "a = 1 AND b <> 'x'",
    "b = 'x' OR c = 2",
    "(b = 'x' OR c = 2) AND a < 4",
    "a = 4 OR b = 'y'",
    "(a = 4 OR b = 'y') AND c IN (0, 3)",
    "(a = 1 AND b = 'x') OR (b = 'z' AND c = 1)",
    "a + c > 4",
    "a >= 0",
)


def _model(
    kind: type[DenseDistribution] | type[GraphicalDistribution], seed: int, *, binned: bool
) -> SyntheticDistribution:
    domain, generator = (COARSE if binned else DOMAIN), np.random.default_rng(seed)
    scopes = (("a", "b"), ("b", "c"))
    terms = [MarginalTerm(one, 2 * generator.standard_normal(domain.scope_shape(one))) for one in scopes]
    model = kind.of_terms(domain, 1000.0, terms)
    return CoarsenedDistribution(COARSENING, model) if binned else model


def _state(model: SyntheticDistribution, *, binned: bool, **options: object) -> PublicState:
    """Return a state with a model of a test's own."""
    state = WIDE.state(seed=1)
    contract = replace(state.contract, domain=DOMAIN, options=replace(state.contract.options, **options))  # type: ignore[arg-type]
    coarsening = COARSENING if binned else Coarsening.identity(DOMAIN)
    return replace(state, contract=contract, model=model, coarsening=coarsening, apart=())


def _given(model: SyntheticDistribution, where: str) -> NDArray[np.float64]:
    """Return the probabilities of the cells by definition: those of the model, where the condition holds."""
    query = parse_where(where, DOMAIN)
    inside = np.ones(DOMAIN.shape)
    for factor in query.factors:
        sides = [
            size if name in factor.scope else 1 for name, size in zip(DOMAIN.names, DOMAIN.shape, strict=True)
        ]
        inside = inside * (factor.weights > 0).reshape(sides)
    found = model.marginal(DOMAIN.names) * inside
    return np.asarray(found / found.sum())


@pytest.mark.parametrize("kind", [DenseDistribution, GraphicalDistribution])
@pytest.mark.parametrize("binned", [False, True])
@settings(max_examples=25, deadline=None)
@given(where=st.sampled_from(WHERES), seed=st.integers(0, 2**32), independent=st.booleans())
def test_rows_satisfy_a_condition_and_follow_the_model_given_it(
    kind: type[DenseDistribution], binned: bool, where: str, seed: int, independent: bool
) -> None:
    model = _model(kind, seed, binned=binned)
    state, rows = _state(model, binned=binned), 4000
    records = draw_rows(state, RowPlan(rows, independent, seed, where)).records
    assert len(records) == rows
    counts = np.bincount(np.ravel_multi_index(records.columns, DOMAIN.shape), minlength=DOMAIN.size)
    expected = rows * _given(state.model, where).ravel()
    assert not counts[expected == 0].any()
    held = expected > 0
    deviation = np.sqrt(expected[held] * (1 - expected[held] / rows)) + 1
    assert (np.abs(counts[held] - expected[held]) < 6 * deviation).all()


@pytest.mark.parametrize("kind", [DenseDistribution, GraphicalDistribution])
@pytest.mark.parametrize("binned", [False, True])
@pytest.mark.parametrize("where", WHERES)
def test_a_conditioned_model_is_the_model_times_the_condition(
    kind: type[DenseDistribution], binned: bool, where: str
) -> None:
    state = _state(_model(kind, 7, binned=binned), binned=binned)
    found = ConditionedModel.of(state, where)
    assert found.records == pytest.approx(state.model.answer(parse_where(where, DOMAIN)))
    cells = found.coarsening.expand(DOMAIN.names, found.model.marginal(DOMAIN.names)) / found.model.total
    for factor in found.chosen:
        sides = [
            size if name in factor.scope else 1 for name, size in zip(DOMAIN.names, DOMAIN.shape, strict=True)
        ]
        cells = cells * (factor.weights > 0).reshape(sides)
    assert cells.sum() == pytest.approx(found.part)
    assert cells / cells.sum() == pytest.approx(_given(state.model, where), abs=1e-12)


def test_a_tree_without_room_has_rows_chosen_instead() -> None:
    state = _state(_model(GraphicalDistribution, 3, binned=False), binned=False, max_cells=30)
    where = "a = 1 OR c = 2"
    assert [one.scope for one in ConditionedModel.of(state, where).chosen] == [("a", "c")]
    rows = draw_rows(state, RowPlan(500, seed=1, where=where)).frame()
    assert len(rows) == 500
    assert ((rows["a"] == 1) | (rows["c"] == 2)).all()


def test_a_condition_that_too_few_rows_are_chosen_by_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    state = _state(_model(GraphicalDistribution, 3, binned=False), binned=False, max_cells=30)
    monkeypatch.setattr("pmw.public.export.rows._MOST_DRAWN", 100)
    monkeypatch.setattr("pmw.public.export.rows._TIMES", 1)
    with pytest.raises(
        ReleaseError, match="500 rows are chosen by a condition on a, c together, which one in"
    ):
        draw_rows(state, RowPlan(500, seed=1, where="a = 1 OR c = 2"))


@pytest.mark.parametrize(
    ("where", "error", "words"),
    [
        ("b = 'x' AND b = 'y'", ReleaseError, "the model has no records where b = 'x' AND b = 'y'"),
        ("height = 3", QueryError, "unknown attribute 'height'"),
        ("b = ", QueryError, "expected"),
    ],
)
def test_a_condition_that_nothing_satisfies_or_nobody_reads_is_refused_in_one_line(
    where: str, error: type[Exception], words: str
) -> None:
    state = _state(_model(DenseDistribution, 1, binned=False), binned=False)
    with pytest.raises(error, match=words) as refused:
        draw_rows(state, RowPlan(5, where=where))
    assert "\n" not in str(refused.value)


def test_a_condition_is_a_text() -> None:
    with pytest.raises(ReleaseError, match="expected a condition as a text, got a dict"):
        RowPlan(where={"b": "x"})  # type: ignore[arg-type]


def test_the_number_of_rows_is_the_models_count_and_the_manifest_has_the_condition(tmp_path: Path) -> None:
    with WIDE.opened(opening="pairs", seed=1) as session:
        name = session.domain.names[0]
        where = f"{name} = 1"
        count = session.state.model.answer(parse_where(where, session.domain))
        rows = session.synthetic_records(where=where, seed=2)
        assert len(rows) == round(count)
        assert set(rows[name]) == {1}
        assert rows.equals(session.synthetic_records(where=where, seed=2))
        manifest = session.export(tmp_path / "rows.csv", RowPlan(seed=2, where=where))
        spent = session.state.ledger.share
        assert spent == session.status().budget_share
    assert (manifest["where"], manifest["rows"]) == (where, len(rows))
    assert manifest["marginals"] == {"measured": 0, "not_reproduced": []}
    assert json.loads((tmp_path / "rows.csv.manifest.json").read_text()) == manifest
    assert len(pd.read_csv(tmp_path / "rows.csv")) == len(rows)


def test_a_count_that_rounds_to_no_row_asks_for_a_number_of_rows() -> None:
    rare = np.zeros(DOMAIN.scope_shape(("b",)))
    rare[2] = -9.0
    state = _state(DenseDistribution.of_terms(DOMAIN, 1000.0, [MarginalTerm(("b",), rare)]), binned=False)
    with pytest.raises(
        ReleaseError, match=r"the model has 0\.062 records where b = 'z', which rounds to no row"
    ):
        draw_rows(state, RowPlan(where="b = 'z'"))
    assert set(draw_rows(state, RowPlan(7, where="b = 'z'")).frame()["b"]) == {"z"}


def test_an_export_without_a_condition_does_not_name_one(tmp_path: Path) -> None:
    with WIDE.opened(seed=1) as session:
        export(session.state, tmp_path / "rows.csv", RowPlan(10))
    assert "where" not in json.loads((tmp_path / "rows.csv.manifest.json").read_text())


def test_a_model_file_gives_rows_of_a_condition_too(tmp_path: Path) -> None:
    with WIDE.opened(opening="pairs", seed=1) as session:
        name = session.domain.names[0]
        session.export(tmp_path / "t.model")
        own = session.synthetic_records(50, seed=3, where=f"{name} = 2")
    assert pmw.load_model(tmp_path / "t.model").synthetic_records(50, seed=3, where=f"{name} = 2").equals(own)
