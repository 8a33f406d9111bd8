"""Repeats: which answer a question gets that has a stored one.

An idempotency key always gets its own. Else it is the stored answer, until a newer model has a bar that is
narrower by a tenth. To look at the model's bar touches no record and charges nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmw.model.measurement import QueryMeasurement, RowsMeasurement, half_width
from pmw.public.answer import Basis, Source
from pmw.public.answers import KINDS, SOURCES, Answers
from pmw.public.bars import Bars
from pmw.public.evidence import own_numbers
from pmw.public.free_answers import FreeAnswers, known_widths, together
from pmw.public.half_widths import Confidences, certified_half_width
from pmw.public.state import PublicState
from pmw.session.requests import Requests, require_same, used_for
from pmw.session.store.answers import Found
from pmw.session.store.columns import AGAIN, DIFFERING, FIRST, UNSETTLED, AnswerColumns
from pmw.session.store.rows import Outcome
from pmw.session.store.store import SessionStore
from queries.questions import Places, Questions

_NARROWER = 0.9  # of a stored bar: as wide a bar of a newer model replaces it
_REFUSED, _MEASURED, _SYNTHETIC = map(SOURCES.index, (Source.REFUSED, Source.MEASURED, Source.SYNTHETIC))
_ARE_UNTESTED = np.array([one in (Source.EXHAUSTED, Source.UNVERIFIED) for one in SOURCES])  # by code
_ARE_TESTED = np.array([kind is not None and kind.basis is Basis.TESTED for kind in KINDS])  # by code


def is_better(stored: Answers, now: Answers, widths: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell of which questions the model's answers are given in place of the stored ones: bool, shape (n,).

    Those whose model is newer and whose bar is narrower by a tenth: 0.9 of the stored one or less. Widths are
    those that all attributes of a question give, before its parts: they do not depend on noise, else what
    erred would be kept. A stored answer that no test decided gives way to any that something holds, and to
    that of any newer model while nothing does.

    Args:
        stored: the answers that are stored, shape (n,).
        widths: float64, shape (2, n), of what was known when the stored ones were given, and of what is now.
    """
    before, found = widths
    is_newer = now.version > stored.version
    was_held = ~_ARE_UNTESTED[stored.source] & ~np.isnan(stored.widths)
    narrower = is_newer & (found < before) & (found <= _NARROWER * before)
    return np.asarray(~np.isnan(now.widths) & np.where(was_held, narrower, is_newer | np.isfinite(found)))


def widths_of(state: PublicState, stored: Answers, questions: Questions) -> NDArray[np.float64]:
    """Return the widths that ``is_better`` compares: float64, shape (2, n), records.

    What a question's own test or measurement gave has the width of that, where nothing else held it.
    """
    before, now = np.full(len(stored), math.nan), known_widths(Bars(state), questions)
    for places in _known_alike(state, stored.version):
        some, own = questions.take(places), dict[int, QueryMeasurement | None]()
        for version in np.unique(stored.version[places]).tolist():
            at = np.flatnonzero(stored.version[places] == version)
            then = own_numbers(state.known_until(version))
            own |= {place: then.of(some.query(place)) for place in at[then.places(some.take(at))].tolist()}
        bars = Bars(state.known_until(version))
        for group, widths in together(bars, some, bars.widths_told, own) if bars.pays else ():
            before[places[group]] = widths
    alone = np.isnan(before)
    for version in np.unique(stored.version[alone]).tolist():
        places = np.flatnonzero(alone & (stored.version == version))
        before[places] = known_widths(Bars(state.known_until(version)), questions.take(places))
    plan, confidence = state.query_plan, Confidences.in_state(state).alone
    if plan is not None:
        for code, width in (
            (_MEASURED, half_width(plan.noise, confidence)),
            (_SYNTHETIC, certified_half_width(plan, plan.threshold, confidence)),
        ):
            before[np.isinf(before) & (stored.source == code)] = 2 * width
    return np.stack([before, now])


def _known_alike(state: PublicState, versions: NDArray[np.int64]) -> Iterator[Places]:
    """Yield the places of versions between which nothing was released but questions' own numbers."""
    shared = np.cumsum([0, *(not isinstance(one, RowsMeasurement) for one in state.measured)])
    tested = np.searchsorted(sorted(one.version for one in state.certificates.values()), versions, "right")
    codes = np.stack([shared[np.minimum(versions, len(state.measured))], tested], axis=1)
    which = np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1)
    return (np.flatnonzero(which == code) for code in range(int(which.max(initial=-1)) + 1))


