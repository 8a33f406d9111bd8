"""``pmw measure`` and ``pmw ask --within``: the price first, exit codes, and nothing spent without a yes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from pmw.session.maintenance import read_ledger

Run = Callable[..., Result]
PAIR = "sex = 'Female' AND region = 'north'"


def spent(yearly_study: Path) -> float:
    return read_ledger(yearly_study).share


def form_of(result: Result) -> Any:
    return json.loads(result.stdout)


def test_a_table_is_measured_at_the_price_that_was_told(yearly_study: Path, run: Run) -> None:
    before = spent(yearly_study)
    told = run("measure", "study.pmw", "sex, region", "--dry-run", "--json")
    form = form_of(told)
    assert list(form) == ["scope", "cells", "share", "half_width", "affordable"]
    assert (form["scope"], form["cells"], form["affordable"]) == (["sex", "region"], 12, True)
    assert spent(yearly_study) == before
    words = run("measure", "study.pmw", "sex,region", "--dry-run").stdout
    assert words.startswith("Measuring sex, region (12 cells) would cost ")
    assert form_of(run("measure", "study.pmw", "sex,region", "--yes", "--json")) == form
    assert read_ledger(yearly_study).lines[-1].share == form["share"]
    again = run("measure", "study.pmw", "sex,region", "--yes")
    assert again.stdout.startswith("Measured sex, region (12 cells) for ")
    assert run("verify", "study.pmw").exit_code == 0


def test_a_table_is_paid_for_after_a_yes_alone(
    yearly_study: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, measure, asked = spent(yearly_study), ("measure", "study.pmw", "sex,region"), list[str]()
    told = run(*measure, "--dry-run")
    refused = run(*measure)
    assert (refused.exit_code, refused.stdout) == (4, "")
    assert refused.stderr == f"Error: {told.stdout.strip()} Nothing was spent. Pay it with --yes.\n"
    unpaid = run(*measure, "--json")
    assert (unpaid.exit_code, form_of(unpaid)["error"]["code"]) == (4, "not_paid")
    assert form_of(unpaid)["quote"] == form_of(run(*measure, "--dry-run", "--json"))

    def answer(yes: bool) -> Callable[[str], bool]:
        return lambda price: asked.append(price) or yes  # type: ignore[func-returns-value]

    monkeypatch.setattr("pmw.cli.answering.agrees", answer(False))
    assert run(*measure).exit_code == 4
    assert spent(yearly_study) == before
    monkeypatch.setattr("pmw.cli.answering.agrees", answer(True))
    assert run(*measure).stdout.startswith("Measured sex, region (12 cells) for ")
    assert spent(yearly_study) == pytest.approx(before + form_of(unpaid)["quote"]["share"])
    assert asked == [told.stdout.strip()] * 2
    assert run(*measure, "--yes").exit_code == 0
    assert len(asked) == 2


def test_a_bar_is_told_its_price_and_paid_after_a_yes_alone(
    yearly_study: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = spent(yearly_study)
    ask = ("ask", "study.pmw", PAIR, "--within", "100")
    refused = run(*ask)
    assert (refused.exit_code, refused.stdout) == (4, "")
    assert "A bar of ± 100 records costs" in refused.stderr
    assert "Nothing was spent. Pay it with --yes." in refused.stderr
    quoted = run(*ask, "--json")
    assert quoted.exit_code == 4
    assert form_of(quoted)["error"]["code"] == "not_paid"
    monkeypatch.setattr("pmw.cli.answering.agrees", lambda _: False)
    assert run(*ask).exit_code == 4
    assert spent(yearly_study) == before
    monkeypatch.setattr("pmw.cli.answering.agrees", lambda _: True)
    agreed = run(*ask, "--json")
    low, high = form_of(agreed)["interval"]
    assert agreed.exit_code == 0
    assert (high - low) / 2 <= 100.001
    assert spent(yearly_study) == pytest.approx(before + form_of(quoted)["quote"]["share"])
    monkeypatch.undo()
    monkeypatch.chdir(yearly_study.parent)
    paid = spent(yearly_study)
    again = run(*ask)  # the bar suffices: free, and nobody is asked
    assert (again.exit_code, again.stdout[:5]) == (0, "About")
    narrower = run("ask", "study.pmw", PAIR, "--within", "90", "--yes")
    assert (narrower.exit_code, spent(yearly_study) > paid) == (0, True)


def test_what_cannot_be_has_one_clear_error_and_costs_nothing(yearly_study: Path, run: Run) -> None:
    before = spent(yearly_study)
    for arguments, told in (
        (("measure", "study.pmw", "age,sex,region,member"), "noise would hide"),
        (("ask", "study.pmw", PAIR, "--within", "1", "--yes"), "so much is not left"),
    ):
        result = run(*arguments)
        assert (result.exit_code, told in result.stderr, result.stdout) == (4, True, "")
        assert spent(yearly_study) == before


def test_a_request_beyond_the_cap_is_refused_and_costs_nothing(yearly_study: Path, run: Run) -> None:
    while form_of(run("measure", "study.pmw", "sex,region", "--dry-run", "--json"))["affordable"]:
        assert run("measure", "study.pmw", "sex,region", "--yes").exit_code == 0
    before = spent(yearly_study)
    assert "so much is not left" in run("measure", "study.pmw", "sex,region", "--dry-run").stdout
    result = run("measure", "study.pmw", "sex,region")
    assert (result.exit_code, "nothing was spent" in result.stderr) == (1, True)
    assert spent(yearly_study) == before
    assert run("close", "study.pmw", "--yes").exit_code == 0
    assert "the session is closed" in run("measure", "study.pmw", "sex,region").stderr
