"""How a CSV file is written."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from pmw.errors import DataError

_NO_CHARACTERS = "\r\n\x00\x1e\x1f"  # line ends, and what may stand for one


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


def _encoding_named(name: str) -> str:
    """Return the usual name of an encoding whose lines can be told apart byte by byte."""
    try:
        found = codecs.lookup(name)
        ascii_bytes = bytes(range(128))
        if found.name in ("utf-8", "utf-8-sig"):
            return "utf-8"
        if ascii_bytes.decode(name) == ascii_bytes.decode("ascii") and _is_bytewise(name):
            return found.name
    except (LookupError, UnicodeError, ValueError):
        pass
    raise DataError(
        f"expected utf-8, or an encoding of one byte a character such as latin-1 or cp1252, for encoding, "
        f"got {name!r}; convert the file to UTF-8"
    )


def _is_bytewise(encoding: str) -> bool:
    """Return whether each byte is one character or none, whatever stands beside it."""
    singles = [bytes([byte]).decode(encoding, "replace") for byte in range(256)]
    return all(len(single) == 1 for single in singles) and all(
        bytes([byte, 0x41]).decode(encoding, "replace") == single + "A" for byte, single in enumerate(singles)
    )
