"""Events: what a session did, as rows of its file and back, exactly. Nothing else reads these rows.

The row of a measurement is its form in three parts: its numbers, its noise, and all else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.errors import SessionCorruptError
from pmw.loop.untested import OpeningDraws, choose_bins
from pmw.model.bins import Coarsening
from pmw.model.measurement import (
    HierarchicalMeasurement,
    MarginalMeasurement,
    OneWayMeasurement,
    PersonsMeasurement,
    QueryMeasurement,
    ResidualMeasurement,
    RowsMeasurement,
    SumMeasurement,
    SummedRows,
)
from pmw.model.value_sums import SummedValues, sums_of
from pmw.planning.refusals import check_model_size
from pmw.privacy.budget import Charge
from pmw.privacy.filter import PrivacyFilter, open_filter
from pmw.privacy.noise import NoiseDistribution
from pmw.public.charges import (
    CellNumbers,
    LedgerEntry,
    Measurable,
    Parts,
    PersonNumbers,
    QuestionNumbers,
    SumNumbers,
)
from pmw.public.codec import FormError, dumps, form_of, loads, read
from pmw.public.contract import Contract
from pmw.public.error_quantiles import ErrorQuantile
from pmw.public.plans import OpeningPlan, TestPlan
from pmw.public.state import ApartMeasurement, Certificate, LaterMeasurement, requested
from pmw.session.store.rows import OPENING_SUM, QUANTILES, CertificateRow, LedgerRow, MeasurementRow
from pmw.session.store.store import SessionStore
from queries.domain import Domain
from queries.frozen import dataclass
from queries.linear import LinearQuery

if TYPE_CHECKING:
    from pmw.public.ledger import Ledger

Measured: TypeAlias = LaterMeasurement | ApartMeasurement | ErrorQuantile
_OPENED: dict[str, Any] = {  # of opening, besides the number of records
    "marginal": MarginalMeasurement,
    "hierarchical histogram": HierarchicalMeasurement,
    "residual": ResidualMeasurement,
    OPENING_SUM: SumMeasurement,
}
_SINCE: dict[str, Any] = {
    "query": QueryMeasurement,
    "measured": MarginalMeasurement,
    CellNumbers.kind: MarginalMeasurement,
    QuestionNumbers.kind: RowsMeasurement,
    SumNumbers.kind: SumMeasurement,
    PersonNumbers.kind: PersonsMeasurement,  # opening measures such a number, too
    QUANTILES: ErrorQuantile,
}
_KINDS = {**_OPENED, **_SINCE}
KINDS = {"total", *_KINDS}  # of all rows
# Fields of a measurement that have columns of their own, or follow from others.
_APART = ("units", "noise", "foundation")


# What reading a damaged text raises.
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)


@contextmanager
def damage_is_one_error() -> Iterator[None]:
    """Say of whatever cannot be read that the session file is damaged."""
    try:
        yield
    except FormError as error:  # it names fields of ours, and no value
        raise SessionCorruptError(f"the session file is damaged: {error}") from None
    except UNREADABLE as error:
        raise SessionCorruptError(f"the session file is damaged: {type(error).__name__}") from None


def total_row(plan: OpeningPlan, draws: OpeningDraws) -> MeasurementRow:
    """Return the row of the number of records."""
    noise = dumps(form_of(plan.total_noise))
    return MeasurementRow("total", "[]", _units_bytes(draws.total_units), noise)


def opening_row(measured: OneWayMeasurement | SumMeasurement) -> MeasurementRow:
    """Return the row of what opening measured by its plan."""
    return _row(next(name for name, kind in _OPENED.items() if kind is type(measured)), measured)


def measured_row(measurement: Measured) -> MeasurementRow:
    """Return the row of what a positive, a request, or the release of error quantiles measured."""
    what = None if isinstance(measurement, ErrorQuantile) else requested(measurement)
    tested = {QueryMeasurement: "query", ErrorQuantile: QUANTILES}.get(type(measurement), "measured")
    return _row(tested if what is None else what.kind, measurement)


def _row(kind: str, measurement: OneWayMeasurement | Measured) -> MeasurementRow:
    what = dumps(form_of(measurement, without=_APART))
    return MeasurementRow(kind, what, _units_bytes(measurement.units), dumps(form_of(measurement.noise)))


def certificate_row(certificate: Certificate) -> CertificateRow:
    """Return the row of a certificate."""
    scope, units = dumps(form_of(certificate.scope)), _units_bytes(certificate.units)
    return CertificateRow(scope, certificate.version, certificate.threshold, units)


# --- from rows ---------------------------------------------------------------------------------------------


def _read_measurement(coarsening: Coarsening, row: MeasurementRow) -> Any:
    """Return what a row says was measured; residuals have no place in a state yet."""
    kind, domain, what = _KINDS[row.kind], coarsening.fine, loads(row.what)
    units = np.frombuffer(row.units, dtype="<i8").astype(np.int64)
    given: dict[str, Any] = {"units": units, "noise": read_noise(row)}
    if kind in (QueryMeasurement, ErrorQuantile):
        (given["units"],) = units.tolist()
    elif kind is SumMeasurement:
        summed = given["summed"] = read(SummedValues | SummedRows, what.pop("summed"), domain=domain)
        require_measurable(domain, SumNumbers(summed))
        given["units"] = units.reshape(summed.shape(domain))
    elif kind in (MarginalMeasurement, ResidualMeasurement, PersonsMeasurement):
        grid = Coarsening.identity(domain) if kind is PersonsMeasurement else coarsening
        given["units"] = _cells(grid, read(tuple[str, ...], what["scope"]), units)
    if kind in (MarginalMeasurement, ResidualMeasurement) and "strategy" in what:
        kind, given["foundation"] = ResidualMeasurement, None
    found = read(kind, what, domain=domain, given=given)
    if isinstance(found, MarginalMeasurement) and found.requested != (row.kind == CellNumbers.kind):
        raise FormError("a measurement is of another kind")
    if isinstance(found, RowsMeasurement | PersonsMeasurement):
        require_measurable(domain, requested(found))
    return found


def read_certificate(coarsening: Coarsening, row: CertificateRow) -> Certificate:
    """Return the certificate of a row."""
    scope, units = read(tuple[str, ...], loads(row.scope)), np.frombuffer(row.units, dtype="<i8")
    return Certificate(scope, row.version, row.threshold, _cells(coarsening, scope, units))


def _cells(coarsening: Coarsening, scope: Sequence[str], units: NDArray[np.int64]) -> NDArray[np.int64]:
    return units.reshape(coarsening.grid(scope, units.size).scope_shape(scope))


def read_noise(row: MeasurementRow) -> NoiseDistribution:
    """Return the distribution of a measurement's noise."""
    noise: NoiseDistribution = read(NoiseDistribution, loads(row.noise))
    return noise


