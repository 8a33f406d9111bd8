"""Every choice counts: each field of each options class is used at every entry point, or refused by name.

A field that is added to one of these classes fails here until it is used somewhere that can be seen.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.cli import main
from pmw.cli.options import read_options
from pmw.errors import PMWError
from pmw.public.contract import guarantee_terms
from pmw.public.options import DraftCharge
from pmw.research.audit.catalogue import chosen
from pmw.research.audit.entries import Depth, Entry, pairs_of
from pmw.research.audit.report import AuditOptions, audit
from pmw.research.offline import Targets
from queries import (
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    LinearQuery,
    NumericAttribute,
    all_marginals,
)

DOMAIN = Domain(
    (
        IntegerAttribute("age", 0, 15, missing=True, other=True),
        IntegerAttribute("score", 0, 9, missing=True, other=True),
        CategoricalAttribute("region", ("north", "east", "south", "west"), missing=True, other=True),
        CategoricalAttribute("member", (True, False), missing=True, other=True),
    ),
    name="people",
)
LARGE = Domain(
    (
        *DOMAIN.attributes,
        *(IntegerAttribute(f"a{place}", 0, 9, missing=True, other=True) for place in range(5)),
    ),
    name="large",
)
MARGINAL = pmw.Options(seed=7)
QUERY = pmw.Options(seed=7, test=pmw.TestKind.QUERY)
STEP = replace(QUERY, update=pmw.UpdateRule.STEP)
GRAPHICAL = replace(MARGINAL, model=pmw.ModelKind.GRAPHICAL)
CONTRACT = replace(MARGINAL, opening=pmw.Opening.NONE, accuracy=0.5, records=3000)


def people(seed: int, records: int = 3000) -> pd.DataFrame:
    """Return records with dependent attributes, alike for all seeds but for chance."""
    generator = np.random.default_rng(seed)
    age = generator.integers(0, 16, records)
    columns = {
        "age": age,
        "score": (age // 2 + generator.integers(0, 3, records)).clip(0, 9),
        "region": generator.choice(["north", "east", "south", "west"], records, p=[0.5, 0.3, 0.15, 0.05]),
        "member": generator.random(records) < age / 16,
        "id": np.arange(records) // 3,
    }
    return pd.DataFrame(
        {**columns, **{f"a{place}": generator.integers(0, 10, records) for place in range(5)}}
    )


# For each field: choices that it may go with, and another value of it.
CHOICES: dict[str, tuple[pmw.Options, Any]] = {
    "neighboring_relation": (MARGINAL, pmw.NeighboringRelation.REPLACE_ONE),
    "records_per_person": (MARGINAL, 2),
    "update": (QUERY, pmw.UpdateRule.STEP),
    "opening": (MARGINAL, pmw.Opening.NONE),
    "update_limit": (MARGINAL, 2),
    "threshold": (QUERY, 500.0),
    "learning_rate": (STEP, 0.01),
    "sparse_vector": (MARGINAL, pmw.SparseVectorKind.LAPLACE_ROUNDS),
    "sides": (QUERY, pmw.Sides.TWO_SIDED),
    "composition": (replace(MARGINAL, composition=pmw.Composition.PURE), pmw.Composition.ZCDP),
    "expected_queries": (QUERY, 50),
    "confidence": (MARGINAL, 0.5),
    "test": (MARGINAL, pmw.TestKind.QUERY),
    "model": (MARGINAL, pmw.ModelKind.GRAPHICAL),
    "max_cells": (GRAPHICAL, 60),
    "simultaneous": (MARGINAL, True),
    "reserve": (replace(MARGINAL, opening=pmw.Opening.PAIRS), Fraction(1, 10)),
    "seed": (MARGINAL, 8),
    "person_column": (MARGINAL, "id"),
    "accuracy": (CONTRACT, 0.45),
    "records": (CONTRACT, 2800),
    "prior": (MARGINAL, pmw.public_prior(people(21), DOMAIN)),
    "expected": (
        replace(MARGINAL, opening=pmw.Opening.PAIRS),
        pmw.expected_questions(["age <= 4 AND member = TRUE", "score >= 7"], DOMAIN),
    ),
    "minimum_count": (replace(MARGINAL, records_per_person=2), 1000),
    "drafts": (MARGINAL, (DraftCharge("age", pmw.NeighboringRelation.ADD_REMOVE, 1, None, Fraction(1, 50)),)),
}
CLASSES: dict[
    str, tuple[type[Any], dict[str, Any]]
] = {  # the fields of the other classes, with another value of each
    "offline": (
        pmw.OfflineOptions,
        {
            "targets": Targets.QUERY,
            "rounds": 2,
            "selection_share": Fraction(1, 2),
            "final_refits": 0,
            "early_stop": True,
        },
    ),
    "rows": (
        pmw.RowPlan,
        {
            "rows": 50,
            "independent": True,
            "seed": 8,
            "where": "age >= 6",
            "dialect": pmw.CsvDialect(delimiter=";"),
        },
    ),
    "dialect": (
        pmw.CsvDialect,
        {
            "delimiter": ";",
            "quote": "'",
            "missing_texts": ("?",),
            "trim": True,
            "encoding": "latin-1",
            "decimal": ",",
            "escape": "?",
        },
    ),
    "audit": (
        AuditOptions,
        {"exact": False, "runs": None, "false_alarm": 0.1, "depth": Depth.LONG, "seed": 8},
    ),
}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Return 3,000 records with dependent attributes, the same in every run."""
    return people(20)


