"""Levels: coarser values of a categorical attribute, such as the first digits of its codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Level:
    """A coarser value for each declared value.

    Args:
        name: by which questions ask for it.
        parents: the coarser value of each declared value, in their order.
        prefix: the length of the prefixes that these are; None where they are declared.
    """

    name: str
    parents: tuple[str, ...]
    prefix: int | None = None

    @property
    def nodes(self) -> tuple[str, ...]:
        """The different coarser values, in the order in which they come first."""
        return tuple(dict.fromkeys(self.parents))

    @property
    def codes(self) -> tuple[int, ...]:
        """The number of each declared value's coarser one among ``nodes``."""
        numbers = {node: number for number, node in enumerate(self.nodes)}
        return tuple(map(numbers.__getitem__, self.parents))


def prefix_level(attribute: str, texts: Sequence[str], length: int) -> Level:
    """Return the level of the first ``length`` characters of each value, called ``NAME_LENGTH``."""
    return Level(f"{attribute}_{length}", tuple(text[:length] for text in texts), length)


def check_levels(levels: Sequence[Level], values: Sequence[str]) -> tuple[Level, ...]:
    """Return levels from the coarsest to the finest.

    Raises:
        ValueError: a level lacks a parent, a name stands twice, or a value of one has two parents in another.
    """
    for level in levels:
        _check_level(level, values)
    ordered = sorted(levels, key=lambda level: len(set(level.parents)))
    names = [level.name for level in ordered]
    if len(set(names)) < len(names):
        raise ValueError(f"the level {max(names, key=names.count)!r} stands there twice")
    for coarse, fine in pairwise(ordered):
        _check_nested(coarse, fine)
    return tuple(ordered)


def _check_level(level: Level, values: Sequence[str]) -> None:
    if not isinstance(level.name, str) or not level.name or not level.name.isprintable():
        raise ValueError(f"a level needs a printable name, got {level.name!r}")
    if len(level.parents) != len(values):
        raise ValueError(
            f"level {level.name!r} needs a parent for each of the {len(values):,} values, "
            f"got {len(level.parents):,}"
        )
    for value, parent in zip(values, level.parents, strict=True):
        if not isinstance(parent, str) or not parent:
            raise ValueError(f"level {level.name!r} has no parent for the value {value!r}")


def _check_nested(coarse: Level, fine: Level) -> None:
    found: dict[str, str] = {}
    for child, parent in zip(fine.parents, coarse.parents, strict=True):
        if found.setdefault(child, parent) != parent:
            raise ValueError(
                f"{child!r} of level {fine.name!r} has two parents in level {coarse.name!r}: "
                f"{found[child]!r} and {parent!r}"
            )
