"""What intervals promise: of questions that cells cannot decide, and under an accuracy contract."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.data import MemorySource
from pmw.planning.plans import contract_budget, plan_accuracy
from pmw.public.answer import Answer, Source
from pmw.public.evidence import opening_over
from pmw.public.free_answers import ModelAnswers
from pmw.public.half_widths import Confidences, negative_margin
from pmw.public.options import TestKind
from pmw.public.plans import question_tier
from queries import (
    UNITS,
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    LinearQuery,
    NumericAttribute,
    QueryError,
    parse_where,
    random_conjunctions,
)
from queries.parsing import require_aligned
from queries.questions import QuestionList
from tests.worlds import ends, known

RECORDS = 4000
DOMAIN = Domain(
    (
        NumericAttribute("capital-gain", (0, 1, 5000, 10_000, 100_000)),
        IntegerAttribute("age", 0, 79, 5),
        CategoricalAttribute("sex", ("f", "m")),
        CategoricalAttribute("grade", tuple("abcdefghijkl")),
        IntegerAttribute("hours", 0, 99),  # so that the whole table is not measured at opening
    )
)
Opened = Callable[..., pmw.Session]


def people(seed: int = 3) -> pd.DataFrame:
    """Return a table with nine exact zeros of ten, and a heap at a cell's last number."""
    generator = np.random.default_rng(seed)
    gain = generator.choice([1.0, 4999.0, 5000.0, 7688.0, 100_000.0], RECORDS)
    age = generator.choice([4, 20, 21, 34, 35, 60], RECORDS)
    return pd.DataFrame(
        {
            "capital-gain": np.where(generator.random(RECORDS) < 0.9, 0.0, gain),
            "age": age,
            "sex": np.where(generator.random(RECORDS) < 0.3 + 0.4 * (age > 30), "m", "f"),
            "grade": generator.choice(list("abcdefghijkl"), RECORDS),
            "hours": generator.integers(0, 100, RECORDS),
        }
    )


FRAME = people()
GAIN, AGE, SEX = FRAME["capital-gain"], FRAME["age"], FRAME["sex"]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Return what opens a session, which is closed at the end."""
    with ExitStack() as stack:

        def open_(test: TestKind, seed: int = 1, **choices: Any) -> pmw.Session:
            options = pmw.Options(test=test, seed=seed, **choices)
            session = pmw.open_session(FRAME, DOMAIN, epsilon=1, delta=1e-9, options=options)
            return stack.enter_context(session)

        yield open_


def held(answer: Answer, truth: float) -> bool:
    assert answer.interval is not None
    return answer.interval[0] <= truth <= answer.interval[1]


def test_a_comparison_that_cells_decide_keeps_its_firm_bar(opened: Opened) -> None:
    session = opened(TestKind.MARGINAL)
    for where, holds in (('"capital-gain" < 1', GAIN < 1), ('"capital-gain" >= 1', GAIN >= 1)):
        answer = session.ask(where)
        assert answer.aligned
        assert held(answer, int(holds.sum()))
        assert np.ptp(ends(answer)) < 600
    assert np.ptp(ends(session.ask('"capital-gain" > 0'))) > 3000  # the cell [0, 1) may hold anything
    by_gain = session.group_by(["capital-gain"], where='"capital-gain" > 0')
    assert [count.aligned for count in by_gain.column("count")] == [False, True, True, True]


def _one_comparison(generator: np.random.Generator) -> tuple[str, pd.Series[bool]]:
    """Return a comparison that cuts a cell where the whole table lies on one side of the cut."""
    name, column = ("capital-gain", GAIN) if generator.random() < 0.5 else ("age", AGE)
    values = [0, 1, 4999, 5000, 7688, 100_000] if name == "capital-gain" else [4, 21, 34, 60, 61]
    value = int(generator.choice(values))
    kind = str(generator.choice(["<", "<=", ">", ">=", "=", "<>"]))
    made = {
        "<": column < value, "<=": column <= value, ">": column > value,
        ">=": column >= value, "=": column == value, "<>": column != value,
    }  # fmt: skip
    return f'"{name}" {kind} {value}', made[kind]


def _questions(count: int, seed: int) -> list[tuple[LinearQuery, int]]:
    """Return random questions that cells cannot decide, with the raw table's counts."""
    generator = np.random.default_rng(seed)
    found: list[tuple[LinearQuery, int]] = []
    while len(found) < count:
        where, holds = _one_comparison(generator)
        other, also = _one_comparison(generator)
        form = generator.choice(["one", "and", "or", "not", "sex"])
        if form == "and":
            where, holds = f"{where} AND {other}", holds & also
        elif form == "or":
            where, holds = f"{where} OR {other}", holds | also
        elif form == "not":
            where, holds = f"NOT ({where} AND {other})", ~(holds & also)
        elif form == "sex":
            where, holds = f"{where} AND sex = 'm'", holds & (SEX == "m")
        try:
            query = parse_where(where, DOMAIN)
        except QueryError as error:
            assert error.code == "empty_range"  # noqa: PT017
            continue
        if not query.aligned:
            found.append((query, int(holds.sum())))
    return found


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("test", "simultaneous"), [(TestKind.MARGINAL, False), (TestKind.MARGINAL, True), (TestKind.QUERY, False)]
)
def test_intervals_hold_the_raw_count_with_the_stated_confidence(
    opened: Opened, test: TestKind, simultaneous: bool
) -> None:
    questions = _questions(40, seed=8)
    found = []
    for seed in range(1, 4):
        session = opened(test, seed, confidence=0.8, simultaneous=simultaneous)
        for query, truth in questions:
            answer = session.ask(query)
            assert not answer.aligned
            if answer.interval is not None:
                assert held(answer, answer.count)
                found.append(held(answer, truth))
            session.ask(query, fresh=True)
        assert session.verify().holds
    for query, _ in questions:
        with pytest.raises(QueryError, match="the condition cuts cells") as caught:
            require_aligned(query)
        assert caught.value.code == "unaligned"
    assert len(found) >= 54
    assert np.mean(found) >= 0.8


