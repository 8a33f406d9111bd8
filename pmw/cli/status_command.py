"""``pmw status``: where a session stands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pmw.cli.usage import wrong_values

if TYPE_CHECKING:
    from pmw.public.state import PublicState
    from pmw.public.status import Status


@click.command(
    "status",
    short_help="Show where a session stands.",
    epilog="""\b
Examples:
  pmw status study.pmw
  pmw status study.pmw --json
  pmw status study.pmw --plot study.png
  pmw status study.model
""",
)
@click.argument("session", type=click.Path(path_type=Path))
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw marginals and budget too: a PNG, PDF or SVG file. Needs the extra 'plots'.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing picture.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
def command(session: Path, plot: Path | None, force: bool, as_json: bool) -> None:
    """Show the guarantee of SESSION, what was spent and how many questions were answered.

    It reads public state only, needs no table, and works while the session is in use. A picture made with
    --plot is public too, and costs nothing. SESSION may be a model too, as `pmw export --format model` writes
    it.
    """
    from pmw.cli.texts import say, status_json, status_text
    from pmw.session.maintenance import read_session
    from pmw.session.store import is_model_file

    if plot is None and force:
        raise click.UsageError("--force overwrites a picture; give --plot FILE with it")
    if plot is not None and not is_model_file(session):
        _check(plot, session, force)
    if is_model_file(session):
        state, status = _of_model(session, plot, as_json=as_json)
    else:
        state, status = read_session(session)
    if plot is not None:
        from pmw.cli.pictures import telling_letters
        from pmw.display.figures import write_figure
        from pmw.public.pictures import status_figure
        from pmw.session.maintenance import read_history

        with telling_letters():
            write_figure(status_figure(state, read_history(session)), plot, force=force)
    say(status_json(status) if as_json else status_text(state, status))
    if plot is not None and not as_json:
        say(f"Wrote {plot}.")


def _of_model(path: Path, plot: Path | None, *, as_json: bool) -> tuple[PublicState, Status]:
    """Return what a model says of its session.

    Raises:
        UsageError: a picture of it is asked for.
    """
    from pmw.cli.models import opened_model

    if plot is not None:
        raise click.UsageError(
            "--plot draws how the budget was spent, which a model does not tell; leave it out"
        )
    model = opened_model(path, as_json=as_json)
    return model.state, model.status()


def _check(plot: Path, session: Path, force: bool) -> None:
    """Refuse a picture that cannot or must not be written, before the session is read."""
    from pmw.cli.targets import refuse_session_files
    from pmw.display.figures import check_kind, check_target

    refuse_session_files(plot, session, "the picture")
    with wrong_values():
        check_kind(plot)
    check_target(plot, force=force)
