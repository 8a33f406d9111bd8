"""Rows that answers choose: their bars hold whichever rows are shown, in every column, at a price."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.model.measurement import half_width
from pmw.privacy.random_bits import BitSource
from pmw.public.answer import Source
from pmw.public.bars import Bars
from pmw.public.free_answers import ModelAnswers, chosen_answer
from pmw.public.half_widths import Confidences, Rests, certified_half_width
from pmw.public.plans import QueryTestPlan
from pmw.public.state import Certificate, PublicState
from queries import UNITS, CategoricalAttribute, Domain, IntegerAttribute, LinearQuery, NumericAttribute
from queries.errors import QueryError
from queries.parsing import parse_sql
from tests.worlds import ends as bar_of
from tests.worlds import known

DOMAIN = Domain(
    (
        IntegerAttribute("hour", 0, 11),
        CategoricalAttribute("city", tuple("abcdefghij")),
        CategoricalAttribute("sex", ("f", "m")),
        CategoricalAttribute("kind", ("u", "v", "w")),
    ),
    name="trips",
)
EACH = 50
BY_BOTH = "SELECT city, hour, COUNT(*) AS n, SUM(3) AS v FROM trips GROUP BY city, hour"


def alike() -> pd.DataFrame:
    """Records of which each hour of each city has as many."""
    place = np.arange(120 * EACH)
    return pd.DataFrame(
        {
            "hour": place % 12,
            "city": np.array(list("abcdefghij"))[place // 12 % 10],
            "sex": np.array(["f", "m"])[place // 120 % 2],
            "kind": np.array(["u", "v", "w"])[place // 240 % 3],
        }
    )


def opened(seed: int, *, epsilon: float = 1, **choices: Any) -> pmw.Session:
    options = pmw.Options(seed=seed, **choices)
    return pmw.open_session(alike(), DOMAIN, epsilon=epsilon, delta=1e-9, options=options)


@pytest.fixture(scope="module")
def session() -> Iterator[pmw.Session]:
    with opened(1) as one:
        yield one


@pytest.fixture(scope="module")
def sessions() -> Iterator[list[pmw.Session]]:
    """Sessions over the same records, whose noise is their own."""
    with ExitStack() as stack:
        yield [stack.enter_context(opened(seed)) for seed in range(24)]


@cache
def certified_state() -> PublicState:
    """Return a state with a certificate, of a session that tests marginals."""
    with opened(1, opening=pmw.Opening.ONE_WAY) as one:
        state = one.state
    scope = ("hour", "city")
    units = np.rint(state.model.marginal(scope) * UNITS).astype(np.int64)
    return replace(state, certificates={scope: Certificate(scope, state.version, 50 * UNITS, units)})


@cache
def asked_one_by_one() -> tuple[PublicState, QueryTestPlan]:
    """Return a state in which nothing but single attributes is held, and the plan of tests of questions."""
    with opened(1, epsilon=2, test=pmw.TestKind.QUERY, threshold=100.0, update_limit=20) as one:
        plan = known(one.state.query_plan)
        return one.state, plan


# --- what chooses, and from how many ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tail", "groups"),
    [
        ("GROUP BY city", 1),
        ("GROUP BY city ORDER BY n DESC", 1),
        ("GROUP BY city ORDER BY city LIMIT 3", 1),
        ("GROUP BY city LIMIT 3 OFFSET 2", 1),
        ("GROUP BY city HAVING city > 'c'", 1),
        ("GROUP BY city QUALIFY ROW_NUMBER() OVER (ORDER BY city) < 3", 1),
        ("GROUP BY city ORDER BY n LIMIT 10", 1),  # which leaves out none
        ("", 1),
        ("HAVING COUNT(*) > 5", 1),
        ("GROUP BY city ORDER BY n LIMIT 9", 10),
        ("GROUP BY city ORDER BY n OFFSET 1", 10),
        ("GROUP BY city ORDER BY city, AVG(hour) LIMIT 1", 10),
        ("GROUP BY city HAVING COUNT(*) > 5", 10),
        ("GROUP BY city HAVING city > 'c' AND COUNT(*) > 5", 10),
        ("GROUP BY city QUALIFY RANK() OVER (ORDER BY COUNT(*)) < 3", 10),
        ("GROUP BY ROLLUP(city, sex) HAVING COUNT(*) > 5", 31),
        ("GROUP BY GROUPING SETS ((city), (sex)) ORDER BY n LIMIT 1", 12),
        ("WHERE city IN ('a', 'b') GROUP BY city, sex ORDER BY n LIMIT 1", 4),
    ],
)
def test_answers_choose_from_every_group_by_the_declaration(tail: str, groups: int) -> None:
    assert parse_sql(f"SELECT COUNT(*) AS n FROM trips {tail}", DOMAIN).choices == groups


def test_a_condition_that_nobody_meets_chooses_nothing(session: pmw.Session) -> None:
    text = (
        "SELECT city, COUNT(*) AS n FROM trips WHERE hour > 3 AND hour < 2 GROUP BY city HAVING COUNT(*) > 1"
    )
    assert parse_sql(text, DOMAIN).choices == 1
    assert len(session.sql(text)) == 0


@pytest.mark.parametrize(
    "text",
    [
        "SELECT DISTINCT COUNT(*) AS n FROM trips GROUP BY city",
        "SELECT DISTINCT city, COUNT(*) AS n FROM trips GROUP BY city, sex",
        "SELECT DISTINCT city, COUNT(*) AS n FROM trips GROUP BY GROUPING SETS ((city), (city))",
    ],
)
def test_a_row_that_stands_for_several_groups_is_refused(text: str) -> None:
    with pytest.raises(QueryError, match="DISTINCT of rows whose keys are not all shown"):
        parse_sql(text, DOMAIN)


def test_rows_that_show_their_keys_are_different_anyway(session: pmw.Session) -> None:
    plain = session.sql("SELECT city AS c, COUNT(*) AS n FROM trips GROUP BY city")
    assert session.sql("SELECT DISTINCT city AS c, COUNT(*) AS n FROM trips GROUP BY city").rows == plain.rows
    assert len(session.sql("SELECT DISTINCT city FROM trips")) == 10


# --- how often they hold ------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize(("tail", "most"), [("ORDER BY n DESC LIMIT 1", 1), ("HAVING COUNT(*) > 53", 120)])
def test_bars_hold_in_rows_that_noise_chose(sessions: list[pmw.Session], tail: str, most: int) -> None:
    """All groups are alike, so those that are shown have the largest noise; so has what else is summed."""
    missed = {"n": 0, "v": 0}
    for one in sessions:
        table = one.sql(f"{BY_BOTH} {tail}")
        assert 1 <= len(table) <= most
        for name, true in (("n", EACH), ("v", 3 * EACH)):
            ends = [found.interval or (math.nan, math.nan) for found in table.column(name)]
            missed[name] += not all(low <= true <= high for low, high in ends)
    assert max(missed.values()) <= 4  # of 24 sessions, in each of which one row may miss at most


@pytest.mark.statistical
def test_the_greatest_of_numbers_that_were_measured_by_themselves_is_in_its_bar() -> None:
    """Of 60 questions with one true count, each measured, the one with the largest noise is looked at."""
    state, plan = asked_one_by_one()
    query, true = LinearQuery.cells(DOMAIN, {"hour": (0, 5), "city": (0, 4)}), 30 * EACH
    bars, of, bits = Bars(state, groups=60), ModelAnswers(state), BitSource.from_integer(3)
    missed = np.zeros(2)
    for _ in range(100):
        greatest = true * UNITS + int(plan.noise.sample_array(bits, 60).max())
        own = of.measured(query, greatest, plan.noise)
        for place, answer in enumerate((own, chosen_answer(bars, query, own))):
            missed[place] += not bar_of(answer)[0] <= true <= bar_of(answer)[1]
    assert missed[0] > 60
    assert missed[1] <= 8


@pytest.mark.parametrize("source", [Source.MEASURED, Source.SYNTHETIC])
@pytest.mark.parametrize("tested", [1500.0, 700.0, 90.0, 0.0])
def test_the_number_that_was_tested_is_found_in_the_bar_that_it_gave(source: Source, tested: float) -> None:
    """Also where the question's parts cut one end of that off: the other one tells where the number was."""
    state, plan = asked_one_by_one()
    query, of = LinearQuery.cells(DOMAIN, {"hour": (0, 5), "city": (0, 4)}), ModelAnswers(state)
    bars, surely = Bars(state, groups=60), 1 - 0.9 * 0.05 * 17 / 18 / 60
    if source is Source.MEASURED:
        own, width = of.measured(query, round(tested * UNITS), plan.noise), half_width(plan.noise, surely)
    else:
        own = of.certified(query, round(tested * UNITS), plan, plan.threshold)
        width = certified_half_width(plan, plan.threshold, surely)
    found, parts = chosen_answer(bars, query, own), bars.of_parts(query)
    expected = max(0.0, parts[0], tested - width), min(parts[1], tested + width)
    assert own.source is found.source is source
    assert bar_of(found)[0] <= expected[0] + 1e-6
    assert bar_of(found)[1] >= expected[1] - 1e-6
    if tested == 1500:
        assert bar_of(found) == pytest.approx(expected)


