"""``pmw ask`` and ``pmw measure``: answers, or a table on request; what is paid for has its price first."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from pmw.cli.session_files import (
    is_address,
    opened_model,
    require_address,
    resumed,
    token_option,
    wait_option,
)
from pmw.cli.usage import echo

if TYPE_CHECKING:
    from pmw.cli.answering import StreamOptions
    from pmw.planning.heads import HeadsQuote
    from pmw.planning.sum_quotes import SumQuote
    from pmw.public.quotes import Quote, Within
    from pmw.session.asking import Asking
    from pmw.session.session import Session

_UNPAID_KEY = "--request-id is for what pays unasked and may be run again; give --yes too"


def _width(_: click.Context, parameter: click.Parameter, value: str | None) -> Within | None:
    """Return a half-width that --within was given, for click.

    Raises:
        BadParameter: it is no number above 0, and no percentage.
    """
    if value is None:
        return None
    from pmw.errors import BudgetError
    from pmw.public.quotes import Within

    try:
        return Within.parse(value)
    except BudgetError as error:
        raise click.BadParameter(str(error), param=parameter) from None


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
@click.option("--sql", metavar="TEXT", help="Ask a statement: SELECT COUNT(*) FROM ….")
@click.option("--stream", is_flag=True, help="Read questions from standard input, one JSON object per line.")
@click.option("--workload", metavar="NAME", help="Ask a whole workload; answers as JSON Lines.")
@click.option(
    "--format",
    type=click.Choice(["jsonl", "csv", "parquet"]),
    help="How --stream and --workload write their answers: JSON Lines unless told, rows of CSV, or a Parquet "
    "file to standard output.",
)
@click.option(
    "--fresh",
    is_flag=True,
    help="Ask a newer model, or for tests not yet made, what was answered before.",
)
@click.option(
    "--strict", is_flag=True, help="Exit with 3 when an answer is exhausted, with 4 when one is unverified."
)
@click.option("--strict-cells", is_flag=True, help="Refuse conditions that cut a cell of the schema.")
@click.option(
    "--population",
    is_flag=True,
    help="Also tell an interval for the population that the table is a simple random sample of; conditions "
    "only, free.",
)
@click.option(
    "--within",
    metavar="N|P%",
    callback=_width,
    help="Answer within ± N records, or AVG and SUM within ± N of their own unit or P% of the answer; where "
    "that costs something, say the price and ask first.",
)
@click.option("--yes", is_flag=True, help="With --within: pay the price without being asked.")
@click.option(
    "--request-id",
    metavar="KEY",
    help="With --within and --yes: idempotency key; run again with it, the command pays nothing more.",
)
@click.option(
    "--explain",
    is_flag=True,
    help="Tell which counts are asked, what is held of them and what they may cost; ask and spend nothing.",
)
@token_option
@wait_option
@click.option("--json", "as_json", is_flag=True, help="Print the answer, or why it is refused, as JSON.")
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
    is free. Else the price is told: the answer is paid for after a yes on a terminal, or with --yes, and in
    other cases the exit code is 4 and nothing is spent.

    SESSION may be a model too, as `pmw export --format model` writes it: it answers offline and free, as far
    as what was released goes. It may be the address of a session of `pmw serve`, such as
    http://127.0.0.1:8000/sessions/study, with --token-file; whose share pays is told by the token.

    One process at a time answers from a session; others wait for it to end, as long as --wait says. The other
    commands read a session that is in use without waiting.
    """
    asked = [where is not None, given["sql"] is not None, given["stream"], given["workload"] is not None]
    _check(sum(asked), where, given)
    require_address(session, given["token_file"])
    from queries.errors import QueryError

    try:
        code = _ask(session, where, wait, given)
    except QueryError as error:
        if not given["as_json"]:
            raise
        from pmw.cli.texts import json_line

        echo(json_line({"error": error.to_dict()}))
        code = 4
    sys.exit(code)


def _ask(session: str, where: str | None, wait: float, given: dict[str, Any]) -> int:
    """Print the answers to what was asked of a session or a model; return the exit code.

    Raises:
        UsageError: what was asked of a model measures something, or of a service looks into a model.
    """
    from pmw.cli.answering import StreamOptions
    from pmw.session.store import is_model_file

    options = StreamOptions(
        given["fresh"],
        given["strict"],
        given["strict_cells"],
        given["format"] or "jsonl",
        given["population"],
    )
    with ExitStack() as held:
        if is_address(session):
            from pmw.cli.remote import connected

            if given["population"]:
                raise click.UsageError(
                    "--population is for a session or a model in a file; leave it out, or ask a model"
                )
            return _answer(held.enter_context(connected(session, given["token_file"])), where, options, given)
        if not is_model_file(Path(session)):
            return _answer(held.enter_context(resumed(Path(session), wait)), where, options, given)
        if given["within"] is not None:
            raise click.UsageError("--within may measure, and a model measures nothing; ask the session")
        if given["explain"]:
            raise click.UsageError("--explain tells what may be charged, and a model charges nothing")
        return _answer(opened_model(Path(session), as_json=given["as_json"]), where, options, given)


