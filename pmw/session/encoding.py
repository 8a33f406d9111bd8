"""Encoding: public values as JSON-ready forms and back, exactly.

Fractions are written as ``"numerator/denominator"``, arrays of units as 64-bit integers. The session file and
the manifest are made of these forms.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import fields
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmw.loop import MarginalRequest, Proposal, QueryRequest, Request
from pmw.model import (
    Coarsening,
    HierarchicalHistogram,
    HierarchicalMeasurement,
    MarginalMeasurement,
    QueryMeasurement,
    noise_form,
    read_noise,
)
from pmw.privacy.budget import Budget, Charge, Composition, NeighboringRelation
from pmw.public.contract import Contract, ModelKind, Opening, Options, TestKind, UpdateRule
from pmw.public.plans import MarginalTestPlan, OpeningPlan, QueryTestPlan, TestPlan, TierPlan
from pmw.sparse_vector import (
    NoiseKind,
    NoisyComparison,
    NumericSparse,
    Sech2Test,
    Sides,
    Sparse,
    SparseVectorKind,
    ThresholdNoise,
    ThresholdTest,
)
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
    "read_cells",
    "read_charge",
    "read_contract",
    "read_marginal",
    "read_noise",
    "read_opening_plan",
    "read_plan",
    "read_proposal",
    "read_query",
    "read_tree",
    "read_tree_measurement",
    "read_units",
    "tree_form",
    "units_bytes",
]

_OPTION_ENUMS: dict[str, type[Any]] = {
    "neighboring_relation": NeighboringRelation,
    "test": TestKind,
    "model": ModelKind,
    "update": UpdateRule,
    "opening": Opening,
    "sparse_vector": SparseVectorKind,
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
    # Files that say nothing of it are older than tests of marginals.
    chosen = {"test": TestKind.QUERY.value, **_with_sparse_vector(form["options"])}
    options = {
        name: _OPTION_ENUMS[name](value) if name in _OPTION_ENUMS and value is not None else value
        for name, value in chosen.items()
    }
    return Contract(
        parse_schema(form["schema"]),
        Budget(Fraction(form["epsilon"]), Fraction(form["delta"])),
        Options(**options),
    )


def _with_sparse_vector(options: dict[str, Any]) -> dict[str, Any]:
    """Return the form of options with the sparse vector by name; older files give its parts."""
    if "test_noise" not in options:
        return options
    others = {name: value for name, value in options.items() if name not in ("test_noise", "redraw")}
    noise, redraw = options["test_noise"], options["redraw"]
    if redraw is None:
        redraw = options["composition"] == Composition.ZCDP.value
    return {**others, "sparse_vector": f"{noise}-rounds" if redraw else noise}


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
        "trees": {name: tree_form(tree) for name, tree in plan.trees.items()},
        "table": None if plan.table_noise is None else noise_form(plan.table_noise),
    }


def read_opening_plan(form: dict[str, Any]) -> OpeningPlan:
    """Return the opening plan of a form."""
    return OpeningPlan(
        None if form["total"] is None else read_noise(form["total"]),
        {name: read_noise(noise) for name, noise in form["marginals"].items()},
        {name: read_tree(tree) for name, tree in form.get("trees", {}).items()},
        read_noise(form["table"]) if form.get("table") else None,
    )


def tree_form(tree: HierarchicalHistogram) -> dict[str, int]:
    """Return the form of a hierarchical histogram."""
    return {name: getattr(tree, name) for name in ("cells", "special", "branching", "height")}


def read_tree(form: dict[str, int]) -> HierarchicalHistogram:
    """Return the hierarchical histogram of a form."""
    return HierarchicalHistogram(form["cells"], form["special"], form["branching"], form["height"])


_CELLS = ("most_cells", "free_cells", "fine_cells")


def plan_form(plan: TestPlan) -> list[dict[str, Any]]:
    """Return the form of the tests: one of each tier."""
    return [_tier_form(tier) for tier in plan]


def _tier_form(tier: TierPlan) -> dict[str, Any]:
    form = {"tested": tier.tested, **_sparse_form(tier.sparse), "measured_noise": noise_form(tier.noise)}
    if isinstance(tier, QueryTestPlan):
        return {**form, "threshold": tier.threshold, "learning_rate": tier.learning_rate}
    names = ("noise_factor", "margin", "decay", *_CELLS)
    return {**form, **{name: getattr(tier, name) for name in names}}


def _sparse_form(sparse: Sparse) -> dict[str, Any]:
    test = sparse.test
    return {
        "sech2": isinstance(test, Sech2Test),
        "noise": test.noise.value,
        "sides": test.sides.value,
        "sensitivity": test.sensitivity,
        "monotone": test.monotone,
        "threshold_scale": str(test.threshold_scale),
        "query_scale": str(test.query_scale),
        "update_limit": sparse.update_limit,
        "redraw": sparse.redraw,
    }


def read_plan(forms: list[dict[str, Any]]) -> TestPlan:
    """Return the tests of a form."""
    return tuple(_read_tier(form) for form in forms)


def _read_tier(form: dict[str, Any]) -> TierPlan:
    sparse, noise = _read_sparse(form), read_noise(form["measured_noise"])
    if form["tested"] == QueryTestPlan.tested:
        return QueryTestPlan(NumericSparse(sparse, noise), form["threshold"], form["learning_rate"])
    height, length = form["decay"]
    cells = (form[name] for name in _CELLS)
    return MarginalTestPlan(sparse, noise, form["noise_factor"], form["margin"], (height, length), *cells)


def _read_sparse(form: dict[str, Any]) -> Sparse:
    what = (Sides(form["sides"]), form["sensitivity"], form["monotone"])
    scales = (Fraction(form["threshold_scale"]), Fraction(form["query_scale"]))
    test: NoisyComparison
    if form.get("sech2", False):
        test = Sech2Test(ThresholdNoise(form["noise"]), *what, *scales)
    else:
        test = ThresholdTest(NoiseKind(form["noise"]), *what, *scales)
    return Sparse(test, form["update_limit"], form["redraw"])


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


def read_cells(coarsening: Coarsening, scope: Sequence[str], raw: bytes) -> NDArray[np.int64]:
    """Return the units of a marginal: one axis per attribute, of declared cells or of bins."""
    units = read_units(raw)
    return units.reshape(coarsening.grid(scope, units.size).scope_shape(scope))


def read_tree_measurement(form: dict[str, Any], raw: bytes, noise: dict[str, str]) -> HierarchicalMeasurement:
    """Return a measured hierarchical histogram."""
    return HierarchicalMeasurement((form["attribute"],), read_tree(form), read_units(raw), read_noise(noise))


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
        "tier": proposal.tier,
        "needs": list(proposal.needs),
        "requests": [_request_form(request) for request in proposal.requests],
        "positives": proposal.positives,
        "opens_round": proposal.opens_round,
        "reserved": None if proposal.reserved is None else charge_form(proposal.reserved),
    }


def _request_form(request: Request) -> list[Any]:
    """Return the form of a request; a question's own text stands in the batch."""
    if isinstance(request, QueryRequest):
        return [request.model_units, request.threshold]
    units = base64.b64encode(units_bytes(request.model_units)).decode()
    return [units, request.threshold, list(request.scope), list(request.measured)]


