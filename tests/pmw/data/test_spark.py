"""Tables of Spark: the same cells, persons and counts as in memory, and nothing but counts leaves."""

from __future__ import annotations

import os
import shutil
from decimal import Decimal
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pmw
from pmw.data import DatabaseTable, as_source
from pmw.data.spark import SparkSource, spark_table
from pmw.errors import DataError
from queries import CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute, Person, rule_out
from tests.pmw.data.lines import KEY, TRYING

pytest.importorskip("pyspark", reason="Spark is not here: pip install '.[spark]'")
arrow = pytest.importorskip("pyarrow", reason="Spark is not here: pip install '.[spark]'")
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("Spark needs a Java 17 runtime", allow_module_level=True)
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # of pyspark: pandas 3 is new to it

ADDRESS = "spark:local[2]"
MIXED = Domain(
    (
        IntegerAttribute("age", 0, 99, 10, missing=True),
        CategoricalAttribute("Age", ("f", "m"), other=True),
        NumericAttribute("in`come", (0.0, 10.0, 20.5), missing=True),
    )
)
WIDE = Domain(
    (*MIXED.attributes[1:], IntegerAttribute("age", 0, 99, missing=True), IntegerAttribute("h", 0, 199))
)
SUMMED = Domain(
    (
        IntegerAttribute("age", 0, 99, 10, resolution=1, missing=True),
        MIXED["Age"],
        NumericAttribute("in`come", (0.0, 10.0, 20.5), resolution=0.1, missing=True),
    )
)
MOST, LEAST = 2**63 - 1, -(2**63)
# What Spark calls a type, and hostile values of it as Arrow holds them.
HOSTILE: dict[str, tuple[Any, list[Any]]] = {
    "string": (
        arrow.string(),
        ["20200229", "20210229", "2020-03-29T00:30:00Z", "", "f", "F", "f ", " 3", "03", "3.0", "0.5", "true",
         "1e999", "-1e999", "9" * 5000, "0x10", "1_000", "\u0663", "nan", "inf", "NULL", "a\x00b", "-0", "é",
         "2020-01-02", "3\t", None],
    ),
    "bigint": (arrow.int64(), [LEAST, LEAST + 1, -4, -1, 0, 3, 12, 13, 10**16, MOST - 1, MOST, None]),
    "tinyint": (arrow.int8(), [-128, -1, 0, 3, 127, None]),
    "double": (
        arrow.float64(),
        [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 0.1, 0.5, 3.0, 1e300, -1e300, 1e22, 5e-324,
         2.0**53, None],
    ),
    "float": (arrow.float32(), [float("nan"), float("inf"), -0.0, 0.1, 0.5, 3.0, 3e38, 1e-45, None]),
    "boolean": (arrow.bool_(), [True, False, None]),
    "decimal(38,2)": (
        arrow.decimal128(38, 2),
        [Decimal("9" * 36 + ".99"), Decimal("-" + "9" * 36 + ".99"), Decimal("0.10"), Decimal("3.00"),
         Decimal("-0.00"), Decimal("0.50"), None],
    ),
    "decimal(20,0)": (arrow.decimal128(20, 0), [Decimal(3), Decimal(2**64 - 1), None]),
    "binary": (arrow.binary(), [b"", b"f", b"\xff\xfe", b"\x00", b"3", None]),
    "date": (
        arrow.date32(),
        [-(2**31), -719163, -719162, 0, 18262, 18321, 18627, 2932896, 2932897, 2**31 - 1, None],
    ),
    "timestamp_ntz": (
        arrow.timestamp("us"),
        [LEAST, LEAST + 1, -62135596800000001, 0, 1577836800000000, 1603587600000000, 1609459199999999,
         253402300800000000, MOST, None],
    ),
    "timestamp": (
        arrow.timestamp("us", "UTC"),
        [LEAST, LEAST + 1, -62135596800000001, 0, 1577833200000000, 1603587600000000, 1609455600000000,
         253402300800000000, MOST, None],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def session() -> Any:
    """A session of Spark, as ours are, to make tables in."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(os.environ.get("TMPDIR", "/tmp"))  # noqa: S108 - any path: nothing is read
        with pytest.raises(DataError, match=r"expected a table, a view or parquet\.PATH"):
            spark_table(ADDRESS, f"parquet.{folder}/there is no such table")
        from pyspark.sql import SparkSession

        return SparkSession.builder.getOrCreate()  # the same process, with its usual settings


@pytest.fixture
def written(tmp_path: Path) -> Any:
    """A function that writes an Arrow table as Parquet files, and returns what Spark calls it."""
    import pyarrow.parquet

    def write(table: Any, files: int = 3) -> DatabaseTable:
        folder = tmp_path / "a table.parquet"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        rows = -(-len(table) // files) or 1
        for part in range(files):
            pyarrow.parquet.write_table(table.slice(part * rows, rows), folder / f"{part}.parquet")
        return DatabaseTable(ADDRESS, f"parquet.`{folder}`")

    return write


def mixed(records: int = 500) -> Any:
    draw = np.random.default_rng(3)
    age = draw.integers(-5, 120, records)
    return arrow.table(
        {
            "age": arrow.array(age, mask=draw.random(records) < 0.1),
            "Age": draw.choice(["f", "m", "x"], records),
            "more": [b"\xff"] * records,
            "in`come": arrow.array(draw.choice([-0.0, 5, 10, 15, np.nan, 1e9], records)),
            "h": draw.integers(0, 200, records),
            "id": draw.choice(["1", "01", " 1", "2", "", "7", "x"], records),
        }
    )


def same_counts(found: Any, expected: Any, domain: Domain) -> None:
    for scope in [(), *((name,) for name in domain.names), *combinations(domain.names, 2), domain.names]:
        np.testing.assert_array_equal(found.counts(scope).counts, expected.counts(scope).counts)
    for grid in domain.grids:
        for scope in [(grid.attribute,), domain.names]:
            for squared in (False, True)[: 1 if grid.clip is not None else 2]:
                sums = [one.place_sums(scope, grid.attribute, squared=squared) for one in (found, expected)]
                np.testing.assert_array_equal(sums[0].counts, sums[1].counts)


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_values_have_the_cells_that_they_have_in_memory(kind: str, written: Any) -> None:
    type_, values = HOSTILE[kind]
    if kind.startswith(("date", "timestamp")):
        column = arrow.array(values, type=arrow.int32() if kind == "date" else arrow.int64()).view(type_)
    else:
        column = arrow.array(values, type=type_)
    table = arrow.table({"x": column})
    place = written(table)
    assert place.kinds() == {"x": kind}
    for attribute in TRYING:
        domain = Domain((attribute,))
        expected = as_source(table, domain, None)
        assert expected.counts(("x",)).total == len(values)
        same_counts(as_source(place, domain, None), expected, domain)


@pytest.mark.parametrize("ids", ["text", "integer"])
@pytest.mark.parametrize("empty", ["drop", "person"])
@pytest.mark.parametrize(("limit", "declared"), [(1, MIXED), (3, MIXED), (3, SUMMED)])
def test_the_same_records_of_a_person_are_kept(
    written: Any, ids: Any, empty: Any, limit: int, declared: Domain
) -> None:
    table = mixed()
    domain = Domain(declared.attributes, person=Person("id", limit, ids=ids, empty=empty))
    expected = as_source(table.to_pandas(), domain, KEY)
    for files in (1, 7):
        same_counts(as_source(written(table, files), domain, KEY), expected, domain)


@pytest.mark.parametrize("person", [None, Person("id", 2)])
def test_impossible_records_are_dropped_as_in_memory(written: Any, person: Person | None) -> None:
    table = mixed()
    plain = Domain(SUMMED.attributes, person=person)
    domain = rule_out(plain, "age < 40 AND \"Age\" = 'f'", '"in`come" IS NULL AND age >= 80')
    expected = as_source(table.to_pandas(), domain, KEY)
    same_counts(as_source(written(table), domain, KEY), expected, domain)
    scope, everybody = ("age", "Age"), as_source(table.to_pandas(), plain, KEY)
    assert not expected.counts(scope).counts[:4, 0].any()
    assert everybody.counts(scope).counts[:4, 0].any()


@pytest.mark.parametrize("empty", ["drop", "person"])
def test_values_of_a_person_are_clipped_together_as_in_memory(written: Any, empty: Any) -> None:
    table = mixed()
    sums = []
    for most in ((), (("age", 70), ("in`come", 12.5))):
        domain = Domain(SUMMED.attributes, person=Person("id", 3, empty=empty, clips=most))
        expected = as_source(table.to_pandas(), domain, KEY)
        same_counts(as_source(written(table), domain, KEY), expected, domain)
        sums.append(expected.place_sums(("age",), "age").total)
    assert sums[1] < sums[0]


def test_texts_that_are_no_utf8_are_undeclared(session: Any) -> None:
    frame = session.range(1).selectExpr("CAST(X'FF' AS STRING) AS x")
    domain = Domain((CategoricalAttribute("x", ("a",), other=True),))
    assert as_source(frame, domain, None).counts(("x",)).counts.tolist() == [0, 1]


@pytest.mark.parametrize("records", [0, 1])
@pytest.mark.parametrize("person", [None, Person("id", 1)])
def test_a_table_of_one_record_or_none_opens(written: Any, records: int, person: Person | None) -> None:
    domain = Domain(MIXED.attributes, person=person)
    table = arrow.table({"age": [3], "Age": ["f"], "in`come": [1.0], "id": ["1"]}).slice(0, records)
    with pmw.open_session(written(table), domain, epsilon=1) as opened:
        assert opened.ask("Age = 'f'").count is not None


def test_a_batch_is_one_scan_whose_output_is_cells_and_counts(session: Any) -> None:
    source = as_source(session.createDataFrame(mixed()), MIXED, None)
    assert isinstance(source, SparkSource)
    scopes = [(), ("age",), ("Age", "in`come")]
    grouped = source.grouped([MIXED.scope(scope) for scope in scopes])
    assert grouped.dtypes == [("cell", "bigint"), ("count", "bigint")]
    plan = grouped._jdf.queryExecution().executedPlan().toString()
    assert plan.count("Scan ExistingRDD") == 1
    assert "HashAggregate(keys=[cell" in plan.split("Exchange")[0]
    assert not any(name in plan for name in (*MIXED.names, "MapInArrow"))
    calls: list[int] = []
    real = SparkSource.grouped

    def counted(one: SparkSource, scopes: Any) -> Any:
        calls.append(len(scopes))
        return real(one, scopes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkSource, "grouped", counted)
        source.prepare(scopes)
        same = as_source(mixed().to_pandas(), MIXED, None)
        for scope in scopes:
            np.testing.assert_array_equal(source.counts(scope).counts, same.counts(scope).counts)
    assert calls == [3]


def test_sums_are_one_scan_whose_output_is_cells_and_sums(session: Any) -> None:
    source = as_source(session.createDataFrame(mixed()), SUMMED, None)
    assert isinstance(source, SparkSource)
    summed = source.summed(("age",), SUMMED.grids[0])
    assert summed.dtypes == [("cell", "bigint"), ("sum(place)", "bigint")]
    plan = summed._jdf.queryExecution().executedPlan().toString()
    assert plan.count("Scan ExistingRDD") == 1
    assert "HashAggregate(keys=[cell" in plan.split("Exchange")[0]
    assert not any(name in plan for name in (*SUMMED.names, "MapInArrow"))
    with pytest.raises(DataError, match="the values of 'Age' are not summed"):
        source.place_sums(("Age",), "Age")


def test_bins_are_counted_as_in_memory(session: Any) -> None:
    coarse = Domain((IntegerAttribute("age", 0, 99, 50, resolution=1, missing=True), *SUMMED.attributes[1:]))
    bins: list[Any] = [np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2]), None, None]
    table = mixed()
    found, expected = (
        as_source(one, SUMMED, None).coarsened(coarse, bins)
        for one in (session.createDataFrame(table), table.to_pandas())
    )
    same_counts(found, expected, coarse)
    with pytest.raises(DataError, match="bins of them"):
        found.coarsened(coarse, bins)
    with pytest.raises(DataError, match="fit attribute 'age'"):
        as_source(session.createDataFrame(table), MIXED, None).coarsened(coarse, [bins[0] + 1, None, None])


@pytest.mark.parametrize("person", [None, Person("id", 2)])
def test_a_fingerprint_tells_tables_apart_in_any_order(written: Any, person: Person | None) -> None:
    domain, table = Domain(MIXED.attributes, person=person), mixed()

    def printed(one: Any, files: int = 3, key: bytes = b"key") -> bytes:
        return as_source(written(one, files), domain, KEY if person else None).fingerprint(key)

    first = printed(table)
    assert first == printed(table.take(np.random.default_rng(1).permutation(len(table))), 5)
    assert first != printed(table, key=b"other")
    assert first != printed(table.slice(0, len(table) - 1))
    assert first != printed(arrow.concat_tables([table, table.slice(len(table) - 1)]))
    kept = table.filter(arrow.compute.is_in(table["id"], value_set=arrow.array(["1", "2", "7"])))
    assert first != printed(kept)
    ids = table.column("id").to_pylist()
    other = table.set_column(
        table.schema.get_field_index("id"), "id", [["7" if one == "2" else one for one in ids]]
    )
    assert (first == printed(other)) is (person is None)
    older = table.set_column(
        0, "age", arrow.compute.add(table["age"], arrow.compute.equal(table["age"], 21).cast("int64"))
    )
    assert older != table
    assert first == printed(older)  # in the same cells
    summed = Domain(SUMMED.attributes, person=person)
    prints = [
        as_source(written(one), summed, KEY if person else None).fingerprint(b"key") for one in (table, older)
    ]
    assert len({first, *prints}) == 3


@pytest.mark.parametrize("person", [None, Person("id", 2)])
def test_a_seeded_session_answers_as_it_does_in_memory(session: Any, person: Person | None) -> None:
    domain, table = Domain(WIDE.attributes, person=person), mixed()
    answers = []
    for one in (table.to_pandas(), session.createDataFrame(table)):
        options = pmw.Options(seed=3, opening=pmw.Opening.ONE_WAY)
        with pmw.open_session(one, domain, epsilon=20, delta=1e-9, options=options) as opened:
            answers.append(
                [opened.ask("Age = 'f' AND age >= 50").to_dict(), opened.measure(["age", "h"]).to_dict()]
            )
    assert answers[0] == answers[1]


def test_a_session_resumes_and_refuses_a_changed_table(tmp_path: Path, written: Any) -> None:
    place, target = written(mixed()), tmp_path / "s.pmw"
    with pmw.open_session(place, WIDE, epsilon=20, path=target) as opened:
        opened.ask("Age = 'f'")
    with pmw.resume_session(target) as resumed:
        resumed.measure(["age", "h"])
    assert pmw.verify_session(target).holds
    written(mixed(499))
    with pmw.resume_session(target) as resumed, pytest.raises(DataError, match="differs from the one"):
        resumed.measure(["Age", "h"])


def test_errors_name_what_is_wrong_and_show_no_record(
    session: Any, written: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = written(mixed())
    with pytest.raises(DataError, match="one column 'absent', got no such column"):
        as_source(place, Domain((IntegerAttribute("absent", 0, 1),)), None)
    with pytest.raises(DataError, match="one column 'x', got it twice"):
        as_source(session.sql("SELECT 1 AS x, 2 AS x"), Domain((IntegerAttribute("x", 0, 1),)), None)
    with pytest.raises(DataError, match="column 'x', got a column of type array"):
        as_source(session.sql("SELECT array(1) AS x"), Domain((IntegerAttribute("x", 0, 1),)), None)
    failing = session.sql("SELECT CAST(x AS INT) AS x FROM VALUES ('secret') AS t(x)")
    with pytest.raises(DataError) as caught:
        as_source(failing, Domain((IntegerAttribute("x", 0, 1),)), None)
    assert "secret" not in str(caught.value) + "".join(capfd.readouterr())  # the library has a log of its own
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    for table in ("no such", "a.b.c", "no`such", f"parquet.{tmp_path}/none"):
        with pytest.raises(DataError, match=r"expected a table, a view or parquet\.PATH"):
            as_source(DatabaseTable(ADDRESS, table), MIXED, None)
    with pytest.raises(DataError, match="expected a key"):
        as_source(place, Domain(MIXED.attributes, person=Person("id", 1)), None)
    with pytest.raises(DataError, match="another Spark"):
        as_source(DatabaseTable("spark://127.0.0.1:1", "t"), MIXED, None)
    with pytest.raises(DataError, match="stay there"):
        list(place.parts(MIXED))
