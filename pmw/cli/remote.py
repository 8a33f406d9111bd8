"""Questions to a service: what ``pmw ask`` does where the session is an address."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import click

from pmw.cli.answering import condition_of, is_agreed, source_code
from pmw.cli.texts import answer_text, json_line
from pmw.public.answer import Source
from pmw.service.connection import Connection, answer_of
from queries.errors import QueryError
from queries.parsing import read_line

_BATCH = 50  # lines of a stream, so that answers come while others are asked


def ask_remote(url: str, where: str | None, given: dict[str, Any]) -> int:
    """Print a service's answers to what was asked; return the exit code.

    Args:
        url: of the service, or of a session in it.
        where: a condition.
        given: the other options of ``pmw ask``.

    Raises:
        UsageError: an option is for sessions in files alone, or the token is missing.
        QueryError: a question is refused; nothing is spent.
        ServiceError: the service refuses the request, or does not answer.
    """
    for option in ("workload", "format"):
        if given[option] is not None:
            raise click.UsageError(f"--{option} is for a session in a file; leave it out, or ask in a stream")
    if given["population"]:
        raise click.UsageError(
            "--population is for a session or a model in a file; leave it out, or ask a model of the session"
        )
    with Connection(url, token=_token(given["token_file"])) as session:
        options = {"fresh": given["fresh"], "strict_cells": given["strict_cells"]}
        if given["stream"]:
            return _stream(session, sys.stdin.buffer, options, strict=given["strict"])
        body = {"sql": given["sql"]} if where is None else {"where": condition_of(where)}
        if given["within"] is not None:
            body, options = {**body, "within": given["within"].form}, {"strict_cells": given["strict_cells"]}
            quote = _asked(session, {**body, **options, "dry_run": True})
            if quote["needed"] and not is_agreed(quote, given):
                return 4
        form = _asked(session, {**body, **options})
    click.echo(json_line(form) if given["as_json"] or "count" not in form else answer_text(answer_of(form)))
    return _code(form, strict=given["strict"])


def _asked(session: Connection, body: dict[str, Any]) -> dict[str, Any]:
    """Return what the service answers to the body of an ask; one that asks afresh is not made twice."""
    return session.json("POST", "/ask", body, again=not body.get("fresh"))


def _token(path: Path | None) -> str:
    if path is None:
        raise click.UsageError("a service asks for a token; give --token-file FILE")
    if str(path) == "-":
        return sys.stdin.readline().strip()
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise click.UsageError(f"--token-file {path}: the file cannot be read as a token") from None


def _stream(session: Connection, source: BinaryIO, options: dict[str, Any], *, strict: bool) -> int:
    """Print a line for each line of questions, in order; return the exit code."""
    code = asked = refused = 0
    lines = (line for line in source if line.strip())
    while batch := list(islice(lines, _BATCH)):
        for form in _answers(session, batch, options):
            click.echo(json_line(form))
            asked, refused = asked + 1, refused + ("error" in form)
            code = max(code, _code(form, strict=True))
    if refused:
        click.echo(f"{refused:,} of {asked:,} questions were refused", err=True)
    return code if strict or (refused and refused == asked) else 0


def _answers(session: Connection, lines: list[bytes], options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield an answer object for each line; one that is no JSON object is refused here."""
    read: list[dict[str, Any] | QueryError] = []
    for line in lines:
        try:
            read.append(read_line(line))
        except QueryError as error:
            read.append(error)
    forms = [form for form in read if not isinstance(form, QueryError)]
    answers = iter(_asked(session, {"queries": forms, **options})["answers"] if forms else ())
    for form in read:
        yield {"id": None, "error": form.to_dict()} if isinstance(form, QueryError) else next(answers)


def _code(form: dict[str, Any], *, strict: bool) -> int:
    """Return the exit code of an answer object; see ``source_code``."""
    if "error" in form and "source" not in form:
        return 4
    answers = [form] if "rows" not in form else [one for row in form["rows"] for one in row.values()]
    sources = [Source(one["source"]) for one in answers if isinstance(one, dict)]
    return max((source_code(source, strict=strict) for source in sources), default=0)
