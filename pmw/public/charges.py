"""Charges: what each event costs, and the most that a batch can charge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pmw.model import NoiseLaw
from pmw.privacy.budget import Charge, Composition, gaussian_charge, pure_charge
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.noise import DiscreteLaplace
from pmw.public.contract import Options
from pmw.public.plans import MarginalTestPlan, OpeningPlan
from pmw.public.sensitivity import l1_sensitivity, l2_squared_sensitivity
from pmw.sparse_vector import NumericSparse
from queries.linear import LinearQuery

__all__ = [
    "abandoned_entry",
    "bought_entry",
    "LedgerEntry",
    "marginal_charge",
    "marginal_reservation",
    "marginal_threshold_entry",
    "measurement_entry",
    "opening_entries",
    "reservation",
    "threshold_entry",
]


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One charge and what it paid for."""

    event: str
    label: str
    charge: Charge


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


def marginal_charge(noise: NoiseLaw, options: Options, levels: int = 1) -> Charge:
    """Return the price of a whole marginal under noise, or of a tree of so many levels."""
    if isinstance(noise, DiscreteLaplace):
        return pure_charge(levels * l1_sensitivity(options) / noise.scale)
    return gaussian_charge(levels * l2_squared_sensitivity(options), noise.sigma)


def marginal_reservation(
    plan: MarginalTestPlan, options: Options, ledger: PrivacyFilter, *, round_open: bool
) -> Charge:
    """Return the most that a batch can charge: threshold noise, unless it is drawn, and one marginal."""
    opening, positive = plan.sparse.charges(ledger.composition)
    bought = positive + marginal_charge(plan.noise, options)
    return bought if round_open else opening + bought


def marginal_threshold_entry(plan: MarginalTestPlan, composition: Composition) -> LedgerEntry:
    """Return what drawing threshold noise charges: a whole round, or a whole vector that is not redrawn."""
    event = "sparse vector round" if plan.sparse.redraw else "sparse vector"
    return LedgerEntry(event, "threshold noise drawn", plan.sparse.charges(composition)[0])


def bought_entry(
    plan: MarginalTestPlan, options: Options, composition: Composition, scope: Sequence[str]
) -> LedgerEntry:
    """Return what a positive charges with the marginal that it buys, whatever its scope."""
    charge = plan.sparse.charges(composition)[1] + marginal_charge(plan.noise, options)
    return LedgerEntry("marginal", ", ".join(scope), charge)


def reservation(vector: NumericSparse, ledger: PrivacyFilter, *, round_open: bool) -> Charge:
    """Return the most that a batch can charge: threshold noise, unless it is drawn, and one positive."""
    opening, positive = vector.charges(ledger.composition)
    return positive if round_open else opening + positive


def threshold_entry(vector: NumericSparse, composition: Composition, *, second: bool = False) -> LedgerEntry:
    """Return what drawing threshold noise charges: a whole round, or a whole vector that is not redrawn.

    Args:
        vector: the sparse vector.
        composition: how charges add up.
        second: it stands beside a sparse vector of marginals, and the ledger tells them apart.
    """
    event = "sparse vector round" if vector.sparse.redraw else "sparse vector"
    label = "threshold noise drawn for single questions" if second else "threshold noise drawn"
    return LedgerEntry(event, label, vector.charges(composition)[0])


def measurement_entry(vector: NumericSparse, composition: Composition, query: LinearQuery) -> LedgerEntry:
    """Return what a positive charges with the value that it releases."""
    return LedgerEntry("measurement", query.describe(), vector.charges(composition)[1])


def abandoned_entry(reserved: Charge) -> LedgerEntry:
    """Return what a batch charges that is never finished: all that was reserved for it."""
    return LedgerEntry("abandoned batch", "reserved; nothing was released", reserved)
