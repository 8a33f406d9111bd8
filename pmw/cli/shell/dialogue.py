"""The dialogue: a line in, an answer out. An error ends a line and never the shell.

Lines come from a terminal with line editing, a plain one, or a pipe. Those of a terminal are kept in a file
of the user.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Protocol

import click

from pmw.cli.answering import (
    Asked,
    Result,
    StreamOptions,
    answered,
    csv_of,
    form_of,
    paid,
    read_condition,
    text_of,
)
from pmw.cli.shell.words import (
    COMMANDS,
    GOES_ON,
    LONGEST,
    MODES,
    PROMPT,
    Statements,
    is_statement,
    schema_text,
)
from pmw.cli.texts import json_line, show, status_text, terminal_width
from pmw.cli.usage import echo, refusal
from pmw.display.texts import installed_by
from pmw.session.session import Session
from queries.domain import Domain
from queries.errors import QueryError
from queries.parsing import parse_sql

_READ = LONGEST + 1  # characters of a line; the rest of it is thrown away
_HELP = """A line is a condition, such as  age >= 40 AND sex = 'Female'
or an SQL statement, which may go over several lines and ends with a semicolon.
Tab completes names, values and words. Ctrl-C drops a line, Ctrl-D leaves."""


class Lines(Protocol):
    """Lines that somebody writes.

    Attributes:
        is_terminal: whoever writes them waits for each answer, so one interrupt drops one line.
    """

    is_terminal: bool

    def read(self, unfinished: str) -> str | None:
        """Return what was written next, a line or several; None at the end."""
        ...


class PlainLines:
    """Lines of a pipe, or of a terminal without line editing."""

    def __init__(self, source: BinaryIO, *, is_terminal: bool) -> None:
        self.is_terminal = is_terminal
        self._source = source

    def read(self, unfinished: str) -> str | None:
        """Return the next line; what is no UTF-8 is marked, and refused as a question."""
        if self.is_terminal:
            echo(GOES_ON if unfinished else PROMPT, nl=False, err=True)
        line = self._source.readline(_READ)
        if not line:
            return None
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = self._source.readline(_READ)
        return line.decode("utf-8", errors="replace").rstrip("\r\n")


def lines_of(domain: Domain, history: Path | None) -> Lines:
    """Return the lines of standard input, edited where it is a terminal.

    Args:
        history: where lines are kept; None keeps them no longer than the shell.
    """
    if not sys.stdin.isatty():
        return PlainLines(sys.stdin.buffer, is_terminal=False)
    try:
        from pmw.cli.shell.editing import EditedLines
    except ModuleNotFoundError as error:
        if error.name != "prompt_toolkit":
            raise
        echo(f"For completion, history and line editing: {installed_by('shell')}", err=True)
        return PlainLines(sys.stdin.buffer, is_terminal=True)
    if not sys.stdout.isatty():
        return PlainLines(sys.stdin.buffer, is_terminal=True)
    return EditedLines(domain, history)


def history_path() -> Path | None:
    """Return the file of the user's state directory; None where the user has no home.

    Source: XDG Base Directory Specification 0.8: a relative ``XDG_STATE_HOME`` is ignored.
    """
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    try:
        state = given if given.is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError:
        return None
    return state / "pmw" / "history"


class Dialogue:
    """A dialogue over one session.

    Args:
        session: open; it stays so.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._began = session.state.ledger.spent
        self._mode = "table"
        self._last: Asked | None = None
        self._over = False
        self._can_agree = False
        self._asked = self._refused = 0

    def run(self, lines: Lines) -> int:
        """Answer lines until they end; return the exit code: 4 where a pipe's every line was refused."""
        statements = Statements()
        self._can_agree = lines.is_terminal
        while not self._over:
            try:
                written = lines.read(statements.unfinished)
                if written is None:
                    break
                for text in statements.add(written):
                    self.take(text)
            except KeyboardInterrupt:
                if not lines.is_terminal:
                    raise
                statements.drop()
                echo(err=True)
        if statements.unfinished:
            self._asked += 1
            self._refuse(QueryError("the statement has no end; end it with a semicolon", code="syntax"))
        return 4 if self._asked and self._refused == self._asked and not lines.is_terminal else 0

    def take(self, text: str) -> None:
        """Answer one question, or do what one command says."""
        if self._over:
            return
        try:
            if text.startswith("."):
                self._command(text)
            else:
                self._ask(text)
        except click.Abort:  # an interrupt, or the end, where a yes was asked for: no
            echo("Nothing was spent.", err=True)
        except click.ClickException as error:
            self._tell(error)
        except QueryError as error:
            self._refuse(error)
        except Exception as error:
            told = refusal(error)
            if told is None:
                raise
            self._tell(told)

    def _ask(self, text: str) -> None:
        self._asked += 1
        self._last = asked = self._read(text)
        result = paid(
            self._session, None, lambda most: answered(self._session, asked, StreamOptions(at_most=most))
        )
        show(self._written(result))

    def _read(self, text: str) -> Asked:
        plain = text.rstrip().removesuffix(";")
        domain = self._session.domain
        return parse_sql(plain, domain) if is_statement(plain) else read_condition(plain, domain)

    def _written(self, result: Result) -> str:
        if self._mode == "json":
            return json_line(form_of(result))
        return csv_of(result) if self._mode == "csv" else text_of(result)

    def _refuse(self, error: QueryError) -> None:
        self._refused += 1
        if self._mode == "json":
            echo(json_line({"error": error.to_dict()}))
            return
        told = refusal(error)
        if told is not None:
            self._tell(told)

    def _tell(self, error: click.ClickException) -> None:
        echo(f"Error: {error.format_message()}", err=True)

    # --- commands -------------------------------------------------------------------------------------------

    def _command(self, text: str) -> None:
        name, _, argument = text.partition(" ")
        carried: dict[str, Callable[[str], None]] = {
            ".cost": self._cost,
            ".explain": self._explain,
            ".help": self._help,
            ".measure": self._measure,
            ".mode": self._choose,
            ".quit": self._quit,
            ".schema": self._schema,
            ".status": self._status,
        }
        if name not in carried:
            raise click.ClickException(f"no such command: {name}; .help lists them")
        carried[name](argument.strip().removesuffix(";").strip())

    def _cost(self, question: str) -> None:
        ledger = self._session.state.ledger
        since = float((ledger.spent - self._began) / ledger.cap)
        lines = [
            f"Spent since the shell began: {since:.2%} of the budget. "
            f"Spent in all: {ledger.share:.2%}. Left: {1 - ledger.share:.2%}."
        ]
        asked = self._read(question) if question else self._last
        if asked is not None:
            which = "This question" if question else "The last question, asked now,"
            lines.append(f"{which} {self._session.forecast(asked).sentence()}.")
        show("\n".join(lines))

    def _explain(self, question: str) -> None:
        if not question:
            raise click.ClickException("expected .explain with a condition or a statement")
        show(self._session.explain(self._read(question)).to_text(terminal_width()))

    def _help(self, _: str) -> None:
        width = max(map(len, COMMANDS))
        show("\n".join([_HELP, *(f"  {name:<{width}}  {told}" for name, told in COMMANDS.items())]))

    def _choose(self, mode: str) -> None:
        if mode and mode not in MODES:
            raise click.ClickException(f"expected .mode {', '.join(MODES[:-1])} or {MODES[-1]}, got {mode!r}")
        self._mode = mode or self._mode
        if not mode:
            show(self._mode)

    def _measure(self, attributes: str) -> None:
        if not attributes:
            raise click.ClickException("expected .measure with an attribute, or several with commas between")
        names = tuple(name.strip().strip('"') for name in attributes.split(","))
        contract = self._session.state.contract
        how = (contract.domain, contract.options.confidence)
        quote = self._session.measure(names, dry_run=True)
        show(quote.sentence(*how))
        if self._can_agree and quote.affordable and click.confirm("Pay it?", err=True):
            quote = self._session.measure(names, at_most=quote.share)
            show(quote.sentence(*how, measured=True))

    def _quit(self, _: str) -> None:
        self._over = True

    def _schema(self, name: str) -> None:
        show(schema_text(self._session.domain, name.strip('"')))

    def _status(self, _: str) -> None:
        show(status_text(self._session.contract, self._session.status()))
