"""The file of drafts: what each was charged, durable before anything of it is told.

A line for each charge, only ever added to, under a lock. A line that was never finished stands for a draft
that told nothing, and is overwritten by the next.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from pmw.disk import synchronise
from pmw.errors import BudgetError, StoreError
from pmw.public.codec import form_of, loads, read
from pmw.public.options import DraftCharge
from pmw.session.store.locking import file_locks

_CONTENT = "online-pmw draft"


def record_charge(path: Path, charge: DraftCharge) -> None:
    """Add a charge to a file, which is made where there is none; when this returns, it is durable."""
    fcntl = file_locks()
    line = json.dumps({"content": _CONTENT, **form_of(charge)})
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            known = file.read()
            whole = known.rfind(b"\n") + 1
            _read(known[:whole], path)
            file.seek(whole)
            file.truncate()
            file.write(line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        synchronise(path.absolute().parent)
    except OSError as error:
        raise StoreError(
            f"the charge of the draft could not be written to {path} ({error.strerror}); nothing was drawn"
        ) from None


def read_charges(path: Path) -> tuple[DraftCharge, ...]:
    """Return all charges of a file, in order."""
    try:
        known = path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}); name the file of the drafts") from None
    found = _read(known[: known.rfind(b"\n") + 1], path)
    if not found:
        raise StoreError(f"{path} holds no charge of a draft")
    return found


def _read(text: bytes, path: Path) -> tuple[DraftCharge, ...]:
    try:
        return tuple(_charge(line.decode()) for line in text.splitlines())
    except (ValueError, LookupError, TypeError, AttributeError, BudgetError):
        raise StoreError(f"{path} is no file of drafts, or is damaged; name another one") from None


def _charge(line: str) -> DraftCharge:
    form = loads(line)
    if form.pop("content") != _CONTENT:
        raise ValueError
    found: DraftCharge = read(DraftCharge, form)
    return found
