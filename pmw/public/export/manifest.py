"""Exports: what a file is, how it was made, what it guarantees; and how one is written, whole or not at all.

The file of measurements has every noisy number that was released, in a form that others can fit a model to. A
manifest goes beside each file; one of rows says which measured marginals these do not have. A table has a
description in Croissant, too: a form by which data sets are found and loaded.

Source: MLCommons, Croissant Format Specification 1.1, with the properties of its RAI vocabulary.
"""

from __future__ import annotations

import enum
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pmw.disk import require_file, write_json, write_whole
from pmw.errors import ReleaseError
from pmw.model.measurement import (
    HierarchicalMeasurement,
    MarginalMeasurement,
    Measurement,
    OneWayMeasurement,
    QueryMeasurement,
    ResidualMeasurement,
    RowsMeasurement,
    SingleMeasurement,
    target_of,
)
from pmw.model.row_fitting import most_squares
from pmw.public.codec import form_of
from pmw.public.contract import guarantee
from pmw.public.error_quantiles import typical_errors
from pmw.public.export.rows import DrawnRows, RowPlan, column_type, draw_rows, write_parquet
from pmw.public.plans import marginal_tier
from pmw.public.state import PublicState
from pmw.public.status import held_pairs, pairs_sentence
from queries.categories import CategoricalAttribute
from queries.cells import number_text
from queries.domain import Attribute, OrderedAttribute
from queries.factors import UNITS
from queries.numbers import NumericAttribute
from queries.places import as_index
from queries.records import CodedRecords
from queries.schema import format_schema, kind_name, parse_schema

_NAMED = 3  # marginals that one line has room for


def reproduction(state: PublicState, records: CodedRecords) -> dict[str, Any]:
    """Return which measured marginals synthetic rows do not reproduce beyond their noise, ready for JSON.

    If rows were the table itself, the squares of their errors, each over the variance of its noise, would sum
    to a chi-square number of as many degrees as the measurement has free numbers. Rows miss a marginal where
    that is more than noise makes but once in about 700 times. Of a pair that is measured as a residual it is
    the residual that counts; what its attributes say alone is looked at alone. Of a scope that was measured
    several times, the quietest measurement counts.

    Returns:
        ``measured``, how many there are; more attributes are not looked at. ``not_reproduced``, the farthest
        first: the scope, and as ``distance`` the sum over its cells of |rows - measured|, less what the noise
        of the measurement makes of it on average, as a fraction of the records.

    Privacy: post-processing of released numbers; free.
    """
    quietest: dict[tuple[str, ...], OneWayMeasurement] = {}
    for one in state.measurements:
        if not isinstance(one, QueryMeasurement | RowsMeasurement) and one.scope:
            known = quietest.get(one.scope)
            if known is None or one.cell_variances.sum() < known.cell_variances.sum():
                quietest[one.scope] = one
    coarse = state.coarsening.cells_of(records.columns)
    found = {
        scope: _shortfall(
            state, one, records.columns if state.domain.scope_size(one.scope) == one.values.size else coarse
        )
        for scope, one in quietest.items()
    }
    missed = sorted(((scope, far) for scope, far in found.items() if far), key=lambda one: -one[1])
    told = [{"scope": list(scope), "distance": round(far, 6)} for scope, far in missed]
    return {"measured": len(quietest), "not_reproduced": told}


def reproduction_sentence(form: dict[str, Any]) -> str:
    """Return what rows miss, in words, of a manifest's form; the empty text where they miss nothing."""
    missed = form["not_reproduced"]
    if not missed:
        return ""
    more = "; …" if len(missed) > _NAMED else ""
    named = "; ".join(f"{', '.join(one['scope'])} ({one['distance']:.1%})" for one in missed[:_NAMED])
    return (
        f"The rows are farther than noise explains from {len(missed)} of {form['measured']} measured "
        f"marginals, in parts of the records: {named}{more}."
    )


