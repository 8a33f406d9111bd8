"""Rows: what is drawn from the model."""

from __future__ import annotations

import functools
import itertools
import json
import tracemalloc
from collections import deque
from dataclasses import asdict, replace
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import pmw
from pmw.data import CsvDialect, TableFile, as_source
from pmw.errors import ReleaseError
from pmw.loop.fit import correct
from pmw.model.bins import CoarsenedDistribution, Coarsening
from pmw.model.dense import DenseDistribution
from pmw.model.distribution import MarginalTerm, SyntheticDistribution
from pmw.model.graphical import GraphicalDistribution
from pmw.model.measurement import MarginalMeasurement
from pmw.privacy.noise import DiscreteGaussian
from pmw.public.export import RowPlan, draw_rows, export, reproduction_sentence
from pmw.public.export.manifest import reproduction
from pmw.public.export.rows import ConditionedModel
from pmw.public.state import PublicState
from queries import (
    UNITS,
    Attribute,
    CategoricalAttribute,
    CodedRecords,
    DateAttribute,
    DatetimeAttribute,
    Domain,
    IntegerAttribute,
    NumericAttribute,
)
from queries.errors import QueryError
from queries.parsing import parse_where
from tests.worlds import WIDE, World, opened


@pytest.mark.parametrize("batch", [7, 100])
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


def test_an_impossible_drawing_is_refused(session: pmw.Session) -> None:
    for rows, seed in ((-1, None), (10**9, None), (5, -2)):
        with pytest.raises(ReleaseError, match="expected"):
            RowPlan(rows, seed=seed)
    with pytest.raises(ReleaseError, match="expected a CsvDialect"):
        RowPlan(3, dialect=";")  # type: ignore[arg-type]
    assert not session.synthetic_records(500).equals(session.synthetic_records(500))  # no seed draws anew


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
    with opened(table, Domain((_HOSTILE, *others)), epsilon=20, seed=1) as session:
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
    with opened(table, domain, epsilon=1, seed=1) as session:
        whole = session.synthetic_records(80, seed=3).to_csv(index=False, lineterminator="\n").encode()
        assert whole.count(b"2023-01-02 00:00:00,") > 2
        monkeypatch.setattr("pmw.public.export.rows._CSV_ROWS", 1)  # then midnight stands alone
        assert b"".join(draw_rows(session.state, RowPlan(80, seed=3)).csv_parts()) == whole


