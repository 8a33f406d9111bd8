"""Progress: a line that counts, where somebody waits before it, and that hinders nothing."""

from __future__ import annotations

import io
import itertools
import re
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import SimpleNamespace

import pandas as pd
import pytest

import pmw
from pmw.display.progress import Progress
from queries import Domain, all_marginals, prefixes
from tests.waiting import joined
from tests.worlds import PEOPLE


class Screen(io.StringIO):
    def __init__(self, is_terminal: bool = True) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    @property
    def lines(self) -> list[str]:
        """What stood on the line, one after the other."""
        return self.getvalue().split("\r\x1b[K")[1:]


class Broken(Screen):
    def write(self, text: str) -> int:
        raise BrokenPipeError(f"nobody reads {text!r}")


Notebook = type("Notebook", (Screen,), {"__module__": "ipykernel.iostream"})


def watched(
    patch: pytest.MonkeyPatch, screen: Screen, seconds: Sequence[float] | itertools.count[float]
) -> None:
    """Let progress write to a screen, and read these seconds from the clock, one after the other."""
    clock = iter(seconds)
    patch.setattr("sys.stderr", screen)
    patch.setattr("pmw.display.progress.time", SimpleNamespace(monotonic=lambda: next(clock)))


@pytest.mark.parametrize(
    ("total", "is_terminal", "lines"),
    [
        (
            50,
            True,
            ["10 of 50 answered; about 2:00 min left; 3% spent", "30 of 50 answered; about 40 s left"],
        ),
        (None, True, ["10 answered; 3% spent", "30 answered"]),
        (50, False, []),
    ],
)
def test_progress_tells_what_is_left_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, total: int | None, is_terminal: bool, lines: list[str]
) -> None:
    """10 and 20 more, after 30 and 60 seconds."""
    screen = Screen(is_terminal)
    watched(monkeypatch, screen, [100.0, 130.0, 160.0])
    with Progress("answered", total) as line:
        line.add(10, "3% spent")
        line.add(20)
    assert screen.lines == [*lines, ""] * is_terminal


def test_what_takes_less_than_a_second_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    watched(monkeypatch, screen, [100.0, 100.5, 100.9, 101.0, 101.1, 101.3])
    with Progress("answered") as line:
        for _ in range(5):
            line.add(1)
    assert screen.lines == ["3 answered", "5 answered", ""]


def test_a_notebook_gets_a_line_that_it_can_rewrite_and_keeps_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = Notebook(is_terminal=False)
    watched(monkeypatch, screen, [100.0, 130.0, 160.0])
    with Progress("answered", 50) as line:
        line.add(10)
        line.add(40)
    first, second, last = "10 of 50 answered; about 2:00 min left", "50 of 50 answered; about 0 s left", ""
    last = "50 of 50 answered".ljust(len(second))
    assert screen.getvalue() == f"\r{first}\r{second.ljust(len(first))}\r{last}\n"


def test_the_outer_of_two_lines_is_shown_and_after_an_error_another_one_can_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = Screen()
    watched(monkeypatch, screen, itertools.count(0.0, 10.0))
    with suppress(KeyError), Progress("outer") as outer:
        with Progress("inner") as inner:
            inner.add(3)
        outer.add(4)
        raise KeyError
    with Progress("next") as line:
        line.add(5)
    assert screen.lines == ["4 outer", "", "5 next", ""]


def test_threads_beside_the_main_one_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    watched(monkeypatch, screen, itertools.count(0.0, 10.0))

    def work() -> None:
        with Progress("answered") as line:
            line.add(1)

    thread = threading.Thread(target=work)
    thread.start()
    joined(thread)
    assert screen.lines == []


def test_a_session_counts_what_it_delivered_and_its_answers_are_those_that_nobody_watches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Numbers of delivered answers are all that is told, whatever the answers are."""
    questions = ["age >= 40", "sex = 'Male' AND age < 28", "region = 'north'", "age >= 40 AND sex = 'Male'"]
    found, shown, delivered = [], list[list[str]](), list[int]()
    for is_wanted, screen in ((False, Screen()), (True, Screen()), (True, Broken())):
        with monkeypatch.context() as patch:
            watched(patch, screen, itertools.count(0.0, 10.0))
            with opened(PEOPLE.frame, PEOPLE.domain) as session:
                session.progress = is_wanted
                session.ask(questions[0])  # it is delivered first, then the others
                parts = [session.ask_all(questions, deliver=lambda answers: delivered.append(len(answers)))]
                parts.append(session.ask_all(all_marginals(PEOPLE.domain, 2)))
                parts.append(session.ask_all(prefixes(PEOPLE.domain, "age")))
                parts.append(session.answer_arrays("age", [0, 2, 4], [3, 3, 6]))
                rows = [row for _, row in session.group_by(["sex", "region"]).rows]
                found.append(([list(part) for part in parts], rows))
            shown.append(screen.lines)
    assert found[0] == found[1] == found[2]
    assert sum(delivered) == 3 * len(questions)
    assert shown[0] == shown[2] == []
    assert len(shown[1]) >= 10
    ends = list(itertools.accumulate(delivered[len(delivered) // 3 : 2 * len(delivered) // 3]))
    told = [line.partition(" ")[0] for line in shown[1][: len(ends)]]
    assert len(ends) > 1
    assert told == [str(end) for end in ends]
    for line in shown[1]:
        assert re.fullmatch(r"(\d+ of \d+ answered; about (\d+:)?\d+ (s|min) left)?", line), line


def opened(frame: pd.DataFrame, domain: Domain) -> pmw.Session:
    options = pmw.Options(opening=pmw.Opening.ONE_WAY, seed=5)
    return pmw.open_session(frame, domain, epsilon=1, delta=1e-9, options=options)
