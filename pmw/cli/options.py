"""Options that commands share: the table and whose records it has, the budget, the choices of a session."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pmw.cli.usage import FILE, PATH, budget_part, echo, flag, option, together, typed, wrong_values

if TYPE_CHECKING:
    from pmw.data import CsvDialect, MemoryLimit, Place, TableFile
    from pmw.data.drafting import PublicTable
    from pmw.planning.session_plan import SessionPlan
    from pmw.public.options import DraftCharge, ExpectedQuestions, Options
    from queries.domain import Domain


_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?([kmgt]i?|)b", re.IGNORECASE)
_LEAST = 10**6  # bytes
_MOST = 10**15
DIALECT = ("delimiter", "quote", "missing_text", "trim", "encoding", "decimal", "escape")  # its options
_NOT_IN_A_NAME = re.compile(r"[^\w. -]")
_WORDS = {"tab": "\t", "\\t": "\t"}  # that a shell types more easily than the character
dialect_options = together(
    option("--delimiter CHAR", "CSV: between fields, or 'tab'.", default=","),
    option("--quote CHAR", "CSV: around fields; '' for none.", default='"'),
    option("--missing-text TEXT", "CSV: a text that means empty; repeatable.", multiple=True),
    flag("--trim", "CSV: drop spaces around fields."),
    option("--encoding NAME", "CSV: of the text, such as latin-1 or cp1252.", default="utf-8"),
    option("--decimal CHAR", "CSV: before fractions: . or ,", default="."),
    option("--escape CHAR", "CSV: before a character taken as it is.", default=""),
)
person_options = together(
    option(
        "--records-per-person K",
        "The most records of one person: so many of each are kept where there is a column of ids; declared, "
        "not checked, where there is none.",
        int,
        default=1,
    ),
    option(
        "--person-column NAME",
        "The column of ids, which tell whose a record is. [default: that of the schema's [person]]",
    ),
    option(
        "--person-clip ATTRIBUTE=C",
        "In sums of values, those of one person count C together at most; repeatable. [default: clip of the "
        "schema's [person]]",
        multiple=True,
    ),
)


def _size(_: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    written = _SIZE.fullmatch(value.strip())
    if written is None:
        raise click.BadParameter(f"expected a size such as 512MB or 4GB, got {value!r}", param=parameter)
    unit = written[2].lower()
    size = int(float(written[1]) * (1024 if unit.endswith("i") else 1000) ** " kmgt".index(unit[:1] or " "))
    if not _LEAST <= size <= _MOST:
        raise click.BadParameter(f"expected a size from 1MB to 1000TB, got {value!r}", param=parameter)
    return size


memory_options = together(
    option(
        "--memory SIZE",
        "Memory that the table's records may take, such as 4GB; beyond it they are kept in a file without a "
        "name. [default: half of the machine's]",
        callback=_size,
    ),
    option("--temporary-folder FOLDER", "Where that file is made. [default: TMPDIR, or the system's]", PATH),
)


inside_option = flag(
    "--inside",
    "Count in the database, DuckDB or Postgres, and read no record; for columns of whole "
    "numbers, double precision, booleans and declared texts, without persons.",
)
public_option = flag(
    "--data-is-public",
    "Say, without being asked, that the table may be the very one that domains were read "
    "off; required for that without a terminal.",
)


reading_options = together(dialect_options, memory_options, inside_option)  # how the table is read


def memory_given(given: dict[str, Any]) -> MemoryLimit | None:
    """Return the limit that the options tell; None where none of them is given."""
    size, folder = given.get("memory"), given.get("temporary_folder")
    if size is None and folder is None:
        return None
    from pmw.data import MemoryLimit

    with wrong_values():
        return MemoryLimit(size, folder)


class TableName(click.Path):
    """A file, or the address of a database, which is kept as it was typed."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        from pmw.data.tables import is_address

        if isinstance(value, str) and is_address(value):
            return value
        return super().convert(value, parameter, context)


database_option = option("--table NAME", "Of a database: the table or view; of Spark also parquet.PATH.")
table_options = together(
    option(
        "--data",
        "The table: CSV, Parquet (a file, a folder, a pattern), duckdb:FILE, postgresql://HOST/DATABASE, "
        "spark://HOST:PORT or spark:local[2].",
        TableName(path_type=Path),
        required=True,
    ),
    database_option,
)


