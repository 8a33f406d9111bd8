"""What the tests of ``queries`` share: one small table declared by hand."""

from __future__ import annotations

import pytest

from queries import CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute


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