def rests_on_test(state: PublicState, answers: Answers) -> NDArray[np.bool_]:
    """Tell which answers a test decided: another test of the same model would be noise: bool, shape (n,)."""
    found: NDArray[np.bool_] = (answers.source == _MEASURED) | _ARE_TESTED[answers.kind]
    if not state.contract.options.tests_marginals:  # what released numbers do not cover has it by its test
        found |= answers.source == _SYNTHETIC
    return found


class Stored:
    """The stored answers of distinct requests, and room for those that are given in their places.

    Args:
        size: n, how many requests there are.

    Attributes:
        numbers: int64, shape (n,), of the answers; 0 where there is none.
        analysts: str, shape (n,), who asked first; empty where nobody was named.
        were_settled: bool, shape (n,), whether a stored answer settled the question.
        are_keyed: bool, shape (n,), whether the very request was answered before.
    """

    def __init__(self, state: PublicState, size: int) -> None:
        self._state = state
        self._columns: dict[str, NDArray[Any]] = {
            "count": np.zeros(size),
            "interval": np.full((size, 2), math.nan),
            "typical": np.full((size, 2), math.nan),
            "source": np.zeros(size, dtype=np.uint8),
            "version": np.zeros(size, dtype=np.int64),
            "share": np.zeros(size),
            "kind": np.zeros(size, dtype=np.uint8),
            "aligned": np.ones(size, dtype=np.bool_),
            "charged": np.zeros(size),
        }
        self.numbers: Places = np.zeros(size, dtype=np.int64)
        self.analysts: NDArray[np.object_] = np.full(size, "", dtype=object)
        self.were_settled, self.are_keyed = np.zeros((2, size), dtype=np.bool_)

    @property
    def versions(self) -> NDArray[np.int64]:
        """The versions of the models that the answers are of: int64, shape (n,)."""
        return self._columns["version"]

    def answers(self, places: Places) -> Answers:
        """Return some of the answers, as they were released but for what is spent; see ``spend``."""
        return Answers.of_columns(self._state, {name: own[places] for name, own in self._columns.items()})

    def put(self, places: Places, answers: Answers) -> None:
        """Put answers that are given in the places of some requests."""
        for name, own in self._columns.items():
            own[places] = getattr(answers, name)

    def spend(self, requests: Requests, share: float, start: int = 0) -> None:
        """Note what is spent by now for the answers from a place on; what has a key keeps what it told."""
        keys = requests.request_ids[start:]
        self._columns["share"][start:][[key is None for key in keys] if keys else slice(None)] = share

    def fill(self, places: Places, found: Found, questions: Questions, *, are_keyed: bool = False) -> None:
        """Fill in what was found of the requests at some places."""
        self.numbers[places] = found.numbers
        self.are_keyed[places] = are_keyed
        self._columns["aligned"][places] = questions.aligned()
        for columns, asked, own in found.parts:
            at = places[asked]
            for name in DIFFERING:
                self._columns[name][at] = getattr(columns, name)[own]
            self._columns["count"][at[columns.source[own] == _REFUSED]] = math.nan
            self._columns["version"][at], self._columns["share"][at] = columns.version, columns.share
            self.analysts[at] = columns.analyst
            self.were_settled[at] = columns.settled[own] != UNSETTLED

    def settle(self, places: Places, were_settled: NDArray[np.bool_]) -> None:
        """Note which of some questions were settled meanwhile."""
        self.were_settled[places] = were_settled

    def are_asked(
        self, fresh: NDArray[np.bool_], tested: Callable[[Places], NDArray[np.bool_]]
    ) -> NDArray[np.bool_]:
        """Tell which questions are asked, as if they had no stored answer: bool, shape (n,).

        So is what was refused, for what was measured since may answer it; what whoever could not or would not
        pay was told without a test, by whoever can pay for one; and what is asked afresh, where the model is
        newer or a test can be made that was not.

        Args:
            fresh: bool, shape (n,), whether each is asked afresh.
        """
        if not self.numbers.any():
            return np.ones(len(self.numbers), dtype=np.bool_)
        source, state = self._columns["source"], self._state
        older = fresh & (self.versions < state.version)
        asked = (self.numbers == 0) | (((source == _REFUSED) | older) & ~self.are_keyed)
        pays = state.contract.options.reserved > 0  # a number may be drawn for what has a wide bar
        untested = ((self.analysts != "") | ~self.were_settled) & (_ARE_UNTESTED[source] | pays)
        if fresh.any():
            answers = self.answers(np.arange(len(fresh)))
            untested = np.where(fresh, ~rests_on_test(state, answers) | pays, untested)
        places = np.flatnonzero(untested & ~asked & ~self.are_keyed)
        if places.size:
            asked[places] = tested(places)
        return np.asarray(asked)


