"""Marked tables: whatever is taken for a table, nothing of what it holds is in any output.

Every name of the public surfaces either takes true data, by the arguments that are listed, or stands among
those that take none. A table holds a marked text and a marked number; both are looked for in what is
returned, raised, warned, logged and printed.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import pmw
import queries
from pmw.cli import main
from pmw.errors import DataError, PMWError
from queries import CategoricalAttribute, Domain, IntegerAttribute

MARK, NUMBER = "MARK-7f3a", 731_091_377
MARKS = (MARK, str(NUMBER), f"{NUMBER:,}", hex(NUMBER))
DOMAIN = Domain(
    (IntegerAttribute("age", 0, 99, 10), CategoricalAttribute("sex", ("f", "m"), missing=True)), name="people"
)
RECORD = {"age": NUMBER, "sex": MARK}


def telling(*_: object, **__: object) -> Any:
    raise ValueError(MARK)


class TellingType(type):
    """A class of classes that tells its mark wherever it is asked."""

    __repr__ = __str__ = __eq__ = __hash__ = __instancecheck__ = telling
    __getattribute__ = telling


class Telling(metaclass=TellingType):
    """A table that tells its mark wherever it is asked, and says that it is pandas'."""

    __repr__ = __str__ = __iter__ = __len__ = __getattribute__ = __eq__ = __hash__ = telling
    __array__ = __getitem__ = __bool__ = __float__ = __int__ = __index__ = __fspath__ = __format__ = telling
    __lt__ = __gt__ = __contains__ = __call__ = __enter__ = telling
    __class__ = property(telling)


class Posing:
    """A table that says that it is pandas', and shows its records in every other way."""

    columns = ("age", "sex", MARK)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return pd.DataFrame

    def __repr__(self) -> str:
        return MARK

    def __iter__(self) -> Iterator[object]:
        return iter((MARK, NUMBER))

    def __getattr__(self, name: str) -> object:
        raise AttributeError(f"{name}: {MARK}")


def no_tables() -> dict[str, object]:
    """Return what a custodian may take for a table, and what pretends to be one."""
    array = np.empty(1, dtype=object)
    array[0] = RECORD
    return {
        "dict": {"age": [NUMBER], "sex": [MARK]},
        "records": [RECORD],
        "rows": iter([(NUMBER, MARK)]),
        "objects": array,
        "texts": np.array([[str(NUMBER), MARK]]),
        "numbers": np.array([NUMBER + 0.5, float(NUMBER)]),
        "structured": np.array([(NUMBER, MARK)], dtype=[("age", "i8"), ("sex", "U9")]),
        "series": pd.Series([MARK, NUMBER]),
        "text": f"age,sex\n{NUMBER},{MARK}\n",
        "bytes": f"age,sex\n{NUMBER},{MARK}\n".encode(),
        "long line": f"{NUMBER},{MARK}," * 30,
        "stream": io.StringIO(f"age,sex\n{NUMBER},{MARK}\n"),
        "class": type("Odd", (), {"columns": ["age"], "__repr__": lambda _: MARK}),
        "telling": Telling(),
        "posing": Posing(),
    }


def wrong_frames() -> dict[str, pd.DataFrame]:
    """Return pandas tables without the declared columns, whose headers are records too."""
    rows = [(NUMBER, MARK)]
    return {
        "other names": pd.DataFrame(rows, columns=["Age", "Sex"]),
        "a record as header": pd.DataFrame([(1, 2)], columns=[str(NUMBER), MARK]),
        "numbers as header": pd.DataFrame([(1, 2)], columns=[NUMBER, 0]),
        "twice": pd.DataFrame([(NUMBER, MARK, MARK)], columns=["age", "sex", "sex"]),
        "two levels": pd.DataFrame(rows, columns=pd.MultiIndex.from_tuples([("age", MARK), ("sex", MARK)])),
        "records as index": pd.DataFrame({"age": [1]}, index=[MARK]),
    }


def frames() -> dict[str, pd.DataFrame]:
    """Return pandas tables that open, whatever stands in their columns."""
    odd = [RECORD, [MARK], {MARK}, (MARK, NUMBER), MARK.encode(), Telling(), Posing(), MARK, NUMBER, None]
    ages = [*odd[:-2], NUMBER, np.timedelta64(NUMBER, "D")]
    columns = np.empty((len(odd), 2), dtype=object)
    for row, pair in enumerate(zip(ages, odd, strict=True)):
        for place, value in enumerate(pair):
            columns[row, place] = value
    return {
        "marked": pd.DataFrame([(NUMBER, MARK)] * 3, columns=["age", "sex"]),
        "odd": pd.DataFrame(columns, columns=["age", "sex"], index=[MARK] * len(odd)),
        "one record": pd.DataFrame([RECORD]),
        "no record": pd.DataFrame({"age": [], "sex": [], MARK: []}),
    }


