"""Proposals: a recorded batch as text, enough to draw and settle it again."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

from pmw.errors import SessionCorruptError
from pmw.loop import MarginalRequest, Proposal, QueryRequest, Request, RequestedMarginal
from pmw.model import Coarsening, noise_form, read_noise
from pmw.planning.error_quantiles import QuantileRequest
from pmw.public.contract import Options
from pmw.session.encoding import charge_form, dumps, read_charge
from pmw.session.measurement_rows import kind_text, read_cells, read_kind, units_bytes
from queries.domain import Domain
from queries.linear import LinearQuery

__all__ = [
    "proposal_form",
    "read_proposal",
    "read_quantiles",
    "read_recorded",
    "read_requested",
    "recorded",
    "recorded_quantiles",
    "recorded_request",
]


def recorded(proposal: Proposal, asked: Sequence[tuple[str, str | None]]) -> str:
    """Return the text that a batch is recorded by.

    Args:
        proposal: the batch.
        asked: of each of its queries, the canonical text and the mark of its request.
    """
    form = proposal_form(proposal, [text for text, _ in asked])
    return dumps({**form, "request_ids": [request for _, request in asked]})


def read_recorded(coarsening: Coarsening, text: str) -> tuple[Proposal, list[tuple[str, str | None]]]:
    """Return the batch of a text, and what was asked.

    Raises:
        SessionCorruptError: it cannot be read.
    """
    try:
        form = json.loads(text)
        asked = list(zip(form["queries"], form["request_ids"], strict=True))
        return read_proposal(coarsening, form), asked
    except (ValueError, KeyError, TypeError) as error:
        raise SessionCorruptError(f"the session file is damaged: {type(error).__name__}") from None


def recorded_request(requested: RequestedMarginal, options: Options) -> str:
    """Return the text that a marginal on request is recorded by, with the charge that is reserved for it."""
    reserved = charge_form(requested.entry(options).charge)
    return dumps({"scope": list(requested.scope), "noise": noise_form(requested.noise), "reserved": reserved})


def read_requested(domain: Domain, text: str) -> RequestedMarginal:
    """Return the marginal on request of a text.

    Raises:
        SessionCorruptError: it cannot be read.
    """
    try:
        form = json.loads(text)
        return RequestedMarginal(domain.scope(form["scope"]), read_noise(form["noise"]))
    except (ValueError, KeyError, TypeError) as error:
        raise SessionCorruptError(f"the session file is damaged: {type(error).__name__}") from None


def recorded_quantiles(requests: Sequence[QuantileRequest], options: Options) -> str:
    """Return the text that error quantiles are recorded by, with the charge that is reserved for them."""
    forms = [
        {
            "kind": kind_text(one.kind),
            "asked": one.asked,
            "places": list(one.places),
            "rank": one.rank,
            "noise": noise_form(one.noise),
        }
        for one in requests
    ]
    charges = [one.entry(options).charge for one in requests]
    return dumps({"quantiles": forms, "reserved": charge_form(reduce(add, charges))})


def read_quantiles(text: str) -> tuple[QuantileRequest, ...]:
    """Return the error quantiles of a text.

    Raises:
        SessionCorruptError: it cannot be read.
    """
    try:
        return tuple(
            QuantileRequest(
                read_kind(form["kind"]),
                form["asked"],
                tuple(form["places"]),
                form["rank"],
                read_noise(form["noise"]),
            )
            for form in json.loads(text)["quantiles"]
        )
    except (ValueError, KeyError, TypeError) as error:
        raise SessionCorruptError(f"the session file is damaged: {type(error).__name__}") from None


def proposal_form(proposal: Proposal, texts: Sequence[str]) -> dict[str, Any]:
    """Return the form of a batch: enough to draw and settle it again.

    Args:
        proposal: the batch.
        texts: the canonical text of each of its queries.
    """
    return {
        "queries": list(texts),
        "tier": proposal.tier,
        "needs": list(proposal.needs),
        "requests": [_request_form(request) for request in proposal.requests],
        "positives": proposal.positives,
        "opens_round": proposal.opens_round,
        "reserved": None if proposal.reserved is None else charge_form(proposal.reserved),
    }


def _request_form(request: Request) -> list[Any]:
    """Return the form of a request; a question's own text stands in the batch."""
    if isinstance(request, QueryRequest):
        return [request.model_units, request.threshold]
    units = base64.b64encode(units_bytes(request.model_units)).decode()
    return [units, request.threshold, list(request.scope), list(request.measured)]


def read_proposal(coarsening: Coarsening, form: dict[str, Any]) -> Proposal:
    """Return the batch of a form.

    Args:
        coarsening: the declared attributes, and the groups that marginals may be over.
        form: of the batch.
    """
    queries = tuple(LinearQuery.from_dict(coarsening.fine, json.loads(text)) for text in form["queries"])
    needs, requests = tuple(form["needs"]), form["requests"]
    found: list[Request]
    if any(len(request) > 2 for request in requests):  # with scopes
        found = [_read_marginal_request(coarsening, *request) for request in requests]
    else:
        # A question is tested where the number of requests that come up to it grows.
        pairs = zip(queries, needs, (0, *needs), strict=False)
        tested = [query for query, need, before in pairs if need > before]
        found = [QueryRequest(query, *request) for query, request in zip(tested, requests, strict=True)]
    return Proposal(
        queries,
        form["tier"],
        tuple(found),
        needs,
        form["positives"],
        form["opens_round"],
        None if form["reserved"] is None else read_charge(*form["reserved"]),
    )


def _read_marginal_request(
    coarsening: Coarsening, units: str, threshold: int, scope: list[str], measured: list[str]
) -> MarginalRequest:
    cells = read_cells(coarsening, scope, base64.b64decode(units))
    return MarginalRequest(tuple(scope), cells, threshold, tuple(measured))
