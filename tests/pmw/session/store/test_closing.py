"""Whoever opens a session file closes it, however the work on it ends: nothing is left to the collector.

The fixture of all tests, ``every_connection_closed``, fails those that leave a connection open.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import NoReturn

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
from pmw.session.store.store import SessionStore
from queries import Domain
from tests.pmw.session.stored import execute
from tests.worlds import PEOPLE

Use = Callable[[Path, pd.DataFrame, Domain], object]


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
    "a damaged row": lambda study: execute(study, "UPDATE measurements SET units = x'00' WHERE sequence = 2"),
    "a batch that waits": wait_for_an_end,
    "another kind of file": lambda study: study.write_text("my thesis" * 1000),
    "another kind of database": lambda study: execute(study, "PRAGMA application_id = 7"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("use", USES)
def test_every_use_of_a_session_file_closes_it(study: Path, use: str, fault: str) -> None:
    FAULTS[fault](study)
    with suppress(*() if fault == "no fault" else (pmw.PMWError,)):
        USES[use](study, PEOPLE.frame, PEOPLE.domain)


def fail(*arguments: object) -> NoReturn:
    raise sqlite3.OperationalError("disk I/O error")


@pytest.mark.parametrize("step", ["session.Engine", "session.Engine._load", "opening.Session"])
def test_a_session_that_cannot_be_made_of_its_file_closes_it_and_lets_go_of_it(
    study: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*arguments: object) -> NoReturn:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(f"pmw.session.{step}", fail)
        with pytest.raises(MemoryError):
            pmw.resume_session(study)
    pmw.resume_session(study).close()
