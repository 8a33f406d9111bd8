"""Refining: the model fitted to everything released as closely as noise allows; free.

While a session runs, a fit stops as soon as a step pays little, for the next question waits. Before rows are
published there is time to go on. It changes little: on census tables the distances of two-attribute marginals
were within about 2 % of those before on eight attributes, and 4 to 6 % lower on fifteen, some of them long.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pmw.loop.fit import coarse_model, fitted_to, model_of_terms
from pmw.model import DenseDistribution, DescentRule, QueryMeasurement, dual_numbers, refit
from pmw.public.plans import marginal_tier
from pmw.public.state import PublicState

MOST_STEPS = 1000
_RULE = DescentRule(steps=MOST_STEPS, tolerance=1e-6)  # errors do not change from about 300 steps on
# A table whose noise is large is fitted no closer than while the session runs: that would fit the noise.
_NOISY = DescentRule(steps=MOST_STEPS, tolerance=3e-4)
_FEW = 32  # cells whose noise is 1 % of the records: with fewer, errors rise (docs/algorithm.md)
_REFITS = 20  # of the textbook mode, of at most ten sweeps each


def refined(state: PublicState, told: Callable[[int], None] | None = None) -> PublicState:
    """Return the state with its model fitted to everything that it takes in, as closely as noise allows.

    The version stays, for nothing new was released; the given state is left as it is.

    Args:
        state: of a session or an offline release.
        told: called after each step with 1; there are ``MOST_STEPS`` of them at most.

    Privacy: post-processing of released numbers; free.
    """
    # A dense fit takes over the array that it starts from: it gets one of its own.
    model = model_of_terms(state.contract, state.coarsening, state.total.value, state.model.terms)
    if state.contract.options.tests_marginals or not isinstance(model, DenseDistribution):
        plan = marginal_tier(state.plan)
        noisy = plan is not None and plan.fine_cells < _FEW
        return fitted_to(replace(state, model=model), _NOISY if noisy else _RULE, told)
    for _ in range(_REFITS):
        before = dual_numbers(model.terms)
        model = refit(model, state.measurements)
        if told is not None:
            told(MOST_STEPS // _REFITS)
        if np.allclose(dual_numbers(model.terms), before, rtol=1e-6, atol=1e-9):
            break
    return replace(state, model=model)


def residual(state: PublicState) -> float | None:
    """Return how far the model is from what was measured since opening, in standard deviations of its noise.

    The root of the mean square over all measured numbers that the model takes in: about 1 where it is as far
    from them as they are from the truth; None where nothing was measured.
    """
    model = coarse_model(state)
    squares: list[float] = []
    for one in state.fitted:
        if isinstance(one, QueryMeasurement):
            squares.append((state.model.answer(one.query) - one.value) ** 2 / one.variance)
        else:
            values, variances = one.values, one.cell_variances
            if values.shape != state.coarsening.coarse.scope_shape(
                one.scope
            ):  # declared cells, which it bins
                values, variances = (state.coarsening.summed(one.scope, each) for each in (values, variances))
            squares += ((model.marginal(one.scope) - values) ** 2 / variances).ravel().tolist()
    return math.sqrt(sum(squares) / len(squares)) if squares else None
