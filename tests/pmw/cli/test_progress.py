"""Progress: how much of all is done, and how long the rest takes; on a terminal only."""

from __future__ import annotations

import io

import pytest

from pmw.cli.texts import Progress


class Screen(io.StringIO):
    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def shown(monkeypatch: pytest.MonkeyPatch, total: int | None, *, is_terminal: bool = True) -> list[str]:
    """Return the lines of 10 and 20 more after 30 and 60 seconds."""
    screen, clock = Screen(is_terminal), iter([100.0, 130.0, 160.0])
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr("pmw.cli.texts.time.monotonic", lambda: next(clock))
    line = Progress("answered", total)
    line.add(10, "3% spent")
    line.add(20)
    line.close()
    return [part.removeprefix("\x1b[K") for part in screen.getvalue().split("\r")[1:]]


def test_a_total_gives_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, 50) == [
        "10 of 50 answered; about 2:00 min left; 3% spent", "30 of 50 answered; about 40 s left", "",
    ]  # fmt: skip


def test_without_a_total_nothing_is_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, None) == ["10 answered; 3% spent", "30 answered", ""]


def test_without_a_terminal_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, 50, is_terminal=False) == []