def test_what_is_tested_or_measured_of_even_cells_narrows_nothing(opened: Opened) -> None:
    state = opened(TestKind.QUERY).state
    plan, answers = known(state.query_plan), ModelAnswers(state)
    query = parse_where("\"capital-gain\" > 0 AND sex = 'm' AND grade IN ('a', 'b')", DOMAIN)
    count, least = round(state.model.answer(query)), answers.answer(query).interval
    assert least is not None
    (certified,) = answers.certified(QuestionList([query]), np.array([count * UNITS]), plan)
    assert certified.interval == least
    assert answers.measured(query, count * UNITS, plan.noise).interval == least


def test_a_question_that_no_test_could_narrow_spends_nothing(opened: Opened) -> None:
    session = opened(TestKind.QUERY, threshold=1.0)
    query = parse_where("\"capital-gain\" > 0 AND sex = 'm' AND grade IN ('a', 'b')", DOMAIN)
    assert opening_over(session.state, query.scope) is None
    expected = ModelAnswers(session.state).answer(query)
    before = session.status()
    answer = session.ask(query)
    assert (answer.count, answer.interval, answer.source) == (
        expected.count, expected.interval, Source.UNVERIFIED,
    )  # fmt: skip
    assert session.state.version == 0
    assert not session.state.round_open
    assert session.status().budget_share == before.budget_share
    decided = session.ask("\"capital-gain\" >= 1 AND sex = 'm' AND age >= 20")
    assert decided.spent.share > answer.spent.share
    assert session.verify().holds


ADD, REPLACE = pmw.NeighboringRelation.ADD_REMOVE, pmw.NeighboringRelation.REPLACE_ONE
PROMISED_RECORDS = 20_000
SMALL = Domain(
    tuple(CategoricalAttribute(name, ("x", "y", "z"), missing=True, other=True) for name in "ab"),
    name="small",
)
WIDE = Domain(tuple(IntegerAttribute(f"a{place}", 0, 19) for place in range(5)), name="wide")


def records(domain: Domain, size: int = PROMISED_RECORDS, seed: int = 4) -> pd.DataFrame:
    """Return records whose attributes follow one another, in heavy and light cells."""
    generator = np.random.default_rng(seed)
    common = generator.random(size)
    columns = {}
    for attribute in domain:
        place = np.where(generator.random(size) < 0.7, common, generator.random(size)) ** 2
        codes = np.minimum((place * attribute.base_size).astype(int), attribute.base_size - 1)
        columns[attribute.name] = (
            np.array(attribute.values, dtype=object)[codes]
            if isinstance(attribute, CategoricalAttribute)
            else codes
        )
    return pd.DataFrame(columns)


def contract(accuracy: float = 0.02, confidence: float = 0.99, **others: object) -> pmw.Options:
    options = pmw.Options(accuracy=accuracy, records=PROMISED_RECORDS, confidence=confidence)
    return replace(options, **others)  # type: ignore[arg-type]  # names of options


@pytest.mark.parametrize(("relation", "delta"), [(ADD, 1e-9), (REPLACE, 0)])
def test_open_takes_the_smallest_cap_that_plan_finds_and_a_smaller_one_is_refused(
    relation: pmw.NeighboringRelation, delta: float
) -> None:
    options = contract(neighboring_relation=relation)
    plan = plan_accuracy(SMALL, records=PROMISED_RECORDS, accuracy=0.02, delta=delta, options=options)
    assert plan is not None
    least = plan.contract.budget
    with pmw.open_session(records(SMALL), SMALL, delta=delta, options=options) as session:
        chosen = session.state.contract.options
        assert session.state.contract == plan.contract
        assert (chosen.accuracy, chosen.records) == (0.02, PROMISED_RECORDS)
        assert session.state.ledger.spent <= session.state.ledger.cap
        if relation is REPLACE:  # the table gets all of the budget
            (line,) = session.ledger().lines
            assert line.running_share == pytest.approx(1, abs=1e-6)
    epsilon = float(least.epsilon)
    digit = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    with pytest.raises(pmw.BudgetError, match=f"the smallest that does is {epsilon:g}"):
        contract_budget(SMALL, float(f"{epsilon - digit:.6g}"), delta, options)
    assert contract_budget(SMALL, least.epsilon, delta, options) == least
    assert contract_budget(SMALL, 2 * least.epsilon, delta, options).epsilon == 2 * least.epsilon


