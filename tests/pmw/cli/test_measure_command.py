"""``pmw measure`` and ``pmw ask --within``: prices, exit codes, and nothing dear spent without a yes."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist

import pandas as pd
import pytest

from pmw.session.maintenance import read_ledger, read_session
from queries import Domain, IntegerAttribute, save_schema
from tests import worlds
from tests.pmw.cli.commands import OPEN, Run

ROOT = Path(__file__).parent.parent.parent.parent
YEARS = worlds.YEARS.domain

PAIR = "sex = 'Female' AND region = 'north'"
MEASURE = ("measure", "study.pmw", "sex, region")


def spent(yearly_study: Path) -> float:
    return read_ledger(yearly_study).share


def test_a_table_is_paid_for_at_the_price_that_was_told_and_after_a_yes_alone(
    yearly_study: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, asked = spent(yearly_study), list[str]()
    told, form = run.told(*MEASURE, "--dry-run").strip(), run.form(*MEASURE, "--dry-run")
    assert told.startswith("Measuring sex, region (12 cells) would cost ")
    assert list(form) == ["scope", "cells", "share", "half_width", "affordable"]
    assert (form["scope"], form["cells"], form["affordable"]) == (["sex", "region"], 12, True)
    refused = run.refused(*MEASURE, code=4)
    assert refused.startswith(f"Error: {told} This can cost ")
    part = re.findall(r"--at-most ([0-9.]+%)", refused)[0]
    unpaid = run(*MEASURE, "--json")
    error = json.loads(unpaid.stdout)["error"]
    assert (unpaid.exit_code, error["code"], error["price"]) == (4, "not_paid", form["share"])

    def answer(yes: bool) -> None:
        monkeypatch.setattr("pmw.cli.answering.agrees", lambda price: asked.append(price) or yes)  # type: ignore[func-returns-value]

    answer(False)
    assert run(*MEASURE).exit_code == 4
    assert spent(yearly_study) == before
    answer(True)
    assert run.told(*MEASURE).startswith("Measured sex, region (12 cells) for ")
    assert spent(yearly_study) == pytest.approx(before + form["share"])
    assert read_ledger(yearly_study).lines[-1].share == form["share"]
    assert asked == [told] * 2
    run.told(*MEASURE, "--at-most", part)
    assert len(asked) == 2
    run.told("verify", "study.pmw")


def test_a_bar_that_costs_little_is_paid_for_unasked_and_one_that_cannot_be_has_one_error(
    yearly_study: Path, run: Run
) -> None:
    before = spent(yearly_study)
    wide = ("ask", "study.pmw", PAIR, "--within")
    refused = run.refused(*wide, "1", "--at-most", "100%")
    assert "is left for it; nothing was spent" in refused
    assert run(*wide, "100", "--at-most", "0").exit_code == 4
    assert spent(yearly_study) == before
    told = re.findall(r"([0-9.]+)% of the budget charged for it", run.told(*wide, "100"))
    assert float(told[0]) / 100 == pytest.approx(spent(yearly_study) - before, abs=1e-4)
    assert "charged" not in run.told(*wide, "100")
    run.told("close", "study.pmw", "--yes")
    assert "the session is closed" in run.refused(*MEASURE)


# --- sums of values -----------------------------------------------------------------------------------------

SUMS = ("measure", "my study.pmw", "--sum", "age", "--by", "sex")
MEAN = ("ask", "my study.pmw", "--sql", "SELECT sex, AVG(age) AS mean FROM people GROUP BY sex")


@pytest.fixture
def summed_study(run: Run, frame: pd.DataFrame, tmp_path: Path) -> Path:
    """Open a session whose ages are summed, and in which nobody has no sex; return its path."""
    frame.to_csv(tmp_path / "people.csv", index=False)
    age, sex, *others = YEARS
    assert isinstance(age, IntegerAttribute)
    attributes = (replace(age, width=10, resolution=1), replace(sex, missing=True), *others)
    save_schema(Domain(attributes, name="people"), tmp_path / "people.toml")
    run.told("open", "my study.pmw", *OPEN[2:-1], "4", "--delta", "1e-9", "--opening", "none")
    return tmp_path / "my study.pmw"


def test_sums_are_paid_for_at_the_price_that_was_told(summed_study: Path, run: Run) -> None:
    before = spent(summed_study)
    told, form = run.told(*SUMS, "--dry-run").strip(), run.form(*SUMS, "--dry-run")
    what = "the sums of age by sex (3 cells) with the numbers of values"
    assert told.startswith(f"Measuring {what} would cost 2.00% of the budget: each")
    assert (form["sum"], form["scope"], form["cells"], form["affordable"]) == ("age", ["sex"], 3, True)
    unpaid = run.refused(*SUMS, "--at-most", "1%", code=4)
    assert unpaid.startswith(f"Error: {told} This can cost 2.00% of the budget")
    assert run.form(*SUMS, "--within", "1%", "--dry-run")["mean_half_width"] < form["mean_half_width"]
    assert "nothing was spent" in run.refused(*SUMS, "--share", "100%", code=1)
    assert run(*SUMS, "--share", "5%", "--at-most", "4.9%").exit_code == 4
    assert spent(summed_study) == before
    measured = run.told(*SUMS, "--share", "5%")  # which is a price of its own
    assert measured.startswith(f"Measured {what} for 5.00%")
    assert spent(summed_study) == pytest.approx(before + 0.05, abs=1e-6)
    run.told("verify", "my study.pmw")


def test_what_an_answer_advises_can_be_pasted_and_ends_with_the_purchase(
    summed_study: Path, run: Run
) -> None:
    """No number of records says that somebody has no sex."""

    def advised() -> list[list[str]]:
        """Return the commands of the notes, for which the session needs no other name."""
        told = re.findall(r"pmw (measure .*?) (?:costs|tells)", run.told(*MEAN, "--at-most", "100%"))
        return [shlex.split(one) for one in told]

    assert [one[:2] for one in advised()] == [["measure", "my study.pmw"]] * 2
    counts, sums = advised()
    assert "would cost" in run.told(*counts, "--dry-run")
    assert "would cost" in run.told(*sums)
    run.told(*sums[:-1], "--at-most", "100%")
    assert advised() == []
    run.told("close", "my study.pmw", "--yes")
    assert advised() == []


def test_a_width_that_is_a_part_of_the_answer_says_that_a_little_more_may_miss(run: Run) -> None:
    """What is kept where noise came out high misses by the whole upper tail, the rest as often as stated."""
    help_ = " ".join(run.told("ask", "--help").split())
    assert "whether P% is met depends on a drawn number, so that a little more may miss" in help_
    normal, tried = NormalDist(), [number / 100 for number in range(-300, 400)]
    end, most = normal.inv_cdf(0.975), 0.025 + 0.975 * 0.05
    missed = [
        1 - normal.cdf(max(least, end))  # kept
        + max(0.0, normal.cdf(-end) - normal.cdf(least))  # kept, and too low
        + normal.cdf(least) * 0.05  # drawn anew
        for least in tried
    ]  # fmt: skip
    assert max(missed) == pytest.approx(most, abs=1e-3)
    assert max(missed) <= most
    pages = [(ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("analyst.md", "intervals.md")]
    assert all(f"{100 * most:.1f} %" in page for page in pages)


# --- What may be charged for a question, on a terminal, in pipes and streams --------------------------------


FREE = "region = 'north'"
STATEMENT = "SELECT sex, region, COUNT(*) FROM people GROUP BY sex, region"
LINES = [
    {"id": 1, "where": FREE},
    {"id": 2, "where": PAIR},
    {"id": 3, "sql": STATEMENT},
    {"id": 4, "where": ""},
]
STREAM = "".join(json.dumps(line) + "\n" for line in LINES)


def all_spent() -> float:
    return read_ledger("study.pmw").share


@pytest.mark.parametrize("asked", [(PAIR,), ("--sql", STATEMENT)])
def test_one_question_is_refused_above_a_tenth_of_what_is_left_with_its_price(
    yearly_study: Path, run: Run, asked: tuple[str, ...]
) -> None:
    before = all_spent()
    refused = run.refused("ask", "study.pmw", *asked, code=4)
    tenth = f"{(1 - before) / 10:.2%}"
    assert f"and {tenth} may be charged for it (a tenth of what may be spent, unless told)" in refused
    printed = run("ask", "study.pmw", *asked, "--json")
    error = json.loads(printed.stdout)["error"]
    assert (printed.exit_code, error["code"], error["position"]) == (4, "not_paid", None)
    assert error["price"] > (1 - before) / 10
    assert all_spent() == before
    part = re.findall(r"--at-most ([0-9.]+%)", refused)[0]
    form = run.form("ask", "study.pmw", *asked, "--at-most", part)
    assert form["spent"].get("charged", 0) == pytest.approx(all_spent() - before, rel=1e-4)
    assert all_spent() > before
    run.told("ask", "study.pmw", *asked, "--at-most", "0")  # stored by now


@pytest.mark.usefixtures("terminal")
def test_a_yes_or_a_no_is_typed(yearly_study: Path, run: Run) -> None:
    before = all_spent()
    for answer, code in (("n\n", 4), ("y\n", 0)):
        asked = run("ask", "study.pmw", PAIR, stdin=answer)
        assert "Pay it? [y/N]" in asked.stderr
        assert (asked.exit_code, all_spent() > before) == (code, code == 0)


def test_each_line_of_a_stream_has_its_own_refusal(yearly_study: Path, run: Run) -> None:
    before, stream = all_spent(), ("ask", "study.pmw", "--stream", "--at-most")
    asked = run(*stream, "0.1%", stdin=STREAM)
    forms = [json.loads(line) for line in asked.stdout.splitlines()]
    assert asked.exit_code == 0
    assert [form["id"] for form in forms] == [1, 2, 3, 4]
    assert ["error" in form for form in forms] == [False, True, True, False]
    assert {form["error"]["code"] for form in forms[1:3]} == {"not_paid"}
    assert all(form["error"]["price"] > 0.001 for form in forms[1:3])
    assert asked.stderr == "2 of 4 questions were refused, at no cost\n"
    assert all_spent() == before
    alone = run(*stream, "0.001", stdin=json.dumps(LINES[1]))
    assert (alone.exit_code, len(alone.stdout.splitlines())) == (4, 1)


def test_a_workload_refuses_the_questions_that_could_cost_more(yearly_study: Path, run: Run) -> None:
    before, workload = all_spent(), ("ask", "study.pmw", "--workload", "marginals:sex,region", "--at-most")
    asked = run(*workload, "0.1%")
    forms = [json.loads(line) for line in asked.stdout.splitlines()]
    assert (asked.exit_code, {form["error"]["code"] for form in forms}) == (4, {"not_paid"})
    assert all_spent() == before
    assert not any("error" in form for form in run.forms(*workload, "100%"))
    assert all_spent() > before


def test_a_stream_of_a_session_spends_what_its_plan_holds_unless_told(people: Path, run: Run) -> None:
    """The textbook's loop: nobody is there to be asked, and no line of it is refused near the end."""
    run.told(*OPEN, "--delta", "1e-9", "--preset", "textbook")
    lines = [
        {"where": f"age BETWEEN {low} AND {high} AND sex = '{sex}' AND region = '{region}'"}
        for low in range(20, 40, 4)
        for high in range(44, 60, 4)
        for sex in ("Female", "Male")
        for region in ("north", "east", "south", "west")
    ]
    asked = run("ask", "study.pmw", "--stream", stdin="".join(json.dumps(line) + "\n" for line in lines))
    forms = [json.loads(line) for line in asked.stdout.splitlines()]
    assert (asked.exit_code, asked.stderr, len(forms)) == (0, "", len(lines))
    assert not any("error" in form for form in forms)
    told_charges = sum(form["spent"].get("charged", 0) for form in forms)
    assert told_charges <= read_session("study.pmw")[0].ledger.share
