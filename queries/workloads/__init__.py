"""Workloads: named, sized sequences of queries that can be walked again and again.

Some list a whole family of questions, others are random streams that a seed repeats; each has a name
that ``parse_workload`` reads back.
"""

from __future__ import annotations

from queries.workloads.streams import popular_conjunctions, random_conjunctions
from queries.workloads.workload import (
    LARGEST_PARITY,
    MOST_QUERIES,
    Workload,
    all_marginals,
    all_ranges,
    marginal_cells,
    parities,
    prefixes,
)
from queries.workloads.workload_text import WORKLOAD_FORMS, parse_workload

__all__ = [
    "all_marginals",
    "all_ranges",
    "LARGEST_PARITY",
    "marginal_cells",
    "MOST_QUERIES",
    "parities",
    "parse_workload",
    "popular_conjunctions",
    "prefixes",
    "random_conjunctions",
    "Workload",
    "WORKLOAD_FORMS",
]
