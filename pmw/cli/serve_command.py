"""``pmw serve``: many analysts ask sessions over HTTP."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click


@click.command(
    "serve",
    short_help="Serve sessions to many analysts over HTTP.",
    epilog="""\b
Examples:
  pmw user add ann --share 0.2 --users users.json
  pmw serve study.pmw --users users.json
  pmw serve study.pmw survey.pmw --users users.json --port 8080
""",
)
@click.argument("sessions", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="SESSION…")
@click.option("--users", required=True, type=click.Path(path_type=Path), help="The file of pmw user add.")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen at. Another machine reaches the default by a proxy with TLS alone.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes a free one."
)
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    default=100,
    show_default=True,
    metavar="N",
    help="Requests a second that each user may make; twice as many after a pause.",
)
def command(sessions: tuple[Path, ...], users: Path, host: str, port: int, rate: float) -> None:
    """Serve each SESSION to the users of a file, with a page and a JSON API.

    A session is named by its file: study.pmw is served as study. Whoever has a token of `pmw user add` asks
    in a browser, with `pmw ask http://…`, with pmw.connect in Python, or over HTTP. Every charge is booked to
    the user whose question made it.

    The process holds the sessions while it runs; a second service on one of them is refused. Ctrl-C, or
    SIGTERM, ends it once the requests that are being answered have their answers. Its log goes to standard
    error, a JSON object a line, without questions and tokens.
    """
    from pmw.display.texts import installed_by

    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise click.ClickException(f"pmw serve needs the extra 'service': {installed_by('service')}")
    from pmw.service.limits import Rate
    from pmw.service.server import serve
    from pmw.service.users import UsersFile

    def ready(address: str) -> None:
        click.echo(f"Serving at {address}; Ctrl-C ends it.")

    serve(sessions, UsersFile(users), host=host, port=port, rate=Rate(rate, 2 * rate), ready=ready)
