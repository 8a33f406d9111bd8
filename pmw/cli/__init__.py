"""The ``pmw`` command. Commands are in small modules; libraries load when one runs."""

from __future__ import annotations

from pmw.cli.main import main

__all__ = [
    "main",
]
