"""The transcript of a session: its stored answers, recomputed from the models of their versions."""

from __future__ import annotations

from collections.abc import Iterator

from pmw.journal import read_measured, read_opening
from pmw.ledger import ledger_of
from pmw.mechanism import settle_opening
from pmw.store import SessionStore, StoredAnswer
from pmw.verification.books import Books
from pmw.verification.replay import Replay, expected_answer, require_same_answer
from pmw.verification.report import FAULTS, Check, require, same, words

__all__ = [
    "answer_checks",
]


def answer_checks(books: Books, store: SessionStore) -> Iterator[Check]:
    """Yield what holds of the models, the snapshot and the stored answers."""
    model = "the models and the snapshot follow from the measurements"
    try:
        replay = _replay(books, store)
    except FAULTS as error:
        yield Check(model, False, words(error))
        return
    transcript = _Transcript(books, replay)
    try:
        for row in store.answers():
            transcript.read(row)
        replay.at(len(replay.measured))
    except FAULTS as error:
        replay.fault = replay.fault or words(error)
    yield Check(model, replay.fault is None, replay.fault or f"{len(replay.measured) + 1} versions")
    yield from transcript.checks(store.asked())


def _replay(books: Books, store: SessionStore) -> Replay:
    draws = read_opening(books.contract, books.rows)
    measured = [read_measured(books.contract, row) for row in books.rows if row.kind == "query"]
    state = settle_opening(books.contract, books.opening, draws, books.cap, books.test)
    snapshot = store.snapshot()
    replay = Replay(state, measured, snapshot)
    if snapshot is None and store.has_snapshot():
        replay.fault = "the checksum of the snapshot does not hold"
    elif snapshot is not None and not 0 <= snapshot[0] <= len(measured):
        replay.fault = f"there is a snapshot of version {snapshot[0]}, but no such version"
    return replay


class _Transcript:
    """The stored answers, read in order: counts them, and keeps the first fault of each kind."""

    def __init__(self, books: Books, replay: Replay) -> None:
        ledger = ledger_of(books.contract.budget, books.cap, books.entries)
        self._shares = {line.running_share for line in ledger.lines} | {0.0}
        self._replay = replay
        self._rounds = books.round_count
        self._last = (0.0, 0)  # share and version of the answer before
        self._counts = {"measured": 0, "other": 0}
        self._faults: dict[str, str] = {}

    def read(self, row: StoredAnswer) -> None:
        """Take the next answer."""
        kind = "measured" if row.source == "measured" else "other"
        self._counts[kind] += 1
        number = sum(self._counts.values())
        for name, find in ((kind, self._recompute), ("order", self._follow)):
            try:
                find(row)
            except FAULTS as error:
                self._faults.setdefault(name, f"answer {number}: {words(error)}")

    def _recompute(self, row: StoredAnswer) -> None:
        if row.source == "measured":
            same("model version", self._counts["measured"], row.version)
        require_same_answer(row, expected_answer(row, self._replay, self._rounds))

    def _follow(self, row: StoredAnswer) -> None:
        share, version = self._last
        self._last = (row.share, row.version)
        require(row.share <= 1, f"the share {row.share:g} exceeds 1")
        require(row.share >= share, f"the share falls from {share:g} to {row.share:g}")
        require(row.version >= version, f"the model version falls from {version} to {row.version}")
        require(row.share in self._shares, f"the share {row.share:g} is none that the ledger ever had")

    def checks(self, asked: int) -> Iterator[Check]:
        """Yield what came of it, given the number of questions that were answered."""
        measured, other = self._counts["measured"], self._counts["other"]
        bought, total = len(self._replay.measured), measured + other
        if measured != bought:
            fault = f"expected {bought} answers marked measured, one for each measurement, found {measured}"
            self._faults.setdefault("measured", fault)
        if asked < total:
            self._faults.setdefault(
                "order", f"{asked} questions were counted, but {total} answers are stored"
            )
        for kind, name, detail in (
            ("measured", "measured answers are the stored measurements", f"{measured:,} answers"),
            ("other", "all other answers follow from the model of their version", f"{other:,} answers"),
            ("order", "the share in answers never falls and never exceeds 1", f"{total:,} answers"),
        ):
            yield Check(name, kind not in self._faults, self._faults.get(kind, detail))
