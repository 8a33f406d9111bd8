"""The options that fix a session: what ``pmw open`` is given, and what ``pmw plan`` foretells."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from pmw.policy import Options

__all__ = [
    "read_options",
    "session_options",
]

_Command = TypeVar("_Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--delta",
        default="0",
        show_default=True,
        metavar="D",
        help="Privacy budget: 0 <= delta < 1. A small one, such as 1e-9, buys much accuracy.",
    ),
    click.option(
        "--neighbors",
        type=click.Choice(["add-remove", "replace-one"]),
        default="add-remove",
        show_default=True,
        help="What is hidden: whether one person's records are there, or what they say.",
    ),
    click.option(
        "--records-per-person",
        type=int,
        default=1,
        show_default=True,
        metavar="K",
        help="The most records of one person (declared, not checked).",
    ),
    click.option(
        "--test",
        type=click.Choice(["query"]),
        default="query",
        show_default=True,
        help="What a test compares: single questions.",
    ),
    click.option(
        "--opening",
        type=click.Choice(["one-way", "none"]),
        default="one-way",
        show_default=True,
        help="Bought before the first question: every one-attribute marginal, or nothing.",
    ),
    click.option(
        "--update",
        type=click.Choice(["refit", "step"]),
        default="refit",
        show_default=True,
        help="After a positive: refit to all measurements, or one textbook step.",
    ),
    click.option("--update-limit", type=int, metavar="C", help="Number of positives. [default: planned]"),
    click.option(
        "--threshold",
        type=float,
        metavar="T",
        help="Error that a test looks for, in records. [default: planned]",
    ),
    click.option(
        "--learning-rate", type=float, metavar="ETA", help="Length of the textbook step. [default: planned]"
    ),
    click.option(
        "--queries",
        type=int,
        default=10_000,
        show_default=True,
        metavar="N",
        help="About how many questions will come; sets thresholds, is no limit.",
    ),
    click.option(
        "--test-noise",
        type=click.Choice(["exponential", "laplace"]),
        default="exponential",
        show_default=True,
        help="Law of the noise in tests.",
    ),
    click.option(
        "--sides",
        type=click.Choice(["two-thresholds", "two-sided"]),
        help="Signed tests, or tests of the absolute error. [default: two-thresholds under add-remove]",
    ),
    click.option(
        "--rounds",
        type=click.Choice(["redrawn", "single"]),
        help="New threshold noise after each positive, or one draw. [default: planned]",
    ),
    click.option(
        "--composition", type=click.Choice(["zcdp", "pure"]), help="How charges add up. [default: planned]"
    ),
    click.option(
        "--confidence", type=float, default=0.95, show_default=True, metavar="P", help="Of error bars."
    ),
)


def session_options(*, epsilon_required: bool = True) -> Callable[[_Command], _Command]:
    """Return a decorator that gives a command the budget and all choices of a session, in one order.

    Args:
        epsilon_required: the command cannot do without a budget.
    """
    epsilon = click.option(
        "--epsilon", required=epsilon_required, metavar="E", help="Privacy budget: epsilon > 0."
    )

    def decorate(command: _Command) -> _Command:
        for option in reversed((epsilon, *_OPTIONS)):
            command = option(command)
        return command

    return decorate


def read_options(given: dict[str, Any]) -> Options:
    """Return the choices that a command was given.

    Raises:
        BudgetError: a choice is out of range or contradicts another.
    """
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
