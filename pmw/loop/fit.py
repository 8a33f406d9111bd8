"""Fit: the model that all released numbers together give; post-processing, and free.

While a session runs, a fit stops as soon as a step pays little, for the next question waits. Before rows are
published there is time to go on, and the model is refined. It changes little: on census tables the distances
of two-attribute marginals were within about 2 % of those before on eight attributes, and 4 to 6 % lower on
fifteen, some of them long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from pmw.errors import BudgetError
from pmw.loop.priors import elected, opened_pairs, prior_shares
from pmw.model.bins import CoarsenedDistribution, Coarsening, coarse_target
from pmw.model.dense import DenseDistribution
from pmw.model.distribution import MarginalTerm, QueryTerm, SyntheticDistribution, Term, dual_numbers
from pmw.model.fitting import refit, step
from pmw.model.graphical import GraphicalDistribution
from pmw.model.junction_tree import DEFAULT_MAX_CELLS
from pmw.model.measurement import (
    DEFAULT_BINS,
    MarginalMeasurement,
    QueryMeasurement,
    RowsMeasurement,
    SingleMeasurement,
)
from pmw.model.mirror_descent import FIRST_STEP_SIZE, Aim, DescentRule, descend, with_local_fits
from pmw.public.contract import Contract
from pmw.public.foundations import due_scopes, with_founded
from pmw.public.options import UpdateRule, is_dense
from pmw.public.plans import marginal_tier
from pmw.public.state import LaterMeasurement, PublicState, coarse_model, planned_bins, singly

# Chosen on streams with other seeds than the benchmark's: more steps change the errors little, fewer raise
# them (on Adult .00066 at 60, .00059 at 120, .00060 at 300).
_RULE = DescentRule(steps=120, tolerance=3e-4)
# Where bins grew with the table, noise is so small that stopping early would be most of the error.
_CLOSER = DescentRule(steps=300, tolerance=1e-4)
MOST_STEPS = 1000
# Residuals that are measured before any question are fitted until what is left is half of what their noise
# makes: on tables of 7 to 25 attributes errors were lowest from about .45 to .65 on, and rose below.
_RESIDUALS = DescentRule(steps=400, tolerance=1e-5, enough=0.5, growth=1.02)
# Marginals alone are fitted anew, which is quick, then single questions too: their steps take longer.
_AFRESH, _ONWARD = replace(_RESIDUALS, steps=800), replace(_RESIDUALS, steps=100)
# From a prior few steps are taken, and none once as much is left as noise makes of what the steps have not
# fitted: more of them forget the prior (docs/algorithm.md).
_OF_PRIOR = DescentRule(steps=160, tolerance=1e-5, growth=1.02)
_FROM_PRIOR = DescentRule(steps=50, tolerance=1e-5, enough=0.8, growth=1.02)
_REFINED = DescentRule(steps=MOST_STEPS, tolerance=1e-6)  # errors do not change from about 300 steps on
# A table whose noise is large is fitted no closer than while the session runs: that would fit the noise.
_NOISY = DescentRule(steps=MOST_STEPS, tolerance=3e-4)
_FEW = 32  # cells whose noise is 1 % of the records: with fewer, errors rise
_REFITS = 20  # of the textbook mode, of at most ten sweeps each


def model_of_terms(
    contract: Contract, coarsening: Coarsening, total: float, terms: Sequence[Term]
) -> SyntheticDistribution:
    """Return the distribution of terms over the coarse domain, in the form that the contract asks for.

    That of no terms is uniform.
    """
    coarse, options = coarsening.coarse, contract.options
    if is_dense(options.test, options.model, coarse.size):
        model: SyntheticDistribution = DenseDistribution.of_terms(coarse, total, terms)
    else:
        model = GraphicalDistribution.of_terms(coarse, total, terms)
    return model if coarsening.is_identity else CoarsenedDistribution(coarsening, model)


def correct(state: PublicState, measurement: LaterMeasurement) -> PublicState:
    """Return the state with one more measurement and the model corrected by it; post-processing, free.

    Marginals that are measured before any question are taken in together, once all of them are there. A
    marginal that would make the model's tree too large is kept beside the model, and so is a single question
    that cuts a bin. Lists of questions wait beside it (``_with_rows``), and so do the marginals of a part of
    the reserve, for the last of them (``_afresh``).
    """
    due, after = due_scopes(state), with_founded(state, [measurement])
    if due:
        return after if due_scopes(after) else _from_prior(elected(_fitted_to_residuals(after)))
    measured = after.measured
    if not state.contract.options.tests_marginals:
        return replace(after, model=_corrected(state, measured))
    if isinstance(measurement, RowsMeasurement):
        return _with_rows(after)
    if isinstance(measurement, MarginalMeasurement) and measurement.part:
        after = replace(after, beside=(*state.beside, len(state.measured)))
        return _afresh(after) if measurement.part == 1 else after
    if _fits(state, measurement):
        return _from_prior(after) if state.elects_prior else fitted_to(after)
    return replace(after, beside=(*state.beside, len(state.measured)))


def _with_rows(state: PublicState) -> PublicState:
    """Return the state with one more list of questions.

    Tables of their attributes alone are fitted to them at once (``pmw.public.local_models``). The model takes
    them in whenever their number is a power of 2, so that a long stream fits it seldom, and those that its
    tree has room for as it is.
    """
    state = replace(state, beside=(*state.beside, len(state.measured) - 1))
    lists = [place for place, one in enumerate(state.measured) if isinstance(one, RowsMeasurement)]
    if len(lists) & (len(lists) - 1):
        return state
    held = {place for place in lists if _fits(state, state.measured[place])}
    if held.isdisjoint(state.beside):
        return state
    after = _without(state, [place for place in state.beside if place not in held])
    return _from_prior(after) if state.elects_prior else fitted_to(after)


def _without(state: PublicState, beside: Sequence[int]) -> PublicState:
    """Return the state whose model has terms for all but some measurements; new ones say nothing yet."""
    coarsening, had = state.coarsening, iter(coarse_model(state).terms)
    terms = list[Term]()
    for place, all_ in enumerate((*state.opening, *state.measured), start=-len(state.opening)):
        for one in singly([all_]):
            term = next(had) if place not in state.beside else _no_term(coarsening, one)
            terms += [term] * (place not in beside)
    model = model_of_terms(state.contract, coarsening, state.total.value, terms)
    return replace(state, model=model, beside=tuple(beside))


def _no_term(coarsening: Coarsening, measured: SingleMeasurement) -> Term:
    if isinstance(measured, QueryMeasurement):
        return QueryTerm(coarsening.inner(measured.query), 0.0)
    return MarginalTerm(measured.scope, np.zeros(coarsening.coarse.scope_shape(measured.scope)))


def _afresh(state: PublicState) -> PublicState:
    """Return the state fitted anew, from no term, to what it takes in and what else its tree has room for.

    A part makes measurements a little more precise. A descent that went on from the terms of before would
    take no step for it, and would keep their noise.
    """
    contract, coarsening, total = state.contract, state.coarsening, state.total.value
    wider = state
    for one in state.marginals:
        if one.part and model_holds(wider, one.scope):
            terms = (*coarse_model(wider).terms, _no_term(coarsening, one))
            wider = replace(wider, model=model_of_terms(contract, coarsening, total, terms))
    outside = [place for place, one in enumerate(state.measured) if not _is_inside(wider, one)]
    rows = [place for place, one in enumerate(state.measured) if isinstance(one, RowsMeasurement)]
    bare = replace(
        state,
        model=model_of_terms(contract, coarsening, total, ()),
        beside=tuple(sorted({*outside, *rows})),
        step_size=FIRST_STEP_SIZE,
    )
    if state.elects_prior:
        return _from_prior(replace(bare, beside=tuple(outside)))
    return fitted_to(_without(fitted_to(bare, _AFRESH), outside), _ONWARD)


def _fitted_to_residuals(state: PublicState) -> PublicState:
    """Return the state fitted to what was measured together, as much as the model's tree can hold.

    Pairs come first. Those of which the model is farthest off, beyond their noise, do: as many as span the
    attributes, and once the model is fitted to these, of which it is the farthest off then. Wider marginals
    follow in the same manner.
    """
    places: list[int] = []
    plan = marginal_tier(state.plan)
    wider = range(3, 1 if plan is None else plan.order + 1)
    rounds = [(2, len(state.domain) - 1), *((order, len(state.measured)) for order in (2, *wider))]
    every = range(len(state.measured))
    state = replace(state, beside=tuple(every))
    for order, most in rounds:
        places += _farthest_off(state, places, order, most)
        state = fitted_to(_without(state, [place for place in every if place not in places]))
    return state


def _farthest_off(state: PublicState, places: Sequence[int], order: int, most: int) -> list[int]:
    """Return what else of some order the model's tree can hold, those first of which it is farthest off."""
    model, found = coarse_model(state), list[int]()
    others = {
        place: one
        for place, one in enumerate(state.measured)
        if place not in places and isinstance(one, MarginalMeasurement) and len(one.scope) <= order
    }
    off = {place: _distance(state, one) for place, one in others.items()}
    for place in sorted(off, key=lambda place: -off[place]):
        if len(found) == most:
            break
        if isinstance(model, GraphicalDistribution):
            if not model.holds(others[place].scope, state.contract.options.max_cells or DEFAULT_MAX_CELLS):
                continue
            model = model.with_terms((*model.terms, _no_term(state.coarsening, others[place])))
        found.append(place)
    return found


