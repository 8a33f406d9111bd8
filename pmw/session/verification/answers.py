"""The stored answers, against the ledger, the contract and the measurements; no value is computed again."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.display.texts import counted
from pmw.model import QueryMeasurement, RowsMeasurement
from pmw.public.answer import Source
from pmw.public.answers import KINDS, SOURCES
from pmw.public.error_quantiles import ErrorQuantile
from pmw.public.free_answers import BAR_SLACK
from pmw.session.accounts import ARE_HELD
from pmw.session.events import Contents
from pmw.session.store import AnswerColumns, SessionStore, StoredAnswer
from pmw.session.verification.report import FAULTS, Check, require, same, words
from queries.factors import UNITS
from queries.linear import LinearQuery

_MEASURED_CODE, _REFUSED_CODE = map(SOURCES.index, (Source.MEASURED, Source.REFUSED))
_MEASURED = "measured answers are the stored measurements"
_FORM = "every answer has the form that its source promises"
_ORDER = "the share in answers never falls and never exceeds 1"

_Rule: TypeAlias = tuple[NDArray[np.bool_], Callable[[StoredAnswer], str]]  # of which answers, and the fault


def answer_checks(contents: Contents, store: SessionStore) -> Iterator[Check]:
    """Yield what holds of the stored answers."""
    try:
        transcript = _Transcript(contents, store)
        for columns in store.answers.blocks():
            transcript.read(columns)
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
        self._quantiles = [one for one in contents.released if isinstance(one, ErrorQuantile)]
        self._limit = math.inf if options.bar_limit is None else options.bar_limit
        self._later = contents.measured
        self._marginal = options.tests_marginals
        self._numbers = {  # of each question that was measured itself, the first version that knows it
            query.to_json(): version
            for version, one in reversed([*enumerate(self._later, start=1)])
            for query in (one.queries if isinstance(one, RowsMeasurement) else ())
        }
        self._newest = 0  # version of the newest answer marked measured
        runs = [(first, first + run.total()) for first, run in store.answers.newer_runs()]
        self._newer = np.array(runs, dtype=np.int64).reshape(-1, 2)  # took the place of wider answers
        self._asked = 0  # answers so far, those left out
        self._last = (0.0, 0)  # share and version of the answers before
        self._counts = {_MEASURED: 0, _FORM: 0, _ORDER: 0}
        self._faults: dict[str, str] = {}

    def read(self, columns: AnswerColumns) -> None:
        """Take the next answers, and keep the first fault of each kind."""
        first = self._counts[_FORM] + 1
        self._look(_ORDER, first, lambda: self._order(columns))
        self._form(columns, first)
        for own in np.flatnonzero(columns.source == _MEASURED_CODE).tolist():
            row = columns.answer(own)
            if self._numbers.get(row.query, math.inf) <= row.version:  # its own number makes its interval
                continue
            self._counts[_MEASURED] += 1
            self._look(_MEASURED, first + own, lambda row=row: self._measured(row))  # type: ignore[misc]
        for name in (_FORM, _ORDER):
            self._counts[name] += len(columns)

    def _look(self, name: str, number: int, look: Callable[[], object]) -> None:
        try:
            look()
        except FAULTS as error:
            self._faults.setdefault(name, f"answer {number}: {words(error)}")

    def _form(self, columns: AnswerColumns, first: int) -> None:
        """Check the confidence, the intervals and the typical errors of answers."""
        numbers = first + np.arange(len(columns))
        which = np.searchsorted(self._newer[:, 0], numbers, side="right") - 1
        is_newer = (which >= 0) & (numbers < self._newer[which, 1]) if len(self._newer) else which >= 0
        asked = self._asked + np.cumsum(~is_newer)
        self._asked = int(asked[-1])
        rules = [*self._interval_rules(columns), *self._typical_rules(columns, asked, is_newer)]
        found = [(int(np.argmax(rule)), fault) for rule, fault in rules if rule.any()]
        if found:
            own, fault = min(found, key=lambda one: one[0])
            self._look(_FORM, first + own, lambda: require(False, fault(columns.answer(own))))

    def _interval_rules(self, columns: AnswerColumns) -> list[_Rule]:
        (low, high), count, held = columns.interval.T, columns.count, ARE_HELD[columns.source]
        has = ~np.isnan(low)
        inside = (low >= 0) & (low <= count) & (count <= high) & (high < math.inf)
        with np.errstate(invalid="ignore"):  # of what is no number another rule tells
            reach = np.maximum(high - count, count - low)
        off = np.full(len(columns), columns.confidence != self._confidence)
        wanted, found = self._confidence, columns.confidence
        return [
            (
                ~(np.isfinite(count) & (count >= 0)),
                lambda row: f"the count {row.count} is no number of records",
            ),
            (off, lambda _: f"confidence: expected {wanted}, found {found}"),
            (held & ~has, lambda _: "it lacks an interval that its source promises"),
            (has & (columns.source == _REFUSED_CODE), lambda _: "it has an interval where it was refused"),
            (has & ~inside, lambda row: f"the interval {_told(row)} does not hold it"),
            (
                has & (reach > self._limit + BAR_SLACK),
                lambda row: f"the interval {_told(row)} is wider than the accuracy contract allows",
            ),
        ]

    def _typical_rules(
        self, columns: AnswerColumns, asked: NDArray[np.int64], is_newer: NDArray[np.bool_]
    ) -> list[_Rule]:
        """Return what is wrong with typical errors that are not those of the newest quantiles before.

        An answer that took the place of a wider one may come before or after a quantile that is due.
        """
        kinded = columns.kind != KINDS.index(None)
        fits = self._are_typical(columns, asked) | (is_newer & self._are_typical(columns, asked + 1))
        return [
            (kinded & np.isnan(columns.interval[:, 0]), lambda _: "it has a kind, but no interval"),
            (~fits, lambda row: f"typical error: {row.typical} is not that of the quantiles before it"),
        ]

    def _are_typical(self, columns: AnswerColumns, asked: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which typical errors follow from the quantiles after fewer answers: bool, shape (n,)."""
        widths, count = np.full(len(columns), math.nan), columns.count
        for one in self._quantiles:  # in order: the newest counts
            own = columns.kind == KINDS.index(one.kind)
            widths[own & (one.asked < asked)] = one.half_width(self._confidence)
        wanted = np.stack([np.maximum(0.0, count - widths), count + widths], axis=1)
        same_ends = (wanted == columns.typical) | (np.isnan(wanted) & np.isnan(columns.typical))
        return np.asarray(same_ends.all(axis=1))

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
            low, high = row.interval or (0.0, math.inf)
            same("count", min(max(low, measurement.units / UNITS), high), row.count)
        else:
            scope = LinearQuery.from_dict(self._domain, json.loads(row.query)).scope
            inside = set(scope) <= set(measurement.scope)
            require(inside, f"measurement {version} does not contain its question")

    def _order(self, columns: AnswerColumns) -> None:
        """Check that share and version go on from those of the answers before."""
        (share, version), own = self._last, (columns.share, columns.version)
        self._last = own
        require(own[0] <= 1, f"the share {own[0]:g} exceeds 1")
        require(own[0] >= share, f"the share falls from {share:g} to {own[0]:g}")
        require(own[1] >= version, f"the model version falls from {version} to {own[1]}")
        require(own[1] <= len(self._later), f"there is no model version {own[1]}")
        require(own[0] in self._shares, f"the share {own[0]:g} is none that the ledger ever had")


def _told(row: StoredAnswer) -> str:
    low, high = row.interval or (math.nan, math.nan)
    return f"{low} to {high}"
