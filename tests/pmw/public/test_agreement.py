"""Agreement: counts of groups add up to their totals, within their own intervals, or are left as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import pmw
from pmw.public.agreement import ROUNDING, Asked, Counts, Wholes, agreed, largest_gap, with_sums
from pmw.public.answer import Answer, Source
from pmw.public.free_answers import ModelAnswers
from pmw.public.state import PublicState
from queries.parsing import parse_sql
from queries.statements import TOTAL, Statement
from tests.worlds import WIDE, ends, known

BY_ONE = "SELECT a, COUNT(*) FROM wide WHERE b <= 2 GROUP BY a"
BY_TWO = "SELECT a, c, COUNT(*) FROM wide WHERE b <= 2 GROUP BY a, c"


@cache
def state() -> PublicState:
    return WIDE.state(seed=4)


def told(statement: Statement) -> dict[Asked, Answer]:
    """Return what the model says of each group."""
    answers = ModelAnswers(state())
    return {(id(leaf), group.places): answers.answer(query) for leaf, group, query in statement.questions()}


def apart(answers: Mapping[Asked, Answer], seed: int, part: float = 1.0) -> dict[Asked, Answer]:
    """Return answers as another model may have given them: within a part of the way to their upper ends."""
    generator, found = np.random.default_rng(seed), {}
    for asked, one in answers.items():
        count = generator.uniform(one.count, one.count + part * (ends(one)[1] - one.count))
        found[asked] = replace(one, count=count, fraction=count / state().total.value)
    return found


def spread(values: NDArray[np.float64], generator: np.random.Generator) -> Counts:
    """Return other counts than the true ones, with intervals that hold both."""
    low, high = (values + sign * generator.exponential(30, values.shape) for sign in (-1, 1))
    return Counts(generator.uniform(low, high), low, high)


@given(st.integers(1, 6), st.integers(1, 7), st.integers(0, 2**32))
def test_what_intervals_allow_is_found_inside_them(rows: int, columns: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    true = generator.exponential(50, (rows, columns))
    row, column = (place.reshape(-1) for place in np.indices(true.shape))
    groups, total = spread(true.reshape(-1), generator), np.array([true.sum()])
    wholes = [
        Wholes(Counts(total, total, total), np.zeros(true.size, dtype=np.int64)),
        Wholes(spread(true.sum(axis=1), generator), row),
        Wholes(spread(true.sum(axis=0), generator), column),
    ]
    found = known(agreed(groups, wholes))
    assert np.all((groups.low <= found.value) & (found.value <= groups.high))
    assert abs(found.value.sum() - total[0]) <= ROUNDING
    for one, axis in zip(wholes[1:], (1, 0), strict=True):
        sums = found.value.reshape(true.shape).sum(axis=axis)
        assert np.all(sums >= one.counts.low - ROUNDING)
        assert np.all(sums <= one.counts.high + ROUNDING)


@pytest.mark.parametrize("text", [BY_ONE, BY_TWO])
def test_groups_add_up_to_what_their_total_is_when_it_is_asked_for(text: str) -> None:
    statement = parse_sql(text, WIDE.domain)
    before = apart(told(statement), 3)
    found, (note,) = with_sums(state(), statement, before)
    total = ModelAnswers(state()).answer(statement.where)
    assert abs(sum(one.count for one in before.values()) - total.count) > 10
    assert sum(one.count for one in found.values()) == pytest.approx(total.count, abs=ROUNDING)
    moved = [abs(found[asked].count - before[asked].count) for asked in before]
    assert f"of {len(before)} counts were moved by at most {max(moved):,.1f} records" in note
    for asked, one in found.items():
        assert one.interval == before[asked].interval
        assert ends(one)[0] <= one.count <= ends(one)[1]
        assert one.fraction == pytest.approx(one.count / state().total.value)
    if text == BY_TWO:
        for a in range(4):
            part = ModelAnswers(state()).answer(statement.where.within({"a": np.array([a])}))
            of = sum(one.count for (_, places), one in found.items() if places[0] == a)
            assert ends(part)[0] - ROUNDING <= of <= ends(part)[1] + ROUNDING


@pytest.mark.parametrize(
    "text", [BY_ONE, BY_TWO, "SELECT COUNT(*) FROM wide", "SELECT a, AVG(b) FROM wide GROUP BY a"]
)
def test_what_adds_up_stays_as_it_is(text: str) -> None:
    statement = parse_sql(text, WIDE.domain)
    answers = told(statement)
    found, notes = with_sums(state(), statement, answers)
    assert found == answers
    assert notes == ()


def test_what_cannot_add_up_is_told_and_left() -> None:
    statement = parse_sql(BY_ONE, WIDE.domain)
    answers = {asked: replace(one, count=0.0, interval=(0.0, 1.0)) for asked, one in told(statement).items()}
    found, (note,) = with_sums(state(), statement, answers)
    assert found == answers
    assert note == "groups do not add up to their totals: their bars leave no numbers that do"


def test_neither_a_refused_count_nor_what_moves_little_within_its_bar_is_told() -> None:
    statement = parse_sql(BY_ONE, WIDE.domain)
    little, answers = apart(told(statement), 3, part=0.2), apart(told(statement), 3)
    found, notes = with_sums(state(), statement, little)
    assert found != little
    assert notes == ()
    first, *others = answers
    answers[first] = replace(answers[first], count=float("nan"), interval=None, source=Source.REFUSED)
    found, notes = with_sums(state(), statement, answers)
    assert [found[one].count for one in others] == [answers[one].count for one in others]
    assert notes == ()


def test_the_groups_of_a_session_add_up_to_what_is_asked_of() -> None:
    """Of the groups one was answered before others were tested, by another model."""
    options = pmw.Options(test=pmw.TestKind.QUERY, seed=2)
    with pmw.open_session(WIDE.frame, WIDE.domain, epsilon=4, delta=1e-9, options=options) as session:
        session.ask("a = 3 AND b <= 2")
        table = session.sql(BY_ONE)
        counts = [one.value for one in table.column(table.titles[0])]
        total = ModelAnswers(session.state).answer(parse_sql(BY_ONE, WIDE.domain).where)
        assert sum(filter(None, counts)) == pytest.approx(total.count, abs=ROUNDING)
    assert largest_gap(Counts(*np.zeros((3, 0))), []) == 0


@pytest.mark.parametrize("sets", ["ROLLUP (a, c)", "CUBE (a, c)"])
def test_totals_in_a_table_are_what_its_groups_add_up_to(sets: str) -> None:
    statement = parse_sql(f"SELECT a, c, COUNT(*) FROM wide WHERE b <= 2 GROUP BY {sets}", WIDE.domain)
    before = apart(told(statement), 3)
    found, notes = with_sums(state(), statement, before)
    assert any("so that groups add up" in note for note in notes)
    for asked, one in found.items():
        assert ends(one) == before[asked].interval
        assert ends(one)[0] - 1e-9 <= one.count <= ends(one)[1] + 1e-9
    counts = {places: one.count for (_, places), one in found.items()}
    everybody = next(asked for asked in found if asked[1] == (TOTAL, TOTAL))
    assert found[everybody] == before[everybody]
    for (a, c), count in counts.items():
        parts = [
            counts[one]
            for one in counts
            if TOTAL not in one and a in (TOTAL, one[0]) and c in (TOTAL, one[1])
        ]
        assert sum(parts) == pytest.approx(count, abs=ROUNDING)
