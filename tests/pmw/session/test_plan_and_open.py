"""A plan against the sessions that it plans: the same choices, and bars within its bounds, on any schema."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

import pmw
from pmw.model.estimate import noise_variance
from pmw.planning.opening import choose_filter, plan_opened, plan_opening
from pmw.planning.session_plan import SessionPlan
from pmw.public.answer import Answer, Source
from pmw.public.evidence import opening_over
from pmw.public.plans import marginal_tier
from pmw.public.state import PublicState
from queries import (
    UNITS,
    Attribute,
    CategoricalAttribute,
    Domain,
    Factor,
    IntegerAttribute,
    LinearQuery,
    NumericAttribute,
    random_conjunctions,
)

ADD, REPLACE = pmw.NeighboringRelation.ADD_REMOVE, pmw.NeighboringRelation.REPLACE_ONE
QUERY, MARGINAL = pmw.TestKind.QUERY, pmw.TestKind.MARGINAL


@dataclass(frozen=True)
class Case:
    """A schema, a table of so many records, a budget and options; more skew makes rare values rarer."""

    domain: Domain
    records: int
    epsilon: float
    delta: float
    options: pmw.Options
    seed: int = 0
    skew: int = 1

    def frame(self) -> pd.DataFrame:
        """Return records whose attributes follow one another, some cells of which are heavy."""
        generator = np.random.default_rng(self.seed)
        common = generator.random(self.records)
        columns = {}
        for attribute in self.domain:
            own = generator.random(self.records) ** generator.integers(1, 4)
            place = np.where(generator.random(self.records) < 0.6, common, own)
            place = place**self.skew
            codes = np.minimum((place * attribute.base_size).astype(int), attribute.base_size - 1)
            columns[attribute.name] = values_of(attribute)[codes]
        return pd.DataFrame(columns)

    def plan(self, records: int) -> SessionPlan:
        return pmw.plan_session(
            self.domain, records=records, epsilon=self.epsilon, delta=self.delta, options=self.tested
        )

    def open(self) -> pmw.Session:
        return pmw.open_session(
            self.frame(), self.domain, epsilon=self.epsilon, delta=self.delta, options=self.tested
        )

    @property
    def tested(self) -> pmw.Options:
        """The options, under which pairs are tested."""
        pairs = self.options.opening is pmw.Opening.PAIRS
        return replace(self.options, opening=pmw.Opening.ONE_WAY) if pairs else self.options


def values_of(attribute: Attribute) -> np.ndarray[Any, Any]:
    """Return a value for each cell."""
    if isinstance(attribute, CategoricalAttribute):
        return np.array(attribute.values)
    if isinstance(attribute, NumericAttribute):
        return np.array(attribute.edges[:-1])
    assert isinstance(attribute, IntegerAttribute)
    return np.arange(attribute.minimum, attribute.maximum + 1)


@st.composite
def attributes(draw: st.DrawFn, number: int, complete: bool, test: pmw.TestKind) -> Attribute:
    special: dict[str, Any] = {name: complete or draw(st.booleans()) for name in ("missing", "other")}
    longer = [] if test is QUERY else [120, 300]  # a dense model is over all cells
    size = draw(st.sampled_from([1, 2, 3, 7, 9, 16, 25, 40, 90, *longer]))
    kind = draw(st.sampled_from(["categorical", "integer", "numeric"]))
    name = f"a{number}"
    if kind == "categorical":
        return CategoricalAttribute(name, tuple(range(size)), **special)
    if kind == "numeric":
        edges = tuple(float(edge) for edge in range(size + 1))
        return NumericAttribute(name, edges, missing=special["missing"], other=special["other"])
    return IntegerAttribute(name, 0, size - 1, **special)


@st.composite
def cases(draw: st.DrawFn, test: pmw.TestKind) -> Case:
    relation = draw(st.sampled_from([ADD, REPLACE]))
    number = draw(st.integers(1, 3 if test is QUERY else 6))
    domain = Domain(tuple(draw(attributes(place, relation is REPLACE, test)) for place in range(number)))
    delta = draw(st.sampled_from([0, 1e-9]))
    choices: dict[str, Any] = {
        "update_limit": draw(st.sampled_from([None, None, 3])),
        "opening": draw(st.sampled_from([pmw.Opening.ONE_WAY, pmw.Opening.ONE_WAY, pmw.Opening.NONE])),
        "confidence": draw(st.sampled_from([0.8, 0.95, 0.99])),
        "records_per_person": draw(st.sampled_from([1, 1, 2])),
        # The bounds are those of tests after so many questions; one is asked before the others.
        "expected_queries": draw(st.sampled_from([1, 10_000])),
    }
    if test is MARGINAL:
        choices["simultaneous"] = draw(st.booleans())
        choices["max_cells"] = draw(st.sampled_from([None, 5000, 20_000]))
    options = pmw.Options(test=test, neighboring_relation=relation, seed=draw(st.integers(0, 9)), **choices)
    records = draw(st.sampled_from([300, 2000, 20_000]))
    larger = [] if test is QUERY else [20, 100]  # under which the bins of long attributes grow
    epsilon = draw(st.sampled_from([0.5, 1, 5, *larger]))
    return Case(domain, records, epsilon, delta, options, draw(st.integers(0, 5)))


# Long lists of values: planned for all of them, one marginal would be measured; opening pools the rare ones.
LISTS = Domain(
    (
        *(CategoricalAttribute(f"list{number}", tuple(range(500))) for number in range(3)),
        *(CategoricalAttribute(f"short{number}", tuple(range(4))) for number in range(3)),
    )
)
# Many records: groups of ages hold tens of thousands of them, and questions cut groups.
PEOPLE = Domain(
    (
        IntegerAttribute("age", 17, 90),
        CategoricalAttribute("sex", ("F", "M")),
        IntegerAttribute("state", 0, 50),
        NumericAttribute("income", (0.0, 10.0, 20.0, 40.0, 80.0, 1000.0)),
        IntegerAttribute("edu", 0, 15),
    )
)
# Released as 792.4 records: 13 positives are planned for 792 of them, 14 for 793.
PAIR = Domain(
    (
        CategoricalAttribute("a0", (0, 1), missing=True, other=True),
        CategoricalAttribute("a1", tuple(range(9)), missing=True, other=True),
    )
)
BETWEEN_TWO = Case(
    PAIR,
    2000,
    0.5,
    0,
    pmw.Options(test=QUERY, opening=pmw.Opening.NONE, records_per_person=2, confidence=0.8, seed=9),
)
LONG_LISTS = Case(LISTS, 40_000, 1, 1e-9, pmw.Options(seed=1, expected_queries=1), skew=12)
MANY_RECORDS = Case(PEOPLE, 400_000, 20, 1e-9, pmw.Options(seed=1, expected_queries=1))
SOME_BINS = replace(MANY_RECORDS, epsilon=2)


def planned_for(case: Case, state: PublicState) -> SessionPlan:
    """Return the plan for as many records as were released, as precisely as a plan can be told.

    A plan is for whole records. A limit, or the number of bins, may step between the two whole numbers around
    the released one: then the session's own says which of them its tests are those of.
    """
    below = case.plan(max(1, math.floor(state.total.value)))
    above = case.plan(max(1, math.ceil(state.total.value)))
    tests = marginal_tier(state.plan)
    fewer = tests is None or below.marginals is None or below.marginals.fine_cells == tests.fine_cells
    same = limits(below) == [tier.update_limit for tier in state.plan]
    return below if same and fewer else above


def limits(plan: SessionPlan) -> list[int]:
    """Return the planned number of positives of each tier."""
    if plan.marginals is None:
        return [] if plan.vector is None else [plan.vector.update_limit]
    single = plan.marginals.single
    return [plan.marginals.update_limit, *([] if single is None else [single.update_limit])]


def check_choices(case: Case, plan: SessionPlan, state: PublicState) -> None:
    assert plan.opening_share == state.ledger.share
    assert plan.contract.options.composition is state.ledger.composition
    assert plan.total_deviation == pytest.approx(state.total.deviation, rel=1e-9)
    assert plan.table_measured == (bool(state.opening) and len(state.opening[0].scope) > 1)
    if not plan.table_measured:
        assert len(plan.attributes) == len(state.opening)
        for attribute, measured in zip(plan.attributes, state.opening, strict=True):
            deviation = math.sqrt(float(measured.cell_variances.max()))
            assert (attribute.name,) == measured.scope
            assert attribute.cell_deviation == pytest.approx(deviation)
    # To the last bit, from the number that was released; a public one is a whole number.
    opening = plan_opening(
        case.domain, choose_filter(case.domain, state.contract.budget, case.tested), case.tested
    )
    assert plan_opened(state.contract, opening, state.total.value).test == state.plan
    if case.options.neighboring_relation is REPLACE:
        assert_tests_are_planned(plan, state)


def assert_tests_are_planned(plan: SessionPlan, state: PublicState) -> None:
    tests = marginal_tier(state.plan)
    if not state.plan:
        assert plan.marginals is None
        assert plan.vector is None
        return
    single = plan.vector
    if tests is not None:
        assert plan.marginals is not None
        single = plan.marginals.single
        assert plan.marginals.update_limit == tests.update_limit
        assert plan.marginals.cell_deviation == math.sqrt(noise_variance(tests.noise))
        assert plan.marginals.query_scale == tests.sparse.test.query_scale / UNITS
        assert plan.marginals.threshold_scale == tests.sparse.test.threshold_scale / UNITS
        cells = (plan.marginals.most_cells, plan.marginals.free_cells, plan.marginals.fine_cells)
        assert cells == (tests.most_cells, tests.free_cells, tests.fine_cells)
    queries = state.query_plan
    assert (single is None) == (queries is None)
    if single is not None and queries is not None:
        assert single.update_limit == queries.update_limit
        assert single.threshold == queries.threshold / UNITS
        assert single.value_deviation == math.sqrt(noise_variance(queries.vector.value_noise))


def questions(case: Case) -> list[LinearQuery]:
    generator = np.random.default_rng(case.seed)
    found = list(random_conjunctions(case.domain, 30, seed=case.seed))
    for attribute in case.domain:  # any set of its cells
        found.append(of_cells(case.domain, {attribute.name: generator.random(attribute.size) < 0.5}))
    return found


def of_cells(domain: Domain, chosen: dict[str, NDArray[np.bool_]]) -> LinearQuery:
    """Return the question that counts the chosen cells of some attributes."""
    factors = [Factor((name,), np.where(cells, UNITS, 0)) for name, cells in chosen.items()]
    return LinearQuery(domain, tuple(factors))


def allowed(plan: SessionPlan, state: PublicState, query: LinearQuery, answer: Answer) -> float | None:
    """Return the planned bound on an answer's bar; None where the plan promises none."""
    order = plan.orders[len(query.scope)]
    early = 0.0
    if order.promise == "covered":
        if order.order != 1 or plan.table_measured:
            return order.bound if order.order == 0 else None
        (attribute,) = (one for one in plan.attributes if (one.name,) == query.scope)
        residual = 0.0
        if marginal_tier(state.plan) is None:
            covering = opening_over(state, query.scope)
            assert covering is not None
            residual = abs(answer.count - query.evaluate(covering.values))
        return attribute.widest_bound + residual
    if plan.vector is not None:
        return plan.vector.value_bound if answer.source is Source.MEASURED else plan.vector.bound
    if plan.marginals is not None:
        early = plan.marginals.head_start / 2
    bound = order.bound if state.coarsening.is_aligned(query) else order.cut_bound
    if order.bound is not None and not state.coarsening.is_aligned(query):
        bound = max(order.bound, order.cut_bound or 0.0)
    return None if bound is None else bound + early


def check(case: Case) -> None:
    """Check a session against its plan: its choices, and the bars of its answers."""
    with case.open() as session:
        plan = planned_for(case, session.state)
        check_choices(case, plan, session.state)
        session.ask("")
        for query in questions(case):
            answer = session.ask(query)
            state = session.state
            if answer.interval is None or state.positives_used >= max(1, state.positives_limit):
                continue
            low, high = answer.interval
            if answer.count in (low, high):
                continue  # stretched to hold the model's answer, or cut at zero
            bound = allowed(plan, state, query, answer)
            if bound is not None:
                assert (high - low) / 2 <= bound * (1 + 1e-6), (query.describe(), answer, bound)


@given(cases(MARGINAL))
@example(LONG_LISTS)
@example(replace(LONG_LISTS, options=pmw.Options(seed=2), delta=0))
@example(MANY_RECORDS)
@example(SOME_BINS)
def test_where_marginals_are_tested_a_session_is_as_planned(case: Case) -> None:
    check(case)


@given(cases(QUERY))
@example(BETWEEN_TWO)
def test_where_questions_are_tested_a_session_is_as_planned(case: Case) -> None:
    check(case)
