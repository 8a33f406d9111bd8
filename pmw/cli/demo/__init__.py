"""The demonstration: the main job on a real, public table, with its true errors shown."""

from __future__ import annotations

from pmw.cli.demo.run import DemoPlan, DemoResult, run_demo

__all__ = [
    "DemoPlan",
    "DemoResult",
    "run_demo",
]
