"""Aggregates: exact where noise is negligible, and bars that hold the true number as often as they say."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pmw
from pmw.privacy.noise import DiscreteGaussian, DiscreteLaplace
from pmw.public import aggregates
from pmw.public.sums import Estimate
from pmw.public.value_sums import JointSums
from queries import CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute, QueryError
from queries.factors import UNITS
from tests import worlds
from tests.worlds import ends

DOMAIN = Domain(
    (
        IntegerAttribute("age", 0, 39),
        CategoricalAttribute("sex", ("f", "m")),
        CategoricalAttribute("grade", tuple("abcde")),
        NumericAttribute("pay", (0.0, 10.0, 25.0, 50.0, 100.0), missing=True),
        CategoricalAttribute("region", tuple("nesw")),
    ),
    name="people",
)


def people(seed: int, rows: int = 6000) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    sex = generator.choice(["f", "m"], rows, p=[0.4, 0.6])
    age = np.clip(generator.normal(np.where(sex == "f", 15, 22), 7, rows), 0, 39).astype(int)
    grade = np.array(list("abcde"))[np.minimum(4, (age + generator.integers(0, 12, rows)) // 10)]
    pay = np.clip(generator.exponential(age + 3.0), 0, 100)
    pay[generator.random(rows) < 0.05] = np.nan
    region = generator.choice(list("nesw"), rows)
    return pd.DataFrame({"age": age, "sex": sex, "grade": grade, "pay": pay, "region": region})


def opened(seed: int, frame: pd.DataFrame, epsilon: float = 2, **choices: Any) -> pmw.Session:
    return worlds.opened(frame, DOMAIN, epsilon=epsilon, seed=seed, **choices)


def truth(frame: pd.DataFrame, statement: str) -> pd.DataFrame:
    with duckdb.connect() as connection:
        connection.execute("SET integer_division = true")
        connection.register("people", frame)
        return connection.execute(statement).df()


STATEMENTS = [
    "SELECT SUM(age) AS v FROM people WHERE grade <> 'c'",
    "SELECT AVG(age) AS v FROM people",
    "SELECT sex, AVG(age) AS v FROM people GROUP BY sex ORDER BY sex",
    "SELECT sex, SUM(age) AS v FROM people WHERE grade IN ('a', 'b') GROUP BY sex ORDER BY sex",
    "SELECT sex, AVG(pay) AS v FROM people GROUP BY sex ORDER BY sex",
    "SELECT sex, MEDIAN(age) AS v FROM people GROUP BY sex ORDER BY sex",
    "SELECT sex, PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY age) AS v FROM people GROUP BY sex ORDER BY sex",  # noqa: E501
    "SELECT MEDIAN(pay) AS v FROM people",
    "SELECT sex, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS v FROM people GROUP BY sex ORDER BY sex",
    "SELECT sex, AVG(CASE WHEN grade = 'a' THEN 1.0 ELSE 0 END) AS v FROM people GROUP BY sex ORDER BY sex",
    "SELECT SUM(CASE WHEN sex = 'm' THEN 1.0 ELSE 0 END) / COUNT(*) AS v FROM people WHERE age > 20",
    "SELECT STDDEV(age) AS v FROM people",
    "SELECT sex, VAR_POP(age) AS v FROM people GROUP BY sex ORDER BY sex",
    "SELECT STDDEV(pay) AS v FROM people",
    "SELECT MIN(age) AS v FROM people",
    "SELECT MAX(age) AS v FROM people",
    "SELECT AVG(age) - 2 * AVG(age + 1) AS v FROM people",
    "SELECT sex, COUNT(pay) AS v FROM people GROUP BY sex ORDER BY sex",
    "SELECT AVG(pay) AS v FROM people WHERE pay > 17",
    "SELECT MEDIAN(pay) FILTER (WHERE pay > 17) AS v FROM people",
    "SELECT STDDEV(age) FILTER (WHERE pay > 17 AND sex = 'f') AS v FROM people",
    "SELECT MAX(age) FILTER (WHERE grade = 'a') AS v FROM people",
    "SELECT CORR(age, CASE WHEN sex = 'm' THEN 1 ELSE 0 END) AS v FROM people",
    "SELECT CORR(age, pay) AS v FROM people",
]


@pytest.fixture(scope="module")
def exact() -> Iterator[tuple[pmw.Session, pd.DataFrame]]:
    """A session whose noise is negligible."""
    frame = people(1)
    with opened(1, frame, epsilon=1000) as session:
        session.group_by(["age", "sex"])
        yield session, frame


@pytest.mark.parametrize(
    ("seed", "choices"), [(2, {"simultaneous": True}), (3, {"opening": pmw.Opening.NONE})]
)
def test_bars_hold_the_truth(seed: int, choices: dict[str, Any]) -> None:
    frame, held, bars = people(seed, 3000), 0, 0
    with opened(seed, frame, **choices) as session:
        for statement in STATEMENTS[:: 2 if choices.get("simultaneous") else 1]:
            found, true = session.sql(statement).to_pandas(), truth(frame, statement)
            for place in range(len(true)):
                low, high = float(found["v_low"][place]), float(found["v_high"][place])
                bars += not math.isnan(low)
                held += low - 1e-6 <= float(true["v"][place]) <= high + 1e-6
    assert bars > 14
    assert held >= 0.9 * bars  # 95 % expected; bars of one session rest on the same noise


def test_what_may_be_empty_has_a_value_whose_interval_holds_if_it_is_not() -> None:
    frame = people(4, 500)
    frame = frame[frame["grade"] != "e"]
    with opened(4, frame) as session:
        table = session.sql("SELECT AVG(age) AS v, MIN(age) AS m FROM people WHERE grade = 'e'")
        (row,) = table.to_dict()["rows"]
        for cell in row.values():
            assert 0 <= cell["low"] <= cell["value"] <= cell["high"] <= 39
            assert (cell["source"], cell["conditional"]) == ("unverified", True)
        assert not table.is_promised
        price = session.measure(["age", "grade"], dry_run=True).share
        assert any(
            note.endswith(f"session.measure(['age', 'grade']) costs {price:.1%} of the budget")
            for note in table.notes
        )
        assert "conditional" not in session.sql("SELECT AVG(age) AS v FROM people").to_dict()["rows"][0]["v"]
        ratio = "SELECT COUNT(*) / SUM(CASE WHEN grade = 'e' THEN 1 ELSE 0 END) AS v FROM people"
        (cell,) = session.sql(ratio).column("v")
        assert cell.interval is None  # there is no greatest quotient
        assert session.sql(ratio + " HAVING COUNT(*) < 0").to_text().startswith("no rows")
        assert session.sql("SELECT sex, AVG(age) FROM people GROUP BY sex LIMIT 0").rows == ()
        (cell,) = session.sql("SELECT COALESCE(AVG(age), -7) AS v FROM people WHERE grade = 'e'").column("v")
        assert ends(cell)[0] == -7 < ends(cell)[1]
        assert cell.source.value == "unverified"
        nothing = session.sql("SELECT NULLIF(COUNT(*), 0) AS v FROM people WHERE grade = 'e'")
        assert nothing.column("v")[0].conditional
        assert not nothing.is_promised
        # What no record can be stays empty, and says why; to measure more would not help.
        table = session.sql(
            "SELECT AVG(age) AS v, CORR(age, pay) AS c FROM people WHERE grade IN ('a') AND grade IN ('b')"
        )
        for one in table.rows[0][1]:
            assert (one.value, one.interval, one.source.value) == (None, None, "unverified")
        assert "there is no number where no record can be by the declaration" in table.notes
        assert not any("pmw measure" in note for note in table.notes)
        assert table.to_text().splitlines()[1].split() == ["-", "-", "-", "unverified"] * 2


def test_where_nothing_is_known_the_declared_ends_hold_and_what_is_not_affordable_says_so() -> None:
    with opened(4, people(4, 500), opening=pmw.Opening.NONE) as session:
        while session.measure(["region", "grade", "sex"], dry_run=True).affordable:
            session.measure(["region", "grade", "sex"])
        notes = session.sql("SELECT AVG(pay) AS v FROM people WHERE grade = 'e'").notes
        assert any(note.endswith("of the budget, and so much is not left") for note in notes)
        session.finalize()  # so that nothing is tested
        table = session.sql("SELECT MEDIAN(age), MIN(age), MAX(age), STDDEV(age), AVG(age) FROM people")
        cells = table.rows[0][1]
        assert all(cell.conditional and cell.interval is not None for cell in cells)
        assert cells[0].interval == pytest.approx((0.0, 39.0))
        assert not table.is_promised


@pytest.mark.parametrize("direction", ["", " DESC"])
def test_what_has_no_promise_comes_last_in_both_directions(direction: str) -> None:
    frame = people(4, 1500)
    frame = frame[~frame["grade"].isin(["d", "e"])]
    with opened(4, frame) as session:
        session.measure(["age", "grade"])
        statement = f"SELECT grade, AVG(age) AS v FROM people GROUP BY grade ORDER BY v{direction}"
        table = session.sql(statement)
        promised = [one.is_promised for one in table.column("v")]
        assert promised == sorted(promised, reverse=True)
        assert set(promised) == {True, False}
        values = [one.value for one in table.column("v") if one.is_promised]
        assert values == sorted(values, reverse=bool(direction))
        chosen = session.sql(f"{statement} LIMIT 4").column("v")
        sure = sum(one.is_promised for one in chosen)  # of 5 that are chosen from: their bars are wider
        first = session.sql(f"{statement} LIMIT {sure}")
        assert 0 < sure < 4
        assert not any("pmw measure" in note for note in first.notes)  # of rows that are shown


@pytest.mark.statistical
def test_intervals_hold_where_there_are_records_although_nothing_says_so() -> None:
    """Small groups, of which released numbers do not say that they have records."""
    functions = ("AVG(age)", "MEDIAN(age)", "MIN(age)", "MAX(age)", "STDDEV(age)",
                 "AVG(CASE WHEN age > 12 THEN 1.0 ELSE 0 END)")  # fmt: skip
    held = bars = 0
    for seed in range(3):
        frame = people(seed, 400)
        with opened(seed, frame, epsilon=0.5) as session:
            if seed % 2:
                session.measure(["age", "region"])
            for function in functions:
                statement = f"SELECT region, {function} AS v FROM people WHERE grade <> 'c' GROUP BY region ORDER BY region"  # noqa: E501
                if seed % 2:
                    statement = statement.replace("grade <> 'c'", "age < 9")
                true = truth(frame, statement).set_index("region")["v"]
                table = session.sql(statement)
                for region, one in zip(table.column("region"), table.column("v"), strict=True):
                    if one.conditional and region in true.index and not math.isnan(true[region]):
                        bars += 1
                        held += one.interval[0] - 1e-6 <= float(true[region]) <= one.interval[1] + 1e-6
    assert bars > 40
    assert held >= 0.95 * bars


def test_a_group_that_is_known_from_its_own_attribute_is_promised() -> None:
    """The test of age by region is coarse, but that of region alone says that nobody's region is empty."""
    frame = people(7, 3000)
    with opened(7, frame, epsilon=0.3) as session:
        session.group_by("region")
        for function in ("AVG(age)", "MEDIAN(age)", "STDDEV(age)", "MIN(age)"):
            statement = f"SELECT region, {function} AS v FROM people GROUP BY region ORDER BY region"
            found, true = session.sql(statement).to_pandas(), truth(frame, statement)
            assert not found["v"].isna().any()
            held = (found["v_low"] - 1e-6 <= true["v"]) & (true["v"] <= found["v_high"] + 1e-6)
            assert held.all()


