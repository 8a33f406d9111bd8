"""What ``pmw plan`` prints: a session that nobody has opened yet, on one screen."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from pmw.forecasts import OrderForecast
from pmw.session_plan import SessionPlan

__all__ = [
    "plan_text",
]

_ROW = "  {:<23} {:>13} {:>14} {:>11} {:>20}"
_SHOWN_ORDERS = 4  # one row each; what more attributes get is one row together


def plan_text(plan: SessionPlan, schema: Path) -> str:
    """Return a plan in words and one table."""
    return "\n".join(
        [*_head(plan), "", *_table(plan), "", *_tests(plan), *_beside(plan), _next(plan, schema)]
    )


def _head(plan: SessionPlan) -> Iterator[str]:
    domain = plan.contract.domain
    yield (
        f"Plan for {domain.name!r}: {len(domain)} attributes, {domain.size:,} cells, "
        f"{plan.records:,} records. No data is read, nothing is spent."
    )
    yield f"Guarantee: {plan.guarantee}."
    bought = []
    if plan.total_deviation:
        bought.append("the number of records")
    if plan.attributes:
        bought.append(f"{len(plan.attributes)} one-attribute marginals")
    yield f"Opening: {' and '.join(bought) or 'nothing is bought'} ({plan.opening_share:.1%} of the budget)."


def _table(plan: SessionPlan) -> Iterator[str]:
    yield _ROW.format("question about", "cells", "records in one", "mean error", "bound")
    shown = _SHOWN_ORDERS if len(plan.orders) > _SHOWN_ORDERS + 1 else _SHOWN_ORDERS + 1
    for order in plan.orders[:shown]:
        yield _order_row(order, plan)
        if order.order == 1 and plan.attributes:
            widest = max(plan.attributes, key=lambda attribute: attribute.range_bound)
            error, bound = _number(widest.range_error), _bound(widest.range_bound, plan)
            yield _ROW.format("  half of its cells", "", "", error, bound)
    if len(plan.orders) > shown:
        last = plan.orders[-1]
        more = f"{_SHOWN_ORDERS} or more attributes"
        yield _ROW.format(more, "", "", _error(last), _bound(last.bound, plan))
    if plan.vector is not None:
        error, bound = _number(plan.vector.value_error), _bound(plan.vector.value_bound, plan)
        yield _ROW.format("bought answer", "", "", error, bound)
    confidence = plan.contract.options.confidence
    yield (
        f"  In records, for the noisiest attribute; bounds hold at {confidence * 100:.6g}% confidence, and a "
        "tested"
    )
    yield "  answer is off by less than its bound: by how much less depends on the table."


def _order_row(order: OrderForecast, plan: SessionPlan) -> str:
    names = {0: "everybody", 1: "1 attribute, one cell"}
    return _ROW.format(
        names.get(order.order, f"{order.order} attributes"),
        f"{order.cells:,}",
        _number(order.mean_count),
        _error(order),
        _bound(order.bound, plan),
    )


def _error(order: OrderForecast) -> str:
    if order.expected_error is not None:
        return _number(order.expected_error)
    return "tested" if order.promise == "tested" else "unknown"


def _tests(plan: SessionPlan) -> Iterator[str]:
    vector = plan.vector
    if vector is None:
        yield "Tests: nothing is left for them; what opening does not cover is answered without a bound."
        return
    yield (
        f"Tests: they look for errors above {_number(vector.threshold)} records (noise scales: test "
        f"{_number(vector.query_scale)}, threshold {_number(vector.threshold_scale)})."
    )
    deviation = _number(vector.value_deviation)
    yield f"  Up to {vector.update_limit} of them buy a measurement (noise sd {deviation}) and correct the"
    yield "  model; after that, answers that opening does not cover carry no bound."


def _beside(plan: SessionPlan) -> Iterator[str]:
    yield from _delta(plan)
    textbook, queries = plan.textbook, plan.contract.options.expected_queries
    yield f"Textbook theorems (Dwork and Roth 2014) for the same budget, all {queries:,} answers at once:"
    yield (
        f"  online private multiplicative weights, Theorem {_theorem(plan)}: errors up to "
        f"{_bound(textbook.online_pmw_error, plan)}, at most {textbook.online_pmw_update_limit:,} updates"
    )
    if textbook.numeric_sparse_error is not None and plan.vector is not None:
        yield (
            f"  numeric sparse with {plan.vector.update_limit} positives, Theorem 3.28: errors up to "
            f"{_bound(textbook.numeric_sparse_error, plan)} around T"
        )
    size = plan.model_bytes
    memory = f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size / 1e3:,.1f} kB"
    yield f"Model: {plan.contract.domain.size:,} cells, {memory}; up to 2.5 times that while it is corrected."


def _delta(plan: SessionPlan) -> Iterator[str]:
    other = plan.other_delta
    if other is None:
        return
    parts: list[str] = []
    for name, bound, ratio in (
        ("one cell", other.cell_bound, other.cell_ratio),
        ("tested", other.tested_bound, other.tested_ratio),
        ("bought", other.value_bound, other.value_ratio),
    ):
        if bound is not None and ratio is not None:
            times = ratio if other.delta == 0 else 1 / ratio
            wide = "times" if parts else "times as wide"
            parts.append(f"{name} {_number(bound)} ({times:.2g} {wide})")
    yield f"Delta: with delta = {other.delta:g}: {', '.join(parts)}."


def _theorem(plan: SessionPlan) -> str:
    return "4.15" if plan.contract.budget.delta else "4.14"


def _next(plan: SessionPlan, schema: Path) -> str:
    budget = plan.contract.budget
    delta = f" --delta {float(budget.delta):g}" if budget.delta else ""
    options = f"--schema {shlex.quote(str(schema))} --epsilon {float(budget.epsilon):g}{delta}"
    return f"Next: pmw open SESSION --data FILE {options}, with the same other options."


def _bound(records: float | None, plan: SessionPlan) -> str:
    if records is None:
        return "none"
    share = records / plan.records
    part = "more than all" if share > 1 else f"{share:.0%}" if share > 0.095 else f"{100 * share:.2g}%"
    return f"{_number(records)} ({part})"


def _number(value: float) -> str:
    if value >= 10 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.2g}"