def _shortfall(
    state: PublicState, one: OneWayMeasurement, columns: Sequence[NDArray[np.integer[Any]]]
) -> float:
    """Return how far rows are from a marginal beyond its noise, as a part of the records; 0 where not."""
    target = target_of(one, state.total.value)
    own = tuple(columns[state.domain.index(name)] for name in one.scope)
    shape = target.values.shape
    cells = np.ravel_multi_index(own, shape)
    counts = np.bincount(as_index(cells), minlength=target.values.size).reshape(shape)
    errors = counts * (state.total.value / max(1, len(own[0]))) - target.values
    squares, free = float(np.vdot(target.pull(errors), errors)), target.free_numbers
    beyond = float(np.abs(errors).sum()) - math.sqrt(2 / math.pi) * float(np.sqrt(one.cell_variances).sum())
    is_missed = squares > most_squares(free) and beyond > 0
    return beyond / state.total.value if is_missed else 0.0


_MEASUREMENTS = "online-pmw measurements"
Measured = TypeVar("Measured", bound=Measurement)


def contract_facts(state: PublicState) -> dict[str, Any]:
    """Return what every exported file says of its session."""
    contract, more = state.contract, dict[str, Any]()
    person, prior, expected = (
        getattr(contract.options, name) for name in ("person_column", "prior", "expected")
    )
    if person is not None:
        more["person_column"] = person
    if prior is not None:  # and whether the model begins with it
        more["prior"] = {"sha256": prior.digest, "used": state.elects_prior}
    if expected is not None:
        sets = len(expected.scopes)
        more["expected"] = {"sha256": expected.digest, "questions": len(expected), "sets": sets}
    if contract.options.minimum_count is not None:
        more["minimum_count"] = contract.options.minimum_count
    return {
        "guarantee": guarantee(contract),
        "epsilon_cap": float(contract.whole.epsilon),
        "delta": float(contract.whole.delta),
        "neighboring_relation": contract.options.neighboring_relation.value,
        "records_per_person": contract.options.records_per_person,
        **more,
        "budget_share": state.ledger.share,
        "seeded": contract.seeded,
        "typical_errors": [
            asdict(one)
            for one in typical_errors(state.quantiles, contract.options.confidence, state.total.value)
        ],
        "test": contract.options.test.value,
        "schema": format_schema(contract.domain),
    }


def table_manifest(
    state: PublicState, file_format: str, plan: RowPlan, rows: int, marginals: dict[str, Any]
) -> dict[str, Any]:
    """Return what goes beside a synthetic table."""
    method = "independent draws" if plan.independent else "systematic rounding"
    drawn: dict[str, Any] = {"rows": rows, "method": method, "row_seed": plan.seed}
    if plan.where is not None:
        drawn["where"] = plan.where
    if file_format == "csv" and plan.dialect.unusual:
        drawn["dialect"] = plan.dialect.unusual
    return _manifest(state, file_format, "online-pmw synthetic table", {**drawn, "marginals": marginals})


def measurements_manifest(state: PublicState, file_format: str) -> dict[str, Any]:
    """Return what goes beside a file of measurements."""
    return _manifest(state, file_format, _MEASUREMENTS, {"measurements": len(state.measurements)})


def model_manifest(state: PublicState) -> dict[str, Any]:
    """Return what a model file is; it holds this itself, and nothing goes beside it."""
    return _manifest(state, "model", "online-pmw model", {})


def _manifest(state: PublicState, file_format: str, content: str, own: dict[str, Any]) -> dict[str, Any]:
    return {
        "format": file_format,
        **_heading(state, content),
        **own,
        "pairs": held_pairs(state).to_dict(),
        "model_version": state.version,
        "total": state.total.records,
        **contract_facts(state),
    }


def _heading(state: PublicState, content: str) -> dict[str, Any]:
    return {
        "content": content,
        "format_version": 1,
        "program_version": program_version(),
        "table": state.domain.name,
    }


def program_version() -> str:
    """Return the version of the installed package."""
    from importlib import metadata  # late: it takes a twentieth of the time in which a command answers

    try:
        return metadata.version("online-pmw")
    except metadata.PackageNotFoundError:
        return "unknown"


# --- measurements ------------------------------------------------------------------------------------------


