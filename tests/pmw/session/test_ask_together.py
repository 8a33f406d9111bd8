"""Questions that are asked together: lists, tables, files and workloads come to the same answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from queries import (
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    QueryError,
    all_marginals,
    all_ranges,
)
from queries.boxes import Boxes
from queries.linear import LinearQuery

DOMAIN = Domain(
    (
        IntegerAttribute("age", 0, 23),
        IntegerAttribute("k", 0, 11),
        CategoricalAttribute("sex", ("f", "m"), missing=True),
    ),
    "people",
)
CONDITIONS: list[dict[str, Any]] = [
    {"age": {"eq": 3}},
    {"age": {"eq": 4}, "sex": {"eq": "f"}},
    {"sex": {"eq": "m"}},
    {},
]


@pytest.fixture
def session() -> Iterator[pmw.Session]:
    age = np.random.default_rng(2).integers(0, 24, 3000)
    frame = pd.DataFrame({"age": age, "k": age // 2, "sex": np.where(age < 9, "f", "m")})
    with pmw.open_session(frame, DOMAIN, epsilon=1, delta=1e-9) as opened:
        yield opened


def test_a_table_states_a_condition_in_each_row(session: pmw.Session) -> None:
    listed = session.ask_all(CONDITIONS)
    named = pd.DataFrame({"age": [3, 4, None, None], "sex": [None, "f", "m", None]})
    assert session.ask_all(named) == listed
    texts = pd.DataFrame({"where": ["age = 3", "age = 4 AND sex = 'f'", "sex = 'm'", ""]})
    assert session.ask_all(texts) == listed
    assert len(session.ask_all(texts.iloc[:0])) == 0
    assert session.state.asked == len(CONDITIONS)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"wage": [3]}), "'wage'"),
        (pd.DataFrame({"sex": ["x"]}), "'x'"),
        (pd.DataFrame({"where": ["age ="]}), "expected a condition such as .* near '='"),
        (pd.DataFrame({"where": [3]}), "where must be"),
    ],
)
def test_a_table_that_asks_for_what_there_is_not_is_refused(
    session: pmw.Session, frame: pd.DataFrame, message: str
) -> None:
    with pytest.raises(QueryError, match=message):
        session.ask_all(frame)
    assert session.state.asked == 0


def test_a_file_has_a_question_on_each_line(session: pmw.Session, tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    lines = [{"where": one} for one in CONDITIONS]
    path.write_text("\n\n".join(map(json.dumps, lines)) + "\n")
    assert session.ask_all(path) == session.ask_all(CONDITIONS)
    path.write_text(
        '{"sql": "SELECT sex, COUNT(*) FROM people GROUP BY sex"}\n{"where": "", "request_id": "a"}\n'
    )
    grouped = session.ask_all(path)
    groups = session.ask_all(["sex = 'f'", "sex = 'm'", "sex IS NULL"])
    assert [answer.count for answer in grouped][:-1] == [answer.count for answer in groups]
    assert session.ask("", request_id="a") == grouped[-1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"where": ""}\n{"where": "wage > 3"}', "line 2: "),
        ('{"where": ""}\n\n{no json', "line 3: expected JSON"),
        ('{"sql": "SELECT AVG(age) FROM people"}', "line 1: a workload holds counting questions"),
    ],
)
def test_a_line_that_is_refused_is_named(
    session: pmw.Session, tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text(text)
    with pytest.raises(QueryError, match=message):
        session.ask_all(path)
    assert session.state.asked == 0
    with pytest.raises(FileNotFoundError):
        session.ask_all(tmp_path / "missing.jsonl")


def test_one_question_is_no_list(session: pmw.Session) -> None:
    for one in ("age = 3", CONDITIONS[0]):
        with pytest.raises(QueryError, match="expected several questions"):
            session.ask_all(one)  # type: ignore[arg-type, unused-ignore]


def test_answers_to_a_workload_of_ranges_are_those_of_its_questions(session: pmw.Session) -> None:
    for workload in (all_marginals(DOMAIN, 2), all_ranges(DOMAIN, "age")):
        session.ask_all(workload)  # what is tested, is tested
        found = session.ask_all(workload)
        alone = session.ask_all(replace(workload, boxes=None))  # the same, stored
        assert found == alone
        assert hash(found) == hash(alone)
        assert [found[place] for place in range(len(found))] == list(alone)
        assert found[-1] == alone[-1]
        assert found[5:40:7] == alone[5:40:7]
        assert found.to_text() == alone.to_text()
        pd.testing.assert_frame_equal(found.to_pandas(), alone.to_pandas())
        for place in (len(found), -len(found) - 1):
            with pytest.raises(IndexError):
                found[place]


def test_a_workload_of_ranges_makes_no_question_by_itself(
    session: pmw.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = all_ranges(DOMAIN, "age")
    session.ask_all(workload)  # what is tested, is tested
    made = list[int]()
    query = Boxes.query

    def counted(boxes: Boxes, place: int) -> LinearQuery:
        made.append(place)
        return query(boxes, place)

    monkeypatch.setattr(Boxes, "query", counted)
    assert len(session.ask_all(workload)) == len(workload)
    assert len(made) < 10 < len(workload)
