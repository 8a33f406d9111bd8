"""Model forms: public rows as one JSON object, and back. Every value is looked at before it is used.

A form from elsewhere may be made to mislead. Its shape is checked first, so that what reads it meets no other
types, no exponents and no numbers beyond 62 bits; then the size of what would be made of it.
"""

from __future__ import annotations

import binascii
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from pmw.planning.opening import check_model_size, choose_filter
from pmw.public.answer import Basis
from pmw.public.contract import Contract, guarantee
from pmw.session import encoding
from pmw.session.public_rows import PublicRows
from pmw.session.shapes import (
    Shape,
    flag,
    fraction,
    one_of,
    optional,
    real,
    require,
    require_shape,
    text,
    whole,
)
from pmw.session.store import CertificateRow, MeasurementRow
from queries.domain import Domain
from queries.schema import LARGEST_SCHEMA

__all__ = [
    "model_form",
    "read_model_form",
]

_MOST_CELLS = 2**24  # of all attributes together, and of the weights of all measured questions: 128 MB each
_HIGHEST = 64  # levels of a hierarchical histogram


def _level(value: Any) -> bool:
    return whole(value) and 0 <= value <= _HIGHEST


def _small(value: Any) -> bool:
    return whole(value) and 0 <= value <= _MOST_CELLS


def _schema(value: Any) -> bool:
    return text(value) and len(value) <= LARGEST_SCHEMA


def _scalar(value: Any) -> bool:
    return value is None or flag(value) or real(value) or text(value)


def _by_name(shape: Shape) -> Shape:
    """Return the shape of an object whose keys are names, each of a value of one shape."""

    def matches(value: Any) -> bool:
        for inner in value.values() if isinstance(value, dict) else ():
            require_shape(inner, shape, "what an attribute has")
        return isinstance(value, dict)

    return matches


_ARRAY: Shape = {"dtype": one_of("<i8", "<f8"), "shape": [whole], "base64": text}
_NOISE: Shape = {
    "distribution": one_of("discrete_laplace", "discrete_gaussian"),
    "scale?": fraction,
    "sigma?": fraction,
}
_TREE: Mapping[str, Shape] = {
    "cells": _small,
    "special": _small,
    "branching": _small,
    "height": _level,
    "hierarchy?": [[_small]],
}
_TIER: Mapping[str, Shape] = {
    "tested": one_of("marginals", "questions"),
    "sech2": flag,
    "noise": text,
    "sides": text,
    "sensitivity": whole,
    "monotone": flag,
    "threshold_scale": fraction,
    "query_scale": fraction,
    "update_limit": whole,
    "redraw": flag,
    "measured_noise": _NOISE,
    "threshold?": whole,
    "learning_rate?": real,
    "noise_factor?": real,
    "margin?": whole,
    "decay?": [whole],
    "most_cells?": whole,
    "free_cells?": whole,
    "fine_cells?": whole,
    "bins?": whole,
}


def _is_factor(value: Any) -> bool:
    """Tell whether a value is a scope and runs of weights, ``[start, stop, weight]``."""
    if not (isinstance(value, list) and len(value) == 2):
        return False
    require_shape(value[0], [text], "a scope")
    require_shape(value[1], [[whole]], "weights")
    return True


_KINDS = [f"{number} {basis.value}" for number in (1, 2, 3) for basis in (Basis.TESTED, Basis.BINS)]


def _count(value: Any) -> bool:
    return whole(value) and value >= 0


_READING: Mapping[str, Shape] = {"factors": [_is_factor], "constant?": whole}
_WHATS: dict[str, Shape] = {
    "total": [text],
    "marginal": [text],
    "hierarchical histogram": {"attribute": text, **_TREE},
    "query": {**_READING, "aligned?": flag, "least?": _READING, "most?": _READING},
    "measured": [text],
    "requested": [text],
    "error quantiles": {"kind": one_of(*_KINDS), "asked": _count, "questions": _count},
}
_MODEL: Shape = {
    "guarantee": text,
    "contract": {"schema": _schema, "epsilon": fraction, "delta": fraction, "options": _by_name(_scalar)},
    "opening_plan": {
        "total": optional(_NOISE),
        "marginals": _by_name(_NOISE),
        "trees": _by_name(_TREE),
        "table": optional(_NOISE),
    },
    "test_plan": [_TIER],
    "spent": fraction,
    "closed": flag,
    "asked": _count,
    "measurements": [
        {
            "kind": one_of(*_WHATS),
            "what": lambda value: isinstance(value, list | dict),
            "noise": optional(_NOISE),
            "units": _ARRAY,
        }
    ],
    "certificates": [{"scope": [text], "version": whole, "threshold": whole, "units": _ARRAY}],
    "distribution": optional({"version": whole, "duals": _ARRAY}),
}


