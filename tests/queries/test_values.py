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
    ("attribute", "value", "reading"),
    [
        (AGE, None, Reading.EMPTY),
        (AGE, math.nan, Reading.EMPTY),
        (INCOME, "", Reading.EMPTY),
        (INCOME, pd.NA, Reading.EMPTY),
        (SEX, pd.NaT, Reading.EMPTY),
        (AGE, "12", Reading.DECLARED),
        (AGE, 12.0, Reading.DECLARED),
        (AGE, "10", Reading.DECLARED),
        (AGE, "19", Reading.DECLARED),
        (AGE, "9", Reading.LOW),
        (AGE, 20, Reading.HIGH),
        (AGE, "1e9", Reading.HIGH),
        (AGE, "12.5", Reading.FRACTION),
        (AGE, Decimal("99.5"), Reading.FRACTION),
        (AGE, "twelve", Reading.NO_NUMBER),
        (AGE, math.inf, Reading.NO_NUMBER),
        (AGE, True, Reading.NO_NUMBER),
        (AGE, datetime.date(2020, 1, 2), Reading.NO_NUMBER),
        (INCOME, "20.5", Reading.DECLARED),
        (INCOME, -1e-9, Reading.LOW),
        (INCOME, np.float32(21), Reading.HIGH),
        (INCOME, "1,000", Reading.NO_NUMBER),
        (SEX, "f", Reading.DECLARED),
        (SEX, "3.0", Reading.DECLARED),
        (SEX, "TRUE", Reading.DECLARED),
        (SEX, "F", Reading.UNDECLARED),
        (SEX, 4, Reading.UNDECLARED),
    ],
)
def test_what_a_value_is(attribute: Attribute, value: object, reading: Reading) -> None:
    assert values_of(attribute).reading(value) is reading


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
