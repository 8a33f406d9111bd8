"""The synthetic distribution, its measurements, and how it is fitted to them."""

from __future__ import annotations

from pmw.model.bins import (
    assumed_domain,
    choose_coarsening,
    coarse_of,
    extreme_domains,
    fewest_bins,
    is_long,
    longest_kept,
)
from pmw.model.coarsening import CoarsenedDistribution, Coarsening, coarse_target
from pmw.model.dense import LARGEST_DENSE_DOMAIN, DenseDistribution, check_dense_size
from pmw.model.distribution import (
    MarginalTerm,
    QueryTerm,
    SyntheticDistribution,
    Term,
    WeightedFactor,
    dual_numbers,
)
from pmw.model.fitting import refit, step
from pmw.model.graphical import LARGEST_TREE, GraphicalDistribution
from pmw.model.heads import HeadMeasurement
from pmw.model.hierarchical_histogram import (
    HierarchicalHistogram,
    leaf_variances,
    mean_range_variance,
    query_variance,
    sum_covariance,
)
from pmw.model.junction_tree import DEFAULT_MAX_CELLS
from pmw.model.measurement import (
    DEFAULT_BINS,
    CombinedMarginal,
    Foundation,
    HierarchicalMeasurement,
    MainEffect,
    MarginalMeasurement,
    MarginalValues,
    Measurement,
    OneWayMeasurement,
    QueryMeasurement,
    ResidualCounts,
    ResidualMeasurement,
    Target,
    combined,
    half_width,
    measured_as,
    noise_variance,
    target_of,
)
from pmw.model.mirror_descent import (
    FIRST_STEP_SIZE,
    Aim,
    Descent,
    DescentRule,
    descend,
    free_numbers,
)
from pmw.model.prices import AxisPrice, SharedPrices, axis_rows, rows_of, shared_prices
from pmw.model.row_fitting import fit_rows
from pmw.model.strategy import AxisRows, Strategy, along
from pmw.model.value_sums import Places, SumMeasurement, SummedValues, opening_sums, sums_of

__all__ = [
    "Aim",
    "along",
    "assumed_domain",
    "axis_rows",
    "AxisPrice",
    "AxisRows",
    "check_dense_size",
    "choose_coarsening",
    "coarse_of",
    "coarse_target",
    "CoarsenedDistribution",
    "Coarsening",
    "combined",
    "CombinedMarginal",
    "DEFAULT_BINS",
    "DEFAULT_MAX_CELLS",
    "DenseDistribution",
    "descend",
    "Descent",
    "DescentRule",
    "dual_numbers",
    "extreme_domains",
    "fewest_bins",
    "FIRST_STEP_SIZE",
    "fit_rows",
    "Foundation",
    "free_numbers",
    "GraphicalDistribution",
    "half_width",
    "HeadMeasurement",
    "HierarchicalHistogram",
    "HierarchicalMeasurement",
    "is_long",
    "LARGEST_DENSE_DOMAIN",
    "LARGEST_TREE",
    "leaf_variances",
    "longest_kept",
    "MainEffect",
    "MarginalMeasurement",
    "MarginalTerm",
    "MarginalValues",
    "mean_range_variance",
    "measured_as",
    "Measurement",
    "noise_variance",
    "OneWayMeasurement",
    "opening_sums",
    "Places",
    "query_variance",
    "QueryMeasurement",
    "QueryTerm",
    "refit",
    "ResidualCounts",
    "ResidualMeasurement",
    "rows_of",
    "shared_prices",
    "SharedPrices",
    "step",
    "Strategy",
    "sum_covariance",
    "SumMeasurement",
    "SummedValues",
    "sums_of",
    "SyntheticDistribution",
    "Target",
    "target_of",
    "Term",
    "WeightedFactor",
]
