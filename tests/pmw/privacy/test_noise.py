"""Random bits, and noise whose distribution is exactly what its table says."""

from __future__ import annotations

import copy
import hashlib
import math
import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest
from numpy.typing import NDArray
from scipy import stats

from pmw.errors import NoiseError
from pmw.privacy.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Distribution,
    Geometric,
    SechSquared,
    bernoulli_exp_array,
)
from pmw.privacy.random_bits import SEED_BYTES, BitSource, fresh_seed, repeatable_seed, require_bits
from tests.distributions import WRONG, noise_fit, require_scale


def test_the_expansion_is_shake_256_in_counter_mode() -> None:
    seed = bytes(range(32))
    first = hashlib.shake_256(b"online-pmw noise 1\x00" + seed + (0).to_bytes(8, "little")).digest(1024)
    second = hashlib.shake_256(b"online-pmw noise 1\x00" + seed + (1).to_bytes(8, "little")).digest(76)
    assert BitSource(seed).take(1100) == first + second
    source, whole = BitSource(seed), BitSource(seed).take(70_000)  # however they are taken
    assert b"".join(source.take(size) for size in (1, 999, 24, 60_000, 8_976)) == whole


@pytest.mark.statistical
def test_every_bit_is_even() -> None:
    words = BitSource.from_integer(5).words(100_000)
    shares = [(words >> np.uint64(bit) & np.uint64(1)).mean() for bit in range(64)]
    assert max(abs(share - 0.5) for share in shares) < 0.01  # 6 standard deviations
    source = BitSource.from_integer(6)
    threes = np.bincount([source.bits(3) for _ in range(80_000)], minlength=8)
    assert np.abs(threes - 10_000).max() < 600


def test_a_source_cannot_be_copied_or_shown() -> None:
    source = BitSource.from_integer(1)
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(NoiseError, match="cannot be copied"):
            attempt(source)
    assert repr(source) == "BitSource(secret)"


def test_a_seed_has_32_bytes_and_differs_from_others_unless_it_is_repeatable() -> None:
    with pytest.raises(NoiseError, match="expected a seed of 32 bytes"):
        BitSource(b"short")
    with pytest.raises(NoiseError, match=r"BitSource\(\) takes fresh ones"):
        BitSource(5)  # type: ignore[arg-type]  # what is refused
    assert len(fresh_seed()) == len(repeatable_seed(1, 2)) == SEED_BYTES
    assert len({BitSource().take(32) for _ in "ab"} | {fresh_seed() for _ in "ab"}) == 4
    assert repeatable_seed(3, 4) == repeatable_seed(3, 4) != repeatable_seed(3, 5)


@pytest.mark.parametrize("given", [None, 5, np.random.default_rng(1), bytes(32)])
def test_other_sources_of_noise_are_refused_by_name(given: object) -> None:
    with pytest.raises(NoiseError, match=r"expected a BitSource .* BitSource\(\) takes fresh bits"):
        require_bits(given)
    require_bits(BitSource())


# --- noise ----------------------------------------------------------------------------------------------


dp.enable_features("contrib")

DISTRIBUTIONS: list[Callable[[Fraction], Distribution]] = [
    Geometric, DiscreteLaplace, DiscreteGaussian, SechSquared,
]  # fmt: skip
SCALES = [Fraction(7, 3), Fraction(1, 2), Fraction(41, 2)]


@pytest.mark.statistical
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("make", DISTRIBUTIONS)
def test_many_draws_follow_the_table(make: Callable[[Fraction], Distribution], scale: Fraction) -> None:
    draws = make(scale).sample_array(BitSource.from_integer(11), 25_000)
    require_scale(lambda factor: noise_fit(draws, make(scale * factor)))


