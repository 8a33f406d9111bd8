"""Plans of sessions: what one will give, before anything is read or spent.

A plan makes the choices that ``open_session`` would make, with a stated number of records in place of the
released one. It sees no table, so it costs nothing; a session differs from its plan only by the noise on the
number of records.
"""

from __future__ import annotations

from dataclasses import asdict, field
from typing import Any

from pmw.errors import BudgetError
from pmw.model.junction_tree import DEFAULT_MAX_CELLS
from pmw.planning.opening import PairsForecast
from pmw.planning.outlook import AttributeForecast, OrderForecast
from pmw.planning.tested_bounds import MarginalForecast, SparseVectorForecast, VectorForecast
from pmw.planning.theorems import MOST_RECORDS, TextbookForecast
from pmw.public.clear import FULL
from pmw.public.contract import Contract, guarantee, largest_belief
from pmw.public.options import is_dense
from pmw.public.status import HeldPairs
from queries.domain import Domain
from queries.frozen import dataclass
from queries.plain_values import type_name


@dataclass(frozen=True, slots=True)
class DeltaForecast:
    """The same plan under another delta: its bounds in records, and what delta does to them.

    A ratio is the bound without delta divided by the one with it: above 1, delta makes it narrower. Where
    squares add rounds are redrawn, whose threshold noise is wider, so a tested bound may be narrower without.

    Args:
        delta: 0, or 1e-9 where the plan itself has none.
        cell_bound: of one cell of the noisiest attribute; None where opening measures none.
        tested_bound: of tested questions; where marginals are tested, on a pair of attributes. None where
            none is tested.
        value_bound: of measured answers, or of a measured marginal's cell; None where nothing is to be
            measured.
    """

    delta: float
    cell_bound: float | None
    cell_ratio: float | None
    tested_bound: float | None
    tested_ratio: float | None
    value_bound: float | None
    value_ratio: float | None


@dataclass(frozen=True, slots=True)
class ExpectedForecast:
    """What opening by the expected questions makes of their bars.

    Args:
        sets: of attributes that they are about.
        bound: mean half-width of a range of half of each attribute, in records; of a number of its own, where
            that is narrower.
        usual_bound: the same, were none expected.
    """

    questions: int
    sets: int
    bound: float
    usual_bound: float


