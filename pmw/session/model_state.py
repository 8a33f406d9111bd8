"""The state of a model: public rows that came from elsewhere, checked before a model is made of them."""

from __future__ import annotations

import math
from dataclasses import astuple

import numpy as np
from numpy.typing import NDArray

from pmw.errors import ModelFileError
from pmw.model import HierarchicalMeasurement, MarginalMeasurement, OneWayMeasurement
from pmw.public.confidences import Confidences, negative_margin
from pmw.public.contract import TestKind, UpdateRule
from pmw.public.plans import marginal_tier
from pmw.public.state import PublicState
from pmw.session.public_rows import PublicRows, Released, found_snapshot, released_of, state_of
from pmw.session.shapes import require
from pmw.session.snapshots import Snapshot
from pmw.session.store import MeasurementRow
from queries.cells import cell_count
from queries.domain import Domain

__all__ = [
    "model_state",
]

_MOST_TREE = 2**24  # cells of the model: 128 MB in float64
_LARGEST_UNITS = 2**60  # of a released number, in units: 10^12 records
_LARGEST_DUAL = 1e6  # far from overflow
_GREATEST_CONFIDENCE = 1 - 1e-12  # far from rounding to 1
_NUMBERS = {"total": 1, "query": 2, "error quantiles": 1}  # of a row, where its kind says how many


def model_state(rows: PublicRows) -> PublicState:
    """Return the public state of rows that came from elsewhere.

    The model is that of their snapshot, so nothing is fitted; where single steps are taken, they are taken
    again.

    Raises:
        ModelFileError: the rows contradict each other, or the model is too large.
        ValueError: the rows cannot be read; KeyError, TypeError, ArithmeticError and our own errors too.
    """
    for row in rows.measurements:
        _check_row(rows, row)
    released = released_of(rows)
    domain = rows.contract.domain
    for one in released.draws.marginals:
        _check_opening(rows, one)
    for later in released.measured:
        if isinstance(later, MarginalMeasurement):
            _check_scope(domain, later.scope)
    _check_certificates(rows, released)
    state = state_of(rows, released, _kept_model(rows, released))
    _check_bars(state)
    return state


def _kept_model(rows: PublicRows, released: Released) -> Snapshot | None:
    """Return the model of the rows' snapshot; None where single steps are taken again.

    Raises:
        ModelFileError: it is too large, or not of these measurements.
    """
    if rows.contract.options.update is UpdateRule.STEP:
        return None
    _check_duals(rows, len(released.measured))
    found = found_snapshot(rows, released)
    if found is None:
        raise ModelFileError("the model file is damaged: its distribution is not of its measurements")
    if found.model.cells > _MOST_TREE:
        size = cell_count(found.model.cells)
        raise ModelFileError(f"expected a distribution of at most {_MOST_TREE:,} cells, got {size}")
    return found


def _check_row(rows: PublicRows, row: MeasurementRow) -> None:
    """Refuse a number that no count can be, and a measurement that a session of this contract never makes."""
    units = np.frombuffer(row.units, dtype="<i8")
    require(len(units) == _NUMBERS.get(row.kind, len(units)) > 0, "a measurement has too few numbers")
    _check_range(units, -_LARGEST_UNITS)
    questions = rows.contract.options.test is TestKind.QUERY
    require(not questions or row.kind not in ("measured", "requested"), "it measures what it does not test")


def _check_range(units: NDArray[np.int64], lowest: int) -> None:
    inside = int(units.min()) >= lowest and int(units.max()) <= _LARGEST_UNITS
    require(inside, "a number is out of range")


def _check_opening(rows: PublicRows, one: OneWayMeasurement) -> None:
    domain = rows.contract.domain
    scopes = [domain.names] if rows.opening.table_noise is not None else [(name,) for name in domain.names]
    require(one.scope in scopes, "its opening measures something else than its plan")
    if isinstance(one, HierarchicalMeasurement):
        require(one.tree.size == domain[one.scope[0]].size, "a hierarchical histogram has other cells")


def _check_scope(domain: Domain, scope: tuple[str, ...]) -> None:
    require(bool(scope) and domain.scope(scope) == scope, "a marginal's attributes are not in declared order")


def _check_certificates(rows: PublicRows, released: Released) -> None:
    certificates = released.certificates
    require(not certificates or marginal_tier(rows.test) is not None, "it certifies what it does not test")
    require(len({one.scope for one in certificates}) == len(certificates), "a marginal is certified twice")
    for one in certificates:
        _check_scope(rows.contract.domain, one.scope)
        require(0 <= one.version <= len(released.measured), "a certificate is of another model")
        require(0 <= one.threshold <= _LARGEST_UNITS, "a threshold is out of range")
        _check_range(one.units, 0)


def _check_duals(rows: PublicRows, version: int) -> None:
    """Refuse a distribution of another version, or one that no fit gives."""
    stored, duals = rows.snapshot if rows.snapshot is not None else (-1, np.zeros(0))
    require(stored == version, "its distribution has another version")
    require(bool(np.all(np.isfinite(duals))), "its distribution holds what is no number")
    require(float(np.abs(duals[:-1]).max(initial=0.0)) <= _LARGEST_DUAL, "its distribution is out of range")


def _check_bars(state: PublicState) -> None:
    """Refuse confidences that leave too little to fail to be computed with."""
    found = Confidences.in_state(state)
    for confidence in (*astuple(found), *astuple(found.of_one_end())):
        require(confidence <= _GREATEST_CONFIDENCE, "its confidence is out of range")
    for tier in state.plan:
        require(math.isfinite(negative_margin(tier, found.of_one_end().certificate)), "a margin has no bound")
