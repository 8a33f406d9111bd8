"""Audits: what a mechanism's privacy really is, found by enumeration and by counting runs.

``exact`` enumerates output distributions from a mechanism's own tables, also for streams that react to their
outputs; ``statistical`` certifies a lower bound on epsilon from many runs of the implementation.
``catalogue`` has every mechanism, sound and flawed, with its claim; ``report`` holds each against it.
``audit_sparse_vector`` takes a sparse vector of one's own.
"""

from __future__ import annotations

from pmw.research.audit.exact import (
    OutcomeTables,
    OutputDistribution,
    RandomTree,
    delta_curve,
    hockey_stick_divergence,
    log_probability,
    neighbor_patterns,
    releasing,
    renyi_curve,
    renyi_divergence,
    sharing_noise,
    stream_distribution,
    tables_of,
    tree_distribution,
    without_noise,
    worst_log_ratio,
)
from pmw.research.audit.statistical import (
    ReplicaTest,
    StatisticalFinding,
    certify,
    clopper_pearson,
    replica_test,
    run_replicas,
)
from pmw.research.audit.vectors import VectorAudit, VectorFinding, audit_sparse_vector

__all__ = [
    "audit_sparse_vector", "certify", "clopper_pearson", "delta_curve",
    "hockey_stick_divergence", "log_probability", "neighbor_patterns", "OutcomeTables", "OutputDistribution",
    "RandomTree", "releasing", "renyi_curve", "renyi_divergence", "replica_test", "ReplicaTest",
    "run_replicas", "sharing_noise", "StatisticalFinding", "stream_distribution", "tables_of",
    "tree_distribution", "VectorAudit", "VectorFinding", "without_noise", "worst_log_ratio",
]  # fmt: skip