def _check(forms: int, where: str | None, given: dict[str, Any]) -> None:
    """Refuse options that do not go together.

    Raises:
        UsageError: some do not.
    """
    if forms != 1:
        file = " (--stream reads the lines of standard input: < FILE)" if given["stream"] and where else ""
        raise click.UsageError(f"give a condition, --sql, --stream or --workload, one of the four{file}")
    if given["format"] is not None and not (given["stream"] or given["workload"] is not None):
        raise click.UsageError("--format is for --stream and --workload; leave it out, or give one of them")
    if given["format"] == "parquet" and sys.stdout.isatty():
        raise click.UsageError("a Parquet file is not for a terminal; write it to a file: > answers.parquet")
    if given["within"] is not None:
        _check_within(where, given)
    elif given["yes"]:
        raise click.UsageError("--yes pays the price of a bar; give --within N with it")
    if given["request_id"] is not None and not given["yes"]:
        raise click.UsageError(_UNPAID_KEY)
    if given["explain"]:
        _check_explained(given)


def _check_within(where: str | None, given: dict[str, Any]) -> None:
    """Refuse options that do not go with --within.

    Raises:
        UsageError: one was given.
    """
    if where is None and given["sql"] is None:
        raise click.UsageError("--within is for one condition or statement; give WHERE or --sql with it")
    if given["within"].relative and given["sql"] is None:
        raise click.UsageError("--within P% is for AVG and SUM; give a number of records")
    if given["fresh"]:
        raise click.UsageError("--within answers again in any case; leave --fresh out")


def _check_explained(given: dict[str, Any]) -> None:
    """Refuse options that --explain has no use for.

    Raises:
        UsageError: one was given.
    """
    if given["stream"] or given["workload"] is not None:
        raise click.UsageError("--explain is for one condition or statement; give WHERE or --sql with it")
    for name in ("fresh", "strict", "population", "within"):
        if given[name] not in (None, False):
            raise click.UsageError(f"--explain answers nothing; leave --{name} out")


def _answer(session: Asking, where: str | None, options: StreamOptions, given: dict[str, Any]) -> int:
    """Print the answers to what was asked, in whichever form; return the exit code."""
    from pmw.cli.answering import answer_stream, answer_workload

    if given["stream"]:
        return answer_stream(session, sys.stdin.buffer, options)
    if given["workload"] is not None:
        from queries.workload_text import parse_workload

        return answer_workload(session, parse_workload(given["workload"], session.domain), options)
    if given["within"] is not None:
        ask = _ask_within if given["sql"] is None else _ask_sums_within
        return ask(cast("Session", session), where or "", options, given)  # a model is asked without
    if given["explain"]:
        return _explain(cast("Session", session), where or "", given)
    if given["sql"] is not None:
        return _ask_statement(session, given["sql"], options, as_json=given["as_json"])
    return _ask_condition(session, where or "", options, as_json=given["as_json"])


def _ask_condition(session: Asking, where: str, options: StreamOptions, *, as_json: bool) -> int:
    """Print the answer to one condition; return the exit code."""
    from pmw.cli.answering import condition_of, read_condition, require_accepted, source_code, told

    query = read_condition(where, session.domain)
    require_accepted(query, options)
    answer = session.ask_all([condition_of(where)], fresh=options.fresh)[0]
    echo(told(session, query, answer, options, as_json=as_json))
    return source_code(answer.source, strict=options.strict)


def _ask_statement(session: Asking, sql: str, options: StreamOptions, *, as_json: bool) -> int:
    """Print the answer to one statement; return the exit code."""
    from pmw.cli.answering import answered, exit_code_of, form_of, text_of
    from pmw.cli.texts import json_line
    from queries.parsing import parse_sql

    result = answered(session, parse_sql(sql, session.domain), options)
    echo(json_line(form_of(result)) if as_json else text_of(result))
    return exit_code_of(result, strict=options.strict)


def _explain(session: Session, where: str, given: dict[str, Any]) -> int:
    """Print what asking a condition or a statement would do; return the exit code."""
    from pmw.cli.answering import StreamOptions, read_condition, require_accepted
    from pmw.cli.texts import json_line, terminal_width
    from queries.parsing import parse_sql

    domain, sql = session.domain, given["sql"]
    asked = read_condition(where, domain) if sql is None else parse_sql(sql, domain)
    require_accepted(asked, StreamOptions(strict_cells=given["strict_cells"]))
    found = session.explain(asked)
    echo(json_line(found.to_dict()) if given["as_json"] else found.to_text(terminal_width()))
    return 0


