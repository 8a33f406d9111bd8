"""Offline private multiplicative weights: for those who know their workload before anything is spent."""

from __future__ import annotations

from pmw.offline.fitting import fit_workload
from pmw.offline.options import OfflineOptions, Targets
from pmw.offline.release import OfflineRelease
from pmw.offline.workload import MOST_CANDIDATES, WorkloadItem

__all__ = [
    "fit_workload",
    "MOST_CANDIDATES",
    "OfflineOptions",
    "OfflineRelease",
    "Targets",
    "WorkloadItem",
]
