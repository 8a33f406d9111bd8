"""Releases: rows and manifests of public state."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import pmw
from pmw.errors import ReleaseError
from pmw.release import RowPlan, export_csv, guarantee, manifest
from queries import Domain, parse_schema


@pytest.fixture
def session(frame: pd.DataFrame, domain: Domain) -> pmw.Session:
    return pmw.open_session(frame, domain, epsilon=1, delta=1e-9, options=pmw.Options(seed=1))


def test_rows_keep_the_models_one_way_marginals(session: pmw.Session) -> None:
    rows = session.synthetic_records(20_000, seed=1)
    model = session.state.model.marginal(("sex",))
    shares = rows["sex"].value_counts(normalize=True)
    assert shares["Female"] == pytest.approx(model[0] / model.sum(), abs=1e-3)


def test_values_come_back_as_declared(session: pmw.Session) -> None:
    rows = session.synthetic_records(5000, seed=1)
    assert rows["age"].dtype.kind == "i"
    assert rows["member"].dtype == bool
    assert set(rows["region"].dropna()) <= {"north", "east", "south", "west", "(other)"}


def test_a_manifest_says_what_it_is_and_what_it_guarantees(session: pmw.Session) -> None:
    form = manifest(session.state, RowPlan(rows=10, seed=4), 10)
    assert list(form) == [
        "format", "format_version", "program_version", "table", "rows", "method", "row_seed", "model_version",
        "total", "guarantee", "epsilon_cap", "delta", "neighboring_relation", "records_per_person",
        "budget_share", "seeded", "schema",
    ]  # fmt: skip
    assert parse_schema(form["schema"]) == session.domain
    assert json.loads(json.dumps(form)) == form


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (pmw.Options(), "adding or removing all of one person's records (at most one record)"),
        (pmw.Options(records_per_person=3), "(at most 3 records)"),
        (
            pmw.Options(neighboring_relation=pmw.NeighboringRelation.REPLACE_ONE),
            "replacing all of one person's records (at most one record)",
        ),
    ],
)
def test_the_guarantee_in_words(domain: Domain, options: pmw.Options, words: str) -> None:
    from pmw.policy import Contract

    text = guarantee(Contract(domain, pmw.Budget.of("0.5", 1e-9), options))
    assert text.startswith("differential privacy with epsilon = 0.5, delta = 1e-09, for ")
    assert words in text
    assert "delta" not in guarantee(Contract(domain, pmw.Budget.of(1), options))


def test_an_export_is_written_whole_or_not_at_all(session: pmw.Session, tmp_path: Path) -> None:
    target = tmp_path / "rows.csv"
    export_csv(session.state, target, RowPlan(rows=30, seed=1))
    assert len(pd.read_csv(target)) == 30
    with pytest.raises(ReleaseError, match=r"rows.csv exists; choose another name"):
        export_csv(session.state, target, RowPlan())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.csv", "rows.csv.manifest.json"]
    target.unlink()
    with pytest.raises(ReleaseError, match=r"rows.csv.manifest.json exists"):
        export_csv(session.state, target, RowPlan())
    assert not target.exists()


def test_the_same_seed_draws_the_same_rows_and_no_seed_draws_anew(session: pmw.Session) -> None:
    one, two = session.synthetic_records(500, seed=3), session.synthetic_records(500, seed=3)
    assert one.equals(two)
    assert not session.synthetic_records(500).equals(session.synthetic_records(500))


@pytest.mark.parametrize(("rows", "seed"), [(-1, None), (10**9, None), (5, -2)])
def test_an_impossible_drawing_is_refused(rows: int, seed: int | None) -> None:
    with pytest.raises(ReleaseError, match="expected"):
        RowPlan(rows, seed=seed)
