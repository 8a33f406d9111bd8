"""Rounds of a release: a choice is as sharp as its price allows for what one person changes, no sharper."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy import stats

import pmw
import pmw.research.offline
from pmw.data import MemorySource
from pmw.loop import draw_opening, settle_opening
from pmw.model import DenseDistribution, QueryMeasurement
from pmw.planning.opening import choose_filter, plan_opening
from pmw.privacy.budget import Budget, Composition, NeighboringRelation
from pmw.privacy.noise import DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.public.contract import Contract
from pmw.public.options import Opening, Options, TestKind
from pmw.public.state import PublicState
from pmw.research.offline.draws import TrueAnswers, draw_marginal, draw_query
from pmw.research.offline.options import RoundPrices
from pmw.research.offline.rounds import (
    MarginalRound,
    QueryRound,
    expected_noise,
    propose_marginal,
    propose_query,
    round_charges,
)
from queries import UNITS, CategoricalAttribute, Domain, LinearQuery

DOMAIN = Domain(tuple(CategoricalAttribute(name, ("s", "t")) for name in "abc"), name="people")
SCOPES = (("a",), ("b",), ("a", "b"))
QUERIES = tuple(LinearQuery.cells(DOMAIN, {name: (0, 0)}) for name in "abc")
PRICES = RoundPrices(Fraction(1, 16), Fraction(1, 8))
RELATIONS = list(NeighboringRelation)
WRONG = [Fraction(10, 13), Fraction(13, 10)]


def people(*rows: tuple[str, int]) -> pd.DataFrame:
    """Return a table of values of a, b and c, each so many times."""
    return pd.DataFrame([list(values) for values, times in rows for _ in range(times)], columns=list("abc"))


TABLE = people(("sst", 18), ("tss", 10), ("stt", 12), ("ttt", 6))


def state_of(relation: NeighboringRelation, composition: Composition = Composition.PURE) -> PublicState:
    """Return the state of a release after nothing was measured, where a person has up to three records."""
    options = Options(
        test=TestKind.QUERY, opening=Opening.NONE, composition=composition,
        neighboring_relation=relation, records_per_person=3,
    )  # fmt: skip
    budget = Budget.of(4, 1e-9)
    contract, ledger = Contract(DOMAIN, budget, options), choose_filter(DOMAIN, budget, options)
    plan = plan_opening(DOMAIN, ledger, options)
    draws = draw_opening(plan, MemorySource.from_frame(TABLE, DOMAIN), BitSource.from_integer(1))
    return settle_opening(contract, plan, draws, ledger, ())


def marginal_round(state: PublicState) -> MarginalRound:
    """Return a round over all scopes, against a model of 46 records."""
    # Of so few records noise would leave no scope worth its price.
    many = replace(state, total=replace(state.total, value=1e6))
    proposal = propose_marginal(many, SCOPES, PRICES)
    assert proposal is not None
    assert proposal.scopes == SCOPES
    return replace(proposal, model=DenseDistribution.uniform(DOMAIN, 46.0))


def marginal_qualities(frame: pd.DataFrame, proposal: MarginalRound) -> NDArray[np.int64]:
    """Return the qualities by their formula, in units."""
    source, found = MemorySource.from_frame(frame, DOMAIN), []
    for scope in proposal.scopes:
        counts = source.counts(scope).counts
        distance = np.abs(counts * UNITS - np.rint(proposal.model.marginal(scope) * UNITS)).sum()
        found.append(int(distance) - math.ceil(expected_noise(proposal.noise) * counts.size))
    return np.array(found, dtype=np.int64)


def distribution(qualities: NDArray[np.int64], epsilon: float, moved: float) -> NDArray[np.float64]:
    """Return the exponential mechanism's distribution; a person moves a quality by so many records."""
    weights = np.exp(epsilon * (qualities - qualities.max()) / (2 * moved * UNITS))
    found: NDArray[np.float64] = weights / weights.sum()
    return found


def agrees(places: list[int], expected: NDArray[np.float64]) -> bool:
    found = np.bincount(places, minlength=len(expected))
    return bool(stats.chisquare(found, expected * len(places)).pvalue > 1e-4)


def moved_in(relation: NeighboringRelation, *, marginal: bool) -> int:
    """Return the records by which one person of three records moves a quality."""
    return 6 if marginal and relation is NeighboringRelation.REPLACE_ONE else 3


@pytest.mark.statistical
@pytest.mark.parametrize("relation", RELATIONS)
def test_marginals_are_chosen_by_the_distribution_for_all_the_records_of_one_person(
    relation: NeighboringRelation,
) -> None:
    proposal = marginal_round(state_of(relation))
    source, bits = MemorySource.from_frame(TABLE, DOMAIN), BitSource.from_integer(3)
    sharper = replace(
        proposal,
        selection=replace(proposal.selection, epsilon=Fraction(4)),
        noise=DiscreteLaplace(Fraction(1)),  # which is taken off a quality, and hides nothing
    )
    places = [SCOPES.index(draw_marginal(sharper, source, bits).scope) for _ in range(1000)]
    qualities, moved = marginal_qualities(TABLE, sharper), moved_in(relation, marginal=True)
    assert agrees(places, distribution(qualities, 4.0, moved))
    for wrong in (1, moved / 2, 2 * moved):
        assert not agrees(places, distribution(qualities, 4.0, wrong))


