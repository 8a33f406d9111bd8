"""Damage: what cannot be read of a session file, in one error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pmw.errors import SessionCorruptError
from pmw.public.codec import FormError

# What a damaged text makes of its readers.
_FAULTS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)


@contextmanager
def damage_is_one_error() -> Iterator[None]:
    """Say of whatever cannot be read that the session file is damaged.

    Raises:
        SessionCorruptError: what is done meanwhile fails, for what it reads is not as it was written.
    """
    try:
        yield
    except FormError as error:  # it names fields of ours, and no value
        raise SessionCorruptError(f"the session file is damaged: {error}") from None
    except _FAULTS as error:
        raise SessionCorruptError(f"the session file is damaged: {type(error).__name__}") from None
