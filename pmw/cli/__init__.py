"""The ``pmw`` command. Each command is a small module of its own; libraries load when a command runs."""

from __future__ import annotations

from pmw.cli.main import main

__all__ = [
    "main",
]
