"""Grouping sets: which keys ``GROUP BY`` takes together, with ROLLUP, CUBE and GROUPING SETS in it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from sqlglot import exp

from queries.errors import QueryError

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
