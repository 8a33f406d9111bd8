"""Offline releases: what they choose among, charge, give and refuse, and how well they fit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pmw
from pmw.data import MemorySource
from pmw.errors import BudgetError, DataError
from pmw.model.bins import CoarsenedDistribution
from pmw.model.measurement import MarginalMeasurement, QueryMeasurement, half_width
from pmw.privacy.budget import (
    RHO_GRID,
    Charge,
    Composition,
    NeighboringRelation,
    gaussian_charge,
    pure_charge,
)
from pmw.privacy.filter import PrivacyFilter
from pmw.privacy.noise import DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.public.answer import Source
from pmw.public.charges import l1_sensitivity, l2_squared_sensitivity, query_sensitivity
from pmw.research.offline import (
    OfflineOptions,
    OfflineRelease,
    QueryRound,
    Targets,
    TrueAnswers,
    candidates_of,
    first_schedule,
    fit_workload,
    largest_error,
    last_measured,
)
from queries import (
    UNITS,
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    LinearQuery,
    QueryError,
    ScopeError,
    Workload,
    all_marginals,
)

SEEDED = pmw.Options(seed=7)
TEXTBOOK = pmw.Options(test=pmw.TestKind.QUERY, seed=7)
CHOICES = [
    *(
        OfflineOptions(targets, final_refits=1, policy=policy)
        for targets in Targets
        for policy in (
            SEEDED,
            pmw.Options(seed=7, records_per_person=3),
            pmw.Options(seed=7, opening=pmw.Opening.NONE),
        )
    ),
    OfflineOptions(Targets.QUERY, final_refits=0, policy=replace(TEXTBOOK, update=pmw.UpdateRule.STEP)),
]


def release(
    frame: pd.DataFrame, domain: Domain, options: OfflineOptions, delta: float = 1e-9, epsilon: float = 1
) -> OfflineRelease:
    return fit_workload(
        frame, domain, all_marginals(domain, 2), epsilon=epsilon, delta=delta, options=options
    )


def workload_error(release_: OfflineRelease, frame: pd.DataFrame, domain: Domain) -> float:
    workload = all_marginals(domain, 2)
    exact = MemorySource.from_frame(frame, domain)
    errors = [
        abs(release_.model.answer(query) - query.answer(exact.counts(query.scope)) / 2**20)
        for query in workload
    ]
    return float(np.mean(errors))


@pytest.mark.parametrize("options", CHOICES)
@pytest.mark.parametrize(("rounds", "delta"), [(None, 1e-9), (4, 0)])
def test_the_budget_is_never_exceeded_and_little_is_left(
    frame: pd.DataFrame, domain: Domain, delta: float, rounds: int | None, options: OfflineOptions
) -> None:
    made = release(frame, domain, replace(options, rounds=rounds), delta)
    ledger = made.ledger
    assert sum(line.price for line in ledger.lines) == made.state.ledger.spent == ledger.spent
    assert ledger.spent <= ledger.cap
    assert ledger.share > 0.3


@pytest.mark.parametrize("targets", Targets)
@pytest.mark.parametrize("composition", [pmw.Composition.PURE, pmw.Composition.ZCDP])
def test_every_choice_and_every_measurement_is_charged_for_its_noise(
    frame: pd.DataFrame, domain: Domain, composition: pmw.Composition, targets: Targets
) -> None:
    policy = pmw.Options(seed=7, composition=composition, records_per_person=2)
    made = release(frame, domain, OfflineOptions(targets, 5, final_refits=0, policy=policy))
    lines = made.ledger.lines[1 + len(domain) :]
    measured = made.measurements[len(domain) :]
    assert [line.event for line in lines] == ["selection", lines[1].event] * 5
    options = made.state.contract.options
    for line, measurement in zip(lines[1::2], measured, strict=True):
        whole = isinstance(measurement, MarginalMeasurement)
        if isinstance(measurement.noise, DiscreteLaplace):
            l1 = l1_sensitivity(options) if whole else query_sensitivity(options)
            charge = pure_charge(l1 / measurement.noise.scale)
        else:
            l2 = l2_squared_sensitivity(options) if whole else Fraction(query_sensitivity(options) ** 2)
            charge = gaussian_charge(l2, measurement.noise.sigma)
        assert line.price == (charge.rho if composition is pmw.Composition.ZCDP else charge.epsilon)
    for line in lines[::2]:
        assert line.epsilon is not None
        bound = line.epsilon**2 / 8 if composition is pmw.Composition.ZCDP else line.epsilon
        assert bound <= line.price < bound + Fraction(1, 2**59)


@pytest.mark.parametrize(("targets", "delta"), [(Targets.MARGINAL, 1e-9), (Targets.QUERY, 0)])
def test_rounds_fit_the_workload_better_than_opening_alone(
    frame: pd.DataFrame, domain: Domain, delta: float, targets: Targets
) -> None:
    made = release(frame, domain, OfflineOptions(targets, final_refits=3, policy=SEEDED), delta, epsilon=2)
    with pmw.open_session(frame, domain, epsilon=2, delta=delta, options=TEXTBOOK) as session:
        opening = OfflineRelease(session.state, session.ledger(), ())
    assert workload_error(made, frame, domain) < 0.8 * workload_error(opening, frame, domain)


def test_marginals_of_a_domain_that_no_array_holds_are_fitted_on_a_tree() -> None:
    domain = Domain(
        (
            IntegerAttribute("age", 0, 99),
            IntegerAttribute("pay", 0, 999, 10),
            *(IntegerAttribute(f"a{n}", 0, 9) for n in range(15)),
        ),
        name="wide",
    )
    generator = np.random.default_rng(1)
    frame = pd.DataFrame({name: generator.integers(0, 10, 4000) for name in domain.names})
    frame["age"] = 5 * frame["a1"] + 3 * frame["a2"]
    frame["pay"] = 20 * frame["age"]
    pairs = [("age", "pay"), ("age", "a1"), ("age", "a2"), ("a3", "a4")]
    made = fit_workload(
        frame, domain, pairs, epsilon=4, delta=1e-9, options=OfflineOptions(rounds=6, policy=SEEDED)
    )
    assert isinstance(made.model, CoarsenedDistribution)
    assert made.ledger.spent <= made.ledger.cap
    assert ("age", "a1") in [measured.scope for measured in made.state.marginals]
    query = LinearQuery.cells(domain, {"age": (0, 4), "a1": (0, 0)})
    truth = float(((frame["age"] <= 4) & (frame["a1"] == 0)).sum())
    answer = made.answer(query)
    assert answer.interval is not None
    assert answer.interval[0] <= truth <= answer.interval[1]
    independent = len(frame) * float((frame["age"] <= 4).mean() * (frame["a1"] == 0).mean())
    assert abs(answer.count - truth) < abs(independent - truth) / 2
    assert made.answer(LinearQuery.cells(domain, {"a7": (0, 4), "a8": (0, 0)})).source is Source.EXHAUSTED


def test_what_cannot_be_is_refused_before_the_table_is_read(domain: Domain) -> None:
    large = Domain(tuple(IntegerAttribute(f"a{n}", 0, 9) for n in range(19)), name="large")
    nothing = Workload("nothing", 0, lambda: iter(()))
    questions = OfflineOptions(Targets.QUERY)
    with pytest.raises(BudgetError, match="a dense model holds at most"):
        fit_workload("no file", large, all_marginals(large, 1), epsilon=1, options=questions)
    with pytest.raises(BudgetError, match="expected epsilon > 0"):
        fit_workload("no file", domain, [("age",)], epsilon=0)
    with pytest.raises(QueryError, match="names an attribute"):
        fit_workload("no file", domain, nothing, epsilon=1)
    policy = pmw.Options(neighboring_relation=pmw.NeighboringRelation.REPLACE_ONE)
    with pytest.raises(BudgetError, match="under replace-one"):
        fit_workload("no file", domain, [("age",)], epsilon=1, options=OfflineOptions(policy=policy))
    with pytest.raises(DataError):
        fit_workload("no file", domain, [("age",)], epsilon=1)


def test_the_workload_is_answered_with_error_bars_and_other_questions_without_a_promise(
    domain: Domain, frame: pd.DataFrame
) -> None:
    options = OfflineOptions(rounds=4, final_refits=0, policy=SEEDED)
    made = fit_workload(frame, domain, all_marginals(domain, 1), epsilon=1, delta=1e-9, options=options)
    answers = made.answers()
    assert len(answers) == 20
    assert all(answer.interval is not None and answer.seeded for answer in answers)
    member = made.answer("member = TRUE")
    assert member.interval is not None
    assert member.interval[0] <= frame["member"].sum() <= member.interval[1]
    assert member.spent.share == made.ledger.share
    beside = made.answer({"age": {"ge": 40}, "sex": {"eq": "Male"}})
    assert beside.source is Source.EXHAUSTED
    assert beside.count > 0
    other = Domain((IntegerAttribute("age", 0, 9),), name="other")
    with pytest.raises(QueryError, match="another domain"):
        made.answer(LinearQuery.everything(other))
    assert repr(made).startswith("OfflineRelease('people', 8 measurements, Charged: ")
    assert made.model is made.state.model


# --- what rounds choose among, and what they may cost -------------------------------------------------------


def test_scopes_are_closed_downwards_and_questions_are_kept_once(domain: Domain) -> None:
    found = candidates_of(domain, [("sex", "age"), ("region",)], Targets.MARGINAL)
    assert found == ((("age",), ("region",), ("sex",), ("age", "sex")), ())
    assert candidates_of(domain, ["sex"], Targets.MARGINAL)[0] == (("sex",),)  # a name alone is a scope
    query = LinearQuery.cells(domain, {"age": (0, 3), "member": (0, 0)})
    again = LinearQuery.cells(domain, {"member": (0, 0), "age": (0, 3)})
    scopes, queries = candidates_of(domain, [query, again], Targets.MARGINAL)
    assert (scopes, len(queries)) == ((("age",), ("member",), ("age", "member")), 1)
    scopes, queries = candidates_of(domain, all_marginals(domain, 1), Targets.QUERY)
    assert (len(queries), scopes) == (20, ())


def test_a_workload_that_cannot_be_is_refused(domain: Domain) -> None:
    other = Domain((IntegerAttribute("age", 0, 9),), name="other")
    wide = Domain(tuple(IntegerAttribute(f"a{n}", 0, 1) for n in range(18)), name="wide")
    with pytest.raises(QueryError, match="names an attribute"):
        candidates_of(domain, [LinearQuery.everything(domain)], Targets.MARGINAL)
    with pytest.raises(QueryError, match="questions to choose among"):
        candidates_of(domain, [("age",)], Targets.QUERY)
    with pytest.raises(QueryError, match="another domain"):
        candidates_of(domain, [LinearQuery.everything(other)], Targets.MARGINAL)
    with pytest.raises(QueryError, match="at most 16 attributes, got one of 17"):
        candidates_of(wide, [wide.names[:17]], Targets.MARGINAL)
    with pytest.raises(QueryError, match="at most 100,000 scopes"):
        candidates_of(wide, [wide.names[:16], wide.names[2:]], Targets.MARGINAL)
    with pytest.raises(ScopeError, match="nothing"):
        candidates_of(domain, [("nothing",)], Targets.MARGINAL)


CAP = Fraction(149731, 10**7)


def spend(budget_filter: PrivacyFilter, price: Fraction) -> PrivacyFilter:
    return budget_filter.charge(Charge(price, price))


@given(st.integers(1, 200), st.fractions(min_value="1/100", max_value="99/100"))
def test_a_fixed_number_of_rounds_shares_the_budget_and_leaves_nothing(rounds: int, share: Fraction) -> None:
    budget_filter = PrivacyFilter(Composition.ZCDP, CAP)
    schedule = first_schedule(budget_filter, 7, OfflineOptions(rounds=rounds, selection_share=share))
    for number in range(rounds):
        assert schedule.is_last(budget_filter) == (number == rounds - 1)
        budget_filter = spend(budget_filter, sum(schedule.prices(budget_filter), Fraction(0)))
        schedule = schedule.after(paid=True)
    assert 0 <= budget_filter.remaining < Fraction(1, RHO_GRID)


@given(st.lists(st.booleans(), min_size=60, max_size=60))
def test_growing_prices_never_exceed_the_budget_and_use_it_up(paid: list[bool]) -> None:
    budget_filter = PrivacyFilter(Composition.PURE, Fraction(1))
    schedule = first_schedule(budget_filter, 5, OfflineOptions())
    for moved in paid:
        last = schedule.is_last(budget_filter)
        budget_filter = spend(budget_filter, sum(schedule.prices(budget_filter), Fraction(0)))
        if last:
            break
        grown = schedule.after(paid=moved)
        assert grown.price == (schedule.price if moved else 2 * schedule.price)
        schedule = grown
    assert 0 <= budget_filter.remaining < Fraction(1, RHO_GRID)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("selection_share", [Fraction(0), Fraction(1), Fraction(-1, 2), 0.1]),
        ("final_refits", [-1, True, 10**4 + 1]),
        ("rounds", [0, -1, True, 10**6 + 1]),
    ],
)
def test_a_choice_that_cannot_be_is_refused(name: str, values: list[object]) -> None:
    for value in values:
        with pytest.raises(BudgetError, match=f"expected (a )?{name}"):
            OfflineOptions(**{name: value})  # type: ignore[arg-type]


# --- the early stop: what it looks at, what it charges, and that the whole release keeps its price ----------

# The number of records is public, so that rounds are all that is drawn.
DOMAIN = Domain((CategoricalAttribute("a", ("s", "t"), missing=True, other=True),), name="people")
QUERIES = tuple(LinearQuery.cells(DOMAIN, {"a": (cell, cell)}) for cell in (0, 1))
TABLES = [pd.DataFrame({"a": ["s"] * some + ["t"] * (6 - some)}) for some in (4, 3)]
ROUNDS, THRESHOLD, EPSILON = 3, 1.0, Fraction(3)
OUTCOMES = tuple(itertools.product((0, 1), (-4.0, 2.5, 6.0)))  # the choice, and the noisy answer
POLICY = pmw.Options(neighboring_relation=NeighboringRelation.REPLACE_ONE, seed=1)


class Script:
    """Draws what it is told, and keeps the exact probability of that on the table."""

    def __init__(self, outcomes: tuple[tuple[int, float], ...]) -> None:
        self.left: Iterator[tuple[int, float]] = iter(outcomes)
        self.log_probability = 0.0
        self.drawn = 0

    def __call__(self, proposal: QueryRound, truth: TrueAnswers, bits: BitSource) -> QueryMeasurement:
        place, count = next(self.left)
        qualities = np.abs(truth.units - proposal.model_units)
        units, noise = round(count * UNITS), proposal.noise
        assert isinstance(noise, DiscreteLaplace)
        self.log_probability += math.log(proposal.selection.probabilities(qualities)[place])
        rate = 1 / float(noise.scale)
        self.log_probability += math.log(math.tanh(rate / 2)) - rate * abs(units - int(truth.units[place]))
        self.drawn += 1
        return QueryMeasurement(proposal.queries[place], units, noise, int(proposal.model_units[place]))


def played(
    monkeypatch: pytest.MonkeyPatch, table: pd.DataFrame, outcomes: tuple[tuple[int, float], ...]
) -> tuple[OfflineRelease, Script]:
    script = Script(outcomes)
    monkeypatch.setattr("pmw.research.offline.draw_query", script)
    options = OfflineOptions.textbook(rounds=ROUNDS, threshold=THRESHOLD, policy=POLICY)
    return fit_workload(table, DOMAIN, QUERIES, epsilon=EPSILON, options=options), script


def test_every_output_of_the_release_keeps_the_charged_price_and_stops_alike_on_neighbours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worst, ended = dict[int, float](), set[tuple[tuple[int, float], ...]]()
    for outcomes in itertools.product(OUTCOMES, repeat=ROUNDS):
        if not ended.isdisjoint(outcomes[:drawn] for drawn in range(ROUNDS)):
            continue  # what would be drawn after a stop makes no other output
        (one, first), (other, second) = (played(monkeypatch, table, outcomes) for table in TABLES)
        assert first.drawn == second.drawn == len(one.measurements)
        assert [line.price for line in one.ledger.lines] == [line.price for line in other.ledger.lines]
        assert one.model.answer(QUERIES[0]) == other.model.answer(QUERIES[0])
        charged = float(sum(line.price for line in one.ledger.lines))
        loss = abs(first.log_probability - second.log_probability)
        assert loss <= charged * (1 + 1e-9)
        ended.add(outcomes[: first.drawn])
        worst[first.drawn] = max(worst.get(first.drawn, 0.0), loss / charged)
    assert set(worst) == {1, 2, 3}
    assert max(worst.values()) > 0.7  # nor is the price much too high


def test_a_round_that_ends_the_release_is_charged_and_does_not_move_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The uniform model has 1.5 records in each cell: an error of exactly T is small, a grain more is not.
    small, script = played(monkeypatch, TABLES[0], ((0, 2.5),))
    assert script.drawn == 1
    assert small.model.answer(QUERIES[0]) == pytest.approx(1.5)
    assert [line.event for line in small.ledger.lines] == ["selection", "measurement"]
    assert small.ledger.lines[-1].running_share == pytest.approx(1 / ROUNDS, abs=1e-6)
    assert small.state.ledger.spent == sum(line.price for line in small.ledger.lines)
    _, script = played(monkeypatch, TABLES[0], ((0, 2.5 + 1 / UNITS), (0, 40.0), (0, 40.0)))
    assert script.drawn == 3
    bound = 1 + half_width(small.state.measured[0].noise, 0.975) + 2 * math.log(4 / 0.05) / 0.5
    assert largest_error(small) == pytest.approx(bound, rel=1e-6)
    large, _ = played(monkeypatch, TABLES[0], ((0, 6.0), (0, 40.0), (0, 40.0)))
    assert large.model.answer(QUERIES[0]) > 2.0
    assert large.ledger.lines[-1].running_share == pytest.approx(1, abs=1e-6)


@pytest.mark.statistical
def test_after_a_stop_no_question_is_further_off_than_the_bound(frame: pd.DataFrame, domain: Domain) -> None:
    workload = list(all_marginals(domain, 1))
    source = MemorySource.from_frame(frame, domain)
    truth = [query.answer(source.counts(query.scope)) / UNITS for query in workload]
    failed = stopped = 0
    for seed in range(40):
        options = OfflineOptions.textbook(rounds=60, threshold=400.0, policy=pmw.Options(seed=seed))
        release = fit_workload(frame, domain, workload, epsilon=4, delta=1e-9, options=options)
        last = last_measured(release)
        if abs(last.units - last.model_units) > 400 * UNITS:
            continue
        stopped += 1
        answers = [release.model.answer(query) for query in workload]
        failed += max(np.abs(np.subtract(answers, truth))) > largest_error(release)
    assert stopped >= 20
    assert failed <= 6  # 5 % of 40, and chance


def test_what_an_early_stop_has_no_use_for_is_refused() -> None:
    with pytest.raises(BudgetError, match="early_stop goes with targets = query and a number of rounds"):
        OfflineOptions(Targets.MARGINAL, 5, early_stop=True)
    with pytest.raises(BudgetError, match="early_stop goes with"):
        replace(OfflineOptions.textbook(rounds=5), rounds=None)
    with pytest.raises(BudgetError, match="threshold is for sessions"):
        replace(OfflineOptions.textbook(rounds=5, threshold=3.0), early_stop=False)
    with pytest.raises(BudgetError, match="expected a positive threshold"):
        OfflineOptions.textbook(rounds=5, threshold=-1.0)
    options = OfflineOptions.textbook(rounds=5, policy=POLICY)
    with pytest.raises(QueryError, match="at least two different questions to choose among, got one"):
        fit_workload(TABLES[0], DOMAIN, [QUERIES[0], QUERIES[0]], epsilon=1, options=options)
