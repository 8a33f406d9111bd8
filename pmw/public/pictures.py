"""Pictures: what is drawn of a session, as panels for pages and figures. All of it is public."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pmw.display.charts import Bar, Bars, Cap, Line, Lines, Picture
from pmw.display.figures import INK, MEASURED, draw_bars, draw_lines, new_figure
from pmw.display.texts import budget_words, counted, isolated, number, percent, shortened
from pmw.public.contract import Contract, guarantee
from pmw.public.half_widths import SumNoise
from pmw.public.state import PublicState
from pmw.public.status import History
from queries.categories import CategoricalAttribute
from queries.cell_sets import CellSets
from queries.cells import number_text
from queries.dates import Periods
from queries.domain import Attribute, OrderedAttribute
from queries.frozen import dataclass

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NINE_TENTHS = 0.9
MOST_MARGINALS = 6
_MOST_BARS, _MOST_COLUMNS = 10, 128
_STRETCHES = 40  # of questions, in the picture of errors
_PANELS = 3  # beside each other in a figure
_WIDTH, _HEADER, _MARGINAL, _BUDGET = 12.0, 0.9, 2.6, 3.0  # inches
_ANSWERED = "questions answered, repeated ones not counted"


@dataclass(frozen=True, slots=True, eq=False)
class MarginalComparison:
    """One attribute in the model, and as it was measured.

    Args:
        model: float64, shape (cells,), the model's records per cell.
        measured: float64, shape (cells,), released noisy records per cell, or what least squares makes of a
            hierarchical histogram; None where none were measured.
        half_width: what each cell's noise stays within at the session's confidence, in records; NaN
            likewise.
    """

    attribute: Attribute
    model: NDArray[np.float64]
    measured: NDArray[np.float64] | None
    half_width: float = math.nan


def compare_marginals(state: PublicState, most: int) -> tuple[MarginalComparison, ...]:
    """Return one comparison per attribute, of so many at most, in declared order.

    Privacy: post-processing of released numbers; free.
    """
    found = []
    for attribute in state.domain.attributes[:most]:
        scope, model = (attribute.name,), state.model.marginal((attribute.name,))
        # What opening measured that tells of the attribute: its marginal, its tree, or the whole table.
        measured = next((one for one in state.opening if attribute.name in one.scope), None)
        if measured is None:
            found.append(MarginalComparison(attribute, model, None))
            continue
        told, places = measured.estimate.over(scope), np.arange(attribute.size)
        noise = SumNoise(told, state.contract.options.confidence)
        width = float(noise.product_half_widths([CellSets(places, places)]).max())
        found.append(MarginalComparison(attribute, model, told.values, width))
    return tuple(found)


def headline(state: PublicState) -> str:
    """Return what stands above every picture: the table and the promise in numbers."""
    seeded = state.contract.seeded
    promise = "SEEDED NOISE: no privacy" if seeded else _budget_text(state.contract)
    return f"{isolated(shortened(state.domain.name, 40))}, {promise}"


def _budget_text(contract: Contract) -> str:
    return budget_words(contract.whole.epsilon, contract.whole.delta, " = ")


def marginal_panel(state: PublicState, comparison: MarginalComparison) -> tuple[Picture, Bars]:
    """Return a marginal of the model, and in it the measured one with the ranges of its noise.

    Numbers are columns; of more than 128 cells, columns of several cells. Categories are bars with names; of
    more than ten cells those whose intervals lie highest: by their lower bounds, which noise does not raise,
    and in declared order where these are equal.
    """
    attribute = comparison.attribute
    starts: tuple[str, ...] = ()
    note = ""
    if isinstance(attribute, CategoricalAttribute):
        lower = comparison.model
        if comparison.measured is not None:
            lower = np.maximum(0.0, comparison.measured - comparison.half_width)
        highest = np.sort(np.argsort(-lower, kind="stable")[:_MOST_BARS])
        cells: list[Sequence[int]] = [[cell] for cell in highest.tolist()]
    else:
        width = -(-attribute.size // _MOST_COLUMNS)
        cells = [[*range(low, min(attribute.size, low + width))] for low in range(0, attribute.size, width)]
        starts = tuple(_start(attribute, place) for place in range(0, attribute.base_size + 1, width))
        special = [attribute.label(cell) for cell in range(attribute.base_size, attribute.size)]
        note = f"at the right end: {', '.join(special)}" if special else ""
    least = state.contract.options.least_records or 0
    drawn = _bars(comparison, cells, 100 / state.total.value, least)
    confidence = f"{100 * state.contract.options.confidence:g}%"
    bars = Bars(drawn, f"measured, with the {confidence} range of its noise", "%", starts, note)
    told = _description(comparison, bars, confidence)
    return Picture(headline(state), _title(comparison, cells), told, "% of all records"), bars


def _start(attribute: OrderedAttribute, place: int) -> str:
    begin = attribute.boundaries[place]
    if isinstance(attribute, Periods):
        return attribute.literal(begin).strip("'")
    return number_text(float(f"{begin:.6g}"))


def _bars(
    comparison: MarginalComparison, cells: Sequence[Sequence[int]], share: float, least: int
) -> tuple[Bar, ...]:
    """Return bars of cells, or of some of them together; the range of noise is that of one cell."""
    width = share * comparison.half_width if len(cells[0]) == 1 else math.nan
    found = []
    for part in cells:
        label = isolated(shortened(comparison.attribute.label(part[0]), 24))
        tables = (comparison.model, comparison.measured)
        counts = [float(table[part].sum()) for table in tables if table is not None]
        value, measured = share * counts[0], share * counts[-1]
        if min(counts) < least:
            found.append(Bar(label, 0.0, text=f"<{least}"))
            continue
        if comparison.measured is None:
            found.append(Bar(label, value))
            continue
        ends = None if math.isnan(width) else (max(0.0, measured - width), max(0.0, measured + width))
        found.append(Bar(label, value, measured=max(0.0, measured), interval=ends))
    return tuple(found)


def _title(comparison: MarginalComparison, cells: Sequence[Sequence[int]]) -> str:
    attribute, drawn = comparison.attribute, sum(map(len, cells))
    name, size = isolated(shortened(attribute.name, 40)), f"{attribute.size:,} values"
    if drawn < attribute.size:
        return f"{name} ({len(cells)} of {size}, the most frequent)"
    return f"{name} ({size}, {len(cells[0])} to a column)" if len(cells[0]) > 1 else name


def _description(comparison: MarginalComparison, bars: Bars, confidence: str) -> str:
    first = sorted(bars.bars, key=lambda bar: -bar.value)[:3]
    shares = "; ".join(f"{bar.label} {percent(bar.value / 100)}" for bar in first)
    text = f"The model's most frequent values of {isolated(comparison.attribute.name)}: {shares}."
    if not bars.is_measured:
        return f"{text} Nothing was measured of this attribute at opening."
    far = max(abs(bar.value - (bar.measured or 0.0)) for bar in bars.bars)
    text += f" Model and measurement differ by at most {percent(far / 100)} of all records."
    if math.isnan(comparison.half_width):
        return text
    return (
        f"{text} The noise of one value stays within {number(comparison.half_width)} records ({confidence})."
    )


def quantile_of(reaches: Sequence[float], part: float) -> float:
    """Return the smallest of some numbers that such a part of them does not exceed; NaN of none."""
    if not reaches:
        return math.nan
    return float(np.sort(np.asarray(reaches))[max(0, math.ceil(part * len(reaches)) - 1)])


def error_panel(state: PublicState, reaches: Sequence[float]) -> tuple[Picture, Lines] | None:
    """Return the error bars of answers, in the order of the questions; None where no answer has one.

    Args:
        reaches: how far each bar goes from its answer, in records; NaN where there is none.
    """
    total, whole = state.total.value, [reach for reach in reaches if not math.isnan(reach)]
    if not whole:
        return None
    lines = (
        Line("nine of ten answers", "line-1", _stretched(reaches, NINE_TENTHS, total)),
        Line("half of the answers", "line-0", _stretched(reaches, 0.5, total)),
    )
    half, nine = quantile_of(whole, 0.5), quantile_of(whole, NINE_TENTHS)
    description = (
        f"Of {counted(len(whole), 'answer')} with an error bar, half have one of at most {number(half)} "
        f"records ({percent(half / total)} of all), and nine of ten one of at most {number(nine)} records "
        f"({percent(nine / total)}). {len(reaches) - len(whole):,} answers have none."
    )
    picture = Picture(headline(state), "how far answers may be off", description, "% of all records")
    return picture, Lines(lines, _ANSWERED)


def _stretched(reaches: Sequence[float], part: float, total: float) -> list[tuple[float, float]]:
    """Return a quantile of the error bars of each stretch of questions that has one, in percent."""
    found = []
    for places in np.array_split(np.arange(len(reaches)), min(_STRETCHES, max(1, len(reaches)))):
        known = [reaches[int(place)] for place in places if not math.isnan(reaches[int(place)])]
        if known:
            found.append((float(places[-1] + 1), 100 * quantile_of(known, part) / total))
    return found


def budget_panel(state: PublicState, history: History) -> tuple[Picture, Lines]:
    """Return the part of the budget that was spent, over the questions that were answered."""
    answers, shares = history.answers.tolist(), (100 * history.shares).tolist()
    opened, now = shares[0], 100 * state.ledger.share
    points = list(zip(answers, shares, strict=True))
    if now != shares[-1]:  # what was measured on request came after the last answer
        points.append((answers[-1], now))
    description = (
        f"{percent(opened / 100)} of the budget was spent at opening, and {percent(now / 100)} by now, after "
        f"{counted(answers[-1], 'question')}. The dashed line is all of it: nothing beyond can be spent."
    )
    opening = f"{opened:.1f} %" if answers[-1] else "all of it"
    title = f"Budget: {now:.1f} % spent, {opening} at opening"
    cap = Cap(100.0, f"the cap: {_budget_text(state.contract)}")
    return Picture(headline(state), title, description), Lines(
        (Line("spent", "line-0", points, is_stepped=True),), _ANSWERED, cap
    )


def status_figure(state: PublicState, history: History) -> Figure:
    """Return a figure of where a session stands.

    Above, the model's marginals of the first six attributes, and the released ones with their error bars.
    Below, the budget over time.

    Privacy: post-processing of released numbers; free.
    """
    rows = -(-min(len(state.domain), MOST_MARGINALS) // _PANELS)
    heights = (_HEADER, _MARGINAL * rows + 0.4, _BUDGET)
    figure = new_figure(_WIDTH, sum(heights))
    parts: Any = figure.subfigures(3, 1, height_ratios=heights)
    _draw_header(parts[0], state)
    shown = [marginal_panel(state, one) for one in compare_marginals(state, MOST_MARGINALS)]
    panels = parts[1].subplots(rows, min(len(shown), _PANELS), squeeze=False).ravel()
    for axes, panel in zip(panels, shown, strict=False):
        draw_bars(axes, *panel)
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    which = f" of the first {len(shown)} of {len(state.domain)} attributes"
    title = "Marginals" + (which if len(shown) < len(state.domain) else "")
    parts[1].suptitle(title, x=0.01, ha="left", fontsize=12, color=INK)
    texts = {"model": "synthetic: the model", "measured": shown[0][1].range}
    handles, labels = panels[0].get_legend_handles_labels()
    names = [texts[label] for label in labels]
    parts[1].legend(handles, names, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    draw_lines(parts[2].subplots(), *budget_panel(state, history))
    return figure


def _draw_header(header: Any, state: PublicState) -> None:
    domain = state.domain
    attributes, records = counted(len(domain), "attribute"), counted(state.total.records, "record")
    title = f"{shortened(domain.name, 50)}: {attributes}, about {records}"
    header.text(0.01, 0.9, title, fontsize=15, va="top", color=INK, parse_math=False)
    if state.contract.seeded:
        header.text(0.99, 0.9, "SEEDED NOISE: no privacy", ha="right", va="top", fontsize=13, color=MEASURED)
    lines = textwrap.fill(f"Guarantee: {guarantee(state.contract)}.", 170)
    header.text(0.01, 0.5, lines, fontsize=9, va="top", color=INK, parse_math=False)
