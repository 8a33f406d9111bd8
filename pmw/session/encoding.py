"""Encoding: public values as JSON-ready forms and back, exactly.

Fractions are written as ``"numerator/denominator"``, arrays of units as 64-bit integers. The session file and
the manifest are made of these forms.
"""

from __future__ import annotations

import json
from dataclasses import fields
from fractions import Fraction
from typing import Any

from pmw.model import (
    DEFAULT_BINS,
    HierarchicalHistogram,
    noise_form,
    read_noise,
)
from pmw.privacy.budget import Budget, Charge, Composition, NeighboringRelation
from pmw.public.charges import Parts
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
from queries.schema import format_schema, parse_schema

__all__ = [
    "charge_form",
    "contract_form",
    "dumps",
    "noise_form",
    "opening_plan_form",
    "parts_form",
    "plan_form",
    "read_charge",
    "read_contract",
    "read_noise",
    "read_opening_plan",
    "read_parts",
    "read_plan",
    "read_tree",
    "tree_form",
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


def charge_form(charge: Charge) -> tuple[str | None, str, str | None]:
    """Return epsilon, rho and mu^2 as texts; None where the event has no such price."""
    return _text(charge.epsilon), str(charge.rho), _text(charge.mu_squared)


def _text(price: Fraction | None) -> str | None:
    return None if price is None else str(price)


def read_charge(epsilon: str | None, rho: str, mu_squared: str | None) -> Charge:
    """Return the charge of three texts."""
    return Charge(_number(epsilon), Fraction(rho), _number(mu_squared))


def _number(text: str | None) -> Fraction | None:
    return None if text is None else Fraction(text)


def parts_form(booked: Parts) -> list[list[str]]:
    """Return the form of whom a charge is booked to."""
    return [[name, str(part)] for name, part in booked]


def read_parts(forms: list[list[str]]) -> Parts:
    """Return whom a charge is booked to, of a form."""
    return tuple((name, Fraction(part)) for name, part in forms)


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


def tree_form(tree: HierarchicalHistogram) -> dict[str, Any]:
    """Return the form of a hierarchical histogram."""
    form = {name: getattr(tree, name) for name in ("cells", "special", "branching", "height")}
    return {**form, "hierarchy": [list(level) for level in tree.hierarchy]} if tree.hierarchy else form


def read_tree(form: dict[str, Any]) -> HierarchicalHistogram:
    """Return the hierarchical histogram of a form."""
    hierarchy = tuple(tuple(level) for level in form.get("hierarchy", ()))
    return HierarchicalHistogram(form["cells"], form["special"], form["branching"], form["height"], hierarchy)


_CELLS = ("most_cells", "free_cells", "fine_cells")


def plan_form(plan: TestPlan) -> list[dict[str, Any]]:
    """Return the form of the tests: one of each tier."""
    return [_tier_form(tier) for tier in plan]


def _tier_form(tier: TierPlan) -> dict[str, Any]:
    form = {"tested": tier.tested, **_sparse_form(tier.sparse), "measured_noise": noise_form(tier.noise)}
    if isinstance(tier, QueryTestPlan):
        return {**form, "threshold": tier.threshold, "learning_rate": tier.learning_rate}
    names = ("noise_factor", "margin", "decay", *_CELLS, "bins")
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
    # Files that say nothing of bins are older than bins that grow with the table.
    sizes = (*(form[name] for name in _CELLS), form.get("bins", DEFAULT_BINS))
    return MarginalTestPlan(sparse, noise, form["noise_factor"], form["margin"], (height, length), *sizes)


def _read_sparse(form: dict[str, Any]) -> Sparse:
    what = (Sides(form["sides"]), form["sensitivity"], form["monotone"])
    scales = (Fraction(form["threshold_scale"]), Fraction(form["query_scale"]))
    test: NoisyComparison
    if form.get("sech2", False):
        test = Sech2Test(ThresholdNoise(form["noise"]), *what, *scales)
    else:
        test = ThresholdTest(NoiseKind(form["noise"]), *what, *scales)
    return Sparse(test, form["update_limit"], form["redraw"])
