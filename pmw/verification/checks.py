"""Verification: every check, in order."""

from __future__ import annotations

from collections.abc import Iterator

from pmw.store import SessionStore
from pmw.verification.books import book_checks, read_books
from pmw.verification.report import FAULTS, Check, Verification, check, require, words
from pmw.verification.transcript import answer_checks

__all__ = [
    "verify",
]


def verify(store: SessionStore) -> Verification:
    """Recompute a session's books and return what holds.

    It reads one state of the file and writes nothing.

    Raises:
        StoreError: the file cannot be read.
    """
    with store.reading():
        checks = tuple(_checks(store))
        return Verification(checks, store.intent_count() > 0, store.meta("closed") is not None)


def _checks(store: SessionStore) -> Iterator[Check]:
    yield check("the file is whole", lambda: _whole(store))
    try:
        books = read_books(store)
    except FAULTS as error:
        yield Check("contract, plans and charges can be read", False, words(error))
        return
    yield from book_checks(books, store)
    if not books.unborn:
        yield from answer_checks(books, store)


def _whole(store: SessionStore) -> str:
    require(store.is_whole(), "the database is damaged")
    return "its tables and indexes hold together"
