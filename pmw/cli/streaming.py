"""Streams: questions line by line from standard input, answers line by line to standard output."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from typing import Any, BinaryIO

import click

from pmw.answers import Answer, Source
from pmw.cli.progress import Progress
from pmw.cli.texts import json_line
from pmw.session import Session
from queries.errors import QueryError
from queries.parsing import Question, parse_question, read_line

__all__ = [
    "answer_stream",
    "strict_code",
]

_READ = 1 << 16  # bytes at a time
_LONGEST_LINE = 2**20 + 1  # what the parser refuses anyway; the rest of such a line is thrown away
_BATCH = 512  # questions at a time


def answer_stream(session: Session, source: BinaryIO, *, fresh: bool, strict: bool) -> int:
    """Answer lines of questions until the source ends; return the exit code.

    Args:
        session: the open session.
        source: lines of JSON.
        fresh: answer anew what was answered before.
        strict: return 3 or 4 where an answer came without a promise, or a question was refused.
    """
    code = 0
    progress = Progress("answered")
    try:
        for lines in _batches(source):
            code = max(code, _answer_lines(session, lines, fresh=fresh))
            progress.add(len(lines), f"{session.state.ledger.share:.1%} of the budget spent")
    except KeyboardInterrupt:
        progress.close()
        click.echo("interrupted; everything printed so far is durable", err=True)
        return 130
    progress.close()
    return code if strict else 0


def _answer_lines(session: Session, lines: list[bytes], *, fresh: bool) -> int:
    """Answer a batch of lines, print one line each, in order, and return the strictest exit code."""
    printer = _Printer([_parsed(line, session) for line in lines])
    try:
        session.ask_all(printer.questions, fresh=fresh, deliver=printer.deliver)
    except QueryError:
        # A mark was used for another question, so the batch was refused whole: answer one by one.
        for question in printer.questions:
            try:
                session.ask_all([question], fresh=fresh, deliver=printer.deliver)
            except QueryError as error:
                printer.deliver(error)
    printer.finish()
    return printer.code


class _Printer:
    """Prints a line for each question, in order, as its answer becomes durable.

    Args:
        parsed: the mark and the question of each line, or why the line is refused.
    """

    def __init__(self, parsed: list[tuple[Any, Question | QueryError]]) -> None:
        self.questions = [question for _, question in parsed if not isinstance(question, QueryError)]
        self.code = 0
        self._waiting = deque(parsed)

    def deliver(self, result: Answer | QueryError) -> None:
        """Print the lines that were refused before the next question, then its answer."""
        self.finish(only_refused=True)
        identifier, _ = self._waiting.popleft()
        self._print(identifier, result)

    def finish(self, *, only_refused: bool = False) -> None:
        """Print the refused lines at the front, or all that are left."""
        while self._waiting and (not only_refused or isinstance(self._waiting[0][1], QueryError)):
            identifier, error = self._waiting.popleft()
            if isinstance(error, QueryError):
                self._print(identifier, error)

    def _print(self, identifier: Any, result: Answer | QueryError) -> None:
        if isinstance(result, QueryError):
            form: dict[str, Any] = {"error": result.to_dict()}
            self.code = 4
        else:
            form = result.to_dict()
            self.code = max(self.code, strict_code(result))
        sys.stdout.write(json_line({"id": identifier, **form}) + "\n")
        sys.stdout.flush()


def _parsed(line: bytes, session: Session) -> tuple[Any, Question | QueryError]:
    identifier = None
    try:
        form = read_line(line)
        identifier = form.get("id") if isinstance(form.get("id"), str | int) else None
        return identifier, parse_question(form, session.domain)
    except QueryError as error:
        return identifier, error


def strict_code(answer: Answer) -> int:
    """Return the exit code that an answer without a promise has under --strict, else 0."""
    return {Source.EXHAUSTED: 3, Source.UNVERIFIED: 4}.get(answer.source, 0)


def _batches(source: BinaryIO) -> Iterator[list[bytes]]:
    """Yield the lines that have come so far, at most ``_BATCH`` together, without waiting for more."""
    rest = b""
    while True:
        block = source.read1(_READ) if hasattr(source, "read1") else source.read(_READ)
        if not block:
            break
        *lines, rest = (rest + block).split(b"\n")
        rest = rest[:_LONGEST_LINE]
        wanted = [line for line in lines if line.strip()]
        for start in range(0, len(wanted), _BATCH):
            yield wanted[start : start + _BATCH]
    if rest.strip():
        yield [rest]
