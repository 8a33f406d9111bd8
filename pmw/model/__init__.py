"""The synthetic distribution, its measurements, and how it is fitted to them."""

from __future__ import annotations

from pmw.model.bins import (
    CoarsenedDistribution,
    Coarsening,
    assumed_domain,
    choose_coarsening,
    coarse_of,
    coarse_target,
    extreme_domains,
    fewest_bins,
    is_long,
    longest_kept,
    told_apart_by,
)
from pmw.model.dense import LARGEST_DENSE_DOMAIN, DenseDistribution, check_dense_size
from pmw.model.distribution import (
    MarginalTerm,
    QueryTerm,
    SyntheticDistribution,
    Term,
    WeightedFactor,
    dual_numbers,
)
from pmw.model.estimate import Block, Covariance, Estimate, OfTree, noise_variance
from pmw.model.fitting import refit, step
from pmw.model.graphical import LARGEST_TREE, GraphicalDistribution
from pmw.model.hierarchical_histogram import (
    HierarchicalHistogram,
    leaf_variances,
    mean_range_variance,
)
from pmw.model.junction_tree import DEFAULT_MAX_CELLS
from pmw.model.measured_sums import SumMeasurement, SummedRows
from pmw.model.measurement import (
    DEFAULT_BINS,
    HierarchicalMeasurement,
    MarginalMeasurement,
    Measurement,
    OneWayMeasurement,
    PersonsMeasurement,
    QueryMeasurement,
    ResidualMeasurement,
    RowsMeasurement,
    SingleMeasurement,
    Target,
    combined,
    half_width,
    measured_as,
    target_of,
)
from pmw.model.mirror_descent import (
    FIRST_STEP_SIZE,
    Aim,
    Descent,
    DescentRule,
    descend,
    free_numbers,
    local_fit,
    with_local_fits,
)
from pmw.model.prices import AxisPrice, SharedPrices, asked_prices, axis_rows, rows_of, shared_prices
from pmw.model.row_fitting import fit_rows, most_squares
from pmw.model.strategy import AxisRows, Strategy, along, widest_of_rows
from pmw.model.value_sums import COUNT_UNITS, Places, SummedValues, opening_sums, sums_of

__all__ = [
    "Aim", "along", "asked_prices", "assumed_domain", "axis_rows", "AxisPrice", "AxisRows", "Block",
    "check_dense_size", "choose_coarsening", "coarse_of", "coarse_target", "CoarsenedDistribution",
    "Coarsening", "combined", "COUNT_UNITS", "Covariance", "DEFAULT_BINS", "DEFAULT_MAX_CELLS",
    "DenseDistribution", "descend", "Descent", "DescentRule", "dual_numbers", "Estimate",
    "extreme_domains", "fewest_bins", "FIRST_STEP_SIZE", "fit_rows", "free_numbers",
    "GraphicalDistribution", "half_width", "HierarchicalHistogram", "HierarchicalMeasurement", "is_long",
    "LARGEST_DENSE_DOMAIN", "LARGEST_TREE", "leaf_variances", "local_fit", "longest_kept",
    "MarginalMeasurement", "MarginalTerm", "mean_range_variance", "measured_as", "Measurement",
    "most_squares", "noise_variance", "OfTree", "OneWayMeasurement", "opening_sums", "PersonsMeasurement",
    "Places", "QueryMeasurement", "QueryTerm", "refit", "ResidualMeasurement", "rows_of",
    "RowsMeasurement", "shared_prices", "SharedPrices", "SingleMeasurement", "step", "Strategy",
    "SumMeasurement", "SummedRows", "SummedValues", "sums_of", "SyntheticDistribution", "Target",
    "target_of", "Term", "told_apart_by", "WeightedFactor", "widest_of_rows", "with_local_fits",
]  # fmt: skip
