"""The picture of an audit: a row per mechanism, those that violate their claim in another colour."""

from __future__ import annotations

from typing import Any

import pytest

from pmw.display.figures import MEASURED, MODEL
from pmw.research.audit.catalogue import chosen
from pmw.research.audit.report import AuditOptions, audit

pytest.importorskip("matplotlib", reason="pictures need the optional package matplotlib")


def test_every_mechanism_has_its_row_and_its_colour() -> None:
    from pmw.research.audit.report import audit_figure

    names = ["above-threshold", "algorithm-4", "algorithm-5"]
    findings = audit(chosen(names), AuditOptions(runs=500, seed=1))
    axes: Any = audit_figure(findings).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "above-threshold", "algorithm-4 (flawed)", "algorithm-5 (flawed)",
    ]  # fmt: skip
    points = [line for line in axes.lines if line.get_marker() in ("o", ">") and len(line.get_xdata())]
    assert [line.get_color() for line in points] == [MODEL, MEASURED, MEASURED]
    assert points[0].get_xdata()[0] == pytest.approx(1, abs=1e-3)
    assert points[1].get_xdata()[0] == pytest.approx(6.25, abs=0.01)
    assert points[2].get_marker() == ">"
    assert [text.get_text() for text in axes.texts] == ["∞"]
    low, high = axes.get_xlim()
    assert all(low <= x <= high for line in points for x in line.get_xdata())
