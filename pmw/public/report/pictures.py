"""Pictures: the model against measurements, error bars against questions, and the budget."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pmw.markup import counted
from pmw.public.plots.marginals import MarginalComparison, compare_marginals, highest_cells, shortened
from pmw.public.report.charts import Bars, Line, Picture, bar_chart, column_chart, line_chart
from pmw.public.report.elements import isolated, number, percent
from pmw.public.report.facts import NINE_TENTHS, Facts, quantile_of
from pmw.public.report.wording import confidence_text
from pmw.public.state import PublicState
from queries.domain import CategoricalAttribute

__all__ = [
    "budget_picture",
    "error_picture",
    "headline",
    "marginal_pictures",
]

_MOST_MARGINALS = 6
_MOST_COLUMNS = 128
_STRETCHES = 40  # of questions, in the picture of errors
_MOST_CORNERS = 400  # of the line of the budget


def headline(state: PublicState) -> str:
    """Return what stands above every picture: the table and the promise in numbers."""
    budget = state.contract.budget
    delta = f", delta = {float(budget.delta):g}" if budget.delta else ""
    promise = (
        "SEEDED NOISE: no privacy" if state.contract.seeded else f"epsilon = {float(budget.epsilon):g}{delta}"
    )
    return f"{isolated(shortened(state.domain.name, 40))}, {promise}"


def marginal_pictures(state: PublicState) -> list[str]:
    """Return a picture for each of the first attributes: the model beside what was measured."""
    return [_marginal(state, one) for one in compare_marginals(state, _MOST_MARGINALS)]


def _marginal(state: PublicState, comparison: MarginalComparison) -> str:
    if isinstance(comparison.attribute, CategoricalAttribute):
        cells: list[Sequence[int]] = [[int(cell)] for cell in highest_cells(comparison)]
        chart = bar_chart
    else:
        size = comparison.attribute.size
        width = -(-size // _MOST_COLUMNS)
        cells = [list(range(low, min(size, low + width))) for low in range(0, size, width)]
        chart = column_chart
    bars = _bars(comparison, cells, 100 / state.total.value, state.contract.options.confidence)
    return chart(
        Picture(headline(state), _title(comparison, cells), _description(state, comparison, bars)), bars
    )


def _bars(
    comparison: MarginalComparison, cells: Sequence[Sequence[int]], share: float, confidence: float
) -> Bars:
    """Return bars of cells, or of some of them together; the range of noise is that of one cell."""
    measured, single = comparison.measured, len(cells[0]) == 1
    return Bars(
        [_label(comparison, part) for part in cells],
        [share * float(comparison.model[part].sum()) for part in cells],
        None if measured is None else [share * float(measured[part].sum()) for part in cells],
        share * comparison.half_width if single else math.nan,
        f"measured, with the {confidence_text(confidence)} range of its noise",
    )


def _label(comparison: MarginalComparison, part: Sequence[int]) -> str:
    return isolated(shortened(comparison.attribute.label(part[0]), 24))


def _title(comparison: MarginalComparison, cells: Sequence[Sequence[int]]) -> str:
    attribute = comparison.attribute
    name, drawn = isolated(shortened(attribute.name, 40)), sum(map(len, cells))
    if drawn < attribute.size:
        return f"{name} ({len(cells)} of {attribute.size:,} values, the most frequent), % of all records"
    if len(cells[0]) > 1:
        return f"{name} ({attribute.size:,} values, {len(cells[0])} to a column), % of all records"
    return f"{name}, % of all records"


def _description(state: PublicState, comparison: MarginalComparison, bars: Bars) -> str:
    order = np.argsort(-np.array(bars.model), kind="stable")[:3]
    shares = "; ".join(f"{bars.labels[place]} {percent(bars.model[place] / 100)}" for place in order)
    text = f"The model's most frequent values of {isolated(comparison.attribute.name)}: {shares}."
    if bars.measured is None:
        return f"{text} Nothing was measured of this attribute at opening."
    far = max(abs(model - max(0.0, one)) for model, one in zip(bars.model, bars.measured, strict=True))
    text += f" Model and measurement differ by at most {percent(far / 100)} of all records."
    if math.isnan(comparison.half_width):
        return text
    confidence = confidence_text(state.contract.options.confidence)
    return (
        f"{text} The noise of one value stays within {number(comparison.half_width)} records ({confidence})."
    )


def error_picture(facts: Facts) -> str | None:
    """Return the error bars of answers, in the order of the questions; None where no answer has one."""
    total = facts.state.total.value
    reaches = [one.reach for one in facts.questions]
    middle, most = _stretched(reaches, 0.5, total), _stretched(reaches, NINE_TENTHS, total)
    if not middle:
        return None
    whole = [reach for reach in reaches if not math.isnan(reach)]
    half, nine = quantile_of(whole, 0.5), quantile_of(whole, NINE_TENTHS)
    description = (
        f"Of {counted(len(whole), 'answer')} with an error bar, half have one of at most {number(half)} "
        "records "
        f"({percent(half / total)} of all), and nine of ten one of at most {number(nine)} records "
        f"({percent(nine / total)}). {len(reaches) - len(whole):,} answers have none."
    )
    picture = Picture(headline(facts.state), "how far answers may be off, % of all records", description)
    lines = [Line("nine of ten answers", "measured", most), Line("half of the answers", "model", middle)]
    return line_chart(picture, lines, "questions answered, repeated ones not counted")


def _stretched(reaches: Sequence[float], part: float, total: float) -> list[tuple[float, float]]:
    """Return a quantile of the error bars of each stretch of questions that has one, in percent."""
    found = []
    for places in np.array_split(np.arange(len(reaches)), min(_STRETCHES, max(1, len(reaches)))):
        known = [reaches[int(place)] for place in places if not math.isnan(reaches[int(place)])]
        if known:
            found.append((float(places[-1] + 1), 100 * quantile_of(known, part) / total))
    return found


def budget_picture(facts: Facts) -> str:
    """Return the part of the budget that was spent, over the questions that were answered."""
    answers, shares = facts.history.answers, 100 * facts.history.shares
    kept = np.unique(np.linspace(0, len(answers) - 1, min(len(answers), _MOST_CORNERS)).astype(np.int64))
    corners = [(float(answers[0]), float(shares[0]))]
    for place in kept[1:]:
        corners += [(float(answers[place]), corners[-1][1]), (float(answers[place]), float(shares[place]))]
    now = 100 * facts.state.ledger.share  # what was measured on request came after the last answer
    corners.append((corners[-1][0], now))
    description = (
        f"{percent(shares[0] / 100)} of the budget was spent at opening, and {percent(now / 100)} by now, "
        "after "
        f"{counted(int(answers[-1]), 'question')}. The dashed line is all of it: nothing beyond can be spent."
    )
    picture = Picture(headline(facts.state), "how much of the budget is spent, %", description)
    return line_chart(
        picture, [Line("spent", "model", corners)], "questions answered, repeated ones not counted", cap=100.0
    )
