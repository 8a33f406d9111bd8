"""What an offline release gives."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import pmw
from pmw.public.answer import Source
from pmw.research.offline import OfflineOptions, OfflineRelease, fit_workload
from queries import Domain, IntegerAttribute, LinearQuery, QueryError, all_marginals


@pytest.fixture
def made(frame: pd.DataFrame, domain: Domain) -> OfflineRelease:
    options = OfflineOptions(rounds=4, final_refits=0, policy=pmw.Options(seed=7))
    return fit_workload(frame, domain, all_marginals(domain, 1), epsilon=1, delta=1e-9, options=options)


def test_the_workload_is_answered_with_error_bars(made: OfflineRelease, frame: pd.DataFrame) -> None:
    answers = made.answers()
    assert len(answers) == 20
    assert all(answer.interval is not None and answer.seeded for answer in answers)
    member = made.answer("member = TRUE")
    assert member.interval is not None
    assert member.interval[0] <= frame["member"].sum() <= member.interval[1]
    assert member.spent.share == made.ledger.share


def test_questions_beside_the_workload_are_answered_without_a_promise(made: OfflineRelease) -> None:
    answer = made.answer({"age": {"ge": 40}, "sex": {"eq": "Male"}})
    assert (answer.interval, answer.source) == (None, Source.EXHAUSTED)
    assert answer.count > 0


def test_a_question_about_another_domain_is_refused(made: OfflineRelease) -> None:
    other = Domain((IntegerAttribute("age", 0, 9),), name="other")
    with pytest.raises(QueryError, match="another domain"):
        made.answer(LinearQuery.everything(other))


def test_rows_and_measurements_are_written_with_a_manifest(made: OfflineRelease, tmp_path: Path) -> None:
    assert len(made.synthetic_records(100, seed=1)) == 100
    form = made.export(tmp_path / "rows.csv")
    assert form["rows"] == len(pd.read_csv(tmp_path / "rows.csv"))
    made.export(tmp_path / "numbers.json", format="measurements")
    assert (tmp_path / "numbers.json.manifest.json").exists()


def test_its_text_tells_what_was_charged(made: OfflineRelease) -> None:
    assert repr(made).startswith("OfflineRelease('people', 8 measurements, Charged: ")
    assert made.model is made.state.model
