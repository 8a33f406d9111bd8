"""Usage: wrong values of options have exit code 2, and what fails for another reason has not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Run = Callable[..., Result]
OPEN = ("open", "new.pmw", "--data", "people.csv", "--schema", "people.toml", "--epsilon", "1")
PLAN = ("plan", "--schema", "people.toml", "--records", "1000")
EXPORT = ("export", "study.pmw", "--output", "rows.csv")


@pytest.mark.parametrize(
    "arguments",
    [
        (*OPEN, "--epsilon", "0"),
        (*OPEN, "--delta", "2"),
        (*OPEN, "--composition", "zcdp"),
        (*OPEN, "--confidence", "1"),
        (*OPEN, "--quote", "ab"),
        (*OPEN, "--wait", "nan"),
        (*OPEN, "--wait", "inf"),
        (*OPEN, "--schema", "absent.toml", "--delta", "2"),  # before any file is looked at
        (*PLAN, "--accuracy", "1"),
        (*PLAN, "--epsilon", "1", "--records", "0"),
        (*PLAN, "--epsilon", "-1"),
        (*EXPORT, "--rows", "0"),
        (*EXPORT, "--rows", "-1"),
        (*EXPORT, "--seed", "-1"),
        ("ask", "study.pmw", "age >= 40", "--wait", "nan"),
        ("audit", "no-such-mechanism"),
        ("check", "--data", "people.csv", "--schema", "people.toml", "--delimiter", "ab"),
        ("demo", "--epsilon", "0"),
        ("demo", "--query-seed", "-1"),
        ("status", "study.pmw", "--plot", "study.bmp"),
    ],
)
def test_a_value_that_cannot_be_is_wrong_usage(study: Path, run: Run, arguments: tuple[str, ...]) -> None:
    before = sorted(study.parent.iterdir())
    result = run(*arguments)
    assert result.exit_code == 2, result.stderr
    assert result.stderr.startswith(f"Usage: pmw {arguments[0]} ")
    assert sorted(study.parent.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((*OPEN, "--data", "absent.csv"), 1),
        ((*OPEN, "--schema", "absent.toml"), 1),
        ((*OPEN, "--neighbors", "replace-one"), 1),  # the schema is not made for it
        ((*EXPORT, "--output", "absent/rows.csv"), 1),
        (("backup", "study.pmw", "--output", "people.csv"), 1),
        (("backup", "people.csv", "--output", "new.pmw"), 5),
    ],
)
def test_what_cannot_be_done_with_the_files_is_no_wrong_usage(
    study: Path, run: Run, arguments: tuple[str, ...], code: int
) -> None:
    result = run(*arguments)
    assert result.exit_code == code, result.stderr
    assert result.stderr.startswith("Error: ")


@pytest.mark.parametrize(
    ("arguments", "interrupted"),
    [
        (("backup", "study.pmw", "--output", "copy.pmw"), "pmw.session.maintenance.backup_session"),
        (("ask", "study.pmw", "age < 30"), "pmw.session.session.Session.ask_all"),
        (("verify", "study.pmw"), "pmw.session.maintenance.verify_session"),
    ],
)
def test_ctrl_c_has_an_exit_code_of_its_own(
    study: Path, run: Run, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], interrupted: str
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(interrupted, interrupt)
    result = run(*arguments)
    assert result.exit_code == 130
    assert result.stderr == "interrupted; everything printed so far is durable\n"
