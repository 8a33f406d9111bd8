"""Windows: what DuckDB makes of the answers, with ranks and sums that hold what the bars allow."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pmw
from pmw.public.windows import positions
from queries import CategoricalAttribute, Domain, IntegerAttribute
from tests.worlds import ends as bar_of
from tests.worlds import known

DOMAIN = Domain(
    (
        CategoricalAttribute("city", ("a", "b", "c", "d", "e")),
        CategoricalAttribute("sex", ("f", "m")),
        IntegerAttribute("age", 0, 9),
    ),
    name="people",
)
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


def test_a_frame_in_the_order_of_answers_holds_what_may_stand_before_a_row() -> None:
    """Two groups whose bars overlap: either may be the first."""
    generator = np.random.default_rng(3)
    frame = pd.DataFrame({"city": "a", "sex": generator.choice(["f", "m"], 2000), "age": 0})
    with pmw.open_session(frame, DOMAIN, epsilon=0.5, delta=1e-9, options=pmw.Options(seed=4)) as one:
        over = "SUM(COUNT(*)) OVER (ORDER BY COUNT(*) DESC)"
        table = one.sql(f"SELECT sex, COUNT(*) AS n, {over} AS v FROM people GROUP BY sex ORDER BY n DESC")
    own, sums = table.column("n"), table.column("v")
    assert own[0].interval[0] < own[1].interval[1]
    assert sums[0].interval[0] <= own[0].interval[0]
    assert sums[0].interval[1] >= own[0].interval[1] + own[1].interval[1] - 2


def test_the_rows_of_a_window_hold_together(session: pmw.Session) -> None:
    """So the greatest of them has an end that is wider than each row's own."""
    over = "MAX(COUNT(*)) OVER ()"
    table = session.sql(f"SELECT city, sex, COUNT(*) AS n, {over} AS v FROM people GROUP BY 1, 2")
    own, (greatest, *_) = table.column("n"), table.column("v")
    assert greatest.interval[1] > max(one.interval[1] for one in own) + 2


def test_bars_of_windows_hold_the_truth() -> None:
    held, bars = 0, 0
    for seed in range(2, 5):
        frame = people(seed, 2000)
        with pmw.open_session(frame, DOMAIN, epsilon=0.5, delta=1e-9, options=pmw.Options(seed=seed)) as one:
            for over in OVER:
                text = f"SELECT city, sex, COUNT(*) AS n, {over} AS v FROM people GROUP BY 1, 2 ORDER BY 1, 2"
                found, true = one.sql(text).to_pandas(), by_duckdb(frame, text)
                if "v_low" not in found:
                    continue
                expected, promised = true["v"].astype(float), found["v_low"].notna()
                inside = (found["v_low"] - 1e-6 <= expected) & (expected <= found["v_high"] + 1e-6)
                held += int(inside[promised & expected.notna()].sum())
                bars += int((promised & expected.notna()).sum())
    assert bars > 300
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
        assert bar_of(one)[1] - bar_of(one)[0] <= 1.01 * (bar_of(total)[1] - bar_of(total)[0]) + 1


def test_a_rank_has_the_range_that_the_bars_allow(session: pmw.Session) -> None:
    text = "SELECT city, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM people GROUP BY city"
    table = session.sql(text)
    ranks = [one.interval for one in table.column("r")]
    assert any(ends is not None and ends[0] < ends[1] for ends in ranks) or all(
        ends == (place, place) for place, ends in enumerate(ranks, 1)
    )
    for place, one in enumerate(table.column("n")):
        others = [other for other in table.column("n") if other is not one]
        surely = sum(other.interval is not None and other.interval[0] > bar_of(one)[1] for other in others)
        ends = known(ranks[place])
        assert ends[0] <= 1 + surely  # bars that hold together are no narrower


def test_windows_are_over_what_having_keeps_and_qualify_is_after_them(session: pmw.Session) -> None:
    some = "SELECT city, COUNT(*) AS n, SUM(COUNT(*)) OVER () AS t FROM people GROUP BY city"
    kept = session.sql(f"{some} HAVING COUNT(*) > 600 ORDER BY city").to_pandas()
    assert 1 < len(kept) < 5
    np.testing.assert_allclose(kept["t"], kept["n"].sum())
    first = session.sql(f"{some} QUALIFY RANK() OVER (ORDER BY COUNT(*) DESC) <= 2").to_pandas()
    every = session.sql(some).to_pandas()
    assert sorted(first["n"]) == sorted(every["n"])[-2:]
    np.testing.assert_allclose(first["t"], every["n"].sum())


