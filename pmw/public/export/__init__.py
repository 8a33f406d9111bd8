"""Releases: synthetic tables, measurements and manifests, made of public state alone."""

from __future__ import annotations

from pmw.public.export.croissant import croissant_form
from pmw.public.export.manifest import measurements_form, program_version, reproduction_sentence
from pmw.public.export.rows import RowPlan, draw_rows
from pmw.public.export.writing import ExportFormat, drawn_table, export, require_target

__all__ = [
    "croissant_form",
    "draw_rows",
    "drawn_table",
    "export",
    "ExportFormat",
    "measurements_form",
    "program_version",
    "reproduction_sentence",
    "require_target",
    "RowPlan",
]
