"""Options that contradict each other, or would do nothing: one clear error, and nothing written or spent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

from pmw.cli import main

Run = Callable[..., Result]
TABLE = ("--data", "people.csv", "--schema", "people.toml")
BUDGET = ("--epsilon", "1", "--delta", "1e-9")
OPEN = ("open", "new.pmw", *TABLE, *BUDGET)
PLAN = ("plan", "--schema", "people.toml", "--records", "1000", *BUDGET)
PARQUET = ("--data", "people.parquet", "--schema", "people.toml")
OFFLINE = ("offline", "--workload", "marginals:1", *PARQUET, *BUDGET, "--output", "made.csv")
SESSION_PAIRS = [
    (("--update", "step"), "--update step"),
    (("--threshold", "100"), "--threshold"),
    (("--learning-rate", "0.1"), "--learning-rate"),
    (("--sides", "two-sided"), "--sides"),
    (("--test", "query", "--model", "graphical"), "--model graphical"),
    (("--test", "query", "--max-cells", "100"), "--max-cells"),
    (("--test", "query", "--simultaneous"), "--simultaneous"),
    (("--test", "query", "--learning-rate", "0.1"), "--learning-rate"),
    (("--test", "query", "--neighbors", "replace-one", "--sides", "two-thresholds"), "two thresholds"),
    (("--model", "dense", "--max-cells", "100"), "--max-cells"),
    (("--simultaneous", "--sparse-vector", "laplace"), "simultaneous"),
    (("--delta", "0", "--composition", "zcdp"), "delta > 0 for zCDP"),
    (("--delta", "0", "--composition", "gdp"), "delta > 0 for GDP"),
    (("--delta", "1e-9", "--composition", "gdp", "--sparse-vector", "sech2"), "no price in GDP"),
]
PRESET_PAIRS = [
    (("--test", "marginal"), "--test contradicts --preset textbook"),
    (("--opening", "one-way", "--update", "refit"), "--opening and --update contradict --preset textbook"),
    (("--sparse-vector", "sech2"), "--sparse-vector contradicts"),
    (("--sides", "two-thresholds"), "--sides contradicts"),
    (("--model", "graphical"), "--model contradicts"),
    (("--max-cells", "100"), "--max-cells contradicts"),
    (("--simultaneous",), "--simultaneous contradicts"),
]
CONTRADICTIONS = [
    *[((*command, *options), told) for command in (OPEN, PLAN) for options, told in SESSION_PAIRS],
    *[
        ((*command, "--preset", "textbook", *options), told)
        for command in (OPEN, PLAN)
        for options, told in PRESET_PAIRS
    ],
    ((*OPEN, "--preset", "lecture"), "'lecture' is not"),
    ((*PLAN, "--preset", "textbook", "--accuracy", "0.1"), "give two of --epsilon, --accuracy and --records"),
    (("plan", "--schema", "people.toml", *BUDGET, "--preset", "textbook"), "give two of --epsilon"),
    (("plan", "--schema", "people.toml", *BUDGET), "Missing option '--records'"),
    (("open", "new.pmw", *PARQUET, *BUDGET, "--delimiter", ";"), "--delimiter tells how a CSV"),
    (("open", "new.pmw", *PARQUET, *BUDGET, "--trim", "--quote", "'", "--missing-text", "?"), "--quote"),
    (("check", *PARQUET, "--quote", "'", "--missing-text", "?"), "--quote and --missing-text tell"),
    (
        (*OFFLINE, "--delimiter", ";", "--quote", "'", "--missing-text", "?", "--trim"),
        "--delimiter and --quote and --missing-text and --trim tell",
    ),
    (("check", *PARQUET, "--delimiter", ",", "--trim"), "--delimiter and --trim tell"),
    (("move", "study.pmw", *PARQUET[:2], "--delimiter", ";", "--quote", "'"), "--delimiter and --quote tell"),
    (("move", "study.pmw", *PARQUET[:2], "--trim", "--missing-text", "?"), "--missing-text and --trim tell"),
    ((*PLAN, "--test", "query", "--accuracy", "0.01"), "--epsilon or --accuracy, one of the two"),
    ((*OPEN, "--accuracy", "0.01"), "--accuracy is a fraction of --records"),
    ((*OPEN, "--records", "1000"), "--accuracy is a fraction of --records"),
    ((*OPEN[:6], "--records", "1000"), "give --epsilon or --accuracy"),
    (
        (*OPEN, "--test", "query", "--accuracy", "0.1", "--records", "1000"),
        "--accuracy belongs to --test marginal",
    ),
    ((*OPEN, "--beta", "0.1"), "--beta goes with --accuracy"),
    *(
        ((command, *given, "--encoding", "latin-1", "--decimal", ",", "--escape", "!"), "and --escape tell")
        for command, *given in [
            ("check", *PARQUET),
            ("draft", *PARQUET[:2]),
            ("move", "study.pmw", *PARQUET[:2]),
            ("open", "new.pmw", *PARQUET, *BUDGET),
            OFFLINE,
        ]
    ),
    *(
        ((*command, "--table", "t"), "--table names a table of a database")
        for command in (OPEN, ("check", *TABLE), ("draft", *TABLE[:2]), ("move", "study.pmw", *TABLE[:2]))
    ),
    *(
        (
            (*command, "--data", "spark:local[2]", "--table", "t", *limit),
            "expected no memory limit for a table of Spark",
        )
        for command in (("move", "study.pmw"), ("open", "new.pmw", *TABLE[2:], *BUDGET))
        for limit in (("--memory", "1GB"), ("--temporary-folder", "."))
    ),
    *(
        ((*command, "--inside"), "--inside counts in a database")
        for command in (OPEN, ("move", "study.pmw", *TABLE[:2]))
    ),
    (
        ("move", "study.pmw", "--data", "duckdb:t", "--table", "t", "--inside", "--memory", "1GB"),
        "expected no memory limit for a table that is counted inside",
    ),
    ((*PLAN, "--beta", "0.1"), "--accuracy"),
    ((*PLAN[:5], "--accuracy", "0.1", "--beta", "0.1", "--confidence", "0.9"), "--beta and --confidence"),
    (("ask", "study.pmw"), "one of the four"),
    (("ask", "study.pmw", "", "--sql", "SELECT COUNT(*) FROM people"), "one of the four"),
    (("ask", "study.pmw", "", "--stream"), "one of the four"),
    (("ask", "study.pmw", "--stream", "--workload", "marginals:1"), "one of the four"),
    (("ask", "study.pmw", "--sql", "x", "--stream"), "one of the four"),
    (("ask", "study.pmw", "--sql", "x", "--workload", "marginals:1"), "one of the four"),
    (("ask", "study.pmw", "", "--yes"), "give --within N with it"),
    (("ask", "study.pmw", "", "--format", "csv"), "--format is for --stream and --workload"),
    (("ask", "study.pmw", "--sql", "x", "--format", "csv"), "--format is for --stream and --workload"),
    (("ask", "http://127.0.0.1:1", "--stream", "--format", "csv", "--token-file", "t"), "--format is for a"),
    (("ask", "study.pmw", "", "--within", "9", "--fresh"), "leave --fresh out"),
    (("ask", "study.pmw", "--stream", "--within", "9"), "--within is for one condition"),
    (("export", "study.pmw", "--output", "x.json", "--format", "measurements", "--rows", "3"), "--rows"),
    (("export", "study.pmw", "--output", "x.json", "--format", "measurements", "--seed", "3"), "--seed"),
    (
        ("export", "study.pmw", "--output", "x.json", "--format", "measurements", "--method", "systematic"),
        "--method",
    ),
    (("export", "study.pmw", "--output", "x.json", "--format", "measurements", "--refine"), "--refine"),
    (("status", "study.pmw", "--force"), "--plot"),
    ((*OPEN, "--verbose", "--json"), "--verbose is for words"),
    (("measure", "study.pmw", "sex", "--dry-run", "--yes"), "--dry-run pays nothing"),
    (("audit", "--exact", "--runs", "1000"), "--runs"),
    (("audit", "--exact", "--seed", "3", "--false-alarm", "0.1"), "--false-alarm and --seed belong"),
    (("audit", "--force"), "--plot"),
    (("audit", "--statistical", "--show"), "--show belongs to the exact audit"),
    (
        ("draft", "--data", "people.parquet", "--quote", "'", "--missing-text", "?"),
        "--quote and --missing-text tell",
    ),
    (("draft", "--data", "people.parquet", "--delimiter", ",", "--trim"), "--delimiter and --trim tell"),
    (("draft", "--data", "people.csv", "--data-is-public"), "--data-is-public goes with --from-public"),
    (("demo", "--data", "people.csv"), "--schema"),
    (("demo", "--data-is-public"), "--data-is-public tells of --data"),
    (("demo", "--schema", "people.toml", "--output", "shown"), "--data"),
    (("ask", "study.pmw", "age >= 30", "--token-file", "ann.token"), "--token-file is for the address"),
    (
        ("ask", "http://127.0.0.1:1", "--stream", "--format", "csv", "--token-file", "t"),
        "--format is for a session in a",
    ),
    (("ask", "http://127.0.0.1:1", "--workload", "marginals:1", "--token-file", "t"), "--workload is for a"),
    (("ask", "http://127.0.0.1:1", "age >= 30"), "give --token-file FILE"),
    (("user", "add", "ann", "--users", "users.json"), "an analyst needs --share"),
    (("user", "add", "ann", "--role", "reader", "--share", "0.2", "--users", "u"), "leave --share out"),
]


@pytest.mark.parametrize(("command", "told"), CONTRADICTIONS)
def test_options_that_contradict_each_other_are_refused_by_name_and_nothing_is_written(
    study: Path, run: Run, command: tuple[str, ...], told: str
) -> None:
    (study.parent / "people.parquet").write_bytes(b"PAR1")
    before = {file: file.read_bytes() for file in study.parent.iterdir() if file.is_file()}
    result = run(*command)
    assert result.exit_code == 2, result.output
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert told in line
    assert result.stdout == ""
    assert {file: file.read_bytes() for file in study.parent.iterdir() if file.is_file()} == before
    assert [folder for folder in study.parent.iterdir() if folder.is_dir()] == []


# Options that have an effect whatever else is given; the others stand in a contradiction above.
ALWAYS = {
    "--json", "--help", "--version", "--output", "--data", "--schema", "--epsilon", "--delta", "--neighbors",
    "--records-per-person", "--person-column", "--test", "--opening", "--update-limit", "--queries",
    "--sparse-vector",
    "--composition", "--records", "--anchor", "--yes", "--abandon", "--long", "--query-seed", "--fresh",
    "--strict", "--strict-cells", "--plot", "--statistical", "--exact", "--format",
    "--confidence", "--model", "--update",
}  # fmt: skip
WITH_EFFECT = (
    {("ask", "--wait"), ("close", "--wait"), ("draft", "--from-public"), ("move", "--wait")}
    | {(command, "--data-is-public") for command in ("offline", "open")}
    | {("shell", "--wait"), ("shell", "--no-history")}
    | {(command, "--force") for command in ("demo", "export", "report")}
    | {
        ("offline", f"--{name}")
        for name in ("workload", "rounds", "threshold", "rows", "force", "memory", "temporary-folder")
    }
    | {("measure", "--wait")}
    | {("serve", f"--{name}") for name in ("users", "host", "port", "rate")}
    | {("finish", "--wait"), ("finish", "--dry-run"), ("finish", "--yes")}
)


@pytest.mark.parametrize("name", main.list_commands(click.Context(main)))
def test_every_option_has_an_effect_or_is_refused_where_it_has_none(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    tried = {word for words, _ in CONTRADICTIONS if words[0] == name for word in words}
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            option = parameter.opts[0]
            known = option in ALWAYS or (name, option) in WITH_EFFECT or option in tried
            assert known, (
                f"pmw {name} {option}: list with what it contradicts, or that it always has an effect"
            )
