"""``pmw serve``, ``user`` and ``mcp``: users ask over HTTP, each up to a share, and assistants ask, too."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pmw.cli.session_files import opened, require_address, token_option, wait_option
from pmw.cli.usage import PATH, Suggesting, budget_part, echo, flag, json_line, json_option, option

if TYPE_CHECKING:
    from pmw.service.users import Role, User

_VALID = 90  # days of a new token, unless told
_ASSISTANT = "assistant"  # whom the charges of pmw mcp are booked to
_users_option = option("--users", "The file of users; made by the first add.", PATH, required=True)


@click.command(
    "serve",
    short_help="Serve sessions to many analysts over HTTP.",
    epilog="""\b
Examples:
  pmw user add ann --share 0.2 --users users.json
  pmw serve study.pmw --users users.json
  pmw serve study.pmw survey.pmw --users users.json --port 8080
  pmw serve study.pmw --users users.json --postgres 5433
  pmw serve study.model --users users.json
""",
)
@click.argument("sessions", nargs=-1, required=True, type=PATH, metavar="SESSION…")
@option("--users", "The file of pmw user add.", PATH, required=True)
@option(
    "--host",
    "The address to listen at. Another machine reaches the default by a proxy with TLS alone.",
    default="127.0.0.1",
)
@option("--port", "0 takes a free one.", click.IntRange(0, 65535), default=8000)
@option(
    "--postgres PORT",
    "Also speak Postgres' protocol at this port, for psql, drivers and dashboards; 0 takes a free one. The "
    "password is a token, the database a session. Nothing is charged until SET pmw.at_most = '0.1%'.",
    click.IntRange(0, 65535),
)
@option(
    "--assistants-at-most P%",
    "The most of a session's budget that the assistants of a user, at …/sessions/NAME/mcp, may charge "
    "without a person, all together, until the service ends.  [default: 0]",
    callback=budget_part,
)
@flag("--behind-tls", "A proxy with TLS is before the service, at another address too.")
@option(
    "--rate N",
    "Requests a second that each user may make; twice as many after a pause.",
    click.FloatRange(0, min_open=True),
    default=100,
)
@option(
    "--audit FILE",
    "Write down which question was answered or refused, for whom, and its charge; see pmw verify.",
    PATH,
)
def serve(sessions: tuple[Path, ...], users: Path, rate: float, audit: Path | None, **where: Any) -> None:
    """Serve each SESSION to the users of a file, with a page and a JSON API, and to clients of Postgres.

    A session is named by its file: study.pmw is served as study. Whoever has a token of `pmw user add` asks
    in a browser, with `pmw ask http://…`, with pmw.connect in Python, or over HTTP. Every charge is booked to
    the user whose question made it.

    A SESSION may be a folder: every file in it whose name ends in .pmw is served, and in .model where no
    session beside it has that name. SIGHUP has the service open those that were put there since; nobody is
    signed out. Users are taken over at once.

    A SESSION may be a model of `pmw export --format model`. Its answers are free, and whatever would charge
    is refused. Any number of processes may serve one file, each at a port of its own.

    Where the extra mcp is installed, AI assistants ask at …/sessions/NAME/mcp, with the tools of `pmw mcp`.

    The process holds the sessions while it runs; a second service on one of them is refused. Ctrl-C, or
    SIGTERM, ends it once the requests that are being answered have their answers. Its log goes to standard
    error, a JSON object a line, without questions and tokens.
    """
    from pmw.display.texts import installed_by

    if any(find_spec(name) is None for name in ("fastapi", "prometheus_client", "uvicorn")):
        needed = "pmw serve needs fastapi, prometheus-client and uvicorn"
        raise click.ClickException(f"{needed}: {installed_by('service')}")
    from pmw.service import server
    from pmw.service.limits import Rate
    from pmw.service.users import UsersFile

    def ready(*addresses: str) -> None:
        echo(f"Serving at {' and '.join(addresses)}; Ctrl-C ends it.")

    address, pace = server.Address(**where), Rate(rate, 2 * rate)
    server.serve(sessions, UsersFile(users), address, rate=pace, audit=audit, ready=ready)


@click.group(
    "user",
    cls=Suggesting,
    short_help="Add, change, list and revoke the users of a service.",
    epilog="""\b
