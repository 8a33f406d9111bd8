from __future__ import annotations

import numpy as np
import pytest

from benchmarks.sparse_laws import TEST_LAWS, THRESHOLD_LAWS

# Mean and second moment of each law at scale 1.
MOMENTS = {"laplace": (0.0, 2.0), "exponential": (1.0, 2.0), "gaussian": (0.0, 1.0), "none": (0.0, 0.0)}


@pytest.mark.parametrize("law", sorted(THRESHOLD_LAWS))
def test_nodes_integrate_moments(law: str) -> None:
    nodes, weights = THRESHOLD_LAWS[law]
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    assert (weights @ nodes, weights @ nodes**2) == pytest.approx(MOMENTS[law], abs=1e-5)


@pytest.mark.parametrize("law", ["laplace", "exponential"])
def test_nodes_integrate_a_tail(law: str) -> None:
    nodes, weights = THRESHOLD_LAWS[law]
    tail = 0.5 if law == "laplace" else 1.0
    assert weights @ np.exp(nodes / 2) == pytest.approx(4 / 3 if law == "laplace" else 2, rel=1e-3)
    assert weights[nodes > np.log(tail / 2**-20)].sum() == pytest.approx(2**-20, rel=1e-9)


@pytest.mark.parametrize("law", sorted(TEST_LAWS))
def test_above_and_below_are_all_that_can_happen(law: str) -> None:
    y = np.linspace(-20, 20, 401)
    above, below = np.exp(TEST_LAWS[law].log_above(y)), np.exp(TEST_LAWS[law].log_below(y))
    np.testing.assert_allclose(above + below, 1, rtol=1e-12)
    assert (np.diff(above) <= 0).all()


def test_laws_have_the_tails_they_are_named_for() -> None:
    y = np.array([3.0, 7.0])
    np.testing.assert_allclose(TEST_LAWS["laplace"].log_above(y), -y - np.log(2))
    np.testing.assert_allclose(TEST_LAWS["exponential"].log_above(y), -y)
    np.testing.assert_allclose(TEST_LAWS["sech2"].log_above(y), -2 * np.log(np.cosh(y / 2)))
    np.testing.assert_allclose(TEST_LAWS["gaussian"].log_above(y), [-6.6077262215, -27.3843070], rtol=1e-7)


@pytest.mark.parametrize(("law", "share"), [("laplace", 0.5), ("exponential", 1.0)])
def test_what_is_almost_sure_keeps_its_distance_from_one(law: str, share: float) -> None:
    missed = -TEST_LAWS[law].log_below(np.array([120.0]))
    assert missed == pytest.approx(share * np.exp(-120), rel=1e-9)
