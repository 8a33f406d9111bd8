"""What is refused: one clear error, nothing written or spent, no traceback, and a stream goes on.

Hostile input with its exact message is in ``refusals.json``: conditions and lines of a stream with code,
message and position; commands with exit code and message; schemas with what follows the file's name in the
message. A line's bytes are written as Latin-1; a long input is written as what it repeats. Options that
cannot be, contradict each other or would do nothing stand here, with a part of the message.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import pytest

from pmw.cli import main
from pmw.session.maintenance import read_session
from queries import CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute, save_schema
from tests.pmw.cli.commands import TABLE, Run

INPUTS: dict[str, list[list[Any]]] = json.loads(Path(__file__).with_name("refusals.json").read_text())


def whole(text: str | dict[str, Any]) -> str:
    """Return an input as it is given."""
    if isinstance(text, str):
        return text
    return "".join((text["before"], text["repeat"] * text["times"], whole(text["after"])))


CONDITIONS = [(whole(text), *rest) for text, *rest in INPUTS["conditions"]]
LINES = [(whole(text).encode("latin-1"), *rest) for text, *rest in INPUTS["lines"]]
if sys.version_info >= (3, 13):
    # The parser has words of its own for a comma before the end, and points at it.
    OLDER = ("expected JSON: Expecting property name enclosed in double quotes", 13)
    NEWER = ("expected JSON: Illegal trailing comma before end of object", 12)
    LINES = [(line, code, *(NEWER if tuple(told) == OLDER else told)) for line, code, *told in LINES]
COMMANDS = [(tuple(arguments), *rest) for arguments, *rest in INPUTS["commands"]]
SCHEMAS = [tuple(row) for row in INPUTS["schemas"]]

BUDGET = ("--epsilon", "1", "--delta", "1e-9")
OPEN = ("open", "new.pmw", *TABLE, *BUDGET)
NO_BUDGET = ("plan", "--schema", "people.toml", "--records", "1000")
PLAN = (*NO_BUDGET, *BUDGET)
PARQUET = ("--data", "bad.parquet", "--schema", "people.toml")
OFFLINE = ("offline", "--workload", "marginals:1", *TABLE, *BUDGET, "--output", "made.csv")
EXPORT = ("export", "study.pmw", "--output", "rows.csv")
OF_A_DATABASE, OF_SPARK = ("--data", "duckdb:p.duckdb"), ("--data", "spark:local[2]", "--table", "t")
SERVICE = ("ask", "http://127.0.0.1:1")


def each(commands: tuple[tuple[str, ...], ...], *rows: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Return rows of options as rows of each of some commands."""
    return [((*command, *options), *rest) for options, *rest in rows for command in commands]


