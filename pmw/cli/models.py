"""Models in place of a session: the commands that read one."""

from __future__ import annotations

from pathlib import Path

import click

from pmw.cli.texts import json_line, say
from pmw.errors import ModelFileError
from pmw.session.public_model import PublicModel, load_model


def opened_model(path: Path, *, as_json: bool) -> PublicModel:
    """Return the model in a file; with ``as_json`` what is wrong with it is printed as an answer would be.

    Raises:
        ModelFileError: the file is no model, damaged, too large or of a later format.
        Exit: likewise, where the error was printed.
    """
    try:
        return load_model(path)
    except ModelFileError as error:
        if not as_json:
            raise
        say(json_line({"error": {"code": "bad_model", "message": str(error)}}))
        raise click.exceptions.Exit(5) from None
