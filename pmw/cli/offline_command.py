"""``pmw offline``: a synthetic table for a workload that is known beforehand, without a session."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pmw.cli.options import (
    dialect_of,
    dialect_options,
    load_domain,
    memory_given,
    memory_options,
    public_option,
    refuse_drafted,
    release_options,
    schema_option,
)
from pmw.cli.usage import PATH, echo, flag, json_line, json_option, option, read_budget, wrong_values

if TYPE_CHECKING:
    from pmw.research.offline import OfflineOptions, OfflineRelease
    from queries.domain import Domain
    from queries.linear import LinearQuery


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
def command(workload: str, output: Path, force: bool, as_json: bool, **given: Any) -> None:
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
        _options(given, 1)
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
    options = _options(given, ROUNDS_PER_ATTRIBUTE * len(domain))
    budget = {"epsilon": given["epsilon"], "delta": given["delta"]}
    release = fit_workload(table, domain, questions, **budget, options=options)
    if not release.state.measured:
        raise BudgetError(
            f"the budget is too small for {options.rounds} rounds; choose fewer, or a larger epsilon"
        )
    manifest = release.export(output, plan, force=force)
    form = _form(release, options)
    whole = {**form, "ledger": release.ledger.to_dict(), "manifest": manifest}
    echo(json_line(whole) if as_json else _text(release, form, output, manifest))


def _options(given: dict[str, Any], usual_rounds: int) -> OfflineOptions:
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


def _text(release: OfflineRelease, form: dict[str, Any], output: Path, manifest: dict[str, Any]) -> str:
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
