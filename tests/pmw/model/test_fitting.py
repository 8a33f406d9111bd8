"""Fitting: the textbook step, and the refit's optimality."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmw.errors import BudgetError
from pmw.model.dense import DenseDistribution
from pmw.model.distribution import MarginalTerm, QueryTerm
from pmw.model.fitting import PRIOR_WEIGHT, refit, step
from pmw.model.measurement import MarginalMeasurement, QueryMeasurement, SingleMeasurement
from pmw.privacy.noise import DiscreteGaussian
from queries import UNITS, CategoricalAttribute, Domain, Factor, IntegerAttribute, LinearQuery

DOMAIN = Domain(
    (IntegerAttribute("a", 0, 4), CategoricalAttribute("b", ("x", "y", "z")), IntegerAttribute("c", 0, 3))
)
NOISE = DiscreteGaussian(Fraction(5 * UNITS))
BOX = LinearQuery.cells(DOMAIN, {"a": (1, 2), "b": (0, 0)})
SPREAD = LinearQuery(
    DOMAIN,
    (
        Factor(("a",), np.array([0, 300_000, 700_000, UNITS, 5])),
        Factor(("c",), np.array([UNITS, 0, UNITS, 0])),
    ),
)


def marginal(name: str, values: list[float]) -> MarginalMeasurement:
    return MarginalMeasurement((name,), np.rint(np.array(values) * UNITS).astype(np.int64), NOISE)


def measured(query: LinearQuery, value: float) -> QueryMeasurement:
    return QueryMeasurement(query, round(value * UNITS), NOISE)


@pytest.mark.parametrize("query", [BOX, SPREAD])
@pytest.mark.parametrize("increase", [True, False])
def test_the_step_is_the_textbooks(query: LinearQuery, increase: bool) -> None:
    # Dwork and Roth (2014), Algorithm 5: exp(-eta r), r = q where the answer is too large, else 1 - q.
    model = DenseDistribution.uniform(DOMAIN, 100.0)
    eta = 0.3
    shape = [DOMAIN[name].size if name in query.scope else 1 for name in DOMAIN.names]
    weights = np.broadcast_to((query.weights() / UNITS).reshape(shape), DOMAIN.shape)
    penalty = 1 - weights if increase else weights
    expected = model.values * np.exp(-eta * penalty)
    found = step(model, query, learning_rate=eta, increase=increase)
    assert found.values == pytest.approx(expected * (100 / expected.sum()))


@given(st.integers(0, 50), st.floats(0.01, 0.4))
def test_a_step_lowers_the_potential_by_what_hoeffdings_lemma_says(seed: int, eta: float) -> None:
    # KL(D || A) falls by at least eta g - eta^2/8 when the answer is off by g that way.
    generator = np.random.default_rng(seed)
    truth = generator.random(DOMAIN.shape)
    truth /= truth.sum()
    start = generator.random(DOMAIN.shape)
    model = DenseDistribution.of_terms(DOMAIN, 1.0, [MarginalTerm(DOMAIN.names, np.log(start))])
    inside = np.zeros(DOMAIN.shape)
    inside[1:3, 0, :] = 1
    gap = float((inside * (truth - model.values)).sum())
    after = step(model, BOX, learning_rate=eta, increase=gap > 0)

    def divergence(values: np.ndarray) -> float:
        return float((truth * np.log(truth / values)).sum())

    assert divergence(model.values) - divergence(after.values) >= eta * abs(gap) - eta**2 / 8 - 1e-12


def residuals(model: DenseDistribution, measurements: list[SingleMeasurement]) -> list[float]:
    """Return how far each dual is from (y - a)/(weight variance), in standard deviations of its answer."""
    found = []
    for term, measurement in zip(model.terms, measurements, strict=True):
        pull = PRIOR_WEIGHT * measurement.variance
        if isinstance(term, MarginalTerm) and isinstance(measurement, MarginalMeasurement):
            answers = model.marginal(term.scope)
            targets = measurement.values + (model.total - measurement.values.sum()) / measurement.values.size
            found.append(float(np.abs(targets - answers - pull * term.duals).max()))
        if isinstance(term, QueryTerm) and isinstance(measurement, QueryMeasurement):
            found.append(abs(measurement.value - model.answer(term.query) - pull * term.dual))
    return [residual / 5.0 for residual in found]


def fitted(measurements: list[SingleMeasurement], rounds: int = 8) -> DenseDistribution:
    model = DenseDistribution.uniform(DOMAIN, 1000.0)
    for _ in range(rounds):
        model = refit(model, measurements)
    return model


def test_a_refit_solves_its_stationarity_conditions() -> None:
    measurements: list[SingleMeasurement] = [
        marginal("a", [100, 300, 50, 250, 300]),
        marginal("b", [700, 200, 100]),
        measured(BOX, 320.0),
        measured(SPREAD, 210.0),
    ]
    model = fitted(measurements)
    assert max(residuals(model, measurements)) < 0.05
    assert model.total == 1000.0
    assert model.values.sum() == pytest.approx(1000.0)
    assert model.values.min() > 0


def test_a_refit_meets_what_is_consistent_within_the_noise_and_never_exactly() -> None:
    model = fitted([marginal("b", [700, 200, 100]), measured(BOX, 300.0)])
    assert model.marginal(("b",)) == pytest.approx([700, 200, 100], abs=0.5)
    assert 1e-6 < abs(model.answer(BOX) - 300.0) < 0.5


def test_contradictory_measurements_leave_the_model_between_them() -> None:
    model = fitted([measured(BOX, 300.0), measured(BOX, 340.0)])
    assert 299 <= model.answer(BOX) <= 341
    assert np.all(np.isfinite(model.values))


def test_negative_and_impossible_numbers_leave_a_model_that_answers() -> None:
    measurements: list[SingleMeasurement] = [
        marginal("a", [-80, 400, 400, 400, -120]),
        measured(BOX, -50.0),
        measured(SPREAD, 5000.0),
    ]
    model = fitted(measurements, rounds=3)
    assert np.all(np.isfinite(model.values))
    assert model.values.min() >= 0
    assert model.values.sum() == pytest.approx(1000.0)
    assert model.marginal(("a",))[0] < 5


def test_a_refit_continues_from_where_it_was() -> None:
    first = refit(DenseDistribution.uniform(DOMAIN, 1000.0), [marginal("b", [700, 200, 100])])
    second = refit(first, [marginal("b", [700, 200, 100]), measured(BOX, 320.0)])
    assert len(second.terms) == 2
    assert second.answer(BOX) == pytest.approx(320, abs=2)
    assert DenseDistribution.of_terms(DOMAIN, 1000.0, second.terms).values == pytest.approx(second.values)


def test_impossible_calls_are_refused() -> None:
    model = refit(DenseDistribution.uniform(DOMAIN, 10.0), [marginal("b", [5, 3, 2])])
    with pytest.raises(BudgetError, match="expected at most 0 terms, got 1"):
        refit(model, [])
    with pytest.raises(BudgetError, match="in the order of its measurements"):
        refit(model, [measured(BOX, 1.0)])
    for rate in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(BudgetError, match="expected a positive learning rate"):
            step(model, BOX, learning_rate=rate, increase=True)


def test_a_domain_of_one_cell_works() -> None:
    single = Domain((CategoricalAttribute("only", ("x",)),))
    noisy = MarginalMeasurement(("only",), np.array([7 * UNITS]), NOISE)
    model = refit(DenseDistribution.uniform(single, 9.0), [noisy])
    assert model.marginal(("only",)).tolist() == [pytest.approx(9.0)]
