"""Range texts: canonical texts of many questions about ranges, as numbers, written where they are looked at.

What is found by 32 bits of its text needs them of many texts at once. CRC-32 is linear over bits, so the
checksum of a text follows from those of its parts and from their lengths (M. Adler's ``crc32_combine``).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from queries.factors import UNITS
from queries.places import as_index

_FEW = 2**12  # numbers whose texts are kept in a table; more are written for each lookup
_Written: TypeAlias = tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.uint32]]
_HEAD, _BETWEEN, _AFTER, _TAIL = '{"factors":[', ",", f",{UNITS}]]]", "]}"


class RangeTexts(Sequence[str]):
    """Texts of questions, each about a range of every one of the same attributes.

    Args:
        names: of the attributes, in declared order.
        ends: whole numbers, shape (attributes, 2, n): first cells, and those after the last.
    """

    def __init__(self, names: Sequence[str], ends: NDArray[np.integer[Any]]) -> None:
        self.names = tuple(names)
        self.ends = ends
        self._before = [f"{',' if place else ''}[[{json.dumps(name)}],[[" for place, name in enumerate(names)]

    @property
    def _form(self) -> str:
        parts = (before.replace("%", "%%") + "%d" + _BETWEEN + "%d" + _AFTER for before in self._before)
        return _HEAD + "".join(parts) + _TAIL

    def __len__(self) -> int:
        return int(self.ends.shape[2])

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> RangeTexts: ...

    def __getitem__(self, place: int | slice) -> str | RangeTexts:
        if isinstance(place, slice):
            return self.take(np.arange(len(self))[place])
        return self._form % tuple(self.ends[:, :, place].reshape(-1).tolist())

    def __iter__(self) -> Iterator[str]:
        form = self._form
        if not self.names:
            return iter([form] * len(self))
        columns = self.ends.reshape(2 * len(self.names), len(self)).tolist()
        return iter([form % ends for ends in zip(*columns, strict=True)])

    def take(self, places: NDArray[np.int64]) -> RangeTexts:
        """Return some of the texts."""
        return RangeTexts(self.names, self.ends[:, :, places])

    def checksums(self) -> NDArray[np.uint32]:
        """Return the CRC-32 of each text: uint32, shape (n,)."""
        found = np.full(len(self), zlib.crc32(_HEAD.encode()), dtype=np.uint32)
        for before, (first, stop) in zip(self._before, self.ends, strict=True):
            found = _followed(found, before, _BETWEEN, first)
            found = _followed(found, "", _AFTER, stop)
        return _followed(found, "", _TAIL, None)

    def are(self, own: NDArray[np.int64], others: RangeTexts, theirs: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which of some texts are those of others, one by one: bool, shape (n,)."""
        if self.names != others.names:
            return np.zeros(len(own), dtype=bool)
        same = self.ends[:, :, own] == others.ends[:, :, theirs]
        return np.asarray(same.all(axis=(0, 1)))


def _followed(
    checksums: NDArray[np.uint32], before: str, after: str, numbers: NDArray[np.integer[Any]] | None
) -> NDArray[np.uint32]:
    """Return the checksums of texts once each is followed by a number, between two other texts."""
    if numbers is None:
        places = np.zeros(len(checksums), dtype=np.int64)
        own, starts, tables = _kept(before, after, 0)
    elif (most := int(numbers.max(initial=0))) < _FEW:
        places = numbers.astype(np.int64)
        own, starts, tables = _kept(before, after, 1 << most.bit_length())
    else:
        distinct, which = np.unique(numbers, return_inverse=True)
        places = which.reshape(-1)
        own, starts, tables = _written([f"{before}{number}{after}" for number in distinct.tolist()])
    start, found = starts[places], own[places]
    for byte, each in enumerate(checksums.astype("<u4").view(np.uint8).reshape(-1, 4).T):
        found ^= tables.take(as_index(start + (256 * byte + each.astype(np.int64))))
    return found


@lru_cache(maxsize=128)
def _kept(before: str, after: str, values: int) -> _Written:
    """Return what is ``_written`` of texts with each number from 0 on; for none, of one without a number."""
    return _written([f"{before}{number}{after}" for number in range(values)] or [before + after])


def _written(words: Sequence[str]) -> _Written:
    """Return what texts do to a checksum that they follow.

    Returns:
        Their own checksums; where the table of each starts; and tables of what each value of each byte of
        the other checksum contributes after so many bytes, one after the other.
    """
    texts = [word.encode() for word in words]
    lengths = list(dict.fromkeys(map(len, texts)))
    starts = [lengths.index(len(text)) * 4 * 256 for text in texts]
    tables = []
    for length in lengths:
        zeros = bytes(length)
        none = zlib.crc32(zeros)
        places = (value << 8 * byte for byte in range(4) for value in range(256))
        tables += [zlib.crc32(zeros, place) ^ none for place in places]
    own = [zlib.crc32(text) for text in texts]
    return np.array(own, dtype=np.uint32), np.array(starts), np.array(tables, dtype=np.uint32)