class Repeats:
    """Looks up stored answers, and compares them with the model's."""

    def __init__(self, store: SessionStore, free: FreeAnswers) -> None:
        self._store = store
        self._free = free
        self._looks = Looks()

    def stored(self, state: PublicState, requests: Requests) -> Stored:
        """Return the stored answers of distinct requests: a key's own, else the newest to the question."""
        found, rest = Stored(state, len(requests)), np.arange(len(requests), dtype=np.int64)
        if requests.request_ids:
            self._find_keyed(found, requests)
            rest = np.flatnonzero(~found.are_keyed)
        for places, part in requests.questions.take(rest).parts() if rest.size else ():
            newest = self._store.answers.find(part.texts())
            if newest.parts:
                found.fill(rest[places], newest, part)
        found.spend(requests, state.ledger.share)
        return found

    def _find_keyed(self, found: Stored, requests: Requests) -> None:
        keys, texts = requests.request_ids, requests.questions.texts()
        keyed = np.flatnonzero([key is not None for key in keys])
        numbers = self._store.answers.by_request_ids([keys[place] or "" for place in keyed.tolist()])
        for place in keyed[numbers < 0].tolist():
            raise used_for(keys[place] or "", "a measurement")
        own = keyed[numbers > 0]
        given = self._store.answers.at(numbers[numbers > 0])
        for columns, asked, theirs in given.parts:
            for place, other in zip(own[asked].tolist(), theirs.tolist(), strict=True):
                require_same(keys[place] or "", texts[place], columns.texts[other])
        found.fill(own, given, requests.questions.take(own), are_keyed=True)

    def require_keys(self, state: PublicState, requests: Requests) -> None:
        """Refuse idempotency keys that were used for other questions."""
        if requests.request_ids:
            self._find_keyed(Stored(state, len(requests)), requests)

    def give(
        self,
        state: PublicState,
        requests: Requests,
        stored: Stored,
        given: NDArray[np.bool_],
        charges: int,
    ) -> None:
        """Put the model's answers in the place of stored ones that are given where they are better, durably.

        Args:
            given: bool, shape (n,), which of these are given.
            charges: how many the session file holds.

        Privacy: a function of public state; nothing is tested or charged.
        """
        candidates = given & ~stored.are_keyed
        places = np.flatnonzero(candidates)
        due = self._looks.are_due(stored.numbers[places], stored.versions[places], state.version)
        if requests.fresh.any():
            due |= requests.fresh[places] & _ARE_UNTESTED[stored.answers(places).source]
        places = places[due]
        if places.size:
            numbers, first = np.unique(stored.numbers[places], return_index=True)
            places = places[np.sort(first)]
            now = self._free.of(state).answers(requests.questions.take(places))
            before = stored.answers(places)
            widths = widths_of(state, before, requests.questions.take(places))
            better = np.flatnonzero(is_better(before, now, widths))
            self._looks.note(numbers, state.version)
            if better.size:
                places, now = places[better], now.take(better)
                self._keep(requests.take(places), now, stored, places, charges)
                self._put(stored, candidates, places, now)
        self._tie_keys(requests, given & ~stored.are_keyed)

    def _keep(
        self, requests: Requests, answers: Answers, stored: Stored, places: Places, charges: int
    ) -> None:
        """Store answers that are better than stored ones; they settle nothing, and who asked first stays."""
        analysts, columns = stored.analysts[places], list[AnswerColumns]()
        were_settled, settle = stored.were_settled[places], np.zeros(len(places), dtype=np.bool_)
        unkeyed = Requests(requests.questions, requests.fresh)
        for own in _runs(analysts[1:] == analysts[:-1]):
            some, analyst = unkeyed.take(own), analysts[own[0]]
            columns += columns_of(some, answers.take(own), were_settled[own], settle[own], analyst)
        self._store.finish(None, Outcome(columns=tuple(columns), are_newer=True, charged_before=charges))

    def _put(self, stored: Stored, candidates: NDArray[np.bool_], places: Places, answers: Answers) -> None:
        order = np.argsort(stored.numbers[places])
        numbers = stored.numbers[places][order]
        same = np.flatnonzero(candidates & np.isin(stored.numbers, numbers))
        stored.put(same, answers.take(order[np.searchsorted(numbers, stored.numbers[same])]))

    def _tie_keys(self, requests: Requests, given: NDArray[np.bool_]) -> None:
        """Tie keys to the stored answers that they are about to be given, durably."""
        # Else a request that is repeated after its question was asked again would get the newer answer.
        if not requests.request_ids:
            return
        texts = requests.questions.texts()
        pairs = ((requests.request_ids[place], texts[place]) for place in np.flatnonzero(given).tolist())
        keys = {key: text for key, text in pairs if key is not None}
        if keys:
            self._store.finish(None, Outcome(idempotency_keys=keys))


