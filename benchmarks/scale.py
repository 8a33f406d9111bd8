"""Scale benchmark: opening a session on ever larger tables, and measuring, beside the engine's own counts.

    python -m benchmarks.scale [--records 100000 1000000 ...] [--source parquet duckdb] [--postgres URL]
        [--memory BYTES] [--persons]

prints one JSON line per number of records and source, each in a process of its own: CPU seconds, seconds and
peak memory of opening and of 20 measurements, bytes per record, and one count over three attributes beside
DuckDB's own ``GROUP BY`` over the same source. The table has ten attributes of a census, made up by DuckDB,
with a fixed seed, so that what is shown may be shown. With ``--postgres`` its owner's address, the table
``pmw_scale`` is written there, and dropped at the end. Of Spark, seconds tell more than CPU
seconds and memory, which are without those of its own processes. With ``--memory`` cells beyond so many
bytes go to a file, and with ``--persons`` three records on average share an id, of which two are kept.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb

import pmw
from benchmarks.runner import alone, parser, tell
from pmw.data import DatabaseTable, TableFile, as_source
from queries import CategoricalAttribute, Domain, IntegerAttribute, Person

_MEASUREMENTS = 20
_COUNTED = ("age", "sex", "state")
_MOST_HELD = 10**7  # records of a pandas table, and of one in Postgres
_DOMAIN = Domain(
    (
        IntegerAttribute("age", 17, 90),
        CategoricalAttribute("sex", ("F", "M")),
        IntegerAttribute("state", 0, 50),
        IntegerAttribute("edu", 0, 15),
        CategoricalAttribute("income", ("a", "b", "c", "d", "e")),
        IntegerAttribute("hours", 0, 99),
        CategoricalAttribute("marital", ("never", "married", "divorced", "widowed")),
        CategoricalAttribute("citizen", (True, False)),
        IntegerAttribute("race", 0, 8),
        IntegerAttribute("year", 2000, 2019),
    ),
    name="census",
)
_COLUMNS = """
    (17 + floor(74 * random() * random()))::SMALLINT AS age,
    CASE WHEN random() < .5 THEN 'F' ELSE 'M' END AS sex,
    floor(51 * random() * random())::SMALLINT AS state, floor(16 * random())::TINYINT AS edu,
    ['a', 'b', 'c', 'd', 'e'][1 + floor(5 * random() * random())::INT] AS income,
    floor(100 * random() * random())::SMALLINT AS hours,
    ['never', 'married', 'divorced', 'widowed'][1 + floor(4 * random())::INT] AS marital,
    (random() < .1) AS citizen, floor(9 * random())::TINYINT AS race,
    (2000 + floor(20 * random()))::SMALLINT AS "year"