class _Schema(click.Option):
    """A required schema: where it is left out, the error tells how to come by one."""

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        try:
            return super().process_value(ctx, value)
        except click.MissingParameter:
            raise click.MissingParameter(_draft_hint(ctx), ctx, self) from None


schema_option = option("--schema", "Its schema, a TOML file.", PATH, cls=_Schema, required=True)


def _draft_hint(context: click.Context) -> str:
    """Return how to come by the schema of a table: it lies there, or is drafted as the table was typed."""
    from pmw.data import DatabaseTable

    data, table = (context.params.get(name) for name in ("data", "table"))
    if not isinstance(data, str | Path):
        return "Draft one to fill in: pmw draft --data TABLE > SCHEMA"
    words = list(_typed_again(context))
    if isinstance(data, Path):
        name = _NOT_IN_A_NAME.sub("", data.stem).strip(".") or "schema"
    else:
        if not isinstance(table, str):
            table = "TABLE"
            words.append("--table TABLE")
        with wrong_values():  # above all one with a password, before anything shows it again
            DatabaseTable(data, table)
        name = table
    file = shlex.quote(f"{name}.toml")
    if Path(f"{name}.toml").exists():
        return f"If {file} is it, give --schema {file}"
    return f"Draft one to fill in: pmw draft {' '.join(words)} > {file}"


def _typed_again(context: click.Context) -> Iterator[str]:
    given = click.core.ParameterSource.COMMANDLINE
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in ("data", "table", *DIALECT) and context.get_parameter_source(name) is given:
            value = context.params[name]
            for one in value if isinstance(value, tuple) else (value,):
                option = "--data" if name == "data" else parameter.opts[0]  # an argument of some commands
                yield option if one is True else f"{option} {shlex.quote(str(one))}"


def place_given(given: dict[str, Any], data: Path | str) -> Place:
    """Return where the options say that the table is."""
    from pmw.data import DatabaseTable, TableFile

    if isinstance(data, Path):
        if given["table"] is not None:
            raise click.UsageError(
                f"--table names a table of a database, and {data} is a file; "
                f"leave it out, or name duckdb:{data} where it is a database"
            )
        if given.get("inside"):
            raise click.UsageError(f"--inside counts in a database, and {data} is a file; leave it out")
        return TableFile(data, dialect_of(given, data), memory_given(given))
    if named := typed(*DIALECT):
        raise click.UsageError(f"{' and '.join(named)} belong to CSV files, and the table is in a database")
    if given["table"] is None:
        raise click.UsageError("the table is in a database; name it with --table")
    with wrong_values():
        return DatabaseTable(data, given["table"], memory_given(given), given.get("inside", False))


def dialect_of(given: dict[str, Any], table: Path) -> CsvDialect:
    """Return the dialect that the options name, or else the schema."""
    from pmw.data import CsvDialect, TableFile
    from pmw.errors import DataError
    from queries.errors import SchemaError
    from queries.schema import load_file_facts

    schema, is_parquet = click.get_current_context().params.get("schema"), TableFile(table).is_parquet
    facts = {} if schema is None or is_parquet else load_file_facts(schema)
    named = typed(*DIALECT)
    if named and is_parquet:
        verb, them = ("tells", "it") if len(named) == 1 else ("tell", "them")
        raise click.UsageError(
            f"{' and '.join(named)} {verb} how a CSV file is written, and {table} is Parquet; "
            f"leave {them} out"
        )

    told = (given[name] if typed(name) else facts.get(name, given[name]) for name in DIALECT)
    delimiter, quote, missing, *rest = told
    try:
        return CsvDialect(_WORDS.get(delimiter, delimiter), quote, tuple(missing), *rest)
    except DataError as error:
        if named:
            raise click.UsageError(str(error)) from None
        raise SchemaError(f"[file]: {error}", path=str(schema)) from None


def load_domain(schema: Path, given: dict[str, Any]) -> Domain:
    """Return the domain of a schema, with the persons that the schema and the options declare."""
    from pmw.errors import BudgetError
    from pmw.public.contract import agreed
    from pmw.public.options import Options
    from queries.schema import load_schema

    domain, records = load_schema(schema), given["records_per_person"]
    declared = None if domain.person is None else domain.person.records
    if declared not in (None, records) and typed("records_per_person"):
        raise BudgetError(
            f"the schema's [person] keeps {declared} records of each, and --records-per-person {records} is "
            "given; give one number, or leave it out in one place"
        )
    with wrong_values():
        options = Options(person_column=given["person_column"], records_per_person=records)
    domain = agreed(domain, options)[0]
    return _clipped(domain, given["person_clip"]) if given.get("person_clip") else domain


