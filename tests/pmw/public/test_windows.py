"""Windows: what DuckDB makes of the answers, with ranks and sums that hold what the bars allow."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pmw
from pmw.model.measurement import half_width
from pmw.privacy.random_bits import BitSource
from pmw.public.answer import Source
from pmw.public.bars import Bars
from pmw.public.free_answers import ModelAnswers, chosen_answer
from pmw.public.half_widths import Confidences, Rests, certified_half_width
from pmw.public.plans import QueryTestPlan
from pmw.public.state import Certificate, PublicState
from pmw.public.windows import positions
from queries import UNITS, CategoricalAttribute, Domain, LinearQuery, NumericAttribute
from queries.parsing import parse_sql
from queries.questions import QuestionList
from tests.worlds import declared, ends, known

DOMAIN = declared("people", city="abcde", sex="fm", age=range(10))
OVER = [
    "RANK() OVER (ORDER BY COUNT(*) DESC)",
    "DENSE_RANK() OVER (PARTITION BY sex ORDER BY COUNT(*))",
    "ROW_NUMBER() OVER (PARTITION BY city ORDER BY sex DESC)",
    "SUM(COUNT(*)) OVER ()",
    "SUM(COUNT(*)) OVER (PARTITION BY sex ORDER BY city)",
    "SUM(COUNT(*)) OVER (PARTITION BY sex ORDER BY COUNT(*) DESC)",
    "SUM(COUNT(*)) OVER (PARTITION BY sex ORDER BY city ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
    "AVG(COUNT(*)) OVER (PARTITION BY sex)",
    "MIN(COUNT(*)) OVER (PARTITION BY sex)",
    "MAX(COUNT(*)) OVER (PARTITION BY city)",
    "COUNT(*) OVER (PARTITION BY city)",
    "LAG(COUNT(*)) OVER (PARTITION BY sex ORDER BY city)",
    "LEAD(COUNT(*), 2, 0) OVER (PARTITION BY sex ORDER BY city DESC)",
    "COUNT(*) - LAG(COUNT(*)) OVER (PARTITION BY sex ORDER BY city)",
    "FIRST_VALUE(COUNT(*)) OVER (PARTITION BY sex ORDER BY city)",
    "LAST_VALUE(COUNT(*)) OVER (PARTITION BY sex ORDER BY city)",
    "COUNT(*) * 100.0 / SUM(COUNT(*)) OVER (PARTITION BY city)",
    "ROUND(1.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 3)",
]


def people(seed: int, rows: int = 4000) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    city = generator.choice(list("abcde"), rows, p=[0.3, 0.27, 0.2, 0.13, 0.1])
    return pd.DataFrame(
        {"city": city, "sex": generator.choice(["f", "m"], rows), "age": generator.integers(0, 10, rows)}
    )


def by_duckdb(frame: pd.DataFrame, statement: str) -> pd.DataFrame:
    with duckdb.connect() as connection:
        connection.register("people", frame)
        return connection.execute(statement).df()


@pytest.fixture(scope="module")
def session() -> Iterator[pmw.Session]:
    """A session with bars of some width."""
    with pmw.open_session(people(1), DOMAIN, epsilon=0.5, delta=1e-9, options=pmw.Options(seed=5)) as one:
        one.group_by(["city", "sex"])
        yield one


def test_the_rows_of_a_window_hold_together(session: pmw.Session) -> None:
    """So the greatest of them has an end that is wider than each row's own."""
    over = "MAX(COUNT(*)) OVER ()"
    table = session.sql(f"SELECT city, sex, COUNT(*) AS n, {over} AS v FROM people GROUP BY 1, 2")
    own, (greatest, *_) = table.column("n"), table.column("v")
    assert greatest.interval[1] > max(one.interval[1] for one in own) + 2


def test_bars_of_windows_hold_the_truth(session: pmw.Session) -> None:
    held, bars = 0, 0
    for over in OVER:
        text = f"SELECT city, sex, COUNT(*) AS n, {over} AS v FROM people GROUP BY 1, 2 ORDER BY 1, 2"
        found, true = session.sql(text).to_pandas(), by_duckdb(people(1), text)
        if "v_low" not in found:
            continue
        expected, promised = true["v"].astype(float), found["v_low"].notna()
        inside = (found["v_low"] - 1e-6 <= expected) & (expected <= found["v_high"] + 1e-6)
        held += int(inside[promised & expected.notna()].sum())
        bars += int((promised & expected.notna()).sum())
    assert bars > 100
    assert held >= 0.95 * bars


