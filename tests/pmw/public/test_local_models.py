"""Answers about a few attributes follow what was measured of them, and depend on nothing else."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.model.bins import coarse_target
from pmw.model.measurement import OneWayMeasurement, ResidualMeasurement
from pmw.public.free_answers import ModelAnswers
from pmw.public.local_models import LocalModels, local_models
from pmw.public.state import PublicState, coarse_model
from queries import CategoricalAttribute, Domain, IntegerAttribute, LinearQuery
from queries.questions import Products
from tests.worlds import known

_RECORDS = 30_000


@cache
def frame(names: int = 7, seed: int = 3) -> pd.DataFrame:
    """Return records of short attributes, each of which depends on two others, and of a long one."""
    generator = np.random.default_rng(seed)
    columns = {"age": np.minimum(generator.gamma(4.0, 22.0, _RECORDS).astype(int), 299)}
    for place in range(names):
        before = columns["age"] // 60 + (columns[f"k{place - 1}"] if place else 0)
        columns[f"k{place}"] = (before + (generator.random((3, _RECORDS)) < 0.4).sum(axis=0)) % 4
    return pd.DataFrame(columns)


def domain(names: int = 7) -> Domain:
    short = (CategoricalAttribute(f"k{place}", tuple(range(4))) for place in range(names))
    return Domain((IntegerAttribute("age", 0, 299), *short), name="people")


def opened(max_cells: int | None = 600, path: Path | None = None, **choices: object) -> pmw.Session:
    """Open a session whose tree holds few of the pairs."""
    options = pmw.Options(**{"max_cells": max_cells, "seed": 5, **choices})  # type: ignore[arg-type]
    return pmw.open_session(frame(), domain(), epsilon=1, delta=1e-9, path=path, options=options)


@cache
def state() -> PublicState:
    with opened() as session:
        return session.state


def misfit(table: np.ndarray, scope: tuple[str, ...], measured: OneWayMeasurement) -> float:
    """Return chi squared of a table on bins over the free numbers of one measurement."""
    target = coarse_target(state().coarsening, measured, state().total.value)
    axes = tuple(axis for axis, name in enumerate(scope) if name not in target.scope)
    error = table.sum(axis=axes) - target.values
    return float(np.vdot(target.pull(error), error)) / target.free_numbers


def pairs_beside() -> list[ResidualMeasurement]:
    found = [state().measured[place] for place in state().beside]
    return [one for one in found if isinstance(one, ResidualMeasurement)]


def on_bins(scope: tuple[str, ...]) -> np.ndarray:
    return state().coarsening.summed(scope, local_models(state()).marginal(scope))


def test_a_pair_beside_the_tree_is_answered_as_it_was_measured() -> None:
    assert len(pairs_beside()) > 5
    before = [misfit(coarse_model(state()).marginal(one.scope), one.scope, one) for one in pairs_beside()]
    after = [misfit(on_bins(one.scope), one.scope, one) for one in pairs_beside()]
    assert np.mean(after) < 1 < np.mean(before)


SCOPES = [
    *itertools.combinations(("age", "k0", "k3", "k6"), 2),
    ("age", "k1", "k2"),
    ("k0", "k2", "k4", "k6"),
    ("k0", "k1", "k3", "k5"),
    ("k0", "k1", "k3", "k5", "k6"),
    ("age", "k0", "k2", "k3", "k4", "k5"),
]


def questions() -> list[LinearQuery]:
    return [
        LinearQuery.cells(state().domain, {name: (40, 171) if name == "age" else (1, 1) for name in scope})
        for scope in SCOPES
    ]


def test_numbers_do_not_depend_on_what_was_asked_before() -> None:
    first = LocalModels(state())
    numbers = [first.answer(query) for query in questions()]
    for seed in range(3):
        places = random.Random(seed).sample(range(len(SCOPES)), len(SCOPES))
        other = LocalModels(state())
        assert {place: other.answer(questions()[place]) for place in places} == dict(enumerate(numbers))
    with opened() as session:  # another model of the same numbers
        assert [local_models(session.state).answer(query) for query in questions()] == numbers


def test_a_resumed_session_and_its_model_file_answer_alike(tmp_path: Path) -> None:
    frame().to_parquet(tmp_path / "people.parquet")
    options = pmw.Options(max_cells=600)
    path = tmp_path / "study.pmw"
    with pmw.open_session(
        tmp_path / "people.parquet", domain(), epsilon=1, delta=1e-9, path=path, options=options
    ) as session:
        numbers = [ModelAnswers(session.state).answer(query) for query in questions()]
        session.export(tmp_path / "study.model")
    with pmw.resume_session(path) as session:
        answers = ModelAnswers(session.state)
        assert [answers.answer(query) for query in questions()[::-1]] == numbers[::-1]
    model = pmw.load_model(tmp_path / "study.model")
    assert [model.ask(query).count for query in questions()] == [one.count for one in numbers]


def test_groups_of_one_scope_add_up() -> None:
    local = LocalModels(state())
    for scope in SCOPES:
        whole = {name: (0, 299) if name == "age" else (0, 3) for name in scope}
        parts = [LinearQuery.cells(state().domain, {**whole, scope[-1]: (cell, cell)}) for cell in range(4)]
        most = LinearQuery.cells(state().domain, {**whole, scope[-1]: (0, 2)})
        assert sum(map(local.answer, parts[:3])) == pytest.approx(local.answer(most), rel=1e-9)


def test_arrays_and_single_questions_are_one_number() -> None:
    asked = [query for query in questions() if query.scope == ("k0", "k2", "k4", "k6")]
    answers = ModelAnswers(state())
    boxes = Products.of_queries(asked * 2)
    bounds = known(answers.of_products(boxes))
    assert bounds[0].tolist() == [answers._count(query) for query in asked * 2]


def test_a_chain_is_the_same_table_by_parts_and_whole() -> None:
    scope = SCOPES[-1]
    local = LocalModels(state())
    weights = dict(
        zip(
            scope,
            [
                np.random.default_rng(place).random(size)
                for place, size in enumerate(state().coarsening.coarse.scope_shape(scope))
            ],
            strict=True,
        )
    )
    whole = known(local._joined(scope))
    assert whole.sum() == pytest.approx(state().total.value)
    for name in reversed(scope):
        whole = np.tensordot(whole, weights[name], 1)
    assert local._along_chain(scope, weights) == pytest.approx(float(whole), rel=1e-9)


def test_measurements_of_the_same_rows_count_once() -> None:
    first = pairs_beside()[0]
    again = replace(
        state(), measured=(*state().measured, first), beside=(*state().beside, len(state().measured))
    )
    aims = list(LocalModels(again)._aims(first.scope))
    assert sum(aim.scope == first.scope for aim in aims if not hasattr(aim, "query")) == 1
    mean = next(aim for aim in aims if not hasattr(aim, "query") and aim.scope == first.scope)
    alone = next(
        aim
        for aim in LocalModels(state())._aims(first.scope)
        if not hasattr(aim, "query") and aim.scope == first.scope
    )
    assert np.allclose(mean.values, alone.values)
    assert np.allclose(mean.variance, alone.variance / 2)


@pytest.mark.parametrize(
    "choices", [{"delta": 0}, {"opening": pmw.Opening.ONE_WAY}, {"test": pmw.TestKind.QUERY}]
)
def test_a_session_that_nothing_lies_beside_answers_from_its_model(choices: dict[str, object]) -> None:
    delta = choices.get("delta", 1e-9)
    options = pmw.Options(seed=2, **{name: one for name, one in choices.items() if name != "delta"})  # type: ignore[arg-type]
    short = Domain(domain(4).attributes[1:5], name="people")
    with pmw.open_session(frame(4), short, epsilon=1, delta=delta, options=options) as session:  # type: ignore[arg-type]
        session.ask_all([LinearQuery.cells(short, {"k0": (1, 1), "k3": (cell, cell)}) for cell in range(4)])
        local = LocalModels(session.state)
        for scope in itertools.combinations(short.names, 3):
            assert local.marginal(scope) is session.state.model.marginal(scope) or np.array_equal(
                local.marginal(scope), session.state.model.marginal(scope)
            )
            assert local._table(scope) is None


def test_a_new_measurement_makes_new_tables() -> None:
    first = pairs_beside()[0]
    moved = replace(first, units=first.units + np.arange(first.units.size).reshape(first.units.shape) * 2**24)
    before = local_models(state()).marginal(first.scope)
    measured = (*state().measured, moved)
    after = replace(state(), measured=measured, beside=(*state().beside, len(measured) - 1))
    assert not np.allclose(local_models(after).marginal(first.scope), before)
    assert np.array_equal(local_models(state()).marginal(first.scope), before)


def test_a_residual_says_nothing_of_attributes_outside_the_scope() -> None:
    one = pairs_beside()[0]
    scope = one.scope[:1]
    assert [aim.scope for aim in LocalModels(state())._aims(scope) if not hasattr(aim, "query")] == [scope]
