"""Audits: what a mechanism's privacy really is, found by enumeration and by counting runs.

``exact`` enumerates output distributions from a mechanism's own tables, ``trees`` does so for streams that
react to their outputs, ``statistical`` certifies a lower bound on epsilon from ``replicas`` of the
implementation.
``catalogue`` has every mechanism, sound and flawed, with its claim; ``report`` holds each against it.
"""

from __future__ import annotations

from pmw.research.audit.exact import (
    ComparisonTables,
    OutputDistribution,
    adaptive_distribution,
    delta_curve,
    hockey_stick_divergence,
    neighbor_patterns,
    output_distribution,
    output_distribution_of,
    renyi_curve,
    renyi_divergence,
    tables_of,
    worst_log_ratio,
)
from pmw.research.audit.replicas import ReplicaTest, replica_test, run_replicas
from pmw.research.audit.statistical import FalseAlarm, StatisticalFinding, certify, clopper_pearson
from pmw.research.audit.trees import (
    OutcomeTables,
    RandomTree,
    outcome_tables,
    stream_distribution,
    tree_distribution,
)

__all__ = [
    "adaptive_distribution",
    "certify",
    "clopper_pearson",
    "ComparisonTables",
    "delta_curve",
    "FalseAlarm",
    "hockey_stick_divergence",
    "neighbor_patterns",
    "outcome_tables",
    "OutcomeTables",
    "output_distribution",
    "output_distribution_of",
    "OutputDistribution",
    "RandomTree",
    "renyi_curve",
    "renyi_divergence",
    "replica_test",
    "ReplicaTest",
    "run_replicas",
    "StatisticalFinding",
    "stream_distribution",
    "tables_of",
    "tree_distribution",
    "worst_log_ratio",
]