def measurements_form(state: PublicState) -> dict[str, Any]:
    """Return all released measurements, ready for JSON.

    Values are in records, exact multiples of 1/``units_per_record``; so is no other number but the noise
    scales, which are fractions in units. Numbers of residuals, and the scales of their noise, are whole
    numbers on the grid of their rows. ``position`` is the order of release: fitting the model to the
    marginals and trees of the opening, then to one more measurement at a time, gives the session's model
    again.

    Returns:
        ``total`` (value, estimate, standard_deviation), ``bins`` (of long attributes: the bin of each
        cell, and its share of the bin's records in the model), ``marginals`` (scope, the attributes of it
        whose cells are bins, shape, values in declared order of cells), ``residuals`` (likewise, with the
        integer rows along each attribute and their factor f, the numbers f (K_1 x ... x K_m) counts + noise
        on a grid of their own, and the counts that these say with the number of records and the
        attributes' own), ``trees`` (scope, nodes of each level, the widest first, the values of all nodes in
        that order, and the cells that least squares makes of them), ``queries`` (canonical form, words,
        value, the model's value that it corrected), ``model`` (the update rule and its rate, what is tested,
        and the positions of what the model does not take in), and what a manifest says of the session.

    Privacy: released numbers alone; free.
    """
    options, questions, bins = state.contract.options, state.query_plan, state.coarsening
    alone = None if marginal_tier(state.plan) else questions  # which takes single steps
    return {
        **_heading(state, _MEASUREMENTS),
        **contract_facts(state),
        "units_per_record": UNITS,
        "model": {
            "version": state.version,
            "update": options.update.value,
            "learning_rate": alone.learning_rate if alone else None,
            "test": options.test.value,
            "beside": [len(state.opening) + place for place in state.beside],
        },
        "total": {
            "value": state.total.value,
            "estimate": state.total.estimate,
            "standard_deviation": state.total.deviation,
        },
        "bins": {
            attribute.name: {"bins": bin_.tolist(), "shares": share.tolist()}
            for attribute, bin_, share in zip(bins.fine, bins.bins, bins.shares, strict=True)
            if bin_ is not None and share is not None
        },
        "marginals": _of_kind(state, MarginalMeasurement, partial(_cells_form, state)),
        "residuals": _of_kind(state, ResidualMeasurement, partial(_cells_form, state)),
        "trees": _of_kind(state, HierarchicalMeasurement, _tree_form),
        "queries": [
            *_of_kind(state, QueryMeasurement, _query_form),
            *(  # all of a list at its place, corrected by no model
                {"position": position, **_query_form(number), "model_value": None}
                for position, one in enumerate(state.measurements)
                for number in (one.numbers if isinstance(one, RowsMeasurement) else ())
            ),
        ],
    }


def _of_kind(
    state: PublicState, kind: type[Measured], form: Callable[[Measured], dict[str, Any]]
) -> list[dict[str, Any]]:
    entries = enumerate(state.measurements)
    return [{"position": position, **form(one)} for position, one in entries if type(one) is kind]


def _cells_form(state: PublicState, measurement: MarginalMeasurement) -> dict[str, Any]:
    """Return the form of a marginal, measured by its cells or by rows."""
    scope, shape = measurement.scope, measurement.units.shape
    head = {
        "scope": list(scope),
        "binned": [name for name, size in zip(scope, shape, strict=True) if size < state.domain[name].size],
        "shape": list(shape),
    }
    values = measurement.values.tolist()
    if not isinstance(measurement, ResidualMeasurement):
        return {**head, "values": values, **_noise_facts(measurement)}
    return {
        **head,
        "factor": measurement.strategy.factor,
        "rows": [axis.matrix.tolist() for axis in measurement.strategy.axes],
        "numbers": measurement.units.tolist(),
        "values": values,
        "standard_deviation": float(measurement.drawn.sigma),
        "noise": form_of(measurement.drawn),
    }


def _tree_form(measurement: HierarchicalMeasurement) -> dict[str, Any]:
    tree = measurement.tree
    return {
        "scope": list(measurement.scope),
        "branching": tree.branching,
        "special_cells": tree.special,
        "levels": list(tree.sizes),
        **({"hierarchy": [list(level) for level in tree.hierarchy]} if tree.hierarchy else {}),
        "values": (measurement.units / UNITS).tolist(),
        "cells": measurement.values.tolist(),
        **_noise_facts(measurement),
    }


