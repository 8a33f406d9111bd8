"""The weights of a predicate, against every value of every cell tried one by one, and against records."""

from __future__ import annotations

import itertools
import json
import time
from fractions import Fraction
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queries import (
    UNITS,
    Attribute,
    CategoricalAttribute,
    Domain,
    DomainError,
    IntegerAttribute,
    LinearQuery,
    NumericAttribute,
    QueryError,
    parse_where,
)
from queries.comparisons import Comparison, Junction, Operator, Predicate, comparisons_of
from queries.factors import Factor
from queries.segments import count_where
from queries.statements import Statement
from queries.work import counted_reading
from tests.queries.meaning import Known, compared, full_weights, holds, refusal, trees

Value: TypeAlias = Fraction | str | None  # None is an empty value, OTHER an undeclared one

OTHER = "an undeclared value"
GRID = Fraction(1, 2)  # every number in a comparison of a numeric attribute lies on this grid

FLAGS = st.fixed_dictionaries({"missing": st.booleans(), "other": st.booleans()})
INTEGERS = st.builds(
    lambda low, extent, width, flags: IntegerAttribute("n", low, low + extent, width, **flags),
    st.integers(-4, 3),
    st.integers(0, 7),
    st.integers(1, 4),
    FLAGS,
)


def _numeric(edges: set[int], atoms: set[int], integer: bool, flags: dict[str, Any]) -> NumericAttribute:
    inside = tuple(atom for atom in atoms if min(edges) <= atom <= max(edges))
    make = partial(NumericAttribute, "x", tuple(sorted(edges)), integer=integer, **flags)
    try:
        return make(atoms=inside)
    except DomainError:  # a cell of atoms alone
        return make()


NUMBERS = st.builds(
    _numeric,
    st.sets(st.integers(-2, 3), min_size=2, max_size=4),
    st.sets(st.integers(-2, 3), max_size=3),
    st.booleans(),
    FLAGS,
)
CATEGORIES = st.builds(
    lambda size, flags: CategoricalAttribute("c", ("u", "v", "w")[:size], **flags), st.integers(1, 3), FLAGS
)
DOMAINS = st.builds(
    lambda some: Domain(tuple(some)),
    st.tuples(INTEGERS, NUMBERS, CATEGORIES)
    .flatmap(st.permutations)
    .flatmap(lambda every: st.integers(1, 3).map(lambda count: every[:count])),
)


# --- the meaning, worked value by value --------------------------------------------------------------------


def _values_by_cell(attribute: Attribute, every: bool) -> list[list[Value]]:
    """Return values that stand for each cell.

    Args:
        attribute: of the cells.
        every: such that every comparison on the grid tells as much as all values do; else all of one weight.
    """
    cells: list[list[Value]] = []
    if isinstance(attribute, IntegerAttribute):
        numbers = range(attribute.minimum, attribute.maximum + 1)
        for start in range(0, len(numbers), attribute.width):
            cells.append([Fraction(number) for number in numbers[start : start + attribute.width]])
    elif isinstance(attribute, NumericAttribute):
        cells.extend(_numbers_by_cell(attribute, every))
        cells.extend([Fraction(atom)] for atom in attribute.atoms)
    elif isinstance(attribute, CategoricalAttribute):
        cells.extend([str(value)] for value in attribute.values)
    cells.extend([[None]] if attribute.missing else [])
    cells.extend([[OTHER]] if attribute.other else [])
    return cells


def _numbers_by_cell(attribute: NumericAttribute, every: bool) -> list[list[Value]]:
    cells: list[list[Value]] = []
    for low, high in itertools.pairwise(map(Fraction, attribute.boundaries)):
        if attribute.integer:
            found = [low + step for step in range(int(high - low))]
        else:
            found = [low + GRID * (2 * step + 1) / 2 for step in range(int((high - low) / GRID))]
            found += [number - GRID / 2 for number in found] if every else []
            found += [high] if every and high == attribute.boundaries[-1] else []  # the last one is closed
        cells.append([number for number in found if number not in attribute.atoms])
    return cells


def _told(comparison: Comparison, value: Value) -> Known:
    """Return what SQL says of one comparison: None where it is unknown."""
    if comparison.operator in ("missing", "other"):
        return value is None if comparison.operator == "missing" else value == OTHER
    if value is None:
        return None
    if comparison.attribute == "c":  # an undeclared category differs from every declared one
        return (value in comparison.values) == (comparison.operator != "ne")
    # An undeclared number is not known to lie anywhere.
    return compared(comparison, value) if isinstance(value, Fraction) else None


