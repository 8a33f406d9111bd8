"""Rows of statements: each is held against DuckDB, or against the words of its refusal.

A file has a row a line; lines that begin with ``--`` are comments::

    SELECT sex, COUNT(*) AS n FROM people GROUP BY sex
    SELECT age / 2 AS k FROM people GROUP BY k => SELECT age // 2 AS k FROM people GROUP BY k
    SELECT * FROM people -> unsupported: a list of records @ *

Behind ``=>`` stands what DuckDB is asked, behind ``->`` what a refusal says, behind ``@`` where it points.
``{ < | > }`` makes a row of each choice; where the same braces stand twice in a line, both have the same
choice. ``\\n`` is a new line.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from queries.frozen import dataclass

FOLDER = Path(__file__).parent
_CHOICES = re.compile(r"\{ (.*?) \}")


@dataclass(frozen=True, slots=True)
class StatementRow:
    """A statement, and what is right.

    Args:
        name: of its file, with the number of the line, and of the choice.
        text: the statement.
        reference: what DuckDB is asked.
        refusal: words of the refusal, of its code and message; empty where there is none.
        place: what stands where the refusal points to; empty for anywhere.
    """

    name: str
    text: str
    reference: str
    refusal: str
    place: str

    @property
    def file(self) -> str:
        """The name of its file."""
        return self.name.partition(":")[0]


def all_rows() -> list[StatementRow]:
    """Return the rows of every file."""
    return [
        row for path in sorted(FOLDER.glob("*.sql")) for row in rows_of(path.stem, path.read_text("utf-8"))
    ]


def rows_of(name: str, text: str) -> Iterator[StatementRow]:
    """Yield the rows of a file."""
    for number, line in enumerate(text.splitlines(), 1):
        if line and not line.startswith("--"):
            for choice, expanded in enumerate(_expanded(line), 1):
                rest, _, told = expanded.partition(" -> ")
                refusal, _, place = told.partition(" @ ")
                statement, _, reference = rest.partition(" => ")
                numbered = f"{name}:{number}.{choice}"
                yield StatementRow(numbered, statement, reference or statement, refusal, place)


def _expanded(line: str) -> Iterator[str]:
    """Yield a line with each choice in each of its braces."""
    groups = list(dict.fromkeys(_CHOICES.findall(line)))
    for chosen in itertools.product(*(group.split(" | ") for group in groups)):
        found = line.replace("\\n", "\n")
        for group, choice in zip(groups, chosen, strict=True):
            found = found.replace(f"{{ {group} }}", choice)
        yield found