def require_measurable(domain: Domain, what: Measurable | None) -> None:
    """Refuse what no session measures, as a file may say it did."""
    if what is None:
        return
    if isinstance(what, QuestionNumbers):
        _require_questions(what.queries)
    if domain.scope(what.scope) != what.scope:
        raise FormError(f"the attributes of {what.kind} are not in declared order")
    if isinstance(what, SumNumbers):
        _require_sums(domain, what.summed)
    if isinstance(what, PersonNumbers) and what.cells != domain.scope_size(what.scope):
        raise FormError("numbers of persons have other cells than their attributes")


def _require_sums(domain: Domain, summed: SummedValues) -> None:
    scope = summed.scope
    if isinstance(summed, SummedRows):
        _require_questions(summed.rows)
        if scope != QuestionNumbers(summed.rows).scope or not all(row.is_whole for row in summed.rows):
            raise FormError("a sum is not of the questions that it names")
        scope = ()  # values are measured from one number, whatever the questions are about
    found = sums_of(domain, summed.attribute, scope)
    if (summed.by_cells, summed.clipped) != (found.by_cells, found.clipped):
        raise FormError("a sum is measured from elsewhere than its values are")


def _require_questions(queries: Sequence[LinearQuery]) -> None:
    if not queries or len({query.to_json() for query in queries}) != len(queries):
        raise FormError("a list of questions is empty, or has one twice")
    if any(query.readings is not None for query in queries):
        raise FormError("a list of questions has one that cells do not decide")


def require_cells(coarsening: Coarsening, scope: Sequence[str], units: NDArray[np.int64]) -> None:
    """Refuse the units of a marginal whose axes are not those of its attributes, or of their bins."""
    if coarsening.grid(scope, units.size).scope_shape(scope) != units.shape:
        raise FormError("a marginal has other axes than its attributes")


def _units_bytes(units: NDArray[np.int64] | int) -> bytes:
    return np.ascontiguousarray(units, dtype="<i8").tobytes()


# --- what a session file says ------------------------------------------------------------------------------


def load_contract(store: SessionStore) -> tuple[Contract, OpeningPlan]:
    """Return what was fixed at opening, and the noise of the opening measurements."""
    contract: Contract = _fact(store, "contract", Contract)
    check_model_size(contract.domain, contract.options)
    return contract, _fact(store, "opening_plan", OpeningPlan)


def _fact(store: SessionStore, key: str, kind: Any) -> Any:
    text = store.meta(key)
    if text is None:
        raise SessionCorruptError(f"the session file is damaged: it lacks {key!r}")
    with damage_is_one_error():
        return read(kind, loads(text))


