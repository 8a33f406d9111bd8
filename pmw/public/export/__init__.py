"""Releases: synthetic tables, measurements and manifests, made of public state alone."""

from __future__ import annotations

from pmw.public.export.manifest import (
    ExportFormat,
    croissant_form,
    drawn_table,
    export,
    measurements_form,
    program_version,
    reproduction_sentence,
    require_target,
)
from pmw.public.export.rows import RowPlan, draw_rows

__all__ = [
    "croissant_form", "draw_rows", "drawn_table", "export", "ExportFormat", "measurements_form",
    "program_version", "reproduction_sentence", "require_target", "RowPlan",
]  # fmt: skip
