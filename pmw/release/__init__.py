"""Releases: synthetic tables, measurements and manifests, made of public state alone."""

from __future__ import annotations

from pmw.release.manifest import guarantee, program_version
from pmw.release.measurements import measurements_form
from pmw.release.rows import RowPlan, synthetic_frame
from pmw.release.writing import ExportFormat, export

__all__ = [
    "export",
    "ExportFormat",
    "guarantee",
    "measurements_form",
    "program_version",
    "RowPlan",
    "synthetic_frame",
]
