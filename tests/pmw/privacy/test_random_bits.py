"""Random bits from recorded bytes."""

from __future__ import annotations

import copy
import hashlib
import pickle

import numpy as np
import pytest

from pmw.errors import NoiseError
from pmw.privacy.random_bits import SEED_BYTES, BitSource, fresh_seed, repeatable_seed, require_bits


def test_how_bytes_are_taken_does_not_change_them() -> None:
    whole = BitSource(b"\x01" * 32).take(70_000)
    source = BitSource(b"\x01" * 32)
    assert BitSource(b"\x02" * 32).take(32) != whole[:32]
    assert b"".join(source.take(size) for size in (1, 999, 24, 60_000, 8_976)) == whole


def test_the_expansion_is_shake_256_in_counter_mode() -> None:
    seed = bytes(range(32))
    first = hashlib.shake_256(b"online-pmw noise 1\x00" + seed + (0).to_bytes(8, "little")).digest(1024)
    second = hashlib.shake_256(b"online-pmw noise 1\x00" + seed + (1).to_bytes(8, "little")).digest(76)
    assert BitSource(seed).take(1100) == first + second


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


def test_a_seed_has_32_bytes() -> None:
    with pytest.raises(NoiseError, match="expected a seed of 32 bytes"):
        BitSource(b"short")
    with pytest.raises(NoiseError, match=r"BitSource\(\) takes fresh ones"):
        BitSource(5)  # type: ignore[arg-type]  # what is refused
    assert len(fresh_seed()) == len(repeatable_seed(1, 2)) == SEED_BYTES


@pytest.mark.parametrize("given", [None, 5, np.random.default_rng(1), bytes(32)])
def test_other_sources_of_noise_are_refused_by_name(given: object) -> None:
    with pytest.raises(NoiseError, match=r"expected a BitSource .* BitSource\(\) takes fresh bits"):
        require_bits(given)
    require_bits(BitSource())


def test_fresh_seeds_differ_and_repeatable_ones_do_not() -> None:
    assert BitSource().take(32) != BitSource().take(32)
    assert fresh_seed() != fresh_seed()
    assert repeatable_seed(3, 4) == repeatable_seed(3, 4) != repeatable_seed(3, 5)
