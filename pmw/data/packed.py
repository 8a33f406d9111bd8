"""Records in memory: the cells of several attributes to a byte, block by block.

Attributes are put together while all their combinations fit into a byte, so that ten attributes of a census
take five bytes a record. What a count needs of a record is a sum over its bytes, each looked up in a table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from queries.domain import Domain
from queries.records import CodedRecords

__all__ = [
    "Block",
    "pack",
    "PackedRecords",
]

Block: TypeAlias = tuple[NDArray[np.unsignedinteger[Any]], ...]  # of some records: one array per group
_Number = TypeVar("_Number", np.int64, np.uint64)

_BYTE = 256


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PackedRecords:
    """The cells of records (secret).

    Args:
        domain: the declared attributes.
        blocks: of some records each, as ``pack`` has them.
    """

    domain: Domain
    blocks: tuple[Block, ...]

    def __len__(self) -> int:
        return sum(len(block[0]) for block in self.blocks)

    def sums(self, tables: Sequence[NDArray[_Number] | None]) -> Iterator[NDArray[_Number]]:
        """Yield block by block, of each record, the sum over attributes of what its cell stands for.

        Args:
            tables: per attribute, a number for each cell: shape (cells,); None stands for nothing. One at
                least is given.
        """
        grouped = [
            None if all(tables[place] is None for place in group) else _joined(self.domain, group, tables)
            for group in _groups(self.domain.shape)
        ]
        for block in self.blocks:
            looked_up = [
                table[codes] for table, codes in zip(grouped, block, strict=True) if table is not None
            ]
            yield reduce(np.add, looked_up)

    def unpacked(self) -> CodedRecords:
        """Return the cells of each attribute in an array of its own."""
        columns = []
        for place, size in enumerate(self.domain.shape):
            tables: list[NDArray[np.int64] | None] = [None] * len(self.domain)
            tables[place] = np.arange(size)
            dtype = np.min_scalar_type(size - 1)
            pieces = [found.astype(dtype) for found in self.sums(tables)]
            columns.append(np.concatenate([np.empty(0, dtype=dtype), *pieces]))
        return CodedRecords(self.domain, tuple(columns))


def pack(domain: Domain, columns: Sequence[NDArray[np.integer[Any]]]) -> Block:
    """Return the cells of some records, packed.

    Args:
        domain: the declared attributes.
        columns: integers, shape (records,) each: the cell of each record, one array per attribute.
    """
    block = []
    for first, *others in _groups(domain.shape):
        group = [first, *others]
        cells = math.prod(domain.shape[place] for place in group)
        codes = columns[first].astype(np.min_scalar_type(cells - 1))
        for place in others:
            codes *= codes.dtype.type(domain.shape[place])
            codes += columns[place].astype(codes.dtype)
        block.append(codes)
    return tuple(block)


def _groups(shape: Sequence[int]) -> list[list[int]]:
    """Return which attributes are packed together, by their places: first fit, the longest first."""
    groups: list[list[int]] = []
    for place in sorted(range(len(shape)), key=lambda place: (-shape[place], place)):
        for group in groups:
            if shape[place] * math.prod(shape[other] for other in group) <= _BYTE:
                group.append(place)
                break
        else:
            groups.append([place])
    return groups


def _joined(
    domain: Domain, group: Sequence[int], tables: Sequence[NDArray[_Number] | None]
) -> NDArray[_Number]:
    """Return the table of a group: the sum of its attributes' tables, for each code that ``pack`` makes."""
    kind = next(table.dtype for table in tables if table is not None)
    parts = [
        np.zeros(domain.shape[place], dtype=kind) if table is None else table
        for place, table in ((place, tables[place]) for place in group)
    ]
    joined: NDArray[_Number] = reduce(np.add.outer, parts).reshape(-1)
    return joined
