"""Sizes: which domains a session can hold, and which priors go with them."""

from __future__ import annotations

from pmw.errors import BudgetError
from pmw.model import check_dense_size
from pmw.public.options import ModelKind, Options
from pmw.public.plans import OpeningPlan
from pmw.public.prior import Prior, is_prior_of
from queries.domain import Domain, require_domain

_MOST_ATTRIBUTES = 500  # that are opened in seconds
_MOST_ATTRIBUTE_CELLS = 4 * 10**6  # of all attributes together; opening takes about 100 bytes for each


def check_model_size(domain: Domain, options: Options) -> None:
    """Refuse a domain that the model cannot hold, before anything is allocated or spent.

    A graphical model holds any domain of not too many attributes and cells of them; one that must be dense
    may be too large besides.

    Raises:
        BudgetError: the domain has too many attributes, these have too many cells together, or it has too
            many cells for a dense model, which the options ask for.
        DomainError: it is no domain.
    """
    check_attributes(domain)
    if not options.tests_marginals or options.model is ModelKind.DENSE:
        check_dense_size(domain)


def check_attributes(domain: Domain) -> None:
    """Refuse a domain whose attributes take more time or memory than a session has, whatever is chosen.

    Raises:
        BudgetError: there are too many attributes, or they have too many cells together.
        DomainError: it is no domain.
    """
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


def check_prior(domain: Domain, prior: Prior | None, plan: OpeningPlan) -> None:
    """Refuse a prior that is about other attributes, or in a session that has no pairs to compare it with.

    Raises:
        BudgetError: it is.
    """
    if prior is not None and not is_prior_of(prior, domain):
        raise BudgetError(
            "expected a prior of the schema's attributes, got one of others; make it by public_prior with "
            "this schema, or leave it out"
        )
    if prior is not None and plan.order == 1:
        raise BudgetError(
            "a prior is taken or dropped by pairs that are measured before any question, and this session "
            "measures none: it has another opening, no delta, an accuracy contract, simultaneous intervals, "
            "a number of positives, or a schema for which tests are better; leave the prior out"
        )
