"""Memories: bounded, and what was not looked for the longest goes first."""

from __future__ import annotations

import threading

from queries.memory import Memory


def test_what_was_not_looked_for_the_longest_goes_first() -> None:
    memory: Memory[int] = Memory(2, 10**6)
    memory.keep("a", 1, 0)
    memory.keep("b", 2, 0)
    assert memory.get("a") == 1
    memory.keep("c", 3, 0)
    assert [memory.get(key) for key in "abc"] == [1, None, 3]
    memory.keep("a", 4, 0)
    assert [memory.get(key) for key in "abc"] == [4, None, 3]


def test_it_takes_so_many_bytes_at_most_and_no_entry_an_eighth_of_them() -> None:
    memory: Memory[int] = Memory(10**6, 100_000)
    for number in range(200):
        memory.keep(number % 50, number, 10_000 + number)
        assert memory.size_in_bytes <= 100_000
    kept = [number for number in range(50) if memory.get(number) is not None]
    assert kept == list(range(41, 50))
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
    for thread in threads:
        thread.join()
    assert not faults
