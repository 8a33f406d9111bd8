"""Benchmarks of speed: a line for each point beside its floor, figures, and shares; no time is tested."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import curves, speed
from benchmarks.runner import alone
from benchmarks.speed import measured
from benchmarks.tables import Case
from queries import (
    CategoricalAttribute,
    CodedRecords,
    Domain,
    IntegerAttribute,
    parse_where,
    random_conjunctions,
)

Run = Callable[..., list[Any]]  # a benchmark with its arguments


def test_new_questions_are_different_and_none_of_those_before() -> None:
    domain = Domain(
        (IntegerAttribute("a", 0, 3, missing=True), CategoricalAttribute("b", ("x", "y", "z"))), "made up"
    )
    before = list(random_conjunctions(domain, 20, seed=1))
    new = speed.never_asked(domain, 30, seed=2, asked=before)
    texts = {query.to_json() for query in new}
    assert len(texts) == len(new) == 30
    assert not texts & {query.to_json() for query in before}
    assert {query.scope for query in new} == {("a", "b")}
    for query in new:  # a line asks what the object does
        read = parse_where(speed.structured(query, domain), domain)
        assert read.to_json() == query.to_json()


def test_each_form_has_a_rate_and_shares() -> None:
    ordered = tuple(IntegerAttribute(name, 0, 9) for name in "abc")
    domain = Domain((*ordered, CategoricalAttribute("d", ("x", "y"))))
    generator = np.random.default_rng(1)
    columns = tuple(generator.integers(0, attribute.size, 500).astype(np.uint8) for attribute in domain)
    case = Case("made up", CodedRecords(domain, columns), tuple(random_conjunctions(domain, 50, seed=1)))
    lines = list(measured(case, ("a", "b"), questions=20, ranges=100))
    assert [line["what"] for line in lines] == [
        "query objects",
        "structured conditions",
        "arrays of ranges",
        "query objects to the public model",
    ]
    for line in lines:
        assert line["answers_per_s"] > 0
        assert "questions" in line["shares"]
        assert abs(sum(line["shares"].values()) - 1) < 0.01


# --- curves ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_each_point_has_a_line_and_a_curve_a_figure(
    monkeypatch: pytest.MonkeyPatch, run: Run, tmp_path: Path
) -> None:
    for name, value in {"_ROUNDS": 1, "_SETTLING": 20, "_LONG": 12, "_LEAST": 2}.items():
        monkeypatch.setattr(curves, name, value)
    monkeypatch.setattr(curves, "alone", lambda work: work())  # another process would know none of these
    wanted = ("records", "questions")
    few = ["--most-records", "10000", "--most-questions", "100", "--plot", str(tmp_path)]
    records, *questions = run(curves, *few, *(f"--curve={curve}" for curve in wanted))
    assert (records["records"], records["first_questions"]) == (10_000, 100)
    assert records["open_s"] > 0 < records["duckdb_group_by_s"]
    assert [line["asked_as"] for line in questions] == ["arrays", "lines"]
    assert all(line["asked_before"] < 100 < line["again_per_s"] for line in questions)
    assert {file.name for file in tmp_path.iterdir()} == {"curve-questions.png", "curve-records.png"}


def test_work_has_a_process_of_its_own() -> None:
    assert alone(os.getpid) != os.getpid()
    assert alone(divmod, 7, 2) == (3, 1)


# --- reading --------------------------------------------------------------------------------------------
