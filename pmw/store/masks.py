"""Masks: what makes the recorded bytes of a batch unreadable once the batch has its outcome.

The log of a session file keeps old pages until it is emptied, which takes three synchronised writes. So a
batch's bytes never go to the session file as they are: they are combined with a mask of as many random
bytes, which lies in a file beside it. When the batch has its outcome its mask is overwritten in place; what
old pages still hold of the bytes is then as good as random. A hundred masks are made at a time, durably, so
that recording a batch stays one durable commit.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from pmw.disk import synchronise
from pmw.errors import SessionCorruptError, StoreError
from pmw.randomness import SEED_BYTES, fresh_seed

__all__ = [
    "Masks",
]

_END = "-masks"
_COUNT = 100  # made at a time
_CHECK = 16  # bytes that tell which batch a mask belongs to, and that it is whole
_ENTRY = SEED_BYTES + _CHECK


class Masks:
    """The file beside a session file that holds the masks of the batches to come.

    Args:
        path: the resolved session file; None for a session in memory, whose bytes are kept as they are.
        name: what messages call the session.
    """

    def __init__(self, path: Path | None, name: str) -> None:
        self._file = None if path is None else path.with_name(path.name + _END)
        self._name = name
        self._lasts = False  # the name of the file, whatever happens to the machine

    def mask(self, intent: int, seed: bytes) -> bytes:
        """Return a batch's bytes combined with its mask, and a check; masks are made, durably, where none is.

        Call it while nothing else can record a batch, and while none waits: older masks are thrown away.

        Raises:
            StoreError: the file cannot be written.
        """
        if self._file is None:
            return seed
        mask = self._read(intent)
        try:
            if mask is None:
                mask = self._make(intent)
            if not self._lasts:  # a kill may have come between a making and this
                synchronise(self._file.parent)
                self._lasts = True
        except OSError:
            raise StoreError(
                f"{self._name}: the file of masks beside the session cannot be written; nothing was drawn; "
                "make room or restore access, then ask again"
            ) from None
        return _combined(seed, mask) + _tag(seed, mask)

    def unmask(self, intent: int, masked: bytes) -> bytes | None:
        """Return a batch's bytes, or None where its mask is gone, damaged or another session's."""
        if self._file is None:
            return masked
        mask = self._read(intent)
        if mask is None or len(masked) != _ENTRY:
            return None
        seed = _combined(masked[:SEED_BYTES], mask)
        return seed if masked[SEED_BYTES:] == _tag(seed, mask) else None

    def require(self) -> None:
        """Refuse to go on with a session that was moved or copied without what lies beside it.

        Masks are there from before a session's first charge until it is closed.

        Raises:
            SessionCorruptError: they are not.
        """
        if self._file is not None and not self._file.exists():
            raise SessionCorruptError(
                f"{self._name}: the file of masks ({self._name}{_END}) is not beside it: the session was "
                "moved or copied without its companions, and its last charges may be missing; put its "
                "-masks, -charges and -wal files beside it, or close it"
            )

    def wipe(self, intent: int, since: int | None = None) -> bool:
        """Overwrite the masks of batches; tell whether they are gone from the file.

        Nothing is synchronised: to whoever reads the file they are gone at once, and after a power cut
        they are wiped again.

        Args:
            intent: the last batch.
            since: the first one; the last alone if left out.
        """
        if self._file is None:
            return True
        try:
            descriptor = os.open(self._file, os.O_RDWR | os.O_NOFOLLOW)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        try:
            for number in range(intent if since is None else max(since, intent - _COUNT + 1), intent + 1):
                # The place may be another batch's, of masks that were made meanwhile.
                if _mask_of(number, os.pread(descriptor, _ENTRY, _place(number))) is not None:
                    os.pwrite(descriptor, bytes(_ENTRY), _place(number))
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True

    def forget(self) -> None:
        """Wipe all masks and remove the file, where there is one.

        Raises:
            StoreError: it cannot be removed.
        """
        if self._file is None:
            return
        try:
            self._file.with_name(f"{self._file.name}.part").unlink(missing_ok=True)  # as a kill left it
            if not self._file.is_symlink():  # another's file is not written to
                with self._file.open("r+b", buffering=0) as file:
                    file.write(bytes(_COUNT * _ENTRY))
                    os.fsync(file.fileno())  # a power cut may bring the file back, but no mask in it
            self._file.unlink()
        except FileNotFoundError:
            return
        except OSError:
            raise StoreError(
                f"{self._name}: the file of masks beside the session ({self._name}{_END}) cannot be removed; "
                "restore access, then try again"
            ) from None

    def _read(self, intent: int) -> bytes | None:
        if self._file is None:
            return None
        try:
            with self._file.open("rb", buffering=0) as file:
                return _mask_of(intent, os.pread(file.fileno(), _ENTRY, _place(intent)))
        except OSError:
            return None

    def _make(self, intent: int) -> bytes:
        """Write masks for this batch and the next ones into a new file, and return the first."""
        if self._file is None:
            raise ValueError("a session in memory has no masks")
        self._lasts = False
        masks = {number: fresh_seed() for number in range(intent, intent + _COUNT)}
        part = self._file.with_name(f"{self._file.name}.part")
        part.unlink(missing_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "wb") as file:
            for number in sorted(masks, key=_place):
                file.write(masks[number] + _check_of(number, masks[number]))
            file.flush()
            os.fsync(descriptor)
        part.replace(self._file)
        return masks[intent]


def _place(intent: int) -> int:
    return intent % _COUNT * _ENTRY


def _check_of(intent: int, mask: bytes) -> bytes:
    return hashlib.blake2b(intent.to_bytes(8, "little") + mask, digest_size=_CHECK).digest()


def _mask_of(intent: int, entry: bytes) -> bytes | None:
    """Return the mask of an entry, where it is whole and belongs to a batch."""
    mask = entry[:SEED_BYTES]
    return mask if entry[SEED_BYTES:] == _check_of(intent, mask) else None


def _tag(seed: bytes, mask: bytes) -> bytes:
    """Return what tells that a mask is the one that a batch's bytes were combined with; none without it."""
    return hashlib.blake2b(seed, key=mask, digest_size=_CHECK).digest()


def _combined(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
