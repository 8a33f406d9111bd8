"""Forecasts of bins: what they cost a question that cuts one, and what a coarser declaration is worth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pmw.model import is_long, longest_kept
from pmw.planning.marginal_forecasts import Certificates
from queries.domain import CategoricalAttribute


@dataclass(frozen=True, slots=True)
class BinForecast:
    """What the bins of a long ordered attribute cost, in records.

    Args:
        name: of the attribute.
        cells: declared, those of single numbers, ``missing`` and ``other`` left out.
        bins: about how many they are put into.
        cut_width: half of the records in a bin where all bins have as many. The bar of a question about
            several attributes is wider by up to so much where it cuts one, more where a bin is heavier.
        coarser_cells: declared with at most so many cells, the attribute is not binned.
        coarser_bound: half-width of a certified question about it, so declared, and the longest other
            attribute: no bin is cut then. None where that marginal would have too many cells to be tested.
    """

    name: str
    cells: int
    bins: int
    cut_width: float
    coarser_cells: int
    coarser_bound: float | None


def forecast_bins(certificates: Certificates, records: int) -> Iterator[BinForecast]:
    """Yield what the bins of each long ordered attribute cost.

    Args:
        certificates: what negatives promise.
        records: number of records.
    """
    plan, grids = certificates.plan, certificates.grids
    kept = longest_kept(plan.bins)
    for place, attribute in enumerate(grids.declared):
        binned = grids.assumed.shape[place] < attribute.size
        if isinstance(attribute, CategoricalAttribute) or not (binned and is_long(attribute, plan.bins)):
            continue
        others = [size for other, size in enumerate(grids.assumed.shape) if other != place]
        cells = (kept + attribute.size - attribute.base_size) * max(others, default=1)
        bins = grids.assumed[attribute.name].base_size - len(attribute.atoms)
        yield BinForecast(
            attribute.name,
            attribute.base_size,
            bins,
            records / (2 * bins),
            kept,
            certificates.bound(cells) if cells <= plan.most_cells else None,
        )
