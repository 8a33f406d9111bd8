"""Exporting: files made of a session's public state, sent in parts to clients of any speed.

An export has a place at its session while it is made, and none while it is sent.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from pmw.errors import ReleaseError
from pmw.public.export import RowPlan
from pmw.session.session import Session

MOST_ROWS = 1_000_000  # whose cell numbers are held in memory
_PART_BYTES = 2**18
_STALLED_SECONDS = 60  # for one part: a client that is gone is not always known to be
_MEDIA = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "model": "application/octet-stream",
}


def parts_of(session: Session, format: str, rows: int | None, seed: int | None) -> Iterable[bytes]:
    """Return an export in parts. CSV is written part by part; other formats are whole files, read in parts.

    Args:
        session: whose public state it is made of.
        format: csv, parquet or model.
        rows: number of rows; None for the session's total.
        seed: repeats a drawing; None draws again.

    Raises:
        ReleaseError: the session's total is too long, or rows or a seed are given for a model.
    """
    if format != "model" and rows is None and session.state.total.value > MOST_ROWS:
        raise ReleaseError(f"the table is long; give rows, at most {MOST_ROWS:,}")
    plan = RowPlan(rows, seed=seed)
    if format == "csv":
        return session.csv_parts(plan)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / f"export.{format}"
        session.export(target, None if (rows, seed) == (None, None) else plan, format=format)
        return _read(target)


def _read(path: Path) -> Iterator[bytes]:
    """Yield the parts of a file; it is open from now on, and may be removed."""
    file = path.open("rb")

    def parts() -> Iterator[bytes]:
        with file:
            while part := file.read(_PART_BYTES):
                yield part

    return parts()


class SentInParts(StreamingResponse):
    """An export on its way to a client.

    Args:
        parts: of the file.
        format: csv, parquet or model.
        ended: is called when all was sent, or the client is gone or has stopped reading.
    """

    def __init__(self, parts: Iterable[bytes], format: str, ended: Callable[[], None]) -> None:
        named = {"Content-Disposition": f'attachment; filename="export.{format}"'}
        super().__init__(parts, media_type=_MEDIA[format], headers=named)
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all parts."""

        async def sent(message: Message) -> None:
            await asyncio.wait_for(send(message), _STALLED_SECONDS)

        try:
            with suppress(TimeoutError):  # the server closes what is not complete
                await super().__call__(scope, receive, sent)
        finally:
            self._ended()
