"""Anchors: a few public bytes kept apart from a session, which tell an older or rewritten copy of it."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterable
from dataclasses import astuple
from pathlib import Path
from typing import Any

from pmw.errors import SessionCorruptError, SessionError, StoreError
from pmw.session.loading import load_ledger
from pmw.session.store import SessionStore
from pmw.session.store.locking import turn_in
from pmw.session.verification.report import require
from queries.parsing import read_line

__all__ = [
    "Anchor",
]

_KINDS = ("charges", "measurements", "answers")


class Anchor:
    """A file that remembers how far a session had come: running hashes and numbers of what was released.

    Args:
        path: the file; where there is none, the first session that holds makes it.

    Raises:
        SessionError: the file is no anchor.
        StoreError: the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held = _read(path)
        self._next: dict[str, Any] | None = None

    def compare(self, store: SessionStore) -> str:
        """Check that a session goes on from what the anchor remembers; inside one reading of the file.

        Returns:
            What was compared, in words.

        Raises:
            SessionCorruptError: the session is an older copy, another one, or its history was rewritten.
        """
        rows: dict[str, Iterable[Any]] = {
            "charges": store.ledger(),
            "measurements": store.measurements(),
            "answers": store.answers(),
        }
        held = self._held
        found: dict[str, Any] = {
            "anchor": 1,
            "session": _name_of(store),
            "closed": store.meta("closed") is not None,
            "share": load_ledger(store).share,
        }
        if held is not None:
            require(held["session"] == found["session"], "the anchor is of another session")
            require(found["closed"] or not held["closed"], "it had been closed: this is an older copy")
        for kind in _KINDS:
            found[kind] = _follow(kind, rows[kind], None if held is None else held[kind])
        if held is not None:
            fault = f"the share spent was {held['share']:.4%} and is {found['share']:.4%}"
            require(found["share"] >= held["share"], fault)
        counts = ", ".join(f"{found[kind]['count']:,} {kind}" for kind in _KINDS)
        if store.meta("data") is None:  # a backup is closed, and its session is not: it leads no anchor on
            self._next = None
            kept = "no anchor is made of it" if held is None else "the anchor stays as it is"
            return f"{counts}; this is a backup, and {kept}"
        self._next = found
        return f"{counts}; {'a new anchor' if held is None else 'those of the anchor among them, unchanged'}"

    def update(self) -> None:
        """Write down, durably, how far the session has come that was compared last; never less than is there.

        Another verification may have written it since it was read. What that one remembers is as far or
        farther: then it stays.

        Raises:
            SessionError: it was made one of another session meanwhile.
            StoreError: the file cannot be written.
        """
        if self._next is None:
            return
        try:
            with turn_in(self._path.parent):
                if not self._is_passed():
                    self._write()
        except OSError as error:
            raise StoreError(f"{self._path}: the anchor cannot be written: {error.strerror}") from None

    def _is_passed(self) -> bool:
        """Tell whether the file by now remembers more than what is to be written."""
        held, ours = _read(self._path), self._next
        if held is None or ours is None:
            return False
        if held["session"] != ours["session"]:
            raise SessionError(f"{self._path}: it was made an anchor of another session meanwhile")
        farther = held["closed"] > ours["closed"] or held["share"] > ours["share"]
        return farther or any(held[kind]["count"] > ours[kind]["count"] for kind in _KINDS)

    def _write(self) -> None:
        # A name of its own: where folders cannot be locked, others may be writing too.
        part = self._path.with_name(f".{self._path.name}.{os.getpid()}-{threading.get_ident()}.part")
        try:
            with part.open("w", encoding="utf-8") as stream:
                stream.write(json.dumps(self._next, indent=1) + "\n")
                stream.flush()
                os.fsync(stream.fileno())
            part.replace(self._path)
        finally:
            part.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        form = read_line(path.read_bytes())
        if form["anchor"] != 1:
            raise ValueError(form["anchor"])
        for kind in _KINDS:
            form[kind] = {"count": int(form[kind]["count"]), "hash": str(form[kind]["hash"])}
        told = {"closed": bool(form["closed"]), "share": float(form["share"])}
        return {**form, **told, "session": str(form["session"])}
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{path}: the anchor cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise SessionError(f"{path}: expected an anchor, found something else; name another file") from None


def _name_of(store: SessionStore) -> str:
    """Return what tells a session from others: a hash of its contract and of what its opening released."""
    opening = store.measurements()[:1]
    if not opening:
        raise SessionCorruptError("its opening is not finished")
    return hashlib.sha256(f"{store.meta('contract')}{_text(opening[0])}".encode()).hexdigest()


def _follow(kind: str, rows: Iterable[Any], held: dict[str, Any] | None) -> dict[str, Any]:
    """Return the number and the running hash of rows, which must go through those that are remembered."""
    running, count, least = hashlib.sha256(), 0, 0 if held is None else held["count"]
    for count, row in enumerate(rows, start=1):
        running.update(_text(row).encode() + b"\n")
        if held is not None and count == least:
            fault = f"its first {least:,} {kind} are not what they were: history was rewritten"
            require(running.hexdigest() == held["hash"], fault)
    require(count >= least, f"it has {count:,} {kind}, and had {least:,}: this is an older copy")
    return {"count": count, "hash": running.hexdigest()}


def _text(row: Any) -> str:
    return json.dumps(astuple(row), default=bytes.hex)
