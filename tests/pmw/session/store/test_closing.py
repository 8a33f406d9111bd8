"""Whoever opens a session file closes it, however the work on it ends: nothing is left to the collector."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd
import pytest

import pmw
from pmw.session.maintenance import (
    backup_session,
    finalize_session,
    read_history,
    read_ledger,
    read_session,
    verify_session,
)
from pmw.session.store import SessionStore
from queries import Domain

Made = list[sqlite3.Connection]
Use = Callable[[Path, pd.DataFrame, Domain], object]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    """All connections that are made in a test, kept so that only a call of ``close`` closes one."""
    found: Made = []
    connect = sqlite3.connect

    def keep(*arguments: Any, **options: Any) -> sqlite3.Connection:
        found.append(connect(*arguments, **options))
        return found[-1]

    monkeypatch.setattr(sqlite3, "connect", keep)
    return found


def are_closed(connections: Made) -> bool:
    closed = 0
    for connection in connections:
        try:
            connection.execute("SELECT 1")
        except sqlite3.ProgrammingError:
            closed += 1
    return closed == len(connections) > 0


def damage(study: Path) -> None:
    with closing(sqlite3.connect(study, isolation_level=None)) as connection:
        connection.execute("UPDATE measurements SET units = x'00' WHERE sequence = 2")


def wait_for_an_end(study: Path) -> None:
    with closing(SessionStore.open(study)) as store:
        store.take_over()
        store.begin("tests", "{}", bytes(32))


USES: dict[str, Use] = {
    "resume": lambda study, frame, domain: pmw.resume_session(study, frame).close(),
    "resume without the table": lambda study, frame, domain: pmw.resume_session(study).close(),
    "read": lambda study, frame, domain: read_session(study),
    "read the ledger": lambda study, frame, domain: read_ledger(study),
    "read the history": lambda study, frame, domain: read_history(study),
    "verify": lambda study, frame, domain: verify_session(study, study.with_name("anchor")),
    "back up": lambda study, frame, domain: backup_session(study, study.with_name("copy.pmw")),
    "close permanently": lambda study, frame, domain: finalize_session(study),
}

FAULTS: dict[str, Callable[[Path], object]] = {
    "no fault": lambda study: None,
    "a damaged row": damage,
    "a batch that waits": wait_for_an_end,
    "another kind of file": lambda study: study.write_text("my thesis" * 1000),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("use", USES)
def test_every_use_of_a_session_file_closes_it(
    study: Path, frame: pd.DataFrame, domain: Domain, made: Made, use: str, fault: str
) -> None:
    FAULTS[fault](study)
    with suppress(*() if fault == "no fault" else (pmw.PMWError,)):
        USES[use](study, frame, domain)
    assert are_closed(made)


def fail(*arguments: object) -> NoReturn:
    raise sqlite3.OperationalError("disk I/O error")


@pytest.mark.parametrize("step", ["write_ahead", "SessionStore._make_tables"])
def test_a_session_file_that_cannot_be_made_is_closed(
    frame: pd.DataFrame,
    domain: Domain,
    made: Made,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    monkeypatch.setattr(f"pmw.session.store.store.{step}", fail)
    with pytest.raises(pmw.PMWError):
        pmw.open_session(frame, domain, epsilon=1, delta=1e-9, path=tmp_path / "s.pmw")
    assert are_closed(made)


@pytest.mark.parametrize("name", ["s.pmw", None])
def test_a_session_whose_opening_cannot_be_finished_is_closed(
    frame: pd.DataFrame,
    domain: Domain,
    made: Made,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str | None,
) -> None:
    def full(*arguments: object) -> NoReturn:
        raise pmw.StoreError("no room")

    monkeypatch.setattr(SessionStore, "finish", full)
    with pytest.raises(pmw.StoreError, match="no room"):
        pmw.open_session(frame, domain, epsilon=1, delta=1e-9, path=None if name is None else tmp_path / name)
    assert are_closed(made)


@pytest.mark.parametrize("step", ["session.Engine", "session.Engine._load", "opening.Session"])
def test_a_session_that_cannot_be_made_of_its_file_closes_it_and_lets_go_of_it(
    study: Path, made: Made, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*arguments: object) -> NoReturn:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(f"pmw.session.{step}", fail)
        with pytest.raises(MemoryError):
            pmw.resume_session(study)
    assert are_closed(made)
    pmw.resume_session(study).close()


class Unready(sqlite3.Connection):
    """A connection that takes no statement."""

    def execute(self, *arguments: object) -> NoReturn:
        changes = self.total_changes  # raises ProgrammingError once it is closed
        raise sqlite3.OperationalError(f"disk I/O error after {changes} changes")


def test_a_connection_that_cannot_be_set_up_is_closed(
    study: Path, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *rest, **options: connect(*rest, **options, factory=Unready)
    )
    with pytest.raises(pmw.PMWError):
        SessionStore.open(study)
    assert are_closed(made)
