"""Spark's sessions: where a table of a cluster, or of local mode, is found.

A session of Spark is made for one process, with a web page, a console and a log for nobody: these would quote
values. Nothing is downloaded. What its library raises is never passed on, for it may quote a record too.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pmw.display.texts import installed_by
from pmw.errors import DataError

_Result = TypeVar("_Result")

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
    """Return the master of an address: what Spark connects to.

    Raises:
        DataError: there is none; the message shows nothing of the address.
    """
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
        address: ``spark://HOST:PORT`` of a cluster, or ``spark:local[2]``.
        table: a table or view of the catalogue, or ``parquet.PATH`` of files that the cluster can read.

    Raises:
        DataError: the library, a Java runtime, the cluster or the table is absent.
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


def quietly(told: str, run: Callable[[], _Result]) -> _Result:
    """Return what calls of Spark give, without its warnings, and with our own words for what it raises.

    Raises:
        DataError: a call failed; the text is ``told``, and the error that it came from is not kept.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return run()
    except DataError:
        raise
    except Exception:  # noqa: BLE001 - a library, and the machine behind it, raise what they like
        failed = DataError(told)
    # Raised here, it does not keep the error that it came from: that may quote a record.
    raise failed


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
