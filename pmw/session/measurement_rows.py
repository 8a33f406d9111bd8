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
    HeadMeasurement,
    HierarchicalMeasurement,
    MarginalMeasurement,
    OneWayMeasurement,
    QueryMeasurement,
    ResidualMeasurement,
    RowsMeasurement,
    SumMeasurement,
    SummedRows,
    SummedValues,
    scope_of_rows,
    sums_of,
)
from pmw.privacy.noise import NoiseDistribution
from pmw.public.codec import FormError, dumps, form_of, loads, read
from pmw.public.contract import Contract
from pmw.public.error_quantiles import ErrorQuantile
from pmw.public.plans import OpeningPlan
from pmw.public.state import Certificate, LaterMeasurement
from pmw.session.store import (
    HEADS,
    OPENING_SUM,
    QUANTILES,
    REQUESTED,
    ROWS,
    SUMS,
    CertificateRow,
    MeasurementRow,
)
from queries.domain import Domain
from queries.linear import LinearQuery

Measured: TypeAlias = LaterMeasurement | SumMeasurement | HeadMeasurement | ErrorQuantile
_KINDS: dict[type, str] = {
    QueryMeasurement: "query",
    RowsMeasurement: ROWS,
    SumMeasurement: SUMS,
    HeadMeasurement: HEADS,
    ErrorQuantile: QUANTILES,
}
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
    kind = _KINDS.get(type(measurement))
    if kind is None and isinstance(measurement, MarginalMeasurement):
        kind = REQUESTED if measurement.requested else "measured"
    return _row(kind or "", measurement)


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
            marginals.append(_measurement(HierarchicalMeasurement, row, _read_units(row.units)))
    (total,) = (row for row in rows if row.kind == "total")
    sums = [read_sum(contract.domain, row) for row in rows if row.kind == OPENING_SUM]
    return OpeningDraws(_one(total.units), tuple(marginals), tuple(sums))


def read_measured(coarsening: Coarsening, row: MeasurementRow) -> LaterMeasurement:
    """Return what a row says was measured: a question, or a marginal over declared cells or groups."""
    if row.kind == "query":
        given = {"units": _one(row.units), "noise": read_noise(row)}
        return read(QueryMeasurement, loads(row.what), domain=coarsening.fine, given=given)  # type: ignore[no-any-return]
    if row.kind == ROWS:
        return _read_rows(coarsening.fine, row)
    units = _read_cells(coarsening, _scope(row), row.units)
    measurement = _marginal(row, units)
    if measurement.requested != (row.kind == REQUESTED):
        raise FormError("a measurement is of another kind")
    return measurement


def _read_rows(domain: Domain, row: MeasurementRow) -> RowsMeasurement:
    """Return the answers to a list of questions of a row."""
    given = {"units": _read_units(row.units), "noise": read_noise(row)}
    found: RowsMeasurement = read(RowsMeasurement, loads(row.what), domain=domain, given=given)
    require_rows(found.queries)
    return found


def require_rows(queries: Sequence[LinearQuery]) -> None:
    """Refuse lists that no session measures: a question that is there twice, or that cells do not decide.

    Raises:
        FormError: it is one.
    """
    if not queries or len({query.to_json() for query in queries}) != len(queries):
        raise FormError("a list of questions is empty, or has one twice")
    if any(query.readings is not None for query in queries):
        raise FormError("a list of questions has one that cells do not decide")


def read_sum(domain: Domain, row: MeasurementRow) -> SumMeasurement:
    """Return the sums of values of a row."""
    what = loads(row.what)
    summed: SummedValues | SummedRows = read(SummedValues | SummedRows, what.pop("summed"), domain=domain)
    require_sum(domain, summed)
    units = _read_units(row.units).reshape(summed.shape(domain))
    given = {"summed": summed, "units": units, "noise": read_noise(row)}
    found: SumMeasurement = read(SumMeasurement, what, given=given)
    return found


def require_sum(domain: Domain, summed: SummedValues) -> None:
    """Refuse sums of what is not summed, and a scope whose attributes are not in declared order.

    Raises:
        ScopeError: the values are not summed, or an attribute is not declared.
        FormError: the attributes are not in order, or are not those of the questions; see ``require_rows``.
    """
    if domain.scope(summed.scope) != summed.scope:
        raise FormError("the attributes of a sum are not in declared order")
    scope = summed.scope
    if isinstance(summed, SummedRows):
        require_rows(summed.rows)
        if scope != scope_of_rows(summed.rows) or not all(row.is_whole for row in summed.rows):
            raise FormError("a sum is not of the questions that it names")
        scope = ()  # values are measured from one number, whatever the questions are about
    found = sums_of(domain, summed.attribute, scope)
    if (summed.by_cells, summed.clipped) != (found.by_cells, found.clipped):
        raise FormError("a sum is measured from elsewhere than its values are")


def read_heads(domain: Domain, row: MeasurementRow) -> HeadMeasurement:
    """Return the numbers of persons of a row."""
    scope = _scope(row)
    require_heads(domain, scope)
    units = _read_units(row.units).reshape(domain.scope_shape(scope))
    found: HeadMeasurement = _measurement(HeadMeasurement, row, units)
    return found


def require_heads(domain: Domain, scope: tuple[str, ...]) -> None:
    """Refuse a scope whose attributes are not in declared order.

    Raises:
        ScopeError: an attribute is not declared.
        FormError: the attributes are not in order.
    """
    if domain.scope(scope) != scope:
        raise FormError("the attributes of numbers of persons are not in declared order")


def read_quantile(row: MeasurementRow) -> ErrorQuantile:
    """Return the error quantile of a row."""
    quantile: ErrorQuantile = _measurement(ErrorQuantile, row, _one(row.units))
    return quantile


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


def _measurement(kind: type, row: MeasurementRow, units: NDArray[np.int64] | int) -> Any:
    return read(kind, loads(row.what), given={"units": units, "noise": read_noise(row)})


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
