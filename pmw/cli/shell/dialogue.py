"""The dialogue: a line in, an answer out. An error ends a line and never the shell.

Lines come from a terminal with line editing, a plain one, or a pipe. Those of a terminal are kept in a file
of the user. What completion offers is a function of the public schema and the line alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import BinaryIO, Protocol

import click

from pmw.cli.answering import Asked, Result, paid, read_condition
from pmw.cli.texts import answer_text, show, status_text, table_text, terminal_width, value_text
from pmw.cli.usage import echo, json_line, refusal
from pmw.display.texts import counted, text_table
from pmw.public.answers import Answers
from pmw.session.requests import Part
from pmw.session.session import Session
from queries.categories import CategoricalAttribute
from queries.cells import cell_count, quoted_name
from queries.domain import Attribute, Domain
from queries.errors import QueryError
from queries.linear import LinearQuery
from queries.parsing import parse_sql

PROMPT, GOES_ON = "pmw> ", "...> "
LONGEST = 2**20  # characters of a question, which the parser refuses beyond
_BEGINS = re.compile(r"\s*(SELECT|WITH)\b", re.IGNORECASE)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")

COMMANDS = {
    ".cost": "what was spent since the shell began, and what the last question, or one given, could cost",
    ".explain": "which counts a question becomes, what is held of them and what they may cost",
    ".help": "this list",
    ".measure": "the price of a table such as .measure sex,race; it is paid after a yes on a terminal",
    ".mode": "table, csv or json: how answers are printed",
    ".quit": "leave; so does Ctrl-D",
    ".schema": "the attributes, or the values of one",
    ".status": "the guarantee, what was spent and how many questions were answered",
}
MODES = ("table", "csv", "json")

_CLAUSES = (  # words that are no functions
    "AS", "BETWEEN", "BY", "DESC", "DISTINCT", "ELSE", "END", "FALSE", "FILTER", "FROM", "GROUP", "HAVING",
    "IN", "IS", "JOIN", "LIKE", "LIMIT", "NOT", "NULL", "ON", "ORDER", "OVER", "SELECT", "THEN", "TRUE",
    "USING", "WHEN", "WHERE",
)  # fmt: skip
_MOST = 200  # values offered at once
_WORD = re.compile(r"[^\s(),;=<>!'\"]*$")
_NAME = r"(\"(?:[^\"]|\"\")+\"|[^\W\d]\w*)"
_COMPARED = re.compile(_NAME + r"\s*(?:=|<>|!=|<=|>=|<|>|(?:NOT\s+)?LIKE\b|(?:NOT\s+)?BETWEEN\b)\s*$", re.I)
_UPPER = re.compile(_NAME + r"\s+(?:NOT\s+)?BETWEEN\s+\S+\s+AND\s+$", re.I)
_LISTED = re.compile(_NAME + r"\s+(?:NOT\s+)?IN\s*\([^()]*$", re.I)
_READ = LONGEST + 1  # characters of a line; the rest of it is thrown away
_HELP = """A line is a condition, such as  age >= 40 AND sex = 'Female'
or an SQL statement, which may go over several lines and ends with a semicolon.
Tab completes names, values and words. Ctrl-C drops a line, Ctrl-D leaves."""


class Lines(Protocol):
    """Lines that somebody writes."""

    is_terminal: bool  # whoever writes them waits for each answer, so one interrupt drops one line

    def read(self, unfinished: str) -> str | None:
        """Return what was written next, a line or several; None at the end."""


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
    """A dialogue over one open session; each command of ``COMMANDS`` is a method of its name."""

    def __init__(self, session: Session) -> None:
        self._session, self._began = session, session.state.ledger.spent
        self._form = "table"
        self._last: Asked | None = None
        self._over = self._can_agree = False
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
        show(self._written(paid(self._session, None, partial(self._result, asked))))

    def _result(self, asked: Asked, most: Part) -> Result:
        if isinstance(asked, LinearQuery):
            return self._session.ask_all([asked], at_most=most)
        return self._session.tabulate(asked, at_most=most)

    def _read(self, text: str) -> Asked:
        plain = text.rstrip().removesuffix(";")
        domain = self._session.domain
        return parse_sql(plain, domain) if is_statement(plain) else read_condition(plain, domain)

    def _written(self, result: Result) -> str:
        if self._form == "csv":
            return str(result.to_pandas().to_csv(index=False)).rstrip("\n")
        if self._form == "json":
            return json_line((result[0] if isinstance(result, Answers) else result).to_dict())
        return answer_text(result[0]) if isinstance(result, Answers) else table_text(result)

    def _refuse(self, error: QueryError) -> None:
        self._refused += 1
        if self._form == "json":
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
        if name not in COMMANDS:
            raise click.ClickException(f"no such command: {name}; .help lists them")
        getattr(self, f"_{name[1:]}")(argument.strip().removesuffix(";").strip())

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

    def _mode(self, mode: str) -> None:
        if mode and mode not in MODES:
            raise click.ClickException(f"expected .mode {', '.join(MODES[:-1])} or {MODES[-1]}, got {mode!r}")
        self._form = mode or self._form
        if not mode:
            show(self._form)

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


# --- words: what a line may go on with, and which lines belong together as one statement --------------------


def completions(line: str, domain: Domain) -> Iterator[tuple[str, int]]:
    """Yield what the last word of a line may become, and how many characters it takes the place of."""
    word = _last_word(line)
    before = line[: len(line) - len(word)]
    folded = word.casefold()
    for candidate in _candidates(before, word, domain):
        plain = candidate.strip("'\"").casefold()
        if candidate.casefold().startswith(folded) or (folded and plain.startswith(folded.strip("'\""))):
            yield candidate, len(word)


def _last_word(line: str) -> str:
    """Return the word that is being written: from an open quote on, where there is one."""
    quote, closed, start = "", -2, 0
    for place, character in enumerate(line):
        if quote:
            quote, closed = ("", place) if character == quote else (quote, closed)
        elif character in "'\"":
            doubled = closed == place - 1 and line[closed] == character  # stands for one, inside quotes
            quote, start = character, start if doubled else place
    if quote:
        return line[start:]
    found = _WORD.search(line)
    return found.group() if found else ""


def _candidates(before: str, word: str, domain: Domain) -> Iterator[str]:
    names = [quoted_name(name) for name in domain.names]
    if before.startswith("."):
        command = before.split(maxsplit=1)[0]
        if command == ".mode":
            yield from MODES
            return
        if command in (".schema", ".measure"):
            yield from names
            yield from (quoted_name(one.name) for one in domain.lookups if command == ".schema")
            return
        before = before[len(command) :]
    elif not before.strip() and word.startswith("."):
        yield from COMMANDS
        return
    values = _compared(before, domain)
    if values is not None:
        yield from values
    if values is not None or word.startswith("'"):
        return
    yield from names
    yield from (quoted_name(name) for name in domain.levels)
    yield from (quoted_name(name) for one in domain.lookups for name in one.columns)
    tables = list(_tables(before, domain))
    yield from tables or _words()


@cache
def _words() -> Sequence[str]:
    from queries.statement_grammar import FUNCTIONS  # the parser is slow to import

    return sorted({*_CLAUSES, *FUNCTIONS})


def _tables(before: str, domain: Domain) -> Iterator[str]:
    if re.search(r"\bFROM\s+$", before, re.IGNORECASE):
        yield quoted_name(domain.name)
    if re.search(r"\bJOIN\s+$", before, re.IGNORECASE):
        yield from (quoted_name(one.name) for one in domain.lookups)


def _compared(before: str, domain: Domain) -> Sequence[str] | None:
    """Return the values of the attribute, or the texts of the column of a lookup, that is compared."""
    found = _COMPARED.search(before) or _UPPER.search(before) or _LISTED.search(before)
    if found is None:
        return None
    name = found.group(1)
    name = name[1:-1].replace('""', '"') if name.startswith('"') else name
    folded = {one.casefold(): one for one in domain.names}
    if name.casefold() in folded:
        return _values(domain[folded[name.casefold()]])
    texts = {
        text
        for one in domain.lookups
        for column in one.columns
        if column.casefold() == name.casefold()
        for text in one.texts(column).values()
        if text is not None
    }
    return [value_text(text) for text in sorted(texts)[:_MOST]] or None


def _values(attribute: Attribute) -> Sequence[str]:
    if isinstance(attribute, CategoricalAttribute):
        return [value_text(value) for value in attribute.values[:_MOST]]
    return [attribute.literal(edge) for edge in attribute.boundaries[:_MOST]]


def schema_text(domain: Domain, name: str = "") -> str:
    """Return the declared attributes, lookups and impossible conditions in words, or every value of one."""
    lookup = next((one for one in domain.lookups if one.name == name), None)
    if lookup is not None:
        rows = (
            (key, *(row.get(column, "") for column in lookup.columns)) for key, row in lookup.rows.items()
        )
        return text_table((lookup.key, *lookup.columns), list(rows), left=1 + len(lookup.columns))
    if name:
        attribute = domain[name]
        return "\n".join(attribute.label(code) for code in range(attribute.size))
    told = {one.name: _told(one) for one in domain}
    told |= {
        one.name: f"lookup of {one.attribute}, to join by {one.key}: {', '.join(one.columns)}"
        for one in domain.lookups
    }
    width = max(len(one) for one in told)
    lines = [f"{name:<{width}}  {text}" for name, text in told.items()]
    return "\n".join([*lines, *(f"impossible: {one.where}" for one in domain.impossible)])


def _told(attribute: Attribute) -> str:
    cells = counted(cell_count(attribute.size), "cell")
    if isinstance(attribute, CategoricalAttribute):
        shown = ", ".join(map(value_text, attribute.values[:4]))
        return f"{cells}: {shown}{', …' if len(attribute.values) > 4 else ''}"
    return f"{cells}: {attribute.literal(attribute.ends[0])} to {attribute.literal(attribute.last)}"


def is_statement(text: str) -> bool:
    """Tell whether a text is an SQL statement, or the beginning of one; a condition is none."""
    return _BEGINS.match(text) is not None


def is_unfinished(text: str) -> bool:
    """Tell whether a text is an SQL statement that goes on: it ends with a semicolon outside of quotes."""
    if not is_statement(text):
        return False
    bare = _QUOTED.sub("", text).rstrip()
    return not bare.endswith(";") or "'" in bare or '"' in bare


class Statements:
    """Collects lines into questions and commands: a statement may go over several of them."""

    def __init__(self) -> None:
        self._waiting: list[str] = []
        self._size = 0

    @property
    def unfinished(self) -> str:
        """The statement that goes on with the next line; empty where there is none."""
        return "\n".join(self._waiting)

    def add(self, lines: str) -> Iterator[str]:
        """Yield what some lines complete, each a question or a command."""
        for line in lines.split("\n"):
            self._waiting.append(line if self._waiting else line.strip())
            self._size += len(line) + 1
            if self._goes_on(line):
                continue
            text = self.unfinished
            self.drop()
            if text:
                yield text

    def drop(self) -> None:
        """Forget the statement that was begun."""
        self._waiting, self._size = [], 0

    def _goes_on(self, line: str) -> bool:
        """Tell whether what waits goes on after its newest line; what is too long is refused as it is."""
        if self._size > LONGEST:
            return False
        if len(self._waiting) > 1 and ";" not in line and "'" not in line and '"' not in line:
            return True  # as after the line before, which saves reading it all again
        return is_unfinished(self.unfinished)
