"""``pmw open``: begin a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pmw.cli.dialect import dialect_of, dialect_options

__all__ = [
    "command",
]


@click.command(
    "open",
    short_help="Begin a session over a table.",
    epilog="""\b
Examples:
  pmw open study.pmw --data people.csv --schema people.toml --epsilon 1 --delta 1e-9
  pmw open study.pmw --data people.parquet --schema people.toml --epsilon 0.5 --update-limit 40
  pmw open textbook.pmw --data people.csv --schema people.toml --epsilon 1 --opening none --update step
""",
)
@click.argument("session", type=click.Path(path_type=Path))
@click.option("--data", required=True, type=click.Path(path_type=Path), help="The table: CSV or Parquet.")
@click.option("--schema", required=True, type=click.Path(path_type=Path), help="Its schema, a TOML file.")
@click.option("--epsilon", required=True, metavar="E", help="Privacy budget: epsilon > 0.")
@click.option(
    "--delta",
    default="0",
    show_default=True,
    metavar="D",
    help="Privacy budget: 0 <= delta < 1. A small one, such as 1e-9, buys much accuracy.",
)
@click.option(
    "--neighbors",
    type=click.Choice(["add-remove", "replace-one"]),
    default="add-remove",
    show_default=True,
    help="What is hidden: whether one person's records are there, or what they say.",
)
@click.option(
    "--records-per-person",
    type=int,
    default=1,
    show_default=True,
    metavar="K",
    help="The most records of one person (declared, not checked).",
)
@click.option(
    "--test",
    type=click.Choice(["query"]),
    default="query",
    show_default=True,
    help="What a test compares: single questions.",
)
@click.option(
    "--opening",
    type=click.Choice(["one-way", "none"]),
    default="one-way",
    show_default=True,
    help="Bought before the first question: every one-attribute marginal, or nothing.",
)
@click.option(
    "--update",
    type=click.Choice(["refit", "step"]),
    default="refit",
    show_default=True,
    help="After a positive: refit to all measurements, or one textbook step.",
)
@click.option("--update-limit", type=int, metavar="C", help="Number of positives. [default: planned]")
@click.option(
    "--threshold", type=float, metavar="T", help="Error that a test looks for, in records. [default: planned]"
)
@click.option(
    "--learning-rate", type=float, metavar="ETA", help="Length of the textbook step. [default: planned]"
)
@click.option(
    "--queries",
    type=int,
    default=10_000,
    show_default=True,
    metavar="N",
    help="About how many questions will come; sets thresholds, is no limit.",
)
@click.option(
    "--test-noise",
    type=click.Choice(["exponential", "laplace"]),
    default="exponential",
    show_default=True,
    help="Law of the noise in tests.",
)
@click.option(
    "--sides",
    type=click.Choice(["two-thresholds", "two-sided"]),
    help="Signed tests, or tests of the absolute error. [default: two-thresholds under add-remove]",
)
@click.option(
    "--rounds",
    type=click.Choice(["redrawn", "single"]),
    help="New threshold noise after each positive, or one draw. [default: planned]",
)
@click.option(
    "--composition", type=click.Choice(["zcdp", "pure"]), help="How charges add up. [default: planned]"
)
@click.option("--confidence", type=float, default=0.95, show_default=True, metavar="P", help="Of error bars.")
@dialect_options
@click.option("--json", "as_json", is_flag=True, help="Print the session's status as JSON.")
def command(session: Path, data: Path, schema: Path, as_json: bool, **given: Any) -> None:
    """Begin SESSION, a new file, over the table in --data.

    The schema declares the attributes and their cells. Opening buys the number of records and, unless told
    otherwise, every one-attribute marginal, with noise; the rest of the budget answers questions. The file
    holds secrets: keep it as safe as the table. What `pmw export` writes is public.
    """
    from pmw.cli.texts import opening_text, say, status_json
    from pmw.data import TableFile
    from pmw.session import open_session
    from queries.schema import load_schema

    domain = load_schema(schema)
    with open_session(
        TableFile(data, dialect_of(given)),
        domain,
        epsilon=given["epsilon"],
        delta=given["delta"],
        path=session,
        options=_options(given),
    ) as opened:
        say(status_json(opened.status()) if as_json else opening_text(opened.state, session))


def _options(given: dict[str, Any]) -> Any:
    from pmw.policy import Opening, Options, UpdateRule
    from pmw.privacy import Composition, NeighboringRelation
    from pmw.sparse_vector import NoiseKind, Sides

    return Options(
        neighboring_relation=NeighboringRelation(given["neighbors"].replace("-", "_")),
        records_per_person=given["records_per_person"],
        update=UpdateRule(given["update"]),
        opening=Opening(given["opening"]),
        update_limit=given["update_limit"],
        threshold=given["threshold"],
        learning_rate=given["learning_rate"],
        test_noise=NoiseKind(given["test_noise"]),
        sides=None if given["sides"] is None else Sides(given["sides"]),
        redraw=None if given["rounds"] is None else given["rounds"] == "redrawn",
        composition=None if given["composition"] is None else Composition(given["composition"]),
        expected_queries=given["queries"],
        confidence=given["confidence"],
    )
