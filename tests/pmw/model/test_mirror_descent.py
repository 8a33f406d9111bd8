"""Mirror descent: the loss falls, whatever measurements say, and the result depends on the duals alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.model.dense import DenseDistribution
from pmw.model.distribution import MarginalTerm, SyntheticDistribution
from pmw.model.graphical import GraphicalDistribution
from pmw.model.measurement import MarginalMeasurement, QueryMeasurement, Target, target_of
from pmw.model.mirror_descent import FIRST_STEP_SIZE, Aim, DescentRule, descend, local_fit, with_local_fits
from pmw.privacy.noise import DiscreteGaussian
from queries import UNITS, CategoricalAttribute, Domain, IntegerAttribute, LinearQuery

DOMAIN = Domain(
    (IntegerAttribute("a", 0, 3), CategoricalAttribute("b", ("x", "y", "z")), IntegerAttribute("c", 0, 1))
)
RULE = DescentRule(steps=60, tolerance=1e-3)
NOISE = DiscreteGaussian(Fraction(5 * UNITS))


def models(total: float) -> list[SyntheticDistribution]:
    return [DenseDistribution.uniform(DOMAIN, total), GraphicalDistribution.uniform(DOMAIN, total)]


def marginal(scope: tuple[str, ...], records: NDArray[np.float64], total: float) -> Target:
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
    values = after.marginal(DOMAIN.names)
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
    query = LinearQuery.cells(DOMAIN, {"a": (0, 1), "b": (1, 1), "c": (0, 0)})
    aims: list[Aim] = [
        marginal(("a", "b"), first, total),
        marginal(("b", "c"), second, total),
        marginal(("a", "b"), again, total),  # the same cells, other numbers
        QueryMeasurement(query, one[0] * UNITS, NOISE, 0),
    ]
    for model in models(total):
        check(model, aims)


def agreeing(seed: int) -> tuple[float, Target, Target]:
    """Return a total, and two tables that one table of so many records has."""
    table = np.random.default_rng(seed).integers(0, 300, DOMAIN.shape).astype(np.float64)
    total = float(table.sum())
    first, second = (
        marginal(("a", "b"), table.sum(axis=2), total),
        marginal(("b", "c"), table.sum(axis=0), total),
    )
    return total, first, second


def test_measurements_that_agree_are_met() -> None:
    total, *aims = agreeing(1)
    for model in models(total):
        fitted = check(model, [*aims])
        for aim in aims:
            assert np.abs(fitted.marginal(aim.scope) - aim.values).max() < 15  # three deviations


def test_it_goes_on_from_its_own_duals_and_gives_the_same_model_from_the_same_duals() -> None:
    total, first, second = agreeing(2)
    for start in models(total):
        one = descend(start, [first], step_size=FIRST_STEP_SIZE, rule=RULE)
        again = start.with_terms(one.model.terms)
        kept, made = (
            descend(model, [first, second], step_size=one.step_size, rule=RULE)
            for model in (one.model, again)
        )
        assert np.array_equal(kept.model.marginal(DOMAIN.names), made.model.marginal(DOMAIN.names))
        assert kept.step_size == made.step_size


def test_a_domain_of_one_cell_and_an_attribute_of_one_value_are_fitted() -> None:
    one = Domain((CategoricalAttribute("only", ("one",)), CategoricalAttribute("b", ("x",))))
    aim = Target(("only", "b"), np.array([[7.0]]), np.array([[4.0]]))
    for model in (DenseDistribution.uniform(one, 5.0), GraphicalDistribution.uniform(one, 5.0)):
        descent = descend(model, [aim], step_size=FIRST_STEP_SIZE, rule=RULE)
        assert descent.model.marginal(("only", "b")).item() == pytest.approx(5.0)


def test_nothing_to_fit_changes_nothing_and_lost_terms_are_refused() -> None:
    for model in models(10.0):
        assert descend(model, [], step_size=2.0, rule=RULE).model is model
        fitted = descend(
            model, [marginal(("a",), np.array([1.0, 2, 3, 4]), 10.0)], step_size=2.0, rule=RULE
        ).model
        with pytest.raises(BudgetError, match="expected at most 0 terms, got 1"):
            descend(fitted, [], step_size=2.0, rule=RULE)


# --- a local fit follows what was measured, and so do a model's cliques -------------------------------------

_MOST_STEPS = 150
Table = NDArray[np.float64]


def domain_of(*sizes: int) -> Domain:
    names = "abcdef"
    return Domain(
        tuple(CategoricalAttribute(names[place], tuple(range(size))) for place, size in enumerate(sizes))
    )


def table_of(shape: tuple[int, ...], seed: int, total: float = 10_000) -> Table:
    table = np.random.default_rng(seed).gamma(0.6, size=shape)
    scaled: Table = table * (total / table.sum())
    return scaled


def sums(table: Table, scope: str, wanted: str) -> Table:
    summed: Table = table.sum(axis=tuple(axis for axis, name in enumerate(scope) if name not in wanted))
    return summed


def measured(table: Table, scope: str, wanted: str, deviation: float, seed: int) -> Target:
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
        measured(truth, "abc", own, deviation, seed + place) for place, own in enumerate(("a", "ab", "bc"))
    ]
    fit = local_fit(np.full(truth.shape, truth.sum() / truth.size), tuple("abc"), aims)
    assert fit.table.sum() == pytest.approx(truth.sum())
    assert fit.table.min() >= 0
    assert misfit(fit.table, "abc", aims) < 1 or fit.steps == _MOST_STEPS
    assert fit.steps <= _MOST_STEPS


def test_where_nothing_was_measured_the_table_stays() -> None:
    base = table_of((3, 4), 1)
    assert local_fit(base, ("a", "b"), []).table is base


def test_where_the_table_is_near_enough_it_stays() -> None:
    base = table_of((3, 4), 1)
    fit = local_fit(base, ("a", "b"), [Target(("a",), base.sum(axis=1), np.full(3, 4.0))])
    assert fit.table is base
    assert fit.steps == 1


def test_a_table_of_one_cell_stays() -> None:
    base = np.full((1, 1), 40.0)
    aim = Target(("a",), np.array([7.0]), np.array([1.0]))
    assert local_fit(base, ("a", "b"), [aim]).table is base


def test_the_noisier_of_two_measurements_counts_for_less() -> None:
    base = np.full(2, 500.0)
    near = Target(("a",), np.array([700.0, 300.0]), np.full(2, 1.0))
    far = Target(("a",), np.array([300.0, 700.0]), np.full(2, 100.0))
    assert local_fit(base, ("a",), [near, far]).table[0] == pytest.approx(696, abs=2)


def test_a_measured_question_is_followed() -> None:
    domain = domain_of(3, 3)
    query = LinearQuery.cells(domain, {"a": (0, 1), "b": (2, 2)})
    noise = DiscreteGaussian(Fraction(4 * UNITS))
    aim = QueryMeasurement(query, 3_000 * UNITS, noise, 0)
    fit = local_fit(np.full((3, 3), 1_000.0), ("a", "b"), [aim])
    assert query.evaluate(fit.table) == pytest.approx(3_000, abs=4)


def test_measurements_that_contradict_each_other_end_the_descent() -> None:
    base = table_of((4, 4), 3)
    aims: list[Aim] = [
        Target(("a",), values, np.full(4, 1e-6)) for values in (np.array([9e9, -9e9, 0.0, 0.0]), np.zeros(4))
    ]
    fit = local_fit(base, ("a", "b"), aims)
    assert np.isfinite(fit.table).all()
    assert fit.steps <= _MOST_STEPS


def chain_model(seed: int, deviation: float) -> tuple[GraphicalDistribution, list[Target], Table]:
    """Return a model with no term fitted, pairs that were measured along a chain, and the truth."""
    domain = domain_of(4, 3, 4, 3)
    truth = table_of((4, 3, 4, 3), seed)
    aims = [
        measured(truth, "abcd", pair, deviation, seed + place)
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


@pytest.mark.parametrize("seed", range(5))
def test_cliques_that_are_fitted_in_turn_follow_what_was_measured(seed: int) -> None:
    model, aims, _ = chain_model(seed, 20.0)
    rule = DescentRule(steps=500, tolerance=1e-9, enough=0.5)
    together = descend(model, aims, step_size=3.0, rule=rule).model
    in_turn, least = (squares(one, aims) for one in (with_local_fits(model, aims), together))
    assert in_turn < 2 * max(least, 0.5 * sum(aim.values.size for aim in aims))


def test_a_model_that_is_near_enough_stays() -> None:
    model, aims, _ = chain_model(5, 0.0)
    exact = [Target(aim.scope, aim.values, np.full(aim.values.shape, 400.0)) for aim in aims]
    fitted = with_local_fits(model, exact)
    assert with_local_fits(fitted, exact) is fitted


def test_of_the_cliques_those_with_very_many_cells_are_left_out() -> None:
    domain = domain_of(300, 300, 2)
    pairs = [("a", "b"), ("b", "c")]
    aims = [
        Target(
            pair,
            np.full(domain.scope_shape(pair), 900_000 / domain.scope_size(pair)),
            np.ones(domain.scope_shape(pair)),
        )
        for pair in pairs
    ]
    aims[0].values[0, 0] += 500
    terms = [MarginalTerm(pair, np.zeros(domain.scope_shape(pair))) for pair in pairs]
    model = GraphicalDistribution.of_terms(domain, 900_000.0, terms)
    assert with_local_fits(model, aims) is model
