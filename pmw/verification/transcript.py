"""The transcript of a session: its stored answers, recomputed from the models of their versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pmw.journal import read_certificate, read_opening
from pmw.ledger import ledger_of
from pmw.markup import counted
from pmw.mechanism import settle_opening
from pmw.model import QueryMeasurement
from pmw.policy import TestKind
from pmw.store import SessionStore, StoredAnswer
from pmw.verification.answers import expected_answers, require_an_expected_answer
from pmw.verification.blocks import are_expected
from pmw.verification.books import Books
from pmw.verification.pieces import Pieces
from pmw.verification.replay import Records, Replay
from pmw.verification.report import FAULTS, Check, require, same, words

__all__ = [
    "answer_checks",
    "replay_of",
]

_BLOCK = 8192  # answers that are looked at together; a few megabytes


def answer_checks(books: Books, store: SessionStore) -> Iterator[Check]:
    """Yield what holds of the models, the snapshot and the stored answers."""
    model = "the models and the snapshot follow from the measurements"
    if books.contract.options.test is TestKind.MARGINAL:
        model = "the models, the snapshot and the certificates follow from the measurements"
    try:
        replay = replay_of(books, store)
    except FAULTS as error:
        yield Check(model, False, words(error))
        return
    transcript = _Transcript(books, replay)
    try:
        try:
            for row in store.answers():
                transcript.read(row)
        finally:
            transcript.finish()
        replay.at(len(replay.records.measured))
    except FAULTS as error:
        replay.fault = replay.fault or words(error)
    yield Check(model, replay.fault is None, replay.fault or _versions(replay))
    yield from transcript.checks(store.asked())


def _versions(replay: Replay) -> str:
    certificates = len(replay.records.certificates)
    words = counted(len(replay.records.measured) + 1, "version")
    return f"{words}, {counted(certificates, 'certificate')}" if certificates else words


def replay_of(books: Books, store: SessionStore) -> Replay:
    """Return the models of a session before its first answer, and what is told of them."""
    draws = read_opening(books.contract, books.rows)
    coarsening = books.coarsening
    measured = tuple(one for _, one in books.bought())
    certificates = tuple(read_certificate(coarsening, row) for row in store.certificates())
    state = settle_opening(books.contract, books.opening, draws, books.cap, books.test)
    snapshot = store.snapshot()
    rounds = {vector.kind: vector.round_count(books.later) for vector in books.vectors}
    replay = Replay(
        state,
        Records(
            measured,
            certificates,
            snapshot,
            rounds,
            books.vectors,
            closed=books.closed,
            answers=store.answer_count(),
        ),
    )
    versions = [one.version for one in certificates]
    if snapshot is None and store.has_snapshot():
        replay.fault = "the checksum of the snapshot does not hold"
    elif snapshot is not None and not 0 <= snapshot[0] <= len(measured):
        replay.fault = f"there is a snapshot of version {snapshot[0]}, but no such version"
    elif versions != sorted(versions) or not all(0 <= version <= len(measured) for version in versions):
        replay.fault = "there are certificates of versions that do not follow one another"
    return replay


class _Transcript:
    """The stored answers, read in order: counts them, and keeps the first fault of each kind."""

    def __init__(self, books: Books, replay: Replay) -> None:
        ledger = ledger_of(books.contract.budget, books.cap, books.entries)
        self._shares = {line.running_share for line in ledger.lines} | {0.0}
        self._replay = replay
        self._marginal = books.contract.options.test is TestKind.MARGINAL
        self._newest = 0  # version of the newest answer marked measured
        self._last = (0.0, 0)  # share and version of the answer before
        self._counts = {"measured": 0, "other": 0}
        self._faults: dict[str, str] = {}
        self._pieces = Pieces(books.coarsening)
        self._waiting: list[StoredAnswer] = []  # of one version, none of them marked measured

    def read(self, row: StoredAnswer) -> None:
        """Take the next answer."""
        measured = row.source == "measured"
        if self._waiting and (measured or not self._goes_on(row)):
            self.finish()
        self._counts["measured" if measured else "other"] += 1
        number = sum(self._counts.values())
        self._try("order", number, row, self._follow)
        if measured:
            self._replay.answers = number - 1
            self._try("measured", number, row, self._recompute)
        else:
            self._waiting.append(row)

    def finish(self) -> None:
        """Look at the answers that wait for others of their version."""
        rows, self._waiting = self._waiting, []
        first = sum(self._counts.values()) - len(rows)
        if not rows:
            return
        self._replay.answers = first
        try:
            holds = are_expected(rows, self._replay, self._pieces)
        except FAULTS:  # told of each
            holds = [False] * len(rows)
        for place, row in enumerate(rows):
            if not holds[place]:
                self._replay.answers = first + place
                self._try("other", first + place + 1, row, self._recompute)

    def _goes_on(self, row: StoredAnswer) -> bool:
        return row.version == self._waiting[0].version and len(self._waiting) < _BLOCK

    def _try(self, kind: str, number: int, row: StoredAnswer, find: Callable[[StoredAnswer], None]) -> None:
        try:
            find(row)
        except FAULTS as error:
            self._faults.setdefault(kind, f"answer {number}: {words(error)}")

    def _recompute(self, row: StoredAnswer) -> None:
        if row.source == "measured":
            if self._marginal:  # what was bought need not contain the question that it was bought for
                require(row.version > self._newest, f"model version {row.version} is not a new one")
            else:
                same("model version", self._counts["measured"], row.version)
            self._newest = row.version
        require_an_expected_answer(row, expected_answers(row, self._replay))

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
        found = self._replay.records.measured
        bought, total = len(found), measured + other
        least = sum(isinstance(one, QueryMeasurement) for one in found) if self._marginal else bought
        if not least <= measured <= bought:
            fault = f"expected {bought} answers marked measured, one for each measurement, found {measured}"
            self._faults.setdefault("measured", fault)
        if asked < total:
            self._faults.setdefault(
                "order", f"{asked} questions were counted, but {total} answers are stored"
            )
        for kind, name, detail in (
            ("measured", "measured answers are the stored measurements", counted(measured, "answer")),
            ("other", "all other answers follow from the model of their version", counted(other, "answer")),
            ("order", "the share in answers never falls and never exceeds 1", counted(total, "answer")),
        ):
            yield Check(name, kind not in self._faults, self._faults.get(kind, detail))
