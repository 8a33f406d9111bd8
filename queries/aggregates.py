"""Aggregates in SQL: COUNT, SUM, AVG, quantiles and spreads as sums over cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from sqlglot import exp

from queries.cell_values import CellCondition, CellValues, constant_value, require_finite
from queries.cells import quoted_name
from queries.domain import Domain
from queries.errors import QueryError
from queries.expressions import (
    AggregateNode,
    Correlation,
    Linear,
    Node,
    Persons,
    Quantile,
    Sorting,
    Spread,
    Window,
    average,
    counted,
    total,
)
from queries.row_conditions import joined_conditions, row_condition, row_value
from queries.row_nodes import branches_of, wrong_kind
from queries.sql_tree import SYNTHETIC, error_at, is_zero, position_of, refuse, written
from queries.statement_grammar import GRAMMAR, is_of_people

SPREADS: dict[type[exp.Expr], tuple[bool, bool]] = {  # sample, root
    exp.Stddev: (True, True),
    exp.StddevSamp: (True, True),
    exp.StddevPop: (False, True),
    exp.Variance: (True, False),
    exp.VariancePop: (False, False),
}
_EXTREMES: dict[type[exp.Expr], float] = {exp.Min: 0.0, exp.Max: 1.0}
QUANTILES: tuple[type[exp.Expr], ...] = (
    *(exp.Median, exp.WithinGroup, exp.Quantile, exp.ApproxQuantile, exp.PercentileCont),
)
AGGREGATES: tuple[type[exp.Expr], ...] = (
    *(exp.Filter, exp.Count, exp.CountIf, exp.Sum, exp.Avg, exp.Corr),
    *QUANTILES,
    *SPREADS,
    *_EXTREMES,
)


def aggregate_node(node: exp.Expr, domain: Domain) -> AggregateNode:
    """Return what an aggregate sums up."""
    tests: list[exp.Expr] = []
    if isinstance(node, exp.Filter):
        tests, node = [node.expression.this], node.this
    if isinstance(node, exp.CountIf):
        tests, node = [*tests, node.this], exp.Count(this=exp.Star())
    if is_of_people(node):
        return Persons(_condition(tests, domain))
    given, values = list(tests), list[CellValues]()
    read = _counted if isinstance(node, exp.Count) else _numbers
    for argument in _arguments(node):
        inner, own = _without_empty(argument, of_sum=isinstance(node, exp.Sum))
        values.append(read(node, inner, domain))
        tests += own
    condition = _condition(tests, domain)
    if isinstance(node, exp.Sum):
        return _sum(node.this, total(values[0], condition), given, domain)
    if isinstance(node, exp.Count | exp.Avg):
        return (counted if isinstance(node, exp.Count) else average)(values[0], condition)
    if isinstance(node, exp.Corr):
        return Correlation(values[0], values[1], condition)
    return _of_numbers(node, values[0], condition)


def _sum(summed: exp.Expr, found: Linear, given: list[exp.Expr], domain: Domain) -> Linear:
    """Return a sum that is NULL where nothing is summed up; zeros are not among the values of ``found``."""
    branches, other = branches_of(summed)
    if not is_zero(other):
        return found
    if not isinstance(summed.unnest(), exp.Case | exp.If):  # a condition, which may be unknown
        is_unknown = exp.Is(this=exp.paren(branches[0][0]), expression=exp.Null())
        given = [*given, exp.Not(this=is_unknown)]
    return replace(found, values=(counted(constant_value(1), _condition(given, domain)),))


def _of_numbers(node: exp.Expr, values: CellValues, condition: CellCondition | None) -> AggregateNode:
    if isinstance(node, QUANTILES):
        return Quantile(values, _quantile(node)[1], condition=condition)
    if type(node) in SPREADS:
        return Spread(values, *SPREADS[type(node)], condition=condition)
    return Quantile(values, _EXTREMES[type(node)], extreme=True, condition=condition)


def _condition(tests: Sequence[exp.Expr], domain: Domain) -> CellCondition | None:
    found = [row_condition(test, domain) for test in tests]
    return joined_conditions(found, domain, every=True) if found else None


def _arguments(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, QUANTILES):
        return [_quantile(node)[0]]
    return [node.this, node.expression] if isinstance(node, exp.Corr) else [node.this]


def _without_empty(node: exp.Expr, *, of_sum: bool) -> tuple[exp.Expr, list[exp.Expr]]:
    """Return the values of a CASE without ELSE (in a sum also ELSE 0), and when there is one."""
    branches, default = branches_of(node)
    if not branches or not (isinstance(default, exp.Null) or (of_sum and is_zero(default))):
        return node, []
    *others, (_, value) = branches
    if others:
        ifs = [exp.If(this=test.copy(), true=one.copy()) for test, one in others]
        value = exp.Case(ifs=ifs, default=value.copy())
    inner, more = _without_empty(value, of_sum=of_sum)
    return inner, [exp.or_(*(test for test, _ in branches)), *more]


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
        name = "MEDIAN" if isinstance(aggregate, exp.WithinGroup) else name
        raise wrong_kind(name, node, dated=values.dated)
    if np.any(values.undecided & values.present):
        raise _untold(node)
    for ends in (values.low, values.high):
        require_finite(ends)
    return values


def _counted(aggregate: exp.Expr, node: exp.Expr, domain: Domain) -> CellValues:
    del aggregate
    if isinstance(node, exp.Star):
        return constant_value(1)
    values = row_value(node, domain)
    if np.any(values.undecided & (values.present == (values.labels is None))):
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


# --- windows ------------------------------------------------------------------------------------------------


_RANKS: dict[type[exp.Expr], str] = {
    exp.Rank: "rank", exp.DenseRank: "dense_rank", exp.RowNumber: "row_number",
}  # fmt: skip
_OF_FRAMES: dict[type[exp.Expr], str] = {
    exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max",
    exp.FirstValue: "first", exp.LastValue: "last",
}  # fmt: skip
_NEIGHBOURS: dict[type[exp.Expr], int] = {exp.Lag: -1, exp.Lead: 1}
_Frame = tuple[int | None, int | None] | None
_KNOWN = "ROW_NUMBER, RANK, DENSE_RANK, SUM, AVG, MIN, MAX, LAG, LEAD, FIRST_VALUE and LAST_VALUE of answers"


def window_node(node: exp.Window, read: Callable[[exp.Expr], Node]) -> Window:
    """Return a window over the groups of a statement."""
    if node.this.find(exp.Window):
        refuse(node.this, "a window inside another one", grammar=GRAMMAR)
    window = _window(node, read)
    if window.inner is None or window.inner.leaves():
        return window
    if window.function not in ("first", "last") or window.leaves():  # a key is a text, or may be one
        refuse(node, "a window that sums up keys, or takes them in the order of answers,", grammar=GRAMMAR)
    return window


def _window(node: exp.Window, read: Callable[[exp.Expr], Node]) -> Window:
    called, given = node.this, node.args
    partition = tuple(read(one) for one in given.get("partition_by") or ())
    ordered = [] if given.get("order") is None else given["order"].expressions
    order = tuple(
        Sorting(read(one.this), bool(one.args.get("desc")), bool(one.args.get("nulls_first")))
        for one in ordered
    )
    if type(called) in _RANKS:
        return Window(_RANKS[type(called)], None, partition, order)
    if type(called) in _NEIGHBOURS:
        return _neighbour(called, read, partition, order)
    frame = _frame(given.get("spec"), is_ordered=bool(order))
    if isinstance(called, exp.Count) and isinstance(called.this, exp.Star):
        return Window("count", None, partition, order, frame)
    if type(called) not in _OF_FRAMES:
        refuse(node, f"a window other than {_KNOWN}", grammar=GRAMMAR)
    return Window(_OF_FRAMES[type(called)], read(called.this), partition, order, frame)


def over_records(node: exp.Expr, domain: Domain) -> QueryError:
    """Return the refusal of a window over records, with a statement whose window is over groups."""
    name = quoted_name(min(domain.names, key=lambda one: domain[one].size))
    table = quoted_name(domain.name)
    instead = f"{name}, RANK() OVER (ORDER BY COUNT(*) DESC) FROM {table} GROUP BY {name}"
    way = f"write SELECT {instead}, or run the statement on {SYNTHETIC}"
    return error_at(node, "unsupported", f"a window over records is not supported; {way}")


def _neighbour(
    node: exp.Expr, read: Callable[[exp.Expr], Node], partition: tuple[Node, ...], order: tuple[Sorting, ...]
) -> Window:
    offset, default = node.args.get("offset"), node.args.get("default")
    text = "1" if offset is None else offset.sql()
    if not text.isdigit():
        refuse(node, f"{node.key.upper()} by anything but a whole number of rows", grammar=GRAMMAR)
    place = _NEIGHBOURS[type(node)] * int(text)
    other = None if default is None else read(default)
    return Window("first", read(node.this), partition, order, (place, place), other)


def _frame(spec: exp.Expr | None, *, is_ordered: bool) -> _Frame:
    """Return which rows a frame has; None where it ends with those in the place of the own row."""
    if spec is None:
        return None if is_ordered else (None, None)
    given = spec.args
    ends = [
        _end(spec, given.get("start"), given.get("start_side")),
        _end(spec, given.get("end") or "CURRENT ROW", given.get("end_side")),
    ]
    if given.get("kind") == "ROWS":
        return ends[0], ends[1]
    if given.get("kind") != "RANGE" or ends[0] is not None or ends[1] not in (None, 0):
        refuse(spec, "a frame other than ROWS", grammar=GRAMMAR)
    return (None, None) if ends[1] is None or not is_ordered else None


def _end(spec: exp.Expr, given: object, side: object) -> int | None:
    if given == "UNBOUNDED":
        return None
    if given == "CURRENT ROW":
        return 0
    text = given.name if isinstance(given, exp.Literal) else ""
    if not text.isdigit():
        refuse(spec, "a frame that ends at anything but a whole number of rows", grammar=GRAMMAR)
    return -int(text) if side == "PRECEDING" else int(text)
