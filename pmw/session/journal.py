"""The journal: what a session's states look like as rows of its file."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pmw.errors import SessionCorruptError
from pmw.loop import OpeningDraws
from pmw.loop.secret import SecretState
from pmw.privacy.random_bits import fresh_seed, repeatable_seed
from pmw.public.answer import Answer, Source, Spent
from pmw.public.charges import LedgerEntry, abandoned_entry
from pmw.public.contract import Contract, Options
from pmw.public.plans import OpeningPlan, TestPlan
from pmw.public.state import PublicState
from pmw.session.encoding import (
    charge_form,
    contract_form,
    dumps,
    noise_form,
    opening_plan_form,
    parts_form,
    plan_form,
    read_charge,
    read_parts,
)
from pmw.session.measurement_rows import (
    kind_text,
    measured_row,
    one_way_row,
    quantile_row,
    read_kind,
    units_bytes,
)
from pmw.session.store import (
    REQUESTED,
    CertificateRow,
    IntentRow,
    LedgerRow,
    MeasurementRow,
    Outcome,
    StoredAnswer,
    query_key,
)
from pmw.sparse_vector import NoisyThreshold
from queries.linear import LinearQuery

__all__ = [
    "answer_row",
    "batch_outcome",
    "closing_outcome",
    "first_facts",
    "ledger_rows",
    "next_seed",
    "opening_outcome",
    "PERSON_KEY",
    "read_answer",
    "secret_facts",
    "threshold_name",
]

_ABANDONED = {REQUESTED: "a requested marginal"}  # what the ledger calls a batch of a kind
PERSON_KEY = "person_key"  # the secret that chooses which records of a person are kept


def next_seed(options: Options, number: int) -> bytes:
    """Return the bytes for an intent: fresh ones, or repeatable ones where the options ask for them."""
    return fresh_seed() if options.seed is None else repeatable_seed(options.seed, number)


def first_facts(contract: Contract, plan: OpeningPlan, secrets: dict[str, bytes], data: Any) -> Outcome:
    """Return the facts that a session file starts with.

    Args:
        contract: what is fixed at opening.
        plan: the noise of the opening measurements.
        secrets: the key and the keyed fingerprint of the table; where persons are declared, the key that
            chooses which of their records are kept.
        data: JSON-ready: where the table is, or None for a table in memory.
    """
    return Outcome(
        meta={
            "contract": dumps(contract_form(contract)),
            "opening_plan": dumps(opening_plan_form(plan)),
            "data": dumps(data),
        },
        secrets={**secrets},
    )


def opening_outcome(
    entries: Sequence[LedgerEntry], plan: OpeningPlan, draws: OpeningDraws, test: TestPlan
) -> Outcome:
    """Return the rows of an opening: its charges, its measurements and the plan made from them."""
    total_noise = None if plan.total_noise is None else noise_form(plan.total_noise)
    rows = [
        MeasurementRow("total", "[]", units_bytes(np.array([draws.total_units])), dumps(total_noise)),
        *(one_way_row(measurement) for measurement in draws.marginals),
    ]
    return Outcome(ledger=ledger_rows(entries), measurements=rows, meta={"test_plan": dumps(plan_form(test))})


def batch_outcome(entries: Sequence[LedgerEntry], before: PublicState, after: PublicState) -> Outcome:
    """Return the rows of a batch's charges, of what it measured, if anything, and of what it certified."""
    held = before.certificates
    return Outcome(
        ledger=ledger_rows(entries),
        measurements=[
            *(measured_row(one) for one in after.measured[len(before.measured) :]),
            *(quantile_row(one) for one in after.quantiles[len(before.quantiles) :]),
        ],
        certificates=[
            CertificateRow(dumps(list(scope)), one.version, one.threshold, units_bytes(one.units))
            for scope, one in after.certificates.items()
            if held.get(scope) is not one
        ],
    )


def closing_outcome(intent: IntentRow | None) -> Outcome:
    """Return the rows of a session's closing.

    Args:
        intent: a batch that can never be finished; all that was reserved for it is charged.

    Raises:
        SessionCorruptError: the batch cannot be read.
    """
    entries = []
    if intent is not None:
        try:
            form = json.loads(intent.proposal)
            reserved, booked = read_charge(*form["reserved"]), read_parts(form["booked"])
            entry = abandoned_entry(reserved, _ABANDONED.get(intent.kind, intent.kind))
            entries.append(replace(entry, booked=booked))
        except (ValueError, KeyError, TypeError) as error:
            raise SessionCorruptError(f"the session file is damaged: {type(error).__name__}") from None
    return Outcome(ledger=ledger_rows(entries), meta={"closed": "true"})


def ledger_rows(entries: Sequence[LedgerEntry]) -> list[LedgerRow]:
    """Return charges as rows."""
    return [
        LedgerRow(entry.event, entry.label, *charge_form(entry.charge), dumps(parts_form(entry.booked)))
        for entry in entries
    ]


def secret_facts(secret: SecretState, before: SecretState) -> dict[str, bytes | None]:
    """Return the threshold noise that changed as secret facts; None wipes it."""
    pairs = zip(secret.thresholds, before.thresholds, strict=True)
    return {threshold_name(tier): _noisy_fact(now) for tier, (now, then) in enumerate(pairs) if now != then}


def threshold_name(tier: int) -> str:
    """Return the name under which a tier's threshold noise is kept."""
    return f"threshold {tier}"


def _noisy_fact(noisy: NoisyThreshold | None) -> bytes | None:
    return None if noisy is None else dumps([noisy.upper, noisy.lower]).encode()


def answer_row(answer: Answer, text: str, request_id: str | None, analyst: str, settled: int) -> StoredAnswer:
    """Return an answer as a row, with its query's canonical text, who asked, and whether it settles it."""
    return StoredAnswer(
        request_id=request_id,
        query_key=query_key(text),
        query=text,
        count=0.0 if answer.is_refused else answer.count,
        interval=answer.interval,
        confidence=answer.confidence,
        source=answer.source.value,
        version=answer.version,
        share=answer.spent.share,
        kind=None if answer.kind is None else kind_text(answer.kind),
        typical=answer.typical,
        analyst=analyst,
        settled=settled,
    )


def read_answer(row: StoredAnswer, query: LinearQuery, state: PublicState) -> Answer:
    """Return the answer of a row, as it was released."""
    budget = state.contract.budget
    count = math.nan if row.source == Source.REFUSED.value else row.count
    return Answer(
        count=count,
        fraction=count / state.total.value,
        interval=row.interval,
        confidence=row.confidence,
        source=Source(row.source),
        aligned=query.aligned,
        version=row.version,
        spent=Spent(row.share, float(budget.epsilon), float(budget.delta)),
        seeded=state.contract.seeded,
        kept=state.contract.records_kept,
        kind=None if row.kind is None else read_kind(row.kind),
        typical=row.typical,
    )