@dataclass(frozen=True, slots=True, repr=False)
class SessionPlan:
    """What a session will give; errors and bounds are in records.

    Args:
        contract: domain, budget and options, as a session would fix them.
        records: stated number of records.
        opening_share: part of the budget that is spent at opening, in [0, 1].
        total_deviation: standard deviation of the released number of records.
        attributes: what opening measures, by attribute; empty where it measures no marginals.
        table_measured: opening measures the whole table in place of its attributes.
        coarse: the domain that the tests are planned for (``assumed_domain``): a session's own bins may be
            fewer or more, its tests are those of the plan. The declared one where nothing is binned.
        orders: what questions get, by the number of attributes they name, from 0.
        held: which pairs of attributes opening measures, alone or with others.
        vector: the sparse vector of single questions; None where nothing is left for one, and where marginals
            are tested.
        marginals: the sparse vector of whole marginals; None likewise, and where single questions are
            tested.
        pairs: how many pairs of attributes are measured before any question.
        sums: the attributes of which opening measures where values lie, or what they come to.
        number_bound: half-width of the bar that a number of a question's own gives, where wide bars are paid
            for; None where there is no reserve.
        expected: what the questions that are expected gain; None where none are.
        choice: why: what questions about two attributes err by, where all pairs are measured, and where they
            are tested; None where there was no choice.
        typical_margin: what the noise of the first error quantile of one kind of questions adds to it, in
            records; None where none is released.
        sparse_vectors: every sound one at the price of the tests; empty where nothing is tested.
        other_delta: the same without delta, or with one; None where that cannot be planned.
    """

    contract: Contract
    records: int
    opening_share: float
    total_deviation: float
    attributes: tuple[AttributeForecast, ...]
    table_measured: bool
    coarse: Domain
    orders: tuple[OrderForecast, ...]
    held: HeldPairs
    vector: VectorForecast | None
    marginals: MarginalForecast | None = None
    pairs: int = 0
    triples: int = 0
    sums: tuple[str, ...] = ()
    number_bound: float | None = None
    expected: ExpectedForecast | None = None
    choice: PairsForecast | None = None
    typical_margin: float | None = None
    sparse_vectors: tuple[SparseVectorForecast, ...] = ()
    textbook: TextbookForecast = field(default=TextbookForecast())
    other_delta: DeltaForecast | None = None

    @property
    def bound(self) -> float | None:
        """The widest half-width of all that are promised, in records; None where some are not.

        Of covered questions it is that of the noise; an answer adds how far the model is from the released
        numbers. Where marginals are tested it is that of questions about at most two attributes that cut no
        bin, on the most bins that opening may choose.
        """
        marginal = self.contract.options.tests_marginals
        bounds = [order.bound for order in self.orders if order.order <= 2 or not marginal]
        bounds += [attribute.widest_bound for attribute in self.attributes]
        if self.vector is not None:
            bounds.append(self.vector.value_bound)
        if self.marginals is not None:
            bounds.append(self.marginals.widest_bound)
        known = [bound for bound in bounds if bound is not None]
        return max(known) if len(known) == len(bounds) else None

    @property
    def contract_bound(self) -> float | None:
        """The widest half-width that an accuracy contract needs, in records; None where some are missing.

        Where marginals are tested and opening does not cover everything, that is of everybody, and of single
        questions that were tested or measured: what has a wider bar is tested, while positives are left, and
        then refused. Else it is ``bound``.
        """
        if self.marginals is None or self.contract.options.bar_limit is None:
            return self.bound
        everybody, single = self.orders[0].bound, self.marginals.single
        if single is None or everybody is None:
            return None
        return max(everybody, single.bound, single.value_bound)

    @property
    def dense(self) -> bool:
        """The model is one array over the coarse domain, not a tree of marginals."""
        options = self.contract.options
        return is_dense(options.test, options.model, self.coarse.size)

    @property
    def model_cells(self) -> int:
        """Numbers that the model holds; at most, where it is a tree."""
        return self.coarse.size if self.dense else self.contract.options.max_cells or DEFAULT_MAX_CELLS

    @property
    def model_bytes(self) -> int:
        """Memory of the model; while it is corrected, up to about 2.5 times that where it is dense."""
        return 8 * self.model_cells

    @property
    def guarantee(self) -> str:
        """The guarantee in words."""
        return guarantee(self.contract)

    @property
    def cell_bound(self) -> float | None:
        """The bound of one cell of the noisiest attribute, in records; None where opening measures none."""
        return max((attribute.cell_bound for attribute in self.attributes), default=None)

    @property
    def test_bounds(self) -> tuple[float | None, float | None]:
        """The bounds of a tested question, on a pair of attributes, and of a measured number."""
        if self.vector is not None:
            return self.vector.bound, self.vector.value_bound
        if self.marginals is not None:
            return self.marginals.pair_bound, self.marginals.cell_bound
        return None, None

    def __repr__(self) -> str:
        budget, bound = self.contract.budget, self.bound
        promise = "not every answer has a bound" if bound is None else f"answers within {bound:,.0f} records"
        return (
            f"SessionPlan({self.contract.domain.name!r}, {self.records:,} records, "
            f"epsilon={float(budget.epsilon):g}, delta={float(budget.delta):g}, {promise})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON."""
        domain, budget, options = self.contract.domain, self.contract.budget, self.contract.options
        composition = None if options.composition is None else options.composition.value
        return {
            "table": domain.name,
            "attributes": len(domain),
            "cells": domain.size,
            "test": options.test.value,
            "update": options.update.value,
            "coarse_shape": list(self.coarse.shape),
            "model": "dense" if self.dense else "graphical",
            "model_cells": self.model_cells,
            "model_bytes": self.model_bytes,
            "records": self.records,
            "epsilon": float(budget.epsilon),
            "delta": float(budget.delta),
            "guarantee": self.guarantee,
            "largest_belief": largest_belief(self.contract),
            "composition": composition,
            "confidence": options.confidence,
            **({} if options.bar_limit is None else {"accuracy": options.accuracy, "bar": options.bar_limit}),
            **({} if options.minimum_count is None else {"minimum_count": options.minimum_count}),
            "expected_queries": options.expected_queries,
            "bound": self.bound,
            "bound_fraction": None if self.bound is None else self.bound / self.records,
            "opening": self._opening,
            "pairs": self.held.to_dict(),
            **({} if self.number_bound is None else {"reserve": self._reserve}),
            **({} if self.expected is None else {"expected": asdict(self.expected)}),
            "orders": [asdict(order) for order in self.orders],
            "vector": None if self.vector is None else asdict(self.vector),
            "marginals": None if self.marginals is None else asdict(self.marginals),
            "sparse_vectors": [asdict(one) for one in self.sparse_vectors],
            "other_delta": None if self.other_delta is None else asdict(self.other_delta),
            "textbook": asdict(self.textbook),
            "typical_margin": self.typical_margin,
        }

    @property
    def _reserve(self) -> dict[str, Any]:
        """What is kept for questions, ready for JSON."""
        return {"share": float(self.contract.options.reserved), "bound": self.number_bound, "numbers": FULL}

    @property
    def _opening(self) -> dict[str, Any]:
        """What is measured before the first question, ready for JSON."""
        return {
            "share": self.opening_share,
            "total_deviation": self.total_deviation,
            "whole_table": self.table_measured,
            "pairs": self.pairs,
            "triples": self.triples,
            "sums": list(self.sums),
            "choice": None if self.choice is None else asdict(self.choice),
            "marginals": [asdict(attribute) for attribute in self.attributes],
        }


def check_records(records: int) -> None:
    """Refuse a number of records that no table has."""
    kind = type(records)  # not what a table in its place says of itself
    if kind is bool or not issubclass(kind, int) or not 1 <= records <= MOST_RECORDS:
        got = f"records={records!r}" if issubclass(kind, int | float) else f"a {type_name(records)}"
        raise BudgetError(f"expected records from 1 to {MOST_RECORDS:,}, got {got}")
