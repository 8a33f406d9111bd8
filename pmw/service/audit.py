"""The audit: which question was answered or refused, for whom, when, and what was charged; a chain of lines.

Each line is a JSON object. ``before`` is the SHA-256 of the line before it, so that no line in the middle can
be changed, left out or put in unnoticed. A question stands there as the SHA-256 of its canonical text. No
line holds a text of a question, an answer or a token.

``charge`` is what was charged for the user since the user's line before, as an exact part of the cap. So the
charges of a user never add up to more than the ledger has, whatever fails and whoever asks at the same time.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from pmw.disk import synchronise
from pmw.errors import ServiceError, StoreError
from pmw.public.ledger import Ledger
from pmw.session.accounts import Booked
from pmw.session.store.locking import file_locks
from pmw.session.verification.report import Check

FIRST = "0" * 64  # in place of the hash before the first line
_FIELDS = ("time", "user", "session", "request", "kind", "question", "charge", "code", "before")
_LONGEST = 2**13  # bytes of a line
_CHARGE = re.compile("[0-9]{1,2000}(/[1-9][0-9]{0,2000})?", re.ASCII)
CHAIN = "audit: each line follows the one before"
CHARGES = "audit: what its users were charged is in the ledger"


class Asked(NamedTuple):
    """One question of a request: what was wanted, its canonical text, and the code where it was refused."""

    kind: str
    text: str
    code: str | None


class Audit:
    """The file that a service writes; what a power cut left of a last line is cut off."""

    def __init__(self, path: Path) -> None:
        self.path, self._lock = path, threading.Lock()
        self._spent: dict[tuple[str, str], Fraction] = {}
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise ServiceError(f"{path}: the audit cannot be written: {error.strerror}") from None
        try:
            self._before, self._size = self._taken_over()
        except BaseException:
            self.close()
            raise

    def _taken_over(self) -> tuple[str, int]:
        """Return the hash of the last line, and the size of the file."""
        fcntl = file_locks()
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.fchmod(self._file, 0o600)
            size = os.fstat(self._file).st_size
            tail = os.pread(self._file, 2 * _LONGEST, max(0, size - 2 * _LONGEST))
            whole = tail[: tail.rfind(b"\n") + 1]
            size -= len(tail) - len(whole)
            if tail and (not whole or _entry(whole.splitlines()[-1]) is None):
                raise ServiceError(f"{self.path}: expected a file that pmw serve --audit wrote; name another")
            os.ftruncate(self._file, size)
            synchronise(self.path.parent)
        except BlockingIOError:
            raise ServiceError(f"{self.path}: another service writes this audit; name another file") from None
        except OSError as error:
            raise ServiceError(f"{self.path}: the audit cannot be written: {error.strerror}") from None
        return (_hash(whole.splitlines()[-1]) if whole else FIRST), size

    def begin(self, session: str, booked: Iterable[Booked]) -> None:
        """Note what was charged in a session before anybody asks it."""
        self._spent |= {(session, one.name): one.spent for one in booked}

    def add(
        self, user: str, session: str, request: str, asked: Sequence[Asked], spent: Fraction | None
    ) -> None:
        """Write the questions of a request down, durably; what was charged stands in the first line.

        Args:
            spent: all that was charged for the user; None where that cannot be read: the next line has it.
        """
        with self._lock:
            known = self._spent.get((session, user), Fraction(0))
            now = known if spent is None else spent
            time = datetime.now(UTC).isoformat(timespec="milliseconds")
            lines, before, charge = [], self._before, now - known
            for one in asked:
                digest = sha256(one.text.encode(errors="replace")).hexdigest()
                values = (time, user, session, request, one.kind, digest, str(charge), one.code, before)
                lines.append(json.dumps(dict(zip(_FIELDS, values, strict=True))).encode())
                before, charge = _hash(lines[-1]), Fraction(0)
            self._write(b"".join(line + b"\n" for line in lines))
            self._before = before
            self._spent[session, user] = now

    def _write(self, content: bytes) -> None:
        try:
            os.ftruncate(self._file, self._size)  # what a failure left of a line
            if os.write(self._file, content) != len(content):
                raise OSError(None, "a part was written")
            os.fsync(self._file)
        except OSError as error:
            told = StoreError(f"{self.path}: the audit cannot be written; make room, then ask again")
            told.strerror = error.strerror
            raise told from None
        self._size += len(content)

    def close(self) -> None:
        """Let another service write the file."""
        os.close(self._file)


def audit_lines(path: Path) -> list[bytes]:
    """Return the whole lines of an audit; one that is being written is left out."""
    try:
        return path.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise ServiceError(f"{path}: the audit cannot be read: {error.strerror}") from None


def audit_checks(lines: Sequence[bytes], session: str, ledger: Ledger) -> tuple[Check, Check]:
    """Return whether lines are a chain, and whether their charges are in a ledger, read after them."""
    before, fault, found, sums = FIRST, None, 0, defaultdict[str, Fraction](Fraction)
    for number, line in enumerate(lines, start=1):
        entry = _entry(line)
        if entry is None or entry["before"] != before:
            fault = f"line {number} is none, or does not follow the one before it"
            break
        before = _hash(line)
        if entry["session"] == session:
            found += 1
            sums[entry["user"]] += Fraction(entry["charge"])
    charged = defaultdict[str, Fraction](Fraction)
    for charge in ledger.lines:
        for name, part in charge.booked:
            charged[name] += part * charge.price / ledger.cap
    beyond = sum(paid > charged[name] for name, paid in sums.items())
    told = f"{found:,} lines of {session}; {beyond} of {len(sums)} users were charged less than they say"
    chain = fault or f"{len(lines):,} lines, the last with the hash {before}"
    return Check(CHAIN, fault is None, chain), Check(CHARGES, not beyond and fault is None, told)


def _entry(line: bytes) -> Mapping[str, Any] | None:
    """Return a line of an audit; None for another one."""
    try:
        form = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(form, dict) or tuple(form) != _FIELDS:
        return None
    texts = all(isinstance(value, str) for name, value in form.items() if name != "code")
    return form if texts and _CHARGE.fullmatch(form["charge"]) else None


def _hash(line: bytes) -> str:
    return sha256(line).hexdigest()
