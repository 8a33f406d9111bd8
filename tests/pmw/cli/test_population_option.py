"""``pmw ask --population``: a second interval beside each answer, in each form, and nowhere else."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd

from pmw import resume_session
from pmw.public.population import PopulationInterval
from queries import Domain, IntegerAttribute, save_schema
from tests.pmw.cli.commands import OPEN, Run

QUESTION = "sex = 'Female' AND age >= 32"
BY_SEX = "SELECT sex, COUNT(*) FROM people GROUP BY sex"
LINES = "".join(
    json.dumps(line) + "\n"
    for line in (
        {"id": 1, "where": QUESTION},
        {"id": 2, "sql": BY_SEX},
        {"id": 3, "where": "age >= 30"},
        {"id": 4, "sql": "SELECT AVG(age) FROM people"},
        {"id": 5, "where": "nobody = 1"},
    )
)


def interval(study: Path, where: str) -> PopulationInterval:
    with resume_session(study) as session:
        found = session.population_interval(where)
    assert found is not None
    return found


def test_an_answer_has_one_more_line_and_one_more_key(study: Path, run: Run) -> None:
    plain, form = run.told("ask", "study.pmw", QUESTION), run.form("ask", "study.pmw", QUESTION)
    expected = interval(study, QUESTION)
    first, second, *rest = run.told("ask", "study.pmw", QUESTION, "--population").splitlines()
    assert [first, *rest] == plain.splitlines()
    assert second.lower() == f"{expected.sentence()}."
    both = run.form("ask", "study.pmw", QUESTION, "--population")
    assert both == {**form, "population": expected.to_dict()}
    within = run.form("ask", "study.pmw", QUESTION, "--population", "--within", "3000")
    assert within["population"] == expected.to_dict()


def test_a_model_tells_it_too(study: Path, run: Run) -> None:
    run.told("ask", "study.pmw", QUESTION)
    run.told("export", "study.pmw", "--output", "study.model")
    model = run.form("ask", "study.model", QUESTION, "--population")
    assert model == run.form("ask", "study.pmw", QUESTION, "--population")


def test_each_condition_of_a_stream_has_it_and_a_statement_is_refused(study: Path, run: Run) -> None:
    forms = run.forms("ask", "study.pmw", "--stream", "--population", stdin=LINES)
    assert [form["id"] for form in forms] == [1, 2, 3, 4, 5]
    assert ["error" in form for form in forms] == [False, True, False, True, True]
    for place in (1, 3):
        assert forms[place]["error"]["code"] == "unsupported"
        assert "ask the condition of each group" in forms[place]["error"]["message"]
    for place, where in ((0, QUESTION), (2, "age >= 30")):
        assert forms[place]["population"] == interval(study, where).to_dict()
    plain = run.forms("ask", "study.pmw", "--stream", stdin=LINES)
    assert {**plain[0], "population": forms[0]["population"]} == forms[0]
    assert not any("population" in form for form in plain)


def test_each_row_has_it_in_two_more_columns(study: Path, run: Run, tmp_path: Path) -> None:
    stream = ("ask", "study.pmw", "--stream", "--population")
    forms = run.forms(*stream, stdin=LINES)
    rows = list(csv.DictReader(io.StringIO(run.told(*stream, "--format", "csv", stdin=LINES))))
    (tmp_path / "a.parquet").write_bytes(run(*stream, "--format", "parquet", stdin=LINES).stdout_bytes)
    read = duckdb.connect().sql(f"SELECT population_low, population_high FROM '{tmp_path / 'a.parquet'}'")
    for form, row, typed in zip(forms, rows, read.fetchall(), strict=True):
        told: dict[str, Any] = form.get("population", {})
        ends = told.get("low"), told.get("high")
        assert typed == ends
        assert (row["population_low"], row["population_high"]) == tuple(
            "" if end is None else str(end) for end in ends
        )
    assert "population_low" not in run.told("ask", "study.pmw", "--stream", "--format", "csv", stdin=LINES)


def test_a_workload_of_ranges_has_it_in_each_line(study: Path, run: Run) -> None:
    forms = run.forms("ask", "study.pmw", "--workload", "marginals:sex,member", "--population")
    assert len(forms) == 4
    assert forms[0]["population"] == interval(study, "sex = 'Female' AND member = TRUE").to_dict()


def test_a_statement_is_refused_before_anything_is_asked(study: Path, run: Run) -> None:
    before = run.form("status", "study.pmw")
    refused = run.refused("ask", "study.pmw", "--sql", BY_SEX, "--population", code=4)
    assert "an interval of the population is of a condition, not of a statement" in refused
    assert run.form("status", "study.pmw") == before


def test_a_refused_count_has_none(tmp_path: Path, run: Run) -> None:
    names = [f"a{place}" for place in range(5)]  # too many cells for the table to be measured whole
    numbers = np.random.default_rng(4).integers(0, 20, (20_000, 5))
    pd.DataFrame(numbers, columns=names).to_csv(tmp_path / "people.csv", index=False)
    attributes = tuple(IntegerAttribute(name, 0, 19) for name in names)
    save_schema(Domain(attributes, name="people"), tmp_path / "people.toml")
    run.told(*OPEN[:-2], "--accuracy", "0.02", "--records", "20000", "--delta", "1e-9")
    run.told("close", "study.pmw", "--yes")
    wide = "a0 < 9 AND a1 < 9 AND a2 < 12"
    stream = "".join(json.dumps({"where": where}) + "\n" for where in ("a0 < 9", wide))
    answered, refused = run.forms("ask", "study.pmw", "--stream", "--population", stdin=stream)
    assert refused["source"] == "refused"
    assert refused["population"] is None
    assert answered["population"] == interval(tmp_path / "study.pmw", "a0 < 9").to_dict()
    told = run("ask", "study.pmw", wide, "--population")
    assert (told.exit_code, "population" in told.stdout) == (4, False)
