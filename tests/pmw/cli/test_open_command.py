"""Opening at the cost of another session: its turn is waited for, and a refusal leaves nothing behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from pmw.books import read_ledger
from pmw.locking import SessionLock

Run = Callable[..., Result]
OPEN = ("--data", "people.csv", "--schema", "people.toml", "--test", "query")
BORROW = ("open", "new.pmw", *OPEN, "--epsilon", "0.3", "--delta", "1e-9", "--budget-from", "study.pmw")


def loans(lender: Path) -> int:
    return sum(line.event == "loan" for line in read_ledger(lender).lines)


def test_a_lender_in_use_is_waited_for(textbook_study: Path, run: Run) -> None:
    lock = SessionLock(textbook_study)
    timer = threading.Timer(0.3, lock.release)
    timer.start()
    result = run(*BORROW)
    timer.join()
    assert result.exit_code == 0, result.stderr
    assert result.stderr == "study.pmw: in use by another process; waiting up to 30 s …\n"
    assert "All of this budget was charged to study.pmw" in result.stdout
    assert loans(textbook_study) == 1


@pytest.mark.parametrize("seconds", ["0", "0.1"])
def test_a_lender_that_stays_in_use_is_no_longer_waited_for_and_no_lock_stays(
    textbook_study: Path, run: Run, seconds: str
) -> None:
    lock = SessionLock(textbook_study)
    result = run(*BORROW, "--wait", seconds)
    assert result.exit_code == 5
    assert "study.pmw: another process is using the session" in result.stderr
    assert list(textbook_study.parent.glob("new.pmw*")) == []
    lock.release()
    assert loans(textbook_study) == 0


def test_who_takes_the_lender_meanwhile_is_waited_for_again(
    textbook_study: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0

    def taken_twice(*given: object) -> None:
        nonlocal tries
        tries += 1
        if tries <= 2:
            lock = SessionLock(textbook_study)
            threading.Timer(0.1, lock.release).start()
        charge(*given)  # type: ignore[arg-type]

    from pmw.lending import charge_lender as charge

    monkeypatch.setattr("pmw.session.charge_lender", taken_twice)
    result = run(*BORROW)
    assert result.exit_code == 0, result.stderr
    assert tries == 3
    assert loans(textbook_study) == 1


def test_a_lender_tells_its_loans(textbook_study: Path, run: Run) -> None:
    assert "lent" not in run("status", "study.pmw").stdout
    assert run(*BORROW).exit_code == 0
    assert "to another session; part of what was spent" in run("status", "study.pmw").stdout
    assert '"loans": 1, "lent_share": 0.' in run("status", "study.pmw", "--json").stdout
    assert '"budget_from": "study.pmw"' in run("status", "new.pmw", "--json").stdout


def test_sech2_without_a_delta_is_told_of_what_is_narrower(people: Path, run: Run) -> None:
    sech2 = (*OPEN, "--sparse-vector", "sech2", "--epsilon", "1")
    result = run("open", "a.pmw", *sech2)
    assert result.stderr.startswith(
        "Note: without a delta, exponential noise is narrower: its tests err within "
    )
    assert result.stderr.count("\n") == 1
    assert run("open", "b.pmw", *sech2, "--delta", "1e-9").stderr == ""
    assert run("open", "c.pmw", *OPEN, "--epsilon", "1").stderr == ""
