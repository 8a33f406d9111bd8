"""What one person changes in a list of questions: against enumeration, known values, bounds, prices."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.privacy.budget import NeighboringRelation
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from pmw.public import row_sensitivity
from pmw.public.charges import charge_of
from pmw.public.options import Options
from pmw.public.row_sensitivity import Moved, rows_sensitivity
from pmw.research.audit import OutputDistribution, renyi_curve, worst_log_ratio
from queries import UNITS, CategoricalAttribute, Domain, Histogram, IntegerAttribute, LinearQuery
from queries.factors import Factor
from tests.worlds import known

DOMAIN = Domain(
    (IntegerAttribute("a", 0, 3), CategoricalAttribute("b", ("n", "s", "w")), IntegerAttribute("c", 0, 1))
)
WIDE = Domain(tuple(IntegerAttribute(name, 0, 99) for name in "abcdefghij"))
NAMES = ("a", "b", "c")
ADDED, REPLACED = NeighboringRelation.ADD_REMOVE, NeighboringRelation.REPLACE_ONE


def choices(relation: NeighboringRelation, records: int = 1) -> Options:
    return Options(neighboring_relation=relation, records_per_person=records)


def moved(
    queries: Sequence[LinearQuery],
    relation: NeighboringRelation = ADDED,
    records: int = 1,
    *,
    persons: bool = False,
) -> tuple[int | Fraction, int | Fraction]:
    """Return the sensitivities in records and squared records."""
    found = rows_sensitivity(queries, choices(relation, records), persons=persons)
    return Fraction(found.l1, UNITS), Fraction(found.l2_squared, UNITS**2)


# --- lists of questions ------------------------------------------------------------------------------------


def factor(scope: Sequence[str], weights: Sequence[float], domain: Domain = DOMAIN) -> Factor:
    """Return a factor whose weights are parts of a record."""
    units = np.array([round(one * UNITS) for one in weights], dtype=np.int64)
    return Factor(tuple(scope), units.reshape(domain.scope_shape(scope)))


def one_of(name: str, *cells: int, domain: Domain = DOMAIN) -> LinearQuery:
    held = [float(cell in cells) for cell in range(domain[name].size)]
    return LinearQuery(domain, (factor((name,), held, domain),))


def joined(*queries: LinearQuery) -> LinearQuery:
    return LinearQuery(queries[0].domain, tuple(one for query in queries for one in query.factors))


def groups(*scope: str, domain: Domain = DOMAIN) -> list[LinearQuery]:
    """Return one question for each group, or one for everybody."""
    cells = itertools.product(*(range(domain[name].size) for name in scope))
    return [
        LinearQuery.cells(domain, {name: (one, one) for name, one in zip(scope, group, strict=True)})
        for group in cells
    ]


@st.composite
def factors(draw: st.DrawFn, scope: tuple[str, ...], *, whole: bool) -> Factor:
    size = DOMAIN.scope_size(scope)
    weights = st.sampled_from((0.0, 1.0) if whole else (0.0, 0.25, 1 / 3, 0.5, 1.0))
    if draw(st.booleans()):
        low, high = sorted((draw(st.integers(0, size - 1)), draw(st.integers(0, size - 1))))
        return factor(scope, [float(low <= place <= high) for place in range(size)])
    return factor(scope, draw(st.lists(weights, min_size=size, max_size=size)))


@st.composite
def single_questions(draw: st.DrawFn, names: tuple[str, ...] = NAMES) -> LinearQuery:
    """Boxes, lists of values, cells of pairs, and weights such as CASE gives in one factor at most."""
    pieces = list[Factor]()
    rest = list(draw(st.permutations(list(names))))
    weighted = draw(st.integers(0, 3))  # which factor has fractions
    while rest and draw(st.integers(0, 3)) > 0:
        taken = [rest.pop() for _ in range(min(len(rest), draw(st.integers(1, 2))))]
        scope = tuple(name for name in NAMES if name in taken)
        pieces.append(draw(factors(scope, whole=len(pieces) != weighted)))
    return LinearQuery(DOMAIN, tuple(pieces))


def whole_questions(names: tuple[str, ...]) -> st.SearchStrategy[LinearQuery]:
    return single_questions(names).filter(lambda query: query.is_whole and query.constant > 0)


@st.composite
def question_lists(draw: st.DrawFn) -> list[LinearQuery]:
    """Any questions, groups of a condition, and grouping sets with and without everybody."""
    kind = draw(st.sampled_from(("any", "condition", "sets")))
    if kind == "any":
        return draw(st.lists(single_questions(), max_size=5))
    if kind == "condition":
        where = draw(single_questions(("c",)))
        others = draw(st.lists(whole_questions(("a", "b")), min_size=1, max_size=3))
        return [joined(where, one) if where.constant else where for one in [*groups("a"), *others]]
    scopes = draw(st.lists(st.sampled_from((("a",), ("b",), ("a", "c"), ())), unique=True, max_size=4))
    return [one for scope in scopes for one in groups(*scope)]


def columns_of(queries: Sequence[LinearQuery]) -> NDArray[np.int64]:
    """Return every row's weight of every cell of the domain, by its own weights: shape (cells, rows)."""
    columns = np.zeros((math.prod(DOMAIN.shape), len(queries)), dtype=np.int64)
    for place, query in enumerate(queries):
        sides = [DOMAIN[name].size if name in query.scope else 1 for name in DOMAIN.names]
        columns[:, place] = np.broadcast_to(query.weights().reshape(sides), DOMAIN.shape).reshape(-1)
    return columns


