"""Forecasts of sparse vectors: what every sound one would make of a session's budget, before any is spent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pmw.errors import BudgetError
from pmw.planning.calibration import half_band
from pmw.planning.marginals import expected_tests
from pmw.planning.opened import plan_test
from pmw.privacy.filter import PrivacyFilter
from pmw.public.contract import Contract
from pmw.public.plans import OpeningPlan, marginal_tier
from pmw.sparse_vector import SparseVectorKind
from queries.factors import UNITS


@dataclass(frozen=True, slots=True)
class SparseVectorForecast:
    """One sparse vector at the price that a session has for tests, in records.

    Args:
        name: of the kind.
        chosen: the session would use it.
        threshold_scale: of the threshold noise; for Gaussian noise its standard deviation.
        query_scale: of the noise of each test.
        half_band: half-width of the band around the threshold in which some test of the run may err, with
            probability 1 - beta for beta = 0.05 (``half_band``).
        theorem: what its price rests on.
    """

    name: str
    chosen: bool
    threshold_scale: float
    query_scale: float
    half_band: float
    theorem: str


def forecast_sparse_vectors(
    contract: Contract, opening: OpeningPlan, ledger: PrivacyFilter, records: float
) -> Iterator[SparseVectorForecast]:
    """Yield every sparse vector that a session could use, under the filter's own accounting.

    Under GDP sech^2 tests have no price: a session that asks for them has another filter.

    Args:
        contract: what is fixed at opening.
        opening: what is measured at opening.
        ledger: the filter after opening.
        records: stated number of records.
    """
    chosen = contract.options.chosen_sparse_vector(ledger.composition)
    for kind in SparseVectorKind:
        try:
            options = replace(contract.options, sparse_vector=kind, composition=ledger.composition)
        except BudgetError:
            continue  # two-sided noise with simultaneous intervals, or sech^2 under GDP
        plan = plan_test(replace(contract, options=options), opening, ledger, records)
        if not plan:
            continue
        sparse, tests = plan[0].sparse, options.expected_queries
        if marginal_tier(plan) is not None:
            tests = expected_tests(contract.domain)
        band = half_band(sparse.test, tests, sparse.update_limit)
        yield SparseVectorForecast(
            kind.value,
            kind is chosen,
            float(sparse.test.threshold_scale) / UNITS,
            float(sparse.test.query_scale) / UNITS,
            band / UNITS,
            kind.theorem,
        )
