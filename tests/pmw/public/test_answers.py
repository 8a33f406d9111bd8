"""Answer tables: lists of answers, group-by tables, pandas and notebooks."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.public.answer import SEEDED_WARNING, Answer, Source, Spent
from pmw.public.answers import Answers
from queries import CategoricalAttribute, Domain, IntegerAttribute, QueryError, all_marginals, parse_line
from tests.worlds import ends

SEEDED = pmw.Options(test=pmw.TestKind.QUERY, seed=11)


@pytest.fixture(scope="module")
def session(shared_frame: pd.DataFrame, domain: Domain) -> Iterator[pmw.Session]:
    with pmw.open_session(shared_frame, domain, epsilon=1, delta=1e-9, options=SEEDED) as session:
        yield session


def test_a_list_of_questions_is_a_table_of_answers_and_equal_ones_are_one_object(
    session: pmw.Session,
) -> None:
    asked = [f"age < {age}" for age in (30, 31, 30)] * 2
    answers = list(session.ask_all(asked).each())
    assert [answers.index(one) for one in answers] == [0, 1, 0] * 2
    assert len({id(one) for one in answers}) == 2
    assert answers == [session.ask(one) for one in asked]
    table, again = (session.ask_all(all_marginals(session.domain, 1)) for _ in range(2))
    assert isinstance(table, Answers)
    assert len(table) == len(list(table)) == 20
    assert table.to_pandas()["question"].tolist()[:2] == ["age 20..23", "age 24..27"]
    assert isinstance(table[0], pmw.Answer)
    assert table[:2] == tuple(table)[:2]
    assert table == list(table) == again
    assert table != list(table)[:-1]
    assert hash(table) == hash(again)
    nothing = session.ask_all([])
    assert (len(nothing), repr(nothing)) == (0, "no answers")
    assert nothing.to_pandas().empty
    assert nothing.to_pandas()["count"].dtype == np.float64


def test_each_group_is_a_question_of_its_own_and_every_declared_value_has_a_row(session: pmw.Session) -> None:
    alone = [
        session.ask(f"age >= 40 AND sex = '{sex}' AND member = {member}")
        for sex in ("Female", "Male")
        for member in ("TRUE", "FALSE")
    ]
    table = session.sql("SELECT sex, member, COUNT(*) FROM people WHERE age >= 40 GROUP BY sex, member")
    whole = session.sql("SELECT COUNT(*) FROM people WHERE age >= 40")
    assert (whole.keys, len(whole)) == ((), 1)
    with pytest.raises(KeyError):
        whole.column("fraction")
    counts = zip(
        (*table.column("count"), *whole.column("count")), (*alone, session.ask("age >= 40")), strict=True
    )
    for one, answer in counts:
        low, high = ends(answer)
        assert (one.interval, one.source) == ((math.floor(low), math.ceil(high)), answer.source)
        assert one.value == pytest.approx(answer.count, abs=1)
        assert one.value.is_integer()
    assert session.group_by(["sex", "member"], "age >= 40").rows == table.rows
    assert session.group_by("sex", {"age": {"ge": 40}}).column("sex") == ("Female", "Male")
    frame = session.sql("SELECT region, COUNT(*) AS n FROM people GROUP BY region").to_pandas()
    assert list(frame.columns) == ["region", "n", "n_low", "n_high", "n_source"]
    assert frame["region"].fillna("empty").tolist() == ["north", "east", "south", "west", "empty", "(other)"]
    assert frame.attrs == {"confidence": 0.95, "notes": [], "seeded": True}
    # A grouped question is asked by its parts.
    question = parse_line('{"sql": "SELECT sex, COUNT(*) FROM people GROUP BY sex"}', session.domain)
    shown = [one.value for one in session.group_by("sex").column("count")]
    assert shown == pytest.approx([one.count for one in session.ask_all(question.parts())], abs=1)
    for ask in (session.ask, lambda asked: session.ask_all([asked])):
        with pytest.raises(QueryError, match="ask its parts"):
            ask(question)


def test_results_have_one_shape_whatever_the_order(session: pmw.Session) -> None:
    text = "SELECT COUNT(*), member AS m FROM people GROUP BY 2"
    plain = session.sql(text)
    for tail in ("", " ORDER BY m", " ORDER BY COUNT(*) DESC", " HAVING COUNT(*) >= 0 LIMIT 2"):
        table = session.sql(text + tail)
        columns = ["m", "count", "count_low", "count_high", "count_source"]
        assert list(table.to_pandas().columns) == columns
        for keys, (found,) in table.rows:
            ((own,),) = (estimates for others, estimates in plain.rows if others == keys)
            assert (found.value, found.source) == (own.value, own.source)
            assert found.interval == own.interval or "HAVING" in tail
        assert len(table) == len(plain)
        form = json.loads(json.dumps(table.to_dict()))
        assert list(form) == ["rows", "notes", "confidence", "version", "spent", "seeded"]
        for row, found in zip(form["rows"], table.column("count"), strict=True):
            assert list(row) == ["m", "count"]
            assert list(row["count"]) == ["value", "low", "high", "source", "typical", "aligned"]
            assert row["count"]["value"] == round(found.value, 3)


def test_tables_are_shown_in_terminals_and_notebooks(session: pmw.Session) -> None:
    table = session.ask_all(all_marginals(session.domain, 2))
    text = repr(table)
    assert text.splitlines()[0].split() == ["question", "count", "low", "high", "source"]
    assert text.splitlines()[-2:] == [f"… {len(table) - 20} more", SEEDED_WARNING]
    assert len(table.to_text().splitlines()) == len(table) + 2
    page = table._repr_html_()
    assert page.count("<tr>") == 21
    assert page.count("<svg") == 20
    assert f"{len(table)} answers, 95% intervals. {SEEDED_WARNING}" in page
    assert f"<p>20 of {len(table)} rows are shown; to_pandas() has all</p>" in page


def test_notebooks_show_a_session_and_that_it_is_closed(frame: pd.DataFrame, domain: Domain) -> None:
    session = pmw.open_session(frame, domain, epsilon=1, delta=1e-9, options=SEEDED)
    assert '>budget spent</th><td class="text">11.0%</td>' in session._repr_html_()
    assert '>budget spent</th><td class="text">11.0%</td>' in session.status()._repr_html_()
    used = f'width="{174 * session.status().budget_share:.1f}"'  # of 174 pixels
    for page in (session._repr_html_(), session.status()._repr_html_()):
        assert page.index('<rect x="3" y="2" width="174"') < page.index(used)
        assert (
            f"11.0% of the budget is spent; the cap is epsilon = 1, delta = 1e-09. {SEEDED_WARNING}" in page
        )
    session.close()
    assert '>open</th><td class="text">no</td>' in session._repr_html_()


ANSWER = Answer(
    5321.4375, 0.108951234, (5210.0, 5433.0), 0.95, Source.SYNTHETIC, True, 12, Spent(0.31, 1.0, 1e-9)
)


def test_the_format_is_the_documented_one() -> None:
    assert repr(ANSWER) == (
        "Answer(count=5321.4, interval=(5210.0, 5433.0), confidence=0.95, source='synthetic', version=12)"
    )
    assert replace(ANSWER, seeded=True).to_dict()["seeded"] is True
    assert json.dumps(ANSWER.to_dict()) == (
        '{"count": 5321.4375, "fraction": 0.108951234, "interval": [5210.0, 5433.0], "typical": null, '
        '"confidence": 0.95, "source": "synthetic", "aligned": true, "version": 12, '
        '"spent": {"share": 0.31, "epsilon_cap": 1.0, "delta": 1e-09}}'
    )


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (ANSWER, "about 5,321 records (10.90%), between 5,210 and 5,433 at 95% confidence"),
        (
            Answer(7.0, 0.5, None, 0.9, Source.EXHAUSTED, False, 3, Spent(1.0, 1.0, 0.0)),
            "about 7 records (50.00%), without an error bar; "
            "cells do not decide the condition, and the count takes a part of their records",
        ),
        (
            Answer(7.0, 0.5, (0.0, 9.0), 0.9, Source.SYNTHETIC, False, 3, Spent(1.0, 1.0, 0.0)),
            "about 7 records (50.00%), between 0 and 9 at 90% confidence; "
            "cells do not decide the condition, and the count takes a part of their records, "
            "the error bar none to all",
        ),
    ],
)
def test_the_sentence(answer: Answer, sentence: str) -> None:
    assert answer.sentence() == sentence


@pytest.mark.parametrize("missing", [False, True])
def test_conditions_as_keys_are_booleans_everywhere(*, missing: bool) -> None:
    kids = pd.Series(np.arange(60) % 6, dtype="Int64")
    domain = Domain((IntegerAttribute("kids", 0, 5, missing=missing),), name="families")
    frame = pd.DataFrame({"kids": kids.mask(kids == 5) if missing else kids})
    with pmw.open_session(frame, domain, epsilon=1000, delta=1e-9, options=pmw.Options(seed=1)) as session:
        table = session.sql("SELECT kids > 2 AS big, COUNT(*) AS n FROM families GROUP BY big")
    values = [False, True, None] if missing else [False, True]
    words = ["(missing)" if one is None else str(one).lower() for one in values]
    assert [line.split()[0] for line in table.to_text().splitlines()[1 : len(values) + 1]] == words
    assert [row["big"] for row in json.loads(json.dumps(table.to_dict()))["rows"]] == values
    assert table.to_pandas()["big"].tolist() == values
    pytest.importorskip("pyarrow", reason="Arrow tables need the extra frames")
    pytest.importorskip("polars", reason="Polars tables need the extra frames")
    assert str(table.to_arrow().schema.field("big").type) == "bool"
    assert table.to_polars()["big"].to_list() == values


def test_names_are_escaped_in_notebooks() -> None:
    domain = Domain((CategoricalAttribute("<b>x</b>", ("<script>", "a&b")),), name="<b>")
    with pmw.open_session(pd.DataFrame({"<b>x</b>": ["a&b"]}), domain, epsilon=1, options=SEEDED) as session:
        answer = session.ask({"<b>x</b>": {"eq": "<script>"}})
        for page in (one._repr_html_() for one in (session, session.status(), answer, session.ledger())):
            assert not re.search("<script>|<b>", page)
