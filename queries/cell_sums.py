"""Sums of cells: COUNT, SUM and AVG of a number, and statements that ask one aggregate of one attribute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from queries.cell_values import CellCondition, CellValues, attribute_values, on_scope, union_scope
from queries.domain import Domain
from queries.errors import QueryError
from queries.linear import LinearQuery
from queries.statements import (
    AggregateNode,
    Linear,
    OutputColumn,
    Quantile,
    Ratio,
    Statement,
    attribute_grouping,
)

CLIPPED = "numbers beyond the declared ends count as the ends"


def counted(values: CellValues, condition: CellCondition | None, domain: Domain) -> Linear:
    """Return the number of records that hold a number and where a condition holds."""
    ones = values.present.astype(np.float64)
    return total(replace(values, low=ones, middle=ones, high=ones), condition, domain)


def total(values: CellValues, condition: CellCondition | None, domain: Domain) -> Linear:
    """Return the sum of a number over the records that hold one and where a condition holds."""
    arrays: list[NDArray[Any]] = [np.where(values.present, one, 0.0) for one in values.arrays]
    scope = values.scope
    if condition is not None:
        scope = union_scope(domain, (values.scope, condition.scope))
        least, share, most = (
            on_scope(domain, condition.scope, one, scope)
            for one in (condition.least, condition.share, condition.most)
        )
        low, middle, high = (on_scope(domain, values.scope, one, scope) for one in arrays)
        arrays = [
            np.where(least, low, np.where(most, np.minimum(low, 0.0), 0.0)),
            middle * share,
            np.where(least, high, np.where(most, np.maximum(high, 0.0), 0.0)),
        ]
        arrays = [np.broadcast_to(one, domain.scope_shape(scope)) for one in arrays]
    counting = all(bool(np.all((one == 0) | (one == 1))) for one in (arrays[0], arrays[2]))
    return Linear(scope, arrays[0], arrays[1], arrays[2], counting=counting)


def average(values: CellValues, condition: CellCondition | None, domain: Domain) -> Ratio:
    """Return the mean of a number over the records that hold one and where a condition holds."""
    return Ratio(total(values, condition, domain), counted(values, condition, domain))


def statement_of(
    kind: str, name: str, where: LinearQuery, by: Sequence[str] = (), *, part: float = 0.5
) -> Statement:
    """Return the statement that asks one aggregate of an attribute.

    Args:
        kind: ``mean``, ``sum`` or ``quantile``.
        name: the attribute.
        where: the question that counts the records that are asked about.
        by: attributes that group them.
        part: of a quantile, in [0, 1].

    Raises:
        QueryError: the attribute is not declared or holds no numbers, or the part is not in [0, 1].
    """
    domain, counts = where.domain, Statement.count_by(where, by)
    if name not in domain:
        attribute_grouping(name, None, domain)  # which refuses it
    values = attribute_values(domain[name])
    if values.labels is not None:
        raise QueryError(
            f"{kind} needs numbers, {name!r} holds none; group_by counts its values", code="wrong_kind"
        )
    if not isinstance(part, int | float) or not 0 <= part <= 1:
        raise QueryError(f"expected a quantile in [0, 1], got {part}; the median is 0.5", code="bad_request")
    nodes: Mapping[str, AggregateNode] = {
        "mean": average(values, None, domain),
        "sum": total(values, None, domain),
        "quantile": Quantile(values, part),
    }
    keys = [column for column in counts.columns if column.is_key]
    title = kind if kind not in by else f"{kind} of {name}"
    columns = (*keys, OutputColumn(title, nodes[kind]))
    return Statement(where, counts.groupings, columns, notes=(CLIPPED,))
