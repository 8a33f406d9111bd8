"""Offline private multiplicative weights: for those who know their workload before anything is spent."""

from __future__ import annotations

from pmw.research.offline.fitting import fit_workload
from pmw.research.offline.options import OfflineOptions, Targets
from pmw.research.offline.release import OfflineRelease
from pmw.research.offline.workload import MOST_CANDIDATES, WorkloadItem

__all__ = [
    "fit_workload",
    "MOST_CANDIDATES",
    "OfflineOptions",
    "OfflineRelease",
    "Targets",
    "WorkloadItem",
]
