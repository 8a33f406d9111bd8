"""Verification: a session's books, recomputed from what its file holds and compared with it.

Every charge follows from its event and the contract, every model from the measurements, every answer from
the model of its version. Only public numbers are shown; of secrets, whether they are there.
"""

from __future__ import annotations

from pmw.verification.anchor import Anchor
from pmw.verification.checks import verify
from pmw.verification.report import NOT_PROVED, Check, Verification

__all__ = [
    "Anchor",
    "Check",
    "NOT_PROVED",
    "Verification",
    "verify",
]
