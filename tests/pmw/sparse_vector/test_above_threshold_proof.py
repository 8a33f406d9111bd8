"""The proof of docs/proofs/above-threshold.md: each numbered line by a test, most in exact fractions.

Noise is given by its ratio r = e^(-1/scale), a fraction. So e^(d/scale) = r^-d is a fraction too, and the
inequalities are compared without rounding. One test holds these formulas against the project's samplers.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmw.planning import theorems
from pmw.privacy.noise import DiscreteLaplace, Distribution, Geometric
from pmw.research.audit import (
    sharing_noise,
    stream_distribution,
    tables_of,
    tree_distribution,
    worst_log_ratio,
)
from pmw.research.sparse_vectors import algorithm_1, algorithm_2, algorithm_7, numeric_algorithm_7
from pmw.sparse_vector import (
    AboveThreshold,
    Comparison,
    NoiseKind,
    NumericSparse,
    Ratio,
    Sides,
    Sparse,
    Split,
    ThresholdTest,
)
from tests.distributions import largest_ratio

PROOF = Path(__file__).parents[3] / "docs" / "proofs" / "above-threshold.md"

# --- 1. the prices of named algorithms ----------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "c"), [(Fraction(1), 1), (Fraction(3, 7), 5), (Fraction(2), 40)])
def test_the_named_algorithms_cost_what_the_theorem_says(epsilon: Fraction, c: int) -> None:
    above, sparse = AboveThreshold.textbook(epsilon=epsilon), Sparse.textbook(epsilon=epsilon, update_limit=c)
    assert (above.test.threshold_scale, above.test.query_scale) == (2 / epsilon, 4 / epsilon)
    assert (sparse.test.threshold_scale, sparse.test.query_scale) == (2 * c / epsilon, 4 * c / epsilon)
    assert sparse.redraw
    assert sparse == algorithm_2(epsilon=epsilon, update_limit=c)
    assert above.epsilon == sparse.epsilon == epsilon
    numeric = NumericSparse.textbook(epsilon=epsilon, update_limit=c)
    assert (numeric.sparse.test.threshold_scale, numeric.sparse.test.query_scale) == (
        9 * c / (4 * epsilon),
        9 * c / (2 * epsilon),
    )
    assert isinstance(numeric.value_noise, DiscreteLaplace)
    assert numeric.value_noise.scale == 9 * c / epsilon
    assert numeric.epsilon == epsilon
    first = algorithm_1(epsilon=epsilon, update_limit=c)
    assert (first.test.threshold_scale, first.test.query_scale) == (2 / epsilon, 4 * c / epsilon)
    assert not first.redraw
    assert first.epsilon == epsilon
    for monotone, m in ((False, 2), (True, 1)):
        split = Split.of(Ratio.ONE_TO_THREE, epsilon=epsilon, update_limit=c, values=epsilon / 5)
        seventh = numeric_algorithm_7(Comparison(monotone=monotone), split, c)
        test = seventh.sparse.test
        assert (test.threshold_scale, test.query_scale) == (1 / split.epsilon1, m * c / split.epsilon2)
        assert isinstance(seventh.value_noise, DiscreteLaplace)
        assert seventh.value_noise.scale == c / split.epsilon3
        assert (
            algorithm_7(Comparison(monotone=monotone), replace(split, epsilon3=Fraction(0)), c).test == test
        )
        assert 1 / test.threshold_scale + c * m / test.query_scale == split.epsilon1 + split.epsilon2


# --- 2. the noise -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Noise:
    """Noise on the integers by its ratio r, in exact fractions, each of which is computed once."""

    r: Fraction
    two_sided: bool

    @cache  # noqa: B019  # a test ends with its noises
    def f(self, j: int) -> Fraction:
        if self.two_sided:
            return self.r ** abs(j) * (1 - self.r) / (1 + self.r)
        return (1 - self.r) * self.r**j if j >= 0 else Fraction(0)

    @cache  # noqa: B019
    def tail(self, y: int) -> Fraction:
        """S(y) = Pr[noise >= y]: the closed form of the sum of f over j >= y."""
        if not self.two_sided:
            return self.r ** max(y, 0)
        return self.r**y / (1 + self.r) if y > 0 else 1 - self.r ** (1 - y) / (1 + self.r)

    def factor(self, d: int) -> Fraction:
        """e^(d/scale)."""
        return self.r**-d


ratios = st.integers(2, 12).flatmap(lambda q: st.integers(1, q - 1).map(lambda p: Fraction(p, q)))
noises = st.builds(Noise, ratios, st.booleans())
integers = st.integers(-15, 15)
distances = st.integers(0, 8)


@given(noises, integers, distances)
def test_noise_falls_no_faster_than_its_scale_says(noise: Noise, j: int, d: int) -> None:
    assert noise.f(j) <= noise.factor(d) * noise.f(j + d)  # (1)
    if not noise.two_sided and j >= 0:
        assert noise.f(j) == noise.factor(d) * noise.f(j + d)
    assert noise.two_sided or noise.f(-1 - d) == 0  # it may not be moved down


@given(noises, integers, distances)
def test_tails_fall_no_faster_than_the_noise(noise: Noise, y: int, d: int) -> None:
    assert noise.tail(y) - noise.tail(y + 1) == noise.f(y)  # so S is the sum of f from y on
    assert noise.tail(y) <= noise.factor(d) * noise.tail(y + d)  # (2)
    assert noise.tail(y + d) <= noise.tail(y)  # (3)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(40)])
@pytest.mark.parametrize("two_sided", [False, True])
def test_the_code_draws_from_these_distributions(scale: Fraction, two_sided: bool) -> None:
    distribution: Distribution = DiscreteLaplace(scale) if two_sided else Geometric(scale)
    noise = Noise(Fraction(math.exp(-1 / float(scale))), two_sided)
    places = np.arange(-30, 31)
    assert distribution.pmf(places) == pytest.approx([float(noise.f(int(j))) for j in places], rel=1e-9)
    assert distribution.survival(places) == pytest.approx(
        [float(noise.tail(int(j))) for j in places], rel=1e-9
    )


# --- 3. one threshold ---------------------------------------------------------------------------------------

SENSITIVITY, TESTS, LIMIT = 2, 3, 2
SUPPORT = range(-25, 26)
general_moves = st.lists(st.integers(-SENSITIVITY, SENSITIVITY), min_size=TESTS, max_size=TESTS)
rises = st.lists(st.integers(0, SENSITIVITY), min_size=TESTS, max_size=TESTS)
distances_of_tests = st.lists(st.integers(-6, 10), min_size=TESTS, max_size=TESTS)
Outputs = tuple[int, ...]


@dataclass(frozen=True)
class Setting:
    """An order of neighbours: how values move from X to Y, how far z is moved, and m."""

    moves: tuple[int, ...]
    h: int
    m: int


def settings_of(moves: Sequence[int], risen: Sequence[int]) -> list[Setting]:
    """Return the rows of the table of section 3."""
    return [
        Setting(tuple(moves), SENSITIVITY, 2),
        Setting(tuple(-move for move in moves), SENSITIVITY, 2),
        Setting(tuple(risen), SENSITIVITY, 1),
        Setting(tuple(-rise for rise in risen), 0, 1),
    ]


def outputs_of(count: int, limit: int, symbols: Sequence[int] = (0, 1)) -> Iterator[Outputs]:
    """Yield the output vectors: each ends with its last test or with the positive number ``limit``."""
    found = set()
    for outputs in itertools.product(symbols, repeat=count):
        ends = [place + 1 for place in range(count) if sum(map(abs, outputs[: place + 1])) == limit]
        found.add(outputs[: ends[0]] if ends else outputs)
    yield from sorted(found)


def summand(
    f: Noise, nu: Noise, z: int, arguments: Sequence[int], outputs: Outputs, *, fires: int = 1
) -> Fraction:
    """One summand of (4): ``arguments`` holds T_i - q_i, and an output of ``fires`` is a positive."""
    found = f.f(z)
    for argument, output in zip(arguments, outputs, strict=False):
        passing = nu.tail(argument + z)
        found *= passing if output == fires else 1 - passing
    return found


@given(general_moves, rises)
def test_arguments_rise_by_no_more_than_the_table_says(moves: list[int], risen: list[int]) -> None:
    for setting in settings_of(moves, risen):
        for move in setting.moves:
            assert 0 <= setting.h - move <= setting.m * SENSITIVITY  # q(X) - q(Y) = -move


@given(noises, integers, st.sampled_from([1, 2]), st.data())
def test_a_negative_is_free_and_a_positive_pays_its_price(
    nu: Noise, y: int, m: int, data: st.DataObject
) -> None:
    rise = data.draw(st.integers(0, m * SENSITIVITY))
    assert 1 - nu.tail(y) <= 1 - nu.tail(y + rise)  # (5)
    assert nu.tail(y) <= nu.factor(m * SENSITIVITY) * nu.tail(y + rise)  # (6)


@given(noises, noises, distances_of_tests, general_moves, rises)
def test_every_summand_is_covered_by_the_one_that_z_is_moved_to(
    f: Noise, nu: Noise, arguments: list[int], moves: list[int], risen: list[int]
) -> None:
    for setting in settings_of(moves, risen):
        moved = [argument - move for argument, move in zip(arguments, setting.moves, strict=True)]
        for outputs in outputs_of(TESTS, LIMIT):
            price = f.factor(setting.h) * nu.factor(setting.m * SENSITIVITY) ** sum(outputs)
            for z in range(-6, 7):  # (7) times (5) and (6) for each test; their sum over z is (8)
                here = summand(f, nu, z, arguments, outputs)
                assert here <= price * summand(f, nu, z + setting.h, moved, outputs)


@given(noises, noises, distances_of_tests)
def test_outputs_have_the_probability_of_their_sum(f: Noise, nu: Noise, arguments: list[int]) -> None:
    # (4) over all outputs is the weight of the threshold noise that was summed over: nothing is left out.
    total = sum(
        summand(f, nu, z, arguments, outputs) for outputs in outputs_of(TESTS, LIMIT) for z in range(-9, 10)
    )
    assert total == sum(f.f(z) for z in range(-9, 10))


def analyst(seed: int, moves: Sequence[int]) -> tuple[Callable[[Outputs], int | None], ...]:
    """Return what an adaptive analyst asks of two neighbours: it depends on the outputs so far."""
    draws, asked = random.Random(seed), dict[Outputs, tuple[int, int]]()

    def ask(outputs: Outputs, table: int) -> int | None:
        if len(outputs) == 5:
            return None
        if outputs not in asked:
            value = draws.choice([-30, -9, -1, 0, 0, 2, 12])
            asked[outputs] = value, value + draws.choice(moves)
        return asked[outputs][table]

    return (lambda outputs: ask(outputs, 0)), (lambda outputs: ask(outputs, 1))


def log_ratios(sparse: Sparse, seed: int, moves: Sequence[int]) -> tuple[float, float]:
    """Return the largest ln(P_X/P_Y) and ln(P_Y/P_X) of an adaptive stream."""
    tables = tables_of(sparse, 0)
    distributions = [tree_distribution(tables, ask) for ask in analyst(seed, moves)]
    logs = [math.log(distributions[0][outputs] / distributions[1][outputs]) for outputs in distributions[0]]
    return max(logs), max(-one for one in logs)


def sparse_of(
    noise: NoiseKind, sides: Sides, monotone: bool, *, limit: int = 2, redraw: bool = False
) -> Sparse:
    return Sparse(ThresholdTest(noise, sides, 1, monotone, Fraction(3), Fraction(4)), limit, redraw)


@pytest.mark.parametrize("noise", list(NoiseKind))
@pytest.mark.parametrize("monotone", [False, True])
def test_no_analyst_exceeds_the_theorem(noise: NoiseKind, monotone: bool) -> None:
    sparse = sparse_of(noise, Sides.ONE_SIDED, monotone)
    for seed in range(25):
        found = max(log_ratios(sparse, seed, (0, 1) if monotone else (-1, 0, 1)))
        assert found <= float(sparse.epsilon) + 1e-9


@pytest.mark.parametrize("noise", list(NoiseKind))
def test_values_that_fall_pay_for_no_threshold(noise: NoiseKind) -> None:
    sparse = sparse_of(noise, Sides.ONE_SIDED, True)
    positives = float(sparse.update_limit * sparse.test.positive_price)
    risen = [log_ratios(sparse, seed, (0, 1)) for seed in range(40)]
    assert max(falling for _, falling in risen) <= positives + 1e-9  # from Y, where they are higher, to X
    assert max(rising for rising, _ in risen) > 1.2 * positives or noise is NoiseKind.LAPLACE


@given(ratios, integers, st.integers(-SENSITIVITY, SENSITIVITY), integers)
def test_a_value_costs_its_own_noise(r: Fraction, value: int, move: int, released: int) -> None:
    g = Noise(r, two_sided=True)
    assert g.f(released - value) <= g.factor(SENSITIVITY) * g.f(released - value - move)  # (9)


@pytest.mark.parametrize("noise", list(NoiseKind))
@pytest.mark.parametrize("monotone", [False, True])
def test_rounds_add_up(noise: NoiseKind, monotone: bool) -> None:
    sparse = sparse_of(noise, Sides.ONE_SIDED, monotone, redraw=True)
    once = sparse_of(noise, Sides.ONE_SIDED, monotone, limit=1)
    assert sparse.epsilon == 2 * once.epsilon  # (10)
    for seed in range(25):
        found = max(log_ratios(sparse, seed, (0, 1) if monotone else (-1, 0, 1)))
        assert found <= float(sparse.epsilon) + 1e-9


# --- 4. absolute values -------------------------------------------------------------------------------------


@given(integers, st.integers(-SENSITIVITY, SENSITIVITY))
def test_an_absolute_value_moves_no_more_and_either_way(e: int, move: int) -> None:
    assert abs(abs(e) - abs(e + move)) <= abs(move) <= SENSITIVITY  # (11)
    assert [abs(value + 1) - abs(value) for value in (5, -5)] == [1, -1]


# --- 5. two thresholds --------------------------------------------------------------------------------------


def both_sums(
    f: Noise, nu: Noise, z: int, thresholds: int, e: Sequence[int], outputs: Outputs
) -> list[Fraction]:
    """The summands at z of both sums of (12), of U and of L; an output of -1 is a positive of -e."""
    upper = summand(f, nu, z, [thresholds - one for one in e], outputs)
    negated = [(thresholds + one, out) for one, out in zip(e, outputs, strict=False) if out != 1]
    lower = summand(f, nu, z, [one for one, _ in negated], tuple(out for _, out in negated), fires=-1)
    return [upper, lower]


@given(noises, noises, st.integers(0, 4), st.lists(integers, min_size=2, max_size=2))
def test_two_thresholds_are_a_product_of_two_sums(f: Noise, nu: Noise, threshold: int, e: list[int]) -> None:
    places = range(-4, 5)
    for outputs in outputs_of(2, 2, (-1, 0, 1)):
        joint = Fraction(
            0
        )  # by the words of the mechanism: the second comparison counts where the first failed
        for first, second in itertools.product(places, repeat=2):
            term = f.f(first) * f.f(second)
            for value, output in zip(e, outputs, strict=False):
                above, negated = nu.tail(threshold + first - value), nu.tail(threshold + second + value)
                term *= {1: above, -1: (1 - above) * negated, 0: (1 - above) * (1 - negated)}[output]
            joint += term
        upper, lower = (
            sum(both_sums(f, nu, z, threshold, e, outputs)[side] for z in places) for side in (0, 1)
        )
        assert joint == upper * lower  # (12)


@given(noises, noises, st.integers(-2, 6), distances_of_tests, rises)
def test_one_of_two_thresholds_moves_and_every_summand_is_covered(
    f: Noise, nu: Noise, threshold: int, e: list[int], risen: list[int]
) -> None:
    higher = [value + rise for value, rise in zip(e, risen, strict=True)]
    for first, second, upper_h, lower_h in ((e, higher, SENSITIVITY, 0), (higher, e, 0, SENSITIVITY)):
        for outputs in outputs_of(TESTS, LIMIT, (-1, 0, 1)):
            upper_price = f.factor(upper_h) * nu.factor(SENSITIVITY) ** outputs.count(1)
            lower_price = f.factor(lower_h) * nu.factor(SENSITIVITY) ** outputs.count(-1)
            positives = sum(map(abs, outputs))
            assert upper_price * lower_price == f.factor(SENSITIVITY) * nu.factor(SENSITIVITY) ** positives
            for z in range(-4, 5):
                here = both_sums(f, nu, z, threshold, first, outputs)
                up = both_sums(f, nu, z + upper_h, threshold, second, outputs)[0]
                low = both_sums(f, nu, z + lower_h, threshold, second, outputs)[1]
                assert here[0] <= upper_price * up
                assert here[1] <= lower_price * low  # their product over both sums is (13)


@pytest.mark.parametrize("noise", list(NoiseKind))
def test_one_threshold_for_both_signs_needs_the_general_price(noise: NoiseKind) -> None:
    monotone, general = (sparse_of(noise, Sides.ONE_SIDED, one) for one in (True, False))
    found = 0.0
    for e, rise in itertools.product(
        itertools.product((-9, 0, 2), repeat=2), itertools.product((0, 1), repeat=2)
    ):
        signed = [sign * value for value in e for sign in (1, -1)]
        moved = [sign * (value + more) for value, more in zip(e, rise, strict=True) for sign in (1, -1)]
        distributions = [stream_distribution(tables_of(general, 2), values) for values in (signed, moved)]
        found = max(found, worst_log_ratio(*distributions))
    assert float(monotone.epsilon) + 0.05 < found <= float(general.epsilon) + 1e-9


# --- 6. the bounds are met ----------------------------------------------------------------------------------

BASES = [
    (2, 2, 2, 2), (1, 4, 1, 4), (10, 10, 10, 10), (-30, 10, 10, -30), (-30, 10, 10, 10), (-30, -30, 0, 0),
    (-30, -30, 10, 10),
]  # fmt: skip  # one-sided noise meets its bound near the threshold, 2, two-sided noise far from it
TABLE = {
    "general": (Sides.ONE_SIDED, False, 1.3333, 1.3333, 0.9970),
    "monotone": (Sides.ONE_SIDED, True, 0.8333, 0.8333, 0.5641),
    "absolute value": (Sides.TWO_SIDED, False, 1.3333, 1.3333, 0.9499),
    "two thresholds": (Sides.TWO_THRESHOLDS, True, 0.8333, 0.8333, 0.8167),
    "one threshold for both signs, charged as two": (Sides.TWO_THRESHOLDS, True, 0.8333, 1.3333, 1.3071),
}


@pytest.mark.parametrize("setting", TABLE)
def test_the_table_of_largest_log_ratios(setting: str) -> None:
    sides, monotone, claimed, *expected = TABLE[setting]
    for noise, number in zip((NoiseKind.EXPONENTIAL, NoiseKind.LAPLACE), expected, strict=True):
        sparse = sparse_of(noise, sides, monotone)
        tables = tables_of(sparse, 2)
        if setting.endswith("charged as two"):
            tables = sharing_noise(tables)
        found = largest_ratio(partial(stream_distribution, tables), BASES, monotone=monotone)
        assert float(sparse.epsilon) == pytest.approx(claimed, abs=5e-5)
        assert found == pytest.approx(number, abs=5e-5)
    text = PROOF.read_text()
    cells = [f"{claimed:.4f}", *(f"{number:.4f}" for number in expected)]
    assert f"| {setting} | {' | '.join(cells)} |" in text.replace("**", "")


# --- 7. accuracy --------------------------------------------------------------------------------------------


@given(ratios, st.integers(0, 12))
def test_laplace_tails(r: Fraction, t: int) -> None:
    noise = Noise(r, two_sided=True)
    assert 2 * noise.tail(t + 1) == 2 * r ** (t + 1) / (1 + r) <= r**t  # (14)


@given(integers, integers, st.integers(0, 5), st.data())
def test_no_test_errs_where_noise_is_small(q: int, threshold: int, half: int, data: st.DataObject) -> None:
    z, nu = data.draw(st.integers(-half, half)), data.draw(st.integers(-half, half))
    if q + nu >= threshold + z:  # (15)
        assert q >= threshold - 2 * half
    else:
        assert q < threshold + 2 * half


@given(
    st.integers(1, 10**6),
    st.integers(1, 500),
    st.floats(1e-9, 0.999),
    st.floats(0.01, 10),
    st.sampled_from([0.0, 1e-9]),
)
def test_the_failures_add_up_to_beta(k: int, c: int, beta: float, epsilon: float, delta: float) -> None:
    sigma = math.sqrt(32 * c * math.log(1 / delta)) / epsilon if delta else 2 * c / epsilon
    alpha = 4 * sigma * (math.log(k) + math.log(2 * c / beta))
    failures = c * math.exp(-alpha / (2 * sigma)) + k * math.exp(-alpha / (4 * sigma))
    assert failures <= beta * (1 + 1e-9)  # (16)
    promised = theorems.sparse_accuracy(k, c, epsilon=epsilon, delta=delta, beta=beta)
    assert alpha == pytest.approx(promised)
    if c == 1 and not delta:
        assert alpha == pytest.approx(theorems.above_threshold_accuracy(k, epsilon=epsilon, beta=beta))
