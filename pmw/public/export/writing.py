"""Writing: an export in one of the formats, whole or not at all, with its manifest beside it."""

from __future__ import annotations

import enum
import json
from pathlib import Path
from typing import Any

from pmw.disk import require_file, write_json, write_whole
from pmw.errors import ReleaseError
from pmw.public.export.manifest import (
    Reproduction,
    measurements_form,
    measurements_manifest,
    reproduction,
    table_manifest,
)
from pmw.public.export.rows import DrawnRows, RowPlan, draw_rows, write_parquet
from pmw.public.state import PublicState

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
    found = reproduction(state, drawn.records) if plan.where is None else Reproduction(0, ())
    return drawn, table_manifest(state, form, plan, len(drawn.records), found)