Examples:
  pmw user add ann --share 0.2 --users users.json
  pmw user add bea --role reader --sessions study --expires 2027-12-31 --users users.json
  pmw user change ann --at-most 0.5% --users users.json
  pmw user list --users users.json
  pmw user rotate ann --users users.json
  pmw user revoke bea --users users.json
""",
)
def user() -> None:
    """Manage the users of `pmw serve`.

    The file of users holds no token, only digests of them, and nobody but its owner may read it. A service
    that runs takes changes over at once.
    """


def _expires_option(default: str) -> Callable[[Any], Any]:
    return option(
        "--expires DATE",
        f"The last day of the token, in UTC, such as 2027-12-31.  [default: {default}]",
        click.DateTime(["%Y-%m-%d"]),
    )


_beyond_option = flag("--beyond", "Let the shares of analysts add up to more than 1.")


@user.command("add", short_help="Add a user and print the token.")
@click.argument("name")
@option(
    "--share PART",
    "The part of what each session's opening leaves that may be charged, such as 0.2, 1/5 or 20%. "
    "[required for analysts; custodians have 1 by default, readers have 0]",
    callback=budget_part,
)
@option(
    "--role",
    "A custodian sees everybody's questions; a reader gets free answers only.",
    click.Choice(["analyst", "custodian", "reader"]),
    default="analyst",
)
@option(
    "--at-most P%",
    "The most of a session's budget that one question may charge, such as 0.5%; a request may allow less, "
    "and no more. With 0 nothing is charged. [default: a tenth of what may be spent, unless a request "
    "tells]",
    callback=budget_part,
)
@option("--sessions A,B", "The sessions that may be used. [default: all]")
@_beyond_option
@_expires_option(f"{_VALID} days from now")
@_users_option
def add(name: str, users: Path, sessions: str | None, **given: Any) -> None:
    """Add the user NAME and print the token, which is shown this once and stored nowhere.

    Charges are booked to NAME, so that it is never used for somebody else. Its letters are of one script.
    Shares are fairness, not privacy: the session's cap binds in any case.
    """
    from pmw.service.users import Role, User, UsersFile, script_of

    role = Role(given["role"])
    listed = None if sessions is None else tuple(one.strip() for one in sessions.split(",") if one.strip())
    if listed == ():
        raise click.BadParameter("expected names of sessions, got none", param_hint="--sessions")
    last = _last_day(given["expires"]) or datetime.now(UTC).date() + timedelta(_VALID)
    user = User(name, role, _share_of(role, given["share"]), listed, last, at_most=given["at_most"])
    token = UsersFile(users).add(user, beyond=given["beyond"])
    if (script := script_of(user.name)) not in ("", "LATIN"):
        told = f"The name is in {script} letters; one in other letters that looks the same is another user."
        echo(told, err=True)
    echo(token)


def _last_day(expires: datetime | None) -> date | None:
    if expires is not None and expires.date() < datetime.now(UTC).date():
        echo(f"Warning: {expires.date()} is past, so the token is good for nothing.", err=True)
    return None if expires is None else expires.date()


def _share_of(role: Role, share: Fraction | None) -> Fraction:
    if role.value == "analyst" and share is None:
        raise click.UsageError("an analyst needs --share, such as 0.2")
    if role.value == "reader":
        if share:
            raise click.UsageError("a reader gets free answers only; leave --share out, or add an analyst")
        return Fraction(0)
    return Fraction(1) if share is None else share


@user.command(
    "change",
    short_help="Change a user's share, role, ceiling or last day.",
    epilog="""\b
