"""``pmw status``, ``ledger``, ``verify`` and ``report``: what a session's file tells, without a question."""

from __future__ import annotations

import contextlib
import re
import sys
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pmw.cli.session_files import (
    check_picture,
    connected,
    is_address,
    opened_model,
    refuse_session_files,
    refuse_table,
    require_address,
    token_option,
)
from pmw.cli.usage import PATH, echo, flag, json_line, json_option, option

if TYPE_CHECKING:
    from pmw.public.contract import Contract
    from pmw.public.ledger import Ledger
    from pmw.public.status import Status
    from pmw.session.verification.report import Check, Verification

_WIDTH = 100  # columns of a table
_LABEL = 2  # the column of texts that may be long


@click.command(
    "status",
    short_help="Show where a session stands.",
    epilog="""\b
Examples:
  pmw status study.pmw
  pmw status study.pmw --json
  pmw status study.pmw --plot study.png
  pmw status study.model
  pmw status http://127.0.0.1:8000/sessions/study --token-file ann.token
""",
)
@click.argument("session", type=click.Path())  # or an address
@option(
    "--plot FILE", "Draw marginals and budget too: a PNG, PDF or SVG file. Needs the extra 'plots'.", PATH
)
@flag("--force", "Overwrite an existing picture.")
@token_option
@json_option("Print one line of JSON.")
def status(session: str, plot: Path | None, force: bool, token_file: Path | None, as_json: bool) -> None:
    """Show the guarantee of SESSION, what was spent and how many questions were answered.

    It reads public state only, needs no table, and works while the session is in use. A picture made with
    --plot is public too, and costs nothing. SESSION may be a model too, as `pmw export --format model` writes
    it, or one of a service, by its address, with --token-file.
    """
    from pmw.cli.texts import status_text
    from pmw.session.maintenance import read_session
    from pmw.session.store.connection import is_model_file

    require_address(session, token_file)
    path, is_file = Path(session), not is_address(session) and not is_model_file(Path(session))
    if plot is not None and is_file:
        refuse_session_files(plot, path, "the picture")
        if force:
            refuse_table(plot, path, "the picture")
    if plot is None or is_file:
        check_picture(plot, force=force)
    own = ""
    if is_file:
        state, status = read_session(path)
        contract = state.contract
    else:
        contract, status, own = _told_by(session, plot, token_file, as_json=as_json)
    if plot is not None:
        from pmw.display.figures import write_figure
        from pmw.public.pictures import status_figure
        from pmw.session.maintenance import read_history

        with telling_letters():
            write_figure(status_figure(state, read_history(path)), plot, force=force)
    echo(json_line(status.to_dict()) if as_json else status_text(contract, status) + own)
    if plot is not None and not as_json:
        echo(f"Wrote {plot}.")


def _told_by(
    session: str, plot: Path | None, token_file: Path | None, *, as_json: bool
) -> tuple[Contract, Status, str]:
    if plot is not None:
        who = "a service" if is_address(session) else "a model"
        raise click.UsageError(
            f"--plot draws how the budget was spent, which {who} does not tell; leave it out"
        )
    if is_address(session):
        with connected(session, token_file) as served:
            left = float(served.budget().left or 0)
            return served.contract, served.status(), f"\nYou may still spend {left:.2%} of the budget."
    model = opened_model(Path(session), as_json=as_json)
    return model.contract, model.status(), ""


@click.command(
    "ledger",
    short_help="Show every charge to the budget.",
    epilog="""\b
Examples:
  pmw ledger study.pmw
  pmw ledger study.pmw --json | jq '.entries[] | select(.event == "measurement") | .label'
\b
With --json, one object: epsilon_cap, delta, composition, unit, cap, spent, share, and entries. Each entry has
number, event, label, epsilon (null where the event is not pure), charge, share, running_share, theorem (what
its price rests on), and exact: the
charge as a fraction. epsilon_cap and delta are of the session and of its drafts, cap of the session alone.
""",
)
@click.argument("session", type=PATH)
@json_option("Print one line of JSON.")
def ledger(session: Path, as_json: bool) -> None:
    """Show every charge to the budget of SESSION: what it paid for, and its share of the cap.

    A charge is given as epsilon where the event is pure, and in the unit that is added up: mu^2 or
    rho where delta is positive and charges compose as Gaussian or as zero-concentrated privacy, else epsilon.
    It reads public state only, needs no table, and works while the session is in use.
    """
    from pmw.session.maintenance import read_ledger

    ledger = read_ledger(session)
    echo(json_line(ledger.to_dict()) if as_json else ledger_text(ledger))


