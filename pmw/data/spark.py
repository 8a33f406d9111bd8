"""Tables of Spark: cells are made, bounded and counted where the table lives, and only counts are collected.

The workers encode the declared columns once (``pmw.data.spark_workers``). The words that they make are kept
by Spark, cut off from where they came from (``localCheckpoint``): all counts of a process are of one
snapshot, and where a part of it is lost a count fails. It is never read again from a table that may have
changed.

A session of Spark is made for one process, with a web page, a console and a log for nobody: these would quote
values. Nothing is downloaded. What its library raises is never passed on, for it may quote a record too.

Privacy: what leaves Spark is counts, and sums of values on their grids, over declared cells or bins of them,
    and the sums of keyed hashes that the fingerprint is made of.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import shutil
import socket
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmw.data.engine_columns import require_ids
from pmw.data.people import Bound, required_bound
from pmw.data.refusals import MAKE_A_VIEW, column_refusal, quietly, require_one_column
from pmw.data.source import Bins, CountSource
from pmw.data.spark_workers import HASHES, OWNER_COLUMNS, Layout, bounder, encoder, summer
from pmw.display.texts import installed_by
from pmw.errors import DataError
from queries.domain import Domain
from queries.numbers import ValueGrid
from queries.plain_values import type_name
from queries.schema import stored_schema

# Types whose every value the encoder reads; values of others may fail.
_READABLE = (
    "boolean", "byte", "short", "integer", "long", "float", "double", "decimal", "string", "char", "varchar",
    "binary", "date", "timestamp", "timestamp_ntz", "void",
)  # fmt: skip

_ADDRESS = "spark:"
_MASTER = re.compile(r"local(\[([0-9]+|\*)\])?|yarn|(spark|k8s://https?)://[A-Za-z0-9.\-]+(:[0-9]+)?")
_FILES = re.compile(r"parquet\.`?((?:/|[a-z0-9]+:/)[^`]+)`?", re.IGNORECASE)  # absolute, or an address
_PATIENCE = 10  # seconds
_SETTINGS = {
    "spark.ui.enabled": "false",  # its pages show plans to whoever reaches the port
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.jars.packages": "",  # nothing is downloaded
    "spark.sql.artifact.isolation.enabled": "false",
}
_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")  # of the library: they quote values
_LOCAL_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.warehouse.dir": tempfile.gettempdir(),  # else a folder is made where the command runs
}
# What a value is must depend on its column's type alone.
_SQL_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.runSQLOnFiles": "false",  # of other files types are guessed from values
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # else read off the names of folders
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",  # else old dates may fail
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}


def is_spark_address(text: str) -> bool:
    """Return whether a text begins as an address of Spark does."""
    return text.lower().startswith(_ADDRESS)


def require_master(address: str) -> str:
    """Return the master of an address: what Spark connects to."""
    rest = address[len(_ADDRESS) :]
    master = f"spark:{rest}" if rest.startswith("//") else rest
    if not _MASTER.fullmatch(master):
        raise DataError(
            "expected an address such as spark://host:7077, spark:local[2] or spark:yarn, got another"
        )
    return master


def spark_table(address: str, table: str) -> Any:
    """Return a table of Spark as its DataFrame; no record is read.

    Args:
        table: a table or view of the catalogue, or ``parquet.PATH`` of files that the cluster can read.
    """
    session, files = _session(address), _FILES.fullmatch(table)
    names = ["`" + name.replace("`", "``") + "`" for name in table.split(".")]
    return quietly(
        f"expected a table, a view or parquet.PATH that Spark can read at {address}, got {table!r}",
        lambda: session.table(".".join(names)) if files is None else session.read.parquet(files[1]),
    )


def spark_kinds(frame: Any) -> dict[str, str]:
    """Return the type of each column of a DataFrame by its name, in Spark's words."""
    return quietly(
        "the columns of the table could not be read by Spark",
        lambda: {str(name): str(kind) for name, kind in frame.dtypes},
    )


def _end_logs() -> None:
    """Have the library write down none of the errors that it raises."""
    from pyspark.logger import PySparkLogger  # late, and an extra

    for name in _LOGGERS:
        PySparkLogger.getLogger(name).disabled = True


def _session(address: str) -> Any:
    master = require_master(address)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pyarrow  # noqa: F401 - its batches are what the workers encode
            from pyspark import SparkContext  # late, and an extra
            from pyspark.sql import SparkSession
    except ImportError:
        raise DataError(f"Spark needs its library: {installed_by('spark')}") from None
    running = SparkContext._active_spark_context  # asking otherwise would start one
    if running is None:
        _require_java()
        _require_reachable(address, master)
    elif running.master != master:
        raise DataError(
            f"this process is connected to another Spark than {address}; use another process for that"
        )

    def connected() -> Any:
        session = _started(SparkSession.builder, master) if running is None else SparkSession(running)
        session = session.newSession()  # settings and names of its own
        for name, value in _SQL_SETTINGS.items():
            session.conf.set(name, value)
        if master.startswith("local"):  # 200 tasks for a shuffle are for clusters
            session.conf.set("spark.sql.shuffle.partitions", str(session.sparkContext.defaultParallelism))
        return session

    return quietly(f"{address}: Spark could not be started, or its cluster not be reached", connected)