def test_no_choice_is_left_out() -> None:
    assert set(CHOICES) == {field.name for field in fields(pmw.Options)}
    for made, values in CLASSES.values():
        own = {field.name for field in fields(made)} - {"policy"}  # which is Options
        assert set(values) == own


def seen_of_session(session: pmw.Session) -> dict[str, Any]:
    """Return what a session does, but not the choices that it was given."""
    questions = ["age <= 4 AND member = TRUE", "score >= 7", "region = 'east' AND score < 5 AND age > 3", ""]
    state = session.state
    answers = [session.ask(question).to_dict() for question in questions]
    return {
        "answers": answers,
        "plan": repr(state.plan),
        "charges": repr(session.ledger().lines),
        "model": type(session.state.model).__name__,
        "beside": session.state.beside,
    }


@pytest.mark.parametrize("name", CHOICES)
def test_a_session_uses_every_choice(name: str, frame: pd.DataFrame) -> None:
    usual, value = CHOICES[name]

    def seen(options: pmw.Options) -> dict[str, Any]:
        with pmw.open_session(frame, DOMAIN, epsilon=1, delta=1e-9, options=options) as session:
            promise = guarantee_terms(session.state.contract) if name == "drafts" else ""  # all they change
            return {**seen_of_session(session), "promise": promise}

    assert seen(usual) != seen(replace(usual, **{name: value}))


@pytest.mark.parametrize("name", CHOICES)
def test_a_plan_uses_every_choice_or_refuses_it_by_name(name: str) -> None:
    usual, value = CHOICES[name]
    if name in ("prior", "drafts"):  # they promise nothing beforehand
        return

    def seen(options: pmw.Options) -> dict[str, Any]:
        plan = pmw.plan_session(DOMAIN, records=3000, epsilon=1, delta=1e-9, options=options)
        return plan.to_dict()

    usual = replace(usual, seed=None)
    assert_used_or_refused(name, lambda: seen(usual), lambda: seen(replace(usual, **{name: value})))


@pytest.mark.parametrize(
    ("targets", "domain"),
    [(Targets.MARGINAL, DOMAIN), (Targets.MARGINAL, LARGE), (Targets.QUERY, DOMAIN)],
    ids=["marginals", "marginals-of-many-cells", "questions"],
)
@pytest.mark.parametrize("name", CHOICES)
def test_a_release_uses_every_choice_of_a_session_or_refuses_it_by_name(
    name: str, targets: Targets, domain: Domain, frame: pd.DataFrame
) -> None:
    usual, value = CHOICES[name]
    if name == "model" and domain is LARGE:
        value = pmw.ModelKind.DENSE  # a tree is the usual model there

    def seen(**given: Any) -> dict[str, Any]:
        policy = replace(usual, **given)
        options = pmw.OfflineOptions(targets, rounds=2, final_refits=0, policy=policy)
        return seen_of_release(release(frame, domain, options))

    if name == "test" and targets is Targets.QUERY:
        assert seen() == seen(test=pmw.TestKind.QUERY)  # it says what the targets say
        return
    if targets is Targets.MARGINAL and usual.test is pmw.TestKind.QUERY:
        with pytest.raises(pmw.BudgetError, match=r"test = query goes with|is for sessions"):
            seen(**{name: value})
        return
    assert_used_or_refused(name, seen, lambda: seen(**{name: value}))