def test_the_memory_of_parts_does_not_grow_with_the_rows(
    session: pmw.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pmw.public.export.rows._CSV_ROWS", 500)
    peaks = []
    for rows in (1_000, 1_000, 10_000):
        tracemalloc.start()
        try:
            parts = draw_rows(session.state, RowPlan(rows, seed=3)).csv_parts()
            drawn, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            deque(parts, maxlen=0)
            peaks.append(tracemalloc.get_traced_memory()[1] - drawn)
        finally:
            tracemalloc.stop()
    assert drawn < 10_000 * len(session.domain) + 500_000  # a byte for each cell number
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
    with opened(table, domain, epsilon=20, seed=1) as session:
        if alone and dialect == CsvDialect():  # a value that a dialect cannot write is refused
            for lossy in (CsvDialect(",", ""), CsvDialect(encoding="ascii")):
                with pytest.raises(ReleaseError, match="cannot be written in"):
                    session.export(tmp_path / "rows.csv", RowPlan(300, seed=3, dialect=lossy))
            assert [*tmp_path.iterdir()] == []
        plan = RowPlan(300, seed=3, dialect=dialect)
        manifest = session.export(tmp_path / "rows.csv", plan)
        plain = draw_rows(session.state, RowPlan(300, seed=3)).frame()
    assert _counted(tmp_path / "rows.csv", dialect, domain) == _counted(plain, dialect, domain)
    usual = asdict(CsvDialect())
    told = {name: value for name, value in asdict(dialect).items() if value != usual[name]}
    assert manifest.get("dialect", {}) == told


# --- conditions ---------------------------------------------------------------------------------------------

DOMAIN = Domain(
    (IntegerAttribute("a", 0, 5), CategoricalAttribute("b", ("x", "y", "z")), IntegerAttribute("c", 0, 3))
)
COARSE = Domain((IntegerAttribute("a", 0, 2), *DOMAIN.attributes[1:]))
BINS = np.array([0, 0, 0, 1, 1, 2])
SHARES = np.array([0.5, 0.25, 0.25, 0.9, 0.1, 1.0])
COARSENING = Coarsening(DOMAIN, COARSE, (BINS, None, None), (SHARES, None, None))
WHERES = (
    "a >= 3",
    "a = 1 AND b <> 'x'",
    "b = 'x' OR c = 2",
    "(b = 'x' OR c = 2) AND a < 4",
    "a = 4 OR b = 'y'",
    "(a = 4 OR b = 'y') AND c IN (0, 3)",
    "(a = 1 AND b = 'x') OR (b = 'z' AND c = 1)",
    "a + c > 4",
    "a >= 0",
)


def _model(
    kind: type[DenseDistribution] | type[GraphicalDistribution], seed: int, *, binned: bool
) -> SyntheticDistribution:
    domain, generator = (COARSE if binned else DOMAIN), np.random.default_rng(seed)
    scopes = (("a", "b"), ("b", "c"))
    terms = [MarginalTerm(one, 2 * generator.standard_normal(domain.scope_shape(one))) for one in scopes]
    model = kind.of_terms(domain, 1000.0, terms)
    return CoarsenedDistribution(COARSENING, model) if binned else model


_opened = functools.cache(functools.partial(WIDE.state, seed=1))


def _state(model: SyntheticDistribution, *, binned: bool, **options: object) -> PublicState:
    """Return a state with a model of a test's own."""
    state = _opened()
    contract = replace(state.contract, domain=DOMAIN, options=replace(state.contract.options, **options))  # type: ignore[arg-type]
    coarsening = COARSENING if binned else Coarsening.identity(DOMAIN)
    return replace(state, contract=contract, model=model, coarsening=coarsening, apart=())


def _given(model: SyntheticDistribution, where: str) -> NDArray[np.float64]:
    """Return the probabilities of the cells by definition: those of the model, where the condition holds."""
    query = parse_where(where, DOMAIN)
    inside = np.ones(DOMAIN.shape)
    for factor in query.factors:
        sides = [
            size if name in factor.scope else 1 for name, size in zip(DOMAIN.names, DOMAIN.shape, strict=True)
        ]
        inside = inside * (factor.weights > 0).reshape(sides)
    found = model.marginal(DOMAIN.names) * inside
    return np.asarray(found / found.sum())


@settings(max_examples=10)
@given(
    st.sampled_from([DenseDistribution, GraphicalDistribution]),
    st.booleans(),
    st.sampled_from(WHERES),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_rows_satisfy_a_condition_and_follow_the_model_given_it(
    kind: type[DenseDistribution], binned: bool, where: str, seed: int, independent: bool
) -> None:
    model = _model(kind, seed, binned=binned)
    state, rows = _state(model, binned=binned), 4000
    records = draw_rows(state, RowPlan(rows, independent, seed, where)).records
    assert len(records) == rows
    counts = np.bincount(np.ravel_multi_index(records.columns, DOMAIN.shape), minlength=DOMAIN.size)
    expected = rows * _given(state.model, where).ravel()
    assert not counts[expected == 0].any()
    held = expected > 0
    deviation = np.sqrt(expected[held] * (1 - expected[held] / rows)) + 1
    assert (np.abs(counts[held] - expected[held]) < 6 * deviation).all()


@pytest.mark.parametrize("kind", [DenseDistribution, GraphicalDistribution])
@pytest.mark.parametrize("binned", [False, True])
@pytest.mark.parametrize("where", WHERES)
def test_a_conditioned_model_is_the_model_times_the_condition(
    kind: type[DenseDistribution], binned: bool, where: str
) -> None:
    state = _state(_model(kind, 7, binned=binned), binned=binned)
    found = ConditionedModel.of(state, where)
    assert found.records == pytest.approx(state.model.answer(parse_where(where, DOMAIN)))
    cells = found.coarsening.expand(DOMAIN.names, found.model.marginal(DOMAIN.names)) / found.model.total
    for factor in found.chosen:
        sides = [
            size if name in factor.scope else 1 for name, size in zip(DOMAIN.names, DOMAIN.shape, strict=True)
        ]
        cells = cells * (factor.weights > 0).reshape(sides)
    assert cells.sum() == pytest.approx(found.part)
    assert cells / cells.sum() == pytest.approx(_given(state.model, where), abs=1e-12)


def test_a_tree_without_room_has_rows_chosen_instead_unless_too_few_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = _state(_model(GraphicalDistribution, 3, binned=False), binned=False, max_cells=30)
    where = "a = 1 OR c = 2"
    assert [one.scope for one in ConditionedModel.of(state, where).chosen] == [("a", "c")]
    rows = draw_rows(state, RowPlan(500, seed=1, where=where)).frame()
    assert len(rows) == 500
    assert ((rows["a"] == 1) | (rows["c"] == 2)).all()
    monkeypatch.setattr("pmw.public.export.rows._MOST_DRAWN", 100)
    monkeypatch.setattr("pmw.public.export.rows._TIMES", 1)
    told = "500 rows are chosen by a condition on a, c together, which one in"
    with pytest.raises(ReleaseError, match=told):
        draw_rows(state, RowPlan(500, seed=1, where=where))


@pytest.mark.parametrize(
    ("where", "error", "words"),
    [
        ("b = 'x' AND b = 'y'", ReleaseError, "the model has no records where b = 'x' AND b = 'y'"),
        ("height = 3", QueryError, "unknown attribute 'height'"),
        ("b = ", QueryError, "expected"),
        ("b = 'z'", ReleaseError, r"has 0\.062 records where b = 'z', which rounds to no row"),
    ],
)
def test_a_condition_that_nothing_satisfies_or_nobody_reads_is_refused_in_one_line(
    where: str, error: type[Exception], words: str
) -> None:
    terms = [MarginalTerm(("b",), np.array([0.0, 0.0, -9.0]))]
    state = _state(DenseDistribution.of_terms(DOMAIN, 1000.0, terms), binned=False)
    with pytest.raises(error, match=words) as refused:
        draw_rows(state, RowPlan(where=where))
    assert "\n" not in str(refused.value)
    assert set(draw_rows(state, RowPlan(7, where="b = 'z'")).frame()["b"]) == {"z"}


def test_the_number_of_rows_is_the_models_count_and_the_manifest_has_the_condition(tmp_path: Path) -> None:
    with WIDE.opened(opening="pairs", seed=1) as session:
        name = session.domain.names[0]
        where = f"{name} = 1"
        count = session.state.model.answer(parse_where(where, session.domain))
        rows = session.synthetic_records(where=where, seed=2)
        assert len(rows) == round(count)
        assert set(rows[name]) == {1}
        assert rows.equals(session.synthetic_records(where=where, seed=2))
        manifest = session.export(tmp_path / "rows.csv", RowPlan(seed=2, where=where))
        spent = session.state.ledger.share
        assert spent == session.status().budget_share
    assert (manifest["where"], manifest["rows"]) == (where, len(rows))
    assert manifest["marginals"] == {"measured": 0, "not_reproduced": []}
    assert json.loads((tmp_path / "rows.csv.manifest.json").read_text()) == manifest
    assert len(pd.read_csv(tmp_path / "rows.csv")) == len(rows)


# --- reproduction -------------------------------------------------------------------------------------------

RECORDS = 20_000


@functools.cache
def world() -> World:
    """Return a table of which every pair of attributes depends on each other, one of them long."""
    generator = np.random.default_rng(3)
    level = generator.integers(0, 6, RECORDS)
    names = ("a", "b", "c", "d", "e")
    frame = pd.DataFrame(
        {
            name: np.where(generator.random(RECORDS) < 0.4, level, generator.integers(0, 6, RECORDS))
            for name in names
        }
    )
    frame["n"] = level * 30 + generator.integers(0, 30, RECORDS)
    short = [CategoricalAttribute(name, tuple(range(6))) for name in names]
    return World(Domain((*short, IntegerAttribute("n", 0, 179))), frame)


@functools.cache
def narrow_state() -> PublicState:
    """Return a state whose tree can hold only some of the pairs."""
    state = world().state(options=pmw.Options(seed=1, max_cells=300))
    assert len(state.beside) > 3
    return state


def test_rows_reproduce_what_lies_beside_the_tree() -> None:
    state, plan = narrow_state(), RowPlan(seed=4)
    plain = state.model.sample(plan.count(state.total.records), np.random.default_rng(4), independent=False)
    fitted = draw_rows(state, plan).records
    assert len(fitted) == plan.count(state.total.records)
    missed, left = (reproduction(state, each)["not_reproduced"] for each in (plain, fitted))
    beside = {state.marginals[place].scope for place in state.beside}
    assert len({tuple(one["scope"]) for one in missed} & beside) > 3
    assert sum(one["distance"] for one in left) < sum(one["distance"] for one in missed) / 5
    truth = world().frame
    for one, two in itertools.combinations(world().domain.names[:5], 2):
        true = np.histogram2d(truth[one], truth[two], bins=range(7))[0] / RECORDS
        found = [_shares(each, one, two) for each in (plain, fitted)]
        assert np.abs(found[1] - true).sum() < np.abs(found[0] - true).sum() + 0.01

    # Independent draws are left as they were drawn.
    drawn = draw_rows(state, RowPlan(500, independent=True, seed=4)).records
    own = state.model.sample(500, np.random.default_rng(4), independent=True)
    assert all(np.array_equal(*pair) for pair in zip(drawn.columns, own.columns, strict=True))


def _shares(records: CodedRecords, one: str, two: str) -> NDArray[np.float64]:
    first, second = (records.columns[records.domain.index(name)].astype(np.int64) for name in (one, two))
    return np.bincount(6 * first + second, minlength=36).reshape(6, 6) / len(records)


def test_a_session_its_export_and_its_model_file_have_the_same_rows(tmp_path: Path) -> None:
    with opened(world().frame, world().domain, options=pmw.Options(seed=1, max_cells=300)) as session:
        rows = session.synthetic_records(300, seed=9)
        session.export(tmp_path / "rows.csv", RowPlan(300, seed=9))
        session.export(tmp_path / "study.model")
    assert pmw.load_model(tmp_path / "study.model").synthetic_records(300, seed=9).equals(rows)
    text = rows.to_csv(index=False, lineterminator="\n")
    assert (tmp_path / "rows.csv").read_bytes() == text.encode()
    manifest = json.loads((tmp_path / "rows.csv.manifest.json").read_text())
    state = narrow_state()
    assert manifest["marginals"] == reproduction(state, draw_rows(state, RowPlan(300, seed=9)).records)


def test_a_marginal_is_missed_by_what_is_beyond_its_noise() -> None:
    """One cell moved by a tenth of the records is twice that in L1, whatever the noise; and no other is."""
    state = narrow_state()
    truth = CodedRecords(
        state.domain, tuple(world().frame[name].to_numpy(np.uint8) for name in state.domain.names)
    )
    own = reproduction(state, truth)  # the truth itself misses few, and those by little
    assert len(own["not_reproduced"]) <= own["measured"] // 5
    assert all(one["distance"] < 0.02 for one in own["not_reproduced"])
    known = {tuple(one["scope"]) for one in own["not_reproduced"]}
    counts = np.histogram2d(world().frame["a"], world().frame["b"], bins=range(7))[0]
    counts[0, 0] += RECORDS / 10
    counts[5, 5] -= RECORDS / 10
    noise = DiscreteGaussian(Fraction(UNITS))
    units = np.rint(counts * UNITS).astype(np.int64)
    moved = correct(state, MarginalMeasurement(("a", "b"), units, noise, requested=True))
    found = reproduction(moved, truth)
    farthest, *others = found["not_reproduced"]
    assert farthest == {"scope": ["a", "b"], "distance": pytest.approx(0.2, abs=0.005)}
    assert {tuple(one["scope"]) for one in others} <= known
    assert found["measured"] == len({one.scope for one in (*moved.opening, *moved.marginals)})


@pytest.mark.parametrize(
    ("missed", "words"),
    [
        ([], ""),
        (
            [(["a"], 0.2), (["b"], 0.1), (["c"], 0.05), (["d"], 0.01)],
            "The rows are farther than noise explains from 4 of 7 measured marginals, in parts of the "
            "records: a (20.0%); b (10.0%); c (5.0%); ….",
        ),
    ],
)
def test_what_is_missed_in_words(missed: list[tuple[list[str], float]], words: str) -> None:
    form = {"measured": 7, "not_reproduced": [{"scope": scope, "distance": far} for scope, far in missed]}
    assert reproduction_sentence(form) == words
