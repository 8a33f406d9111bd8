"""Errors of the ``pmw`` package.

    PMWError                                the class ``queries.QueriesError``: one tree for both packages
    ├── DomainError, SchemaError, RecordsError, ScopeError, QueryError (ValueError)
    │   │                                   what ``queries`` refuses; see ``queries.errors``
    │   └── PriceError                      a price above what may be charged for what was asked
    ├── BudgetError (ValueError)            a budget, scale or option that cannot be
    ├── BudgetExhaustedError (RuntimeError) a charge that no longer fits under the cap
    ├── NoiseError (ValueError)             a noise scale or a source of bits that is not allowed
    ├── DataError (ValueError)              a table that cannot be read or is not the session's
    ├── SessionError (RuntimeError)         a session that cannot be opened, asked or copied
    │   ├── SessionExistsError              opening over an existing session
    │   ├── SessionLockedError              another process holds the session
    │   └── SessionCorruptError             a file that is no session, or a damaged or newer one
    ├── StoreError (OSError)                the session file could not be written
    ├── ModelFileError (ValueError)         a file that is no model, or a damaged or newer one
    ├── ReleaseError (ValueError)           an export that cannot be written
    └── ServiceError (RuntimeError)         a service or its users that cannot be, or a request it refuses

Whether and how an error is raised depends on questions, parameters and public state, never on records;
texts of drivers and engines are replaced by our own.
"""

from __future__ import annotations

from queries.errors import QueriesError, QueryError

PMWError = QueriesError  # so that one ``except`` catches a refused question too


class BudgetError(PMWError, ValueError):
    """A budget, a scale or an option that cannot be."""


class BudgetExhaustedError(PMWError, RuntimeError):
    """A charge that no longer fits under the cap."""


class PriceError(QueryError):
    """A price above what may be charged for what was asked; nothing was drawn.

    Args:
        message: what was expected, what came, what to do next.
        price: the most that it could charge, as a part of the cap.
    """

    def __init__(self, message: str, *, price: float = 1.0, code: str = "not_paid") -> None:
        super().__init__(message, code=code)
        self.price = price

    def to_dict(self) -> dict[str, str | int | float | None]:
        """Return the error object of the answer format, with the price."""
        return {**super().to_dict(), "price": self.price}


class NoiseError(PMWError, ValueError):
    """A noise scale or a source of bits that is not allowed here."""


class DataError(PMWError, ValueError):
    """A table that cannot be read, or that is not the session's table."""


class SessionError(PMWError, RuntimeError):
    """A session that cannot be opened, asked or copied."""


class SessionExistsError(SessionError):
    """Opening over an existing session."""


class SessionLockedError(SessionError):
    """Another process holds the session."""


class SessionCorruptError(SessionError):
    """A file that is no session, or that is damaged or of another format."""


class StoreError(PMWError, OSError):
    """The session file could not be written; nothing was released. ``strerror`` may tell why."""


class ModelFileError(PMWError, ValueError):
    """A file that is no model, or that is damaged or of another format."""


class ReleaseError(PMWError, ValueError):
    """An export that cannot be written."""


class ServiceError(PMWError, RuntimeError):
    """A service, or a file of users, that cannot be used; or a request that a service refuses.

    Args:
        message: what was expected, what came, what to do next.
        status: of the HTTP response; None where there was none.
    """

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
