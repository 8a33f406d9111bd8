"""``pmw ask``: answer one question, or a stream of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

__all__ = [
    "command",
]


@click.command(
    "ask",
    short_help="Answer a question, or a stream of them.",
    epilog="""\b
Examples:
  pmw ask study.pmw "age BETWEEN 30 AND 39 AND sex = 'Female'"
  pmw ask study.pmw "income >= 50000 OR NOT education IN ('HS-grad', 'Some-college')" --json
  pmw ask study.pmw --stream < questions.jsonl > answers.jsonl
\b
A stream has one question per line, each an object:
  {"id": 1, "where": "age >= 65"}
  {"id": 2, "where": {"age": {"between": [30, 39]}, "sex": {"in": ["Female"]}}}
Each line is answered in order; a bad one gets an error object and the stream goes on.
""",
)
@click.argument("session", type=click.Path(path_type=Path))
@click.argument("where", required=False)
@click.option("--stream", is_flag=True, help="Read questions from standard input, one JSON object per line.")
@click.option("--data", type=click.Path(path_type=Path), help="The table, where it has moved.")
@click.option("--fresh", is_flag=True, help="Answer anew what was answered before.")
@click.option("--strict", is_flag=True, help="Exit with 3 or 4 when an answer comes without a promise.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def command(session: Path, where: str | None, stream: bool, data: Path | None, **given: bool) -> None:
    """Answer the question WHERE from SESSION: how many records satisfy a condition?

    The condition is written as in SQL: comparisons, BETWEEN, IN, IS NULL, AND, OR, NOT. An empty one counts
    everybody. A question that was answered before gets the same answer, unless it is asked with --fresh.
    """
    if stream == (where is not None):
        raise click.UsageError("give a condition or --stream, one of the two")
    from pmw.cli.streaming import answer_stream, strict_code
    from pmw.cli.texts import answer_text, json_line, say
    from pmw.session import resume_session

    fresh, strict = given["fresh"], given["strict"]
    table = None if data is None else _moved(session, data)
    with resume_session(session, table) as opened:
        if stream:
            sys.exit(answer_stream(opened, sys.stdin.buffer, fresh=fresh, strict=strict))
        answer = opened.ask(where or "", fresh=fresh)
        say(json_line(answer.to_dict()) if given["as_json"] else answer_text(answer))
    if strict:
        sys.exit(strict_code(answer))


def _moved(session: Path, data: Path) -> Any:
    """Return the table at its new place, in the dialect that the session remembers."""
    from pmw.data import TableFile
    from pmw.session import remembered_table

    remembered = remembered_table(session)
    return TableFile(data) if remembered is None else TableFile(data, remembered.dialect)
