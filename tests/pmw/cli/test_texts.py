"""Texts of the commands: an example that the cells decide, and lines that keep together what belongs so."""

from __future__ import annotations

import pytest

from pmw.cli.status_commands import _source
from pmw.cli.texts import example_where
from queries import Attribute, CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute, parse_where


@pytest.mark.parametrize(
    ("attribute", "where"),
    [
        (NumericAttribute("x", (0, 10_000, 25_000)), "x < 10000"),
        (NumericAttribute("x", (0, 1), missing=True), "x >= 0"),
        (NumericAttribute("x", (0, 1_234_567, 2e7)), "x < 1234567"),
        (NumericAttribute("x", (0.1, 0.123456789, 0.2)), "x < 0.123456789"),
        (IntegerAttribute("x", 0, 79, 5), "x >= 40"),
    ],
)
def test_the_suggested_question_cuts_no_cell(attribute: Attribute, where: str) -> None:
    domain = Domain((CategoricalAttribute("sex", ("f", "m")), attribute))
    suggested = example_where(domain)
    assert suggested == f"sex = 'f' AND {where}"
    assert parse_where(suggested, domain).aligned


def test_a_number_is_not_parted_from_the_word_before_it() -> None:
    source = "discrete Gaussian noise: Canonne, Kamath and Steinke (2020), Theorem 4"
    text = f"total, tree nodes, marginal: {source}"
    first, second = _source(text).splitlines()
    assert second == "    Theorem 4"
    assert f"{first.strip()} {second.strip()}" == text
