"""Opening: what is bought before the first question, and the first public state that comes of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from pmw.data import CountSource
from pmw.loop.batch import LedgerEntry
from pmw.loop.fit import first_model, fitted_to
from pmw.model import (
    FIRST_PACE,
    Coarsening,
    DenseDistribution,
    MarginalMeasurement,
    NoiseLaw,
    OneWayMeasurement,
    RangeTreeMeasurement,
    SyntheticDistribution,
    choose_coarsening,
    noise_variance,
    refit,
    target_of,
)
from pmw.planning.marginals import plan_test
from pmw.planning.noise_scales import l1_sensitivity, l2_squared_sensitivity
from pmw.planning.opening import choose_filter
from pmw.privacy.budget import Charge, gaussian_charge, pure_charge
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.noise import DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.public.contract import Contract, OpeningPlan, Options, TestKind, TestPlan
from pmw.public.state import PublicState, Total
from queries.linear import UNITS

__all__ = [
    "choose_groups",
    "draw_opening",
    "marginal_charge",
    "Opened",
    "opening_entries",
    "OpeningDraws",
    "plan_opened",
    "released_total",
    "settle_opening",
]


@dataclass(frozen=True, slots=True)
class OpeningDraws:
    """What opening released.

    Args:
        total_units: records in units of 2^-20, noisy, or exact where the row count is public.
        marginals: one per attribute bought.
    """

    total_units: int
    marginals: tuple[OneWayMeasurement, ...]


def opening_entries(plan: OpeningPlan, options: Options) -> tuple[LedgerEntry, ...]:
    """Return what opening charges: a marginal is one event, since a record is in one of its cells.

    A tree of ranges is one event too: a record is in one node of each of its h levels, so one person moves
    its nodes by h times as much in L1 as the cells, and by sqrt(h) times as much in L2.
    """
    entries = []
    if plan.total_noise is not None:
        charge = marginal_charge(plan.total_noise, options, 1)
        entries.append(LedgerEntry("total", "number of records", charge))
    for name, noise in plan.marginal_noise.items():
        event = "range tree" if name in plan.trees else "marginal"
        entries.append(LedgerEntry(event, name, marginal_charge(noise, options, plan.levels(name))))
    if plan.table_noise is not None:
        entries.append(LedgerEntry("marginal", "the whole table", marginal_charge(plan.table_noise, options)))
    return tuple(entries)


@dataclass(frozen=True, slots=True)
class Opened:
    """What follows from an opening's plan and the number of records.

    Args:
        entries: what opening charges.
        ledger: the filter after these charges.
        test: the tests; None where nothing is left for any.
    """

    entries: tuple[LedgerEntry, ...]
    ledger: PrivacyFilter
    test: TestPlan | None


def plan_opened(contract: Contract, plan: OpeningPlan, total: float) -> Opened:
    """Return what a session is left with after opening: for ``open`` and for ``plan`` alike.

    Nothing here depends on a released count but the number of records, so that a session differs from its
    plan only by the noise on that.

    Args:
        contract: what is fixed at opening.
        plan: what is bought at opening.
        total: the number of records, as released or as stated.
    """
    entries = opening_entries(plan, contract.options)
    ledger = choose_filter(contract.domain, contract.budget, contract.options)
    for entry in entries:
        ledger = ledger.charge(entry.charge)
    return Opened(entries, ledger, plan_test(contract, plan, ledger, total))


def marginal_charge(noise: NoiseLaw, options: Options, levels: int = 1) -> Charge:
    """Return the price of a whole marginal under noise, or of a tree of so many levels."""
    if isinstance(noise, DiscreteLaplace):
        return pure_charge(levels * l1_sensitivity(options) / noise.scale)
    return gaussian_charge(levels * l2_squared_sensitivity(options), noise.sigma)


def draw_opening(plan: OpeningPlan, source: CountSource, bits: BitSource) -> OpeningDraws:
    """Return the noisy number of records and marginals.

    Privacy: costs what ``opening_entries`` says, under the neighbours that the plan's noise was made for;
        a row count without noise is for replace-one only, where it is the same for all neighbours.
    """
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
            marginals.append(RangeTreeMeasurement((name,), tree, units, noise))
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
    test: TestPlan | None,
    fitted: tuple[SyntheticDistribution, float] | None = None,
) -> PublicState:
    """Return the session's first public state.

    Args:
        contract: what is fixed at opening.
        plan: the noise of the opening measurements.
        draws: what they gave.
        ledger: the filter after their charges.
        test: the tests, planned from the same numbers.
        fitted: the model and its pace, where they are known already; None fits the model.
    """
    total = released_total(plan, draws)
    coarsening = choose_groups(contract, plan, draws)
    if contract.options.test is TestKind.QUERY and fitted is None:
        dense = DenseDistribution.uniform(contract.domain, total.value)
        fitted = refit(dense, draws.marginals), FIRST_PACE
    state = PublicState(
        contract=contract,
        ledger=ledger,
        total=total,
        opening=draws.marginals,
        measured=(),
        model=first_model(contract, coarsening, total.value) if fitted is None else fitted[0],
        plan=test,
        round_open=False,
        coarsening=coarsening,
    )
    return fitted_to(state) if fitted is None else replace(state, pace=fitted[1])


def choose_groups(contract: Contract, plan: OpeningPlan, draws: OpeningDraws) -> Coarsening:
    """Return the groups of long attributes, by the released one-attribute counts; post-processing, free.

    Single questions are tested and bought on the declared cells, and so is a table that was bought whole.
    """
    if contract.options.test is TestKind.QUERY or plan.table_noise is not None:
        return Coarsening.identity(contract.domain)
    total = released_total(plan, draws).value
    counts = {one.scope[0]: target_of(one, total) for one in draws.marginals}
    return choose_coarsening(
        contract.domain,
        {name: target.values for name, target in counts.items()},
        {name: math.sqrt(float(target.variance.max())) for name, target in counts.items()},
    )


def released_total(plan: OpeningPlan, draws: OpeningDraws) -> Total:
    """Return the released total combined with the sums of the released marginals, by inverse variance.

    Post-processing: each marginal's cells, or a tree's least squares cells, sum to the number of records plus
    noise.
    """
    estimate = draws.total_units / UNITS
    if plan.total_noise is None:
        return Total(max(1.0, estimate), estimate, 0.0)
    estimates = [estimate, *(float(marginal.values.sum()) for marginal in draws.marginals)]
    variances = [noise_variance(plan.total_noise)]
    variances += [marginal.weighted_variance(np.ones(marginal.values.shape)) for marginal in draws.marginals]
    precision = sum(1 / variance for variance in variances)
    combined = sum(value / variance for value, variance in zip(estimates, variances, strict=True)) / precision
    return Total(max(1.0, combined), combined, math.sqrt(1 / precision))
