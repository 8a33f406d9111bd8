"""Charts, texts and progress: what people see, as text."""

from __future__ import annotations

import io
import itertools
import json
import re
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmw.display.charts import Bar, Bars, Line, Picture, bar_chart
from pmw.display.progress import Progress
from pmw.display.texts import at_most_percent, counted, number, percent, terminal_text, text_table
from queries import all_marginals, prefixes
from tests.waiting import joined
from tests.worlds import PEOPLE

PICTURE = Picture("people", "sex", "Two bars.", "% of all records")
BARS = (
    Bar("a", 30.0, measured=28.0, interval=(20.0, 36.0)),
    Bar("b", 70.0, measured=75.0, interval=(67.0, 83.0)),
)


@pytest.mark.parametrize("starts", [(), ("0", "1", "2")])
def test_a_page_and_a_figure_show_the_same_numbers(starts: tuple[str, ...]) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the optional package matplotlib")
    from pmw.display.figures import draw_bars, new_figure

    bars = Bars(BARS, "measured, with its range", "%", starts)
    axes: Any = new_figure(3, 2).subplots()
    draw_bars(axes, PICTURE, bars)
    lengths = [bar.get_height() if starts else bar.get_width() for bar in axes.patches]
    assert lengths == [30.0, 70.0]
    (container,) = [one for one in axes.containers if one.get_label() == "measured"]
    axis = 1 if starts else 0
    assert [point[axis] for point in container[0].get_xydata()] == [28.0, 75.0]
    assert [[end[axis] for end in line] for line in container[2][0].get_segments()] == [[20, 36], [67, 83]]
    page = bar_chart(PICTURE, bars)
    size = "height" if starts else "width"
    _sample, *drawn = [float(one) for one in re.findall(rf'<rect [^>]*{size}="([0-9.]+)"', page)]
    assert drawn[0] / drawn[1] == pytest.approx(30 / 70, abs=0.001)
    assert "<title>people: sex, % of all records</title><desc>Two bars.</desc>" in page


def test_a_stepped_line_stays_until_its_next_point_and_of_very_many_points_both_ends_are_drawn() -> None:
    assert Line("spent", "line-0", [(0, 1), (2, 5)], is_stepped=True).corners == [(0, 1), (2, 1), (2, 5)]
    corners = Line("spent", "line-0", [(x, 2 * x) for x in range(10_000)]).corners
    assert len(corners) == 401
    assert (corners[0], corners[-1]) == ((0, 0), (9999, 19998))


# --- texts ----------------------------------------------------------------------------------------------


def test_one_thing_is_not_many() -> None:
    told = [counted(value, "record") for value in (0, 1, 1_000, 0.6, 1.4, 1.6, "1", "0.5")]
    plain = ["0 records", "1 record", "1,000 records"]
    assert told == [*plain, "1 record", "1 record", "2 records", "1 record", "0.5 records"]


def test_records_are_written_in_plain_numbers() -> None:
    values = (0, 0.123, 8.64, 9.87, 60, 121.3, 1_234.5, float("nan"))
    assert list(map(number, values)) == ["0", "0.12", "8.6", "9.9", "60", "121", "1,234", "none"]
    parts = ["100%", "49.4%", "1.2%", "0.30%", "0.0%", "0.000000%"]
    assert [percent(value) for value in (1, 0.494, 0.0123, 0.00301, 0, 1e-12)] == parts


# --- tables ------------------------------------------------------------------------------------------------


HEADER = ("occupation", "sex", "count", "low")
ROWS = [("Transport-moving", "Female", "1,234", "1,000"), ("Sales", "Male", "5", "0")]


@pytest.mark.parametrize("width", range(28, 45, 2))
def test_texts_are_cut_and_numbers_never(width: int) -> None:
    lines = text_table(HEADER, ROWS, left=2, width=width).split("\n")
    assert all(len(line) <= width for line in lines)
    assert lines[1].endswith("1,234  1,000") or "count: 1,234" in lines
    assert (width < 38) == any("Transport-moving" not in lines[1] for _ in lines)


def test_what_is_too_narrow_for_columns_gets_a_record_for_each_row() -> None:
    assert text_table(HEADER, ROWS, left=2, width=20) == (
        "occupation: Transport-moving\nsex: Female\ncount: 1,234\nlow: 1,000\n\n"
        "occupation: Sales\nsex: Male\ncount: 5\nlow: 0"
    )


@given(text=st.text(st.characters(), max_size=30))
def test_a_terminal_acts_on_nothing_in_a_text_and_json_says_the_same(text: str) -> None:
    told = terminal_text(text)
    assert all(one.isprintable() or one == "\n" for one in told)
    assert json.loads(terminal_text(json.dumps(text, ensure_ascii=False))) == text
    assert terminal_text(told) == told


def test_a_cell_of_a_table_stays_in_its_line() -> None:
    told = text_table(["a\x1b", "n"], [["x\ny", "1"]], left=1)
    assert [line.split() for line in told.splitlines()] == [["a\\u001b", "n"], ["x\\ny", "1"]]


@given(st.floats(0, 1))
def test_a_percentage_at_most_is_never_below_the_fraction_and_tells_it_from_certainty(
    fraction: float,
) -> None:
    shown = float(at_most_percent(fraction).removesuffix("%"))
    assert 100 * fraction <= shown + 1e-9
    assert shown <= 100 * fraction + 0.1 + 1e-9
    assert (shown == 100) == (100 * (1 - fraction) < 1e-6)


def test_a_percentage_at_most_is_rounded_up() -> None:
    told = {0.5: "50.0%", 0.73105: "73.2%", 0.98201: "98.3%", 0.99967: "99.967%", 1.0: "100%"}
    assert {fraction: at_most_percent(fraction) for fraction in told} == told


# --- progress -------------------------------------------------------------------------------------------


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
            with PEOPLE.opened(epsilon=1, seed=5) as session:
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
