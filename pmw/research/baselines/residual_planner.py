"""ResidualPlanner: the noisy marginals of least variance that a workload known in advance can have.

Let n_i be the cells of attribute i, and C_i = I - 11'/n_i, which takes the mean off. The residual of a scope
A is its marginal with every axis centred, (x C_i) marginal_A. The scope of no attributes counts too: its
residual is the number of records. Of each subset A of a scope of the workload is released, with independent
Gaussian noise of variance s_A in every cell,

    r_A = (x_{i in A} C_i) (marginal_A + z_A),    z_A ~ N(0, s_A I).                                  (1)

The paper releases (x Sub_i) marginal_A with noise of covariance s_A (x Sub_i Sub_i') instead, where Sub_i has
the n_i - 1 rows e_1 - e_j. As Sub_i^+ Sub_i = C_i and Sub_i C_i = Sub_i, each is a linear function of the
other, so both cost and tell the same. A person adds a unit vector e to the counts. The release tells that by

    mu^2 = e' (x C_i) e / s_A = w_A / s_A,    w_A = product_{i in A} (1 - 1/n_i),                     (2)

which is 2 rho; the squares of all releases add up. The identity is C_i plus 11'/n_i, so that a marginal is

    marginal_B = sum_{A in B} r_A spread evenly over the attributes of B that A lacks,                (3)

without bias, and the variance of each of its cells, the same for all, is

    sum_{A in B} s_A w_A product_{i in B, not in A} 1/n_i^2.                                          (4)

The sum over B of c_B times (4) is the sum over A of v_A s_A, where v_A is the sum, over all B that hold A, of
c_B w_A product 1/n_i^2. With prices p_A = w_A / s_A it is sum v_A w_A / p_A. By the inequality of Cauchy and
Schwarz that is at least (sum sqrt(v_A w_A))^2 / sum p_A, and equal where

    p_A = mu^2 sqrt(v_A w_A) / (the sum of all such roots).                                           (5)

Noise is floating-point, so this is a yardstick and no private release.

Source: Xiao, He, Zhang and Kifer (2023), An Optimal and Scalable Matrix Mechanism for Noisy Marginals under
Convex Loss Functions (NeurIPS): base mechanisms and their privacy cost, (1) and (2), reconstruction and its
variances, (3) and (4), the sum of variances in closed form, (5). That no matrix mechanism with Gaussian noise
has a smaller weighted sum of variances is proved there; the rest is derived above.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from queries.domain import Domain

Scope = tuple[str, ...]


def residual_prices(domain: Domain, weights: Mapping[Scope, float], cap: float) -> dict[Scope, float]:
    """Return the prices with the least weighted sum of variances: Equation 5.

    Args:
        cap: mu squared of all together.

    Returns:
        mu squared of each subset of a scope, the fewest attributes first; they add up to the cap. What has an
        attribute of one cell is free.
    """
    worth: dict[Scope, float] = {}
    for scope, weight in weights.items():
        for part in _subsets(scope):
            worth[part] = worth.get(part, 0.0) + weight * _cell_share(domain, scope, part)
    roots = {
        part: math.sqrt(worth[part] * _unit_price(domain, part))
        for part in sorted(worth, key=lambda part: (len(part), part))
    }
    total = sum(roots.values())
    return {part: cap * root / total for part, root in roots.items()}


def residual_variances(domain: Domain, prices: Mapping[Scope, float]) -> dict[Scope, float]:
    """Return the variance s_A of the noise that each price buys, records squared: Equation 2."""
    return {part: _unit_price(domain, part) / price if price else 0.0 for part, price in prices.items()}


def cell_variance(domain: Domain, scope: Scope, variances: Mapping[Scope, float]) -> float:
    """Return the variance of each cell of a reconstructed marginal, records squared: Equation 4."""
    return sum(variances[part] * _cell_share(domain, scope, part) for part in _subsets(scope))


def centred(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a table less its mean along each axis, one axis after the other: the residual of its scope."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def reconstructed(
    domain: Domain, scope: Scope, residuals: Mapping[Scope, NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Return a marginal as the sum of the residuals of its scope's subsets: Equation 3."""
    marginal = np.zeros(domain.scope_shape(scope))
    for part in _subsets(scope):
        shape = [domain[name].size if name in part else 1 for name in scope]
        spread = math.prod(domain[name].size for name in scope if name not in part)
        marginal += residuals[part].reshape(shape) / spread
    return marginal


def _subsets(scope: Scope) -> Iterator[Scope]:
    return itertools.chain.from_iterable(
        itertools.combinations(scope, count) for count in range(len(scope) + 1)
    )


def _unit_price(domain: Domain, part: Scope) -> float:
    """Return mu squared of a residual whose noise has variance 1: w_A."""
    return math.prod(1 - 1 / domain[name].size for name in part)


def _cell_share(domain: Domain, scope: Scope, part: Scope) -> float:
    """Return what a residual of noise of variance 1 adds to the variance of each cell of a marginal."""
    spread = math.prod(domain[name].size for name in scope if name not in part)
    return _unit_price(domain, part) / spread**2
