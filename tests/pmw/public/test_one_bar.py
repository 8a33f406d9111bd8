"""One condition has one value and one bar, in whatever form a statement asks it."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

import pmw
from queries import CategoricalAttribute, DateAttribute, Domain, IntegerAttribute, NumericAttribute

DOMAIN = Domain(
    (
        IntegerAttribute("age", 18, 30, resolution=1),
        IntegerAttribute("wide", 0, 29, 10, missing=True),
        NumericAttribute("x", (0, 5, 10, 20), integer=True),
        NumericAttribute("pay", (0.0, 10.0, 25.0, 100.0), missing=True),
        DateAttribute("d", datetime.date(2023, 1, 1), datetime.date(2023, 6, 30), "month"),
        CategoricalAttribute("g", ("a", "b", "c"), other=True),
    ),
    name="t",
)
CONDITIONS = [  # those of the first line cut no cell
    "x < 10", "g = 'a'", "wide IS NULL",
    "x <= 7", "x = 7", "wide <> 13", "pay < 17.5", "d <= '2023-02-14'", "g LIKE 'z%'", "x > wide", "x + 1 <= 8",  # noqa: E501
    "x <= 7 AND pay > 3", "x <= 7 OR wide < 5", "x <= 7 AND g = 'b' AND age < 25",
]  # fmt: skip
EVERY_FORM = ("x < 10", "x <= 7", "x <= 7 AND pay > 3")  # of the others each form has a third
WHERE = [
    "{c}", "({c})", "NOT (NOT ({c}))", "({c}) AND TRUE", "({c}) OR FALSE", "({c}) IS TRUE",
    "NOT (({c}) IS NOT TRUE)", "({c}) = TRUE", "TRUE = ({c})", "({c}) <> FALSE", "({c}) IS NOT DISTINCT FROM TRUE",  # noqa: E501
    "COALESCE(({c}), FALSE)", "COALESCE(({c}), NULL, FALSE)", "CASE WHEN {c} THEN TRUE ELSE FALSE END",
    "CASE WHEN {c} THEN TRUE END", "CASE WHEN {c} THEN 1 ELSE 0 END", "IF({c}, TRUE, FALSE)",
]  # fmt: skip
CASES = [
    "CASE WHEN {c} THEN {v} END", "CASE WHEN {c} THEN {v} ELSE NULL END", "IF({c}, {v}, NULL)",
    "IF(({c}) IS TRUE, {v})", "CASE ({c}) WHEN TRUE THEN {v} END",
    "CASE WHEN {c} THEN CASE WHEN TRUE THEN {v} END END",
]  # fmt: skip
FORMS = {
    "COUNT(*)": [
        *(f"COUNT(*) AS v FROM t WHERE {where}" for where in WHERE),
        "COUNT(*) AS v FROM (SELECT * FROM t WHERE {c})", "COUNT(*) FILTER (WHERE {c}) AS v FROM t",
        "COUNT(1) FILTER (WHERE {c}) AS v FROM t", "COUNT_IF({c}) AS v FROM t",
        "SUM(1) FILTER (WHERE {c}) AS v FROM t", "SUM({c}) AS v FROM t",
        "SUM(CASE WHEN {c} THEN 1 ELSE 0 END) AS v FROM t", "SUM(IF({c}, 1, 0)) AS v FROM t",
        "SUM(CAST(({c}) AS INTEGER)) AS v FROM t", "COUNT(CASE WHEN {c} THEN 'yes' END) AS v FROM t",
        *(f"COUNT({case}) AS v FROM t".replace("{v}", "1") for case in CASES),
        *(f"SUM({case}) AS v FROM t".replace("{v}", "1") for case in CASES),
    ],
    "SUM(age)": [
        *(f"SUM(age) AS v FROM t WHERE {where}" for where in WHERE[11:]),
        "SUM(age) FILTER (WHERE {c}) AS v FROM t", "SUM(CASE WHEN {c} THEN age ELSE 0 END) AS v FROM t",
        *(f"SUM({case}) AS v FROM t".replace("{v}", "age") for case in CASES),
    ],
    "AVG(age)": [
        *(f"AVG(age) AS v FROM t WHERE {where}" for where in WHERE[11:]),
        "AVG(age) FILTER (WHERE {c}) AS v FROM t",
        "SUM(age) FILTER (WHERE {c}) / COUNT(*) FILTER (WHERE {c}) AS v FROM t",
        "SUM(CASE WHEN {c} THEN age END) * 1.0 / COUNT(CASE WHEN {c} THEN 1 END) AS v FROM t",
        "SUM(CASE WHEN {c} THEN age ELSE 0 END) / SUM(CASE WHEN {c} THEN 1 ELSE 0 END) AS v FROM t",
        *(f"AVG({case}) AS v FROM t".replace("{v}", "age") for case in CASES),
    ],
    **{
        f"{name}(age)": [f"{name}(age) FILTER (WHERE {{c}}) AS v FROM t",
                         f"{name}(CASE WHEN {{c}} THEN age END) AS v FROM t"]
        for name in ("MEDIAN", "MIN", "MAX", "STDDEV", "VAR_POP")
    },
}  # fmt: skip


@pytest.fixture(scope="module", params=["all pairs", "tests"])
def session(request: pytest.FixtureRequest) -> Iterator[pmw.Session]:
    generator, rows = np.random.default_rng(7), 3000
    days = generator.integers(0, 181, rows)
    wide = pd.Series(generator.integers(0, 30, rows), dtype="Int64")
    frame = pd.DataFrame(
        {
            "age": generator.integers(18, 31, rows),
            "wide": wide.mask(generator.random(rows) < 0.1),
            "x": generator.integers(0, 21, rows),
            "pay": np.where(generator.random(rows) < 0.1, np.nan, generator.uniform(0, 100, rows)),
            "d": [datetime.date(2023, 1, 1) + datetime.timedelta(int(day)) for day in days],
            "g": generator.choice(["a", "b", "c", "q"], rows),
        }
    )
    opening = pmw.Opening.PAIRS if request.param == "all pairs" else pmw.Opening.ONE_WAY
    options = pmw.Options(seed=3, opening=opening)
    with pmw.open_session(frame, DOMAIN, epsilon=20, delta=1e-9, options=options) as opened:
        yield opened


def told(session: pmw.Session, statement: str) -> tuple[object, ...]:
    """Return the value, the bar and what has to be known of both."""
    ((_, (one,)),) = session.sql(f"SELECT {statement}").rows
    value = None if one.value is None else pytest.approx(one.value, rel=1e-6)  # a weight is rounded to a grid
    return value, one.interval, one.conditional, one.aligned


@pytest.mark.parametrize("what", FORMS)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_has_one_value_and_one_bar_in_every_form(
    session: pmw.Session, condition: str, what: str
) -> None:
    tested = session.state.contract.options.opening is pmw.Opening.ONE_WAY
    if tested and (what not in ("COUNT(*)", "AVG(age)") or condition not in ("x <= 7", "x <= 7 AND pay > 3")):
        return
    plain = f"{what} AS v FROM t WHERE {condition}"
    told(session, plain)  # which may measure what it asks
    right = told(session, plain)
    place = CONDITIONS.index(condition)
    for number, form in enumerate(FORMS[what]):
        if condition in EVERY_FORM or number % 3 == place % 3:
            assert told(session, form.replace("{c}", condition)) == right, form


def test_what_groups_compare_by_filter_has_the_bars_of_where(session: pmw.Session) -> None:
    filtered = "SELECT g, AVG(age) FILTER (WHERE {c}) AS v FROM t GROUP BY g".replace("{c}", CONDITIONS[3])
    where = f"SELECT g, AVG(age) AS v FROM t WHERE {CONDITIONS[3]} GROUP BY g"
    for statement in (filtered, where):
        session.sql(statement)
    for one, other in zip(session.sql(filtered).rows, session.sql(where).rows, strict=True):
        assert one[0] == other[0]
        assert one[1][0].value == pytest.approx(other[1][0].value, rel=1e-6)
        assert one[1][0].interval == other[1][0].interval


def test_a_mean_of_filtered_records_keeps_to_their_declared_ends(session: pmw.Session) -> None:
    for condition in [
        one for one in CONDITIONS if "LIKE" not in one
    ]:  # of undeclared texts it has no records
        (cell,) = session.sql(f"SELECT AVG(age) FILTER (WHERE {condition}) AS v FROM t").column("v")
        assert 18 <= cell.interval[0] <= cell.value <= cell.interval[1] <= 30
