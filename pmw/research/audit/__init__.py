"""Audits: what a mechanism's privacy really is, found by enumeration and by counting runs.

``exact`` enumerates output laws from a mechanism's own tables, ``trees`` does so for streams that react to
their outputs, ``statistical`` certifies a lower bound on epsilon from ``replicas`` of the implementation.
``catalogue`` has every mechanism, sound and flawed, with its claim; ``report`` holds each against it.
"""

from __future__ import annotations

from pmw.research.audit.exact import (
    ComparisonTables,
    OutputLaw,
    adaptive_law,
    delta_curve,
    hockey_stick_divergence,
    neighbor_patterns,
    output_law,
    output_law_of,
    renyi_curve,
    renyi_divergence,
    tables_of,
    worst_log_ratio,
)
from pmw.research.audit.replicas import ReplicaTest, replica_test, run_replicas
from pmw.research.audit.statistical import FalseAlarm, StatisticalFinding, certify, clopper_pearson
from pmw.research.audit.trees import OutcomeTables, RandomTree, outcome_tables, stream_law, tree_law

__all__ = [
    "adaptive_law",
    "certify",
    "clopper_pearson",
    "ComparisonTables",
    "delta_curve",
    "FalseAlarm",
    "hockey_stick_divergence",
    "neighbor_patterns",
    "outcome_tables",
    "OutcomeTables",
    "output_law",
    "output_law_of",
    "OutputLaw",
    "RandomTree",
    "renyi_curve",
    "renyi_divergence",
    "replica_test",
    "ReplicaTest",
    "run_replicas",
    "StatisticalFinding",
    "stream_law",
    "tables_of",
    "tree_law",
    "worst_log_ratio",
]
