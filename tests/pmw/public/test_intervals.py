"""Error bars: what each kind of answer promises holds as often as it says."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.data import MemorySource
from pmw.model.estimate import noise_variance
from pmw.model.measurement import HierarchicalMeasurement, MarginalMeasurement
from pmw.privacy.budget import Composition
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.privacy.tail_bounds import certificate_half_width, simultaneous_half_width, sum_half_width
from pmw.public.answer import Source
from pmw.public.bars import Bars
from pmw.public.bounded import Question
from pmw.public.evidence import evidence_of, is_held
from pmw.public.free_answers import ModelAnswers
from pmw.public.half_widths import Confidences, Rests, Shares, total_error_bound, total_half_width
from pmw.public.options import ModelKind, TestKind
from pmw.public.state import Certificate, PublicState, Total
from pmw.sparse_vector import Sparse, ThresholdTest
from queries import (
    UNITS,
    CategoricalAttribute,
    Domain,
    Factor,
    IntegerAttribute,
    LinearQuery,
    parse_where,
    random_conjunctions,
)
from queries.linear import Readings
from queries.records import encode_records
from tests.worlds import declared, known, marginal_plan
from tests.worlds import ends as bar_of


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
@pytest.mark.parametrize(
    ("delta", "kind"),
    [(1e-9, None), (0, pmw.SparseVectorKind.LAPLACE), (0, pmw.SparseVectorKind.LAPLACE_ROUNDS)],
)
def test_intervals_hold_the_truth_at_least_as_often_as_stated(
    frame: pd.DataFrame, domain: Domain, delta: float, kind: pmw.SparseVectorKind | None
) -> None:
    queries = list(random_conjunctions(domain, 40, seed=4))
    true = [truth(frame, domain, query) for query in queries]
    held: dict[Source, list[bool]] = {source: [] for source in Source}
    for seed in range(9):
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
    for seed in range(16):
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


@pytest.fixture(scope="module", params=[0.5, 0.907, 0.95, 0.999])
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
    for seed in range(15):
        found = answers(long_frame, long_domain, queries, seed, delta=delta, composition=composition)
        for answer, exact in zip(found, true, strict=True):
            held.append(bar_of(answer)[0] <= exact <= bar_of(answer)[1])
            errors.append(abs(answer.count - exact))
            widths.append((bar_of(answer)[1] - bar_of(answer)[0]) / 2)
    assert np.mean(held) >= 0.92  # of 15 sessions, whose ranges fail together
    assert np.mean(widths) < 8 * np.mean(errors)


# --- error bars of marginals --------------------------------------------------------------------------------

# Of so many cells that the whole table is not measured at opening.
DOMAIN = declared(age=range(60), sex="fm", grade="abcdefgh", region="nesw")


def people(seed: int = 1) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    age = generator.integers(0, 60, 4000)
    grade = np.array(list("abcdefgh"))[np.minimum(7, age // 8 + generator.integers(0, 2, 4000))]
    return pd.DataFrame(
        {
            "age": age,
            "sex": generator.choice(["f", "m"], 4000),
            "grade": grade,
            "region": generator.choice(list("nesw"), 4000),
        }
    )


FRAME = people()
PAIR = LinearQuery.cells(DOMAIN, {"sex": (0, 0), "grade": (1, 3)})
CUT = LinearQuery.cells(DOMAIN, {"age": (1, 37), "grade": (1, 3)})


def opened(seed: int = 1, **choices: Any) -> pmw.Session:
    options = pmw.Options(
        test=TestKind.MARGINAL, seed=seed, composition=pmw.Composition.ZCDP, update_limit=2, **choices
    )
    return pmw.open_session(FRAME, DOMAIN, epsilon=2, delta=1e-9, options=options)


@cache
def opening(seed: int = 1, **choices: Any) -> PublicState:
    """Return the state of a session that was just opened."""
    with opened(seed, **choices) as session:
        return session.state


def certificate_bound(state: PublicState, certificate: Certificate, shares: Shares | None = None) -> float:
    """Return how far any question on the tested cells may be from the tested marginal, in records."""
    shares = Confidences.in_state(state).shares(Rests.CERTIFIED) if shares is None else shares
    width: float = evidence_of(state, certificate, certificate.scope, shares).noise.half_width(
        np.array([0.0, 1.0])
    )
    return width


def mixed(state: PublicState) -> Shares:
    return Confidences.in_state(state).shares(Rests.MIXED)


def certified(state: PublicState, scope: tuple[str, ...], threshold: int) -> PublicState:
    model = getattr(state.model, "model", state.model)
    units = np.rint(model.marginal(scope) * UNITS).astype(np.int64)
    certificate = Certificate(scope, state.version, threshold, units)
    return replace(state, certificates={**state.certificates, scope: certificate})


def test_a_certificate_bounds_by_its_threshold_and_the_tests_own_noise() -> None:
    state = certified(opening(), ("sex", "grade"), 50 * UNITS)
    plan = marginal_plan(state)
    (certificate,) = state.certificates.values()
    bound = certificate_bound(state, certificate)
    assert bound > (50 + plan.sparse.test.negative_margin(0.95) / UNITS) / 2
    answer = ModelAnswers(state).answer(PAIR)
    assert bar_of(answer)[1] - answer.count == pytest.approx(bound, abs=1)
    higher = certified(state, ("sex", "grade"), 90 * UNITS)
    (certificate,) = higher.certificates.values()
    assert certificate_bound(higher, certificate) == pytest.approx(bound + 20)


def one_round(state: PublicState, part: float | None) -> tuple[PublicState, ThresholdTest]:
    """Return a state whose vector has one round, and its test.

    Args:
        state: the state.
        part: of the threshold noise, that the test noise has; None for that of the plan.
    """
    plan = marginal_plan(state)
    assert isinstance(plan.sparse, Sparse)
    test = plan.sparse.test
    assert isinstance(test, ThresholdTest)
    if part is not None:
        test = replace(test, query_scale=Fraction(math.ceil(part * test.threshold_scale)))
    sparse = replace(plan.sparse, test=test, update_limit=1)
    return replace(state, plan=(replace(plan, sparse=sparse), *state.plan[1:])), test


def negative_at(test: ThresholdTest, threshold: int, distance: int) -> float:
    """Return the exact probability that a marginal is not found wrong: distance + nu < T + rho.

    It is the sum over n >= 0 of (1 - r) r^n r1^(m + n), m = distance - T + 1 >= 0.
    """
    m = distance - threshold + 1
    assert m >= 0
    one, other = 1 / float(test.threshold_scale), 1 / float(test.query_scale)
    return math.exp(-m * one) * math.expm1(-other) / math.expm1(-other - one)


def weighed_on_groups(state: PublicState, query: LinearQuery) -> tuple[LinearQuery, LinearQuery, list[float]]:
    """Return the inner and the outer question, and the model's answers to them."""
    inner, outer = state.coarsening.bounds(query)
    model = getattr(state.model, "model", state.model)
    return inner, outer, [model.answer(bound) for bound in (inner, outer)]