def _distance(state: PublicState, measured: MarginalMeasurement) -> float:
    """Return the L1 distance of a marginal from the model's, less what its noise makes of it, in records."""
    fine = measured.units.shape == state.domain.scope_shape(measured.scope)
    model = state.model if fine else coarse_model(state)
    noise = math.sqrt(2 / math.pi) * float(np.sqrt(measured.cell_variances).sum())
    return float(np.abs(measured.values - model.marginal(measured.scope)).sum()) - noise


# --- a prior ----------------------------------------------------------------------------------------------


def _from_prior(state: PublicState) -> PublicState:
    """Return the state fitted anew from the prior where that is elected, by few steps; else as it is.

    Every fit begins with the prior again, so that steps of several do not add up. The prior stands in the
    terms of what was measured before any question and is in the model's tree; it is fitted as that is, to
    the prior's shares in place of the released numbers.
    """
    prior = state.contract.options.prior
    if prior is None or not state.elects_prior:
        return state
    aims, total = list[Aim](), state.total.value
    held = (one for place, one in enumerate(opened_pairs(state)) if place not in state.beside)
    for one in (*state.opening, *held):
        target = coarse_target(state.coarsening, one, total)
        aims.append(replace(target, values=prior_shares(state, prior, one.scope) * total))
    nothing = [aim.term(np.zeros(aim.values.shape)) for aim in aims]
    model = model_of_terms(state.contract, state.coarsening, total, nothing)
    start = coarse_model(replace(state, model=model))
    terms = descend(start, aims, step_size=FIRST_STEP_SIZE, rule=_OF_PRIOR).model.terms
    model = model_of_terms(state.contract, state.coarsening, total, terms)
    return fitted_to(replace(state, model=model, step_size=FIRST_STEP_SIZE), _FROM_PRIOR)