def test_a_row_that_may_have_no_records_may_add_nothing() -> None:
    """Nobody lives in the last city: its mean is NULL in truth, and only the model has one."""
    frame = people(7, 3000)
    frame = frame[frame["city"] != "e"]
    with pmw.open_session(frame, DOMAIN, epsilon=1, delta=1e-9, options=pmw.Options(seed=3)) as one:
        one.group_by(["city", "age"])
        (last,) = one.sql("SELECT AVG(age) AS v FROM people WHERE city = 'e'").column("v")
        assert last.conditional
        for over in ("SUM(AVG(age)) OVER ()", "MIN(AVG(age)) OVER ()", "MAX(AVG(age)) OVER ()",
                     "AVG(AVG(age)) OVER ()", "RANK() OVER (ORDER BY AVG(age))"):  # fmt: skip
            text = f"SELECT city, {over} AS v FROM people GROUP BY city ORDER BY city"
            found, true = one.sql(text).to_pandas().iloc[:4], by_duckdb(frame, text)["v"]
            inside = (found["v_low"] - 1e-6 <= true) & (true <= found["v_high"] + 1e-6)
            assert (inside | found["v_low"].isna()).all()
            assert found["v_low"].isna().all() == over.startswith("AVG(AVG")


def test_a_sum_over_rows_has_the_bar_of_one_sum(session: pmw.Session) -> None:
    text = "SELECT city, SUM(COUNT(*)) OVER () AS v FROM people GROUP BY city"
    (total,) = session.sql("SELECT COUNT(*) AS v FROM people").column("v")
    for one in session.sql(text).column("v"):
        assert ends(one)[1] - ends(one)[0] <= 1.01 * (ends(total)[1] - ends(total)[0]) + 1


# --- what the true rows may be ------------------------------------------------------------------------------


def even_people(rows: int = 2000) -> pd.DataFrame:
    """Records of which each city has as many."""
    place = np.arange(rows)
    return pd.DataFrame({"city": np.array(list("abcde"))[place % 5], "sex": "f", "age": place % 10})


@pytest.fixture(scope="module")
def even() -> Iterator[pmw.Session]:
    """A session whose bars of cities overlap."""
    with pmw.open_session(even_people(), DOMAIN, epsilon=0.3, delta=1e-9, options=pmw.Options(seed=6)) as one:
        yield one


@pytest.mark.parametrize(
    "over",
    [
        "LAG(COUNT(*), 1, 0) OVER (ORDER BY COUNT(*))",
        "FIRST_VALUE(COUNT(*)) OVER (ORDER BY COUNT(*))",
        "LAST_VALUE(COUNT(*)) OVER (ORDER BY COUNT(*) "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
        "SUM(COUNT(*)) OVER (ORDER BY COUNT(*) ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING)",
        "SUM(COUNT(*)) OVER (ORDER BY COUNT(*) DESC)",
        "COUNT(*) OVER (ORDER BY COUNT(*))",
        "1.0 * COUNT(*) / SUM(COUNT(*)) OVER (ORDER BY COUNT(*))",
    ],
)
def test_nothing_is_promised_of_rows_whose_places_are_open(even: pmw.Session, over: str) -> None:
    """Another row may be the first, the last, or one of those before; before the first there is none."""
    table = even.sql(f"SELECT city, COUNT(*) AS n, {over} AS v FROM people GROUP BY city")
    ends = [one.interval for one in table.column("n")]
    assert max(low for low, _ in ends) < min(high for _, high in ends)
    assert not any(one.is_promised for one in table.column("v"))
    assert any("leave their order open" in note for note in table.notes)


def test_an_order_that_the_bars_decide_promises_what_stands_before() -> None:
    with pmw.open_session(people(1), DOMAIN, epsilon=1000, delta=1e-9, options=pmw.Options(seed=1)) as one:
        over = "LAG(COUNT(*), 1, 0) OVER (ORDER BY COUNT(*) DESC)"
        text = f"SELECT city, {over} AS v FROM people GROUP BY city ORDER BY city"
        found, true = one.sql(text).column("v"), by_duckdb(people(1), text)["v"]
        table = one.sql("SELECT city, COUNT(*) AS n FROM people GROUP BY city ORDER BY n DESC LIMIT 3")
    assert not [note for note in table.notes if "not certain" in note]
    for estimate, value in zip(found, true, strict=True):
        assert estimate.is_promised
        assert estimate.interval[0] <= value <= estimate.interval[1]


