"""The journal: what a session's states look like as rows of its file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pmw.loop import OpeningDraws
from pmw.loop.secret import SecretState
from pmw.privacy.random_bits import fresh_seed, repeatable_seed
from pmw.public.answer import Answer, Source, Spent
from pmw.public.charges import LedgerEntry, abandoned_entry
from pmw.public.codec import dumps, form_of, kind_text, read_kind
from pmw.public.contract import Contract
from pmw.public.options import Options
from pmw.public.plans import OpeningPlan, TestPlan
from pmw.public.state import PublicState
from pmw.session.damage import damage_is_one_error
from pmw.session.measurement_rows import (
    certificate_row,
    measured_row,
    one_way_row,
    quantile_row,
    total_row,
)
from pmw.session.proposals import read_reserved
from pmw.session.store import (
    REQUESTED,
    IntentRow,
    LedgerRow,
    Outcome,
    StoredAnswer,
)
from pmw.sparse_vector import NoisyThreshold
from queries.linear import LinearQuery

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
            "contract": dumps(form_of(contract)),
            "opening_plan": dumps(form_of(plan)),
            "data": dumps(data),
        },
        secrets={**secrets},
    )


def opening_outcome(
    entries: Sequence[LedgerEntry], plan: OpeningPlan, draws: OpeningDraws, test: TestPlan
) -> Outcome:
    """Return the rows of an opening: its charges, its measurements and the plan made from them."""
    rows = [total_row(plan, draws), *(one_way_row(measurement) for measurement in draws.marginals)]
    return Outcome(ledger=ledger_rows(entries), measurements=rows, meta={"test_plan": dumps(form_of(test))})


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
            certificate_row(one) for scope, one in after.certificates.items() if held.get(scope) is not one
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
    return {threshold_name(tier): _noisy_fact(now) for tier, (now, then) in enumerate(pairs) if now != then}


def threshold_name(tier: int) -> str:
    """Return the name under which a tier's threshold noise is kept."""
    return f"threshold {tier}"


def _noisy_fact(noisy: NoisyThreshold | None) -> bytes | None:
    return None if noisy is None else dumps([noisy.upper, noisy.lower]).encode()


def answer_row(answer: Answer, text: str, analyst: str, settled: int) -> StoredAnswer:
    """Return an answer as a row, with its query's canonical text, who asked, and whether it settles it."""
    return StoredAnswer(
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
