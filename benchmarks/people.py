"""People: what bounding the records of each person takes, beside reading the table without it.

``python -m benchmarks.people`` writes a made-up table of 10 million records of a million persons, reads it
with and without a column of ids, each in a process of its own, and prints one line of JSON for each: seconds,
processor seconds, the most memory, and the records kept. Ids are whole numbers or texts. A last line
compares.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pmw.data import read_file
from queries import CategoricalAttribute, Domain, IntegerAttribute, NumericAttribute
from queries.person import Person

_ATTRIBUTES = (
    IntegerAttribute("age", 17, 90),
    CategoricalAttribute("sex", ("f", "m")),
    NumericAttribute("income", tuple(float(edge) for edge in range(0, 100_001, 10_000))),
    CategoricalAttribute("region", tuple(f"r{place}" for place in range(20))),
)
_KEY = bytes(32)
_IDS = {"whole numbers": "person", "texts": "'P' || lpad(person::VARCHAR, 9, '0')"}


def write_table(path: Path, records: int, persons: int, ids: str) -> None:
    """Write a table whose records belong to persons evenly at random."""
    import duckdb

    table = (
        f"SELECT {ids} AS person, age, sex, income, region"  # noqa: S608 - our own texts
        f" FROM (SELECT (hash(i) % {persons})::BIGINT AS person,"
        " (17 + hash(i + 1) % 74)::INTEGER AS age,"
        " CASE WHEN hash(i + 2) % 2 = 0 THEN 'f' ELSE 'm' END AS sex,"
        " (hash(i + 3) % 100000)::DOUBLE AS income, 'r' || (hash(i + 4) % 20) AS region"
        f" FROM range({records}) t(i))"
    )
    with duckdb.connect(":memory:") as engine:
        engine.execute(f"COPY ({table}) TO '{path}'")


def measure(path: Path, limit: int) -> dict[str, Any]:
    """Read a table in this process; ``limit`` 0 reads it without its ids."""
    domain = Domain(_ATTRIBUTES, person=Person("person", limit) if limit else None)
    wall, processor = time.perf_counter(), time.process_time()
    source = read_file(path, domain, None, _KEY if limit else None)
    return {
        "seconds": round(time.perf_counter() - wall, 2),
        "processor_seconds": round(time.process_time() - processor, 2),
        "most_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "kept": source.counts(()).total,
    }


def measured_apart(path: Path, limit: int) -> dict[str, Any]:
    """Return what ``measure`` returns in a new process."""
    arguments = [sys.executable, "-m", "benchmarks.people", "--measure", str(path), "--limit", str(limit)]
    found = subprocess.run(arguments, check=True, capture_output=True, text=True)  # noqa: S603 - our own module
    result: dict[str, Any] = json.loads(found.stdout)
    return result


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--persons", type=int, default=1_000_000)
    parser.add_argument("--limit", type=int, default=8, help="records per person")
    parser.add_argument("--repeats", type=int, default=3, help="the least of so many counts")
    parser.add_argument("--kinds", nargs="*", default=["parquet"], choices=["parquet", "csv"])
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure is not None:
        print(json.dumps(measure(given.measure, given.limit)))
        return
    with tempfile.TemporaryDirectory() as folder:
        for kind in given.kinds:
            for name, ids in _IDS.items():
                path = Path(folder) / f"table.{kind}"
                write_table(path, given.records, given.persons, ids)
                lines = {}
                for limit in (0, given.limit):
                    runs = [measured_apart(path, limit) for _ in range(given.repeats)]
                    lines[limit] = min(runs, key=lambda run: run["processor_seconds"])
                    print(json.dumps({"file": kind, "ids": name, "limit": limit, **lines[limit]}), flush=True)
                ratios = {
                    f"{key}_ratio": round(lines[given.limit][key] / max(lines[0][key], 1e-9), 2)
                    for key in ("seconds", "processor_seconds")
                }
                print(json.dumps({"file": kind, "ids": name, **ratios}), flush=True)


if __name__ == "__main__":
    main()
