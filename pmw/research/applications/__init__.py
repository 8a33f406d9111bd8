"""Applications: small private programs around the sparse vector technique, by their textbook names.

Each takes exact integers and a source of bits, spends a stated price, and returns what may be published.
"""

from __future__ import annotations

from pmw.research.applications.clipping import (
    AutoAverage,
    auto_avg,
    clipped_sum,
    clipping_bound,
    clipping_queries,
    firm_threshold,
    naive_clipping_bound,
)
from pmw.research.applications.large_counts import (
    RangeAnswer,
    laplace_cohorts,
    range_counts,
    range_query_svt,
    sparse_cohorts,
)

__all__ = [
    "auto_avg",
    "AutoAverage",
    "clipped_sum",
    "clipping_bound",
    "clipping_queries",
    "firm_threshold",
    "laplace_cohorts",
    "naive_clipping_bound",
    "range_counts",
    "range_query_svt",
    "RangeAnswer",
    "sparse_cohorts",
]
