"""Numbers: the steps in which the values of an attribute are summed, where its schema tells none."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queries import IntegerAttribute, NumericAttribute

FLOATS = st.floats(-1e300, 1e300) | st.integers(-(10**15), 10**15).map(float) | st.floats(-1e-5, 1e-5)
WHOLE = st.integers(-(2**53) + 1, 2**53 - 1)


@pytest.mark.parametrize(
    ("ends", "wanted"),
    [
        ((0, 1), 0.001), ((17, 90), 0.05), ((0, 500), 0.5), ((0, 999), 0.5), ((0, 1000), 1),
        ((0, 24_500), 20), ((0, 0.03), 2e-5), ((0, 1e7), 10_000), ((-50_000, 1_000_000), 1000),
        ((-1e308, 7e307), 1e305), ((0, 5e-324), None),
    ],
)  # fmt: skip
def test_numbers_have_about_a_thousand_round_steps_between_their_ends(
    ends: tuple[float, float], wanted: float | None
) -> None:
    assert NumericAttribute("a", ends).usual_resolution == wanted


@pytest.mark.parametrize(
    ("ends", "wanted"),
    [((17, 90), 1), ((0, 1), 1), ((0, 1999), 1), ((0, 2000), 2), ((0, 10**7), 10_000), ((5, 5), None)],
)
def test_whole_numbers_have_whole_steps(ends: tuple[int, int], wanted: int | None) -> None:
    width = max(1, (ends[1] - ends[0]) // 10)
    assert IntegerAttribute("a", *ends, width).usual_resolution == wanted
    if ends[0] < ends[1]:
        assert NumericAttribute("a", ends, integer=True).usual_resolution == wanted


@given(st.lists(FLOATS, min_size=2, max_size=5, unique=True).map(sorted))
def test_the_usual_step_of_numbers_is_round_follows_from_the_ends_and_is_never_refused(
    edges: list[float],
) -> None:
    step = NumericAttribute("a", tuple(edges)).usual_resolution
    assert step == NumericAttribute("a", (edges[0], edges[-1]), atoms=(edges[0],)).usual_resolution
    width = Fraction(edges[-1]) - Fraction(edges[0])
    assert (step is None) <= (width < 1e-318)
    if step is not None:
        NumericAttribute("a", tuple(edges), resolution=step)
        if width > 1e-300:
            assert f"{step:e}"[:4] in ("1.00", "2.00", "5.00")
            assert 999 < width / Fraction(step) < 2501


@given(WHOLE, WHOLE)
def test_the_usual_step_of_whole_numbers_is_whole_and_never_refused(one: int, other: int) -> None:
    low, high = sorted((one, other))
    width = max(1, (high - low) // 50)
    step = IntegerAttribute("a", low, high, width).usual_resolution
    assert (step is None) == (low == high)
    if step is not None:
        assert IntegerAttribute("a", low, high, width, resolution=step).grid() is not None
        assert str(int(step)).rstrip("0") in ("1", "2", "5")
        assert step == int(step) >= 1
        assert step == 1 or 1000 <= Fraction(high - low, int(step)) <= 2500


def test_parts_of_the_round_steps_are_few() -> None:
    steps = [NumericAttribute("a", (0, end)).usual_resolution or 0 for end in range(1, 3000)]
    assert all(low <= high for low, high in pairwise(steps))
    assert sorted(set(steps)) == [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2]
