"""Every choice counts: each field of each options class is used at every entry point, or refused by name.

A field that is added to one of these classes fails here until it is used somewhere that can be seen.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import fields, replace
from fractions import Fraction
from functools import cache
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
from pmw.research.offline import Targets
from queries import (
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    LinearQuery,
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
# The fields of an offline release's own options, with another value of each.
OFFLINE: dict[str, Any] = {
    "targets": Targets.QUERY,
    "rounds": 2,
    "selection_share": Fraction(1, 2),
    "final_refits": 0,
    "early_stop": True,
}


FRAME = people(20)  # 3,000 records with dependent attributes


def test_no_choice_is_left_out() -> None:
    assert set(CHOICES) == {field.name for field in fields(pmw.Options)}
    assert set(OFFLINE) == {field.name for field in fields(pmw.OfflineOptions)} - {
        "policy"
    }  # which is Options


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


@cache
def session_under(options: pmw.Options) -> tuple[dict[str, Any], str]:
    """Return what a session does under choices, which many tests share, and what it promises."""
    with pmw.open_session(FRAME, DOMAIN, epsilon=1, delta=1e-9, options=options) as session:
        return seen_of_session(session), guarantee_terms(session.state.contract)


@pytest.mark.parametrize("name", CHOICES)
def test_a_session_uses_every_choice(name: str) -> None:
    usual, value = CHOICES[name]
    (does, promises), (other, promised) = map(session_under, (usual, replace(usual, **{name: value})))
    assert does != other or (name == "drafts" and promises != promised)  # which is all that drafts change


@cache
def planned_under(options: pmw.Options) -> dict[str, Any]:
    """Return what a plan says of choices, which many tests share."""
    return pmw.plan_session(DOMAIN, records=3000, epsilon=1, delta=1e-9, options=options).to_dict()


@pytest.mark.parametrize("name", CHOICES)
def test_a_plan_uses_every_choice_or_refuses_it_by_name(name: str) -> None:
    usual, value = CHOICES[name]
    if name in ("prior", "drafts"):  # they promise nothing beforehand
        return
    usual = replace(usual, seed=None)
    other = replace(usual, **{name: value})
    assert_used_or_refused(name, lambda: planned_under(usual), lambda: planned_under(other))


@pytest.mark.parametrize(
    ("name", "targets", "domain"),
    [
        *itertools.product(CHOICES, Targets, [DOMAIN]),
        *itertools.product(("model", "max_cells", "neighboring_relation"), [Targets.MARGINAL], [LARGE]),
    ],
)
def test_a_release_uses_every_choice_of_a_session_or_refuses_it_by_name(
    name: str, targets: Targets, domain: Domain
) -> None:
    usual, value = CHOICES[name]
    if name == "model" and domain is LARGE:
        value = pmw.ModelKind.DENSE  # a tree is the usual model there

    def seen(**given: Any) -> dict[str, Any]:
        policy = replace(usual, **given)
        return released(domain, pmw.OfflineOptions(targets, rounds=2, final_refits=0, policy=policy))

    if name == "test" and targets is Targets.QUERY:
        assert seen() == seen(test=pmw.TestKind.QUERY)  # it says what the targets say
        return
    if targets is Targets.MARGINAL and usual.test is pmw.TestKind.QUERY:
        with pytest.raises(pmw.BudgetError, match=r"test = query goes with|is for sessions"):
            seen(**{name: value})
        return
    assert_used_or_refused(name, seen, lambda: seen(**{name: value}))


@cache
def released(domain: Domain, options: pmw.OfflineOptions) -> dict[str, Any]:
    """Return what a release does under choices, which many tests share, but not the choices."""
    workload: Any = [("age", "score"), ("region", "member")]
    if options.targets is Targets.QUERY:
        workload = all_marginals(DOMAIN, order=2)
    made = pmw.fit_workload(FRAME, domain, workload, epsilon=1, delta=1e-9, options=options)
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


@pytest.mark.parametrize("name", OFFLINE)
def test_a_release_uses_every_choice_of_its_own(name: str) -> None:
    usual = pmw.OfflineOptions(rounds=3, final_refits=3, policy=MARGINAL)
    if name == "early_stop":  # of questions alone
        usual = replace(usual, targets=Targets.QUERY, policy=QUERY)
    other = replace(usual, **{name: OFFLINE[name]})
    assert released(DOMAIN, other) != released(DOMAIN, usual)


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
def test_a_command_passes_every_choice_on_or_has_no_option_for_it(command: str) -> None:
    assert set(CHOICES) - set(TYPED) == {"seed", "prior", "expected", "drafts"}  # the last three read a file
    for name, options in TYPED.items():
        found = command_named(command)
        given = found.make_context(command, [*REQUIRED[command], *options], parent=CONTEXT).params
        assert getattr(read_options(given), name) == CHOICES[name][1] != getattr(pmw.Options(), name)


def test_no_command_makes_noise_repeatable_but_that_of_an_audit_or_of_rows() -> None:
    seeded = {
        name
        for name in main.list_commands(CONTEXT)
        if any(parameter.name == "seed" for parameter in command_named(name).params)
    }
    assert seeded == {"audit", "export"}
