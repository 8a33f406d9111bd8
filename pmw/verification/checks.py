"""Verification: every check, in order."""

from __future__ import annotations

from collections.abc import Iterator

from pmw.policy import TestKind
from pmw.store import SessionStore
from pmw.verification.anchor import Anchor
from pmw.verification.answers import answer_checks
from pmw.verification.books import book_checks, read_books
from pmw.verification.models import models_follow
from pmw.verification.report import FAULTS, Check, Verification, check, require, words

__all__ = [
    "verify",
]


def verify(store: SessionStore, anchor: Anchor | None = None) -> Verification:
    """Check a session's books against each other and return what holds.

    It reads one state of the file and writes nothing to it. An anchor is compared with it too, and goes on to
    that state where everything holds.

    Raises:
        StoreError: the file cannot be read, or the anchor cannot be written.
    """
    with store.reading():
        checks = tuple(_checks(store))
        if anchor is not None:
            checks = (*checks, check("the session goes on from its anchor", lambda: anchor.compare(store)))
        closed = store.meta("closed") is not None
        found = Verification(checks, store.intent_count() > 0, closed, anchor is not None)
    if anchor is not None and found.holds:
        anchor.update()
    return found


def _checks(store: SessionStore) -> Iterator[Check]:
    yield check("the file is whole", lambda: _whole(store))
    try:
        books = read_books(store)
    except FAULTS as error:
        yield Check("contract, plans and charges can be read", False, words(error))
        return
    yield from book_checks(books, store)
    if books.unborn:
        return
    marginal = books.contract.options.test is TestKind.MARGINAL
    followers = "the models, the snapshot and the certificates" if marginal else "the models and the snapshot"
    yield check(f"{followers} follow from the measurements", lambda: models_follow(books, store))
    yield from answer_checks(books, store)


def _whole(store: SessionStore) -> str:
    require(store.is_whole(), "the database is damaged")
    return "its tables and indexes hold together"