# --- fitting ----------------------------------------------------------------------------------------------


def _corrected(state: PublicState, measured: Sequence[LaterMeasurement]) -> SyntheticDistribution:
    newest = measured[-1]
    if not isinstance(state.model, DenseDistribution) or not isinstance(newest, QueryMeasurement):
        raise BudgetError("expected a dense model and the answer to a question")
    tier = state.query_plan
    if state.contract.options.update is UpdateRule.STEP and tier is not None:
        return step(
            state.model,
            newest.query,
            learning_rate=tier.learning_rate,
            increase=newest.units > newest.model_units,
        )
    return refit(state.model, list(singly((*state.opening, *measured))))


def _fits(state: PublicState, measurement: LaterMeasurement) -> bool:
    if isinstance(measurement, RowsMeasurement):
        return _is_inside(state, measurement)
    cuts = isinstance(measurement, QueryMeasurement) and not state.coarsening.is_aligned(measurement.query)
    return not cuts and model_holds(state, measurement.scope)


def _is_inside(state: PublicState, measurement: LaterMeasurement) -> bool:
    """Tell whether a measurement cuts no bin, and the model's tree has room for it as it is."""
    queries = [one.query for one in singly([measurement]) if isinstance(one, QueryMeasurement)]
    model = coarse_model(state)
    cliques = model.cliques if isinstance(model, GraphicalDistribution) else [measurement.scope]
    is_held = any({*measurement.scope} <= {*clique} for clique in cliques)
    return is_held and all(map(state.coarsening.is_aligned, queries))


