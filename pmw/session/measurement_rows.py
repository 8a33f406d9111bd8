"""Measurement rows: what was measured and certified as rows of the session file, and back, exactly."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmw.loop import OpeningDraws
from pmw.model import (
    Coarsening,
    HierarchicalHistogram,
    HierarchicalMeasurement,
    MarginalMeasurement,
    OneWayMeasurement,
    QueryMeasurement,
    noise_form,
    read_noise,
)
from pmw.public.answer import Basis, QuestionKind
from pmw.public.contract import Contract
from pmw.public.error_quantiles import ErrorQuantile
from pmw.public.state import Certificate, LaterMeasurement
from pmw.session.encoding import dumps, read_tree, tree_form
from pmw.session.store import (
    QUANTILES,
    REQUESTED,
    CertificateRow,
    MeasurementRow,
)
from queries.domain import Domain
from queries.linear import LinearQuery

__all__ = [
    "kind_text",
    "measured_row",
    "one_way_row",
    "quantile_row",
    "read_cells",
    "read_certificate",
    "read_kind",
    "read_marginal",
    "read_measured",
    "read_opening",
    "read_quantile",
    "read_query",
    "read_units",
    "tree_text",
    "units_bytes",
]


def one_way_row(measurement: OneWayMeasurement) -> MeasurementRow:
    """Return the row of what opening measured of one attribute."""
    kind, what = "marginal", dumps(list(measurement.scope))
    if isinstance(measurement, HierarchicalMeasurement):
        kind, what = "hierarchical histogram", tree_text(measurement.scope[0], measurement.tree)
    return MeasurementRow(kind, what, units_bytes(measurement.units), dumps(noise_form(measurement.noise)))


def tree_text(name: str, tree: HierarchicalHistogram) -> str:
    """Return what the row of a hierarchical histogram over an attribute says of it."""
    return dumps({"attribute": name, **tree_form(tree)})


def measured_row(measurement: LaterMeasurement) -> MeasurementRow:
    """Return the row of what a positive, or a request, measured."""
    noise = dumps(noise_form(measurement.noise))
    if isinstance(measurement, QueryMeasurement):
        units = np.array([measurement.units, measurement.model_units])
        return MeasurementRow("query", dumps(measurement.query.to_dict()), units_bytes(units), noise)
    kind = REQUESTED if measurement.requested else "measured"
    return MeasurementRow(kind, dumps(list(measurement.scope)), units_bytes(measurement.units), noise)


def quantile_row(quantile: ErrorQuantile) -> MeasurementRow:
    """Return the row of an error quantile."""
    what = dumps({"kind": kind_text(quantile.kind), "asked": quantile.asked, "questions": quantile.questions})
    return MeasurementRow(
        QUANTILES, what, units_bytes(np.array([quantile.units])), dumps(noise_form(quantile.noise))
    )


def read_quantile(row: MeasurementRow) -> ErrorQuantile:
    """Return the error quantile of a row."""
    what = json.loads(row.what)
    units, noise = int(read_units(row.units)[0]), read_noise(json.loads(row.noise))
    return ErrorQuantile(read_kind(what["kind"]), what["asked"], what["questions"], units, noise)


def kind_text(kind: QuestionKind) -> str:
    """Return a kind of questions as text."""
    return f"{kind.attributes} {kind.basis.value}"


@lru_cache(maxsize=64)
def read_kind(text: str) -> QuestionKind:
    """Return the kind of questions of a text.

    Raises:
        ValueError: there is no such kind.
    """
    attributes, _, basis = text.partition(" ")
    return QuestionKind(int(attributes), Basis(basis))


def read_opening(contract: Contract, rows: Sequence[MeasurementRow]) -> OpeningDraws:
    """Return what opening released, of the rows of all measurements."""
    marginals: list[OneWayMeasurement] = []
    for row in rows:
        if row.kind in ("marginal", "hierarchical histogram"):
            what, noise = json.loads(row.what), json.loads(row.noise)
            if row.kind == "marginal":
                marginals.append(read_marginal(contract.domain, what, row.units, noise))
            else:
                marginals.append(_read_tree_measurement(what, row.units, noise))
    (total,) = (row for row in rows if row.kind == "total")
    return OpeningDraws(int(read_units(total.units)[0]), tuple(marginals))


def read_marginal(domain: Domain, scope: list[str], raw: bytes, noise: dict[str, str]) -> MarginalMeasurement:
    """Return a measured marginal."""
    units = read_units(raw).reshape(domain.scope_shape(scope))
    return MarginalMeasurement(tuple(scope), units, read_noise(noise))


def _read_tree_measurement(
    form: dict[str, Any], raw: bytes, noise: dict[str, str]
) -> HierarchicalMeasurement:
    """Return a measured hierarchical histogram."""
    return HierarchicalMeasurement((form["attribute"],), read_tree(form), read_units(raw), read_noise(noise))


def read_measured(coarsening: Coarsening, row: MeasurementRow) -> LaterMeasurement:
    """Return what a row says was measured: a question, or a marginal over declared cells or groups."""
    what, noise = json.loads(row.what), json.loads(row.noise)
    if row.kind in ("measured", REQUESTED):
        units, requested = read_cells(coarsening, what, row.units), row.kind == REQUESTED
        return MarginalMeasurement(tuple(what), units, read_noise(noise), requested)
    return read_query(coarsening.fine, what, row.units, noise)


def read_query(domain: Domain, form: dict[str, Any], raw: bytes, noise: dict[str, str]) -> QueryMeasurement:
    """Return a measured query; its units are followed by the model's."""
    query = LinearQuery.from_dict(domain, form)
    released, model = (int(units) for units in read_units(raw))
    return QueryMeasurement(query, released, read_noise(noise), model)


def read_certificate(coarsening: Coarsening, row: CertificateRow) -> Certificate:
    """Return the certificate of a row."""
    scope = tuple(json.loads(row.scope))
    return Certificate(scope, row.version, row.threshold, read_cells(coarsening, scope, row.units))


def units_bytes(units: NDArray[np.int64]) -> bytes:
    """Return units as little-endian 64-bit integers in C order."""
    return np.ascontiguousarray(units, dtype="<i8").tobytes()


def read_units(raw: bytes) -> NDArray[np.int64]:
    """Return units as a flat int64 array."""
    return np.frombuffer(raw, dtype="<i8").astype(np.int64)


def read_cells(coarsening: Coarsening, scope: Sequence[str], raw: bytes) -> NDArray[np.int64]:
    """Return the units of a marginal: one axis per attribute, of declared cells or of groups."""
    units = read_units(raw)
    return units.reshape(coarsening.grid(scope, units.size).scope_shape(scope))
