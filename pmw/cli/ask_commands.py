"""``pmw ask`` and ``pmw measure``: answers, or a table on request; what is paid for has its price first."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from pmw.cli.session_files import (
    connected,
    is_address,
    opened,
    require_address,
    resumed,
    token_option,
    wait_option,
)
from pmw.cli.usage import budget_part, echo, flag, json_line, json_option, option

if TYPE_CHECKING:
    from pmw.cli.answering import StreamOptions
    from pmw.public.answer import Answer
    from pmw.public.quotes import Quote, Within
    from pmw.public.tables import AnswerTable
    from pmw.session.asking import Asking
    from pmw.session.requests import Part
    from pmw.session.session import Session


def _width(_: click.Context, parameter: click.Parameter, value: str | None) -> Within | None:
    if value is None:
        return None
    from pmw.errors import BudgetError
    from pmw.public.quotes import Within

    try:
        return Within.parse(value)
    except BudgetError as error:
        raise click.BadParameter(str(error), param=parameter) from None


def _at_most(told: str) -> Callable[[Any], Any]:
    """Return the option --at-most, with what its help says of 0."""
    text = (
        "The most of the budget that one question, or what is measured, may charge; above it a terminal is "
        f"asked, and others are refused. {told}  [default: a tenth of what may be spent]"
    )
    return option("--at-most P%", text, callback=budget_part)


@contextmanager
def _as_json(wanted: bool) -> Iterator[None]:
    """Print why a question is refused as an answer would be, where JSON is wanted, and exit with 4."""
    from queries.errors import QueryError

    try:
        yield
    except QueryError as error:
        if not wanted:
            raise
        echo(json_line({"error": error.to_dict()}))
        sys.exit(4)


@click.command(
    "ask",
    short_help="Answer a question, a stream of them, or a workload.",
    epilog="""\b
Examples:
  pmw ask study.pmw "age BETWEEN 30 AND 39 AND sex = 'Female'"
  pmw ask study.pmw "income >= 50000 OR NOT education IN ('HS-grad', 'Some-college')" --json
  pmw ask study.pmw --sql "SELECT sex, COUNT(*) FROM people WHERE age >= 65 GROUP BY sex"
  pmw ask study.pmw --stream < questions.jsonl > answers.jsonl
  pmw ask study.pmw --workload marginals:2 > cells.jsonl
  pmw ask study.pmw "sex = 'Female' AND age >= 65" --within 100
  pmw ask study.pmw --sql "SELECT sex, AVG(age) FROM people GROUP BY sex" --explain
  pmw ask study.model "age >= 65"
  pmw ask http://127.0.0.1:8000/sessions/study "age >= 65" --token-file ann.token
\b
A stream has one question per line, each an object:
  {"id": 1, "where": "age >= 65"}
  {"id": 2, "where": {"age": {"between": [30, 39]}, "sex": {"in": ["Female"]}}}
  {"id": 3, "sql": "SELECT sex, COUNT(*) FROM people GROUP BY sex"}
Each line is answered in order; a bad one gets an error object and the stream goes on.
\b
Workloads:
  marginals:2            every cell of every table of two attributes
  marginals:age,sex      every cell of one table
  prefixes:age           the cumulative counts of an ordered attribute
  ranges:age             every range of an ordered attribute
  random:1000:7          1,000 random conjunctions, drawn with seed 7
