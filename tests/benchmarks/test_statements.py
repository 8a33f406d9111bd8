"""Statements: what is answered, refused and held, by a judge that sees what the schema reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from benchmarks import statements
from benchmarks.statements import Judge, outcome, way_on
from benchmarks.tables import coded_values
from queries import CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute

Run = Callable[..., list[Any]]  # a benchmark with its arguments
DOMAIN = Domain(
    (
        IntegerAttribute("age", 0, 19, missing=True),
        CategoricalAttribute("town", ("ash", "elm", "oak", "yew"), other=True),
        CategoricalAttribute("plan", (1, 2)),
    ),
    name="people",
)
ROWS = 4000


def people() -> pd.DataFrame:
    generator = np.random.default_rng(3)
    ages = pd.Series(generator.integers(-3, 25, ROWS)).astype("Int64")
    return pd.DataFrame(
        {
            "age": ages.mask(generator.random(ROWS) < 0.1),
            "town": generator.choice(["ash", "elm", "oak", "nowhere"], ROWS),  # nobody lives in yew
            "plan": generator.integers(1, 3, ROWS),
        }
    )


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return people()


@pytest.fixture(scope="module")
def session(frame: pd.DataFrame) -> Iterator[pmw.Session]:
    options = pmw.Options(seed=1, confidence=0.9999)
    with pmw.open_session(frame, DOMAIN, epsilon=1000, delta=1e-9, options=options) as opened:
        yield opened


@pytest.fixture(scope="module")
def judge(frame: pd.DataFrame) -> Judge:
    return Judge(frame, DOMAIN)


@pytest.mark.parametrize(
    ("statement", "cells"),
    [
        ("SELECT town, COUNT(*) AS n, AVG(age) AS mean FROM people GROUP BY town ORDER BY n DESC", 10),
        ("SELECT town, COUNT(*) AS n FROM people GROUP BY town HAVING COUNT(*) > 10 LIMIT 2", 2),
        ("SELECT age / 5 AS part, COUNT(*) AS n FROM people GROUP BY part", 5),
    ],
)
def test_bars_hold_what_the_judge_says(
    session: pmw.Session, judge: Judge, statement: str, cells: int
) -> None:
    found = outcome(session, judge, statement)
    assert (found["outcome"], found["cells"]) == ("answered", cells)
    assert found["bars"] >= cells - 1  # nobody lives in yew
    assert found["held"] == found["bars"]
    assert found["misses"] == []


def test_a_number_in_the_wrong_place_is_found(session: pmw.Session, frame: pd.DataFrame) -> None:
    other = Judge(frame.assign(plan=3 - frame["plan"], age=frame["age"] // 2), DOMAIN)
    found = outcome(session, other, "SELECT plan, COUNT(*) AS n, AVG(age) AS mean FROM people GROUP BY plan")
    assert (found["bars"], found["held"]) == (4, 0)
    plan, title, value, low, high, exact = found["misses"][0]
    assert (plan, title) == (1, "n")
    assert low <= value <= high
    assert not low <= exact <= high


def test_refusals_and_crashes_have_their_words(
    session: pmw.Session, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = outcome(session, judge, "SELECT SUM(age) FROM people JOIN towns USING (town)")
    assert (found["outcome"], found["way_on"]) == ("refused", "SELECT COUNT(*) FROM people")
    assert found["words"].startswith("a join with 'towns' is not supported")

    def fails(statement: str) -> None:
        raise IndexError(statement)

    monkeypatch.setattr(session, "sql", fails)
    assert outcome(session, judge, "SELECT 1") == {"outcome": "crashed", "words": "IndexError: SELECT 1"}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("no; write SELECT town, COUNT(*) FROM people GROUP BY town, or run it", True),
        ("no; write SELECT COUNT(*) FROM people WHERE height < 3, or run it", False),
        ("no: SELECT * is a list of records", False),
    ],
)
def test_a_way_on_is_a_statement_that_runs(session: pmw.Session, words: str, *, found: bool) -> None:
    assert (way_on(session, words) is not None) is found


def test_each_statement_has_a_line_and_each_table_a_summary(
    monkeypatch: pytest.MonkeyPatch, run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "some.sql"
    file.write_text("-- how many?\nSELECT COUNT(*) AS n FROM people\n\nSELECT * FROM people\n")
    monkeypatch.setattr(statements, "TABLES", {"people": lambda folder: (people(), DOMAIN)})
    monkeypatch.setattr(statements, "alone", lambda work, *given: work(*given))
    count, listing, summary = run(statements, "--statements", str(file), "--seeds", "2")
    assert (count["statement"], count["cells"], count["bars"]) == ("SELECT COUNT(*) AS n FROM people", 2, 2)
    assert (listing["outcome"], listing["way_on"]) == (
        "refused",
        "SELECT plan, town, COUNT(*) FROM people GROUP BY plan, town",
    )
    assert (summary["seeds"], summary["statements"], summary["answered"]) == (2, 2, 1)
    assert (summary["answered_share"], summary["refused"], summary["cells"]) == (0.5, 1, 2)


def test_values_of_a_coded_table_are_those_of_its_labels(tmp_path: Path) -> None:
    attributes: list[dict[str, Any]] = [
        {"name": "size", "values": ["N", "-5-0 (excl.)", "0-1 (excl.)", "1-10 (excl.)", "10+"]},
        {"name": "rank", "values": ["N", "2", "3", "10"]},
        {"name": "area", "values": ["01-1", "02-2"]},
    ]
    (tmp_path / "small.domain.json").write_text(
        json.dumps({"attributes": [{**one, "size": len(one["values"])} for one in attributes]})
    )
    codes = np.arange(2000) % 5
    pd.DataFrame({"size": codes, "rank": codes % 4, "area": codes % 2}).to_csv(
        tmp_path / "small.csv.gz", index=False
    )
    frame, domain = coded_values(tmp_path, "small", "small")
    assert domain == Domain(
        (
            NumericAttribute("size", (-5, 0, 1, 10, 19), integer=True, missing=True),
            IntegerAttribute("rank", 2, 10, missing=True),
            CategoricalAttribute("area", ("01-1", "02-2")),
        ),
        name="small",
    )
    sizes = [frame["size"][codes == code] for code in range(5)]
    assert sizes[0].isna().all()
    assert [sorted(set(one)) for one in sizes[1:4]] == [list(range(-5, 0)), [0], list(range(1, 10))]
    assert sorted(set(sizes[4])) == list(range(10, 28))  # half of them beyond the declared end
    ranks = frame["rank"].fillna(0)
    assert ranks.tolist() == [[0, 2, 3, 10][code] for code in (codes % 4).tolist()]
    assert frame["area"].tolist() == ["02-2" if code % 2 else "01-1" for code in codes.tolist()]
