"""Encoding: forms that give exactly the same values back."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pmw import encoding
from pmw.mechanism import Proposal, QueryRequest
from pmw.model import NoiseLaw
from pmw.noise import DiscreteGaussian, DiscreteLaplace
from pmw.planning import choose_filter, plan_opening, plan_query_test
from pmw.policy import Contract, Opening, Options, UpdateRule
from pmw.privacy import Budget, Charge, Composition, NeighboringRelation
from pmw.sparse_vector import NoiseKind, Sides
from queries import UNITS, Domain, LinearQuery


def through_json(form: Any) -> Any:
    return json.loads(encoding.dumps(form))


@pytest.mark.parametrize(
    "options",
    [
        Options(),
        Options(
            neighboring_relation=NeighboringRelation.REPLACE_ONE,
            records_per_person=3,
            update=UpdateRule.STEP,
            opening=Opening.NONE,
            update_limit=9,
            threshold=12.75,
            learning_rate=0.1,
            test_noise=NoiseKind.LAPLACE,
            sides=Sides.TWO_SIDED,
            redraw=False,
            composition=Composition.PURE,
            expected_queries=77,
            confidence=0.9,
            seed=5,
        ),
    ],
)
def test_a_contract_comes_back(domain: Domain, options: Options) -> None:
    contract = Contract(domain, Budget.of("0.1", "1e-7"), options)
    found = encoding.read_contract(through_json(encoding.contract_form(contract)))
    assert found == contract
    assert found.domain.name == "people"


@pytest.mark.parametrize("budget", [Budget.of(1), Budget.of(1, 1e-9)])
@pytest.mark.parametrize("opening", list(Opening))
def test_plans_come_back(domain: Domain, budget: Budget, opening: Opening) -> None:
    options = Options(opening=opening)
    ledger = choose_filter(domain, budget, options)
    plan = plan_opening(domain, ledger, options)
    assert encoding.read_opening_plan(through_json(encoding.opening_plan_form(plan))) == plan
    test = plan_query_test(domain, ledger, 1000.0, options)
    assert encoding.read_plan(through_json(encoding.plan_form(test))) == test
    assert encoding.read_plan(through_json(encoding.plan_form(None))) is None


def test_a_public_row_count_comes_back(domain: Domain) -> None:
    options = Options(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    plan = plan_opening(domain, choose_filter(domain, Budget.of(1), options), options)
    assert encoding.read_opening_plan(through_json(encoding.opening_plan_form(plan))) == plan


@pytest.mark.parametrize("noise", [DiscreteLaplace(Fraction(7, 3)), DiscreteGaussian(Fraction(10**12, 7))])
def test_a_noise_law_comes_back(noise: NoiseLaw) -> None:
    assert encoding.read_noise(through_json(encoding.noise_form(noise))) == noise


@pytest.mark.parametrize("charge", [Charge(None, Fraction(1, 3)), Charge(Fraction(2, 7), Fraction(1, 2**60))])
def test_a_charge_comes_back(charge: Charge) -> None:
    assert encoding.read_charge(*encoding.charge_form(charge)) == charge


def test_measurements_come_back(domain: Domain) -> None:
    noise = encoding.noise_form(DiscreteLaplace(Fraction(5)))
    units = np.array([3, -(2**60)])
    marginal = encoding.read_marginal(domain, ["sex"], encoding.units_bytes(units), noise)
    assert marginal.units.tolist() == [3, -(2**60)]
    query = LinearQuery.cells(domain, {"sex": (0, 0), "age": (2, 3)})
    found = encoding.read_query(
        domain, through_json(query.to_dict()), encoding.units_bytes(np.array([9, -4])), noise
    )
    assert (found.query.key(), found.units, found.model_units) == (query.key(), 9, -4)


def test_a_proposal_comes_back(domain: Domain) -> None:
    queries = tuple(LinearQuery.cells(domain, {"age": (low, low)}) for low in range(4))
    proposal = Proposal(
        queries,
        (QueryRequest(queries[1], 5 * UNITS, 7), QueryRequest(queries[3], -2, 8)),
        (1, 3),
        positives=2,
        opens_round=True,
        reserved=Charge(None, Fraction(1, 1000)),
    )
    for given in (proposal, replace(proposal, reserved=None, opens_round=False)):
        texts = [query.to_json() for query in queries]
        found = encoding.read_proposal(domain, through_json(encoding.proposal_form(given, texts)))
        assert [query.key() for query in found.queries] == [query.key() for query in queries]
        assert [(r.query.key(), r.model_units, r.threshold) for r in found.requests] == [
            (r.query.key(), r.model_units, r.threshold) for r in given.requests
        ]
        assert (found.places, found.positives, found.opens_round, found.reserved) == (
            (1, 3),
            2,
            given.opens_round,
            given.reserved,
        )
