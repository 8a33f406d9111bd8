"""The session file: everything that a session must not forget, in one SQLite database."""

from __future__ import annotations

from pmw.session.store.answer_rows import query_key
from pmw.session.store.files import SessionFiles
from pmw.session.store.rows import (
    LATER,
    REQUESTED,
    CertificateRow,
    ChainedRows,
    IntentRow,
    LedgerRow,
    MeasurementRow,
    Outcome,
    StoredAnswer,
)
from pmw.session.store.schema import FORMAT_VERSION
from pmw.session.store.session_store import SessionStore
from pmw.session.store.writing import writing

__all__ = [
    "CertificateRow",
    "ChainedRows",
    "FORMAT_VERSION",
    "IntentRow",
    "LATER",
    "LedgerRow",
    "MeasurementRow",
    "Outcome",
    "query_key",
    "REQUESTED",
    "SessionFiles",
    "SessionStore",
    "StoredAnswer",
    "writing",
]
