"""Canonical texts of questions about ranges, as numbers: written where one is looked at.

What is found by 32 bits of its text needs them of many texts at once. CRC-32 is linear over bits, so the
checksum of a text follows from those of its parts and from their lengths (M. Adler's ``crc32_combine``).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import overload

import numpy as np
from numpy.typing import NDArray

from queries.linear import UNITS

__all__ = [
    "RangeTexts",
]

_FEW = 2**20  # pairs of ends that are looked up in a table; more are sorted


class RangeTexts(Sequence[str]):
    """Texts of questions, each about a range of every one of the same attributes.

    Args:
        names: of the attributes, in declared order.
        ends: whole numbers, shape (attributes, 2, n): first cells, and those after the last.
    """

    def __init__(self, names: Sequence[str], ends: NDArray[np.int64]) -> None:
        self.names = tuple(names)
        self.ends = ends
        quoted = [json.dumps(name).replace("%", "%%") for name in self.names]
        commas = ["", *[","] * (len(quoted) - 1)]
        parts = [f"{comma}[[{name}],[[%d,%d,{UNITS}]]]" for comma, name in zip(commas, quoted, strict=False)]
        self._parts = ['{"factors":[', *parts, "]}"]

    def __len__(self) -> int:
        return int(self.ends.shape[2])

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> RangeTexts: ...

    def __getitem__(self, place: int | slice) -> str | RangeTexts:
        if isinstance(place, slice):
            return self.take(np.arange(len(self))[place])
        return "".join(self._parts) % tuple(self.ends[:, :, place].reshape(-1).tolist())

    def __iter__(self) -> Iterator[str]:
        form = "".join(self._parts)
        if not self.names:
            return iter([form] * len(self))
        columns = self.ends.reshape(2 * len(self.names), len(self)).tolist()
        return iter([form % ends for ends in zip(*columns, strict=True)])

    def take(self, places: NDArray[np.int64]) -> RangeTexts:
        """Return some of the texts."""
        return RangeTexts(self.names, self.ends[:, :, places])

    def checksums(self) -> NDArray[np.uint32]:
        """Return the CRC-32 of each text: uint32, shape (n,)."""
        head, *parts, tail = self._parts
        found = np.full(len(self), zlib.crc32(head.encode()), dtype=np.uint32)
        if not len(self):
            return found
        for part, (first, stop) in zip(parts, self.ends, strict=True):
            pairs, places = _distinct(first.astype(np.int64), stop.astype(np.int64))
            texts = [(part % pair).encode() for pair in pairs]
            own = np.array([zlib.crc32(text) for text in texts], dtype=np.uint32)
            lengths = np.array([len(text) for text in texts])
            found = _moved(found, lengths, places) ^ own[places]
        nowhere = np.zeros(len(self), dtype=np.int64)
        return _moved(found, np.array([len(tail)]), nowhere) ^ np.uint32(zlib.crc32(tail.encode()))

    def are(self, own: NDArray[np.int64], others: RangeTexts, theirs: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which of some texts are those of others, one by one: bool, shape (n,)."""
        if self.names != others.names:
            return np.zeros(len(own), dtype=bool)
        same = self.ends[:, :, own] == others.ends[:, :, theirs]
        return np.asarray(same.all(axis=(0, 1)))


def _distinct(
    first: NDArray[np.int64], stop: NDArray[np.int64]
) -> tuple[list[tuple[int, int]], NDArray[np.int64]]:
    """Return the distinct pairs of numbers, and for each pair which it is."""
    size = int(max(first.max(initial=0), stop.max(initial=0))) + 1
    if size * size > _FEW:
        pairs, places = np.unique(np.stack([first, stop]), axis=1, return_inverse=True)
    else:
        codes, occurs = first * size + stop, np.zeros(size * size, dtype=bool)
        occurs[codes] = True
        pairs = np.stack(np.divmod(np.flatnonzero(occurs), size))
        places = (np.cumsum(occurs) - 1)[codes]
    return list(zip(*pairs.tolist(), strict=True)), places.reshape(-1)


def _moved(
    checksums: NDArray[np.uint32], lengths: NDArray[np.int64], places: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """Return what checksums contribute once each is followed by the text of a place, of so many bytes."""
    distinct, rows = np.unique(lengths, return_inverse=True)
    tables = np.stack([_table(length) for length in distinct.tolist()])
    start, flat, found = (rows.reshape(-1) * 1024)[places], tables.reshape(-1), np.zeros_like(checksums)
    for byte, values in enumerate(checksums.astype("<u4").view(np.uint8).reshape(-1, 4).T):
        found ^= flat.take(start + (256 * byte + values.astype(np.int64)))
    return found


@lru_cache(maxsize=1024)
def _table(length: int) -> NDArray[np.uint32]:
    """Return what each value of each byte of a checksum contributes after so many bytes: shape (4, 256)."""
    zeros = bytes(length)
    none = zlib.crc32(zeros)
    moved = [[zlib.crc32(zeros, value << 8 * byte) ^ none for value in range(256)] for byte in range(4)]
    return np.array(moved, dtype=np.uint32)
