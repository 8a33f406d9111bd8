"""Aggregates in SQL: COUNT, SUM, AVG, quantiles and spreads as sums over cells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sqlglot import exp

from queries.cell_values import CellCondition, CellValues, constant_value, require_finite
from queries.domain import Domain
from queries.errors import QueryError
from queries.expressions import (
    AggregateNode,
    Correlation,
    Heads,
    Quantile,
    Spread,
    average,
    counted,
    total,
)
from queries.row_expressions import row_condition, row_value, wrong_kind
from queries.sql_tree import error_at, position_of, refuse, written
from queries.statement_grammar import GRAMMAR, is_of_people

_SPREADS: dict[type[exp.Expr], tuple[bool, bool]] = {  # sample, root
    exp.Stddev: (True, True),
    exp.StddevSamp: (True, True),
    exp.StddevPop: (False, True),
    exp.Variance: (True, False),
    exp.VariancePop: (False, False),
}
_EXTREMES: dict[type[exp.Expr], float] = {exp.Min: 0.0, exp.Max: 1.0}
_QUANTILES: tuple[type[exp.Expr], ...] = (
    exp.Median,
    exp.WithinGroup,
    exp.Quantile,
    exp.ApproxQuantile,
    exp.PercentileCont,
)
AGGREGATES: tuple[type[exp.Expr], ...] = (
    *(exp.Filter, exp.Count, exp.CountIf, exp.Sum, exp.Avg, exp.Corr),
    *_QUANTILES,
    *_SPREADS,
    *_EXTREMES,
)


def aggregate_node(node: exp.Expr, domain: Domain) -> AggregateNode:
    """Return what an aggregate sums up.

    Raises:
        QueryError: it is not supported, or is of what holds no numbers.
    """
    condition = None
    if isinstance(node, exp.Filter):
        condition, node = row_condition(node.expression.this, domain), node.this
    if is_of_people(node):
        return Heads(condition)
    if isinstance(node, exp.Count):
        return counted(_marked(node, domain), condition, domain)
    if isinstance(node, exp.CountIf):
        holds = row_condition(node.this, domain)
        return counted(
            constant_value(1), holds if condition is None else holds.both(condition, domain), domain
        )
    if isinstance(node, exp.Sum):
        return total(_numbers(node, node.this, domain), condition, domain)
    if isinstance(node, exp.Avg):
        return average(_numbers(node, node.this, domain), condition, domain)
    return _of_values(node, condition, domain)


def _of_values(node: exp.Expr, condition: CellCondition | None, domain: Domain) -> AggregateNode:
    if isinstance(node, exp.Corr):
        one, two = (_numbers(node, side, domain) for side in (node.this, node.expression))
        return Correlation(one, two, condition)
    if isinstance(node, _QUANTILES):
        inner, part = _quantile(node)
        return Quantile(_numbers(node, inner, domain), part, condition=condition)
    values = _numbers(node, node.this, domain)
    if type(node) in _SPREADS:
        return Spread(values, *_SPREADS[type(node)], condition=condition)
    return Quantile(values, _EXTREMES[type(node)], extreme=True, condition=condition)


def _numbers(aggregate: exp.Expr, node: exp.Expr, domain: Domain) -> CellValues:
    if isinstance(node, exp.Distinct):
        refuse(aggregate, f"{written(aggregate)}(DISTINCT …)" if isinstance(aggregate, exp.Func) else None,
               grammar=GRAMMAR)  # fmt: skip
    if node.find(*AGGREGATES):
        refuse(node, "an aggregate inside another one", grammar=GRAMMAR)
    if isinstance(node, exp.Star):
        refuse(aggregate, f"{aggregate.sql()} of records", grammar=GRAMMAR)
    values = row_value(node, domain)
    if values.labels is not None:
        name = written(aggregate) if isinstance(aggregate, exp.Func) else "this aggregate"
        raise wrong_kind("MEDIAN" if isinstance(aggregate, exp.WithinGroup) else name, node, values)
    if np.any(values.undecided & values.present):
        raise _untold(node)
    for ends in (values.low, values.high):
        require_finite(ends)
    return values


def _marked(node: exp.Count, domain: Domain) -> CellValues:
    if isinstance(node.this, exp.Star):
        return constant_value(1)
    values = row_value(node.this, domain)
    if values.labels is not None and np.any(values.undecided & ~values.present):
        raise _untold(node)
    return replace(values, labels=None)


def _untold(node: exp.Expr) -> QueryError:
    """Return the error of an aggregate of values that cells do not tell."""
    return error_at(
        node,
        "unaligned",
        "undeclared texts, or a condition that cuts cells, leave these values open; count with COUNT(*) and "
        "WHERE, whose interval holds either way",
    )


def _quantile(node: exp.Expr) -> tuple[exp.Expr, float]:
    """Return the number of a quantile, and its part."""
    if isinstance(node, exp.Median):
        return node.this, 0.5
    if isinstance(node, exp.WithinGroup):
        inner = node.expression.expressions[0]
        column, given = inner.this, node.this.this
        part = _part(given)
        return column, 1 - part if inner.args.get("desc") else part
    given = node.args.get("quantile") or node.expression
    return node.this, _part(given)


def _part(node: exp.Expr | None) -> float:
    text = "" if node is None else node.sql()
    try:
        part = float(text)
    except ValueError:
        part = -1.0
    if not 0 <= part <= 1:
        raise QueryError(
            f"expected a percentile in [0, 1], got {text or 'none'}; the median is 0.5",
            code="bad_request",
            position=None if node is None else position_of(node),
        )
    return part