def _started(builder: Any, master: str) -> Any:
    settings = {**_SETTINGS, **(_LOCAL_SETTINGS if master.startswith("local") else {})}
    builder = builder.master(master).appName("pmw")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _without_output(), _own_interpreter(master):
        return builder.getOrCreate()


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java") if not home else shutil.which(str(Path(home) / "bin" / "java"))
    if java is None:
        raise DataError("Spark needs a Java runtime, version 17 or later; install one, or set JAVA_HOME")


def _require_reachable(address: str, master: str) -> None:
    """Refuse a cluster whose master does not listen: Spark itself would try for minutes."""
    if not master.startswith("spark://"):
        return
    host, _, port = master.removeprefix("spark://").partition(":")
    try:
        socket.create_connection((host, int(port or 7077)), _PATIENCE).close()
    except (OSError, OverflowError):
        unreachable = DataError(f"{address}: no cluster of Spark could be reached there")
    else:
        return
    raise unreachable


@contextmanager
def _own_interpreter(master: str) -> Iterator[None]:
    """Let the workers of local mode run this interpreter, which finds this package."""
    name = "PYSPARK_PYTHON"
    if not master.startswith("local") or name in os.environ:
        yield
        return
    os.environ.update({name: sys.executable})
    try:
        yield
    finally:
        os.environ.pop(name)


