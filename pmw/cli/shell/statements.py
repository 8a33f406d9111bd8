"""Statements: which lines belong together."""

from __future__ import annotations

import re
from collections.abc import Iterator

PROMPT, GOES_ON = "pmw> ", "...> "
LONGEST = 2**20  # characters of a question, which the parser refuses beyond
_BEGINS = re.compile(r"\s*(SELECT|WITH)\b", re.IGNORECASE)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


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
