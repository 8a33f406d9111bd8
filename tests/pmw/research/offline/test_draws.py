"""The private side of a round: how far a person moves it, and what noise it draws."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy import stats

from pmw.data import MemorySource
from pmw.errors import DataError
from pmw.model import DenseDistribution
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from pmw.privacy.random_bits import BitSource
from pmw.privacy.selection import ExponentialMechanism
from pmw.research.offline.draws import TrueAnswers, draw_marginal, draw_query
from pmw.research.offline.rounds import MarginalRound, QueryRound, expected_noise
from queries import UNITS, Domain, LinearQuery

SELECTION = ExponentialMechanism(UNITS, Fraction(1))
WRONG = [Fraction(10, 13), Fraction(13, 10)]
SCOPES = (("age",), ("age", "sex"), ("region", "member"))


class Recorder(ExponentialMechanism):
    """Keeps the qualities that it chooses by."""

    __slots__ = ()
    seen: ClassVar[list[NDArray[np.int64]]] = []

    def select(self, qualities: NDArray[np.int64], bits: BitSource) -> int:
        self.seen.append(qualities)
        return 0


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    Recorder.seen.clear()
    yield Recorder(UNITS, Fraction(1))
    Recorder.seen.clear()


def qualities(recorder: Recorder, frame: pd.DataFrame, domain: Domain) -> NDArray[np.int64]:
    model = DenseDistribution.uniform(domain, 2987.3)
    proposal = MarginalRound(SCOPES, model, recorder, DiscreteGaussian(Fraction(3 * UNITS)))
    draw_marginal(proposal, MemorySource.from_frame(frame, domain), BitSource.from_integer(1))
    return Recorder.seen[-1]


def test_a_record_moves_a_quality_by_one_record_at_most(
    recorder: Recorder, frame: pd.DataFrame, domain: Domain
) -> None:
    before = qualities(recorder, frame, domain)
    changes = [qualities(recorder, frame.drop(index=row), domain) - before for row in range(0, 3000, 150)]
    assert np.abs(changes).max() == UNITS  # attained: no smaller sensitivity is sound


def test_a_replaced_record_moves_a_quality_by_two_records_at_most(
    recorder: Recorder, frame: pd.DataFrame, domain: Domain
) -> None:
    before = qualities(recorder, frame, domain)
    changes = []
    for row in range(0, 3000, 150):
        newcomer = pd.DataFrame({"age": [59], "sex": ["Male"], "region": ["west"], "member": [True]})
        other = pd.concat([frame.drop(index=row), newcomer])
        changes.append(qualities(recorder, other, domain) - before)
    assert UNITS < np.abs(changes).max() <= 2 * UNITS


def test_a_quality_is_the_distance_less_the_noise(
    recorder: Recorder, frame: pd.DataFrame, domain: Domain
) -> None:
    found = qualities(recorder, frame, domain)
    for scope, quality in zip(SCOPES, found, strict=True):
        counts = MemorySource.from_frame(frame, domain).counts(scope).counts
        distance = np.abs(counts - 2987.3 / counts.size).sum()
        assert quality / UNITS == pytest.approx(distance - counts.size * 3 * np.sqrt(2 / np.pi), abs=1e-3)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "noise", [DiscreteLaplace(Fraction(4 * UNITS)), DiscreteGaussian(Fraction(4 * UNITS))]
)
def test_measurements_carry_the_noise_they_say(
    noise: NoiseDistribution, frame: pd.DataFrame, domain: Domain
) -> None:
    source, bits = MemorySource.from_frame(frame, domain), BitSource.from_integer(5)
    model = DenseDistribution.uniform(domain, 3000.0)
    query = LinearQuery.cells(domain, {"age": (0, 4)})
    truth = TrueAnswers(source, (query,))
    counts = source.counts(("age", "region")).counts
    cells, values = [], []
    for _ in range(60):
        measured = draw_marginal(MarginalRound((("age", "region"),), model, SELECTION, noise), source, bits)
        cells.append((measured.units - counts * UNITS).reshape(-1))
    for _ in range(5000):
        proposal = QueryRound((query,), np.array([5]), SELECTION, noise)
        values.append(draw_query(proposal, truth, bits).units - truth.units[0])
    distribution = stats.laplace.cdf if isinstance(noise, DiscreteLaplace) else stats.norm.cdf
    for draws in (np.concatenate(cells), np.array(values)):
        assert stats.kstest(draws / (4 * UNITS), distribution).pvalue > 1e-3
        for wrong in WRONG:
            assert stats.kstest(draws / (4 * UNITS * float(wrong)), distribution).pvalue < 1e-4
        assert np.abs(draws).mean() == pytest.approx(expected_noise(noise), rel=0.06)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "noise", [DiscreteLaplace(Fraction(4 * UNITS)), DiscreteGaussian(Fraction(4 * UNITS))]
)
def test_every_number_of_every_round_has_noise_of_its_own_in_the_order_of_the_draws(
    noise: NoiseDistribution,
    frame: pd.DataFrame,
    domain: Domain,
    require_independent: Callable[[NDArray[np.int64]], None],
) -> None:
    source, bits, again = MemorySource.from_frame(frame, domain), *(BitSource.from_integer(6) for _ in "ab")
    model, query = DenseDistribution.uniform(domain, 3000.0), LinearQuery.cells(domain, {"age": (0, 4)})
    marginal = MarginalRound((("sex", "region"),), model, SELECTION, noise)
    question, truth = QueryRound((query,), np.array([5]), SELECTION, noise), TrueAnswers(source, (query,))
    counts, drawn = source.counts(("sex", "region")).counts, []
    for _ in range(120):
        cells = draw_marginal(marginal, source, bits).units - counts * UNITS
        value = draw_query(question, truth, bits).units - truth.units[0]
        SELECTION.select(np.array([0]), again)
        assert np.array_equal(cells.ravel(), noise.sample_array(again, counts.size))
        SELECTION.select(np.array([0]), again)
        assert value == noise.sample(again)
        drawn.append([*cells.ravel(), value])
    require_independent(np.array(drawn))


def test_the_worst_question_is_measured_where_the_choice_is_sharp(
    frame: pd.DataFrame, domain: Domain
) -> None:
    source = MemorySource.from_frame(frame, domain)
    queries = tuple(LinearQuery.cells(domain, {"age": (cell, cell)}) for cell in range(10))
    truth = TrueAnswers(source, queries)
    model = truth.units.copy()
    model[6] += 900 * UNITS
    proposal = QueryRound(queries, model, SELECTION, DiscreteLaplace(Fraction(UNITS)))
    measured = draw_query(proposal, truth, BitSource.from_integer(2))
    assert measured.query is queries[6]
    assert measured.model_units == model[6]


def test_true_answers_are_not_shown_or_copied(frame: pd.DataFrame, domain: Domain) -> None:
    truth = TrueAnswers(MemorySource.from_frame(frame, domain), (LinearQuery.everything(domain),))
    assert repr(truth) == "TrueAnswers(not shown)"
    with pytest.raises(DataError, match="cannot be copied"):
        copy.copy(truth)