@click.command(
    "verify",
    short_help="Check charges, measurements, models and answers.",
    epilog="""\b
Examples:
  pmw verify study.pmw
  pmw verify study.pmw --anchor /safe/study.anchor
  pmw verify study.pmw --audit audit.jsonl
  pmw verify study.pmw --json | jq '.checks[] | select(.holds | not)'
\b
With --json, one object: holds, unfinished, closed, checks (each with name, holds, detail), not_proved.
The exit code is 0 where every check holds, and 5 where one fails.
""",
)
@click.argument("session", type=PATH)
@option(
    "--anchor FILE",
    "Compare with, and keep, a file of public bytes that tells how far the session had come.",
    PATH,
)
@option(
    "--audit FILE",
    "Check the file of pmw serve --audit too: its chain, and its charges against the ledger.",
    PATH,
)
@json_option("Print one line of JSON.")
def verify(session: Path, anchor: Path | None, audit: Path | None, as_json: bool) -> None:
    """Check what the file of SESSION holds.

    Every charge is recomputed from its event and the plan that was fixed at opening, and every model from the
    measurements, whose noise and cells must be as planned. Rows that are damaged or gone are found. Stored
    answers must have the form that their source promises, and measured ones their measurement; their values
    are not computed again. It writes nothing, shows no secret, needs no table, and works while the session is
    in use. A session with many corrections takes as long as fitting its model again.

    A copy of the file from before looks whole, and has forgotten what was spent since. With --anchor, the
    last link of a chain of hashes is kept in FILE, which is public: keep it on another machine. The chain
    covers all charges, measurements and answers, but for free ones that came one by one. A later run tells an
    older copy and a rewritten history, and brings FILE up to date where everything holds.

    With --audit it is checked that no line of FILE was changed, left out or put in, but at its end, and that
    no user was charged less by the ledger than FILE tells. SESSION has the name by which it was served.
    """
    from pmw.display.progress import Progress
    from pmw.session.maintenance import read_ledger, verify_session

    if anchor is not None:
        refuse_session_files(anchor, session, "the anchor")
    checks: tuple[Check, ...] = ()
    if audit is not None:
        from pmw.service.audit import audit_checks, audit_lines

        lines = audit_lines(audit)  # first: a charge is in the ledger before its line is written
        checks = audit_checks(lines, session.stem, read_ledger(session))
    with Progress("models fitted again") as progress:

        def told(count: int, total: int) -> None:
            progress.expect(total)
            progress.add(count)

        verification = verify_session(session, anchor, told=told)
    verification = replace(verification, checks=(*checks, *verification.checks))
    echo(json_line(verification.to_dict()) if as_json else verification_text(verification))
    if not verification.holds:
        sys.exit(5)


@click.command(
    "report",
    short_help="Write a report for readers of the numbers.",
    epilog="""\b
Examples:
  pmw report study.pmw -o report.html
  pmw report study.pmw -o report.html --force
  pmw report study.pmw --registry deployment.yaml
""",
)
@click.argument("session", type=PATH)
@option("--output, -o", "The HTML file to write.", PATH)
@option(
    "--registry FILE",
    "Write, instead or too, an entry of the OpenDP registry of deployments, as JSON that is YAML too.",
    PATH,
)
@flag("--force", "Overwrite existing files.")
def report(session: Path, output: Path | None, registry: Path | None, force: bool) -> None:
    """Write a report on SESSION as one HTML file that opens offline and prints on A4.

    It tells in plain words what is promised and about whom, how accurate answers are, which tables of counts
    may be quoted with which error, what was asked most, what was charged, and how to use the synthetic table.
    Pictures show the model against the measurements, errors against questions, and the budget. Its headings
    use the terms of NIST SP 800-226.

    The file of --registry has what the contract and the ledger say: variant, unit of privacy, epsilon, delta,
    deployment model, mechanisms and composition. What is empty in it is for whoever registers it to fill in.

    It reads public state only, needs no table, and works while the session is in use. Both files are public,
    and cost nothing.
    """
    from pmw.disk import require_file, write_whole
    from pmw.session.maintenance import read_ledger, read_session, save_report

    if output is None and registry is None:
        raise click.UsageError("expected a file to write; give --output FILE, --registry FILE or both")
    for target, what in ((output, "the report"), (registry, "the entry")):
        if target is not None:
            refuse_session_files(target, session, what)
            if force:
                refuse_table(target, session, what)
            require_file(target, force=force)
    if registry is not None:
        from pmw.public.report import registry_text

        text = registry_text(read_session(session)[0], read_ledger(session))
        write_whole(registry, lambda target: target.write_text(text, encoding="utf-8", newline=""))
        echo(f"Wrote an entry of the registry of deployments to {registry}; fill in what is empty there.")
    if output is not None:
        save_report(session, output, force=force)
        echo(f"Wrote the report to {output}.")


