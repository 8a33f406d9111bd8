"""The session file: everything that a session must not forget, in one SQLite database."""

from __future__ import annotations

from pmw.session.store.answers import Found
from pmw.session.store.columns import AGAIN, DIFFERING, FIRST, UNSETTLED, AnswerColumns, StoredAnswer
from pmw.session.store.connection import SessionFiles, is_model_file
from pmw.session.store.draft_file import read_charges, record_charge
from pmw.session.store.locking import file_locks
from pmw.session.store.rows import (
    FORMAT_VERSION,
    OPENING,
    OPENING_SUM,
    PARTS,
    QUANTILES,
    TESTS,
    CertificateRow,
    ChainedRows,
    IntentRow,
    LedgerRow,
    MeasurementRow,
    Outcome,
)
from pmw.session.store.store import SessionStore, writing

__all__ = [
    "AGAIN",
    "AnswerColumns",
    "CertificateRow",
    "ChainedRows",
    "DIFFERING",
    "file_locks",
    "FIRST",
    "FORMAT_VERSION",
    "Found",
    "IntentRow",
    "is_model_file",
    "LedgerRow",
    "MeasurementRow",
    "OPENING",
    "OPENING_SUM",
    "Outcome",
    "PARTS",
    "QUANTILES",
    "read_charges",
    "record_charge",
    "SessionFiles",
    "SessionStore",
    "StoredAnswer",
    "TESTS",
    "UNSETTLED",
    "writing",
]