@pytest.mark.parametrize(("confidence", "part"), [(0.99, None), (0.95, 0.1), (0.99, 0.1), (0.8, 0.01)])
def test_ends_of_a_measurement_and_of_a_certificate_miss_no_more_often_than_stated(
    confidence: float, part: float | None
) -> None:
    # The low end is the narrower where one cell was measured, the high end where a test was negative. Each
    # end is missed on some table that is as close to it as can be: the two tables are one, for nobody is in
    # the bins that the question cuts. With either at its full share both ends together miss too often.
    state, test = one_round(replace(opening(confidence=confidence), total=Total(4000.0, 4000.0, 0.0)), part)
    threshold = int(test.negative_margin(0.5))
    state = certified(state, ("age", "grade"), threshold)
    (certificate,) = state.certificates.values()
    narrow = certificate_bound(state, certificate, Shares(Rests.CERTIFIED, 1.0, confidence, 1.0))
    sigma = narrow / 1.5 / NormalDist().inv_cdf((1 + confidence) / 2) * UNITS
    noise = DiscreteGaussian(Fraction(round(sigma)))
    state = replace(state, measured=(MarginalMeasurement(("age", "grade"), certificate.units, noise),))
    bins = known(state.coarsening.bins[0])
    ages, grades = np.where(bins == 1, UNITS, 0), np.where(np.arange(8) == 2, UNITS, 0)
    ages[[int(np.flatnonzero(bins == bin_)[0]) for bin_ in range(2, 7)]] = UNITS
    query = LinearQuery(DOMAIN, (Factor(("age",), ages), Factor(("grade",), grades)))
    inner, outer, (least, most) = weighed_on_groups(state, query)
    assert [int(one.weights().sum()) for one in (inner, outer)] == [UNITS, 6 * UNITS]
    low, high = by_all_attributes(state, query, Rests.MIXED)
    drawn, gap = least - low, high - most
    missed = [
        NormalDist(0, sigma).cdf(-drawn * UNITS),
        negative_at(test, threshold, 2 * math.ceil(gap * UNITS)),
    ]
    old = [(1 - confidence) / 2, negative_at(test, threshold, 2 * math.ceil(narrow * UNITS))]
    together, before = (1 - (1 - one) * (1 - other) for one, other in (missed, old))
    assert before > 1 - confidence  # what both ends at their full share would miss
    assert together <= (1 - confidence) * 8 / 9  # the rest is for parts
    assert drawn == pytest.approx(sum_half_width(noise, 1.0, mixed(state).measured), abs=0.01)
    assert gap == pytest.approx(certificate_bound(state, certificate, mixed(state)), abs=0.01)


