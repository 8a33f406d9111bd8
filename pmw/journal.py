"""The journal: what a session's states look like as rows of its file, and how they are read back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmw.accounting import PrivacyFilter
from pmw.answers import Answer, Source, Spent
from pmw.encoding import (
    charge_form,
    contract_form,
    dumps,
    noise_form,
    opening_plan_form,
    plan_form,
    read_charge,
    read_contract,
    read_marginal,
    read_opening_plan,
    read_plan,
    read_query,
    read_units,
    units_bytes,
)
from pmw.errors import SessionCorruptError
from pmw.mechanism import (
    BatchDraws,
    LedgerEntry,
    OpeningDraws,
    Proposal,
    correct,
    opening_entries,
    settle_opening,
)
from pmw.model import DenseDistribution, MarginalTerm, QueryMeasurement, QueryTerm, Term
from pmw.planning import choose_filter
from pmw.policy import Contract, OpeningPlan
from pmw.sparse_vector import NoisyThreshold
from pmw.state import PublicState, SecretState
from pmw.status import History
from pmw.store import LedgerRow, MeasurementRow, Outcome, SessionStore, StoredAnswer
from queries.linear import LinearQuery

__all__ = [
    "answer_row",
    "batch_outcome",
    "duals_of",
    "first_facts",
    "ledger_rows",
    "load_contract",
    "load_history",
    "load_secret",
    "load_state",
    "opening_outcome",
    "query_key",
    "read_answer",
    "secret_facts",
]

_MOST_POINTS = 2000  # of a history


def first_facts(
    contract: Contract, plan: OpeningPlan, fingerprint: tuple[bytes, bytes], data: Any
) -> Outcome:
    """Return the facts that a session file starts with.

    Args:
        contract: what is fixed at opening.
        plan: the noise of the opening measurements.
        fingerprint: the key and the keyed fingerprint of the table (secret).
        data: JSON-ready: where the table is, or None for a table in memory.
    """
    return Outcome(
        meta={
            "contract": dumps(contract_form(contract)),
            "opening_plan": dumps(opening_plan_form(plan)),
            "data": dumps(data),
        },
        secrets={"fingerprint_key": fingerprint[0], "fingerprint": fingerprint[1]},
    )


def opening_outcome(
    entries: Sequence[LedgerEntry], plan: OpeningPlan, draws: OpeningDraws, test: Any
) -> Outcome:
    """Return the rows of an opening: its charges, its measurements and the plan made from them."""
    total_noise = None if plan.total_noise is None else noise_form(plan.total_noise)
    rows = [
        MeasurementRow("total", "[]", units_bytes(np.array([draws.total_units])), dumps(total_noise)),
        *(
            MeasurementRow(
                "marginal",
                dumps(list(marginal.scope)),
                units_bytes(marginal.units),
                dumps(noise_form(marginal.noise)),
            )
            for marginal in draws.marginals
        ),
    ]
    return Outcome(ledger=ledger_rows(entries), measurements=rows, meta={"test_plan": dumps(plan_form(test))})


def batch_outcome(
    entries: Sequence[LedgerEntry], proposal: Proposal, draws: BatchDraws, state: PublicState
) -> Outcome:
    """Return the rows of a batch's charges and of the measurement that it bought, if any."""
    rows = []
    if draws.released is not None and state.plan is not None:
        request = proposal.requests[len(draws.outcomes) - 1]
        units = np.array([draws.released, request.model_units])
        noise = dumps(noise_form(state.plan.vector.value_noise))
        rows.append(MeasurementRow("query", dumps(request.query.to_dict()), units_bytes(units), noise))
    return Outcome(ledger=ledger_rows(entries), measurements=rows)


def ledger_rows(entries: Sequence[LedgerEntry]) -> list[LedgerRow]:
    """Return charges as rows."""
    return [LedgerRow(entry.event, entry.label, *charge_form(entry.charge)) for entry in entries]


def secret_facts(secret: SecretState) -> dict[str, bytes | None]:
    """Return the threshold noise as a secret fact; None wipes it."""
    if secret.noisy is None:
        return {"threshold": None}
    return {"threshold": dumps([secret.noisy.upper, secret.noisy.lower]).encode()}


def answer_row(answer: Answer, text: str, request_id: str | None) -> StoredAnswer:
    """Return an answer as a row, with its query's canonical text."""
    return StoredAnswer(
        request_id=request_id,
        query_key=query_key(text),
        query=text,
        count=answer.count,
        interval=answer.interval,
        confidence=answer.confidence,
        source=answer.source.value,
        version=answer.version,
        share=answer.spent.share,
    )


def query_key(text: str) -> bytes:
    """Return the 32 bytes under which the answers to a query's canonical text are found."""
    return hashlib.sha256(text.encode()).digest()


