"""What rounds choose among, and what they may cost."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmw.errors import BudgetError
from pmw.privacy.budget import RHO_GRID, Charge, Composition
from pmw.privacy.filter import PrivacyFilter
from pmw.research.offline import OfflineOptions, Targets, candidates_of, first_schedule
from queries import Domain, IntegerAttribute, LinearQuery, QueryError, ScopeError, all_marginals


def test_scopes_are_closed_downwards_and_questions_are_kept_once(domain: Domain) -> None:
    found = candidates_of(domain, [("sex", "age"), ("region",)], Targets.MARGINAL)
    assert (found.scopes, found.queries) == ((("age",), ("region",), ("sex",), ("age", "sex")), ())
    assert candidates_of(domain, ["sex"], Targets.MARGINAL).scopes == (("sex",),)  # a name alone is a scope
    query = LinearQuery.cells(domain, {"age": (0, 3), "member": (0, 0)})
    again = LinearQuery.cells(domain, {"member": (0, 0), "age": (0, 3)})
    found = candidates_of(domain, [query, again], Targets.MARGINAL)
    assert (found.scopes, len(found.queries)) == ((("age",), ("member",), ("age", "member")), 1)
    found = candidates_of(domain, all_marginals(domain, 1), Targets.QUERY)
    assert (len(found.queries), found.scopes) == (20, ())


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
        prices = schedule.prices(budget_filter)
        budget_filter = spend(budget_filter, prices.selection + prices.measurement)
        schedule = schedule.after(paid=True)
    assert 0 <= budget_filter.remaining < Fraction(1, RHO_GRID)


@given(st.lists(st.booleans(), min_size=60, max_size=60))
def test_growing_prices_never_exceed_the_budget_and_use_it_up(paid: list[bool]) -> None:
    budget_filter = PrivacyFilter(Composition.PURE, Fraction(1))
    schedule = first_schedule(budget_filter, 5, OfflineOptions())
    for moved in paid:
        last = schedule.is_last(budget_filter)
        prices = schedule.prices(budget_filter)
        budget_filter = spend(budget_filter, prices.selection + prices.measurement)
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
