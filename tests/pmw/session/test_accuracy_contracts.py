"""Sessions under an accuracy contract: the cap, the bars, the refusals, and what is charged."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.data import MemorySource
from pmw.planning.plans import contract_budget, plan_accuracy
from pmw.public.answer import Source
from pmw.public.half_widths import Confidences, negative_margin
from pmw.public.plans import question_tier
from queries import UNITS, CategoricalAttribute, Domain, IntegerAttribute, LinearQuery, random_conjunctions

ADD, REPLACE = pmw.NeighboringRelation.ADD_REMOVE, pmw.NeighboringRelation.REPLACE_ONE
RECORDS = 20_000
SMALL = Domain(
    tuple(CategoricalAttribute(name, ("x", "y", "z"), missing=True, other=True) for name in "ab"),
    name="small",
)
WIDE = Domain(tuple(IntegerAttribute(f"a{place}", 0, 19) for place in range(5)), name="wide")


def records(domain: Domain, size: int = RECORDS, seed: int = 4) -> pd.DataFrame:
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
    options = pmw.Options(accuracy=accuracy, records=RECORDS, confidence=confidence)
    return replace(options, **others)  # type: ignore[arg-type]  # names of options


@pytest.mark.parametrize("delta", [0, 1e-9])
@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_open_takes_the_smallest_cap_that_plan_finds_and_a_smaller_one_is_refused(
    relation: pmw.NeighboringRelation, delta: float
) -> None:
    options = contract(neighboring_relation=relation)
    plan = plan_accuracy(SMALL, records=RECORDS, accuracy=0.02, delta=delta, options=options)
    assert plan is not None
    least = plan.contract.budget
    with pmw.open_session(records(SMALL), SMALL, delta=delta, options=options) as session:
        assert session.state.contract == plan.contract
        assert (session.state.contract.options.accuracy, session.state.contract.options.records) == (
            0.02,
            RECORDS,
        )
        assert session.state.ledger.spent <= session.state.ledger.cap
    epsilon = float(least.epsilon)
    digit = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    with pytest.raises(pmw.BudgetError, match=f"the smallest that does is {epsilon:g}"):
        contract_budget(SMALL, float(f"{epsilon - digit:.6g}"), delta, options)
    assert contract_budget(SMALL, least.epsilon, delta, options) == least
    assert contract_budget(SMALL, 2 * least.epsilon, delta, options).epsilon == 2 * least.epsilon


def test_under_replace_one_the_table_gets_all_of_the_budget() -> None:
    with pmw.open_session(records(SMALL), SMALL, options=contract(neighboring_relation=REPLACE)) as session:
        (line,) = session.ledger().lines
        assert line.running_share == pytest.approx(1, abs=1e-6)


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
        assert 0.02 * RECORDS - 1 <= reach <= 0.02 * RECORDS  # neither wider, nor narrower than need be
        answers = session.ask_all(questions)
        truths = true_counts(frame, WIDE, questions)
        refused = [answer for answer in answers if answer.is_refused]
        missed = 0
        for answer, truth in zip(answers, truths, strict=True):
            assert answer.is_refused == (answer.interval is None)
            if answer.interval is not None:
                low, high = answer.interval
                assert max(high - answer.count, answer.count - low) <= 0.02 * RECORDS + 1e-6
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
    with pmw.open_session(records(WIDE), WIDE, delta=1e-9, options=contract(0.02, 0.99)) as session:
        session.finalize()
        answer = session.ask("a0 < 9 AND a1 < 9 AND a2 < 12")
        assert answer.source is Source.REFUSED
        assert answer.is_refused
        assert answer.interval is None
        assert math.isnan(answer.count)
        form = answer.to_dict()
        assert (form["count"], form["fraction"], form["interval"]) == (None, None, None)
        assert form["error"]["code"] == "inaccurate"
        assert "the error bar would be wider" in answer.sentence()
        again = session.ask("a0 < 9 AND a1 < 9 AND a2 < 12")
        assert again.is_refused
        keyed = [session.ask("a0 < 9 AND a1 < 9 AND a2 < 11", request_id="a") for _ in range(2)]
        assert all(one.is_refused and math.isnan(one.count) for one in keyed)  # a retry gets the stored one
        groups = session.group_by("a0", "a1 < 9 AND a2 < 12")
        assert "refused" in groups.to_text()
        assert "nan" not in groups.to_text()
        assert session.ask("").source is Source.SYNTHETIC  # everybody is covered


def test_half_a_contract_or_one_that_does_nothing_is_refused() -> None:
    with pytest.raises(pmw.BudgetError, match="give accuracy and records together"):
        pmw.Options(accuracy=0.1)
    with pytest.raises(pmw.BudgetError, match="give accuracy and records together"):
        pmw.Options(records=10)
    with pytest.raises(pmw.BudgetError, match="expected an accuracy strictly between 0 and 1"):
        pmw.Options(accuracy=math.nan, records=100)
    with pytest.raises(pmw.BudgetError, match="expected a confidence strictly between 0 and 1"):
        pmw.Options(accuracy=0.1, records=10, confidence=1.0)
    with pytest.raises(pmw.BudgetError, match="an accuracy contract goes with test = marginal"):
        pmw.Options(accuracy=0.1, records=10, test=pmw.TestKind.QUERY)
    with pytest.raises(pmw.BudgetError, match="expected epsilon, or an accuracy in its place; got neither"):
        pmw.open_session(records(SMALL, 50), SMALL)
    with pytest.raises(pmw.BudgetError, match="no epsilon up to 1000 keeps every bound within 1e-07%"):
        pmw.open_session(records(SMALL, 50), SMALL, options=replace(contract(), accuracy=1e-9, records=50))
