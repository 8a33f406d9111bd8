"""The training benchmark: what a plan told of a budget stands beside what the rows are worth."""

from __future__ import annotations

import json

import pytest

from benchmarks import training
from benchmarks.tables import TABLES, TableAbsentError
from queries import Domain, IntegerAttribute
from tests.worlds import WIDE


@pytest.mark.parametrize(("delta", "held"), [("0", "0 of 15"), ("1e-9", "15 of 15")])
def test_a_line_has_what_was_told_before(monkeypatch: pytest.MonkeyPatch, delta: str, held: str) -> None:
    domain = Domain(tuple(IntegerAttribute(name, 0, 3) for name in WIDE.domain.names))
    monkeypatch.setattr(
        training, "_scores", lambda _domain, rows, _tested: {"boosted": 0.5 * (len(rows) > 0)}
    )
    line = training._compared(domain, WIDE.frame, WIDE.frame, {"boosted": 0.8}, (1, 1.0, delta, "session"))
    assert (line["pairs_held"], line["delta"]) == (held, float(delta))
    assert line["part"] == {"boosted": 0.625}


@pytest.mark.parametrize("way", ["synthesize", "target"])
def test_a_table_of_all_of_the_budget_is_compared_alike(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    domain = Domain(tuple(IntegerAttribute(name, 0, 3) for name in WIDE.domain.names))
    monkeypatch.setattr(training, "_TARGET", "c")
    monkeypatch.setattr(
        training, "_scores", lambda _domain, rows, _tested: {"boosted": 0.5 * (len(rows) == len(WIDE.frame))}
    )
    line = training._compared(domain, WIDE.frame, WIDE.frame, {"boosted": 0.8}, (1, 1.0, "1e-9", way))
    assert (line["way"], line["part"]) == (way, {"boosted": 0.625})


@pytest.mark.parametrize("library", [None, "spec"])
def test_without_the_table_or_the_library_it_is_skipped_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], library: str | None
) -> None:
    def absent(*_: object) -> None:
        raise TableAbsentError("adult.csv is not there")

    monkeypatch.setattr("importlib.util.find_spec", lambda _: library)
    monkeypatch.setitem(TABLES, "adult-full", absent)
    monkeypatch.setattr("sys.argv", ["training"])
    training.main()
    reason = "scikit-learn is not installed" if library is None else "adult.csv is not there"
    assert json.loads(capsys.readouterr().out) == {"table": "adult-full", "skipped": reason}