def sums_of_records(columns: NDArray[np.int64], records: int) -> NDArray[np.int64]:
    """Return the different sums over all multisets of so many records."""
    sums = np.zeros((1, columns.shape[1]), dtype=np.int64)
    for _ in range(records):
        sums = np.unique((sums[:, None] + columns[None]).reshape(-1, columns.shape[1]), axis=0)
    return sums


def enumerated(
    queries: Sequence[LinearQuery], relation: NeighboringRelation, records: int, *, persons: bool
) -> Moved:
    """Return the largest change over all that a person can have, before and after."""
    columns = columns_of(queries)
    if not queries:
        return Moved(0, 0)
    numbers = [sums_of_records(columns, size) for size in range(records + 1)]
    everything = np.concatenate(numbers)
    if relation is ADDED:
        pairs = [everything[:, None]]
    elif persons:
        pairs = [everything[:, None] - everything[None]]
    else:
        pairs = [sums[:, None] - sums[None] for sums in numbers]
    l1 = max(int(np.abs(apart).sum(axis=-1).max()) for apart in pairs)
    return Moved(l1, max(int((apart**2).sum(axis=-1).max()) for apart in pairs))


# --- against enumeration -----------------------------------------------------------------------------------


@given(question_lists(), st.sampled_from((ADDED, REPLACED)), st.integers(1, 2), st.booleans())
def test_it_is_the_largest_change_of_all_that_a_person_can_have(
    queries: list[LinearQuery], relation: NeighboringRelation, records: int, persons: bool
) -> None:
    found = rows_sensitivity(queries, choices(relation, records), persons=persons)
    assert found == enumerated(queries, relation, records, persons=persons)


@given(
    question_lists(),
    st.booleans(),
    st.fixed_dictionaries(
        {},
        optional={
            "_CELLS": st.integers(1, 12),
            "_COLUMNS": st.integers(1, 4),
            "_SUMMED": st.integers(0, 30),
            "_WORK": st.integers(0, 30),
        },
    ),
)
def test_where_something_is_too_large_it_is_a_bound_from_above(
    queries: list[LinearQuery], persons: bool, limits: dict[str, int]
) -> None:
    columns = columns_of(queries)
    most = [2 * int((columns**power).max(axis=0).sum()) for power in (1, 2)] if queries else [0, 0]
    for relation in (ADDED, REPLACED):
        exact = enumerated(queries, relation, 1, persons=persons)
        with pytest.MonkeyPatch.context() as patch:
            for name, limit in limits.items():
                patch.setattr(row_sensitivity, name, limit)
            found = rows_sensitivity(queries, choices(relation), persons=persons)
        assert exact.l1 <= found.l1 <= most[0]
        assert exact.l2_squared <= found.l2_squared <= most[1]


@given(question_lists(), question_lists())
def test_a_longer_list_moves_at_least_as_much_and_both_at_most_by_their_sum(
    first: list[LinearQuery], second: list[LinearQuery]
) -> None:
    for relation in (ADDED, REPLACED):
        one, other, both = (
            rows_sensitivity(rows, choices(relation), persons=True)
            for rows in (first, second, first + second)
        )
        assert max(one.l1, other.l1) <= both.l1 <= one.l1 + other.l1
        assert both.l2_squared <= one.l2_squared + other.l2_squared


# --- known values ------------------------------------------------------------------------------------------