def test_windows_cost_nothing_beyond_the_counts(session: pmw.Session) -> None:
    session.sql("SELECT city, sex, COUNT(*) FROM people GROUP BY city, sex")
    spent = session.state.ledger.share
    for over in OVER:
        session.sql(f"SELECT city, sex, COUNT(*), {over} AS v FROM people GROUP BY city, sex")
    assert session.state.ledger.share == spent


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
    ],
)
def test_nothing_is_promised_of_a_row_whose_place_is_open(even: pmw.Session, over: str) -> None:
    """Another row may be the first, the last, or the one before; before the first there is none."""
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


def test_a_grouping_set_that_stands_twice_counts_twice(session: pmw.Session) -> None:
    sets = "GROUPING SETS ((sex), (sex))"
    text = f"SELECT sex, SUM(COUNT(*)) OVER () AS v FROM people GROUP BY {sets}"
    for one in session.sql(text).column("v"):
        assert one.interval[0] > 1.5 * len(people(1))


@pytest.mark.parametrize("factor", ["", "1.0 / 400 * "])
def test_sums_over_rows_that_having_chooses_hold_as_often_as_others(factor: str) -> None:
    """All cities are alike: those above their mean are those whose noise is above 0."""
    held = 0
    for seed in range(20):
        options = pmw.Options(seed=seed)
        with pmw.open_session(even_people(), DOMAIN, epsilon=0.3, delta=1e-9, options=options) as one:
            over = f"{factor}SUM(COUNT(*)) OVER ()"
            table = one.sql(f"SELECT city, {over} AS v FROM people GROUP BY city HAVING COUNT(*) > 400")
        true = len(table) * (400 if not factor else 1)
        held += all(found.interval[0] <= true <= found.interval[1] for found in table.column("v"))
    assert held == 20


def test_what_a_window_reads_shares_what_may_fail_with_its_order() -> None:
    """The last row's sum is that of all rows; where answers decide which one is last, its bar is wider."""
    text = "SELECT SUM(SUM(age)) OVER (ORDER BY {}) AS v FROM people GROUP BY city ORDER BY 1 DESC LIMIT 1"
    with pmw.open_session(people(1), DOMAIN, epsilon=20, delta=1e-9, options=pmw.Options(seed=1)) as one:
        widths = []
        for order in ("city", "COUNT(*)"):
            low, high = one.sql(text.format(order)).column("v")[0].interval
            widths.append(high - low)
    assert 1.05 * widths[0] < widths[1] < 1.3 * widths[0]


def test_a_share_of_a_sum_that_may_be_zero_is_told_without_a_promise() -> None:
    """The ages of each city sum to about 0 beside the middle one."""
    frame = even_people()
    with pmw.open_session(frame, DOMAIN, epsilon=0.3, delta=1e-9, options=pmw.Options(seed=2)) as one:
        own = "SUM(age - 4.5)"
        table = one.sql(f"SELECT city, {own} / SUM({own}) OVER () AS v FROM people GROUP BY city")
    assert all(found.value is not None and not found.is_promised for found in table.column("v"))


def test_a_share_of_totals_lies_between_those_of_its_parts(session: pmw.Session) -> None:
    """Totals overlap their groups, so the sum is no count of records: both ends are divided."""
    over = "1.0 * COUNT(*) / SUM(COUNT(*)) OVER ()"
    text = f"SELECT sex, {over} AS v FROM people GROUP BY ROLLUP(sex) ORDER BY sex"
    found, true = session.sql(text).column("v"), by_duckdb(people(1), text)["v"]
    for estimate, value in zip(found, true, strict=True):
        assert estimate.is_promised
        assert estimate.interval[0] <= value <= estimate.interval[1]


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


def test_a_second_column_decides_where_the_first_is_exact() -> None:
    first, second = np.array([[1.0, 1], [1, 1], [0, 0]]), np.array([[5.0, 7], [8, 9], [0, 99]])
    assert [one.tolist() for one in positions([first, second]).ahead] == [[1, 2, 0], [1, 2, 0]]


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


def test_places_that_the_bars_decide_have_no_note() -> None:
    with pmw.open_session(people(1), DOMAIN, epsilon=1000, delta=1e-9, options=pmw.Options(seed=1)) as one:
        one.group_by("city")
        table = one.sql("SELECT city, COUNT(*) AS n FROM people GROUP BY city ORDER BY n DESC LIMIT 3")
        assert not [note for note in table.notes if "not certain" in note]