@pytest.mark.statistical
def test_what_windows_make_of_chosen_rows_holds(sessions: list[pmw.Session]) -> None:
    """Ranks, sums over chosen rows, and a sum over all rows in a row that noise chose."""
    over = {
        "whole": "SUM(COUNT(*)) OVER ()",
        "most": "MAX(COUNT(*)) OVER ()",
        "up_to": "SUM(COUNT(*)) OVER (ORDER BY city, hour)",
    }
    shown = ", ".join(f"{window} AS {name}" for name, window in over.items())
    missed = dict.fromkeys(over, 0)
    text = f"SELECT city, hour, {shown} FROM trips GROUP BY city, hour"
    for one in sessions[:12]:
        kept = one.sql(f"{text} HAVING COUNT(*) > 53")
        top = one.sql(f"{text} ORDER BY COUNT(*) DESC LIMIT 1")
        ((city, hour), _), *_ = top.rows
        place = 12 * "abcdefghij".index(str(city)) + int(str(hour)) + 1
        trues = [
            *(({"whole": len(kept), "most": 1, "up_to": row}, kept, row - 1) for row in range(1, len(kept))),
            ({"whole": 120, "most": 1, "up_to": place}, top, 0),
        ]
        for true, table, row in trues[-2:]:
            for name, groups in true.items():
                low, high = table.column(name)[row].interval
                missed[name] += not low <= groups * EACH <= high
    assert max(missed.values()) <= 3


