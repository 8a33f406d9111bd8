"""Sums of values: what one record, and one person, moves, by enumeration; and what the numbers say."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.data.memory import MemorySource
from pmw.loop.measuring import Tables
from pmw.loop.untested import Requested
from pmw.model.measurement import SumMeasurement, SummedRows
from pmw.model.value_sums import COUNT_UNITS, SummedValues, opening_sums
from pmw.privacy.budget import NeighboringRelation
from pmw.privacy.noise import DiscreteGaussian
from pmw.public.charges import QuestionNumbers, SumNumbers
from pmw.public.codec import FormError
from pmw.public.options import Options
from pmw.session.events import require_measurable
from queries import (
    UNITS,
    CategoricalAttribute,
    Domain,
    Histogram,
    IntegerAttribute,
    LinearQuery,
    NumericAttribute,
)
from queries.domain import Attribute
from queries.errors import DomainError, ScopeError
from queries.factors import Factor
from queries.numbers import ValueGrid
from queries.person import Person
from queries.schema import format_schema, parse_schema
from tests.worlds import known

NOISE = DiscreteGaussian(Fraction(1000))
ADD_REMOVE, REPLACE_ONE = NeighboringRelation.ADD_REMOVE, NeighboringRelation.REPLACE_ONE
WHOLE = Domain(
    (
        CategoricalAttribute("group", ("a", "b")),
        IntegerAttribute("x", 0, 6, 3, missing=True, resolution=1),  # 0..2, 3..5, 6, empty
    )
)
RECORDS: list[tuple[str, float | None]] = list(itertools.product("ab", [0, 1, 2, 3, 5, 6, None]))
SUMS = [
    SummedValues("x", ()),
    SummedValues("x", ("group",)),
    SummedValues("x", ("x",), by_cells=True),
    SummedValues("x", ("group", "x"), by_cells=True),
    SummedValues("x", ("group",), by_cells=True),
    SummedValues("x", (), count_units=COUNT_UNITS[0]),
    SummedValues("x", ("group",), count_units=COUNT_UNITS[3]),
    SummedValues("x", ("group",), count_units=COUNT_UNITS[-1]),
    SummedValues("x", (), count_units=COUNT_UNITS[-1], squared=True),
    SummedValues("x", ("group",), count_units=COUNT_UNITS[0], squared=True),
    SummedValues("x", ("group",), count_units=COUNT_UNITS[5], squared=True),
]


@cache
def source_of(*records: tuple[str, float | None]) -> MemorySource:
    """Return what counts records; all sums of the same ones are counted by one."""
    table = pd.DataFrame(records, columns=["group", "x"]).astype({"group": object, "x": float})
    return MemorySource.from_frame(table, WHOLE)


def units(summed: SummedValues, records: list[tuple[str, float | None]]) -> NDArray[np.int64]:
    return Requested(SumNumbers(summed), NOISE).counted(Tables(source_of(*records)))


def owned_by(records: int) -> list[tuple[tuple[str, float | None], ...]]:
    """Return all records of a person who has so many: of several, at the ends of the values and of a cell."""
    some = RECORDS if records == 1 else [one for one in RECORDS if one[1] in (0, 2, 6, None)]
    return list(itertools.combinations_with_replacement(some, records))


@pytest.mark.parametrize("summed", SUMS, ids=str)
@pytest.mark.parametrize("persons", [1, 2])
@pytest.mark.parametrize("relation", list(NeighboringRelation))
def test_a_person_moves_sums_by_the_sensitivity_and_no_more(
    summed: SummedValues, persons: int, relation: NeighboringRelation
) -> None:
    options = Options(records_per_person=persons, neighboring_relation=relation)
    alone = [units(summed, list(own)) for own in owned_by(persons)]
    others = [units(summed, [])] if relation is NeighboringRelation.ADD_REMOVE else alone
    moved = [one - other for one in alone for other in others]
    most, squared = SumNumbers(summed).sensitivity(options)
    reached = max(int(np.abs(one).sum()) for one in moved), max(int((one**2).sum()) for one in moved)
    assert reached[0] <= most
    assert reached[1] <= squared
    groups = len(set(summed.scope) - {"x"}) or relation is NeighboringRelation.ADD_REMOVE
    if groups or summed.parts == 1:  # two records of one group do not differ in everything
        assert reached == (most, squared)
    if summed.parts == 1:
        assert squared == most**2


@pytest.mark.parametrize("summed", SUMS, ids=str)
def test_sums_are_those_of_the_values(summed: SummedValues) -> None:
    measured = SumMeasurement(summed, units(summed, RECORDS * 3), NOISE)
    cells = {0.0: 1.0, 1.0: 1.0, 2.0: 1.0, 3.0: 4.0, 5.0: 4.0, 6.0: 6.0}
    wanted = dict[tuple[object, ...], float]()
    for group, x in RECORDS * 3:
        own: dict[str, object] = {"group": group, "x": None if x is None else int(x) // 3}
        key = tuple(own[name] for name in summed.scope)
        wanted.setdefault(key, 0.0)
        if x is not None:
            wanted[key] += x - (cells[x] if summed.by_cells else 3.0)
    places: dict[str, list[object]] = {"group": ["a", "b"], "x": [0, 1, 2, None]}
    for place in np.ndindex(measured.sums.shape):
        key = tuple(places[name][cell] for name, cell in zip(summed.scope, place, strict=True))
        assert measured.values(WHOLE)[place] == pytest.approx(wanted[key], abs=1e-4)
        held = [x for group, x in RECORDS * 3 if x is not None and (not key or group == key[0])]
        if summed.count_units:
            assert measured.counts[place] == len(held)
        if summed.squared:
            squares = sum((x - 3.0) ** 2 for x in held)
            assert squares - 3e-4 <= measured.squares(WHOLE)[place] <= squares


@pytest.mark.parametrize(
    "given",
    [
        {"by_cells": True, "count_units": UNITS},
        {"count_units": 5},
        {"squared": True},
        {"clipped": True, "count_units": UNITS, "squared": True},
    ],
)
def test_what_does_not_go_together_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ScopeError, match="measured"):
        SummedValues("x", ("group",), **given)


@given(st.integers(1, 2**20), st.data())
def test_squares_of_places_are_whole_numbers_up_to_one_record(size: int, data: st.DataObject) -> None:
    grid = ValueGrid("values of x", 0, size - 1, 1, whole=True)
    assert grid.base_size == size
    place, top = data.draw(st.integers(0, size - 1)), max(size - 1, 1)
    exact = Fraction((2 * place - (size - 1)) ** 2, top**2) * UNITS
    assert grid.squares(np.array([place])).tolist() == [math.floor(exact)]
    words = grid.square_in_words(str(place), "//")
    assert eval(words) == math.floor(exact)  # noqa: S307


@given(
    st.lists(st.floats(-2, 3) | st.just(float("nan")), max_size=30), st.sampled_from([0.001, 0.1, 0.25, 1.0])
)
def test_sums_of_real_values_are_off_by_half_a_step_a_record(values: list[float], step: float) -> None:
    domain = Domain((NumericAttribute("x", (-1, 0, 0.5, 2), atoms=(0.0,), missing=True, resolution=step),))
    source = MemorySource.from_frame(pd.DataFrame({"x": np.array(values, dtype=float)}), domain)
    measured = SumMeasurement(
        SummedValues("x", ()),
        Requested(SumNumbers(SummedValues("x", ())), NOISE).counted(Tables(source)),
        NOISE,
    )
    held = [value for value in values if not math.isnan(value)]
    found = float(measured.values(domain)) + len(held) * float(measured.middles(domain)[0])
    assert abs(found - sum(np.clip(held, -1, 2))) <= len(held) * step / 2 + 1e-5 * (1 + len(held))


def test_an_attribute_whose_cells_tell_its_values_has_nothing_to_measure_by_cells() -> None:
    domain = Domain((IntegerAttribute("a", 0, 9, resolution=1), IntegerAttribute("b", 0, 9, 5, resolution=1)))
    assert list(opening_sums(domain)) == [SummedValues("b", ("b",), by_cells=True)]
    with pytest.raises(ScopeError, match="gives them no resolution"):
        SummedValues("c", ()).widths(Domain((IntegerAttribute("c", 0, 9),)))


# --- values of a person that are clipped ----------------------------------------------------------------

SPENT: list[tuple[str, float | None]] = list(itertools.product("ab", [-2, 0, 3, None]))
CLIPPED = [
    SummedValues("x", (), clipped=True),
    SummedValues("x", ("group",), clipped=True),
    SummedValues("x", (), clipped=True, count_units=COUNT_UNITS[0]),
    SummedValues("x", ("group",), clipped=True, count_units=COUNT_UNITS[0]),
    SummedValues("x", ("group",), clipped=True, count_units=COUNT_UNITS[-1]),
]


@cache
def clipped_domain(records: int, most: float) -> Domain:
    person = Person("id", records, clips=(("x", most),))
    x = IntegerAttribute("x", -2, 3, 2, missing=True, resolution=1)
    return Domain((CategoricalAttribute("group", ("a", "b")), x), person=person)


def clipped_units(
    summed: SummedValues, domain: Domain, owned: list[list[tuple[str, float | None]]]
) -> NDArray[np.int64]:
    rows = [(*record, str(number)) for number, own in enumerate(owned) for record in own]
    return counted_with_ids(summed, domain, *rows)


def counted_with_ids(
    summed: SummedValues, domain: Domain, *rows: tuple[str, float | None, str]
) -> NDArray[np.int64]:
    return Requested(SumNumbers(summed), NOISE).counted(Tables(source_with_ids(domain, domain.person, *rows)))


@cache
def source_with_ids(
    domain: Domain, person: Person | None, *rows: tuple[str, float | None, str]
) -> MemorySource:
    """Return what counts records with ids; domains compare without their person."""
    types = {"group": object, "x": float, "id": object}
    return MemorySource.from_frame(pd.DataFrame(rows, columns=[*types]).astype(types), domain, bytes(32))


@pytest.mark.parametrize("summed", CLIPPED, ids=str)
@pytest.mark.parametrize("relation", list(NeighboringRelation))
def test_a_person_moves_clipped_sums_by_one_records_units_whatever_the_records(
    summed: SummedValues, relation: NeighboringRelation
) -> None:
    domain, options = clipped_domain(3, 3.0), Options(records_per_person=3, neighboring_relation=relation)
    others: list[list[tuple[str, float | None]]] = [[("a", 3.0), ("b", 1.0)]]
    before = clipped_units(summed, domain, others)
    alone = [
        clipped_units(summed, domain, [*others, list(own)]) - before
        for own in itertools.combinations_with_replacement(SPENT, 3)
    ]
    moved = np.stack(alone).reshape(len(alone), -1)
    if relation is REPLACE_ONE:
        moved = (moved[:, None] - moved).reshape(-1, moved.shape[1])
    most_moved = int(np.abs(moved).sum(axis=1).max())
    bound, squared = SumNumbers(summed).sensitivity(options)
    assert bound == (1 if relation is NeighboringRelation.ADD_REMOVE else 2) * (
        UNITS + 3 * summed.count_units
    )
    assert most_moved <= bound
    assert int((moved**2).sum(axis=1).max()) <= squared
    if not summed.count_units:
        assert bound - 4 * 3 <= most_moved
        assert squared == bound**2


@pytest.mark.parametrize("summed", CLIPPED, ids=str)
def test_a_record_without_an_id_is_clipped_alone_and_moves_nothing_of_others(summed: SummedValues) -> None:
    domain = clipped_domain(3, 2.0)
    counted = partial(
        counted_with_ids, summed, replace(domain, person=replace(known(domain.person), empty="person"))
    )
    others = [("a", 3.0, "0"), ("b", 1.0, "0"), ("a", 3.0, ""), ("b", -2.0, ""), ("a", 1.0, "1")]
    bound, squared = SumNumbers(summed).sensitivity(Options(records_per_person=3))
    nobody = counted()
    for record in SPENT:
        moved = counted(*others, (*record, "")) - counted(*others)
        assert int(np.abs(moved).sum()) <= bound
        assert int((moved**2).sum()) <= squared
        assert np.array_equal(moved, counted((*record, "")) - nobody)


def test_numbers_of_values_beside_clipped_sums_move_by_a_persons_records() -> None:
    """Of one sign in one group, and of the other one in another: the bound is reached but for rounding."""
    domain, summed = clipped_domain(3, 6.0), CLIPPED[3]
    one = clipped_units(summed, domain, [[("a", 3.0)] * 3])
    other = clipped_units(summed, domain, [[("b", -2.0)] * 3])
    options = Options(records_per_person=3, neighboring_relation=NeighboringRelation.REPLACE_ONE)
    bound, squared = SumNumbers(summed).sensitivity(options)
    assert bound - 16 <= int(np.abs(one - other).sum()) <= bound
    assert int(((one - other)[1] ** 2).sum()) == 2 * (3 * UNITS) ** 2
    assert int(((one - other) ** 2).sum()) <= squared
    alone = clipped_units(summed, domain, [])
    bound, squared = SumNumbers(summed).sensitivity(replace(options, neighboring_relation=ADD_REMOVE))
    assert bound - 8 <= int(np.abs(one - alone).sum()) <= bound
    assert squared - 2**26 <= int(((one - alone) ** 2).sum()) <= squared


def test_a_persons_values_are_scaled_down_together_and_others_are_left() -> None:
    domain, summed = clipped_domain(5, 4.0), CLIPPED[1]
    owned: list[list[tuple[str, float | None]]] = [
        [("a", 3.0), ("b", 3.0), ("b", -2.0)],
        [("a", 1.0), ("b", None)],
    ]
    found = SumMeasurement(summed, clipped_units(summed, domain, owned), NOISE).values(domain)
    # 3 and 3 and -2 come to 8: halved, towards 0.
    assert found.tolist() == pytest.approx([1 + 1, 1 - 1])
    kept = clipped_domain(5, 8.0)
    found = SumMeasurement(summed, clipped_units(summed, kept, owned), NOISE).values(kept)
    assert found.tolist() == pytest.approx([3 + 1, 3 - 2])


@pytest.mark.parametrize(
    ("attribute", "most", "message"),
    [
        (IntegerAttribute("x", 0, 9), 3.0, "needs a resolution"),
        (IntegerAttribute("x", -1, 9, resolution=2), 3.0, "multiples of the resolution"),
        (IntegerAttribute("x", 0, 9, resolution=2), 1.0, "at least one step"),
        (IntegerAttribute("x", 0, 9, resolution=1), 1e9, "at most 1,048,576"),
        (CategoricalAttribute("x", ("a",)), 3.0, "needs a resolution"),
    ],
)
def test_a_clip_that_cannot_be_is_refused(attribute: Attribute, most: float, message: str) -> None:
    with pytest.raises(DomainError, match=message):
        Domain((attribute,), person=Person("id", 2, clips=(("x", most),)))
    for none in (0, -1, float("inf"), float("nan"), True, "many"):
        with pytest.raises(DomainError, match="a number above 0"):
            Person("id", clips=(("x", none),))  # type: ignore[arg-type]


def test_a_schema_keeps_resolutions_and_clips() -> None:
    domain = clipped_domain(5, 4.0)
    assert "clip" in format_schema(domain)
    again = parse_schema(format_schema(domain))
    assert again == domain
    assert again.person == domain.person


# --- sums over the records that questions count ----------------------------------------------------------


def question(*cells: Sequence[int]) -> LinearQuery:
    """Return the question of some cells: of a group, and of values."""
    held = np.zeros(WHOLE.scope_shape(("group", "x")), dtype=bool)
    held[tuple(np.array(cells).T)] = True
    return LinearQuery(WHOLE, (Factor.where(("group", "x"), held),))


def random_lists(count: int) -> list[tuple[LinearQuery, ...]]:
    """Return lists of different questions, of one to five; those that hold for some cell."""
    draw, found = np.random.default_rng(11), list[tuple[LinearQuery, ...]]()
    while len(found) < count:
        masks = draw.random((draw.integers(1, 6), 2, 4)) < draw.choice([0.2, 0.5, 0.8])
        rows = [question(*np.argwhere(mask).tolist()) for mask in masks if mask.any()]
        found.append(tuple({row.to_json(): row for row in rows}.values()))
    return [rows for rows in found if rows]


GROUPS = (question(*itertools.product([0], range(4))), question(*itertools.product([1], range(4))))
LISTS = [GROUPS, (*GROUPS, LinearQuery.everything(WHOLE)), (question((0, 0)),), *random_lists(2)]
KINDS = [
    {},
    {"count_units": COUNT_UNITS[0]},
    {"count_units": COUNT_UNITS[-1]},
    {"count_units": COUNT_UNITS[3], "squared": True},
]


def of_rows(rows: tuple[LinearQuery, ...], **given: Any) -> SummedRows:
    return SummedRows("x", QuestionNumbers(rows).scope, rows=rows, **given)


def most_that_meet(rows: tuple[LinearQuery, ...]) -> int:
    return max(sum(int(row.answer(cell)) for row in rows) for cell in cells_of_whole()) // UNITS


def cells_of_whole() -> list[Histogram]:
    whole = np.identity(8, dtype=np.int64).reshape(8, 2, 4)
    return [Histogram(WHOLE, one) for one in whole]


@pytest.mark.parametrize("rows", LISTS, ids=len)
@pytest.mark.parametrize("given", KINDS, ids=str)
@pytest.mark.parametrize("persons", [1, 2])
def test_a_person_moves_sums_of_questions_by_the_sensitivity_and_no_more(
    rows: tuple[LinearQuery, ...], given: dict[str, Any], persons: int
) -> None:
    """All tables of one person's records, beside nobody's and beside others', under both relations."""
    summed = of_rows(rows, **given)
    owned = owned_by(persons)
    beside: list[list[tuple[str, float | None]]] = [[], [("a", 1.0), ("b", 5.0)]]
    for others in beside:
        moved = np.stack([units(summed, [*others, *own]).ravel() for own in owned])
        added = moved - units(summed, others).ravel()
        replaced = (moved[:, None] - moved[None]).reshape(-1, moved.shape[1])
        for relation, found in zip((ADD_REMOVE, REPLACE_ONE), (added, replaced), strict=True):
            options = Options(records_per_person=persons, neighboring_relation=relation)
            most, squared = SumNumbers(summed).sensitivity(options)
            alone = SumNumbers(replace(SummedValues("x", ("group",)), **given)).sensitivity(options)
            assert (most, squared) == tuple(most_that_meet(rows) * one for one in alone)
            assert int(np.abs(found).sum(axis=1).max()) <= most
            assert int((found**2).sum(axis=1).max()) <= squared


