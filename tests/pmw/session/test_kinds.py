"""Kinds of attributes in a session: measured, asked, resumed, verified and exported."""

from __future__ import annotations

from datetime import date, datetime, time
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

import pmw
from queries import (
    CategoricalAttribute,
    DateAttribute,
    DatetimeAttribute,
    Domain,
    IntegerAttribute,
    NumericAttribute,
    TimeAttribute,
    encode_records,
)
from queries.dates import clock_time

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
RECORDS = 20_000


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
        for where, true in (
            ("gain = 0", (table["gain"] == 0).sum()),
            ("gain = 5000", (table["gain"] == 5000).sum()),
            ("gain > 0", (table["gain"] > 0).sum()),
            ("hired < '2022-01-03'", (table["hired"] < "2022-01-03").sum()),
            ("seen >= '2023-03-15 12:00'", (table["seen"] >= "2023-03-15 12:00").sum()),
            ("HOUR(seen) < 12", (table["seen"].dt.hour < 12).sum()),
            ("start < '08:30'", (table["start"].dropna() < time(8, 30)).sum()),
            (
                "HOUR(start) BETWEEN 9 AND 11",
                table["start"].dropna().map(lambda one: 9 <= one.hour < 12).sum(),
            ),
            ("start IS NULL", table["start"].isna().sum()),
        ):
            answer = session.ask(where)
            assert answer.aligned, where
            assert answer.interval is not None
            assert answer.interval[0] - 200 <= true <= answer.interval[1] + 200, where
            assert abs(answer.count - true) < 700, where
    with pmw.resume_session(path, table) as session:
        assert session.domain == DOMAIN
        frame = session.synthetic_records(RECORDS)
        assert [str(kind) for kind in frame.dtypes] == [
            "datetime64[s]",
            "datetime64[s]",
            "int64",
            "int64",
            "object",
        ]
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
            counts = [table["zip"].str.startswith(f"{number:02}").sum() for number in range(0, 100, 5)]
        held = 0
        for answer, count in zip(answers, counts, strict=True):
            assert answer.interval is not None
            assert answer.interval[1] - answer.interval[0] < 2 * most
            held += answer.interval[0] <= count <= answer.interval[1]
        assert held >= 16
        with pmw.resume_session(path, table) as session:
            assert session.domain == Domain(attributes)
            assert session.ask("zip LIKE '05%'").count == answers[1].count
        assert pmw.verify_session(path).holds
