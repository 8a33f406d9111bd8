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
    noise_form,
    noise_variance,
    read_noise,
)

__all__ = [
    "check_dense_size",
    "DenseDistribution",
    "half_width",
    "LARGEST_DENSE_DOMAIN",
    "MarginalMeasurement",
    "MarginalTerm",
    "Measurement",
    "noise_form",
    "noise_variance",
    "NoiseLaw",
    "QueryMeasurement",
    "QueryTerm",
    "read_noise",
    "refit",
    "step",
    "SyntheticDistribution",
    "Term",
]
