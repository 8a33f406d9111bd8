"""Strategies: how far a record moves the numbers, what their noise costs, and how good the rows are."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial

import numpy as np
import pytest
from numpy.typing import NDArray

from pmw.errors import NoiseError
from pmw.model.prices import AxisPrice, asked_cells, asked_gram, axis_rows, rows_of, shared_prices
from pmw.model.strategy import (
    MOST_ORDERED,
    MOST_VALUES,
    AxisRows,
    Strategy,
    question_gram,
    range_information,
    widest_of_rows,
)
from pmw.privacy.budget import NeighboringRelation, gaussian_charge
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.public.charges import marginal_charge
from pmw.public.options import Options
from queries import UNITS, CategoricalAttribute, IntegerAttribute, ScopeError
from queries.domain import Attribute
from tests.draws import RELATIONS
from tests.worlds import known

REPLACED = NeighboringRelation.REPLACE_ONE
# A short name of each kind of attribute; its digit is the number of its cells, two of the last are special.
KINDS: dict[str, Attribute] = {
    "values2": CategoricalAttribute("a", ("p", "q")),
    "values3": CategoricalAttribute("a", ("p", "q", "r")),
    "values5": CategoricalAttribute("a", ("p", "q", "r"), missing=True, other=True),
    "ordered2": IntegerAttribute("a", 0, 1),
    "ordered3": IntegerAttribute("a", 0, 2),
    "ordered7": IntegerAttribute("a", 0, 6),
    "special5": IntegerAttribute("a", 0, 2, missing=True, other=True),
}
GRIDS = [
    ("values2",), ("values5",), ("ordered2",), ("ordered7",), ("special5",),
    ("values2", "values2"), ("values3", "ordered3"), ("ordered2", "values3"), ("special5", "ordered2"),
    ("special5", "values3"), ("ordered2", "ordered2"), ("values2", "ordered3"),
    ("values2", "values2", "values2"), ("values3", "values2", "ordered2"),
    ("ordered2", "ordered3", "values2"), ("ordered2", "ordered2", "ordered2"),
]  # fmt: skip


@cache
def axis_of(kind: str) -> AxisRows:
    return known(axis_rows(KINDS[kind]))


@cache
def strategy(kinds: tuple[str, ...], *, replaced: bool = False) -> Strategy:
    return known(rows_of([KINDS[kind] for kind in kinds], replaced=replaced))


def product(axes: tuple[AxisRows, ...]) -> NDArray[np.int64]:
    """Return the rows over the cells of the whole marginal, in order: int64, shape (cells, cells)."""
    found = np.eye(1, dtype=np.int64)
    for axis in axes:
        found = np.kron(found, axis.matrix)
    return found


@cache
def columns(kinds: tuple[str, ...]) -> list[NDArray[np.int64]]:
    """Return what one record in each cell adds to the numbers, by measuring a table that has it alone."""
    chosen = strategy(kinds)
    shape = [axis.size for axis in chosen.axes]
    tables = np.eye(math.prod(shape), dtype=np.int64)
    return [chosen.applied(table.reshape(shape)).ravel() for table in tables]


def largest_move(kinds: tuple[str, ...], relation: NeighboringRelation, records: int) -> int:
    """Return the most that one person's records move the numbers, squared in L2, of all pairs of tables."""
    alone = columns(kinds)
    one, nobody = range(len(alone)), np.zeros_like(alone[0])
    persons = [
        sum((alone[cell] for cell in cells), nobody)
        for cells in itertools.combinations_with_replacement(one, records)
    ]
    if relation is not REPLACED:
        smaller = [nobody, *alone] if records > 1 else [nobody]
        persons, others = [*persons, *smaller], [nobody]
    else:
        others = persons
    found = np.array(persons)
    return max(int(((found - other) ** 2).sum(axis=1).max()) for other in others)


