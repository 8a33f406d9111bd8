"""``pmw open --prior``: a model, or a table that is declared public."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from queries import save_schema
from tests.pmw.cli.commands import TABLE, Run
from tests.pmw.session.test_priors import DOMAIN, people

BUDGET = ("--epsilon", "1", "--delta", "1e-9", "--opening", "pairs")
PUBLIC = ("--prior", "public.csv", "--prior-is-public")


@pytest.fixture
def public(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder, with a table, its schema and a public table of others."""
    monkeypatch.chdir(tmp_path)
    save_schema(DOMAIN, tmp_path / "people.toml")
    people(1).to_csv("people.csv", index=False)
    people(2, 6000).to_csv("public.csv", index=False)
    return tmp_path


def test_a_public_table_is_told_of_at_opening_in_the_status_and_in_manifests(public: Path, run: Run) -> None:
    told = run.told("open", "study.pmw", *TABLE, *BUDGET, *PUBLIC)
    (line,) = [one for one in told.splitlines() if one.startswith("Prior: ")]
    status = run.form("status", "study.pmw")
    digest = status["prior"]
    assert status["prior_used"] is True
    assert line == f"Prior: used: the measured pairs are near it (SHA-256 {digest[:16]}…)."
    assert "public prior" in run.told("status", "study.pmw")
    run.told("verify", "study.pmw")
    run.told("export", "study.pmw", "--output", "rows.csv")
    manifest = json.loads((public / "rows.csv.manifest.json").read_text())
    assert manifest["prior"] == {"sha256": digest, "used": True}


def test_a_model_that_was_exported_is_one_and_needs_no_declaration(public: Path, run: Run) -> None:
    run.told("open", "last.pmw", *TABLE, *BUDGET)
    assert "prior" not in run.form("status", "last.pmw")
    run.told("export", "last.pmw", "--output", "last.model", "--format", "model")
    run.told("open", "study.pmw", *TABLE, *BUDGET, "--prior", "last.model")
    assert len(run.form("status", "study.pmw")["prior"]) == 64


@pytest.mark.parametrize(
    ("given", "code", "told"),
    [
        (("--prior", "public.csv"), 2, "add --prior-is-public if nobody in it needs protection"),
        (("--prior-is-public",), 2, "name that, too"),
        (("--prior", "none.csv"), 2, "does not exist"),
        (("--prior", "."), 2, "is a directory"),
        (("--prior", "last.model", "--prior-is-public"), 2, "leave --prior-is-public out"),
        (("--prior", "cut.model"), 5, "damaged"),
        (("--prior", "last.pmw"), 5, "this is a session, not a model"),
        (("--prior", "empty.csv", "--prior-is-public"), 1, "records that the schema keeps, got none"),
        (("--prior", "other.csv", "--prior-is-public"), 1, "expected one column 'age'"),
        ((*PUBLIC, "--opening", "one-way"), 1, "this session measures none"),
        ((*PUBLIC, "--delta", "0"), 1, "this session measures none"),
        ((*PUBLIC, "--preset", "textbook"), 1, "this session measures none"),
    ],
)
def test_what_is_no_prior_is_refused_before_anything_is_made(
    public: Path, run: Run, given: tuple[str, ...], code: int, told: str
) -> None:
    run.told("open", "last.pmw", *TABLE, *BUDGET)
    run.told("export", "last.pmw", "--output", "last.model", "--format", "model")
    (public / "cut.model").write_bytes((public / "last.model").read_bytes()[:-40])
    (public / "empty.csv").write_text((public / "people.csv").read_text().splitlines()[0] + "\n")
    (public / "other.csv").write_text("height\n3\n")
    budget = BUDGET[:4] if "textbook" in given else BUDGET
    error = run.refused("open", "study.pmw", *TABLE, *budget, *given, code=code)
    assert told in error.splitlines()[-1]
    assert not list(public.glob("study.pmw*"))
