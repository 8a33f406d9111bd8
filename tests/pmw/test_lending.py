"""Lending: two sessions that share a budget never release more than the lender was charged."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest

import pmw
from pmw.books import read_ledger, read_session
from pmw.locking import SessionLock
from pmw.status import status_rows
from pmw.store import SessionStore
from queries import Domain, save_schema

Open = Callable[..., pmw.Session]
# A session of the default kind would buy the whole of so small a table, and have nothing left to lend.
QUESTIONS = pmw.Options(test=pmw.TestKind.QUERY, composition=pmw.Composition.ZCDP)
WRONG = "age >= 40 AND NOT member = TRUE"


@pytest.fixture
def lender(tmp_path: Path, frame: pd.DataFrame, domain: Domain) -> Path:
    path = tmp_path / "lender.pmw"
    pmw.open_session(frame, domain, epsilon=1, delta=1e-9, path=path, options=QUESTIONS).close()
    return path


@pytest.fixture
def borrow(tmp_path: Path, frame: pd.DataFrame, domain: Domain, lender: Path) -> Open:
    def borrow(
        name: str = "borrower.pmw", epsilon: float = 0.3, delta: float = 1e-9, **choices: object
    ) -> pmw.Session:
        options = pmw.Options(budget_from=str(lender), **choices)  # type: ignore[arg-type]
        path = tmp_path / name
        return pmw.open_session(frame, domain, epsilon=epsilon, delta=delta, path=path, options=options)

    return borrow


def loans(lender: Path) -> list[Fraction]:
    return [line.price for line in read_ledger(lender).lines if line.event == "loan"]


def test_the_lender_is_charged_for_all_that_the_borrower_may_spend(lender: Path, borrow: Open) -> None:
    before = read_ledger(lender).spent
    with borrow() as session:
        cap = session.state.ledger.cap
        assert session.ask(WRONG).count >= 0
        assert session.verify().holds
        assert session.state.contract.options.composition is pmw.Composition.ZCDP
    assert loans(lender) == [cap]
    assert read_ledger(lender).spent == before + cap
    (line,) = (line for line in read_ledger(lender).lines if line.event == "loan")
    assert (line.label, line.epsilon) == ("the whole budget of borrower.pmw", None)
    assert "oncurrent composition" in line.theorem


def test_a_lender_goes_on_with_what_is_left_and_its_books_hold(
    lender: Path, borrow: Open, frame: pd.DataFrame
) -> None:
    borrow("one.pmw").close()
    with pmw.resume_session(lender, frame) as session:
        answers = session.ask_all([WRONG, "age < 30 AND region = 'north'", "sex = 'Male' AND member = TRUE"])
        assert len(answers) == 3
        assert session.verify().holds
        assert session.status().budget_share <= 1
    borrow("two.pmw", 0.2).close()
    assert len(loans(lender)) == 2
    ledger = read_ledger(lender)
    assert ledger.spent <= ledger.cap
    assert [check for check in pmw.verify_session(lender).checks if not check.holds] == []
    with pmw.resume_session(lender, frame) as session:
        assert session.state.ledger.spent == ledger.spent
        session.seal()
    assert pmw.verify_session(lender).holds


def test_epsilons_are_lent_where_they_add(tmp_path: Path, frame: pd.DataFrame, domain: Domain) -> None:
    path = tmp_path / "pure.pmw"
    pmw.open_session(
        frame, domain, epsilon=2, path=path, options=pmw.Options(test=pmw.TestKind.QUERY)
    ).close()
    options = pmw.Options(budget_from=str(path))
    with pmw.open_session(frame, domain, epsilon="0.25", options=options) as session:
        assert session.state.contract.options.composition is pmw.Composition.PURE
    (line,) = (line for line in read_ledger(path).lines if line.event == "loan")
    assert (line.epsilon, line.label) == (Fraction(1, 4), "the whole budget of a session in memory")


def test_what_does_not_fit_together_is_refused_and_costs_nothing(
    lender: Path, borrow: Open, tmp_path: Path
) -> None:
    before = read_ledger(lender).spent
    relation = pmw.NeighboringRelation.REPLACE_ONE
    for message, choices in (
        ("same records_per_person: 1 in .*, 2 here", {"records_per_person": 2}),
        ("same delta: 1e-09 in .*, 1e-06 here", {"delta": 1e-6}),
        ("charges add up otherwise", {"composition": pmw.Composition.PURE}),
    ):
        with pytest.raises(pmw.BudgetError, match=message):
            borrow(**choices)
    with pytest.raises(pmw.BudgetExhaustedError, match="an epsilon of at most") as refused:
        borrow(epsilon=1)
    with pytest.raises(pmw.BudgetError, match="same neighboring_relation: add-remove in"):
        borrow(neighboring_relation=relation)
    assert read_ledger(lender).spent == before
    assert not (tmp_path / "borrower.pmw").exists()
    most = float(str(refused.value).split()[-2])
    with pytest.raises(pmw.BudgetExhaustedError):
        borrow(epsilon=1.02 * most)
    with borrow(epsilon=most) as session:
        assert session.status().budget_from == "lender.pmw"
    assert read_ledger(lender).share <= 1


def test_noise_that_anybody_can_repeat_is_never_paid_for_by_another_session(
    lender: Path, frame: pd.DataFrame, domain: Domain
) -> None:
    before = read_ledger(lender).spent
    options = pmw.Options(budget_from=str(lender), seed=7)
    with pytest.raises(pmw.NoiseError, match="leave the seed out"):
        pmw.open_session(frame, domain, epsilon=0.3, delta=1e-9, options=options)
    assert read_ledger(lender).spent == before


def test_a_name_that_is_taken_a_lender_in_use_or_closed_cost_nothing(
    lender: Path, borrow: Open, frame: pd.DataFrame
) -> None:
    borrow().close()
    assert len(loans(lender)) == 1
    with pytest.raises(pmw.SessionExistsError):
        borrow()
    lock = SessionLock(lender)
    with pytest.raises(pmw.SessionLockedError):
        borrow("other.pmw")
    lock.release()
    absent = pmw.Options(budget_from=str(lender) + "x")
    with pytest.raises(pmw.SessionError, match="found none"):
        pmw.open_session(frame, read_domain(lender), epsilon=1, options=absent)
    with pmw.resume_session(lender, frame) as session:
        session.seal()
    with pytest.raises(pmw.SessionError, match="was closed; nothing can be charged"):
        borrow("fourth.pmw")
    assert len(loans(lender)) == 1


def read_domain(path: Path) -> Domain:
    from pmw.books import read_session

    return read_session(path)[0].domain


def test_a_lender_that_waits_for_its_batch_is_not_charged(lender: Path, borrow: Open) -> None:
    store = SessionStore.open(lender)
    store.take_over()
    store.begin("tests", "{}", b"\x01" * 32)
    store.close()
    with pytest.raises(pmw.SessionError, match="a batch waits to be finished"):
        borrow()
    assert loans(lender) == []


KILLED_BETWEEN = """
import os, sys
from pmw.store import SessionStore
from pmw.cli import main
SessionStore.create = classmethod(lambda *rest: os._exit(9))
main()
"""


def test_a_crash_between_the_two_files_costs_the_loan_and_releases_nothing(
    lender: Path, tmp_path: Path, frame: pd.DataFrame, domain: Domain
) -> None:
    command = open_command(lender, tmp_path, frame, domain)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_BETWEEN, *command], capture_output=True, check=False
    )
    assert killed.returncode == 9, killed.stderr.decode()
    assert len(loans(lender)) == 1
    assert not born(tmp_path / "b.pmw")
    again = subprocess.run([sys.executable, "-m", "pmw", *command], capture_output=True, check=False)
    assert again.returncode == 0, again.stderr.decode()
    assert b"All of this budget was charged to" in again.stdout
    assert len(loans(lender)) == 2
    assert pmw.verify_session(lender).holds


def open_command(lender: Path, folder: Path, frame: pd.DataFrame, domain: Domain) -> list[str]:
    frame.to_csv(folder / "people.csv", index=False)
    save_schema(domain, folder / "people.toml")
    return [
        "open", str(folder / "b.pmw"), "--data", str(folder / "people.csv"),
        "--schema", str(folder / "people.toml"), "--epsilon", "0.1", "--delta", "1e-9",
        "--budget-from", str(lender),
    ]  # fmt: skip


def born(path: Path) -> bool:
    """Tell whether a session is there, which may release something."""
    try:
        SessionStore.open(path).close()
    except pmw.SessionError:
        return False
    return True


def test_killed_at_any_instant_no_more_is_released_than_was_charged(
    lender: Path, tmp_path: Path, frame: pd.DataFrame, domain: Domain
) -> None:
    command = open_command(lender, tmp_path, frame, domain)
    began = 0
    for attempt in range(8):
        process = subprocess.Popen([sys.executable, "-m", "pmw", *command], stdout=subprocess.DEVNULL)
        while process.poll() is None and len(loans(lender)) == attempt:
            time.sleep(0.001)  # until the lender is charged: the borrower is begun now
        time.sleep(0.004 * attempt)
        process.kill()
        process.wait()
        began += born(tmp_path / "b.pmw")
        charged = loans(lender)
        assert began <= len(charged) <= attempt + 1
        assert pmw.verify_session(lender).holds
        for end in ("", "-wal", "-shm", "-lock", "-masks"):
            (tmp_path / f"b.pmw{end}").unlink(missing_ok=True)
        if len(charged) <= attempt:
            break
    assert len(loans(lender)) >= 1


def test_a_lender_says_how_much_it_lent_and_to_how_many(
    lender: Path, borrow: Open, frame: pd.DataFrame
) -> None:
    _, before = read_session(lender)
    assert before.loans is None
    assert {"loans", "lent_share"}.isdisjoint(before.to_dict())
    with borrow("one.pmw", 0.3) as session:
        cap = session.state.ledger.cap
        assert session.status().loans is None
    state, status = read_session(lender)
    assert status.loans == 1
    assert status.lent_share == float(cap / state.ledger.cap)
    assert dict(status_rows(state, status))["lent"].endswith("to another session; part of what was spent")
    borrow("two.pmw", 0.2).close()
    with pmw.resume_session(lender, frame) as session:
        status = session.status()
        form = status.to_dict()
    assert (form["loans"], form["lent_share"]) == (2, float(sum(loans(lender)) / state.ledger.cap))
    assert form["lent_share"] < form["budget_share"]
    assert "to 2 other sessions" in dict(status_rows(state, status))["lent"]


def test_what_was_lent_stands_in_a_backup_and_the_lenders_place_does_not(
    lender: Path, borrow: Open, tmp_path: Path
) -> None:
    borrow().close()
    pmw.backup_session(lender, tmp_path / "lender-copy.pmw")
    assert read_session(tmp_path / "lender-copy.pmw")[1].loans == 1
    pmw.backup_session(tmp_path / "borrower.pmw", tmp_path / "copy.pmw")
    for name in ("borrower.pmw", "copy.pmw"):
        assert read_session(tmp_path / name)[1].budget_from == "lender.pmw"
        assert str(tmp_path).encode() not in (tmp_path / name).read_bytes()


def test_an_opening_that_is_refused_leaves_no_lock_file(
    lender: Path, borrow: Open, tmp_path: Path, frame: pd.DataFrame, domain: Domain
) -> None:
    before = {file.name for file in tmp_path.iterdir()} | {"lender.pmw-lock"}
    lock = SessionLock(lender)
    with pytest.raises(pmw.SessionLockedError):
        borrow()
    lock.release()
    with pytest.raises(pmw.BudgetExhaustedError):
        borrow(epsilon=5)
    with pytest.raises(pmw.DataError):
        pmw.open_session(
            frame[["age"]], domain, epsilon=1, delta=1e-9, path=tmp_path / "new.pmw", options=QUESTIONS
        )
    assert {file.name for file in tmp_path.iterdir()} == before


def test_a_lock_file_that_was_there_or_belongs_to_a_session_stays(
    lender: Path, borrow: Open, tmp_path: Path
) -> None:
    (tmp_path / "borrower.pmw-lock").touch()
    with pytest.raises(pmw.BudgetExhaustedError):
        borrow(epsilon=5)
    assert (tmp_path / "borrower.pmw-lock").exists()
    borrow("other.pmw").close()
    (tmp_path / "other.pmw-lock").unlink()
    with pytest.raises(pmw.SessionExistsError):
        borrow("other.pmw")
    assert (tmp_path / "other.pmw-lock").exists()


def test_a_lock_that_another_holds_is_never_removed(lender: Path, borrow: Open, tmp_path: Path) -> None:
    held = SessionLock(tmp_path / "borrower.pmw")
    with pytest.raises(pmw.SessionLockedError):
        borrow()
    assert (tmp_path / "borrower.pmw-lock").exists()
    held.release(forget=True)
    assert not (tmp_path / "borrower.pmw-lock").exists()
