"""Sums of values: what one record, and one person, moves, by enumeration; and what the numbers say."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.data.memory import MemorySource
from pmw.loop import Requested, Tables
from pmw.model import COUNT_UNITS, SumMeasurement, SummedValues, opening_sums
from pmw.privacy.budget import NeighboringRelation
from pmw.privacy.noise import DiscreteGaussian
from pmw.public.charges import SumNumbers
from pmw.public.options import Options
from queries import UNITS, CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute
from queries.domain import Attribute
from queries.errors import DomainError, ScopeError
from queries.numbers import ValueGrid
from queries.person import Person
from queries.schema import format_schema, parse_schema

NOISE = DiscreteGaussian(Fraction(1000))
ADD_REMOVE = NeighboringRelation.ADD_REMOVE
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


def frame(records: list[tuple[str, float | None]]) -> pd.DataFrame:
    return pd.DataFrame(records, columns=["group", "x"]).astype({"group": object, "x": float})


@cache
def source_of(*records: tuple[str, float | None]) -> MemorySource:
    """Return what counts records; all sums of the same ones are counted by one."""
    return MemorySource.from_frame(frame(list(records)), WHOLE)


def units(summed: SummedValues, records: list[tuple[str, float | None]]) -> NDArray[np.int64]:
    return Requested(SumNumbers(summed), NOISE).counted(Tables(source_of(*records)))


@pytest.mark.parametrize("summed", SUMS, ids=str)
@pytest.mark.parametrize("persons", [1, 2])
@pytest.mark.parametrize("relation", list(NeighboringRelation))
def test_a_person_moves_sums_by_the_sensitivity_and_no_more(
    summed: SummedValues, persons: int, relation: NeighboringRelation
) -> None:
    options = Options(records_per_person=persons, neighboring_relation=relation)
    alone = {
        own: units(summed, list(own)) for own in itertools.combinations_with_replacement(RECORDS, persons)
    }
    nobody = units(summed, [])
    others = [nobody] if relation is NeighboringRelation.ADD_REMOVE else list(alone.values())
    moved = [one - other for one in alone.values() for other in others]
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
def test_a_record_moves_sums_as_far_beside_others(summed: SummedValues) -> None:
    for others in itertools.combinations_with_replacement(RECORDS, 2):
        before = units(summed, list(others))
        for record in RECORDS:
            moved = units(summed, [*others, record]) - before
            assert int(np.abs(moved).sum()) <= SumNumbers(summed).sensitivity(Options())[0]
            assert int((moved**2).sum()) <= SumNumbers(summed).sensitivity(Options())[1]


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
    st.lists(st.floats(-2, 3) | st.just(float("nan")), max_size=30),
    st.sampled_from([0.001, 0.1, 0.25, 1.0]),
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

SPENT: list[tuple[str, float | None]] = list(itertools.product("ab", [-2, 0, 1, 3, None]))
CLIPPED = [
    SummedValues("x", (), clipped=True),
    SummedValues("x", ("group",), clipped=True),
    SummedValues("x", (), clipped=True, count_units=COUNT_UNITS[0]),
    SummedValues("x", ("group",), clipped=True, count_units=COUNT_UNITS[0]),
    SummedValues("x", ("group",), clipped=True, count_units=COUNT_UNITS[-1]),
]


def clipped_domain(records: int, most: float) -> Domain:
    person = Person("id", records, clips=(("x", most),))
    x = IntegerAttribute("x", -2, 3, 2, missing=True, resolution=1)
    return Domain((CategoricalAttribute("group", ("a", "b")), x), person=person)


def clipped_units(
    summed: SummedValues, domain: Domain, owned: list[list[tuple[str, float | None]]]
) -> NDArray[np.int64]:
    rows = [(*record, str(number)) for number, own in enumerate(owned) for record in own]
    assert domain.person is not None
    return Requested(SumNumbers(summed), NOISE).counted(Tables(clipped_source(domain.person, *rows)))


@cache
def clipped_source(person: Person, *rows: tuple[str, float | None, str]) -> MemorySource:
    """Return what counts records; all sums of the same ones, clipped alike, are counted by one."""
    ((_, most),) = person.clips
    assert person.records is not None
    domain = clipped_domain(person.records, most)
    table = pd.DataFrame(rows, columns=["group", "x", "id"]).astype(
        {"group": object, "x": float, "id": object}
    )
    return MemorySource.from_frame(table, domain, bytes(32))


@pytest.mark.parametrize("summed", CLIPPED, ids=str)
@pytest.mark.parametrize("most", [2.0, 3.0])
@pytest.mark.parametrize("relation", list(NeighboringRelation))
def test_a_person_moves_clipped_sums_by_one_records_units_whatever_the_records(
    summed: SummedValues, most: float, relation: NeighboringRelation
) -> None:
    domain, options = clipped_domain(3, most), Options(records_per_person=3, neighboring_relation=relation)
    others: list[list[tuple[str, float | None]]] = [[("a", 3.0), ("b", 1.0)]]
    before = clipped_units(summed, domain, others)
    alone = [
        clipped_units(summed, domain, [*others, list(own)]) - before
        for own in itertools.combinations_with_replacement(SPENT, 3)
    ]
    moves = [one - other for one in alone for other in alone]
    moved = alone if relation is NeighboringRelation.ADD_REMOVE else moves
    most_moved = max(int(np.abs(one).sum()) for one in moved)
    bound, squared = SumNumbers(summed).sensitivity(options)
    assert bound == (1 if relation is NeighboringRelation.ADD_REMOVE else 2) * (
        UNITS + 3 * summed.count_units
    )
    assert most_moved <= bound
    assert max(int((one**2).sum()) for one in moved) <= squared
    if not summed.count_units:
        assert bound - 4 * most <= most_moved
        assert squared == bound**2


@pytest.mark.parametrize("summed", CLIPPED, ids=str)
@pytest.mark.parametrize("most", [2.0, 3.0])
def test_a_record_without_an_id_is_clipped_alone_and_moves_nothing_of_others(
    summed: SummedValues, most: float
) -> None:
    person = replace(clipped_domain(3, most).person or Person("id"), empty="person")
    domain = replace(clipped_domain(3, most), person=person)

    def counted(*rows: tuple[str, float | None, str]) -> NDArray[np.int64]:
        table = pd.DataFrame(rows, columns=["group", "x", "id"]).astype(
            {"group": object, "x": float, "id": object}
        )
        source = MemorySource.from_frame(table, domain, bytes(32))
        return Requested(SumNumbers(summed), NOISE).counted(Tables(source))

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


@pytest.mark.parametrize("most", [0, -1, float("inf"), float("nan"), True, "many"])
def test_a_clip_is_a_number_above_0(most: object) -> None:
    with pytest.raises(DomainError, match="a number above 0"):
        Person("id", clips=(("x", most),))  # type: ignore[arg-type]


def test_a_schema_keeps_resolutions_and_clips() -> None:
    domain = clipped_domain(5, 4.0)
    assert "clip" in format_schema(domain)
    again = parse_schema(format_schema(domain))
    assert again == domain
    assert again.person == domain.person