def by_all_attributes(state: PublicState, query: LinearQuery, rests: Rests) -> tuple[float, float]:
    """Return what bounds a question by all of its attributes together, without its parts and everybody."""
    bars = Bars(state)
    least, most = (query, query) if query.readings is None else query.readings
    low = high = Question(least)
    if most is not least:
        high = Question(most)
    (known, more), shares = bars._pieces(low, high, query.scope), bars.confidences.shares(rests)
    below, above = bars._bound(known, shares), bars._bound(more, shares)
    return float(below.value - below.half_width), float(above.value + above.half_width)


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_ends_of_a_certificate_and_of_the_total_are_missed_together(confidence: float) -> None:
    # Nobody knows of more than everybody: the high end is that of the released total.
    deviation = 40.0
    state = replace(opening(confidence=confidence), opening=(), total=Total(4000.0, 4000.0, deviation))
    state, test = one_round(state, None)
    state = certified(state, ("age", "grade"), 300 * UNITS)
    (certificate,) = state.certificates.values()
    weights = np.full((60, 8), UNITS, dtype=np.int64)
    weights[7, 0] = 0
    query = LinearQuery(DOMAIN, (Factor(("age", "grade"), weights),))
    _, outer, (least, _) = weighed_on_groups(state, query)
    assert outer.scope == ()
    low, high = by_all_attributes(state, query, Rests.CERTIFIED)
    # What the low end's bound (S + |n - the total|)/2 says of either noise, given its share of what may fail.
    shares = Confidences.in_state(state).shares(Rests.CERTIFIED)
    total_error, margin = (
        total_error_bound(state, shares.everybody),
        test.negative_margin(shares.certificate),
    )
    bound = certificate_half_width(300 + margin / UNITS, total_error, certificate.units.size)
    assert least - low == pytest.approx(bound)
    distribution = NormalDist(0, deviation)
    above = distribution.cdf(-total_error)  # the total came out too high for the certificate
    below = distribution.cdf(
        -min(total_error, high - 4000)
    )  # or too low for the certificate, or for the high end
    threshold_noise = math.exp(-math.floor(margin + 1) / float(test.threshold_scale))
    assert 1 - (1 - threshold_noise) * (1 - above - below) <= 1 - confidence
    narrower = distribution.cdf(-total_error_bound(state, confidence))
    full = math.exp(-math.floor(test.negative_margin(confidence) + 1) / float(test.threshold_scale))
    assert 1 - (1 - full) * (1 - above - narrower) > 1.1 * (1 - confidence)


def test_ends_of_one_event_need_no_further_share() -> None:
    state = certified(opening(), ("age", "grade"), 50 * UNITS)
    (certificate,) = state.certificates.values()
    bound = certificate_bound(state, certificate)
    _, _, (least, most) = weighed_on_groups(state, CUT)
    found = by_all_attributes(state, CUT, Rests.CERTIFIED)
    assert found == pytest.approx((least - bound, most + bound), abs=0.01)
    # So it is where the two readings of a question rest on certificates.
    low = LinearQuery.cells(DOMAIN, {"sex": (0, 0), "grade": (1, 1)})
    state = certified(opening(), ("sex", "grade"), 50 * UNITS)
    (certificate,) = state.certificates.values()
    bound = certificate_bound(state, certificate)
    ends = state.model.answer(low) - bound, state.model.answer(PAIR) + bound
    assert by_all_attributes(state, between(low, PAIR), Rests.CERTIFIED) == pytest.approx(ends, abs=0.01)
    # Two ends of measured noise are missed by half each.
    loud, state = DiscreteGaussian(Fraction(20 * UNITS)), opening()
    shape = state.coarsening.coarse.scope_shape(("age", "grade"))
    measured = MarginalMeasurement(("age", "grade"), np.zeros(shape, dtype=np.int64), loud)
    state = replace(state, measured=(measured,))
    inner, outer, _ = weighed_on_groups(state, CUT)
    confidence = Confidences.in_state(state).alone
    widths = [
        sum_half_width(loud, float(np.sum((one.weights() / UNITS) ** 2)), confidence, peak=1.0)
        for one in (inner, outer)
    ]
    assert by_all_attributes(state, CUT, Rests.MEASURED) == pytest.approx((-widths[0], widths[1]))


