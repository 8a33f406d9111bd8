"""What bins cost, in words: for ``pmw plan`` and for ``pmw check``."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from pmw.display.texts import counted
from pmw.errors import BudgetError
from pmw.planning.plans import plan_session
from pmw.planning.session_plan import SessionPlan
from pmw.planning.tested_bounds import BinForecast
from queries.cells import cell_count
from queries.domain import Domain
from queries.numbers import IntegerAttribute

_USUAL_DELTA = Fraction(1, 10**9)  # of a budget that the custodian has not chosen yet
_SHOWN = 4  # attributes; those with the most cells


def bin_lines(plan: SessionPlan) -> Iterator[str]:
    """Yield how many attributes have bins, what these cost a question, and what coarser ones are worth."""
    shapes = zip(plan.contract.domain.shape, plan.coarse.shape, strict=True)
    number = sum(declared != coarse for declared, coarse in shapes)
    if not number:
        return
    attributes = "1 long attribute is" if number == 1 else f"{number} long attributes are"
    bins = f"  {attributes} put into bins, chosen from one-attribute counts"
    yield f"{bins}. Cutting one widens a bar by up to:" if plan.binned else f"{bins}."
    most = sorted(plan.binned, key=lambda one: -one.cells)
    for one in most[:_SHOWN]:
        cost = f"{cell_count(one.cells)} cells in about {one.bins:,} bins: {_part(one.cut_width, plan)}"
        coarser = f"in at most {_coarser(one, plan)} none is cut: {_worth(one, plan)}"
        yield f"    {_name(one.name)}, {cost}; {coarser}"
    if len(most) > _SHOWN:
        yield f"    {counted(len(most) - _SHOWN, 'more attribute')} of fewer cells"


def usual_bins(domain: Domain, records: int) -> tuple[dict[str, Any], list[str]]:
    """Return what bins would cost at a usual budget: a form ready for JSON, and lines; empty for none.

    Args:
        domain: the declared attributes.
        records: exact, for the custodian alone.
    """
    try:
        plan = plan_session(domain, records=max(1, records), epsilon=1, delta=_USUAL_DELTA)
    except BudgetError:
        return {}, []
    if not plan.binned:
        return {}, []
    head = f"In a session with epsilon = 1, delta = {float(_USUAL_DELTA):g}:"
    return {"binned": plan.to_dict()["binned"]}, ["", head, *bin_lines(plan)]


def _coarser(one: BinForecast, plan: SessionPlan) -> str:
    """Return the number of cells that are kept, with the width that gives them where that is one number."""
    attribute, cells = plan.contract.domain[one.name], counted(cell_count(one.coarser_cells), "cell")
    if not isinstance(attribute, IntegerAttribute):
        return cells
    return f"{cells} (width = {attribute.width * -(-one.cells // one.coarser_cells)})"


def _worth(one: BinForecast, plan: SessionPlan) -> str:
    if one.coarser_bound is None:
        return "with others, too many cells to test"
    return _part(one.coarser_bound, plan)


def _part(records: float, plan: SessionPlan) -> str:
    return f"± {records:,.0f} ({100 * records / plan.records:.2g}%)"


def _name(name: str) -> str:
    return name if name.isprintable() and name.strip() == name != "" else repr(name)
