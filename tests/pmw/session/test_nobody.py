"""A table of nobody: it is told that it has about no records, and nothing is made up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.public.export import export
from queries import CategoricalAttribute, Domain, IntegerAttribute

DOMAIN = Domain((IntegerAttribute("a", 0, 4), CategoricalAttribute("g", ("x", "y"))), name="t")
EMPTY = pd.DataFrame({"a": np.zeros(0, dtype=np.int64), "g": np.zeros(0, dtype=object)})
OPENINGS = [pmw.Opening.PAIRS, pmw.Opening.ONE_WAY, pmw.Opening.NONE]


@pytest.mark.parametrize("opening", OPENINGS)
def test_a_tree_of_nobody_answers_every_question(opening: pmw.Opening) -> None:
    names = ("a", "b", "c", "d")
    wide = Domain(tuple(IntegerAttribute(name, 0, 9) for name in names), name="t")
    nobody = pd.DataFrame({name: np.zeros(0, dtype=np.int64) for name in names})
    options = pmw.Options(seed=3, max_cells=300, opening=opening)
    with pmw.open_session(nobody, wide, epsilon=1, delta=1e-9, options=options) as session:
        for text in (
            "",
            "a < 5",
            "a < 5 AND b > 3",
            "a < 5 AND b > 3 AND d = 2",
            "a = 1 AND b = 1 AND c = 1 AND d = 1",
        ):
            answer = session.ask(text)
            assert answer.interval is not None
            assert 0 <= answer.interval[0] <= answer.count <= answer.interval[1] < np.inf


@pytest.fixture(params=[(opening, seed) for opening in OPENINGS for seed in range(4)], ids=str)
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
