"""``pmw open``: begin a session."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pmw.cli.session_options import SectionedCommand, read_options, session_options
from pmw.cli.table_options import (
    dialect_options,
    inside_option,
    load_domain,
    memory_options,
    place_given,
    public_option,
    refuse_drafted,
    schema_option,
    table_options,
)
from pmw.cli.usage import read_budget

if TYPE_CHECKING:
    from pmw.public.state import PublicState


@click.command(
    "open",
    cls=SectionedCommand,
    short_help="Begin a session over a table.",
    epilog="""\b
Examples:
  pmw open study.pmw --data people.csv --schema people.toml --epsilon 1 --delta 1e-9
  pmw open study.pmw --data people.parquet --schema people.toml --epsilon 0.5 --update-limit 40
  pmw open study.pmw --data people.csv --schema people.toml --accuracy 0.05 --records 50000 --delta 1e-9
  pmw open study.pmw --data duckdb:people.duckdb --table people --schema people.toml --epsilon 1
  pmw open textbook.pmw --data people.csv --schema people.toml --epsilon 1 --preset textbook
""",
)
@click.argument("session", type=click.Path(path_type=Path))
@table_options
@schema_option
@session_options
@dialect_options
@memory_options
@inside_option
@public_option
@click.option("--verbose", is_flag=True, help="Tell what was measured, and what tests look for, too.")
@click.option("--json", "as_json", is_flag=True, help="Print the session's status as JSON.")
def command(
    session: Path,
    data: Path | str,
    schema: Path,
    verbose: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Begin SESSION, a new file, over the table in --data.

    The schema declares the attributes and their cells. Opening measures the number of records and, unless
    otherwise chosen, every one-attribute marginal, with noise; the rest of the budget answers questions. The
    file holds secrets: keep it as safe as the table. What `pmw export` writes is public.
    """
    from pmw.cli.texts import opening_text, say, status_json
    from pmw.session.opening import open_session

    if verbose and as_json:
        raise click.UsageError("--verbose is for words, and --json prints none; leave one of the two out")
    _refuse_missing(given)
    read_budget(given if given["epsilon"] is not None else {**given, "epsilon": "1"})
    options, place = read_options(given), place_given(given, data)
    domain = load_domain(schema, given)
    refuse_drafted(schema, place, given)
    with open_session(
        place,
        domain,
        epsilon=given["epsilon"],
        delta=given["delta"],
        path=session,
        options=options,
    ) as opened:
        note = _sech2_note(opened.state) if given["sparse_vector"] == "sech2" else None
        if note is not None:
            click.echo(note, err=True)
        state = opened.state
        say(status_json(opened.status()) if as_json else opening_text(state, session, verbose=verbose))


def _refuse_missing(given: dict[str, Any]) -> None:
    """Refuse a session without a budget, and an accuracy contract that is half given, or of no use.

    Raises:
        UsageError: it is.
    """
    if given["epsilon"] is None and given["accuracy"] is None:
        raise click.UsageError("give --epsilon or --accuracy, or both")
    if (given["accuracy"] is None) != (given["records"] is None):
        raise click.UsageError("--accuracy is a fraction of --records: give both, or neither")
    if given["accuracy"] is not None and (given["preset"] is not None or given["test"] == "query"):
        raise click.UsageError("--accuracy belongs to --test marginal; choose that, or leave it out")


def _sech2_note(state: PublicState) -> str | None:
    """Return by how much tests would be narrower with exponential noise; None where they would not."""
    from pmw.display.texts import counted
    from pmw.planning.opening import choose_filter, plan_opening
    from pmw.planning.tested_bounds import forecast_sparse_vectors

    if state.contract.budget.delta > 0 or not state.plan:
        return None
    contract = state.contract
    empty = choose_filter(contract.domain, contract.budget, contract.options)
    opening = plan_opening(contract.domain, empty, contract.options)
    found = forecast_sparse_vectors(contract, opening, state.ledger, state.total.value)
    bands = {one.name: one.half_band for one in found if one.name in ("exponential", "sech2")}
    if bands.get("exponential", math.inf) >= bands["sech2"]:
        return None
    return (
        f"Note: without a delta, exponential noise is narrower: its tests err within "
        f"{counted(bands['exponential'], 'record')} of the threshold, those of sech2 within "
        f"{bands['sech2']:,.0f}."
    )
