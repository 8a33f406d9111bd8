"""The journal: what a session's batches, and what comes of them, look like as rows of its file.

A batch is recorded before any of its noise is drawn: as a text, enough to draw and settle it again. Its
outcome is what it charged, measured and certified.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from pmw.loop.secret import SecretState
from pmw.loop.tiers import MarginalRequest, Proposal, QueryRequest
from pmw.loop.untested import OpeningDraws, Requested
from pmw.model.bins import Coarsening
from pmw.planning.error_quantiles import QuantileRequest
from pmw.privacy.budget import Charge
from pmw.privacy.noise import NoiseDistribution
from pmw.privacy.random_bits import fresh_seed, repeatable_seed
from pmw.public.charges import MEASURABLE, CellNumbers, LedgerEntry, Parts, abandoned_entry
from pmw.public.codec import FormError, dumps, form_of, loads, read, register
from pmw.public.contract import Contract
from pmw.public.options import Options
from pmw.public.plans import OpeningPlan, TestPlan
from pmw.public.state import PublicState
from pmw.session.events import (
    Measured,
    certificate_row,
    damage_is_one_error,
    measured_row,
    opening_row,
    require_cells,
    require_measurable,
    total_row,
)
from pmw.session.requests import Request, Requests
from pmw.session.store.rows import PARTS, QUANTILES, TESTS, IntentRow, LedgerRow, Outcome
from queries.frozen import dataclass

PERSON_KEY = "person_key"  # the secret that chooses which records of a person are kept

Part: TypeAlias = tuple[Requested, ...]  # of the reserve: marginals
Batch: TypeAlias = Proposal | Requested | Part | tuple[QuantileRequest, ...]
_REQUESTED = {one.kind: one for one in MEASURABLE}
_ABANDONED = {one.kind: one.abandoned for one in MEASURABLE}  # what the ledger calls a batch of a kind

# --- batches ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tie:
    """What an idempotency key is tied to, once the measurement that was asked for with it is durable.

    Args:
        quote: what the request is given, also when it is repeated, as ``pmw.session.ties`` writes it.
    """

    key: str
    asked: str
    quote: str

    @property
    def row(self) -> tuple[str, str]:
        """The key, and the text by which all of it is kept."""
        return self.key, dumps(form_of(self))


@dataclass(frozen=True, slots=True)
class Recorded:
    """A batch as it is recorded before any of its noise is drawn.

    Args:
        reserved: the most that it can charge.
        booked: whom its charges are booked to.
        request_ids: of a batch of tests, the mark of each question's request.
        tie: of a measurement that was asked for with an idempotency key.
    """

    batch: Batch
    reserved: Charge | None
    booked: Parts
    request_ids: tuple[str | None, ...] = ()
    tie: Tie | None = None

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
        **{one: {} for one in MEASURABLE},
        QuantileRequest: {},
        Tie: {},
        Recorded: {},
    }
)


def recorded_text(recorded: Recorded) -> str:
    """Return the text that a batch is recorded by."""
    apart = ("reserved",) if isinstance(recorded.batch, Proposal) else ()  # it stands beside the batch
    form, batch = form_of(recorded, without=("batch",)), recorded.batch
    each = batch if isinstance(batch, tuple) else (batch,)
    forms = [{**form_of(one.what), "noise": form_of(one.noise)} for one in each if isinstance(one, Requested)]
    if forms:
        return dumps({**form, "batch": forms if isinstance(batch, tuple) else forms[0]})
    return dumps({**form, "batch": form_of(batch, without=apart) if apart else form_of(batch)})


def read_recorded(coarsening: Coarsening, intent: IntentRow) -> Recorded:
    """Return a recorded batch."""
    with damage_is_one_error():
        recorded, form = _read_head(intent.proposal)
        found = replace(recorded, batch=_read_batch(coarsening, intent.kind, form, recorded.reserved))
        found.requests  # noqa: B018 - of each question one mark
        if found.tie is not None and intent.kind not in _REQUESTED:
            raise FormError("a key is tied to a batch that nobody asked for")
        return found


def read_tie(text: str) -> Tie:
    """Return what an idempotency key is tied to."""
    with damage_is_one_error():
        found: Tie = read(Tie, loads(text))
        return found


def read_reserved(intent: IntentRow) -> tuple[Charge, Parts]:
    """Return the most that a recorded batch can charge, and whom that is booked to."""
    with damage_is_one_error():
        recorded, _ = _read_head(intent.proposal)
        if recorded.reserved is None:
            raise FormError("a recorded batch has nothing reserved")
        return recorded.reserved, recorded.booked


def _read_head(text: str) -> tuple[Recorded, Any]:
    form = loads(text)
    if not isinstance(form, dict) or "batch" not in form:
        raise FormError("a recorded batch lacks its requests")
    batch = form.pop("batch")
    return read(Recorded, form, given={"batch": ()}), batch


def _read_batch(coarsening: Coarsening, kind: str, form: Any, reserved: Charge | None) -> Batch:
    """Return the requests of a batch, over scopes in order and on their cells."""
    domain = coarsening.fine
    if kind in _REQUESTED:
        noise: NoiseDistribution = read(NoiseDistribution, form.pop("noise"))
        requested = Requested(read(_REQUESTED[kind], form, domain=domain), noise)
        require_measurable(domain, requested.what)
        return requested
    if kind == PARTS:
        cells = (_read_batch(coarsening, CellNumbers.kind, one, reserved) for one in form)
        return tuple(one for one in cells if isinstance(one, Requested))
    if kind == QUANTILES:
        quantiles: Batch = read(tuple[QuantileRequest, ...], form, domain=domain)
        return quantiles
    if kind != TESTS:
        raise FormError("a batch is of a kind that is not known")
    proposal: Proposal = read(Proposal, form, domain=domain, given={"reserved": reserved})
    for request in proposal.requests:
        if isinstance(request, MarginalRequest):
            require_cells(coarsening, request.scope, request.model_units)
    return proposal


# --- outcomes --------------------------------------------------------------------------------------------


def next_seed(options: Options, number: int) -> bytes:
    """Return the bytes for an intent: fresh ones, or repeatable ones where the options ask for them."""
    return fresh_seed() if options.seed is None else repeatable_seed(options.seed, number)


def first_facts(contract: Contract, plan: OpeningPlan, secrets: dict[str, bytes], data: Any) -> Outcome:
    """Return the facts that a session file starts with.

    Args:
        plan: the noise of the opening measurements.
        secrets: the key and the keyed fingerprint of the table; where persons are declared, the key that
            chooses which of their records are kept.
        data: JSON-ready: where the table is, or None for a table in memory.
    """
    return Outcome(
        meta={
            "contract": dumps(form_of(contract)),
            "opening_plan": dumps(form_of(plan)),
            "data": dumps(data),
        },
        secrets={**secrets},
    )


def opening_outcome(
    entries: Sequence[LedgerEntry],
    plan: OpeningPlan,
    draws: OpeningDraws,
    test: TestPlan,
    persons: Sequence[Measured] = (),
) -> Outcome:
    """Return the rows of an opening: its charges, its measurements and the plan made from them."""
    planned = map(opening_row, (*draws.marginals, *draws.sums))
    rows = [total_row(plan, draws), *planned, *map(measured_row, persons)]
    return Outcome(ledger=ledger_rows(entries), measurements=rows, meta={"test_plan": dumps(form_of(test))})


def batch_outcome(entries: Sequence[LedgerEntry], before: PublicState, after: PublicState) -> Outcome:
    """Return the rows of a batch's charges, of what it measured, if anything, and of what it certified."""
    held = before.certificates
    return Outcome(
        ledger=ledger_rows(entries),
        measurements=[
            measured_row(one)
            for name in ("measured", "apart", "quantiles")
            for one in getattr(after, name)[len(getattr(before, name)) :]
        ],
        certificates=[
            certificate_row(one) for scope, one in after.certificates.items() if held.get(scope) is not one
        ],
    )


