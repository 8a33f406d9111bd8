"""What ``pmw demo`` prints."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmw.cli.demo import DemoPlan, DemoResult
from pmw.cli.demo.scores import Baseline, Scores
from pmw.cli.texts import asking
from pmw.display.texts import counted
from pmw.public.contract import guarantee_terms
from queries.cells import cell_count


def demo_text(result: DemoResult, plan: DemoPlan, seconds: float) -> str:
    """Return the report of a demonstration."""
    state = result.session.state
    lines = [
        f"Table: {state.domain.name}, {counted(len(state.domain), 'attribute')}, "
        f"{counted(cell_count(state.domain.size), 'cell')}, about {counted(state.total.value, 'record')}.",
        f"Guarantee: {guarantee_terms(state.contract)}.",
        f"Answered {counted(len(result.answers), 'random question')} in {seconds:.0f} s, "
        "one after the other, not knowing the next.",
        f"Spent {state.ledger.share:.1%} of the budget; {state.positives_used} of at most "
        f"{counted(state.positives_limit, 'correction')} of the model were made.",
        "",
    ]
    if result.scores is not None and result.baseline is not None:
        lines += _comparison(result.scores, result.baseline)
    else:
        lines += ["True errors are not shown: they would be a release of their own."]
    lines += [
        "",
        f"Wrote {plan.folder}/answers.jsonl, synthetic.csv with its manifest, and error.png.",
        f"The session itself is {plan.folder}/session.pmw; it is secret. Go on with it:",
        f"  {asking(plan.folder / 'session.pmw', state.domain)}",
    ]
    return "\n".join(lines)


def demo_form(result: DemoResult, plan: DemoPlan, seconds: float) -> dict[str, Any]:
    """Return the figures of a demonstration, ready for JSON; errors are fractions of all records.

    ``errors`` is null for a table of one's own, whose true errors are not shown.
    """
    form: dict[str, Any] = {
        "folder": str(plan.folder),
        "seconds": round(seconds, 1),
        **result.session.status().to_dict(),
        "errors": None,
    }
    if result.scores is not None and result.baseline is not None:
        form["errors"] = {
            "session": _figures(result.scores.errors, result.scores.widths, result.scores.coverage),
            "noise_per_query": _figures(result.baseline.errors, np.array([result.baseline.width]), None),
        }
    return form


def _figures(
    errors: NDArray[np.float64], widths: NDArray[np.float64], coverage: float | None
) -> dict[str, Any]:
    form = {
        "mean": float(errors.mean()),
        "p95": float(np.quantile(errors, 0.95)),
        "max": float(errors.max()),
        "half_width_median": float(np.nanmedian(widths)),
    }
    return form if coverage is None else {**form, "coverage": coverage}


def _comparison(scores: Scores, baseline: Baseline) -> list[str]:
    rows = [
        ("mean error", scores.errors.mean(), baseline.errors.mean()),
        ("95 % of errors below", np.quantile(scores.errors, 0.95), np.quantile(baseline.errors, 0.95)),
        ("largest error", scores.errors.max(), baseline.errors.max()),
        ("error bar, half, median", np.nanmedian(scores.widths), baseline.width),
    ]
    name = f"{baseline.distribution} per question"
    lines = [
        "The table is public, so the true errors may be shown (in % of all records):",
        f"  {'':24}{'this session':>14}{name:>30}",
    ]
    lines += [f"  {label:24}{ours:14.3%}{theirs:30.3%}" for label, ours, theirs in rows]
    lines.append(f"  {'truth inside error bar':24}{scores.coverage:14.1%}{'95.0%':>30}")
    closer = float(np.mean(scores.errors < baseline.errors))
    lines += [
        "",
        f"This session was closer on {closer:.0%} of the questions, "
        f"{baseline.distribution.split()[0]} noise on "
        f"{1 - closer:.0%}.",
        f"{name} must know the number of questions in advance and is spent after them; this session goes on.",
    ]
    return lines + _losses(scores, baseline)


def _losses(scores: Scores, baseline: Baseline) -> list[str]:
    losses = []
    if scores.errors.max() > baseline.errors.max():
        losses.append("its largest error is larger")
    if float(np.nanmedian(scores.widths)) > baseline.width:
        losses.append(
            "its error bars are wider: a test promises only that an error is below its threshold, "
            "however small the error is"
        )
    if scores.errors.mean() > baseline.errors.mean():
        losses.append("its mean error is larger")
    return [f"Where this session loses: {'; '.join(losses)}."] if losses else []
