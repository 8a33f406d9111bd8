"""Prices: what plans count on of questions about an attribute, however long it is."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from pmw.model.prices import AxisPrice, asked_cells, asked_gram, axis_rows, shared_prices
from queries import CategoricalAttribute, IntegerAttribute
from queries.domain import Attribute

ATTRIBUTES: list[Attribute] = [
    IntegerAttribute("one", 0, 0),
    IntegerAttribute("two", 0, 1),
    IntegerAttribute("some", 0, 15),
    IntegerAttribute("beside", 0, 200, missing=True, other=True),
    CategoricalAttribute("values", tuple(range(9)), missing=True),
]
LONG = (IntegerAttribute("long", 1, 10**6), CategoricalAttribute("list", tuple(range(50_000))))


@pytest.mark.parametrize("attribute", ATTRIBUTES, ids=lambda one: one.name)
def test_cells_of_questions_are_those_of_their_gram_matrix(attribute: Attribute) -> None:
    gram, (mean, square) = asked_gram(attribute), asked_cells(attribute)
    assert mean == pytest.approx(np.trace(gram))  # weights are 0 or 1
    assert square == pytest.approx(gram.sum())


def test_long_attributes_have_a_price_without_matrices() -> None:
    for attribute in LONG:
        assert axis_rows(attribute) is None
        price, (mean, square) = AxisPrice.of(attribute), asked_cells(attribute)
        assert price.spread == pytest.approx(mean - square / attribute.size)
        assert 0 < price.mean < 1


def test_prices_are_those_of_the_least_mean_variance() -> None:
    axes = tuple(AxisPrice.of(attribute) for attribute in ATTRIBUTES[1:4])
    prices = shared_prices(axes, axes, 3)
    everybody, single, (pair, triple) = prices.everybody, prices.single, prices.wider
    assert shared_prices(axes, axes, 2) == replace(prices, wider=(pair,))
    # By hand: questions about 1, 2 and 3 attributes are alike, and of each number all sets are.
    means, spread = [one.mean for one in axes], axes[0].spread
    others = means[1] + means[2], means[1] * means[2]
    assert single[0] ** 2 == pytest.approx(spread * (1 / 3 + others[0] / 3 + others[1]) / 3)
    products = means[0] * means[1] + means[0] * means[2] + means[1] * means[2]
    assert everybody**2 == pytest.approx((sum(means) / 3 + products / 3 + np.prod(means)) / 3)
    three = [
        one.spread * two.spread * (1 / 3 + other.mean) / 3
        for one, two, other in (axes, (axes[0], axes[2], axes[1]), (axes[1], axes[2], axes[0]))
    ]
    assert pair == pytest.approx(np.mean(np.sqrt(three)))
    assert triple**2 == pytest.approx(math.prod(one.spread for one in axes) / 3)
    assert AxisPrice.of(ATTRIBUTES[0]).spread == 0
