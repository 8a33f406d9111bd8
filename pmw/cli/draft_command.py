"""``pmw draft``: a schema to fill in."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pmw.cli.options import (
    declared_public,
    dialect_of,
    dialect_options,
    place_given,
    public_option,
    table_options,
)
from pmw.cli.usage import PATH, echo, flag, json_line, json_option, option
from pmw.display.texts import shown_name

if TYPE_CHECKING:
    from pmw.data import Place
    from pmw.session.drafts import DraftTerms
    from queries.domain import Attribute

_TODO, _NO_KIND = "TODO", "none"
_ASKED = {  # of each kind, what is typed
    "integer": ("min", "max"),
    "numeric": ("edges",),
    "categorical": ("values",),
    "date": ("min", "max", "width"),
    "datetime": ("min", "max", "width", "zone"),
    "time": ("min", "max", "width"),
}
_NUMBER = re.compile(r"[+-]?(0|[1-9][0-9]*)(\.[0-9]+)?")


@click.command(
    "draft",
    short_help="Write a schema to fill in.",
    epilog="""\b
Examples:
  pmw draft --data people.csv > people.toml
  pmw draft --data people.csv --look > people.toml
  pmw draft --data people.csv --look --interactive > people.toml
  pmw draft --data people.parquet > people.toml
  pmw draft --data people.csv --from-public census.csv > people.toml
  pmw draft --data people.csv --bounds amount --epsilon .02 --draft people.draft
  pmw draft --data people.csv --keys city --epsilon .1 --delta 1e-9 --draft people.draft
