"""Tables of a database: read where they are, once, in one read-only query of the declared columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmw.data.duckdb_file import duckdb_kinds, duckdb_parts
from pmw.errors import DataError
from queries.domain import Domain
from queries.plain_values import type_name

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "DatabaseTable",
    "is_address",
]

_ADDRESS = re.compile(r"duckdb:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DatabaseTable:
    """A table, or a view, of a database.

    A view must keep the promise of the session: each of its rows depends on the rows of one person, and on
    tables that are public, alone, and none of its expressions can fail on a value.

    Args:
        address: ``duckdb:FILE``.
        table: its name, or ``schema.name``.

    Raises:
        DataError: the address is of no known kind, or the name is none.
    """

    address: str
    table: str

    def __post_init__(self) -> None:
        for name in ("address", "table"):
            value = getattr(self, name)
            if type(value) is not str:
                raise DataError(f"expected a text for {name}, got a {type_name(value)}")
            if not value or not value.isprintable():
                raise DataError(f"expected a printable text for {name}, got another")
        if not is_address(self.address):
            raise DataError("expected an address such as duckdb:people.duckdb, got another")
        if not all(self._names):
            raise DataError(f"expected the name of a table, or schema.name, got {self.table!r}")

    def __str__(self) -> str:
        return f"{self.table} in {self.address}"

    @property
    def _names(self) -> list[str]:
        return self.table.split(".")

    @property
    def _file(self) -> Path:
        return Path(self.address.partition(":")[2])

    @property
    def files(self) -> list[Path]:
        """The files that it is read from, as far as they are known."""
        return [self._file]

    def kinds(self) -> dict[str, str]:
        """Return the type of each column by its name, in the words of the database.

        Raises:
            DataError: the table is absent or unreadable.
        """
        return duckdb_kinds(self._file, self._names)

    def frames(self, domain: Domain) -> Iterator[pd.DataFrame]:
        """Yield the records part by part, declared columns only.

        Raises:
            DataError: the table is absent or unreadable, lacks a declared column, or one is of a type that is
                refused.

        Privacy: true records; they stay in this room.
        """
        return duckdb_parts(self._file, self._names, domain)

    def to_dict(self) -> dict[str, Any]:
        """Return a form ready for JSON, with the absolute path of a file."""
        return {"database": f"duckdb:{self._file.absolute()}", "table": self.table}

    @classmethod
    def from_dict(cls, form: dict[str, Any]) -> DatabaseTable:
        """Return the table of a form."""
        return cls(form["database"], form["table"])


def is_address(text: str) -> bool:
    """Return whether a text is the address of a database, and no name of a file."""
    return _ADDRESS.match(text) is not None
