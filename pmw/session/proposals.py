"""Proposals: a recorded batch as text, enough to draw and settle it again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pmw.loop import MarginalRequest, Proposal, QueryRequest, RequestedMarginal
from pmw.model import Coarsening
from pmw.planning.error_quantiles import QuantileRequest
from pmw.privacy.budget import Charge
from pmw.public.charges import Parts
from pmw.public.codec import FormError, dumps, form_of, loads, read, register
from pmw.session.damage import damage_is_one_error
from pmw.session.measurement_rows import require_cells
from pmw.session.requests import Request, Requests
from pmw.session.store import QUANTILES, REQUESTED, IntentRow

Batch: TypeAlias = Proposal | RequestedMarginal | tuple[QuantileRequest, ...]
_BATCHES = {"tests": Proposal, REQUESTED: RequestedMarginal, QUANTILES: tuple[QuantileRequest, ...]}


@dataclass(frozen=True, slots=True)
class Recorded:
    """A batch as it is recorded before any of its noise is drawn.

    Args:
        batch: what will be drawn.
        reserved: the most that it can charge.
        booked: whom its charges are booked to.
        request_ids: of a batch of tests, the mark of each question's request.
    """

    batch: Batch
    reserved: Charge | None
    booked: Parts
    request_ids: tuple[str | None, ...] = ()

    @property
    def requests(self) -> Requests:
        """The requests of a batch of tests."""
        queries = self.batch.queries if isinstance(self.batch, Proposal) else ()
        pairs = zip(queries, self.request_ids, strict=True)
        return Requests.of([Request(query, query.to_json(), key) for query, key in pairs])


register(
    {
        Proposal: {},
        QueryRequest: {"tests": "question"},
        MarginalRequest: {"tests": "marginal"},
        RequestedMarginal: {},
        QuantileRequest: {},
        Recorded: {},
    }
)


def recorded_text(recorded: Recorded) -> str:
    """Return the text that a batch is recorded by."""
    apart = ("reserved",) if isinstance(recorded.batch, Proposal) else ()  # it stands beside the batch
    form = form_of(recorded, without=("batch",))
    batch = recorded.batch
    return dumps({**form, "batch": form_of(batch, without=apart) if apart else form_of(batch)})


def read_recorded(coarsening: Coarsening, intent: IntentRow) -> Recorded:
    """Return a recorded batch.

    Args:
        coarsening: the declared attributes, and the groups that marginals may be over.
        intent: its row.

    Raises:
        SessionCorruptError: it cannot be read.
    """
    with damage_is_one_error():
        recorded, form = _read_head(intent.proposal)
        given = {"reserved": recorded.reserved} if intent.kind == "tests" else None
        if intent.kind not in _BATCHES:
            raise FormError("a batch is of a kind that is not known")
        batch: Batch = read(_BATCHES[intent.kind], form, domain=coarsening.fine, given=given)
        _check(coarsening, batch)
        found = replace(recorded, batch=batch)
        found.requests  # noqa: B018 - of each question one mark
        return found


def read_reserved(intent: IntentRow) -> tuple[Charge, Parts]:
    """Return the most that a recorded batch can charge, and whom that is booked to.

    Raises:
        SessionCorruptError: it cannot be read.
    """
    with damage_is_one_error():
        recorded, _ = _read_head(intent.proposal)
        if recorded.reserved is None:
            raise FormError("a recorded batch has nothing reserved")
        return recorded.reserved, recorded.booked


def _read_head(text: str) -> tuple[Recorded, Any]:
    """Return what is recorded of any batch, and the form of the batch."""
    form = loads(text)
    if not isinstance(form, dict) or "batch" not in form:
        raise FormError("a recorded batch lacks its requests")
    batch = form.pop("batch")
    return read(Recorded, form, given={"batch": ()}), batch


def _check(coarsening: Coarsening, batch: Batch) -> None:
    """Refuse scopes out of their order, and marginals that have other cells than their scopes."""
    requests = batch.requests if isinstance(batch, Proposal) else ()
    for request in requests:
        if isinstance(request, MarginalRequest):
            require_cells(coarsening, request.scope, request.model_units)
    if isinstance(batch, RequestedMarginal) and coarsening.fine.scope(batch.scope) != batch.scope:
        raise FormError("a marginal's attributes are not in declared order")
