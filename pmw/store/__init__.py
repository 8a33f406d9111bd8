"""The session file: everything that a session must not forget, in one SQLite database."""

from __future__ import annotations

from pmw.store.rows import IntentRow, LedgerRow, MeasurementRow, Outcome, StoredAnswer
from pmw.store.session_store import FORMAT_VERSION, SessionStore

__all__ = [
    "FORMAT_VERSION",
    "IntentRow",
    "LedgerRow",
    "MeasurementRow",
    "Outcome",
    "SessionStore",
    "StoredAnswer",
]
