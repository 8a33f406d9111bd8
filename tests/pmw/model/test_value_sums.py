"""Sums of values: what one record, and one person, moves, by enumeration; and what the numbers say."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.data.memory import MemorySource
from pmw.loop import RequestedSum, counted_sum
from pmw.model import SumMeasurement, SummedValues, summed_attributes
from pmw.privacy.budget import NeighboringRelation
from pmw.privacy.noise import DiscreteGaussian
from pmw.public.charges import sum_sensitivity
from pmw.public.options import Options
from queries import UNITS, CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute
from queries.errors import ScopeError

NOISE = DiscreteGaussian(Fraction(1000))
WHOLE = Domain(
    (
        CategoricalAttribute("group", ("a", "b")),
        IntegerAttribute("x", 0, 4, 2, missing=True, resolution=1),  # 0..1, 2..3, 4, empty
    )
)
RECORDS: list[tuple[str, float | None]] = list(itertools.product("ab", [0, 1, 2, 3, 4, None]))
SUMS = [
    SummedValues("x", ()),
    SummedValues("x", ("group",)),
    SummedValues("x", ("x",), by_cells=True),
    SummedValues("x", ("group", "x"), by_cells=True),
    SummedValues("x", ("group",), by_cells=True),
]


def frame(records: list[tuple[str, float | None]]) -> pd.DataFrame:
    return pd.DataFrame(records, columns=["group", "x"]).astype({"group": object, "x": float})


def units(summed: SummedValues, records: list[tuple[str, float | None]]) -> NDArray[np.int64]:
    return counted_sum(RequestedSum(summed, NOISE), MemorySource.from_frame(frame(records), WHOLE))


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
    most = sum_sensitivity(options)
    assert max(int(np.abs(one).sum()) for one in moved) == most
    assert max(int((one**2).sum()) for one in moved) == most**2


@pytest.mark.parametrize("summed", SUMS, ids=str)
def test_a_record_moves_sums_as_far_beside_others(summed: SummedValues) -> None:
    for others in itertools.combinations_with_replacement(RECORDS, 2):
        before = units(summed, list(others))
        for record in RECORDS:
            moved = units(summed, [*others, record]) - before
            assert int(np.abs(moved).sum()) <= UNITS


@pytest.mark.parametrize("summed", SUMS, ids=str)
def test_sums_are_those_of_the_values(summed: SummedValues) -> None:
    measured = SumMeasurement(summed, units(summed, RECORDS * 3), NOISE)
    cells = {0.0: 0.5, 1.0: 0.5, 2.0: 2.5, 3.0: 2.5, 4.0: 4.0}
    wanted = dict[tuple[object, ...], float]()
    for group, x in RECORDS * 3:
        own: dict[str, object] = {"group": group, "x": None if x is None else int(x) // 2}
        key = tuple(own[name] for name in summed.scope)
        wanted.setdefault(key, 0.0)
        if x is not None:
            wanted[key] += x - (cells[x] if summed.by_cells else 2.0)
    places: dict[str, list[object]] = {"group": ["a", "b"], "x": [0, 1, 2, None]}
    for place in np.ndindex(measured.units.shape):
        key = tuple(places[name][cell] for name, cell in zip(summed.scope, place, strict=True))
        assert measured.values(WHOLE)[place] == pytest.approx(wanted[key], abs=1e-4)


@given(
    st.lists(st.floats(-2, 3) | st.just(float("nan")), max_size=30),
    st.sampled_from([0.001, 0.1, 0.25, 1.0]),
)
def test_sums_of_real_values_are_off_by_half_a_step_a_record(values: list[float], step: float) -> None:
    domain = Domain((NumericAttribute("x", (-1, 0, 0.5, 2), atoms=(0.0,), missing=True, resolution=step),))
    source = MemorySource.from_frame(pd.DataFrame({"x": np.array(values, dtype=float)}), domain)
    measured = SumMeasurement(
        SummedValues("x", ()), counted_sum(RequestedSum(SummedValues("x", ()), NOISE), source), NOISE
    )
    held = [value for value in values if not math.isnan(value)]
    found = float(measured.values(domain)) + len(held) * float(measured.middles(domain)[0])
    assert abs(found - sum(np.clip(held, -1, 2))) <= len(held) * step / 2 + 1e-5 * (1 + len(held))


def test_an_attribute_whose_cells_tell_its_values_has_nothing_to_measure_by_cells() -> None:
    domain = Domain((IntegerAttribute("a", 0, 9, resolution=1), IntegerAttribute("b", 0, 9, 5, resolution=1)))
    assert summed_attributes(domain) == ["b"]
    with pytest.raises(ScopeError, match="gives them no resolution"):
        SummedValues("c", ()).widths(Domain((IntegerAttribute("c", 0, 9),)))
