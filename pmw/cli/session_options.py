"""The options that fix a session: what ``pmw open`` is given, and what ``pmw plan`` foretells.

The help of these commands has its options under headings.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pmw.cli.table_options import person_options
from pmw.cli.usage import budget_part, together, typed, wrong_values

if TYPE_CHECKING:
    from pmw.public.options import ExpectedQuestions, Options
    from queries.domain import Domain


_SECTIONS = {
    "The table": (
        "data", "table", "schema", "inside", "delimiter", "quote", "missing_text", "trim", "encoding",
        "decimal", "escape", "memory", "temporary_folder", "data_is_public", "prior",
        "prior_is_public",
    ),
    "The promise": (
        "epsilon", "delta", "neighbors", "records_per_person", "person_column", "person_clip", "accuracy",
        "beta", "records", "confidence", "simultaneous", "reserve", "expect",
    ),
    "For experts": (
        "preset", "test", "opening", "update", "model", "max_cells", "update_limit", "threshold",
        "learning_rate", "queries", "sparse_vector", "sides", "composition",
    ),
}  # fmt: skip
_REST = "Options"
session_options = together(  # the budget and all choices of a session
    click.option(
        "--epsilon",
        metavar="E",
        help="Privacy budget: epsilon > 0. Required, unless --accuracy chooses it. pmw plan compares "
        "several, such as 0.5,1,2.",
    ),
    click.option(
        "--preset",
        type=click.Choice(["textbook"]),
        help="textbook: the loop of the lecture notes, by NumericSparse: --test query --opening none "
        "--update step --sparse-vector laplace-rounds --sides two-sided.",
    ),
    click.option(
        "--delta",
        default="0",
        show_default=True,
        metavar="D",
        help="Privacy budget: 0 <= delta < 1. A small one, such as 1e-9, gains much accuracy, and opening "
        "then measures all pairs of attributes, which an export needs. --delta 0 says that none is meant.",
    ),
    click.option(
        "--neighbors",
        type=click.Choice(["add-remove", "replace-one"]),
        default="add-remove",
        show_default=True,
        help="What is hidden: whether one person's records are there, or what they say.",
    ),
    person_options,
    click.option(
        "--test",
        type=click.Choice(["marginal", "query"]),
        default="marginal",
        show_default=True,
        help="What is tested and measured: whole marginals, or single questions as in the textbooks.",
    ),
    click.option(
        "--opening",
        type=click.Choice(["pairs", "triples", "one-way", "none"]),
        default="pairs",
        show_default=True,
        help="Measured before the first question: one-attribute marginals, and all pairs where that leaves "
        "smaller errors than testing them; all pairs and all triples; one-attribute marginals alone; or "
        "nothing.",
    ),
    click.option(
        "--update",
        type=click.Choice(["refit", "step"]),
        default="refit",
        show_default=True,
        help="After a positive: refit to all measurements, or one textbook step (with --test query).",
    ),
    click.option(
        "--model",
        type=click.Choice(["auto", "dense", "graphical"]),
        default="auto",
        show_default=True,
        help="One array over all cells, or a tree of measured marginals, which holds any domain; "
        "auto: dense where the domain is small.",
    ),
    click.option(
        "--max-cells",
        type=int,
        metavar="N",
        help="The most cells of a graphical model's tree; a marginal that would exceed them answers "
        "questions about its own attributes only. [default: 2,097,152]",
    ),
    click.option("--update-limit", type=int, metavar="C", help="Number of positives. [default: planned]"),
    click.option(
        "--threshold",
        type=float,
        metavar="T",
        help="With --test query: error that a test looks for, in records. [default: planned]",
    ),
    click.option(
        "--learning-rate",
        type=float,
        metavar="ETA",
        help="With --test query: length of the textbook step. [default: planned]",
    ),
    click.option(
        "--queries",
        type=int,
        default=10_000,
        show_default=True,
        metavar="N",
        help="About how many questions will come; sets thresholds, is no limit. 0 keeps nothing for them.",
    ),
    click.option(
        "--sparse-vector",
        type=click.Choice(["exponential", "exponential-rounds", "laplace", "laplace-rounds", "sech2"]),
        help="The tests: their noise, and threshold noise drawn once or again after each positive (rounds). "
        "[default: exponential-rounds with delta, else exponential]",
    ),
    click.option(
        "--sides",
        type=click.Choice(["two-thresholds", "two-sided"]),
        help="With --test query: two one-sided tests of a question, or one of the absolute error. "
        "[default: two-thresholds under add-remove]",
    ),
    click.option(
        "--composition",
        type=click.Choice(["gdp", "zcdp", "pure"]),
        help="How charges add up. [default: planned]",
    ),
    click.option(
        "--confidence", type=float, default=0.95, show_default=True, metavar="P", help="Of error bars."
    ),
    click.option(
        "--accuracy",
        type=float,
        metavar="ALPHA",
        help="An accuracy contract: every count within this fraction of --records, at --confidence, or "
        "refused. Without --epsilon the smallest one that keeps it is taken.",
    ),
    click.option(
        "--beta", type=float, metavar="B", help="With --accuracy: how often a bar may fail, for --confidence."
    ),
    click.option(
        "--records",
        type=int,
        metavar="N",
        help="About how many records the table has: a public number, such as a published one, never one "
        "counted for the purpose.",
    ),
    click.option(
        "--reserve",
        metavar="P%",
        callback=budget_part,
        help="The part of the budget that is kept for what is asked, such as 30%: a question whose error bar "
        "is wide is paid for, and a number of its own makes the bar narrow. With --delta, where opening "
        "measures all pairs or the whole table. Default: 30% where it measures all pairs, else 0.",
    ),
    click.option(
        "--expect",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Public questions that will be asked: conditions, statements, or JSON Lines, one "
        "a line, or each up to a semicolon. Half of what opening spends goes by them; other bars are at most "
        "1.42 times as wide. A file that was written after a look at the table tells of it, such as its rare "
        "values.",
    ),
    click.option(
        "--simultaneous",
        is_flag=True,
        help="Error bars that hold for all questions at once, even those chosen after seeing answers; "
        "several times wider. Fixed at opening.",
    ),
)
release_options = together(  # the budget of a release of its own
    click.option("--epsilon", required=True, metavar="E", help="Privacy budget: epsilon > 0."),
    click.option(
        "--delta", default="0", show_default=True, metavar="D", help="Privacy budget: 0 <= delta < 1."
    ),
    click.option(
        "--neighbors",
        type=click.Choice(["add-remove", "replace-one"]),
        default="add-remove",
        show_default=True,
        help="What is hidden: whether one person's records are there, or what they say.",
    ),
)
_TEXTBOOK = {  # as in Options.textbook
    "test": "query",
    "opening": "none",
    "update": "step",
    "sparse_vector": "laplace-rounds",
    "sides": "two-sided",
}
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
    """Take the confidence from --beta."""
    if given["accuracy"] is None:
        raise click.UsageError("--beta goes with --accuracy; use --confidence otherwise")
    if typed("confidence"):
        raise click.UsageError("--beta and --confidence say the same; give one of the two")
    if not 0 < given["beta"] < 1:
        raise click.UsageError(f"expected a beta strictly between 0 and 1, got {given['beta']!r}")
    given["confidence"] = 1 - given["beta"]