@pytest.mark.parametrize("persons", [1, 2])
def test_the_sensitivity_of_sums_of_questions_is_reached(persons: int) -> None:
    """From one end of the values to the other in the same questions, and in others."""
    rows = (*GROUPS, LinearQuery.everything(WHOLE))
    same, apart = of_rows(rows[2:]), of_rows(GROUPS, count_units=COUNT_UNITS[0])
    options = Options(records_per_person=persons, neighboring_relation=REPLACE_ONE)
    for summed, one, other in ((same, ("a", 6.0), ("a", 0.0)), (apart, ("a", 6.0), ("b", 0.0))):
        moved = units(summed, [one] * persons) - units(summed, [other] * persons)
        assert int((moved**2).sum()) == SumNumbers(summed).sensitivity(options)[1]
    moved = units(of_rows(rows), [("a", 6.0)] * persons)
    most, squared = SumNumbers(of_rows(rows)).sensitivity(replace(options, neighboring_relation=ADD_REMOVE))
    assert (int(moved.sum()), int((moved**2).sum())) == (most, squared)
    assert (most, squared) == (2 * persons * UNITS, 2 * (persons * UNITS) ** 2)


@pytest.mark.parametrize("rows", LISTS, ids=len)
def test_sums_of_questions_are_those_of_the_records_that_they_count(rows: tuple[LinearQuery, ...]) -> None:
    summed = of_rows(rows, count_units=COUNT_UNITS[0], squared=True)
    measured = SumMeasurement(summed, units(summed, RECORDS * 3), NOISE)
    for place, row in enumerate(rows):
        weights = LinearQuery(WHOLE, row.factors).weights() if row.scope else None
        held = [x for group, x in RECORDS * 3 if x is not None and counts(row, weights, group, x)]
        assert measured.counts[place] == len(held)
        assert measured.values(WHOLE)[place] == pytest.approx(sum(x - 3.0 for x in held), abs=1e-4)
        assert measured.squares(WHOLE)[place] == pytest.approx(sum((x - 3.0) ** 2 for x in held), abs=1e-3)


