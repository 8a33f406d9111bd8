"""Scratch files: how much memory the records of a table may take, and where they go beyond it.

Arrays that memory has no room for are in a file that has no name. Rows that must come in order are sorted
many at a time into runs in such a file; runs are merged by reading a block of each.

Privacy: the file holds cells of records. Only its owner may read it (mode 0600), nobody can open it by a
    name, and its blocks are free once the process ends, however it ends. A disk may keep what stood in freed
    blocks: encrypt it, or use a file system in memory. Messages name the folder and the system's reason
    alone.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pmw.errors import DataError
from queries.frozen import dataclass
from queries.plain_values import type_name

_T = TypeVar("_T")
_AT_ONCE = 2**26  # bytes of one call
_CONTAINER = Path("/sys/fs/cgroup/memory.max")  # of a container under Linux: bytes, or "max"
_FEWEST_RECORDS = 2**18  # are worked on at a time, however small the limit
# Of a record whose person is known, while a table is read: its cells one by one, the id and its hashes, and
# what puts them into order.
_BYTES_WITH_PERSON = 128
_LONGEST_PATH, _LONGEST_NAME = 4096, 255  # characters
Words = NDArray[np.uint64]
_Rows = Sequence[Words]  # of each row, one word from each array


def is_path_name(text: str) -> bool:
    """Return whether a text can name a file: it is short enough, and holds no control characters."""
    parts = text.replace("\\", "/").split("/")
    return (
        len(text) <= _LONGEST_PATH and max(map(len, parts)) <= _LONGEST_NAME and min(text, default="x") >= " "
    )


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """How many bytes of memory the records of a table may take.

    Beyond them the records' cells go to a file without a name, which vanishes with the process. The program
    itself, its model and the counts of single questions come on top, some 300 MB for most sessions.

    Args:
        size: bytes; None for half of the memory of the machine, or of the container.
        folder: where that file is made; None for TMPDIR, or else the system's temporary folder.
    """

    size: int | None = None
    folder: Path | None = None

    def __post_init__(self) -> None:
        if self.size is not None and (type(self.size) is not int or self.size < 1):
            shown = self.size if type(self.size) is int else type_name(self.size)
            raise DataError(f"expected a positive whole number of bytes as memory limit, got {shown}")
        if self.folder is not None and not issubclass(type(self.folder), str | Path):
            raise DataError(f"expected the name of a folder, got a {type_name(self.folder)}")
        if self.folder is not None and not is_path_name(str(self.folder)):
            raise DataError(
                "expected the name of a folder, got a text that is too long for one, or holds line breaks or "
                "other control characters"
            )

    @property
    def in_bytes(self) -> int:
        """The most bytes."""
        if self.size is not None:
            return self.size
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        with suppress(OSError):
            given = _CONTAINER.read_text().strip()
            whole = min(whole, int(given)) if given.isdigit() else whole
        return whole // 2

    @property
    def records_with_persons(self) -> int:
        """The most records that are held while it is looked up whose they are."""
        return max(_FEWEST_RECORDS, self.in_bytes // _BYTES_WITH_PERSON)

    def sorted_rows(self, words: int) -> int:
        """Return the most rows of so many words of 8 bytes that are put into order at a time."""
        return max(_FEWEST_RECORDS, self.in_bytes // (32 * words))

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON, with the absolute path of the folder."""
        return {
            "size": self.size,
            "folder": None if self.folder is None else str(Path(self.folder).absolute()),
        }

    @classmethod
    def from_dict(cls, form: dict[str, Any]) -> MemoryLimit:
        """Return the limit of a form."""
        return cls(form["size"], None if form["folder"] is None else Path(form["folder"]))


def require_limit(limit: object) -> None:
    """Refuse what is neither a limit nor None, by its type alone."""
    if limit is not None and not issubclass(type(limit), MemoryLimit):
        raise DataError(f"expected a MemoryLimit, got a {type_name(limit)}")