"""


def main() -> None:
    """Run the benchmark that the arguments describe."""
    made = parser(__doc__)
    made.add_argument("--records", type=int, nargs="+", default=[10**5, 10**6, 8 * 10**6, 10**8])
    made.add_argument("--source", nargs="+", default=["parquet", "duckdb", "pandas"])
    made.add_argument("--postgres", help="address of a database, as its owner")
    made.add_argument("--folder", help="where the tables are written for a while")
    made.add_argument("--memory", type=int, help="bytes that cells may take; default: the usual limit")
    made.add_argument("--persons", action="store_true", help="bound the records of each id")
    arguments = made.parse_args()
    for records in arguments.records:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            for source, table in _tables(Path(folder), records, arguments):
                measured = alone(_measured, _limited(table, arguments.memory), source, arguments.persons)
                asked = {"memory": arguments.memory, "persons": arguments.persons}
                tell({"source": source, "records": records, **asked, **measured})


def _limited(table: Any, memory: int | None) -> Any:
    """Return a table whose records may take so much memory; one of pandas takes what it takes."""
    if memory is None or isinstance(table, Path):
        return table
    limit = pmw.MemoryLimit(memory)
    return TableFile(Path(table), memory=limit) if isinstance(table, str) else replace(table, memory=limit)


def _tables(folder: Path, records: int, arguments: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """Yield the table in each source that is asked for."""
    file, database = folder / "t.parquet", folder / "t.duckdb"
    with duckdb.connect() as connection:
        connection.execute("SET threads = 2; SET preserve_insertion_order = false; SELECT setseed(0.3)")
        ids = f", floor({records} / 3 * random())::BIGINT AS person" if arguments.persons else ""
        made = f"SELECT {_COLUMNS}{ids} FROM range({records})"  # noqa: S608 - our own text
        connection.execute(f"COPY ({made}) TO '{file}' (FORMAT parquet)")
    if {"duckdb", "inside"}.intersection(arguments.source):
        with duckdb.connect(str(database)) as connection:
            connection.execute(f"CREATE TABLE t AS FROM '{file}'")
    tables = {
        "parquet": str(file),
        "duckdb": DatabaseTable(f"duckdb:{database}", "t"),
        "inside": DatabaseTable(f"duckdb:{database}", "t", inside=True),
        "spark": DatabaseTable("spark:local[2]", f"parquet.{file}"),
        "pandas": file if records <= _MOST_HELD else None,
    }
    for name, table in tables.items():
        if name in arguments.source and table is not None:
            yield name, table
    if arguments.postgres is not None and records <= _MOST_HELD:
        yield from _in_postgres(file, arguments.postgres)


def _in_postgres(file: Path, address: str) -> Iterator[tuple[str, Any]]:
    import psycopg  # an extra

    with psycopg.connect(address, autocommit=True) as connection, duckdb.connect() as engine:
        connection.execute("DROP TABLE IF EXISTS pmw_scale")
        connection.execute(
            "CREATE TABLE pmw_scale (age smallint, sex text, state smallint, edu smallint, income text, "
            'hours smallint, marital text, citizen boolean, race smallint, "year" smallint)'
        )
        written = file.with_suffix(".csv")
        engine.execute(f"COPY (FROM '{file}') TO '{written}' (HEADER false)")
        with (
            connection.cursor().copy("COPY pmw_scale FROM STDIN (FORMAT csv)") as copy,
            written.open("rb") as rows,
        ):
            while part := rows.read(2**20):
                copy.write(part)
        try:
            yield "postgres", DatabaseTable(address, "pmw_scale")
            yield "postgres inside", DatabaseTable(address, "pmw_scale", inside=True)
        finally:
            connection.execute("DROP TABLE pmw_scale")


def _measured(table: Any, source: str, persons: bool) -> dict[str, object]:
    held: Any = table
    domain = replace(_DOMAIN, person=Person("person", 2, ids="integer")) if persons else _DOMAIN
    if source == "pandas":
        held = duckdb.read_parquet(str(table)).df()
    options = pmw.Options(seed=1, records_per_person=2 if persons else 1)
    start = _now()
    session = pmw.open_session(held, domain, epsilon=1, delta=1e-9, options=options)
    opened = _now()
    with closing(session):
        for pair in list(combinations(_DOMAIN.names, 2))[:_MEASUREMENTS]:
            session.measure(pair)
    done = _now()
    line: dict[str, object] = {
        "open_cpu_s": round(opened[0] - start[0], 2),
        "open_s": round(opened[1] - start[1], 2),
        "measure_cpu_s": round(done[0] - opened[0], 2),
        "measure_s": round(done[1] - opened[1], 2),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    alone = persons or source in ("pandas", "postgres", "postgres inside", "spark", "inside")
    return line if alone else {**line, **_counts(table)}


def _counts(table: Any) -> dict[str, object]:
    """Return CPU seconds of one count over three attributes, here and by DuckDB."""
    source = as_source(table, _DOMAIN, None)
    start = _now()
    counts = source.counts(_COUNTED).counts
    own = _now()
    names = ", ".join(_COUNTED)
    if not isinstance(table, DatabaseTable):
        connected, stored = duckdb.connect(), f"'{table}'"
    else:
        connected, stored = duckdb.connect(table.address.partition(":")[2], read_only=True), table.table
    with connected as engine:
        engine.execute("SET threads = 1")
        before = _now()
        grouped = f"SELECT {names}, count(*) FROM {stored} GROUP BY {names}"  # noqa: S608 - our own names
        groups = engine.execute(grouped).fetchall()
        after = _now()
    if sum(group[-1] for group in groups) != counts.sum():
        raise RuntimeError("the engine counted other records")
    return {"count_cpu_s": round(own[0] - start[0], 3), "engine_count_cpu_s": round(after[0] - before[0], 3)}


def _now() -> tuple[float, float]:
    return time.process_time(), time.perf_counter()


if __name__ == "__main__":
    main()
