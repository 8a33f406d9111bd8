"""How much memory the records of a table may take, and where they go beyond it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmw.data.path_names import is_path_name
from pmw.errors import DataError
from queries.plain_values import type_name

_CONTAINER = Path("/sys/fs/cgroup/memory.max")  # of a container under Linux: bytes, or "max"
_FEWEST_RECORDS = 2**18  # are worked on at a time, however small the limit
# Of a record whose person is known, while a table is read: its cells one by one, the id and its hashes, and
# what puts them into order.
_BYTES_WITH_PERSON = 128


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """How many bytes of memory the records of a table may take.

    Beyond them the records' cells go to a file without a name, which vanishes with the process. The program
    itself, its model and the counts of single questions come on top, some 300 MB for most sessions.

    Args:
        size: bytes; None for half of the memory of the machine, or of the container.
        folder: where that file is made; None for TMPDIR, or else the system's temporary folder.

    Raises:
        DataError: the size is no positive whole number, or the folder is no path.
    """

    size: int | None = None
    folder: Path | None = None

    def __post_init__(self) -> None:
        if self.size is not None and (type(self.size) is not int or self.size < 1):
            shown = self.size if type(self.size) is int else type_name(self.size)
            raise DataError(f"expected a positive whole number of bytes as memory limit, got {shown}")
        if self.folder is not None:
            _require_folder_name(self.folder)

    @property
    def in_bytes(self) -> int:
        """The most bytes."""
        return _machine_bytes() // 2 if self.size is None else self.size

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


def _require_folder_name(folder: object) -> None:
    if not issubclass(type(folder), str | Path):
        raise DataError(f"expected the name of a folder, got a {type_name(folder)}")
    if not is_path_name(str(folder)):
        raise DataError(
            "expected the name of a folder, got a text that is too long for one, or holds line breaks or "
            "other control characters"
        )


def _machine_bytes() -> int:
    """Return the memory of the machine, or of the container that the process runs in."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        given = _CONTAINER.read_text().strip()
    except OSError:
        return whole
    return min(whole, int(given)) if given.isdigit() else whole


def require_limit(limit: object) -> None:
    """Refuse what is neither a limit nor None, by its type alone.

    Raises:
        DataError: it is none.
    """
    if limit is not None and not issubclass(type(limit), MemoryLimit):
        raise DataError(f"expected a MemoryLimit, got a {type_name(limit)}")