def _clipped(domain: Domain, clips: Sequence[str]) -> Domain:
    if domain.person is None:
        raise click.UsageError("--person-clip needs a column of ids, which tell whose a value is")
    found = domain.person.clip
    for text in clips:
        name, sign, most = text.rpartition("=")
        try:
            found[name] = float(most)
        except ValueError:
            sign = ""
        if not sign:
            raise click.UsageError(f"--person-clip: expected ATTRIBUTE=C such as amount=10000, got {text!r}")
    return replace(domain, person=replace(domain.person, clips=tuple(found.items())))


def declared_public(file: TableFile, place: Place, given: dict[str, Any]) -> PublicTable:
    """Return the table of --from-public, if the one in --data is another, or declared public too."""
    from pmw.data.drafting import PublicTable, are_marked, file_marks

    marks, declared = file_marks(file), given["data_is_public"]
    same = declared or are_marked(place, marks)
    if same and not declared:
        _require_yes(f"{file} is the table in --data, or has the same bytes: the draft would hold its values")
    return PublicTable(file, marks, same)


def refuse_drafted(schema: Path, place: Place, given: dict[str, Any]) -> None:
    """Refuse a table that the domains of its schema were read off, unless it is declared public.

    Privacy: nothing is drawn yet, and what is compared is the whole file with one that was declared public.
        With --data-is-public nothing is compared.
    """
    from pmw.data.drafting import are_marked
    from queries.schema import load_drafted_from

    marks = () if given["data_is_public"] else load_drafted_from(schema)
    if marks and are_marked(place, marks):
        _require_yes(f"the domains of {schema} were read off this very table: they hold its values")


def _require_yes(found: str) -> None:
    from pmw.errors import DataError

    if not sys.stdin.isatty():
        raise DataError(
            f"{found}; read domains off a table that is public, or fill in a draft without --from-public. If "
            "the table is public itself, say so with --data-is-public"
        )
    echo(f"{found[0].upper()}{found[1:]}.", err=True)
    click.confirm("Is the table public, so that nobody in it needs protection", abort=True, err=True)


# --- the budget and the choices of a session --------------------------------------------------------------

