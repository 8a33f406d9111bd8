"""Scratch files: arrays that memory has no room for, in a file that has no name.

Privacy: the file holds cells of records. Only its owner may read it (mode 0600), nobody can open it by a
    name, and its blocks are free once the process ends, however it ends. A disk may keep what stood in freed
    blocks: encrypt it, or use a file system in memory. Messages name the folder and the system's reason
    alone.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pmw.errors import DataError

_T = TypeVar("_T")
_AT_ONCE = 2**26  # bytes of one call


class ScratchFile:
    """A file without a name, which arrays are appended to.

    Args:
        folder: where it is made; None for TMPDIR, or else the system's temporary folder.

    Raises:
        DataError: no file can be made there.
    """

    __slots__ = ("__weakref__", "_descriptor", "_folder", "_size")

    def __init__(self, folder: Path | None) -> None:
        # A TMPDIR that is not there is refused: the library would silently take another folder.
        self._folder = Path(folder or os.environ.get("TMPDIR") or tempfile.gettempdir())
        self._size = 0
        self._descriptor = self._tried("no file could be made there for cells of the table", self._made)
        weakref.finalize(self, os.close, self._descriptor)

    def append(self, array: NDArray[Any]) -> StoredArray:
        """Write an array of one dimension behind those before it.

        Raises:
            DataError: the disk is full, or fails.
        """
        stored = StoredArray(self, self._size, len(array), array.dtype)
        content = np.ascontiguousarray(array).view(np.uint8).data if len(array) else memoryview(b"")
        self._tried("the cells of the table could not be written there", lambda: self._write(content))
        return stored

    def read(self, offset: int, count: int) -> bytes:
        """Return bytes that were written.

        Raises:
            DataError: the disk fails.
        """
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
    """An array in a scratch file (secret).

    Args:
        file: where it is.
        offset: of its first byte.
        count: the number of its items.
        dtype: their type.
    """

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
