"""Bins of long attributes, chosen from released counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pmw.model import (
    Coarsening,
    assumed_domain,
    choose_coarsening,
    extreme_domains,
    fewest_bins,
    longest_kept,
)
from pmw.model.bins import cut_runs
from queries.categories import CategoricalAttribute
from queries.domain import Domain
from queries.numbers import IntegerAttribute, NumericAttribute


def binned(counts: np.ndarray, deviation: float = 1.0, **special: bool) -> Coarsening:
    size = len(counts) - sum(special.values())
    domain = Domain((IntegerAttribute("x", 0, size - 1, **special),))
    return choose_coarsening(domain, {"x": counts.astype(np.float64)}, {"x": deviation})


def bins_of(coarsening: Coarsening) -> np.ndarray:
    bin_ = coarsening.bins[0]
    assert bin_ is not None
    return bin_


def test_even_runs_are_cut_around_heavy_cells_and_noise_makes_none() -> None:
    assert bins_of(binned(np.full(64, 1000))).tolist() == [cell // 4 for cell in range(64)]
    first = bins_of(binned(np.array([90_000] + [100] * 99)))
    assert ((first == 0).sum(), first.max() + 1) == (1, 16)
    assert np.bincount(first)[1:].max() <= 8
    counts = np.full(50, 10.0)
    counts[20] = 10_000
    middle = bins_of(binned(counts))
    assert (middle == middle[20]).sum() == 1
    assert np.all(np.diff(middle) >= 0)
    noisy = np.maximum(np.random.default_rng(2).normal(0, 10, 100), 0)
    assert binned(noisy, deviation=1000.0).coarse.shape == binned(np.zeros(100)).coarse.shape == (1,)


def test_special_cells_stay_alone() -> None:
    coarsening = binned(np.append(np.full(64, 1000), [0, 7]), missing=True, other=True)
    assert bins_of(coarsening)[-2:].tolist() == [16, 17]
    attribute = coarsening.coarse["x"]
    assert (attribute.missing_code, attribute.other_code, attribute.size) == (16, 17, 18)


@pytest.mark.parametrize(
    ("counts", "groups", "shares"),
    [
        (
            [500.0, 6, 400, -3, 300, 2, 200, 100, 50, 40],
            [0, 1, 2, 1, 3, 1, 4, 5, 6, 7],
            {1: 0.75, 3: 0, 5: 0.25},
        ),
        ([100.0] * 9 + [0, -1], [*range(10), 9], {9: 0.5, 10: 0.5}),
        ([500.0, 100, 400, 100, 300, 2, 200, 100, 50, 40], None, {}),  # one rare value is as good alone
    ],
)
def test_rare_values_are_pooled_and_keep_their_shares_or_equal_ones(
    counts: list[float], groups: list[int] | None, shares: dict[int, float]
) -> None:
    domain = Domain((CategoricalAttribute("c", tuple(range(len(counts)))),))
    coarsening = choose_coarsening(domain, {"c": np.array(counts)}, {"c": 5.0})
    assert coarsening.is_identity == (groups is None)
    share = coarsening.shares[0]
    if share is not None:
        assert bins_of(coarsening).tolist() == groups
        assert share[[*shares]].tolist() == [*shares.values()]


def test_short_attributes_and_those_without_counts_are_kept() -> None:
    assert binned(np.full(24, 10.0)).is_identity
    domain = Domain((IntegerAttribute("x", 0, 99), CategoricalAttribute("c", tuple(range(8)))))
    assert choose_coarsening(domain, {}, {}).is_identity
    assert choose_coarsening(domain, {"c": np.zeros(8)}, {"c": 5.0}).is_identity


def test_an_attribute_of_hardly_more_cells_than_bins_is_kept_as_it_is() -> None:
    domain = Domain((IntegerAttribute("x", 0, 59), IntegerAttribute("y", 0, 60)))
    counts = {name: np.full(domain[name].size, 500.0) for name in domain.names}
    noise = {"x": 3.0, "y": 3.0}
    for coarse in (
        choose_coarsening(domain, counts, noise, bins=40).coarse,
        assumed_domain(domain, 30_000, noise, bins=40),
    ):
        assert coarse.shape[0] == 60
        assert 40 <= coarse.shape[1] < 61
    assert [one.shape for one in extreme_domains(domain, noise, bins=40)] == [(60, 1), (60, 61)]
    assert [one.shape for one in extreme_domains(domain, noise, bins=25)] == [(1, 1), (49, 49)]
    assert [fewest_bins(cells) for cells in (24, 25, 90, 91)] == [1, 17, 60, 61]
    assert [longest_kept(bins) for bins in (1, 16, 17, 60, 61)] == [24, 24, 25, 90, 91]


def test_numeric_attributes_are_grouped_like_whole_numbers() -> None:
    edges = tuple(float(edge) for edge in np.geomspace(1, 1e6, 65))
    domain = Domain((NumericAttribute("x", edges), CategoricalAttribute("c", ("a", "b"))))
    coarsening = choose_coarsening(domain, {"x": np.full(64, 500.0)}, {"x": 3.0}, bins=8)
    assert coarsening.coarse.shape == (8, 2)
    assert coarsening.coarse["c"] is domain["c"]


@pytest.mark.parametrize("bins", [4, 16])
def test_no_run_of_several_cells_is_much_heavier_than_its_share(bins: int) -> None:
    counts = np.random.default_rng(8).pareto(1.0, 300) * 100
    bin_ = cut_runs(counts, 0.1, bins)
    sums, cells = np.bincount(bin_, weights=counts), np.bincount(bin_)
    assert sums[cells > 1].max() <= 2.5 * counts.sum() / bins


def test_a_plan_counts_on_groups_of_long_ordered_attributes_alone() -> None:
    domain = Domain(
        (
            IntegerAttribute("age", 0, 99, missing=True),
            IntegerAttribute("school", 1, 16),
            CategoricalAttribute("country", tuple(range(40)), other=True),
        ),
        name="people",
    )
    noise = {"age": 5.0, "school": 5.0, "country": 5.0}
    planned = assumed_domain(domain, 1e6, noise)
    assert planned.shape == (17, 16, 41)
    assert planned.names == domain.names
    assert assumed_domain(domain, 1e6, noise, bins=5).shape == (6, 16, 41)
    assert assumed_domain(domain, 1e6, {}) == domain  # what is not measured is not binned
    # 1,000 records are 66 times what tells a count from noise: 16 bins of four times that, and by Zipf's
    # distribution 66 / (1 + 1/2 + ... + 1/40) = 15 values, one bin for the others, and the special cell.
    assert assumed_domain(domain, 1000, noise).shape == (17, 16, 17)
    assert assumed_domain(domain, 200, noise).shape == (4, 16, 5)
    assert assumed_domain(domain, 1, noise).shape == (3, 16, 3)
    assert [one.shape for one in extreme_domains(domain, noise)] == [(2, 16, 2), (32, 16, 41)]
    assert extreme_domains(domain, {}) == (domain, domain)


@given(
    counts=st.lists(
        st.sampled_from([0.0, 1.0, 5.0, 40.0, 1000.0, 30000.0]) | st.floats(0, 1e6), min_size=1, max_size=200
    ),
    deviation=st.sampled_from([0.0, 0.1, 0.5, 3.0, 100.0]),
    bins=st.integers(1, 30),
)
@example(counts=[0.1, 30000.0] * 15 + [0.1], deviation=0.0, bins=16)
def test_runs_are_consecutive_and_fewer_than_twice_those_wanted(
    counts: list[float], deviation: float, bins: int
) -> None:
    bin_ = cut_runs(np.array(counts), deviation, bins)
    assert bin_[0] == 0
    assert set(np.diff(bin_)) <= {0, 1}
    assert bin_.max() + 1 <= 2 * bins - 1
