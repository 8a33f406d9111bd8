"""Sparse vectors of the literature that no session runs, one algorithm per module.

Those that are not private as published are not offered here: see ``pmw.research.sparse_vectors.flawed``.
"""

from __future__ import annotations

from pmw.research.sparse_vectors.adaptive_sech2 import AdaptiveSech2, AdaptiveState
from pmw.research.sparse_vectors.free_gap import FreeGap
from pmw.research.sparse_vectors.lyu_su_li import algorithm_1, algorithm_2, algorithm_7, numeric_algorithm_7
from pmw.research.sparse_vectors.naive import NaiveAboveThreshold
from pmw.research.sparse_vectors.retraversal import Retraversal
from pmw.research.sparse_vectors.sech2_charges import (
    least_query_scale,
    order_charges,
    order_filter,
    renyi_charge,
    renyi_charge_bound,
    run_epsilon,
)
from pmw.research.sparse_vectors.top_c import TopC, top_c

__all__ = [
    "AdaptiveSech2",
    "AdaptiveState",
    "algorithm_1",
    "algorithm_2",
    "algorithm_7",
    "FreeGap",
    "least_query_scale",
    "NaiveAboveThreshold",
    "numeric_algorithm_7",
    "order_charges",
    "order_filter",
    "renyi_charge",
    "renyi_charge_bound",
    "Retraversal",
    "run_epsilon",
    "top_c",
    "TopC",
]
