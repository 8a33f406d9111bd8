"""Windows in SQL: ranks, running sums, shares and neighbours over the groups that a statement answers.

They are functions of the table that is answered anyway. A window over records needs rows, and is refused.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from queries.cells import quoted_name
from queries.domain import Domain
from queries.errors import QueryError
from queries.expressions import Node, Sorting, Window
from queries.sql_tree import SYNTHETIC, error_at, refuse
from queries.statement_grammar import GRAMMAR

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
    """Return LAG or LEAD: the value of a frame of one row."""
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
