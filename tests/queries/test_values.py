"""Values: what a value is to an attribute agrees with the cell that it falls into."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queries import Attribute, CategoricalAttribute, IntegerAttribute, NumericAttribute
from queries.values import DROPPED, Reading, values_of

AGE = IntegerAttribute("age", 10, 19)
INCOME = NumericAttribute("income", (0, 10, 20.5))
SEX = CategoricalAttribute("sex", ("f", 3, True))


@pytest.mark.parametrize(
    ("attribute", "reading", "values"),
    [
        (AGE, Reading.EMPTY, [None, math.nan]), (AGE, Reading.DECLARED, ["12", 12.0, "10", "19"]),
        (AGE, Reading.LOW, ["9"]), (AGE, Reading.HIGH, [20, "1e9"]),
        (AGE, Reading.FRACTION, ["12.5", Decimal("99.5")]),
        (AGE, Reading.NO_NUMBER, ["twelve", math.inf, True, datetime.date(2020, 1, 2)]),
        (INCOME, Reading.EMPTY, ["", pd.NA]), (INCOME, Reading.DECLARED, ["20.5"]),
        (INCOME, Reading.LOW, [-1e-9]), (INCOME, Reading.HIGH, [np.float32(21)]),
        (INCOME, Reading.NO_NUMBER, ["1,000"]), (SEX, Reading.EMPTY, [pd.NaT]),
        (SEX, Reading.DECLARED, ["f", "3.0", "TRUE"]), (SEX, Reading.UNDECLARED, ["F", 4]),
    ],
)  # fmt: skip
def test_what_a_value_is(attribute: Attribute, reading: Reading, values: list[object]) -> None:
    assert [values_of(attribute).reading(value) for value in values] == [reading] * len(values)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.decimals(),
    st.text(max_size=5),
    st.text("0123456789+-.eE \t", max_size=6),
    st.sampled_from(["f", "3", "03", "true", "True", "10", "19", "20.5", "nan", "inf"]),
)


@given(VALUES, st.sampled_from([AGE, INCOME, SEX]), st.booleans(), st.booleans())
def test_a_reading_agrees_with_the_cell(
    value: object, attribute: Attribute, missing: bool, other: bool
) -> None:
    declared: Attribute = replace(attribute, missing=missing, other=other)
    code = values_of(declared).encode(value)
    reading = values_of(declared).reading(value)
    if reading is Reading.EMPTY:
        assert code == (declared.missing_code if missing else DROPPED)
    elif reading in (Reading.FRACTION, Reading.NO_NUMBER, Reading.UNDECLARED):
        assert code == (declared.other_code if other else DROPPED)
    else:
        assert 0 <= code < declared.base_size
    if reading is Reading.LOW:
        assert code == 0
    if reading is Reading.HIGH:
        assert code == declared.base_size - 1
