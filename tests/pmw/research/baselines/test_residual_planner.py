"""ResidualPlanner: its prices and variances are those of its noise, and no prices do better."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from pmw.research.baselines import (
    Scope,
    cell_variance,
    centred,
    reconstructed,
    residual_prices,
    residual_variances,
)
from queries import Domain, IntegerAttribute

SIZES = {"a": 2, "b": 3, "c": 4}
DOMAIN = Domain(tuple(IntegerAttribute(name, 0, size - 1) for name, size in SIZES.items()))
PAIRS: dict[Scope, float] = {("a", "b"): 1.0, ("a", "c"): 2.0, ("b", "c"): 0.5}
CAP = 0.3


def subtraction(size: int) -> NDArray[np.float64]:
    """Return the paper's matrix Sub, whose rows are the first cell less another."""
    return np.hstack([np.ones((size - 1, 1)), -np.eye(size - 1)])


def product(factors: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    whole: NDArray[np.float64] = np.ones((1, 1))
    for factor in factors:
        whole = np.asarray(np.kron(whole, factor), dtype=np.float64)
    return whole


def subtractions(part: Scope) -> NDArray[np.float64]:
    """Return the paper's queries of a residual, as a matrix over all cells of the domain."""
    factors = {
        name: subtraction(size) if name in part else np.ones((1, size)) for name, size in SIZES.items()
    }
    return product(factors.values())


def own_subtractions(part: Scope) -> NDArray[np.float64]:
    """Return the same as a matrix over the cells of the part's marginal."""
    return product(subtraction(SIZES[name]) for name in part)


def marginal_of(table: NDArray[np.float64], scope: Scope) -> NDArray[np.float64]:
    axes = tuple(axis for axis, name in enumerate(SIZES) if name not in scope)
    return np.asarray(table.sum(axis=axes), dtype=np.float64)


@pytest.mark.parametrize("part", [(), ("b",), ("a", "c"), ("a", "b", "c")], ids=str)
def test_a_residual_tells_what_the_subtractions_tell(part: Scope) -> None:
    table = np.random.default_rng(0).normal(size=DOMAIN.scope_shape(part))
    projection = np.linalg.pinv(own_subtractions(part)) @ own_subtractions(part)
    assert np.allclose(centred(table).reshape(-1), projection @ table.reshape(-1))


def test_prices_are_what_the_noise_costs_and_add_up_to_the_budget() -> None:
    prices = residual_prices(DOMAIN, PAIRS, CAP)
    variances = residual_variances(DOMAIN, prices)
    assert set(prices) == {(), ("a",), ("b",), ("c",), *PAIRS}
    whole = np.zeros((DOMAIN.size, DOMAIN.size))
    for part, price in prices.items():
        queries, own = subtractions(part), own_subtractions(part)
        precision = np.linalg.inv(variances[part] * own @ own.T)
        squares = queries.T @ precision @ queries
        assert np.allclose(np.diag(squares), price)
        whole += squares
    assert np.diag(whole) == pytest.approx(CAP)


@pytest.mark.parametrize("scope", PAIRS, ids=str)
def test_without_noise_a_marginal_is_the_true_one(scope: Scope) -> None:
    table = np.random.default_rng(1).integers(0, 50, DOMAIN.shape).astype(np.float64)
    residuals = {part: centred(marginal_of(table, part)) for part in residual_prices(DOMAIN, PAIRS, CAP)}
    assert np.allclose(reconstructed(DOMAIN, scope, residuals), marginal_of(table, scope))


@pytest.mark.parametrize("scope", [*PAIRS, ("b",)], ids=str)
def test_variances_of_cells_are_those_of_the_covariance(scope: Scope) -> None:
    variances = residual_variances(DOMAIN, residual_prices(DOMAIN, PAIRS, CAP))
    covariance = np.zeros((DOMAIN.scope_size(scope),) * 2)
    for noisy, variance in variances.items():
        columns = []
        for unit in np.eye(DOMAIN.scope_size(noisy)):
            residuals = {part: np.zeros(DOMAIN.scope_shape(part)) for part in variances}
            residuals[noisy] = centred(unit.reshape(DOMAIN.scope_shape(noisy)))
            columns.append(reconstructed(DOMAIN, scope, residuals).reshape(-1))
            if not set(noisy) <= set(scope):
                assert not columns[-1].any()
        matrix = np.array(columns).T
        covariance += variance * matrix @ matrix.T
    assert np.diag(covariance) == pytest.approx(cell_variance(DOMAIN, scope, variances))


def test_a_whole_marginal_alone_is_no_worse_than_noise_in_its_cells() -> None:
    scope = "b", "c"
    variances = residual_variances(DOMAIN, residual_prices(DOMAIN, {scope: 1.0}, CAP))
    sizes = 3, 4
    shares = [np.sqrt(1 / size**2) for size in sizes], [1 - 1 / size for size in sizes]
    roots = [first * second for first, second in itertools.product(*zip(*shares, strict=True))]
    assert cell_variance(DOMAIN, scope, variances) == pytest.approx(sum(roots) ** 2 / CAP)
    assert cell_variance(DOMAIN, scope, variances) <= 1 / CAP


@pytest.mark.parametrize("by_cells", [False, True])
def test_no_other_prices_have_a_smaller_sum_of_variances(by_cells: bool) -> None:
    weights = {scope: float(DOMAIN.scope_size(scope)) if by_cells else 1.0 for scope in PAIRS}
    prices = residual_prices(DOMAIN, weights, CAP)
    parts = list(prices)

    def objective(logits: NDArray[np.float64]) -> float:
        shares = np.exp(logits - logits.max())
        given = dict(zip(parts, (CAP * shares / shares.sum()).tolist(), strict=True))
        variances = residual_variances(DOMAIN, given)
        return sum(weight * cell_variance(DOMAIN, scope, variances) for scope, weight in weights.items())

    found = minimize(objective, np.zeros(len(parts)), method="BFGS", options={"gtol": 1e-9})
    best = np.log([prices[part] for part in parts])
    assert objective(best) == pytest.approx(float(found.fun), rel=1e-9)
    assert objective(best) < 0.99 * objective(np.zeros(len(parts)))
    shares = np.exp(found.x - found.x.max())
    assert np.array(list(prices.values())) / CAP == pytest.approx(shares / shares.sum(), rel=1e-3)


def test_an_attribute_of_one_cell_has_no_residual() -> None:
    domain = Domain((IntegerAttribute("a", 0, 2), IntegerAttribute("b", 0, 0)))
    prices = residual_prices(domain, {("a", "b"): 1.0}, CAP)
    assert prices["b",] == prices["a", "b"] == 0
    assert residual_variances(domain, prices)["a", "b"] == 0
    assert sum(prices.values()) == pytest.approx(CAP)