def _query_form(measurement: QueryMeasurement) -> dict[str, Any]:
    return {
        "query": measurement.query.to_dict(),
        "words": measurement.query.describe(),
        "value": measurement.value,
        "model_value": measurement.model_units / UNITS,
        **_noise_facts(measurement),
    }


def _noise_facts(measurement: SingleMeasurement) -> dict[str, Any]:
    return {"standard_deviation": math.sqrt(measurement.variance), "noise": form_of(measurement.noise)}


# --- Croissant --------------------------------------------------------------------------------------------

_VERSION = "http://mlcommons.org/croissant/1.1"
_NAMES = (
    "arrayShape citeAs column containedIn equivalentProperty extract field fileObject fileProperty fileSet "
    "format includes isArray isLiveDataset jsonPath key md5 parentField path recordSet references regex "
    "repeated replace samplingRate separator source subField transform"
)
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "name": {"@container": "@language"},
    "description": {"@container": "@language"},
    "data": {"@id": "cr:data", "@type": "@json"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    **{name: f"cr:{name}" for name in _NAMES.split()},
}
_FILE = "file"
_LISTED = 8  # values of a category that its description lists
_FORMATS = {"csv": "text/csv", "parquet": "application/x-parquet"}
_TYPES = {
    "BIGINT": "sc:Integer",
    "BOOLEAN": "sc:Boolean",
    "DATE": "sc:Date",
    "DOUBLE": "sc:Float",
    "TIMESTAMP": "sc:DateTime",
    "TIME": "sc:Time",
    "VARCHAR": "sc:Text",
}


