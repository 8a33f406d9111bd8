"""Memories: bounded, and what goes is drawn, the same each time."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queries import CategoricalAttribute, Domain, IntegerAttribute, LinearQuery, parse_where
from queries.factors import UNITS, Factor
from queries.memory import Memory, held_bytes
from queries.reader import QuestionReader
from tests.waiting import joined


def test_where_there_is_no_room_another_one_goes_and_the_newest_stays() -> None:
    memory: Memory[int] = Memory(3, 10**6)
    for number in range(50):
        memory.keep(number, number + 100, 0)
        kept = [one for one in range(50) if memory.get(one) is not None]
        assert len(kept) == min(number + 1, 3)
        assert memory.get(number) == number + 100
    memory.keep(49, 7, 0)
    assert memory.get(49) == 7


def test_what_is_asked_in_turns_and_has_little_too_much_is_mostly_found() -> None:
    memory: Memory[int] = Memory(900, 10**6)
    found = 0
    for turn in range(10):
        for number in range(1000):
            if memory.get(number) is None:
                memory.keep(number, turn, 0)
            else:
                found += 1
    assert found > 0.7 * 9 * 1000  # by what was looked for last, none


def test_which_one_goes_is_the_same_each_time() -> None:
    memories: list[Memory[int]] = [Memory(5, 10**6) for _ in range(2)]
    for number in range(100):
        for memory in memories:
            memory.keep(number, number, 0)
    first, second = ([one for one in range(100) if memory.get(one) is not None] for memory in memories)
    assert first == second


def test_it_takes_so_many_bytes_at_most_and_no_entry_an_eighth_of_them() -> None:
    memory: Memory[int] = Memory(10**6, 100_000)
    for number in range(200):
        memory.keep(number % 50, number, 10_000 + number)
        assert memory.size_in_bytes <= 100_000
    assert sum(memory.get(number) is not None for number in range(50)) == 9
    memory.keep("large", 1, 12_500)
    assert memory.get("large") is None
    assert memory.get(49) == 199


def test_threads_share_one() -> None:
    memory: Memory[int] = Memory(3, 10**6)
    faults: list[BaseException] = []

    def work() -> None:
        try:
            for number in range(20_000):
                memory.keep(number % 7, number, 1)
                memory.get(number % 5)
        except BaseException as fault:  # noqa: BLE001 - told below
            faults.append(fault)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    joined(*threads)
    assert not faults


# --- what questions about many cells are kept in ------------------------------------------------------------


CELLS = 100_000
DOMAIN = Domain((IntegerAttribute("x", 0, CELLS - 1), CategoricalAttribute("y", tuple("abcde"))))


@pytest.mark.parametrize(
    ("condition", "most"),
    [
        ("x BETWEEN 100 AND 90000", 64),
        ("x = 17", 64),
        ("x <> 17 AND y IN ('a', 'c')", 128),
        ("x IN (1, 3, 5, 7, 9000, 90000)", 256),
        ("MOD(x, 2) = 0", CELLS // 8),  # a bit for each cell
    ],
)
def test_a_question_is_kept_in_few_bytes_and_counts_the_same(condition: str, most: int) -> None:
    query = parse_where(condition, DOMAIN)
    assert query.size_in_bytes <= most
    table = np.random.default_rng(1).integers(0, 9, (CELLS, 5))
    weights = np.ones((CELLS, 5), dtype=np.int64)
    for factor in query.factors:
        shape = [CELLS if name == "x" else 1 for name in DOMAIN.names]
        shape = [
            size if name in factor.scope else 1 for name, size in zip(DOMAIN.names, DOMAIN.shape, strict=True)
        ]
        weights = weights * (factor.weights.reshape(shape) // UNITS)
    values = table if query.scope == ("x", "y") else table.sum(axis=1)
    assert query.evaluate(values.astype(np.float64)) == (table * weights).sum()
    again = LinearQuery.from_dict(DOMAIN, query.to_dict())
    assert again.to_json() == query.to_json()


@given(
    st.lists(st.tuples(st.integers(0, 2999), st.integers(1, 900)), max_size=40),
    st.sampled_from([UNITS, 1, UNITS // 3]),
    st.booleans(),
)
def test_weights_of_many_cells_come_back_as_they_were(
    runs: list[tuple[int, int]], weight: int, is_dense: bool
) -> None:
    weights = np.zeros(3000, dtype=np.int64)
    for start, length in runs:
        weights[start : start + length] = weight
    if is_dense:
        weights[::2] = np.where(weights[::2] > 0, 0, weight)
    factor, places = Factor(("x",), weights), weights.nonzero()[0]
    assert np.array_equal(factor.weights, weights)
    assert not factor.weights.flags.writeable
    assert factor.is_indicator == (weight == UNITS or not places.size)
    assert factor.constant == (int(weights[0]) if len({*weights.tolist()}) == 1 else None)
    if factor.constant is None:
        assert factor.box == (slice(places[0], places[-1] + 1),)
        assert factor.is_box == (weight == UNITS and places.size == places[-1] + 1 - places[0])


def test_a_condition_on_two_long_attributes_comes_back_as_it_was() -> None:
    weights = np.zeros((60, 50), dtype=np.int64)
    weights[10:20, 5:9], weights[30, 40] = UNITS, UNITS
    factor = Factor(("a", "b"), weights)
    assert np.array_equal(factor.weights, weights)
    assert factor.box == (slice(10, 31), slice(5, 41))
    assert not factor.is_box


def test_readers_keep_no_more_than_their_bytes_whatever_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 50 * CELLS // 8  # the bytes of the cells of half of the long ones
    monkeypatch.setattr("queries.reader._MOST_BYTES", limit)
    reader, generator = QuestionReader(DOMAIN), np.random.default_rng(2)
    memories = (reader._conditions, reader._terms, reader._statements, reader._beginnings)
    for number in range(300):
        if number % 3:
            first, last = np.sort(generator.integers(0, CELLS, 2))
            condition = f"x BETWEEN {first} AND {last}"
        else:
            condition = f"MOD(x, 2) = 0 AND x > {number}"
        reader.where(condition)
        assert all(memory.size_in_bytes <= limit for memory in memories)
    assert reader._conditions.size_in_bytes > limit - CELLS // 4  # the oldest made room, and no more went
    held = [held_bytes(found) for found, _ in reader._conditions._kept.values()]
    assert limit / 2 < sum(held) / 2 <= limit  # what is counted is there; two parts share the array of cells
