"""Calibration: both ways of multiplying give one result, and it is the sum over all cells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmw.model.calibration import Beliefs, calibrate, plan_calibration
from pmw.model.factors import project, spread
from pmw.model.junction_tree import junction_tree

SHAPE = (3, 2, 4, 3)
AXES = (0, 1, 2, 3)
SCOPES = [(0, 1), (1, 2), (2,), (2, 3), ()]


def calibrated(
    size: float, seed: int = 1
) -> tuple[Beliefs, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    generator = np.random.default_rng(seed)
    potentials = [size * generator.normal(size=[SHAPE[place] for place in scope]) for scope in SCOPES]
    whole = np.zeros(SHAPE)
    for scope, table in zip(SCOPES, potentials, strict=True):
        whole += spread(np.asarray(table), scope, AXES)
    plan = plan_calibration(junction_tree(SHAPE, SCOPES), SCOPES)
    return calibrate(plan, [np.asarray(table) for table in potentials]), whole


@given(st.sampled_from([0.0, 1.0, 30.0, 300.0]), st.integers(0, 50))
def test_each_clique_has_its_marginal_and_the_tree_its_partition(size: float, seed: int) -> None:
    beliefs, whole = calibrated(size, seed)
    exact = np.exp(whole - whole.max())
    assert beliefs.log_partition == pytest.approx(whole.max() + np.log(exact.sum()), abs=1e-9)
    exact /= exact.sum()
    for clique, table in zip(beliefs.tree.cliques, beliefs.tables, strict=True):
        assert table == pytest.approx(project(exact, AXES, clique), abs=1e-12)


@pytest.mark.parametrize("size", [0.1, 2.0])
def test_logarithms_and_ordinary_numbers_agree(size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    ordinary, _ = calibrated(size)
    monkeypatch.setattr("pmw.model.calibration._SAFE_SPAN", -1.0)
    logarithmic, _ = calibrated(size)
    assert logarithmic.log_partition == pytest.approx(ordinary.log_partition, abs=1e-12)
    for first, second in zip(ordinary.tables, logarithmic.tables, strict=True):
        assert first == pytest.approx(second, abs=1e-14)


def test_a_potential_outside_every_clique_is_refused() -> None:
    with pytest.raises(ValueError, match="inside a clique"):
        plan_calibration(junction_tree(SHAPE, [(0, 1)]), [(0, 2)])
