"""Editing: lines of a terminal with completion and history, by prompt_toolkit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from pmw.cli.shell.dialogue import GOES_ON, PROMPT, completions, is_unfinished
from pmw.cli.usage import echo
from queries.domain import Domain


class SchemaCompleter(Completer):
    """Offers commands, SQL words, and the names and values of a schema; it knows of nothing else."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Yield what may take the place of the word before the cursor."""
        for text, length in completions(document.text_before_cursor, self._domain):
            yield Completion(text, start_position=-length)


class EditedLines:
    """Lines of a terminal."""

    is_terminal = True

    def __init__(self, domain: Domain, history: Path | None) -> None:
        self._prompt: PromptSession[str] = PromptSession(
            history=_history(history),
            completer=SchemaCompleter(domain),
            complete_while_typing=False,
            multiline=Condition(lambda: is_unfinished(get_app().current_buffer.text)),
            prompt_continuation=GOES_ON,
            enable_history_search=True,
        )

    def read(self, unfinished: str) -> str | None:
        """Return what was written next, a whole statement where it has several lines; None at the end."""
        try:
            return self._prompt.prompt(GOES_ON if unfinished else PROMPT)
        except EOFError:
            return None


def _history(path: Path | None) -> History:
    """Return the history in a file that nobody else can read, or one that ends with the shell."""
    if path is None:
        return InMemoryHistory()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
    except OSError as error:
        echo(f"{path}: no history is kept ({error.strerror})", err=True)
        return InMemoryHistory()
    return FileHistory(path)
