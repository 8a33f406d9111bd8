"""Manifests: what an exported file is, how it was made and what it guarantees."""

from __future__ import annotations

from typing import Any

from pmw.public.contract import guarantee
from pmw.public.error_quantiles import typical_errors
from pmw.public.export.rows import RowPlan
from pmw.public.state import PublicState
from queries.schema import format_schema


def contract_facts(state: PublicState) -> dict[str, Any]:
    """Return what every exported file says of its session."""
    contract = state.contract
    return {
        "guarantee": guarantee(contract),
        "epsilon_cap": float(contract.budget.epsilon),
        "delta": float(contract.budget.delta),
        "neighboring_relation": contract.options.neighboring_relation.value,
        "records_per_person": contract.options.records_per_person,
        **(
            {}
            if contract.options.person_column is None
            else {"person_column": contract.options.person_column}
        ),
        "budget_share": state.ledger.share,
        "seeded": contract.seeded,
        "typical_errors": typical_errors(state.quantiles, contract.options.confidence, state.total.value),
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


def model_manifest(state: PublicState) -> dict[str, Any]:
    """Return what a model file is; it holds this itself, and nothing goes beside it."""
    return {
        **_heading(state, "model", "online-pmw model"),
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
    from importlib import metadata  # late: it takes a twentieth of the time in which a command answers

    try:
        return metadata.version("online-pmw")
    except metadata.PackageNotFoundError:
        return "unknown"
