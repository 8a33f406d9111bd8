"""``pmw plan``: what it prints, and what it refuses."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from pmw.cli.open_commands import open_, plan
from pmw.model.junction_tree import DEFAULT_MAX_CELLS
from queries import Domain, IntegerAttribute, save_schema
from queries.person import Person
from tests.pmw.cli.commands import Run

PLAN = ("plan", "--schema", "people.toml", "--records", "3000")


def test_more_than_four_attributes_share_a_row(run: Run) -> None:
    save_schema(Domain(tuple(IntegerAttribute(name, 0, 3) for name in "abcdef")), "six.toml")
    told = run.told("plan", "--schema", "six.toml", "--records", "9000", "--epsilon", "1", "--test", "query")
    names = [line[2:26].strip() for line in told.splitlines() if line.startswith("  ")]
    assert names[4:7] == ["2 attributes", "3 attributes", "4 or more attributes"]
    assert "With delta = 1e-09 instead, bounds would be: one cell " in told
    far = ("--records", "40000", "--epsilon", "300", "--delta", "1e-6", "--test", "query")
    assert "its printed noise does not keep this budget" in run.told("plan", "--schema", "six.toml", *far)


@pytest.fixture
def wide(tmp_path: Path) -> None:
    """A schema of eight attributes, one of them long, and more cells than a dense model holds."""
    names = [IntegerAttribute(name, 0, 9) for name in "abcdefg"]
    save_schema(Domain((*names, IntegerAttribute("pay", 0, 199)), name="wide"), tmp_path / "wide.toml")


WIDE = (
    "plan", "--schema", "wide.toml", "--records", "50000", "--epsilon", "1", "--delta", "1e-9", "--opening",
    "one-way",
)  # fmt: skip


def test_a_plan_of_marginals_tells_what_is_tested_and_measured(wide: None, run: Run) -> None:
    output, plan = run.told(*WIDE), run.form(*WIDE)
    assert output.startswith("Plan for 'wide': 8 attributes, 2 × 10⁹ cells, 50,000 records.")
    assert "1 long attribute is put into bins, chosen from one-attribute counts.\n" in output
    assert plan["coarse_shape"] == [10] * 7 + [16]
    tests = plan["marginals"]
    pairs, triples = tests["certificates"]
    rows = {line[2:26].strip(): line[26:].split() for line in output.splitlines() if line.startswith("  ")}
    assert rows["2 attributes"][2:4] == ["tested", f"{plan['orders'][2]['bound']:,.0f}"]
    assert rows["cell, measured marginal"][0] == f"{tests['cell_error']:,.0f}"
    assert f"({pairs['tested']} of 28 pairs, at most {triples['tested']} of 56 triples;" in output
    assert f"Up to {tests['update_limit']} of them are measured (noise sd" in output
    assert f"until\n  {tests['single']['update_limit']} such answers are measured" in output
    assert f"Model: a tree of marginals of at most {DEFAULT_MAX_CELLS:,} cells together" in output
    assert f"[default: {DEFAULT_MAX_CELLS:,}]" in " ".join(run.told("plan", "--help").split())
    assert max(map(len, output.splitlines()[2:])) <= 120
    assert len(output.splitlines()) <= 36


def test_a_plan_says_where_the_whole_table_or_nothing_is_tested_and_quotes_its_schema(
    people: Path, run: Run
) -> None:
    told = run.told(*PLAN, "--epsilon", "1", "--delta", "1e-9")
    assert "Opening: the number of records and the whole table, cell by cell (100.0% of the budget)." in told
    assert "Tests: none is needed; the measured table covers every question." in told
    assert "tested" not in told
    told = run.told(*PLAN, "--epsilon", "1e-7", "--update-limit", "1000", "--opening", "none")
    assert "Tests: nothing is left for them" in told
    assert "Delta:" not in told
    assert "unknown" in told
    (people / "people.toml").rename(people / "my people.toml")
    told = run.told("plan", "--schema", "my people.toml", "--records", "9", "--epsilon", "1")
    assert "\nNext: pmw open SESSION --data FILE --schema 'my people.toml' --epsilon 1" in told


def test_a_plan_takes_every_choice_that_opening_takes() -> None:
    def options(command: click.Command) -> dict[str, object]:
        return {parameter.name: parameter.to_info_dict() for parameter in command.params if parameter.name}

    opened, planned = options(open_), options(plan)
    own = {"schema", "as_json"}
    table = {"session", "data", "table", "delimiter", "quote", "missing_text", "trim", "encoding", "decimal"}
    table |= {"memory", "temporary_folder", "inside", "data_is_public", "prior", "prior_is_public", "draft"}
    assert planned.keys() - own == opened.keys() - table - {"escape", "verbose"} - {"schema", "as_json"}
    for name in planned.keys() - own:
        assert planned[name] == opened[name], name


def test_the_smallest_epsilon_for_an_accuracy_is_planned(run: Run) -> None:
    save_schema(Domain(tuple(IntegerAttribute(name, 0, 3) for name in "ab")), "people.toml")
    plan = run.form(*PLAN, "--accuracy", "0.05", "--beta", "0.2")
    assert (plan["accuracy"], plan["bar"], plan["confidence"]) == (0.05, 0.05 * plan["records"], 0.8)
    assert plan["bound"] <= plan["bar"]
    both = (*PLAN, "--epsilon", str(plan["epsilon"]), "--accuracy", "0.05", "--beta", "0.2")
    assert run.form(*both) == plan
    assert "Contract: each count within" in run.told(*both)
    small = run.refused(*both, "--epsilon", str(plan["epsilon"] * 0.9))
    assert f"the smallest that does is {plan['epsilon']:g}" in small


def test_cells_beyond_a_billion_are_told_by_two_digits(tmp_path: Path, run: Run) -> None:
    names = [f"a{one}" for one in range(48)]
    save_schema(Domain(tuple(IntegerAttribute(name, 0, 9) for name in names)), "wide.toml")
    (tmp_path / "wide.csv").write_text(",".join(names) + "\n")
    wide = ("--schema", "wide.toml", "--epsilon", "1", "--delta", "1e-9")
    planned = run.told("plan", "--records", "9000", *wide)
    assert planned.startswith("Plan for 'records': 48 attributes, 1 × 10⁴⁸ cells, 9,000 records. ")
    opened = run.told("open", "wide.pmw", "--data", "wide.csv", *wide)
    assert opened.startswith("Opened wide.pmw over 'records': 48 attributes, 1 × 10⁴⁸ cells, about ")
    shown = run.told("status", "wide.pmw").splitlines()[0]
    assert shown == "table                  records (48 attributes, 1 × 10⁴⁸ cells)"
    refused = run.refused("measure", "wide.pmw", ",".join(names[:12]), code=4)
    assert "a11 has 1 × 10¹² cells, and noise would hide what is in more than " in refused


@pytest.mark.parametrize(
    ("given", "first"),
    [
        (("--epsilon", "1", "--accuracy", "0.1"), "solved for n: n = "),
        (("--records", "100000000", "--accuracy", "0.1"), "solved for epsilon: epsilon = "),
    ],
)
def test_the_textbooks_plan_begins_with_theorem_5_and_the_books_theorems_by_number(
    people: Path, run: Run, given: tuple[str, ...], first: str
) -> None:
    options = ("plan", "--schema", "people.toml", "--delta", "1e-9", "--preset", "textbook", *given)
    text = run.told(*options)
    assert text.startswith(f"Theorem 5 (Kamath, Lecture 9), {first}")
    numbers = re.findall(r"^  Theorem (\d\.\d+), ", text, re.MULTILINE)
    assert numbers == ["4.15", "4.10", "3.27", "3.28", "3.26", "3.24"]
    assert "\nPlan for " in text
    form = run.form(*options)
    assert form["theorem"]["solved"] in first
    assert form["theorem"]["records"] == form["records"]


def test_a_plan_names_sums_and_persons_that_opening_measures(run: Run) -> None:
    attributes = IntegerAttribute("a", 0, 9), IntegerAttribute("pay", 0, 999, 100, resolution=1)
    save_schema(Domain(attributes, person=Person("id", 3)), "many.toml")
    save_schema(Domain(attributes), "one.toml")
    budget = ("--records", "9000", "--epsilon", "1", "--delta", "1e-9")
    many, one = (run.told("plan", "--schema", f"{name}.toml", *budget) for name in ("many", "one"))
    assert "Sums of values of pay are measured, too" in one
    assert "The number of persons is measured, too, where that tells more than the records do" in many
    assert "number of persons" not in one


# --- several budgets ---------------------------------------------------------------------------------------


SEVERAL = ("plan", "--schema", "wide.toml", "--records", "50000", "--delta", "1e-9", "--epsilon")


def test_several_budgets_stand_beside_each_other_in_words(wide: None, run: Run) -> None:
    told = run.told(*SEVERAL, "0.5,1, 2").splitlines()
    assert told[0].startswith("Plan for 'wide': 8 attributes, ")
    assert told[1].startswith(
        "Guarantee: epsilon and delta = 1e-09, for adding or removing all of one person's "
    )
    assert told[3].split() == ["epsilon", "=", "0.5", "epsilon", "=", "1", "epsilon", "=", "2"]
    one, two, pairs, guess = told[4:8]
    for place, line in ((1, one), (2, two)):
        bounds = [run.form(*SEVERAL, epsilon)["orders"][place]["bound"] for epsilon in ("0.5", "1", "2")]
        assert [text.split()[-1] for text in line.split(" (")[:-1]] == [f"{bound:,.0f}" for bound in bounds]
        assert bounds == sorted(bounds, reverse=True)
    assert pairs.startswith("pairs of attributes that an export has")
    assert pairs.split()[-9:] == ["28", "of", "28"] * 3
    assert guess.startswith("a 50% guess about one person can become")
    assert guess.split()[-3:] == ["62.3%", "73.2%", "88.1%"]  # rounded up
    assert (
        "\nRisk: whoever thinks it 50% likely that somebody is in the table can come to think it "
        in "\n".join(told)
    )
    assert "  Delta is apart: releases that tell clearly more have a chance of about 1e-09." in told
    assert told[-2].startswith(
        "Next: pmw open SESSION --data FILE --schema wide.toml --epsilon E --delta 1e-09, "
    )
    assert len(told) <= 20
    assert max(map(len, told)) <= 120


def test_several_budgets_without_a_delta_say_what_is_lost_and_what_is_tested(wide: None, run: Run) -> None:
    result = run(*SEVERAL[:5], "--epsilon", "0.5,1")
    assert result.stderr.startswith("Note: no --delta was given, so it is 0. ")
    assert result.stderr.count("\n") == 1
    told = result.stdout.splitlines()
    assert told[5].count(" if tested") == 2
    assert told[6].split()[-6:] == ["0", "of", "28"] * 2
    assert "Delta" not in result.stdout
    assert told[1].startswith("Guarantee: epsilon, for ")
