"""Work: how many cells are evaluated while a question is read, and what was found of its parts.

Whoever makes an array over the cells of a scope counts them first. What is counted follows from the question
and the declared attributes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar, cast

from queries.cells import cell_count
from queries.domain import Domain
from queries.errors import QueryError

MOST_BINS = 10_000  # answers that one question may ask for
MOST_SCOPE_CELLS = 2**22  # of the attributes that one aggregate, or one condition, is about
MOST_CELLS = 2**20  # that are evaluated to read one question
MOST_TOGETHER = 2**22  # to read the questions of one request
TEXT = 4  # cells that the text of one counts as: it takes as long
_ALONE = 16  # cells of one attribute by itself that count as one: they are as many as were declared
_LEAST = 2**8  # cells that an evaluation counts as at least
_Evaluate = TypeVar("_Evaluate", bound=Callable[..., Any])


class Work:
    """The work of one reading, in cells; ``look`` is called before each evaluation, and may end it."""

    def __init__(self, look: Callable[[], None]) -> None:
        self.done = 0
        self._look = look
        self._known: dict[Hashable, tuple[Domain, Any]] = {}

    def count(self, cells: int, scope: Sequence[str]) -> None:
        """Count cells; see ``count_cells``."""
        self._look()
        self.done += max(_LEAST, cells if len(scope) > 1 else cells // _ALONE)
        if self.done > MOST_CELLS:
            raise QueryError(
                f"reading this question would evaluate more than {MOST_CELLS:,} cells, the last "
                f"{cell_count(cells)} of {', '.join(scope)}; compare fewer attributes with each other, or "
                "fewer times",
                code="too_large",
            )

    def once(self, key: Hashable, domain: Domain, evaluate: Callable[[], Any]) -> Any:
        """Return what was found under a key over a domain, or evaluate it."""
        known = id(domain), key
        if known not in self._known:
            self._known[known] = domain, evaluate()  # which keeps the domain, so that no other has its id
        return self._known[known][1]


_UNDER_WAY: ContextVar[Work | None] = ContextVar("work", default=None)


@contextmanager
def counted_reading(look: Callable[[], None] = lambda: None) -> Iterator[Work]:
    """Count the cells that are evaluated within; inside another reading they count as that one's.

    ``look`` is called now, and before each evaluation of the outermost reading; what it raises ends it.
    """
    look()
    work = _UNDER_WAY.get() or Work(look)
    token = _UNDER_WAY.set(work)
    try:
        yield work
    finally:
        _UNDER_WAY.reset(token)


def count_cells(cells: int, scope: Sequence[str]) -> None:
    """Count cells before they are evaluated; where no question is read, they only have to fit."""
    require_fit(cells, scope)
    if (work := _UNDER_WAY.get()) is not None:
        work.count(cells, scope)


def require_fit(cells: int, scope: Sequence[str]) -> None:
    """Refuse more cells than one condition, or one aggregate, may be about."""
    if cells > MOST_SCOPE_CELLS:
        raise QueryError(
            f"a question that joins {', '.join(scope)} would need {cell_count(cells)} weights, at most "
            f"{MOST_SCOPE_CELLS:,} fit; ask about fewer attributes at once or use whole cells",
            code="too_large",
        )


def once(evaluate: _Evaluate) -> _Evaluate:
    """Have equal nodes of a tree, the first argument, evaluated once while a question is read."""

    @wraps(evaluate)
    def found(node: Hashable, domain: Domain, **named: Any) -> Any:
        if (work := _UNDER_WAY.get()) is None:
            return evaluate(node, domain, **named)
        key = evaluate, node, *named.values()
        return work.once(key, domain, lambda: evaluate(node, domain, **named))

    return cast(_Evaluate, found)


def require_few_groups(count: int) -> None:
    """Refuse more groups than answers that one question may ask for."""
    if count > MOST_BINS:
        raise QueryError(
            f"expected at most {MOST_BINS:,} groups, got {count:,}; group by fewer attributes",
            code="too_large",
        )
