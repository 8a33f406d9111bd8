"""Pictures: what is told of letters that one cannot show."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

import click


@contextlib.contextmanager
def telling_letters() -> Iterator[None]:
    """Tell of letters that a picture does not show with one line on standard error."""
    from pmw.display.figures import MissingLettersWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MissingLettersWarning)
        yield
    for one in caught:
        if issubclass(one.category, MissingLettersWarning):
            click.echo(f"Note: {one.message}.", err=True)
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
