"""Opening: what is told beside the session's status."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from click.testing import Result

from pmw import Options
from pmw.session.maintenance import read_session

Run = Callable[..., Result]
OPEN = ("--data", "people.csv", "--schema", "people.toml", "--test", "query")


def test_sech2_without_a_delta_is_told_of_what_is_narrower(people: Path, run: Run) -> None:
    sech2 = (*OPEN, "--sparse-vector", "sech2", "--epsilon", "1")
    result = run("open", "a.pmw", *sech2)
    assert result.stderr.startswith(
        "Note: without a delta, exponential noise is narrower: its tests err within "
    )
    assert result.stderr.count("\n") == 1
    assert run("open", "b.pmw", *sech2, "--delta", "1e-9").stderr == ""
    assert run("open", "c.pmw", *OPEN, "--epsilon", "1").stderr == ""


def test_the_preset_opens_the_loop_of_the_lecture(people: Path, run: Run) -> None:
    given = ("--data", "people.csv", "--schema", "people.toml", "--epsilon", "1", "--delta", "1e-9")
    opened = run(
        "open", "a.pmw", *given, "--preset", "textbook", "--update-limit", "12", "--sides", "two-sided"
    )
    assert opened.exit_code == 0, opened.output
    options = read_session(people / "a.pmw")[0].contract.options
    assert replace(options, composition=None) == Options.textbook(update_limit=12)
