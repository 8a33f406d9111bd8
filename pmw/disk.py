"""The disk: files are written whole or not at all, and made to last, and how CSV files are written."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pmw.errors import DataError, ReleaseError
from queries.frozen import dataclass

_NO_CHARACTERS = "\r\n\x00\x1e\x1f"  # line ends, and what may stand for one


def synchronise(path: Path) -> None:
    """Make what was done to a file, or to the names in a folder, last; nothing where there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def require_file(path: Path, *, force: bool) -> None:
    """Refuse a file that cannot or must not be written."""
    if not path.name or path.is_dir():
        raise ReleaseError(f"expected a file to write, got the folder {path}")
    if path.exists() and not force:
        raise ReleaseError(f"{path} exists; choose another name, or overwrite it with --force")


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file whole or not at all, whatever happens to the machine meanwhile."""
    temporary = path.with_name(path.name + ".partial")
    try:
        write(temporary)
        synchronise(temporary)
        os.replace(temporary, path)
        with contextlib.suppress(OSError):  # some file systems cannot
            synchronise(path.parent)
    except OSError as error:
        raise ReleaseError(f"{path}: the file cannot be written: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def write_json(path: Path, form: dict[str, Any]) -> None:
    """Write a form as a file of JSON, whole or not at all."""
    text = json.dumps(form, indent=2, ensure_ascii=False) + "\n"
    write_whole(path, lambda target: target.write_text(text, encoding="utf-8", newline=""))


@dataclass(frozen=True, slots=True)
class CsvDialect:
    r"""How a CSV file is written. The first line names the columns.

    Args:
        delimiter: one character between fields.
        quote: one character around fields that hold a delimiter; doubled inside such a field. An empty text
            where no character quotes.
        missing_texts: texts that count as empty, besides the empty text.
        trim: drop spaces and tabs around each field.
        encoding: the name of UTF-8, or of an encoding in which each character is one byte, and ASCII's are
            what they are in ASCII, such as ``latin-1`` or ``cp1252``.
        decimal: the character before the fraction of a number: ``.`` or ``,``.
        escape: one character that takes away the meaning of the next, such as a backslash; an empty text
            where none does.

    Raises:
        DataError: a character is none, two are the same, or the encoding is no such encoding.
    """

    delimiter: str = ","
    quote: str = '"'
    missing_texts: tuple[str, ...] = ()
    trim: bool = False
    encoding: str = "utf-8"
    decimal: str = "."
    escape: str = ""

    def __post_init__(self) -> None:
        for name in ("delimiter", "quote", "escape"):
            value = getattr(self, name)
            if value == "" and name != "delimiter":
                continue
            if len(value) != 1 or value in _NO_CHARACTERS or not value.isascii():
                raise DataError(f"expected one ASCII character for {name}, got {value!r}")
        for one, other in (("delimiter", "quote"), ("delimiter", "escape"), ("quote", "escape")):
            if getattr(self, one) == getattr(self, other) != "":
                raise DataError(f"expected different {one} and {other}, got {getattr(self, one)!r} twice")
        if self.decimal not in (".", ","):
            raise DataError(f"expected '.' or ',' for decimal, got {self.decimal!r}")
        object.__setattr__(self, "encoding", _encoding_named(self.encoding))

    @property
    def format(self) -> dict[str, Any]:
        """The same for readers and writers of the standard library."""
        import csv  # late: an answer needs none of it

        quoting = csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE
        form = {"delimiter": self.delimiter, "quotechar": self.quote or None, "quoting": quoting}
        return {**form, "escapechar": self.escape or None}

    @property
    def unusual(self) -> dict[str, Any]:
        """What differs from a file with commas, double quotes, points and UTF-8, by the names above."""
        usual = asdict(CsvDialect())
        return {name: value for name, value in asdict(self).items() if value != usual[name]}


def _encoding_named(name: str) -> str:
    """Return the usual name of an encoding whose lines can be told apart byte by byte."""
    try:
        found = codecs.lookup(name)
        if found.name in ("utf-8", "utf-8-sig"):
            return "utf-8"
        if bytes(range(128)).decode(name) == bytes(range(128)).decode("ascii"):
            singles = [bytes([byte]).decode(name, "replace") for byte in range(256)]
            doubles = [bytes([byte, 0x41]).decode(name, "replace") for byte in range(256)]
            # Each byte is one character or none, whatever stands beside it.
            if set(map(len, singles)) == {1} and doubles == [f"{single}A" for single in singles]:
                return found.name
    except (LookupError, UnicodeError, ValueError):
        pass
    raise DataError(
        f"expected utf-8, or an encoding of one byte a character such as latin-1 or cp1252, for encoding, "
        f"got {name!r}; convert the file to UTF-8"
    )