IN_C, HALF = one_of("c", 1), LinearQuery.cells(WIDE, dict.fromkeys(WIDE.names, (0, 49)))
SETS = [*groups("a"), *groups("b"), *groups()]
LONG = Domain((IntegerAttribute("x", 0, 7_999), *(IntegerAttribute(name, 0, 39) for name in "ab")))
EVENS = LinearQuery(LONG, (Factor.where(("x",), np.arange(8_000) % 2 == 0),))
MET = [one_of("a", 0, 1), one_of("a", 1, 2), one_of("a", 0, 2)]
KNOWN: dict[str, tuple[list[LinearQuery], int, int]] = {  # by how much they move: added, and replaced
    "no row": ([], 0, 0),
    "rows that hold of nobody": ([one_of("a")] * 2, 0, 0),
    "groups": (groups("b"), 1, 2),
    "groups of a condition": ([joined(IN_C, one) for one in groups("b")], 1, 2),
    "groups of two conditions": ([joined(one_of("a", 1, 3), IN_C, one) for one in groups("b")], 1, 2),
    "grouping sets": (SETS, 3, 4),
    "grouping sets of a condition": ([joined(IN_C, one) for one in SETS], 3, 4),
    "a rollup of a condition": ([joined(IN_C, one) for one in [*groups("a"), *groups()]], 2, 2),
    "a condition and a part of it": ([IN_C, joined(IN_C, one_of("a", 0))], 2, 2),
    "nested ranges": ([LinearQuery.cells(WIDE, {"a": (0, last)}) for last in range(10, 60, 5)], 10, 10),
    "lists that meet in pairs, not all": (MET, 2, 2),
    "and one that meets none": ([*MET, one_of("a", 3)], 2, 3),
    "a row that is there twice": ([one_of("a", 1)] * 2, 2, 2),
    "halves and tenths of a large domain": (
        [HALF, *(HALF.within({"a": np.arange(last)}) for last in (10, 20, 30))], 4, 4,
    ),
    "cells of a large domain": (
        [LinearQuery.cells(WIDE, {"a": (one, one), "j": (5, 20)}) for one in range(100)], 1, 2,
    ),
    "attributes without a question in common": (
        [one for name in WIDE.names for one in groups(name, domain=WIDE)], 10, 20,
    ),
    "a long list of cells": (groups("x", domain=LONG), 1, 2),
    "a long list of groups with a condition": (
        [joined(EVENS, one) for one in groups("a", "b", domain=LONG)], 1, 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "added", "replaced"), KNOWN.values(), ids=KNOWN)
def test_known_lists_move_by_as_much_as_they_overlap(
    rows: list[LinearQuery], added: int, replaced: int
) -> None:
    for records in (1, 3):
        assert moved(rows, records=records) == (records * added, records**2 * added)
        assert moved(rows, REPLACED, records) == (records * replaced, records**2 * replaced)


def test_what_moves_by_parts_of_records_or_by_relation() -> None:
    everybody = groups()  # they move only where a person may have fewer records
    assert moved(everybody, records=2) == (2, 4)
    assert moved(everybody, REPLACED, 2) == (0, 0)
    assert moved(everybody, REPLACED, 2, persons=True) == (2, 4)
    # The two norms may have their maxima at different cells.
    weighted = [(0.5, 0, 0, 0), (0.5, 0, 0, 0.25), (0.5, 0, 1, 0)]
    rows = [LinearQuery(DOMAIN, (factor(("a",), one),)) for one in weighted]
    assert moved(rows) == (Fraction(3, 2), 1)
    assert moved(rows, REPLACED) == (Fraction(3, 2), Fraction(17, 16))
    # Weights are the rounded ones.
    thirds = [LinearQuery(DOMAIN, (factor(("a",), (1 / 3, 0, 0, place / 8)),)) for place in range(3)]
    assert rows_sensitivity(thirds, choices(ADDED), persons=False).l1 == 3 * 349525


# --- large domains -----------------------------------------------------------------------------------------


def limited(name: str, limit: int, rows: list[LinearQuery], relation: NeighboringRelation) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_sensitivity, name, limit)
        return moved(rows, relation)


SMALL, TWO = (Domain(tuple(IntegerAttribute(name, 0, last) for name in "abcde")) for last in (5, 1))
CHAIN = [one for pair in ("ab", "bc", "cd", "de") for one in groups(*pair, domain=SMALL)]
CROSSED = [LinearQuery(TWO, (factor("ab", weights, TWO),)) for weights in ((1, 0, 0, 1), (0, 1, 1, 0))]


@pytest.mark.parametrize(
    ("cells", "rows", "added", "replaced"),
    [
        (36, CHAIN, 4, 8),  # the chain is cut
        (6, groups("a", "b"), 4, 8),  # the cells of a are not told apart any more
        (4, CROSSED, 1, 2),
        # By their largest weights along one attribute both rows hold of every cell: nobody would move them.
        (3, CROSSED, 2, 4),
    ],
)
def test_what_is_left_out_counts_with_its_largest_weight(
    cells: int, rows: list[LinearQuery], added: int, replaced: int
) -> None:
    assert limited("_CELLS", cells, rows, ADDED) == (added, added)
    assert limited("_CELLS", cells, rows, REPLACED) == (replaced, replaced)


