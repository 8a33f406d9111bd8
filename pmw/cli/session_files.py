"""Sessions that commands open: in a file, of a service or a model; and what must not be written over."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from pmw.cli.usage import PATH, echo, finite, json_line, option, wrong_values

if TYPE_CHECKING:
    from pmw.service.client import RemoteSession
    from pmw.session.asking import Asking
    from pmw.session.public_model import PublicModel
    from pmw.session.session import Session

_Result = TypeVar("_Result")
wait_option = option(
    "--wait SECONDS",
    "How long to wait for another process that uses the session; 0 does not wait.",
    click.FloatRange(min=0),
    default=30,
    callback=finite,
)

token_option = option(
    "--token-file FILE",
    "The token for a SESSION that is the address of a service; - reads standard input.",
    PATH,
)


def refuse_session_files(target: Path, session: Path, what: str) -> None:
    """Refuse to write over a session or a file beside it, forced or not, by whatever name it is reached."""
    from pmw.session.store.connection import SessionFiles

    real = Path(os.path.realpath(session))
    for file in (file for path in (session, real) for file in SessionFiles(path).all):
        same = target.exists() and file.exists() and target.samefile(file)
        if same or os.path.realpath(target) == os.path.realpath(file):
            raise click.UsageError(f"{what} would overwrite the session; name another file")


def check_picture(target: Path | None, *, force: bool) -> None:
    """Refuse a picture that cannot or must not be written."""
    from pmw.display.figures import check_kind, check_target

    if target is None:
        if force:
            raise click.UsageError("--force overwrites a picture; give --plot FILE with it")
        return
    with wrong_values():
        check_kind(target)
    check_target(target, force=force)


def refuse_table(target: Path, session: Path, what: str) -> None:
    """Refuse to write over the table that a session remembers."""
    from pmw.session.maintenance import remembered_table

    table = remembered_table(session)
    files = [] if table is None else table.files
    if os.path.realpath(target) in map(os.path.realpath, files):
        raise click.UsageError(f"{what} would overwrite the session's table; name another file")


def patiently(use: Callable[[float], _Result], session: Path, seconds: float) -> _Result:
    """Return what ``use`` returns, which waits so many seconds at most, and tell where it has to wait."""
    from pmw.errors import SessionLockedError

    if seconds > 0:
        try:
            return use(0)
        except SessionLockedError:
            echo(f"{session}: in use by another process; waiting up to {seconds:g} s …", err=True)
    return use(seconds)


def resumed(session: Path, seconds: float) -> Session:
    """Return the session in a file, once no other process uses it, or after the longest wait."""
    from pmw.session.opening import resume_session

    return patiently(lambda wait: resume_session(session, wait=wait), session, seconds)


def is_address(session: str) -> bool:
    """Tell whether a session is named by the address of a service, and not by its file."""
    return session.startswith(("http://", "https://"))


def connected(url: str, token_file: Path | None) -> RemoteSession:
    """Return a session of a service; the token is in a file, or on standard input where that is ``-``."""
    from pmw.service.client import connect

    if token_file is None:
        raise click.UsageError("a service asks for a token; give --token-file FILE")
    if str(token_file) == "-":
        return connect(url, token=sys.stdin.readline().strip())
    try:
        token = token_file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise click.UsageError(f"--token-file {token_file}: the file cannot be read as a token") from None
    return connect(url, token=token)


@contextmanager
def opened(session: str, token_file: Path | None, wait: float, *, as_json: bool = False) -> Iterator[Asking]:
    """Yield a session of a service, a model, or a session in a file, whichever is named."""
    from pmw.session.store.connection import is_model_file

    if is_address(session):
        with connected(session, token_file) as served:
            yield served
    elif is_model_file(Path(session)):
        yield opened_model(Path(session), as_json=as_json)
    else:
        with resumed(Path(session), wait) as held:
            yield held


def require_address(session: str, token_file: Path | None) -> None:
    """Refuse a token for what needs none."""
    if token_file is not None and not is_address(session):
        raise click.UsageError("--token-file is for the address of a service; leave it out, or give one")


def opened_model(path: Path, *, as_json: bool) -> PublicModel:
    """Return the model in a file; with ``as_json`` what is wrong with it is printed as an answer would be."""
    from pmw.errors import ModelFileError
    from pmw.session.public_model import load_model

    try:
        return load_model(path)
    except ModelFileError as error:
        if not as_json:
            raise
        echo(json_line({"error": {"code": "bad_model", "message": str(error)}}))
        raise click.exceptions.Exit(5) from None
