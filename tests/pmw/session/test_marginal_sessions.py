"""Sessions that test whole marginals: hard inputs, a table of nobody, and resuming to the last bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
import pmw.session.engine
from pmw.model.measurement import MarginalMeasurement
from pmw.public.export import export
from pmw.public.options import ModelKind, TestKind
from pmw.public.state import PublicState
from pmw.session.maintenance import read_session
from queries import (
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    all_marginals,
    parse_where,
    random_conjunctions,
)
from tests.pmw.session.stored import execute
from tests.worlds import PEOPLE, YEARS, opened

MODES = [(TestKind.MARGINAL, 0), (TestKind.MARGINAL, 1e-9), (TestKind.QUERY, 0)]


def marginal(**choices: Any) -> pmw.Options:
    return pmw.Options(test=TestKind.MARGINAL, **choices)


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
@pytest.mark.parametrize("sizes", [(1,), (3,), (1, 1), (1, 3), (2, 1, 3)])
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
    with pmw.open_session(
        PEOPLE.frame.iloc[:30], YEARS.domain, epsilon=0.01, delta=0, options=options
    ) as session:
        require_sane(session.ask_all(list(random_conjunctions(YEARS.domain, 80, seed=2))))
        values = session.state.model.marginal(("age", "region"))
        assert np.isfinite(values).all()
        assert values.sum() == pytest.approx(session.state.total.value)
        assert session.verify().holds


def dependent(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with one attribute that follows another: far from any model of single ones."""
    return frame.assign(member=frame["age"] > 40)


def test_a_measurement_beside_a_small_model_serves_its_own_scope(frame: pd.DataFrame) -> None:
    options = marginal(seed=5, model=ModelKind.GRAPHICAL, max_cells=1, update_limit=3)
    frame, where = dependent(frame), "age >= 40 AND member = TRUE"
    with pmw.open_session(frame, YEARS.domain, epsilon=4, delta=1e-9, options=options) as session:
        answer = session.ask(where)
        state = session.state
        assert state.beside
        place = state.beside[0]
        assert place < len(state.measured)
        assert isinstance(state.measured[place], MarginalMeasurement)
        truth = int(((frame["age"] >= 40) & frame["member"]).sum())
        assert answer.source is pmw.Source.SYNTHETIC  # most of its bar is the bin of 40
        assert answer.interval is not None
        assert abs(answer.count - truth) < 400
        alone = state.model.answer(parse_where(where, YEARS.domain))
        assert abs(alone - truth) > 400  # the model alone knows nothing
        assert session.verify().holds


# --- resuming ---------------------------------------------------------------------------------------------


def same_bits(one: PublicState, other: PublicState) -> bool:
    scopes = [("age", "region"), ("age", "member"), ("sex", "region")]
    same_cells = all(
        np.array_equal(one.model.marginal(scope), other.model.marginal(scope)) for scope in scopes
    )
    return same_cells and facts(one) == facts(other)


def facts(state: PublicState) -> tuple[Any, ...]:
    """Return what else a state holds."""
    held = {
        scope: (one.version, one.threshold, one.units.tobytes()) for scope, one in state.certificates.items()
    }
    numbers = (state.version, state.beside, state.step_size, state.asked)
    requested = [one.requested for one in state.marginals]
    return held, numbers, requested, state.plan, state.ledger, state.total


@pytest.mark.parametrize(
    ("model", "cells"), [(ModelKind.DENSE, None), (ModelKind.GRAPHICAL, None), (ModelKind.GRAPHICAL, 200)]
)
def test_a_session_comes_back_to_the_last_bit_with_and_without_its_snapshot(
    frame: pd.DataFrame, tmp_path: Path, model: ModelKind, cells: int | None
) -> None:
    path, frame = tmp_path / "study.pmw", dependent(frame)
    options = marginal(model=model, max_cells=cells, update_limit=8, composition=pmw.Composition.ZCDP)
    questions = list(random_conjunctions(YEARS.domain, 60, seed=9))
    with pmw.open_session(frame, YEARS.domain, epsilon=4, delta=1e-9, path=path, options=options) as session:
        session.ask_all(questions)
        session.measure(["sex", "region"])
        answers = session.ask_all(questions)  # of the newest model where it is better
        state = session.state
        assert {one.requested for one in state.marginals} == {False, True}
        assert state.certificates
        assert same_bits(read_session(path)[0], state)
    for statement in ("", "DELETE FROM snapshots"):
        execute(path, statement)
        with pmw.resume_session(path, frame) as session:
            assert same_bits(session.state, state)
            assert session.ask_all(questions) == answers
            assert session.verify().holds


DOMAIN = Domain((IntegerAttribute("a", 0, 4), CategoricalAttribute("g", ("x", "y"))), name="t")
EMPTY = pd.DataFrame({"a": np.zeros(0, dtype=np.int64), "g": np.zeros(0, dtype=object)})
OPENINGS = [pmw.Opening.PAIRS, pmw.Opening.ONE_WAY, pmw.Opening.NONE]


@pytest.fixture(params=[(opening, seed) for opening in OPENINGS for seed in range(1)], ids=str)
def session(request: pytest.FixtureRequest) -> Iterator[pmw.Session]:
    opening, seed = request.param
    options = pmw.Options(seed=seed, opening=opening)
    with pmw.open_session(EMPTY, DOMAIN, epsilon=100, delta=1e-9, options=options) as opened:
        yield opened


def test_the_bar_of_everybody_is_that_of_the_noise() -> None:
    """The estimate may be below 1, where the model's number of records is 1."""
    held, below = 0, 0
    for seed in range(40):
        options = pmw.Options(seed=seed, opening=pmw.Opening.ONE_WAY)
        with pmw.open_session(EMPTY, DOMAIN, epsilon=100, delta=1e-9, options=options) as session:
            interval = session.ask("").interval
            assert interval is not None
            held += interval[0] == 0
            below += session.state.total.estimate < 1
    assert below == 40
    assert held >= 36  # 95 % are expected


def test_groups_add_up_to_no_records(session: pmw.Session) -> None:
    table = session.sql("SELECT a, COUNT(*) AS n FROM t GROUP BY a")
    assert [one.value for one in table.column("n")] == [0] * 5
    assert not any("do not add up" in note for note in table.notes)
    ((_, (cell,)),) = session.sql("SELECT SUM(a) AS s FROM t").rows
    assert cell.value is not None
    assert cell.value < 4  # of less than a record


@pytest.mark.parametrize("independent", [True, False])
def test_an_export_has_no_row(session: pmw.Session, tmp_path: Path, independent: bool) -> None:
    plan = pmw.RowPlan(independent=independent)
    for name in ("t.csv", "t.parquet"):
        manifest = export(session.state, tmp_path / name, plan)
        assert manifest["total"] < 0.5
    assert (tmp_path / "t.csv").read_text() == "a,g\n"
    assert len(pd.read_parquet(tmp_path / "t.parquet")) == 0
    assert len(session.synthetic_records(3)) == 3