def model_holds(state: PublicState, scope: tuple[str, ...]) -> bool:
    """Tell whether the model's tree can hold a measurement over a scope, within the most cells allowed."""
    model = coarse_model(state)
    if not isinstance(model, GraphicalDistribution):
        return True
    return model.holds(scope, state.contract.options.max_cells or DEFAULT_MAX_CELLS)


def fitted_to(
    state: PublicState, rule: DescentRule | None = None, told: Callable[[int], None] | None = None
) -> PublicState:
    """Return the state with its model fitted to everything that it takes in, starting from the model."""
    coarsening = state.coarsening
    aims: list[Aim] = [
        replace(one, query=coarsening.inner(one.query))
        if isinstance(one, QueryMeasurement)
        else coarse_target(coarsening, one, state.total.value)
        for one in singly((*state.opening, *state.fitted))
    ]
    rule = rule or _rule(state)
    descent = descend(coarse_model(state), aims, step_size=state.step_size, rule=rule, told=told)
    model = descent.model
    if rule in (_RESIDUALS, _ONWARD) and isinstance(model, GraphicalDistribution):
        model = with_local_fits(model, aims)
    if not coarsening.is_identity:
        model = CoarsenedDistribution(coarsening, model)
    return replace(state, model=model, step_size=descent.step_size)


def _rule(state: PublicState) -> DescentRule:
    """Return when a descent of a session ends."""
    # Where bins grew it goes on, for at most what the usual steps cost of the largest default tree.
    plan = marginal_tier(state.plan)
    if plan is not None and plan.order > 1:
        return _RESIDUALS
    if planned_bins(state.plan) == DEFAULT_BINS:
        return _RULE
    steps = _RULE.steps * DEFAULT_MAX_CELLS // coarse_model(state).cells
    return replace(_CLOSER, steps=min(_CLOSER.steps, max(_RULE.steps, steps)))


# --- refining ---------------------------------------------------------------------------------------------


def refined(state: PublicState, told: Callable[[int], None] | None = None) -> PublicState:
    """Return the state with its model fitted to everything that it takes in, as closely as noise allows.

    The version stays, for nothing new was released; the given state is left as it is.

    Args:
        state: of a session or an offline release; one that begins with a prior stays as it is.
        told: called after each step with 1; there are ``MOST_STEPS`` of them at most.

    Privacy: post-processing of released numbers; free.
    """
    if state.elects_prior:  # closer steps would forget the prior
        return state
    # A dense fit takes over the array that it starts from: it gets one of its own.
    model = model_of_terms(state.contract, state.coarsening, state.total.value, state.model.terms)
    if state.contract.options.tests_marginals or not isinstance(model, DenseDistribution):
        plan = marginal_tier(state.plan)
        noisy = plan is not None and plan.fine_cells < _FEW
        return fitted_to(replace(state, model=model), _NOISY if noisy else _REFINED, told)
    for _ in range(_REFITS):
        before = dual_numbers(model.terms)
        model = refit(model, list(singly(state.measurements)))
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
    for one in singly(state.fitted):
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
