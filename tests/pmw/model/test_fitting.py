"""Fitting: the textbook step, the refit's optimality, mirror descent, and rows that follow."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.model.dense import DenseDistribution
from pmw.model.distribution import MarginalTerm, QueryTerm, SyntheticDistribution
from pmw.model.fitting import PRIOR_WEIGHT, refit, step
from pmw.model.graphical import GraphicalDistribution
from pmw.model.measurement import MarginalMeasurement, QueryMeasurement, SingleMeasurement, Target, target_of
from pmw.model.mirror_descent import FIRST_STEP_SIZE, Aim, DescentRule, descend, local_fit, with_local_fits
from pmw.model.row_fitting import ENOUGH, fit_rows, most_squares
from pmw.privacy.noise import DiscreteGaussian
from queries import UNITS, CodedRecords, Factor, LinearQuery
from tests.residuals import ordered_rows, value_rows
from tests.worlds import declared

DOMAIN = declared(a=range(5), b="xyz", c=range(4))
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


# --- mirror descent -------------------------------------------------------------------------------------


SMALL_DOMAIN = declared(a=range(4), b="xyz", c=range(2))
RULE = DescentRule(steps=60, tolerance=1e-3)


def models(total: float) -> list[SyntheticDistribution]:
    return [
        DenseDistribution.uniform(SMALL_DOMAIN, total),
        GraphicalDistribution.uniform(SMALL_DOMAIN, total),
    ]


def target(scope: tuple[str, ...], records: NDArray[np.float64], total: float) -> Target:
    units = np.rint(records * UNITS).astype(np.int64)
    return target_of(MarginalMeasurement(scope, units, NOISE), total)


def loss(model: SyntheticDistribution, aims: list[Aim]) -> float:
    found = 0.0
    for aim in aims:
        if isinstance(aim, Target):
            found += float(((model.marginal(aim.scope) - aim.values) ** 2 / aim.variance).sum()) / 2
        else:
            found += (model.answer(aim.query) - aim.value) ** 2 / aim.variance / 2
    return found


def check(model: SyntheticDistribution, aims: list[Aim]) -> SyntheticDistribution:
    """Descend, and require a distribution that fits no worse than the one before."""
    before = loss(model, aims)
    descent = descend(model, aims, step_size=FIRST_STEP_SIZE, rule=RULE)
    after = descent.model
    assert loss(after, aims) <= before * (1 + 1e-9) + 1e-9
    values = after.marginal(SMALL_DOMAIN.names)
    assert np.isfinite(values).all()
    assert (values >= 0).all()
    assert values.sum() == pytest.approx(model.total)
    assert descent.step_size > 0
    assert descent.steps <= RULE.steps
    return after


counts = st.lists(st.integers(-50, 400), min_size=12, max_size=12)


@given(counts, counts, st.sampled_from([1.0, 24.0, 1000.0, 5000.0]))
@example([-100] * 12, [0] * 12, 1.0)
@example([-100] * 12, [0] * 12, 1000.0)
def test_the_loss_never_rises_even_where_measurements_contradict_each_other(
    one: list[int], other: list[int], total: float
) -> None:
    first = np.array(one, dtype=np.float64).reshape(4, 3)
    second = np.array(other[:6], dtype=np.float64).reshape(3, 2)
    again = np.array(other, dtype=np.float64).reshape(4, 3)
    query = LinearQuery.cells(SMALL_DOMAIN, {"a": (0, 1), "b": (1, 1), "c": (0, 0)})
    aims: list[Aim] = [
        target(("a", "b"), first, total),
        target(("b", "c"), second, total),
        target(("a", "b"), again, total),  # the same cells, other numbers
        QueryMeasurement(query, one[0] * UNITS, NOISE, 0),
    ]
    for model in models(total):
        check(model, aims)


# --- a local fit follows what was measured, and so do a model's cliques -------------------------------------

_MOST_STEPS = 150
Table = NDArray[np.float64]


def table_of(shape: tuple[int, ...], seed: int, total: float = 10_000) -> Table:
    table = np.random.default_rng(seed).gamma(0.6, size=shape)
    scaled: Table = table * (total / table.sum())
    return scaled


def sums(table: Table, scope: str, wanted: str) -> Table:
    summed: Table = table.sum(axis=tuple(axis for axis, name in enumerate(scope) if name not in wanted))
    return summed


def noisy_target(table: Table, scope: str, wanted: str, deviation: float, seed: int) -> Target:
    values = sums(table, scope, wanted)
    noise = np.random.default_rng(seed).normal(0, deviation, values.shape)
    return Target(tuple(wanted), values + noise, np.full(values.shape, deviation**2))


def misfit(table: Table, scope: str, aims: list[Target]) -> float:
    """Return chi squared over free numbers."""
    squares = [
        float(np.sum((sums(table, scope, "".join(aim.scope)) - aim.values) ** 2 / aim.variance))
        for aim in aims
    ]
    return sum(squares) / sum(aim.free_numbers for aim in aims)


@given(st.integers(0, 2**31), st.sampled_from([5.0, 30.0, 200.0]))
def test_sums_agree_with_what_was_measured_to_within_its_noise(seed: int, deviation: float) -> None:
    truth = table_of((4, 3, 5), seed)
    aims = [
        noisy_target(truth, "abc", own, deviation, seed + place)
        for place, own in enumerate(("a", "ab", "bc"))
    ]
    fit = local_fit(np.full(truth.shape, truth.sum() / truth.size), tuple("abc"), aims)
    assert fit.table.sum() == pytest.approx(truth.sum())
    assert fit.table.min() >= 0
    assert misfit(fit.table, "abc", aims) < 1 or fit.steps == _MOST_STEPS
    assert fit.steps <= _MOST_STEPS


def test_the_noisier_of_two_measurements_counts_for_less() -> None:
    base = np.full(2, 500.0)
    near = Target(("a",), np.array([700.0, 300.0]), np.full(2, 1.0))
    far = Target(("a",), np.array([300.0, 700.0]), np.full(2, 100.0))
    assert local_fit(base, ("a",), [near, far]).table[0] == pytest.approx(696, abs=2)


def test_measurements_that_contradict_each_other_end_the_descent() -> None:
    base = table_of((4, 4), 3)
    far = np.array([9e9, -9e9, 0.0, 0.0])
    aims: list[Aim] = [Target(("a",), values, np.full(4, 1e-6)) for values in (far, np.zeros(4))]
    fit = local_fit(base, ("a", "b"), aims)
    assert np.isfinite(fit.table).all()
    assert fit.steps <= _MOST_STEPS


def chain_model(seed: int, deviation: float) -> tuple[GraphicalDistribution, list[Target], Table]:
    """Return a model with no term fitted, pairs that were measured along a chain, and the truth."""
    domain = declared(a=range(4), b=range(3), c=range(4), d=range(3))
    truth = table_of((4, 3, 4, 3), seed)
    aims = [
        noisy_target(truth, "abcd", pair, deviation, seed + place)
        for place, pair in enumerate(("ab", "bc", "cd"))
    ]
    terms = [MarginalTerm(aim.scope, np.zeros(aim.values.shape)) for aim in aims]
    return GraphicalDistribution.of_terms(domain, float(truth.sum()), terms), aims, truth


def squares(model: SyntheticDistribution, aims: list[Target]) -> float:
    return sum(float(np.sum((model.marginal(aim.scope) - aim.values) ** 2 / aim.variance)) for aim in aims)


@given(st.integers(0, 2**31))
def test_duals_of_a_local_fit_make_its_table_the_models_marginal(seed: int) -> None:
    model, aims, _ = chain_model(seed, 20.0)
    fit = local_fit(model.marginal(("b", "c")), ("b", "c"), [aims[1]])
    terms = list(model.terms)
    terms[1] = MarginalTerm(("b", "c"), fit.duals[0])
    assert np.allclose(model.with_terms(terms).marginal(("b", "c")), fit.table, rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_cliques_that_are_fitted_in_turn_follow_what_was_measured(seed: int) -> None:
    model, aims, _ = chain_model(seed, 20.0)
    rule = DescentRule(steps=500, tolerance=1e-9, enough=0.5)
    together = descend(model, aims, step_size=3.0, rule=rule).model
    in_turn, least = (squares(one, aims) for one in (with_local_fits(model, aims), together))
    assert in_turn < 2 * max(least, 0.5 * sum(aim.values.size for aim in aims))


# --- rows -----------------------------------------------------------------------------------------------


ROW_DOMAIN = declared(a=range(4), b="xyz", c=range(2), d=("one",))
GRAMS = {"a": ordered_rows(4).gram / 1e6, "b": value_rows(3).gram / 1.0, "c": ordered_rows(2).gram / 1e6}


def rows(count: int, seed: int = 0) -> CodedRecords:
    """Return rows whose attributes are independent of each other."""
    generator = np.random.default_rng(seed)
    columns = tuple(generator.integers(0, size, count).astype(np.uint8) for size in ROW_DOMAIN.shape)
    return CodedRecords(ROW_DOMAIN, columns)


def row_counts(records: CodedRecords, scope: tuple[str, ...], total: float) -> NDArray[np.float64]:
    """Return the records that rows stand for, counted one by one."""
    found = np.zeros(records.domain.scope_shape(scope))
    for row in zip(*records.columns, strict=True):
        found[tuple(row[records.domain.index(name)] for name in scope)] += total / len(records)
    return found


def distance(records: CodedRecords, targets: list[Target], total: float) -> float:
    """Return how far rows are from targets: the definition, number by number."""
    found = 0.0
    for target in targets:
        error = (row_counts(records, target.scope, total) - target.values).reshape(-1)
        weight: NDArray[np.float64] = np.eye(error.size)
        if target.information is not None:
            weight = np.ones((1, 1))
            for axis in target.information:
                weight = np.asarray(np.kron(weight, axis), dtype=np.float64)
        found += float(error @ weight @ error) / float(target.variance.flat[0])
    return found


def diagonal(total: float, deviation: float, *, is_residual: bool) -> list[Target]:
    """Return a pair of strong dependence, and everything else as rows have it."""
    pair = np.zeros((4, 3))
    pair[[0, 1, 2, 3], [0, 1, 2, 0]] = total / 4
    grams = (GRAMS["a"], GRAMS["b"]) if is_residual else None
    alone = Target(("c",), np.full(2, total / 2), np.full(2, deviation**2))
    return [Target(("a", "b"), pair, np.full(pair.shape, deviation**2), grams), alone]


@pytest.mark.parametrize("is_residual", [False, True])
@pytest.mark.parametrize(("count", "total"), [(2000, 2000.0), (400, 9000.0), (3000, 700.0)])
def test_rows_take_on_what_was_measured(count: int, total: float, is_residual: bool) -> None:
    drawn, targets = rows(count), diagonal(total, total / 100, is_residual=is_residual)
    before = distance(drawn, targets, total)
    fitted = fit_rows(drawn, targets, total, np.random.default_rng(5))
    assert len(fitted) == count
    assert distance(fitted, targets, total) < before / 20
    assert np.abs(row_counts(fitted, ("c",), total) / total - 0.5).max() < 0.05


def test_rows_take_on_weighted_sums_by_groups() -> None:
    """A mean of 0.5 where b is x and of 2.5 elsewhere; what is not seen stays about even."""
    weights, wanted = np.arange(4.0), np.array([0.5, 2.5, 2.5]) * 400
    target = Target.of_sums(("a", "b"), 0, weights, wanted, 9.0)
    assert target.free_numbers == 3
    assert np.tensordot(weights, target.values, axes=(0, 0)) == pytest.approx(wanted)
    drawn, counted = rows(1200), Target(("b",), np.full(3, 400.0), np.full(3, 9.0))
    fitted = fit_rows(drawn, [target, counted], 1200.0, np.random.default_rng(6))
    assert distance(fitted, [target], 1200.0) <= 3 * ENOUGH * 4
    found = row_counts(fitted, ("a", "b"), 1200.0)
    assert np.tensordot(weights, found, axes=(0, 0)) == pytest.approx(wanted, abs=20)
    error = np.random.default_rng(1).normal(size=(4, 3))
    by_hand = np.outer(weights, weights @ error).reshape(4, 3) / 9
    assert target.pull(error) == pytest.approx(by_hand)


@given(st.integers(1, 60), st.integers(0, 2**16), st.floats(0.5, 1e4), st.floats(1e-2, 1e3), st.booleans())
def test_the_distance_never_rises_and_rows_stay_in_declared_cells(
    count: int, seed: int, total: float, deviation: float, is_residual: bool
) -> None:
    drawn, targets = rows(count, seed), diagonal(total, deviation, is_residual=is_residual)
    fitted = fit_rows(drawn, targets, total, np.random.default_rng(seed))
    before = distance(drawn, targets, total)
    assert distance(fitted, targets, total) <= before * (1 + 1e-9)
    for column, other, size in zip(fitted.columns, drawn.columns, ROW_DOMAIN.shape, strict=True):
        assert column.dtype == other.dtype
        assert column.max() < size


def test_rows_within_noise_stay_as_they_were_drawn() -> None:
    """The rule is the distance per number: on one side of it nothing moves, on the other something does."""
    drawn, total = rows(500), 500.0
    for factor, moves in ((0.9, False), (1.2, True)):
        values = row_counts(drawn, ("a", "b"), total)
        error = np.where(np.indices(values.shape).sum(axis=0) % 2, 8.0, -8.0)
        variance = 64.0 / (ENOUGH * factor)
        targets = [Target(("a", "b"), values + error, np.full(values.shape, variance))]
        fitted = fit_rows(drawn, targets, total, np.random.default_rng(2))
        same = all(np.array_equal(*pair) for pair in zip(fitted.columns, drawn.columns, strict=True))
        assert same is not moves


def test_one_measurement_beyond_its_noise_is_fitted_though_all_together_are_near() -> None:
    """Four standard deviations in one number of two hundred: the sum of squares does not show them."""
    domain = declared(a=tuple(map(str, range(200))), b="uv")
    columns = np.arange(4000) % 200, np.arange(4000) // 200 % 2
    drawn = CodedRecords(domain, tuple(column.astype(np.uint8) for column in columns))
    near = Target(("a",), np.full(200, 20.0), np.full(200, 4.0))
    for error, moves in ((2.0, False), (4.0, True)):
        off = Target(("b",), np.array([2000.0 + 10 * error, 2000.0 - 10 * error]), np.full(2, 200.0))
        fitted = fit_rows(drawn, [near, off], 4000.0, np.random.default_rng(3))
        found = row_counts(fitted, ("b",), 4000.0)
        assert bool(found[0] > 2000) is moves
        assert distance(fitted, [off], 4000.0) <= most_squares(2)


def test_a_seed_repeats_a_fit_and_the_given_rows_are_left_alone() -> None:
    drawn, targets = rows(700), diagonal(700.0, 5.0, is_residual=True)
    kept = [column.copy() for column in drawn.columns]
    one, two = (fit_rows(drawn, targets, 700.0, np.random.default_rng(4)) for _ in range(2))
    assert all(np.array_equal(*pair) for pair in zip(one.columns, two.columns, strict=True))
    assert all(np.array_equal(*pair) for pair in zip(drawn.columns, kept, strict=True))
    assert not all(np.array_equal(*pair) for pair in zip(one.columns, kept, strict=True))
