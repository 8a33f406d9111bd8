"""One table in every source: are marginals, answers and fingerprints the same, and how long is each read?

    python -m benchmarks.sources --data-dir FOLDER [--table adult] [--source pandas Spark]

Each table is written as CSV, compressed CSV, a Parquet folder and a DuckDB database, and held in pandas and,
where these are installed, in pyarrow, Polars and Spark; once without persons, once with made-up ids, at most
two records of each. Sessions are seeded, so that their answers can be compared digit by digit. A JSON line is
printed for each table and source. Its fingerprint stands apart: Spark and counting inside have their own.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import tempfile
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd

import pmw
from benchmarks.runner import parser, tell
from pmw.data import DatabaseTable, TableFile, as_source
from queries import CategoricalAttribute, Domain, IntegerAttribute, Person, random_conjunctions

_ATTRIBUTES = 12  # of each table, the first ones
_PARTS = 8  # files of a folder
_QUESTIONS = 200
_KEY = bytes(range(32))


def tables(folder: Path) -> Iterator[tuple[str, pd.DataFrame, Domain]]:
    """Yield the tables that are there: name, records, domain."""
    adult = pd.read_csv(folder / "adult.csv").iloc[:, :_ATTRIBUTES]
    yield (
        "adult",
        adult,
        Domain(tuple(IntegerAttribute(str(name), 0, int(adult[name].max())) for name in adult)),
    )
    census = json.loads((folder / "census_income_kdd.domain.json").read_text())
    listed = census["attributes"][:_ATTRIBUTES]
    names = [one["name"] for one in listed]
    coded = pd.read_csv(folder / "census_income_kdd.csv.gz", usecols=names)
    texts = pd.DataFrame(
        {one["name"]: pd.Series(one["values"])[coded[one["name"]]].to_numpy() for one in listed}
    )
    yield (
        "census_income_kdd",
        texts,
        Domain(tuple(CategoricalAttribute(one["name"], one["values"]) for one in listed)),
    )


def sources(frame: pd.DataFrame, folder: Path, *, persons: bool) -> Iterator[tuple[str, Any]]:
    """Yield the same records in every source that is here."""
    yield "pandas", frame
    for name in ("t.csv", "t.csv.gz"):
        frame.to_csv(folder / name, index=False)
        yield name.removeprefix("t."), TableFile(folder / name)
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.register("frame", frame)
        connection.execute("CREATE TABLE t AS FROM frame")
        (folder / "parts").mkdir()
        for part in range(_PARTS):
            file, rows = folder / "parts" / f"{part}.parquet", -(-len(frame) // _PARTS)
            connection.execute(
                f"COPY (FROM t LIMIT {rows} OFFSET {part * rows}) TO '{file}' (FORMAT parquet)"
            )
    yield "Parquet folder", TableFile(folder / "parts")
    yield "DuckDB database", DatabaseTable(f"duckdb:{folder / 't.duckdb'}", "t")
    if not persons:
        yield "DuckDB, counted inside", DatabaseTable(f"duckdb:{folder / 't.duckdb'}", "t", inside=True)
    yield "Parquet folder, in a file", TableFile(folder / "parts", memory=pmw.MemoryLimit(10**5))
    if all(importlib.util.find_spec(library) for library in ("pyspark", "pyarrow")):
        yield "Spark", DatabaseTable("spark:local[2]", f"parquet.{folder / 'parts'}")
    yield "DuckDB relation", duckdb.from_df(frame)
    for library in ("pyarrow", "polars"):
        try:
            module = importlib.import_module(library)
        except ImportError:
            continue
        if library == "pyarrow":
            yield "pyarrow", module.table(frame)
        else:
            held = module.DataFrame({str(name): frame[name].tolist() for name in frame})
            yield "Polars", held
            yield "Polars, lazy", held.lazy()


def seen(table: Any, domain: Domain) -> tuple[str, str, float]:
    """Return a hash of all marginals and answers, the fingerprint, and the seconds that reading took."""
    start = time.perf_counter()
    source = as_source(table, domain, None if domain.person is None else _KEY)
    seconds = time.perf_counter() - start
    digest = hashlib.sha256()
    scopes = [(name,) for name in domain.names] + list(combinations(domain.names, 2))
    source.prepare(scopes)
    for scope in scopes:
        digest.update(source.counts(scope).counts.tobytes())
    with pmw.open_session(
        source if domain.person is None else table, domain, epsilon=1, delta=1e-9, options=pmw.Options(seed=7)
    ) as session:
        for query in random_conjunctions(domain, _QUESTIONS, seed=3):
            digest.update(json.dumps(session.ask(query).to_dict()).encode())
    return digest.hexdigest()[:12], source.fingerprint(b"key").hex()[:12], seconds


def main() -> None:
    """Print a line for each table and source."""
    made = parser(__doc__, data=True)
    made.add_argument("--table", nargs="+", default=["adult", "census_income_kdd"])
    made.add_argument("--source", nargs="+", help="the first is what others are compared with; default: all")
    arguments = made.parse_args()
    for name, frame, domain in tables(arguments.data_dir):
        if name not in arguments.table:
            continue
        held = frame.assign(person=[place // 3 for place in range(len(frame))])
        for person in (None, Person("person", 2, ids="integer")):
            compare(name, held, Domain(domain.attributes, domain.name, person), arguments.source)


def compare(name: str, held: pd.DataFrame, domain: Domain, wanted: list[str] | None) -> None:
    """Print a line for each source of one table."""
    with tempfile.TemporaryDirectory() as folder:
        first = None
        for source, table in sources(held, Path(folder), persons=domain.person is not None):
            if wanted is not None and source not in wanted:
                continue
            digest, fingerprint, seconds = seen(table, domain)
            first = first or digest
            line = {
                "table": name, "persons": domain.person is not None, "records": len(held), "source": source,
                "same": digest == first, "digest": digest,
                "fingerprint": fingerprint, "read_s": round(seconds, 2),
            }  # fmt: skip
            tell(line)


if __name__ == "__main__":
    main()