def test_python_asks_the_same_as_sql(exact: tuple[pmw.Session, pd.DataFrame]) -> None:
    session, _ = exact
    by_sql = session.sql("SELECT sex, AVG(age) FROM people WHERE age >= 5 GROUP BY sex")
    assert session.mean("age", where="age >= 5", by="sex").rows == by_sql.rows
    assert session.sum("age").rows == session.sql("SELECT SUM(age) FROM people").rows
    medians = session.sql("SELECT sex, MEDIAN(age) FROM people GROUP BY sex")
    assert session.quantile("age", 0.5, by=["sex"]).rows == medians.rows
    for wrong in (("sex",), ("agee",), ("age", 1.5)):
        with pytest.raises(QueryError):
            session.quantile(*wrong)


def test_single_questions_alone_bound_what_opening_measured() -> None:
    frame = people(5, 2000)
    with opened(1, frame, test=pmw.TestKind.QUERY) as session:
        row = session.sql("SELECT AVG(age) AS v, CORR(age, pay) AS c FROM people").to_dict()["rows"][0]
        assert row["v"]["low"] <= frame["age"].mean() <= row["v"]["high"]
        assert (row["c"]["low"], row["c"]["high"], row["c"]["source"]) == (None, None, "unverified")


@pytest.mark.parametrize(("epsilon", "opening"), [(0.1, pmw.Opening.PAIRS), (20, pmw.Opening.NONE)])
def test_the_least_is_never_above_the_median_nor_that_above_the_greatest(
    epsilon: float, opening: pmw.Opening
) -> None:
    quantiles = [f"PERCENTILE_CONT({part}) WITHIN GROUP (ORDER BY v)" for part in (0, 0.01, 0.5, 0.99, 1)]
    for seed, rows in enumerate((2, 400)):
        frame = people(seed, rows)
        with opened(seed, frame, epsilon, opening=opening) as session:
            for value, by in (("age / 7", "grade"), ("pay", "sex")):
                asked = [
                    one.replace("v)", f"{value})") for one in ("MIN(v)", *quantiles, "MEDIAN(v)", "MAX(v)")
                ]
                columns = ", ".join(f"{one} AS c{place}" for place, one in enumerate(asked))
                for _, found in session.sql(f"SELECT {by}, {columns} FROM people GROUP BY {by}").rows:
                    values = [one.value for one in found]
                    if None in values:
                        assert values == [None] * len(values)
                        continue
                    least, *between, greatest = map(float, values)  # type: ignore[arg-type]
                    assert all(least <= one <= greatest for one in between), values
                    for one in found:
                        assert ends(one)[0] <= one.value <= ends(one)[1]  # type: ignore[operator]


