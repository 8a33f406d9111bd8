"""Baselines: all pairs, and residuals as their planner has it."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from pmw.errors import BudgetError, DataError
from pmw.privacy.budget import Budget, Composition
from pmw.privacy.filter import PrivacyFilter, open_filter
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.public.options import Options, TestKind
from pmw.research.baselines import (
    PairRules,
    Scope,
    all_pairs_max_entropy,
    cell_variance,
    centred,
    mwem,
    offline_pmw,
    reconstructed,
    residual_prices,
    residual_variances,
)
from pmw.research.offline import OfflineOptions, Targets
from queries import UNITS, Domain, IntegerAttribute, QueryError

COUNTS = np.random.default_rng(1).integers(0, 900, (3, 4, 2))
QUESTIONS = [np.random.default_rng(seed).integers(0, 2, COUNTS.shape) for seed in range(8)]


def worst(model_answers: list[float]) -> float:
    true = [float((COUNTS * weights).sum()) for weights in QUESTIONS]
    return max(abs(one - other) for one, other in zip(model_answers, true, strict=True))


def test_mwem_is_near_on_its_questions_and_spends_its_rounds_and_offline_pmw_at_most_its_own() -> None:
    policy = Options(test=TestKind.QUERY, seed=2)
    options = OfflineOptions(Targets.QUERY, 12, Fraction(1, 2), policy=policy)
    release = mwem(COUNTS, QUESTIONS, epsilon=20, delta=1e-6, options=options)
    assert worst([answer.count for answer in release.answers()]) < 60
    assert sum(line.event == "selection" for line in release.ledger.lines) == 12
    usual = mwem(COUNTS, [one.tolist() for one in QUESTIONS], epsilon=1)
    assert sum(line.event == "selection" for line in usual.ledger.lines) == 10
    assert {line.event for line in usual.ledger.lines} == {"total", "selection", "measurement"}
    textbook = offline_pmw(COUNTS, QUESTIONS, 40, epsilon=200, delta=1e-6, policy=Options(seed=3))
    assert 1 <= sum(line.event == "selection" for line in textbook.ledger.lines) <= 40
    with pytest.raises(QueryError, match="at least two different questions"):
        offline_pmw(COUNTS, QUESTIONS[:1], 5, epsilon=1)


@pytest.mark.parametrize("delta", [0, "1e-6"])
@pytest.mark.parametrize("records", [None, int(COUNTS.sum())])
def test_each_marginal_is_charged_before_it_is_drawn_at_the_price_of_its_noise(
    delta: int | str, records: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[tuple[str, Fraction]] = []
    charge = PrivacyFilter.charge

    def charged(ledger: PrivacyFilter, price: object) -> PrivacyFilter:
        after = charge(ledger, price)  # type: ignore[arg-type]  # passed on
        events.append(("charged", (after.spent - ledger.spent) / ledger.cap))
        return after

    monkeypatch.setattr(PrivacyFilter, "charge", charged)
    kind, scales = DiscreteGaussian if delta else DiscreteLaplace, []
    draw = kind.sample_array

    def drawn(noise: DiscreteGaussian | DiscreteLaplace, bits: BitSource, count: int) -> NDArray[np.int64]:
        events.append(("drawn", Fraction(0)))
        scales.append((noise.sigma if isinstance(noise, DiscreteGaussian) else noise.scale) / UNITS)
        return draw(noise, bits, count)  # type: ignore[arg-type]  # of its own kind

    monkeypatch.setattr(kind, "sample_array", drawn)
    monkeypatch.setattr(kind, "sample", lambda noise, bits: int(noise.sample_array(bits, 1)[0]))
    all_pairs_max_entropy(COUNTS, epsilon=1, delta=delta, rules=PairRules(Fraction(1, 10), 5, records))
    marginals = 6 + (records is None)
    assert [event for event, _ in events] == ["charged", "drawn"] * marginals
    spent = sum(share for _, share in events)
    assert 0.999 < spent <= 1
    composition = Composition.ZCDP if delta else Composition.PURE
    cap = float(open_filter(Budget.of(1, delta), composition).cap)
    for scale, (_, share) in zip(map(float, scales), events[::2], strict=True):
        price = float(share) * cap  # one record moves one cell by one
        assert price == pytest.approx(1 / (2 * scale**2) if delta else 1 / scale, rel=1e-5)


def test_what_is_no_histogram_or_no_budget_is_refused() -> None:
    with pytest.raises(DataError, match="negative"):
        all_pairs_max_entropy([[1, -1], [0, 2]], epsilon=1)
    with pytest.raises(BudgetError):
        all_pairs_max_entropy(COUNTS, epsilon=0)
    with pytest.raises(DataError, match="fractions"):
        mwem([1.5, 2], QUESTIONS, epsilon=1)


# --- residual planner -----------------------------------------------------------------------------------


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


def test_no_other_prices_have_a_smaller_sum_of_variances() -> None:
    prices = residual_prices(DOMAIN, PAIRS, CAP)
    parts = list(prices)

    def objective(logits: NDArray[np.float64]) -> float:
        shares = np.exp(logits - logits.max())
        given = dict(zip(parts, (CAP * shares / shares.sum()).tolist(), strict=True))
        variances = residual_variances(DOMAIN, given)
        return sum(weight * cell_variance(DOMAIN, scope, variances) for scope, weight in PAIRS.items())

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
