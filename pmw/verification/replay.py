"""Replay: the models of a session, made once more from its measurements; public, and free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pmw.errors import SessionCorruptError
from pmw.mechanism import correct, marginal_units
from pmw.model import QueryMeasurement
from pmw.policy import MarginalTestPlan, TestKind
from pmw.snapshots import duals_of
from pmw.state import Bought, Certificate, PublicState
from pmw.verification.report import require
from pmw.verification.vectors import VectorBooks
from queries.linear import UNITS

__all__ = [
    "are_close",
    "is_close",
    "Records",
    "Replay",
]

# A model that went through a snapshot differs in the last digits from one that never stopped. What it answers
# is compared to within this part of the number.
_CLOSE = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """What the file says of a session's models, to be met on the way.

    Args:
        measured: what was bought since opening, in order.
        certificates: the stored ones, in the order of their tests.
        snapshot: a stored version and its dual numbers.
        rounds: how often threshold noise was paid for, by what the sparse vector tests.
        vectors: the sparse vectors.
        closed: the session was closed for good.
        answers: how many answers are stored.
    """

    measured: tuple[Bought, ...]
    certificates: tuple[Certificate, ...]
    snapshot: tuple[int, NDArray[np.float64]] | None
    rounds: Mapping[TestKind, int] = field(default_factory=dict)
    vectors: Sequence[VectorBooks] = ()
    closed: bool = False
    answers: int = 0

    def was_tested(self, kind: TestKind, version: int) -> bool:
        """Tell whether a round was paid for in which a test of a model version could be negative."""
        positives = sum(
            (TestKind.QUERY if isinstance(one, QueryMeasurement) else TestKind.MARGINAL) is kind
            for one in self.measured[:version]
        )
        redrawn = any(vector.redraw for vector in self.vectors if vector.kind is kind)
        return self.rounds.get(kind, 0) > (positives if redrawn else 0)


class Replay:
    """The models of a session, one version after the other.

    Args:
        state: the state after opening.
        records: what the file says of the models.
    """

    def __init__(self, state: PublicState, records: Records) -> None:
        self._state = state
        self.records = records
        self.answers = 0  # stored answers before the one that is looked at
        self.fault: str | None = None  # the first number on the way that the models do not give
        self._meet()

    @property
    def version(self) -> int:
        """The version that was reached."""
        return self._state.version

    def at(self, version: int) -> PublicState:
        """Return the state of a version.

        Raises:
            SessionCorruptError: the version was passed, or never was.
        """
        if not self._state.version <= version <= len(self.records.measured):
            raise SessionCorruptError(
                f"model version {version} does not follow version {self._state.version}"
            )
        while self._state.version < version:
            self._advance()
        return self._state

    def _advance(self) -> None:
        measurement = self.records.measured[self._state.version]
        if isinstance(measurement, QueryMeasurement):
            expected = round(self._state.model.answer(measurement.query) * UNITS)
            if not is_close(expected / UNITS, measurement.model_units / UNITS):
                self._blame(
                    f"measurement {self._state.version + 1} corrects an answer that the model did not give"
                )
        self._state = correct(self._state, measurement)
        self._meet()

    def _meet(self) -> None:
        """Compare what the file says of the version that was reached."""
        version, snapshot = self._state.version, self.records.snapshot
        if snapshot is not None and snapshot[0] == version:
            expected, found = duals_of(self._state), snapshot[1]
            if expected.shape != found.shape or not np.allclose(found, expected, rtol=_CLOSE, atol=_CLOSE):
                self._blame(f"the snapshot of version {version} is not the model of its measurements")
        for certificate in self.records.certificates:
            if certificate.version == version:
                try:
                    _check_certificate(self._state, certificate, self.records)
                except SessionCorruptError as error:
                    self._blame(str(error))

    def _blame(self, fault: str) -> None:
        self.fault = self.fault or fault


def _check_certificate(state: PublicState, certificate: Certificate, records: Records) -> None:
    """Check that a certificate is of its version's model, against a threshold of the plan.

    Raises:
        SessionCorruptError: it is not.
    """
    plan, what = state.plan, f"the certificate of {', '.join(certificate.scope)}"
    require(isinstance(plan, MarginalTestPlan), f"{what} stands in a session that tests no marginals")
    if not isinstance(plan, MarginalTestPlan):
        return
    grid = state.grid(certificate.scope)
    require(grid.scope(certificate.scope) == certificate.scope, f"{what} is not over attributes in order")
    planned = certificate.units.shape == grid.scope_shape(certificate.scope)
    require(planned, f"{what} is not on the cells that are tested")
    require(certificate.units.size <= plan.most_cells, f"{what} has more cells than are tested")
    require(
        records.was_tested(TestKind.MARGINAL, certificate.version),
        f"{what} was tested in a round that was not paid for",
    )
    expected = marginal_units(state, certificate.scope)
    off = np.abs(certificate.units - expected).max(initial=0)
    require(
        bool(off <= 4 + _CLOSE * np.abs(expected).max(initial=0)),
        f"{what} is not of the model of version {certificate.version}",
    )
    # Thresholds fall with the number of answers, and the file does not say how many stood before a test.
    cells = certificate.units.size
    require(
        plan.threshold(cells, records.answers) <= certificate.threshold <= plan.threshold(cells, 0),
        f"{what} has a threshold that was never planned",
    )


def is_close(found: float, wanted: float, size: float = 0.0) -> bool:
    """Tell whether two numbers of records are one but for the last digits of a model of some size."""
    return abs(found - wanted) <= 4 / UNITS + _CLOSE * max(abs(wanted), size)


def are_close(
    found: NDArray[np.float64], wanted: NDArray[np.float64], size: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Tell which pairs of numbers are one, as ``is_close`` does."""
    near: NDArray[np.bool_] = np.abs(found - wanted) <= 4 / UNITS + _CLOSE * np.maximum(np.abs(wanted), size)
    return near
