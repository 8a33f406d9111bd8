"""Measurements against the plans, and models against the measurements: each version is fitted again, free."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.display.texts import counted
from pmw.loop import apply, marginal_units, released_total, settle_opening
from pmw.model import (
    DEFAULT_BINS,
    HierarchicalHistogram,
    QueryMeasurement,
    ResidualMeasurement,
    RowsMeasurement,
    Strategy,
)
from pmw.planning.opening import opening_persons
from pmw.planning.tiers import affordable_bins
from pmw.privacy.noise import NoiseDistribution
from pmw.public.codec import loads, read
from pmw.public.local_models import local_models
from pmw.public.plans import MOST_RESIDUAL_CELLS, marginal_tier, question_tier
from pmw.public.state import ApartMeasurement, Certificate, PublicState, requested
from pmw.session.events import KINDS, Contents, read_certificate
from pmw.session.released import duals_of
from pmw.session.store import SessionStore
from pmw.session.verification.charges import kind_of_noise, was_tested
from pmw.session.verification.report import Told, require, same, untold
from queries.cells import cell_count
from queries.factors import UNITS

# A model that went through a snapshot differs in the last digits from one that never stopped. Its numbers are
# compared to within this part of them.
_CLOSE = 1e-6
_Measured: TypeAlias = tuple[
    tuple[str, ...], NoiseDistribution | None, HierarchicalHistogram | Strategy | None
]  # at opening


def measurements_fit(contents: Contents) -> str:
    """Check noise and cells of the measurements, and return how many there are."""
    draws, plan = contents.draws, contents.opening
    wanted: list[_Measured] = [((), plan.total_noise, None)]
    wanted += [
        ((name,), noise, plan.trees.get(name) or plan.strategies.get(name))
        for name, noise in plan.marginal_noise.items()
    ]
    if plan.table_noise is not None:
        wanted.append((contents.contract.domain.names, plan.table_noise, None))
    kinds = {row.kind for row in contents.chained.measurements}
    require(kinds <= KINDS, "there is a measurement of an unknown kind")
    (total,) = (row.noise for row in contents.chained.measurements if row.kind == "total")
    found: _Measured = ((), read(NoiseDistribution | None, loads(total)), None)
    marginals = [(one.scope, one.noise, one.rows) for one in draws.marginals]
    same("noise of the opening", wanted, [found, *marginals])
    same("sums of opening", list(plan.sums), [(one.summed, one.noise) for one in draws.sums])
    _opening_persons(contents)
    kind = kind_of_noise(contents)
    apart = [type(one.noise) for one in contents.released if isinstance(one, ApartMeasurement)]
    for number, found_kind in enumerate(apart, start=1):
        same(f"noise of measurement {number} apart", kind, found_kind)
    for number, one in enumerate(contents.measured, start=1):
        if requested(one) is not None:  # whatever its scale, the charge is compared with it
            same(f"noise of measurement {number}", kind, type(one.noise))
            continue
        is_single = isinstance(one, QueryMeasurement)
        tier = question_tier(contents.test) if is_single else marginal_tier(contents.test)
        same(f"noise of measurement {number}", None if tier is None else tier.noise, one.noise)
    _bins(contents)
    _scopes(contents)
    since = len(contents.measured)
    return f"the number of records and {counted(len(wanted) - 1, 'marginal')} at opening, {since} since"


def _opening_persons(contents: Contents) -> None:
    """Check the number of persons of opening: it is measured, if at all, as follows from what is public.

    Only tables that tell persons apart have it, and the file does not say what the table was.
    """
    first = contents.chained.measurement_intents[0]
    events = (event for event in contents.events if event.batch == first)
    found = [one for event in events for one in event.released if isinstance(one, ApartMeasurement)]
    total = released_total(contents.opening, contents.draws).value
    contract = contents.contract
    noise = opening_persons(contract.domain, contents.cap, contract.options, total)
    for one in found:
        same("scope of the persons of opening", (), one.scope)
        same("noise of the number of persons", noise, one.noise)
    require(len(found) <= 1, "opening measured the number of persons twice")


def _bins(contents: Contents) -> None:
    """Check that the bins are as many as follow from the released number of records.

    Sessions opened before bins grew with the table have the fewest, whatever the table.
    """
    tier = marginal_tier(contents.test)
    if tier is None or tier.bins == DEFAULT_BINS:
        return
    total = released_total(contents.opening, contents.draws).value
    same(
        "bins of a long attribute",
        affordable_bins(contents.contract, contents.opening, total, tier.fine_cells),
        tier.bins,
    )


def _scopes(contents: Contents) -> None:
    """Check that what was measured is over attributes in their order, and no wider than planned."""
    plan, domain, coarse = marginal_tier(contents.test), contents.contract.domain, contents.coarsening.coarse
    if plan is None:
        return
    most = max(plan.most_cells, plan.free_cells, MOST_RESIDUAL_CELLS if plan.order > 1 else 0)
    for number, one in enumerate(contents.measured, start=1):
        if not isinstance(one, QueryMeasurement | RowsMeasurement):
            same(f"scope of measurement {number}", domain.scope(one.scope), one.scope)
            by_rows = len(one.scope) == 1 and one.scope[0] in contents.opening.strategies
            grid = domain if by_rows or plan.is_fine(domain.scope_size(one.scope)) else coarse
            same(f"cells of measurement {number}", grid.scope_shape(one.scope), one.units.shape)
            cells = one.units.size
            told = f"measurement {number} has {cell_count(cells)} cells"
            require(cells <= most, f"{told}; at most {cell_count(most)} were planned")
        if isinstance(one, ResidualMeasurement):
            require(plan.order > 1, f"measurement {number} is by rows, and none were planned")
            replaced = contents.contract.options.replaces
            same(f"relation of the rows of measurement {number}", replaced, one.strategy.replaced)


def models_follow(contents: Contents, store: SessionStore, told: Told = untold) -> str:
    """Check what the file holds of the models, and return how many versions there are."""
    measured = contents.measured
    coarsening = contents.coarsening
    certificates = [read_certificate(coarsening, row) for row in store.certificates()]
    versions = [one.version for one in certificates]
    require(
        versions == sorted(versions) and set(versions) <= set(range(len(measured) + 1)),
        "there are certificates of versions that do not follow one another",
    )
    snapshot = _snapshot(store, len(measured))
    for state in _versions(contents):
        if snapshot is not None and snapshot[0] == state.version:
            _check_snapshot(state, snapshot[1])
        for certificate in certificates:
            if certificate.version == state.version:
                _check_certificate(state, certificate, contents, store.answers.count())
        told(1, len(measured) + 1)
    words = counted(len(measured) + 1, "version")
    return f"{words}, {counted(len(certificates), 'certificate')}" if certificates else words


def _snapshot(store: SessionStore, newest: int) -> tuple[int, NDArray[np.float64]] | None:
    found = store.snapshot()
    if found is None:
        require(not store.has_snapshot(), "the checksum of the snapshot does not hold")
    else:
        fault = f"there is a snapshot of version {found[0]}, but no such version"
        require(0 <= found[0] <= newest, fault)
    return found


def _versions(contents: Contents) -> Iterator[PublicState]:
    """Yield the state of each version of the model: what was released is applied, one after another."""
    state = settle_opening(contents.contract, contents.opening, contents.draws, contents.cap, contents.test)
    yield state
    for one in contents.released:
        version = state.version
        if isinstance(one, QueryMeasurement):
            off = abs(round(local_models(state).answer(one.query) * UNITS) - one.model_units)
            fault = f"measurement {version + 1} corrects an answer that the model did not give"
            require(off <= 4 + _CLOSE * abs(one.model_units), fault)
        state = apply(state, one, contents.cap)
        if state.version > version:
            yield state


def _check_snapshot(state: PublicState, found: NDArray[np.float64]) -> None:
    expected = duals_of(state)
    require(
        expected.shape == found.shape and np.allclose(found, expected, rtol=_CLOSE, atol=_CLOSE),
        f"the snapshot of version {state.version} is not the model of its measurements",
    )


def _check_certificate(
    state: PublicState, certificate: Certificate, contents: Contents, answers: int
) -> None:
    """Check that a certificate is of its version's model, against a threshold of the plan."""
    plan, what = marginal_tier(state.plan), f"the certificate of {', '.join(certificate.scope)}"
    require(plan is not None, f"{what} stands in a session that tests no marginals")
    if plan is None:
        return
    grid, cells = state.grid(certificate.scope), certificate.units.size
    require(grid.scope(certificate.scope) == certificate.scope, f"{what} is not over attributes in order")
    planned = certificate.units.shape == grid.scope_shape(certificate.scope)
    require(planned, f"{what} is not on the cells that are tested")
    require(cells <= plan.most_cells, f"{what} has more cells than are tested")
    require(was_tested(contents, state.positives(0)), f"{what} was tested in a round that was not paid for")
    expected = marginal_units(state, certificate.scope)
    off = np.abs(certificate.units - expected).max(initial=0)
    require(
        bool(off <= 4 + _CLOSE * np.abs(expected).max(initial=0)),
        f"{what} is not of the model of version {certificate.version}",
    )
    # Thresholds fall with the number of answers, and the file does not say how many stood before a test.
    require(
        plan.threshold(cells, answers) <= certificate.threshold <= plan.threshold(cells, 0),
        f"{what} has a threshold that was never planned",
    )