def _ask_within(session: Session, where: str, options: StreamOptions, given: dict[str, Any]) -> int:
    """Print the answer to one question within a bar, once its price is agreed to; return the exit code."""
    from pmw.cli.answering import is_agreed, read_condition, require_accepted, source_code, told

    query, within = read_condition(where, session.domain), given["within"].amount
    require_accepted(query, options)
    if given["request_id"] is None:  # else it may be paid already
        quote = session.quote(query, within)
        if quote.needed and not is_agreed(quote.to_dict(), given):
            return 4
    answer = session.ask_within(query, within, request_id=given["request_id"])
    echo(told(session, query, answer, options, as_json=given["as_json"]))
    return source_code(answer.source, strict=options.strict)


def _ask_sums_within(session: Session, _: str, options: StreamOptions, given: dict[str, Any]) -> int:
    """Print the answer to a statement with one AVG or SUM within a bar, once its price is agreed to."""
    from pmw.cli.answering import (
        agrees,
        answered,
        exit_code_of,
        form_of,
        require_accepted,
        say_unpaid,
        text_of,
    )
    from pmw.cli.texts import json_line
    from queries.parsing import parse_sql

    statement, within = parse_sql(given["sql"], session.domain), given["within"]
    require_accepted(statement, options)
    if given["request_id"] is None:  # else it may be paid already
        answered(session, statement, options)  # its counts are asked for as those of any statement
        quote = session.quote_aggregate(statement, within)
        price = f"A bar of ± {within}: {_told(quote, session, measured=False)}"
        if quote.needed and not (quote.affordable and (given["yes"] or agrees(price))):
            say_unpaid(price, quote.to_dict(), as_json=given["as_json"])
            return 4
    result = session.sql_within(statement, within, request_id=given["request_id"])
    echo(json_line(form_of(result)) if given["as_json"] else text_of(result))
    return exit_code_of(result, strict=options.strict)


@click.command(
    "measure",
    short_help="Measure a table of counts now, or tell its price.",
    epilog="""\b
Examples:
  pmw measure study.pmw sex,race --dry-run
  pmw measure study.pmw sex,race
  pmw measure study.pmw sex,race --yes --json
  pmw measure study.pmw sex,race --yes --request-id monday
  pmw measure http://127.0.0.1:8000/sessions/study sex,race --dry-run --token-file ann.token
  pmw measure study.pmw --sum amount --by region --within 2% --dry-run
  pmw measure study.pmw --heads --by region --dry-run
""",
)
@click.argument("session", type=click.Path())  # or an address
@click.argument("attributes", metavar="[ATTRIBUTE[,ATTRIBUTE…]]", required=False)
@click.option(
    "--sum",
    "summed",
    metavar="ATTRIBUTE",
    help="Measure the sums of an attribute's values instead; the schema gives it a resolution.",
)
@click.option(
    "--heads",
    is_flag=True,
    help="Measure how many persons there are instead, where several records of each are kept.",
)
@click.option(
    "--by",
    metavar="ATTRIBUTE[,ATTRIBUTE…]",
    help="With --sum or --heads: by whose values; everybody unless told.",
)
@click.option(
    "--share", metavar="P%", help="With --sum or --heads: the part of the budget that is paid.  [default: 2%]"
)
@click.option(
    "--within",
    metavar="N|P%",
    help="With --sum: pay what keeps the mean of a group of average size within N, or within P% of the least "
    "that the mean of all may be.",
)
@click.option(
    "--squares",
    is_flag=True,
    help="With --sum: measure the sums of squares too, for VARIANCE and STDDEV.",
)
@click.option("--dry-run", is_flag=True, help="Tell the price and the error bar; nothing is spent.")
@click.option("--yes", is_flag=True, help="Pay the price without being asked.")
@click.option(
    "--request-id",
    metavar="KEY",
    help="With --yes: idempotency key; run again with it, the command pays nothing and prints the same.",
)
@token_option
@wait_option
@click.option("--json", "as_json", is_flag=True, help="Print the price and the error bar as JSON.")
def measure(session: str, attributes: str | None, wait: float, as_json: bool, **given: Any) -> None:
    """Measure how many records have each combination of some attributes' values, or sums of values, now.

    The price is told first: it is paid after a yes on a terminal, or with --yes, and in other cases the exit
    code is 4 and nothing is spent. The noise is that of a marginal that a test measures, and the price
    depends on nothing in the table. It is taken from the session's budget, but not from what an open round of
    tests has reserved. Questions about these attributes are answered within the error bar from then on, free,
    also those that were answered before.

    Measured again, a table gets a narrower bar at the sum of the prices. Decide that by the width of a bar:
    whoever measures again because of the value that came out has a bar that holds less often than it says.

    With --sum, AVG and SUM of the attribute, of everybody or by the attributes of --by and fewer, have bars
    that follow from the measured sums. Values beyond the declared ends count as the ends. The noise follows
    from the ends, not from where values lie: narrow ends give narrow bars. The number of values is measured
    beside each sum where that makes means better known.

    With --heads, COUNT(DISTINCT …) of the schema's column of ids, by the attributes of --by, has a bar that
    follows from the measured numbers of persons. A person counts where one of the kept records is.

    SESSION may be one of a service, by its address, with --token-file; its share pays.
    """
    from pmw.cli.texts import json_line

    require_address(session, given["token_file"])
    _check_measured(attributes, given)
    with _measuring(session, wait, given["token_file"]) as opened:
        if not given["yes"]:
            quote = _measured(opened, attributes, given, dry_run=True)
            if not given["dry_run"]:
                _agree(quote, opened, as_json=as_json)
        if not given["dry_run"]:
            quote = _measured(opened, attributes, given, dry_run=False)
        told = _told(quote, opened, measured=not given["dry_run"])
    echo(json_line(quote.to_dict()) if as_json else told)


