"""The picture of an audit: found against claimed, mechanism by mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pmw.display.figures import INK, MEASURED, MODEL, new_figure, tidy
from pmw.research.audit.report import Finding, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST = 8.0  # ratios beyond are drawn at the right edge, with their number


def audit_figure(findings: Sequence[Finding]) -> Figure:
    """Return a picture of found/claimed for each mechanism: enumerated, and certified by runs.

    Raises:
        ReleaseError: matplotlib is not installed.
    """
    figure = new_figure(9, 1.6 + 0.27 * len(findings))
    axes = figure.subplots()
    edge = max([2.0, *(min(_MOST, 1.15 * one) for one in _ratios(findings) if math.isfinite(one))])
    for row, finding in enumerate(findings):
        _draw_row(axes, row, finding, edge)
    axes.axvline(1, color=INK, linewidth=1)
    axes.set_yticks(range(len(findings)), [_label(finding) for finding in findings])
    axes.set(xlabel="found / claimed", xlim=(0, 1.12 * edge), ylim=(len(findings) - 0.4, -0.6))
    axes.set_title("Audit: at most 1 keeps the claim, beyond 1 violates it", loc="left")
    tidy(axes)
    axes.grid(visible=False, axis="y")
    _legend(figure, axes)
    return figure


def _draw_row(axes: Any, row: int, finding: Finding, edge: float) -> None:
    color = MEASURED if finding.verdict is Verdict.VIOLATES else MODEL
    if finding.exact is not None:
        ratio = finding.exact / finding.claimed
        axes.plot([0, min(ratio, edge)], [row, row], color=color, linewidth=1.2)
        axes.plot(min(ratio, edge), row, ">" if ratio > edge else "o", color=color, markersize=6)
        if ratio > edge:
            axes.annotate(
                "∞" if math.isinf(ratio) else f"{ratio:.3g}",
                (edge, row), xytext=(6, 0), textcoords="offset points", va="center", color=INK, fontsize=8,
            )  # fmt: skip
    if finding.certified is not None:
        ratio = finding.certified.epsilon / finding.limit
        axes.plot(min(ratio, edge), row, "|", color=color, markersize=11, markeredgewidth=2)


def _legend(figure: Figure, axes: Any) -> None:
    drawn = [
        ("o", MODEL, "enumerated: keeps its claim"),
        ("o", MEASURED, "enumerated: violates it"),
        ("|", INK, "certified by runs"),
    ]
    handles = [
        axes.plot([], [], mark, color=color, linestyle="none", markersize=8, label=label)[0]
        for mark, color, label in drawn
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)


def _label(finding: Finding) -> str:
    return f"{finding.entry.name} (flawed)" if finding.entry.flaw else finding.entry.name


def _ratios(findings: Sequence[Finding]) -> list[float]:
    return [finding.exact / finding.claimed for finding in findings if finding.exact is not None] + [
        finding.certified.epsilon / finding.limit for finding in findings if finding.certified is not None
    ]
