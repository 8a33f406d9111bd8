"""The functions of Near and Abuah's chapter on the sparse vector technique, by its names and signatures.

Queries are functions of the table, as in the chapter. Their values go to the algorithms of this project:
values and thresholds are whole numbers, and noise is exact. Without ``bits`` the noise comes from the
operating system; a seeded source is for tests and examples.

Source: Near and Abuah, "Programming Differential Privacy", chapter "The Sparse Vector Technique".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import numpy as np
from applications import clipping, large_counts
from numpy.typing import ArrayLike, NDArray

from pmw.errors import BudgetError
from pmw.privacy.budget import Number, as_fraction
from pmw.privacy.noise import uniform_below
from pmw.privacy.random_bits import BitSource, fresh_seed
from pmw.research.sparse_vectors import NaiveAboveThreshold
from pmw.sparse_vector import Sparse
from pmw.sparse_vector.noisy_comparison import require_integers

_SELECTED_BOUNDS = range(1, 1_000, 10)  # of ``naive_select_b``
_SETTLED = 10  # the increase of a sum that counts as none there, in years
_AVERAGE_BOUNDS = range(1, 150_000, 5)  # of ``auto_avg``


class Table(Protocol):
    """A table with a column ``Age`` of whole numbers, such as a data frame."""

    def __getitem__(self, name: str, /) -> ArrayLike: ...


D = TypeVar("D")


def laplace_mech(v: int, sensitivity: int, epsilon: Number, *, bits: BitSource | None = None) -> int:
    """Return v with discrete Laplace noise of scale sensitivity/epsilon, rounded up to 1/1024.

    Args:
        v: a true whole number.
        sensitivity: the most that v changes between neighbours, at least 1.
        epsilon: the price.
        bits: source of the noise.

    Raises:
        BudgetError: epsilon is not positive, v is not a whole number, or the noise is too wide to draw.

    Privacy: epsilon-DP.
    """
    noise = clipping.sum_noise(sensitivity, as_fraction(epsilon, "epsilon"))
    return _whole(v) + noise.sample(_source(bits))


def above_threshold(
    queries: Sequence[Callable[[D], int]], df: D, T: int, epsilon: Number, *, bits: BitSource | None = None
) -> int:
    """Return the place of the first query found above T; where none is, a random place.

    A random place cannot be told from a found one: see ``above_threshold_fail_signal``.

    Args:
        queries: of sensitivity 1, each a function of the table; at least one.
        df: the table.
        T: the threshold, public.
        epsilon: of the whole run.
        bits: source of the noise.

    Raises:
        BudgetError: epsilon is not positive, a query's value is not a whole number, or there is no query.

    Privacy: epsilon-DP, however many queries there are; the random place is chosen without the table.
    """
    if not queries:
        raise BudgetError("expected at least one query for a random place, got none")
    source = _source(bits)
    found = above_threshold_fail_signal(queries, df, T, epsilon, bits=source)
    return uniform_below(len(queries), source) if found is None else found


def above_threshold_fail_signal(
    queries: Sequence[Callable[[D], int]], df: D, T: int, epsilon: Number, *, bits: BitSource | None = None
) -> int | None:
    """Return the place of the first query found above T, or None where none is; as ``above_threshold``."""
    found = sparse(queries, df, 1, T, epsilon, bits=bits)
    return found[0] if found else None


def naive_above_threshold(
    queries: Sequence[Callable[[D], int]], df: D, T: int, epsilon: Number, *, bits: BitSource | None = None
) -> int | None:
    """Return the place of the first query whose noisy value is at least T, or None; it pays for each query.

    Args:
        queries: of sensitivity 1, each a function of the table.
        df: the table.
        T: the threshold, public.
        epsilon: of each query, not of the whole.
        bits: source of the noise.

    Raises:
        BudgetError: epsilon is not positive, or a query's value is not a whole number.

    Privacy: (epsilon times the number of queries)-DP.
    """
    source, limit = _source(bits), max(1, len(queries))
    algorithm = NaiveAboveThreshold.of(epsilon=limit * as_fraction(epsilon, "epsilon"), query_limit=limit)
    answered = algorithm.open()
    for place, query in enumerate(queries):
        answered, outcome, _ = algorithm.step(answered, query(df), T, source)
        if outcome:
            return place
    return None


def age_sum_query(df: Table, b: int) -> int:
    """Return the sum of the column Age, clipped to 0..b: true, of sensitivity b."""
    return clipping.clipped_sum(_ages(df), b)


def naive_select_b(
    query: Callable[[D, int], int], df: D, epsilon: Number, *, bits: BitSource | None = None
) -> int:
    """Return the first of 1, 11, ..., 991 at which a noisy sum is at most 10 above the one before; else 991.

    Args:
        query: the sum of the table at a bound b, of sensitivity b.
        df: the table.
        epsilon: of the whole list.
        bits: source of the noise.

    Raises:
        BudgetError: epsilon is not positive, or a sum is not a whole number.

    Privacy: epsilon-DP, by composition of one noisy sum per bound.
    """
    places = clipping.checked_bounds(_SELECTED_BOUNDS)
    return clipping.first_settled_sum(
        lambda b: _whole(query(df, b)), places, epsilon=epsilon, threshold=_SETTLED, bits=_source(bits)
    )


def create_query(b: int) -> Callable[[Table], int]:
    """Return the query ``age_sum_query`` at b less that at b + 1: true, of sensitivity 1, never above 0."""
    return lambda df: age_sum_query(df, b) - age_sum_query(df, b + 1)


def auto_avg(df: ArrayLike, epsilon: Number, *, bits: BitSource | None = None) -> float:
    """Return the average of a column, with a clipping bound that is found among 1, 6, ..., 149,996.

    Args:
        df: whole numbers, shape (n,), true data; values below 0 count as 0.
        epsilon: of the whole: a third each for bound, sum and count.
        bits: source of the noise.

    Raises:
        BudgetError: epsilon is not positive, or the values are not whole numbers.

    Privacy: epsilon-DP; see ``applications.auto_avg``, also for what departs from the chapter.
    """
    found = clipping.auto_avg(np.asarray(df), _AVERAGE_BOUNDS, epsilon=epsilon, bits=_source(bits))
    return found.average


def sparse(
    queries: Sequence[Callable[[D], int]],
    df: D,
    c: int,
    T: int,
    epsilon: Number,
    *,
    bits: BitSource | None = None,
) -> list[int]:
    """Return the places of the first queries found above T, at most c of them.

    Args:
        queries: of sensitivity 1, each a function of the table.
        df: the table.
        c: the number of positives after which it halts.
        T: the threshold, public.
        epsilon: of the whole run.
        bits: source of the noise.

    Raises:
        BudgetError: epsilon is not positive, c is below 1, or a query's value is not a whole number.

    Privacy: epsilon-DP: c runs of ``above_threshold`` at epsilon/c.
    """
    source = _source(bits)
    algorithm = Sparse.textbook(epsilon=epsilon, update_limit=c)
    state, places = algorithm.open(source), list[int]()
    for place, query in enumerate(queries):
        state, outcome = algorithm.step(state, query(df), T, source)
        if outcome:
            places.append(place)
        if state.positives == c:
            break
    return places


def age_range_query(df: Table, lower: int, upper: int) -> int:
    """Return how many ages lie between lower and upper, both excluded: true, of sensitivity 1."""
    return int(large_counts.range_counts(_ages(df), np.array([[lower + 1, upper - 1]]))[0])


def create_age_range_query(*, bits: BitSource | None = None) -> Callable[[Table], int]:
    """Return ``age_range_query`` for a random range: lower from 30 to 49, upper from lower to 69."""
    source = _source(bits)
    lower = 30 + uniform_below(20, source)
    upper = lower + uniform_below(70 - lower, source)
    return lambda df: age_range_query(df, lower, upper)


def range_query_svt(
    queries: Sequence[Callable[[D], int]],
    df: D,
    c: int,
    T: int,
    epsilon: Number,
    *,
    bits: BitSource | None = None,
) -> list[int]:
    """Return noisy counts of the first queries found above T, at most c of them, without their places.

    Args:
        queries: of sensitivity 1, each a function of the table.
        df: the table that is asked. The chapter asks a global table for the places; this is a departure.
        c: the number of positives after which it halts.
        T: the threshold, public.
        epsilon: of the whole: half for ``sparse``, epsilon/2c for each count.
        bits: source of the noise.

    Raises:
        BudgetError: epsilon is not positive, c is below 1, or a query's value is not a whole number.

    Privacy: epsilon-DP. Counts have fresh noise.
    """
    source, half = _source(bits), as_fraction(epsilon, "epsilon") / 2
    places = sparse(queries, df, c, T, half, bits=source)
    return [laplace_mech(queries[place](df), 1, half / c, bits=source) for place in places]


def _whole(value: int) -> int:
    return int(require_integers(np.array([value]))[0])


def _ages(df: Table) -> NDArray[np.int64]:
    return require_integers(np.asarray(df["Age"]))


def _source(bits: BitSource | None) -> BitSource:
    return BitSource(fresh_seed()) if bits is None else bits
