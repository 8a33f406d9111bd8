"""The companion: the file beside a session file that holds the batch under way, and tells a lost log.

A batch that draws noise is written here first and synchronised: its number, its requests, how many charges
the session file must hold, and the 32 bytes that its noise is made from, its seed. Only then is anything
drawn. Its outcome is one commit of the session file, which keeps the number of the batch. After the commit
the seed is overwritten in place, without waiting for the disk: the seed is never part of the session file or
of its log.

Whatever a crash leaves, the two files say what to do. Where the companion is one batch ahead and has the
seed, the batch is drawn again and has the outcome that it would have had. Where the numbers agree, the batch
is finished. Otherwise charges are gone: the log was lost, or one of the files is an older copy.

Two slots take turns. A beginning that is torn spoils the slot of a batch for which nothing was drawn, and
leaves the one before, whose seed may be there again and whose requests may be gone; a seed that is
overwritten in part leaves the rest of its slot, and cannot be read.
"""

from __future__ import annotations

import hashlib
import os
import struct
from dataclasses import replace
from pathlib import Path

from pmw.disk import synchronise
from pmw.errors import SessionCorruptError, StoreError
from pmw.privacy.random_bits import SEED_BYTES
from pmw.session.store.connection import SessionFiles
from pmw.session.store.rows import IntentRow

SESSION_BYTES = 16  # what tells one session from another
_KIND = b"pmw slot"
_HEAD = struct.Struct("<8s16sQQQ32s")  # kind, session, number, charges, and size and digest of the requests
_CHECK = 16  # bytes: no damage passes one by chance
_SEED = slice(_HEAD.size, _HEAD.size + SEED_BYTES + _CHECK)  # and what tells that it is whole
_ENTRY = _SEED.stop + _CHECK  # the check of the head comes last: a torn beginning lacks it
_SLOT = 4096  # bytes: a torn write of one slot leaves the other
_REQUESTS = 2 * _SLOT  # where the requests of the newest batch begin


