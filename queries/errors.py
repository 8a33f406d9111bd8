"""Errors of the ``queries`` package.

    QueriesError
    ├── DomainError (ValueError)      an attribute or a domain that cannot be
    ├── SchemaError (ValueError)      a schema file that does not describe a domain
    ├── RecordsError (ValueError)     a table without the declared columns
    ├── ScopeError (ValueError)       arrays or scopes that do not fit each other
    └── QueryError (ValueError)       a question that is refused; has ``code`` and ``position``

Every message says what was expected, what came and what to do next. No message depends on a record:
these errors are raised from declarations and questions only.
"""

from __future__ import annotations

from functools import partial


class QueriesError(Exception):
    """Base of all errors of this package, and of every package that answers its questions."""


class DomainError(QueriesError, ValueError):
    """An attribute or a domain that cannot be; the message names the attribute and the key of a schema."""


class SchemaError(QueriesError, ValueError):
    """A schema file that does not describe a domain.

    Args:
        message: what was expected, what came, what to do next.
        line: where, from 1; None where the text is TOML, and the message names an attribute and a key.
        path: the file; None for a text.

    Attributes:
        message: the message without its place.
        line: the line, or None.
    """

    def __init__(self, message: str, *, line: int | None = None, path: str | None = None) -> None:
        places = [*([] if path is None else [path]), *([] if line is None else [f"line {line}"])]
        super().__init__(": ".join([*([", ".join(places)] if places else []), message]))
        self.message = message
        self.line = line


class RecordsError(QueriesError, ValueError):
    """A table that lacks a declared column."""


class ScopeError(QueriesError, ValueError):
    """Arrays, scopes or domains that do not fit each other."""


class QueryError(QueriesError, ValueError):
    """A question that is refused.

    Args:
        message: what was expected, what came, what to do next.
        code: one of ``syntax``, ``unsupported``, ``unknown_table``, ``unknown_attribute``,
            ``unknown_value``, ``wrong_kind``, ``empty_range``, ``unaligned``, ``too_long``, ``too_large``,
            ``bad_request``.
        position: a character offset into the text (from 0), or a path such as ``where.age.between``
            into a structured question; None where there is none.

    Attributes:
        text: the text that ``position`` counts in; None where there is none.
        construct: what of SQL is not supported, in its words; None where something else is wrong.
        instead: a statement that tells the same; None where none is known.
    """

    def __init__(self, message: str, *, code: str, position: int | str | None = None) -> None:
        message = _encodable(message)
        super().__init__(message)
        self.message = message
        self.code = code
        self.position = _encodable(position) if isinstance(position, str) else position
        self.text: str | None = None
        self.construct: str | None = None
        self.instead: str | None = None

    def __reduce__(self) -> tuple[object, ...]:
        # Else it could not come back from a process of its own: ``code`` is no positional argument.
        return partial(type(self), code=self.code), (self.message,), self.__dict__

    def to_dict(self) -> dict[str, str | int | float | None]:
        """Return the error object of the answer format: code, message and position."""
        return {"code": self.code, "message": self.message, "position": self.position}


def _encodable(text: str) -> str:
    """Return a text with what a question may hold and no file can, a part of a letter, in words."""
    return text.encode(errors="backslashreplace").decode()
