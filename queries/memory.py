"""A memory of bounded size, for what would otherwise be found again; and what values take in it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from queries.domain import Domain

_Kept = TypeVar("_Kept")

_ENTRY = 512  # bytes of an entry besides those that are told: objects and their places
_PART = 8  # one entry has at most one in so many of the bytes, so that it does not take the place of all
_FACTOR, _STEP = 6364136223846793005, 1442695040888963407  # Knuth's MMIX: which entry goes


class Memory(Generic[_Kept]):
    """What was found under some keys. Where there is no room, any of the others goes. Threads may share it.

    Which one goes is drawn, always the same way, and not by when it was last looked for: what is asked in
    turns, and is a little more than there is room for, would else be gone each time it is looked for.

    Args:
        most_bytes: that they may take together. What takes an eighth of that by itself is not kept.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: dict[Hashable, tuple[_Kept, int]] = {}
        self._keys = list[Hashable]()  # of what is kept, in any order
        self._drawn = 0
        self._lock = threading.Lock()  # of who keeps something

    @property
    def size_in_bytes(self) -> int:
        """Bytes that are kept, by what was told of them."""
        return self._bytes

    def get(self, key: Hashable) -> _Kept | None:
        """Return what is kept under a key, or None."""
        found = self._kept.get(key)
        return None if found is None else found[0]

    def keep(self, key: Hashable, found: _Kept, size: int) -> None:
        """Keep what was found under a key; both take ``size`` bytes."""
        size += _ENTRY
        if size * _PART > self._most_bytes:
            return
        with self._lock:
            known = self._kept.get(key)
            self._bytes += size - (0 if known is None else known[1])
            self._kept[key] = found, size
            if known is None:
                self._keys.append(key)
            while len(self._keys) > self._most or self._bytes > self._most_bytes:
                self._let_go()

    def take_over(self, other: Memory[_Kept], is_taken: Callable[[Any], bool]) -> None:
        """Keep what another memory does, under some of its keys."""
        for key, (found, size) in list(other._kept.items()):
            if is_taken(key):
                self.keep(key, found, size - _ENTRY)

    def _let_go(self) -> None:
        """Forget one of those that are kept, but not the newest, which is the last of the keys."""
        self._drawn = (self._drawn * _FACTOR + _STEP) % 2**64
        keys = self._keys
        place = (self._drawn >> 33) % (len(keys) - 1)
        gone, keys[place], keys[-2] = keys[place], keys[-2], keys[-1]
        keys.pop()
        self._bytes -= self._kept.pop(gone)[1]


def held_bytes(value: Any) -> int:
    """Return about how many bytes a value of arrays and texts takes; too many where parts share an array.

    A domain counts for nothing: all questions share it.
    """
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(held_bytes(one) for pair in value.items() for one in pair)
    if isinstance(value, tuple | list | frozenset):
        return sum(map(held_bytes, value))
    if is_dataclass(value) and not isinstance(value, Domain):
        return sum(held_bytes(getattr(value, one.name)) for one in fields(value) if hasattr(value, one.name))
    return 0
