"""Encoding: public values as JSON-ready forms and back, exactly.

Fractions are written as ``"numerator/denominator"``, arrays of units as 64-bit integers. The session file and
the manifest are made of these forms.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmw.mechanism import Proposal, QueryRequest
from pmw.model import MarginalMeasurement, QueryMeasurement, noise_form, read_noise
from pmw.policy import Contract, Opening, OpeningPlan, Options, QueryTestPlan, UpdateRule
from pmw.privacy import Budget, Charge, Composition, NeighboringRelation
from pmw.sparse_vector import NoiseKind, NumericSparse, Sides, Sparse, ThresholdTest
from queries.domain import Domain
from queries.linear import LinearQuery
from queries.schema import format_schema, parse_schema

__all__ = [
    "charge_form",
    "contract_form",
    "dumps",
    "noise_form",
    "opening_plan_form",
    "plan_form",
    "proposal_form",
    "read_charge",
    "read_contract",
    "read_marginal",
    "read_noise",
    "read_opening_plan",
    "read_plan",
    "read_proposal",
    "read_query",
    "read_units",
    "units_bytes",
]

_OPTION_ENUMS: dict[str, type[Any]] = {
    "neighboring_relation": NeighboringRelation,
    "update": UpdateRule,
    "opening": Opening,
    "test_noise": NoiseKind,
    "sides": Sides,
    "composition": Composition,
}


def dumps(form: Any) -> str:
    """Return compact JSON text."""
    return json.dumps(form, separators=(",", ":"), ensure_ascii=False)


# --- contract ----------------------------------------------------------------------------------------------


def contract_form(contract: Contract) -> dict[str, Any]:
    """Return the form of what is fixed at opening."""
    options: dict[str, Any] = {}
    for field in fields(contract.options):
        value = getattr(contract.options, field.name)
        options[field.name] = value.value if field.name in _OPTION_ENUMS and value is not None else value
    return {
        "schema": format_schema(contract.domain),
        "epsilon": str(contract.budget.epsilon),
        "delta": str(contract.budget.delta),
        "options": options,
    }


def read_contract(form: dict[str, Any]) -> Contract:
    """Return the contract of a form."""
    options = {
        name: _OPTION_ENUMS[name](value) if name in _OPTION_ENUMS and value is not None else value
        for name, value in form["options"].items()
    }
    return Contract(
        parse_schema(form["schema"]),
        Budget(Fraction(form["epsilon"]), Fraction(form["delta"])),
        Options(**options),
    )


# --- noise, charges, plans ---------------------------------------------------------------------------------


def charge_form(charge: Charge) -> tuple[str | None, str]:
    """Return epsilon (None where the event is not pure) and rho as texts."""
    return None if charge.epsilon is None else str(charge.epsilon), str(charge.rho)


def read_charge(epsilon: str | None, rho: str) -> Charge:
    """Return the charge of two texts."""
    return Charge(None if epsilon is None else Fraction(epsilon), Fraction(rho))


def opening_plan_form(plan: OpeningPlan) -> dict[str, Any]:
    """Return the form of an opening plan."""
    return {
        "total": None if plan.total_noise is None else noise_form(plan.total_noise),
        "marginals": {name: noise_form(noise) for name, noise in plan.marginal_noise.items()},
    }


def read_opening_plan(form: dict[str, Any]) -> OpeningPlan:
    """Return the opening plan of a form."""
    return OpeningPlan(
        None if form["total"] is None else read_noise(form["total"]),
        {name: read_noise(noise) for name, noise in form["marginals"].items()},
    )


def plan_form(plan: QueryTestPlan | None) -> dict[str, Any] | None:
    """Return the form of a sparse vector plan."""
    if plan is None:
        return None
    sparse, test = plan.vector.sparse, plan.vector.sparse.test
    return {
        "noise": test.noise.value,
        "sides": test.sides.value,
        "sensitivity": test.sensitivity,
        "monotone": test.monotone,
        "threshold_scale": str(test.threshold_scale),
        "query_scale": str(test.query_scale),
        "update_limit": sparse.update_limit,
        "redraw": sparse.redraw,
        "value_noise": noise_form(plan.vector.value_noise),
        "threshold": plan.threshold,
        "learning_rate": plan.learning_rate,
    }


def read_plan(form: dict[str, Any] | None) -> QueryTestPlan | None:
    """Return the sparse vector plan of a form."""
    if form is None:
        return None
    test = ThresholdTest(
        NoiseKind(form["noise"]),
        Sides(form["sides"]),
        form["sensitivity"],
        form["monotone"],
        Fraction(form["threshold_scale"]),
        Fraction(form["query_scale"]),
    )
    sparse = Sparse(test, form["update_limit"], form["redraw"])
    return QueryTestPlan(
        NumericSparse(sparse, read_noise(form["value_noise"])), form["threshold"], form["learning_rate"]
    )


# --- measurements and proposals ----------------------------------------------------------------------------


def units_bytes(units: NDArray[np.int64]) -> bytes:
    """Return units as little-endian 64-bit integers in C order."""
    return np.ascontiguousarray(units, dtype="<i8").tobytes()


def read_units(raw: bytes) -> NDArray[np.int64]:
    """Return units as a flat int64 array."""
    return np.frombuffer(raw, dtype="<i8").astype(np.int64)


def read_marginal(domain: Domain, scope: list[str], raw: bytes, noise: dict[str, str]) -> MarginalMeasurement:
    """Return a measured marginal."""
    units = read_units(raw).reshape(domain.scope_shape(scope))
    return MarginalMeasurement(tuple(scope), units, read_noise(noise))


def read_query(domain: Domain, form: dict[str, Any], raw: bytes, noise: dict[str, str]) -> QueryMeasurement:
    """Return a measured query; its units are followed by the model's."""
    query = LinearQuery.from_dict(domain, form)
    released, model = (int(units) for units in read_units(raw))
    return QueryMeasurement(query, released, read_noise(noise), model)


def proposal_form(proposal: Proposal, texts: Sequence[str]) -> dict[str, Any]:
    """Return the form of a batch: enough to draw and settle it again.

    Args:
        proposal: the batch.
        texts: the canonical text of each of its queries.
    """
    return {
        "queries": list(texts),
        "places": list(proposal.places),
        "model_units": [request.model_units for request in proposal.requests],
        "thresholds": [request.threshold for request in proposal.requests],
        "positives": proposal.positives,
        "opens_round": proposal.opens_round,
        "reserved": None if proposal.reserved is None else charge_form(proposal.reserved),
    }


def read_proposal(domain: Domain, form: dict[str, Any]) -> Proposal:
    """Return the batch of a form."""
    queries = tuple(LinearQuery.from_dict(domain, json.loads(text)) for text in form["queries"])
    numbers = zip(form["places"], form["model_units"], form["thresholds"], strict=True)
    return Proposal(
        queries,
        tuple(QueryRequest(queries[place], units, threshold) for place, units, threshold in numbers),
        tuple(form["places"]),
        form["positives"],
        form["opens_round"],
        None if form["reserved"] is None else read_charge(*form["reserved"]),
    )
