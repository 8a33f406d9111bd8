"""``pmw synthesize`` and ``offline``: a synthetic table with all of a budget, in one command."""

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
    dialect_of,
    dialect_options,
    draft_option,
    drafts_given,
    expected_given,
    load_domain,
    memory_given,
    memory_options,
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
    from pmw.research.offline import OfflineOptions, OfflineRelease
    from queries.domain import Domain
    from queries.linear import LinearQuery


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
def synthesize(data: Path | str, schema: Path, output: Path, as_json: bool, **given: Any) -> None:
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


@click.command(
    "offline",
    short_help="Write a synthetic table for a known workload.",
    epilog="""\b
Examples:
  pmw offline --workload marginals:2 --data people.csv --schema people.toml --epsilon 1 --output synthetic.csv
  pmw offline --workload questions.jsonl --data people.csv --schema people.toml --epsilon 1 --delta 1e-9
      --rounds 40 --threshold 200 --output synthetic.parquet
""",
)
@option(
    "--workload NAME|FILE",
    "The questions: a workload by name, such as marginals:2, or a file of conditions, statements and JSON "
    "Lines, a question each.",
    required=True,
)
@option("--data", "The table: CSV or Parquet.", PATH, required=True)
@schema_option
@option(
    "--output, -o",
    "The synthetic table to write, .csv or .parquet; a manifest comes beside it.",
    PATH,
    required=True,
)
@release_options
@option("--records-per-person K", "The most records of one person (declared, not checked).", int, default=1)
@option(
    "--rounds C",
    "The most rounds; each has an equal share of the budget. [default: 4 for each attribute]",
    int,
)
@option(
    "--threshold T",
    "Return the model at the first measured error of at most T records. [default: what the noise alone "
    "reaches at 95% confidence]",
    float,
)
@option("--rows N", "Number of rows. [default: the released number of records]", int)
@dialect_options
@memory_options
@public_option
@flag("--force", "Overwrite existing files.")
@json_option("Print one line of JSON.")
def offline(workload: str, output: Path, force: bool, as_json: bool, **given: Any) -> None:
    """Fit a model to the table in --data for a workload, write a synthetic table, and print the cost.

    This is the offline private multiplicative weights of the lecture notes. From a uniform model each round
    chooses the question that the model answers worst, by the exponential mechanism, and measures the answer
    with noise. If the measured error is small, the model is returned and the rest of the budget stays
    unspent; otherwise one multiplicative weights step corrects the model. The ledger has a line for each
    choice and each measurement.

    A run is a release of its own: the costs of several runs, and of sessions over the same table, add up.
    """
    read_budget(given)
    from pmw.data import TableFile
    from pmw.errors import BudgetError
    from pmw.public.export import ExportFormat, RowPlan, require_target
    from pmw.research.offline import ROUNDS_PER_ATTRIBUTE, fit_workload

    dialect = dialect_of(given, given["data"])
    with wrong_values():
        plan = RowPlan(given["rows"], dialect=dialect)
        ExportFormat.chosen(None, output)  # a name of no format is wrong usage
        _fit_options(given, 1)
    for target in map(os.path.realpath, (output, output.parent / (output.name + ".manifest.json"))):
        for read in (given["data"], given["schema"], Path(workload)):  # forced or not
            if target == os.path.realpath(read):
                raise click.UsageError(f"--output would overwrite {read}, which is read; name another file")
    if not output.parent.is_dir():
        raise click.UsageError(f"--output: expected a folder that is there, got {output.parent}")
    require_target(output, format=None, force=force)
    domain = load_domain(given["schema"], {**given, "person_column": None})
    table = TableFile(given["data"], dialect, memory_given(given))
    refuse_drafted(given["schema"], table, given)
    questions = _questions(workload, domain)
    options = _fit_options(given, ROUNDS_PER_ATTRIBUTE * len(domain))
    budget = {"epsilon": given["epsilon"], "delta": given["delta"]}
    release = fit_workload(table, domain, questions, **budget, options=options)
    if not release.state.measured:
        raise BudgetError(
            f"the budget is too small for {options.rounds} rounds; choose fewer, or a larger epsilon"
        )
    manifest = release.export(output, plan, force=force)
    form = _form(release, options)
    whole = {**form, "ledger": release.ledger.to_dict(), "manifest": manifest}
    echo(json_line(whole) if as_json else _fit_text(release, form, output, manifest))


def _fit_options(given: dict[str, Any], usual_rounds: int) -> OfflineOptions:
    from pmw.public.options import Options
    from pmw.research.offline import OfflineOptions

    policy = Options(neighboring_relation=given["neighbors"], records_per_person=given["records_per_person"])
    rounds = usual_rounds if given["rounds"] is None else given["rounds"]
    return OfflineOptions.textbook(rounds=rounds, threshold=given["threshold"], policy=policy)


def _questions(workload: str, domain: Domain) -> list[LinearQuery]:
    from queries.linear import LinearQuery
    from queries.reader import QuestionReader, questions_in_text
    from queries.workloads import parse_workload

    file = Path(workload)
    if not file.is_file():
        return list(parse_workload(workload, domain))
    try:
        found = questions_in_text(file, QuestionReader(domain), counts_alone=True)
    except OSError as error:
        raise click.ClickException(f"{file}: the file cannot be read: {error.strerror}") from None
    return [one.query for one in found if isinstance(one.query, LinearQuery)]  # all of them


def _form(release: OfflineRelease, options: OfflineOptions) -> dict[str, Any]:
    from pmw.research.offline import largest_error, last_measured, small_error
    from queries.factors import UNITS

    last = last_measured(release)
    threshold, error = small_error(last.noise, options.policy), abs(last.units - last.model_units) / UNITS
    return {
        "questions": len(release.workload),
        "rounds": len(release.state.measured),
        "most_rounds": options.rounds,
        "threshold": threshold,
        "last_error": error,
        "ended_early": error <= threshold,
        "largest_error": largest_error(release) if error <= threshold else None,
        "share": release.state.ledger.share,
    }


def _fit_text(release: OfflineRelease, form: dict[str, Any], output: Path, manifest: dict[str, Any]) -> str:
    from pmw.cli.status_commands import ledger_text
    from pmw.display.texts import counted, number

    error, threshold = number(form["last_error"]), number(form["threshold"])
    ended = f"above T = {threshold}: no round is left, so nothing bounds the errors that remain."
    if form["ended_early"]:
        ended = (
            f"at most T = {threshold}: the model is returned.\nAt 95% confidence no question of the workload "
            f"is off by more than {number(form['largest_error'])} records."
        )
    rounds, questions = counted(form["most_rounds"], "round"), counted(form["questions"], "question")
    return "\n".join(
        [
            f"{form['rounds']:,} of at most {rounds} over {questions}.",
            f"The last measured an error of {error} records, {ended}",
            ledger_text(release.ledger),
            f"Wrote {counted(manifest['rows'], 'synthetic row')} to {output}, and a manifest beside it.",
            f"Guarantee: {manifest['guarantee']}.",
        ]
    )
