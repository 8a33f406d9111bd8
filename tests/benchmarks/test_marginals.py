"""Whole marginals: which are asked, what each method says of them, and how that is scored."""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import marginals
from benchmarks.marginals import METHODS, Answered, workload
from benchmarks.stream import Settings
from benchmarks.tables import Case
from pmw.model.dense import DenseDistribution
from pmw.research.baselines import Scope
from queries import CodedRecords, Domain, IntegerAttribute

DOMAIN = Domain(tuple(IntegerAttribute(name, 0, size - 1) for name, size in (("a", 2), ("b", 3), ("c", 4))))
PAIRS: list[Scope] = [("a", "b"), ("a", "c"), ("b", "c")]


def case_of(domain: Domain, size: int) -> Case:
    generator = np.random.default_rng(4)
    columns = tuple(generator.integers(0, one.size, size).astype(np.uint8) for one in domain)
    return Case("small", CodedRecords(domain, columns), ())


def test_a_workload_is_all_scopes_or_a_sample_that_repeats() -> None:
    assert workload(DOMAIN, 2, most=3, most_cells=12) == ((("a", "b"), ("a", "c"), ("b", "c")), 3)
    assert workload(DOMAIN, 2, most=3, most_cells=11)[0] == (("a", "b"), ("a", "c"))
    wide = Domain(tuple(IntegerAttribute(name, 0, 1) for name in "abcdefgh"))
    (some, of), (again, _) = (workload(wide, 3, most=10, most_cells=8) for _ in range(2))
    assert some == again
    assert (len(set(some)), of) == (10, 56)
    assert some != tuple(itertools.combinations("abcdefgh", 3))[:10]


def test_scores_are_distances_over_the_true_number_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of(DOMAIN, 200)

    def one_off(given: Case, scopes: list[Scope], settings: Settings) -> Answered:
        tables = [given.source().counts(scope).counts.reshape(-1).astype(np.float64) for scope in scopes]
        tables[0][0] += 10
        tables[1][1] -= 4
        tables[1][2] += 2
        even = DenseDistribution.uniform(given.domain, 240.0)
        return Answered(tables, ["near", "far", "near"], even, facts={"seed_given": settings.seed})

    monkeypatch.setitem(marginals._ALL, "small", lambda _folder, _choice: case)
    monkeypatch.setitem(METHODS, "one-off", one_off)
    given = {"order": 2, "scopes": 300, "most_cells": 100, "opening": "pairs"}
    given |= {"epsilon": "1", "delta": "1e-9"}
    chosen = argparse.Namespace(**given, data_dir=None)
    whole, far, near = marginals.measured("small", "one-off", 3, chosen)
    assert (whole["class"], whole["scopes"], whole["scopes_of"], whole["cells"]) == ("all", 3, 3, 26)
    assert whole["l1"] == pytest.approx((10 + 6) / 200 / 3, abs=1e-5)
    assert whole["worst_cell"] == pytest.approx(10 / 200)
    assert whole["rmse_cell"] == pytest.approx(np.sqrt((100 + 16 + 4) / 26) / 200, abs=1e-6)
    assert whole["seed_given"] == 3
    uneven = [
        np.abs(case.source().counts(pair).counts / 200 - 1 / DOMAIN.scope_size(pair)).sum() for pair in PAIRS
    ]
    assert (whole["rows_l1"], far["rows_l1"]) == pytest.approx((np.mean(uneven), uneven[1]), abs=1e-5)
    assert (far["class"], far["scopes"], far["l1"]) == ("far", 1, 0.03)
    assert (near["class"], near["scopes"], near["worst_cell"]) == ("near", 2, 0.05)


@pytest.mark.parametrize("method", METHODS)
def test_a_method_says_what_is_in_every_cell(method: str) -> None:
    case = case_of(DOMAIN, 3000)
    answered = METHODS[method](case, PAIRS, Settings(epsilon="1000", delta="0.01"))
    for scope, marginal in zip(PAIRS, answered.marginals, strict=True):
        assert np.abs(marginal - case.source().counts(scope).counts.reshape(-1)).max() < 5


def test_the_command_prints_a_line_for_each_method(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("benchmarks.runner.alone", lambda work, *given: work(*given))
    few = ["--order", "3", "--scopes", "5", "--seeds", "1", "--data-dir", str(tmp_path)]
    peers = ["--method", "residuals-by-cells"]
    monkeypatch.setattr("sys.argv", ["marginals", *few, *peers, "--table", "parity", "--table", "acs"])
    marginals.main()
    printed = capsys.readouterr()
    lines = [json.loads(line) for line in printed.out.splitlines()]
    assert [line["method"] for line in lines] == ["residuals-by-cells"]
    assert {(line["scopes"], line["scopes_of"], line["cells"]) for line in lines} == {(5, 560, 40)}
    assert printed.err.count("skipped acs") == 1


def test_the_peer_has_the_errors_that_its_plan_says() -> None:
    case = case_of(DOMAIN, 500)
    mean_square, planned = [], set()
    for seed in range(40):
        answered = METHODS["residuals-by-cells"](case, PAIRS, Settings(seed=seed))
        planned.add(answered.facts["planned_rmse_cell"])
        off = [
            marginal - case.source().counts(scope).counts.reshape(-1)
            for scope, marginal in zip(PAIRS, answered.marginals, strict=True)
        ]
        mean_square.append(np.mean(np.concatenate(off) ** 2))
    found = np.sqrt(np.mean(mean_square)) / case.size
    assert [float(str(one)) for one in planned] == [pytest.approx(found, rel=0.15)]
