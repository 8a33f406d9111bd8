"""Histograms as a researcher has them, arrays of whole numbers, as the sources that releases count.

An array has no names and no ranges of values. So its axes are called x0, x1 and so on, and their values are
the numbers of their cells, which conditions such as ``x0 < 3`` can name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmw.data import CountSource, MemorySource, Table, as_source
from pmw.data.packed import PackedRecords
from pmw.errors import DataError
from pmw.privacy.random_bits import fresh_seed
from queries.domain import Domain
from queries.errors import QueryError
from queries.factors import UNITS, Factor
from queries.linear import LinearQuery
from queries.marginal import Histogram
from queries.numbers import IntegerAttribute
from queries.parsing import parse_where
from queries.plain_values import type_name

Counts: TypeAlias = ArrayLike | Histogram | CountSource
Question: TypeAlias = ArrayLike | LinearQuery | str

_MOST_RECORDS = 2**42  # units of their sum have 62 bits


def source_of(table: Table, domain: Domain) -> CountSource:
    """Return the count source of a table, as sessions read it.

    Privacy: holds true data; which records of a person are kept is chosen by a fresh secret key.
    """
    return as_source(table, domain, None if domain.person is None else fresh_seed())


def counted(histogram: Counts) -> CountSource:
    """Return the count source of a histogram; one that is a source already is returned as it is.

    Args:
        histogram: records per cell, whole and at least 0: an array, or nested lists, of one axis or more; or
            a ``Histogram``.

    Privacy: holds true data. An error says what is wrong with the counts of whoever holds them, before
        anything is released, and never which cell is so, or by how much.
    """
    if isinstance(histogram, CountSource):
        return histogram
    counts: NDArray[Any]
    if isinstance(histogram, Histogram):
        domain, counts = histogram.domain, histogram.counts
    else:
        try:
            counts = np.asarray(histogram)
        except (ValueError, OverflowError):
            told = "expected counts in an array, or in lists of one length on each level"
            raise DataError(told) from None
        if counts.ndim == 0 or counts.size == 0:
            raise DataError(f"expected counts of one cell or more, got an array of shape {counts.shape}")
        domain = Domain(
            tuple(IntegerAttribute(f"x{axis}", 0, size - 1) for axis, size in enumerate(counts.shape)),
            name="histogram",
        )
    return MemorySource(PackedRecords.of_counts(domain, _whole(counts).reshape(-1)))


def _whole(counts: NDArray[Any]) -> NDArray[np.int64]:
    """Return counts as int64, once they are found to be counts."""
    if not (np.issubdtype(counts.dtype, np.integer) or np.issubdtype(counts.dtype, np.floating)):
        raise DataError(f"expected whole numbers of records, got an array of {counts.dtype}")
    if not np.isfinite(counts).all():
        raise DataError("expected whole numbers of records, got some that are not finite")
    numbers = counts.astype(np.float64)
    if (numbers != np.floor(numbers)).any():
        raise DataError("expected whole numbers of records, got fractions; a histogram counts records")
    if (numbers < 0).any():
        raise DataError("expected at least 0 records in each cell, got negative counts")
    if float(numbers.sum()) > _MOST_RECORDS:
        raise DataError(f"expected at most {_MOST_RECORDS:,} records, got more")
    return counts.astype(np.int64)


def query_of(question: Question, domain: Domain) -> LinearQuery:
    """Return a question as a query on the cells of a domain.

    Args:
        question: weights in [0, 1], an array of the domain's shape or nested lists, which are rounded to the
            nearest multiples of 2^-20; a condition in words; or a query.
    """
    if isinstance(question, str):
        return parse_where(question, domain)
    if isinstance(question, LinearQuery):
        if question.domain != domain:
            raise QueryError("the query was made for another domain", code="bad_request")
        return question
    try:
        weights = np.asarray(question, dtype=np.float64)
    except (TypeError, ValueError):
        raise QueryError(
            f"expected weights in an array of numbers, got a {type_name(question)}", code="bad_request"
        ) from None
    if weights.shape != domain.shape:
        raise QueryError(
            f"expected weights of shape {domain.shape}, one for each cell, got {weights.shape}",
            code="bad_request",
        )
    if not ((weights >= 0) & (weights <= 1)).all():  # of NaN neither holds
        raise QueryError("expected weights in [0, 1], got others", code="bad_request")
    return LinearQuery(domain, (Factor(domain.names, np.rint(weights * UNITS).astype(np.int64)),))


def queries_of(questions: Sequence[Question], domain: Domain) -> list[LinearQuery]:
    """Return questions as queries on the cells of a domain; see ``query_of``."""
    return [query_of(question, domain) for question in questions]
