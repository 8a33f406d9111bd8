"""``pmw finish``: what it would do first, nothing without a yes, and a kill in the middle of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from click.testing import Result

from pmw.session.maintenance import is_closed, read_ledger, read_session, verify_session
from queries import CategoricalAttribute, Domain, IntegerAttribute, save_schema

Run = Callable[..., Result]

# Dies, without any warning, when the second marginal is about to be made durable.
KILLED = """
import os, signal
from pmw.session.store import SessionStore

finish, made = SessionStore.finish, []

def deadly(self, intent, outcome):
    made.extend(outcome.measurements)
    if len(made) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    finish(self, intent, outcome)

SessionStore.finish = deadly
from pmw.cli import main
main()
"""


@pytest.fixture
def study(run: Run, frame: pd.DataFrame, tmp_path: Path) -> Path:
    regions = ("north", "east", "south", "west")
    domain = Domain(
        (
            IntegerAttribute("age", 20, 59),
            CategoricalAttribute("sex", ("Female", "Male")),
            CategoricalAttribute("region", regions, other=True, missing=True),
            CategoricalAttribute("member", (True, False)),
        ),
        name="people",
    )
    frame.to_csv(tmp_path / "people.csv", index=False)
    save_schema(domain, tmp_path / "people.toml")
    options = ("--data", "people.csv", "--schema", "people.toml", "--epsilon", "4", "--delta", "1e-9")
    assert run("open", "study.pmw", *options).exit_code == 0
    for pair in ("sex,member", "region,member"):
        assert run("measure", "study.pmw", pair).exit_code == 0
    for text in ("sex = 'Male' AND member = true", "region = 'north' AND member = true"):
        assert run("ask", "study.pmw", text).exit_code == 0
    return tmp_path / "study.pmw"


def test_it_tells_what_it_would_do_and_does_that(study: Path, run: Run) -> None:

    told = run("finish", "study.pmw", "--dry-run")
    assert told.exit_code == 0
    assert told.stdout.count("would cost") >= 2
    assert "nothing was spent" in told.stdout
    assert not is_closed(study)
    refused = run("finish", "study.pmw")
    assert (refused.exit_code, "--yes" in refused.stderr) == (2, True)
    lines = run("finish", "study.pmw", "--dry-run", "--json").stdout.splitlines()
    planned = [json.loads(line)["scope"] for line in lines]
    assert len(planned) == told.stdout.count("would cost")
    done = run("finish", "study.pmw", "--yes")
    assert done.exit_code == 0
    assert done.stdout.count("Measured ") == len(planned)
    assert "Closed" in done.stdout
    state = read_session(study)[0]
    assert [list(one.scope) for one in state.marginals if one.requested][2:] == planned
    assert state.closed
    assert verify_session(study).holds
    again = run("finish", "study.pmw", "--yes")
    assert (again.exit_code, "closed" in again.stderr) == (1, True)


def test_killed_in_the_middle_it_is_finished_again_and_charges_nothing_twice(study: Path, run: Run) -> None:
    command = [sys.executable, "-c", KILLED, "finish", str(study), "--yes"]
    killed = subprocess.run(command, capture_output=True, check=False)
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, b"")
    assert not is_closed(study)
    assert sum(one.requested for one in read_session(study)[0].marginals) == 3  # the fourth waits
    assert run("finish", "study.pmw", "--yes").exit_code == 0
    state = read_session(study)[0]
    requested = [line for line in read_ledger(study).lines if line.event == "requested"]
    assert len(requested) == sum(one.requested for one in state.marginals) >= 4
    assert state.ledger.spent == sum(line.price for line in read_ledger(study).lines) <= state.ledger.cap
    assert state.closed
    assert verify_session(study).holds
