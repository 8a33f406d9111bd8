from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.sparse_margins import (
    APPROXIMATE,
    PURE,
    STREAMS,
    TEST_DISTRIBUTIONS,
    TEXTBOOK,
    THEOREM,
    THRESHOLD_DISTRIBUTIONS,
    VARIANTS,
    Scales,
    Stream,
    best_split,
    closed_form_lines,
    exponential_mechanism_accuracy,
    log_success,
    margin,
    margin_lines,
)
from pmw.errors import BudgetError
from pmw.research.audit import flawed
from pmw.research.sparse_vectors import algorithm_1, algorithm_2


def kept(distribution: str, share: float, per_test: float) -> Scales:
    return Scales(distribution, 1 / share, distribution, per_test / (1 - share))


def test_without_threshold_noise_success_is_a_product() -> None:
    scales = Scales("none", 0.0, "laplace", 2.0)
    each_below, each_above = 1 - math.exp(-(10 + 1) / 2) / 2, 1 - math.exp((1 - 10) / 2) / 2
    found = log_success(scales, Stream(100, 5), 10.0, 1.0)
    assert found == pytest.approx(95 * math.log(each_below) + 5 * math.log(each_above))


def test_exponential_noise_on_both_sides_has_a_closed_form_for_one_value_below() -> None:
    # Pr[nu < 3 + rho] = 1 - E[e^-(3 + rho)/b] = 1 - e^(-3/b) b/(b + b1), at b = 2, b1 = 1.
    scales = Scales("exponential", 1.0, "exponential", 2.0)
    assert log_success(scales, Stream(1, 0), 3.0, 0.0) == pytest.approx(
        math.log(1 - math.exp(-1.5) * 2 / 3), rel=1e-9
    )


def test_redrawn_rounds_multiply() -> None:
    once = Scales("laplace", 3.0, "laplace", 6.0)
    again = Scales("laplace", 3.0, "laplace", 6.0, redrawn=True)
    one, ten = log_success(once, Stream(100, 1), 40.0, 2.0), log_success(again, Stream(1000, 10), 40.0, 2.0)
    assert ten == pytest.approx(10 * one)


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


def test_the_margin_is_where_the_best_shift_just_succeeds() -> None:
    scales, stream = kept("exponential", 0.2, 20.0), Stream(10_000, 20)
    found = margin(scales, stream)
    best = {
        alpha: max(log_success(scales, stream, alpha, shift) for shift in np.linspace(-300, 300, 1201))
        for alpha in (0.999 * found, 1.001 * found)
    }
    low, high = best.values()
    assert low < math.log(0.95) < high


def test_margins_scale_with_the_noise_and_grow_with_the_stream() -> None:
    one = margin(kept("laplace", 0.25, 10.0), Stream(1000, 5))
    twice = margin(Scales("laplace", 8.0, "laplace", 80 / 3), Stream(1000, 5))
    assert twice == pytest.approx(2 * one, rel=1e-3)
    assert margin(kept("laplace", 0.25, 10.0), Stream(10_000, 5)) > 1.1 * one


def test_the_best_split_beats_its_neighbours() -> None:
    stream = Stream(10_000, 10)
    found, scales = best_split(lambda share: kept("exponential", share, 10.0), stream)
    share = 1 / scales.threshold_scale
    for other in (0.7 * share, 1.4 * share):
        assert margin(kept("exponential", other, 10.0), stream) > found


# Mean and second moment of each distribution at scale 1.
MOMENTS = {"laplace": (0.0, 2.0), "exponential": (1.0, 2.0), "gaussian": (0.0, 1.0), "none": (0.0, 0.0)}


@pytest.mark.parametrize("distribution", sorted(THRESHOLD_DISTRIBUTIONS))
def test_nodes_integrate_moments(distribution: str) -> None:
    nodes, weights = THRESHOLD_DISTRIBUTIONS[distribution]
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    assert (weights @ nodes, weights @ nodes**2) == pytest.approx(MOMENTS[distribution], abs=1e-5)


@pytest.mark.parametrize("distribution", ["laplace", "exponential"])
def test_nodes_integrate_a_tail(distribution: str) -> None:
    nodes, weights = THRESHOLD_DISTRIBUTIONS[distribution]
    tail = 0.5 if distribution == "laplace" else 1.0
    assert weights @ np.exp(nodes / 2) == pytest.approx(4 / 3 if distribution == "laplace" else 2, rel=1e-3)
    assert weights[nodes > np.log(tail / 2**-20)].sum() == pytest.approx(2**-20, rel=1e-9)


@pytest.mark.parametrize("distribution", sorted(TEST_DISTRIBUTIONS))
def test_above_and_below_are_all_that_can_happen(distribution: str) -> None:
    y = np.linspace(-20, 20, 401)
    above, below = (
        np.exp(TEST_DISTRIBUTIONS[distribution].log_above(y)),
        np.exp(TEST_DISTRIBUTIONS[distribution].log_below(y)),
    )
    np.testing.assert_allclose(above + below, 1, rtol=1e-12)
    assert (np.diff(above) <= 0).all()


def test_distributions_have_the_tails_they_are_named_for() -> None:
    y = np.array([3.0, 7.0])
    np.testing.assert_allclose(TEST_DISTRIBUTIONS["laplace"].log_above(y), -y - np.log(2))
    np.testing.assert_allclose(TEST_DISTRIBUTIONS["exponential"].log_above(y), -y)
    np.testing.assert_allclose(TEST_DISTRIBUTIONS["sech2"].log_above(y), -2 * np.log(np.cosh(y / 2)))
    np.testing.assert_allclose(
        TEST_DISTRIBUTIONS["gaussian"].log_above(y), [-6.6077262215, -27.3843070], rtol=1e-7
    )


@pytest.mark.parametrize(("distribution", "share"), [("laplace", 0.5), ("exponential", 1.0)])
def test_what_is_almost_sure_keeps_its_distance_from_one(distribution: str, share: float) -> None:
    missed = -TEST_DISTRIBUTIONS[distribution].log_below(np.array([120.0]))
    assert missed == pytest.approx(share * np.exp(-120), rel=1e-9)


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
