"""``pmw plan``: what it prints, and what it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

from pmw.cli.open_commands import open_, plan
from pmw.model import DEFAULT_MAX_CELLS
from queries import Domain, IntegerAttribute, save_schema

Run = Callable[..., Result]
PLAN = ("plan", "--schema", "people.toml", "--records", "3000")
TEXTBOOK = (*PLAN, "--test", "query")


def test_more_than_four_attributes_share_a_row(people: Path, run: Run) -> None:
    save_schema(Domain(tuple(IntegerAttribute(name, 0, 3) for name in "abcdef")), "six.toml")
    result = run("plan", "--schema", "six.toml", "--records", "9000", "--epsilon", "1", "--test", "query")
    names = [line[2:26].strip() for line in result.stdout.splitlines() if line.startswith("  ")]
    assert names[4:7] == ["2 attributes", "3 attributes", "4 or more attributes"]
    assert "With delta = 1e-09 instead, bounds would be: one cell " in result.stdout


@pytest.fixture
def wide(people: Path) -> Path:
    """A schema of eight attributes, one of them long, and more cells than a dense model holds."""
    names = [IntegerAttribute(name, 0, 9) for name in "abcdefg"]
    save_schema(Domain((*names, IntegerAttribute("pay", 0, 199)), name="wide"), people / "wide.toml")
    return people


WIDE = ("plan", "--schema", "wide.toml", "--records", "50000", "--epsilon", "1", "--delta", "1e-9")


def test_a_plan_of_marginals_tells_what_is_tested_and_measured(wide: Path, run: Run) -> None:
    output = run(*WIDE).stdout
    plan = json.loads(run(*WIDE, "--json").stdout)
    assert output.startswith("Plan for 'wide': 8 attributes, 2 × 10⁹ cells, 50,000 records.")
    assert "1 long attribute is put into bins, chosen from one-attribute counts. Cutting one widens" in output
    assert "pay, 200 cells in about 16 bins: ± 1,562 (3.1%); in at most 24 cells (width = 9)" in output
    assert plan["coarse_shape"] == [10] * 7 + [16]
    tests = plan["marginals"]
    pairs, triples = tests["certificates"]
    rows = {line[2:26].strip(): line[26:].split() for line in output.splitlines() if line.startswith("  ")}
    assert rows["2 attributes"][2:4] == ["tested", f"{plan['orders'][2]['bound']:,.0f}"]
    cutting = [line.split()[2:4] for line in output.splitlines() if "cutting bins" in line]
    cut = plan["orders"][2]["cut_bound"]
    assert cut > 25_000  # half of all records, and more
    assert cutting[0] == ["tested", f"{cut:,.0f}"]
    assert rows["cell, measured marginal"][0] == f"{tests['cell_error']:,.0f}"
    typical = [line.split()[4:7] for line in output.splitlines() if "on a typical marginal" in line]
    assert typical[0] == ["100", "tested", f"{pairs['typical_bound']:,.0f}"]
    assert len(typical) == 1 + (triples["tested"] > 0)
    assert f"({pairs['tested']} of 28 pairs, at most {triples['tested']} of 56 triples;" in output
    assert f"Up to {tests['update_limit']} of them are measured (noise sd" in output
    assert f"until\n  {tests['single']['update_limit']} such answers are measured" in output
    assert f"Model: a tree of marginals of at most {DEFAULT_MAX_CELLS:,} cells together" in output
    assert f"[default: {DEFAULT_MAX_CELLS:,}]" in " ".join(run("plan", "--help").stdout.split())
    assert max(map(len, output.splitlines()[2:])) <= 120
    assert len(output.splitlines()) <= 34


def test_the_tree_may_be_bounded_and_the_bars_widened(wide: Path, run: Run) -> None:
    small = run(*WIDE, "--max-cells", "5000").stdout
    assert "at most 5,000 cells together, 40.0 kB." in small
    plain = json.loads(run(*WIDE, "--json").stdout)
    every = json.loads(run(*WIDE, "--simultaneous", "--json").stdout)
    assert every["marginals"]["cell_bound"] > 2 * plain["marginals"]["cell_bound"]
    assert every["orders"][1]["bound"] > 2 * plain["orders"][1]["bound"]
    for wide_one, one in zip(
        every["marginals"]["certificates"], plain["marginals"]["certificates"], strict=True
    ):
        assert wide_one["tested"] == one["tested"]
        if one["tested"]:  # a negative too then holds for all questions, beside all that was measured
            assert one["typical_bound"] < wide_one["typical_bound"] < 2 * one["typical_bound"]


def test_a_small_table_is_measured_whole_and_the_plan_says_so(people: Path, run: Run) -> None:
    result = run(*PLAN, "--epsilon", "1", "--delta", "1e-9")
    assert "Opening: the number of records and the whole table, cell by cell (100.0% of the budget)." in (
        result.stdout
    )
    assert "Tests: none is needed; the measured table covers every question." in result.stdout
    assert "tested" not in result.stdout


def test_a_plan_takes_every_choice_that_opening_takes() -> None:
    def options(command: click.Command) -> dict[str, object]:
        return {parameter.name: parameter.to_info_dict() for parameter in command.params if parameter.name}

    opened, planned = options(open_), options(plan)
    own = {"schema", "as_json"}
    table = {"session", "data", "table", "delimiter", "quote", "missing_text", "trim", "encoding", "decimal"}
    table |= {"memory", "temporary_folder", "inside", "data_is_public"}
    assert planned.keys() - own == opened.keys() - table - {"escape", "verbose"} - {"schema", "as_json"}
    for name in planned.keys() - own:
        assert planned[name] == opened[name], name


def test_the_smallest_epsilon_for_an_accuracy_is_planned(people: Path, run: Run) -> None:
    save_schema(Domain(tuple(IntegerAttribute(name, 0, 7) for name in "ab")), "people.toml")
    result = run(*PLAN, "--accuracy", "0.05", "--json")
    assert result.exit_code == 0
    plan = json.loads(result.stdout)
    assert (plan["accuracy"], plan["bar"], plan["confidence"]) == (0.05, 0.05 * plan["records"], 0.95)
    assert plan["opening"]["whole_table"]
    assert plan["bound"] <= plan["bar"]
    looser = json.loads(run(*PLAN, "--accuracy", "0.05", "--beta", "0.2", "--json").stdout)
    assert looser["confidence"] == 0.8
    assert looser["epsilon"] < plan["epsilon"]
    both = ("--epsilon", str(plan["epsilon"]), "--accuracy", "0.05")
    assert json.loads(run(*PLAN, *both, "--json").stdout) == plan
    assert "Contract: each count within" in run(*PLAN, *both).stdout
    small = run(*PLAN, "--epsilon", str(plan["epsilon"] * 0.9), "--accuracy", "0.05")
    assert small.exit_code == 1
    assert f"the smallest that does is {plan['epsilon']:g}" in small.stderr


def test_a_plan_without_tests_says_so(people: Path, run: Run) -> None:
    result = run(*PLAN, "--epsilon", "1e-7", "--update-limit", "1000", "--opening", "none")
    assert result.exit_code == 0
    assert "Tests: nothing is left for them" in result.stdout
    assert "Delta:" not in result.stdout
    assert "unknown" in result.stdout


def test_a_schema_with_spaces_in_its_name_is_quoted_in_the_next_command(people: Path, run: Run) -> None:
    (people / "people.toml").rename(people / "my people.toml")
    result = run("plan", "--schema", "my people.toml", "--records", "9", "--epsilon", "1")
    assert result.stdout.splitlines()[-1].startswith(
        "Next: pmw open SESSION --data FILE --schema 'my people.toml' --epsilon 1"
    )


def test_cells_beyond_a_billion_are_told_by_two_digits(people: Path, run: Run) -> None:
    save_schema(Domain(tuple(IntegerAttribute(f"a{one}", 0, 9) for one in range(48))), "wide.toml")
    (people / "wide.csv").write_text(",".join(f"a{one}" for one in range(48)) + "\n")
    wide = ("--schema", "wide.toml", "--epsilon", "1", "--delta", "1e-9")
    planned = run("plan", "--records", "9000", *wide)
    assert planned.stdout.startswith("Plan for 'records': 48 attributes, 1 × 10⁴⁸ cells, 9,000 records. ")
    opened = run("open", "wide.pmw", "--data", "wide.csv", *wide)
    assert opened.stdout.startswith("Opened wide.pmw over 'records': 48 attributes, 1 × 10⁴⁸ cells, about ")
    shown = run("status", "wide.pmw").stdout.splitlines()[0]
    assert shown == "table                  records (48 attributes, 1 × 10⁴⁸ cells)"
    refused = run("measure", "wide.pmw", ",".join(f"a{one}" for one in range(12)))
    assert "a11 has 1 × 10¹² cells, and noise would hide what is in more than " in refused.stderr


def test_a_schema_fault_and_a_domain_too_large_are_named(people: Path, run: Run) -> None:
    Path("bad.toml").write_text('[[attributes]]\nname = "a"\nkind = "colour"\n')
    result = run(*PLAN, "--epsilon", "1", "--schema", "bad.toml")
    assert result.exit_code == 1
    assert "bad.toml: attribute 'a': expected kind" in result.stderr
    save_schema(Domain(tuple(IntegerAttribute(name, 0, 999) for name in "abc")), "large.toml")
    for choice in (("--test", "query"), ("--model", "dense")):
        result = run(*PLAN, "--epsilon", "1", "--schema", "large.toml", *choice)
        assert result.exit_code == 1
        assert result.stderr.startswith(
            "Error: the domain has 1,000,000,000 cells; a dense model holds at most 16,777,216: test whole"
        )
        assert len(result.stderr.splitlines()) == 1
    assert run(*PLAN, "--epsilon", "1", "--schema", "large.toml").exit_code == 0


@pytest.mark.parametrize(
    ("given", "first"),
    [
        (("--records", "40000", "--epsilon", "1"), "solved for alpha: alpha = "),
        (("--epsilon", "1", "--accuracy", "0.1"), "solved for n: n = "),
        (("--records", "100000000", "--accuracy", "0.1"), "solved for epsilon: epsilon = "),
    ],
)
def test_the_textbooks_plan_begins_with_theorem_5_and_the_books_theorems_by_number(
    people: Path, run: Run, given: tuple[str, ...], first: str
) -> None:
    options = ("plan", "--schema", "people.toml", "--delta", "1e-9", "--preset", "textbook", *given)
    text = run(*options).stdout
    assert text.startswith(f"Theorem 5 (Kamath, Lecture 9), {first}")
    numbers = re.findall(r"^  Theorem (\d\.\d+), ", text, re.MULTILINE)
    assert numbers == ["4.15", "4.10", "3.27", "3.28", "3.26", "3.24"]
    assert "\nPlan for " in text
    form = json.loads(run(*options, "--json").stdout)
    assert form["theorem"]["solved"] in first
    assert form["theorem"]["records"] == form["records"]


def test_a_theorem_that_is_void_is_one_error_of_the_preset_and_no_promise_of_another_plan(
    people: Path, run: Run
) -> None:
    far = ("plan", "--schema", "people.toml", "--records", "40000", "--epsilon", "300", "--delta", "1e-6")
    refused = run(*far, "--preset", "textbook")
    assert refused.exit_code == 1
    assert refused.stdout == ""
    assert refused.stderr.startswith("Error: the printed scales do not keep epsilon=300, delta=1e-06 with ")
    assert refused.stderr.count("\n") == 1
    assert "its printed noise does not keep this budget" in run(*far, "--test", "query").stdout
