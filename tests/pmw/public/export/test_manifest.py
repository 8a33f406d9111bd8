"""Manifests: what stands beside an export."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

import pmw
from pmw.public.contract import guarantee
from pmw.public.export import RowPlan
from pmw.public.export.manifest import Reproduction, measurements_manifest, table_manifest
from queries import Domain, parse_schema
from tests.worlds import JOINED


def test_a_manifest_says_what_it_is_and_what_it_guarantees(session: pmw.Session) -> None:
    form = table_manifest(session.state, "parquet", RowPlan(seed=4), 10, Reproduction(3, ()))
    assert list(form) == [
        "format", "content", "format_version", "program_version", "table", "rows", "method", "row_seed",
        "marginals", "pairs",
        "model_version", "total", "guarantee", "epsilon_cap", "delta", "neighboring_relation",
        "records_per_person", "budget_share", "seeded", "typical_errors", "test", "schema",
    ]  # fmt: skip
    assert (form["format"], form["content"]) == ("parquet", "online-pmw synthetic table")
    assert form["marginals"] == {"measured": 3, "not_reproduced": []}
    names = session.domain.names
    every = [list(pair) for pair in itertools.combinations(names, 2)]
    assert form["pairs"] == {"number": len(every), "held": 0, "not_held": every}
    assert parse_schema(form["schema"]) == session.domain
    assert json.loads(json.dumps(form)) == form


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            pmw.Options(test=pmw.TestKind.QUERY),
            "adding or removing all of one person's records (at most one record)",
        ),
        (pmw.Options(test=pmw.TestKind.QUERY, records_per_person=3), "(at most 3 records)"),
        (
            pmw.Options(test=pmw.TestKind.QUERY, neighboring_relation=pmw.NeighboringRelation.REPLACE_ONE),
            "replacing all of one person's records (at most one record)",
        ),
    ],
)
def test_the_guarantee_in_words(domain: Domain, options: pmw.Options, words: str) -> None:
    from pmw.public.contract import Contract

    text = guarantee(Contract(domain, pmw.Budget.of("0.5", 1e-9), options))
    assert text.startswith("differential privacy with epsilon = 0.5, delta = 1e-09, for ")
    assert words in text
    assert "delta" not in guarantee(Contract(domain, pmw.Budget.of(1), options))


def test_a_manifest_of_measurements_has_no_rows(session: pmw.Session) -> None:
    form = measurements_manifest(session.state, "measurements")
    assert (form["format"], form["content"]) == ("measurements", "online-pmw measurements")
    assert form["measurements"] == 4
    assert not {"rows", "method", "row_seed"} & set(form)
    assert form["guarantee"] == guarantee(session.state.contract)
    assert json.loads(json.dumps(form)) == form


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "released.json", "session.model"])
def test_every_export_names_the_pairs_that_it_does_not_have(tmp_path: Path, name: str) -> None:
    with JOINED.opened(seed=1) as session:
        session.measure(["c", "a"])
        format = "measurements" if name.endswith("json") else None
        pairs = session.export(tmp_path / name, format=format)["pairs"]
    assert (pairs["number"], pairs["held"]) == (10, 1)
    assert ["a", "c"] not in pairs["not_held"]
    assert pairs["not_held"][:2] == [["a", "b"], ["a", "d"]]