""",
)
@table_options
@flag(
    "--look",
    "Of a CSV file, read what kinds of texts its columns hold: whole numbers, dates and so on; no value is "
    "printed.",
)
@flag(
    "--interactive",
    "Ask on the terminal for the kind and the domain of each column, and print the schema declared.",
)
@option(
    "--from-public",
    "A table that you declare to be public; its values fill the domains of the columns that both have.",
    PATH,
)
@public_option
@option(
    "--bounds ATTRIBUTE",
    "Tell ends of the numbers of an attribute instead, by noisy counts of records; it costs --epsilon.",
)
@option(
    "--keys ATTRIBUTE",
    "Tell the texts of a column that enough persons hold instead, by noisy counts; it costs --epsilon and "
    "--delta.",
)
@option("--epsilon E", "With --bounds or --keys: what the draft costs, beside the session's budget.")
@option("--delta D", "With --keys: likewise; the chance that a text of one person is told.")
@option(
    "--draft FILE",
    "With --bounds or --keys: where the charge is written, for pmw open --draft.  [default: FILE.draft, "
    "beside the table]",
    click.Path(dir_okay=False, path_type=Path),
)
@option(
    "--neighbors",
    "With --bounds or --keys: which tables are neighbours, as for the session.",
    click.Choice(["add-remove", "replace-one"]),
    default="add-remove",
)
@option(
    "--records-per-person",
    "With --bounds or --keys: the most records of one person, as for the session.",
    click.IntRange(1),
    default=1,
)
@option(
    "--person-column COLUMN",
    "With --bounds or --keys: the column of ids, by which no more records, or texts, of each are counted.",
)
@flag("--dry-run", "With --keys: tell how many persons are enough; nothing is read or charged.")
@json_option("With --bounds or --keys: print JSON.")
@dialect_options
def command(data: Path | str, from_public: Path | None, **given: Any) -> None:
    """Print a schema for the table in --data, in which every domain is a TODO.

    It reads the names and the storage types of the columns, and no value: two tables with the same columns
    get the same draft. Fill in each TODO from what is known in public. A schema with a TODO left is refused.

    With --look, every record of a CSV file is read, and each column gets a kind, a reason and a question: a
    kind is what at least 99 of 100 texts of the column are. No value, end or number of values of the table is
    printed, but the kinds are exact: they are outside the privacy guarantee, for the custodian of the table.
    Declare what is public alone.

    With --from-public, domains are read off another table, which must be public: the schema shows its values,
    and so does every answer. The draft says which table that was. Where it is the table in --data itself, or
    has the same bytes, it is refused without a yes, here and by `pmw open`.

    With --bounds, ends of an attribute's numbers are told by privacy: records are counted by powers of two,
    with noise. About 1 % of the records beyond them is aimed at, not promised; how many there are at most is
    told.

    With --keys, the texts of a column are told that about T persons hold, or more; all others become `other`.
    T follows from --epsilon, --delta, --neighbors and --records-per-person alone; --dry-run tells it.

    The charge of either is written to --draft before anything is printed, and each run is a new one. `pmw
    open --draft` takes all charges of the file into the contract, beside the session's own budget.
    """
    from pmw.data import TableFile
    from pmw.data.drafting import draft_schema, file_section
    from pmw.data.text_kinds import WARNING, column_kinds

    if from_public is None and given["data_is_public"]:
        raise click.UsageError("--data-is-public goes with --from-public; a draft without it reads no value")
    if given["interactive"] and (from_public is not None or not sys.stdin.isatty()):
        raise click.UsageError(
            "--interactive needs a terminal, and does not go with --from-public; leave it out"
        )
    if given["bounds"] is not None or given["keys"] is not None:
        _print_by_privacy(data, from_public, given)
        return
    _refuse_terms(given, "--bounds or --keys", "epsilon", "delta", "draft", "person_column", "dry_run")
    place: Place
    if isinstance(data, Path) and given["table"] is None:
        paths = [path for path in (data, from_public) if path is not None]
        # The dialect is that of CSV files.
        csv = [path for path in paths if not TableFile(path).is_parquet] or paths
        place, *public = (
            TableFile(path, dialect_of(given, path)) if path in csv else TableFile(path) for path in paths
        )
    else:
        place = place_given(given, data)
        public = [] if from_public is None else [TableFile(from_public)]
    declared = next((declared_public(file, place, given) for file in public), None)
    looked = None
    if given["look"]:
        if not isinstance(place, TableFile) or place.is_parquet:
            raise click.UsageError(f"--look is for CSV files, and {place} stores its types; leave it out")
        echo(f"Warning: {WARNING}.", err=True)
        looked = column_kinds(place)
    draft = draft_schema(place, declared, looked)
    if given["interactive"]:
        head, _, rest = _declared_schema(draft).partition("\n\n")
        draft = "\n\n".join([head, *filter(None, [file_section(place)[:-1]]), rest])
    echo(draft.removesuffix("\n"), is_data=True)


def _declared_schema(draft: str) -> str:
    """Return the schema that the custodian declares on the terminal, section by section of a draft."""
    from queries.cells import cell_count
    from queries.domain import Domain
    from queries.errors import SchemaError
    from queries.schema import format_schema

    declared: list[Attribute] = []
    for section in draft.split("\n[[attributes]]\n")[1:]:
        echo("\n".join(line[2:] for line in section.splitlines() if line.startswith("# ")), err=True)
        attribute = _asked_attribute(tomllib.loads(section))
        if attribute is not None:
            declared.append(attribute)
            together = cell_count(Domain(tuple(declared)).size)
            echo(f"  {attribute.size:,} cells, and {together} of all attributes so far.", err=True)
    if not declared:
        raise SchemaError("expected a kind for at least one column, got none")
    return format_schema(Domain(tuple(declared), name="records"))


def _asked_attribute(drafted: dict[str, Any]) -> Attribute | None:
    """Return an attribute as it is typed, once it can be; None for a column that is left out."""
    from queries.errors import SchemaError
    from queries.schema import parse_schema

    usual = _NO_KIND if drafted["kind"] == _TODO else drafted["kind"]
    kinds = click.Choice([*_ASKED, _NO_KIND])
    while (
        kind := click.prompt(f"{shown_name(drafted['name'])}: kind", usual, type=kinds, err=True)
    ) != _NO_KIND:
        lines = ["[[attributes]]", f"name = {_toml(drafted['name'])}", f'kind = "{kind}"']
        for key in (*_ASKED[kind], *(["format"] if "format" in drafted and kind == usual else [])):
            known = drafted.get(key, _TODO)
            typed = click.prompt(f"  {key}", None if known == _TODO else known, err=True)
            many = key in ("edges", "values") and isinstance(typed, str)
            lines.append(f"{key} = {_toml([one.strip() for one in typed.split(',')] if many else typed)}")
        lines += [f"{key} = {_toml(click.confirm(f'  {key}', err=True))}" for key in ("missing", "other")]
        try:
            return parse_schema("\n".join(lines)).attributes[0]
        except SchemaError as error:
            echo(str(error), err=True)
    return None


def _toml(typed: Any) -> str:
    if isinstance(typed, list):
        return f"[{', '.join(map(_toml, typed))}]"
    is_number = isinstance(typed, str) and _NUMBER.fullmatch(typed)
    return typed if is_number else json.dumps(typed, ensure_ascii=False)


def _print_by_privacy(data: Path | str, from_public: Path | None, given: dict[str, Any]) -> None:
    """Tell ends of an attribute's numbers, or keys of a column, once their charge is durable."""
    from pmw.cli.texts import drafted_ends_text, drafted_keys_text
    from pmw.session.drafts import draft_bounds, draft_keys

    _check_terms(data, from_public, given)
    path, terms = given["draft"] or Path(f"{data}.draft"), _terms(given)
    if given["dry_run"]:
        form = {"attribute": given["keys"], "threshold": terms.threshold}
        told = (
            f"A text of {given['keys']} is told if its number of persons, noise included, comes to "
            f"{terms.threshold:,}. Nothing was read or charged."
        )
        echo(json_line(form) if given["as_json"] else told)
        return
    place = place_given(given, data)
    if given["keys"] is None:
        ends = draft_bounds(place, given["bounds"], terms, path)
        echo(json_line(ends.to_dict()) if given["as_json"] else drafted_ends_text(ends, path))
    else:
        keys = draft_keys(place, given["keys"], terms, path)
        echo(json_line(keys.to_dict()) if given["as_json"] else drafted_keys_text(keys, path))