def test_rows_that_may_be_equal_stand_in_either_order_of_the_next_column() -> None:
    """Of [0, 0] and [0, 7] the other may be 0, too; the next column may put it first."""
    first, second = np.array([[0.0, 0], [0, 7]]), np.array([[1.0, 1], [0, 0]])
    found = positions([first, second])
    assert [one.tolist() for one in found.ahead] == [[0, 0], [1, 1]]
    assert [one.tolist() for one in found.different] == [[0, 0], [1, 1]]
    assert [one.tolist() for one in positions([first]).ahead] == [[0, 0], [0, 1]]
    # Where the first is exact, it decides alone, or the second does.
    first, second = np.array([[1.0, 1], [1, 1], [0, 0]]), np.array([[5.0, 7], [8, 9], [0, 99]])
    assert [one.tolist() for one in positions([first, second]).ahead] == [[1, 2, 0], [1, 2, 0]]


def test_a_grouping_set_that_stands_twice_counts_twice(session: pmw.Session) -> None:
    sets = "GROUPING SETS ((sex), (sex))"
    text = f"SELECT sex, SUM(COUNT(*)) OVER () AS v FROM people GROUP BY {sets}"
    for one in session.sql(text).column("v"):
        assert one.interval[0] > 1.5 * len(people(1))


def test_sums_over_rows_that_having_chooses_hold_as_often_as_others() -> None:
    """All cities are alike: those above their mean are those whose noise is above 0."""
    over = "SUM(COUNT(*)) OVER ()"
    text = (
        f"SELECT city, {over} AS v, 1.0 / 400 * {over} AS w FROM people GROUP BY city HAVING COUNT(*) > 400"
    )
    for seed in range(12):
        options = pmw.Options(seed=seed)
        with pmw.open_session(even_people(), DOMAIN, epsilon=0.3, delta=1e-9, options=options) as one:
            table = one.sql(text)
        for name, each in (("v", 400), ("w", 1)):
            for low, high in (found.interval for found in table.column(name)):
                assert low <= each * len(table) <= high


def test_what_a_window_reads_shares_what_may_fail_with_its_order() -> None:
    """The last row's sum is that of all rows; where answers decide which one is last, its bar is wider."""
    text = "SELECT SUM(SUM(age)) OVER (ORDER BY {}) AS v FROM people GROUP BY city ORDER BY 1 DESC LIMIT 1"
    with pmw.open_session(people(1), DOMAIN, epsilon=20, delta=1e-9, options=pmw.Options(seed=1)) as one:
        widths = []
        for order in ("city", "COUNT(*)"):
            low, high = one.sql(text.format(order)).column("v")[0].interval
            widths.append(high - low)
    assert 1.05 * widths[0] < widths[1] < 1.3 * widths[0]


def test_a_share_of_totals_lies_between_those_of_its_parts(session: pmw.Session) -> None:
    """Totals overlap their groups, so the sum is no count of records: both ends are divided."""
    over = "1.0 * COUNT(*) / SUM(COUNT(*)) OVER ()"
    text = f"SELECT sex, {over} AS v FROM people GROUP BY ROLLUP(sex) ORDER BY sex"
    found, true = session.sql(text).column("v"), by_duckdb(people(1), text)["v"]
    for estimate, value in zip(found, true, strict=True):
        assert estimate.is_promised
        assert estimate.interval[0] <= value <= estimate.interval[1]
    own = "SUM(age - 4.5)"  # about 0, and so may be what it is divided by: nothing is promised
    shares = session.sql(f"SELECT city, {own} / SUM({own}) OVER () AS v FROM people GROUP BY city")
    assert all(found.value is not None and not found.is_promised for found in shares.column("v"))


# --- positions ----------------------------------------------------------------------------------------------

LOWEST, WIDTHS = st.integers(0, 4), st.integers(0, 3)
ENDS = st.lists(st.tuples(LOWEST, WIDTHS).map(lambda one: (one[0], sum(one))), min_size=1, max_size=5)


