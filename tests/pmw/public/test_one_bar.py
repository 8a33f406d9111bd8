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
        IntegerAttribute("age", 18, 30),
        IntegerAttribute("wide", 0, 29, 10, missing=True),
        NumericAttribute("x", (0, 5, 10, 20), integer=True),
        NumericAttribute("pay", (0.0, 10.0, 25.0, 100.0), missing=True),
        DateAttribute("d", datetime.date(2023, 1, 1), datetime.date(2023, 6, 30), "month"),
        CategoricalAttribute("g", ("a", "b", "c"), other=True),
    ),
    name="t",
)
CONDITIONS = [  # those of the first line cut no cell
    "x < 10", "g = 'a' AND age > 20", "wide IS NULL",
    "x <= 7", "x = 7", "x <> 7", "x BETWEEN 3 AND 12", "NOT x > 7",
    "wide > 13", "wide <> 13", "pay < 17.5", "pay = 17.5", "d <= '2023-02-14'", "MONTH(d) = 2 AND d > '2023-02-10'",
    "x <= 7 AND pay > 3", "x <= 7 OR wide < 5", "g LIKE 'z%'", "x <= 7 AND g = 'b' AND age < 25",
    "x > wide", "x + 1 <= 8",
]  # fmt: skip
WHERE_FORMS = [
    "WHERE {c}", "WHERE ({c})", "WHERE NOT (NOT ({c}))", "WHERE ({c}) AND TRUE", "WHERE ({c}) OR FALSE",
    "WHERE ({c}) IS TRUE", "WHERE NOT (({c}) IS NOT TRUE)", "WHERE ({c}) = TRUE", "WHERE TRUE = ({c})",
    "WHERE ({c}) <> FALSE", "WHERE ({c}) IS NOT DISTINCT FROM TRUE",
    "WHERE COALESCE(({c}), FALSE)", "WHERE COALESCE(({c}), NULL, FALSE)",
    "WHERE CASE WHEN {c} THEN TRUE ELSE FALSE END", "WHERE CASE WHEN {c} THEN TRUE END",
    "WHERE CASE WHEN {c} THEN 1 ELSE 0 END", "WHERE IF({c}, TRUE, FALSE)",
]  # fmt: skip
CASES = ["CASE WHEN {c} THEN {v} END", "CASE WHEN {c} THEN {v} ELSE NULL END", "IF({c}, {v}, NULL)",
         "IF(({c}) IS TRUE, {v})", "CASE ({c}) WHEN TRUE THEN {v} END",
         "CASE WHEN {c} THEN CASE WHEN TRUE THEN {v} END END"]  # fmt: skip
COUNT_FORMS = [
    "COUNT(*) FILTER (WHERE {c})", "COUNT(1) FILTER (WHERE {c})", "COUNT_IF({c})", "SUM(1) FILTER (WHERE {c})",
    "SUM(CASE WHEN {c} THEN 1 ELSE 0 END)", "SUM(IF({c}, 1, 0))", "SUM({c})", "SUM(CAST(({c}) AS INTEGER))",
    "COUNT(CASE WHEN {c} THEN 'yes' END)",
    *(form for case in CASES for form in (f"COUNT({case.replace('{v}', '1')})", f"SUM({case.replace('{v}', '1')})")),
]  # fmt: skip
SUM_FORMS = ["SUM(age) FILTER (WHERE {c})", "SUM(CASE WHEN {c} THEN age ELSE 0 END)", "SUM(IF({c}, age, 0))",
             *(f"SUM({case.replace('{v}', 'age')})" for case in CASES)]  # fmt: skip
MEAN_FORMS = [
    "AVG(age) FILTER (WHERE {c})",
    "SUM(age) FILTER (WHERE {c}) / COUNT(*) FILTER (WHERE {c})",
    "SUM(CASE WHEN {c} THEN age END) * 1.0 / COUNT(CASE WHEN {c} THEN 1 END)",
    "SUM(CASE WHEN {c} THEN age ELSE 0 END) / SUM(CASE WHEN {c} THEN 1 ELSE 0 END)",
    *(f"AVG({case.replace('{v}', 'age')})" for case in CASES),
]  # fmt: skip
OTHERS = ["MEDIAN", "MIN", "MAX", "STDDEV", "VAR_POP"]


@pytest.fixture(scope="module", params=["pairs", "tested"])
def session(request: pytest.FixtureRequest) -> Iterator[pmw.Session]:
    generator, rows = np.random.default_rng(7), 3000
    days = generator.integers(0, 181, rows)
    frame = pd.DataFrame(
        {
            "age": generator.integers(18, 31, rows),
            "wide": pd.array(generator.integers(0, 30, rows), dtype="Int64"),
            "x": generator.integers(0, 21, rows),
            "pay": np.where(generator.random(rows) < 0.1, np.nan, generator.uniform(0, 100, rows)),
            "d": [datetime.date(2023, 1, 1) + datetime.timedelta(int(day)) for day in days],
            "g": generator.choice(["a", "b", "c", "q"], rows),
        }
    )
    frame.loc[generator.random(rows) < 0.1, "wide"] = pd.NA
    opening = pmw.Opening.PAIRS if request.param == "pairs" else pmw.Opening.ONE_WAY
    options = pmw.Options(seed=3, opening=opening)
    with pmw.open_session(frame, DOMAIN, epsilon=20, delta=1e-9, options=options) as opened:
        yield opened


def numbers(session: pmw.Session, statement: str) -> list[object]:
    """Return what a statement comes to, group by group: the value, the bar and what has to be known of both."""
    found = []
    for row in session.sql(statement).rows:
        (one,) = row[1]
        found.append([row[0], one.value, one.interval, one.conditional, one.aligned])
    return found


def near(one: list[object], other: list[object]) -> bool:
    return repr(one) == repr(other)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_has_one_value_and_one_bar_in_every_form(session: pmw.Session, condition: str) -> None:
    asked = {
        "COUNT(*)": COUNT_FORMS, "SUM(age)": SUM_FORMS, "AVG(age)": MEAN_FORMS,
        **{f"{name}(age)": [f"{name}(age) FILTER (WHERE {{c}})", *(f"{name}({case.replace('{v}', 'age')})" for case in CASES)] for name in OTHERS},
    }
    bad = []
    for what, forms in asked.items():
        statements = [f"SELECT {what} AS v FROM t {where}" for where in WHERE_FORMS]
        statements += [f"SELECT {form} AS v FROM t" for form in forms]
        session.sql(statements[0].replace("{c}", condition))
        right = numbers(session, statements[0].replace("{c}", condition))
        for one in statements[1:]:
            found = numbers(session, one.replace("{c}", condition))
            if not near(found, right):
                bad.append((one.replace("{c}", condition), found, right))
    assert not bad, "\n".join(map(str, bad))
