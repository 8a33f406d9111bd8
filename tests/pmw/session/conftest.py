"""Domains, and sessions over them, that several tests of sessions share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

import pmw
from queries import Domain, LinearQuery, random_conjunctions
from tests import worlds


@pytest.fixture(scope="session")
def years() -> Domain:
    """The people of the other tests by single years: too many cells to measure the whole table."""
    return worlds.YEARS.domain


@pytest.fixture(scope="session")
def whole_years() -> Domain:
    """The same with a cell for every record, as replace-one needs it."""
    return worlds.WHOLE_YEARS.domain


@pytest.fixture(scope="session")
def opened() -> Callable[..., pmw.Session]:
    """Return what opens a session over ``whole_years``, given a path, epsilon, delta and options."""
    return partial(worlds.WHOLE_YEARS.opened, epsilon=1)


@pytest.fixture(scope="session")
def stream() -> list[LinearQuery]:
    """Distinct questions over the visits: a repeated one is not counted where releases come due."""
    found = {one.to_json(): one for one in random_conjunctions(worlds.VISITS.domain, 4000, seed=9)}
    return list(found.values())[:1100]
