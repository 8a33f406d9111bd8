"""Baselines: what an own loop is compared with, each as a function of a histogram, or in closed form."""

from __future__ import annotations

from pmw.research.baselines.all_pairs import FittedPairs, PairRules, all_pairs_max_entropy
from pmw.research.baselines.mwem import mwem, offline_pmw
from pmw.research.baselines.residual_planner import (
    Scope,
    cell_variance,
    centred,
    reconstructed,
    residual_prices,
    residual_variances,
)

__all__ = [
    "all_pairs_max_entropy", "cell_variance", "centred", "FittedPairs", "mwem", "offline_pmw", "PairRules",
    "reconstructed", "residual_prices", "residual_variances", "Scope",
]  # fmt: skip
