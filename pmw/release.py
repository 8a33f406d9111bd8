"""Releases: synthetic tables and manifests, made of public state alone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from pmw.errors import ReleaseError
from pmw.policy import Contract
from pmw.privacy import NeighboringRelation
from pmw.state import PublicState
from queries.records import decode_records
from queries.schema import format_schema

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "export_csv",
    "guarantee",
    "manifest",
    "program_version",
    "RowPlan",
    "synthetic_frame",
]

_MOST_ROWS = 10**8


@dataclass(frozen=True, slots=True)
class RowPlan:
    """How synthetic rows are drawn. Nothing private is drawn here: the model is public.

    Args:
        rows: number of rows; None for the session's total, rounded.
        independent: independent draws instead of systematic rounding.
        seed: repeats a drawing; None draws anew.

    Raises:
        ReleaseError: the number of rows is out of range.
    """

    rows: int | None = None
    independent: bool = False
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.rows is not None and not 0 <= self.rows <= _MOST_ROWS:
            raise ReleaseError(f"expected rows from 0 to {_MOST_ROWS:,}, got rows={self.rows}")
        if self.seed is not None and self.seed < 0:
            raise ReleaseError(f"expected a seed of at least 0, got seed={self.seed}")


def synthetic_frame(state: PublicState, plan: RowPlan) -> pd.DataFrame:
    """Return synthetic rows drawn from the model.

    Privacy: post-processing of released numbers; free.
    """
    generator = np.random.default_rng(plan.seed)
    count = round(state.total.value) if plan.rows is None else plan.rows
    records = state.model.sample(count, generator, independent=plan.independent)
    return decode_records(records, generator)


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


def manifest(state: PublicState, plan: RowPlan, rows: int) -> dict[str, Any]:
    """Return what goes beside an export: what it is, how it was made and what it guarantees."""
    contract = state.contract
    return {
        "format": "online-pmw synthetic table",
        "format_version": 1,
        "program_version": program_version(),
        "table": contract.domain.name,
        "rows": rows,
        "method": "independent draws" if plan.independent else "systematic rounding",
        "row_seed": plan.seed,
        "model_version": state.version,
        "total": round(state.total.value, 3),
        "guarantee": guarantee(contract),
        "epsilon_cap": float(contract.budget.epsilon),
        "delta": float(contract.budget.delta),
        "neighboring_relation": contract.options.neighboring_relation.value,
        "records_per_person": contract.options.records_per_person,
        "budget_share": state.ledger.share,
        "seeded": contract.seeded,
        "schema": format_schema(contract.domain),
    }


def export_csv(state: PublicState, path: Path, plan: RowPlan, *, force: bool = False) -> dict[str, Any]:
    """Write synthetic rows as CSV, and beside them ``FILE.manifest.json``; return the manifest.

    Raises:
        ReleaseError: a file exists and ``force`` is not given, or cannot be written.
    """
    beside = path.with_name(path.name + ".manifest.json")
    for target in (path, beside):
        if target.exists() and not force:
            raise ReleaseError(f"{target} exists; choose another name, or overwrite it with --force")
    frame = synthetic_frame(state, plan)
    form = manifest(state, plan, len(frame))
    _write(path, lambda stream: frame.to_csv(stream, index=False, lineterminator="\n"))
    _write(beside, lambda stream: stream.write(json.dumps(form, indent=2, ensure_ascii=False) + "\n"))
    return form


def program_version() -> str:
    """Return the version of the installed package."""
    try:
        return metadata.version("online-pmw")
    except metadata.PackageNotFoundError:
        return "unknown"


def _write(path: Path, write: Callable[[TextIO], object]) -> None:
    """Write a text file whole or not at all."""
    temporary = path.with_name(path.name + ".partial")
    try:
        with open(temporary, "w", encoding="utf-8", newline="") as stream:
            write(stream)
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ReleaseError(f"{path}: the file cannot be written: {error.strerror}") from None
