"""``pmw synthesize``: a synthetic table of a sensitive one with all of a budget, in one command."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pmw.cli.options import (
    SectionedCommand,
    TableName,
    database_option,
    draft_option,
    drafts_given,
    expected_given,
    load_domain,
    note_delta,
    person_options,
    place_given,
    public_option,
    reading_options,
    refuse_drafted,
    release_options,
    schema_option,
)
from pmw.cli.usage import (
    FILE,
    PATH,
    echo,
    flag,
    json_line,
    json_option,
    option,
    read_budget,
    typed,
    wrong_values,
)

if TYPE_CHECKING:
    from pmw.privacy.budget import Budget
    from pmw.public.export import RowPlan
    from pmw.public.options import Options
    from pmw.public.report import Facts
    from queries.domain import Domain


@click.command(
    "synthesize",
    cls=SectionedCommand,
    short_help="Write a synthetic table with all of a budget.",
    epilog="""\b
Examples:
  pmw synthesize people.csv --schema people.toml --epsilon 1 --delta 1e-9 -o synthetic.parquet
  pmw synthesize people.csv --schema people.toml --epsilon 1 --delta 1e-9 -o synthetic.csv --target smoker
""",
)
@click.argument("data", metavar="TABLE", type=TableName(path_type=Path))
@database_option
@schema_option
@release_options
@option("--output, -o", "The file to write: .csv or .parquet.", PATH, required=True)
@option(
    "--target COLUMN",
    "An attribute that a model will predict: its pairs with all others are measured more precisely.",
    multiple=True,
)
@option(
    "--expect FILE", "Public questions that the rows should answer well, as for pmw open. With --delta.", FILE
)
@option("--rows N", "Number of rows. [default: the released number of records]", int)
@option(
    "--records N",
    "About how many records the table has, a public number: a budget that leaves them noise is refused.",
    int,
)
@option(
    "--session FILE",
    "Keep the session in a new file, closed, to ask and export later; secret as the table is.",
    PATH,
)
@option(
    "--report FILE", "The page of how near the rows are. [default: the output's name with .report.html]", PATH
)
@flag("--no-report", "Write no such page.")
@person_options
@reading_options
@public_option
@draft_option
@flag("--force", "Overwrite existing files; never a session.")
@json_option("Print the manifest as JSON.")
def command(data: Path | str, schema: Path, output: Path, as_json: bool, **given: Any) -> None:
    """Write a synthetic table of TABLE, a manifest beside it, and a page of how near it is.

    A session opens over the table, and all of the budget goes to what the rows are drawn from: nothing is
    kept for questions. Without a delta as many pairs of attributes are measured as it is enough for.

    What is written is public, but for the session of --session. A run is a release of its own: the costs of
    several runs, and of sessions over the same table, add up.
    """
    read_budget(given)
    from pmw.display.texts import number
    from pmw.privacy.budget import Budget
    from pmw.public.export import export
    from pmw.public.report import write_report
    from pmw.session.opening import open_session
    from pmw.session.synthesis import finished, synthesis_options

    plan, target = _row_plan(given, output), next(iter(given["target"]), None)
    report = _files(output, [data, schema, given["expect"]], given)
    place, domain = place_given(given, data), load_domain(schema, given)
    refuse_drafted(schema, place, given)
    budget = Budget.of(given["epsilon"], given["delta"])
    options = synthesis_options(domain, budget, target, _options(given, domain))
    fewest = _tell_noise(domain, budget, options, given["records"])
    how = {"epsilon": budget.epsilon, "delta": budget.delta, "path": given["session"], "options": options}
    with open_session(place, domain, **how) as session:
        facts = finished(session, target)
    if facts.state.total.value < fewest:
        counted = number(max(facts.state.total.value, 0))
        echo(
            f"The released number of records is {counted}. If the table has many more, values were not read "
            "as they are declared, and their records dropped: pmw check shows it.",
            err=True,
        )
    plan = replace(plan, dialect=getattr(place, "dialect", plan.dialect))
    manifest = export(facts.state, output, plan, force=given["force"])
    if report is not None:
        write_report(facts, report, force=given["force"])
    echo(json_line(manifest) if as_json else _text(facts, manifest, output, report))


def _row_plan(given: dict[str, Any], output: Path) -> RowPlan:
    from pmw.planning.session_plan import check_records
    from pmw.public.export import RowPlan

    if len(given["target"]) > 1:
        raise click.UsageError("--target: expected one attribute, got several; --expect weighs more of them")
    if given["no_report"] and given["report"] is not None:
        raise click.UsageError("--report names the page that --no-report leaves out; give one of the two")
    if output.suffix.lower() not in (".csv", ".parquet", ".pq"):
        raise click.UsageError(f"--output: expected a name that ends in .csv or .parquet, got {output.name}")
    with wrong_values():
        if given["records"] is not None:
            check_records(given["records"])
        return RowPlan(given["rows"])


def _files(output: Path, read: list[Path | str | None], given: dict[str, Any]) -> Path | None:
    """Return the file of the page, None for none, once all files are found to be such that can be written."""
    from pmw.disk import require_file
    from pmw.errors import SessionExistsError

    report = None if given["no_report"] else given["report"] or output.with_name(f"{output.name}.report.html")
    session, written = given["session"], [output, output.with_name(f"{output.name}.manifest.json"), report]
    known = [os.path.realpath(one) for one in read if one is not None]
    for one in filter(None, [*written, session]):
        if os.path.realpath(one) in known:
            raise click.UsageError(f"{one} is read or written already; name another file")
        if not one.parent.is_dir():
            raise click.UsageError(f"expected a folder that is there, got {one.parent}")
        known.append(os.path.realpath(one))
    if session is not None and session.exists():
        raise SessionExistsError(f"{session} exists already; name a new file")
    for one in filter(None, written):
        require_file(one, force=given["force"])
    return report


def _options(given: dict[str, Any], domain: Domain) -> Options:
    from pmw.public.options import Options

    with wrong_values():
        return Options(
            neighboring_relation=given["neighbors"],
            records_per_person=given["records_per_person"],
            person_column=given["person_column"],
            expected=expected_given(given, domain),
            drafts=drafts_given(given),
        )


def _tell_noise(domain: Domain, budget: Budget, options: Options, records: int | None) -> float:
    """Tell at which number of records the table would be noise, and return it; 0 for none."""
    from pmw.display.texts import number
    from pmw.errors import BudgetError
    from pmw.planning.plans import delta_for_pairs, fewest_records

    found = fewest_records(domain, epsilon=budget.epsilon, delta=budget.delta, options=options)
    if found is not None:
        width, fewest = found
        words = f"a count by one attribute is within ± {number(width)} records, which is noise in a table of "
        if records is not None and records < fewest:
            raise BudgetError(
                f"{words}fewer than {number(fewest)} records, and --records says {records:,}; give a larger "
                "--epsilon, or declare fewer or wider cells"
            )
        echo(f"At this budget {words}fewer than {number(fewest)} records.", err=True)
    plans = None if typed("delta") else delta_for_pairs(domain, epsilon=budget.epsilon, options=options)
    if plans is not None:
        lost = (
            ": opening measures no pair of attributes, and what it leaves goes to as many as it is enough for"
        )
        note_delta(lost, plans[1], f"{plans[1].held.number:,} are measured")
    return 0.0 if found is None else found[1]


def _text(facts: Facts, manifest: dict[str, Any], output: Path, report: Path | None) -> str:
    from pmw.cli.texts import pairs_lines
    from pmw.display.texts import counted
    from pmw.public.export import reproduction_sentence

    beside = f"{output.name}.manifest.json beside it"
    told = [
        f"Wrote {counted(manifest['rows'], 'synthetic row')} to {output}, and {beside}.",
        *pairs_lines(facts.state, None),
        reproduction_sentence(manifest["marginals"]),
        "" if report is None else f"How near they are stands in {report}.",
        f"All of this is public. Guarantee: {manifest['guarantee']}.",
    ]
    return "\n".join(filter(None, told))
