"""Rows: what is drawn from the model."""

from __future__ import annotations

import tracemalloc
from collections import deque
from dataclasses import asdict
from datetime import date, datetime
from pathlib import Path

import pandas as pd
import pytest

import pmw
from pmw.data import CsvDialect, TableFile, as_source
from pmw.errors import ReleaseError
from pmw.public.export import RowPlan, draw_rows, export
from queries import (
    Attribute,
    CategoricalAttribute,
    DateAttribute,
    DatetimeAttribute,
    Domain,
    IntegerAttribute,
    NumericAttribute,
)


def test_rows_keep_the_models_one_way_marginals(session: pmw.Session) -> None:
    rows = session.synthetic_records(20_000, seed=1)
    model = session.state.model.marginal(("sex",))
    shares = rows["sex"].value_counts(normalize=True)
    assert shares["Female"] == pytest.approx(model[0] / model.sum(), abs=1e-3)


def test_values_come_back_as_declared(session: pmw.Session) -> None:
    rows = session.synthetic_records(5000, seed=1)
    assert rows["age"].dtype.kind == "i"
    assert rows["member"].dtype == bool
    assert set(rows["region"].dropna()) <= {"north", "east", "south", "west", "(other)"}


def test_the_same_seed_draws_the_same_rows_and_no_seed_draws_anew(session: pmw.Session) -> None:
    one, two = session.synthetic_records(500, seed=3), session.synthetic_records(500, seed=3)
    assert one.equals(two)
    assert not session.synthetic_records(500).equals(session.synthetic_records(500))