def test_an_answer_inside_groups_is_moved_to_what_was_measured_of_its_cells() -> None:
    state = opening()
    exact = MemorySource.from_frame(FRAME, DOMAIN).counts(("age", "grade")).counts.astype(np.int64)
    measured = MarginalMeasurement(("age", "grade"), exact * UNITS, marginal_plan(state).noise)
    after = replace(state, measured=(measured,))
    noise = math.sqrt(measured.variance * 37 * 3)
    truth = CUT.evaluate(exact.astype(np.float64))
    answer = ModelAnswers(after).answer(CUT, measured=True)
    assert abs(state.model.answer(CUT) - truth) > noise
    assert abs(answer.count - truth) == pytest.approx(noise)
    assert answer.source is Source.MEASURED
    assert bar_of(answer)[0] < truth < bar_of(answer)[1]
    aligned = LinearQuery.cells(DOMAIN, {"grade": (1, 3), "age": (0, 59)})
    # Sums of cells in another order: the same but for the last bit.
    unmoved = pytest.approx(state.model.answer(aligned), rel=1e-12)
    assert ModelAnswers(after).answer(aligned).count == unmoved


def between(low: LinearQuery, high: LinearQuery) -> LinearQuery:
    """Return a question that the cells cannot decide, with the weights of its greater reading."""
    return LinearQuery(DOMAIN, high.factors, readings=Readings(low, high))


def test_a_reading_is_held_by_certificates_of_the_question_alone() -> None:
    low = LinearQuery.cells(DOMAIN, {"sex": (0, 0), "grade": (1, 3)})
    high = LinearQuery.cells(DOMAIN, {"sex": (0, 0), "grade": (1, 3), "region": (0, 1)})
    query = between(LinearQuery.cells(DOMAIN, {"sex": (0, 0), "grade": (1, 1), "region": (0, 1)}), low)
    state = opening()
    assert query.scope == high.scope == ("sex", "grade", "region")
    for certificate, source in ((low.scope, Source.UNVERIFIED), (query.scope, Source.SYNTHETIC)):
        assert ModelAnswers(certified(state, certificate, 50 * UNITS)).answer(query).source is source


def test_a_question_is_held_by_what_contains_all_of_its_attributes() -> None:
    assert not is_held(opening(), PAIR)
    for scope in (("sex", "grade"), ("age", "sex", "grade"), ("sex", "region"), ("sex",)):
        state = certified(opening(), scope, 50 * UNITS)
        assert is_held(state, PAIR) == {*PAIR.scope}.issubset(scope)


def test_what_an_interval_rests_on_shares_what_may_fail() -> None:
    confidences = Confidences.in_state(opening(confidence=0.9))
    assert confidences.everybody == pytest.approx(0.99)
    for rests, (measured, certificate, parts) in (
        (Rests.MEASURED, (17 / 18, 0, 1 / 18)),
        (Rests.CERTIFIED, (0, 1 / 2, 1 / 2)),
        (Rests.MIXED, (6 / 9, 2 / 9, 1 / 9)),
    ):
        shares = confidences.shares(rests)
        assert 1 - shares.measured == pytest.approx(0.09 * measured)
        assert 1 - shares.certificate == pytest.approx(0.09 * certificate)
        inside = confidences.of_parts(rests, 6)
        assert 1 - inside.measured == pytest.approx(0.09 * parts / 3)  # each end has a sixth, of one side
        assert (inside.certificate, inside.everybody) == (shares.certificate, shares.everybody)
    public = Confidences.of(opening(confidence=0.9).contract.options, 4, (), private_total=False)
    assert public.rest == 0.9


