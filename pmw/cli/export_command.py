"""``pmw export``: write a synthetic table, or the measurements behind it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pmw.cli.usage import PATH, echo, flag, json_line, json_option, option, wrong_values

if TYPE_CHECKING:
    from pmw.public.export import ExportFormat, RowPlan


@click.command(
    "export",
    short_help="Write a synthetic table, the measurements or the model.",
    epilog="""\b
Examples:
  pmw export study.pmw --output synthetic.csv
  pmw export study.pmw --output small.csv --rows 1000 --seed 7
  pmw export study.pmw --output synthetic.parquet --refine
  pmw export study.pmw --output synthetic.csv --croissant
  pmw export study.pmw --output old.csv --where "age >= 65 AND sex = 'Female'"
  pmw export study.pmw --output released.json --format measurements
  pmw export study.pmw --output study.model
""",
)
@click.argument("session", type=PATH)
@option("--output, -o", "The file to write.", PATH, required=True)
@option(
    "--format",
    "Synthetic rows as CSV or Parquet, every released number as JSON, or a model to ask. [default: by the "
    "file's name: .csv or no ending is csv, .parquet and .pq are parquet, .model is model]",
    click.Choice(["csv", "parquet", "measurements", "model"]),
    to="file_format",
)
@option("--rows N", "Number of rows. [default: the session's total, or the model's count of --where]", int)
@option(
    "--where CONDITION",
    "Only rows that satisfy a condition, as pmw ask takes it: rows of the model given it.",
)
@option(
    "--method",
    "Cells rounded up or down to whole records, or independent draws. [default: systematic]",
    click.Choice(["systematic", "independent"]),
)
@option("--seed S", "Repeat a drawing of rows; the model does not depend on it.", int)
@flag(
    "--refine", "First fit the model to everything released more closely, where noise allows; free, not kept."
)
@flag(
    "--croissant",
    "Also write FILE.croissant.json, which tells catalogues and programs what the columns and the "
    "guarantee are (Croissant 1.1).",
)
@flag("--force", "Overwrite existing files.")
@json_option("Print the manifest as JSON.")
def command(session: Path, output: Path, file_format: str | None, as_json: bool, **given: Any) -> None:
    """Write a synthetic table drawn from the model of SESSION, and a manifest beside it.

    SESSION may be a model in a file, too.

    A CSV file is written as the session's table is, so that the same schema and options read it. With
    --croissant, and from a model, it has commas, points and UTF-8.

    In Parquet, integers are BIGINT, numbers DOUBLE, categories BIGINT, BOOLEAN or VARCHAR by their declared
    values, a column with an "other" cell is VARCHAR, and empty values are NULL.

    Systematic rows are fitted to every marginal that was measured, also to those that the model cannot hold.
    Which of these they miss all the same stands in the manifest, and the worst are named here. Rows of
    --where are not fitted: the marginals are of all records.

    With --format measurements the file holds no rows but every number that was released, with the
    distribution of its noise, so that others can fit a model of their own.

    With --format model one file is written that `pmw ask` answers from, offline and free, with the error bars
    that the session gives without a test. It holds the released numbers, the model, the schema and the
    guarantee, and no manifest goes beside it.

    A Croissant file has no licence, creator, address, citation and date: whoever publishes the table adds
    these.

    The files are public: they are made from released numbers alone and cost nothing.
    """
    from pmw.cli.texts import pairs_lines, tell_left
    from pmw.disk import write_json
    from pmw.display.progress import Progress
    from pmw.display.texts import counted
    from pmw.loop.fit import MOST_STEPS, refined, residual
    from pmw.public.export import ExportFormat, croissant_form, export, reproduction_sentence
    from pmw.public.status import pairs_sentence
    from pmw.session.maintenance import read_session, save_model
    from pmw.session.model_file import read_model, write_model
    from pmw.session.store.connection import is_model_file

    is_model, beside = is_model_file(session), _beside(output, given)
    _refuse_targets([output, *beside], session, force=given["force"], is_model=is_model)
    with wrong_values():
        chosen = ExportFormat.chosen(file_format, output)
    commas = is_model or given["croissant"]  # whose readers take them for granted
    plan, refine = _row_plan(chosen, given, None if commas else session), given["refine"]
    if chosen is ExportFormat.MODEL:
        if is_model:
            about = write_model(*read_model(session), output, force=given["force"])
        else:
            about = save_model(session, output, force=given["force"])
        measured = counted(about["measurements"], "measurement")
        told = [
            f"Wrote the model, with {measured}, to {output}; pmw ask answers from it.",
            pairs_sentence(about["pairs"]),
            "It is public, and holds the guarantee in full.",
        ]
        echo(json_line(about) if as_json else "\n".join(filter(None, told)))
        if not is_model:
            tell_left(read_session(session)[0], session)
        return
    state, _ = read_model(session) if is_model else read_session(session)
    before = residual(state)
    if refine:
        with Progress("steps at most", MOST_STEPS) as progress:
            state = refined(state, progress.add)
    manifest = export(state, output, plan, format=file_format, force=given["force"], refined=refine)
    for croissant in beside[1:]:
        write_json(croissant, croissant_form(output, manifest))
    named = " and ".join(path.name for path in beside)
    kind = ("rows", "synthetic row") if chosen.has_rows else ("measurements", "measurement")
    told = [
        _refinement(before, residual(state)) if refine else "",
        f"Wrote {counted(manifest[kind[0]], kind[1])} to {output}, and {named} beside it.",
        *pairs_lines(state, None if is_model else session),
        reproduction_sentence(manifest["marginals"]) if chosen.has_rows else "",
        f"{'All' if beside[1:] else 'Both'} are public; the manifest has the guarantee in full.",
    ]
    echo(json_line(manifest) if as_json else "\n".join(filter(None, told)))
    if not is_model:
        tell_left(state, session)


def _beside(output: Path, given: dict[str, Any]) -> list[Path]:
    """Return the files that go beside an export: the manifest, then the Croissant file where it is wanted."""
    ends = (".manifest.json", ".croissant.json") if given["croissant"] else (".manifest.json",)
    return [output.parent / (output.name + end) for end in ends]


def _refuse_targets(targets: list[Path], session: Path, *, force: bool, is_model: bool) -> None:
    from pmw.cli.session_files import refuse_session_files, refuse_table
    from pmw.disk import require_file

    for target in targets:
        refuse_session_files(target, session, "the export")
        if force and not is_model:  # a model names no table
            refuse_table(target, session, "the export")
    for croissant in targets[2:]:
        require_file(croissant, force=force)


def _row_plan(chosen: ExportFormat, given: dict[str, Any], like: Path | None) -> RowPlan | None:
    """Return how rows are drawn, and written as the table of a session is; None where there are none."""
    from pmw.public.export import RowPlan
    from pmw.session.maintenance import remembered_table

    rows, method, seed, where = (given[name] for name in ("rows", "method", "seed", "where"))
    typed_rows = (rows, method, seed, where) != (None,) * 4
    named = "--refine" if given["refine"] else "--croissant" if given["croissant"] else ""
    named = named or ("--rows, --where, --method and --seed" if typed_rows else "")
    if not chosen.has_rows and named:
        raise click.UsageError(f"--format {chosen.value} has no rows: leave out {named}")
    with wrong_values():
        if not chosen.has_rows:
            return None
        plan = RowPlan(rows, method == "independent", seed, where)
    table = None if like is None else remembered_table(like)
    return replace(plan, dialect=getattr(table, "dialect", plan.dialect))


def _refinement(before: float | None, after: float | None) -> str:
    if before is None or after is None:
        return "Refined: fitted to what opening released; nothing was measured since."
    return (
        f"Refined: the model was {before:.3f} standard deviations of the noise from what was measured, on "
        f"average, and is {after:.3f} now."
    )
