"""Categories: attributes of declared values, and levels of coarser ones, such as first digits of codes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from itertools import pairwise

from queries.cells import (
    MISSING_LABEL,
    MOST_CELLS,
    OTHER_LABEL,
    CategoricalValue,
    Cells,
    GroupValue,
    canonical_text,
)
from queries.frozen import dataclass
from queries.plain_values import is_encodable


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
    """Return levels from the coarsest to the finest."""
    for level in levels:
        _check_level(level, values)
    ordered = sorted(levels, key=lambda level: len(set(level.parents)))
    names = [level.name for level in ordered]
    if len(set(names)) < len(names):
        raise ValueError(f"the level {max(names, key=names.count)!r} stands there twice")
    for coarse, fine in pairwise(ordered):
        found: dict[str, str] = {}
        for child, parent in zip(fine.parents, coarse.parents, strict=True):
            if found.setdefault(child, parent) != parent:
                raise ValueError(
                    f"{child!r} of level {fine.name!r} has two parents in level {coarse.name!r}: "
                    f"{found[child]!r} and {parent!r}"
                )
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


@dataclass(frozen=True, slots=True)
class CategoricalAttribute(Cells):
    """Declared values, one cell each; the text ``3`` and the integer 3 are one value.

    Args:
        values: at least one.
        levels: coarser values that questions may name instead, and that measurements and bins follow: for
            codes the lengths of prefixes, such as 2, or ``Level``; a value of one lies in one of the next.

    Attributes:
        codes: the cell of each value by its text.
    """

    values: tuple[CategoricalValue, ...]
    levels: tuple[Level, ...] = field(default=(), kw_only=True)
    codes: dict[str, int] = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.check()
        given: object = self.values
        if isinstance(given, str):
            raise self.wrong(f"values must be a list, got the text {given!r}")
        values = tuple(self.values)
        if not values:
            raise self.wrong("values must list at least one value, got none")
        for value in values:
            self._check_value(value)
        texts = [canonical_text(value) for value in values]
        if len(set(texts)) != len(texts):
            written = Counter(texts)
            twice = next(text for text in texts if written[text] > 1)
            raise self.wrong(f"values must differ, got {twice!r} more than once")
        if len(values) > MOST_CELLS:
            raise self.wrong(f"at most {MOST_CELLS:,} values, got {len(values):,}")
        for label, flag in ((MISSING_LABEL, self.missing), (OTHER_LABEL, self.other)):
            if flag and label in texts:
                raise self.wrong(f"{label!r} names the special cell and is no value")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "levels", self._checked_levels(texts))
        object.__setattr__(self, "codes", {text: code for code, text in enumerate(texts)})
        object.__setattr__(self, "_hash", hash((self.name, self.missing, self.other, values)))

    def _checked_levels(self, texts: list[str]) -> tuple[Level, ...]:
        levels: list[Level] = []
        for level in tuple(self.levels):
            given: object = level  # of a schema, or of a caller
            if isinstance(given, Level):
                levels.append(prefix_level(self.name, texts, given.prefix) if given.prefix else given)
            elif isinstance(given, int) and not isinstance(given, bool) and given > 0:
                levels.append(prefix_level(self.name, texts, given))
            else:
                raise self.wrong(f"levels must be lengths of prefixes, at least 1, got {given!r}")
        try:
            return check_levels(levels, texts)
        except ValueError as error:
            raise self.wrong(str(error)) from None

    def _check_value(self, value: object) -> None:
        if not isinstance(value, str | int):
            raise self.wrong(f"values must be strings, integers or booleans, got {value!r}")
        if isinstance(value, str) and not is_encodable(value):
            raise self.wrong(f"values must be valid Unicode text, got {value!a}")
        if value == "":
            raise self.wrong("an empty text is no value; declare missing = true instead")

    def _identity(self) -> tuple[object, ...]:
        # 1 and True are equal and hash alike, but they are different declarations.
        return self.name, self.missing, self.other, self.levels, self.values, tuple(map(type, self.values))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CategoricalAttribute) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return self._hash

    @property
    def hierarchy(self) -> tuple[tuple[int, ...], ...]:
        """The node of each value in each level that tells some values apart and not all, coarsest first."""
        different = {len(set(level.parents)): level.codes for level in self.levels}
        return tuple(codes for nodes, codes in sorted(different.items()) if 1 < nodes < self.base_size)

    @property
    def prefixes(self) -> tuple[int, ...]:
        """The lengths of prefixes that are levels."""
        return tuple(level.prefix for level in self.levels if level.prefix is not None)

    @property
    def parents(self) -> dict[str, tuple[str, ...]]:
        """The parents of the values in each declared level that is no prefix, by its name."""
        return {level.name: level.parents for level in self.levels if level.prefix is None}

    @property
    def level_names(self) -> tuple[str, ...]:
        return tuple(level.name for level in self.levels)

    def level(self, name: str) -> Level | None:
        """Return the level of a name, or None where there is none."""
        return next((level for level in self.levels if level.name == name), None)

    @property
    def base_size(self) -> int:
        return len(self.values)

    def _own_label(self, code: int) -> str:
        return canonical_text(self.values[code])

    def value(self, code: int) -> GroupValue:
        return self.values[code] if code < self.base_size else Cells.value(self, code)

    def number_ends(self) -> tuple[list[float], list[float]] | None:
        if not all(isinstance(value, int) and not isinstance(value, bool) for value in self.values):
            return None
        numbers = [float(value) for value in self.values]
        return numbers, numbers

    def texts(self, part: str | None = None) -> tuple[str, ...] | None:
        level = None if part is None else self.level(part)
        return tuple(one for one in (level.nodes if level else self.values) if isinstance(one, str))