def release(frame: pd.DataFrame, domain: Domain, options: pmw.OfflineOptions) -> pmw.OfflineRelease:
    workload: Any = [("age", "score"), ("region", "member")]
    if options.targets is Targets.QUERY:
        workload = all_marginals(DOMAIN, order=2)
    return pmw.fit_workload(frame, domain, workload, epsilon=1, delta=1e-9, options=options)


def seen_of_release(made: pmw.OfflineRelease) -> dict[str, Any]:
    queries: list[LinearQuery | str] = [
        LinearQuery.cells(made.state.domain, {"age": (0, 4)}),
        "score >= 7 AND age < 6",
        "",
    ]
    return {
        "answers": [made.answer(query).to_dict() for query in queries],
        "charges": repr(made.ledger.lines),
        "model": type(made.model).__name__,
        "beside": made.state.beside,
    }


@pytest.mark.parametrize("name", CLASSES["offline"][1])
def test_a_release_uses_every_choice_of_its_own(name: str, frame: pd.DataFrame) -> None:
    usual = pmw.OfflineOptions(rounds=3, final_refits=3, policy=MARGINAL)
    if name == "early_stop":  # of questions alone
        usual = replace(usual, targets=Targets.QUERY, policy=QUERY)
    other = replace(usual, **{name: CLASSES["offline"][1][name]})
    assert seen_of_release(release(frame, DOMAIN, other)) != seen_of_release(release(frame, DOMAIN, usual))


@pytest.mark.parametrize("name", CLASSES["rows"][1])
def test_rows_are_drawn_by_every_choice_or_it_is_refused(
    name: str, frame: pd.DataFrame, tmp_path: Path
) -> None:
    usual = pmw.RowPlan(rows=200, seed=7)
    other = replace(usual, **{name: CLASSES["rows"][1][name]})
    with pmw.open_session(frame, DOMAIN, epsilon=1, delta=1e-9, options=MARGINAL) as session:
        given = [
            {key: one for key, one in asdict(plan).items() if key != "dialect"} for plan in (usual, other)
        ]
        drawn = [session.synthetic_records(**plan) for plan in given]
        assert drawn[0].equals(drawn[1]) == (name == "dialect")  # of files alone
        files = [tmp_path / "usual.csv", tmp_path / "other.csv"]
        for file, plan in zip(files, (usual, other), strict=True):
            session.export(file, plan)
        assert files[0].read_bytes() != files[1].read_bytes()
        with pytest.raises(pmw.ReleaseError, match="rows"):
            session.export(tmp_path / "measured.json", other, format="measurements")


@pytest.mark.parametrize("name", CLASSES["dialect"][1])
def test_a_table_is_read_by_every_choice_of_its_dialect_or_refuses_it_by_name(
    name: str, tmp_path: Path
) -> None:
    words = CategoricalAttribute("word", ("a", "b", "?", "'a'", "a;b", "é"), missing=True)
    domain = Domain((words, NumericAttribute("more", (0, 5, 6), other=True)))
    text = "word,more\n a,1\n?,2\n'a',3\na,4\né,\"5,5\"\n"
    if name == "delimiter":
        text = "word;more\na;1\n"
    file = tmp_path / "table.csv"
    file.write_text(text, encoding="utf-8")
    dialect = pmw.CsvDialect(**{name: CLASSES["dialect"][1][name]})

    def seen(table: pmw.TableFile) -> Any:
        with pmw.open_session(table, domain, epsilon=1000, options=pmw.Options(seed=7)) as session:
            asked = [f"word = '{value}'" for value in ("a", "b", "?", "''a''", "a;b", "é")]
            return [round(session.ask(where).count) for where in (*asked, "more >= 5")]

    usual: Any = None
    with suppress(pmw.DataError):  # the usual dialect finds no such column
        usual = seen(pmw.TableFile(file))
    assert seen(pmw.TableFile(file, dialect)) != usual
    with pytest.raises(pmw.DataError, match=name):
        pmw.TableFile(tmp_path / "table.parquet", dialect)