def _truths(predicate: Predicate, domain: Domain, *, every: bool) -> dict[tuple[int, ...], list[bool]]:
    """Return for each cell of the domain where, of its values, the predicate is true."""
    by_cell = [_values_by_cell(attribute, every) for attribute in domain]
    found = {}
    for cell in np.ndindex(domain.shape):
        choices = [values[code] for values, code in zip(by_cell, cell, strict=True)]
        points = (dict(zip(domain.names, point, strict=True)) for point in itertools.product(*choices))
        found[cell] = [
            holds(predicate, lambda one, point=point: _told(one, point[one.attribute])) is True  # type: ignore[misc]
            for point in points
        ]
    return found


# --- random questions --------------------------------------------------------------------------------------


def _comparisons(attribute: Attribute) -> st.SearchStrategy[Comparison]:
    compare = partial(st.builds, Comparison, st.just(attribute.name))
    if isinstance(attribute, CategoricalAttribute):
        some: st.SearchStrategy[Any] = st.sampled_from(attribute.values)
        kinds = []
    else:
        low, high = int(attribute.boundaries[0]), int(attribute.boundaries[-1])
        values = st.integers(2 * low - 2, 2 * high + 2).map(lambda twice: twice / 2)
        halves = st.integers(2 * low, 2 * high).map(lambda twice: twice / 2)
        some = st.integers(low, high - 1) if attribute.is_whole else halves
        pairs = st.tuples(values, values).map(lambda ends: tuple(sorted(ends)))
        kinds = [
            compare(st.sampled_from(["lt", "le", "gt", "ge"]), st.tuples(values)),
            compare(st.just("between"), pairs),
        ]
    kinds.append(compare(st.sampled_from(["eq", "ne"]), st.tuples(some)))
    kinds.append(compare(st.just("in"), st.lists(some, min_size=1, max_size=4).map(tuple)))
    usual = st.one_of(kinds).filter(lambda comparison: _is_satisfied(comparison, attribute))
    flags = [flag for flag in ("missing", "other") if getattr(attribute, flag)]
    return usual | compare(st.sampled_from(flags)) if flags else usual


def _is_satisfied(comparison: Comparison, attribute: Attribute) -> bool:
    """Return whether some value meets the comparison: an empty range is refused, not answered."""
    values = (value for cell in _values_by_cell(attribute, every=True) for value in cell)
    return comparison.operator == "ne" or any(_told(comparison, value) for value in values)


def _predicates(domain: Domain) -> st.SearchStrategy[Predicate]:
    return trees(st.one_of([_comparisons(attribute) for attribute in domain]))


# --- the distributions -------------------------------------------------------------------------------------


@given(data=st.data())
def test_weights_are_shares_and_readings_leave_out_or_take_what_cells_cannot_decide(
    data: st.DataObject,
) -> None:
    domain = data.draw(DOMAINS)
    predicate = data.draw(_predicates(domain))
    query = count_where(predicate, domain)
    weights = full_weights(query)
    for cell, found in _truths(predicate, domain, every=False).items():
        assert int(weights[cell]) == round(Fraction(sum(found), len(found)) * UNITS)
    least, most = (full_weights(reading) for reading in query.readings or (query, query))
    decisions = {
        cell: (all(told), any(told)) for cell, told in _truths(predicate, domain, every=True).items()
    }
    assert {cell: (bool(least[cell]), bool(most[cell])) for cell in decisions} == decisions
    assert query.aligned == all(one == other for one, other in decisions.values())
    assert np.all(least <= weights)
    assert np.all(weights <= most)
    assert set(query.scope) <= {one.attribute for one in comparisons_of(predicate)}
    assert all(set(reading.scope) <= set(query.scope) for reading in query.readings or ())
    again = LinearQuery.from_dict(domain, json.loads(query.to_json()))
    assert (again.to_json(), again.scope, again.aligned) == (query.to_json(), query.scope, query.aligned)
    assert (again.readings is None) == query.aligned


@given(data=st.data())
def test_groups_split_a_question_and_its_readings(data: st.DataObject) -> None:
    domain = data.draw(DOMAINS)
    query = count_where(data.draw(_predicates(domain)), domain)
    names = data.draw(st.permutations(domain.names))[: data.draw(st.integers(0, 2))]
    groups = {group.places: own for _, group, own in Statement.count_by(query, names).questions()}
    for cells in itertools.product(*(range(domain[name].size) for name in names)):
        excluded = LinearQuery(domain, (Factor((), np.array(0)),))
        group = groups.get(cells, excluded)
        assert (cells in groups) == (not names or (group.readings or (group, group))[1].constant > 0)
        inside = np.zeros(domain.shape, dtype=np.int64)
        chosen = dict(zip(names, cells, strict=True))
        inside[tuple(chosen.get(name, slice(None)) for name in domain.names)] = 1
        pairs = zip(query.readings or (query, query), group.readings or (group, group), strict=True)
        decided = []
        for whole, part in ((query, group), *pairs):
            np.testing.assert_array_equal(full_weights(part), full_weights(whole) * inside)
            decided.append(full_weights(part))
        assert group.aligned == np.array_equal(decided[1], decided[2])


