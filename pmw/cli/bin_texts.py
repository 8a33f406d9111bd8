"""What bins cost, in words: for ``pmw plan`` and for ``pmw check``."""

from __future__ import annotations

from collections.abc import Iterator

from pmw.markup import counted
from pmw.planning.bin_forecasts import BinForecast
from pmw.planning.session_plan import SessionPlan
from queries.domain import IntegerAttribute

__all__ = [
    "bin_lines",
]

_SHOWN = 4  # attributes; those with the most cells


def bin_lines(plan: SessionPlan) -> Iterator[str]:
    """Yield what bins cost a question that cuts one, and what a coarser declaration is worth."""
    if not plan.binned:
        return
    yield "  Where a question about several attributes cuts a bin, its bar is wider by up to half of the bin:"
    most = sorted(plan.binned, key=lambda one: -one.cells)
    for one in most[:_SHOWN]:
        cost = f"{one.cells:,} cells in about {one.bins:,} bins: {_part(one.cut_width, plan)}"
        coarser = f"in at most {_coarser(one, plan)} none is cut: {_worth(one, plan)}"
        yield f"    {_name(one.name)}, {cost}; {coarser}"
    if len(most) > _SHOWN:
        yield f"    {counted(len(most) - _SHOWN, 'more attribute')} of fewer cells"


def _coarser(one: BinForecast, plan: SessionPlan) -> str:
    """Return the number of cells that are kept, with the width that gives them where that is one number."""
    attribute, cells = plan.contract.domain[one.name], counted(one.coarser_cells, "cell")
    if not isinstance(attribute, IntegerAttribute):
        return cells
    return f"{cells} (width = {attribute.width * -(-one.cells // one.coarser_cells)})"


def _worth(one: BinForecast, plan: SessionPlan) -> str:
    if one.coarser_bound is None:
        return "too many cells for a test, with another long attribute"
    return _part(one.coarser_bound, plan)


def _part(records: float, plan: SessionPlan) -> str:
    return f"± {records:,.0f} ({100 * records / plan.records:.2g}%)"


def _name(name: str) -> str:
    return name if name.isprintable() and name.strip() == name != "" else repr(name)
