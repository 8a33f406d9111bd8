"""The marginal test: whole marginals are tested, and bought where the model is wrong.

The statistic of a marginal is its L1 distance from the model's, sum over cells |count(D) - round(count(A))|,
an integer on the 2^-20 grid. One person moves it by at most ``l1_sensitivity``, however many cells it has,
and either way: a positive is charged at the general rate. What a negative promises, and the proofs, are in
``docs/marginal-test.md``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pmw.data import CountSource
from pmw.loop.batch import BatchDraws, MarginalRequest, Proposal
from pmw.loop.fit import coarse_model, model_holds
from pmw.model import DEFAULT_MAX_CELLS, MarginalMeasurement
from pmw.privacy.budget import Composition
from pmw.privacy.random_bits import BitSource
from pmw.public.charges import LedgerEntry, bought_entry, marginal_reservation, marginal_threshold_entry
from pmw.public.contract import Options, TestKind
from pmw.public.plans import MarginalTestPlan
from pmw.public.state import Certificate, PublicState
from pmw.sparse_vector import NoisyThreshold, SparseState
from queries.linear import UNITS, LinearQuery

_PAIRS = 6  # of attributes, which every question may ask to be tested
_LOWER = 0.75  # of a threshold: so far it must have come down for another test of the same model

__all__ = [
    "bought_marginal",
    "certified",
    "draw_marginals",
    "l1_distance",
    "marginal_entries",
    "marginal_units",
    "may_test_marginals",
    "propose_marginals",
    "scopes_to_test",
]


def may_test_marginals(state: PublicState) -> bool:
    """Tell whether a marginal may be tested: while a positive can be had and be paid."""
    plan = None if state.closed else state.plan
    if not isinstance(plan, MarginalTestPlan) or state.positives_used >= plan.update_limit:
        return False
    options = state.contract.options
    return state.ledger.allows(marginal_reservation(plan, options, state.ledger, round_open=state.round_open))


def scopes_to_test(state: PublicState, query: LinearQuery) -> Iterator[tuple[str, ...]]:
    """Yield the marginals that a question asks to be tested: its pairs of attributes, then its whole scope.

    Pairs come first because noise hides least in them. Not tested is what a bought marginal contains, what
    noise would drown, and what is wider than a pair and the model could not hold. One question cannot use up
    the positives: where its pairs are more than half of them, it asks for its whole scope alone. What was
    tested against this very model is tested again only where the threshold has come down since.
    """
    plan = state.plan
    if not isinstance(plan, MarginalTestPlan) or not query.scope:
        return
    sizes = {min(2, len(query.scope)), len(query.scope)}
    if math.comb(len(query.scope), 2) > max(_PAIRS, plan.update_limit // 2):
        sizes = {len(query.scope)}
    held = [set(one.scope) for one in (*state.opening, *state.marginals)]
    for size in sorted(sizes):
        for scope in itertools.combinations(query.scope, size):
            cells = state.grid(scope).scope_size(scope)
            if _was_just_tested(state, plan, scope, cells):
                continue
            if cells > plan.most_cells or any(set(scope) <= wider for wider in held):
                continue
            if len(scope) <= 2 or model_holds(state, scope):
                yield scope


def _was_just_tested(state: PublicState, plan: MarginalTestPlan, scope: tuple[str, ...], cells: int) -> bool:
    """Tell whether a marginal was tested against this very model, at a threshold about as low."""
    certificate = state.certificates.get(scope)
    if certificate is None or certificate.version != state.version:
        return False
    return plan.threshold(cells, state.asked) > _LOWER * certificate.threshold


def propose_marginals(
    state: PublicState, queries: Sequence[LinearQuery], wanted: Sequence[Sequence[tuple[str, ...]]]
) -> Proposal:
    """Return a batch that tests marginals.

    Args:
        state: the public state.
        queries: the questions, in order.
        wanted: for each, the marginals that it asks to be tested; each is tested once.
    """
    plan = state.plan
    requests: dict[tuple[str, ...], MarginalRequest] = {}
    needs = []
    reserved = None
    if isinstance(plan, MarginalTestPlan):
        for scopes in wanted:
            for scope in scopes:
                if scope not in requests:
                    requests[scope] = _request(state, plan, scope)
            needs.append(len(requests))
        options = state.contract.options
        reserved = marginal_reservation(plan, options, state.ledger, round_open=state.round_open)
    return Proposal(
        tuple(queries),
        TestKind.MARGINAL,
        tuple(requests.values()),
        tuple(needs),
        positives=state.positives_used,
        opens_round=bool(requests) and not state.round_open,
        reserved=reserved if requests else None,
    )


def _request(state: PublicState, plan: MarginalTestPlan, scope: tuple[str, ...]) -> MarginalRequest:
    units = marginal_units(state, scope)
    threshold = plan.threshold(units.size, state.asked)
    return MarginalRequest(scope, units, threshold, _widened(state, plan, scope))


def marginal_units(state: PublicState, scope: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the model's marginal on the cells that are tested, rounded: int64, units of 2^-20 records."""
    model = state.model if state.grid(scope) is state.domain else coarse_model(state)
    return np.rint(model.marginal(scope) * UNITS).astype(np.int64)