def true_counts(frame: pd.DataFrame, domain: Domain, questions: list[LinearQuery]) -> list[float]:
    source = MemorySource.from_frame(frame, domain)
    return [query.answer(source.counts(query.scope)) / UNITS for query in questions]


def test_a_large_table_is_answered_within_alpha_or_refused(tmp_path: Path) -> None:
    frame = records(WIDE)
    options = contract(0.02, 0.99)
    budget = contract_budget(WIDE, None, 1e-9, options)
    questions = list(random_conjunctions(WIDE, 150, seed=5))
    path = tmp_path / "wide.pmw"
    with pmw.open_session(frame, WIDE, delta=1e-9, path=path, options=options) as session:
        assert session.state.contract.budget == budget
        tier = question_tier(session.state.plan)
        assert tier is not None
        assert tier.update_limit >= 5
        alone = Confidences.in_state(session.state).alone
        reach = (tier.threshold + negative_margin(tier, alone) + 1) / 2**20
        assert (
            0.02 * PROMISED_RECORDS - 1 <= reach <= 0.02 * PROMISED_RECORDS
        )  # neither wider, nor narrower than need be
        answers = session.ask_all(questions)
        truths = true_counts(frame, WIDE, questions)
        refused = [answer for answer in answers if answer.is_refused]
        missed = 0
        for answer, truth in zip(answers, truths, strict=True):
            assert answer.is_refused == (answer.interval is None)
            if answer.interval is not None:
                low, high = answer.interval
                assert max(high - answer.count, answer.count - low) <= 0.02 * PROMISED_RECORDS + 1e-6
                missed += not low <= truth <= high
        assert missed <= 6
        assert len(refused) < len(answers)
        assert session.state.ledger.spent <= session.state.ledger.cap
        if refused:  # what is refused is asked again, not kept
            assert session.state.positives(1) == tier.update_limit
        kept = [answer for answer in answers if not answer.is_refused]
        repeated = session.ask(questions[answers.index(kept[0])])
        assert replace(repeated, spent=kept[0].spent) == kept[0]
        spent = session.state.ledger.spent
        assert session.ask("a0 BETWEEN 3 AND 7 AND a1 = 4 AND a2 = 5 AND a3 < 9").source in Source
    with pmw.resume_session(path) as again:
        assert again.state.contract.options.accuracy == 0.02
        assert again.state.ledger.spent >= spent
    report = pmw.verify_session(path)
    assert report.holds, report


def test_a_refusal_says_so_everywhere_and_hides_the_count() -> None:
    where = "a0 < 9 AND a1 < 9 AND a2 < 12"
    with pmw.open_session(records(WIDE), WIDE, delta=1e-9, options=contract(0.02, 0.99)) as session:
        session.finalize()
        answer = session.ask(where)
        assert answer.source is Source.REFUSED
        assert answer.is_refused
        assert answer.interval is None
        assert math.isnan(answer.count)
        form = answer.to_dict()
        assert (form["count"], form["fraction"], form["interval"]) == (None, None, None)
        assert form["error"]["code"] == "inaccurate"
        assert "the error bar would be wider" in answer.sentence()
        assert session.ask(where).is_refused
        keyed = [session.ask("a0 < 9 AND a1 < 9 AND a2 < 11", request_id="a") for _ in range(2)]
        assert all(one.is_refused and math.isnan(one.count) for one in keyed)  # a retry gets the stored one
        groups = session.group_by("a0", "a1 < 9 AND a2 < 12").to_text()
        assert "refused" in groups
        assert "nan" not in groups
        assert session.ask("").source is Source.SYNTHETIC  # everybody is covered


def test_half_a_contract_or_one_that_does_nothing_is_refused() -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"accuracy": 0.1}, "give accuracy and records together"),
        ({"records": 10}, "give accuracy and records together"),
        ({"accuracy": math.nan, "records": 100}, "expected an accuracy strictly between 0 and 1"),
        (
            {"accuracy": 0.1, "records": 10, "confidence": 1.0},
            "expected a confidence strictly between 0 and 1",
        ),
        ({"accuracy": 0.1, "records": 10, "test": TestKind.QUERY}, "goes with test = marginal"),
    ]
    for choices, message in refused:
        with pytest.raises(pmw.BudgetError, match=message):
            pmw.Options(**choices)
    with pytest.raises(pmw.BudgetError, match="expected epsilon, or an accuracy in its place; got neither"):
        pmw.open_session(records(SMALL, 50), SMALL)
    with pytest.raises(pmw.BudgetError, match="no epsilon up to 1000 keeps every bound within 1e-07%"):
        pmw.open_session(records(SMALL, 50), SMALL, options=replace(contract(), accuracy=1e-9, records=50))
