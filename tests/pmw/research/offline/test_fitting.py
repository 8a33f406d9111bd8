"""Offline releases: what they charge, how well they fit, what they give, and what they refuse."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.data import MemorySource
from pmw.errors import BudgetError, DataError
from pmw.model.bins import CoarsenedDistribution
from pmw.model.measurement import MarginalMeasurement
from pmw.privacy.budget import gaussian_charge, pure_charge
from pmw.privacy.noise import DiscreteLaplace
from pmw.public.answer import Source
from pmw.public.charges import l1_sensitivity, l2_squared_sensitivity, query_sensitivity
from pmw.research.offline import OfflineOptions, OfflineRelease, Targets, fit_workload
from queries import Domain, IntegerAttribute, LinearQuery, QueryError, Workload, all_marginals

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


@pytest.mark.parametrize("targets", Targets)
@pytest.mark.parametrize("delta", [0, 1e-9])
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


def test_the_same_seed_gives_the_same_release_and_none_a_fresh_one(
    frame: pd.DataFrame, domain: Domain
) -> None:
    query = LinearQuery.cells(domain, {"age": (0, 4), "member": (0, 0)})
    options = [
        OfflineOptions(rounds=3, final_refits=1, policy=pmw.Options(seed=seed)) for seed in (3, 3, None, None)
    ]
    answers = [release(frame, domain, one).model.answer(query) for one in options]
    assert answers[0] == answers[1]
    assert len(set(answers)) == 3


def test_an_empty_table_and_one_of_fewer_records_than_noise_are_released(
    frame: pd.DataFrame, domain: Domain
) -> None:
    made = release(frame.head(0), domain, OfflineOptions(policy=SEEDED))
    assert made.state.total.value < 200
    assert made.ledger.spent <= made.ledger.cap
    options = OfflineOptions(rounds=4, policy=SEEDED)
    made = fit_workload(frame.head(20), domain, [domain.names], epsilon=0.05, options=options)
    assert all(len(measured.scope) < 4 for measured in made.measurements if hasattr(measured, "scope"))


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


@pytest.fixture
def made(frame: pd.DataFrame, domain: Domain) -> OfflineRelease:
    options = OfflineOptions(rounds=4, final_refits=0, policy=pmw.Options(seed=7))
    return fit_workload(frame, domain, all_marginals(domain, 1), epsilon=1, delta=1e-9, options=options)


def test_the_workload_is_answered_with_error_bars_and_other_questions_without_a_promise(
    made: OfflineRelease, frame: pd.DataFrame
) -> None:
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


def test_rows_and_measurements_are_written_with_a_manifest(made: OfflineRelease, tmp_path: Path) -> None:
    assert len(made.synthetic_records(100, seed=1)) == 100
    form = made.export(tmp_path / "rows.csv")
    assert form["rows"] == len(pd.read_csv(tmp_path / "rows.csv"))
    made.export(tmp_path / "numbers.json", format="measurements")
    assert (tmp_path / "numbers.json.manifest.json").exists()
