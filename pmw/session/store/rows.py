"""Rows: what one entry of each table of the session file holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pmw.session.store.answer_rows import FIRST, StoredAnswer
from pmw.session.store.columns import AnswerColumns

REQUESTED = "requested"  # kind of a batch, and of the measurement that comes of it
QUANTILES = "error quantiles"  # kind of a batch, and of the measurements that come of it
LATER = ("query", "measured", REQUESTED)  # kinds of measurements since opening


@dataclass(frozen=True, slots=True, repr=False)
class IntentRow:
    """A batch that was recorded.

    Args:
        id: its number; they count up from 1.
        kind: ``opening``, ``tests``, ``requested`` or ``error quantiles``.
        proposal: JSON, its requests.
        seed: the 32 bytes that its noise is made from, secret; none once they are overwritten.
        charges: how many charges the session file held when it was begun.
    """

    id: int
    kind: str
    proposal: str
    seed: bytes
    charges: int


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One charge: exact fractions as texts; None where the event has no such price.

    ``booked`` is JSON, the analysts that it is booked to and their exact parts.
    """

    event: str
    label: str
    epsilon: str | None
    rho: str
    mu_squared: str | None
    booked: str


@dataclass(frozen=True, slots=True)
class MeasurementRow:
    """One released measurement.

    Args:
        kind: ``total``, ``marginal`` or ``hierarchical histogram`` of the opening; ``query``,
            ``measured``, ``requested`` or ``error quantiles`` since.
        what: JSON, the scope or the query.
        units: little-endian int64, units of 2^-20 records.
        noise: JSON, the distribution of the noise.
    """

    kind: str
    what: str
    units: bytes
    noise: str


@dataclass(frozen=True, slots=True)
class ChainedRows:
    """All that was charged and measured, and the chain that covers it.

    Args:
        ledger: charges, in order.
        ledger_intents: the number of the batch that each charge belongs to.
        measurements: released measurements, in order.
        measurement_intents: the number of the batch that each measurement belongs to.
        origin: 32 bytes that the first link goes on from; they tell a session and its contract from others.
        links: the hashes of the chain, 32 bytes each, in order.
    """

    ledger: tuple[LedgerRow, ...]
    ledger_intents: tuple[int, ...]
    measurements: tuple[MeasurementRow, ...]
    measurement_intents: tuple[int, ...]
    origin: bytes
    links: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class CertificateRow:
    """The newest test of a marginal that did not find the model wrong.

    Args:
        scope: JSON, attribute names.
        version: of the model.
        threshold: in units of 2^-20 records.
        units: little-endian int64, the model's marginal in units.
    """

    scope: str
    version: int
    threshold: int
    units: bytes


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one commit adds to the file.

    Args:
        ledger: charges.
        measurements: released measurements.
        answers: released answers.
        columns: further released answers, which drew no noise.
        are_newer: the answers are newer ones to questions that have stored ones: no further questions.
        certificates: tests that found nothing wrong; each replaces the one of its scope.
        asked: how many questions it answers, repeated ones included.
        meta: public facts to set, as JSON texts.
        secrets: secret facts to set; None wipes one.
        idempotency_keys: of requests that are given the newest stored answer to a question; its text.
        repeats: analysts and the questions whose newest stored answers they are given; their texts.
        charged_before: how many charges the file must hold before these, so that a sum that was computed
            from others is never added to; None looks at none.
    """

    ledger: Sequence[LedgerRow] = ()
    measurements: Sequence[MeasurementRow] = ()
    answers: Sequence[StoredAnswer] = ()
    columns: Sequence[AnswerColumns] = ()
    are_newer: bool = False
    certificates: Sequence[CertificateRow] = ()
    asked: int = 0
    meta: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, bytes | None] = field(default_factory=dict)
    idempotency_keys: dict[str, str] = field(default_factory=dict)
    repeats: Sequence[tuple[str, str]] = ()
    charged_before: int | None = None

    @property
    def settled(self) -> int:
        """How many questions its answers settle first."""
        rows = sum(one.settled == FIRST for one in self.answers)
        return rows + sum(int((one.settled == FIRST).sum()) for one in self.columns)
