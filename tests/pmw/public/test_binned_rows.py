"""Binned rows: a table says where nothing but the spread of all records tells its rows apart."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.public.tables import AnswerTable
from queries import CategoricalAttribute, DateAttribute, Domain, IntegerAttribute
from tests.worlds import ends

FIRST, DAYS = datetime.date(2025, 1, 1), 365
DOMAIN = Domain(
    (
        DateAttribute("day", FIRST, FIRST + datetime.timedelta(DAYS - 1)),
        CategoricalAttribute("size", ("small", "large")),
        IntegerAttribute("hour", 9, 16),
        IntegerAttribute("till", 0, 19),
        CategoricalAttribute("kind", tuple("abcd")),
    ),
    name="orders",
)
FEW = Domain(DOMAIN.attributes[:3], name="orders")
WEEKDAYS = "SELECT DAYOFWEEK(day) AS weekday, COUNT(*) AS n FROM orders {} GROUP BY 1"


def orders() -> pd.DataFrame:
    """Records of which Fridays have twice as many as other days, and large ones none on Fridays."""
    generator = np.random.default_rng(4)
    days = [FIRST + datetime.timedelta(number) for number in range(DAYS)]
    friday = np.array([day.weekday() == 4 for day in days])
    weights = np.where(friday, 2.0, 1.0)
    chosen = generator.choice(DAYS, 30_000, p=weights / weights.sum())
    size = np.where(~friday[chosen] & (generator.random(30_000) < 0.5), "large", "small")
    text = np.array([day.isoformat() for day in days])
    more = {"till": generator.integers(0, 20, 30_000), "kind": generator.choice(list("abcd"), 30_000)}
    return pd.DataFrame(
        {"day": text[chosen], "size": size, "hour": generator.integers(9, 17, 30_000), **more}
    )


@pytest.fixture(scope="module")
def session() -> Iterator[pmw.Session]:
    with pmw.open_session(orders(), DOMAIN, epsilon=2, delta=1e-9, options=pmw.Options(seed=2)) as one:
        yield one


def of_bins(table: AnswerTable) -> list[str]:
    return [note for note in table.notes if "bins" in note]


@pytest.mark.parametrize(
    "statement",
    [
        WEEKDAYS.format("WHERE size = 'large'"),
        "SELECT size, DAYOFWEEK(day) AS weekday, COUNT(*) AS n FROM orders GROUP BY 1, 2",
        "SELECT DAYNAME(day), AVG(hour) FROM orders GROUP BY 1",
        "SELECT day, COUNT(*) FROM orders WHERE hour < 12 GROUP BY day ORDER BY 2 DESC LIMIT 5",
        "SELECT MONTH(day), COUNT(*) FROM orders WHERE size = 'large' GROUP BY 1",
        "SELECT size, YEAR(day), COUNT(*) FROM orders GROUP BY ROLLUP (1, 2) HAVING COUNT(*) > 5",
    ],
)
def test_rows_that_share_bins_are_told_apart_by_how_all_records_are_spread(
    session: pmw.Session, statement: str
) -> None:
    notes, bins = of_bins(session.sql(statement)), session.state.coarsening.bins[0]
    assert bins is not None
    if "YEAR" in statement:  # all days are of one year
        assert notes == []
        return
    assert notes == [
        f"of day these rows are known by {bins.max() + 1} bins of 365 values: those that share bins are told "
        "apart by how all records are spread inside them, not by their own"
    ]


@pytest.mark.parametrize(
    "statement",
    [
        WEEKDAYS.format(""),
        WEEKDAYS.format("WHERE day < '2025-03-07'"),
        "SELECT size, COUNT(*) FROM orders WHERE day < '2025-03-07' GROUP BY size",
        "SELECT hour, AVG(hour), COUNT(*) FROM orders GROUP BY hour",
    ],
)
def test_rows_that_share_no_bins_or_are_known_by_the_days_have_no_such_note(
    session: pmw.Session, statement: str
) -> None:
    assert of_bins(session.sql(statement)) == []


def test_days_of_the_week_of_all_records_are_counted_by_the_days(session: pmw.Session) -> None:
    """Opening measured the days, so the bars are those of their noise; and the greatest is the greatest."""
    days = [datetime.date.fromisoformat(day).isoweekday() % 7 for day in orders()["day"]]
    true = dict(enumerate(np.bincount(days).tolist()))
    table = session.sql(f"{WEEKDAYS.format('')} ORDER BY n DESC")
    for (weekday,), (found,) in table.rows:
        low, high = ends(found)
        assert isinstance(weekday, int)
        assert low <= true[weekday] <= high
        assert high - low < 0.25 * true[weekday]
    assert table.column("weekday")[0] == 5


def test_a_table_that_was_measured_whole_needs_no_note() -> None:
    frame = orders()[list(FEW.names)]
    with pmw.open_session(frame, FEW, epsilon=20, delta=1e-9, options=pmw.Options(seed=1)) as one:
        assert of_bins(one.sql(WEEKDAYS.format("WHERE size = 'large'"))) == []
