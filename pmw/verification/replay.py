"""Replay: the models and answers of a session, made once more from its measurements; public, and free."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pmw.answers import Answer, Source, Spent
from pmw.error_bars import certified_answer, measured_answer, untested_answer
from pmw.errors import SessionCorruptError
from pmw.journal import duals_of, query_key
from pmw.mechanism import correct
from pmw.model import QueryMeasurement
from pmw.state import PublicState
from pmw.store import StoredAnswer
from queries.linear import UNITS, LinearQuery

__all__ = [
    "expected_answer",
    "Replay",
    "require_same_answer",
]

# A model that went through a snapshot differs in the last digits from one that never stopped. What it answers
# is compared to within this part of the number.
_CLOSE = 1e-6
_NOWHERE = Spent(0.0, 0.0, 0.0)  # shares are compared elsewhere


class Replay:
    """The models of a session, one version after the other.

    Args:
        state: the state after opening.
        measured: the measurements bought since, in order.
        snapshot: a stored version and its dual numbers, to be met on the way.
    """

    def __init__(
        self,
        state: PublicState,
        measured: Sequence[QueryMeasurement],
        snapshot: tuple[int, NDArray[np.float64]] | None,
    ) -> None:
        self._state = state
        self._measured = tuple(measured)
        self._snapshot = snapshot
        self.fault: str | None = None  # the first number on the way that the models do not give
        self._meet_snapshot()

    @property
    def measured(self) -> tuple[QueryMeasurement, ...]:
        """The measurements bought since opening."""
        return self._measured

    @property
    def version(self) -> int:
        """The version that was reached."""
        return self._state.version

    def at(self, version: int) -> PublicState:
        """Return the state of a version.

        Raises:
            SessionCorruptError: the version was passed, or never was.
        """
        if not self._state.version <= version <= len(self._measured):
            raise SessionCorruptError(
                f"model version {version} does not follow version {self._state.version}"
            )
        while self._state.version < version:
            self._advance()
        return self._state

    def _advance(self) -> None:
        measurement = self._measured[self._state.version]
        expected = round(self._state.model.answer(measurement.query) * UNITS)
        if not _is_close(expected / UNITS, measurement.model_units / UNITS):
            self._blame(
                f"measurement {self._state.version + 1} corrects an answer that the model did not give"
            )
        self._state = correct(self._state, measurement)
        self._meet_snapshot()

    def _meet_snapshot(self) -> None:
        if self._snapshot is None or self._snapshot[0] != self._state.version:
            return
        expected, found = duals_of(self._state), self._snapshot[1]
        if expected.shape != found.shape or not np.allclose(found, expected, rtol=_CLOSE, atol=_CLOSE):
            self._blame(f"the snapshot of version {self._state.version} is not the model of its measurements")

    def _blame(self, fault: str) -> None:
        self.fault = self.fault or fault


def expected_answer(row: StoredAnswer, replay: Replay, rounds: int) -> Answer:
    """Return the answer that a question was given at a stored answer's version.

    Args:
        row: the stored answer.
        replay: at the answer's version or before it.
        rounds: how often threshold noise was paid for.

    Raises:
        SessionCorruptError: there can be no such answer.
    """
    if row.source == Source.MEASURED.value:
        return _measured(row, replay)
    state = replay.at(row.version)
    query = LinearQuery.from_dict(state.domain, json.loads(row.query))
    if query.to_json() != row.query or query_key(row.query) != row.query_key:
        raise SessionCorruptError("its question is not in its canonical text, or found under another key")
    plain = untested_answer(state, query, _NOWHERE)
    if row.source != Source.SYNTHETIC.value or plain.source is Source.SYNTHETIC:
        return plain
    if state.plan is None or rounds <= (row.version if state.plan.vector.sparse.redraw else 0):
        raise SessionCorruptError("it was tested in a round that was not paid for")
    units = round(state.model.answer(query) * UNITS)
    return certified_answer(state, query, units, state.plan.threshold, _NOWHERE)


def _measured(row: StoredAnswer, replay: Replay) -> Answer:
    if not 0 < row.version <= len(replay.measured):
        raise SessionCorruptError(f"there is no measurement {row.version}")
    measurement = replay.measured[row.version - 1]
    if row.query != measurement.query.to_json():
        raise SessionCorruptError(f"measurement {row.version} is of another question")
    state = replay.at(max(row.version - 1, replay.version))
    return measured_answer(state, measurement.query, measurement.units, _NOWHERE)


def require_same_answer(row: StoredAnswer, expected: Answer) -> None:
    """Compare a stored answer with the expected one.

    Raises:
        SessionCorruptError: they differ.
    """
    if row.source != expected.source.value:
        raise SessionCorruptError(f"expected source {expected.source.value}, found {row.source}")
    pairs = [("count", row.count, expected.count), ("confidence", row.confidence, expected.confidence)]
    if (row.interval is None) != (expected.interval is None):
        raise SessionCorruptError("it has an interval where none is promised, or lacks one that is")
    if row.interval is not None and expected.interval is not None:
        pairs.append(("low end", row.interval[0], expected.interval[0]))
        pairs.append(("high end", row.interval[1], expected.interval[1]))
    for name, found, wanted in pairs:
        if not _is_close(found, wanted, expected.count):
            raise SessionCorruptError(f"expected {name} {wanted:.6f}, found {found:.6f}")


def _is_close(found: float, wanted: float, size: float = 0.0) -> bool:
    return abs(found - wanted) <= 4 / UNITS + _CLOSE * max(abs(wanted), size)
