"""Offline private multiplicative weights: for those who know their workload before anything is spent."""

from __future__ import annotations

from pmw.research.offline.fitting import (
    OfflineRelease,
    fit_workload,
    largest_error,
    last_measured,
    small_error,
)
from pmw.research.offline.options import (
    MOST_CANDIDATES,
    ROUNDS_PER_ATTRIBUTE,
    OfflineOptions,
    Targets,
    WorkloadItem,
)

__all__ = [
    "fit_workload", "largest_error", "last_measured", "MOST_CANDIDATES", "OfflineOptions", "OfflineRelease",
    "ROUNDS_PER_ATTRIBUTE", "small_error", "Targets", "WorkloadItem",
]  # fmt: skip
