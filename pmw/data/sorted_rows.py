"""Rows in order: any number of them, of which few are in memory.

Rows are sorted many at a time into runs in a scratch file; runs are merged by reading a block of each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from pmw.data.memory_limit import MemoryLimit
from pmw.data.scratch import ScratchFile, StoredArray

Words = NDArray[np.uint64]
_Rows = Sequence[Words]  # of each row, one word from each array


class SortedRows:
    """Rows of words that come part by part (secret); the last word weighs most, as ``lexsort`` has it.

    Args:
        words: of a row.
        limit: how much memory they may take.
    """

    def __init__(self, words: int, limit: MemoryLimit) -> None:
        self._words, self._most, self._folder = words, limit.sorted_rows(words), limit.folder
        self._file = ScratchFile(self._folder)
        self._held: list[_Rows] = []
        self._held_rows = self._rows = 0
        self._runs: list[_Run] = []

    def add(self, rows: _Rows) -> None:
        """Take in rows: uint64, shape (rows,), one array per word.

        Raises:
            DataError: the disk is full, or fails.
        """
        self._held.append(rows)
        self._held_rows += len(rows[0])
        if self._held_rows >= self._most:
            self._write_run()

    def digest(self) -> bytes:
        """Return 32 bytes of all rows: what ``multiset_digest`` gives for them, word by word.

        Raises:
            DataError: the disk is full, or fails.
        """
        self._write_run()
        digest = hashlib.sha256(self._rows.to_bytes(8, "little"))
        if self._words == 1:
            for (word,) in self._merged():
                digest.update(word.view(np.uint8).data)
            return digest.digest()
        # All first words come before all second ones.
        file = ScratchFile(self._folder)
        pieces = [[file.append(word) for word in rows] for rows in self._merged()]
        for number in range(self._words):
            for piece in pieces:
                digest.update(piece[number].read().view(np.uint8).data)
        return digest.digest()

    def _write_run(self) -> None:
        if not self._held_rows:
            return
        rows = _in_order([np.concatenate(word) for word in zip(*self._held, strict=True)])
        self._held, self._held_rows = [], 0
        self._rows += len(rows[0])
        self._runs.append(_Run([self._file.append(word) for word in rows]))

    def _merged(self) -> Iterator[_Rows]:
        """Yield all rows in order, some at a time."""
        runs = self._runs
        for run in runs:
            run.rewind(max(1, self._most // len(runs)))
        while runs := [run for run in runs if run.fill()]:
            # What is beyond the last row of a block may lie before the next block of that run.
            ends = [run.end for run in runs if run.goes_on]
            end = min(ends) if ends else None
            taken = [run.take(end) for run in runs]
            yield _in_order([np.concatenate(word) for word in zip(*taken, strict=True)])


class _Run:
    """Rows in order, read block by block.

    Args:
        words: of each row, one from each array.
    """

    def __init__(self, words: Sequence[StoredArray]) -> None:
        self._stored = words
        self.rewind(1)

    def rewind(self, block: int) -> None:
        """Begin again; read so many rows at a time."""
        self._block, self._next = block, 0
        self._loaded: _Rows = [np.empty(0, dtype=np.uint64) for _ in self._stored]

    def fill(self) -> bool:
        """Load a block where none is; return whether there is one."""
        if not len(self._loaded[0]):
            self._loaded = [word.read(self._next, self._block) for word in self._stored]
            self._next += len(self._loaded[0])
        return len(self._loaded[0]) > 0

    @property
    def goes_on(self) -> bool:
        """There is more than the loaded block."""
        return self._next < len(self._stored[0])

    @property
    def end(self) -> tuple[int, ...]:
        """The last row of the loaded block, the word that weighs most first."""
        return self._row(len(self._loaded[0]) - 1)

    def take(self, end: tuple[int, ...] | None) -> _Rows:
        """Return the loaded rows up to an end, which are loaded no more; None takes all."""
        low, high = 0, len(self._loaded[0])
        if end is None:
            low = high
        while low < high:
            middle = (low + high) // 2
            if self._row(middle) <= end:  # type: ignore[operator]  # not None here
                low = middle + 1
            else:
                high = middle
        taken = [word[:low] for word in self._loaded]
        self._loaded = [word[low:] for word in self._loaded]
        return taken

    def _row(self, place: int) -> tuple[int, ...]:
        return tuple(int(word[place]) for word in reversed(self._loaded))


def _in_order(rows: list[Words]) -> list[Words]:
    if len(rows) == 1:
        rows[0].sort()
        return rows
    order = np.lexsort(rows)
    return [word[order] for word in rows]