@pytest.mark.parametrize(("rows", "seed"), [(-1, None), (10**9, None), (5, -2)])
def test_an_impossible_drawing_is_refused(rows: int, seed: int | None) -> None:
    with pytest.raises(ReleaseError, match="expected"):
        RowPlan(rows, seed=seed)


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_a_csv_file_is_the_same_in_parts_of_any_size(
    session: pmw.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    plan = RowPlan(150, seed=3)
    whole = session.synthetic_records(150, seed=3).to_csv(index=False, lineterminator="\n").encode()
    monkeypatch.setattr("pmw.public.export.rows._CSV_ROWS", batch)
    parts = list(draw_rows(session.state, plan).csv_parts())
    assert len(parts) == -(-150 // batch)
    assert max(part.count(b"\n") for part in parts) <= batch + 1  # a heading
    assert b"".join(parts) == whole
    export(session.state, tmp_path / "rows.csv", plan)
    assert (tmp_path / "rows.csv").read_bytes() == whole


_HOSTILE = CategoricalAttribute("a, b", ('x"y', "1,2", "two\nlines", "r\rs", " s ", "é", "-"), missing=True)


_OTHERS = {
    CategoricalAttribute("mixed", (2, "one", True), other=True): "one",
    NumericAttribute("tiny", (0.0, 1e-7, 2e-7), missing=True): None,
    NumericAttribute("huge", (-1e19, 1e16, 1e22)): 0.0,
    IntegerAttribute("whole", -3, 9, missing=True): None,
    CategoricalAttribute("is", (True, False)): True,
}


@pytest.mark.parametrize("others", [{}, _OTHERS], ids=["alone", "with others"])
def test_fields_are_written_as_pandas_writes_them(others: dict[Attribute, object]) -> None:
    table = pd.DataFrame({_HOSTILE.name: [*_HOSTILE.values, None] * 40})
    for attribute, value in others.items():
        table[attribute.name] = pd.Series([value] * len(table), dtype=object)
    options = pmw.Options(seed=1, opening=pmw.Opening.ONE_WAY)
    domain = Domain((_HOSTILE, *others))
    with pmw.open_session(table, domain, epsilon=20, delta=1e-9, options=options) as session:
        whole = session.synthetic_records(400, seed=3).to_csv(index=False, lineterminator="\n").encode()
        assert b"".join(draw_rows(session.state, RowPlan(400, seed=3)).csv_parts()) == whole
    assert b'"x""y"' in whole
    assert b'"two\nlines"' in whole
    assert others or b'\n""\n' in whole  # an empty line is no row


def test_times_are_written_alike_whatever_rows_stand_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    begin, end = datetime(2023, 1, 1, 23, 59, 58), datetime(2023, 1, 2, 0, 0, 3)
    domain = Domain(
        (
            DatetimeAttribute("bare", begin, end, "hour", missing=True),
            DatetimeAttribute("marked", begin, end, "hour", missing=True, other=True),
            DateAttribute("day", date(2023, 1, 1), date(2023, 3, 1), "day", missing=True),
            DateAttribute("marked day", date(2023, 1, 1), date(2023, 3, 1), "day", other=True),
            IntegerAttribute("n", 0, 9),
        )
    )
    table = pd.DataFrame(
        {"bare": ["2023-01-02 00:00:02"], "marked": ["x"], "day": [""], "marked day": ["x"], "n": [1]}
    )
    options = pmw.Options(seed=1, opening=pmw.Opening.ONE_WAY)
    with pmw.open_session(table, domain, epsilon=1, delta=1e-9, options=options) as session:
        whole = session.synthetic_records(80, seed=3).to_csv(index=False, lineterminator="\n").encode()
        assert whole.count(b"2023-01-02 00:00:00,") > 2
        monkeypatch.setattr("pmw.public.export.rows._CSV_ROWS", 1)  # then midnight stands alone
        assert b"".join(draw_rows(session.state, RowPlan(80, seed=3)).csv_parts()) == whole


def test_the_memory_of_parts_does_not_grow_with_the_rows(
    session: pmw.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pmw.public.export.rows._CSV_ROWS", 500)
    peaks = []
    for rows in (2_000, 2_000, 40_000):
        tracemalloc.start()
        try:
            parts = draw_rows(session.state, RowPlan(rows, seed=3)).csv_parts()
            drawn, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            deque(parts, maxlen=0)
            peaks.append(tracemalloc.get_traced_memory()[1] - drawn)
        finally:
            tracemalloc.stop()
    assert drawn < 40_000 * len(session.domain) + 500_000  # a byte for each cell number
    assert peaks[2] < 2 * peaks[1]


# --- written as a table is ----------------------------------------------------------------------------------

_TOLD = CategoricalAttribute(
    "a; b", ('x"y', "1,2", "it's", "a\\b", "é", "-", "t\tu"), missing=True, other=True
)
_AMOUNT = NumericAttribute("amount", (0.0, 1.5, 20.25), missing=True, other=True)
_DAY = DateAttribute("day", date(2023, 1, 1), date(2023, 3, 1), "day", format="%d.%m.%Y")


def _counted(table: pd.DataFrame | Path, dialect: CsvDialect, domain: Domain) -> list[int]:
    place = TableFile(table, dialect) if isinstance(table, Path) else table
    scopes = [(name,) for name in domain.names]
    source = as_source(place, domain, None)
    return [count for scope in scopes for count in source.counts(scope).counts.reshape(-1).tolist()]


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize(
    "dialect",
    [
        CsvDialect(),
        CsvDialect(";", decimal=","),
        CsvDialect("\t", "'", encoding="latin-1", missing_texts=("NA",)),
        CsvDialect("|", escape="\\", decimal=","),
        CsvDialect(";", "", escape="\\"),
    ],
)
def test_rows_are_read_back_by_the_dialect_that_they_are_written_in(
    tmp_path: Path, dialect: CsvDialect, alone: bool
) -> None:
    domain = Domain((_TOLD,) if alone else (_TOLD, _AMOUNT, _DAY))
    table = pd.DataFrame({_TOLD.name: [*_TOLD.values, None, "zzz"] * 40})
    if not alone:
        table["amount"] = pd.Series([0.5, 1.75, None, "x"] * 90, dtype=object)
        table["day"] = "07.02.2023"
    options = pmw.Options(seed=1, opening=pmw.Opening.ONE_WAY)
    with pmw.open_session(table, domain, epsilon=20, delta=1e-9, options=options) as session:
        plan = RowPlan(300, seed=3, dialect=dialect)
        manifest = session.export(tmp_path / "rows.csv", plan)
        plain = draw_rows(session.state, RowPlan(300, seed=3)).frame()
    assert _counted(tmp_path / "rows.csv", dialect, domain) == _counted(plain, dialect, domain)
    usual = asdict(CsvDialect())
    told = {name: value for name, value in asdict(dialect).items() if value != usual[name]}
    assert manifest.get("dialect", {}) == told


def test_a_value_that_a_dialect_cannot_write_is_refused_whole(tmp_path: Path) -> None:
    table = pd.DataFrame({_TOLD.name: [*_TOLD.values] * 40})
    options = pmw.Options(seed=1, opening=pmw.Opening.ONE_WAY)
    with pmw.open_session(table, Domain((_TOLD,)), epsilon=20, delta=1e-9, options=options) as session:
        for dialect in (CsvDialect(",", ""), CsvDialect(encoding="ascii")):
            with pytest.raises(ReleaseError, match="cannot be written in"):
                session.export(tmp_path / "rows.csv", RowPlan(300, seed=3, dialect=dialect))
    assert [*tmp_path.iterdir()] == []
    with pytest.raises(ReleaseError, match="expected a CsvDialect"):
        RowPlan(3, dialect=";")  # type: ignore[arg-type]