def read_proposal(coarsening: Coarsening, form: dict[str, Any]) -> Proposal:
    """Return the batch of a form.

    Args:
        coarsening: the declared attributes, and the bins that marginals may be over.
        form: of the batch.
    """
    queries = tuple(LinearQuery.from_dict(coarsening.fine, json.loads(text)) for text in form["queries"])
    needs, requests = tuple(form["needs"]), form["requests"]
    found: list[Request]
    if any(len(request) > 2 for request in requests):  # with scopes
        found = [_read_marginal_request(coarsening, *request) for request in requests]
    else:
        # A question is tested where the number of requests that come up to it grows.
        pairs = zip(queries, needs, (0, *needs), strict=False)
        tested = [query for query, need, before in pairs if need > before]
        found = [QueryRequest(query, *request) for query, request in zip(tested, requests, strict=True)]
    return Proposal(
        queries,
        form["tier"],
        tuple(found),
        needs,
        form["positives"],
        form["opens_round"],
        None if form["reserved"] is None else read_charge(*form["reserved"]),
    )


def _read_marginal_request(
    coarsening: Coarsening, units: str, threshold: int, scope: list[str], measured: list[str]
) -> MarginalRequest:
    cells = read_cells(coarsening, scope, base64.b64decode(units))
    return MarginalRequest(tuple(scope), cells, threshold, tuple(measured))