# --- what may fail ------------------------------------------------------------------------------------------


def failing(confidence: float) -> float:
    return 1 - confidence


@pytest.mark.parametrize("certified", [False, True])
@pytest.mark.parametrize("groups", [2, 120, 10_000])
def test_what_may_fail_of_all_groups_together_is_what_may_fail_of_one(certified: bool, groups: int) -> None:
    """Whichever of them rests on what: everybody's number and certificates are one event, the rest N."""
    state = certified_state()
    state = state if certified else replace(state, certificates={})
    found = Confidences.in_state(state, groups=groups)
    kinds = [one for one in Rests if certified or one in (Rests.MEASURED, Rests.PARTS)]
    own = [failing(found.shares(one).measured) + failing(found.of_parts(one, 2).measured) for one in kinds]
    assert own == pytest.approx([own[0]] * len(kinds), rel=1e-9)
    shared = {failing(found.shares(one).certificate) for one in kinds} if certified else {0.0}
    assert len(shared) == 1  # whatever a group rests on
    every = failing(found.everybody) + groups * own[0] + shared.pop()
    assert every == pytest.approx(0.05, rel=1e-9)


def test_certificates_hold_for_all_groups_as_for_one() -> None:
    """They are one event, and so is everybody's number: neither is divided."""
    state = certified_state()
    one, many = Confidences.in_state(state), Confidences.in_state(state, groups=10_000)
    assert many.shares(Rests.CERTIFIED).certificate == one.shares(Rests.CERTIFIED).certificate
    assert many.everybody == one.everybody
    query = LinearQuery.cells(DOMAIN, {"hour": (0, 3), "city": (1, 2)})
    widths = [Bars(state, groups=groups).width_of_query(query) for groups in (1, 10_000)]
    assert widths[0] == widths[1]
    measured = [Bars(state, groups=groups).half_width(query.over(("city",))) for groups in (1, 120, 10_000)]
    least, more, most = (width or 0.0 for width in measured)
    assert 1.6 < more / least < 2
    assert 2.1 < most / least < 2.5


def test_each_negative_test_of_laplace_noise_is_an_event_of_its_own() -> None:
    with opened(1, opening=pmw.Opening.ONE_WAY, sparse_vector=pmw.SparseVectorKind.LAPLACE) as one:
        state = one.state
    found = Confidences.in_state(state, groups=10)
    assert found == Confidences.in_state(state, events=10)
    assert failing(found.shares(Rests.CERTIFIED).certificate) < 0.05 / 10


def test_bars_that_hold_for_all_questions_at_once_allow_for_any_choice() -> None:
    with opened(1, opening=pmw.Opening.ONE_WAY, simultaneous=True) as one:
        text = "SELECT city, COUNT(*) AS n, SUM(3) AS v FROM trips GROUP BY city ORDER BY n DESC"
        every, first = one.sql(text), one.sql(f"{text} LIMIT 1")
    assert first.rows == every.rows[:1]
    assert not any("answers choose" in note for note in first.notes)


