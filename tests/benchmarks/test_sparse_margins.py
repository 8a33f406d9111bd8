from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.sparse_margins import (
    APPROXIMATE,
    PURE,
    STREAMS,
    TEXTBOOK,
    THEOREM,
    VARIANTS,
    Scales,
    Stream,
    closed_form_lines,
    exponential_mechanism_accuracy,
    log_success,
    margin_lines,
)
from pmw.errors import BudgetError
from pmw.research.audit import flawed
from pmw.research.sparse_vectors import algorithm_1, algorithm_2


@pytest.mark.parametrize("distribution", ["laplace", "exponential"])
def test_success_agrees_with_draws(distribution: str) -> None:
    scales, stream = Scales(distribution, 5.0, distribution, 8.0), Stream(40, 4)
    alpha, shift = 30.0, 3.0
    generator = np.random.default_rng(1)
    draw = generator.laplace if distribution == "laplace" else generator.exponential
    rho, nu = draw(size=(20_000, 1)) * 5, draw(size=(20_000, 40)) * 8
    values = np.where(np.arange(40) < 4, alpha, -alpha)
    right = ((values + nu >= shift + rho) == (values > 0)).all(axis=1)
    expected = math.exp(log_success(scales, stream, alpha, shift))
    assert 0.2 < expected < 0.95
    assert right.mean() == pytest.approx(expected, abs=5 * math.sqrt(0.25 / 20_000))


# Margins at beta 0.05, computed apart from this program; in the order of STREAMS.
PURE_MARGINS = {
    THEOREM: (1216, 6724, 29116, 1585, 8567, 36484),
    TEXTBOOK: (361, 1964, 8402, 453, 2426, 10266),
    "Lyu-Su-Li Algorithm 1 (1:1)": (350, 1908, 8177, 442, 2367, 10033),
    "Lyu-Su-Li Algorithm 7, 1:(2c)^(2/3)": (202, 1002, 4175, 254, 1244, 5117),
    "exponential noise": (155, 689, 2601, 206, 932, 3557),
    "Lyu-Su-Li Algorithm 7, 1:c^(2/3), monotone": (109, 516, 2112, 137, 640, 2588),
    "exponential noise, monotone": (84, 360, 1333, 111, 483, 1815),
}
APPROXIMATE_MARGINS = {
    THEOREM: (4952, 12245, 26509, 6452, 15599, 33217),
    TEXTBOOK: (1469, 3577, 7650, 1843, 4417, 9346),
    "textbook split, composed exactly": (361, 1450, 3226, 453, 1790, 3942),
    "redrawn Laplace": (306, 1239, 2776, 374, 1492, 3300),
    "redrawn Laplace, monotone": (202, 823, 1844, 244, 989, 2202),
    "redrawn exponential": (262, 1056, 2344, 328, 1309, 2890),
    "redrawn exponential, monotone": (168, 691, 1557, 205, 835, 1870),
    "Gaussian (Zhu and Wang)": (351, 1464, 5137, 486, 2192, 8370),
    "Laplace, no threshold noise": (390, 721, 1360, 492, 895, 1667),
    "sech^2": (153, 468, 1053, 200, 617, 1395),
    "sech^2, monotone": (84, 247, 544, 108, 323, 718),
}
# 1 %; two of the other program's splits were searched more coarsely, and ours are up to 1.5 % below.
ABOVE, BELOW = 0.01, 0.016


def agrees(found: float, expected: float) -> bool:
    return (1 - BELOW) * expected - 0.5 <= found <= (1 + ABOVE) * expected + 0.5


def test_every_row_is_pinned() -> None:
    assert list(PURE) == list(PURE_MARGINS)
    assert list(APPROXIMATE) == list(APPROXIMATE_MARGINS)


@pytest.mark.parametrize("name", PURE)
def test_pure_margins_are_those_computed_apart(name: str) -> None:
    assert agrees(PURE[name](STREAMS[1])[0], PURE_MARGINS[name][1])


@pytest.mark.parametrize("name", APPROXIMATE)
def test_margins_with_delta_are_those_computed_apart(name: str) -> None:
    assert agrees(APPROXIMATE[name](STREAMS[0])[0], APPROXIMATE_MARGINS[name][0])


@pytest.mark.slow
@pytest.mark.parametrize("place", range(6))
def test_all_margins_are_those_computed_apart(place: int) -> None:
    for rows, margins in ((PURE, PURE_MARGINS), (APPROXIMATE, APPROXIMATE_MARGINS)):
        for name, row in rows.items():
            assert agrees(row(STREAMS[place])[0], margins[name][place]), name


def test_kept_noise_costs_its_whole_epsilon_and_no_more() -> None:
    _, scales = PURE["exponential noise, monotone"](Stream(10_000, 50))
    assert scales is not None
    assert 1 / scales.threshold_scale + 50 / scales.test_scale == pytest.approx(1, rel=1e-9)


def test_lines_compare_with_the_textbook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.sparse_margins.APPROXIMATE", {})
    monkeypatch.delitem(PURE, "exponential noise")
    with pytest.raises(KeyError):
        list(margin_lines(STREAMS[:1]))  # without a textbook row there is nothing to compare with
    short = {name: PURE[name] for name in (THEOREM, TEXTBOOK)}
    monkeypatch.setattr("benchmarks.sparse_margins.APPROXIMATE", short)
    lines = list(margin_lines(STREAMS[:1]))
    assert [line["textbook_over_margin"] for line in lines[:3]] == pytest.approx([0.3, 1, 1.03], abs=0.005)
    assert {line["delta"] for line in lines} == {0.0, 1e-9}


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
