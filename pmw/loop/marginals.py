"""The tier of marginals: whole marginals are tested, and measured where the model is wrong.

The statistic of a marginal is its L1 distance from the model's, sum over cells |count(D) - round(count(A))|,
an integer on the 2^-20 grid. One person moves it by at most ``l1_sensitivity``, however many cells it has,
and either way: a positive is charged at the general rate. The proof of that is in ``docs/algorithm.md``, what
a negative promises in ``docs/intervals.md``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pmw.loop.fit import model_holds
from pmw.loop.measuring import draw_numbers
from pmw.loop.tier import BatchDraws, FirstAnswers, MarginalRequest, Proposal, Released, Tier
from pmw.model import DEFAULT_MAX_CELLS, MarginalMeasurement
from pmw.privacy.random_bits import BitSource
from pmw.public.answers import Answers, concatenated
from pmw.public.free_answers import FreeAnswers
from pmw.public.own_numbers import own_numbers
from pmw.public.plans import MarginalTestPlan
from pmw.public.state import Certificate, PublicState, coarse_model
from pmw.sparse_vector import NoisyThreshold, SparseState
from queries.factors import UNITS
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.questions import QuestionList

if TYPE_CHECKING:
    from pmw.data import CountSource

_PAIRS = 6  # of attributes, which every question may ask to be tested
_LOWER = 0.75  # of a threshold: so far it must have come down for another test of the same model


def marginal_units(state: PublicState, scope: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the model's marginal on the cells that are tested, rounded: int64, units of 2^-20 records."""
    model = state.model if state.grid(scope) is state.domain else coarse_model(state)
    return np.rint(model.marginal(scope) * UNITS).astype(np.int64)


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


