"""Reproduction: rows have what was measured, and an export says of which marginals they do not."""

from __future__ import annotations

import functools
import itertools
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import pmw
from pmw.loop.fit import correct
from pmw.model.measurement import MarginalMeasurement
from pmw.privacy.noise import DiscreteGaussian
from pmw.public.export import RowPlan, draw_rows, reproduction_sentence
from pmw.public.export.manifest import reproduction
from pmw.public.state import PublicState
from queries import UNITS, CategoricalAttribute, CodedRecords, Domain, IntegerAttribute
from tests.worlds import World, opened

RECORDS = 20_000


@functools.cache
def world() -> World:
    """Return a table of which every pair of attributes depends on each other, one of them long."""
    generator = np.random.default_rng(3)
    level = generator.integers(0, 6, RECORDS)
    names = ("a", "b", "c", "d", "e")
    frame = pd.DataFrame(
        {
            name: np.where(generator.random(RECORDS) < 0.4, level, generator.integers(0, 6, RECORDS))
            for name in names
        }
    )
    frame["n"] = level * 30 + generator.integers(0, 30, RECORDS)
    short = [CategoricalAttribute(name, tuple(range(6))) for name in names]
    return World(Domain((*short, IntegerAttribute("n", 0, 179))), frame)


@functools.cache
def narrow_state() -> PublicState:
    """Return a state whose tree can hold only some of the pairs."""
    state = world().state(options=pmw.Options(seed=1, max_cells=300))
    assert len(state.beside) > 3
    return state


def test_rows_reproduce_what_lies_beside_the_tree() -> None:
    state, plan = narrow_state(), RowPlan(seed=4)
    plain = state.model.sample(plan.count(state.total.records), np.random.default_rng(4), independent=False)
    fitted = draw_rows(state, plan).records
    assert len(fitted) == plan.count(state.total.records)
    missed, left = (reproduction(state, each)["not_reproduced"] for each in (plain, fitted))
    beside = {state.marginals[place].scope for place in state.beside}
    assert len({tuple(one["scope"]) for one in missed} & beside) > 3
    assert sum(one["distance"] for one in left) < sum(one["distance"] for one in missed) / 5
    truth = world().frame
    for one, two in itertools.combinations(world().domain.names[:5], 2):
        true = np.histogram2d(truth[one], truth[two], bins=range(7))[0] / RECORDS
        found = [_shares(each, one, two) for each in (plain, fitted)]
        assert np.abs(found[1] - true).sum() < np.abs(found[0] - true).sum() + 0.01


def _shares(records: CodedRecords, one: str, two: str) -> NDArray[np.float64]:
    first, second = (records.columns[records.domain.index(name)].astype(np.int64) for name in (one, two))
    return np.bincount(6 * first + second, minlength=36).reshape(6, 6) / len(records)


def test_independent_draws_are_left_as_they_were_drawn() -> None:
    state = narrow_state()
    drawn = draw_rows(state, RowPlan(500, independent=True, seed=4)).records
    plain = state.model.sample(500, np.random.default_rng(4), independent=True)
    assert all(np.array_equal(*pair) for pair in zip(drawn.columns, plain.columns, strict=True))


def test_a_session_its_export_and_its_model_file_have_the_same_rows(tmp_path: Path) -> None:
    with opened(world().frame, world().domain, options=pmw.Options(seed=1, max_cells=300)) as session:
        rows = session.synthetic_records(300, seed=9)
        session.export(tmp_path / "rows.csv", RowPlan(300, seed=9))
        session.export(tmp_path / "study.model")
    assert pmw.load_model(tmp_path / "study.model").synthetic_records(300, seed=9).equals(rows)
    text = rows.to_csv(index=False, lineterminator="\n")
    assert (tmp_path / "rows.csv").read_bytes() == text.encode()
    manifest = json.loads((tmp_path / "rows.csv.manifest.json").read_text())
    state = narrow_state()
    assert manifest["marginals"] == reproduction(state, draw_rows(state, RowPlan(300, seed=9)).records)


def test_a_marginal_is_missed_by_what_is_beyond_its_noise() -> None:
    """One cell moved by a tenth of the records is twice that in L1, whatever the noise; and no other is."""
    state = narrow_state()
    truth = CodedRecords(
        state.domain, tuple(world().frame[name].to_numpy(np.uint8) for name in state.domain.names)
    )
    known = {tuple(one["scope"]) for one in reproduction(state, truth)["not_reproduced"]}
    counts = np.histogram2d(world().frame["a"], world().frame["b"], bins=range(7))[0]
    counts[0, 0] += RECORDS / 10
    counts[5, 5] -= RECORDS / 10
    noise = DiscreteGaussian(Fraction(UNITS))
    units = np.rint(counts * UNITS).astype(np.int64)
    moved = correct(state, MarginalMeasurement(("a", "b"), units, noise, requested=True))
    found = reproduction(moved, truth)
    farthest, *others = found["not_reproduced"]
    assert farthest == {"scope": ["a", "b"], "distance": pytest.approx(0.2, abs=0.005)}
    assert {tuple(one["scope"]) for one in others} <= known
    assert found["measured"] == len({one.scope for one in (*moved.opening, *moved.marginals)})


def test_the_truth_itself_misses_few_marginals() -> None:
    state = narrow_state()
    truth = CodedRecords(
        state.domain, tuple(world().frame[name].to_numpy(np.uint8) for name in state.domain.names)
    )
    found = reproduction(state, truth)
    assert len(found["not_reproduced"]) <= found["measured"] // 5
    assert all(one["distance"] < 0.02 for one in found["not_reproduced"])


@pytest.mark.parametrize(
    ("missed", "words"),
    [
        ([], ""),
        (
            [(["a", "b"], 0.0312)],
            "The rows are farther than noise explains from 1 of 7 measured marginals, in parts of the "
            "records: a, b (3.1%).",
        ),
        (
            [(["a"], 0.2), (["b"], 0.1), (["c"], 0.05), (["d"], 0.01)],
            "The rows are farther than noise explains from 4 of 7 measured marginals, in parts of the "
            "records: a (20.0%); b (10.0%); c (5.0%); ….",
        ),
    ],
)
def test_what_is_missed_in_words(missed: list[tuple[list[str], float]], words: str) -> None:
    form = {"measured": 7, "not_reproduced": [{"scope": scope, "distance": far} for scope, far in missed]}
    assert reproduction_sentence(form) == words
