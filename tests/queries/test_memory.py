"""Memories: bounded, and what goes is drawn, the same each time."""

from __future__ import annotations

import threading

from queries.memory import Memory
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