# --- rows --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_rows_sum_to_zero_and_miss_nothing_but_the_number_of_records(kind: str) -> None:
    rows = axis_of(kind)
    size = int(kind[-1])
    assert rows.matrix.shape == (size, size)
    assert rows.matrix.dtype == np.int64
    assert rows.matrix.sum(axis=1).tolist() == [0] * size
    assert np.linalg.matrix_rank(rows.matrix) == size - 1
    assert rows.gram.tolist() == (rows.matrix.T @ rows.matrix).tolist()
    assert rows.norm == max(rows.gram.diagonal())
    assert rows.inverse == pytest.approx(np.linalg.pinv(rows.matrix.astype(float)), abs=1e-12)
    assert rows.covariance == pytest.approx(np.linalg.pinv(rows.gram.astype(float)), abs=1e-12)


def test_rows_that_are_none_are_refused() -> None:
    with pytest.raises(ScopeError, match="rows that sum to zero"):
        AxisRows(2, (1, -1, -1, 2))
    with pytest.raises(ScopeError, match="expected 2 rows of as many numbers"):
        AxisRows(2, (1, -1, 0))
    with pytest.raises(ScopeError, match="of at most 1048576"):
        AxisRows(2, (2**20 + 1, -(2**20) - 1, 0, 0))
    for size in (1, MOST_VALUES + 1):
        with pytest.raises(ScopeError, match="2 to 512 cells"):
            AxisRows(size)
    for rows in ((0,) * 9, (1, -1, 0, -1, 1, 0, 2, -2, 0)):  # that miss a contrast
        with pytest.raises(ScopeError, match="rank 2"):
            AxisRows(3, rows)


def test_attributes_of_one_cell_or_of_too_many_have_no_rows() -> None:
    for few in (CategoricalAttribute("a", ("p",)), IntegerAttribute("a", 0, 0)):
        assert axis_rows(few) is None
    assert axis_rows(IntegerAttribute("a", 0, MOST_ORDERED)) is None
    assert axis_rows(IntegerAttribute("a", 1, MOST_ORDERED, missing=True)) is None
    assert axis_rows(CategoricalAttribute("a", tuple(range(MOST_VALUES + 1)))) is None
    assert axis_rows(CategoricalAttribute("a", tuple(range(MOST_VALUES)))) == AxisRows(MOST_VALUES)


# --- sensitivity, by enumeration ---------------------------------------------------------------------------


@pytest.mark.parametrize("records", [1, 2])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kinds", GRIDS)
def test_no_person_moves_the_numbers_by_more_than_the_sensitivity(
    kinds: tuple[str, ...], relation: NeighboringRelation, records: int
) -> None:
    chosen = strategy(kinds, replaced=relation is REPLACED)
    largest = largest_move(kinds, relation, records)
    assert largest <= records**2 * chosen.squared_sensitivity
    if relation is not REPLACED:
        assert largest == records**2 * chosen.squared_sensitivity  # all of a person's records in one cell
        return
    assert chosen.squared_sensitivity <= 4 * strategy(kinds).squared_sensitivity
    assert largest > 0.9 * records**2 * chosen.squared_sensitivity
    if kinds in (("values5",), ("values2", "values2")):  # what cells differ in along both is no product
        assert largest == records**2 * chosen.squared_sensitivity


# --- the price of their noise ------------------------------------------------------------------------------


@pytest.mark.parametrize("records", [1, 3])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kinds", GRIDS)
def test_the_noise_of_rows_costs_what_is_charged_for_cells_and_hardly_less(
    kinds: tuple[str, ...], relation: NeighboringRelation, records: int
) -> None:
    options = Options(neighboring_relation=relation, records_per_person=records)
    chosen = strategy(kinds, replaced=relation is REPLACED)
    moved = records**2 * largest_move(kinds, relation, 1)
    for sigma in (Fraction(6701), Fraction(10**9 + 1, 9), 30 * Fraction(UNITS), Fraction(10**12)):
        drawn = chosen.noise(DiscreteGaussian(sigma))
        charge = marginal_charge(DiscreteGaussian(sigma), options)
        cost = gaussian_charge(Fraction(moved), drawn.sigma)
        stated = gaussian_charge(Fraction(records**2 * chosen.squared_sensitivity), drawn.sigma)
        assert sigma <= drawn.sigma <= widest_of_rows(DiscreteGaussian(sigma)).sigma <= 3 * sigma
        assert cost.rho <= stated.rho <= charge.rho
        assert cost.mu_squared is not None
        assert stated.mu_squared is not None
        assert charge.mu_squared is not None
        assert cost.mu_squared <= stated.mu_squared <= charge.mu_squared
        # Sigma is rounded up by less than a unit, and the surcharge of the grid is below one part in sigma.
        assert float(stated.rho) >= float(charge.rho) * (1 - 3 / float(sigma))
        assert float(stated.mu_squared) >= float(charge.mu_squared) * (1 - 6 / float(sigma))


