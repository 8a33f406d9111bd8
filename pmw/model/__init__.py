"""The synthetic distribution, its measurements, and how it is fitted to them."""

from __future__ import annotations

from pmw.model.dense import LARGEST_DENSE_DOMAIN, DenseDistribution, check_dense_size
from pmw.model.distribution import MarginalTerm, QueryTerm, SyntheticDistribution, Term
from pmw.model.fitting import refit, step
from pmw.model.measurement import (
    MarginalMeasurement,
    Measurement,
    NoiseLaw,
    QueryMeasurement,
    half_width,
    noise_variance,
)

__all__ = [
    "LARGEST_DENSE_DOMAIN",
    "DenseDistribution",
    "MarginalMeasurement",
    "MarginalTerm",
    "Measurement",
    "NoiseLaw",
    "QueryMeasurement",
    "QueryTerm",
    "SyntheticDistribution",
    "Term",
    "check_dense_size",
    "half_width",
    "noise_variance",
    "refit",
    "step",
]
