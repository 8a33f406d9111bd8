"""A memory of bounded size, for what would otherwise be found again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from contextlib import suppress
from typing import Generic, TypeVar

_Kept = TypeVar("_Kept")


class Memory(Generic[_Kept]):
    """What was found under some keys; what was not looked for the longest goes first. Threads may share it.

    Args:
        most: how many are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()

    def get(self, key: Hashable) -> _Kept | None:
        """Return what is kept under a key, or None."""
        found = self._kept.get(key)
        if found is not None:
            try:  # noqa: SIM105, since to enter a context takes as long as the look itself
                self._kept.move_to_end(key)
            except KeyError:  # another thread let it go just then
                pass
        return found

    def keep(self, key: Hashable, found: _Kept) -> None:
        """Keep what was found under a key."""
        self._kept[key] = found
        if len(self._kept) > self._most:
            with suppress(KeyError):
                self._kept.popitem(last=False)

    def forget(self, key: Hashable) -> None:
        """Forget what is kept under a key, if anything."""
        self._kept.pop(key, None)
