from __future__ import annotations

import math
from fractions import Fraction

import pytest

from benchmarks.sparse_variants import VARIANTS, closed_form_lines, exponential_mechanism_accuracy
from pmw.errors import BudgetError
from pmw.research.sparse_vectors import algorithm_1, algorithm_2, flawed

# The scales that the table prints, at epsilon 1 and c = 3.
SCALES = {
    "0": None,
    "2/e": Fraction(2),
    "4/e": Fraction(4),
    "4/(3e)": Fraction(4, 3),
    "2c/e": Fraction(6),
    "4c/e": Fraction(12),
}


@pytest.mark.parametrize("number", [1, 2])
def test_the_table_prints_the_scales_of_the_private_algorithms(number: int) -> None:
    variant = VARIANTS[number - 1]
    sparse = {1: algorithm_1, 2: algorithm_2}[number](epsilon=1, update_limit=3)
    assert sparse.test.threshold_scale == SCALES[variant.threshold_scale]
    assert sparse.test.query_scale == SCALES[variant.test_scale]
    assert sparse.redraw == variant.redrawn


@pytest.mark.parametrize("number", [3, 4, 5, 6])
def test_the_table_prints_the_scales_of_the_flawed_algorithms(number: int) -> None:
    variant = VARIANTS[number - 1]
    published = {
        3: flawed.algorithm_3(epsilon=1, update_limit=3),
        4: flawed.algorithm_4(epsilon=1, update_limit=3),
        5: flawed.algorithm_5(epsilon=1),
        6: flawed.algorithm_6(epsilon=1),
    }[number]
    assert published.threshold_noise.scale == SCALES[variant.threshold_scale]
    noise = published.query_noise
    assert (None if noise is None else noise.scale) == SCALES[variant.test_scale]
    assert (published.update_limit is not None) == variant.stops
    assert published.releases == (variant.tells != "above")


def test_the_exponential_mechanism_finds_the_best_with_probability_one_minus_beta() -> None:
    alpha = exponential_mechanism_accuracy(1000, epsilon=0.5, beta=0.1)
    weight = math.exp(0.5 * alpha)
    assert weight / (999 + weight) == pytest.approx(0.9)


def test_the_exponential_mechanism_needs_something_to_choose_from() -> None:
    with pytest.raises(BudgetError, match="queries >= 2"):
        exponential_mechanism_accuracy(1, epsilon=1, beta=0.1)


def test_closed_forms_agree_with_the_paper() -> None:
    # alpha_svt = 8 (ln k + ln(2/beta)), alpha_em = ln(k - 1) + ln((1 - beta)/beta): less than an eighth.
    for line in closed_form_lines():
        ratio, exact = line["ratio"], line["alpha_svt_exact"]
        assert isinstance(ratio, float)
        assert ratio > 8
        assert isinstance(exact, float)
        assert exact < float(str(line["alpha_svt"])) / 2.9  # the theorem is a union bound, and a loose one
        assert exact > 2 * float(str(line["alpha_em"]))  # and yet the finding holds for what really happens