def counts(row: LinearQuery, weights: NDArray[np.int64] | None, group: str, x: float) -> bool:
    """Tell whether a question counts a record."""
    cell = {"group": "ab".index(group), "x": int(x) // 3}
    return weights is None or bool(weights[tuple(cell[name] for name in row.scope)])


@pytest.mark.parametrize("relation", list(NeighboringRelation))
def test_values_are_clipped_of_all_records_of_a_person_and_not_question_by_question(
    relation: NeighboringRelation,
) -> None:
    """A person with the most in each of three disjoint questions moves their sums by it once."""
    person = Person("id", 3, clips=(("x", 3.0),))
    groups, x = CategoricalAttribute("group", ("a", "b", "c")), IntegerAttribute("x", -3, 3, resolution=1)
    domain = Domain((groups, x), person=person)
    rows = tuple(LinearQuery.cells(domain, {"group": (cell, cell)}) for cell in range(3))
    summed = SummedRows("x", ("group",), clipped=True, count_units=COUNT_UNITS[0], rows=rows)
    options = Options(records_per_person=3, neighboring_relation=relation)
    most, squared = SumNumbers(summed).sensitivity(options)
    replaced = relation is REPLACE_ONE
    assert most == (1 + replaced) * (UNITS + 3 * UNITS)
    assert squared == (4 * UNITS**2 + 18 * UNITS**2 if replaced else UNITS**2 + 9 * UNITS**2)

    def counted(records: Sequence[tuple[str, float]]) -> NDArray[np.int64]:
        return counted_with_ids(summed, domain, *((*one, "1") for one in records)).ravel()

    choices = list(itertools.product("abc", [-3.0, 3.0]))
    owned = [counted(own) for own in itertools.combinations_with_replacement(choices, 3)]
    nobody = counted([])
    moves = [one - other for one in owned for other in (owned if replaced else [nobody])]
    assert max(int(np.abs(one).sum()) for one in moves) <= most
    assert max(int((one**2).sum()) for one in moves) <= squared
    three = counted([("a", 3.0), ("b", 3.0), ("c", 3.0)])
    assert int(np.abs(three[:3]).sum()) <= UNITS


def test_sums_of_questions_of_cut_cells_or_of_other_scopes_are_refused() -> None:
    half = LinearQuery(WHOLE, (Factor(("group",), np.array([UNITS // 2, UNITS])),))
    for summed in (of_rows((half,)), of_rows(GROUPS, by_cells=True), of_rows((GROUPS[0], GROUPS[0])),
                   SummedRows("x", ("group", "x"), rows=GROUPS), SummedRows("x", ())):  # fmt: skip
        with pytest.raises(FormError):
            require_measurable(WHOLE, SumNumbers(summed))
    require_measurable(WHOLE, SumNumbers(of_rows(GROUPS, count_units=COUNT_UNITS[2])))


@pytest.mark.parametrize("summed", SUMS, ids=str)
def test_a_record_moves_sums_as_far_beside_others(summed: SummedValues) -> None:
    most, most_squared = SumNumbers(summed).sensitivity(Options())
    for others in itertools.combinations_with_replacement(RECORDS[::5], 2):
        before = units(summed, list(others))
        for record in RECORDS:
            moved = units(summed, [*others, record]) - before
            assert int(np.abs(moved).sum()) <= most
            assert int((moved**2).sum()) <= most_squared
