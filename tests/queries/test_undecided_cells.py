"""Comparisons that cells cannot decide, against the raw column: its values, not their cells."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pandas as pd
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from queries import (
    UNITS,
    Domain,
    Histogram,
    IntegerAttribute,
    LinearQuery,
    NumericAttribute,
    encode_records,
)
from queries.errors import QueryError
from queries.predicates import And, Atom, Between, Comparison, IsIn, IsMissing, Not, Operator, Or, Predicate
from queries.segments import count_where

Row: TypeAlias = dict[str, float | None]  # None is an empty value
COMPARE: dict[Operator, Callable[[float, float], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
REALS = st.floats(-1e6, 1e6, allow_subnormal=True) | st.integers(-3, 3).map(float)
DOMAINS = st.builds(
    lambda edges, low, extent, width: Domain(
        (
            NumericAttribute("x", tuple(sorted(edges)), missing=True),
            IntegerAttribute("n", low, low + extent, width, missing=True),
        )
    ),
    st.sets(REALS, min_size=2, max_size=6),
    st.integers(-5, 5),
    st.integers(0, 11),
    st.integers(1, 5),
)


def _near(domain: Domain, name: str) -> st.SearchStrategy[float]:
    """Return numbers at edges, next to them, inside cells and outside the ends."""
    attribute = domain[name]
    if isinstance(attribute, NumericAttribute):
        edges = st.sampled_from(attribute.edges)
        beside = edges.flatmap(
            lambda edge: st.sampled_from([np.nextafter(edge, np.inf), np.nextafter(edge, -np.inf)])
        )
        return st.one_of(edges, beside.map(float), REALS)
    assert isinstance(attribute, IntegerAttribute)
    return st.integers(attribute.minimum - 2, attribute.maximum + 2).map(float)


def _rows(domain: Domain) -> st.SearchStrategy[list[Row]]:
    row = st.fixed_dictionaries({name: st.none() | _near(domain, name) for name in domain.names})
    return st.lists(row, min_size=1, max_size=25)


def _atoms(domain: Domain, name: str) -> st.SearchStrategy[Atom]:
    numbers = _near(domain, name)
    operators: st.SearchStrategy[Operator] = st.sampled_from(list(COMPARE))
    return st.one_of(
        st.builds(Comparison, st.just(name), operators, numbers),
        st.tuples(numbers, numbers).map(lambda ends: Between(name, min(ends), max(ends))),
        st.lists(numbers, min_size=1, max_size=3).map(lambda values: IsIn(name, tuple(values))),
        st.just(IsMissing(name)),
    )


def _predicates(domain: Domain) -> st.SearchStrategy[Predicate]:
    def grown(children: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
        several = st.lists(children, min_size=1, max_size=3).map(tuple)
        return st.one_of(several.map(And), several.map(Or), children.map(Not))

    atoms: st.SearchStrategy[Predicate] = st.one_of([_atoms(domain, name) for name in domain.names])
    return st.recursive(atoms, grown, max_leaves=5)


def _holds(predicate: Predicate, row: Row) -> bool | None:
    """Return what SQL says of a row of clipped values: None where it is unknown."""
    if isinstance(predicate, Not):
        inner = _holds(predicate.child, row)
        return None if inner is None else not inner
    if isinstance(predicate, And | Or):
        decisive = isinstance(predicate, Or)
        found = {_holds(child, row) for child in predicate.children}
        return decisive if decisive in found else None if None in found else not decisive
    value = row[predicate.attribute]
    if isinstance(predicate, IsMissing):
        return value is None
    if value is None:
        return None
    return _compared(predicate, value)


def _compared(atom: Atom, value: float) -> bool:
    if isinstance(atom, Comparison):
        return COMPARE[atom.operator](value, float(atom.value))
    if isinstance(atom, Between):
        return float(atom.low) <= value <= float(atom.high)
    assert isinstance(atom, IsIn)
    return value in {float(member) for member in atom.values}


def _clipped(domain: Domain, row: Row) -> Row:
    ends: dict[str, tuple[float, float]] = {}
    for attribute in domain:
        assert isinstance(attribute, NumericAttribute | IntegerAttribute)
        last = attribute.maximum if isinstance(attribute, IntegerAttribute) else attribute.edges[-1]
        ends[attribute.name] = (attribute.ends[0], last)
    return {
        name: None if value is None else min(max(value, ends[name][0]), ends[name][1])
        for name, value in row.items()
    }


def _histogram(domain: Domain, rows: list[Row]) -> Histogram:
    frame = pd.DataFrame({name: [row[name] for row in rows] for name in domain.names}, dtype=np.float64)
    counts = np.zeros(domain.shape, dtype=np.int64)
    np.add.at(counts, tuple(column.astype(np.int64) for column in encode_records(frame, domain).columns), 1)
    return Histogram(domain, counts)


def _counted(query: LinearQuery, counts: Histogram) -> float:
    return query.answer(counts) / UNITS


@given(data=st.data())
def test_the_raw_count_lies_between_the_readings_and_is_the_answer_where_cells_decide(
    data: st.DataObject,
) -> None:
    domain = data.draw(DOMAINS)
    rows, predicate = data.draw(_rows(domain)), data.draw(_predicates(domain))
    try:
        query = count_where(predicate, domain)
    except QueryError as error:
        assert error.code in ("empty_range", "unknown_value")  # noqa: PT017
        return
    counts = _histogram(domain, rows)
    truth = sum(_holds(predicate, _clipped(domain, row)) is True for row in rows)
    least, most = query.readings or (query, query)
    assert _counted(least, counts) <= truth <= _counted(most, counts)
    assert _counted(least, counts) <= _counted(query, counts) <= _counted(most, counts)
    if query.aligned:
        assert _counted(query, counts) == truth


def _every_table(domain: Domain, cell: int) -> NDArray[np.float64]:
    attribute = domain["x"]
    assert isinstance(attribute, NumericAttribute)
    low, high = attribute.edges[cell : cell + 2]
    inside = np.array([low, np.nextafter(low, np.inf), (low + high) / 2, np.nextafter(high, -np.inf)])
    return np.append(inside, high) if cell == len(attribute.edges) - 2 else inside


@given(data=st.data())
def test_a_question_is_aligned_exactly_where_no_table_tells_the_readings_apart(data: st.DataObject) -> None:
    edges = sorted(data.draw(st.sets(st.integers(-3, 6).map(float), min_size=2, max_size=5)))
    domain = Domain((NumericAttribute("x", tuple(edges)),))
    name, value = data.draw(st.sampled_from(list(COMPARE))), data.draw(st.sampled_from(edges))
    assume((name, value) not in (("lt", edges[0]), ("gt", edges[-1])))  # empty ranges
    query = count_where(Comparison("x", name, value), domain)
    decided = True
    for cell in range(len(edges) - 1):
        found = {COMPARE[name](number, value) for number in _every_table(domain, cell).tolist()}
        decided = decided and len(found) == 1
    assert query.aligned == decided


def test_the_tables_of_one_cell_reach_both_readings() -> None:
    domain = Domain((NumericAttribute("x", (0.0, 1.0, 2.0)),))
    operators: list[Operator] = ["gt", "le", "eq", "ne"]
    for operator_, value in itertools.product(operators, (0.0, 2.0)):
        try:
            query = count_where(Comparison("x", operator_, value), domain)
        except QueryError:
            assert (operator_, value) == ("gt", 2.0)
            continue
        if (operator_, value) == ("le", 2.0):
            assert query.aligned
            continue
        assert query.readings is not None
        cell = int(value == 2.0)
        truths = [COMPARE[operator_](number, value) for number in _every_table(domain, cell).tolist()]
        counts = Histogram(domain, np.array([1 - cell, cell]))
        assert [_counted(reading, counts) for reading in query.readings] == [min(truths), max(truths)]
