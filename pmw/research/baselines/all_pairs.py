"""All pairs and maximum entropy: every two-attribute marginal, measured once, and what they give."""

from __future__ import annotations

import itertools
from fractions import Fraction

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
from pmw.public.options import Options
from pmw.research.histograms import Counts, counted
from queries.domain import Domain
from queries.factors import UNITS
from queries.frozen import dataclass

_TOTAL_SHARE = Fraction(1, 100)


@dataclass(frozen=True, slots=True)
class PairRules:
    """How pairs are measured and fitted.

    Args:
        one_ways: the share of the budget for all one-attribute marginals; None gives each what a pair gets,
            where the model cannot hold all pairs, and nothing else.
        steps: of the fit, at most.
        records: the number of records, where it is public; None releases it, for a hundredth of the budget.
    """

    one_ways: Fraction | None = None
    steps: int = 500
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
