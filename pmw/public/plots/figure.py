"""The figure of a status: the guarantee, marginals beside what was measured of them, and the budget."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from pmw.markup import counted
from pmw.public.contract import guarantee
from pmw.public.plots.canvas import INK, MEASURED, MODEL, new_figure, tidy
from pmw.public.plots.marginals import compare_marginals, draw_marginal, shortened
from pmw.public.state import PublicState
from pmw.public.status import History

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "status_figure",
]

_MOST_MARGINALS = 6
_COLUMNS = 3
_WIDTH, _HEADER, _MARGINAL, _BUDGET = 12.0, 0.9, 2.6, 3.0  # inches


def status_figure(state: PublicState, history: History) -> Figure:
    """Return a figure of where a session stands.

    Above, the model's marginals of the first six attributes, and the released ones with their error bars.
    Below, the budget over time.

    Args:
        state: what may be published of the session.
        history: how its budget was spent.

    Raises:
        ReleaseError: matplotlib is not installed.

    Privacy: post-processing of released numbers; free.
    """
    rows = -(-min(len(state.domain), _MOST_MARGINALS) // _COLUMNS)
    heights = (_HEADER, _MARGINAL * rows + 0.4, _BUDGET)
    figure = new_figure(_WIDTH, sum(heights))
    parts: Any = figure.subfigures(3, 1, height_ratios=heights)
    _draw_header(parts[0], state)
    _draw_marginals(parts[1], state, rows)
    _draw_budget(parts[2].subplots(), state, history)
    return figure


def _draw_header(header: Any, state: PublicState) -> None:
    domain = state.domain
    attributes, records = counted(len(domain), "attribute"), counted(state.total.value, "record")
    title = f"{shortened(domain.name, 50)}: {attributes}, about {records}"
    header.text(0.01, 0.9, title, fontsize=15, va="top", color=INK, parse_math=False)
    if state.contract.seeded:
        header.text(0.99, 0.9, "SEEDED NOISE: no privacy", ha="right", va="top", fontsize=13, color=MEASURED)
    lines = textwrap.fill(f"Guarantee: {guarantee(state.contract)}.", 170)
    header.text(0.01, 0.5, lines, fontsize=9, va="top", color=INK, parse_math=False)


def _draw_marginals(part: Any, state: PublicState, rows: int) -> None:
    """Draw one panel per attribute, with one legend below them all."""
    shown = compare_marginals(state, _MOST_MARGINALS)
    panels = part.subplots(rows, min(len(shown), _COLUMNS), squeeze=False).ravel()
    for axes, comparison in zip(panels, shown, strict=False):
        draw_marginal(axes, comparison, state.total.value)
        tidy(axes)
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    which = f" of the first {len(shown)} of {len(state.domain)} attributes"
    title = "Marginals" + (which if len(shown) < len(state.domain) else "")
    part.suptitle(title, x=0.01, ha="left", fontsize=12, color=INK)
    texts = {
        "model": "synthetic: the model",
        "measured": f"measured, with the {100 * state.contract.options.confidence:g} % range of its noise",
    }
    handles, labels = panels[0].get_legend_handles_labels()
    names = [texts[label] for label in labels]
    part.legend(handles, names, loc="outside lower center", ncols=2, frameon=False, fontsize=9)


def _draw_budget(axes: Any, state: PublicState, history: History) -> None:
    """Draw the share that was spent against the number of answers."""
    answers, shares, budget = history.answers, 100 * history.shares, state.contract.budget
    delta = f", delta = {float(budget.delta):g}" if budget.delta else ""
    axes.axhline(100, color=INK, linestyle="--", linewidth=1)
    axes.annotate(f"the cap: epsilon = {float(budget.epsilon):g}{delta}", (0, 103), fontsize=8, color=INK)
    axes.plot(answers, shares, "o-", drawstyle="steps-post", color=MODEL, markevery=[-1])
    axes.set(xlim=(0, max(1, answers[-1] * 1.02)), ylim=(0, 112))
    axes.set(xlabel="questions answered, repeated ones not counted", ylabel="% of the budget spent")
    opening = f"{shares[0]:.1f} %" if answers[-1] else "all of it"
    title = f"Budget: {shares[-1]:.1f} % spent, {opening} at opening"
    axes.set_title(title, loc="left", fontsize=12, color=INK)
    tidy(axes)
