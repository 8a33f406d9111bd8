"""Answers of streams and workloads as JSON Lines, CSV and Parquet: the same numbers in each."""

from __future__ import annotations

import csv
import io
import json
import math
from contextlib import redirect_stdout
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pmw
from pmw.cli.answer_formats import FORMATS, writer_of
from pmw.cli.answering import StreamOptions, answer_workload
from pmw.cli.texts import json_line
from pmw.privacy.budget import Budget
from pmw.public.answers import SOURCES, Answers
from queries import CategoricalAttribute, Domain, IntegerAttribute
from queries.workloads import parse_workload
from tests.pmw.cli.commands import Run

LINES = [
    {"id": 1, "where": "age >= 30"},
    {"id": 'two, "x"', "where": {"sex": {"=": "Male"}}},
    {"id": 3, "sql": "SELECT region, COUNT(*) FROM people GROUP BY region"},
    {"id": 4, "where": "nobody = 3"},
    {"id": 5, "sql": "SELECT AVG(age) FROM people"},
    {"where": "age >= 30"},
    {"id": 7, "sql": "SELECT"},
]


def asked(study: Path, *options: str) -> bytes:
    text = "".join(json.dumps(line) + "\n" for line in LINES) + "no json\n"
    done = Run()("ask", str(study), *options, stdin=text if "--stream" in options else None)
    assert (done.exit_code, "refused" in done.stderr) == (0, "--stream" in options)
    return done.stdout_bytes


