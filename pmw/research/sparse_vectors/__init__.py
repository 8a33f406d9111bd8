"""Sparse vectors of the literature that no session runs.

Those that are not private as published are not offered here: see ``pmw.research.audit.flawed``.
"""

from __future__ import annotations

from pmw.research.sparse_vectors.choices import Retraversal, TopC
from pmw.research.sparse_vectors.literature import (
    FreeGap,
    NaiveAboveThreshold,
    algorithm_1,
    algorithm_2,
    algorithm_7,
    numeric_algorithm_7,
)
from pmw.research.sparse_vectors.sech2_charges import (
    AdaptiveSech2,
    AdaptiveState,
    least_query_scale,
    order_charges,
    order_filter,
    renyi_charge,
    renyi_charge_bound,
    run_epsilon,
)

__all__ = [
    "AdaptiveSech2", "AdaptiveState", "algorithm_1", "algorithm_2", "algorithm_7", "FreeGap",
    "least_query_scale", "NaiveAboveThreshold", "numeric_algorithm_7", "order_charges", "order_filter",
    "renyi_charge", "renyi_charge_bound", "Retraversal", "run_epsilon", "TopC",
]  # fmt: skip