class Looks:
    """Which models the stored answers were compared with, by the numbers of the answers; in memory alone."""

    def __init__(self) -> None:
        self._versions = np.zeros(0, dtype=np.int32)

    def are_due(self, numbers: Places, versions: NDArray[np.int64], version: int) -> NDArray[np.bool_]:
        """Tell which answers are to be compared with a model: bool, shape (n,).

        Args:
            numbers: int64, shape (n,), of the answers.
            versions: int64, shape (n,), of the models that they came from.
        """
        due = versions < version
        own = np.flatnonzero(due)
        if own.size:
            self._reach(int(numbers[own].max()))
            due[own] = self._versions[numbers[own]] < version
        return due

    def note(self, numbers: Places, version: int) -> None:
        """Note that answers were compared with a model of this version."""
        self._reach(int(numbers.max(initial=0)))
        self._versions[numbers] = version

    def _reach(self, number: int) -> None:
        if number >= self._versions.size:
            more = np.zeros(2 * number + 1 - self._versions.size, dtype=np.int32)
            self._versions = np.concatenate([self._versions, more])


def columns_of(
    requests: Requests,
    answers: Answers,
    were_settled: NDArray[np.bool_],
    settle: NDArray[np.bool_],
    analyst: str,
) -> tuple[AnswerColumns, ...]:
    """Return answers as they are stored.

    Args:
        were_settled: bool, shape (n,), whether a stored answer settled the question.
        settle: bool, shape (n,), whether this one does, if it is the first.
    """
    found, marks = list[AnswerColumns](), _marks(requests, were_settled, settle)
    for places, part in requests.questions.parts():
        own, keys = answers.take(places), requests.take(places).request_ids
        alike = (own.version[1:] == own.version[:-1]) & (own.share[1:] == own.share[:-1])
        for at in _runs(alike):
            run = slice(at[0], at[-1] + 1)
            some = {name: getattr(own, name)[run] for name in DIFFERING}
            some["count"] = np.where(own.source[run] == _REFUSED, 0.0, own.count[run])
            columns = AnswerColumns(
                part.texts()[run],
                **some,
                settled=marks[places[run]],
                analyst=analyst,
                confidence=own.confidence,
                share=float(own.share[run.start]),
                version=int(own.version[run.start]),
                request_ids=keys[run],
            )
            found.append(columns)
    return tuple(found)


def _marks(
    requests: Requests, were_settled: NDArray[np.bool_], settle: NDArray[np.bool_]
) -> NDArray[np.uint8]:
    """Return of answers whether each settles its question: uint8, shape (n,), as they are stored."""
    marks = np.where(were_settled, AGAIN, np.where(settle, FIRST, UNSETTLED)).astype(np.uint8)
    if requests.request_ids:  # one question may be asked under several
        seen = set[str]()
        for place, text in enumerate(requests.questions.texts()):
            if text in seen:
                marks[place] = AGAIN
            elif marks[place] == FIRST:
                seen.add(text)
    return marks


def _runs(alike: NDArray[np.bool_]) -> Iterator[Places]:
    """Yield the places of each run of neighbours; ``alike`` tells of each but the first."""
    ends = [0, *(np.flatnonzero(~alike) + 1).tolist(), len(alike) + 1]
    return (np.arange(start, stop) for start, stop in pairwise(ends))
