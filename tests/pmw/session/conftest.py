"""Domains that several tests of sessions share."""

from __future__ import annotations

import pytest

from queries import CategoricalAttribute, Domain, IntegerAttribute


@pytest.fixture(scope="session")
def years() -> Domain:
    """The people of the other tests by single years: too many cells to measure the whole table."""
    return Domain(
        (
            IntegerAttribute("age", 20, 59),
            CategoricalAttribute("sex", ("Female", "Male")),
            CategoricalAttribute("region", ("north", "east", "south", "west"), other=True, missing=True),
            CategoricalAttribute("member", (True, False)),
        ),
        name="people",
    )


@pytest.fixture(scope="session")
def whole_years() -> Domain:
    """The same with a cell for every record, as replace-one needs it."""
    return Domain(
        (
            IntegerAttribute("age", 20, 59, missing=True, other=True),
            CategoricalAttribute("sex", ("Female", "Male"), missing=True, other=True),
            CategoricalAttribute("region", ("north", "east", "south", "west"), other=True, missing=True),
            CategoricalAttribute("member", (True, False), missing=True, other=True),
        ),
        name="people",
    )