def test_what_is_too_long_to_compare_or_to_add_up_differs_by_both_norms_and_by_largest_weights() -> None:
    rows = [LinearQuery.cells(SMALL, {"a": (cell, cell + 1)}) for cell in range(3)]
    assert min(min(limited("_WORK", work, rows, REPLACED)) for work in range(40)) == 3
    assert moved(rows, REPLACED) == (3, 3)
    nested = [LinearQuery.cells(WIDE, {"a": (0, end)}) for end in range(6)]
    assert {limited("_SUMMED", limit, nested, ADDED) for limit in range(12)} == {moved(nested)}


# --- prices ------------------------------------------------------------------------------------------------


def test_prices_follow_from_both_norms() -> None:
    rows, options = [*groups("a"), *groups("b")], choices(REPLACED, 2)
    laplace, gaussian = DiscreteLaplace(Fraction(3 * UNITS)), DiscreteGaussian(Fraction(100 * UNITS))
    assert charge_of(rows_sensitivity(rows, options, persons=False), laplace).epsilon == Fraction(8, 3)
    rho = known(charge_of(rows_sensitivity(rows, options, persons=False), gaussian).rho)
    assert Fraction(16, 2 * 100**2) <= rho < Fraction(16, 2 * 100**2) + Fraction(1, 2**59)


CELLS = Domain((IntegerAttribute("a", 0, 2),))  # whose weights are few units, so that outputs are few


def few_units(*weights: int) -> LinearQuery:
    return LinearQuery(CELLS, (Factor(("a",), np.array(weights)),))


AUDITED = {
    "one cell moves both": [few_units(1, 3, 0), few_units(2, 2, 0)],
    "two cells move one each": [few_units(3, 0, 1), few_units(0, 3, 1)],
}


@cache
def outputs(answers: tuple[int, ...], noise: NoiseDistribution) -> OutputDistribution:
    """Return the joint distribution of two answers with noise, far beyond every answer."""
    places = np.arange(-26, 42)
    chances = [noise.pmf(places - one).tolist() for one in answers]
    return {
        (first, second): one * other
        for (first, one), (second, other) in itertools.product(
            *(zip(places.tolist(), chance, strict=True) for chance in chances)
        )
    }


def neighbours(
    relation: NeighboringRelation, records: int, *, persons: bool
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return all pairs of tables between which one person's records are others, beside two of somebody's."""
    lists = [
        np.bincount(one, minlength=3) + np.array([1, 0, 1])
        for size in range(records + 1)
        for one in itertools.combinations_with_replacement(range(3), size)
    ]
    if relation is ADDED:
        return [(lists[0], one) for one in lists]
    return [
        (one, other) for one, other in itertools.combinations(lists, 2) if persons or one.sum() == other.sum()
    ]


@pytest.mark.parametrize("name", sorted(AUDITED))
@pytest.mark.parametrize(
    ("relation", "records", "persons"), [(ADDED, 2, False), (REPLACED, 1, False), (REPLACED, 2, True)]
)
def test_what_is_charged_bounds_what_all_outputs_tell_and_half_of_it_would_not(
    name: str, relation: NeighboringRelation, records: int, persons: bool
) -> None:
    rows, options = AUDITED[name], choices(relation, records)
    laplace, gaussian = DiscreteLaplace(Fraction(4)), DiscreteGaussian(Fraction(4))
    pairs = [
        tuple(tuple(row.answer(Histogram(CELLS, counts)) for row in rows) for counts in tables)
        for tables in neighbours(relation, records, persons=persons)
    ]
    worst = max(worst_log_ratio(outputs(one, laplace), outputs(two, laplace)) for one, two in pairs)
    epsilon = known(charge_of(rows_sensitivity(rows, options, persons=persons), laplace).epsilon)
    assert worst == pytest.approx(float(epsilon), rel=1e-9)
    orders = (1.5, 2.0, 3.0)
    curves = [renyi_curve(outputs(one, gaussian), outputs(two, gaussian), orders) for one, two in pairs]
    rho = known(charge_of(rows_sensitivity(rows, options, persons=persons), gaussian).rho)
    told = np.max(curves, axis=0) / np.array(orders)
    assert (told <= float(rho) * (1 + 1e-9)).all()
    assert (told > float(rho) / 2).all()  # half of the sensitivity in L2 has a quarter of rho
