"""Work: how many cells are evaluated while a question is read.

Whoever makes an array over the cells of a scope counts them first. What is counted follows from the question
and the declared attributes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from queries.cells import cell_count
from queries.errors import QueryError

MOST_BINS = 10_000  # answers that one question may ask for
MOST_CELLS = 2**20  # that are evaluated to read one question
MOST_TOGETHER = 2**22  # to read the questions of one request
TEXT = 4  # cells that the text of one counts as: it takes as long
_ALONE = 16  # cells of one attribute by itself that count as one: they are as many as were declared
_LEAST = 2**8  # cells that an evaluation counts as at least
_Found = TypeVar("_Found")


class Work:
    """The cells that were counted so far, and what was found of parts of the question.

    Args:
        look: is called before each evaluation; what it raises ends the reading.
    """

    def __init__(self, look: Callable[[], None] = lambda: None) -> None:
        self.done = 0
        self._known: dict[Hashable, Any] = {}
        self._look = look

    def count(self, cells: int, scope: Sequence[str]) -> None:
        """Count cells; see ``count_cells``."""
        self._look()
        self.done += max(_LEAST, cells if len(scope) > 1 else cells // _ALONE)
        if self.done > MOST_CELLS:
            what = ", ".join(scope) or "constants"
            raise QueryError(
                f"reading this question would evaluate more than {MOST_CELLS:,} cells; the last "
                f"{cell_count(cells)} are of {what}; compare fewer attributes with each other, fewer times",
                code="too_large",
            )

    def once(self, key: Hashable, evaluate: Callable[[], _Found]) -> _Found:
        """Return what was found under a key, or evaluate it; see ``once``."""
        if key not in self._known:
            self._known[key] = evaluate()
        found: _Found = self._known[key]
        return found


_UNDER_WAY: ContextVar[Work | None] = ContextVar("reading", default=None)


def require_few_groups(count: int) -> None:
    """Refuse more groups than answers that one question may ask for.

    Raises:
        QueryError: there are more than ``MOST_BINS``.
    """
    if count > MOST_BINS:
        raise QueryError(
            f"expected at most {MOST_BINS:,} groups, got {count:,}; group by fewer attributes",
            code="too_large",
        )


@contextmanager
def counted_reading(look: Callable[[], None] | None = None) -> Iterator[Work]:
    """Count the cells that are evaluated within; inside another reading they count as that one's.

    Args:
        look: is called now, and before each evaluation, as the outermost reading's; what it raises ends it.
    """
    if look is not None:
        look()
    outer = _UNDER_WAY.get()
    if outer is not None:
        yield outer
        return
    work = Work() if look is None else Work(look)
    token = _UNDER_WAY.set(work)
    try:
        yield work
    finally:
        _UNDER_WAY.reset(token)


def once(key: Hashable, evaluate: Callable[[], _Found]) -> _Found:
    """Return what was found under a key while the question under way is read, or evaluate it.

    Args:
        key: tells what is evaluated.
        evaluate: is called where it was not yet.
    """
    work = _UNDER_WAY.get()
    return evaluate() if work is None else work.once(key, evaluate)


def count_cells(cells: int, scope: Sequence[str]) -> None:
    """Count cells before they are evaluated; nothing is counted where no question is read.

    Args:
        cells: of the scope, or several times that.
        scope: attribute names.

    Raises:
        QueryError: the question under way evaluates more than ``MOST_CELLS``.
    """
    work = _UNDER_WAY.get()
    if work is not None:
        work.count(cells, scope)
