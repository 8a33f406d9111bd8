"""The table of a session: where it is, and whether it is the one that the session was opened on.

Privacy: whoever may choose what is compared with a session's table learns, without noise, whether the two are
    equal. So an analyst never names a table: it is read from where the session remembers it, and to give a
    table, or to move it, is the custodian's alone.
"""

from __future__ import annotations

import hmac
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pmw.errors import DataError, SessionError, SessionLockedError
from pmw.public.codec import dumps
from pmw.session.events import load_contract
from pmw.session.journal import PERSON_KEY
from pmw.session.store.rows import Outcome
from pmw.session.store.store import SessionStore, writing
from queries.domain import Domain
from queries.plain_values import type_name

if TYPE_CHECKING:
    from pmw.data import CountSource, MemoryLimit, Place, Table


def move_session(
    path: str | Path, data: Place | Path | str, *, memory: MemoryLimit | None = None, wait: float = 0
) -> None:
    """Tell a session where its table is now, in one durable commit.

    Nothing is drawn, charged or released. A batch that waits goes on waiting: the next question finishes it,
    with the noise that it was begun with. A session that was opened on a table in memory reads it from the
    file from now on.

    Args:
        path: the session file.
        data: the table's new place. A file that is given without a dialect is read as the session remembers.
        memory: how much memory its records may take, unless ``data`` tells it; None for what the session
            remembers.
        wait: seconds that another process is waited for; 0 refuses at once.

    Raises:
        DataError: the table cannot be read, lacks a declared column, or differs from the session's.
        SessionCorruptError: the file is no session, or damaged, or its companion file is not its own.
        SessionLockedError: another process was using it all that time.
        SessionError: the session was closed, or the file has several names (hard links).
        StoreError: the place could not be made durable.

    Privacy: for the custodian alone: whether a table is the session's is reported without noise.
    """
    from pmw.data import DatabaseTable, TableFile

    if not issubclass(
        type(data), TableFile | DatabaseTable | Path | str
    ):  # not what the thing says of itself
        raise DataError(f"expected the name of a CSV or Parquet file, got a {type_name(data)}")
    target = Path(path)
    with writing(target, wait, lambda store: _require_open(store, target)) as store:
        place = _completed(table_place(store), data, memory)
        session_table(store, place, load_contract(store)[0].domain)  # refused before anything is written
        store.take_over()
        store.finish(None, Outcome(meta={"data": dumps(place.to_dict())}))


def _require_open(store: SessionStore, path: Path) -> None:
    if store.meta("closed") is not None:
        raise SessionError(
            f"{path} was closed, and the key that tells its table from others is wiped; it needs no table "
            "any more"
        )
    store.require_companion()


def _completed(before: Place | None, data: Place | Path | str, memory: MemoryLimit | None) -> Place:
    from pmw.data import DatabaseTable, TableFile

    if isinstance(data, TableFile | DatabaseTable):
        place: Place = data
    else:
        place = TableFile(Path(data))
        if isinstance(before, TableFile) and not place.is_parquet:
            place = replace(place, dialect=before.dialect)
    if place.memory is None and (isinstance(place, TableFile) or place.is_read):
        place = replace(place, memory=memory or (None if before is None else before.memory))
    return place


def table_place(store: SessionStore) -> Place | None:
    """Return where a session reads its table, or None for a table in memory."""
    from pmw.data import place_of

    form = json.loads(store.meta("data") or "null")
    return None if form is None else place_of(form)


def refuse_given_table(store: SessionStore, data: Table | None) -> None:
    """Refuse a table for a session that reads its own from a file."""
    if data is not None and table_place(store) is not None:
        raise DataError(
            "the session reads its table from a file, so none is given to it; where the file was moved, name "
            "its new place with pmw move"
        )


def session_table(store: SessionStore, data: Table | None, domain: Domain) -> CountSource:
    """Return a session's table, compared with the one that it was opened on.

    Args:
        data: the table; None to read it from where the session remembers it.
        domain: the declared attributes, and persons, of whom the same records are kept as at opening.

    Privacy: true data. Where ``data`` is given, whether this succeeds is a noise-free test of equality.
    """
    from pmw.data import as_source  # here alone: most questions read no table, and readers take long to load

    key = store.secret(PERSON_KEY)
    if data is not None:
        return _same(store, as_source(data, domain, key))
    place = table_place(store)
    if place is None:
        raise DataError(
            "the session was opened on a table in memory; give that table to resume it, or write it to a "
            "file and name that with pmw move"
        )
    try:
        return _same(store, as_source(place, domain, key))
    except DataError as error:
        raise DataError(f"{error}; where the table was moved, name its new place with pmw move") from None


def _same(store: SessionStore, source: CountSource) -> CountSource:
    key, expected = store.secret("fingerprint_key"), store.secret("fingerprint")
    if store.meta("closed") is not None:
        raise SessionLockedError("another process has finalized this session; it reads no table any more")
    if key is None or expected is None or not hmac.compare_digest(source.fingerprint(key), expected):
        raise DataError("the table differs from the one that the session was opened on")
    return source