def test_rows_have_gaussian_noise_alone_and_none_beyond_its_range() -> None:
    for noise in (strategy(("values2",)).noise, widest_of_rows):
        with pytest.raises(NoiseError, match="expected Gaussian noise"):
            noise(DiscreteLaplace(Fraction(5 * UNITS)))
    with pytest.raises(NoiseError, match=r"up to 2\^50"):
        widest_of_rows(DiscreteGaussian(Fraction(2**50)))


# --- exact numbers -----------------------------------------------------------------------------------------


MOST = AxisRows(2, (2**20, -(2**20), -(2**20), 2**20)), AxisRows(2, (1, -1, -1, 1))
EVEN = AxisRows(2, (2**10, -(2**10), -(2**10), 2**10))
LARGEST = [
    partial(Strategy, axes, False) for axes in (MOST, MOST[::-1], (EVEN, EVEN), (MOST[1], EVEN, MOST[1]))
]


@pytest.mark.parametrize("made", [*LARGEST, *(partial(strategy, kinds) for kinds in GRIDS)])
def test_numbers_of_2_to_the_40_records_are_exact(made: Callable[[], Strategy]) -> None:
    chosen = made()
    shape = [axis.size for axis in chosen.axes]
    cells, everybody = math.prod(shape), 2**40 - 1
    tables = [everybody * np.eye(cells, dtype=np.int64)[place] for place in range(cells)]
    tables.append(np.full(cells, everybody // cells))
    tables.append(np.arange(cells) % 2 * (everybody // max(1, cells // 2)))
    rows = product(chosen.axes).astype(object)  # Python integers: they do not overflow
    for table in tables:
        wanted = [chosen.factor * int(number) for number in rows @ table.astype(object)]
        assert chosen.applied(table.reshape(shape)).ravel().tolist() == wanted
        assert max(map(abs, wanted)) < 2**62


def test_rows_whose_sums_could_be_too_large_are_refused() -> None:
    assert Strategy((EVEN, EVEN), True).factor == 1
    wider = AxisRows(2, (2**10 + 1, -(2**10) - 1, -(2**10) - 1, 2**10 + 1))
    for axes in ((EVEN, wider), (wider, EVEN), (MOST[0], EVEN), (EVEN, EVEN, MOST[1])):
        with pytest.raises(NoiseError, match="expected rows of at most 2097152 in all"):
            Strategy(axes, False)


# --- the best rows for ranges ------------------------------------------------------------------------------


SHAPES = [(2, 0), (3, 0), (17, 0), (40, 0), (1, 2), (16, 1)]


def centred_gram(cells: int, special: int) -> NDArray[np.float64]:
    """Return the mean of w w' over all ranges and all special cells, w centred, by listing them."""
    weights = [np.arange(cells + special) == place for place in range(cells, cells + special)]
    for first in range(cells):
        for last in range(first, cells):
            place = np.arange(cells + special)
            weights.append((first <= place) & (place <= last))
    rows = np.array(weights, dtype=np.float64)
    rows -= rows.mean(axis=1, keepdims=True)
    return np.asarray(rows.T @ rows / len(rows))


def mean_variance(gram: NDArray[np.float64], information: NDArray[np.float64]) -> float:
    """Return that of questions at unit noise, under rows whose largest column is scaled to one."""
    inverse = np.linalg.pinv(information, rcond=1e-9, hermitian=True)
    return float(np.sum(gram * inverse) * information.diagonal().max())


def least_variance(gram: NDArray[np.float64], information: NDArray[np.float64]) -> float:
    """Return a mean variance that no rows go below, whatever they are.

    For any weights w with the sum 1, rows with columns of at most 1 have sum w_j X_jj <= 1, and so
    tr(V X+) >= (tr (W^1/2 V W^1/2)^1/2)^2, the least under that alone. At the optimum W is X+ V X+ but for
    constants: they are read off its diagonal.
    """
    size = len(gram)
    inverse = np.linalg.pinv(information, rcond=1e-9, hermitian=True)
    diagonal = (inverse @ gram @ inverse).diagonal()
    if size == 2:
        weights = np.array([0.5, 0.5])
    else:
        scaled = diagonal / diagonal.sum() * (1 - 1 / size)
        weights = np.maximum((scaled - 1 / size**2) / (1 - 2 / size), 0)
    root = np.sqrt(weights / weights.sum())
    values = np.linalg.eigvalsh(root[:, None] * gram * root)
    return float(np.sqrt(np.maximum(values, 0)).sum() ** 2)


@pytest.mark.parametrize(("cells", "special"), SHAPES)
def test_no_rows_of_the_same_price_are_better_for_ranges(cells: int, special: int) -> None:
    gram, found = centred_gram(cells, special), range_information(cells, special)
    size = cells + special
    centre = np.eye(size) - 1 / size
    assert found.diagonal().max() == pytest.approx(1, abs=1e-12)
    assert found.sum(axis=1) == pytest.approx(np.zeros(size), abs=1e-12)
    assert centre @ question_gram(cells, special) @ centre == pytest.approx(gram, abs=1e-12)
    best, least = mean_variance(gram, found), least_variance(gram, found)
    assert least * (1 - 1e-9) <= best <= least * (1 + 1e-4)
    rows = known(axis_rows(IntegerAttribute("a", 0, cells - 1, missing=special > 0, other=special > 1)))
    assert mean_variance(gram, rows.gram.astype(np.float64)) <= 1.013 * best  # rounded to integers
    if size > 3:  # of three cells nothing is better than to treat them alike
        assert mean_variance(gram, centre) > best * 1.01


def test_rows_of_values_treat_them_alike() -> None:
    assert axis_of("values3").matrix.tolist() == [[2, -1, -1], [-1, 2, -1], [-1, -1, 2]]


@pytest.mark.parametrize("kinds", GRIDS)
def test_the_estimate_of_exact_numbers_is_the_counts_centred_along_each_attribute_on_a_fine_grid(
    kinds: tuple[str, ...],
) -> None:
    chosen = strategy(kinds)
    assert chosen.squared_sensitivity >= UNITS**2  # a grid as fine as that of counts
    assert chosen.factor == 1 or chosen.squared_sensitivity < 4 * UNITS**2
    assert chosen.factor & (chosen.factor - 1) == 0
    counts = np.random.default_rng(4).integers(0, 900, [axis.size for axis in chosen.axes])
    centred = counts.astype(float)
    for axis in range(counts.ndim):
        centred = centred - centred.mean(axis=axis, keepdims=True)
    found = chosen.estimate(chosen.applied(counts))
    assert found.shape == counts.shape
    assert found == pytest.approx(centred, abs=1e-8)
    for axis in range(counts.ndim):
        assert np.abs(found.sum(axis=axis)).max() < 1e-8


def test_products_of_the_longest_and_largest_rows_are_exact() -> None:
    matrix = np.tile([2**20 - 1, 1 - 2**20], (MOST_VALUES, MOST_VALUES // 2))
    for row in range(MOST_VALUES):
        matrix[row, row] += 1
        matrix[row, row - 1] -= 1
    found = AxisRows(MOST_VALUES, tuple(np.clip(matrix, -(2**20), 2**20).ravel().tolist()))
    assert found.gram.max() > 2**48
    assert np.array_equal(found.gram[:16], found.matrix.T[:16] @ found.matrix)


LONG = IntegerAttribute("a", 0, MOST_ORDERED - 1)


def test_ordered_rows_are_coarser_where_sums_of_more_attributes_would_be_too_large() -> None:
    for pair in ([LONG, LONG], [KINDS["ordered7"], KINDS["values5"]]):
        assert known(rows_of(pair, replaced=False)).axes == tuple(map(axis_rows, pair))
    three = known(rows_of([LONG, KINDS["ordered7"], KINDS["ordered3"]], replaced=False))
    for axis, attribute in zip(three.axes, (LONG, KINDS["ordered7"], KINDS["ordered3"]), strict=True):
        finest = known(axis_rows(attribute))
        assert axis.norm < finest.norm / 50  # at an eighth of the scale, or less
        cells = attribute.size
        wanted, best = (
            mean_variance(centred_gram(cells, 0), one.gram.astype(float)) for one in (axis, finest)
        )
        assert wanted < 1.06 * best
    values = known(rows_of([CategoricalAttribute("a", tuple(range(40)))] * 3, replaced=False))
    assert [axis.rows for axis in values.axes] == [()] * 3
    many = CategoricalAttribute("a", tuple(range(MOST_VALUES)))
    assert rows_of([many] * 3, replaced=False) is None
    assert rows_of([KINDS["values2"], IntegerAttribute("a", 0, MOST_ORDERED)], replaced=False) is None


def test_questions_about_single_cells_have_the_part_that_is_asked_for() -> None:
    gram = question_gram(3, 1, 0.25)
    ranges = question_gram(3, 1)
    assert ranges.sum() == pytest.approx((3 * 1 + 2 * 4 + 1 * 9 + 1) / 7)
    assert gram == pytest.approx(0.75 * ranges + 0.25 * np.eye(4) / 4)


# --- prices ---------------------------------------------------------------------------------------------


PRICED: list[Attribute] = [
    IntegerAttribute("one", 0, 0),
    IntegerAttribute("two", 0, 1),
    IntegerAttribute("some", 0, 15),
    IntegerAttribute("beside", 0, 200, missing=True, other=True),
    CategoricalAttribute("values", tuple(range(9)), missing=True),
]
LONG_ONES = (IntegerAttribute("long", 1, 10**6), CategoricalAttribute("list", tuple(range(50_000))))


@pytest.mark.parametrize("attribute", PRICED, ids=lambda one: one.name)
def test_cells_of_questions_are_those_of_their_gram_matrix(attribute: Attribute) -> None:
    gram, (mean, square) = asked_gram(attribute), asked_cells(attribute)
    assert mean == pytest.approx(np.trace(gram))  # weights are 0 or 1
    assert square == pytest.approx(gram.sum())


def test_long_attributes_have_a_price_without_matrices() -> None:
    for attribute in LONG_ONES:
        assert axis_rows(attribute) is None
        price, (mean, square) = AxisPrice.of(attribute), asked_cells(attribute)
        assert price.spread == pytest.approx(mean - square / attribute.size)
        assert 0 < price.mean < 1


def test_prices_are_those_of_the_least_mean_variance() -> None:
    axes = tuple(AxisPrice.of(attribute) for attribute in PRICED[1:4])
    prices = shared_prices(axes, axes, 3)
    everybody, single, (pair, triple) = prices.everybody, prices.single, prices.wider
    assert shared_prices(axes, axes, 2) == replace(prices, wider=(pair,))
    # By hand: questions about 1, 2 and 3 attributes are alike, and of each number all sets are.
    means, spread = [one.mean for one in axes], axes[0].spread
    others = means[1] + means[2], means[1] * means[2]
    assert single[0] ** 2 == pytest.approx(spread * (1 / 3 + others[0] / 3 + others[1]) / 3)
    products = means[0] * means[1] + means[0] * means[2] + means[1] * means[2]
    assert everybody**2 == pytest.approx((sum(means) / 3 + products / 3 + np.prod(means)) / 3)
    three = [
        one.spread * two.spread * (1 / 3 + other.mean) / 3
        for one, two, other in (axes, (axes[0], axes[2], axes[1]), (axes[1], axes[2], axes[0]))
    ]
    assert pair == pytest.approx(np.mean(np.sqrt(three)))
    assert triple**2 == pytest.approx(math.prod(one.spread for one in axes) / 3)
    assert AxisPrice.of(PRICED[0]).spread == 0