@given(ENDS)
def test_ranks_are_those_of_some_numbers_inside_the_intervals(ends: list[tuple[int, int]]) -> None:
    """All numbers on a grid of halves are tried, which has a place between any two whole ones."""
    found = positions([np.array(ends, dtype=np.float64)])
    tried: list[set[Any]] = [set() for _ in ends]
    for values in itertools.product(*(np.arange(2 * low, 2 * high + 1) for low, high in ends)):
        for place, value in enumerate(values):
            ahead = [one for one in values if one < value]
            tried[place].add((len(ahead), len(set(ahead)), len([one for one in values if one <= value]) - 1))
    ranks = (*found.ahead, *found.different, found.beside)
    for place, some in enumerate(tried):
        least, most, fewest, many, beside = (int(one[place]) for one in ranks)
        assert (least, most) == (min(one[0] for one in some), max(one[0] for one in some))
        assert fewest <= min(one[1] for one in some)
        assert many >= max(one[1] for one in some)
        assert beside == max(one[2] for one in some)
        if all(low == high for low, high in ends):
            assert fewest == many


# --- places of a sorted table -------------------------------------------------------------------------------


def test_a_top_k_says_which_places_are_not_certain(session: pmw.Session) -> None:
    table = session.sql("SELECT city, sex, COUNT(*) AS n FROM people GROUP BY 1, 2 ORDER BY n DESC LIMIT 4")
    every = session.sql("SELECT city, sex, COUNT(*) AS n FROM people GROUP BY 1, 2 ORDER BY n DESC")
    text = "SELECT city, sex, COUNT(*) AS n FROM people GROUP BY 1, 2 HAVING COUNT(*) >= 0 ORDER BY n DESC"
    ends = [one.interval for one in session.sql(text).column("n")]  # which hold together, as the table's
    open_ = []
    for place, own in enumerate(ends[:4]):
        assert own is not None
        others = [one for number, one in enumerate(ends) if number != place and one is not None]
        if any(one[0] <= own[1] and own[0] <= one[1] for one in others):
            open_.append(place + 1)
    (note,) = [note for note in table.notes if "not certain" in note]
    assert open_
    assert {
        int(word.strip(",")) for word in note.partition(" not certain")[0].split() if word[0].isdigit()
    } <= {*open_}
    assert not [note for note in every.notes if "not certain" in note]


# --- rows that answers choose -------------------------------------------------------------------------------

TRIPS = declared("trips", hour=range(12), city="abcdefghij", sex="fm", kind="uvw")
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
    return pmw.open_session(alike(), TRIPS, epsilon=epsilon, delta=1e-9, options=options)


@pytest.fixture(scope="module")
def trips() -> Iterator[pmw.Session]:
    with opened(1) as one:
        yield one


@pytest.fixture(scope="module")
def sessions() -> Iterator[list[pmw.Session]]:
    """Sessions over the same records, whose noise is their own."""
    with ExitStack() as stack:
        yield [stack.enter_context(opened(seed)) for seed in range(14)]


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
        ("GROUP BY city ORDER BY city LIMIT 3", 1),
        ("GROUP BY city HAVING city > 'c'", 1),
        ("GROUP BY city QUALIFY ROW_NUMBER() OVER (ORDER BY city) < 3", 1),
        ("GROUP BY city ORDER BY n LIMIT 10", 1),  # which leaves out none
        ("", 1),
        ("GROUP BY city ORDER BY n LIMIT 9", 10),
        ("GROUP BY city ORDER BY n OFFSET 1", 10),
        ("GROUP BY city ORDER BY city, AVG(hour) LIMIT 1", 10),
        ("GROUP BY city HAVING city > 'c' AND COUNT(*) > 5", 10),
        ("GROUP BY city QUALIFY RANK() OVER (ORDER BY COUNT(*)) < 3", 10),
        ("GROUP BY ROLLUP(city, sex) HAVING COUNT(*) > 5", 31),
        ("GROUP BY GROUPING SETS ((city), (sex)) ORDER BY n LIMIT 1", 12),
        ("WHERE city IN ('a', 'b') GROUP BY city, sex ORDER BY n LIMIT 1", 4),
    ],
)
def test_answers_choose_from_every_group_by_the_declaration(tail: str, groups: int) -> None:
    assert parse_sql(f"SELECT COUNT(*) AS n FROM trips {tail}", TRIPS).choices == groups


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
    assert max(missed.values()) <= 3  # of 14 sessions, in each of which one row may miss at most


