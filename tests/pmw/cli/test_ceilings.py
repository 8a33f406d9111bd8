"""``--at-most``: what may be charged for a question, on a terminal, in pipes, streams and workloads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pmw.session.maintenance import read_ledger, read_session
from tests.pmw.cli.commands import OPEN, Run

PAIR, FREE = "sex = 'Female' AND region = 'north'", "region = 'north'"
STATEMENT = "SELECT sex, region, COUNT(*) FROM people GROUP BY sex, region"
LINES = [
    {"id": 1, "where": FREE},
    {"id": 2, "where": PAIR},
    {"id": 3, "sql": STATEMENT},
    {"id": 4, "where": ""},
]
STREAM = "".join(json.dumps(line) + "\n" for line in LINES)


def spent() -> float:
    return read_ledger("study.pmw").share


def told(run: Run, *arguments: str, stdin: str | None = None) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(*arguments, stdin=stdin).stdout.splitlines()]


@pytest.mark.parametrize("asked", [(PAIR,), ("--sql", STATEMENT)])
def test_one_question_is_refused_above_a_tenth_of_what_is_left_with_its_price(
    yearly_study: Path, run: Run, asked: tuple[str, ...]
) -> None:
    before = spent()
    refused = run.refused("ask", "study.pmw", *asked, code=4)
    tenth = f"{(1 - before) / 10:.2%}"
    assert f"and {tenth} may be charged for it (a tenth of what may be spent, unless told)" in refused
    printed = run("ask", "study.pmw", *asked, "--json")
    error = json.loads(printed.stdout)["error"]
    assert (printed.exit_code, error["code"], error["position"]) == (4, "not_paid", None)
    assert error["price"] > (1 - before) / 10
    assert spent() == before
    part = re.findall(r"--at-most ([0-9.]+%)", refused)[0]
    form = run.form("ask", "study.pmw", *asked, "--at-most", part)
    assert form["spent"].get("charged", 0) == pytest.approx(spent() - before, rel=1e-4)
    assert spent() > before
    run.told("ask", "study.pmw", *asked, "--at-most", "0")  # stored by now
    run.told("ask", "study.pmw", FREE)


@pytest.mark.parametrize("asked", [(PAIR,), ("--sql", STATEMENT)])
def test_a_terminal_is_asked_with_the_price(
    yearly_study: Path, run: Run, monkeypatch: pytest.MonkeyPatch, asked: tuple[str, ...]
) -> None:
    before, prices = spent(), list[str]()

    def answer(yes: bool) -> Callable[[str], bool]:
        def agrees(price: str) -> bool:
            prices.append(price)
            return yes

        return agrees

    for yes in (False, True):
        monkeypatch.setattr("pmw.cli.answering.agrees", answer(yes))
        assert run("ask", "study.pmw", *asked).exit_code == (0 if yes else 4)
        assert (spent() > before) == yes
    assert prices[0] == prices[1]
    assert re.fullmatch(r"This can cost [0-9.]+% of the budget\.", prices[0])


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("answer", ["y\n", "n\n"])
def test_a_yes_or_a_no_is_typed(yearly_study: Path, run: Run, answer: str) -> None:
    before = spent()
    asked = run("ask", "study.pmw", PAIR, stdin=answer)
    assert "Pay it? [y/N]" in asked.stderr
    assert (asked.exit_code, spent() > before) == ((0, True) if answer == "y\n" else (4, False))


def test_0_takes_the_free_answer_and_it_is_tested_later_for_whoever_pays(
    yearly_study: Path, run: Run
) -> None:
    before = spent()
    free = run.form("ask", "study.pmw", PAIR, "--at-most", "0")
    assert free["source"] == "unverified"
    assert spent() == before
    assert run("ask", "study.pmw", PAIR).exit_code == 4
    assert run.form("ask", "study.pmw", PAIR, "--at-most", "1")["source"] in ("synthetic", "measured")
    assert spent() > before


@pytest.mark.parametrize("most", ["0.1%", "0.001"])
def test_each_line_of_a_stream_has_its_own_refusal(yearly_study: Path, run: Run, most: str) -> None:
    before = spent()
    asked = run("ask", "study.pmw", "--stream", "--at-most", most, stdin=STREAM)
    forms = [json.loads(line) for line in asked.stdout.splitlines()]
    assert asked.exit_code == 0
    assert [form["id"] for form in forms] == [1, 2, 3, 4]
    assert ["error" in form for form in forms] == [False, True, True, False]
    assert {form["error"]["code"] for form in forms[1:3]} == {"not_paid"}
    assert all(form["error"]["price"] > 0.001 for form in forms[1:3])
    assert asked.stderr == "2 of 4 questions were refused, at no cost\n"
    assert spent() == before
    alone = run("ask", "study.pmw", "--stream", "--at-most", most, stdin=json.dumps(LINES[1]))
    assert (alone.exit_code, len(alone.stdout.splitlines())) == (4, 1)


def test_a_workload_refuses_the_questions_that_could_cost_more(yearly_study: Path, run: Run) -> None:
    before = spent()
    asked = run("ask", "study.pmw", "--workload", "marginals:sex,region", "--at-most", "0.1%")
    forms = [json.loads(line) for line in asked.stdout.splitlines()]
    assert (asked.exit_code, {form["error"]["code"] for form in forms}) == (4, {"not_paid"})
    assert spent() == before
    forms = told(run, "ask", "study.pmw", "--workload", "marginals:sex,region", "--at-most", "100%")
    assert not any("error" in form for form in forms)
    assert spent() > before


@pytest.mark.parametrize("preset", [("--preset", "textbook"), ("--opening", "one-way")])
def test_a_stream_of_a_session_spends_what_its_plan_holds_unless_told(
    people: Path, run: Run, preset: tuple[str, ...]
) -> None:
    """The textbook's loop: nobody is there to be asked, and no line of it is refused near the end."""
    run.told(*OPEN, "--delta", "1e-9", *preset)
    ends = [f"{low} AND {high}" for low in range(20, 40, 4) for high in range(44, 60, 4)]
    lines = [
        {"where": f"age BETWEEN {end} AND sex = '{sex}' AND region = '{region}'"}
        for end in ends
        for sex in ("Female", "Male")
        for region in ("north", "east", "south", "west")
    ]
    asked = run("ask", "study.pmw", "--stream", stdin="".join(json.dumps(line) + "\n" for line in lines))
    forms = [json.loads(line) for line in asked.stdout.splitlines()]
    assert (asked.exit_code, asked.stderr, len(forms)) == (0, "", len(lines))
    assert not any("error" in form for form in forms)
    state, _ = read_session("study.pmw")
    told_charges = sum(form["spent"].get("charged", 0) for form in forms)
    assert told_charges <= state.ledger.share


def test_a_shell_in_a_pipe_refuses_what_a_terminal_is_asked(yearly_study: Path, run: Run) -> None:
    before = spent()
    piped = run("shell", "study.pmw", "--no-history", stdin=f"{PAIR}\n{FREE}\n")
    assert "Error: This can cost " in piped.stderr
    assert "About" in piped.stdout
    assert piped.exit_code == 0
    assert spent() == before


def test_a_model_charges_nothing_whatever_it_may(yearly_study: Path, run: Run) -> None:
    run.told("export", "study.pmw", "--output", "study.model", "--format", "model")
    for most in ("0", "100%"):
        assert run.told("ask", "study.model", PAIR, "--at-most", most).startswith("About")