_SECTIONS = {
    "The table": (
        "data", "table", "schema", "inside", "delimiter", "quote", "missing_text", "trim", "encoding",
        "decimal", "escape", "memory", "temporary_folder", "data_is_public", "prior",
        "prior_is_public",
    ),
    "The promise": (
        "epsilon", "delta", "neighbors", "records_per_person", "person_column", "person_clip", "accuracy",
        "beta", "records", "confidence", "simultaneous", "reserve", "expect", "minimum_count",
    ),
    "For experts": (
        "preset", "test", "opening", "update", "model", "max_cells", "update_limit", "threshold",
        "learning_rate", "queries", "sparse_vector", "sides", "composition",
    ),
}  # fmt: skip
_REST = "Options"
draft_option = option(
    "--draft FILE",
    "The file of the drafts by privacy of the schema, as pmw draft named it: their charges "
    "are part of the contract.",
    FILE,
)
_neighbors = option(
    "--neighbors",
    "What is hidden: whether one person's records are there, or what they say.",
    click.Choice(["add-remove", "replace-one"]),
    default="add-remove",
)
session_options = together(  # the budget and all choices of a session
    option(
        "--epsilon E",
        "Privacy budget: epsilon > 0. Required, unless --accuracy chooses it. pmw plan compares several, "
        "such as 0.5,1,2.",
    ),
    option(
        "--preset",
        "textbook: the loop of the lecture notes, by NumericSparse: --test query --opening none --update "
        "step --sparse-vector laplace-rounds --sides two-sided.",
        click.Choice(["textbook"]),
    ),
    option(
        "--delta D",
        "Privacy budget: 0 <= delta < 1. A small one, such as 1e-9, gains much accuracy, and opening then "
        "measures all pairs of attributes, which an export needs. --delta 0 says that none is meant.",
        default="0",
    ),
    _neighbors,
    person_options,
    option(
        "--test",
        "What is tested and measured: whole marginals, or single questions as in the textbooks.",
        click.Choice(["marginal", "query"]),
        default="marginal",
    ),
    option(
        "--opening",
        "Measured before the first question: one-attribute marginals, and all pairs where that leaves "
        "smaller errors than testing them; all pairs and all triples; one-attribute marginals alone; or "
        "nothing.",
        click.Choice(["pairs", "triples", "one-way", "none"]),
        default="pairs",
    ),
    option(
        "--update",
        "After a positive: refit to all measurements, or one textbook step (with --test query).",
        click.Choice(["refit", "step"]),
        default="refit",
    ),
    option(
        "--model",
        "One array over all cells, or a tree of measured marginals, which holds any domain; auto: dense "
        "where the domain is small.",
        click.Choice(["auto", "dense", "graphical"]),
        default="auto",
    ),
    option(
        "--max-cells N",
        "The most cells of a graphical model's tree; a marginal that would exceed them answers questions "
        "about its own attributes only. [default: 2,097,152]",
        int,
    ),
    option("--update-limit C", "Number of positives. [default: planned]", int),
    option(
        "--threshold T",
        "With --test query: error that a test looks for, in records. [default: planned]",
        float,
    ),
    option(
        "--learning-rate ETA", "With --test query: length of the textbook step. [default: planned]", float
    ),
    option(
        "--queries N",
        "About how many questions will come; sets thresholds, is no limit. 0 keeps nothing for them.",
        int,
        default=10_000,
    ),
    option(
        "--sparse-vector",
        "The tests: their noise, and threshold noise drawn once or again after each positive (rounds). "
        "[default: exponential-rounds with delta, else exponential]",
        click.Choice(["exponential", "exponential-rounds", "laplace", "laplace-rounds", "sech2"]),
    ),
    option(
        "--sides",
        "With --test query: two one-sided tests of a question, or one of the absolute error. [default: "
        "two-thresholds under add-remove]",
        click.Choice(["two-thresholds", "two-sided"]),
    ),
    option("--composition", "How charges add up. [default: planned]", click.Choice(["gdp", "zcdp", "pure"])),
    option("--confidence P", "Of error bars.", float, default=0.95),
    option(
        "--accuracy ALPHA",
        "An accuracy contract: every count within this fraction of --records, at --confidence, or refused. "
        "Without --epsilon the smallest one that keeps it is taken.",
        float,
    ),
    option("--beta B", "With --accuracy: how often a bar may fail, for --confidence.", float),
    option(
        "--records N",
        "About how many records the table has: a public number, such as a published one, never one counted "
        "for the purpose.",
        int,
    ),
    option(
        "--reserve P%",
        "The part of the budget that is kept for what is asked, such as 30%: a question whose error bar is "
        "wide is paid for, and a number of its own makes the bar narrow. With --delta, where opening "
        "measures all pairs or the whole table. Default: 30% where it measures all pairs, else 0.",
        callback=budget_part,
    ),
    option(
        "--expect FILE",
        "Public questions that will be asked: conditions, statements, or JSON Lines, one a line, or each up "
        "to a semicolon. Half of what opening spends goes by them; other bars are at most 1.42 times as "
        "wide. A file that was written after a look at the table tells of it, such as its rare values.",
        FILE,
    ),
    option(
        "--minimum-count K",
        "Numbers that may be of fewer than K persons are not shown, nor what would tell one within a table. "
        "A rule of display, beside the guarantee and no part of it. Fixed at opening.",
        int,
    ),
    flag(
        "--simultaneous",
        "Error bars that hold for all questions at once, even those chosen after seeing answers; several "
        "times wider. Fixed at opening.",
    ),
)
release_options = together(  # the budget of a release of its own
    option("--epsilon E", "Privacy budget: epsilon > 0.", required=True),
    option("--delta D", "Privacy budget: 0 <= delta < 1.", default="0"),
    _neighbors,
)
_TEXTBOOK = {
    "test": "query", "opening": "none", "update": "step", "sparse_vector": "laplace-rounds",
    "sides": "two-sided",
}  # fmt: skip  # as in Options.textbook
_OF_QUERIES = ("threshold", "learning_rate", "sides")  # options of --test query
_OF_MARGINALS = ("max_cells", "simultaneous")  # options of --test marginal


class SectionedCommand(click.Command):
    """A command whose help has the options of a session by what they are about, and its own last."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section."""
        titles = {name: title for title, names in _SECTIONS.items() for name in names}
        rows: dict[str, list[tuple[str, str]]] = {title: [] for title in (*_SECTIONS, _REST)}
        for parameter in self.get_params(ctx):
            row = parameter.get_help_record(ctx)
            if row is not None and isinstance(parameter, click.Option):
                rows[titles.get(parameter.name or "", _REST)].append(row)
        for title, listed in rows.items():
            if listed:
                with formatter.section(title):
                    formatter.write_dl(listed)


