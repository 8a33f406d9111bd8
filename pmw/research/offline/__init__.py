"""Offline private multiplicative weights: for those who know their workload before anything is spent."""

from __future__ import annotations

from pmw.research.offline.fitting import fit_workload
from pmw.research.offline.options import OfflineOptions, Targets
from pmw.research.offline.release import OfflineRelease, largest_error, last_measured
from pmw.research.offline.schedule import ROUNDS_PER_ATTRIBUTE
from pmw.research.offline.settling import small_error
from pmw.research.offline.workload import MOST_CANDIDATES, WorkloadItem

__all__ = [
    "fit_workload",
    "largest_error",
    "last_measured",
    "MOST_CANDIDATES",
    "OfflineOptions",
    "OfflineRelease",
    "ROUNDS_PER_ATTRIBUTE",
    "small_error",
    "Targets",
    "WorkloadItem",
]