""",
)
@click.argument("session", type=click.Path())  # or an address
@click.argument("where", required=False)
@option("--sql TEXT", "Ask a statement: SELECT COUNT(*) FROM ….")
@flag("--stream", "Read questions from standard input, one JSON object per line.")
@option("--workload NAME", "Ask a whole workload; answers as JSON Lines.")
@option(
    "--format",
    "How --stream and --workload write their answers: JSON Lines unless told, rows of CSV, or a Parquet "
    "file to standard output.",
    click.Choice(["jsonl", "csv", "parquet"]),
)
@flag("--fresh", "Ask a newer model, or for tests not yet made, what was answered before.")
@flag("--strict", "Exit with 3 when an answer is exhausted, with 4 when one is unverified.")
@flag("--strict-cells", "Refuse conditions that cut a cell of the schema.")
@flag(
    "--population",
    "Also tell an interval for the population that the table is a simple random sample of; conditions "
    "only, free.",
)
@option(
    "--within N|P%",
    "Answer counts within ± N records or P% of all records, or AVG and SUM within ± N of their own unit or "
    "P% of the answer, and pay the price where there is one. Of AVG and SUM, whether P% is met depends on "
    "a drawn number, so that a little more may miss.",
    callback=_width,
)
@_at_most("0 takes the free answer.")
@option(
    "--request-id KEY", "With --within: idempotency key; run again with it, the command pays nothing more."
)
@flag(
    "--explain",
    "Tell which counts are asked, what is held of them and what they may cost; ask and spend nothing.",
)
@token_option
@wait_option
@json_option("Print the answer, or why it is refused, as JSON.")
def ask(session: str, where: str | None, wait: float, **given: Any) -> None:
    """Answer the question WHERE from SESSION: how many records satisfy a condition?

    The condition is written as in SQL: comparisons of attributes and values, BETWEEN, IN, LIKE, IS NULL,
    arithmetic, CASE, AND, OR, NOT; or as an object, as in a stream. An empty one counts everybody. With
    --sql a whole statement is asked, and GROUP BY lists every declared value. A question that was answered
    before gets the same answer, free, or a newer model's once its error bar is narrower by a tenth.

    With --population a second interval is told: of the fraction of the population that the condition holds
    for, where the table is a simple random sample of people. It holds for a question that was chosen without
    looking at anything about the table.

    With --explain nothing is asked: it is told which counts the question becomes, what is held of each, and
    what they may charge at most.

    With --within N the error bar is N records at most. Where the bar is narrow enough as it is, the answer
    is free. Else the number of the question itself is measured, or a table of counts that holds it where
    that costs at most twice as much; of a statement the counts of all groups, together. Of one AVG or SUM
    the values of each group's records are summed, whatever its condition; all groups are paid for together.

    What could charge more than --at-most is paid for after a yes on a terminal. In other cases the exit code
    is 4, the price is told and nothing is spent. It is a tenth of what is left, or of the share, unless told,
    for a question, a statement or a bar; a stream and a workload of a session in a file may charge all that
    is left. A stored answer is free, and never refused.

    SESSION may be a model too, as `pmw export --format model` writes it: it answers offline and free, as far
    as what was released goes. It may be the address of a session of `pmw serve`, such as
    http://127.0.0.1:8000/sessions/study, with --token-file; whose share pays is told by the token.

    One process at a time answers from a session; others wait for it to end, as long as --wait says. The other
    commands read a session that is in use without waiting.
    """
    asked = [where is not None, given["sql"] is not None, given["stream"], given["workload"] is not None]
    file = " (--stream reads the lines of standard input: < FILE)" if given["stream"] and where else ""
    if sum(asked) != 1:
        raise click.UsageError(f"give a condition, --sql, --stream or --workload, one of the four{file}")
    _check(given)
    require_address(session, given["token_file"])
    from pmw.session.store.connection import is_model_file

    is_model = not is_address(session) and is_model_file(Path(session))
    if is_address(session) and given["population"]:
        raise click.UsageError(
            "--population is for a session or a model in a file; leave it out, or ask a model"
        )
    if is_model and given["within"] is not None:
        raise click.UsageError("--within may measure, and a model measures nothing; ask the session")
    if is_model and given["explain"]:
        raise click.UsageError("--explain tells what may be charged, and a model charges nothing")
    with (
        _as_json(given["as_json"]),
        opened(session, given["token_file"], wait, as_json=given["as_json"]) as found,
    ):
        code = _answer(found, where, given)
    sys.exit(code)


def _check(given: dict[str, Any]) -> None:
    many, within = given["stream"] or given["workload"] is not None, given["within"] is not None
    one = "is for one condition or statement; give WHERE or --sql with it"
    idle = [name for name in ("fresh", "strict", "population", "within") if given[name] not in (None, False)]
    if given["format"] is not None and not many:
        raise click.UsageError("--format is for --stream and --workload; leave it out, or give one of them")
    if given["format"] == "parquet" and sys.stdout.isatty():
        raise click.UsageError("a Parquet file is not for a terminal; write it to a file: > answers.parquet")
    if within and many:
        raise click.UsageError(f"--within {one}")
    if within and given["fresh"]:
        raise click.UsageError("--within answers again in any case; leave --fresh out")
    if given["request_id"] is not None and not within:
        raise click.UsageError("--request-id is for a bar that is paid once; give --within N with it")
    if given["explain"] and many:
        raise click.UsageError(f"--explain {one}")
    if given["explain"] and idle:
        raise click.UsageError(f"--explain answers nothing; leave --{''.join(idle[:1])} out")


def _answer(session: Asking, where: str | None, given: dict[str, Any]) -> int:
    from pmw.cli.answering import StreamOptions, answer_stream, answer_workload

    names = ("fresh", "strict", "strict_cells", "population", "at_most")
    options = StreamOptions(format=given["format"] or "jsonl", **{name: given[name] for name in names})
    if given["stream"]:
        return answer_stream(session, sys.stdin.buffer, options)
    if given["workload"] is not None:
        from queries.workloads import parse_workload

        return answer_workload(session, parse_workload(given["workload"], session.domain), options)
    return _answer_one(session, where or "", options, given)


def _answer_one(session: Asking, where: str, options: StreamOptions, given: dict[str, Any]) -> int:
    """Answer, or explain, one condition or statement."""
    from pmw.cli.answering import condition_of, exit_code_of, paid, read_condition, require_accepted
    from pmw.cli.texts import answer_text, table_text, terminal_width
    from pmw.public.answer import Answer
    from queries.linear import LinearQuery
    from queries.parsing import parse_sql

    sql, within, population = given["sql"], given["within"], None
    asked = read_condition(where, session.domain) if sql is None else parse_sql(sql, session.domain)
    require_accepted(asked, options)
    if given["explain"]:
        found = cast("Session", session).explain(asked)
        echo(json_line(found.to_dict()) if given["as_json"] else found.to_text(terminal_width()))
        return 0

    def ask(most: Part) -> Answer | AnswerTable:
        how = {"request_id": given["request_id"], "at_most": most}
        if isinstance(asked, LinearQuery):
            if within is not None:
                return session.ask_within(asked, within, **how)
            return session.ask_all([condition_of(where)], fresh=options.fresh, at_most=most)[0]
        if within is not None:
            return session.sql_within(asked, within, **how)
        return session.tabulate(asked, fresh=options.fresh, at_most=most)

    answer = paid(session, options.at_most, ask)
    form = answer.to_dict()
    if options.population and isinstance(answer, Answer) and isinstance(asked, LinearQuery):
        from pmw.cli.answer_formats import population_form

        population = session.population_interval(asked) if answer.has_count else None
        form |= population_form(population)
    if given["as_json"]:
        echo(json_line(form))
    else:
        echo(answer_text(answer, population) if isinstance(answer, Answer) else table_text(answer))
    return exit_code_of(answer, strict=options.strict)


@click.command(
    "measure",
    short_help="Measure a table of counts now, or tell its price.",
    epilog="""\b