def read_options(given: dict[str, Any]) -> Options:
    """Return the choices that a command was given."""
    if given["beta"] is not None:
        _take_beta(given)
    if given["preset"] is not None:
        _take_preset(given)
    _refuse_misplaced(given)
    from pmw.public.options import Options

    names = {field.name for field in fields(Options) if field.name not in ("seed", "prior")} & given.keys()
    if given["accuracy"] is None or given["records"] is None or given["test"] != "marginal":
        names -= {"accuracy", "records"}  # with --test query a plan has an accuracy, and a session none
    with wrong_values():
        return Options(
            neighboring_relation=given["neighbors"],
            expected_queries=given["queries"],
            **{name: given[name] for name in names},
        )


def expected_given(given: dict[str, Any], domain: Domain) -> ExpectedQuestions | None:
    """Return the questions of --expect; None where it is not given. No table is looked at."""
    if given["expect"] is None:
        return None
    from pmw.session.expected import expected_questions

    try:
        return expected_questions(given["expect"], domain)
    except OSError as error:
        raise click.ClickException(f"{given['expect']}: the file cannot be read: {error.strerror}") from None


def _take_preset(given: dict[str, Any]) -> None:
    """Take the choices of the textbook's loop, unless another of them was typed."""
    names = (*_TEXTBOOK, "model", "max_cells", "simultaneous")
    wanted = {**_TEXTBOOK, "model": given["model"] if given["model"] == "dense" else "auto"}
    other = [name for name in names if typed(name) and given[name] != wanted.get(name)]
    if other:
        raise click.UsageError(
            f"{' and '.join(typed(*other))} {'contradicts' if len(other) == 1 else 'contradict'} --preset "
            "textbook, which tests single questions two-sided by laplace-rounds, from a uniform start, with "
            f"one step a positive; leave {'it' if len(other) == 1 else 'them'} or the preset out"
        )
    given.update(_TEXTBOOK)


def _refuse_misplaced(given: dict[str, Any]) -> None:
    """Refuse options that belong to the other kind of test, by the names that were typed."""
    marginal = given["test"] == "marginal"
    misplaced = [
        f"--{name.replace('_', '-')}"
        for name in (_OF_QUERIES if marginal else _OF_MARGINALS)
        if given[name] not in (None, False)
    ]
    if marginal and given["update"] == "step":
        misplaced.insert(0, "--update step")
    if not marginal and given["model"] == "graphical":
        misplaced.insert(0, "--model graphical")
    if misplaced:
        other, named = "query" if marginal else "marginal", " and ".join(misplaced)
        verb, them = ("belongs", "it") if len(misplaced) == 1 else ("belong", "them")
        raise click.UsageError(f"{named} {verb} to --test {other}; choose that, or leave {them} out")
    if given["learning_rate"] is not None and given["update"] != "step":
        raise click.UsageError("--learning-rate is the length of a step; give --update step with it")
    if given["model"] == "dense" and given["max_cells"] is not None:
        raise click.UsageError("--max-cells is for a graphical model; leave it out with --model dense")


def _take_beta(given: dict[str, Any]) -> None:
    if given["accuracy"] is None:
        raise click.UsageError("--beta goes with --accuracy; use --confidence otherwise")
    if typed("confidence"):
        raise click.UsageError("--beta and --confidence say the same; give one of the two")
    if not 0 < given["beta"] < 1:
        raise click.UsageError(f"expected a beta strictly between 0 and 1, got {given['beta']!r}")
    given["confidence"] = 1 - given["beta"]


def note_delta(lost: str, usual: SessionPlan, gained: str) -> None:
    """Say what is lost where nobody gave a delta, and what a usual one gains."""
    told = f"Note: no --delta was given, so it is 0{lost}. With --delta {delta_of(usual)} {gained}."
    echo(f"{told} --delta 0 says that none is meant.", err=True)


def delta_of(plan: SessionPlan) -> str:
    """Return the delta of a plan as it is typed."""
    return f"{float(plan.contract.budget.delta):g}"


def drafts_given(given: dict[str, Any]) -> tuple[DraftCharge, ...]:
    """Return what the drafts of --draft were charged; none where it is not given."""
    from pmw.session.store.draft_file import read_charges

    return () if given["draft"] is None else read_charges(given["draft"])
