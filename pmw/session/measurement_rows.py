"""Measurement rows: what was measured and certified as rows of the session file, and back, exactly.

A row is the form of a measurement in three parts: its numbers, its noise, and all else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pmw.loop import OpeningDraws
from pmw.model import (
    Coarsening,
    HierarchicalMeasurement,
    MarginalMeasurement,
    OneWayMeasurement,
    PersonsMeasurement,
    QueryMeasurement,
    ResidualMeasurement,
    RowsMeasurement,
    SumMeasurement,
    SummedRows,
    SummedValues,
    sums_of,
)
from pmw.privacy.noise import NoiseDistribution
from pmw.public.charges import CellNumbers, Measurable, PersonNumbers, QuestionNumbers, SumNumbers
from pmw.public.codec import FormError, dumps, form_of, loads, read
from pmw.public.contract import Contract
from pmw.public.error_quantiles import ErrorQuantile
from pmw.public.plans import OpeningPlan
from pmw.public.state import ApartMeasurement, Certificate, LaterMeasurement, requested
from pmw.session.store import OPENING_SUM, QUANTILES, CertificateRow, ChainedRows, MeasurementRow
from queries.domain import Domain
from queries.linear import LinearQuery

Measured: TypeAlias = LaterMeasurement | ApartMeasurement | ErrorQuantile
OPENED = ("total", "marginal", "hierarchical histogram", "residual", OPENING_SUM)  # kinds of opening's rows
_KINDS: dict[str, type[Measured]] = {
    "query": QueryMeasurement,
    "measured": MarginalMeasurement,
    CellNumbers.kind: MarginalMeasurement,
    QuestionNumbers.kind: RowsMeasurement,
    SumNumbers.kind: SumMeasurement,
    PersonNumbers.kind: PersonsMeasurement,  # opening measures such a number, too
    QUANTILES: ErrorQuantile,
}
SINCE = frozenset(_KINDS)  # opening
# Fields of a measurement that have columns of their own, or follow from others.
_APART = ("units", "noise", "foundation")


def total_row(plan: OpeningPlan, draws: OpeningDraws) -> MeasurementRow:
    """Return the row of the number of records."""
    noise = dumps(form_of(plan.total_noise))
    return MeasurementRow("total", "[]", _units_bytes(draws.total_units), noise)


def one_way_row(measurement: OneWayMeasurement) -> MeasurementRow:
    """Return the row of what opening measured of one attribute, or of the table."""
    kinds = {HierarchicalMeasurement: "hierarchical histogram", ResidualMeasurement: "residual"}
    return _row(kinds.get(type(measurement), "marginal"), measurement)


def measured_row(measurement: Measured) -> MeasurementRow:
    """Return the row of what a positive, a request, or the release of error quantiles measured."""
    what = None if isinstance(measurement, ErrorQuantile) else requested(measurement)
    tested = {QueryMeasurement: "query", ErrorQuantile: QUANTILES}.get(type(measurement), "measured")
    return _row(tested if what is None else what.kind, measurement)


def opening_sum_row(measured: SumMeasurement) -> MeasurementRow:
    """Return the row of sums of values that opening measured: of a kind of their own."""
    return _row(OPENING_SUM, measured)


def _row(kind: str, measurement: OneWayMeasurement | Measured) -> MeasurementRow:
    what = dumps(form_of(measurement, without=_APART))
    return MeasurementRow(kind, what, _units_bytes(measurement.units), dumps(form_of(measurement.noise)))


def certificate_row(certificate: Certificate) -> CertificateRow:
    """Return the row of a certificate."""
    scope, units = dumps(form_of(certificate.scope)), _units_bytes(certificate.units)
    return CertificateRow(scope, certificate.version, certificate.threshold, units)


def read_opening(contract: Contract, rows: Sequence[MeasurementRow]) -> OpeningDraws:
    """Return what opening released, of the rows of all measurements."""
    marginals: list[OneWayMeasurement] = []
    for row in rows:
        if row.kind in ("marginal", "residual"):
            scope = _scope(row)
            units = _read_units(row.units).reshape(contract.domain.scope_shape(scope))
            marginals.append(_marginal(row, units))
        if row.kind == "hierarchical histogram":
            units = _read_units(row.units)
            marginals.append(_measurement(HierarchicalMeasurement, contract.domain, row, units))
    (total,) = (row for row in rows if row.kind == "total")
    sums = tuple(_read_sums(contract.domain, row) for row in rows if row.kind == OPENING_SUM)
    return OpeningDraws(_one(total.units), tuple(marginals), sums)


def read_since(coarsening: Coarsening, chained: ChainedRows) -> list[tuple[int, Measured]]:
    """Return all that was measured since opening, and of persons then, in order, each with its batch."""
    pairs = zip(chained.measurement_intents, chained.measurements, strict=True)
    return [(intent, _read_measured(coarsening, row)) for intent, row in pairs if row.kind in SINCE]


def _read_measured(coarsening: Coarsening, row: MeasurementRow) -> Measured:
    """Return what a row says was measured; marginals are over declared cells or groups."""
    kind, domain = _KINDS[row.kind], coarsening.fine
    if kind is MarginalMeasurement:
        marginal = _marginal(row, _read_cells(coarsening, _scope(row), row.units))
        if marginal.requested != (row.kind == CellNumbers.kind):
            raise FormError("a measurement is of another kind")
        return marginal
    if kind is SumMeasurement:
        return _read_sums(domain, row)
    is_single = kind in (QueryMeasurement, ErrorQuantile)
    units = _one(row.units) if is_single else _read_units(row.units)
    if kind is PersonsMeasurement:
        units = _read_units(row.units).reshape(domain.scope_shape(_scope(row)))
    found: Measured = _measurement(kind, domain, row, units)
    if not isinstance(found, ErrorQuantile):
        require_measurable(domain, requested(found))
    return found


def _read_sums(domain: Domain, row: MeasurementRow) -> SumMeasurement:
    """Return the sums of values of a row."""
    what = loads(row.what)
    summed: SummedValues | SummedRows = read(SummedValues | SummedRows, what.pop("summed"), domain=domain)
    require_measurable(domain, SumNumbers(summed))
    units = _read_units(row.units).reshape(summed.shape(domain))
    given = {"summed": summed, "units": units, "noise": read_noise(row)}
    found: SumMeasurement = read(SumMeasurement, what, given=given)
    return found


def require_measurable(domain: Domain, what: Measurable | None) -> None:
    """Refuse what no session measures, as a file may say it did.

    Raises:
        ScopeError: an attribute is not declared, or values are not summed.
        FormError: the attributes are not in declared order, or there are others cells than theirs; sums are
            measured from elsewhere; a list of questions is empty, has one twice, or one that cells do not
            decide.
    """
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


def read_noise(row: MeasurementRow) -> NoiseDistribution:
    """Return the distribution of a measurement's noise."""
    noise: NoiseDistribution = read(NoiseDistribution, loads(row.noise))
    return noise


