"""Schemas in sessions: every kind of attribute, impossible cells, and bins that grow with the table."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import date, datetime, time
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.data import MemorySource
from pmw.data.memory import holds_malformed
from pmw.loop.untested import OpeningDraws, draw_opening
from pmw.model.measurement import DEFAULT_BINS
from pmw.planning.opening import open_contract, plan_opened
from pmw.privacy.budget import Budget
from pmw.privacy.random_bits import SEED_BYTES, BitSource
from pmw.public.plans import OpeningPlan
from pmw.public.state import planned_bins
from pmw.public.status import contradicted, status_of, status_rows
from queries import (
    UNITS,
    CategoricalAttribute,
    DateAttribute,
    DatetimeAttribute,
    Domain,
    IntegerAttribute,
    NumericAttribute,
    TimeAttribute,
    encode_records,
    rule_out,
)
from queries.dates import clock_time
from queries.person import Person
from tests.worlds import ends

DOMAIN = Domain(
    (
        DateAttribute("hired", date(2020, 1, 1), date(2023, 12, 31), "week"),
        DatetimeAttribute(
            "seen", datetime(2023, 3, 1), datetime(2023, 3, 31, 23, 59, 59), "hour", "Europe/Berlin"
        ),
        NumericAttribute("gain", tuple(range(0, 10_001, 200)), atoms=(0, 5000), integer=True),
        IntegerAttribute("age", 18, 90),
        TimeAttribute("start", time(6), time(21, 59, 59), "30 minutes", missing=True),
    ),
    name="people",
)
RECORDS = 8000


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    generator = np.random.default_rng(3)
    gain = np.where(generator.random(RECORDS) < 0.9, 0, generator.integers(1, 10_000, RECORDS))
    return pd.DataFrame(
        {
            "hired": pd.Timestamp("2020-01-01") + pd.to_timedelta(generator.integers(0, 1461, RECORDS), "D"),
            "seen": pd.Timestamp("2023-03-01") + pd.to_timedelta(
                generator.integers(0, 30 * 86_400, RECORDS), "s"
            ),
            "gain": np.where(generator.random(RECORDS) < 0.05, 5000, gain),
            "age": generator.integers(18, 91, RECORDS),
            "start": pd.Series(
                [clock_time(second) for second in generator.integers(6 * 3600, 22 * 3600, RECORDS).tolist()]
            ).mask(generator.random(RECORDS) < 0.1),
        }
    )  # fmt: skip


def test_a_session_keeps_every_kind(tmp_path: Path, table: pd.DataFrame) -> None:
    path = tmp_path / "s.pmw"
    with pmw.open_session(table, DOMAIN, epsilon=2, delta=1e-9, path=path) as session:
        start = table["start"].dropna()
        for where, true in (
            ("gain = 0", (table["gain"] == 0).sum()),
            ("gain = 5000", (table["gain"] == 5000).sum()),
            ("gain > 0", (table["gain"] > 0).sum()),
            ("hired < '2022-01-03'", (table["hired"] < "2022-01-03").sum()),
            ("seen >= '2023-03-15 12:00'", (table["seen"] >= "2023-03-15 12:00").sum()),
            ("HOUR(seen) < 12", (table["seen"].dt.hour < 12).sum()),
            ("start < '08:30'", (start < time(8, 30)).sum()),
            ("HOUR(start) BETWEEN 9 AND 11", start.map(lambda one: 9 <= one.hour < 12).sum()),
            ("start IS NULL", table["start"].isna().sum()),
        ):
            answer = session.ask(where)
            low, high = ends(answer)
            assert answer.aligned, where
            assert low - 200 <= true <= high + 200, where
            assert abs(answer.count - true) < 700, where
    with pmw.resume_session(path, table) as session:
        assert session.domain == DOMAIN
        frame = session.synthetic_records(RECORDS)
        assert " ".join(map(str, frame.dtypes)) == "datetime64[s] datetime64[s] int64 int64 object"
        for number in (0, 5000):
            assert abs((frame["gain"] == number).mean() - (table["gain"] == number).mean()) < 0.01
        session.export(tmp_path / "t.parquet", pmw.RowPlan(500))
        session.export(tmp_path / "t.csv", pmw.RowPlan(500))
    kinds = duckdb.connect().execute(f"DESCRIBE SELECT * FROM '{tmp_path / 't.parquet'}'").fetchall()
    assert [kind[1] for kind in kinds] == ["DATE", "TIMESTAMP", "BIGINT", "BIGINT", "TIME"]
    again = pd.read_csv(tmp_path / "t.csv", dtype=str)
    assert len(encode_records(again, DOMAIN)) == 500
    assert again["hired"].str.fullmatch(r"\d{4}-\d\d-\d\d").all()
    assert again["gain"].str.fullmatch(r"\d+").all()
    assert again["start"].dropna().str.fullmatch(r"\d\d:\d\d:\d\d").all()
    assert pmw.verify_session(path).holds


def test_a_level_of_codes_is_measured_and_its_questions_are_narrow(tmp_path: Path) -> None:
    generator = np.random.default_rng(7)
    codes = tuple(f"{number:04}" for number in range(0, 10_000, 10))
    attributes = (
        CategoricalAttribute("zip", codes, levels=(2,), missing=True),  # type: ignore[arg-type]  # a length
        CategoricalAttribute("sex", ("F", "M")),
        IntegerAttribute("age", 18, 90),
    )
    table = pd.DataFrame(
        {
            "zip": generator.choice(codes, RECORDS),
            "sex": generator.choice(["F", "M"], RECORDS),
            "age": generator.integers(18, 91, RECORDS),
        }
    )
    for delta, most in ((1e-9, 80), (0, 300)):
        path = tmp_path / f"{delta}.pmw"
        with pmw.open_session(table, Domain(attributes), epsilon=1, delta=delta, path=path) as session:
            answers = [session.ask(f"zip_2 = '{number:02}'") for number in range(0, 100, 5)]
        held = 0
        for number, (low, high) in zip(range(0, 100, 5), map(ends, answers), strict=True):
            assert high - low < 2 * most
            held += low <= table["zip"].str.startswith(f"{number:02}").sum() <= high
        assert held >= 16
        with pmw.resume_session(path, table) as session:
            assert session.domain == Domain(attributes)
            assert session.ask("zip LIKE '05%'").count == answers[1].count
        assert pmw.verify_session(path).holds


CHILD = "age < 16 AND married = 'yes'"
PLAIN = Domain(
    (
        IntegerAttribute("age", 0, 39),
        CategoricalAttribute("married", ("no", "yes")),
        CategoricalAttribute("sex", ("f", "m")),
    ),
    name="people",
)
RULED = rule_out(PLAIN, CHILD)


def of_few_impossible() -> pd.DataFrame:
    """Return records of which a few are impossible."""
    generator = np.random.default_rng(7)
    age = generator.integers(0, 40, 4000)
    is_married = generator.random(4000) < np.where(age < 16, 0.05, 0.6)
    sex = generator.choice(["f", "m"], 4000)
    return pd.DataFrame({"age": age, "married": np.where(is_married, "yes", "no"), "sex": sex})


FRAME = of_few_impossible()
INSIDE = (FRAME.age < 16) & (FRAME.married == "yes")
OPTIONS = pmw.Options(seed=5)


def opened(
    domain: Domain = RULED,
    options: pmw.Options = OPTIONS,
    path: Path | None = None,
    *,
    frame: Any = FRAME,
    epsilon: float = 1,
) -> pmw.Session:
    """Open a session over the records, or over others."""
    return pmw.open_session(frame, domain, epsilon=epsilon, delta=1e-9, options=options, path=path)


# --- impossible cells --------------------------------------------------------------------------------------


def test_impossible_records_are_in_no_count_and_take_no_place_of_their_persons() -> None:
    source = MemorySource.from_frame(FRAME, RULED)
    counts = source.counts(RULED.names).counts
    np.testing.assert_array_equal(counts[:16, 1], 0)
    possible = MemorySource.from_frame(FRAME[~INSIDE], PLAIN)
    np.testing.assert_array_equal(counts, possible.counts(PLAIN.names).counts)
    assert source.fingerprint(bytes(32)) != possible.fingerprint(bytes(32))  # of another schema
    # Records are dropped before a person's are bounded: which one is kept does not depend on those.
    ids = np.repeat(np.arange(200), 2)
    frame = pd.DataFrame({"age": [3, 30] * 200, "married": "yes", "sex": "f", "id": ids})
    domain = replace(RULED, person=Person("id", records=1))
    for first in range(4):
        ages = MemorySource.from_frame(frame, domain, bytes([first]) * SEED_BYTES).counts(("age",)).counts
        assert (ages[3], ages[30]) == (0, 200)


def test_a_line_that_cannot_be_read_is_dropped_where_undeclared_values_are_impossible() -> None:
    attribute = CategoricalAttribute("sex", ("f", "m"), other=True)
    both = Domain((attribute, replace(attribute, name="other sex")))
    assert holds_malformed(both)
    ruled = rule_out(both, "NOT (sex IN ('f', 'm'))")
    assert ruled.impossible[0].inside[attribute.other_code] == (not holds_malformed(ruled))


def test_answers_are_those_of_the_possible_part_among_possible_records() -> None:
    """The same noise falls on the same counts, so both are equal to the last bit."""
    aggregates = (
        "AVG(age)",
        "SUM(age)",
        "STDDEV_POP(age)",
        "MEDIAN(age)",
        "SUM(CASE WHEN sex = 'f' THEN 2 END)",
    )
    with opened() as session, opened(PLAIN, frame=FRAME[~INSIDE]) as possible:
        spent = session.status().budget_share
        for where in (CHILD, f"{CHILD} AND sex = 'f'", "age = 3 AND married = 'yes'"):
            answer = session.ask(where)
            assert (answer.count, answer.interval) == (0, (0, 0)), where  # exactly, and free
        assert session.status().budget_share == spent
        for where in ("age < 20 AND married = 'yes'", "age > 12 AND age < 30 AND sex = 'f'", "age > 9"):
            part = where.replace("age < 20", "age >= 16 AND age < 20")
            assert ends(session.ask(where)) == ends(possible.ask(part)), where
        for aggregate in aggregates:
            ask = f"SELECT married, {aggregate} AS x FROM people WHERE %s GROUP BY married"
            married = session.sql(ask % "age < 20").to_dict()["rows"][1]
            assert married == possible.sql(ask % "age >= 16 AND age < 20").to_dict()["rows"][1], aggregate


@pytest.mark.parametrize("opening", [pmw.Opening.ONE_WAY, pmw.Opening.PAIRS])
def test_no_row_is_impossible(opening: pmw.Opening) -> None:
    with opened(options=pmw.Options(seed=3, opening=opening)) as session:
        for independent in (False, True):
            rows = session.synthetic_records(3000, seed=1, independent=independent)
            some = session.synthetic_records(300, seed=1, where="age < 18", independent=independent)
            for drawn, count in ((rows, 3000), (some, 300)):
                assert len(drawn) == count
                assert not ((drawn.age < 16) & (drawn.married == "yes")).any()
            assert (some.age < 18).all()


def test_a_condition_that_released_numbers_contradict_is_told() -> None:
    domain = rule_out(PLAIN, "age >= 16 AND married = 'yes'", "age = 0")
    with opened(PLAIN, pmw.Options(seed=3, opening=pmw.Opening.PAIRS)) as session:
        # As if its schema were another one.
        state = replace(session.state, contract=replace(session.state.contract, domain=domain))
    assert contradicted(state) == tuple(one.where for one in domain.impossible)
    form = status_of(state, 0).to_dict()
    assert form["impossible"] == form["contradicted"] == [one.where for one in domain.impossible]
    told = dict(status_rows(state.contract, status_of(state, 0)))
    assert told["impossible"].endswith(": released numbers say that some records satisfy it")


def test_conditions_are_refused_where_records_cannot_be_dropped(tmp_path: Path) -> None:
    whole = Domain(tuple(replace(one, missing=True, other=True) for one in PLAIN), name="people")
    options = replace(OPTIONS, neighboring_relation=pmw.NeighboringRelation.REPLACE_ONE)
    opened(whole, options).close()
    with pytest.raises(pmw.BudgetError, match=r"satisfy an \[\[impossible\]\] condition"):
        opened(rule_out(whole, CHILD), options)
    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        connection.register("given", FRAME)
        connection.execute("CREATE TABLE people AS SELECT * FROM given")
    place = pmw.DatabaseTable(f"duckdb:{tmp_path / 'people.duckdb'}", "people", inside=True)
    with pytest.raises(pmw.DataError, match="impossible by the schema are dropped where the table is read"):
        opened(frame=place)


# --- bins ---------------------------------------------------------------------------------------------------

LONG = Domain(
    (
        IntegerAttribute("age", 0, 89),
        CategoricalAttribute("sex", ("F", "M")),
        IntegerAttribute("state", 0, 59),
        IntegerAttribute("grade", 0, 9),
    ),
    name="long",
)
TESTED = pmw.Options(opening=pmw.Opening.ONE_WAY)


@cache
def long_table(records: int) -> pd.DataFrame:
    generator = np.random.default_rng(4)
    state = generator.integers(0, 60, records)
    sex = generator.integers(0, 2, records)
    age = (generator.integers(0, 60, records) + state // 2 * (1 - sex)) % 90
    grade = (age // 12 + generator.integers(0, 4, records)) % 10
    sexes = np.array(["F", "M"])[sex]
    return pd.DataFrame({"age": age, "sex": sexes, "state": state, "grade": grade})


def bins_for(records: float) -> int:
    """Return the bins that are planned for so many records."""
    contract, opening = open_contract(LONG, Budget.of(1, 1e-9), TESTED)
    return planned_bins(plan_opened(contract, opening, records).test)


@pytest.mark.parametrize("records", [1_000, 1_001])
def test_bins_follow_the_released_number_whatever_the_table_holds(records: int) -> None:
    """Two neighbours that release the same have the same bins: those of what was released."""

    def drawn(plan: OpeningPlan, *_: object) -> OpeningDraws:
        source = MemorySource.from_frame(long_table(1_000), LONG)
        draws = draw_opening(plan, source, BitSource.from_integer(3))
        scaled = [replace(one, units=one.units * 3_200) for one in draws.marginals]
        return OpeningDraws(3_200_000 * UNITS, tuple(scaled))

    with (
        patch("pmw.session.releases.draw_opening", drawn),
        opened(LONG, replace(TESTED, seed=2), frame=long_table(records)) as session,
    ):
        state = session.state
    assert planned_bins(state.plan) == bins_for(state.total.value)
    assert planned_bins(state.plan) == bins_for(3.2e6) > DEFAULT_BINS


@pytest.mark.parametrize("fewest", [False, True])
def test_bins_are_recorded_and_kept_and_verified(tmp_path: Path, fewest: bool) -> None:
    """Whatever is planned today: a session that was opened with the fewest keeps them."""
    path, question = tmp_path / "s.pmw", "age >= 30 AND state = 7 AND grade = 2 AND sex = 'F'"
    with (
        patch("pmw.planning.tiers.affordable_bins", return_value=DEFAULT_BINS) if fewest else nullcontext(),
        opened(LONG, TESTED, path, frame=long_table(8000), epsilon=100) as session,
    ):
        first = session.ask(question)
        shape = session.state.coarsening.coarse.shape
        assert (planned_bins(session.state.plan) == DEFAULT_BINS) == fewest
    with pmw.resume_session(path, long_table(8000)) as session:
        assert session.state.coarsening.coarse.shape == shape
        assert session.ask(question) == first
        session.ask("age < 30 AND grade >= 4")
        assert session.verify().holds


def test_verification_finds_bins_that_do_not_follow_from_the_released_number() -> None:
    with (
        patch("pmw.planning.tiers.affordable_bins", return_value=21),
        opened(LONG, TESTED, frame=long_table(8000), epsilon=100) as session,
    ):
        session.ask("age >= 30 AND sex = 'F'")
        found = session.verify()
    assert not found.holds
    assert "bins of a long attribute" in str(found)