@dataclass(frozen=True, slots=True)
class MarginalTier(Tier[tuple[str, ...], MarginalRequest]):
    """The tests of whole marginals that questions are about."""

    plan: MarginalTestPlan

    def may_test(self, state: PublicState) -> bool:
        """Tell whether anything may be tested."""
        return self.plan.tests and Tier.may_test(self, state)

    def wanted(
        self, state: PublicState, queries: Sequence[LinearQuery]
    ) -> Iterator[tuple[tuple[str, ...], ...]]:
        """Yield for each question the marginals that it asks to be tested."""
        may, known = self.may_test(state), dict[tuple[str, ...], tuple[tuple[str, ...], ...]]()
        own = own_numbers(state)
        for query in queries:
            if query.scope not in known:
                known[query.scope] = tuple(self.scopes(state, query)) if may else ()
            yield () if own.serves(query) else known[query.scope]

    def most_positives(self, state: PublicState, queries: Sequence[LinearQuery]) -> int:
        """Return how many positives some questions can come to at most: one for each marginal.

        A positive changes the model, so that what was tested before is tested again, and what its tree could
        not hold it may hold now.
        """
        scopes = {query.scope for query in queries}
        return len({each for scope in scopes for each in self._candidates(state, scope)})

    def settles(self, state: PublicState, query: LinearQuery) -> bool:
        """Tell whether a question's whole scope is tested in any case: then it is certified or measured."""
        cells = state.grid(query.scope).scope_size(query.scope)
        return len(query.scope) <= 2 and cells <= self.plan.most_cells

    def scopes(self, state: PublicState, query: LinearQuery) -> Iterator[tuple[str, ...]]:
        """Yield the marginals that a question asks to be tested: its pairs, then its whole scope.

        Pairs come first because noise hides least in them. Not tested is what a measured marginal contains,
        what has too many cells for the noise, and what is wider than a pair and the model could not hold. One
        question cannot use up the positives: where its pairs are more than half of them, it asks for its
        whole scope alone. What was tested against this very model is tested again only where the threshold
        has come down since.
        """
        for scope in self._candidates(state, query.scope):
            if not self._was_just_tested(state, scope) and (len(scope) <= 2 or model_holds(state, scope)):
                yield scope

    def _candidates(self, state: PublicState, whole: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """Yield the marginals of a scope that are not measured and have few enough cells to be tested."""
        if not whole:
            return
        sizes = {min(2, len(whole)), len(whole)}
        if math.comb(len(whole), 2) > max(_PAIRS, self.plan.update_limit // 2):
            sizes = {len(whole)}
        held = [set(one.scope) for one in (*state.opening, *state.marginals)]
        for size in sorted(sizes):
            for scope in itertools.combinations(whole, size):
                cells = state.grid(scope).scope_size(scope)
                if cells <= self.plan.most_cells and not any(set(scope) <= wider for wider in held):
                    yield scope

    def _was_just_tested(self, state: PublicState, scope: tuple[str, ...]) -> bool:
        """Tell whether a marginal was tested against this very model, at a threshold about as low."""
        cells = state.grid(scope).scope_size(scope)
        certificate = state.certificates.get(scope)
        if certificate is None or certificate.version != state.version:
            return False
        return self.plan.threshold(cells, state.asked) > _LOWER * certificate.threshold

    def requests(
        self, state: PublicState, wanted: Sequence[Sequence[tuple[str, ...]]]
    ) -> tuple[list[MarginalRequest], list[int]]:
        """Return the tests, each marginal's once, and how many of them come up to each question's last."""
        requests: dict[tuple[str, ...], MarginalRequest] = {}
        needs = []
        for scopes in wanted:
            for scope in scopes:
                if scope not in requests:
                    requests[scope] = self._request(state, scope)
            needs.append(len(requests))
        return list(requests.values()), needs

    def _request(self, state: PublicState, scope: tuple[str, ...]) -> MarginalRequest:
        units = marginal_units(state, scope)
        threshold = self.plan.threshold(units.size, state.asked)
        return MarginalRequest(scope, units, threshold, self._widened(state, scope))

    def _widened(self, state: PublicState, scope: tuple[str, ...]) -> tuple[str, ...]:
        """Return the widest scope around one that has at most the plan's ``free_cells``: its noise is small.

        Attributes that add the fewest cells come first. A scope on declared cells that would be binned
        elsewhere stays on declared ones.
        """
        domain, most = state.coarsening.coarse, self.plan.free_cells
        fine = state.domain.scope_size(scope)
        if self.plan.is_fine(fine) and fine > domain.scope_size(scope):
            domain, most = state.domain, self.plan.fine_cells
        if state.coarsening.coarse.size > (state.contract.options.max_cells or DEFAULT_MAX_CELLS):
            return scope  # each further attribute would make a tree's cliques larger
        cells = domain.scope_size(scope)
        names = set(scope)
        for attribute in sorted(domain, key=lambda one: one.size):
            if attribute.name not in names and cells * attribute.size <= most:
                names.add(attribute.name)
                cells *= attribute.size
        return domain.scope(list(names))

    def draw(
        self,
        requests: Sequence[MarginalRequest],
        before: SparseState,
        source: CountSource,
        bits: BitSource,
        coarse: CountSource | None = None,
    ) -> tuple[BatchDraws, NoisyThreshold | None]:
        """Return the outcomes of tests, up to and including the first positive, and the noise kept.

        Privacy: one step of the sparse vector on ``l1_distance``, and one marginal with fresh noise on each
            cell at a positive; costs what ``charges`` says.
        """
        plan = self.plan

        def table(scope: tuple[str, ...]) -> CountSource:
            return source if coarse is None or plan.is_fine(source.domain.scope_size(scope)) else coarse

        def counts(scope: tuple[str, ...]) -> NDArray[np.int64]:
            return table(scope).counts(scope).counts

        scopes = [request.scope for request in requests]
        for each in (source, coarse):
            if each is not None:
                each.prepare([scope for scope in scopes if table(scope) is each])
        values = np.array(
            [l1_distance(counts(request.scope), request.model_units) for request in requests],
            dtype=np.int64,
        )
        thresholds = np.array([request.threshold for request in requests], dtype=np.int64)
        after, outcomes = plan.sparse.scan(before, values, thresholds, bits)
        released = None
        if outcomes[-1]:
            measured = counts(requests[len(outcomes) - 1].measured)
            released = draw_numbers(measured, plan.noise, None, bits)
        return BatchDraws(tuple(int(outcome) for outcome in outcomes), released), self.kept(after)

    def settle(
        self, state: PublicState, proposal: Proposal, draws: BatchDraws, free: FreeAnswers
    ) -> tuple[PublicState, FirstAnswers]:
        """Return the state after a batch, and the answers, which are of the model after it."""
        after = self.after(state, proposal, draws)
        return after, partial(self._answers, after, proposal, draws, free)

    def _answers(
        self, after: PublicState, proposal: Proposal, draws: BatchDraws, free: FreeAnswers, most: int
    ) -> Answers:
        """Return the answers to the questions that no positive, and no test after it, stands before.

        The question whose marginal was measured is answered where what was measured contains it; else it is
        asked again, for it may ask for further tests.
        """
        queries = proposal.queries[:most]
        size = sum(need <= draws.negatives for need in proposal.needs[:most])  # needs never fall
        found = free.answers(after, QuestionList(queries[:size]))
        if size < len(queries) and set(queries[size].scope) <= set(after.marginals[-1].scope):
            measured = free.of(after).answer(queries[size], measured=True)
            return concatenated([found, Answers.of(after, [measured])])
        return found

    def certified(self, state: PublicState, requests: Sequence[MarginalRequest]) -> PublicState:
        """Return the state in which these marginals were not found wrong."""
        version = state.version
        found = {
            one.scope: Certificate(one.scope, version, one.threshold, one.model_units) for one in requests
        }
        return replace(state, certificates={**state.certificates, **found})

    def measurement(self, request: MarginalRequest, released: Released) -> MarginalMeasurement:
        """Return the measurement that a positive released."""
        return MarginalMeasurement(request.measured, np.asarray(released), self.plan.noise)