def model_form(rows: PublicRows) -> dict[str, Any]:
    """Return the form of public rows. It is a function of what was released, and holds nothing else."""
    contract = rows.contract
    if contract.seeded:  # that it is seeded is told; the seed would give the open round's noise
        contract = replace(contract, options=replace(contract.options, seed=0))
    return {
        "guarantee": guarantee(contract),
        "contract": encoding.contract_form(contract),
        "opening_plan": encoding.opening_plan_form(rows.opening),
        "test_plan": encoding.plan_form(rows.test),
        "spent": str(rows.ledger.spent),
        "closed": rows.closed,
        "asked": rows.asked,
        "measurements": [
            {
                "kind": row.kind,
                "what": json.loads(row.what),
                "noise": json.loads(row.noise),
                "units": _array_form(row.units, "<i8"),
            }
            for row in rows.measurements
        ],
        "certificates": [
            {
                "scope": json.loads(row.scope),
                "version": row.version,
                "threshold": row.threshold,
                "units": _array_form(row.units, "<i8"),
            }
            for row in rows.certificates
        ],
        "distribution": _distribution_form(rows),
    }


def _distribution_form(rows: PublicRows) -> dict[str, Any] | None:
    if rows.snapshot is None:
        return None
    version, duals = rows.snapshot
    return {"version": version, "duals": _array_form(duals.astype("<f8").tobytes(), "<f8")}


def _array_form(raw: bytes, dtype: str) -> dict[str, Any]:
    """Return the form of a flat little-endian array of 8 bytes per number."""
    return {
        "dtype": dtype,
        "shape": [len(raw) // 8],
        "base64": binascii.b2a_base64(raw, newline=False).decode(),
    }


def read_model_form(form: Any) -> PublicRows:
    """Return the public rows of a form.

    Raises:
        ModelFileError: it has another shape, or is too large.
        ValueError: it cannot be read; KeyError, TypeError, ArithmeticError and our own errors too.
    """
    require_shape(form, _MODEL, "the model")
    for entry in form["measurements"]:
        require_shape(entry["what"], _WHATS[entry["kind"]], f"what the {entry['kind']} is of")
    contract = encoding.read_contract(form["contract"])
    _require_small(contract, form["measurements"])
    ledger = choose_filter(contract.domain, contract.budget, contract.options)
    snapshot, kept = None, form["distribution"]
    if kept is not None:
        duals = np.frombuffer(_array_bytes(kept["duals"], "<f8"), dtype="<f8").astype(np.float64)
        snapshot = kept["version"], duals
    return PublicRows(
        contract,
        encoding.read_opening_plan(form["opening_plan"]),
        encoding.read_plan(form["test_plan"]),
        replace(ledger, spent=Fraction(form["spent"])),
        [_measurement_row(entry) for entry in form["measurements"]],
        [_certificate_row(entry) for entry in form["certificates"]],
        snapshot,
        form["closed"],
        form["asked"],
    )


def _require_small(contract: Contract, measurements: list[dict[str, Any]]) -> None:
    """Refuse what would take more memory than a model may.

    Raises:
        BudgetError: the domain is too large for a dense model that it asks for.
        ModelFileError: so are its attributes, or the weights of questions.
    """
    domain = contract.domain
    check_model_size(domain, contract.options)
    cells = sum(attribute.size for attribute in domain)
    weights = sum(_weights(domain, entry["what"]) for entry in measurements if entry["kind"] == "query")
    require(max(cells, weights) <= _MOST_CELLS, "its attributes or its questions have too many cells")


def _weights(domain: Domain, form: dict[str, Any]) -> int:
    """Return how many weights a question's canonical form stands for."""
    inner = (form[name] for name in ("least", "most") if name in form)
    return sum(domain.scope_size(scope) for scope, _ in form["factors"]) + sum(
        _weights(domain, one) for one in inner
    )


def _measurement_row(entry: dict[str, Any]) -> MeasurementRow:
    if entry["noise"] is not None:
        encoding.read_noise(entry["noise"])  # of the total, the plan's is used
    what, noise = encoding.dumps(entry["what"]), encoding.dumps(entry["noise"])
    return MeasurementRow(entry["kind"], what, _array_bytes(entry["units"], "<i8"), noise)


def _certificate_row(entry: dict[str, Any]) -> CertificateRow:
    units = _array_bytes(entry["units"], "<i8")
    return CertificateRow(encoding.dumps(entry["scope"]), entry["version"], entry["threshold"], units)


def _array_bytes(form: dict[str, Any], dtype: str) -> bytes:
    """Return the bytes of an array whose declared size is that of its text."""
    size = 8 * math.prod(form["shape"]) if len(form["shape"]) == 1 else -1
    fits = form["dtype"] == dtype and size >= 0 and len(form["base64"]) == -(-size // 3) * 4
    require(fits, "an array is not of its declared type or size")
    raw = binascii.a2b_base64(form["base64"], strict_mode=True)
    require(len(raw) == size, "an array is not of its declared size")
    return raw
