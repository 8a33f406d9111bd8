"""What the tests of ``queries`` share: one small table declared by hand."""

from __future__ import annotations

import pytest

from queries import Domain
from tests.queries.meaning import PEOPLE


@pytest.fixture(scope="session")
def people() -> Domain:
    """Return a domain with every kind of attribute and of name."""
    return PEOPLE
