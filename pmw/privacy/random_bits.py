"""Random bits: 32 bytes expanded in a fixed order, so that a recorded intent draws the same noise again.

Every draw on a private value comes from a ``BitSource``. Its bytes are the output of SHAKE-256 (FIPS 202)
on the seed and a block counter, so who knows the 32 bytes knows every draw, and who does not knows none.
"""

from __future__ import annotations

import hashlib
import os

import numpy as np
from numpy.typing import NDArray

from pmw.errors import NoiseError
from queries.plain_values import type_name

SEED_BYTES = 32
_BLOCK = 1 << 16  # bytes made per call of the extendable-output function
_LABEL = b"online-pmw noise 1\x00"


def fresh_seed() -> bytes:
    """Return 32 bytes from the operating system's generator."""
    return os.urandom(SEED_BYTES)


def repeatable_seed(seed: int, number: int) -> bytes:
    """Return 32 bytes that anybody can repeat: for tests and experiments, never for privacy."""
    return hashlib.sha256(f"seeded, without privacy: {int(seed)}/{int(number)}".encode()).digest()


def person_key(seed: int | None) -> bytes:
    """Return 32 bytes that choose which records of a person are kept: fresh ones, unless there is a seed."""
    return fresh_seed() if seed is None else repeatable_seed(seed, -1)  # no draw of noise has this number


class BitSource:
    """Uniform bits in a fixed order from 32 bytes.

    One of the two things in this package that change in place (the other is the store). It cannot be
    copied or pickled, and its ``repr`` shows nothing of the seed.

    Args:
        seed: 32 bytes, kept secret while the draws matter; None for fresh ones from the operating system.
    """

    def __init__(self, seed: bytes | None = None) -> None:
        if seed is None:
            seed = fresh_seed()
        if not isinstance(seed, bytes) or len(seed) != SEED_BYTES:
            raise NoiseError(
                f"expected a seed of {SEED_BYTES} bytes; BitSource() takes fresh ones, and "
                "BitSource.from_integer(1) makes noise that anybody can repeat"
            )
        self._seed = seed
        self._counter = 0
        self._buffer = b""
        self._place = 0
        self._pool = 0  # bits not yet handed out by ``bits``
        self._pool_size = 0

    @classmethod
    def from_integer(cls, seed: int) -> BitSource:
        """Return a source whose draws anybody can repeat; see ``repeatable_seed``."""
        return cls(repeatable_seed(seed, 0))

    def take(self, size: int) -> bytes:
        """Return the next ``size`` bytes."""
        pieces = []
        while size > 0:
            if self._place == len(self._buffer):
                self._refill()
            piece = self._buffer[self._place : self._place + size]
            self._place += len(piece)
            size -= len(piece)
            pieces.append(piece)
        return b"".join(pieces)

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return ``count`` uniform 64-bit words: uint64, shape (count,)."""
        return np.frombuffer(self.take(8 * count), dtype="<u8").astype(np.uint64, copy=False)

    def bits(self, count: int) -> int:
        """Return a uniform integer of ``count`` bits."""
        while self._pool_size < count:
            self._pool |= int.from_bytes(self.take(32), "little") << self._pool_size
            self._pool_size += 256
        value = self._pool & ((1 << count) - 1)
        self._pool >>= count
        self._pool_size -= count
        return value

    def _refill(self) -> None:
        block = hashlib.shake_256(_LABEL + self._seed + self._counter.to_bytes(8, "little"))
        # Small first: most intents draw a few numbers only.
        self._buffer = block.digest(_BLOCK if self._counter else 1024)
        self._counter += 1
        self._place = 0

    def __repr__(self) -> str:
        return "BitSource(secret)"

    def __reduce__(self) -> tuple[object, ...]:
        raise NoiseError("a source of noise cannot be copied or pickled")


def require_bits(bits: object) -> None:
    """Refuse a source of noise of another kind, such as a generator of numpy, whose draws are not exact."""
    if not issubclass(type(bits), BitSource):
        raise NoiseError(
            f"expected a BitSource as the source of noise, got a {type_name(bits)}; BitSource() takes fresh "
            "bits from the operating system, and BitSource.from_integer(1) ones that anybody can repeat"
        )
