"""Populations: the second interval holds, takes half of what may fail for each cause, and is public."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

import pmw
from pmw.public.bars import Bars
from pmw.public.population import PopulationIntervals, population_interval
from pmw.public.state import PublicState
from queries import UNITS, Factor, LinearQuery, QueryError, parse_where
from tests.worlds import PEOPLE, WIDE

FORMS: dict[str, dict[str, Any]] = {
    "Gaussian": {},
    "pure": {"delta": 0.0},
    "replace-one": {"neighboring_relation": pmw.NeighboringRelation.REPLACE_ONE},
    "4 records of a person": {"records_per_person": 4},
    "simultaneous": {"simultaneous": True},
}
QUESTIONS = ("", "a = 1", "a >= 1 AND b <= 2", "NOT c IN (0, 3)", "a = 1 AND b = 2 AND c = 3")


@cache
def asked(form: str) -> PublicState:
    with WIDE.opened(seed=4, **FORMS[form]) as session:
        session.ask_all(QUESTIONS)
        return session.state


# --- the formula --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
@pytest.mark.parametrize(("count", "people"), [(0, 10), (1, 10), (7, 10), (10, 10), (300, 40_000), (1, 1)])
def test_without_noise_it_is_the_exact_interval_at_half_of_what_may_fail(
    count: int, people: int, confidence: float
) -> None:
    found = population_interval((count, count), (people, people), 1, confidence)
    exact = stats.binomtest(count, people).proportion_ci((1 + confidence) / 2, method="exact")
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), rel=1e-9)
    assert (found.confidence, found.people) == (confidence, people)


@pytest.mark.parametrize(("count", "everybody", "records"), [((8, 20), (32, 40), 1), ((8, 20), (32, 40), 4)])
def test_it_is_of_the_least_and_the_greatest_fraction_of_the_fewest_people(
    count: tuple[int, int], everybody: tuple[int, int], records: int
) -> None:
    found = population_interval(count, everybody, records, 0.9)
    people = 32 / records
    assert found.people == people
    low = stats.beta.ppf(0.025, 8 / 40 * people, people - 8 / 40 * people + 1)
    high = stats.beta.ppf(0.975, 20 / 32 * people + 1, people - 20 / 32 * people)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-9)


@pytest.mark.parametrize("everybody", [(0.0, 5.0), (-3.0, 5.0)])
def test_nothing_is_known_where_there_may_be_nobody(everybody: tuple[float, float]) -> None:
    found = population_interval((1.0, 2.0), everybody, 1, 0.95)
    assert (found.low, found.high) == (0.0, 1.0)


PARTS = st.floats(0, 1)
ROUNDING = 1e-9  # quantiles of Beta distributions are found to


@given(PARTS, PARTS, PARTS, st.floats(1, 1e6), PARTS, st.sampled_from([1, 2, 4]), st.floats(0.5, 0.999))
def test_what_is_known_less_surely_gives_a_wider_interval(
    one: float, two: float, beyond: float, fewest: float, more: float, records: int, confidence: float
) -> None:
    """Sharper ends of either number, fewer records of a person and less confidence: it is no wider."""
    most, (low, high) = fewest * (1 + more), sorted((one * fewest, two * fewest))
    wide = population_interval((low, high), (fewest, most), records, confidence)
    middle = low + beyond * (high - low)
    size = fewest + beyond * (most - fewest)
    for sharper in (
        population_interval((middle, high), (fewest, most), records, confidence),
        population_interval((low, middle), (fewest, most), records, confidence),
        population_interval((low, high), (size, size), records, confidence),
        population_interval((low, high), (fewest, most), 1, confidence),
        population_interval((low, high), (fewest, most), records, confidence * beyond),
    ):
        assert wide.low <= sharper.low + ROUNDING
        assert wide.high >= sharper.high - ROUNDING


# --- noise and sampling -------------------------------------------------------------------------------------

REACH = 40  # of noise, in records; beyond it lies less than 1e-8


def laplace(scale: float) -> NDArray[np.float64]:
    """Return the probabilities of discrete Laplace noise from -REACH to REACH."""
    weights = np.exp(-np.abs(np.arange(-REACH, REACH + 1)) / scale)
    return np.asarray(weights * math.tanh(1 / (2 * scale)))


def width(probabilities: NDArray[np.float64], failure: float) -> int:
    """Return the least half-width that the noise exceeds with at most a probability."""
    sizes = np.abs(np.arange(-REACH, REACH + 1))
    return next(one for one in range(REACH) if probabilities[sizes > one].sum() <= failure)


@pytest.mark.parametrize("public", [True, False])
@pytest.mark.parametrize(("people", "scale"), [(6, 0.4), (14, 1.0), (14, 2.0)])
def test_it_holds_as_often_as_stated_over_the_sample_and_all_noise(
    public: bool, people: int, scale: float
) -> None:
    """Every sample, noise on the count and noise on the number of records, with its probability."""
    beta, noise = 0.2, laplace(scale)
    totals = range(people - REACH, people + REACH + 1)
    of_total = np.array([float(total == people) for total in totals]) if public else noise
    near, far = width(noise, 0.4 * beta), 0 if public else width(noise, 0.1 * beta)
    released = [
        [population_interval((c - near, c + near), (n - far, n + far), 1, 1 - beta) for n in totals]
        for c in range(-REACH, people + REACH + 1)
    ]
    lows, highs = (
        np.array([[getattr(one, end) for one in row] for row in released]) for end in ("low", "high")
    )
    for fraction in (0.0, 0.03, 0.2, 0.5, 0.77, 0.98, 1.0):
        held = (lows <= fraction) & (fraction <= highs)
        given_count = (held * of_total).sum(axis=1)
        probability = sum(
            stats.binom.pmf(count, people, fraction) * (noise * given_count[count : count + noise.size]).sum()
            for count in range(people + 1)
        )
        assert probability >= 1 - beta


# --- sessions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_noise_has_half_of_what_may_fail_and_a_persons_records_count_once(form: str) -> None:
    state = asked(form)
    contract = state.contract
    surer = replace(contract, options=replace(contract.options, confidence=1 - 0.05 / 2))
    bars, found = Bars(replace(state, contract=surer)), PopulationIntervals(state)
    number = bars.everybody(1.0)
    ends = float(number.value - number.half_width), float(number.value + number.half_width)
    for where in QUESTIONS:
        query = parse_where(where, WIDE.domain)
        bar, one = bars.of_query(query), found.of(query)
        expected = population_interval(
            (float(bar.low), float(bar.high)), ends, FORMS[form].get("records_per_person", 1), 0.95
        )
        assert one is not None
        assert (one.low, one.high, one.people) == pytest.approx(
            (expected.low, expected.high, expected.people)
        )
        assert Bars(state).of_query(query).low >= bar.low


def test_a_condition_that_cuts_cells_has_an_interval_for_any_filling() -> None:
    state = PEOPLE.state(seed=2)
    found = PopulationIntervals(state)
    cut, outer, inner = (
        found.of(parse_where(where, PEOPLE.domain)) for where in ("age >= 30", "age >= 28", "age >= 32")
    )
    assert cut is not None
    assert outer is not None
    assert inner is not None
    assert (cut.low, cut.high) == (inner.low, outer.high)


def test_other_weights_than_those_of_a_condition_are_refused() -> None:
    half = Factor(("a",), np.arange(WIDE.domain["a"].size) * (UNITS // 8))
    with (
        WIDE.opened(seed=4) as session,
        pytest.raises(QueryError, match="other weights than 0 and 1") as told,
    ):
        session.population_interval(LinearQuery(WIDE.domain, (half,)))
    assert told.value.code == "unsupported"


def test_where_an_accuracy_contract_refuses_a_count_nothing_is_told() -> None:
    state, told = asked("Gaussian"), list[bool]()
    for accuracy in (0.5, 1e-4):
        options = replace(state.contract.options, accuracy=accuracy, records=len(WIDE.frame))
        limited = replace(state, contract=replace(state.contract, options=options))
        found = PopulationIntervals(limited).of(parse_where("a = 1", WIDE.domain))
        told.append(found is not None)
    assert told == [True, False]


def test_it_is_told_in_words_and_as_numbers() -> None:
    found = population_interval((250, 250), (1000, 1000), 1, 0.95)
    assert found.sentence() == (
        "of the population that the table is a simple random sample of, between 21.98% and 28.21% "
        "at 95% confidence"
    )
    assert found.to_dict() == {"low": found.low, "high": found.high, "confidence": 0.95}
    assert (found.low, found.high) == pytest.approx((0.219788, 0.282091), abs=1e-6)