@pytest.mark.statistical
@pytest.mark.parametrize("make", DISTRIBUTIONS)
def test_single_draws_follow_the_table(make: Callable[[Fraction], Distribution]) -> None:
    bits, scale = BitSource.from_integer(12), Fraction(7, 3)
    draws = np.array([make(scale).sample(bits) for _ in range(8_000)])
    require_scale(lambda factor: noise_fit(draws, make(scale * factor)))


@pytest.mark.statistical
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("make", DISTRIBUTIONS)
def test_scales_of_the_size_that_sessions_use(make: Callable[[Fraction], Distribution], single: bool) -> None:
    scale = Fraction(35 * 2**20)  # 35 records on the grid: compare with the continuous distribution
    count = 5_000 if single else 20_000
    bits = BitSource.from_integer(13)
    distribution = make(scale)
    draws = (
        np.array([distribution.sample(bits) for _ in range(count)])
        if single
        else distribution.sample_array(bits, count)
    )
    distributions: dict[type, Any] = {
        Geometric: stats.expon.cdf,
        DiscreteLaplace: stats.laplace.cdf,
        DiscreteGaussian: stats.norm.cdf,
        SechSquared: lambda values: 1 - np.cosh(values / 2) ** -2,
    }
    continuous = distributions[type(distribution)]
    require_scale(lambda factor: float(stats.kstest(draws / float(scale * factor), continuous).pvalue))


@pytest.mark.statistical
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("make", DISTRIBUTIONS)
def test_no_draw_says_anything_of_another(
    make: Callable[[Fraction], Distribution],
    single: bool,
    require_independent: Callable[[NDArray[np.int64]], None],
) -> None:
    distribution, bits = make(Fraction(35 * 2**20)), BitSource.from_integer(14)
    if single:
        require_independent(np.array([distribution.sample(bits) for _ in range(600)]).reshape(-1, 4))
    else:
        require_independent(np.stack([distribution.sample_array(bits, 24) for _ in range(240)]))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("make", DISTRIBUTIONS)
def test_tables_are_distributions(make: Callable[[Fraction], Distribution], scale: Fraction) -> None:
    distribution = make(scale)
    support = np.arange(-2000, 2001)
    pmf = distribution.pmf(support)
    assert pmf.sum() == pytest.approx(1, abs=1e-12)
    assert distribution.survival(support)[:-1] - distribution.survival(support)[1:] == pytest.approx(
        pmf[:-1], abs=1e-14
    )
    assert distribution.survival(np.array([-3000]))[0] == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("scale", SCALES)
def test_a_neighbouring_value_changes_a_density_by_the_claimed_factor(scale: Fraction) -> None:
    # The definition of pure differential privacy at sensitivity 1, cell by cell.
    support = np.arange(-300, 300)
    claimed = np.exp(1 / float(scale))
    laplace = DiscreteLaplace(scale).pmf(support)
    usable = laplace > 1e-300
    ratios = laplace[1:][usable[1:] & usable[:-1]] / laplace[:-1][usable[1:] & usable[:-1]]
    assert max(ratios.max(), (1 / ratios).max()) == pytest.approx(claimed, rel=1e-9)
    geometric = Geometric(scale).pmf(np.arange(0, 200))
    assert geometric[:-1] / geometric[1:] == pytest.approx(claimed, rel=1e-9)