Examples:
  pmw user change ann --share 0.3 --users users.json
  pmw user change ann --at-most 0.5% --users users.json
  pmw user change bea --role analyst --share 0.1 --users users.json
  pmw user change bea --expires 2027-12-31 --users users.json
""",
)
@click.argument("name")
@option("--share PART", "See pmw user add.", callback=budget_part)
@option("--role", "See pmw user add.", click.Choice(["analyst", "custodian", "reader"]))
@option("--at-most P%", "See pmw user add.", callback=budget_part)
@flag("--no-ceiling", "Take the ceiling for one question away.")
@_expires_option("as it is")
@_beyond_option
@_users_option
def change(name: str, users: Path, beyond: bool, no_ceiling: bool, **given: Any) -> None:
    """Change what NAME may do; what is not told stays as it is, and so does the token.

    What was charged to NAME stays charged: a share below it leaves nothing. A service that runs takes the
    change over with the user's next request.
    """
    from pmw.service.users import Role, UsersFile

    told = {name: value for name, value in given.items() if value is not None}
    if not (told or no_ceiling) or (no_ceiling and "at_most" in told):
        raise click.UsageError("tell what changes: --share, --role, --expires, and --at-most or --no-ceiling")

    last = _last_day(given["expires"])

    def changed(user: User) -> User:
        role = Role(told.get("role", user.role))
        stays = "share" not in told and role is user.role
        ceiling = None if no_ceiling else told.get("at_most", user.at_most)
        own = user.share if stays else _share_of(role, given["share"])
        return replace(user, role=role, share=own, at_most=ceiling, expires=last or user.expires)

    UsersFile(users).change(name, changed, beyond=beyond)
    echo(f"Changed {name}.")


@user.command("list", short_help="List users.")
@_users_option
@option("--session FILE", "Tell shares as parts of its whole budget, and none above what is left.", PATH)
@json_option("Print one line of JSON.")
def list_(users: Path, session: Path | None, as_json: bool) -> None:
    """List the users; tokens are not known."""
    from pmw.display.texts import text_table
    from pmw.service.history import History, history_of
    from pmw.service.users import UsersFile

    listed = UsersFile(users).listed()
    with closing(History(history_of(users))) as history:
        used = history.used()
    if session is not None:
        from pmw.session.maintenance import read_shares

        opened, left = read_shares(session)
        listed = tuple(replace(one, share=min(one.share * opened, left)) for one in listed)
    if as_json:
        told = [{**user.to_dict(), "last_used": used.get(user.name)} for user in listed]
        echo(json_line({"users": told}))
        return
    header = ("name", "role", "share", "one question", "sessions", "expires", "last used")
    rows = [
        (
            user.name,
            user.role.value,
            f"{float(user.share):.4g}",
            "a tenth" if user.at_most is None else f"{100 * float(user.at_most):.4g}%",
            "all" if user.sessions is None else ", ".join(user.sessions),
            "revoked" if user.revoked else "expired" if user.is_expired else str(user.expires or "never"),
            used.get(user.name, "never"),
        )
        for user in listed
    ]
    echo(text_table(header, rows, left=7))


@user.command("revoke", short_help="Make a user's token invalid.")
@click.argument("name")
@_users_option
def revoke(name: str, users: Path) -> None:
    """Make the token of NAME invalid, at once. What was charged stays booked to the name."""
    from pmw.service.users import UsersFile

    UsersFile(users).revoke(name)
    echo(f"Revoked the token of {name}.")


@user.command("rotate", short_help="Replace a user's token and print the new one.")
@click.argument("name")
@_users_option
def rotate(name: str, users: Path) -> None:
    """Replace the token of NAME, and print the new one; the old one is invalid at once.

    The last day stays. A user who was revoked, or whose last day is over, gets no new token.
    """
    from pmw.service.users import UsersFile

    echo(UsersFile(users).rotate(name))


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
def mcp(
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
        asked = found.analyst(_ASSISTANT) if isinstance(found, Session) else found
        asked.progress = False
        server_of(Purse(asked, session, most, most if total is None else total)).run("stdio")
