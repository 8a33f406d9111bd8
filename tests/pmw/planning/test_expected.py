"""Expected questions at opening: half of what is measured goes by them, and nothing else changes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import pmw
from pmw.model.estimate import noise_variance
from pmw.planning.error_quantiles import reserved_share
from pmw.planning.opening import EXPECTED_SHARE, Opened, Part, open_contract, opening_releases, plan_opened
from pmw.privacy.budget import Budget
from pmw.privacy.filter import open_filter
from pmw.public.charges import marginal_charge
from pmw.public.contract import Contract
from pmw.public.options import ExpectedQuestions
from pmw.public.plans import MarginalTestPlan, OpeningPlan, marginal_tier
from queries import CategoricalAttribute, Domain, IntegerAttribute
from tests.worlds import known

DOMAIN = Domain(
    (
        IntegerAttribute("age", 0, 89),
        IntegerAttribute("hours", 0, 39),
        CategoricalAttribute("job", tuple("abcdefgh")),
        CategoricalAttribute("sex", ("f", "m")),
        IntegerAttribute("rooms", 1, 12),
        CategoricalAttribute("region", tuple("nesw")),
    )
)
BUDGET = Budget.of(1, "1e-9")
RECORDS = 50_000.0
PAIRS = list(itertools.combinations(DOMAIN.names, 2))
SCOPES = [scope for order in range(9) for scope in itertools.combinations(DOMAIN.names, order)]
ASKED = st.dictionaries(st.sampled_from(SCOPES), st.integers(1, 10_000), min_size=1, max_size=8)
OPENINGS = st.sampled_from(["pairs", "triples"])


def expected(asked: Mapping[tuple[str, ...], int]) -> ExpectedQuestions:
    scopes = tuple(sorted(asked))
    return ExpectedQuestions(scopes, tuple(asked[scope] for scope in scopes), "0" * 64)


def opened(
    asked: Mapping[tuple[str, ...], int] | None, opening: str = "pairs", **choices: object
) -> tuple[Contract, OpeningPlan, Opened, MarginalTestPlan]:
    """Return what a session would open with, of questions that are expected; of none where that is None."""
    options = pmw.Options(opening=opening, expected=None if asked is None else expected(asked), **choices)  # type: ignore[arg-type]
    contract, plan = open_contract(DOMAIN, BUDGET, options)
    found = plan_opened(contract, plan, RECORDS)
    tier = known(marginal_tier(found.test))
    return contract, plan, found, tier


def weights(contract: Contract) -> dict[tuple[Part, int], Fraction]:
    composition = known(contract.options.composition)
    ledger = open_filter(contract.budget, composition)
    releases = opening_releases(contract.domain, ledger, contract.options)
    return {(one.part, place): one.weight for place, one in enumerate(releases)}


@given(ASKED, OPENINGS)
def test_shares_sum_to_one_and_none_of_what_is_measured_loses_more_than_half(
    asked: dict[tuple[str, ...], int], opening: str
) -> None:
    found, usual = weights(opened(asked, opening)[0]), weights(opened(None, opening)[0])
    assert sum(found.values()) == sum(usual.values()) == 1
    assert found.keys() == usual.keys()
    for (part, place), weight in found.items():
        if part in (Part.RECORDS, Part.ATTRIBUTE, Part.WIDER):
            assert weight >= usual[part, place] * (1 - EXPECTED_SHARE)
        else:
            assert weight == usual[part, place]


@given(ASKED, OPENINGS)
@example({("age", "hours"): 1}, "pairs")
@example({SCOPES[-1]: 3, ("sex",): 1}, "triples")
def test_all_that_is_measured_before_any_question_costs_what_opening_has(
    asked: dict[tuple[str, ...], int], opening: str
) -> None:
    contract, _, found, tier = opened(asked, opening)
    price = sum(
        (
            found.ledger.price(marginal_charge(tier.noise_of(scope), contract.options))
            for order in range(2, tier.order + 1)
            for scope in itertools.combinations(DOMAIN.names, order)
        ),
        Fraction(0),
    )
    kept = sum(weight for (part, _), weight in weights(contract).items() if part is Part.RESERVE)
    ledger = replace(found.ledger, spent=found.ledger.spent + kept * found.ledger.cap)
    left = ledger.remaining - reserved_share(ledger)
    assert left * Fraction(995, 1000) <= price <= left  # a pair's variance is rounded up to a whole unit


@given(st.sampled_from(PAIRS), st.integers(1, 10**6))
def test_a_pair_that_alone_is_expected_gets_all_that_pairs_get_for_it(
    pair: tuple[str, str], count: int
) -> None:
    (_, plan, _, tier), (_, _, _, usual) = opened({pair: count}), opened(None)
    assert [one.scope for one in tier.added] == [pair]
    assert noise_variance(tier.noise_of(pair)) < noise_variance(usual.noise_of(pair)) / 2
    share = tier.added[0].price / (tier.added[0].price + sum(price(tier, one) for one in PAIRS))
    assert float(share) == pytest.approx(float(plan.expected), rel=0.01)


def price(tier: MarginalTestPlan, pair: tuple[str, str]) -> Fraction:
    """Return the usual price of a pair, in parts of that of the plan's noise."""
    return min(Fraction(1), math.prod((tier.weights[name] for name in pair), start=Fraction(1)))
