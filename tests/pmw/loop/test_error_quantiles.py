"""Error quantiles: how far one person moves them, the distribution of what is drawn, and its charge."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

import pmw
from pmw.data import MemorySource
from pmw.loop.untested import FirstAnswer, draw_quantiles, ranked_errors
from pmw.planning.error_quantiles import QuantileRequest
from pmw.privacy.budget import NeighboringRelation
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from pmw.privacy.random_bits import BitSource
from pmw.public.answer import Basis, QuestionKind
from pmw.public.error_quantiles import ErrorQuantile, quantile_margin, rank_of
from pmw.research.audit import renyi_divergence, worst_log_ratio
from queries import UNITS, CategoricalAttribute, Domain, IntegerAttribute, LinearQuery
from queries.factors import Factor
from tests.draws import RELATIONS, coded

KIND = QuestionKind(1, Basis.TESTED)
SMALL = Domain((CategoricalAttribute("a", ("p", "q")), IntegerAttribute("b", 0, 2)))
WEIGHTS = np.array([UNITS // 4, UNITS, UNITS // 2])
# Distinct questions, some with weights between 0 and 1, and the answers that they were given.
ANSWERS = (
    FirstAnswer(LinearQuery.cells(SMALL, {"a": (0, 0)}), 2 * UNITS),
    FirstAnswer(LinearQuery.cells(SMALL, {"a": (1, 1), "b": (1, 2)}), UNITS // 2),
    FirstAnswer(LinearQuery.cells(SMALL, {"b": (0, 1)}), 0),
    FirstAnswer(LinearQuery(SMALL, (Factor(("b",), WEIGHTS),)), 3 * UNITS),
)


class Still(DiscreteLaplace):
    """Noise that is none."""

    def sample(self, bits: BitSource) -> int:
        del bits
        return 0


def source(cells: Sequence[tuple[int, int]]) -> MemorySource:
    return coded(SMALL, cells)


def request(rank: int, noise: NoiseDistribution) -> QuantileRequest:
    return QuantileRequest(KIND, 256, tuple(range(len(ANSWERS))), rank, noise)


def exact(rank: int, cells: Sequence[tuple[int, int]]) -> int:
    """Return the order statistic of the errors, in units: drawn without noise."""
    return drawn([request(rank, Still(Fraction(1)))], cells)[0].units


def drawn(requests: Sequence[QuantileRequest], cells: Sequence[tuple[int, int]]) -> tuple[ErrorQuantile, ...]:
    errors = ranked_errors(requests, ANSWERS.__getitem__, source(cells))
    return draw_quantiles(requests, errors, BitSource(bytes(32)))


def tables(most: int) -> Iterator[tuple[tuple[int, int], ...]]:
    cells = list(itertools.product(range(2), range(3)))
    for size in range(most + 1):
        yield from itertools.combinations_with_replacement(cells, size)


def neighbours(
    table: tuple[tuple[int, int], ...], relation: NeighboringRelation, persons: int
) -> Iterator[tuple[tuple[int, int], ...]]:
    """Yield the tables in which one person has other records, at most so many; or so many more."""
    cells = list(itertools.product(range(2), range(3)))
    for records in range(1, persons + 1):
        for others in itertools.combinations_with_replacement(cells, records):
            if relation is NeighboringRelation.ADD_REMOVE:
                yield (*table, *others)
            elif len(table) >= records:
                yield (*table[records:], *others)


def direct(rank: int, cells: Sequence[tuple[int, int]]) -> int:
    """Return the order statistic from the definition."""
    errors = []
    for query, units in ANSWERS:
        weights = np.broadcast_to(1, ())
        total = 0
        for cell in cells:
            code = tuple(cell[SMALL.names.index(name)] for name in query.scope)
            weights = query.weights()
            total += int(weights[code])
        errors.append(abs(total - units))
    return sorted(errors)[rank - 1]


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("persons", [1, 2])
def test_one_person_moves_each_order_statistic_by_at_most_their_number_of_records(
    persons: int, relation: NeighboringRelation, rank: int
) -> None:
    options = pmw.Options(neighboring_relation=relation, records_per_person=persons)
    most = 0
    known = {table: exact(rank, table) for table in tables(5)}
    for table in tables(3):
        for other in neighbours(table, relation, persons):
            most = max(most, abs(known[table] - known[tuple(sorted(other))]))
    assert most <= persons * UNITS
    assert rank == 1 or most == persons * UNITS  # attained, so that nothing less would do
    entry = request(rank, DiscreteLaplace(Fraction(4 * UNITS))).entry(options)
    assert entry.charge.epsilon == Fraction(persons, 4)
    entry = request(rank, DiscreteGaussian(Fraction(4 * UNITS))).entry(options)
    assert entry.charge.rho == Fraction(persons**2, 32)


@pytest.mark.parametrize("rank", [1, 4])
def test_errors_are_those_of_the_answers_that_were_given(rank: int) -> None:
    for table in tables(3):
        assert exact(rank, table) == direct(rank, table)


@pytest.mark.parametrize("kind", [DiscreteLaplace, DiscreteGaussian])
def test_each_quantile_has_its_own_noise_on_the_exact_one(
    kind: type[DiscreteLaplace] | type[DiscreteGaussian],
) -> None:
    cells, noise = ((0, 1), (1, 2), (1, 2)), kind(Fraction(3 * UNITS))
    bits = BitSource(bytes(32))
    expected = [exact(rank, cells) + noise.sample(bits) for rank in (2, 2, 4)]
    found = drawn([request(rank, noise) for rank in (2, 2, 4)], cells)
    assert [one.units for one in found] == expected
    assert found[0].units != found[1].units
    assert {one.questions for one in found} == {len(ANSWERS)}


def spread(
    noise: DiscreteLaplace | DiscreteGaussian, values: NDArray[np.int64]
) -> dict[tuple[int, ...], float]:
    """Return the distribution of noise on a lattice of whole records."""
    chances = noise.pmf(values)
    return {(place,): float(chance) for place, chance in enumerate(chances / chances.sum())}


@pytest.mark.parametrize("relation", RELATIONS)
def test_what_is_charged_bounds_the_two_distributions_of_every_pair_of_neighbours(
    relation: NeighboringRelation,
) -> None:
    options = pmw.Options(neighboring_relation=relation)
    support = np.arange(-40, 41) * UNITS
    laplace, gaussian = DiscreteLaplace(Fraction(2 * UNITS)), DiscreteGaussian(Fraction(2 * UNITS))
    epsilon = request(3, laplace).entry(options).charge.epsilon
    rho = request(3, gaussian).entry(options).charge.rho
    assert epsilon is not None
    worst = [0.0, 0.0]
    for table in tables(2):
        for other in neighbours(table, relation, 1):
            one, two = exact(3, table), exact(3, other)
            worst[0] = max(worst[0], worst_log_ratio(*(spread(laplace, support - at) for at in (one, two))))
            pair = [spread(gaussian, support - at) for at in (one, two)]
            worst[1] = max(worst[1], renyi_divergence(pair[0], pair[1], 2.0) / 2)
    assert worst[0] == pytest.approx(float(epsilon))
    assert worst[1] == pytest.approx(float(rho), rel=1e-6)


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("kind", [DiscreteLaplace, DiscreteGaussian])
def test_the_margin_is_one_sided(
    kind: type[DiscreteLaplace] | type[DiscreteGaussian], confidence: float
) -> None:
    noise = kind(Fraction(1000))
    margin = quantile_margin(noise, confidence) * UNITS
    support = np.arange(-60_000, 60_001)
    below = float(noise.pmf(support)[support < -margin].sum())  # the released one falls short of the truth
    assert below <= 1 - confidence
    assert below >= 0.7 * (1 - confidence)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99])
def test_the_rank_is_the_smallest_that_a_new_error_does_not_exceed_so_often(confidence: float) -> None:
    for questions in range(1, 300):
        rank = rank_of(questions, confidence)
        # Of n + 1 exchangeable errors the last is in each place alike: at most the rank-th of the others is
        # the chance rank/(n + 1).
        enough = [k for k in range(1, questions + 1) if k >= confidence * (questions + 1) - 1e-9]
        assert rank == (enough[0] if enough else None)
    assert rank_of(40, 0.95) == 39
    assert rank_of(18, 0.95) is None
    assert math.isclose(rank_of(500, 0.95) or 0, 476)