@pytest.mark.parametrize("name", CLASSES["audit"][1])
def test_an_audit_uses_every_choice(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = chosen(["shared-threshold"])
    usual = AuditOptions(runs=2000, seed=7)

    def seen(options: AuditOptions) -> list[dict[str, Any]]:
        return [{**one.to_dict(), "seconds": 0} for one in audit(entries, options)]

    if name == "depth":  # what is found may be the same, so look at how many neighbours are searched
        assert len(list(pairs_of(entries[0], Depth.SHORT))) < len(list(pairs_of(entries[0], Depth.LONG)))
        searched: list[Depth] = []

        def found(_: Entry, depth: Depth) -> tuple[float, None]:
            searched.append(depth)
            return 0.0, None

        monkeypatch.setattr("pmw.research.audit.report.worst_found", found)
        seen(usual)
        seen(replace(usual, depth=Depth.LONG))
        assert searched == [Depth.SHORT, Depth.LONG]
        return

    assert seen(replace(usual, **{name: CLASSES["audit"][1][name]})) != seen(usual)


def assert_used_or_refused(name: str, usual: Callable[[], Any], other: Callable[[], Any]) -> None:
    """Check that a choice changes what is seen, or is refused by its name."""
    refusal = None
    try:
        changed = other()
    except PMWError as error:
        refusal = str(error)
    if refusal is None:
        assert changed != usual()
    else:
        assert name in refusal


# How the same choices are typed: what else they need, the option, and its value.
TYPED: dict[str, tuple[str, ...]] = {
    "neighboring_relation": ("--neighbors", "replace-one"),
    "records_per_person": ("--records-per-person", "2"),
    "update": ("--test", "query", "--update", "step"),
    "opening": ("--opening", "none"),
    "update_limit": ("--update-limit", "2"),
    "threshold": ("--test", "query", "--threshold", "500"),
    "learning_rate": ("--test", "query", "--update", "step", "--learning-rate", "0.01"),
    "sparse_vector": ("--sparse-vector", "laplace-rounds"),
    "sides": ("--test", "query", "--sides", "two-sided"),
    "composition": ("--composition", "zcdp"),
    "expected_queries": ("--queries", "50"),
    "confidence": ("--confidence", "0.5"),
    "test": ("--test", "query"),
    "model": ("--model", "graphical"),
    "max_cells": ("--max-cells", "60"),
    "simultaneous": ("--simultaneous",),
    "reserve": ("--reserve", "10%"),
    "person_column": ("--person-column", "id"),
    "accuracy": ("--accuracy", "0.45", "--records", "9"),
    "records": ("--accuracy", "0.45", "--records", "2800"),
    "minimum_count": ("--minimum-count", "1000"),
}
CONTEXT = click.Context(main, **main.context_settings)
REQUIRED = {
    "open": ("s.pmw", "--data", "t.csv", "--schema", "t.toml", "--epsilon", "1"),
    "plan": ("--schema", "t.toml", "--records", "9", "--epsilon", "1"),
}


def command_named(name: str) -> click.Command:
    found = main.get_command(CONTEXT, name)
    assert found is not None
    return found


@pytest.mark.parametrize("command", REQUIRED)
@pytest.mark.parametrize(
    "name", [name for name in CHOICES if name not in ("seed", "prior", "expected", "drafts")]
)  # they read a file
def test_a_command_passes_every_choice_on_or_has_no_option_for_it(name: str, command: str) -> None:
    arguments = [*REQUIRED[command], *TYPED[name]]
    found = command_named(command)
    given = found.make_context(command, arguments, parent=CONTEXT).params
    assert getattr(read_options(given), name) == CHOICES[name][1] != getattr(pmw.Options(), name)


@pytest.mark.parametrize("command", main.list_commands(CONTEXT))
def test_no_command_makes_noise_repeatable_but_that_of_an_audit_or_of_rows(command: str) -> None:
    named = {parameter.name for parameter in command_named(command).params}
    assert "seed" not in named or command in ("audit", "export")
