"""The session file: everything that a session must not forget, in one SQLite database."""

from __future__ import annotations

from pmw.session.store.answer_rows import AGAIN, FIRST, UNSETTLED, StoredAnswer, query_key
from pmw.session.store.columns import AnswerColumns
from pmw.session.store.files import SessionFiles, is_model_file
from pmw.session.store.rows import (
    LATER,
    QUANTILES,
    REQUESTED,
    CertificateRow,
    ChainedRows,
    IntentRow,
    LedgerRow,
    MeasurementRow,
    Outcome,
)
from pmw.session.store.schema import FORMAT_VERSION
from pmw.session.store.session_store import SessionStore
from pmw.session.store.writing import writing

__all__ = [
    "AGAIN",
    "AnswerColumns",
    "CertificateRow",
    "ChainedRows",
    "FIRST",
    "FORMAT_VERSION",
    "IntentRow",
    "is_model_file",
    "LATER",
    "LedgerRow",
    "MeasurementRow",
    "Outcome",
    "QUANTILES",
    "query_key",
    "REQUESTED",
    "SessionFiles",
    "SessionStore",
    "StoredAnswer",
    "UNSETTLED",
    "writing",
]