def test_all_noises_of_a_session_share_the_failure_of_simultaneous_intervals() -> None:
    state = opening(seed=3, simultaneous=True)
    plan, questions = marginal_plan(state), state.query_plan
    assert questions is not None
    # The total, four attributes, two marginals, five values of single questions, and two sparse vectors.
    events = 1 + 4 + plan.update_limit + questions.update_limit + 2
    assert (plan.update_limit, questions.update_limit) == (2, 5)
    shared = Confidences.in_state(state)
    assert shared.alone == shared.everybody == shared.rest == pytest.approx(1 - 0.05 / events)
    for rests in Rests:
        assert set(shared.of_parts(rests, 8)[1:]) | set(shared.shares(rests)[1:]) == {shared.everybody}


def test_a_tree_of_ranges_answers_all_questions_at_once_from_its_cells_alone() -> None:
    state = opening(seed=3, simultaneous=True)
    tree = next(one for one in state.opening if isinstance(one, HierarchicalMeasurement))
    query = LinearQuery.cells(DOMAIN, {"age": (3, 47)})
    answer = ModelAnswers(state).answer(query)
    width = simultaneous_half_width(tree.noise, 60, Confidences.in_state(state).alone)
    value = float(tree.units[-60:][3:48].sum()) / UNITS
    assert bar_of(answer) == pytest.approx((max(0.0, value - width), value + width))


def streams(seed: int) -> list[LinearQuery]:
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(12):
        low, high = sorted(generator.integers(0, 60, 2).tolist())
        grades = sorted(generator.integers(0, 8, 2).tolist())
        box = {"age": (low, high), "grade": (grades[0], grades[1]), "sex": (0, int(generator.integers(0, 2)))}
        names = generator.choice(list(box), 2, replace=False)
        found.append(
            LinearQuery.cells(DOMAIN, {name: box[name] for name in DOMAIN.names if name in names.tolist()})
        )
    return found


@pytest.mark.statistical
@pytest.mark.parametrize(("model", "simultaneous"), [(ModelKind.DENSE, False), (ModelKind.GRAPHICAL, True)])
def test_intervals_of_marginals_hold_the_truth_as_often_as_they_say(
    model: ModelKind, simultaneous: bool
) -> None:
    source = MemorySource.from_frame(FRAME, DOMAIN)
    questions = streams(5)
    truth = np.array([query.answer(source.counts(query.scope)) / UNITS for query in questions])
    runs, held, whole, total, tested = 12, 0, 0, 0, 0
    for seed in range(runs):
        with opened(seed, model=model, simultaneous=simultaneous) as session:
            answers = session.ask_all(questions)
            tested += session.state.positives_used
        inside = [
            answer.interval[0] <= count <= answer.interval[1]
            for answer, count in zip(answers, truth, strict=True)
            if answer.interval is not None
        ]
        held, total, whole = held + sum(inside), total + len(inside), whole + all(inside)
    assert tested >= runs
    assert total > 8 * runs
    assert held >= 0.92 * total  # 95 %, less three deviations of runs that are not independent
    if simultaneous:
        assert whole >= 0.82 * runs  # of all questions at once: 95 %, less three deviations


@pytest.mark.parametrize("simultaneous", [False, True])
def test_answers_of_one_state_are_to_the_last_bit_what_each_is_by_itself(*, simultaneous: bool) -> None:
    state = certified(opening(simultaneous=simultaneous), ("age", "grade"), 50 * UNITS)
    values = np.random.default_rng(3).integers(0, 400, DOMAIN.scope_shape(("sex", "grade"))) * UNITS
    noise = marginal_plan(state).noise
    measured = replace(state, measured=(MarginalMeasurement(("sex", "grade"), values, noise),), beside=(0,))
    texts = (
        *(f"age BETWEEN {low} AND {low + wide}" for low in range(0, 40, 7) for wide in (0, 6, 19)),
        "", "sex = 'f'", "grade IN ('a', 'c')", "grade <> 'a' AND sex = 'm'", "grade = 'b' OR sex = 'f'",
        "age BETWEEN 1 AND 37 AND grade IN ('b', 'c', 'd')",
        "age >= 13 AND grade = 'h'", "age BETWEEN 1 AND 58 AND grade = 'b'",
        "age = 3 AND grade = 'a'", "sex = 'f' AND region = 'n'",
    )  # fmt: skip
    for held in (state, measured):
        bars = ModelAnswers(held)
        for text in (*texts, *texts[::-1]):
            query = parse_where(text, DOMAIN)
            assert bars.answer(query) == ModelAnswers(held).answer(query)
