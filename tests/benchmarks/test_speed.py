"""Benchmarks of speed: a line for each point beside its floor, figures, and shares; no time is tested."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import curves, speed
from benchmarks.reading import LONGEST, adult_like, cost, hard_statements, random_statement
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


def test_each_point_has_a_line_and_two_curves_a_figure(
    monkeypatch: pytest.MonkeyPatch, run: Run, tmp_path: Path
) -> None:
    sizes = {"_ATTRIBUTES": (3,), "_ROUNDS": 1, "_SETTLING": 50, "_NEW": 50, "_ARRAYS": 50, "_LONG": 12}
    for name, value in {**sizes, "_LONGEST": (100,), "_WIDEST": (3,), "_LEAST": 2}.items():
        monkeypatch.setattr(curves, name, value)
    monkeypatch.setattr(curves, "alone", lambda work: work())  # another process would know none of these
    few = ["--most-records", "10000", "--plot", str(tmp_path)]
    wanted = {"100": ("domain", "records", "questions"), "5": ("cells", "attributes")}
    lines = [
        line
        for most, some in wanted.items()
        for line in run(curves, *few, "--most-questions", most, *(f"--curve={curve}" for curve in some))
    ]
    found = {curve: [line for line in lines if line["curve"] == curve] for curve in curves.CURVES}
    assert found["domain"][0]["arrays_per_s"] > 0 < found["domain"][0]["queries_per_s"]
    (records,) = found["records"]
    assert (records["records"], records["first_questions"]) == (10_000, 100)
    assert records["open_s"] > 0 < records["duckdb_group_by_s"]
    questions = found["questions"]
    assert [line["asked_as"] for line in questions] == ["arrays", "lines"]
    assert all(line["asked_before"] < 100 < line["again_per_s"] for line in questions)
    assert questions[0]["numpy_per_s"] > 0 < questions[1]["json_per_s"]
    assert [line["cells"] for line in found["cells"]] == [100]
    assert [line["opening"] for line in found["attributes"]] == ["one-way", "pairs"]
    assert {file.name for file in tmp_path.iterdir()} == {"curve-questions.png", "curve-records.png"}


def test_work_has_a_process_of_its_own() -> None:
    assert alone(os.getpid) != os.getpid()
    assert alone(divmod, 7, 2) == (3, 1)


def test_a_peer_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("_HISTOGRAM", 1000), ("_QUESTIONS", 3)):
        monkeypatch.setattr(curves, name, size)
    monkeypatch.setattr(curves, "_grown", lambda *_: [{"queries_per_s": 10, "arrays_per_s": 10**9}])
    for absent in (True, False):
        monkeypatch.setattr(curves, "_opendp_rate", lambda absent=absent: None if absent else 20.0)
        (point,) = curves._compared()
        assert (point.get("skipped") == "opendp is not installed") == absent
        assert point["arrays_over_opendp_laplace"] == (None if absent else 5e7)
        assert point["arrays_over_numpy_dots"] > 0


# --- reading --------------------------------------------------------------------------------------------


def test_statements_are_as_long_as_they_may_be_and_each_has_a_name() -> None:
    hard = list(hard_statements())
    assert max(Counter(name for name, _ in hard).values()) == 1
    lengths = [len(text.encode()) for _, text in hard]
    assert max(lengths) <= LONGEST
    assert sum(length > LONGEST - 200 for length in lengths) > 30
    drawn = [random_statement(seed) for seed in range(100)]
    assert len(set(drawn)) > 90
    assert random_statement(7) == drawn[7]
    assert max(map(len, drawn)) <= LONGEST


def test_what_reading_takes_is_told_with_what_came_of_it() -> None:
    hard = dict(hard_statements())
    assert cost(hard["keys of 2"], adult_like())["came"] == "read"
    refused = cost(hard["choices >"], adult_like())
    assert refused["came"] == "refused: too_large"
    assert set(refused) == {"bytes", "cpu_s", "mb", "cells", "came"}