def _widened(state: PublicState, plan: MarginalTestPlan, scope: tuple[str, ...]) -> tuple[str, ...]:
    """Return the widest scope around one that has at most the plan's ``free_cells``: its noise is small.

    Attributes that add the fewest cells come first. A scope on declared cells that would be grouped elsewhere
    stays on declared ones.
    """
    domain, most = state.coarsening.coarse, plan.free_cells
    if plan.is_fine(state.domain, scope) and state.domain.scope_size(scope) > domain.scope_size(scope):
        domain, most = state.domain, plan.fine_cells
    if state.coarsening.coarse.size > (state.contract.options.max_cells or DEFAULT_MAX_CELLS):
        return scope  # each further attribute would make a tree's cliques larger
    cells = domain.scope_size(scope)
    names = set(scope)
    for attribute in sorted(domain, key=lambda one: one.size):
        if attribute.name not in names and cells * attribute.size <= most:
            names.add(attribute.name)
            cells *= attribute.size
    return domain.scope(list(names))


def l1_distance(counts: NDArray[np.int64], model_units: NDArray[np.int64]) -> int:
    """Return sum over cells |count - model|, in units.

    Args:
        counts: int64, records per cell.
        model_units: int64, of the same shape, units of 2^-20 records.

    Privacy: a function of true counts (secret). One record added or removed moves one cell by one record, so
        the distance by at most 2^20 units; one record replaced moves it by at most twice that. Integers
        throughout: no rounding adds to it.
    """
    return int(np.abs(counts * UNITS - model_units).sum())


def draw_marginals(
    requests: Sequence[MarginalRequest],
    before: SparseState,
    plan: MarginalTestPlan,
    source: CountSource,
    bits: BitSource,
    coarse: CountSource | None = None,
) -> tuple[BatchDraws, NoisyThreshold | None]:
    """Return the outcomes of a batch's tests, up to and including the first positive, and the noise kept.

    Args:
        requests: what is tested, in order.
        before: the sparse vector.
        plan: its noise, and that of what is bought.
        source: the table, over the declared cells.
        bits: source of the noise.
        coarse: the same table over groups; None where nothing is grouped.

    Privacy: one step of the sparse vector on ``l1_distance``, and one marginal with fresh noise on each cell
        at a positive; costs what ``marginal_entries`` says.
    """

    def counts(scope: tuple[str, ...]) -> NDArray[np.int64]:
        table = source if coarse is None or plan.is_fine(source.domain, scope) else coarse
        return table.counts(scope).counts

    values = np.array(
        [l1_distance(counts(request.scope), request.model_units) for request in requests],
        dtype=np.int64,
    )
    thresholds = np.array([request.threshold for request in requests], dtype=np.int64)
    after, outcomes = plan.sparse.scan(before, values, thresholds, bits)
    released = None
    if outcomes[-1]:
        bought = counts(requests[len(outcomes) - 1].bought)
        released = bought * UNITS + plan.noise.sample_array(bits, bought.size).reshape(bought.shape)
    # A round that closes takes its threshold noise with it.
    kept = after.noisy if after.positives < plan.update_limit else None
    return BatchDraws(tuple(int(outcome) for outcome in outcomes), released), kept


def marginal_entries(
    proposal: Proposal,
    draws: BatchDraws,
    plan: MarginalTestPlan,
    options: Options,
    composition: Composition,
) -> tuple[LedgerEntry, ...]:
    """Return what a batch charges."""
    entries = []
    if proposal.opens_round:
        entries.append(marginal_threshold_entry(plan, composition))
    if draws.released is not None:
        request = proposal.requests[len(draws.outcomes) - 1]
        if isinstance(request, MarginalRequest):
            entries.append(bought_entry(plan, options, composition, request.bought))
    return tuple(entries)


def bought_marginal(
    request: MarginalRequest, released: NDArray[np.int64], plan: MarginalTestPlan
) -> MarginalMeasurement:
    """Return the measurement that a positive released."""
    return MarginalMeasurement(request.bought, released, plan.noise)


def certified(state: PublicState, requests: Sequence[MarginalRequest]) -> PublicState:
    """Return the state in which these marginals were not found wrong."""
    certificates = dict(state.certificates)
    for request in requests:
        certificates[request.scope] = Certificate(
            request.scope, state.version, request.threshold, request.model_units
        )
    return replace(state, certificates=certificates)
