"""Rounds of a release: a choice is as sharp as its price allows for what one person changes, no sharper."""

from __future__ import annotations

import copy
import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import pmw
import pmw.research.offline
from pmw.data import MemorySource
from pmw.errors import DataError
from pmw.loop.untested import draw_opening, settle_opening
from pmw.model.dense import DenseDistribution
from pmw.planning.opening import choose_filter, plan_opening
from pmw.privacy.budget import Budget, Composition, NeighboringRelation
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.privacy.random_bits import BitSource
from pmw.privacy.selection import ExponentialMechanism
from pmw.privacy.tail_bounds import l1_mean
from pmw.public.contract import Contract
from pmw.public.options import Opening, Options, TestKind
from pmw.public.state import PublicState
from pmw.research.offline import (
    MarginalRound,
    QueryRound,
    RoundPrices,
    TrueAnswers,
    draw_marginal,
    draw_query,
    propose_marginal,
    propose_query,
    round_charges,
)
from queries import UNITS, CategoricalAttribute, Domain, LinearQuery
from tests.worlds import known

DOMAIN = Domain(tuple(CategoricalAttribute(name, ("s", "t")) for name in "abc"), name="people")
SCOPES = (("a",), ("b",), ("a", "b"))
QUERIES = tuple(LinearQuery.cells(DOMAIN, {name: (0, 0)}) for name in "abc")
PRICES = RoundPrices(Fraction(1, 16), Fraction(1, 8))
RELATIONS = list(NeighboringRelation)


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
    proposal = known(propose_marginal(many, SCOPES, PRICES))
    assert proposal.scopes == SCOPES
    return replace(proposal, model=DenseDistribution.uniform(DOMAIN, 46.0))


def marginal_qualities(frame: pd.DataFrame, proposal: MarginalRound) -> NDArray[np.int64]:
    """Return the L1 distance of each scope's counts from the model's, less the noise to expect, in units."""
    source, found = MemorySource.from_frame(frame, DOMAIN), []
    for scope in proposal.scopes:
        counts = source.counts(scope).counts
        distance = np.abs(counts * UNITS - np.rint(proposal.model.marginal(scope) * UNITS)).sum()
        found.append(int(distance) - math.ceil(l1_mean(proposal.noise) * UNITS * counts.size))
    return np.array(found, dtype=np.int64)


@pytest.mark.parametrize("make", [DiscreteLaplace, DiscreteGaussian])
def test_a_choice_and_then_every_number_have_draws_of_their_own(
    make: type[DiscreteLaplace | DiscreteGaussian],
) -> None:
    source, bits, again = MemorySource.from_frame(TABLE, DOMAIN), *(BitSource.from_integer(6) for _ in "ab")
    noise, selection = make(Fraction(4 * UNITS)), ExponentialMechanism(UNITS, Fraction(1, 20))
    marginal = MarginalRound(SCOPES, DenseDistribution.uniform(DOMAIN, 46.0), selection, noise)
    truth, model = TrueAnswers(source, QUERIES), np.array([34, 30, 3], dtype=np.int64) * UNITS
    chosen = set()
    for _ in range(80):
        measured = draw_marginal(marginal, source, bits)
        scope = SCOPES[selection.select(marginal_qualities(TABLE, marginal), again)]
        counts = source.counts(scope).counts
        assert measured.scope == scope
        errors = (measured.units - counts * UNITS).ravel()
        assert np.array_equal(errors, noise.sample_array(again, counts.size))
        answer = draw_query(QueryRound(QUERIES, model, selection, noise), truth, bits)
        place = selection.select(np.abs(np.array([30, 28, 10]) * UNITS - model), again)
        assert answer.query is QUERIES[place]
        assert answer.units == truth.units[place] + noise.sample(again)
        assert answer.model_units == model[place]
        chosen |= {scope, place}
    assert chosen == {*SCOPES, 0, 1, 2}  # so blunt a choice takes all of them
    assert bits.take(8) == again.take(8)


def test_true_answers_are_not_shown_or_copied() -> None:
    truth = TrueAnswers(MemorySource.from_frame(TABLE, DOMAIN), QUERIES)
    assert repr(truth) == "TrueAnswers(not shown)"
    with pytest.raises(DataError, match="cannot be copied"):
        copy.copy(truth)


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
        assert state.ledger.price(charge) <= PRICES[0]
        assert state.ledger.price(charge) > PRICES[0] * Fraction(99, 100)
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
    questions = known(propose_query(state, QUERIES, PRICES))
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
        assert PRICES[1] * Fraction(99, 100) < price <= PRICES[1]


@pytest.mark.parametrize("targets", list(pmw.research.offline.Targets))
def test_no_noise_of_a_release_comes_twice(
    targets: pmw.research.offline.Targets, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources: list[BitSource] = []

    def noting(seed: bytes) -> BitSource:
        sources.append(BitSource(seed))
        return sources[-1]

    monkeypatch.setattr("pmw.research.offline.BitSource", noting)
    options = pmw.research.offline.OfflineOptions(targets, 4, final_refits=0)
    for _ in range(2):
        pmw.fit_workload(TABLE, DOMAIN, QUERIES, epsilon=1, options=options)
    one, other = sources  # each draws all its noise from bits of its own, one after the other
    assert one.take(32) != other.take(32)