def read_certificate(coarsening: Coarsening, row: CertificateRow) -> Certificate:
    """Return the certificate of a row."""
    scope = read(tuple[str, ...], loads(row.scope))
    return Certificate(scope, row.version, row.threshold, _read_cells(coarsening, scope, row.units))


def require_cells(coarsening: Coarsening, scope: Sequence[str], units: NDArray[np.int64]) -> None:
    """Refuse the units of a marginal whose axes are not those of its attributes, or of their bins.

    Raises:
        ScopeError: they have another number of cells.
        FormError: they have other axes.
    """
    if coarsening.grid(scope, units.size).scope_shape(scope) != units.shape:
        raise FormError("a marginal has other axes than its attributes")


def _marginal(row: MeasurementRow, units: NDArray[np.int64]) -> MarginalMeasurement:
    """Return a marginal that was measured cell by cell, or by rows that have no place in a state yet."""
    what = loads(row.what)
    given = {"units": units, "noise": read_noise(row)}
    found: MarginalMeasurement
    if isinstance(what, dict) and "strategy" in what:
        found = read(ResidualMeasurement, what, given={**given, "foundation": None})
    else:
        found = read(MarginalMeasurement, what, given=given)
    return found


def _measurement(kind: type, domain: Domain, row: MeasurementRow, units: NDArray[np.int64] | int) -> Any:
    return read(kind, loads(row.what), domain=domain, given={"units": units, "noise": read_noise(row)})


def _scope(row: MeasurementRow) -> tuple[str, ...]:
    """Return the scope of a marginal's row."""
    scope: tuple[str, ...] = read(tuple[str, ...], loads(row.what)["scope"])
    return scope


def _units_bytes(units: NDArray[np.int64] | int) -> bytes:
    """Return units as little-endian 64-bit integers in C order."""
    return np.ascontiguousarray(units, dtype="<i8").tobytes()


def _read_units(raw: bytes) -> NDArray[np.int64]:
    """Return units as a flat int64 array."""
    return np.frombuffer(raw, dtype="<i8").astype(np.int64)


def _one(raw: bytes) -> int:
    (units,) = _read_units(raw).tolist()
    return int(units)


def _read_cells(coarsening: Coarsening, scope: Sequence[str], raw: bytes) -> NDArray[np.int64]:
    """Return the units of a marginal: one axis per attribute, of declared cells or of groups."""
    units = _read_units(raw)
    return units.reshape(coarsening.grid(scope, units.size).scope_shape(scope))
