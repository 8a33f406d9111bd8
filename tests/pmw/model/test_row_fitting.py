"""Row fitting: rows come nearer to what was measured, and stay where they are near enough."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.model.measurement import Target
from pmw.model.row_fitting import ENOUGH, fit_rows, most_squares
from queries import CategoricalAttribute, CodedRecords, Domain, IntegerAttribute
from tests.residuals import ordered_rows, value_rows

DOMAIN = Domain(
    (
        IntegerAttribute("a", 0, 3),
        CategoricalAttribute("b", ("x", "y", "z")),
        IntegerAttribute("c", 0, 1),
        CategoricalAttribute("d", ("one",)),
    )
)
GRAMS = {"a": ordered_rows(4).gram / 1e6, "b": value_rows(3).gram / 1.0, "c": ordered_rows(2).gram / 1e6}


def rows(count: int, seed: int = 0) -> CodedRecords:
    """Return rows whose attributes are independent of each other."""
    generator = np.random.default_rng(seed)
    columns = tuple(generator.integers(0, size, count).astype(np.uint8) for size in DOMAIN.shape)
    return CodedRecords(DOMAIN, columns)


def counts(records: CodedRecords, scope: tuple[str, ...], total: float) -> NDArray[np.float64]:
    """Return the records that rows stand for, counted one by one."""
    found = np.zeros(records.domain.scope_shape(scope))
    for row in zip(*records.columns, strict=True):
        found[tuple(row[records.domain.index(name)] for name in scope)] += total / len(records)
    return found


def distance(records: CodedRecords, targets: list[Target], total: float) -> float:
    """Return how far rows are from targets: the definition, number by number."""
    found = 0.0
    for target in targets:
        error = (counts(records, target.scope, total) - target.values).reshape(-1)
        weight: NDArray[np.float64] = np.eye(error.size)
        if target.information is not None:
            weight = np.ones((1, 1))
            for axis in target.information:
                weight = np.asarray(np.kron(weight, axis), dtype=np.float64)
        found += float(error @ weight @ error) / float(target.variance.flat[0])
    return found


def diagonal(total: float, deviation: float, *, is_residual: bool) -> list[Target]:
    """Return a pair of strong dependence, and everything else as rows have it."""
    pair = np.zeros((4, 3))
    pair[[0, 1, 2, 3], [0, 1, 2, 0]] = total / 4
    grams = (GRAMS["a"], GRAMS["b"]) if is_residual else None
    alone = Target(("c",), np.full(2, total / 2), np.full(2, deviation**2))
    return [Target(("a", "b"), pair, np.full(pair.shape, deviation**2), grams), alone]


@pytest.mark.parametrize("is_residual", [False, True])
@pytest.mark.parametrize(("count", "total"), [(2000, 2000.0), (400, 9000.0), (3000, 700.0)])
def test_rows_take_on_what_was_measured(count: int, total: float, is_residual: bool) -> None:
    drawn, targets = rows(count), diagonal(total, total / 100, is_residual=is_residual)
    before = distance(drawn, targets, total)
    fitted = fit_rows(drawn, targets, total, np.random.default_rng(5))
    assert len(fitted) == count
    assert distance(fitted, targets, total) < before / 20
    assert np.abs(counts(fitted, ("c",), total) / total - 0.5).max() < 0.05


def test_rows_take_on_weighted_sums_by_groups() -> None:
    """A mean of 0.5 where b is x and of 2.5 elsewhere; what is not seen stays about even."""
    weights, wanted = np.arange(4.0), np.array([0.5, 2.5, 2.5]) * 400
    target = Target.of_sums(("a", "b"), 0, weights, wanted, 9.0)
    assert target.free_numbers == 3
    assert np.tensordot(weights, target.values, axes=(0, 0)) == pytest.approx(wanted)
    drawn, counted = rows(1200), Target(("b",), np.full(3, 400.0), np.full(3, 9.0))
    fitted = fit_rows(drawn, [target, counted], 1200.0, np.random.default_rng(6))
    assert distance(fitted, [target], 1200.0) <= 3 * ENOUGH * 4
    found = counts(fitted, ("a", "b"), 1200.0)
    assert np.tensordot(weights, found, axes=(0, 0)) == pytest.approx(wanted, abs=20)
    error = np.random.default_rng(1).normal(size=(4, 3))
    by_hand = np.outer(weights, weights @ error).reshape(4, 3) / 9
    assert target.pull(error) == pytest.approx(by_hand)


def test_many_measurements_with_long_and_short_attributes_are_fitted_together() -> None:
    """Of 24,000 rows a part is long enough for tables of several measurements; one attribute fills a byte."""
    sizes = (256, 2, 3, 2, 5)
    domain = Domain(tuple(IntegerAttribute(f"x{place}", 0, size - 1) for place, size in enumerate(sizes)))
    generator, places = np.random.default_rng(8), np.arange(24_000)
    drawn = CodedRecords(
        domain, tuple(generator.integers(0, size, 24_000).astype(np.uint8) for size in sizes)
    )
    wanted = [places * size // 24_000 for size in sizes]  # each follows from the first
    targets = []
    for order in (1, 2):
        for scope in itertools.combinations(domain.names, order):
            values = np.zeros(domain.scope_shape(scope))
            np.add.at(values, tuple(wanted[domain.index(name)] for name in scope), 1.0)
            targets.append(Target(scope, values, np.full(values.shape, 100.0)))
    before = distance(drawn, targets, 24_000.0)
    fitted = fit_rows(drawn, targets, 24_000.0, np.random.default_rng(9))
    assert distance(fitted, targets, 24_000.0) < before / 50


def test_three_attributes_are_fitted_together() -> None:
    """Parity: every pair is as in independent rows."""
    values = np.zeros((4, 3, 2))
    for a, b in itertools.product(range(4), range(3)):
        values[a, b, (a + b) % 2] = 100.0
    targets = [Target(("a", "b", "c"), values, np.full(values.shape, 25.0))]
    fitted = fit_rows(rows(1200), targets, 1200.0, np.random.default_rng(1))
    assert distance(fitted, targets, 1200.0) < distance(rows(1200), targets, 1200.0) / 10
    assert distance(fitted, targets, 1200.0) < 4 * values.size


@given(st.integers(1, 60), st.integers(0, 2**16), st.floats(0.5, 1e4), st.floats(1e-2, 1e3), st.booleans())
@settings(deadline=None, max_examples=40)
def test_the_distance_never_rises_and_rows_stay_in_declared_cells(
    count: int, seed: int, total: float, deviation: float, is_residual: bool
) -> None:
    drawn, targets = rows(count, seed), diagonal(total, deviation, is_residual=is_residual)
    fitted = fit_rows(drawn, targets, total, np.random.default_rng(seed))
    before = distance(drawn, targets, total)
    assert distance(fitted, targets, total) <= before * (1 + 1e-9)
    for column, other, size in zip(fitted.columns, drawn.columns, DOMAIN.shape, strict=True):
        assert column.dtype == other.dtype
        assert column.max() < size


def test_rows_within_noise_stay_as_they_were_drawn() -> None:
    """The rule is the distance per number: on one side of it nothing moves, on the other something does."""
    drawn, total = rows(500), 500.0
    for factor, moves in ((0.9, False), (1.2, True)):
        values = counts(drawn, ("a", "b"), total)
        error = np.where(np.indices(values.shape).sum(axis=0) % 2, 8.0, -8.0)
        variance = 64.0 / (ENOUGH * factor)
        targets = [Target(("a", "b"), values + error, np.full(values.shape, variance))]
        fitted = fit_rows(drawn, targets, total, np.random.default_rng(2))
        same = all(np.array_equal(*pair) for pair in zip(fitted.columns, drawn.columns, strict=True))
        assert same is not moves


def test_one_measurement_beyond_its_noise_is_fitted_though_all_together_are_near() -> None:
    """Four standard deviations in one number of two hundred: the sum of squares does not show them."""
    values = CategoricalAttribute("a", tuple(map(str, range(200))))
    domain = Domain((values, CategoricalAttribute("b", ("u", "v"))))
    columns = np.arange(4000) % 200, np.arange(4000) // 200 % 2
    drawn = CodedRecords(domain, tuple(column.astype(np.uint8) for column in columns))
    near = Target(("a",), np.full(200, 20.0), np.full(200, 4.0))
    for error, moves in ((2.0, False), (4.0, True)):
        off = Target(("b",), np.array([2000.0 + 10 * error, 2000.0 - 10 * error]), np.full(2, 200.0))
        fitted = fit_rows(drawn, [near, off], 4000.0, np.random.default_rng(3))
        found = counts(fitted, ("b",), 4000.0)
        assert bool(found[0] > 2000) is moves
        assert distance(fitted, [off], 4000.0) <= most_squares(2)


def test_a_seed_repeats_a_fit_and_the_given_rows_are_left_alone() -> None:
    drawn, targets = rows(700), diagonal(700.0, 5.0, is_residual=True)
    kept = [column.copy() for column in drawn.columns]
    one, two = (fit_rows(drawn, targets, 700.0, np.random.default_rng(4)) for _ in range(2))
    assert all(np.array_equal(*pair) for pair in zip(one.columns, two.columns, strict=True))
    assert all(np.array_equal(*pair) for pair in zip(drawn.columns, kept, strict=True))
    assert not all(np.array_equal(*pair) for pair in zip(one.columns, kept, strict=True))


def test_nothing_is_fitted_where_there_is_nothing_to_fit_or_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = rows(50)
    assert fit_rows(drawn, [], 50.0, np.random.default_rng(0)) is drawn
    assert not len(fit_rows(rows(0), diagonal(9.0, 1.0, is_residual=False), 9.0, np.random.default_rng(0)))
    monkeypatch.setattr("pmw.model.row_fitting._MOST_WORK", 5)
    fitted = fit_rows(drawn, diagonal(50.0, 1.0, is_residual=False), 50.0, np.random.default_rng(0))
    assert all(np.array_equal(*pair) for pair in zip(fitted.columns, drawn.columns, strict=True))