def test_a_bar_that_noise_has_cross_another_one_is_widened(
    exact: tuple[pmw.Session, pd.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    crossed = {0.0: Estimate(30.0, (28, 33)), 0.5: Estimate(20.0, (15, 22)), 1.0: Estimate(10.0, (5, 12))}
    monkeypatch.setattr(aggregates, "_bounded_quantile", lambda sums, node, *rest: crossed[node.part])
    ((_, found),) = exact[0].sql("SELECT MIN(age) AS a, MEDIAN(age) AS b, MAX(age) AS c FROM people").rows
    assert [one.value for one in found] == [10, 20, 30]
    assert [one.interval for one in found] == [(10, 33), (15, 22), (5, 30)]


# --- means and variances by numbers that have one noise -----------------------------------------------------

LOW, HIGH, MIDDLE, SCALE = -20.0, 80.0, 30.0, 50.0
NOISES: list[DiscreteGaussian | DiscreteLaplace] = [
    DiscreteGaussian(Fraction(30 * UNITS)),
    DiscreteLaplace(Fraction(12 * UNITS)),
]
HARD = (LOW, HIGH)


def told(values: np.ndarray, noise: DiscreteGaussian | DiscreteLaplace, *, cells: int = 1) -> JointSums:
    """Return what is measured of whole values without noise."""
    away = values - MIDDLE
    sums = float(away.sum()), float(len(values)), float((away**2).sum())
    return JointSums(*sums, MIDDLE, 0.0, noise, cells, SCALE, 2.0)


def drawn(one: JointSums, errors: tuple[float, float, float]) -> JointSums:
    """Return the same with errors in parts of what single noises stray."""
    width = one._width_of_one(0.95)
    return replace(
        one,
        value=one.value + errors[0] * width * one.scale,
        count=one.count + errors[1] * width * one.one,
        squares=(one.squares or 0.0) + errors[2] * width * one.scale**2,
    )


def strays(one: JointSums, errors: tuple[float, float, float], weights: tuple[float, float, float]) -> bool:
    width, stand_for = one._width_of_one(0.95), (one.scale, one.one, one.scale**2)
    moved = sum(w * e * width * s for w, e, s in zip(weights, errors, stand_for, strict=True))
    return abs(moved) > one.half_width(weights, 0.95) * (1 - 1e-9)


ERRORS = st.tuples(*[st.floats(-1.2, 1.2)] * 3)
VALUES = st.tuples(st.integers(1, 4000), st.floats(LOW, HIGH), st.floats(0, 40), st.integers(0, 2**32 - 1))


def values_of(drawn_from: tuple[int, float, float, int]) -> np.ndarray:
    records, centre, spread, seed = drawn_from
    draw = np.random.default_rng(seed).normal(centre, spread, records)
    return np.rint(np.clip(draw, LOW, HIGH))


@given(VALUES, ERRORS, st.sampled_from(NOISES), st.integers(1, 9), st.sampled_from([1.0, -2.0, 0.5]))
def test_ends_of_means_and_sums_hold_unless_their_one_noise_strays(
    given_values: tuple[int, float, float, int],
    errors: tuple[float, float, float],
    noise: DiscreteGaussian | DiscreteLaplace,
    cells: int,
    factor: float,
) -> None:
    values = values_of(given_values)
    exact = told(values, noise, cells=cells)
    one, line = drawn(exact, errors), (factor, 3.0)
    weighed = factor * values + 3.0
    hard = tuple(sorted(factor * end + 3.0 for end in HARD))
    mean = float(weighed.mean())
    if not strays(exact, errors, (factor, factor * MIDDLE + 3 - mean, 0.0)):
        low, high = one.mean_ends(line, (hard[0], hard[1]), 0.95)
        assert low - 1e-6 <= mean <= high + 1e-6
    if not strays(exact, errors, (factor, factor * MIDDLE + 3, 0.0)):
        low, high = one.sum_ends(line, 0.95)[1]
        assert low - 1e-6 <= weighed.sum() <= high + 1e-6
    if not strays(exact, errors, (0.0, 1.0, 0.0)):
        assert not one.is_sure(len(values) + 1, 0.95)


@settings(max_examples=150)
@given(VALUES, ERRORS, st.sampled_from(NOISES))
def test_ends_of_variances_hold_unless_one_of_two_noises_strays(
    given_values: tuple[int, float, float, int],
    errors: tuple[float, float, float],
    noise: DiscreteGaussian | DiscreteLaplace,
) -> None:
    values = values_of(given_values)
    exact = told(values, noise)
    one, mean = drawn(exact, errors), float(values.mean())
    step = (HIGH - LOW) / 4096
    point = LOW + step * round((mean - LOW) / step)
    away = point - MIDDLE
    about = float(((values - point) ** 2).mean())
    if strays(exact, errors, (1.0, MIDDLE - mean, 0.0)):
        return
    if strays(exact, errors, (-2 * away, away**2 - about, 1.0)):
        return
    low, high = one.variance_ends(HARD, 0.95)
    assert low - 1e-6 <= values.var() <= high + 1e-6


def test_a_variance_is_looked_at_about_every_mean_that_there_may_be() -> None:
    """Values that are all alike have none, though it is large about the middle of what the mean may be."""
    exact, away, errors = told(np.full(391, -19.0), NOISES[0]), -19 - MIDDLE, (0.96, 0.33, 0.28)
    assert not strays(exact, errors, (1.0, -away, 0.0))
    assert not strays(exact, errors, (-2 * away, away**2, 1.0))
    one = drawn(exact, errors)
    middle = sum(one.mean_ends((1.0, 0.0), HARD, 0.95)) / 2
    assert one._square_ends(np.array([middle]), (HIGH - LOW) ** 2, 0.95)[0] > 20
    assert one.variance_ends(HARD, 0.95)[0] == 0


def test_ends_are_as_far_as_the_noise_of_one_number_and_of_nobody_any_mean_may_be() -> None:
    one = told(np.full(10_000, 12.0), NOISES[0])
    low, high = one.mean_ends((1.0, 0.0), HARD, 0.95)
    sigma = 30 * math.hypot(SCALE, (MIDDLE - 12) * 2)
    assert (high - low) / 2 == pytest.approx(1.96 * sigma / 10_000, rel=0.01)
    assert one.mean((1.0, 0.0), one.count) == pytest.approx(12)
    assert one.variance(one.count) == pytest.approx(0, abs=1e-6)
    few = told(np.array([30.0]), NOISES[0])
    assert few.mean_ends((1.0, 0.0), HARD, 0.95) == HARD
    assert few.variance_ends(HARD, 0.95) == (0.0, 2500.0)
    assert not few.is_sure(1, 0.95)


EXACT = DiscreteGaussian(Fraction(1))  # as good as none


@pytest.mark.parametrize("factor", [1.0, -2.0])
@pytest.mark.parametrize("beside", [-0.5, 0.5])
def test_a_mean_is_known_but_for_where_values_lie_beside_the_middles_of_their_places(
    factor: float, beside: float
) -> None:
    """All values lie at the same end of their places, which nothing that was measured tells."""
    middles = np.arange(10_000) % 40
    one = replace(told(middles.astype(float), EXACT), reach=0.5)
    weighed = factor * (middles + beside) + 3.0
    hard = tuple(sorted(factor * end + 3.0 for end in HARD))
    low, high = one.mean_ends((factor, 3.0), (hard[0], hard[1]), 0.95)
    assert low - 1e-6 <= weighed.mean() <= high + 1e-6
    assert high - low == pytest.approx(abs(factor), abs=1e-3)
    low, high = one.sum_ends((factor, 3.0), 0.95)[1]
    assert low - 1e-3 <= weighed.sum() <= high + 1e-3
    assert (high - low) / len(weighed) == pytest.approx(abs(factor), abs=1e-3)


def test_a_variance_is_not_above_what_it_is_about_the_nearest_point_of_the_grid() -> None:
    """The mean lies half a step from the points on either side, and nothing else is unknown."""
    records, step = 8192, (HIGH - LOW) / 4096
    mean = LOW + step * (1024 + 0.5)
    values = np.full(records, math.floor(mean))
    values[: round(records * (mean - math.floor(mean)))] += 1
    assert values.mean() == pytest.approx(mean, abs=1e-12)
    low, high = told(values.astype(float), EXACT).variance_ends(HARD, 0.95)
    assert low - 1e-6 <= values.var() <= high + 1e-6
    assert low == pytest.approx(values.var(), abs=step**2 / 10)


@pytest.mark.parametrize("noise", NOISES, ids=["gaussian", "laplace"])
def test_drawn_ends_miss_as_seldom_as_they_say(noise: DiscreteGaussian | DiscreteLaplace) -> None:
    draw = np.random.default_rng(7)
    values = np.rint(np.clip(draw.normal(5, 12, 3000), LOW, HIGH))
    exact, missed = told(values, noise), np.zeros(2)
    for _ in range(200):
        if isinstance(noise, DiscreteGaussian):
            errors = draw.normal(0, float(noise.sigma) / UNITS, 3)
        else:
            errors = draw.laplace(0, float(noise.scale) / UNITS, 3)
        one = replace(
            exact,
            value=exact.value + errors[0] * exact.scale,
            count=exact.count + errors[1] * exact.one,
            squares=(exact.squares or 0.0) + errors[2] * exact.scale**2,
        )
        low, high = one.mean_ends((1.0, 0.0), HARD, 0.95)
        least, most = one.variance_ends(HARD, 0.95)
        missed += not low <= values.mean() <= high, not least <= values.var() <= most
    assert 1 <= missed[0] <= 19  # of 200: 10 expected at most
    assert missed[1] <= 19