def flat(form: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows that stand for an object of JSON Lines."""
    head = {name: form.get(name) for name in ("id", "line", "question")}
    if "error" in form:
        return [{**head, "code": form["error"]["code"], "message": form["error"]["message"]}]
    rows = []
    shared = {**head, **{name: form[name] for name in ("confidence", "version")}}
    for row in form.get("rows", ()):
        label = {name: value for name, value in row.items() if not isinstance(value, dict)}
        for title, one in row.items():
            if isinstance(one, dict):
                told = {"group": json.dumps(label) if label else None, "aggregate": title, "count": None}
                numbers = {name: one[name] for name in ("value", "low", "high", "source", "aligned")}
                rows.append({**shared, **told, **numbers, **ends("typical", one["typical"])})
    if "rows" not in form:
        told = {name: form[name] for name in ("count", "fraction", "source", "aligned")}
        bars = {**ends("", form["interval"]), **ends("typical", form["typical"])}
        rows.append({**shared, **told, **bars, "group": None, "aggregate": None, "value": None})
    return rows


def ends(name: str, interval: list[float] | None) -> dict[str, float | None]:
    low, high = interval or (None, None)
    return {f"{name}_low".lstrip("_"): low, f"{name}_high".lstrip("_"): high}


def read(path: Path, columns: str) -> list[Any]:
    return duckdb.connect().execute(f"SELECT {columns} FROM '{path}'").fetchall()


@pytest.fixture
def expected(study: Path) -> list[dict[str, Any]]:
    asked(study, "--stream")  # so that all answers are stored
    forms = [json.loads(line) for line in asked(study, "--stream").splitlines()]
    return [row for form in forms for row in flat(form)]


def test_csv_has_a_row_for_each_answer_and_each_refusal(study: Path, expected: list[dict[str, Any]]) -> None:
    out = asked(study, "--stream", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out.decode(), newline="")))
    assert len(rows) == len(expected) > 10
    for row, wanted in zip(rows, expected, strict=True):
        for name, value in wanted.items():
            assert row[name] == ("" if value is None else str(value)), name


def test_parquet_has_the_same_rows_in_typed_columns(
    study: Path, expected: list[dict[str, Any]], tmp_path: Path
) -> None:
    (tmp_path / "a.parquet").write_bytes(asked(study, "--stream", "--format", "parquet"))
    found = duckdb.connect().sql(f"SELECT * FROM '{tmp_path / 'a.parquet'}'")
    assert found is not None
    kinds = dict(zip(found.columns, map(str, found.types), strict=True))
    assert (kinds["id"], kinds["count"], kinds["aligned"], kinds["version"]) == (
        "VARCHAR", "DOUBLE", "BOOLEAN", "BIGINT"
    )  # fmt: skip
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
    assert len(rows) == len(expected)
    for row, wanted in zip(rows, expected, strict=True):
        for name, value in wanted.items():
            assert row[name] == (str(value) if name == "id" and value is not None else value), name


def test_a_workload_is_written_in_each_format_in_parts(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pmw.cli.answer_formats._ROWS", 3)
    monkeypatch.setattr("pmw.cli.answering._BATCH", 2)
    written = {name: asked(study, "--workload", "marginals:1", "--format", name) for name in FORMATS}
    forms = [json.loads(line) for line in written["jsonl"].splitlines()]
    assert len(forms) > 10
    (tmp_path / "a.parquet").write_bytes(written["parquet"])
    rows = read(tmp_path / "a.parquet", "id, question")
    assert rows == [(str(form["id"]), form["question"]) for form in forms]
    named = csv.DictReader(io.StringIO(written["csv"].decode()))
    assert [(row["id"], row["question"]) for row in named] == rows


def test_no_questions_make_an_empty_table(study: Path, tmp_path: Path) -> None:
    for name in ("csv", "parquet"):
        done = Run()("ask", str(study), "--stream", "--format", name, stdin="")
        assert done.exit_code == 0
        (tmp_path / f"a.{name}").write_bytes(done.stdout_bytes)
        assert read(tmp_path / f"a.{name}", "*") == []


@pytest.mark.parametrize("name", ["marginals:2", "ranges:age", "prefixes:k"])
def test_a_workload_of_ranges_is_answered_as_its_questions_one_by_one(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same lines and the same exit code: what is stored, and what is answered again."""
    age = np.random.default_rng(2).integers(0, 24, 3000)
    frame = pd.DataFrame({"age": age, "k": age // 2, "sex": np.where(age < 9, "f", "m")})
    ages, sexes = IntegerAttribute("age", 0, 23), CategoricalAttribute("sex", ("f", "m"), missing=True)
    domain = Domain((ages, IntegerAttribute("k", 0, 11), sexes), "people")
    workload = parse_workload(name, domain)
    options = pmw.Options(seed=4, reserve=Fraction(0))
    with pmw.open_session(frame, domain, epsilon=1, delta=1e-9, options=options) as session:
        older = 0
        for fresh in (False, True):
            how, found, before = StreamOptions(strict=True, fresh=fresh), [], session.state.asked
            for asked in (workload, replace(workload, boxes=None)):
                found.append((answer_workload(session, asked, how), capsys.readouterr().out))
            assert found[0] == found[1]
            lines = found[0][1].splitlines()
            assert len(lines) == len(workload)
            # What is stored is no new question, nor is what is asked afresh of the same model.
            assert session.state.asked - before == (older if fresh else len(workload))
            older = sum(json.loads(line)["version"] < session.state.version for line in lines)


FLOATS = st.floats(0, 1e12)
PAIRS = st.just((math.nan, math.nan)) | st.tuples(FLOATS, FLOATS)


@given(
    FLOATS, PAIRS, PAIRS, st.floats(0, 1), st.integers(0, len(SOURCES) - 1), st.booleans(), st.booleans(),
    st.dictionaries(st.sampled_from(["id", "line"]), st.none() | st.integers() | st.text(), min_size=1),
)  # fmt: skip
def test_a_line_is_the_json_of_its_answer(
    count: float, interval: tuple[float, float], typical: tuple[float, float], share: float, source: int,
    aligned: bool, seeded: bool, head: dict[str, Any],
) -> None:  # fmt: skip
    columns: dict[str, Any] = {
        "count": count, "interval": interval, "typical": typical, "source": source, "version": 3,
        "share": share, "kind": 0, "aligned": aligned, "charged": 0.0,
    }  # fmt: skip
    columns = {name: np.array([value]) for name, value in columns.items()}
    answers = Answers(
        **columns,
        confidence=0.95, total=1e3, budget=Budget(Fraction(1), Fraction("1e-9")), seeded=seeded, kept=None,
    )  # fmt: skip
    writer = writer_of("jsonl")
    writer.answers([head], answers)
    written = io.StringIO()
    with redirect_stdout(written):
        writer.flush()
    assert written.getvalue() == json_line({**head, **answers[0].to_dict()}) + "\n"
