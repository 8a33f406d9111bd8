"""The shell: one session held open, and a dialogue over it, line by line."""

from __future__ import annotations

from pmw.cli.shell.dialogue import Dialogue
from pmw.cli.shell.lines import Lines, lines_of

__all__ = [
    "Dialogue",
    "Lines",
    "lines_of",
]