@pytest.mark.statistical
@pytest.mark.parametrize("relation", RELATIONS)
def test_questions_are_chosen_by_the_distribution_for_all_the_records_of_one_person(
    relation: NeighboringRelation,
) -> None:
    proposal = propose_query(state_of(relation), QUERIES, RoundPrices(Fraction(2), Fraction(1)))
    assert proposal is not None
    assert proposal.selection.epsilon == 2
    model = np.array([34, 30, 3], dtype=np.int64) * UNITS
    proposal = QueryRound(QUERIES, model, proposal.selection, proposal.noise)
    source, bits = MemorySource.from_frame(TABLE, DOMAIN), BitSource.from_integer(3)
    truth = TrueAnswers(source, QUERIES)
    places = [QUERIES.index(draw_query(proposal, truth, bits).query) for _ in range(3000)]
    qualities = np.abs(np.array([30, 28, 10]) * UNITS - model)
    assert agrees(places, distribution(qualities, 2.0, moved_in(relation, marginal=False)))
    for wrong in (1, 6):
        assert not agrees(places, distribution(qualities, 2.0, wrong))


@pytest.mark.parametrize("composition", [Composition.PURE, Composition.ZCDP])
@pytest.mark.parametrize("relation", RELATIONS)
def test_no_person_changes_the_odds_of_a_choice_by_more_than_its_price(
    relation: NeighboringRelation, composition: Composition
) -> None:
    state = state_of(relation, composition)
    marginals, questions = marginal_round(state), propose_query(state, QUERIES, PRICES)
    assert questions is not None
    epsilons = []
    for proposal in (marginals, questions):
        charge, _ = round_charges(proposal, state.contract.options)
        assert charge.epsilon is not None
        assert state.ledger.price(charge) <= PRICES.selection
        assert state.ledger.price(charge) > PRICES.selection * Fraction(99, 100)
        epsilons.append(float(charge.epsilon))
    base, answers = marginal_qualities(TABLE, marginals), np.array([30, 28, 10]) * UNITS
    model = answers + np.array([20, -20, 20]) * UNITS  # so that one quality rises where another falls
    found = [0.0, 0.0]
    for gone, come in itertools.product(("sst", "stt", "tss"), ("sst", "tss", "tts")):
        leaving = TABLE.index[TABLE.eq(list(gone)).all(axis=1)][:3]
        other = TABLE.drop(index=leaving)
        if relation is NeighboringRelation.REPLACE_ONE:
            other = pd.concat([other, people((come, 3))], ignore_index=True)
        units = TrueAnswers(MemorySource.from_frame(other, DOMAIN), QUERIES).units
        for place, selection, qualities in (
            (0, marginals.selection, (base, marginal_qualities(other, marginals))),
            (1, questions.selection, (np.abs(answers - model), np.abs(units - model))),
        ):
            here, there = (np.log(selection.probabilities(each)) for each in qualities)
            found[place] = max(found[place], float(np.ptp(here - there)))
    assert found == pytest.approx(epsilons, rel=1e-5)  # attained, and never exceeded


@pytest.mark.parametrize("composition", [Composition.PURE, Composition.ZCDP])
@pytest.mark.parametrize("relation", RELATIONS)
def test_a_measurement_has_the_noise_that_its_price_allows_for_all_the_records_of_one_person(
    relation: NeighboringRelation, composition: Composition
) -> None:
    state = state_of(relation, composition)
    moves = 2 if relation is NeighboringRelation.REPLACE_ONE else 1
    questions = propose_query(state, QUERIES, PRICES)
    assert questions is not None
    for proposal, cells in ((marginal_round(state), moves), (questions, 1)):
        _, charge = round_charges(proposal, state.contract.options)
        if composition is Composition.PURE:
            scale = proposal.noise.scale  # type: ignore[union-attr]
            price = Fraction(cells * 3 * UNITS) / scale
            assert charge.epsilon == price
        else:
            sigma = proposal.noise.sigma  # type: ignore[union-attr]
            price = Fraction(cells * (3 * UNITS) ** 2) / (2 * sigma**2)
            assert price <= charge.rho < price + Fraction(1, 2**59)
        assert PRICES.measurement * Fraction(99, 100) < price <= PRICES.measurement


@pytest.mark.parametrize("targets", list(pmw.research.offline.Targets))
def test_no_noise_of_a_release_comes_twice(
    targets: pmw.research.offline.Targets, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources: list[BitSource] = []

    def noting(seed: bytes) -> BitSource:
        sources.append(BitSource(seed))
        return sources[-1]

    monkeypatch.setattr("pmw.research.offline.fitting.BitSource", noting)
    table = MemorySource.from_frame(TABLE, DOMAIN)
    options = pmw.research.offline.OfflineOptions(targets, 4, final_refits=0)
    releases = [
        pmw.fit_workload(TABLE, DOMAIN, QUERIES, epsilon=1, options=options).measurements for _ in range(2)
    ]
    assert len(sources) == 2  # one for all the draws of each
    scores: list[float] = []
    for measurement in itertools.chain(*releases):
        units = np.atleast_1d(np.asarray(measurement.units, dtype=np.float64))
        if isinstance(measurement, QueryMeasurement):
            true = np.array([measurement.query.answer(table.counts(measurement.query.scope))])
        else:
            true = table.counts(measurement.scope).counts * UNITS
        scale = measurement.noise.scale  # type: ignore[union-attr]
        scores += ((units - true) / float(scale)).ravel().tolist()
    # In scales of its distribution, a draw is hardly ever another one again.
    assert len(np.unique(np.round(np.abs(scores), 5))) > 0.97 * len(scores)