@contextmanager
def _without_output() -> Iterator[None]:
    """Let the runtime that is started here write to nowhere for its whole life: its log quotes values."""
    kept = [os.dup(1), os.dup(2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)
        for one in (*kept, nowhere):
            os.close(one)


def is_spark_frame(table: object) -> bool:
    """Return whether a thing is a DataFrame of Spark, by its type alone; the library is not imported."""
    name = type_name(table)
    return name.startswith("pyspark.sql.") and name.endswith(".DataFrame")


class SparkSource(CountSource):
    """A table whose records stay in Spark.

    Args:
        words: a DataFrame of the cells of each kept record, and of the places of its values on grids, as
            ``Layout`` puts them.
        everyone: the same of all records before any person's were bounded, and whose they are.

    Privacy: holds true data. Its ``repr`` shows nothing, and it cannot be copied or pickled.
    """

    __slots__ = ("_everyone", "_prints", "_words")

    def __init__(
        self,
        words: Any,
        everyone: Any,
        domain: Domain,
        bound: Bound | None = None,
        binned: tuple[Domain, Bins] | None = None,
    ) -> None:
        super().__init__(domain, bound, binned)
        self._prints: dict[bytes, bytes] = {}  # by their keys
        self._words, self._everyone = words, everyone

    @classmethod
    def of(cls, frame: Any, domain: Domain, key: bytes | None, what: str) -> SparkSource:
        """Return the source of a DataFrame; its records are encoded here, once."""
        bound = required_bound(domain, key)
        quietly("Spark's log could not be ended", _end_logs)
        chosen = quietly(
            f"{what}: the columns of the table could not be read by Spark",
            lambda: _chosen(frame, domain, what),
        )
        return quietly(
            f"{what}: Spark could not read the table, or its workers lack this package",
            lambda: cls._encoded(chosen, domain, bound),
        )

    @classmethod
    def _encoded(cls, chosen: Any, domain: Domain, bound: Bound | None) -> SparkSource:
        words = [f"w{place} bigint" for place in range(Layout.of(domain.stored).words)]
        owners = [f"{name} bigint" for name in OWNER_COLUMNS] if bound else []
        key = None if bound is None else bound.key
        everyone = chosen.mapInArrow(encoder(domain, key), ", ".join(words + owners)).localCheckpoint()
        if bound is None:
            return cls(everyone, everyone, domain)
        # A fixed number of partitions: Spark never parts one of these again, so a person is in one alone.
        parts = int(chosen.sparkSession.conf.get("spark.sql.shuffle.partitions"))
        by_person = everyone.repartition(parts, *OWNER_COLUMNS[:2])
        stage = bounder(domain.stored, bound.records)
        bounded = by_person.mapInArrow(stage, ", ".join(words)).localCheckpoint()
        return cls(bounded, everyone, domain, bound)

    def fingerprint(self, key: bytes) -> bytes:
        """Return 32 bytes that tell this table from others to whoever knows the key (secret).

        HMAC-SHA-256 of the declared domain, the number of records, and the sums of keyed hashes of all of
        them, before any was left out, and of their ids: the order of records and how Spark parts them are no
        matter. It is another than a table in memory has.
        """
        if key in self._prints:
            return self._prints[key]
        digest = hmac.new(key, stored_schema(self.domain).encode(), hashlib.sha256)
        keys = hmac.new(key, b"records in spark", hashlib.sha512).hexdigest()
        chosen = [keys[16 * place : 16 * (place + 1)] for place in range(HASHES)]
        schema = ", ".join(f"s{place} bigint" for place in range(HASHES + 1))
        columns = len(self._everyone.columns)
        found = quietly(
            "Spark could not compare the table with the session's",
            lambda: self._everyone.mapInArrow(summer(columns, chosen), schema).toArrow(),
        )
        for place in range(HASHES + 1):
            total = found.column(place).to_numpy().view(np.uint64).sum(dtype=np.uint64)
            digest.update(int(total).to_bytes(8, "little"))
        self._prints[key] = digest.digest()
        return self._prints[key]

    def grouped(self, scopes: Sequence[tuple[str, ...]]) -> Any:
        """Return the DataFrame that is collected: the numbers of the cells that hold records, and counts.

        The cells of each scope are numbered behind those of the scope before it.
        """
        first, numbers = 0, []
        for scope in scopes:
            numbers.append(f"{self._cell(scope)} + {first}L")
            first += self.domain.scope_size(scope)
        cell = numbers[0] if len(numbers) == 1 else f"explode(array({', '.join(numbers)}))"
        return self._words.selectExpr(f"{cell} AS cell").groupBy("cell").count()

    def _count(self, scopes: Sequence[tuple[str, ...]]) -> list[NDArray[np.int64]]:
        sizes = [self.domain.scope_size(scope) for scope in scopes]
        found = quietly("Spark could not count the table", lambda: self.grouped(scopes).toArrow())
        counts = np.zeros(sum(sizes), dtype=np.int64)
        counts[found.column("cell").to_numpy()] = found.column("count").to_numpy()
        return np.split(counts, np.cumsum(sizes)[:-1])

    def _cell(self, scope: Sequence[str]) -> str:
        """Return the expression for the number of a record's cell; it is made of whole numbers of ours."""
        terms = ["0L"]
        for place, bin_, stride in self._strides(scope):
            code = self._code(place)
            if bin_ is not None:
                listed = ", ".join(f"{number}L" for number in bin_.tolist())
                code = f"get(array({listed}), CAST({code} AS INT))"
            terms.append(f"{code} * {stride}L")
        return " + ".join(terms)

    def _code(self, place: int) -> str:
        """Return the expression for a record's cell of an attribute of ``domain.stored``, by its place."""
        word, low, bits = Layout.of(self._declared.stored).places[place]
        return f"(shiftrightunsigned(w{word}, {low}) & {2**bits - 1}L)"

    def summed(self, scope: tuple[str, ...], grid: ValueGrid, squared: bool = False) -> Any:
        """Return the DataFrame that is collected: the numbers of the cells that hold records, and sums.

        A place is below 2^21, of values of persons that are clipped, else below 2^20 (``MOST_STEPS`` of
        ``queries.numbers``). So the sums of 2^42 records are below 2^63, where a long would wrap, or fail.
        """
        code = self._code(self._declared.stored.index(grid.name))
        number = grid.square_in_words(code, "div", "L") if squared else code
        place = f"IF({code} < {grid.base_size}L, {number}, 0L)"  # an empty or undeclared value adds nothing
        cells = self._words.selectExpr(f"{self._cell(scope)} AS cell", f"{place} AS place")
        return cells.groupBy("cell").sum("place")

    def _sum(self, scope: tuple[str, ...], grid: ValueGrid, squared: bool) -> NDArray[np.int64]:
        found = quietly("Spark could not sum the table", lambda: self.summed(scope, grid, squared).toArrow())
        sums = np.zeros(self.domain.scope_size(scope), dtype=np.int64)
        sums[found.column(0).to_numpy()] = found.column(1).to_numpy()
        return sums

    def _over(self, coarse: Domain, bins: Bins) -> SparkSource:
        return SparkSource(self._words, self._everyone, self._declared, None, (coarse, bins))


def _chosen(frame: Any, domain: Domain, what: str) -> Any:
    """Return the declared columns of a DataFrame, by their places: Spark may confuse A with a."""
    names, kinds = list(frame.schema.names), {}
    for name in domain.columns:
        require_one_column(what, name, names)
        kind = str(frame.schema.fields[names.index(name)].dataType.typeName())
        if kind not in _READABLE:
            raise column_refusal(what, name, f"a column of type {kind}", MAKE_A_VIEW)
        kinds[name] = kind
    require_ids(what, domain, kinds)
    placed = frame.toDF(*[f"c{place}" for place in range(len(names))])
    return placed.select(*[f"c{names.index(name)}" for name in domain.columns]).toDF(
        *[f"c{place}" for place in range(len(domain.columns))]
    )
