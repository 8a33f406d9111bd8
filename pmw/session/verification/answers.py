"""The stored answers, against the ledger, the contract and the measurements; no value is computed again."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pmw.display.texts import counted
from pmw.model import QueryMeasurement
from pmw.public.answer import QuestionKind, Source
from pmw.public.codec import read_kind
from pmw.public.error_quantiles import typical_half_width
from pmw.public.intervals import BAR_SLACK
from pmw.session.store import AnswerColumns, SessionStore, StoredAnswer, query_key
from pmw.session.verification.contents import Contents
from pmw.session.verification.report import FAULTS, Check, require, same, words
from queries.factors import UNITS
from queries.linear import LinearQuery

_HELD = (Source.SYNTHETIC, Source.MEASURED)  # whose answers have an interval
_MEASURED = "measured answers are the stored measurements"
_FORM = "every answer has the form that its source promises"
_ORDER = "the share in answers never falls and never exceeds 1"


def answer_checks(contents: Contents, store: SessionStore) -> Iterator[Check]:
    """Yield what holds of the stored answers."""
    try:
        transcript = _Transcript(contents, store)
        for one in store.answer_runs():
            if not isinstance(one, AnswerColumns):
                transcript.read(one)
            elif not transcript.has_read(one):
                for row in one.answers():
                    transcript.read(row)
    except FAULTS as error:
        yield Check("measurements and answers can be read", False, words(error))
        return
    yield from transcript.checks(store.asked())


class _Transcript:
    """The stored answers, read in order."""

    def __init__(self, contents: Contents, store: SessionStore) -> None:
        options, domain = contents.contract.options, contents.contract.domain
        self._shares = {line.running_share for line in contents.ledger.lines} | {0.0}
        self._confidence, self._domain = options.confidence, domain
        self._quantiles = [one for _, one in contents.quantiles()]
        self._limit = math.inf if options.bar_limit is None else options.bar_limit
        self._later = [one for _, one in contents.measured()]
        self._marginal = options.tests_marginals
        self._newest = 0  # version of the newest answer marked measured
        runs = [range(first, first + run.total()) for first, run in store.newer_runs()]
        self._newer = {number for run in runs for number in run}  # took the place of a wider answer
        self._asked = 0  # answers so far, those left out
        self._last = (0.0, 0)  # share and version of the answer before
        self._counts = {_MEASURED: 0, _FORM: 0, _ORDER: 0}
        self._faults: dict[str, str] = {}

    def read(self, row: StoredAnswer) -> None:
        """Take the next answer, and keep the first fault of each kind."""
        looks = {_FORM: self._form, _ORDER: self._order}
        if row.source == Source.MEASURED.value:
            looks[_MEASURED] = self._measured
        self._asked += not self._is_newer(1)
        for name, look in looks.items():
            self._counts[name] += 1
            try:
                look(row)
            except FAULTS as error:
                self._faults.setdefault(name, f"answer {self._counts[_FORM]}: {words(error)}")

    def has_read(self, columns: AnswerColumns) -> bool:
        """Take the next answers, if all of them are as they should be; else each is to be read by itself."""
        try:
            whole = self._is_whole(columns)
        except FAULTS:
            return False
        if whole:
            self._last = columns.share, columns.version
            self._asked += 0 if self._is_newer(1) else len(columns)  # a block is of one commit
            for name in (_FORM, _ORDER):
                self._counts[name] += len(columns)
        return whole

    def _is_whole(self, columns: AnswerColumns) -> bool:
        """Tell whether ``_form`` and ``_order`` find no fault with any of some answers."""
        share, version = self._last
        held = np.array([Source(name) in _HELD for name in columns.source_names])[columns.sources]
        (low, high), count = columns.ends.T, columns.counts
        inside = (low >= 0) & (low <= count) & (count <= high) & (high < math.inf)
        inside &= np.maximum(high - count, count - low) <= self._limit + BAR_SLACK
        return (
            Source.MEASURED.value not in columns.source_names
            and columns.confidence == self._confidence
            and share <= columns.share <= 1
            and columns.share in self._shares
            and version <= columns.version <= len(self._later)
            and bool(np.all(np.isfinite(count) & (count >= 0)))
            and bool(np.all(np.where(held, inside, np.isnan(low) & np.isnan(high))))
            and self._is_typical(columns, held)
        )

    def _is_typical(self, columns: AnswerColumns, held: NDArray[np.bool_]) -> bool:
        """Tell whether all typical errors are those of the newest quantiles before each answer."""
        numbers, is_newer = self._asked + 1 + np.arange(len(columns)), self._is_newer(1)
        if is_newer:
            numbers[:] = self._asked + 1
            if any(one.asked == self._asked for one in self._quantiles):  # before it, or after it
                return False
        widths, count = np.full(len(columns), math.nan), columns.counts
        for code, name in enumerate(columns.kind_names):
            own = columns.kinds == code
            if name is None or not own.any():
                continue
            if not held[own].all():
                return False
            kind = read_kind(name)
            for one in self._quantiles:  # in order: the newest counts
                if one.kind == kind:
                    widths[own & (one.asked < numbers)] = one.half_width(self._confidence)
        wanted = np.stack([np.maximum(0.0, count - widths), count + widths], axis=1)
        return np.array_equal(wanted, columns.typical, equal_nan=True)

    def checks(self, asked: int) -> Iterator[Check]:
        """Yield what came of it, given the number of questions that were answered."""
        measured, later = self._counts[_MEASURED], len(self._later)
        questions = sum(isinstance(one, QueryMeasurement) for one in self._later)
        if not (questions if self._marginal else later) <= measured <= later:
            fault = f"expected {later} answers marked measured, one for each measurement, found {measured}"
            self._faults.setdefault(_MEASURED, fault)
        if asked < self._asked:  # a newer answer is stored before its repeat is counted
            fault = f"{asked} questions were counted, but {self._asked} answers are stored"
            self._faults.setdefault(_ORDER, fault)
        for name, count in self._counts.items():
            yield Check(name, name not in self._faults, self._faults.get(name, counted(count, "answer")))

    def _measured(self, row: StoredAnswer) -> None:
        """Check that a measured answer is the measurement of its version."""
        version, before, self._newest = row.version, self._newest, row.version
        if self._marginal:  # a marginal that was measured for a question need not contain the question
            require(version > before, f"model version {version} is not a new one")
        else:
            same("model version", self._counts[_MEASURED], version)
        require(0 < version <= len(self._later), f"there is no measurement {version}")
        measurement = self._later[version - 1]
        if isinstance(measurement, QueryMeasurement):
            asked = row.query == measurement.query.to_json()
            require(asked, f"measurement {version} is of another question")
            same("count", max(0.0, measurement.units / UNITS), row.count)
        else:
            scope = LinearQuery.from_dict(self._domain, json.loads(row.query)).scope
            inside = set(scope) <= set(measurement.scope)
            require(inside, f"measurement {version} does not contain its question")

    def _form(self, row: StoredAnswer) -> None:
        """Check the key, the confidence and the interval of an answer."""
        require(query_key(row.query) == row.query_key, "its question is found under another key")
        require(math.isfinite(row.count) and row.count >= 0, f"the count {row.count} is no number of records")
        same("confidence", self._confidence, row.confidence)
        held = Source(row.source) in _HELD
        fault = "it has an interval where none is promised, or lacks one that is"
        require((row.interval is not None) == held, fault)
        if row.interval is not None:
            low, high = row.interval
            require(
                0 <= low <= row.count <= high < math.inf, f"the interval {low} to {high} does not hold it"
            )
            within = max(high - row.count, row.count - low) <= self._limit + BAR_SLACK
            require(within, f"the interval {low} to {high} is wider than the accuracy contract allows")

        self._typical(row)

    def _typical(self, row: StoredAnswer) -> None:
        """Check that the typical error is that of the newest quantile before the answer."""
        kind = None if row.kind is None else read_kind(row.kind)
        require(kind is None or row.interval is not None, "it has a kind, but no interval")
        wanted = self._typical_ends(row, kind, self._asked)
        if self._is_newer(0) and wanted != row.typical:  # it may come before or after one that is due
            wanted = self._typical_ends(row, kind, self._asked + 1)
        same("typical error", wanted, row.typical)

    def _typical_ends(
        self, row: StoredAnswer, kind: QuestionKind | None, asked: int
    ) -> tuple[float, float] | None:
        """Return the ends of the typical error after the quantiles that come before a number of answers."""
        before = [one for one in self._quantiles if one.asked < asked]
        width = None if kind is None else typical_half_width(before, kind, self._confidence)
        return None if width is None else (max(0.0, row.count - width), row.count + width)

    def _is_newer(self, ahead: int) -> bool:
        """Tell whether an answer only took the place of a wider one: this one, or the one so far ahead."""
        return self._counts[_FORM] + ahead in self._newer

    def _order(self, row: StoredAnswer) -> None:
        """Check that share and version go on from those of the answer before."""
        share, version = self._last
        self._last = (row.share, row.version)
        require(row.share <= 1, f"the share {row.share:g} exceeds 1")
        require(row.share >= share, f"the share falls from {share:g} to {row.share:g}")
        require(row.version >= version, f"the model version falls from {version} to {row.version}")
        require(row.version <= len(self._later), f"there is no model version {row.version}")
        require(row.share in self._shares, f"the share {row.share:g} is none that the ledger ever had")
