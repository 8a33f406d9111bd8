"""Models to hand out: they answer as their session does where nothing is tested."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import pmw
from pmw.public.answer import Answer
from queries import Domain, all_marginals
from tests.worlds import PEOPLE, YEARS

QUESTIONS = (
    "",
    "age >= 40",
    "age >= 41",  # cuts a cell
    "sex = 'Male' AND region = 'north'",
    "age >= 40 AND NOT member = TRUE",
    "region IS NULL OR age < 28",
    "age < 30 AND sex = 'Female' AND region = 'east' AND member = TRUE",
)
STATEMENT = "SELECT sex, AVG(age), COUNT(*) FROM people WHERE member = TRUE GROUP BY sex"
KINDS = {
    "marginals": pmw.Options(opening=pmw.Opening.ONE_WAY),
    "graphical": pmw.Options(model=pmw.ModelKind.GRAPHICAL, simultaneous=True),
    "replace-one": pmw.Options(
        opening=pmw.Opening.ONE_WAY, neighboring_relation=pmw.NeighboringRelation.REPLACE_ONE
    ),
    "questions": pmw.Options(test=pmw.TestKind.QUERY, threshold=20.0, update_limit=8),
    "textbook": pmw.Options.textbook(threshold=100.0, update_limit=8),
    "beside": pmw.Options(opening=pmw.Opening.ONE_WAY, model=pmw.ModelKind.GRAPHICAL, max_cells=50),
    "pure": pmw.Options(composition=pmw.Composition.PURE),
    "triples": pmw.Options(opening=pmw.Opening.TRIPLES),
    "triples beside": pmw.Options(opening=pmw.Opening.TRIPLES, model=pmw.ModelKind.GRAPHICAL, max_cells=200),
}

# Asks a model counts, means, a quantile and groups, and tells what was loaded for it.
OFFLINE = """
import sys
import pmw

model = pmw.load_model(sys.argv[1])
assert model.ask("age >= 40").interval is not None
assert len(model.ask_all(["sex = 'Male'", {"region": {"in": ["north", "south"]}}])) == 2
assert len(model.answer_arrays("age", [0, 1], [3, 3]).interval) == 2
assert len(model.group_by(["sex", "region"], where="age < 48")) > 4
statement = "SELECT sex, COUNT(*) AS n, AVG(age), MEDIAN(age) FROM people GROUP BY sex ORDER BY n"
assert all(one.interval for one in model.sql(statement).estimates())
for table in (model.mean("age", by="sex"), model.sum("age"), model.quantile("age", 0.9)):
    assert all(one.interval for one in table.estimates())
    table.to_text(), table.to_dict(), table._repr_html_()
model.status()._repr_html_()
print(sorted({"duckdb", "matplotlib", "pandas", "polars", "pyarrow", "scipy"} & set(sys.modules)))
"""


def replaceable(domain: Domain) -> Domain:
    """Return the domain with a cell for everything, as replace-one needs it."""
    return Domain(tuple(replace(one, missing=True, other=True) for one in domain), name=domain.name)


def untested(session: pmw.Session, questions: Sequence[str]) -> list[Answer]:
    """Return what a session answers where it may not test."""
    return [session._engine.answer_untested(session._request(one, fresh=True)) for one in questions]


@pytest.fixture(params=KINDS)
def options(request: pytest.FixtureRequest) -> pmw.Options:
    return KINDS[str(request.param)]


def test_a_model_answers_as_its_session_does_without_a_test(
    options: pmw.Options, tmp_path: Path, repeatable: None
) -> None:
    domain = replaceable(YEARS.domain) if options.public_count else YEARS.domain
    target = tmp_path / "study.model"
    with pmw.open_session(
        PEOPLE.frame, domain, epsilon=4, delta=1e-9, path=tmp_path / "study.pmw", options=options
    ) as session:
        for asked in QUESTIONS[3:]:
            session.ask(asked)
        about = session.export(target)
        model = pmw.load_model(target)
        state, expected = session.state, untested(session, QUESTIONS)
    if not options.tests_marginals and state.positives_used < state.positives_limit:
        expected = [  # the session was not asked to test them
            replace(answer, source=pmw.Source.UNVERIFIED) if answer.source is pmw.Source.EXHAUSTED else answer
            for answer in expected
        ]
    assert list(model.ask_all(QUESTIONS)) == expected
    assert [model.ask(question, fresh=True, request_id="a") for question in QUESTIONS] == expected
    workload = all_marginals(domain, 1)
    assert list(model.ask_all(workload)) == [model.ask(query) for query in workload]
    assert sum(answer.interval is not None for answer in expected) >= (
        1 if options.opening is pmw.Opening.NONE else 3
    )
    assert about["guarantee"] == model.guarantee
    assert model.status().budget_share == state.ledger.share
    assert model.status().version == state.version
    assert (options.max_cells is not None) == bool(state.beside)  # kept beside a model that cannot hold it
    live = pmw.PublicModel(state)
    assert model.sql(STATEMENT).to_dict() == live.sql(STATEMENT).to_dict()
    assert model.quantile("age", by="member").rows == live.quantile("age", by="member").rows
    assert model.group_by(["sex", "member"]).rows == live.group_by(["sex", "member"]).rows


def test_the_model_of_a_closed_session_says_that_nothing_is_tested_any_more(
    study: Path, tmp_path: Path
) -> None:
    question = "age < 28 AND member = TRUE AND region = 'east'"
    with pmw.resume_session(study, PEOPLE.frame) as session:
        session.export(tmp_path / "open.model")
        session.finalize()
        session.export(tmp_path / "closed.model")
        expected = session.ask(question)
    answer = pmw.load_model(tmp_path / "closed.model").ask(question)
    assert answer == expected
    assert answer.source is pmw.Source.EXHAUSTED
    before = pmw.load_model(tmp_path / "open.model").ask(question)
    assert before.source is pmw.Source.UNVERIFIED
    assert before.interval == answer.interval  # of its parts


def test_a_model_is_written_as_it_is(session: pmw.Session, tmp_path: Path) -> None:
    target = tmp_path / "study.model"
    with pytest.raises(pmw.ReleaseError, match="as it is"):
        session.export(target, refine=True)
    with pytest.raises(pmw.ReleaseError, match="as it is"):
        session.export(target, pmw.RowPlan(5))
    session.export(target)
    with pytest.raises(pmw.ReleaseError, match="exists"):
        session.export(target)
    session.export(target, force=True)
    with pytest.raises(pmw.ReleaseError, match="folder"):
        session.export(tmp_path, format="model")
    assert [path.name for path in tmp_path.iterdir()] == ["study.model"]


@pytest.fixture
def session() -> Iterator[pmw.Session]:
    with YEARS.opened(epsilon=1, seed=1) as opened:
        yield opened


@pytest.fixture
def model(session: pmw.Session, tmp_path_factory: pytest.TempPathFactory) -> pmw.PublicModel:
    target = tmp_path_factory.mktemp("models") / "study.model"
    session.export(target)
    return pmw.load_model(target)


def test_a_model_answers_without_the_libraries_of_tables_and_plans(tmp_path: Path) -> None:
    """A browser, and whoever has the file alone, needs numpy, sqlglot and what draws a page."""
    target = tmp_path / "study.model"
    with pmw.open_session(PEOPLE.frame, PEOPLE.domain, epsilon=4, delta=1e-9) as session:
        session.export(target)
    command = [sys.executable, "-c", OFFLINE, str(target)]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    assert told.stdout == "[]\n"
