"""The options that tell how much memory the records of a table may take."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pmw.cli.usage import wrong_values

if TYPE_CHECKING:
    from pmw.data import MemoryLimit

_Function = TypeVar("_Function", bound=Callable[..., Any])

_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?([kmgt]i?|)b", re.IGNORECASE)
_LEAST = 10**6  # bytes
_MOST = 10**15


def _size(_: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Return the bytes of a size such as 512MB or 4GiB, for click.

    Raises:
        BadParameter: it is none.
    """
    if value is None:
        return None
    written = _SIZE.fullmatch(value.strip())
    if written is None:
        raise click.BadParameter(f"expected a size such as 512MB or 4GB, got {value!r}", param=parameter)
    unit = written[2].lower()
    size = int(float(written[1]) * (1024 if unit.endswith("i") else 1000) ** " kmgt".index(unit[:1] or " "))
    if not _LEAST <= size <= _MOST:
        raise click.BadParameter(f"expected a size from 1MB to 1000TB, got {value!r}", param=parameter)
    return size


_OPTIONS = (
    click.option(
        "--memory",
        callback=_size,
        metavar="SIZE",
        help="Memory that the table's records may take, such as 4GB; beyond it they are kept in a file "
        "without a name. [default: half of the machine's]",
    ),
    click.option(
        "--temporary-folder",
        type=click.Path(path_type=Path),
        metavar="FOLDER",
        help="Where that file is made. [default: TMPDIR, or the system's]",
    ),
)


def memory_options(function: _Function) -> _Function:
    """Add the options that limit the memory of a command, and of its session."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def inside_option(function: _Function) -> _Function:
    """Add the option that leaves a database's records there."""
    return click.option(
        "--inside",
        is_flag=True,
        help="Count in the database, DuckDB or Postgres, and read no record; for columns of whole numbers, "
        "double precision, booleans and declared texts, without persons.",
    )(function)


def memory_given(given: dict[str, Any]) -> MemoryLimit | None:
    """Return the limit that the options tell; None where none of them is given.

    Raises:
        UsageError: the limit cannot be.
    """
    size, folder = given.get("memory"), given.get("temporary_folder")
    if size is None and folder is None:
        return None
    from pmw.data import MemoryLimit

    with wrong_values():
        return MemoryLimit(size, folder)