class Companion:
    """The file of the batch under way; for a session in memory, the batch itself.

    Args:
        path: the resolved session file; None for a session in memory.
    """

    def __init__(self, path: Path | None, name: str) -> None:
        self._file = None if path is None else SessionFiles(path).companion
        self._name = name
        self._kept: IntentRow | None = None  # of a session in memory

    def create(self, session: bytes, intent: IntentRow) -> None:
        """Make the file durably, in place of what an earlier session of the same name left.

        Args:
            session: 16 bytes that no other session has.
        """
        if self._file is None:
            self._kept = intent
            return
        part = self._file.with_name(f"{self._file.name}.part")
        try:
            part.unlink(missing_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            _put(os.open(part, flags, 0o600), session, intent)
            part.replace(self._file)
            synchronise(self._file.parent)
        except OSError as error:
            raise StoreError(
                f"{self._name}-companion: the companion file cannot be made: {error.strerror}"
            ) from None

    def begin(self, session: bytes, intent: IntentRow) -> None:
        """Write a batch down durably, before anything is drawn for it. Call it while nobody else can."""
        if self._file is None:
            self._kept = intent
            return
        try:
            _put(os.open(self._file, os.O_RDWR | os.O_NOFOLLOW), session, intent)
        except OSError:
            raise StoreError(
                f"{self._name}-companion: the companion file cannot be written; nothing was drawn; make "
                "room or restore access, then ask again"
            ) from None

    def read(self, session: bytes, last: int) -> IntentRow:
        """Return the newest batch; its seed is empty where it was overwritten.

        Args:
            session: 16 bytes that no other session has.
        """
        if self._file is None and self._kept is not None:
            return self._kept
        try:
            raw = b"" if self._file is None else self._file.read_bytes()
        except FileNotFoundError:
            raise self._lacks("is not beside it: the session was moved or copied alone") from None
        except OSError as error:
            raise self._lacks(f"cannot be read: {error.strerror}") from None
        found = [entry for place in (0, 1) if (entry := _entry(raw, place, last)) is not None]
        if not found:
            raise self._lacks("is damaged")
        owner, newest = max(found, key=lambda entry: entry[1].id)
        if owner != session:
            raise self._lacks("is another session's")
        return newest

    def wipe(self, last: int) -> None:
        """Overwrite the seeds of finished batches; nothing is synchronised, and nothing fails.

        To whoever reads the file they are gone at once. After a power cut they are overwritten again.
        """
        if self._file is None:
            if self._kept is not None and self._kept.id <= last:
                self._kept = replace(self._kept, seed=b"")
            return
        try:
            descriptor = os.open(self._file, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            return
        try:
            for place in (0, _SLOT):
                head = _head(os.pread(descriptor, _ENTRY, place))
                if head is not None and head[2] <= last:
                    _write(descriptor, bytes(_SEED.stop - _SEED.start), place + _SEED.start)
        except OSError:
            return
        finally:
            os.close(descriptor)

    def remove(self) -> None:
        """Overwrite the file durably and remove it, where there is one."""
        self._kept = None
        if self._file is None:
            return
        try:
            self._file.with_name(f"{self._file.name}.part").unlink(missing_ok=True)  # as a kill left it
            if not self._file.is_symlink():  # another's file is not written to
                with self._file.open("r+b", buffering=0) as file:
                    _write(file.fileno(), bytes(_REQUESTS), 0)
                    os.fsync(file.fileno())  # a power cut may bring the file back, but no seed in it
            self._file.unlink()
        except FileNotFoundError:
            return
        except OSError:
            raise StoreError(
                f"{self._name}-companion: the companion file cannot be removed; restore access, try again"
            ) from None

    def _lacks(self, fault: str) -> SessionCorruptError:
        return SessionCorruptError(
            f"{self._name}: its companion file ({self._name}-companion) {fault}; its last batch may be "
            "missing. Put the session's own companion file beside it, with the -wal file where there is one, "
            "or close the session with --abandon"
        )


def _put(descriptor: int, session: bytes, intent: IntentRow) -> None:
    """Write a batch into its slot, synchronise it, and close the descriptor."""
    try:
        requests = f"{intent.kind}\n{intent.proposal}".encode()
        digest = hashlib.blake2b(requests, digest_size=32).digest()
        head = _HEAD.pack(_KIND, session, intent.id, intent.charges, len(requests), digest)
        seed, check = intent.seed, _check(head)
        _write(descriptor, requests, _REQUESTS)
        _write(descriptor, head + seed + _check(seed, check) + check, _SLOT * (intent.id % 2))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(descriptor: int, content: bytes, place: int) -> None:
    while content:
        written = os.pwrite(descriptor, content, place)
        content, place = content[written:], place + written


def _entry(raw: bytes, place: int, last: int) -> tuple[bytes, IntentRow] | None:
    """Return the session and the batch of slot 0 or 1; None where it is not whole."""
    entry = raw[place * _SLOT : place * _SLOT + _ENTRY]
    head = _head(entry)
    if head is None:
        return None
    _, session, number, charges, size, digest = head
    seed, check = entry[_SEED][:SEED_BYTES], entry[_SEED][SEED_BYTES:]
    if check != _check(seed, entry[_SEED.stop :]):  # overwritten: the batch has its outcome
        return session, IntentRow(number, "", "", b"", charges)
    requests = raw[_REQUESTS : _REQUESTS + size]
    if hashlib.blake2b(requests, digest_size=32).digest() != digest:
        # The next batch was begun, if this one has its outcome; else its own beginning was torn.
        return (session, IntentRow(number, "", "", b"", charges)) if number <= last else None
    kind, _, proposal = requests.decode().partition("\n")
    return session, IntentRow(number, kind, proposal, seed, charges)


def _head(entry: bytes) -> tuple[bytes, bytes, int, int, int, bytes] | None:
    if len(entry) != _ENTRY or _check(entry[: _HEAD.size]) != entry[_SEED.stop :]:
        return None
    found: tuple[bytes, bytes, int, int, int, bytes] = _HEAD.unpack(entry[: _HEAD.size])
    return found if found[0] == _KIND else None


def _check(content: bytes, key: bytes = b"") -> bytes:
    return hashlib.blake2b(content, key=key, digest_size=_CHECK).digest()
