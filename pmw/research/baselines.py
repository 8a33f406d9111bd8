"""Baselines: what an own loop is compared with, each as a function of a histogram, or in closed form.

MWEM and the lecture's offline private multiplicative weights are ``fit_workload`` with questions to choose
among: noise, charges and models are those of a release. All pairs are measured once, and a model of maximum
entropy is fitted to them.

ResidualPlanner: the noisy marginals of least variance that a workload known in advance can have.

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
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pmw.model.dense import DenseDistribution
from pmw.model.distribution import SyntheticDistribution
from pmw.model.factors import positions
from pmw.model.graphical import GraphicalDistribution
from pmw.model.junction_tree import DEFAULT_MAX_CELLS, fits_tree, junction_tree
from pmw.model.measurement import MarginalMeasurement, target_of
from pmw.model.mirror_descent import FIRST_STEP_SIZE, DescentRule, descend
from pmw.planning.calibration import marginal_noise
from pmw.privacy.budget import Budget, Composition, Number, floor_price
from pmw.privacy.filter import PrivacyFilter, open_filter
from pmw.privacy.noise import NoiseDistribution
from pmw.privacy.random_bits import BitSource
from pmw.public.charges import marginal_charge
from pmw.public.options import Opening, Options, TestKind, UpdateRule
from pmw.research.histograms import Counts, Question, counted, queries_of
from pmw.research.offline import OfflineOptions, OfflineRelease, Targets, fit_workload
from queries.domain import Domain
from queries.factors import UNITS
from queries.frozen import dataclass

_ROUNDS = 10  # of the paper's experiments, most of which have 10 or fewer


def mwem(
    histogram: Counts,
    questions: Sequence[Question],
    *,
    epsilon: Number,
    delta: Number = 0,
    options: OfflineOptions | None = None,
) -> OfflineRelease:
    """Return what MWEM releases: in each round the question that the model answers worst is measured.

    Args:
        histogram: records per cell, or a table that ``source_of`` read.
        questions: two or more, of which arrays have the histogram's shape.
        options: of a release that measures questions; None for the paper's: ten rounds from a uniform start,
            half of each for the choice.

    Privacy: (epsilon, delta)-differentially private for the neighbours of ``options.policy``, as
        ``fit_workload``; each round is charged before it is drawn.

    Source: Hardt, Ligett and McSherry (2012), Figure 1, with the number of records released beside it, and a
        refit to all measurements where they average models and take each measurement up again.
    """
    source = counted(histogram)
    if options is None:
        policy = Options(test=TestKind.QUERY, opening=Opening.NONE, update=UpdateRule.REFIT)
        options = OfflineOptions(Targets.QUERY, _ROUNDS, Fraction(1, 2), policy=policy)
    workload = queries_of(questions, source.domain)
    return fit_workload(source, source.domain, workload, epsilon=epsilon, delta=delta, options=options)


def offline_pmw(
    histogram: Counts,
    questions: Sequence[Question],
    rounds: int,
    *,
    epsilon: Number,
    delta: Number = 0,
    policy: Options | None = None,
) -> OfflineRelease:
    """Return what the lecture's offline private multiplicative weights release.

    Args:
        rounds: the most there will be; the first error that is measured as small ends it.
        policy: neighbours, composition, threshold and seed, as for ``OfflineOptions.textbook``.

    Privacy: as ``mwem``.

    Source: Kamath, Lecture 9, private multiplicative weights, steps 1 to 3.
    """
    options = OfflineOptions.textbook(rounds=rounds, policy=policy)
    return mwem(histogram, questions, epsilon=epsilon, delta=delta, options=options)


# --- all pairs and maximum entropy ------------------------------------------------------------------------

_TOTAL_SHARE = Fraction(1, 100)


@dataclass(frozen=True, slots=True)
class PairRules:
    """How pairs are measured and fitted.

    One-attribute marginals have a share of the budget, or, with None, each what a pair gets where the model
    cannot hold all pairs, and nothing else. The number of records is public, or, with None, released for a
    hundredth of the budget.
    """

    one_ways: Fraction | None = None
    steps: int = 500  # of the fit, at most
    records: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class FittedPairs:
    """What is released."""

    model: SyntheticDistribution
    scopes: tuple[tuple[str, ...], ...]
    steps: int
    loss: float


def all_pairs_max_entropy(
    histogram: Counts,
    *,
    epsilon: Number,
    delta: Number = 0,
    rules: PairRules | None = None,
    bits: BitSource | None = None,
) -> FittedPairs:
    """Measure all pairs of attributes at equal prices, and fit the distribution of maximum entropy.

    Where the model's tree cannot hold all pairs, every attribute is measured, and as many pairs as fit, the
    smallest first.

    Args:
        histogram: records per cell, of two axes or more, or a table that ``source_of`` read.
        delta: of the guarantee; 0 adds epsilons, more adds rhos.

    Privacy: (epsilon, delta)-differentially private for tables that differ by one record, added or removed.
        Each marginal is one event, charged before it is drawn.

    Source: McKenna, Sheldon and Miklau (2019) for the model; Bun and Steinke (2016) for the prices.
    """
    rules, bits, source = rules or PairRules(), bits or BitSource(), counted(histogram)
    domain = source.domain
    budget = Budget.of(epsilon, delta)
    ledger = open_filter(budget, Composition.ZCDP if budget.delta else Composition.PURE)
    cap, total = ledger.cap, float(rules.records or 0)
    if rules.records is None:
        ledger, noise = _bought(ledger, _TOTAL_SHARE * cap)
        total = max(1.0, (source.counts(()).total * UNITS + noise.sample(bits)) / UNITS)
        cap *= 1 - _TOTAL_SHARE
    prices, aims = _prices(domain, cap, rules.one_ways), []
    for scope, price in prices.items():
        ledger, noise = _bought(ledger, price)
        counts = source.counts(scope).counts
        units = counts * UNITS + noise.sample_array(bits, counts.size).reshape(counts.shape)
        aims.append(target_of(MarginalMeasurement(scope, units, noise), total))
    kind = DenseDistribution if domain.size <= DEFAULT_MAX_CELLS else GraphicalDistribution
    rule = DescentRule(steps=rules.steps, tolerance=1e-6)
    fitted = descend(kind.uniform(domain, total), aims, step_size=FIRST_STEP_SIZE, rule=rule)
    return FittedPairs(fitted.model, tuple(prices), fitted.steps, fitted.loss)


def _bought(ledger: PrivacyFilter, price: Fraction) -> tuple[PrivacyFilter, NoiseDistribution]:
    """Return the filter after a charge of at most the price, and the noise that it pays for."""
    noise = marginal_noise(ledger.composition, floor_price(price), Options())
    return ledger.charge(marginal_charge(noise, Options())), noise


def _prices(domain: Domain, cap: Fraction, one_ways: Fraction | None) -> dict[tuple[str, ...], Fraction]:
    """Return what each marginal may cost."""
    scopes = _pairs(domain)
    if one_ways is None:
        return dict.fromkeys(scopes, cap / len(scopes))
    pairs = [scope for scope in scopes if len(scope) == 2]
    prices = {(name,): one_ways * cap / len(domain) for name in domain.names}
    return prices | dict.fromkeys(pairs, (1 - one_ways) * cap / len(pairs))


def _pairs(domain: Domain) -> list[tuple[str, ...]]:
    """Return all pairs of attributes, or every attribute and the pairs that a tree can hold with them."""
    pairs: list[tuple[str, ...]] = list(itertools.combinations(domain.names, 2))
    if domain.size <= DEFAULT_MAX_CELLS and pairs:
        return pairs
    scopes: list[tuple[str, ...]] = [(name,) for name in domain.names]
    for pair in sorted(pairs, key=domain.scope_size):
        held = tuple([positions(domain, scope) for scope in scopes])
        tree = junction_tree(domain.shape, held)
        if fits_tree(tree, held, positions(domain, pair), DEFAULT_MAX_CELLS):
            scopes.append(pair)
    return scopes


# --- ResidualPlanner --------------------------------------------------------------------------------------

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
