"""Questions that are measured themselves, alone and in lists: prices, noise, bars, faults and refusals."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.errors import PriceError
from pmw.loop.loop import are_tested
from pmw.model.measurement import RowsMeasurement, half_width
from pmw.privacy.budget import Composition, NeighboringRelation
from pmw.public.charges import QuestionNumbers
from pmw.public.codec import FormError
from pmw.public.half_widths import Confidences
from pmw.session.events import require_measurable
from queries import CategoricalAttribute, Domain, IntegerAttribute, LinearQuery, QueryError
from queries.parsing import parse_where
from queries.person import Person
from queries.questions import QuestionList
from tests import worlds

DOMAIN = Domain(
    (
        IntegerAttribute("age", 0, 79),
        CategoricalAttribute("sex", ("f", "m")),
        CategoricalAttribute("region", tuple("nesw")),
        CategoricalAttribute("smoker", ("yes", "no")),
        IntegerAttribute("rooms", 1, 8),
    ),
    name="people",
)
# The same, where no record is dropped.
WHOLE = replace(DOMAIN, attributes=tuple(replace(one, missing=True, other=True) for one in DOMAIN.attributes))
FOUR = "age BETWEEN 13 AND 27 AND sex = 'f' AND region = 'n' AND smoker = 'yes'"
GROUPS = (
    "SELECT region, smoker, COUNT(*) AS n FROM people WHERE age BETWEEN 13 AND 27 GROUP BY region, smoker"
)
LIST = [FOUR, "age < 30 AND rooms >= 5", "age < 30 AND sex = 'm' AND rooms > 2", "rooms = 3 AND age >= 71"]


def frame(records: int = 20_000) -> pd.DataFrame:
    generator = np.random.default_rng(8)
    age = generator.integers(0, 80, records)
    return pd.DataFrame(
        {
            "age": age,
            "sex": np.where(generator.random(records) < 0.3 + age / 200, "f", "m"),
            "region": generator.choice(list("nesw"), records, p=[0.4, 0.3, 0.2, 0.1]),
            "smoker": np.where(generator.random(records) < 0.2, "yes", "no"),
            "rooms": 1 + generator.binomial(7, 0.2 + age / 200),
        }
    )


FRAME = frame()
VISITORS = replace(WHOLE, person=Person("id"))
TRIPS = FRAME.assign(id=np.arange(len(FRAME)) // 2)


def opened(path: Path | None = None, **choices: Any) -> pmw.Session:
    seed = {} if path is not None else {"seed": 3}
    replaced = choices.get("neighboring_relation") is NeighboringRelation.REPLACE_ONE
    domain = WHOLE if replaced else DOMAIN
    return worlds.opened(FRAME, domain, path, **{"epsilon": 1, **seed, **choices})


def width(answer: pmw.Answer) -> float:
    assert answer.interval is not None
    return (answer.interval[1] - answer.interval[0]) / 2


# --- prices -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("composition", "relation"),
    [
        (Composition.PURE, NeighboringRelation.ADD_REMOVE),
        (Composition.ZCDP, NeighboringRelation.REPLACE_ONE),
        (Composition.GDP, NeighboringRelation.ADD_REMOVE),
    ],
)
def test_a_question_of_four_attributes_is_bought_at_its_quoted_price(
    composition: Composition, relation: NeighboringRelation
) -> None:
    with opened(composition=composition, neighboring_relation=relation) as session:
        before, wanted = session.state.ledger.spent, 400 if composition is not Composition.PURE else 2000
        quote = session.quote(FOUR, wanted)
        assert session.state.ledger.spent == before
        assert quote.of_questions
        assert (quote.cells, quote.affordable) == (1, True)
        assert wanted * 0.999 < quote.half_width <= wanted
        answer = session.ask_within(FOUR, wanted, at_most=1)
        line = session.ledger().lines[-1]
        assert (line.event, line.share) == ("questions", quote.share)
        assert session.state.ledger.spent == before + line.price
        assert width(answer) <= quote.half_width * (1 + 1e-9)
        assert answer.spent.charged == quote.share
        assert session.ask(FOUR) == replace(answer, spent=session.ask(FOUR).spent)
        assert session.state.positives_used == 0
        assert not session.quote(FOUR, wanted).needed
        assert session.verify().holds


def test_a_list_costs_what_a_person_moves_of_it() -> None:
    """In zCDP prices at one noise are in the proportion of squared sensitivities."""
    choices: dict[str, Any] = {"composition": Composition.ZCDP}
    nested = [f"age < {end}" for end in (10, 20, 30)]
    with opened(**choices) as session:
        lists = [GROUPS, nested, [FOUR]]
        groups, three, one = (session.measure(what, within=500, dry_run=True).share for what in lists)
    assert groups == pytest.approx(one)
    assert three == pytest.approx(3 * one)
    choices["neighboring_relation"] = NeighboringRelation.REPLACE_ONE
    with opened(**choices) as session:

        def price(what: Any) -> float:
            quote = session.measure(what, within=500, dry_run=True)
            assert quote.half_width == pytest.approx(500, rel=1e-6)
            return quote.share

        one = price([FOUR])
        assert price([f"region = '{name}' AND age < 9" for name in "nesw"]) == pytest.approx(2 * one)
        assert price(GROUPS) == pytest.approx(2 * one)
        assert price(nested) == pytest.approx(3 * one)
        assert price([FOUR, FOUR]) == price([FOUR])
        sets = GROUPS.replace("GROUP BY region, smoker", "GROUP BY GROUPING SETS ((region), (smoker), ())")
        assert price(sets) == pytest.approx(4 * one)  # of two records both are counted
        for how in ({"within": 5}, {"share": 0.02}):
            with pytest.raises(QueryError, match="no person moves the answers"):
                session.measure([{}], **how)
    # Where persons are replaced by others, their records may be more or fewer, and everybody is moved.
    with worlds.opened(TRIPS, VISITORS, epsilon=1, records_per_person=2, **choices) as session:
        rows = session.measure([{}], within=500, dry_run=True)
        other = session.measure(["sex = 'f'"], within=500, dry_run=True)
        assert rows.share == pytest.approx(other.share)
        assert rows.share > 0


def test_a_marginal_is_taken_where_it_costs_at_most_twice_as_much() -> None:
    with opened() as session:
        whole = session.quote("rooms = 3 AND sex = 'f'", 30)
        assert not whole.of_questions
        assert session.quote("rooms >= 2 AND rooms <= 7 AND smoker = 'no' AND age < 77", 60).of_questions


# --- bars -------------------------------------------------------------------------------------------------


def test_of_several_numbers_the_one_with_the_least_noise_bounds_a_question() -> None:
    with opened() as session:
        session.measure(LIST, within=60, at_most=1)
        narrow = [width(session.ask(where, at_most=0)) for where in LIST]
        assert max(narrow) <= 60.001
        session.measure(LIST, within=600, at_most=1)
        again = [width(session.ask(where, at_most=0, fresh=True)) for where in LIST]
        assert again == pytest.approx(narrow)


def test_the_bar_is_the_number_and_the_quantile_of_its_noise() -> None:
    with opened() as session:
        quote = session.measure([FOUR], within=100, at_most=1)
        measured = session.state.measured[-1]
        assert isinstance(measured, RowsMeasurement)
        (number,) = measured.numbers
        confidence = Confidences.in_state(session.state).alone
        reach = half_width(number.noise, confidence)
        assert reach == quote.half_width
        low, high = session.ask(FOUR, at_most=0).interval or (0.0, 0.0)
        assert high == pytest.approx(number.value + reach)
        assert low == pytest.approx(max(0.0, number.value - reach))
        assert abs(session.ask(FOUR).count - number.value) <= number.variance**0.5 + 1e-6


def test_a_question_that_cuts_bins_has_the_bar_that_was_bought() -> None:
    """What is known on bins stands beside its number; how far apart its ends are was drawn."""
    where, other = "age BETWEEN 13 AND 27 AND rooms = 3", "age BETWEEN 12 AND 27 AND rooms = 3"
    with opened() as session:
        session.measure(["age", "rooms"], at_most=1)
        before = session.ask(other, at_most=0, fresh=True)
        for wanted in (150, 60):
            answer = session.ask_within(where, wanted, at_most=1)
            assert width(answer) <= wanted * (1 + 1e-9)
            assert not session.quote(where, wanted).needed
        session.measure([other], share=1e-9)  # tells next to nothing
        assert width(session.ask(other, at_most=0, fresh=True)) < 1.6 * width(before)
        by = "SELECT rooms, COUNT(*) AS n FROM people WHERE age BETWEEN 13 AND 27 GROUP BY rooms"
        session.sql_within(by, 70, at_most=1)
        assert not session.quote_aggregate(by, 70).needed


def test_a_number_with_more_noise_than_a_positive_has_leaves_a_question_its_test() -> None:
    own, other = (f"age < 30 AND sex = 'm' AND rooms > {rooms}" for rooms in (2, 3))
    queries = [parse_where(where, DOMAIN) for where in (own, other)]
    with opened() as session:
        asked = QuestionList(queries[:1])
        assert are_tested(session.state, asked).all()
        session.measure([own], share=1e-9)
        assert are_tested(session.state, asked).all()
        session.measure([own], within=20, at_most=1)
        for each in (queries, queries[::-1]):  # and others of its kind theirs, in any order
            told = are_tested(session.state, QuestionList(each)).tolist()
            assert told == [query is queries[1] for query in each]
        for listed in ([own, other], [other, own]):
            with pytest.raises(PriceError):
                session.ask_all(listed, at_most=Fraction(1, 10_000))


# --- statements -------------------------------------------------------------------------------------------


def test_the_groups_of_a_statement_cost_what_one_question_does_and_more_where_answers_choose() -> None:
    top = f"{GROUPS} ORDER BY n DESC LIMIT 3"
    with opened() as session:
        one, all_ = session.quote(FOUR, 400), session.quote_aggregate(GROUPS, 400)
        assert (all_.share, all_.to_dict()["questions"]) == (one.share, 8)
        chosen = session.quote_aggregate(top, 400)
        assert chosen.share > 1.5 * all_.share
        assert chosen.to_dict()["questions"] == 8  # all groups, whichever are shown
        table = session.sql_within(GROUPS, 400, at_most=1)
        assert table.spent.charged == all_.share
        bars = [one.interval for one in table.estimates()]
        assert all(high - low <= 802 for low, high in filter(None, bars))
        assert not session.quote_aggregate(GROUPS, 400).needed
        spent = session.state.ledger.spent
        assert session.sql(GROUPS).rows == session.sql_within(GROUPS, "2.1%").rows
        assert session.state.ledger.spent == spent
        assert session.quote_aggregate(top, 400).needed
        shown = [one.interval for one in session.sql_within(top, 400, at_most=1).estimates()]
        assert all(high - low <= 802 for low, high in filter(None, shown))
        assert session.verify().holds


# --- faults and refusals ----------------------------------------------------------------------------------


def test_a_list_with_a_question_twice_or_none_is_refused() -> None:
    one = LinearQuery.cells(DOMAIN, {"age": (0, 9)})
    for queries in ((), (one, LinearQuery.cells(DOMAIN, {"age": (0, 9)}))):
        with pytest.raises(FormError):
            require_measurable(DOMAIN, QuestionNumbers(queries))
    require_measurable(DOMAIN, QuestionNumbers((one, LinearQuery.cells(DOMAIN, {"age": (0, 10)}))))


def test_more_questions_than_are_measured_together_are_refused_before_they_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = list[object]()

    def questions(statement: object) -> tuple[object, ...]:
        made.append(statement)
        return ()

    monkeypatch.setattr("queries.statements.Statement.questions", questions)
    monkeypatch.setattr("pmw.planning.row_quotes.MOST_ROWS", 10_000)
    groups = "SELECT age, region, smoker, rooms, COUNT(*) AS n FROM people WHERE sex = '{}' GROUP BY ALL"
    with opened() as session, pytest.raises(QueryError, match="expected at most 10,000 questions"):
        session.measure([groups.format("f"), groups.format("m")], within=100)
    assert len(made) == 1


def test_what_cannot_be_measured_is_refused_and_costs_nothing() -> None:
    refused: list[tuple[Any, dict[str, Any], str]] = [
        ([], {}, "expected one attribute or several"),
        (["age < 10 AND age > 30"], {"within": 30}, "that hold for some record of some table"),
        ([FOUR], {"within": 1e-9}, "no noise has a bar"),
        ([FOUR], {"within": 0}, "expected a number above 0"),
        ([FOUR], {"share": 0}, "above 0, at most 1"),
        ([FOUR], {"share": 2}, "above 0, at most 1"),
        ([FOUR], {"share": "1e-60"}, "the share is too small"),
        ([FOUR], {"share": 0.1, "within": 3}, "got both"),
        (["SELECT AVG(age) FROM people"], {"within": 30}, "columns are keys and COUNT"),
        (["SELECT COUNT(*) * 2 AS n FROM people"], {"within": 30}, "columns are keys and COUNT"),
        ([f"{GROUPS} ORDER BY n LIMIT 2"], {"within": 30}, "all of its groups are shown"),
        (["age", "sex"], {"within": 30}, "leave share and within out"),
        ([FOUR], {"within": 1.0, "at_most": 1}, "is left for it; nothing was spent"),
        ([FOUR], {"within": 30, "at_most": 1e-9}, "may be charged"),
    ]
    either = ["age + rooms > 20.5 OR region LIKE 'n%'", "age > rooms"]
    with opened() as session:
        before = session.state.ledger.spent
        assert session.measure(either, within=30, dry_run=True).cells == 2
        for what, how, told in refused:
            with pytest.raises((pmw.PMWError, QueryError), match=told):
                session.measure(what, **how)
            assert session.state.ledger.spent == before


def test_what_cells_do_not_decide_is_refused_with_the_reason() -> None:
    world = Domain((IntegerAttribute("age", 0, 79, width=10), *DOMAIN.attributes[1:]), name="people")
    with worlds.opened(FRAME, world, epsilon=1, seed=3) as session:
        before = session.state.ledger.spent
        for use in (
            lambda: session.quote("age < 25 AND rooms = 3", 50),
            lambda: session.ask_within("age < 25 AND rooms = 3", 50),
            lambda: session.measure(["age < 25 AND rooms = 3"], within=50),
        ):
            with pytest.raises(QueryError, match="only whole cells are asked for; nearest to it: age < 20"):
                use()
        assert session.state.ledger.spent == before
