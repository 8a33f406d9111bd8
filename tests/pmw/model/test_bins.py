"""Bins of long attributes, chosen from released counts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.model.bins import (
    CoarsenedDistribution,
    Coarsening,
    assumed_domain,
    choose_coarsening,
    cut_runs,
    extreme_domains,
)
from pmw.model.dense import DenseDistribution
from pmw.model.distribution import MarginalTerm
from queries.categories import CategoricalAttribute
from queries.domain import Domain
from queries.factors import UNITS, Factor
from queries.linear import LinearQuery
from queries.numbers import IntegerAttribute
from queries.questions import Products


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


# --- bounds, means and expansions over bins -----------------------------------------------------------------

SEX = CategoricalAttribute("sex", ("f", "m"))
FINE = Domain((IntegerAttribute("age", 0, 5, missing=True), SEX, CategoricalAttribute("town", tuple("abcd"))))
COARSE = Domain((IntegerAttribute("age", 0, 2, missing=True), SEX, CategoricalAttribute("town", (0, 1, 2))))
AGE = np.array([0, 0, 1, 1, 1, 2, 3])
TOWN = np.array([0, 1, 0, 2])  # not consecutive
AGE_SHARES = np.array([0.25, 0.75, 0.5, 0.5, 0.0, 1.0, 1.0])
TOWN_SHARES = np.array([0.9, 1.0, 0.1, 1.0])


COARSENING = Coarsening(FINE, COARSE, (AGE, None, TOWN), (AGE_SHARES, None, TOWN_SHARES))


def random_model(seed: int) -> CoarsenedDistribution:
    duals = np.random.default_rng(seed).normal(size=COARSE.shape)
    return CoarsenedDistribution(
        COARSENING, DenseDistribution.of_terms(COARSE, 1000.0, [MarginalTerm(COARSE.names, duals)])
    )


MODEL = random_model(3)


@given(st.integers(0, 2**31))
def test_bounds_of_boxes_are_those_of_their_queries(seed: int) -> None:
    """The inner and the outer query of a box, whichever bins it cuts."""
    generator = np.random.default_rng(seed)
    scope = [name for name in FINE.names if generator.random() < 0.7] or ["town"]
    pairs = [np.sort(generator.integers(0, FINE[name].size, (8, 2)), axis=1) for name in scope]
    if "town" in scope:  # whose bins are no runs of cells
        pairs[-1][:, 1] = pairs[-1][:, 0]
    boxes = Products.of_ranges(
        FINE, scope, *(np.stack([pair[:, end] for pair in pairs], axis=1) for end in (0, 1))
    )
    *bounds, differ = COARSENING.product_bounds(boxes)
    for place in range(len(boxes)):
        both = COARSENING.bounds(boxes.query(place))
        assert differ[place] == (both[0] is not both[1])
        for bound, wanted in zip(bounds, both, strict=True):
            if bound.are_empty()[place]:
                assert wanted.constant == 0
            else:
                assert bound.query(place).to_json() == wanted.to_json()
    assert COARSENING.has_bounds(boxes)
    assert not COARSENING.has_bounds(Products.of_ranges(FINE, ["town"], [0], [1]))  # whose bins are no runs


def queries_of(form: str, seed: int) -> LinearQuery:
    generator = np.random.default_rng(seed)

    def indicator(*scope: str) -> Factor:
        return Factor(scope, generator.integers(0, 2, FINE.scope_shape(scope)) * UNITS)

    def fractions(*scope: str) -> Factor:
        return Factor(scope, generator.integers(0, UNITS + 1, FINE.scope_shape(scope)))

    factors = {
        "product": (indicator("age"), fractions("sex"), indicator("town")),
        "pair": (indicator("age", "town"), fractions("sex")),
        "dense": (fractions("age", "sex", "town"),),
        "one": (fractions("town"), indicator("sex")),
        "constant": (indicator("age"), Factor((), np.array(UNITS // 3))),
    }[form]
    return LinearQuery(FINE, factors)


FORMS = st.sampled_from(["product", "pair", "dense", "one", "constant"])


def full_weights(query: LinearQuery) -> NDArray[np.int64]:
    shape = [query.domain[name].size if name in query.scope else 1 for name in query.domain.names]
    return np.broadcast_to(query.weights().reshape(shape), query.domain.shape)


def groups_of_cells() -> NDArray[np.int64]:
    """The coarse cell of each fine one: shape (*FINE.shape, 3)."""
    cells = np.empty((*FINE.shape, 3), dtype=np.int64)
    for cell in itertools.product(*map(range, FINE.shape)):
        cells[cell] = AGE[cell[0]], cell[1], TOWN[cell[2]]
    return cells


@given(form=FORMS, seed=st.integers(0, 10**6))
def test_inner_and_outer_are_the_least_and_greatest_weights_of_each_group(form: str, seed: int) -> None:
    query = queries_of(form, seed)
    fine, bin_ = full_weights(query), groups_of_cells()
    inner, outer = full_weights(COARSENING.inner(query)), full_weights(COARSENING.bounds(query)[1])
    aligned = True
    for cell in itertools.product(*map(range, COARSE.shape)):
        inside = fine[np.all(bin_ == cell, axis=-1)]
        assert inner[cell] == inside.min()
        assert outer[cell] == inside.max()
        aligned &= bool(inside.min() == inside.max())
    assert COARSENING.is_aligned(query) == aligned
    both = COARSENING.bounds(query)
    assert [one.key() for one in both] == [COARSENING.inner(query).key(), COARSENING.bounds(query)[1].key()]
    assert (both[0] is both[1]) == aligned


@given(form=FORMS, seed=st.integers(0, 10**6))
def test_answers_are_those_of_the_expanded_table(form: str, seed: int) -> None:
    model, query = random_model(seed), queries_of(form, seed)
    sums, fine = np.zeros(COARSE.shape), model.marginal(FINE.names)
    np.add.at(sums, tuple(np.moveaxis(groups_of_cells(), -1, 0)), fine)
    np.testing.assert_allclose(sums, model.model.marginal(COARSE.names))
    assert not fine.flags.writeable
    assert model.answer(query) == pytest.approx(query.evaluate(model.marginal(query.scope)))
    factors = [(factor.scope, factor.weights / UNITS) for factor in query.factors]
    assert model.expectation(factors) * query.constant / UNITS == pytest.approx(model.answer(query))


@pytest.mark.parametrize("independent", [False, True])
def test_rows_keep_the_one_way_shape_inside_groups(independent: bool) -> None:
    records = MODEL.sample(10_000, np.random.default_rng(5), independent=independent)
    assert records.domain == FINE
    assert len(records) == 10_000
    counts = np.bincount(records.columns[0], minlength=7)
    assert counts[4] == 0  # a share of zero
    for bin_ in range(4):
        inside = counts[bin_ == AGE]
        expected = inside.sum() * AGE_SHARES[bin_ == AGE]
        assert np.abs(inside - expected).max() <= (5 * np.sqrt(2500) if independent else 1)
    assert MODEL.sample(0, np.random.default_rng(5), independent=independent).columns[0].size == 0