def ledger_text(ledger: Ledger) -> str:
    """Return a ledger as a table, a line for each charge, and its total; long labels are cut short."""
    from pmw.cli.texts import terminal_width
    from pmw.display.texts import text_table
    from pmw.public.ledger import ledger_cells

    header, *rows = ledger_cells(ledger)
    others = [column for place, column in enumerate(zip(header, *rows, strict=True)) if place != _LABEL]
    room = max(_WIDTH - sum(2 + max(map(len, column)) for column in others), len(header[_LABEL]))
    labels = [text if len(text) <= room else text[: room - 1] + "…" for text in (row[_LABEL] for row in rows)]
    cut = [(*row[:_LABEL], label, *row[_LABEL + 1 :]) for row, label in zip(rows, labels, strict=True)]
    events: dict[str, list[str]] = {}
    for line in ledger.lines:
        known = events.setdefault(line.theorem, [])
        if line.event not in known:
            known.append(line.event)
    rests = [_source(f"{', '.join(names)}: {theorem}") for theorem, names in events.items()]
    table = text_table(header, cut, left=_LABEL + 1 + ("analyst" in header), width=terminal_width())
    return "\n".join([table, "Prices rest on:", *rests, ledger.sentence()])


def _source(text: str) -> str:
    """Return an indented text in lines; a number is not parted from the word before it."""
    kept = re.sub(r" (?=\d)", "\N{NO-BREAK SPACE}", text)
    filled = textwrap.fill(kept, _WIDTH, initial_indent="  ", subsequent_indent="    ")
    return filled.replace("\N{NO-BREAK SPACE}", " ")


def verification_text(verification: Verification) -> str:
    """Return what a verification found, a line for each check, and what it cannot tell."""
    lines = [
        f"{'ok    ' if check.holds else 'FAILED'}  {check.name}: {check.detail}"
        for check in verification.checks
    ]
    failed = sum(not check.holds for check in verification.checks)
    if verification.unfinished:
        lines.append("An interrupted batch waits to be finished (or one is being answered right now).")
    if verification.closed:
        lines.append("The session was closed permanently: nothing is spent any more.")
    if failed:
        count = f"{failed} of {len(verification.checks)} checks"
        fault = "the file was damaged or altered"
        if all(check.holds or check.name.startswith("audit") for check in verification.checks):
            fault = "the audit was damaged or altered, or is of another session"
        if verification.anchored and failed == 1 and not verification.checks[-1].holds:
            fault = (
                "the file or the anchor is of another session, or the file is an older copy or was altered"
            )
        lines.append(f"{count} FAILED: {fault}. Do not go on with it.")
    else:
        lines.append(f"All {len(verification.checks)} checks hold. They cannot prove:")
        lines += [f"  - {text}" for text in verification.not_proved]
    return "\n".join(lines)


@contextlib.contextmanager
def telling_letters() -> Iterator[None]:
    """Tell of letters that a picture does not show with one line on standard error."""
    from pmw.display.figures import MissingLettersWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MissingLettersWarning)
        yield
    for one in caught:
        if issubclass(one.category, MissingLettersWarning):
            echo(f"Note: {one.message}.", err=True)
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