# Arguments, a part of the message, and the exit code where it is not that of wrong usage.
REFUSED: list[tuple[Any, ...]] = [
    # --- the choices of a session, which opening and a plan read alike ---
    *each(
        (PLAN,),
        (("--test", "query", "--learning-rate", "0.1"), "--learning-rate"),
        (("--test", "query", "--neighbors", "replace-one", "--sides", "two-thresholds"), "two thresholds"),
        (("--simultaneous", "--sparse-vector", "laplace"), "simultaneous"),
        (("--delta", "0", "--composition", "gdp"), "delta > 0 for GDP"),
        (("--delta", "1e-9", "--composition", "gdp", "--sparse-vector", "sech2"), "no price in GDP"),
        (("--delta", "1e-9", "--reserve", "30%", "--simultaneous"), "a reserve does not go with simult"),
        (("--delta", "1e-9", "--reserve", "100%"), "expected a reserve in [0, 1), got 1"),
        (("--reserve", "much"), "expected a part of the budget from 0 to 100%"),
        (("--expect", "bad.jsonl"), "line 2: unknown attribute 'agee'", 4),
        (("--expect", "none.jsonl"), "expected a question, got none", 4),
        (("--expect", "none.sql"), "'none.sql' does not exist"),
        (("--sides", "sideways"), "'sideways' is not one of"),
        (("--preset", "lecture"), "'lecture' is not"),
    ),
    *each(
        ((*OPEN, "--preset", "textbook"),),
        (("--test", "marginal"), "--test contradicts --preset textbook"),
        (("--opening", "one-way", "--update", "refit"), "--opening and --update contradict --preset textb"),
        (("--sparse-vector", "sech2"), "--sparse-vector contradicts"),
        (("--sides", "two-thresholds"), "--sides contradicts"),
        (("--model", "graphical"), "--model contradicts"),
        (("--max-cells", "100"), "--max-cells contradicts"),
        (("--simultaneous",), "--simultaneous contradicts"),
    ),
    *each(
        (NO_BUDGET,),
        (("--epsilon", "1", "--queries", "0", "--test", "query"), "expected_queries has to be above 0"),
        (("--epsilon", "1", "--delta", "1e-9", "--queries", "0", "--reserve", "9%"), "expected_queries = 0"),
        ((), "give --epsilon or --accuracy, or both"),
        (("--test", "query", *BUDGET, "--accuracy", "0.1"), "give --epsilon or --accuracy, one of the two"),
        (("--accuracy", "0"), "expected an accuracy strictly between 0 and 1, got accuracy=0.0"),
        (("--accuracy", "1e-9"), "no epsilon up to 1000 keeps every bound within 1e-07% of the records;", 1),
        (("--epsilon", "1", "--beta", "0.1"), "--beta goes with --accuracy; use --confidence otherwise"),
        (("--accuracy", "0.1", "--beta", "2"), "expected a beta strictly between 0 and 1, got 2.0"),
        (("--accuracy", "0.1", "--beta", "0.1", "--confidence", "0.9"), "--beta and --confidence say the s"),
    ),
    *each(
        ((*NO_BUDGET, "--delta", "1e-9", "--epsilon"),),
        (("0.5,,2",), "--epsilon: expected numbers such as 1 or 0.5,1,2; one between commas is missing"),
        (("1,1",), "--epsilon: expected each budget once, got 1,1"),
        (("1,nan",), "expected a finite number for epsilon, got 'nan'"),
        (("1;2",), "expected a finite number for epsilon, got '1;2'"),
        (("0,5",), "expected epsilon > 0, got epsilon=0"),
        ((",".join(map(str, range(1, 51))),), "--epsilon: expected at most 6 budgets, got 50"),
        (("1,1e-12",), "epsilon 1e-12: the budget is too small to measure anything; choose a larger", 1),
        (
            ("1,2", "--accuracy", "0.1"),
            "--accuracy plans one budget; give one --epsilon, or leave --accuracy",
        ),
        (("1,2", "--preset", "textbook"), "--preset plans one budget; give one --epsilon, or leave"),
    ),
    ((*OPEN[:6], "--epsilon", "1,2"), "expected a finite number for epsilon, got '1,2'"),
    ((*PLAN, "--preset", "textbook", "--accuracy", "0.1"), "give two of --epsilon, --accuracy and --records"),
    (("plan", "--schema", "people.toml", *BUDGET, "--preset", "textbook"), "give two of --epsilon"),
    (("plan", "--schema", "people.toml", *BUDGET), "Missing option '--records'"),
    ((*OPEN, "--accuracy", "0.01"), "--accuracy is a fraction of --records"),
    ((*OPEN, "--records", "1000"), "--accuracy is a fraction of --records"),
    ((*OPEN[:6], "--records", "1000"), "give --epsilon or --accuracy"),
    ((*OPEN, "--test", "query", "--accuracy", "0.1", "--records", "9"), "--accuracy belongs to --test marg"),
    ((*OPEN, "--beta", "0.1"), "--beta goes with --accuracy"),
    ((*OPEN, "--schema", "absent.toml", "--delta", "2"), "delta"),  # before any file is looked at
    ((*OPEN, "--verbose", "--json"), "--verbose is for words"),
    ((*OPEN, "--wait", "3"), "No such option '--wait'"),
    # --- the table ---
    *each(
        (OPEN,),
        (("--person-column", "nobody"), "expected one column 'nobody' in the first line, got no such ", 1),
        (("--person-column", "age"), "expected a column that is no attribute, got 'age'", 1),
        (("--person-column", ""), "expected a printable name of a column, got ''", 1),
        (("--person-clip", "age=3"), "--person-clip needs a column of ids"),
        (("--prior", "nothere.model", "--prior-is-public"), "'nothere.model' does not exist"),
        *(
            (("--memory", size), "expected a size")
            for size in ("", "4", "4G", "-1GB", "1e9B", "999kB", "1001TB", "NaNGB")
        ),
    ),
    (("open", "new.pmw", *PARQUET, *BUDGET, "--delimiter", ";"), "--delimiter tells how a CSV"),
    (("open", "new.pmw", *PARQUET, *BUDGET, "--trim", "--quote", "'", "--missing-text", "?"), "--quote"),
    *each(
        (("check", *PARQUET), ("draft", *PARQUET[:2]), ("move", "study.pmw", *PARQUET[:2])),
        (("--quote", "'", "--missing-text", "?"), "--quote and --missing-text tell"),
        (("--delimiter", ",", "--trim"), "--delimiter and --trim tell"),
    ),
    *each(
        (
            ("check", *PARQUET),
            ("draft", *PARQUET[:2]),
            ("move", "study.pmw", *PARQUET[:2]),
            ("open", "new.pmw", *PARQUET, *BUDGET),
            (*OFFLINE, *PARQUET),
        ),
        (("--encoding", "latin-1", "--decimal", ",", "--escape", "!"), "and --escape tell"),
    ),
    (
        (*OFFLINE, *PARQUET, "--delimiter", ";", "--quote", "'", "--missing-text", "?", "--trim"),
        "--delimiter and --quote and --missing-text and --trim tell",
    ),
    *each(
        (OPEN, ("check", *TABLE), ("draft", *TABLE[:2]), ("move", "study.pmw", *TABLE[:2])),
        (("--table", "t"), "where it is a database"),
    ),
    *each(
        (("check", *TABLE[2:]), ("move", "study.pmw"), ("draft",)),
        (OF_A_DATABASE, "name it with --table"),
        ((*OF_A_DATABASE, "--table", "t", "--trim"), "--trim belong to CSV files"),
        ((*OF_A_DATABASE, "--table", "a."), "expected the name of a table"),
    ),
    *each(
        (("move", "study.pmw"), ("open", "new.pmw", *TABLE[2:], *BUDGET)),
        ((*OF_SPARK, "--memory", "1GB"), "no memory limit for a table of Spa"),
        ((*OF_SPARK, "--temporary-folder", "."), "no memory limit for a table of Spa"),
        ((*TABLE[:2], "--inside"), "--inside counts in a database"),
    ),
    (
        ("move", "study.pmw", *OF_A_DATABASE, "--table", "t", "--inside", "--memory", "1GB"),
        "expected no memory limit for a table that is counted inside",
    ),
    (("move", "study.pmw", *TABLE[:2], "--wait", "nan"), "expected a finite number"),
    (("move", "study.pmw", *TABLE[:2], "--delimiter", ";"), "expected one column 'age'", 1),
    (("move", "people.csv", *TABLE[:2]), "the file is no session file, or it is damaged", 5),
    (("draft", *TABLE[:2], "--data-is-public"), "--data-is-public goes with --from-public"),
    (
        ("draft", *PARQUET[:2], "--look"),
        "--look is for CSV files, and bad.parquet stores its types",
    ),
    (
        ("draft", "--data", "duckdb:d.db", "--table", "t", "--look"),
        "--look is for CSV files, and t in duckdb:d.db",
    ),
    (
        ("draft", *TABLE[:2], "--look", "--bounds", "age", "--epsilon", "1"),
        "leave --look and --interactive out",
    ),
    (
        ("draft", *TABLE[:2], "--interactive"),
        "--interactive needs a terminal, and does not go with",
    ),
    *each(
        (("draft", *TABLE[:2]),),
        (("--bounds", "age"), "--bounds needs --epsilon"),
        (("--bounds", "age", "--epsilon", "1", "--delta", "1e-9"), "--delta goes with --keys"),
        (("--bounds", "age", "--epsilon", "1", "--dry-run"), "--dry-run goes with --keys"),
        (("--bounds", "age", "--epsilon", "1", "--from-public", "header.csv"), "--bounds costs privacy"),
        (("--bounds", "age", "--epsilon", "1", "--neighbors", "else"), "'else' is not one of"),
        (("--keys", "sex"), "--keys needs --epsilon"),
        (("--keys", "sex", "--epsilon", "1"), "--keys needs --delta above 0"),
        *(((name, "1e-9"), f"{name} goes with --bounds or --keys") for name in ("--delta", "--epsilon")),
        (("--draft", "x.draft"), "--draft goes with --bounds or --keys"),
        (("--dry-run",), "--dry-run goes with --bounds or --keys"),
    ),
    (("demo", *TABLE[:2]), "give --data and --schema together"),
    (("demo", *TABLE[2:], "--output", "shown"), "give --data and --schema together"),
    (("demo", "--data-is-public"), "--data-is-public tells of --data"),
    (("demo", "--epsilon", "0"), "epsilon"),
    (("demo", "--query-seed", "-1"), "--query-seed"),
    # --- questions ---
    (("ask", "study.pmw", "", "--sql", "SELECT COUNT(*) FROM people"), "one of the four"),
    (("ask", "study.pmw", "--stream", "--workload", "marginals:1"), "one of the four"),
    (("ask", "study.pmw", "--sql", "x", "--workload", "marginals:1"), "one of the four"),
    *each(
        (("ask", "study.pmw", "", "--at-most"), ("measure", "study.pmw", "sex", "--at-most")),
        (("101%",), "expected a part of the budget from 0 to 100%, such as 2%"),
    ),
    (("ask", "study.pmw", "", "--format", "csv"), "--format is for --stream and --workload"),
    (("ask", "study.pmw", "--sql", "x", "--format", "csv"), "--format is for --stream and --workload"),
    (("ask", "study.pmw", "", "--within", "9", "--fresh"), "leave --fresh out"),
    (("ask", "study.pmw", "--stream", "--within", "9"), "--within is for one condition"),
    (("ask", "study.pmw", "", "--within", "0"), "above 0, or a part such as 2%, got '0'"),
    (("ask", "study.pmw", "", "--wait", "nan"), "expected a finite number"),
    (("ask", "study.pmw", "age >= 30", "--token-file", "ann.token"), "--token-file is for the address"),
    (("measure", "study.pmw", "sex", "--token-file", "ann.token"), "--token-file is for the address"),
    (("status", "study.pmw", "--token-file", "ann.token"), "--token-file is for the address"),
    (("mcp", "study.pmw", "--token-file", "ann.token"), "--token-file is for the address"),
    (("mcp", "study.pmw", "--token-file", "-"), "standard input is the client's"),
    (("mcp", "study.pmw", "--total", "1%"), "--total is for questions of up to --at-most each"),
    (("mcp", "study.pmw", "--at-most", "200%"), "expected a part of the budget from 0 to 100%"),
    (("ask", "study.pmw", "age >= 30", "--request-id", "k"), "--request-id is for a bar that is paid once"),
    ((*SERVICE, "age >= 30"), "give --token-file FILE"),
    (
        (*SERVICE, "age >= 30", "--population", "--token-file", "t"),
        "--population is for a session or a model",
    ),
    (("ask", "study.pmw", "SELECT COUNT(*) FROM people"), "expected a condition, got a statement", 4),
    *each(
        (("ask", "study.pmw", "age >= 30", "--explain"),),
        (("--fresh",), "--explain answers nothing; leave --fresh out"),
        (("--within", "10"), "--explain answers nothing; leave --within out"),
        (("--population",), "--explain answers nothing; leave --population out"),
    ),
    (("ask", "study.pmw", "--stream", "--explain"), "--explain is for one condition or statement"),
    *each(
        (("ask", "study.pmw", "--workload"),),
        (("marginal:2",), "did you mean 'marginals'?", 4),
        (("ranges:height",), "unknown attribute 'height'", 4),
    ),
    *each(
        (("ask", "study.pmw", "--sql"),),
        (("SELECT AVG(sex) FROM people",), "AVG needs numbers, 'sex' holds none", 4),
        (("SELECT AVG(age) / 0 FROM people",), "a division by 0", 4),
        (("SELECT SUM(1e400) FROM people",), "expected numbers of at most 1e+100", 4),
        (
            ("SELECT * FROM people",),
            "a list of records is not supported; write SELECT sex, member, COUNT(*) FROM",
            4,
        ),
    ),
    (("measure", "study.pmw", "sex", "--request-id", ""), "request_id must be a text", 4),
    (("measure", "study.pmw"), "give attributes whose counts are measured, or --sum"),
    (("measure", "study.pmw", "sex", "--sum", "age"), "give attributes whose counts are measured, or --sum"),
    (("measure", "study.pmw", "sex", "--by", "age"), "--by goes with --sum"),
    (("measure", "study.pmw", "sex", "--share", "3%"), "--share goes with a question, --sum or --heads"),
    (("measure", "study.pmw", "sex", "--within", "3%"), "--within goes with a question, --sum or --heads"),
    (("measure", "study.pmw", "sex", "--squares"), "--squares goes with --sum"),
    (("measure", "study.pmw", "--sum", "age", "--share", "3%", "--within", "3"), "leave one of the two out"),
    (("measure", "study.pmw", "--sum", "age"), "the values of 'age' are not summed", 4),
    (("measure", "study.pmw", "height"), "expected an attribute of the schema, got 'height'", 4),
    (("measure", "study.pmw", "sex,sex"), "each once", 4),
    (("measure", "study.pmw", ""), "expected an attribute", 4),
    # --- files that are written ---
    *each(
        (("export", "study.pmw", "--output", "x.json", "--format", "measurements"),),
        (("--where", "age = 30"), "has no rows: leave out --rows, --where, --method and --seed"),
        (("--method", "systematic"), "has no rows: leave out --rows, --where, --method and --seed"),
        (("--croissant",), "has no rows: leave out --croissant"),
    ),
    ((*EXPORT, "--rows", "0"), "rows"),
    (("export", "study.pmw", "--output", "rows.csv.gz"), ".csv, .parquet, .pq"),
    ((*EXPORT[:3], ".", "--force"), "expected a file to write, got the folder", 1),
    ((*EXPORT[:3], "people.csv/x.csv", "--force"), "the file cannot be written", 1),
    (("report", "study.pmw", "-o", "people.csv"), "people.csv exists; choose another name", 1),
    (("report", "study.pmw", "-o", "absent/r.html"), "the file cannot be written: No such file", 1),
    (("report", "text.pmw", "-o", "r.html"), "the file is no session file, or it is damaged", 5),
    (("status", "study.pmw", "--force"), "give --plot FILE with it"),
    (("backup", "study.pmw", "--output", "people.csv"), "people.csv exists", 1),
    (("backup", "people.csv", "--output", "new.pmw"), "the file is no session file", 5),
    (("close", "people.csv"), "the file is no session file", 5),
    (("shell", "absent.pmw"), "expected a session file, found none", 1),
    # --- no session ---
    *each(
        (("audit",),),
        (("nothing-like-it",), "expected the name of a mechanism"),
        (("sparse", "--runs", "10"), "--runs"),
        (("sparse", "--false-alarm", "0"), "--false-alarm"),
        (("--exact", "--runs", "1000"), "--runs belongs to the statistical audit"),
        (("--exact", "--seed", "3", "--false-alarm", "0.1"), "--false-alarm and --seed belong"),
        (("--force",), "give --plot FILE"),
        (("--statistical", "--show"), "--show belongs to the exact audit"),
        (("sparse", "--plot", "audit.txt"), "expected a picture file"),
    ),
    *each(
        (OFFLINE,),
        (("--workload", "marginals"), "expected marginals:ORDER or marginals:NAME", 4),
        (("--workload", "missing.jsonl"), "expected a workload of the kind", 4),
        (("--workload", "one.jsonl"), "expected a workload of at least two different questions", 4),
        (("--workload", "bad.jsonl"), "line 2: unknown attribute 'agee'", 4),
        (("--workload", "none.jsonl"), "expected a workload of questions to choose among, got none", 4),
        (("--rounds", "0"), "expected rounds from 1 to 1,000,000"),
        (("--threshold", "-1"), "expected a positive threshold"),
        (("--rows", "-1"), "rows"),
        (("--output", "header.csv"), "header.csv exists; choose another name", 1),
        (("--output", "made.txt"), "expected a name that ends in .csv"),
        (("--output", "none/made.csv"), "expected a folder that is there, got none"),
        (("--output", "people.csv", "--force"), "--output would overwrite people.csv"),
    ),
    *each(
        (("user", "add", "ann", "--users", "users.json"),),
        ((), "an analyst needs --share"),
        (("--role", "reader", "--share", "0.2"), "leave --share out"),
        (("--share", "0.2", "--sessions", ","), "expected names of sessions"),
        (("--share", "0.2", "--expires", "tomorrow"), "does not match"),
        (("--share", "0.2", "--role", "king"), "is not one of"),
        (("--at-most", "1.1"), "expected a part of the budget from 0 to 100%"),
        *(
            (("--share", part), "expected a part of the budget from 0 to 100%")
            for part in ("-0.1", "1.1", "101%", "nan", "inf", "x", "1/0", "1e999999999", "1e-2000", "%", "")
        ),
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a session, its table, and files that are not what they should be."""
    generator = np.random.default_rng(20)
    domain = Domain(
        (
            IntegerAttribute("age", 20, 59, 4),
            CategoricalAttribute("sex", ("Female", "Male")),
            CategoricalAttribute("region", ("north", "east", "south", "west"), other=True, missing=True),
            CategoricalAttribute("member", (True, False)),
            NumericAttribute("income", (0, 10_000, 25_000, 50_000)),
        ),
        name="people",
    )
    frame = pd.DataFrame(
        {
            "age": generator.integers(18, 62, 300),
            "sex": generator.choice(["Female", "Male"], 300),
            "region": generator.choice(["north", "east", "abroad"], 300),
            "member": generator.random(300) < 0.5,
            "income": generator.integers(0, 60_000, 300),
        }
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("refusals"))
        frame.to_csv("people.csv", index=False)
        save_schema(domain, "people.toml")
        Run().told("open", "study.pmw", *TABLE, *BUDGET, "--opening", "one-way")
        _write_what_should_not_be()
        yield Path.cwd()


def _write_what_should_not_be() -> None:
    texts = {
        "empty.csv": "", "header.csv": "age,sex\n", "noheader.csv": "20,Female,north,true,3\n",
        "dup.csv": "age,age,sex,region,member,income\n", "bad.parquet": "no parquet", "zero.pmw": "",
        "text.pmw": "hello\n" * 100, "none.jsonl": "\n", "one.jsonl": '{"where": "age >= 30"}\n' * 2,
        "bad.jsonl": '{"where": "age >= 30"}\n{"where": "agee >= 30"}\n',
    }  # fmt: skip
    for name, text in texts.items():
        Path(name).write_text(text)
    Path("bin.csv").write_bytes(bytes(range(256)) * 10)
    Path("latin.toml").write_bytes('name = "é"\n'.encode("latin-1"))
    shutil.copy("study.pmw", "newer.pmw")
    for name, statement in (("newer.pmw", "PRAGMA user_version = 99"), ("other.pmw", "CREATE TABLE t (x)")):
        with sqlite3.connect(name) as connection:
            connection.execute(statement)
        connection.close()
    Path("cut.pmw").write_bytes(Path("study.pmw").read_bytes()[:5000])


@pytest.fixture
def refused(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Run a command in that folder, and return its error once nothing was found written."""
    monkeypatch.chdir(folder)

    def content(*, all_of_it: bool) -> dict[str, Any]:
        """Return what is there; of the session the size alone, unless all of it."""
        beside = ("-lock", "-wal", "-shm", "-companion")
        files = [path for path in folder.rglob("*") if all_of_it or not path.name.endswith(beside)]
        return {
            path.name: path.stat().st_size
            if path.name == "study.pmw" and not all_of_it
            else path.read_bytes()
            for path in files
            if path.is_file()
        }

    def invoked(*arguments: str, code: int) -> str:
        before = content(all_of_it=code == 2)
        result = run(*arguments)
        assert result.exit_code == code, result.output
        assert result.stdout == ""
        *usage, line = [line for line in result.stderr.splitlines() if not line.startswith("  ")]
        assert bool(usage) == (code == 2) or arguments[0] == "check"
        assert line.startswith("Error: ")
        assert content(all_of_it=code == 2) == before
        return line.removeprefix("Error: ")

    return invoked


@pytest.mark.parametrize(("arguments", "code", "message"), COMMANDS, ids=lambda value: str(value)[:60])
def test_hostile_commands_are_refused_in_one_line(
    refused: Callable[..., str], arguments: tuple[str, ...], code: int, message: str
) -> None:
    assert refused(*arguments, code=code) == message


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: " ".join(row[0])[:80])
def test_options_that_cannot_be_or_contradict_each_other_are_refused(
    refused: Callable[..., str], row: tuple[Any, ...]
) -> None:
    arguments, message, *code = row
    assert message in refused(*arguments, code=code[0] if code else 2)


@pytest.mark.parametrize(("schema", "message"), SCHEMAS, ids=lambda value: value[-40:])
def test_schemas_are_refused_by_attribute_and_key(
    refused: Callable[..., str], schema: str, message: str
) -> None:
    Path("bad.toml").write_text(schema)
    commands = (("open", "x.pmw", *TABLE[:2], *BUDGET), ("check", *TABLE[:2]), ("plan", *PLAN[3:]))
    for command in commands if schema == SCHEMAS[0][0] else commands[:1]:
        assert refused(*command, "--schema", "bad.toml", code=1) == f"bad.toml{message}"


# --- every option ------------------------------------------------------------------------------------------

# Options that have an effect whatever else is given; the others stand in a refusal above.
ALWAYS = {
    "--json", "--help", "--version", "--output", "--data", "--schema", "--epsilon", "--delta", "--neighbors",
    "--records-per-person", "--person-column", "--test", "--opening", "--update-limit", "--queries",
    "--sparse-vector", "--composition", "--records", "--anchor", "--yes", "--abandon", "--long",
    "--query-seed", "--fresh", "--strict", "--strict-cells", "--plot", "--statistical", "--exact", "--format",
    "--confidence", "--model", "--update", "--person-clip", "--minimum-count",
}  # fmt: skip
WITH_EFFECT = {
    "ask": "wait", "close": "wait", "move": "wait", "measure": "wait sum heads dry-run",
    "mcp": "wait", "shell": "wait no-history", "finish": "wait dry-run",
    "draft": "from-public bounds keys dry-run draft", "open": "data-is-public draft",
    "demo": "force", "export": "force", "report": "force registry",
    "serve": "users host port rate postgres behind-tls audit assistants-at-most", "verify": "audit",
    "synthesize": "data-is-public draft rows session expect target force inside memory "
    "temporary-folder report no-report table delimiter quote missing-text trim encoding decimal escape",
    "offline": "data-is-public workload rounds threshold rows force memory temporary-folder",
}  # fmt: skip


@pytest.mark.parametrize("name", main.list_commands(click.Context(main)))
def test_every_option_has_an_effect_or_is_refused_where_it_has_none(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    # What one takes the other does, in test_plan_command.py.
    alike = ("open", "plan") if name in ("open", "plan") else (name,)
    tried = {word for words, *_ in (*REFUSED, *COMMANDS) if words[0] in alike for word in words}
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            option = parameter.opts[0]
            known = option in ALWAYS | {f"--{one}" for one in WITH_EFFECT.get(name, "").split()} | tried
            assert known, (
                f"pmw {name} {option}: list with what it contradicts, or that it always has an effect"
            )


# --- questions ---------------------------------------------------------------------------------------------


@pytest.fixture
def study(folder: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the session in the working folder, beside a copy of its table."""
    for name in ("study.pmw", "study.pmw-companion", "people.csv", "people.toml"):
        shutil.copy(folder / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    run.told("move", "study.pmw", "--data", "people.csv")
    return tmp_path / "study.pmw"


def refused_in_a_stream(study: Path, run: Run, lines: list[bytes]) -> list[dict[str, Any]]:
    """Return the objects of refused lines, after which one is answered."""
    before = read_session(study)[1]
    result = run("ask", "study.pmw", "--stream", stdin=b"\n".join([*lines, b'{"id": "last", "where": ""}']))
    assert result.exit_code == 0
    assert result.stderr == f"{len(lines)} of {len(lines) + 1} questions were refused, at no cost\n"
    *forms, last = [json.loads(line) for line in result.stdout.splitlines()]
    assert last["fraction"] == 1.0
    after = read_session(study)[1]
    assert (after.budget_share, after.queries_answered) == (before.budget_share, 1)
    return forms


def test_conditions_are_refused_one_by_one_and_the_stream_goes_on(study: Path, run: Run) -> None:
    lines = [json.dumps({"id": place, "where": row[0]}).encode() for place, row in enumerate(CONDITIONS)]
    for place, form in enumerate(refused_in_a_stream(study, run, lines)):
        _, code, message, position = CONDITIONS[place]
        error = {"code": code, "message": message, "position": position}
        assert form == {"id": place, "error": error}, lines[place][:80]
        if place % 20 == 0:
            alone = run.refused("ask", "study.pmw", "--", CONDITIONS[place][0], code=4)
            assert alone.startswith(f"Error: {message}")


def test_lines_are_refused_one_by_one_and_the_stream_goes_on(study: Path, run: Run) -> None:
    forms = refused_in_a_stream(study, run, [row[0] for row in LINES])
    for form, (line, code, message, position) in zip(forms, LINES, strict=True):
        assert form["error"] == {"code": code, "message": message, "position": position}, line[:80]


# --- the disk ----------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind the superuser")
def test_missing_permissions_are_told(study: Path, run: Run) -> None:
    study.chmod(0o000)
    result = run("ask", "study.pmw", "age >= 32")
    assert result.exit_code in (1, 5)
    assert result.stderr.startswith("Error: ")
    study.chmod(0o600)
    Path("people.csv").chmod(0o000)
    refused = run.refused("open", "y.pmw", *TABLE, "--epsilon", "1")
    assert refused == "Error: people.csv: the file could not be read as CSV\n"


@pytest.mark.parametrize(
    ("arguments", "interrupted"),
    [
        (("backup", "study.pmw", "--output", "copy.pmw"), "pmw.session.maintenance.backup_session"),
        (("ask", "study.pmw", "age < 30"), "pmw.session.session.Session.ask_all"),
        (("verify", "study.pmw"), "pmw.session.maintenance.verify_session"),
    ],
)
def test_ctrl_c_has_an_exit_code_of_its_own(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], interrupted: str
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(folder)
    monkeypatch.setattr(interrupted, interrupt)
    result = run(*arguments)
    assert result.exit_code == 130
    assert result.stderr == "interrupted; everything printed so far is durable\n"
