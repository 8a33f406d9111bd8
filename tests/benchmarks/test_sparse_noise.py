from __future__ import annotations

import numpy as np
import pytest

from benchmarks.sparse_noise import TEST_DISTRIBUTIONS, THRESHOLD_DISTRIBUTIONS

# Mean and second moment of each distribution at scale 1.
MOMENTS = {"laplace": (0.0, 2.0), "exponential": (1.0, 2.0), "gaussian": (0.0, 1.0), "none": (0.0, 0.0)}


@pytest.mark.parametrize("distribution", sorted(THRESHOLD_DISTRIBUTIONS))
def test_nodes_integrate_moments(distribution: str) -> None:
    nodes, weights = THRESHOLD_DISTRIBUTIONS[distribution]
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    assert (weights @ nodes, weights @ nodes**2) == pytest.approx(MOMENTS[distribution], abs=1e-5)


@pytest.mark.parametrize("distribution", ["laplace", "exponential"])
def test_nodes_integrate_a_tail(distribution: str) -> None:
    nodes, weights = THRESHOLD_DISTRIBUTIONS[distribution]
    tail = 0.5 if distribution == "laplace" else 1.0
    assert weights @ np.exp(nodes / 2) == pytest.approx(4 / 3 if distribution == "laplace" else 2, rel=1e-3)
    assert weights[nodes > np.log(tail / 2**-20)].sum() == pytest.approx(2**-20, rel=1e-9)


@pytest.mark.parametrize("distribution", sorted(TEST_DISTRIBUTIONS))
def test_above_and_below_are_all_that_can_happen(distribution: str) -> None:
    y = np.linspace(-20, 20, 401)
    above, below = (
        np.exp(TEST_DISTRIBUTIONS[distribution].log_above(y)),
        np.exp(TEST_DISTRIBUTIONS[distribution].log_below(y)),
    )
    np.testing.assert_allclose(above + below, 1, rtol=1e-12)
    assert (np.diff(above) <= 0).all()


def test_distributions_have_the_tails_they_are_named_for() -> None:
    y = np.array([3.0, 7.0])
    np.testing.assert_allclose(TEST_DISTRIBUTIONS["laplace"].log_above(y), -y - np.log(2))
    np.testing.assert_allclose(TEST_DISTRIBUTIONS["exponential"].log_above(y), -y)
    np.testing.assert_allclose(TEST_DISTRIBUTIONS["sech2"].log_above(y), -2 * np.log(np.cosh(y / 2)))
    np.testing.assert_allclose(
        TEST_DISTRIBUTIONS["gaussian"].log_above(y), [-6.6077262215, -27.3843070], rtol=1e-7
    )


@pytest.mark.parametrize(("distribution", "share"), [("laplace", 0.5), ("exponential", 1.0)])
def test_what_is_almost_sure_keeps_its_distance_from_one(distribution: str, share: float) -> None:
    missed = -TEST_DISTRIBUTIONS[distribution].log_below(np.array([120.0]))
    assert missed == pytest.approx(share * np.exp(-120), rel=1e-9)
