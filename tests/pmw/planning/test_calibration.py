"""Scales of tests: each kind of sparse vector uses up the price that it is given, and no more."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pmw.errors import BudgetError, NoiseError
from pmw.planning.calibration import Statistic, marginal_statistic, query_statistic, scaled_test
from pmw.privacy.budget import Budget, Composition, NeighboringRelation
from pmw.privacy.filter import open_filter
from pmw.public.options import Options, TestKind
from pmw.sparse_vector import Sech2Test, Sides, Sparse, SparseVectorKind
from queries import UNITS

STATISTICS = [
    Statistic(Sides.TWO_THRESHOLDS, UNITS, 1000),
    Statistic(Sides.TWO_SIDED, 3 * UNITS, 10**6),
    Statistic(Sides.ONE_SIDED, 2 * UNITS, 50),
]


@pytest.mark.parametrize("limit", [1, 9, 300])
@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("kind", list(SparseVectorKind))
@pytest.mark.parametrize("composition", list(Composition))
def test_a_whole_run_costs_its_price_and_hardly_less(
    composition: Composition, kind: SparseVectorKind, statistic: Statistic, limit: int
) -> None:
    ledger = open_filter(Budget.of(1, "1e-9"), composition)
    price = ledger.cap / 7
    if kind.is_sech2 and composition is Composition.GDP:
        with pytest.raises(BudgetError, match="expected tests that are proved in GDP"):
            scaled_test(price, limit, statistic, kind, composition)
        return
    test = scaled_test(price, limit, statistic, kind, composition)
    assert (test.sides, test.sensitivity) == (statistic.sides, statistic.sensitivity)
    assert test.monotone == (statistic.sides is Sides.TWO_THRESHOLDS)
    assert isinstance(test, Sech2Test) == kind.is_sech2
    opening, positive = (
        ledger.price(charge) for charge in Sparse(test, limit, kind.redraw).charges(composition)
    )
    spent = (limit if kind.redraw else 1) * opening + limit * positive
    assert Fraction(999, 1000) * price < spent <= price


def test_statistics_move_as_neighbours_say() -> None:
    replace_one = NeighboringRelation.REPLACE_ONE
    signed = query_statistic(Options(test=TestKind.QUERY, expected_queries=77))
    assert (signed.sides, signed.sensitivity, signed.expected) == (Sides.TWO_THRESHOLDS, UNITS, 77)
    assert query_statistic(Options(neighboring_relation=replace_one)).sides is Sides.TWO_SIDED
    distance = marginal_statistic(5, Options(neighboring_relation=replace_one, records_per_person=3))
    assert (distance.sides, distance.sensitivity, distance.monotone) == (Sides.ONE_SIDED, 6 * UNITS, False)


@pytest.mark.parametrize("kind", list(SparseVectorKind))
@pytest.mark.parametrize("composition", list(Composition))
def test_no_price_gives_no_test(composition: Composition, kind: SparseVectorKind) -> None:
    if kind.is_sech2 and composition is Composition.GDP:
        return  # it has none there
    with pytest.raises(NoiseError, match="positive budget for tests"):
        scaled_test(Fraction(0), 3, STATISTICS[0], kind, composition)
