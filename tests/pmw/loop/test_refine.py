"""Refining: nothing new is released, the session stays the same, the model is nearer to what was measured."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.loop import refined, residual
from queries import Domain, IntegerAttribute, all_marginals

NAMES = tuple("abcdef")


@pytest.fixture
def wide() -> Domain:
    return Domain(tuple(IntegerAttribute(name, 0, 3) for name in NAMES), name="wide")


@pytest.fixture
def records() -> pd.DataFrame:
    generator = np.random.default_rng(5)
    first = generator.integers(0, 4, 20_000)
    return pd.DataFrame({name: (first + generator.integers(0, 2, 20_000)) % 4 for name in NAMES})


def asked(records: pd.DataFrame, domain: Domain, options: pmw.Options) -> pmw.Session:
    session = pmw.open_session(records, domain, epsilon=2, delta=1e-9, options=options)
    session.ask_all(all_marginals(domain, 2), fresh=True)
    session.ask_all(all_marginals(domain, 2), fresh=True)
    return session


CHOICES = [
    pmw.Options(seed=1),
    pmw.Options(seed=1, model=pmw.ModelKind.GRAPHICAL),
    pmw.Options(seed=1, test=pmw.TestKind.QUERY),
    pmw.Options(seed=1, test=pmw.TestKind.QUERY, update=pmw.UpdateRule.STEP),
]


@pytest.mark.parametrize("options", CHOICES)
def test_a_refined_model_is_nearer_to_what_was_measured_and_the_session_stays_as_it_was(
    records: pd.DataFrame, wide: Domain, options: pmw.Options
) -> None:
    with asked(records, wide, options) as session:
        state = session.state
        before, marginal = residual(state), np.array(state.model.marginal(("a", "b")))
        finer = refined(state)
        after = residual(finer)
        assert before is not None
        assert after is not None
        assert after <= before * (1 + 1e-6)
        assert (finer.version, finer.ledger, finer.measured) == (state.version, state.ledger, state.measured)
        assert session.state is state
        np.testing.assert_array_equal(state.model.marginal(("a", "b")), marginal)
        assert residual(state) == before
        assert np.sum(finer.model.marginal(("a", "b"))) == pytest.approx(state.total.value)


def test_refining_twice_changes_nothing_more(records: pd.DataFrame, wide: Domain) -> None:
    with asked(records, wide, CHOICES[0]) as session:
        once = refined(session.state)
        twice = refined(once)
    np.testing.assert_allclose(
        twice.model.marginal(("c", "d")), once.model.marginal(("c", "d")), atol=once.total.value * 1e-4
    )


def test_where_nothing_was_measured_there_is_nothing_to_be_far_from(
    records: pd.DataFrame, wide: Domain
) -> None:
    with pmw.open_session(records, wide, epsilon=2, options=pmw.Options(seed=1)) as session:
        assert residual(session.state) is None
        assert refined(session.state).version == 0


def test_an_export_says_whether_it_was_refined(records: pd.DataFrame, wide: Domain, tmp_path: Path) -> None:
    with asked(records, wide, CHOICES[0]) as session:
        session.export(tmp_path / "plain.csv")
        session.export(tmp_path / "fine.csv", refine=True)
        rows = session.synthetic_records(500, seed=3)
        finer = session.synthetic_records(500, seed=3, refine=True)
    manifests = [
        json.loads((tmp_path / f"{name}.csv.manifest.json").read_text()) for name in ("plain", "fine")
    ]
    assert [one["refined"] for one in manifests] == [False, True]
    assert len(rows) == len(finer) == 500