Examples:
  pmw measure study.pmw sex,race --dry-run
  pmw measure study.pmw sex,race
  pmw measure study.pmw sex,race --at-most 3% --json
  pmw measure study.pmw sex,race --at-most 3% --request-id monday
  pmw measure http://127.0.0.1:8000/sessions/study sex,race --dry-run --token-file ann.token
  pmw measure study.pmw "age >= 65 AND region = 'north'" --within 100 --dry-run
  pmw measure study.pmw --sum amount --by region --within 2% --dry-run
  pmw measure study.pmw --heads --by region --dry-run
""",
)
@click.argument("session", type=click.Path())  # or an address
@click.argument("attributes", metavar="[ATTRIBUTE[,ATTRIBUTE…]|WHERE|SELECT…]", required=False)
@option(
    "--sum ATTRIBUTE",
    "Measure the sums of an attribute's values instead; the schema gives it a resolution.",
    to="summed",
)
@flag("--heads", "Measure how many persons there are instead, where several records of each are kept.")
@option("--by ATTRIBUTE[,ATTRIBUTE…]", "With --sum or --heads: by whose values; everybody unless told.")
@option(
    "--share P%", "With a question, --sum or --heads: the part of the budget that is paid.  [default: 2%]"
)
@option(
    "--within N|P%",
    "With a question: pay what keeps it within N records, or P% of all records. With --sum: what keeps the "
    "mean of a group of average size within N, or within P% of the least that the mean of all may be.",
)
@flag("--squares", "With --sum: measure the sums of squares too, for VARIANCE and STDDEV.")
@flag("--dry-run", "Tell the price and the error bar; nothing is spent.")
@_at_most("A --share that is told is paid.")
@option(
    "--request-id KEY", "Idempotency key; run again with it, the command pays nothing and prints the same."
)
@token_option
@wait_option
@json_option("Print the price and the error bar as JSON.")
def measure(session: str, attributes: str | None, wait: float, as_json: bool, **given: Any) -> None:
    """Measure how many records have each combination of some attributes' values, now, or questions, or sums.

    With --dry-run the price is told. A price above --at-most is paid after a yes on a terminal; in other
    cases the exit code is 4 and nothing is spent. The noise is that of a marginal that a test measures, and
    the price depends on nothing in the table. It is taken from the session's budget, but not from what an
    open round of tests has reserved. Questions about these attributes are answered within the error bar from
    then on, free, also those that were answered before.

    Measured again, a table gets a narrower bar at the sum of the prices. Decide that by the width of a bar:
    whoever measures again because of the value that came out has a bar that holds less often than it says.

    A condition is measured itself, and so is a SELECT with counts alone: all of its groups together, which
    cost what one of them does where no record is in two, or twice that where records are replaced.

    With --sum, AVG and SUM of the attribute, of everybody or by the attributes of --by and fewer, have bars
    that follow from the measured sums. Values beyond the declared ends count as the ends. The noise follows
    from the ends, not from where values lie: narrow ends give narrow bars. The number of values is measured
    beside each sum where that makes means better known.

    With --heads, COUNT(DISTINCT …) of the schema's column of ids, by the attributes of --by, has a bar that
    follows from the measured numbers of persons. A person counts where one of the kept records is.

    SESSION may be one of a service, by its address, with --token-file; its share pays.
    """
    from pmw.cli.answering import paid

    require_address(session, given["token_file"])
    _check_measured(attributes, given)
    with (
        _as_json(as_json),
        connected(session, given["token_file"])
        if is_address(session)
        else resumed(Path(session), wait) as found,
    ):
        opened = cast("Session", found)  # that of a service has the same methods
        named = given["share"] is not None and given["at_most"] is None  # a share is its own price
        ask, free = partial(_measured, opened, attributes, given), {**given, "dry_run": True}

        def price() -> str:
            return _told(_measured(opened, attributes, free, None), opened, measured=False)

        quote = ask(None) if named else paid(opened, given["at_most"], ask, price)
        told = _told(quote, opened, measured=not given["dry_run"])
    echo(json_line(quote.to_dict()) if as_json else told)


def _check_measured(attributes: str | None, given: dict[str, Any]) -> None:
    sums, within = given["summed"] is not None, given["within"] is not None
    if sum((attributes is not None, sums, given["heads"])) != 1:
        raise click.UsageError("give attributes whose counts are measured, or --sum, or --heads, one of them")
    if attributes is not None and given["by"] is not None:
        raise click.UsageError("--by goes with --sum or --heads; leave it out, or give one")
    if attributes is not None and all(name.isidentifier() for name in _names(attributes)):
        _require_table(given)
    if given["heads"] and within:
        raise click.UsageError("--within goes with a question or --sum; leave it out")
    if given["squares"] and not sums:
        raise click.UsageError("--squares goes with --sum; leave it out, or give --sum")
    if given["share"] is not None and within:
        raise click.UsageError("--share says the price, and --within the bar; leave one of the two out")


def _measured(session: Session, attributes: str | None, given: dict[str, Any], at_most: Part) -> Quote:
    from pmw.public.quotes import Within

    how = {"dry_run": given["dry_run"], "request_id": given["request_id"], "at_most": at_most}
    how["share"] = None if given["share"] is None else Within.parse(given["share"]).amount
    by = () if given["by"] is None else _names(given["by"])
    if given["heads"]:
        return session.measure_heads(by, **how)
    how["within"] = None if given["within"] is None else Within.parse(given["within"])
    if attributes is None:
        return session.measure_sum(given["summed"], by, squares=given["squares"], **how)
    names = _names(attributes)
    if set(names) <= set(session.domain.names) or all(name.isidentifier() or not name for name in names):
        _require_table(given)
        return session.measure(names, **how)
    return session.measure([attributes], **how)


def _require_table(given: dict[str, Any]) -> None:
    told = "goes with a question, --sum or --heads; a table of counts has a noise of its own"
    for name in ("share", "within"):
        if given[name] is not None:
            raise click.UsageError(f"--{name} {told}")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


def _told(quote: Quote, session: Session, *, measured: bool) -> str:
    return quote.sentence(session.domain, session.contract.options.confidence, measured=measured)
