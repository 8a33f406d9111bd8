"""``pmw report``: what a session promises and which of its numbers may be quoted, as one page."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(
    "report",
    short_help="Write a report for readers of the numbers.",
    epilog="""\b
Examples:
  pmw report study.pmw -o report.html
  pmw report study.pmw -o report.html --force
""",
)
@click.argument("session", type=click.Path(path_type=Path))
@click.option(
    "--output", "-o", required=True, type=click.Path(path_type=Path), help="The HTML file to write."
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def command(session: Path, output: Path, force: bool) -> None:
    """Write a report on SESSION as one HTML file that opens offline and prints on A4.

    It tells in plain words what is promised and about whom, how accurate answers are, which tables of counts
    may be quoted with which error, what was asked most, what was charged, and how to use the synthetic table.
    Pictures show the model against the measurements, errors against questions, and the budget.

    It reads public state only, needs no table, and works while the session is in use. The report is public,
    and costs nothing.
    """
    from pmw.cli.targets import refuse_session_files, refuse_table
    from pmw.cli.texts import say
    from pmw.session.reporting import save_report

    refuse_session_files(output, session, "the report")
    if force:
        refuse_table(output, session, "the report")
    save_report(session, output, force=force)
    say(f"Wrote the report to {output}.")
