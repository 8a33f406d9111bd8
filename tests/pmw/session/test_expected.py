"""Sessions that were opened for the questions that are expected."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pmw
from pmw.model.estimate import noise_variance
from pmw.public.codec import dumps, form_of
from pmw.public.state import PublicState
from pmw.session.maintenance import read_session
from queries import LinearQuery, QueryError, parse_line
from tests.pmw.session.stored import edit, failed, killed_drawing
from tests.pmw.session.test_priors import DOMAIN, FRAME, PAIRS
from tests.worlds import repeat_noise

QUESTIONS = [
    "age >= 40 AND sex = 'm'",
    "sex = 'm' AND age >= 40",  # the same
    "SELECT COUNT(*) FROM records WHERE rooms > 3 GROUP BY job",
    '{"where": "age >= 65"}',
    '{"sql": "SELECT COUNT(*) FROM records GROUP BY sex"}',
]
EXPECTED = pmw.expected_questions(QUESTIONS[:3], DOMAIN)
FIT = "the plans fit the contract"


def opened(
    path: Path | None = None, expected: pmw.ExpectedQuestions | None = EXPECTED, **choices: Any
) -> Any:
    options = pmw.Options(opening=pmw.Opening.PAIRS, expected=expected, **choices)
    return pmw.open_session(FRAME, DOMAIN, epsilon=1, delta="1e-9", path=path, options=options)


def counts_of(expected: pmw.ExpectedQuestions) -> dict[str, int]:
    return {", ".join(scope): count for scope, count in expected.by_scope.items()}


# --- what is expected ---------------------------------------------------------------------------------------


def test_different_questions_count_once_each_and_a_statement_counts_in_each_group(tmp_path: Path) -> None:
    (tmp_path / "asked.txt").write_text("\n".join(QUESTIONS))
    found = pmw.expected_questions(tmp_path / "asked.txt", DOMAIN)
    assert counts_of(found) == {"age, sex": 1, "job, rooms": 6, "age": 1, "sex": 2}
    assert len(found) == 10
    assert pmw.expected_questions(str(tmp_path / "asked.txt"), DOMAIN) == found


@given(st.permutations(QUESTIONS), st.lists(st.sampled_from(QUESTIONS)))
def test_neither_order_nor_repeats_change_the_contract(order: list[str], again: list[str]) -> None:
    def read(lines: list[str]) -> pmw.ExpectedQuestions:
        return pmw.expected_questions(
            [parse_line(one, DOMAIN) if one.startswith("{") else one for one in lines], DOMAIN
        )

    assert read([*order, *again]) == read(QUESTIONS)


def test_of_an_average_the_records_of_its_groups_are_expected() -> None:
    average = pmw.expected_questions(["SELECT AVG(age) FROM records WHERE rooms > 3 GROUP BY job"], DOMAIN)
    assert average == pmw.expected_questions([QUESTIONS[2]], DOMAIN)


@pytest.mark.parametrize(
    ("questions", "told"),
    [
        ([], "expected a question, got none"),
        (["ages > 3"], "unknown attribute 'ages'"),
        ([LinearQuery.cells(replace(DOMAIN, name="others"), {})], "made for another domain"),
    ],
)
def test_what_cannot_be_expected_is_refused(questions: list[Any], told: str) -> None:
    with pytest.raises(QueryError, match=told):
        pmw.expected_questions(questions, DOMAIN)


@pytest.mark.parametrize(
    "parts",
    [
        ((), (), "0"),
        ((("age",),), (0,), "0"),
        ((("sex",), ("age",)), (1, 1), "0"),
        ((("age",),), (1, 2), "0"),
    ],
)
def test_counts_that_do_not_fit_their_attributes_are_refused(parts: tuple[Any, ...]) -> None:
    with pytest.raises(pmw.BudgetError, match="a number of questions for each scope"):
        pmw.ExpectedQuestions(*parts)


@pytest.mark.parametrize("scope", [("hours",), ("sex", "age"), ("age", "age")])
def test_questions_about_other_attributes_are_refused_before_anything_is_spent(
    scope: tuple[str, ...], tmp_path: Path
) -> None:
    expected = pmw.ExpectedQuestions((scope,), (1,), "0" * 64)
    with pytest.raises(pmw.BudgetError, match="attributes that the schema does not declare"):
        opened(tmp_path / "study.pmw", expected)
    assert list(tmp_path.iterdir()) == []


# --- sessions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        ({"opening": pmw.Opening.ONE_WAY}, "has opening = one-way"),
        ({"opening": pmw.Opening.NONE}, "has opening = none"),
        ({"test": pmw.TestKind.QUERY}, "tests single questions"),
        ({"delta": 0}, "delta has to be above 0"),
        ({"update_limit": 3}, "tests them instead"),
        ({"simultaneous": True}, "tests them instead"),
        ({"accuracy": 0.2, "records": 3000}, "this session "),
    ],
)
def test_sessions_that_measure_no_pairs_say_why_they_refuse_them(
    choices: dict[str, Any], told: str, tmp_path: Path
) -> None:
    delta = choices.pop("delta", "1e-9")
    options = replace(pmw.Options(opening=pmw.Opening.PAIRS, expected=EXPECTED), **choices)
    with pytest.raises(
        pmw.BudgetError, match=rf"expected questions share the budget among all pairs.*{told}"
    ):
        pmw.open_session(FRAME, DOMAIN, epsilon=1, delta=delta, path=tmp_path / "study.pmw", options=options)
    with pytest.raises(pmw.BudgetError, match=told):
        pmw.plan_session(DOMAIN, records=3000, epsilon=1, delta=delta, options=options)
    assert list(tmp_path.iterdir()) == []


def test_a_table_that_is_measured_whole_answers_every_question_alike() -> None:
    small = replace(DOMAIN, attributes=DOMAIN.attributes[2:])
    options = pmw.Options(expected=pmw.expected_questions(["rooms > 3"], small))
    with pytest.raises(pmw.BudgetError, match="measures the whole table, which answers every question alike"):
        pmw.open_session(FRAME, small, epsilon=1, delta="1e-9", options=options)


def widths(state: PublicState) -> dict[tuple[str, ...], float]:
    """Return the variances of the pairs that were measured before any question, on one cell."""
    return {one.scope: noise_variance(one.noise) for one in state.marginals}


def test_expected_pairs_are_measured_with_less_noise_and_others_with_at_most_twice_the_variance() -> None:
    with opened(seed=3) as session, opened(expected=None, seed=3) as usual:
        found, before = widths(session.state), widths(usual.state)
        assert found.keys() == before.keys()
        for scope, variance in found.items():
            if scope in EXPECTED.scopes:
                assert variance < 0.7 * before[scope]
            else:
                assert variance <= 2.01 * before[scope]
        assert session.state.ledger.share == pytest.approx(usual.state.ledger.share, abs=1e-6)
        assert session.verify().holds


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Open a session in a file, ask something, and return its path."""
    repeat_noise(monkeypatch, 5)
    FRAME.to_csv(tmp_path / "people.csv", index=False)
    path = tmp_path / "study.pmw"
    options = pmw.Options(opening=pmw.Opening.PAIRS, expected=EXPECTED)
    table = pmw.TableFile(tmp_path / "people.csv")
    with pmw.open_session(table, DOMAIN, epsilon=1, delta="1e-9", path=path, options=options) as session:
        session.ask("age >= 65 AND job = 'a'")
    return path


