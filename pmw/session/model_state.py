"""The state of a model: what came from elsewhere, checked before a model is made of it."""

from __future__ import annotations

import math
from dataclasses import astuple, replace

import numpy as np
from numpy.typing import NDArray

from pmw.errors import ModelFileError
from pmw.loop import choose_bins
from pmw.model import HierarchicalMeasurement, OneWayMeasurement, QueryMeasurement
from pmw.planning.opening import check_model_size
from pmw.public.codec import MOST_CELLS
from pmw.public.half_widths import Confidences, negative_margin
from pmw.public.options import TestKind, UpdateRule
from pmw.public.plans import marginal_tier
from pmw.public.state import LaterMeasurement, PublicState
from pmw.session.measurement_rows import require_cells
from pmw.session.released import KeptModel, Released, found_snapshot, state_of
from pmw.session.snapshots import Snapshot
from queries.cells import cell_count

_MOST_TREE = 2**24  # cells of the model: 128 MB in float64
_LARGEST_UNITS = 2**60  # of a released number, in units: 10^12 records
_LARGEST_DUAL = 1e6  # far from overflow
_GREATEST_CONFIDENCE = 1 - 1e-12  # far from rounding to 1


def model_state(released: Released) -> PublicState:
    """Return the public state of what came from elsewhere.

    The model is the one that was kept, so nothing is fitted; where single steps are taken, they are taken
    again.

    Args:
        released: by a session, as somebody says; its bins are made here.

    Raises:
        ModelFileError: its parts contradict each other, or the model is too large.
        ValueError: the parts cannot be; KeyError, TypeError, ArithmeticError and our own errors too.
    """
    contract, draws = released.contract, released.draws
    check_model_size(contract.domain, contract.options)
    cells = sum(attribute.size for attribute in contract.domain)
    require(cells <= MOST_CELLS, "its attributes have too many cells")
    require(released.asked >= 0, "it answered fewer questions than none")
    _check_range(np.array([draws.total_units]), -_LARGEST_UNITS)
    for one in draws.marginals:
        _check_opening(released, one)
    coarsening = choose_bins(contract, released.opening_plan, draws, released.test_plan)
    released = replace(released, coarsening=coarsening)
    for later in released.measured:
        _check_later(released, later)
    for quantile in released.quantiles:
        _check_range(np.array([quantile.units]), -_LARGEST_UNITS)
        require(min(quantile.asked, quantile.questions) >= 0, "a quantile is of fewer questions than none")
    _check_certificates(released)
    state = state_of(released, _kept_model(released))
    _check_bars(state)
    return state


def require(holds: bool, fault: str) -> None:
    """Raise an error unless something holds.

    Raises:
        ModelFileError: it does not.
    """
    if not holds:
        raise ModelFileError(f"the model file is damaged: {fault}")


def _kept_model(released: Released) -> Snapshot | None:
    """Return the model that was kept; None where single steps are taken again.

    Raises:
        ModelFileError: it is too large, or not of these measurements.
    """
    if released.contract.options.update is UpdateRule.STEP:
        return None
    _check_duals(released.distribution, len(released.measured))
    found = found_snapshot(released)
    if found is None:
        raise ModelFileError("the model file is damaged: its distribution is not of its measurements")
    if found.model.cells > _MOST_TREE:
        size = cell_count(found.model.cells)
        raise ModelFileError(f"expected a distribution of at most {_MOST_TREE:,} cells, got {size}")
    return found


def _check_range(units: NDArray[np.int64], lowest: int) -> None:
    """Refuse a number that no count can be."""
    require(units.size > 0, "a measurement has too few numbers")
    inside = int(units.min()) >= lowest and int(units.max()) <= _LARGEST_UNITS
    require(inside, "a number is out of range")


def _check_opening(released: Released, one: OneWayMeasurement) -> None:
    domain = released.contract.domain
    is_whole = released.opening_plan.table_noise is not None
    scopes = [domain.names] if is_whole else [(name,) for name in domain.names]
    require(one.scope in scopes, "its opening measures something else than its plan")
    _check_range(one.units, -_LARGEST_UNITS)
    if isinstance(one, HierarchicalMeasurement):
        require(one.tree.size == domain[one.scope[0]].size, "a hierarchical histogram has other cells")
    else:
        require(one.units.shape == domain.scope_shape(one.scope), "a marginal has other cells")
        require(not one.requested, "its opening was requested")


def _check_later(released: Released, one: LaterMeasurement) -> None:
    """Refuse a measurement that a session of this contract never makes."""
    if isinstance(one, QueryMeasurement):
        _check_range(np.array([one.units, one.model_units]), -_LARGEST_UNITS)
        return
    tests_questions = released.contract.options.test is TestKind.QUERY
    require(not tests_questions, "it measures what it does not test")
    _check_marginal(released, one.scope, one.units, -_LARGEST_UNITS)


def _check_marginal(
    released: Released, scope: tuple[str, ...], units: NDArray[np.int64], lowest: int
) -> None:
    ordered = bool(scope) and released.contract.domain.scope(scope) == scope
    require(ordered, "a marginal's attributes are not in declared order")
    _check_range(units, lowest)
    require_cells(released.coarsening, scope, units)


def _check_certificates(released: Released) -> None:
    certificates = released.certificates
    tested = marginal_tier(released.test_plan) is not None
    require(not certificates or tested, "it certifies what it does not test")
    require(len({one.scope for one in certificates}) == len(certificates), "a marginal is certified twice")
    for one in certificates:
        _check_marginal(released, one.scope, one.units, 0)
        require(0 <= one.version <= len(released.measured), "a certificate is of another model")
        require(0 <= one.threshold <= _LARGEST_UNITS, "a threshold is out of range")


def _check_duals(kept: KeptModel | None, version: int) -> None:
    """Refuse a distribution of another version, or one that no fit gives."""
    if kept is None or kept.version != version:
        raise ModelFileError("the model file is damaged: its distribution has another version")
    duals = kept.duals
    require(duals.ndim == 1, "its distribution is no list of numbers")
    require(bool(np.all(np.isfinite(duals))), "its distribution holds what is no number")
    require(float(np.abs(duals[:-1]).max(initial=0.0)) <= _LARGEST_DUAL, "its distribution is out of range")


def _check_bars(state: PublicState) -> None:
    """Refuse confidences that leave too little to fail to be computed with."""
    found = Confidences.in_state(state)
    for confidence in (*astuple(found), *astuple(found.of_one_end())):
        require(confidence <= _GREATEST_CONFIDENCE, "its confidence is out of range")
    for tier in state.plan:
        require(math.isfinite(negative_margin(tier, found.of_one_end().certificate)), "a margin has no bound")
