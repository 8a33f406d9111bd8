"""The loop: online private multiplicative weights, in three phases that are kept apart.

*Propose* looks at public state and questions, and decides what will be tested, against which numbers.
*Draw* looks at the data: it is a function of a recorded proposal, the table and 32 recorded bytes, in exact
integers throughout, so that replaying it after a crash gives the same outcome bit by bit.
*Settle* is public again: it makes answers and charges of the outcome, and corrects the model.

A session is a tuple of tiers, each one sparse vector with what it tests and measures (``Tier``): whole
marginals, then questions that no marginal holds; in the textbooks, questions alone.
"""

from __future__ import annotations

from pmw.loop.fit import MOST_STEPS, correct, elected, model_of_terms, refined, residual
from pmw.loop.loop import (
    Forecast,
    Settled,
    are_tested,
    batch_entries,
    draw_tests,
    forecast,
    may_test,
    most_charged,
    propose,
    settle,
)
from pmw.loop.priors import prior_of_model, prior_of_table
from pmw.loop.tiers import (
    BatchDraws,
    MarginalRequest,
    Proposal,
    QueryRequest,
    Request,
    l1_distance,
    marginal_units,
)
from pmw.loop.untested import (
    FirstAnswer,
    OpeningDraws,
    Requested,
    Tables,
    apply,
    choose_bins,
    draw_opening,
    draw_quantiles,
    ranked_errors,
    released_total,
    settle_opening,
)

__all__ = [
    "apply",
    "are_tested",
    "batch_entries",
    "BatchDraws",
    "choose_bins",
    "correct",
    "draw_opening",
    "draw_quantiles",
    "draw_tests",
    "elected",
    "FirstAnswer",
    "Forecast",
    "forecast",
    "l1_distance",
    "marginal_units",
    "MarginalRequest",
    "may_test",
    "model_of_terms",
    "most_charged",
    "MOST_STEPS",
    "OpeningDraws",
    "prior_of_model",
    "prior_of_table",
    "Proposal",
    "propose",
    "QueryRequest",
    "ranked_errors",
    "refined",
    "released_total",
    "Request",
    "Requested",
    "residual",
    "settle",
    "settle_opening",
    "Settled",
    "Tables",
]