def test_a_session_goes_on_with_them_and_holds(study: Path) -> None:
    with pmw.resume_session(study) as session:
        assert session.state.contract.options.expected == EXPECTED
        session.ask("rooms > 3 AND job = 'a' AND sex = 'm'")
        session.finish()
    assert failed(study) == {}


def test_an_opening_that_was_interrupted_measures_the_rest_at_the_same_prices(tmp_path: Path) -> None:
    path = tmp_path / "study.pmw"
    with killed_drawing(lambda requested: requested.what.scope == PAIRS[3]):
        opened(path)
    assert len(read_session(path)[0].marginals) == 3
    with pmw.resume_session(path, FRAME) as session, opened(seed=3) as whole:
        assert widths(session.state).keys() == widths(whole.state).keys()
        assert session.state.ledger.share == pytest.approx(whole.state.ledger.share, abs=1e-3)
    assert failed(path) == {}


@pytest.mark.parametrize(
    ("fact", "place", "value", "told"),
    [
        (
            "contract",
            ("options", "expected", "counts"),
            [5, 1],
            "not shared as the expected questions ask for",
        ),
        ("opening_plan", ("expected",), "1/3", "not shared as the expected questions ask for"),
        ("test_plan", (0, "added", 0, "price"), "1/1024", "not paid as the expected questions ask for"),
        ("test_plan", (0, "added"), None, "not paid as the expected questions ask for"),
    ],
)
def test_weights_that_are_not_those_of_the_questions_are_found(
    study: Path, fact: str, place: tuple[Any, ...], value: Any, told: str
) -> None:
    def change(text: str) -> str:
        form = json.loads(text)
        inner = form
        for key in place[:-1]:
            inner = inner[key]
        assert inner[place[-1]] != value
        if value is None:
            del inner[place[-1]]
        else:
            inner[place[-1]] = value
        return json.dumps(form, separators=(",", ":"), ensure_ascii=False)

    edit(study, "meta", "value", f"key = '{fact}'", change)
    assert told in failed(study)[FIT]


def test_a_session_without_them_is_written_as_before() -> None:
    with opened(expected=None, seed=3) as session, opened(seed=3) as with_them:
        for state, is_written in ((session.state, False), (with_them.state, True)):
            text = dumps([form_of(state.contract), form_of(state.plan)])
            assert ('"expected"' in text) is ('"added"' in text) is is_written
