"""Mirror descent: the loss falls, whatever measurements say, and the result depends on the duals alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.errors import BudgetError
from pmw.model import (
    FIRST_STEP_SIZE,
    Aim,
    DenseDistribution,
    DescentRule,
    GraphicalDistribution,
    MarginalMeasurement,
    QueryMeasurement,
    SyntheticDistribution,
    Target,
    descend,
    target_of,
)
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
