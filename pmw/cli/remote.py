"""Sessions of a service: what commands open where the session is an address."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pmw.service.client import RemoteSession, connect


def connected(url: str, token_file: Path | None) -> RemoteSession:
    """Return a session of a service.

    Args:
        token_file: the file with the token; ``-`` is standard input.
    """
    return connect(url, token=_token(token_file))


def _token(path: Path | None) -> str:
    if path is None:
        raise click.UsageError("a service asks for a token; give --token-file FILE")
    if str(path) == "-":
        return sys.stdin.readline().strip()
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise click.UsageError(f"--token-file {path}: the file cannot be read as a token") from None
