"""Error bars: what each kind of answer promises holds as often as it says."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.model.estimate import noise_variance
from pmw.model.measurement import MarginalMeasurement
from pmw.privacy.budget import Composition
from pmw.privacy.noise import DiscreteLaplace
from pmw.public.answer import Source
from pmw.public.free_answers import ModelAnswers
from pmw.public.half_widths import total_half_width
from pmw.public.state import PublicState
from queries import (
    UNITS,
    CategoricalAttribute,
    Domain,
    Factor,
    IntegerAttribute,
    LinearQuery,
    random_conjunctions,
)
from queries.records import encode_records
from tests.worlds import ends as bar_of
from tests.worlds import known


def truth(frame: pd.DataFrame, domain: Domain, query: LinearQuery) -> float:
    records = encode_records(frame, domain)
    weights = query.weights() / UNITS
    index = tuple(records.columns[domain.index(name)].astype(int) for name in query.scope)
    return float(weights[index].sum()) if query.scope else len(records) * float(weights)


def answers(
    frame: pd.DataFrame, domain: Domain, queries: list[LinearQuery], seed: int, **choices: Any
) -> pmw.Answers:
    epsilon, delta = choices.pop("epsilon", 1), choices.pop("delta", 1e-9)
    options = pmw.Options(test=pmw.TestKind.QUERY, seed=seed, **choices)
    with pmw.open_session(frame, domain, epsilon=epsilon, delta=delta, options=options) as session:
        return session.ask_all(queries)


@pytest.mark.statistical
@pytest.mark.parametrize("delta", [0, 1e-9])
@pytest.mark.parametrize("kind", [None, pmw.SparseVectorKind.LAPLACE, pmw.SparseVectorKind.LAPLACE_ROUNDS])
def test_intervals_hold_the_truth_at_least_as_often_as_stated(
    frame: pd.DataFrame, domain: Domain, delta: float, kind: pmw.SparseVectorKind | None
) -> None:
    queries = list(random_conjunctions(domain, 60, seed=4))
    true = [truth(frame, domain, query) for query in queries]
    held: dict[Source, list[bool]] = {source: [] for source in Source}
    for seed in range(15):
        found = answers(
            frame, domain, queries, seed, delta=delta, sparse_vector=kind, threshold=25.0, update_limit=8
        )
        for answer, exact in zip(found, true, strict=True):
            if answer.interval is not None:
                low, high = answer.interval
                held[answer.source].append(low - 1e-6 <= exact <= high + 1e-6)
    for source in (Source.SYNTHETIC, Source.MEASURED):
        count = len(held[source])
        assert count > 30, source
        assert np.mean(held[source]) >= 0.95 - 4 * math.sqrt(0.95 * 0.05 / count), source


@pytest.mark.statistical
def test_covered_questions_have_intervals_of_the_noise_itself(frame: pd.DataFrame, domain: Domain) -> None:
    queries = [
        LinearQuery.cells(domain, {"age": (low, high)}) for low in range(0, 10, 3) for high in range(low, 10)
    ]
    true = [truth(frame, domain, query) for query in queries]
    held, widths = [], []
    for seed in range(60):
        for answer, exact in zip(answers(frame, domain, queries, seed), true, strict=True):
            held.append(bar_of(answer)[0] <= exact <= bar_of(answer)[1])
            widths.append((bar_of(answer)[1] - bar_of(answer)[0]) / 2)
    assert 0.94 < np.mean(held) < 0.995  # wider than exact only by the model's total_error
    assert np.median(widths) < 600


def beyond(noise: DiscreteLaplace, quarters: tuple[int, ...], width: float) -> float:
    """Return the exact probability that a sum of noises, each times so many quarters, is beyond a width.

    Args:
        noise: distribution of each, in units.
        quarters: weights, in quarters.
        width: in units.
    """
    step = math.gcd(*quarters)
    reach = 20 * math.ceil(noise.scale)  # beyond it, e^-20
    values = np.arange(-reach, reach + 1)
    length = 2 ** math.ceil(math.log2(2 * reach * sum(quarters) // step + 1))
    spectrum = np.ones(length // 2 + 1, dtype=np.complex128)
    for weight in quarters:
        distribution = np.zeros(length)
        distribution[values * (weight // step) % length] = noise.pmf(values)
        spectrum *= np.fft.rfft(distribution)
    total = np.fft.irfft(spectrum, length)
    places = np.minimum(np.arange(length), length - np.arange(length)) * step  # of both signs, in quarters
    return float(total[places > 4 * width].sum())


@pytest.fixture(scope="module", params=[0.5, 0.8, 0.907, 0.95, 0.99, 0.999])
def pure_state(request: pytest.FixtureRequest) -> PublicState:
    """The state of a session without a delta, at each of some confidences."""
    domain = Domain((IntegerAttribute("age", 20, 59, 4), CategoricalAttribute("sex", ("Female", "Male"))))
    people = pd.DataFrame({"age": np.arange(3000) % 40 + 20, "sex": ["Female", "Male"] * 1500})
    options = pmw.Options(test=pmw.TestKind.QUERY, seed=1, confidence=request.param)
    with pmw.open_session(people, domain, epsilon=1, options=options) as session:
        return session.state


@pytest.mark.parametrize(
    "quarters", [(4,), (4, 4), (4, 4, 4), (4,) * 9, (4, 2), (4, 3, 1), (1, 1, 4, 4, 2), (4, 1, 1, 1, 1, 1, 1)]
)
def test_without_a_delta_bars_of_covered_questions_are_bounds(
    pure_state: PublicState, quarters: tuple[int, ...]
) -> None:
    state, domain = pure_state, pure_state.domain
    confidence = state.contract.options.confidence
    noise = DiscreteLaplace(Fraction(1000))
    units = np.rint(state.model.marginal(("age",)) * UNITS).astype(np.int64)
    state = replace(state, opening=(MarginalMeasurement(("age",), units, noise),))
    weights = np.zeros(domain["age"].size, dtype=np.int64)
    weights[: len(quarters)] = np.array(quarters) * (UNITS // 4)
    query = LinearQuery(domain, (Factor(("age",), weights),))
    answer = ModelAnswers(state).answer(query)
    total_error = abs(answer.count - float(np.sum(units / UNITS * weights / UNITS)))
    width = ((bar_of(answer)[1] - bar_of(answer)[0]) / 2 - total_error) * UNITS
    assert beyond(noise, quarters, width) <= 1 - confidence
    if confidence >= 0.95:  # and no wider than by a sixth, and 18 units a root of squared weights
        root = math.sqrt(sum(weight**2 for weight in quarters)) / 4
        assert beyond(noise, quarters, 0.85 * (width - 19 * root)) > 1 - confidence


@pytest.mark.parametrize("confidence", [0.5, 0.907, 0.99])
def test_without_a_delta_the_bar_of_everybody_is_a_bound_for_the_sums_that_it_takes_in(
    confidence: float,
) -> None:
    # The released number: half of one noise, and half of a sum of nine quieter ones.
    loud, quiet = DiscreteLaplace(Fraction(900)), DiscreteLaplace(Fraction(300))
    deviation = math.sqrt(0.25 * noise_variance(loud) + 9 * 0.25 * noise_variance(quiet))
    width = total_half_width(Composition.PURE, deviation, confidence, [quiet]) * UNITS
    reach = 2**17
    values = np.arange(-reach // 2, reach // 2)

    def spectrum(noise: DiscreteLaplace) -> np.ndarray[Any, np.dtype[np.complex128]]:
        return np.fft.rfft(np.fft.ifftshift(noise.pmf(values)))

    distribution = np.fft.irfft(spectrum(loud) * spectrum(quiet) ** 9, reach)  # of twice the number
    places = np.minimum(np.arange(reach), reach - np.arange(reach))
    assert float(distribution[places > 2 * width].sum()) <= 1 - confidence


def test_each_source_says_what_it_promises(frame: pd.DataFrame, domain: Domain) -> None:
    two_way = list(random_conjunctions(domain, 300, seed=9))
    found = answers(frame, domain, two_way, 3, threshold=5.0, update_limit=3)
    kinds = {answer.source for answer in found}
    assert kinds == {Source.SYNTHETIC, Source.MEASURED, Source.EXHAUSTED}
    for answer in found:
        assert 0 <= bar_of(answer)[0] <= answer.count <= bar_of(answer)[1]


def test_a_public_row_count_has_no_error(domain: Domain, frame: pd.DataFrame) -> None:
    whole = replace(domain, attributes=tuple(replace(one, missing=True, other=True) for one in domain))
    options = pmw.Options(
        test=pmw.TestKind.QUERY, neighboring_relation=pmw.NeighboringRelation.REPLACE_ONE, seed=1
    )
    with pmw.open_session(frame, whole, epsilon=1, delta=1e-9, options=options) as session:
        answer = session.ask("")
    assert answer.count == len(frame)
    assert answer.interval == (len(frame), len(frame))


def test_a_question_that_nobody_fits_is_answered_by_nobody(domain: Domain, frame: pd.DataFrame) -> None:
    with pmw.open_session(
        frame, domain, epsilon=1, options=pmw.Options(test=pmw.TestKind.QUERY, seed=1)
    ) as session:
        answer = session.ask("sex = 'Male' AND sex = 'Female'")
    assert (answer.count, answer.interval) == (0.0, (0.0, 0.0))


def test_an_empty_table_is_within_its_error_bars(domain: Domain, frame: pd.DataFrame) -> None:
    held = 0
    for seed in range(40):
        options = pmw.Options(test=pmw.TestKind.QUERY, seed=seed)
        with pmw.open_session(frame.iloc[:0], domain, epsilon=1, options=options) as session:
            interval = known(session.ask("").interval)
            held += interval[0] <= 0
    assert held >= 34


@pytest.mark.statistical
@pytest.mark.parametrize("delta", [0, 1e-9])
def test_ranges_of_a_tree_have_intervals_of_its_least_squares(
    long_frame: pd.DataFrame, long_domain: Domain, delta: float
) -> None:
    composition = pmw.Composition.ZCDP if delta else pmw.Composition.PURE
    generator = np.random.default_rng(9)
    ends = np.sort(generator.integers(0, 101, (40, 2)), axis=1)
    queries = [LinearQuery.cells(long_domain, {"income": (int(low), int(high))}) for low, high in ends]
    every_third = np.where(np.arange(101) % 3 == 0, UNITS, UNITS // 2)
    queries.append(LinearQuery(long_domain, (Factor(("income",), every_third),)))
    true = [truth(long_frame, long_domain, query) for query in queries]
    held, errors, widths = [], [], []
    for seed in range(30):
        found = answers(long_frame, long_domain, queries, seed, delta=delta, composition=composition)
        for answer, exact in zip(found, true, strict=True):
            held.append(bar_of(answer)[0] <= exact <= bar_of(answer)[1])
            errors.append(abs(answer.count - exact))
            widths.append((bar_of(answer)[1] - bar_of(answer)[0]) / 2)
    assert np.mean(held) >= 0.92  # of 30 sessions, whose ranges fail together
    assert np.mean(widths) < 8 * np.mean(errors)
