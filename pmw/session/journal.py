"""The journal: what a session's states look like as rows of its file, and how they are read back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pmw.errors import BudgetExhaustedError, SessionCorruptError
from pmw.loop import OpeningDraws, choose_bins, correct, released_total, settle_opening
from pmw.loop.secret import SecretState
from pmw.model import (
    Coarsening,
    HierarchicalHistogram,
    HierarchicalMeasurement,
    MarginalMeasurement,
    OneWayMeasurement,
    QueryMeasurement,
    read_noise,
)
from pmw.planning.opening import check_model_size, choose_filter
from pmw.privacy.filter import PrivacyFilter
from pmw.public.answer import Answer, Source, Spent
from pmw.public.charges import LedgerEntry, abandoned_entry, opening_entries
from pmw.public.contract import Contract, UpdateRule
from pmw.public.ledger import Ledger, ledger_of
from pmw.public.plans import OpeningPlan, TestPlan
from pmw.public.state import Certificate, LaterMeasurement, PublicState
from pmw.public.status import History, Status, status_of
from pmw.session.encoding import (
    charge_form,
    contract_form,
    dumps,
    noise_form,
    opening_plan_form,
    plan_form,
    read_cells,
    read_charge,
    read_contract,
    read_marginal,
    read_opening_plan,
    read_plan,
    read_query,
    read_tree_measurement,
    read_units,
    tree_form,
    units_bytes,
)
from pmw.session.snapshots import SnapshotTerms, read_snapshot
from pmw.session.store import (
    CertificateRow,
    IntentRow,
    LedgerRow,
    MeasurementRow,
    Outcome,
    SessionStore,
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
    "load_contract",
    "load_history",
    "load_ledger",
    "load_plan",
    "load_secret",
    "load_state",
    "load_status",
    "opening_outcome",
    "read_answer",
    "read_certificate",
    "read_entries",
    "read_measured",
    "read_opening",
    "secret_facts",
    "threshold_name",
    "tree_text",
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
    entries: Sequence[LedgerEntry], plan: OpeningPlan, draws: OpeningDraws, test: TestPlan
) -> Outcome:
    """Return the rows of an opening: its charges, its measurements and the plan made from them."""
    total_noise = None if plan.total_noise is None else noise_form(plan.total_noise)
    rows = [
        MeasurementRow("total", "[]", units_bytes(np.array([draws.total_units])), dumps(total_noise)),
        *(_one_way_row(measurement) for measurement in draws.marginals),
    ]
    return Outcome(ledger=ledger_rows(entries), measurements=rows, meta={"test_plan": dumps(plan_form(test))})


def _one_way_row(measurement: OneWayMeasurement) -> MeasurementRow:
    kind, what = "marginal", dumps(list(measurement.scope))
    if isinstance(measurement, HierarchicalMeasurement):
        kind, what = "hierarchical histogram", tree_text(measurement.scope[0], measurement.tree)
    return MeasurementRow(kind, what, units_bytes(measurement.units), dumps(noise_form(measurement.noise)))


def tree_text(name: str, tree: HierarchicalHistogram) -> str:
    """Return what the row of a hierarchical histogram over an attribute says of it."""
    return dumps({"attribute": name, **tree_form(tree)})


def batch_outcome(entries: Sequence[LedgerEntry], before: PublicState, after: PublicState) -> Outcome:
    """Return the rows of a batch's charges, of what it measured, if anything, and of what it certified."""
    held = before.certificates
    return Outcome(
        ledger=ledger_rows(entries),
        measurements=[_measured_row(one) for one in after.measured[len(before.measured) :]],
        certificates=[
            CertificateRow(dumps(list(scope)), one.version, one.threshold, units_bytes(one.units))
            for scope, one in after.certificates.items()
            if held.get(scope) is not one
        ],
    )


def _measured_row(measurement: LaterMeasurement) -> MeasurementRow:
    noise = dumps(noise_form(measurement.noise))
    if isinstance(measurement, QueryMeasurement):
        units = np.array([measurement.units, measurement.model_units])
        return MeasurementRow("query", dumps(measurement.query.to_dict()), units_bytes(units), noise)
    return MeasurementRow("measured", dumps(list(measurement.scope)), units_bytes(measurement.units), noise)


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


def secret_facts(secret: SecretState, before: SecretState) -> dict[str, bytes | None]:
    """Return the threshold noise that changed as secret facts; None wipes it."""
    pairs = zip(secret.thresholds, before.thresholds, strict=True)
    return {threshold_name(tier): _noisy_fact(now) for tier, (now, then) in enumerate(pairs) if now != then}


def threshold_name(tier: int) -> str:
    """Return the name under which a tier's threshold noise is kept."""
    return f"threshold {tier}"


def _noisy_fact(noisy: NoisyThreshold | None) -> bytes | None:
    return None if noisy is None else dumps([noisy.upper, noisy.lower]).encode()


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
    check_model_size(contract.domain, contract.options)
    return contract, read_opening_plan(_fact(store, "opening_plan"))


def load_plan(store: SessionStore) -> TestPlan:
    """Return the tiers that were planned when the opening was finished."""
    return read_plan(_fact(store, "test_plan"))


def load_ledger(store: SessionStore) -> Ledger:
    """Return every charge, without building the model.

    Raises:
        SessionCorruptError: a charge cannot be read.
    """
    contract, _ = load_contract(store)
    empty = choose_filter(contract.domain, contract.budget, contract.options)
    try:
        kind = contract.options.chosen_sparse_vector(empty.composition)
        return ledger_of(contract.budget, empty, read_entries(store.ledger()), kind)
    except (ValueError, ZeroDivisionError) as error:
        raise SessionCorruptError(f"the session file is damaged: {type(error).__name__}") from None


