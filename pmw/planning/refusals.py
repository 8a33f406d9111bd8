"""Refusals: domains that are too large for a session, and choices that do not go with it.

All of it follows from schema, budget and options, before anything is drawn.
"""

from __future__ import annotations

import itertools
import math

from pmw.errors import BudgetError
from pmw.model.bins import extreme_domains
from pmw.model.dense import check_dense_size
from pmw.privacy.budget import Composition
from pmw.privacy.filter import PrivacyFilter
from pmw.public.contract import Contract
from pmw.public.options import ModelKind, Opening, Options
from pmw.public.plans import MOST_RESIDUAL_CELLS, OpeningPlan
from pmw.public.prior import is_prior_of
from queries.domain import Domain, require_domain

_MOST_TRIPLES = 1_000  # that are measured before any question: of 19 attributes
_MOST_TRIPLE_CELLS = 2**22  # of all of them together
_MOST_ATTRIBUTES = 500  # that are opened in seconds
_MOST_ATTRIBUTE_CELLS = 4 * 10**6  # of all attributes together; opening takes about 100 bytes for each


def check_model_size(domain: Domain, options: Options) -> None:
    """Refuse a domain that the model cannot hold, before anything is allocated or spent.

    A graphical model holds any domain of not too many attributes and cells of them; one that must be dense
    may be too large besides.
    """
    check_attributes(domain)
    if not options.tests_marginals or options.model is ModelKind.DENSE:
        check_dense_size(domain)


def check_attributes(domain: Domain) -> None:
    """Refuse a domain whose attributes take more time or memory than a session has, whatever is chosen."""
    require_domain(domain)
    count, cells = len(domain.names), sum(domain.shape)
    if count > _MOST_ATTRIBUTES:
        raise BudgetError(
            f"expected at most {_MOST_ATTRIBUTES:,} attributes, got {count:,}; declare those that questions "
            "are about, or open a session for each group of them"
        )
    if cells > _MOST_ATTRIBUTE_CELLS:
        longest = max(domain, key=lambda attribute: attribute.size)
        raise BudgetError(
            f"expected at most {_MOST_ATTRIBUTE_CELLS:,} cells of all attributes together, got {cells:,}; "
            f"declare wider cells, such as of {longest.name!r}, which has {longest.size:,}"
        )


def check_prior(contract: Contract, plan: OpeningPlan) -> None:
    """Refuse a prior that is about other attributes, or in a session that has no pairs to compare it with."""
    prior = contract.options.prior
    if prior is None:
        return
    if not is_prior_of(prior, contract.domain):
        raise BudgetError(
            "expected a prior of the schema's attributes, got one of others; make it by public_prior with "
            "this schema, or leave it out"
        )
    if plan.order == 1:
        raise BudgetError(
            "a prior is taken or dropped by pairs that are measured before any question, and this session "
            "measures none: it has another opening, no delta, an accuracy contract, simultaneous intervals, "
            "a number of positives, or a schema for which tests are better; leave the prior out"
        )


def check_neighbors(domain: Domain, options: Options) -> None:
    """Refuse a schema that could drop a record where the number of records is public."""
    if not options.public_count:
        return
    if domain.impossible:
        raise BudgetError(
            "under replace-one no record may be dropped, as those are that satisfy an [[impossible]] "
            "condition; leave the conditions out, or choose add-remove"
        )
    for attribute in domain:
        if not (attribute.missing and attribute.other):
            raise BudgetError(
                f"under replace-one no record may be dropped, but attribute {attribute.name!r} drops "
                "records with empty or undeclared values; declare missing = true and other = true"
            )


def check_reserve(contract: Contract, plan: OpeningPlan) -> None:
    """Refuse a reserve in a session that draws no numbers for questions."""
    options = contract.options
    measured = plan.order > 1 or plan.table_noise is not None or len(contract.domain) == 1
    if options.reserved and (not measured or options.composition is Composition.PURE):
        raise BudgetError(
            "a reserve is for sessions that measure all pairs, or the whole table, before any question, with "
            "Gaussian noise; give a delta above 0, or leave the reserve out"
        )


def check_expected(contract: Contract, plan: OpeningPlan) -> None:
    """Refuse expected questions in a session that measures no pairs before any question."""
    if contract.options.expected is not None and plan.order == 1:
        raise BudgetError(
            "expected questions share the budget among all pairs that are measured before any question, and "
            f"this session {_instead(contract, plan)}; leave the expected questions out, or choose otherwise"
        )


def _instead(contract: Contract, plan: OpeningPlan) -> str:
    """Return in words why a session measures no pairs before any question."""
    options = contract.options
    if plan.table_noise is not None or len(contract.domain) == 1:
        return "measures the whole table, which answers every question alike"
    if not options.tests_marginals:
        return "tests single questions"
    if options.opening in (Opening.NONE, Opening.ONE_WAY):
        return f"has opening = {options.opening.value}"
    if not contract.budget.delta:
        return "has no Gaussian noise, for which delta has to be above 0"
    return (
        "tests them instead: it has an accuracy contract, simultaneous intervals, a number of positives, "
        "composition = pure, or a schema for which tests are better"
    )


def check_triples(domain: Domain, budget_filter: PrivacyFilter) -> None:
    """Refuse triples that cannot be measured before any question; this follows from schema and budget alone.

    Cells are those of the most bins that opening may lead to, so that no triple is left out for its size.
    """
    instead = "choose opening = pairs"
    if budget_filter.composition is Composition.PURE:
        raise BudgetError(
            "opening = triples needs Gaussian noise, so a delta above 0, and composition zcdp or gdp; "
            f"give these, or {instead}"
        )
    _, widest = extreme_domains(domain, dict.fromkeys(domain.names, 0.0))
    wide = sorted((one for one in widest if one.size > 1), key=lambda one: -one.size)
    if len(wide) < 3:
        raise BudgetError(f"opening = triples needs three attributes of two cells or more; {instead}")
    triples, largest = math.comb(len(wide), 3), math.prod(one.size for one in wide[:3])
    if triples > _MOST_TRIPLES:
        raise BudgetError(
            f"opening = triples measures at most {_MOST_TRIPLES:,} triples, and there are {triples:,}; "
            f"declare fewer attributes, or {instead}"
        )
    if largest > MOST_RESIDUAL_CELLS:
        names = ", ".join(repr(one.name) for one in wide[:3])
        raise BudgetError(
            f"opening = triples measures triples of at most {MOST_RESIDUAL_CELLS:,} cells, and that of "
            f"{names} may have {largest:,}; declare wider cells, or {instead}"
        )
    cells = sum(math.prod(one.size for one in three) for three in itertools.combinations(wide, 3))
    if cells > _MOST_TRIPLE_CELLS:
        raise BudgetError(
            f"opening = triples measures at most {_MOST_TRIPLE_CELLS:,} cells of all triples together, and "
            f"these may have {cells:,}; declare wider cells, or {instead}"
        )
