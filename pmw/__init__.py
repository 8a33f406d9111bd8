"""Private answers over a sensitive table: online private multiplicative weights.

``open_session`` opens a session over a table with a fixed privacy budget; it answers counting queries
without end, each with an error bar, and exports a synthetic table at any time. ``resume_session``,
``connect`` and ``load_model`` return things with the same methods.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pmw.data import CsvDialect, DatabaseTable, TableFile
    from pmw.data import MemoryLimit as MemoryLimit
    from pmw.errors import BudgetError as BudgetError
    from pmw.errors import BudgetExhaustedError, DataError, PMWError, ServiceError, SessionError
    from pmw.errors import ModelFileError as ModelFileError
    from pmw.errors import NoiseError as NoiseError
    from pmw.errors import PriceError as PriceError
    from pmw.errors import ReleaseError as ReleaseError
    from pmw.errors import SessionCorruptError as SessionCorruptError
    from pmw.errors import SessionExistsError as SessionExistsError
    from pmw.errors import SessionLockedError as SessionLockedError
    from pmw.errors import StoreError as StoreError
    from pmw.planning.plans import plan_session
    from pmw.planning.session_plan import SessionPlan as SessionPlan
    from pmw.privacy.budget import Budget as Budget
    from pmw.privacy.budget import Composition as Composition
    from pmw.privacy.budget import NeighboringRelation as NeighboringRelation
    from pmw.public.answer import Answer
    from pmw.public.answer import Source as Source
    from pmw.public.answer import Spent as Spent
    from pmw.public.answers import Answers
    from pmw.public.export import RowPlan
    from pmw.public.ledger import Ledger as Ledger
    from pmw.public.ledger import LedgerLine as LedgerLine
    from pmw.public.options import ExpectedQuestions as ExpectedQuestions
    from pmw.public.options import ModelKind as ModelKind
    from pmw.public.options import Opening as Opening
    from pmw.public.options import Options
    from pmw.public.options import TestKind as TestKind
    from pmw.public.options import UpdateRule as UpdateRule
    from pmw.public.prior import Prior as Prior
    from pmw.public.quotes import Quote as Quote
    from pmw.public.status import Status as Status
    from pmw.research.offline import OfflineOptions as OfflineOptions
    from pmw.research.offline import OfflineRelease as OfflineRelease
    from pmw.research.offline import fit_workload
    from pmw.service.client import RemoteSession, connect
    from pmw.session.accounts import Activity as Activity
    from pmw.session.accounts import Booked as Booked
    from pmw.session.dialogue import Analyst
    from pmw.session.expected import expected_questions as expected_questions
    from pmw.session.maintenance import backup_session, finalize_session, verify_session
    from pmw.session.opening import open_session, resume_session
    from pmw.session.priors import public_prior
    from pmw.session.public_model import PublicModel, load_model
    from pmw.session.session import Session
    from pmw.session.synthesis import Synthesis as Synthesis
    from pmw.session.synthesis import synthesize
    from pmw.session.table import move_session
    from pmw.session.verification.report import Check as Check
    from pmw.session.verification.report import Verification as Verification
    from pmw.sparse_vector import Sides as Sides
    from pmw.sparse_vector import SparseVectorKind as SparseVectorKind
    from queries.domain import Domain
    from queries.linear import LinearQuery as LinearQuery
    from queries.schema import load_schema

# What a first session needs, on one screen of a completion. The other names of ``_HOMES`` are types of
# options and results, and rarer errors: they are there, and not listed.
__all__ = [
    "Analyst",
    "Answer",
    "Answers",
    "backup_session",
    "BudgetExhaustedError",
    "connect",
    "CsvDialect",
    "DatabaseTable",
    "DataError",
    "Domain",
    "finalize_session",
    "fit_workload",
    "load_model",
    "load_schema",
    "move_session",
    "open_session",
    "Options",
    "plan_session",
    "PMWError",
    "public_prior",
    "PublicModel",
    "RemoteSession",
    "resume_session",
    "RowPlan",
    "ServiceError",
    "Session",
    "SessionError",
    "synthesize",
    "TableFile",
    "verify_session",
]

# Where each public name lives. They are imported on first use, so that the command line answers --help
# without loading numerical libraries.
_HOMES = {
    "pmw.data": ("CsvDialect", "DatabaseTable", "MemoryLimit", "TableFile"),
    "pmw.errors": (
        "BudgetError",
        "BudgetExhaustedError",
        "DataError",
        "ModelFileError",
        "NoiseError",
        "PMWError",
        "PriceError",
        "ReleaseError",
        "ServiceError",
        "SessionCorruptError",
        "SessionError",
        "SessionExistsError",
        "SessionLockedError",
        "StoreError",
    ),
    "pmw.planning.plans": ("plan_session",),
    "pmw.planning.session_plan": ("SessionPlan",),
    "pmw.privacy.budget": ("Budget", "Composition", "NeighboringRelation"),
    "pmw.public.answer": ("Answer", "Source", "Spent"),
    "pmw.public.answers": ("Answers",),
    "pmw.public.export": ("RowPlan",),
    "pmw.public.ledger": ("Ledger", "LedgerLine"),
    "pmw.public.options": ("ExpectedQuestions", "ModelKind", "Opening", "Options", "TestKind", "UpdateRule"),
    "pmw.public.prior": ("Prior",),
    "pmw.public.quotes": ("Quote",),
    "pmw.public.status": ("Status",),
    "pmw.research.offline": ("OfflineOptions", "OfflineRelease", "fit_workload"),
    "pmw.service.client": ("RemoteSession", "connect"),
    "pmw.session.accounts": ("Activity", "Booked"),
    "pmw.session.dialogue": ("Analyst",),
    "pmw.session.expected": ("expected_questions",),
    "pmw.session.maintenance": ("backup_session", "finalize_session", "verify_session"),
    "pmw.session.opening": ("open_session", "resume_session"),
    "pmw.session.priors": ("public_prior",),
    "pmw.session.public_model": ("PublicModel", "load_model"),
    "pmw.session.session": ("Session",),
    "pmw.session.synthesis": ("Synthesis", "synthesize"),
    "pmw.session.table": ("move_session",),
    "pmw.session.verification.report": ("Check", "Verification"),
    "pmw.sparse_vector": ("Sides", "SparseVectorKind"),
    "queries.domain": ("Domain",),
    "queries.linear": ("LinearQuery",),
    "queries.schema": ("load_schema",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'pmw' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
