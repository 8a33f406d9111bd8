"""Private answers over a sensitive table: online private multiplicative weights.

``open_session`` opens a session over a table with a fixed privacy budget; it answers counting queries
without end, each with an error bar, and exports a synthetic table at any time.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pmw.answer_table import Answers
    from pmw.answers import Answer, Source, Spent
    from pmw.backup import backup_session
    from pmw.books import seal_session, verify_session
    from pmw.data import CsvDialect, TableFile
    from pmw.errors import (
        BudgetError,
        BudgetExhaustedError,
        DataError,
        NoiseError,
        PMWError,
        ReleaseError,
        SessionCorruptError,
        SessionError,
        SessionExistsError,
        SessionLockedError,
        StoreError,
    )
    from pmw.ledger import Ledger, LedgerLine
    from pmw.offline import OfflineOptions, OfflineRelease, fit_workload
    from pmw.policy import ModelKind, Opening, Options, TestKind, UpdateRule
    from pmw.privacy import Budget, Composition, NeighboringRelation
    from pmw.release import RowPlan
    from pmw.session import Session, open_session, resume_session
    from pmw.session_plan import SessionPlan, plan_session
    from pmw.session_table import move_session
    from pmw.sparse_vector import Sides, SparseVectorKind
    from pmw.status import Status
    from pmw.verification import Check, Verification

__all__ = [
    "Answer",
    "Answers",
    "backup_session",
    "Budget",
    "BudgetError",
    "BudgetExhaustedError",
    "Check",
    "Composition",
    "CsvDialect",
    "DataError",
    "fit_workload",
    "Ledger",
    "LedgerLine",
    "ModelKind",
    "move_session",
    "NeighboringRelation",
    "NoiseError",
    "OfflineOptions",
    "OfflineRelease",
    "open_session",
    "Opening",
    "Options",
    "plan_session",
    "PMWError",
    "ReleaseError",
    "resume_session",
    "RowPlan",
    "seal_session",
    "Session",
    "SessionCorruptError",
    "SessionError",
    "SessionExistsError",
    "SessionLockedError",
    "SessionPlan",
    "Sides",
    "Source",
    "SparseVectorKind",
    "Spent",
    "Status",
    "StoreError",
    "TableFile",
    "TestKind",
    "UpdateRule",
    "Verification",
    "verify_session",
]

# Where each public name lives. They are imported on first use, so that the command line answers --help
# without loading numerical libraries.
_HOMES = {
    "answer_table": ("Answers",),
    "answers": ("Answer", "Source", "Spent"),
    "backup": ("backup_session",),
    "books": ("seal_session", "verify_session"),
    "data": ("CsvDialect", "TableFile"),
    "errors": (
        "BudgetError",
        "BudgetExhaustedError",
        "DataError",
        "NoiseError",
        "PMWError",
        "ReleaseError",
        "SessionCorruptError",
        "SessionError",
        "SessionExistsError",
        "SessionLockedError",
        "StoreError",
    ),
    "ledger": ("Ledger", "LedgerLine"),
    "offline": ("OfflineOptions", "OfflineRelease", "fit_workload"),
    "policy": ("ModelKind", "Opening", "Options", "TestKind", "UpdateRule"),
    "privacy": ("Budget", "Composition", "NeighboringRelation"),
    "release": ("RowPlan",),
    "session": ("Session", "open_session", "resume_session"),
    "session_plan": ("SessionPlan", "plan_session"),
    "session_table": ("move_session",),
    "sparse_vector": ("Sides", "SparseVectorKind"),
    "status": ("Status",),
    "verification": ("Check", "Verification"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'pmw' has no attribute {name!r}")
    return getattr(importlib.import_module(f"pmw.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