def read_entries(rows: Sequence[LedgerRow]) -> list[LedgerEntry]:
    """Return the charges of rows.

    Raises:
        ValueError: a number cannot be read.
        ZeroDivisionError: a fraction has no value.
    """
    return [LedgerEntry(row.event, row.label, read_charge(row.epsilon, row.rho)) for row in rows]


def read_opening(contract: Contract, rows: Sequence[MeasurementRow]) -> OpeningDraws:
    """Return what opening released, of the rows of all measurements."""
    marginals: list[OneWayMeasurement] = []
    for row in rows:
        if row.kind in ("marginal", "hierarchical histogram"):
            what, noise = json.loads(row.what), json.loads(row.noise)
            if row.kind == "marginal":
                marginals.append(read_marginal(contract.domain, what, row.units, noise))
            else:
                marginals.append(read_tree_measurement(what, row.units, noise))
    (total,) = (row for row in rows if row.kind == "total")
    return OpeningDraws(int(read_units(total.units)[0]), tuple(marginals))


def read_measured(coarsening: Coarsening, row: MeasurementRow) -> LaterMeasurement:
    """Return what a row says was measured: a question, or a marginal over declared cells or bins."""
    what, noise = json.loads(row.what), json.loads(row.noise)
    if row.kind == "measured":
        return MarginalMeasurement(tuple(what), read_cells(coarsening, what, row.units), read_noise(noise))
    return read_query(coarsening.fine, what, row.units, noise)


def read_certificate(coarsening: Coarsening, row: CertificateRow) -> Certificate:
    """Return the certificate of a row."""
    scope = tuple(json.loads(row.scope))
    return Certificate(scope, row.version, row.threshold, read_cells(coarsening, scope, row.units))


def load_history(store: SessionStore) -> History:
    """Return how the budget was spent, from the opening on; a long history is thinned to 2,000 points."""
    contract, plan = load_contract(store)
    ledger = choose_filter(contract.domain, contract.budget, contract.options)
    for entry in opening_entries(plan, contract.options):
        ledger = ledger.charge(entry.charge)
    answers, shares = zip((0, ledger.share), *store.shares(_MOST_POINTS), strict=True)
    return History(np.array(answers), np.array(shares))


def load_status(store: SessionStore, state: PublicState) -> Status:
    """Return where a session stands."""
    return status_of(state, store.asked())


def load_secret(store: SessionStore, tiers: int) -> SecretState:
    """Return the threshold noise of the open rounds of so many tiers."""
    return SecretState(tuple(_read_noisy(store.secret(threshold_name(tier))) for tier in range(tiers)))


def _read_noisy(raw: bytes | None) -> NoisyThreshold | None:
    return None if raw is None else NoisyThreshold(*json.loads(raw))


def load_state(store: SessionStore) -> PublicState:
    """Return the public state that the file's ledger and measurements add up to.

    The model comes from the newest snapshot, corrected by the measurements after it; without a snapshot,
    from the first measurement on.

    Raises:
        SessionCorruptError: the opening has no outcome yet, or the rows contradict each other.
    """
    contract, plan = load_contract(store)
    chained = store.chained()
    rows = chained.measurements
    if not rows:
        raise SessionCorruptError("the session's opening is not finished; ask it a question to finish it")
    try:
        draws = read_opening(contract, rows)
        ledger = _read_ledger(chained.ledger, contract)
        coarsening = choose_bins(contract, plan, draws)
        measured = [read_measured(coarsening, row) for row in rows if row.kind in ("query", "measured")]
        certificates = [read_certificate(coarsening, row) for row in store.certificates()]
    except BudgetExhaustedError:
        raise SessionCorruptError("the session file is damaged: its charges exceed the cap") from None
    except (ValueError, KeyError, TypeError) as error:
        raise SessionCorruptError(f"the session file is damaged: {type(error).__name__}") from None
    total = released_total(plan, draws).value
    found = None
    stored = store.snapshot()
    if stored is not None and contract.options.update is not UpdateRule.STEP:
        # Single steps are taken again: to the last bit, their model depends on their order.
        found = read_snapshot(*stored, contract, SnapshotTerms(coarsening, draws.marginals, measured, total))
    fitted = None if found is None else (found.model, found.step_size)
    state = settle_opening(contract, plan, draws, ledger, load_plan(store), fitted)
    if found is not None:
        state = replace(state, measured=tuple(measured[: found.version]), beside=found.beside)
    for measurement in measured[len(state.measured) :]:
        state = correct(state, measurement)
    return replace(
        state,
        rounds=tuple(store.secret(threshold_name(tier)) is not None for tier in range(len(state.plan))),
        closed=store.meta("closed") is not None,
        certificates={one.scope: one for one in certificates},
        asked=store.answer_count(),
    )


def _fact(store: SessionStore, key: str) -> Any:
    text = store.meta(key)
    if text is None:
        raise SessionCorruptError(f"the session file is damaged: it lacks {key!r}")
    return json.loads(text)


def _read_ledger(rows: Sequence[LedgerRow], contract: Contract) -> PrivacyFilter:
    ledger = choose_filter(contract.domain, contract.budget, contract.options)
    for entry in read_entries(rows):
        ledger = ledger.charge(entry.charge)
    return ledger
