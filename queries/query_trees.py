"""Parts of queries: their keys, columns, clauses and aggregates, as trees."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from sqlglot import exp

from queries.aggregates import AGGREGATES
from queries.domain import Domain
from queries.errors import QueryError


def bare_query(tree: exp.Expr) -> exp.Expr:
    """Return a query without parentheses."""
    while isinstance(tree, exp.Subquery) and not tree.alias:
        tree = tree.this
    return tree


def named_queries(tree: exp.Expr) -> list[exp.Expr]:
    """Return what a query names by WITH."""
    with_ = tree.args.get("with_")
    return [] if with_ is None else list(with_.expressions)


def is_grouped(tree: exp.Select) -> bool:
    """Tell whether a query sums up records, or lists the different values of some."""
    clauses = any(tree.args.get(key) is not None for key in ("group", "distinct"))
    return clauses or any(True for root in row_parts(tree) for _ in outermost(root))


def row_parts(tree: exp.Select) -> list[exp.Expr]:
    """Return the parts of a query that are about its rows: its columns, HAVING, QUALIFY and ORDER BY."""
    given = (tree.args.get(key) for key in ("having", "qualify", "order"))
    return [*tree.expressions, *(one for one in given if one is not None)]


def has_window(tree: exp.Select) -> bool:
    """Tell whether a query has a window."""
    return any(root.find(exp.Window) is not None for root in row_parts(tree))


def conditions_of(tree: exp.Select) -> list[exp.Expr]:
    """Return the condition of a query, where it has one."""
    where = tree.args.get("where")
    return [] if where is None else [where.this]


class _Titles:
    """The columns of a query by their places, and by their titles."""

    def __init__(self, tree: exp.Select, domain: Domain) -> None:
        self._shown = [untitled(one) for one in tree.expressions]
        named = map(titled, tree.expressions)
        self._titles = {title.casefold(): node for title, node in named if title}
        self._domain = domain

    @property
    def values(self) -> list[exp.Expr]:
        """The columns without aggregates, which GROUP BY ALL and DISTINCT are about."""
        return [one for one in self._shown if not has_aggregates(one) and not isinstance(one, exp.Literal)]

    @property
    def are_values(self) -> bool:
        return not any(map(has_aggregates, self._shown))

    def meant(self, node: exp.Expr, *, output_first: bool = False) -> exp.Expr:
        if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
            place = int(node.name)
            return self._shown[place - 1].copy() if 1 <= place <= len(self._shown) else node
        title = node.name.casefold() if isinstance(node, exp.Column) and not node.table else ""
        known = title in self._titles and (output_first or node.name not in self._domain)
        return self._titles[title].copy() if known else node

    def place(self, node: exp.Expr, *, whole: bool) -> None:
        """Put what is meant in place of names, and of a node that is a place or a name as a whole."""
        if isinstance(node, exp.Column) or (whole and isinstance(node, exp.Literal)):
            node.replace(self.meant(node))
            return
        for one in [one for one in node.find_all(exp.Column) if one.find_ancestor(exp.Dot) is None]:
            one.replace(self.meant(one))


def settled(tree: exp.Select, domain: Domain) -> exp.Select:
    """Return a query whose clauses name no columns of its own by their places, or by their titles."""
    titles, group = _Titles(tree, domain), tree.args.get("group")
    distinct = tree.args.get("distinct") is not None and group is None and titles.are_values
    if distinct or (group is not None and group.args.get("all")):
        tree.set("group", exp.Group(expressions=[one.copy() for one in titles.values]))
        tree.set("distinct", None if distinct else tree.args.get("distinct"))
    elif group is not None:
        for one in list(group.expressions):
            titles.place(one, whole=True)
    for key in ("having", "qualify"):
        if tree.args.get(key) is not None:
            titles.place(tree.args[key], whole=False)
    order = tree.args.get("order")
    for one in [] if order is None else order.expressions:
        if isinstance(one, exp.Ordered):
            one.set("this", titles.meant(one.this, output_first=True))
    return tree


def has_aggregates(node: exp.Expr) -> bool:
    """Tell whether a part of a query has an aggregate, or a window."""
    return node.find(*AGGREGATES, exp.Window) is not None


def outermost(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the aggregates of a part of a query that stand in no other one; those of windows are outside."""
    if isinstance(node, AGGREGATES) and not isinstance(node.parent, exp.Window):
        yield node
        return
    for child in list(node.iter_expressions()):
        yield from outermost(child)


def keys_of(tree: exp.Select) -> list[exp.Expr]:
    """Return what GROUP BY names; nothing where it is not there."""
    group = tree.args.get("group")
    return [] if group is None else list(group.expressions)


def window_over(node: exp.Expr, keys: Sequence[exp.Expr]) -> exp.Window:
    """Return an aggregate over the rows with equal keys; over all rows where no keys are given."""
    partition = [one.copy() for one in keys]
    return exp.Window(this=node, over="OVER", **({"partition_by": partition} if partition else {}))


def both_clauses(one: exp.Expr | None, two: exp.Expr | None, kind: type[exp.Expr]) -> exp.Expr | None:
    """Return the clause that holds where both do."""
    tests = [exp.Paren(this=test.this.copy()) for test in (one, two) if test is not None]
    return kind(this=exp.and_(*tests, copy=False)) if tests else None


def untitled(node: exp.Expr) -> exp.Expr:
    """Return a column without the title that AS gives it."""
    return node.this if isinstance(node, exp.Alias) else node


def titled(node: exp.Expr) -> tuple[str, exp.Expr]:
    """Return the title of a column, and the column; no title where a query gives it none."""
    if isinstance(node, exp.Alias):
        return node.alias, node.this
    return (node.name if isinstance(node, exp.Column) and not is_star(node) else ""), node


def is_star(node: exp.Expr) -> bool:
    """Tell whether a column stands for all columns, of one table or of all."""
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


# --- grouping sets ------------------------------------------------------------------------------------------


MOST_SETS = 64
_Set = tuple[exp.Expr, ...]


def grouping_sets(nodes: Sequence[exp.Expr]) -> list[_Set]:
    """Return the keys of each set, as the SQL standard combines them."""
    parts = []
    for node in nodes:
        parts.append(_sets_of(node))
        _require_few(math.prod(map(len, parts)))
    found = [tuple(itertools.chain(*chosen)) for chosen in itertools.product(*parts)]
    return [tuple(dict.fromkeys(keys)) for keys in found]


def _sets_of(node: exp.Expr) -> list[_Set]:
    if isinstance(node, exp.GroupingSets):
        return [keys for one in node.expressions for keys in _sets_of(one)]
    if isinstance(node, exp.Rollup):
        keys = [_keys(one) for one in node.expressions]
        return [tuple(itertools.chain(*keys[:count])) for count in range(len(keys), -1, -1)]
    if isinstance(node, exp.Cube):
        keys = [_keys(one) for one in node.expressions]
        _require_few(2 ** len(keys))
        counts = range(len(keys), -1, -1)
        return [
            tuple(itertools.chain(*some)) for count in counts for some in itertools.combinations(keys, count)
        ]
    return [_keys(node)]


def _keys(node: exp.Expr) -> _Set:
    if isinstance(node, exp.Tuple):
        return tuple(node.expressions)
    return (node.this,) if isinstance(node, exp.Paren) else (node,)


def _require_few(count: int) -> None:
    if count > MOST_SETS:
        raise QueryError(
            f"expected at most {MOST_SETS} grouping sets, got {count:,}; write those that are wanted as "
            "GROUPING SETS",
            code="too_large",
        )
