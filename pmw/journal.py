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
from pmw.errors import BudgetExhaustedError, SessionCorruptError
from pmw.ledger import Ledger, ledger_of
from pmw.mechanism import (
    BatchDraws,
    LedgerEntry,
    OpeningDraws,
    Proposal,
    abandoned_entry,
    correct,
    opening_entries,
    released_total,
    settle_opening,
)
from pmw.model import (
    DenseDistribution,
    MarginalTerm,
    QueryMeasurement,
    QueryTerm,
    Term,
    check_dense_size,
)
from pmw.planning import choose_filter
from pmw.policy import Contract, OpeningPlan, QueryTestPlan, UpdateRule
from pmw.sparse_vector import NoisyThreshold
from pmw.state import PublicState, SecretState
from pmw.status import History
from pmw.store import IntentRow, LedgerRow, MeasurementRow, Outcome, SessionStore, StoredAnswer
from queries.linear import LinearQuery

__all__ = [
    "answer_row",
    "batch_outcome",
    "closing_outcome",
    "duals_of",
    "first_facts",
    "ledger_rows",
    "load_contract",
    "load_history",
    "load_ledger",
    "load_plan",
    "load_secret",
    "load_state",
    "opening_outcome",
    "query_key",
    "read_answer",
    "read_entries",
    "read_measured",
    "read_opening",
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
            entries.append(abandoned_entry(read_charge(*json.loads(intent.proposal)["reserved"])))
        except (ValueError, KeyError, TypeError) as error:
            raise SessionCorruptError(f"the session file is damaged: {type(error).__name__}") from None
    return Outcome(ledger=ledger_rows(entries), meta={"closed": "true"})


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
    """Return what was fixed at opening, and the noise of the opening measurements.

    Raises:
        BudgetError: the domain is too large for the model.
    """
    contract = read_contract(_fact(store, "contract"))
    check_dense_size(contract.domain)
    return contract, read_opening_plan(_fact(store, "opening_plan"))


def load_plan(store: SessionStore) -> QueryTestPlan | None:
    """Return the plan that was made when the opening was finished; None where nothing was left for tests."""
    return read_plan(_fact(store, "test_plan"))


def load_ledger(store: SessionStore) -> Ledger:
    """Return every charge, without building the model.

    Raises:
        SessionCorruptError: a charge cannot be read.
    """
    contract, _ = load_contract(store)
    empty = choose_filter(contract.domain, contract.budget, contract.options)
    try:
        return ledger_of(contract.budget, empty, read_entries(store))
    except (ValueError, ZeroDivisionError) as error:
        raise SessionCorruptError(f"the session file is damaged: {type(error).__name__}") from None


def read_entries(store: SessionStore) -> list[LedgerEntry]:
    """Return the stored charges, in order.

    Raises:
        ValueError: a number cannot be read.
        ZeroDivisionError: a fraction has no value.
    """
    return [LedgerEntry(row.event, row.label, read_charge(row.epsilon, row.rho)) for row in store.ledger()]


def read_opening(contract: Contract, rows: Sequence[MeasurementRow]) -> OpeningDraws:
    """Return what opening released, of the rows of all measurements."""
    marginals = [
        read_marginal(contract.domain, json.loads(row.what), row.units, json.loads(row.noise))
        for row in rows
        if row.kind == "marginal"
    ]
    (total,) = (row for row in rows if row.kind == "total")
    return OpeningDraws(int(read_units(total.units)[0]), tuple(marginals))


def read_measured(contract: Contract, row: MeasurementRow) -> QueryMeasurement:
    """Return the measured query of a row."""
    return read_query(contract.domain, json.loads(row.what), row.units, json.loads(row.noise))


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
        draws = read_opening(contract, rows)
        ledger = _read_ledger(store, contract)
        measured = [read_measured(contract, row) for row in rows if row.kind == "query"]
    except BudgetExhaustedError:
        raise SessionCorruptError("the session file is damaged: its charges exceed the cap") from None
    except (ValueError, KeyError, TypeError) as error:
        raise SessionCorruptError(f"the session file is damaged: {type(error).__name__}") from None
    model, version = _from_snapshot(store, contract, released_total(plan, draws).value, draws, measured)
    state = settle_opening(contract, plan, draws, ledger, load_plan(store), model)
    state = replace(state, measured=tuple(measured[:version]))
    for measurement in measured[version:]:
        state = correct(state, measurement)
    closed = store.meta("closed") is not None
    return replace(state, round_open=store.secret("threshold") is not None, closed=closed)


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


def _read_ledger(store: SessionStore, contract: Contract) -> PrivacyFilter:
    ledger = choose_filter(contract.domain, contract.budget, contract.options)
    for entry in read_entries(store):
        ledger = ledger.charge(entry.charge)
    return ledger


def _from_snapshot(
    store: SessionStore,
    contract: Contract,
    total: float,
    draws: OpeningDraws,
    measured: Sequence[QueryMeasurement],
) -> tuple[DenseDistribution | None, int]:
    """Return the model of the newest usable snapshot and its version; without one, None and 0."""
    found = store.snapshot()
    if found is None or contract.options.update is UpdateRule.STEP:
        return None, 0  # single steps are taken again: to the last bit, their model depends on their order
    version, duals = found
    cells = sum(marginal.units.size for marginal in draws.marginals)
    if version > len(measured) or len(duals) != cells + version:
        return None, 0
    terms: list[Term] = []
    for marginal in draws.marginals:
        size = marginal.units.size
        terms.append(MarginalTerm(marginal.scope, duals[:size].reshape(marginal.units.shape)))
        duals = duals[size:]
    terms += [QueryTerm(row.query, float(dual)) for row, dual in zip(measured, duals, strict=False)]
    return DenseDistribution.of_terms(contract.domain, total, terms), version