def closing_outcome(intent: IntentRow | None) -> Outcome:
    """Return the rows of a session's closing.

    Args:
        intent: a batch that can never be finished; all that was reserved for it is charged.
    """
    entries = []
    if intent is not None:
        reserved, booked = read_reserved(intent)
        with damage_is_one_error():
            entry = abandoned_entry(reserved, _ABANDONED.get(intent.kind, intent.kind))
            entries.append(replace(entry, booked=booked))
    return Outcome(ledger=ledger_rows(entries), meta={"closed": "true"})


def ledger_rows(entries: Sequence[LedgerEntry]) -> list[LedgerRow]:
    """Return charges as rows."""
    return [
        LedgerRow(entry.event, entry.label, **form_of(entry.charge), booked=dumps(form_of(entry.booked)))
        for entry in entries
    ]


def secret_facts(secret: SecretState, before: SecretState) -> dict[str, bytes | None]:
    """Return the threshold noise that changed as secret facts; None wipes it."""
    pairs = zip(secret.thresholds, before.thresholds, strict=True)
    return {
        threshold_name(tier): None if now is None else dumps([now.upper, now.lower]).encode()
        for tier, (now, then) in enumerate(pairs)
        if now != then
    }


def threshold_name(tier: int) -> str:
    """Return the name under which a tier's threshold noise is kept."""
    return f"threshold {tier}"
