"""Numbers of a marginal under fresh noise: of the scale that is charged, each with noise of its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from pmw.loop.measuring import draw_numbers
from pmw.model.strategy import AxisRows, Strategy
from pmw.privacy.budget import NeighboringRelation
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from pmw.privacy.random_bits import BitSource
from pmw.public.charges import marginal_charge
from pmw.public.options import Options
from queries import UNITS
from tests.draws import MOVES, RELATIONS, Tape, charged_scale, read_from_tape, require_scale
from tests.residuals import gaussian, ordered_rows, value_rows

AXES = {
    "values": (value_rows(3), value_rows(3)),
    "ordered": (ordered_rows(5), value_rows(2)),
    "one attribute": (ordered_rows(6),),
    "three attributes": (value_rows(2), value_rows(3), value_rows(2)),
}
GIVEN = gaussian(4.5)


def counted(axes: tuple[AxisRows, ...]) -> NDArray[np.int64]:
    return np.random.default_rng(8).integers(0, 500, [axis.size for axis in axes])


def noises(
    strategy: Strategy | None, counts: NDArray[np.int64], noise: NoiseDistribution
) -> NDArray[np.int64]:
    """Return what is drawn in 60 measurements of a table, beyond what is true: int64, (draws, numbers)."""
    true = counts * UNITS if strategy is None else strategy.applied(counts)
    drawn = [draw_numbers(counts, noise, strategy, BitSource.from_integer(seed)) - true for seed in range(60)]
    return np.array(drawn).reshape(60, -1)


@pytest.mark.statistical
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", AXES)
def test_every_number_of_rows_has_noise_of_its_own_of_the_scale_that_is_charged(
    name: str, relation: NeighboringRelation, require_independent: Callable[[NDArray[np.int64]], None]
) -> None:
    axes, records = AXES[name], 3
    strategy = Strategy(axes, relation is NeighboringRelation.REPLACE_ONE)
    drawn = noises(strategy, counted(axes), GIVEN)
    # A person moves the numbers by K s in L2, and the price is that of noise which is as much wider.
    charge = marginal_charge(GIVEN, Options(neighboring_relation=relation, records_per_person=records))
    scale, distribution = charged_scale(charge, records=records)
    require_scale(drawn / math.sqrt(strategy.squared_sensitivity), scale, distribution)
    require_independent(drawn)


@pytest.mark.statistical
@pytest.mark.parametrize("noise", [GIVEN, DiscreteLaplace(Fraction(4 * UNITS))])
@pytest.mark.parametrize("relation", RELATIONS)
def test_every_cell_has_noise_of_its_own_where_there_are_no_rows(
    relation: NeighboringRelation,
    noise: NoiseDistribution,
    require_independent: Callable[[NDArray[np.int64]], None],
) -> None:
    drawn = noises(None, counted(AXES["values"]), noise)
    charge = marginal_charge(noise, Options(neighboring_relation=relation, records_per_person=2))
    require_scale(drawn / UNITS, *charged_scale(charge, records=2, moves=MOVES[relation]))
    require_independent(drawn)


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("name", AXES)
def test_one_draw_is_taken_for_each_number_from_the_noise_that_is_charged(
    name: str, replaced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy, counts = Strategy(AXES[name], replaced), counted(AXES[name])
    wanted = strategy.noise(GIVEN)
    taped = read_from_tape(monkeypatch, DiscreteGaussian)
    tape = Tape(range(3, 3 + counts.size))
    found = draw_numbers(counts, GIVEN, strategy, tape)
    assert taped == [(wanted, counts.size)]
    assert not tape.left
    own = np.arange(3, 3 + counts.size).reshape(counts.shape) * UNITS
    assert found.tolist() == (strategy.applied(counts) + own).tolist()
    assert found.dtype == np.int64


@pytest.mark.parametrize("name", AXES)
def test_nothing_is_drawn_of_the_number_of_records(name: str) -> None:
    # Records added evenly along an attribute change no number, at the same noise.
    strategy, counts = Strategy(AXES[name], False), counted(AXES[name])
    drawn = draw_numbers(counts, GIVEN, strategy, BitSource.from_integer(3))
    for axis in range(counts.ndim):
        others = np.delete(counts.shape, axis)
        more = counts + 5 * np.expand_dims(1 + np.arange(math.prod(others)).reshape(others), axis)
        again = draw_numbers(more, GIVEN, strategy, BitSource.from_integer(3))
        assert again.tolist() == drawn.tolist()


def test_rows_of_another_relation_have_other_noise() -> None:
    strategy = Strategy(AXES["values"], False)
    added, moved = (float(replace(strategy, replaced=one).noise(GIVEN).sigma) for one in (False, True))
    # The Gram matrix of three values has 6 and -3. Squared, a record moves the numbers by 36 if it is added;
    # where it is replaced by 2 (36 + 18), while it moves cells by 2 in place of 1.
    assert moved / added == pytest.approx(math.sqrt(2 * (36 + 18) / 36 / 2))