class ScratchFile:
    """A file without a name, which arrays are appended to."""

    __slots__ = ("__weakref__", "_descriptor", "_folder", "_size")

    def __init__(self, folder: Path | None) -> None:
        # A TMPDIR that is not there is refused: the library would silently take another folder.
        self._folder = Path(folder or os.environ.get("TMPDIR") or tempfile.gettempdir())
        self._size = 0
        self._descriptor = self._tried("no file could be made there for cells of the table", self._made)
        weakref.finalize(self, os.close, self._descriptor)

    def append(self, array: NDArray[Any]) -> StoredArray:
        """Write an array of one dimension behind those before it."""
        stored = StoredArray(self, self._size, len(array), array.dtype)
        content = np.ascontiguousarray(array).view(np.uint8).data if len(array) else memoryview(b"")
        self._tried("the cells of the table could not be written there", lambda: self._write(content))
        return stored

    def read(self, offset: int, count: int) -> bytes:
        """Return bytes that were written."""
        return self._tried("the cells of the table could not be read back", lambda: self._read(offset, count))

    def _made(self) -> int:
        # Made without a name where the system can do that; else its name is removed before it is written to.
        with tempfile.TemporaryFile(buffering=0, dir=self._folder) as file:
            return os.dup(file.fileno())

    def _write(self, content: memoryview) -> None:
        while content:
            written = os.pwrite(self._descriptor, content[:_AT_ONCE], self._size)
            content = content[written:]
            self._size += written

    def _read(self, offset: int, count: int) -> bytes:
        parts, done = [], 0
        while done < count:
            part = os.pread(self._descriptor, min(_AT_ONCE, count - done), offset + done)
            if not part:
                raise OSError(0, "it is shorter than it was")
            parts.append(part)
            done += len(part)
        return b"".join(parts)

    def _tried(self, told: str, call: Callable[[], _T]) -> _T:
        try:
            return call()
        except OSError as error:
            reason = error.strerror or type(error).__name__
        raise DataError(
            f"{self._folder}: {told} ({reason}); the table exceeds the memory that it may take: name another "
            "folder with room for its cells, or allow more memory"
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StoredArray:
    """An array in a scratch file (secret)."""

    file: ScratchFile
    offset: int
    count: int
    dtype: np.dtype[Any]

    def __len__(self) -> int:
        return self.count

    def read(self, first: int = 0, count: int | None = None) -> NDArray[Any]:
        """Return so many of its items, from the first one wanted; all that follow it without a number."""
        count = self.count - first if count is None else min(count, self.count - first)
        width = self.dtype.itemsize
        return np.frombuffer(self.file.read(self.offset + first * width, count * width), dtype=self.dtype)


class SortedRows:
    """Rows of words that come part by part (secret); the last word weighs most, as ``lexsort`` has it."""

    def __init__(self, words: int, limit: MemoryLimit) -> None:
        self._words, self._most, self._folder = words, limit.sorted_rows(words), limit.folder
        self._file = ScratchFile(self._folder)
        self._held: list[_Rows] = []
        self._held_rows = self._rows = 0
        self._runs: list[list[StoredArray]] = []

    def add(self, rows: _Rows) -> None:
        """Take in rows: uint64, shape (rows,), one array per word."""
        self._held.append(rows)
        self._held_rows += len(rows[0])
        if self._held_rows >= self._most:
            self._write_run()

    def digest(self) -> bytes:
        """Return 32 bytes of all rows: what ``multiset_digest`` gives for them, word by word."""
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
        self._runs.append([self._file.append(word) for word in rows])

    def _merged(self) -> Iterator[_Rows]:
        """Yield all rows in order, some at a time."""
        block = max(1, self._most // max(1, len(self._runs)))
        runs = [_Run(words, block) for words in self._runs]
        while runs := [run for run in runs if run.fill()]:
            # What is beyond the last row of a block may lie before the next block of that run.
            ends = [run.end for run in runs if run.goes_on]
            end = min(ends) if ends else None
            taken = [run.take(end) for run in runs]
            yield _in_order([np.concatenate(word) for word in zip(*taken, strict=True)])


class _Run:
    """Rows in order, read block by block."""

    def __init__(self, words: Sequence[StoredArray], block: int) -> None:
        self._stored, self._block, self._next = words, block, 0
        self._loaded: _Rows = [np.empty(0, dtype=np.uint64) for _ in words]

    def fill(self) -> bool:
        """Load a block where none is; return whether there is one."""
        if not len(self._loaded[0]):
            self._loaded = [word.read(self._next, self._block) for word in self._stored]
            self._next += len(self._loaded[0])
        return len(self._loaded[0]) > 0

    @property
    def goes_on(self) -> bool:
        return self._next < len(self._stored[0])

    @property
    def end(self) -> tuple[int, ...]:
        """The last row of the loaded block, the word that weighs most first."""
        return self._row(len(self._loaded[0]) - 1)

    def take(self, end: tuple[int, ...] | None) -> _Rows:
        """Return the loaded rows up to an end, which are loaded no more; None takes all."""
        count = len(self._loaded[0])
        low = count if end is None else bisect_right(range(count), end, key=self._row)
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
