"""Damaged session files: refused in our own words, or harmless; never an overspent budget."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from benchmarks.damage import STATES, Study, damaged, studies, trial
from pmw.session.store.store import SessionStore


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Study]:
    return studies(tmp_path_factory.mktemp("studies"))


@pytest.mark.parametrize("state", range(len(STATES)), ids=STATES)
def test_flips_and_cuts_never_overspend_and_never_answer_anew(
    made: list[Study], state: int, tmp_path: Path
) -> None:
    generator = random.Random(7)
    outcomes = [trial(made[state], damaged(made[state], generator)[2], tmp_path / "t") for _ in range(20)]
    assert [outcome for outcome in outcomes if outcome.startswith("violation")] == []
    assert "refused" in outcomes
    assert "harmless" in outcomes


@pytest.mark.parametrize("left", [0, 32, 5000], ids=lambda left: f"{left} bytes left")
def test_a_log_that_holds_charges_and_is_lost_is_missed(made: list[Study], left: int, tmp_path: Path) -> None:
    study = made[STATES.index("killed while read")]
    assert trial(study, study.files, tmp_path / "t") == "harmless"
    files = {**study.files, "-wal": study.files["-wal"][:left]}
    assert trial(study, files, tmp_path / "t") == "refused"


def test_a_loss_of_charges_is_a_violation(
    made: list[Study], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = made[STATES.index("killed while read")]
    files = {end: study.files[end] for end in ("", "-companion")}
    assert trial(study, files, tmp_path / "t") == "refused"
    assert trial(study, {"": study.files[""]}, tmp_path / "t") == "refused"
    monkeypatch.setattr(SessionStore, "_require_log", lambda *_: None)  # the trial itself can fail
    assert trial(study, files, tmp_path / "t").startswith("violation")
