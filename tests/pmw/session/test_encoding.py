"""Encoding: forms that give exactly the same values back."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pmw.loop import MarginalRequest, Proposal, QueryRequest
from pmw.model import Coarsening, NoiseDistribution
from pmw.planning.opened import plan_test
from pmw.planning.opening import choose_filter, plan_opening
from pmw.planning.questions import plan_query_test
from pmw.privacy.budget import Budget, Charge, Composition, NeighboringRelation
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.public.contract import Contract, Opening, Options, TestKind, UpdateRule
from pmw.session import encoding, measurement_rows, proposals
from pmw.sparse_vector import Sides, SparseVectorKind
from queries import UNITS, CategoricalAttribute, Domain, LinearQuery


def through_json(form: Any) -> Any:
    return json.loads(encoding.dumps(form))


@pytest.mark.parametrize(
    "options",
    [
        Options(test=TestKind.QUERY),
        Options(
            test=TestKind.QUERY,
            neighboring_relation=NeighboringRelation.REPLACE_ONE,
            records_per_person=3,
            update=UpdateRule.STEP,
            opening=Opening.NONE,
            update_limit=9,
            threshold=12.75,
            learning_rate=0.1,
            sides=Sides.TWO_SIDED,
            sparse_vector=SparseVectorKind.LAPLACE,
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
    options = Options(test=TestKind.QUERY, opening=opening)
    ledger = choose_filter(domain, budget, options)
    plan = plan_opening(domain, ledger, options)
    assert encoding.read_opening_plan(through_json(encoding.opening_plan_form(plan))) == plan
    test = plan_query_test(domain, ledger, 1000.0, options)
    assert test is not None
    for tiers in ((), (test,)):
        assert encoding.read_plan(through_json(encoding.plan_form(tiers))) == tiers


@pytest.mark.parametrize("budget", [Budget.of(1), Budget.of(1, 1e-9)])
def test_trees_come_back(long_domain: Domain, budget: Budget) -> None:
    plan = plan_opening(
        long_domain,
        choose_filter(long_domain, budget, Options(test=TestKind.QUERY)),
        Options(test=TestKind.QUERY),
    )
    assert list(plan.trees) == ["income"]
    form = through_json(encoding.opening_plan_form(plan))
    assert encoding.read_opening_plan(form) == plan
    del form["trees"]  # as files had it before there were any
    assert encoding.read_opening_plan(form).trees == {}


def test_a_public_row_count_comes_back(domain: Domain) -> None:
    options = Options(test=TestKind.QUERY, neighboring_relation=NeighboringRelation.REPLACE_ONE)
    plan = plan_opening(domain, choose_filter(domain, Budget.of(1), options), options)
    assert encoding.read_opening_plan(through_json(encoding.opening_plan_form(plan))) == plan


@pytest.mark.parametrize("noise", [DiscreteLaplace(Fraction(7, 3)), DiscreteGaussian(Fraction(10**12, 7))])
def test_a_noise_distribution_comes_back(noise: NoiseDistribution) -> None:
    assert encoding.read_noise(through_json(encoding.noise_form(noise))) == noise


@pytest.mark.parametrize("charge", [Charge(None, Fraction(1, 3)), Charge(Fraction(2, 7), Fraction(1, 2**60))])
def test_a_charge_comes_back(charge: Charge) -> None:
    assert encoding.read_charge(*encoding.charge_form(charge)) == charge


def test_measurements_come_back(domain: Domain) -> None:
    noise = encoding.noise_form(DiscreteLaplace(Fraction(5)))
    units = np.array([3, -(2**60)])
    marginal = measurement_rows.read_marginal(domain, ["sex"], measurement_rows.units_bytes(units), noise)
    assert marginal.units.tolist() == [3, -(2**60)]
    query = LinearQuery.cells(domain, {"sex": (0, 0), "age": (2, 3)})
    found = measurement_rows.read_query(
        domain, through_json(query.to_dict()), measurement_rows.units_bytes(np.array([9, -4])), noise
    )
    assert (found.query.key(), found.units, found.model_units) == (query.key(), 9, -4)


def request_facts(request: QueryRequest | MarginalRequest) -> tuple[Any, ...]:
    if isinstance(request, QueryRequest):
        return request.query.key(), request.model_units, request.threshold
    return request.scope, request.model_units.tolist(), request.threshold, request.measured


def test_a_proposal_comes_back(domain: Domain) -> None:
    queries = tuple(LinearQuery.cells(domain, {"age": (low, low)}) for low in range(4))
    proposal = Proposal(
        queries,
        1,
        (QueryRequest(queries[1], 5 * UNITS, 7), QueryRequest(queries[3], -2, 8)),
        (0, 1, 1, 2),
        positives=2,
        opens_round=True,
        reserved=Charge(None, Fraction(1, 1000)),
    )
    for given in (proposal, replace(proposal, reserved=None, opens_round=False)):
        texts = [query.to_json() for query in queries]
        found = proposals.read_proposal(
            Coarsening.identity(domain), through_json(proposals.proposal_form(given, texts))
        )
        assert [query.key() for query in found.queries] == [query.key() for query in queries]
        assert [request_facts(r) for r in found.requests] == [request_facts(r) for r in given.requests]
        assert (found.tier, found.needs, found.positives, found.opens_round, found.reserved) == (
            1,
            (0, 1, 1, 2),
            2,
            given.opens_round,
            given.reserved,
        )


@pytest.mark.parametrize(
    ("noise", "redraw", "composition", "expected"),
    [
        ("exponential", None, Composition.ZCDP, SparseVectorKind.EXPONENTIAL_ROUNDS),
        ("exponential", None, Composition.PURE, SparseVectorKind.EXPONENTIAL),
        ("exponential", False, Composition.ZCDP, SparseVectorKind.EXPONENTIAL),
        ("laplace", True, Composition.PURE, SparseVectorKind.LAPLACE_ROUNDS),
        ("laplace", False, Composition.PURE, SparseVectorKind.LAPLACE),
    ],
)
def test_older_contracts_name_the_parts_of_their_sparse_vector(
    domain: Domain, noise: str, redraw: bool | None, composition: Composition, expected: SparseVectorKind
) -> None:
    options = Options(test=TestKind.QUERY, composition=composition)
    form = through_json(encoding.contract_form(Contract(domain, Budget.of(1, 1e-9), options)))
    del form["options"]["sparse_vector"]
    form["options"] |= {"test_noise": noise, "redraw": redraw}
    read = encoding.read_contract(form).options
    assert read == replace(options, sparse_vector=expected)
    assert read.chosen_sparse_vector(composition) is expected


def test_the_tiers_of_a_plan_come_back_in_order() -> None:
    wide = Domain(tuple(CategoricalAttribute(name, tuple("abcdefgh")) for name in "uvwxyz"))
    options = Options()
    contract = Contract(wide, Budget.of(1, 1e-9), options)
    ledger = choose_filter(wide, contract.budget, options)
    plan = plan_test(contract, plan_opening(wide, ledger, options), ledger, 10_000.0)
    assert [tier.tested for tier in plan] == ["marginals", "questions"]
    assert encoding.read_plan(through_json(encoding.plan_form(plan))) == plan
