"""Verification of sessions of every kind: books that were never touched hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import pmw
from queries import Domain
from tests.worlds import WHOLE_YEARS

QUESTIONS = [
    "",
    "age >= 40",
    "sex = 'Male' AND region = 'north'",
    "age BETWEEN 24 AND 31 AND member = TRUE",
    "sex = 'Female' AND region = 'south'",
    "age >= 40 AND NOT member = TRUE",  # the opening's model is far off: a positive
    "sex = 'Female' AND region = 'west'",
]

SESSIONS: dict[str, tuple[dict[str, Any], float]] = {
    "one vector": ({"sparse_vector": pmw.SparseVectorKind.EXPONENTIAL}, 1e-9),
    "plain sums": ({"composition": pmw.Composition.PURE}, 0),
    "plain sums, one vector": (
        {"composition": pmw.Composition.PURE, "sparse_vector": pmw.SparseVectorKind.EXPONENTIAL},
        0,
    ),
    "sech^2": ({"sparse_vector": pmw.SparseVectorKind.SECH2}, 1e-9),
    "sech^2, plain sums": ({"sparse_vector": pmw.SparseVectorKind.SECH2}, 0),
    "sech^2, absolute errors": (
        {"sparse_vector": pmw.SparseVectorKind.SECH2, "sides": pmw.Sides.TWO_SIDED},
        1e-9,
    ),
    "steps": ({"update": pmw.UpdateRule.STEP, "opening": pmw.Opening.NONE}, 1e-9),
    "Laplace": ({"sparse_vector": pmw.SparseVectorKind.LAPLACE_ROUNDS, "sides": pmw.Sides.TWO_SIDED}, 1e-9),
    "families": ({"records_per_person": 4}, 1e-9),
    "few positives": ({"update_limit": 2}, 1e-9),
}


@pytest.mark.parametrize("kind", list(SESSIONS))
def test_every_kind_of_session_holds(frame: pd.DataFrame, domain: Domain, kind: str) -> None:
    options, delta = SESSIONS[kind]
    chosen = pmw.Options(test=pmw.TestKind.QUERY, seed=5, threshold=40.0, **{"update_limit": 5, **options})
    with pmw.open_session(frame, domain, epsilon=4, delta=delta, options=chosen) as session:
        session.ask_all(QUESTIONS)
        session.ask_all([f"age >= {age} AND member = TRUE" for age in range(24, 60, 4)], fresh=True)
        assert session.state.measured
        verification = session.verify()
        assert [check for check in verification.checks if not check.holds] == []
        session.finalize()
        session.ask("age <= 33 AND member = FALSE")
        assert session.verify().holds
        assert session.verify().closed


def test_a_session_with_a_public_row_count_holds() -> None:
    domain = Domain((WHOLE_YEARS.domain["sex"], WHOLE_YEARS.domain["member"]))
    options = pmw.Options(
        test=pmw.TestKind.QUERY,
        seed=5,
        threshold=5.0,
        neighboring_relation=pmw.NeighboringRelation.REPLACE_ONE,
        update_limit=3,
    )
    frame = WHOLE_YEARS.frame
    with pmw.open_session(frame, domain, epsilon=4, delta=1e-9, options=options) as session:
        session.ask_all(["sex = 'Male' AND member = TRUE", "sex = 'Male' AND member = FALSE", ""])
        assert session.verify().holds


@pytest.mark.usefixtures("repeatable")
@pytest.mark.parametrize("kind", [kind for kind in SESSIONS if kind.startswith("sech")])
def test_a_sech2_session_comes_back_with_its_threshold_and_goes_on(
    frame: pd.DataFrame, domain: Domain, tmp_path: Path, kind: str
) -> None:
    choices, delta = SESSIONS[kind]
    path = tmp_path / "study.pmw"
    options = pmw.Options(test=pmw.TestKind.QUERY, threshold=40.0, update_limit=5, **choices)
    with pmw.open_session(frame, domain, epsilon=4, delta=delta, path=path, options=options) as session:
        session.ask_all(QUESTIONS)
        state = session.state
        assert state.measured
        assert state.round_open  # its threshold noise is drawn once
    for question in ("age <= 33 AND member = FALSE", "age >= 52 AND member = TRUE"):
        with pmw.resume_session(path, frame) as session:
            assert session.state.plan == state.plan
            assert session.state.round_open
            session.ask(question)
            assert session.verify().holds
