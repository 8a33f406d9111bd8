"""Manifests: what an exported file is, how it was made and what it guarantees."""

from __future__ import annotations

from importlib import metadata
from typing import Any

from pmw.privacy.budget import NeighboringRelation
from pmw.public.contract import Contract
from pmw.public.export.rows import RowPlan
from pmw.public.state import PublicState
from queries.schema import format_schema

__all__ = [
    "contract_facts",
    "guarantee",
    "measurements_manifest",
    "program_version",
    "table_manifest",
]


def guarantee(contract: Contract) -> str:
    """Return the guarantee of a session in words."""
    if contract.seeded:
        return "none: the noise of this session is seeded and can be repeated by anybody"
    budget, options = contract.budget, contract.options
    unit = "one record" if options.records_per_person == 1 else f"{options.records_per_person} records"
    neighbors = {
        NeighboringRelation.ADD_REMOVE: f"adding or removing all of one person's records (at most {unit})",
        NeighboringRelation.REPLACE_ONE: f"replacing all of one person's records (at most {unit})",
    }[options.neighboring_relation]
    delta = f", delta = {float(budget.delta):g}" if budget.delta else ""
    return (
        f"differential privacy with epsilon = {float(budget.epsilon):g}{delta}, for {neighbors}; "
        "it covers everything this session releases, however often it is asked"
    )


def contract_facts(state: PublicState) -> dict[str, Any]:
    """Return what every exported file says of its session."""
    contract = state.contract
    return {
        "guarantee": guarantee(contract),
        "epsilon_cap": float(contract.budget.epsilon),
        "delta": float(contract.budget.delta),
        "neighboring_relation": contract.options.neighboring_relation.value,
        "records_per_person": contract.options.records_per_person,
        "budget_share": state.ledger.share,
        "seeded": contract.seeded,
        "test": contract.options.test.value,
        "schema": format_schema(contract.domain),
    }


def table_manifest(state: PublicState, file_format: str, plan: RowPlan, rows: int) -> dict[str, Any]:
    """Return what goes beside a synthetic table."""
    return {
        **_heading(state, file_format, "online-pmw synthetic table"),
        "rows": rows,
        "method": "independent draws" if plan.independent else "systematic rounding",
        "row_seed": plan.seed,
        "model_version": state.version,
        "total": round(state.total.value, 3),
        **contract_facts(state),
    }


def measurements_manifest(state: PublicState, file_format: str) -> dict[str, Any]:
    """Return what goes beside a file of measurements."""
    return {
        **_heading(state, file_format, "online-pmw measurements"),
        "measurements": len(state.measurements),
        "model_version": state.version,
        "total": round(state.total.value, 3),
        **contract_facts(state),
    }


def _heading(state: PublicState, file_format: str, content: str) -> dict[str, Any]:
    return {
        "format": file_format,
        "content": content,
        "format_version": 1,
        "program_version": program_version(),
        "table": state.domain.name,
    }


def program_version() -> str:
    """Return the version of the installed package."""
    try:
        return metadata.version("online-pmw")
    except metadata.PackageNotFoundError:
        return "unknown"