def empty_ledger(contract: Contract) -> PrivacyFilter:
    """Return the filter of a contract with nothing spent."""
    if contract.options.composition is not None:  # as opening chose it
        return open_filter(contract.budget, contract.options.composition)
    from pmw.planning.opening import choose_filter

    return choose_filter(contract.domain, contract.budget, contract.options)


def read_entries(rows: Sequence[LedgerRow]) -> list[LedgerEntry]:
    """Return the charges of rows."""
    with damage_is_one_error():
        return [LedgerEntry(row.event, row.label, *_price(row)) for row in rows]


def _price(row: LedgerRow) -> tuple[Charge, Parts]:
    charge = {name: getattr(row, name) for name in ("epsilon", "rho", "mu_squared")}
    return read(Charge, charge), read(Parts, loads(row.booked))


@dataclass(frozen=True, slots=True, eq=False)
class SessionEvent:
    """One batch after what opening planned: what it charged, and what it released.

    Args:
        charges: each with its place among all charges, from 1.
        released: what was measured of the table, in order.
    """

    batch: int
    charges: tuple[tuple[int, LedgerEntry], ...]
    released: tuple[Measured, ...]

    @property
    def measured(self) -> tuple[LaterMeasurement | ApartMeasurement, ...]:
        """What was released besides error quantiles."""
        return tuple(one for one in self.released if not isinstance(one, ErrorQuantile))


class Contents:
    """What a session file says: what was fixed at opening, and all events since.

    Measurements are read when they are first asked for, so that damage of one hides nothing else.

    Attributes:
        contract: what was fixed at opening.
        opening: the noise of the opening measurements.
        test: the tiers of tests; none before the opening is finished, or where nothing was left for any.
        cap: the session's filter with nothing spent.
        chained: the rows of charges and measurements, with their batches.
        entries: the charges, in order.
        opened: how many of them opening has by its plan.
        closed: the session was closed permanently.
    """

    def __init__(self, store: SessionStore) -> None:
        self.contract, plan = load_contract(store)
        self.opening, self.chained = plan, store.chained()
        self.test: TestPlan = _fact(store, "test_plan", TestPlan) if self.chained.measurements else ()
        self.cap = empty_ledger(self.contract)
        self.entries = read_entries(self.chained.ledger)
        alone = sum(noise is not None for noise in (plan.total_noise, plan.table_noise))
        self.opened = alone + len(plan.marginal_noise) + len(plan.sums)
        self.closed = store.meta("closed") is not None

    @cached_property
    def draws(self) -> OpeningDraws:
        """What opening released."""
        rows, fine = self.chained.measurements, Coarsening.identity(self.contract.domain)
        (total,) = (row for row in rows if row.kind == "total")
        (units,) = np.frombuffer(total.units, dtype="<i8").tolist()
        found = [_read_measurement(fine, row) for row in rows if row.kind in _OPENED]
        sums = tuple(one for one in found if isinstance(one, SumMeasurement))
        return OpeningDraws(units, tuple(one for one in found if not isinstance(one, SumMeasurement)), sums)

    @cached_property
    def coarsening(self) -> Coarsening:
        """The bins that marginals are tested and measured on, from what opening released."""
        return choose_bins(self.contract, self.opening, self.draws, self.test)

    @cached_property
    def events(self) -> tuple[SessionEvent, ...]:
        """The batches in order; the first has what opening charged and released besides its plan."""
        charges, released = defaultdict[int, list[Any]](list), defaultdict[int, list[Any]](list)
        for place, batch in enumerate(self.chained.ledger_intents[self.opened :], start=self.opened):
            charges[batch].append((place + 1, self.entries[place]))
        rows = zip(self.chained.measurement_intents, self.chained.measurements, strict=True)
        for batch, row in rows:
            if row.kind in _SINCE:
                released[batch].append(_read_measurement(self.coarsening, row))
        batches = sorted({*charges, *released})
        return tuple(SessionEvent(one, tuple(charges[one]), tuple(released[one])) for one in batches)

    @property
    def released(self) -> tuple[Measured, ...]:
        """All that was measured since opening, and of persons then, in order."""
        return tuple(one for event in self.events for one in event.released)

    @property
    def measured(self) -> tuple[LaterMeasurement, ...]:
        """What the model is fitted to since opening, in order."""
        return tuple(one for one in self.released if isinstance(one, LaterMeasurement))

    @cached_property
    def ledger(self) -> Ledger:
        """The charges with their shares of the cap, whether or not they fit under it."""
        from pmw.public.ledger import ledger_of

        kind = self.contract.options.chosen_sparse_vector(self.cap.composition)
        return ledger_of(self.contract.budget, self.cap, self.entries, kind)