def outputs(call: Callable[[], object], kinds: tuple[type[Exception], ...]) -> str:
    """Return all that a call puts out: what it returns or raises, warns, logs and prints.

    Where it fails, it fails with an error of ours.
    """
    shown, printed, log = [], io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    with (
        warnings.catch_warnings(record=True) as warned,
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        warnings.simplefilter("always")
        try:
            returned = call()
            shown += [repr(returned), str(returned)]
            if isinstance(returned, pmw.Session):
                shown += [repr(returned.status()), repr(returned.ledger()), repr(returned.ask("age >= 50"))]
                returned.close()
        except kinds as error:
            shown += traceback.format_exception(error)
            shown += [repr(one) for one in (error, error.__cause__, error.__context__)]
            shown += [repr(error.args), repr(vars(error))]
        finally:
            logging.getLogger().removeHandler(handler)
    return "\n".join([*shown, *(str(one.message) for one in warned), printed.getvalue(), log.getvalue()])


def marks_in(text: str) -> list[str]:
    return [mark for mark in MARKS if mark in text]


OURS = (PMWError,)


# What takes true data: each argument that does, as a call.
TAKE_DATA: dict[str, tuple[Callable[[Any, Path], object], ...]] = {
    "pmw.fit_workload": (
        lambda table, _: pmw.fit_workload(table, DOMAIN, [("age",)], epsilon=1),
        lambda table, _: pmw.fit_workload(table, table, [("age",)], epsilon=1),
        lambda table, _: pmw.fit_workload(DOMAIN, table, [("age",)], epsilon=1),  # type: ignore[arg-type]
    ),
    "pmw.open_session": (
        lambda table, _: pmw.open_session(table, DOMAIN, epsilon=1),
        lambda table, path: pmw.open_session(table, DOMAIN, epsilon=1, path=path / "new.pmw"),
        lambda table, _: pmw.open_session(table, table, epsilon=1),
        lambda table, _: pmw.open_session(DOMAIN, table, epsilon=1),  # type: ignore[arg-type]
        lambda table, _: pmw.open_session(table, DOMAIN, epsilon=table),
    ),
    "pmw.synthesize": (
        lambda table, _: pmw.synthesize(table, DOMAIN, epsilon=1),
        lambda table, _: pmw.synthesize(table, table, epsilon=1),
        lambda table, _: pmw.synthesize(table, DOMAIN, epsilon=table),
    ),
    "pmw.move_session": (
        lambda table, path: pmw.move_session(path / "study.pmw", table),
        lambda table, path: pmw.move_session(path / "study.pmw", pmw.TableFile(table)),
    ),
    "pmw.plan_session": (
        lambda table, _: pmw.plan_session(table, records=100, epsilon=1),
        lambda table, _: pmw.plan_session(DOMAIN, records=table, epsilon=1),
    ),
    "pmw.resume_session": (lambda table, path: pmw.resume_session(path / "study.pmw", table),),
    "pmw.finalize_session": (lambda table, path: pmw.finalize_session(path / "study.pmw", table),),
    "pmw.MemoryLimit": (
        lambda table, _: pmw.MemoryLimit(table),
        lambda table, _: pmw.MemoryLimit(folder=table),
    ),
    "pmw.TableFile": (
        lambda table, _: pmw.TableFile(table),
        lambda table, _: pmw.TableFile(Path("people.csv"), table),
        lambda table, _: pmw.TableFile(Path("people.csv"), memory=table),
    ),
    "queries.CodedRecords": (
        lambda table, _: queries.CodedRecords(DOMAIN, (table, table)),
        lambda table, _: queries.CodedRecords(table, ()),
    ),
    "queries.decode_records": (lambda table, _: queries.decode_records(table, np.random.default_rng(1)),),
    "queries.encode_records": (
        lambda table, _: queries.encode_records(table, DOMAIN),
        lambda table, _: queries.encode_records(pd.DataFrame(), table),
    ),
    "queries.Histogram": (
        lambda table, _: queries.Histogram(DOMAIN, table),
        lambda table, _: queries.Histogram(table, np.zeros(1, dtype=np.int64)),
    ),
    "queries.Marginal": (
        lambda table, _: queries.Marginal(DOMAIN, ("age",), table),
        lambda table, _: queries.Marginal(table, ("age",), np.zeros(1, dtype=np.int64)),
    ),
}  # fmt: skip
# Questions, declarations, budgets, released values, session files, and tables that are public by declaration.
TAKE_NONE = """
pmw.Activity pmw.Analyst pmw.Answer pmw.Answers pmw.backup_session pmw.Booked pmw.Budget pmw.Check
pmw.connect pmw.Composition pmw.CsvDialect pmw.DatabaseTable pmw.Domain pmw.LinearQuery pmw.load_schema
pmw.Ledger pmw.LedgerLine pmw.load_model
pmw.ExpectedQuestions pmw.expected_questions pmw.ModelKind
pmw.NeighboringRelation pmw.Prior pmw.public_prior pmw.PublicModel pmw.Quote pmw.RemoteSession
pmw.OfflineOptions pmw.OfflineRelease pmw.Opening pmw.Options pmw.RowPlan pmw.Session pmw.SessionPlan
pmw.Sides pmw.Source pmw.SparseVectorKind pmw.Spent pmw.Status pmw.Synthesis
pmw.TestKind pmw.UpdateRule pmw.Verification pmw.verify_session
queries.all_marginals queries.all_ranges queries.Attribute queries.CategoricalAttribute queries.DateAttribute
queries.DatetimeAttribute queries.Domain
queries.Factor queries.format_schema queries.Impossible queries.IntegerAttribute queries.LinearQuery
queries.Lookup queries.TimeAttribute queries.load_schema
queries.marginal_cells queries.NumericAttribute queries.parities queries.parse_line
queries.parse_question queries.parse_schema queries.parse_sql queries.parse_where queries.parse_workload
queries.Person queries.popular_conjunctions queries.prefixes queries.Question queries.random_conjunctions
queries.rule_out queries.save_schema queries.Statement queries.UNITS queries.Workload
"""
CALLS = [(name, call) for name, calls in TAKE_DATA.items() for call in calls]
OPENING = [(name, call) for name, call in CALLS if name in ("pmw.fit_workload", "pmw.open_session")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a session in a file."""
    table = pd.DataFrame({"age": [30, 41], "sex": ["f", "m"]})
    pmw.open_session(table, DOMAIN, epsilon=1, path=tmp_path / "study.pmw").close()
    return tmp_path


def test_every_public_name_is_known_to_take_data_or_none() -> None:
    public = {
        f"{module.__name__}.{name}"
        for module in (pmw, queries)
        for name in (pmw._HOME_OF if module is pmw else module.__all__)
        if not (inspect.isclass(getattr(module, name)) and issubclass(getattr(module, name), Exception))
    }
    assert public == set(TAKE_DATA) | set(TAKE_NONE.split())
    assert not set(TAKE_DATA) & set(TAKE_NONE.split())


@pytest.mark.parametrize(("name", "call"), CALLS, ids=lambda value: value if isinstance(value, str) else "")
def test_nothing_of_what_is_no_table_is_shown(
    folder: Path, name: str, call: Callable[[Any, Path], object]
) -> None:
    for kind, thing in {**no_tables(), **wrong_frames()}.items():
        shown = outputs(lambda thing=thing: call(thing, folder), OURS)  # type: ignore[misc]
        assert marks_in(shown) == [], (name, kind, shown)
    assert not (folder / "new.pmw").exists()


@pytest.mark.parametrize(("name", "call"), OPENING, ids=lambda value: value if isinstance(value, str) else "")
def test_nothing_of_a_table_that_opens_is_shown(
    tmp_path: Path, name: str, call: Callable[[Any, Path], object]
) -> None:
    for kind, frame in frames().items():
        (tmp_path / "new.pmw").unlink(missing_ok=True)
        shown = outputs(lambda frame=frame: call(frame, tmp_path), OURS)  # type: ignore[misc]
        assert marks_in(shown) == [], (name, kind, shown)


def test_what_is_no_table_is_refused_by_its_type(folder: Path) -> None:
    calls = (
        lambda thing: pmw.open_session(thing, DOMAIN, epsilon=1),
        lambda thing: pmw.fit_workload(thing, DOMAIN, [("age",)], epsilon=1),
        lambda thing: pmw.resume_session(folder / "study.pmw", thing),
        lambda thing: pmw.finalize_session(folder / "study.pmw", thing),
    )
    for call in calls:
        for kind, thing in no_tables().items():
            with pytest.raises(DataError, match=r"expected .* of a CSV or Parquet file, got a ") as caught:
                call(thing)
            if kind not in ("text", "long line"):
                module, name = (
                    type.__dict__[one].__get__(type(thing)) for one in ("__module__", "__qualname__")
                )
                expected = name if module == "builtins" else f"{module}.{name}"
                assert f"got a {expected}; turn it into a pandas table" in str(caught.value)
    with pmw.resume_session(folder / "study.pmw") as session:
        assert not session.status().closed  # sealing it has not begun


@pytest.mark.parametrize("library", ["pyarrow", "polars", "duckdb"])
def test_nothing_of_a_table_of_another_library_is_shown(library: str) -> None:
    module = pytest.importorskip(library)
    for columns in (
        {"age": [NUMBER], "sex": [MARK]},
        {"age": [NUMBER], MARK: [MARK]},
        {"age": [[NUMBER]], "sex": [MARK]},
    ):
        if library == "pyarrow":
            table = module.table(columns)
        elif library == "polars":
            table = module.DataFrame(columns)
        else:
            table = module.from_df(pd.DataFrame(columns))
        for call in (
            lambda table=table: pmw.open_session(table, DOMAIN, epsilon=1),
            lambda table=table: pmw.fit_workload(table, DOMAIN, [("age",)], epsilon=1),
        ):
            assert marks_in(outputs(call, OURS)) == []


FILES = {
    "good.csv": f"age,sex\n{NUMBER},{MARK}\n30,f\n".encode(),
    "one record.csv": f"age,sex\n{NUMBER},f\n".encode(),
    "no record.csv": b"age,sex\n",
    "no header.csv": f"{NUMBER},{MARK}\n30,f\n".encode(),
    "header of one line.csv": f"age,{MARK}\n{NUMBER},f".encode(),
    "bytes.csv": b"age,sex\n" + MARK.encode() + b"\xff\xfe\0," + str(NUMBER).encode() + b"\n",
    "bytes in header.csv": b"age,sex," + MARK.encode() + b"\xff\n" + str(NUMBER).encode() + b"\n",
    "quotes.csv": f'age,sex\n"{NUMBER},{MARK}\n{MARK}"\n'.encode(),
    "no table.parquet": f"PAR1{NUMBER}{MARK}PAR1".encode(),
    "no table.csv.gz": f"{NUMBER},{MARK}".encode(),
}


@pytest.mark.parametrize("file", FILES)
def test_nothing_of_a_file_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path(file).write_bytes(FILES[file])
    queries.save_schema(DOMAIN, "people.toml")
    for call in (
        lambda: pmw.open_session(file, DOMAIN, epsilon=1),
        lambda: pmw.open_session(pmw.TableFile(Path(file)), DOMAIN, epsilon=1),
        lambda: pmw.fit_workload(Path(file), DOMAIN, [("age",)], epsilon=1),
    ):
        assert marks_in(outputs(call, OURS)) == []
    session = ("open", "study.pmw", "--data", file, "--schema", "people.toml", "--epsilon", "1")
    for command in (
        session,
        ("ask", "study.pmw", "age >= 50 AND sex = 'f'"),
        ("ask", "study.pmw", "SELECT age, COUNT(*) FROM people GROUP BY age"),
        ("status", "study.pmw"),
        ("ledger", "study.pmw"),
        ("report", "study.pmw", "-o", "report.html"),
        ("export", "study.pmw", "--output", "synthetic.csv"),
        ("export", "study.pmw", "--output", "measurements.json", "--format", "measurements"),
        ("verify", "study.pmw"),
        ("close", "study.pmw", "--yes"),
    ):
        result = CliRunner().invoke(main, command)
        raised = "" if result.exception is None else "".join(traceback.format_exception(result.exception))
        assert isinstance(result.exception, SystemExit | None), raised
        assert marks_in(result.output + raised) == [], (command, result.output)
    for made in (*tmp_path.glob("*.[cj]s*"), *tmp_path.glob("*.html")):
        assert made.name == file or marks_in(made.read_text(errors="replace")) == [], made


def test_a_check_shows_undeclared_values_to_the_custodian_and_nothing_of_an_unreadable_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    queries.save_schema(DOMAIN, "people.toml")
    for file, raw in FILES.items():
        Path(file).write_bytes(raw)
        result = CliRunner().invoke(main, ("check", "--data", file, "--schema", "people.toml"))
        assert isinstance(result.exception, SystemExit | None)
        if file == "good.csv":
            assert f"undeclared '{MARK}' (1)" in result.output  # what it is for
        if file in ("bytes in header.csv", "no table.parquet", "no table.csv.gz", "one record.csv"):
            assert marks_in(result.output) == []