def test_a_chosen_row_has_no_typical_error(session: pmw.Session) -> None:
    """That is of questions that were not chosen by their answers."""
    for found in session.sql(f"{BY_BOTH} HAVING COUNT(*) > 40").column("n"):
        assert found.typical is None


def test_a_table_says_out_of_how_many_rows_answers_choose(session: pmw.Session) -> None:
    told = {
        tail: [note for note in session.sql(f"{BY_BOTH} {tail}").notes if "answers choose" in note]
        for tail in (
            "ORDER BY n DESC LIMIT 3", "HAVING COUNT(*) > 50", "ORDER BY n", "LIMIT 3", "HAVING hour < 3"
        )
    }  # fmt: skip
    (limit,), (having,), *others = told.values()
    assert limit == having
    assert "from 120 groups" in limit
    assert "hold whichever rows are chosen" in limit
    assert others == [[], [], []]


def test_rows_that_keys_choose_have_the_bars_of_fixed_questions(session: pmw.Session) -> None:
    rows = dict(session.sql(BY_BOTH).rows)
    for tail in (
        "LIMIT 5",
        "ORDER BY hour, city LIMIT 5",
        "HAVING hour < 3",
        "QUALIFY RANK() OVER (ORDER BY hour) < 3",
    ):
        found = session.sql(f"{BY_BOTH} {tail}").rows
        assert 1 < len(found) < 120
        assert all(rows[keys] == estimates for keys, estimates in found)


def test_a_window_over_rows_that_keys_chose_has_the_bar_of_one_sum(session: pmw.Session) -> None:
    text = "SELECT city, SUM(COUNT(*)) OVER () AS v FROM trips GROUP BY city HAVING city IN ('a', 'c')"
    (total,) = session.sql("SELECT COUNT(*) AS v FROM trips WHERE city IN ('a', 'c')").column("v")
    for found in session.sql(text).column("v"):
        assert found.interval[1] - found.interval[0] <= total.interval[1] - total.interval[0] + 2


def test_a_contract_is_about_questions_and_a_chosen_row_has_a_bar_of_its_own() -> None:
    """Else nothing would be left of a table whose noise is just enough."""
    options = pmw.Options(seed=1, opening=pmw.Opening.ONE_WAY, accuracy=0.1, records=6000)
    with pmw.open_session(alike(), DOMAIN, epsilon=2, delta=1e-9, options=options) as one:
        text = "SELECT city, COUNT(*) AS n FROM trips GROUP BY city"
        every, kept = one.sql(text), one.sql(f"{text} HAVING COUNT(*) > 0")
    for own, found in zip(every.column("n"), kept.column("n"), strict=True):
        assert own.value == found.value
        assert found.interval[0] <= own.interval[0] < own.interval[1] <= found.interval[1]


# --- the price ----------------------------------------------------------------------------------------------


def test_the_price_of_a_bar_allows_for_the_choice() -> None:
    """Noise is narrower by the quantile of one group's part of what may fail, and costs its square."""
    generator = np.random.default_rng(3)
    pay = NumericAttribute("pay", (0, 100, 200), resolution=1)
    domain = Domain((CategoricalAttribute("city", tuple("abcdefghijkl")), pay, *DOMAIN.attributes[2:]), "t")
    columns = {"city": generator.choice(list("abcdefghijkl"), 6000), "pay": generator.uniform(0, 200, 6000)}
    frame = pd.DataFrame({**columns, "sex": "f", "kind": "u"})
    text, options = (
        "SELECT city, AVG(pay) AS v FROM t GROUP BY city",
        pmw.Options(seed=1, opening=pmw.Opening.ONE_WAY),
    )
    with pmw.open_session(frame, domain, epsilon=3, delta=1e-9, options=options) as one:
        one.sql(text)
        plain, chosen = (
            one.quote_aggregate(text + tail, 4).share for tail in ("", " ORDER BY v DESC LIMIT 1")
        )
        assert one.quote_aggregate(f"{text} ORDER BY city LIMIT 1", 4).share == plain
        assert 1.5 < chosen / plain < 2.4
        table = one.sql_within(f"{text} ORDER BY v DESC LIMIT 1", 4)
        every = one.sql(f"{text} HAVING AVG(pay) > 0")
    assert len(every) == 12
    for found in (*table.column("v"), *every.column("v")):
        assert found.interval[1] - found.interval[0] <= 8.5
