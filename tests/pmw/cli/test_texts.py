"""Texts of the commands: an example that the cells decide, lines that keep together, and progress."""

from __future__ import annotations

import io

import pytest

from pmw.cli.status_commands import _source
from pmw.cli.texts import Progress, example_where
from queries import Attribute, CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute, parse_where


@pytest.mark.parametrize(
    ("attribute", "where"),
    [
        (NumericAttribute("x", (0, 10_000, 25_000)), "x < 10000"),
        (NumericAttribute("x", (0, 1), missing=True), "x >= 0"),
        (NumericAttribute("x", (0, 1_234_567, 2e7)), "x < 1234567"),
        (NumericAttribute("x", (0.1, 0.123456789, 0.2)), "x < 0.123456789"),
        (IntegerAttribute("x", 0, 79, 5), "x >= 40"),
    ],
)
def test_the_suggested_question_cuts_no_cell(attribute: Attribute, where: str) -> None:
    domain = Domain((CategoricalAttribute("sex", ("f", "m")), attribute))
    suggested = example_where(domain)
    assert suggested == f"sex = 'f' AND {where}"
    assert parse_where(suggested, domain).aligned


def test_a_number_is_not_parted_from_the_word_before_it() -> None:
    source = "discrete Gaussian noise: Canonne, Kamath and Steinke (2020), Theorem 4"
    text = f"total, tree nodes, marginal: {source}"
    first, second = _source(text).splitlines()
    assert second == "    Theorem 4"
    assert f"{first.strip()} {second.strip()}" == text


# --- progress ----------------------------------------------------------------------------------------------


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
