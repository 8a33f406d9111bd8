"""Anchors: a few public bytes kept apart from a session, which tell an older or rewritten copy of it."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pmw.display.texts import counted
from pmw.errors import SessionError, StoreError
from pmw.session.store.locking import turn_in
from pmw.session.store.store import SessionStore
from pmw.session.verification.report import require
from queries.parsing import read_line

_FORM = 2  # an anchor of another form is none
_COUNTED = ("links", "answers")


class Anchor:
    """A file that remembers how far a session had come: the last link of its chain.

    That link stands for every charge, measurement and measured answer before it. Of answers without noise of
    their own the number is remembered.

    Args:
        path: the file; where there is none, the first session that holds makes it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held = _read(path)
        self._next: dict[str, Any] | None = None

    def compare(self, store: SessionStore) -> str:
        """Check that a session goes on from what the anchor remembers; inside one reading of the file.

        Returns:
            What was compared, in words.
        """
        chained = store.chained()
        require(bool(chained.links), "its opening is not finished")
        found: dict[str, Any] = {
            "anchor": _FORM,
            "session": chained.origin.hex(),
            "closed": store.meta("closed") is not None,
            "links": len(chained.links),
            "link": chained.links[-1].hex(),
            "answers": store.answers.count(),
        }
        if self._held is not None:
            _require_after(self._held, found, chained.links)
        counts = ", ".join(counted(found[kind], kind[:-1]) for kind in _COUNTED)
        if store.meta("data") is None:  # a backup is closed, and its session is not: it leads no anchor on
            self._next = None
            kept = "no anchor is made of it" if self._held is None else "the anchor stays as it is"
            return f"{counts}; this is a backup, and {kept}"
        self._next = found
        kept = "a new anchor" if self._held is None else "those of the anchor among them, unchanged"
        return f"{counts}; {kept}"

    def update(self) -> None:
        """Write down, durably, how far the session has come that was compared last; never less than is there.

        Another verification may have written it since it was read. What that one remembers is as far or
        farther: then it stays.
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
        return any(held[kind] > ours[kind] for kind in ("closed", *_COUNTED))

    def _write(self) -> None:
        # A name of its own: where folders cannot be locked, others may be writing too.
        part = self._path.with_name(f".{self._path.name}.{os.getpid()}-{threading.get_ident()}.part")
        try:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                os.fchmod(descriptor, 0o600)
                stream.write(json.dumps(self._next, indent=1) + "\n")
                stream.flush()
                os.fsync(stream.fileno())
            part.replace(self._path)
        finally:
            part.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        form = read_line(path.read_bytes())
        if form["anchor"] != _FORM:
            raise ValueError(form["anchor"])
        counts = {kind: int(form[kind]) for kind in _COUNTED}
        if counts["links"] < 1:
            raise ValueError(counts["links"])
        names = {name: bytes.fromhex(form[name]).hex() for name in ("session", "link")}
        return {**names, **counts, "closed": bool(form["closed"])}
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{path}: the anchor cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise SessionError(f"{path}: expected an anchor, found something else; name another file") from None


def _require_after(held: dict[str, Any], found: dict[str, Any], links: Sequence[bytes]) -> None:
    require(held["session"] == found["session"], "the anchor is of another session")
    require(found["closed"] or not held["closed"], "it had been closed: this is an older copy")
    for kind in _COUNTED:
        had = f"it has {counted(found[kind], kind[:-1])}, and had {held[kind]:,}"
        require(found[kind] >= held[kind], f"{had}: this is an older copy")
    number = held["links"]
    fault = f"link {number:,} of its chain is not what it was: history was rewritten"
    require(links[number - 1].hex() == held["link"], fault)