def croissant_form(table: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Croissant description of a synthetic table, ready for JSON.

    It has no licence, address, creator, citation and date: whoever publishes the table adds these.

    Args:
        table: the file of rows, of which the name and the SHA-256 are told.

    Privacy: a function of the exported file and its manifest, which are public; free.
    """
    guarantee = f"{manifest['guarantee'][:1].upper()}{manifest['guarantee'][1:]}."
    limits = [pairs_sentence(manifest["pairs"]), reproduction_sentence(manifest["marginals"])]
    with table.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": _VERSION,
        "name": f"{manifest['table']}-synthetic",
        "description": f"{manifest['rows']:,} synthetic rows; none is a record of a person. {guarantee}",
        "isLiveDataset": False,
        "rai:dataCollection": "Drawn from a model that was fitted to counts of the table under noise.",
        "rai:personalSensitiveInformation": guarantee,
        "rai:dataLimitations": " ".join(filter(None, limits)),
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": _FILE,
                "name": table.name,
                "contentUrl": table.name,
                "encodingFormat": _FORMATS[manifest["format"]],
                "sha256": digest,
            }
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": "rows",
                "name": "rows",
                "field": list(map(_field, count(), parse_schema(manifest["schema"]))),
            }
        ],
    }


def _field(place: int, attribute: Attribute) -> dict[str, Any]:
    """Return a column: its type, which is that of a Parquet file, and its declaration in words.

    It is known by its place, since readers take no blank in an ``@id``.
    """
    return {
        "@type": "cr:Field",
        "@id": f"rows/{place}",
        "name": attribute.name,
        "description": _words(attribute),
        "dataType": _TYPES[column_type(attribute)],
        "source": {"fileObject": {"@id": _FILE}, "extract": {"column": attribute.name}},
    }


def _words(attribute: Attribute) -> str:
    if isinstance(attribute, CategoricalAttribute):
        shown = [attribute.label(code) for code in range(min(attribute.base_size, _LISTED))]
        values = ", ".join(shown) + (", …" if attribute.base_size > _LISTED else "")
    else:
        values = " to ".join(_ends(attribute))
    empty = "; may be empty" if attribute.missing else ""
    other = f"; {attribute.label(attribute.size - 1)} is any other value" if attribute.other else ""
    return f"{kind_name(attribute)}: {values}{empty}{other}"


def _ends(attribute: OrderedAttribute) -> tuple[str, str]:
    if isinstance(attribute, NumericAttribute):
        low, high = attribute.ends
        return number_text(low), number_text(high)
    return str(attribute.minimum), str(attribute.maximum)


# --- writing ----------------------------------------------------------------------------------------------

_BY_SUFFIX = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet", ".model": "model", "": "csv"}


class ExportFormat(enum.Enum):
    """What an export holds, and how it is written."""

    CSV = "csv"  # synthetic rows
    PARQUET = "parquet"  # synthetic rows in typed columns
    MEASUREMENTS = "measurements"  # every released number, as JSON
    MODEL = "model"  # what questions are answered from, as JSON; a session writes it

    @property
    def has_rows(self) -> bool:
        """Whether synthetic rows are drawn for it."""
        return self in (ExportFormat.CSV, ExportFormat.PARQUET)

    @classmethod
    def chosen(cls, name: str | None, path: Path) -> ExportFormat:
        """Return the format of a name, or, without one, of a file's name; one without an ending is CSV.

        A name decides, whatever the file is called.
        """
        if name is None:
            if path.suffix.lower() not in _BY_SUFFIX:
                known = ", ".join(suffix for suffix in _BY_SUFFIX if suffix)
                raise ReleaseError(
                    f"{path.name}: expected a name that ends in {known}; or say what to write with "
                    f"format = {', '.join(one.value for one in cls)}"
                )
            return cls(_BY_SUFFIX[path.suffix.lower()])
        try:
            return cls(name)
        except ValueError:
            known = ", ".join(known.value for known in cls)
            raise ReleaseError(f"expected a format of {known}, got {name!r}") from None


def export(
    state: PublicState,
    path: Path,
    plan: RowPlan | None = None,
    *,
    format: str | None = None,
    force: bool = False,
    refined: bool = False,
) -> dict[str, Any]:
    """Write synthetic rows or measurements, and beside them ``FILE.manifest.json``; return the manifest.

    A Parquet file holds it too, as JSON in its own metadata (``MANIFEST_KEY``).

    Args:
        plan: how rows are drawn; measurements have none.
        format: csv, parquet or measurements; None goes by the file's name.

    Privacy: post-processing of released numbers; free.
    """
    chosen, beside = require_target(path, format=format, force=force)
    if chosen is ExportFormat.MODEL:
        raise ReleaseError("a model is written by the export of a session")
    if chosen is ExportFormat.MEASUREMENTS and plan is not None:
        raise ReleaseError("measurements have no rows to draw; leave out rows, method, seed and where")
    if chosen is ExportFormat.MEASUREMENTS:
        form = measurements_manifest(state, chosen.value)
        write_json(path, measurements_form(state))
    else:
        drawn, manifest = drawn_table(state, plan or RowPlan(), chosen.value)
        form = {**manifest, "refined": refined}

        def write(target: Path) -> None:
            if chosen is ExportFormat.PARQUET:
                write_parquet(drawn.frame(), state.domain, target, json.dumps(form, ensure_ascii=False))
                return
            with target.open("wb") as stream:
                stream.writelines(drawn.csv_parts())

        write_whole(path, write)
    write_json(beside, form)
    return form


def require_target(path: Path, *, format: str | None, force: bool) -> tuple[ExportFormat, Path]:
    """Return the format of an export and the manifest's file, before anything is written."""
    chosen = ExportFormat.chosen(format, path)
    require_file(path, force=force)
    beside = path.with_name(path.name + ".manifest.json")
    require_file(beside, force=force)
    return chosen, beside


def drawn_table(state: PublicState, plan: RowPlan, form: str) -> tuple[DrawnRows, dict[str, Any]]:
    """Return synthetic rows, and the manifest of a table of them."""
    drawn = draw_rows(state, plan)
    found: dict[str, Any] = {"measured": 0, "not_reproduced": []}
    if plan.where is None:
        found = reproduction(state, drawn.records)
    return drawn, table_manifest(state, form, plan, len(drawn.records), found)
