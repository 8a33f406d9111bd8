"""Sessions that test whole marginals: hard inputs, a table of nobody, and resuming to the last bit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
import pmw.session.engine
from pmw.privacy.budget import Composition
from pmw.public.export import export
from pmw.public.options import ModelKind, TestKind
from pmw.public.state import PublicState
from pmw.session.maintenance import read_session
from queries import (
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    all_marginals,
    random_conjunctions,
)
from tests.pmw.session.stored import execute
from tests.worlds import PEOPLE, YEARS, ends, opened

MODES = [(TestKind.MARGINAL, 0), (TestKind.MARGINAL, 1e-9), (TestKind.QUERY, 0)]


def require_sane(answers: Sequence[pmw.Answer]) -> None:
    for answer in answers:
        assert np.isfinite(answer.count)
        assert answer.count >= 0
        if answer.interval is None:
            assert answer.source.value in ("exhausted", "unverified")
        else:
            assert 0 <= answer.interval[0] <= answer.count <= answer.interval[1]


# --- hard inputs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "delta"), MODES)
@pytest.mark.parametrize("records", ["none", "one", "all dropped"])
def test_tables_with_next_to_nothing_in_them_are_answered(records: str, delta: float, kind: TestKind) -> None:
    table = PEOPLE.frame.iloc[: {"none": 0, "one": 1, "all dropped": 50}[records]].copy()
    if records == "all dropped":
        table["sex"] = "undeclared"
    with opened(table, YEARS.domain, epsilon=1, delta=delta, seed=4, test=kind) as session:
        answers = session.ask_all(list(random_conjunctions(YEARS.domain, 60, seed=1)))
        require_sane(answers)
        assert len(answers) == 60
        assert session.state.total.value >= 1
        assert session.status().budget_share <= 1
        assert session.verify().holds
        assert len(session.synthetic_records(3)) == 3


@pytest.mark.parametrize(("kind", "delta"), MODES)
@pytest.mark.parametrize("sizes", [(1,), (3,), (2, 1, 3)])
def test_domains_of_one_cell_or_with_attributes_of_one_value_are_answered(
    sizes: tuple[int, ...], delta: float, kind: TestKind
) -> None:
    names = [f"a{place}" for place in range(len(sizes))]
    values = [tuple("xyz"[:size]) for size in sizes]
    domain = Domain(tuple(map(CategoricalAttribute, names, values)))
    table = pd.DataFrame({name: ["x"] * 40 for name in names})
    with opened(table, domain, epsilon=1, delta=delta, seed=4, test=kind) as session:
        require_sane(session.ask_all(list(all_marginals(domain, order=min(2, len(sizes))))))
        require_sane([session.ask(" AND ".join(f"{name} = 'x'" for name in names))])
        assert session.verify().holds


@pytest.mark.parametrize("kind", TestKind)
def test_a_budget_that_gives_only_noise_leaves_a_distribution(kind: TestKind) -> None:
    # Counts far below zero, totals far from the truth, and measurements that contradict each other.
    options = pmw.Options(seed=4, test=kind, update_limit=5)
    few = PEOPLE.frame.iloc[:30]
    with opened(few, YEARS.domain, epsilon=0.01, delta=0, options=options) as session:
        require_sane(session.ask_all(list(random_conjunctions(YEARS.domain, 80, seed=2))))
        values = session.state.model.marginal(("age", "region"))
        assert np.isfinite(values).all()
        assert values.sum() == pytest.approx(session.state.total.value)
        assert session.verify().holds


# --- resuming ---------------------------------------------------------------------------------------------


DOMAIN = Domain((IntegerAttribute("a", 0, 4), CategoricalAttribute("g", ("x", "y"))), name="t")
EMPTY = pd.DataFrame({"a": np.zeros(0, dtype=np.int64), "g": np.zeros(0, dtype=object)})


def test_a_session_comes_back_to_the_last_bit_with_and_without_its_snapshot(
    frame: pd.DataFrame, tmp_path: Path
) -> None:
    path, frame = tmp_path / "study.pmw", frame.assign(member=frame["age"] > 40)  # far from single ones
    choices: dict[str, Any] = {"model": ModelKind.GRAPHICAL, "max_cells": 200, "update_limit": 8}
    questions = list(random_conjunctions(YEARS.domain, 60, seed=9))

    def facts(state: PublicState) -> tuple[Any, ...]:
        held = {
            scope: (one.version, one.threshold, one.units.tobytes())
            for scope, one in state.certificates.items()
        }
        cells = [
            state.model.marginal(scope).tobytes()
            for scope in (("age", "region"), ("age", "member"), ("sex", "region"))
        ]
        requested = [one.requested for one in state.marginals]
        numbers = (state.version, state.beside, state.step_size, state.asked)
        return cells, held, numbers, requested, state.plan, state.ledger, state.total

    with opened(frame, YEARS.domain, path, epsilon=4, composition=Composition.ZCDP, **choices) as session:
        session.ask_all(questions)
        session.measure(["sex", "region"])
        answers = session.ask_all(questions)  # of the newest model where it is better
        state = session.state
        assert {one.requested for one in state.marginals} == {False, True}
        assert state.certificates
        assert facts(read_session(path)[0]) == facts(state)
    for statement in ("", "DELETE FROM snapshots"):
        execute(path, statement)
        with pmw.resume_session(path, frame) as session:
            assert facts(session.state) == facts(state)
            assert session.ask_all(questions) == answers
            assert session.verify().holds


def test_the_bar_of_everybody_is_that_of_the_noise() -> None:
    """The estimate may be below 1, where the model's number of records is 1."""
    held, below = 0, 0
    for seed in range(40):
        with opened(EMPTY, DOMAIN, epsilon=100, seed=seed) as session:
            held += ends(session.ask(""))[0] == 0
            below += session.state.total.estimate < 1
    assert below == 40
    assert held >= 36  # 95 % are expected


@pytest.mark.parametrize("opening", [pmw.Opening.PAIRS, pmw.Opening.ONE_WAY, pmw.Opening.NONE])
def test_a_table_of_nobody_has_groups_that_add_up_to_no_records_and_exports_no_row(
    opening: pmw.Opening, tmp_path: Path
) -> None:
    with opened(EMPTY, DOMAIN, epsilon=100, opening=opening, seed=0) as session:
        table = session.sql("SELECT a, COUNT(*) AS n FROM t GROUP BY a")
        assert [one.value for one in table.column("n")] == [0] * 5
        assert not any("do not add up" in note for note in table.notes)
        ((_, (cell,)),) = session.sql("SELECT SUM(a) AS s FROM t").rows
        assert cell.value is not None
        assert cell.value < 4  # of less than a record
        for independent in (True, False):
            for name in ("t.csv", "t.parquet"):
                plan = pmw.RowPlan(independent=independent)
                manifest = export(session.state, tmp_path / name, plan, force=True)
                assert manifest["total"] < 0.5
            assert (tmp_path / "t.csv").read_text() == "a,g\n"
            assert len(pd.read_parquet(tmp_path / "t.parquet")) == 0
        assert len(session.synthetic_records(3)) == 3
