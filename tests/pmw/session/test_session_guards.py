"""A session that was closed, or that a fork took along, does nothing at all."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import pmw
from queries import Domain

USES: dict[str, Callable[[pmw.Session], object]] = {
    "ask": lambda session: session.ask("sex = 'Male'"),
    "ask_all": lambda session: session.ask_all(["sex = 'Male'"]),
    "ask_all of nothing": lambda session: session.ask_all([]),
    "sql": lambda session: session.sql("SELECT sex, COUNT(*) FROM people GROUP BY sex"),
    "group_by": lambda session: session.group_by("sex"),
    "status": lambda session: session.status(),
    "ledger": lambda session: session.ledger(),
    "verify": lambda session: session.verify(),
    "report": lambda session: session.report("report.html"),
    "plot": lambda session: session.plot(),
    "seal": lambda session: session.finalize(),
}


@pytest.mark.parametrize("use", USES)
def test_a_closed_session_is_told_so(frame: pd.DataFrame, domain: Domain, use: str) -> None:
    session = pmw.open_session(frame, domain, epsilon=1, options=pmw.Options(test=pmw.TestKind.QUERY, seed=7))
    session.close()
    with pytest.raises(pmw.SessionError, match="the session was closed; resume it to go on"):
        USES[use](session)


def _use_in_child(session: pmw.Session, results: multiprocessing.SimpleQueue[tuple[str, str]]) -> None:
    for name, use in USES.items():
        try:
            use(session)
            results.put((name, "done"))
        except pmw.SessionError as error:
            results.put((name, str(error)))
    session.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_can_do_nothing_with_the_session(
    frame: pd.DataFrame, domain: Domain, tmp_path: Path
) -> None:
    context = multiprocessing.get_context("fork")
    with pmw.open_session(frame, domain, epsilon=1, path=tmp_path / "s.pmw") as session:
        results = context.SimpleQueue()
        child = context.Process(target=_use_in_child, args=(session, results))
        child.start()
        child.join()
        told = dict(results.get() for _ in USES)
        refusal = "a session cannot be used in a forked process; resume it there instead"
        assert told == dict.fromkeys(USES, refusal)
        assert session.ask("sex = 'Male'").count > 0
        with pytest.raises(pmw.SessionLockedError):
            pmw.resume_session(tmp_path / "s.pmw")
