"""Marginals on request: what an analyst asks to be measured, whether or not the model is wrong.

No test decides it: that a marginal is measured depends on public numbers alone. So it is one event, with the
price of what it measures (Dwork and Roth 2014, Theorem 3.6, for Laplace noise; Canonne, Kamath and Steinke
2020, Theorem 4, for Gaussian noise).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pmw.data import CountSource
from pmw.loop.fit import correct
from pmw.model import MarginalMeasurement, NoiseDistribution
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.random_bits import BitSource
from pmw.public.charges import LedgerEntry, requested_entry
from pmw.public.contract import Options
from pmw.public.state import PublicState
from queries.factors import UNITS


@dataclass(frozen=True, slots=True)
class RequestedMarginal:
    """What will be measured. A function of public state and the request.

    Args:
        scope: attribute names in declared order.
        noise: on each cell, in units of 2^-20 records.
    """

    scope: tuple[str, ...]
    noise: NoiseDistribution

    def entry(self, options: Options) -> LedgerEntry:
        """Return what it charges, all of which is reserved for it."""
        return requested_entry(self.scope, self.noise, options)


def counted_requested(
    requested: RequestedMarginal, state: PublicState, source: CountSource, coarse: CountSource | None
) -> NDArray[np.int64]:
    """Return the true counts of a requested marginal: int64, records per declared cell, or per bin.

    Args:
        requested: what will be measured.
        state: the public state; it tells which scopes are on bins.
        source: the table, over the declared cells.
        coarse: the same table over bins; None where nothing is binned.

    Privacy: exact and secret; for ``draw_requested`` alone.

    Raises:
        DataError: the table cannot be counted.
    """
    fine = coarse is None or state.grid(requested.scope) is state.domain
    return (source if fine or coarse is None else coarse).counts(requested.scope).counts


def draw_requested(
    requested: RequestedMarginal, counts: NDArray[np.int64], bits: BitSource
) -> MarginalMeasurement:
    """Return the marginal, each cell with fresh noise.

    Args:
        requested: what is measured.
        counts: int64, records per cell, from ``counted_requested``.
        bits: source of the noise.

    Privacy: one marginal with fresh noise on each cell; costs what ``RequestedMarginal.entry`` says.
    """
    noise = requested.noise.sample_array(bits, counts.size).reshape(counts.shape)
    return MarginalMeasurement(
        requested.scope, np.asarray(counts * UNITS + noise), requested.noise, requested=True
    )


def settle_requested(
    state: PublicState, measurement: MarginalMeasurement, ledger: PrivacyFilter
) -> PublicState:
    """Return the public state after a requested measurement, with the model corrected by it.

    Args:
        state: the state that it was requested in.
        measurement: what was drawn.
        ledger: the filter after its charge.
    """
    return correct(replace(state, ledger=ledger), measurement)