def _terms(given: dict[str, Any]) -> DraftTerms:
    from pmw.privacy.budget import NeighboringRelation, as_fraction
    from pmw.session.drafts import DraftTerms

    return DraftTerms(
        as_fraction(given["epsilon"], "epsilon"),
        NeighboringRelation(given["neighbors"].replace("-", "_")),
        given["records_per_person"],
        given["person_column"],
        as_fraction(given["delta"] or 0, "delta"),
    )


def _check_terms(data: Path | str, from_public: Path | None, given: dict[str, Any]) -> None:
    option = "--bounds" if given["keys"] is None else "--keys"
    if from_public is not None:
        raise click.UsageError(f"{option} costs privacy, and --from-public reads a public table; give one")
    if given["look"] or given["interactive"]:
        raise click.UsageError(f"{option} tells a domain by privacy; leave --look and --interactive out")
    if given["bounds"] is not None and given["keys"] is not None:
        raise click.UsageError("--bounds and --keys are two drafts, each with its own charge; give one a run")
    if given["epsilon"] is None:
        raise click.UsageError(f"{option} needs --epsilon: what it may cost, beside the session's budget")
    if given["keys"] is None:
        _refuse_terms(given, "--keys", "delta", "dry_run")
    elif given["delta"] is None:
        raise click.UsageError("--keys needs --delta above 0: the chance that a text of one person is told")
    if given["draft"] is None and not isinstance(data, Path):
        raise click.UsageError(f"{option} needs --draft FILE, where the charge is written")


def _refuse_terms(given: dict[str, Any], options: str, *names: str) -> None:
    """Refuse what goes with other options alone."""
    for name in names:
        if given[name] not in (None, False):
            raise click.UsageError(
                f"--{name.replace('_', '-')} goes with {options}; leave it out, or give that"
            )
