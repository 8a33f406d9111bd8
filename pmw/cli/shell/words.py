"""Words: what a line may go on with, and which lines belong together as one statement.

What is offered is a function of the public schema and the line alone.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence

from pmw.cli.texts import value_text
from pmw.display.texts import counted, text_table
from queries.categories import CategoricalAttribute
from queries.cells import cell_count, quoted_name
from queries.domain import Attribute, Domain

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


@functools.cache
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
    """Return the declared attributes and lookups in words, or every value of one."""
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
    return "\n".join(f"{name:<{width}}  {text}" for name, text in told.items())


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