@pytest.mark.statistical
def test_the_greatest_of_numbers_that_were_measured_by_themselves_is_in_its_bar() -> None:
    """Of 60 questions with one true count, each measured, the one with the largest noise is looked at."""
    state, plan = asked_one_by_one()
    query, true = LinearQuery.cells(TRIPS, {"hour": (0, 5), "city": (0, 4)}), 30 * EACH
    bars, of, bits = Bars(state, groups=60), ModelAnswers(state), BitSource.from_integer(3)
    missed = np.zeros(2)
    for _ in range(100):
        greatest = true * UNITS + int(plan.noise.sample_array(bits, 60).max())
        own = of.measured(query, greatest, plan.noise)
        for place, answer in enumerate((own, chosen_answer(bars, query, own))):
            missed[place] += not ends(answer)[0] <= true <= ends(answer)[1]
    assert missed[0] > 60
    assert missed[1] <= 8


@pytest.mark.parametrize("source", [Source.MEASURED, Source.SYNTHETIC])
@pytest.mark.parametrize("tested", [1500.0, 700.0, 90.0, 0.0])
def test_the_number_that_was_tested_is_found_in_the_bar_that_it_gave(source: Source, tested: float) -> None:
    """Also where the question's parts cut one end of that off: the other one tells where the number was."""
    state, plan = asked_one_by_one()
    query, of = LinearQuery.cells(TRIPS, {"hour": (0, 5), "city": (0, 4)}), ModelAnswers(state)
    bars, surely = Bars(state, groups=60), 1 - 0.9 * 0.05 * 17 / 18 / 60
    if source is Source.MEASURED:
        own, width = of.measured(query, round(tested * UNITS), plan.noise), half_width(plan.noise, surely)
    else:
        (own,) = of.certified(QuestionList([query]), np.array([round(tested * UNITS)]), plan)
        width = certified_half_width(plan, plan.threshold, surely)
    found, parts = chosen_answer(bars, query, own), bars.of_parts(query)
    expected = max(0.0, parts[0], tested - width), min(parts[1], tested + width)
    assert own.source is found.source is source
    assert ends(found)[0] <= expected[0] + 1e-6
    assert ends(found)[1] >= expected[1] - 1e-6
    if tested == 1500:
        assert ends(found) == pytest.approx(expected)


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
    for one in sessions[:8]:
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


def test_a_table_says_out_of_how_many_rows_answers_choose(trips: pmw.Session) -> None:
    """And no typical error of them: that is of questions that were not chosen by their answers."""
    for found in trips.sql(f"{BY_BOTH} HAVING COUNT(*) > 40").column("n"):
        assert found.typical is None
    told = {
        tail: [note for note in trips.sql(f"{BY_BOTH} {tail}").notes if "answers choose" in note]
        for tail in (
            "ORDER BY n DESC LIMIT 3", "HAVING COUNT(*) > 50", "ORDER BY n", "LIMIT 3", "HAVING hour < 3"
        )
    }  # fmt: skip
    (limit,), (having,), *others = told.values()
    assert limit == having
    assert "from 120 groups" in limit
    assert "hold whichever rows are chosen" in limit
    assert others == [[], [], []]


def test_rows_that_keys_choose_have_the_bars_of_fixed_questions(trips: pmw.Session) -> None:
    rows = dict(trips.sql(BY_BOTH).rows)
    by_hour = "QUALIFY RANK() OVER (ORDER BY hour) < 3"
    for tail in ("LIMIT 5", "ORDER BY hour, city LIMIT 5", "HAVING hour < 3", by_hour):
        found = trips.sql(f"{BY_BOTH} {tail}").rows
        assert 1 < len(found) < 120
        assert all(rows[keys] == estimates for keys, estimates in found)


def test_a_contract_is_about_questions_and_a_chosen_row_has_a_bar_of_its_own() -> None:
    """Else nothing would be left of a table whose noise is just enough."""
    options = pmw.Options(seed=1, opening=pmw.Opening.ONE_WAY, accuracy=0.1, records=6000)
    with pmw.open_session(alike(), TRIPS, epsilon=2, delta=1e-9, options=options) as one:
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
    domain = Domain((CategoricalAttribute("city", tuple("abcdefghijkl")), pay, *TRIPS.attributes[2:]), "t")
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