@pytest.mark.parametrize("sigma", [Fraction(2), Fraction(7, 3), Fraction(9)])
def test_a_neighbouring_value_costs_gaussian_noise_at_most_the_claimed_renyi_divergence(
    sigma: Fraction,
) -> None:
    support = np.arange(-60 * int(sigma) - 60, 60 * int(sigma) + 60)
    here, there = DiscreteGaussian(sigma).pmf(support), DiscreteGaussian(sigma).pmf(support - 1)
    usable = (here > 1e-290) & (there > 1e-290)
    for alpha in (1.5, 2.0, 4.0, 8.0):
        logs = alpha * np.log(here[usable]) - (alpha - 1) * np.log(there[usable])
        divergence = np.log(np.exp(logs).sum()) / (alpha - 1)
        assert divergence <= alpha / (2 * float(sigma) ** 2) * (1 + 1e-9)
        assert divergence > 0.9 * alpha / (2 * float(sigma) ** 2)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("make", "theirs", "distance", "scale", "wrong", "price"),
    [
        (DiscreteLaplace, dp.m.make_laplace, dp.l1_distance(T=int), Fraction(5), WRONG[0], Fraction(1, 5)),
        (
            DiscreteGaussian, dp.m.make_gaussian, dp.l2_distance(T=float), Fraction(7, 2), WRONG[1],
            Fraction(2, 49),
        ),
    ],
)  # fmt: skip
def test_opendp_draws_the_same(
    make: Callable[[Fraction], Distribution], theirs: Any, distance: Any, scale: Fraction, wrong: Fraction,
    price: Fraction,
) -> None:  # fmt: skip
    mechanism = theirs(dp.vector_domain(dp.atom_domain(T=int)), distance, scale=float(scale))
    draws = np.array(mechanism([0] * 20_000))
    assert noise_fit(draws, make(scale)) > 1e-7  # opendp cannot be seeded
    assert noise_fit(draws, make(scale * wrong)) < 1e-9
    assert mechanism.map(1) == pytest.approx(float(price))


def test_the_same_bytes_give_the_same_noise() -> None:
    for make in DISTRIBUTIONS:
        distribution = make(Fraction(9, 4))
        one, two = BitSource.from_integer(3), BitSource.from_integer(3)
        assert np.array_equal(distribution.sample_array(one, 50), distribution.sample_array(two, 50))
        assert [distribution.sample(one) for _ in range(20)] == [distribution.sample(two) for _ in range(20)]
        many = distribution.sample_array(one, 10_000)
        assert many.dtype == np.int64
        assert (many.min() == 0) == (make in (Geometric, SechSquared))  # one-sided noise is never negative
        assert distribution.sample_array(one, 0).shape == (0,)


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(2**51), Fraction(1, 2**51), 0.5])
@pytest.mark.parametrize("make", DISTRIBUTIONS)
def test_a_scale_that_cannot_be_is_refused(make: Callable[[Fraction], Distribution], scale: Fraction) -> None:
    with pytest.raises(NoiseError, match="expected"):
        make(scale)
    with pytest.raises(NoiseError, match=r"expected sigma up to 2\^16"):  # too long a table
        DiscreteGaussian(Fraction(2**17)).survival(np.array([0]))


@pytest.mark.parametrize("scale", SCALES)
def test_the_table_is_the_squared_hyperbolic_secant(scale: Fraction) -> None:
    distribution, values = SechSquared(scale), np.arange(-5, 400)
    wanted = [1.0 if y <= 0 else 1 / math.cosh(min(y / (2 * float(scale)), 300)) ** 2 for y in values]
    assert distribution.survival(values) == pytest.approx(wanted, rel=1e-12)


def test_the_smaller_steps_are_geometric_noise_kept_by_two_coins() -> None:
    scale, y = 7 / 3, np.arange(60)
    decay, after = np.exp(-y / scale), np.exp(-(y + 1) / scale)
    steps = np.tanh((y + 1) / (2 * scale)) - np.tanh(y / (2 * scale))
    kept = 1 / (1 + decay) / (1 + after)
    assert steps == pytest.approx(2 * (1 - math.exp(-1 / scale)) * decay * kept, rel=1e-9, abs=1e-15)


@pytest.mark.statistical
def test_coins_of_any_exponent_are_exact() -> None:
    for numerator in (0, 3, 7, 16):
        heads = bernoulli_exp_array(np.full(6000, numerator), 7, BitSource.from_integer(24)).sum()
        if numerator == 0:
            assert heads == 6000
        else:
            assert stats.binomtest(int(heads), 6000, math.exp(-numerator / 7)).pvalue > 1e-3
