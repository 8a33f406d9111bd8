"""Benchmarks of answers: a line for each kind or way, held against its own truth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks import kinds, training
from benchmarks.tables import MADE_UP, StreamChoice, late_attributes
from queries import Domain, IntegerAttribute
from tests.worlds import WIDE

Run = Callable[..., list[Any]]  # a benchmark with its arguments


# --- kinds ----------------------------------------------------------------------------------------------


MORE = {"kept", "paid", "repeated, free", "repeated, paid again", "certified"}


@pytest.mark.slow
def test_each_kind_has_a_line(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    for kind, asked in kinds._ASKED.items():
        monkeypatch.setitem(kinds._ASKED, kind, asked[: 4 if kind == "kept or paid" else 2])
    monkeypatch.setattr(kinds, "_TESTED", kinds._TESTED[:2])
    monkeypatch.setattr(kinds, "alone", lambda work, *given: work(*given))
    lines = {line["kind"]: line for line in run(kinds, "--sessions", "2")}
    assert {"kept", "paid", "certified"} <= set(lines)
    assert set(lines) <= {*kinds._ASKED, *(f"after finish, {kind}" for kind in kinds._ASKED), *MORE}
    assert lines["kept"]["answers"] + lines["paid"]["answers"] == lines["kept or paid"]["answers"] == 8
    assert lines["combined"]["half_width"] <= 200 < lines["kept or paid"]["half_width"]
    assert all(line["coverage"] > 0.5 for line in lines.values())


def test_bars_that_fail_together_have_the_error_of_one_bar_a_session() -> None:
    bars = [[kinds.Bar("any", 0, one, 5)] * 10 for one in (4, 6, 6, 6)]  # the first session misses with all
    scores = kinds._scores(bars)
    assert (scores["answers"], scores["coverage"], scores["below"]) == (40, 0.75, False)
    assert scores["error"] == pytest.approx(0.25)  # the standard deviation of 0, 1, 1, 1 is 1/2
    sessions = [[kinds.Bar("any", 0, 4 if one % 5 else 6, 5)] for one in range(100)]
    assert kinds._scores(sessions)["below"] is True


# --- training -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("delta", "way", "held"), [("0", "session", 0), ("1e-9", "target", 15)])
def test_a_line_has_what_was_told_before(
    monkeypatch: pytest.MonkeyPatch, delta: str, way: str, held: int
) -> None:
    domain = Domain(tuple(IntegerAttribute(name, 0, 3) for name in WIDE.domain.names))
    monkeypatch.setattr(training, "_TARGET", "c")
    least = 1 if way == "session" else len(WIDE.frame)
    monkeypatch.setattr(training, "_scores", lambda _, rows, __: {"boosted": 0.5 * (len(rows) >= least)})
    line = training._compared(domain, WIDE.frame, WIDE.frame, {"boosted": 0.8}, (1, 1.0, delta, way))
    assert (line["pairs_held"], line["delta"], line["way"]) == (f"{held} of 15", float(delta), way)
    assert line["part"] == {"boosted": 0.625}


# --- tables ---------------------------------------------------------------------------------------------


def test_the_second_half_is_about_other_attributes() -> None:
    domain = Domain(tuple(IntegerAttribute(name, 0, 9) for name in "abcde"))
    questions = late_attributes(domain, 101, seed=3)
    assert len(questions) == 101
    early = {name for query in questions[:51] for name in query.scope}
    assert len(early) == 3
    assert not any(early.issuperset(query.scope) for query in questions[51:])
    assert {name for query in questions[51:] for name in query.scope} == set(domain.names)


def test_dependence_is_where_the_tables_say() -> None:
    chain, latent, parity = (
        np.array(MADE_UP[name](None, StreamChoice(size=0)).records.columns, dtype=np.float64)
        for name in ("chain", "latent-class", "parity")
    )
    first, second, last = chain[0], chain[1], chain[-1]
    assert np.mean(first == second) > 0.65
    assert np.mean(first == last) < 0.55
    assert np.abs(np.corrcoef(latent) - np.eye(16)).max() > 0.2
    assert np.abs(np.corrcoef(parity) - np.eye(16)).max() < 0.04
    differ = np.abs(parity[0] - parity[1])
    assert np.mean(differ == parity[2]) == pytest.approx(0.9, abs=0.01)
    assert np.mean(differ == parity[3]) == pytest.approx(0.5, abs=0.02)
