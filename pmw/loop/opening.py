"""Opening: what is measured before the first question, and the first public state that comes of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pmw.data import CountSource
from pmw.loop.fit import first_model, fitted_to
from pmw.model import (
    FIRST_STEP_SIZE,
    Coarsening,
    DenseDistribution,
    HierarchicalMeasurement,
    MarginalMeasurement,
    OneWayMeasurement,
    SyntheticDistribution,
    choose_coarsening,
    refit,
    target_of,
)
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.random_bits import BitSource
from pmw.public.contract import Contract
from pmw.public.plans import OpeningPlan, TestPlan, planned_bins
from pmw.public.state import PublicState, Total
from queries.factors import UNITS


@dataclass(frozen=True, slots=True)
class OpeningDraws:
    """What opening released.

    Args:
        total_units: records in units of 2^-20, noisy, or exact where the row count is public.
        marginals: one per attribute measured.
    """

    total_units: int
    marginals: tuple[OneWayMeasurement, ...]


def draw_opening(plan: OpeningPlan, source: CountSource, bits: BitSource) -> OpeningDraws:
    """Return the noisy number of records and marginals.

    Privacy: costs what ``opening_entries`` says, under the neighbours that the plan's noise was made for;
        a row count without noise is for replace-one only, where it is the same for all neighbours.
    """
    source.prepare([(), *((name,) for name in plan.marginal_noise)])
    total = source.counts(()).total * UNITS
    if plan.total_noise is not None:
        total += plan.total_noise.sample(bits)
    marginals: list[OneWayMeasurement] = []
    for name, noise in plan.marginal_noise.items():
        counts, tree = source.counts((name,)).counts, plan.trees.get(name)
        if tree is None:
            units = counts * UNITS + noise.sample_array(bits, counts.size)
            marginals.append(MarginalMeasurement((name,), units, noise))
        else:
            units = tree.node_counts(counts) * UNITS + noise.sample_array(bits, tree.nodes)
            marginals.append(HierarchicalMeasurement((name,), tree, units, noise))
    if plan.table_noise is not None:
        counts = source.counts(source.domain.names).counts
        units = counts * UNITS + plan.table_noise.sample_array(bits, counts.size).reshape(counts.shape)
        marginals.append(MarginalMeasurement(source.domain.names, units, plan.table_noise))
    return OpeningDraws(total, tuple(marginals))


def settle_opening(
    contract: Contract,
    plan: OpeningPlan,
    draws: OpeningDraws,
    ledger: PrivacyFilter,
    test: TestPlan,
    fitted: tuple[SyntheticDistribution, float] | None = None,
) -> PublicState:
    """Return the session's first public state.

    Args:
        contract: what is fixed at opening.
        plan: the noise of the opening measurements.
        draws: what they gave.
        ledger: the filter after their charges.
        test: the tests, planned from the same numbers.
        fitted: the model and its step size, where they are known already; None fits the model.
    """
    total = released_total(plan, draws)
    coarsening = choose_bins(contract, plan, draws, test)
    if not contract.options.tests_marginals and fitted is None:
        dense = DenseDistribution.uniform(contract.domain, total.value)
        fitted = refit(dense, draws.marginals), FIRST_STEP_SIZE
    state = PublicState(
        contract=contract,
        ledger=ledger,
        total=total,
        opening=draws.marginals,
        measured=(),
        model=first_model(contract, coarsening, total.value) if fitted is None else fitted[0],
        plan=test,
        rounds=(False,) * len(test),
        coarsening=coarsening,
    )
    return fitted_to(state) if fitted is None else replace(state, step_size=fitted[1])


def choose_bins(contract: Contract, plan: OpeningPlan, draws: OpeningDraws, test: TestPlan) -> Coarsening:
    """Return the bins of long attributes, by the released one-attribute counts; post-processing, free.

    Single questions are tested and measured on the declared cells, and so is a table that was measured whole.

    Args:
        contract: what is fixed at opening.
        plan: the noise of the opening measurements.
        draws: what they gave.
        test: the tests, which are planned for about so many bins.
    """
    if not contract.options.tests_marginals or plan.table_noise is not None:
        return Coarsening.identity(contract.domain)
    total = released_total(plan, draws).value
    counts = {one.scope[0]: target_of(one, total) for one in draws.marginals}
    return choose_coarsening(
        contract.domain,
        {name: target.values for name, target in counts.items()},
        {name: math.sqrt(float(target.variance.max())) for name, target in counts.items()},
        bins=planned_bins(test),
    )


def released_total(plan: OpeningPlan, draws: OpeningDraws) -> Total:
    """Return the released total combined with the sums of the released marginals, by inverse variance."""
    return Total.released(plan, draws.total_units, draws.marginals)
