"""``pmw mcp``: an AI assistant asks a session, and pays what the custodian or a person allows."""

from __future__ import annotations

from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path

import click

from pmw.cli.session_files import opened, require_address, token_option, wait_option
from pmw.cli.usage import budget_part, option

_NAME = "assistant"  # whom charges are booked to


@click.command(
    "mcp",
    short_help="Let an AI assistant ask, by the Model Context Protocol.",
    epilog="""\b
Examples:
  pmw mcp study.pmw
  pmw mcp study.pmw --at-most 0.5% --total 5%
  pmw mcp http://127.0.0.1:8000/sessions/study --token-file ann.token
  pmw mcp study.model
""",
)
@click.argument("session", type=click.Path())  # or an address
@option(
    "--at-most P%",
    "The most of the budget that one question may cost without a person.  [default: 0]",
    callback=budget_part,
)
@option(
    "--total P%",
    "The most that all questions of this run may cost without a person.  [default: --at-most]",
    callback=budget_part,
)
@token_option
@wait_option
def command(
    session: str, at_most: Fraction | None, total: Fraction | None, token_file: Path | None, wait: float
) -> None:
    """Serve SESSION to an AI assistant over standard input and output, as tools.

    Whatever the assistant asks is free. One tool buys narrower bars: up to --at-most for a question, and
    --total for all, by itself. Above it the client asks the person, with the price in words; a client that
    cannot ask is refused. Nothing that the assistant writes raises a ceiling. What is charged is booked to
    the name "assistant", or to the user of a service, whose own ceiling and share hold as well.

    SESSION is a file, the address of a session of a service, or a model, which charges nothing. A session in
    a file is held until the client ends: to share one, ask a service.
    """
    from pmw.display.texts import installed_by

    if total is not None and at_most is None:
        raise click.UsageError("--total is for questions of up to --at-most each; give --at-most with it")
    if str(token_file) == "-":
        raise click.UsageError("standard input is the client's; give --token-file the name of a file")
    require_address(session, token_file)
    if find_spec("mcp") is None or find_spec("fastapi") is None:
        raise click.ClickException(f"pmw mcp needs mcp and fastapi: {installed_by('mcp')}")
    from pmw.service.assistants import Purse, server_of
    from pmw.session.session import Session

    most = at_most or Fraction(0)
    with opened(session, token_file, wait) as found:
        asked = found.analyst(_NAME) if isinstance(found, Session) else found
        asked.progress = False
        server_of(Purse(asked, session, most, most if total is None else total)).run("stdio")
