"""What the tests of ``queries`` share: one small table declared by hand, and random domains and counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray

from queries import (
    Attribute,
    CategoricalAttribute,
    Domain,
    Histogram,
    IntegerAttribute,
    LinearQuery,
    NumericAttribute,
)

Counts: TypeAlias = Callable[[Domain], st.SearchStrategy[Histogram]]
FullWeights: TypeAlias = Callable[[LinearQuery], NDArray[np.int64]]


@pytest.fixture(scope="session")
def people() -> Domain:
    """Return a domain with every kind of attribute and of name."""
    return Domain(
        (
            IntegerAttribute("age", 17, 90, missing=True),
            CategoricalAttribute("sex", ("Female", "Male"), other=True),
            NumericAttribute("income", (0, 10_000, 25_000, 50_000)),
            IntegerAttribute("education-num", 1, 16),
            IntegerAttribute("hours", 0, 99, 10),
            CategoricalAttribute("größe", ("klein", "groß")),
            CategoricalAttribute("member", (True, False)),
        ),
        name="people",
    )


@pytest.fixture(scope="session")
def small_domains() -> st.SearchStrategy[Domain]:
    """Return a strategy for domains with one to three attributes of one to six cells."""
    return st.lists(_attributes(), min_size=1, max_size=3).map(_named)


@pytest.fixture(scope="session")
def counts_over() -> Counts:
    """Return the strategy of histograms over a domain, with small counts."""

    def histograms(domain: Domain) -> st.SearchStrategy[Histogram]:
        cells = st.lists(st.integers(0, 50), min_size=domain.size, max_size=domain.size)
        return cells.map(lambda values: Histogram(domain, np.array(values).reshape(domain.shape)))

    return histograms


@pytest.fixture(scope="session")
def full_weights() -> FullWeights:
    """Return what spreads a query's weights over the whole domain: int64, units, shape ``domain.shape``."""

    def spread(query: LinearQuery) -> NDArray[np.int64]:
        shape = [a.size if a.name in query.scope else 1 for a in query.domain]
        return np.broadcast_to(query.weights().reshape(shape), query.domain.shape)

    return spread


@st.composite
def _attributes(draw: st.DrawFn) -> Attribute:
    missing, other = draw(st.booleans()), draw(st.booleans())
    size = draw(st.integers(1, 4))
    kind = draw(st.sampled_from(["integer", "numeric", "categorical"]))
    if kind == "integer":
        width = draw(st.integers(1, 3))
        first = draw(st.integers(-5, 5))
        last = first + size * width - 1 - draw(st.integers(0, width - 1))
        return IntegerAttribute("?", first, last, width, missing=missing, other=other)
    if kind == "numeric":
        return NumericAttribute("?", tuple(range(size + 1)), missing=missing, other=other)
    return CategoricalAttribute("?", ("w", 7, True, "x")[:size], missing=missing, other=other)


def _named(attributes: list[Attribute]) -> Domain:
    renamed = [replace(attribute, name=name) for name, attribute in zip("abc", attributes, strict=False)]
    return Domain(tuple(renamed))