def _measuring(session: str, wait: float, token_file: Path | None) -> AbstractContextManager[Session]:
    """Return the session in a file, or that of a service: it has the same methods."""
    if not is_address(session):
        return resumed(Path(session), wait)
    from pmw.cli.remote import connected

    return cast("AbstractContextManager[Session]", connected(session, token_file))


def _check_measured(attributes: str | None, given: dict[str, Any]) -> None:
    """Refuse options that do not go together.

    Raises:
        UsageError: some do not.
    """
    _check_paid(given)
    if sum((attributes is not None, given["summed"] is not None, given["heads"])) != 1:
        raise click.UsageError("give attributes whose counts are measured, or --sum, or --heads, one of them")
    for name in ("by", "share"):
        if attributes is not None and given[name] is not None:
            raise click.UsageError(f"--{name} goes with --sum or --heads; leave it out, or give one")
    if given["summed"] is None and given["within"] is not None:
        raise click.UsageError("--within goes with --sum; leave it out, or give --sum")
    if given["summed"] is None and given["squares"]:
        raise click.UsageError("--squares goes with --sum; leave it out, or give --sum")
    if given["share"] is not None and given["within"] is not None:
        raise click.UsageError("--share says the price, and --within the bar; leave one of the two out")


def _check_paid(given: dict[str, Any]) -> None:
    """Refuse options that leave open whether a price is paid.

    Raises:
        UsageError: some do.
    """
    if given["dry_run"] and given["yes"]:
        raise click.UsageError("--dry-run pays nothing, and --yes pays; leave one of the two out")
    if given["request_id"] is not None and not given["yes"]:
        raise click.UsageError(_UNPAID_KEY)


def _measured(
    session: Session, attributes: str | None, given: dict[str, Any], *, dry_run: bool
) -> Quote | SumQuote | HeadsQuote:
    """Measure what was asked for, or tell its price alone."""
    key = given["request_id"]
    if attributes is not None:
        return session.measure(_names(attributes), dry_run=dry_run, request_id=key)
    from pmw.public.quotes import Within

    share, within = given["share"], given["within"]
    by = () if given["by"] is None else _names(given["by"])
    part = None if share is None else Within.parse(share).amount
    if given["heads"]:
        return session.measure_heads(by, share=part, dry_run=dry_run, request_id=key)
    return session.measure_sum(
        given["summed"],
        by,
        share=part,
        within=None if within is None else Within.parse(within),
        squares=given["squares"],
        dry_run=dry_run,
        request_id=key,
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


def _told(quote: Quote | SumQuote | HeadsQuote, session: Session, *, measured: bool) -> str:
    """Return what was measured, or would be, in words."""
    from pmw.cli.texts import heads_quote_text, quote_text, sum_quote_text
    from pmw.planning.heads import HeadsQuote
    from pmw.public.quotes import Quote

    confidence = session.contract.options.confidence
    if isinstance(quote, Quote):
        return quote_text(quote, confidence, measured=measured)
    if isinstance(quote, HeadsQuote):
        return heads_quote_text(quote, confidence, measured=measured)
    return sum_quote_text(quote, session.domain, confidence, measured=measured)


def _agree(quote: Quote | SumQuote | HeadsQuote, session: Session, *, as_json: bool) -> None:
    """Ask whether a price that is left is to be paid.

    Raises:
        Exit: it is not.
    """
    from pmw.cli.answering import agrees, say_unpaid

    price = _told(quote, session, measured=False)
    if quote.affordable and not agrees(price):
        say_unpaid(price, quote.to_dict(), as_json=as_json)
        raise click.exceptions.Exit(4)
