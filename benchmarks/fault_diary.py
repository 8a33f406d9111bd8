"""Diaries of fault injection: every process of a series and how it ended, told where a promise was broken."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = ["begin_diary", "note_process", "story"]


def begin_diary(folder: Path) -> None:
    """Begin a new diary for the session in a folder."""
    _diary(folder).write_text("")


def note_process(folder: Path, *words: object) -> None:
    """Write down a process: what it ran, what befell it, and how it ended.

    Args:
        folder: of the session that it ran on.
        words: they stand on one line, and lines of their own are indented below it.
    """
    text = " ".join(map(str, words)).replace("\n", "\n      ")
    with _diary(folder).open("a") as diary:
        diary.write(f"    {text}\n")


def story(title: str, folder: Path, broken: Sequence[str]) -> str:
    """Return what was broken in a series, and every process of it, in order.

    Args:
        title: the series and what befell it.
        folder: of its session.
        broken: what was broken; empty where the benchmark itself failed.
    """
    lines = [title, *(f"  broken: {one}" for one in broken), "  processes, in order:"]
    return "\n".join(lines) + "\n" + _diary(folder).read_text()


def _diary(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.diary")