# --- examples worked by hand -------------------------------------------------------------------------------


def test_declarations_and_numbers_that_look_alike_are_not_mixed_up() -> None:
    numbers = Domain((CategoricalAttribute("flag", (1, 0)),))
    booleans = Domain((CategoricalAttribute("flag", (True, False)),))
    large = Domain((IntegerAttribute("n", 2**53 - 4, 2**53 - 1),))  # beyond the precision of floats
    assert parse_where("flag = 1", numbers).weights().tolist() == [UNITS, 0]
    assert parse_where("flag = TRUE", booleans).weights().tolist() == [UNITS, 0]
    assert parse_where({"n": {"eq": 2**53 - 1}}, large).weights().tolist() == [0, 0, 0, UNITS]
    told = refusal(parse_where, "flag = 1", booleans).message
    assert "has the values true, false; got 1" in told
    assert "whole numbers from" in refusal(parse_where, {"n": {"eq": 2**53 + 1}}, large).message


# The attributes, their cells and width, a condition on them, and how many weights it would need.
TOO_LARGE = {
    "cells": ("abc", 1000, 1, "a < 5 OR b < 5 OR c < 5", "a, b, c would need 1,000,000,000"),
    "shares": ("ab", 10_000, 2, "a < 5 AND b < 5", "a, b would need 25,000,000"),
    "pieces": ("abc", 1000, 500, " OR ".join(f"{name}={2 * n}" for n in range(145) for name in "abc"),
               r"a, b, c would need 24,\d{3},\d{3}"),
}  # fmt: skip


@pytest.mark.parametrize("what", TOO_LARGE)
def test_a_condition_that_joins_too_much_is_refused(what: str) -> None:
    names, size, width, where, told = TOO_LARGE[what]
    domain = Domain(tuple(IntegerAttribute(name, 0, size - 1, width) for name in names))
    with pytest.raises(QueryError, match=f"joins {told} weights") as caught:
        parse_where(where, domain)
    assert caught.value.code == "too_large"
    whole = " AND ".join(f"{name} < {width}" for name in names)  # of separate attributes
    assert parse_where(whole, domain).is_box


def test_many_comparisons_of_a_long_attribute_are_quick() -> None:
    domain = Domain((IntegerAttribute("n", 0, 499_999),))
    parse_where("n > 5", domain)
    start = time.process_time()
    parse_where(" OR ".join(f"n > {number}" for number in range(40)), domain)
    assert time.process_time() - start < 1.2


# --- ranges, which need no array of segments ----------------------------------------------------------------


def _reading(predicate: Predicate, domain: Domain) -> list[Any]:
    """Return all that is read of a condition, and the cells that were counted; or how it is refused."""
    with counted_reading() as work:
        try:
            query = count_where(predicate, domain)
        except QueryError as error:
            return [error.code, str(error), error.position]
    told = [(one.to_json(), one.box, one.is_box, one.scope) for one in (query, *(query.readings or ()))]
    return [told, work.done, query.weights().tolist()]


@given(st.data())
@settings(max_examples=8 * settings().max_examples)
def test_a_range_of_cells_is_read_as_segments_would_be(data: st.DataObject) -> None:
    def flags() -> dict[str, Any]:
        return data.draw(FLAGS)

    domain = Domain(
        (
            data.draw(INTEGERS),
            NumericAttribute("x", (-1.1, 0.1, 0.3, 2.7), **flags()),
            NumericAttribute("y", (0.0, 3.0, 4.0, 9.0), integer=True, **flags()),
            CategoricalAttribute("c", ("u", "v"), **flags()),
        )
    )
    numbers = st.one_of(st.integers(-3, 10), st.floats(-2, 11), st.sampled_from([0.1, 0.3, 2.7, 0.3 + 1e-13]))
    named: list[Operator] = ["eq", "ne", "lt", "le", "gt", "ge", "between", "between", "missing", "other"]
    terms = []
    for place in range(data.draw(st.integers(1, 5))):
        name = data.draw(st.sampled_from("nxyc"))
        operator: Operator = data.draw(st.sampled_from(named))
        count = {"between": 2, "missing": 0, "other": 0}.get(operator, 1)
        texts = st.sampled_from(["u", "v", "(other)", "w"])
        values = data.draw(st.tuples(*[texts if name == "c" else numbers] * count))
        terms.append(Comparison(name, operator, values, place))
    predicate = Junction("and", tuple(terms))
    found = _reading(predicate, domain)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("queries.segments._range_where", lambda *_: None)
        assert found == _reading(predicate, domain)
