"""Memories: bounded, and what was not looked for the longest goes first."""

from __future__ import annotations

import threading

from queries.memory import Memory


def test_what_was_not_looked_for_the_longest_goes_first() -> None:
    memory: Memory[int] = Memory(2)
    memory.keep("a", 1)
    memory.keep("b", 2)
    assert memory.get("a") == 1
    memory.keep("c", 3)
    assert [memory.get(key) for key in "abc"] == [1, None, 3]
    memory.keep("a", 4)
    memory.forget("c")
    memory.forget("c")
    assert [memory.get(key) for key in "abc"] == [4, None, None]


def test_threads_share_one() -> None:
    memory: Memory[int] = Memory(3)
    faults: list[BaseException] = []

    def work() -> None:
        try:
            for number in range(20_000):
                memory.keep(number % 7, number)
                memory.get(number % 5)
        except BaseException as fault:  # noqa: BLE001 - told below
            faults.append(fault)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
