"""The options that fix a session: what ``pmw open`` is given, and what ``pmw plan`` foretells.

The help of these commands has its options under headings.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from pmw.cli.table_options import person_options
from pmw.cli.usage import FILE, budget_part, flag, option, together, typed, wrong_values

if TYPE_CHECKING:
    from pmw.public.expected import ExpectedQuestions
    from pmw.public.options import Options
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
    option(
        "--neighbors",
        "What is hidden: whether one person's records are there, or what they say.",
        click.Choice(["add-remove", "replace-one"]),
        default="add-remove",
    ),
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
    flag(
        "--simultaneous",
        "Error bars that hold for all questions at once, even those chosen after seeing answers; several "
        "times wider. Fixed at opening.",
    ),
)
release_options = together(  # the budget of a release of its own
    option("--epsilon E", "Privacy budget: epsilon > 0.", required=True),
    option("--delta D", "Privacy budget: 0 <= delta < 1.", default="0"),
    option(
        "--neighbors",
        "What is hidden: whether one person's records are there, or what they say.",
        click.Choice(["add-remove", "replace-one"]),
        default="add-remove",
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