def read_answer(row: StoredAnswer, query: LinearQuery, state: PublicState) -> Answer:
    """Return the answer of a row, as it was released."""
    budget = state.contract.budget
    return Answer(
        count=row.count,
        fraction=row.count / state.total.value,
        interval=row.interval,
        confidence=row.confidence,
        source=Source(row.source),
        aligned=query.aligned,
        version=row.version,
        spent=Spent(row.share, float(budget.epsilon), float(budget.delta)),
        seeded=state.contract.seeded,
    )


def load_contract(store: SessionStore) -> tuple[Contract, OpeningPlan]:
    """Return what was fixed at opening, and the noise of the opening measurements."""
    contract = read_contract(_fact(store, "contract"))
    return contract, read_opening_plan(_fact(store, "opening_plan"))


def load_history(store: SessionStore) -> History:
    """Return how the budget was spent, from the opening on; a long history is thinned to 2,000 points."""
    contract, plan = load_contract(store)
    ledger = choose_filter(contract.domain, contract.budget, contract.options)
    for entry in opening_entries(plan, contract.options):
        ledger = ledger.charge(entry.charge)
    answers, shares = zip((0, ledger.share), *store.shares(_MOST_POINTS), strict=True)
    return History(np.array(answers), np.array(shares))


def load_secret(store: SessionStore) -> SecretState:
    """Return the threshold noise of the open round."""
    raw = store.secret("threshold")
    return SecretState(None if raw is None else NoisyThreshold(*json.loads(raw)))


def load_state(store: SessionStore) -> PublicState:
    """Return the public state that the file's ledger and measurements add up to.

    The model comes from the newest snapshot, corrected by the measurements after it; without a snapshot,
    from the first measurement on.

    Raises:
        SessionCorruptError: the opening has no outcome yet, or the rows contradict each other.
    """
    contract, plan = load_contract(store)
    rows = store.measurements()
    if not rows:
        raise SessionCorruptError("the session's opening is not finished; ask it a question to finish it")
    try:
        draws = _read_opening(contract, rows)
        ledger = _read_ledger(store, contract)
        measured = [_read_measured(contract, row) for row in rows if row.kind == "query"]
    except (ValueError, KeyError, TypeError) as error:
        raise SessionCorruptError(f"the session file is damaged: {type(error).__name__}") from None
    state = settle_opening(contract, plan, draws, ledger, read_plan(_fact(store, "test_plan")))
    state = _from_snapshot(state, measured, store)
    for measurement in measured[len(state.measured) :]:
        state = correct(state, measurement)
    return replace(state, round_open=store.secret("threshold") is not None)


def duals_of(state: PublicState) -> NDArray[np.float64]:
    """Return the model's dual numbers in the order of its terms, for a snapshot: float64, shape (k,)."""
    parts = [
        term.duals.reshape(-1) if isinstance(term, MarginalTerm) else np.array([term.dual])
        for term in state.model.terms
    ]
    return np.concatenate([np.empty(0), *parts])


def _fact(store: SessionStore, key: str) -> Any:
    text = store.meta(key)
    if text is None:
        raise SessionCorruptError(f"the session file is damaged: it lacks {key!r}")
    return json.loads(text)


def _read_opening(contract: Contract, rows: Sequence[MeasurementRow]) -> OpeningDraws:
    marginals = [
        read_marginal(contract.domain, json.loads(row.what), row.units, json.loads(row.noise))
        for row in rows
        if row.kind == "marginal"
    ]
    (total,) = (row for row in rows if row.kind == "total")
    return OpeningDraws(int(read_units(total.units)[0]), tuple(marginals))


def _read_measured(contract: Contract, row: MeasurementRow) -> QueryMeasurement:
    return read_query(contract.domain, json.loads(row.what), row.units, json.loads(row.noise))


def _read_ledger(store: SessionStore, contract: Contract) -> PrivacyFilter:
    ledger = choose_filter(contract.domain, contract.budget, contract.options)
    for row in store.ledger():
        ledger = ledger.charge(read_charge(row.epsilon, row.rho))
    return ledger


def _from_snapshot(
    state: PublicState, measured: Sequence[QueryMeasurement], store: SessionStore
) -> PublicState:
    """Return the state with the model and the measurements of the newest usable snapshot."""
    found = store.snapshot()
    if found is None:
        return state
    version, duals = found
    cells = sum(marginal.units.size for marginal in state.opening)
    if version > len(measured) or len(duals) != cells + version:
        return state
    terms: list[Term] = []
    for marginal in state.opening:
        size = marginal.units.size
        terms.append(MarginalTerm(marginal.scope, duals[:size].reshape(marginal.units.shape)))
        duals = duals[size:]
    terms += [QueryTerm(row.query, float(dual)) for row, dual in zip(measured, duals, strict=False)]
    model = DenseDistribution.of_terms(state.domain, state.total.value, terms)
    return replace(state, model=model, measured=tuple(measured[:version]))
