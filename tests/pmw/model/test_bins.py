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
    fewest_bins,
    longest_kept,
)
from pmw.model.dense import DenseDistribution
from pmw.model.distribution import MarginalTerm
from pmw.model.graphical import GraphicalDistribution
from queries.boxes import Boxes
from queries.categories import CategoricalAttribute
from queries.domain import Domain
from queries.errors import ScopeError
from queries.factors import UNITS, Factor
from queries.linear import LinearQuery
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


# --- bounds, means and expansions over bins -----------------------------------------------------------------

FINE = Domain(
    (
        IntegerAttribute("age", 0, 5, missing=True),
        CategoricalAttribute("sex", ("f", "m")),
        CategoricalAttribute("town", ("a", "b", "c", "d")),
    )
)
COARSE = Domain(
    (
        IntegerAttribute("age", 0, 2, missing=True),
        CategoricalAttribute("sex", ("f", "m")),
        CategoricalAttribute("town", (0, 1, 2)),
    )
)
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
    boxes = Boxes.of(FINE, scope, *(np.stack([pair[:, end] for pair in pairs], axis=1) for end in (0, 1)))
    found = COARSENING.box_bounds(boxes)
    assert found is not None
    *bounds, differ = found
    for place in range(len(boxes)):
        both = COARSENING.bounds(boxes.query(place))
        assert differ[place] == (both[0] is not both[1])
        for counted, wanted in zip(bounds, both, strict=True):
            bound = counted.ranges()
            assert bound is not None
            if np.any(bound.first[place] > bound.last[place]):
                assert wanted.constant == 0
            else:
                assert bound.query(place).to_json() == wanted.to_json()
    assert COARSENING.box_bounds(Boxes.of(FINE, ["town"], [0], [1])) is None  # cells of bins that are no runs


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
    assert model.answer(query) == pytest.approx(query.evaluate(model.marginal(query.scope)))
    factors = [(factor.scope, factor.weights / UNITS) for factor in query.factors]
    assert model.expectation(factors) * query.constant / UNITS == pytest.approx(model.answer(query))


def test_a_marginal_sums_to_the_models_over_groups() -> None:
    fine = MODEL.marginal(("age", "town"))
    assert fine.shape == (7, 4)
    assert not fine.flags.writeable
    sums = np.zeros((4, 3))
    np.add.at(sums, (AGE[:, None], TOWN[None, :]), fine)
    np.testing.assert_allclose(sums, MODEL.model.marginal(("age", "town")))
    np.testing.assert_allclose(
        MODEL.marginal(("age",))[:2] / MODEL.marginal(("age",))[:2].sum(), [0.25, 0.75]
    )


def test_a_graphical_model_gives_what_a_dense_one_gives() -> None:
    generator = np.random.default_rng(11)
    scopes = [("age", "sex"), ("sex", "town")]
    terms = [MarginalTerm(scope, generator.normal(size=COARSE.scope_shape(scope))) for scope in scopes]
    dense = CoarsenedDistribution(COARSENING, DenseDistribution.of_terms(COARSE, 500.0, terms))
    graphical = CoarsenedDistribution(COARSENING, GraphicalDistribution.of_terms(COARSE, 500.0, terms))
    for form in ("product", "pair", "dense", "one", "constant"):
        query = queries_of(form, 4)
        assert graphical.answer(query) == pytest.approx(dense.answer(query))
    for one, other in zip(dense.marginals(scopes), graphical.marginals(scopes), strict=True):
        np.testing.assert_allclose(one, other)
        assert not one.flags.writeable
    assert graphical.cells < dense.cells == COARSE.size
    assert (graphical.total, graphical.terms) == (500.0, tuple(terms))


def test_other_factors_keep_the_bins_and_a_share_of_zero_holds_nothing() -> None:
    assert MODEL.with_terms(()).coarsening is MODEL.coarsening
    assert MODEL.marginal(FINE.names)[4].max() == 0.0


def test_everybody_and_nobody_need_no_model() -> None:
    assert MODEL.answer(LinearQuery.everything(FINE)) == 1000.0
    nobody = LinearQuery(FINE, (Factor((), np.array(0)),))
    assert MODEL.answer(nobody) == 0.0
    assert MODEL.coarsening.is_aligned(nobody)
    assert COARSENING.bounds(nobody)[1].constant == 0
    ((scope, weight),) = MODEL.coarsening.weights(nobody)
    assert (scope, float(weight)) == ((), 0.0)


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


def test_the_cells_of_records_are_their_groups_and_the_identity_changes_nothing() -> None:
    columns = (np.array([0, 4, 6], dtype=np.uint8), np.array([0, 1, 0], dtype=np.uint8), np.array([2, 3, 0]))
    ages, sexes, towns = COARSENING.cells_of(columns)
    assert sexes is columns[1]
    assert (ages.tolist(), towns.tolist()) == ([0, 1, 3], [0, 2, 0])
    identity, query = Coarsening.identity(FINE), queries_of("pair", 1)
    assert identity.is_identity
    assert identity.is_aligned(query)
    assert identity.inner(query).key() == identity.bounds(query)[1].key() == query.key()


@pytest.mark.parametrize(
    ("bin_", "share", "message"),
    [
        (AGE[:6], AGE_SHARES, "a bin and a share for each"),
        (np.minimum(AGE, 2), AGE_SHARES, "each with a cell"),
        (AGE, AGE_SHARES * 0.9, "sum to 1"),
        (AGE, np.array([-0.5, 1.5, 1, 0, 0, 1, 1]), "at least 0"),
        (AGE, None, "as it is, or both"),
        (None, None, "as it is, or both"),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    bin_: NDArray[np.int64] | None, share: NDArray[np.float64] | None, message: str
) -> None:
    with pytest.raises(ScopeError, match=message):
        Coarsening(FINE, COARSE, (bin_, None, TOWN), (share, None, TOWN_SHARES))
    with pytest.raises(ScopeError, match="coarse domain"):
        CoarsenedDistribution(COARSENING, DenseDistribution.uniform(FINE, 10.0))
