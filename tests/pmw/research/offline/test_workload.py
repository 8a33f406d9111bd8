"""Workloads as candidates."""

from __future__ import annotations

import pytest

from pmw.research.offline.options import Targets, candidates_of
from queries import Domain, IntegerAttribute, LinearQuery, QueryError, ScopeError, all_marginals


def test_scopes_are_closed_downwards_and_shorter_ones_come_first(domain: Domain) -> None:
    found = candidates_of(domain, [("sex", "age"), ("region",)], Targets.MARGINAL)
    assert found.scopes == (("age",), ("region",), ("sex",), ("age", "sex"))
    assert found.queries == ()


def test_the_scopes_of_questions_are_candidates_and_the_questions_are_kept_once(domain: Domain) -> None:
    query = LinearQuery.cells(domain, {"age": (0, 3), "member": (0, 0)})
    again = LinearQuery.cells(domain, {"member": (0, 0), "age": (0, 3)})
    found = candidates_of(domain, [query, again], Targets.MARGINAL)
    assert found.scopes == (("age",), ("member",), ("age", "member"))
    assert len(found.queries) == 1


def test_questions_are_chosen_among_where_they_are_the_targets(domain: Domain) -> None:
    found = candidates_of(domain, all_marginals(domain, 1), Targets.QUERY)
    assert (len(found.queries), found.scopes) == (20, ())


def test_a_name_alone_is_a_scope(domain: Domain) -> None:
    assert candidates_of(domain, ["sex"], Targets.MARGINAL).scopes == (("sex",),)


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
