"""The witness: how many charges a session had, kept beside its file while they lie in its log alone.

After each charge the log is emptied into the file, unless somebody is just reading old pages. Until then, a
log that is lost, cut or damaged would take charges with it, and leave a file that looks whole. The witness
is a lower bound: a file with fewer charges is refused.
"""

from __future__ import annotations

import os
from pathlib import Path

from pmw.disk import synchronise
from pmw.errors import SessionCorruptError, StoreError

__all__ = [
    "Witness",
]

_END = "-charges"


class Witness:
    """The file beside a session file that tells its least number of charges.

    Args:
        path: the resolved session file; None for a session in memory, which has no witness.
        name: what messages call the session.
    """

    def __init__(self, path: Path | None, name: str) -> None:
        self._file = None if path is None else path.with_name(path.name + _END)
        self._name = name

    def tell(self, charges: int) -> None:
        """Write a number of charges down, durably.

        Raises:
            StoreError: it cannot be written.
        """
        if self._file is None:
            return
        try:
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            try:
                os.write(descriptor, b"%020d\n" % charges)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            synchronise(self._file.parent)
        except OSError:
            raise StoreError(
                f"{self._name}: the file of charges beside the session cannot be written; nothing was "
                "released; make room or restore access, then ask again"
            ) from None

    def told(self) -> int:
        """Return the least number of charges; 0 where none was written down.

        Raises:
            SessionCorruptError: it cannot be read.
        """
        try:
            return 0 if self._file is None else int(self._file.read_bytes() or b"0")
        except FileNotFoundError:
            return 0
        except (OSError, ValueError):
            raise SessionCorruptError(
                f"{self._name}: the file of charges beside the session ({self._name}{_END}) cannot be read"
            ) from None

    def require(self, told: int, found: int) -> None:
        """Compare the charges of a file with the number that was told before the file was read.

        Raises:
            SessionCorruptError: charges are gone.
        """
        if found < told:
            raise SessionCorruptError(
                f"{self._name}: {told} charges were made, and the file holds {found}: its log "
                f"({self._name}-wal) was lost or damaged, or an older copy was put in its place"
            )

    def forget(self) -> None:
        """Remove what an earlier session of the same name left."""
        if self._file is not None:
            self._file.unlink(missing_ok=True)
