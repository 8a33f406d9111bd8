"""``pmw plan`` and ``pmw open``: what a session will give, and its beginning, by the same options."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pmw.cli.options import (
    SectionedCommand,
    delta_of,
    draft_option,
    drafts_given,
    expected_given,
    load_domain,
    note_delta,
    place_given,
    public_option,
    read_options,
    reading_options,
    refuse_drafted,
    schema_option,
    session_options,
    table_options,
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
from pmw.display.texts import counted

if TYPE_CHECKING:
    from pmw.planning.session_plan import SessionPlan
    from pmw.public.options import Options
    from pmw.public.prior import Prior
    from pmw.public.state import PublicState
    from queries.domain import Domain


_MOST_BUDGETS = 6  # that one screen has room for


@click.command(
    "open",
    cls=SectionedCommand,
    short_help="Begin a session over a table.",
    epilog="""\b
Examples:
  pmw open study.pmw --data people.csv --schema people.toml --epsilon 1 --delta 1e-9
  pmw open study.pmw --data people.parquet --schema people.toml --epsilon 0.5 --update-limit 40
  pmw open study.pmw --data people.csv --schema people.toml --accuracy 0.05 --records 50000 --delta 1e-9
  pmw open study.pmw --data duckdb:people.duckdb --table people --schema people.toml --epsilon 1 --delta 1e-9
  pmw open textbook.pmw --data people.csv --schema people.toml --epsilon 1 --preset textbook
""",
)
@click.argument("session", type=PATH)
@table_options
@schema_option
@session_options
@reading_options
@public_option
@option(
    "--prior FILE",
    "What is public about a table like this one, for the model to begin with: a model file of another "
    "session, or, with --prior-is-public, a CSV or Parquet file. Pairs that opening measures decide "
    "whether it is used; that costs nothing.",
    FILE,
)
@flag(
    "--prior-is-public",
    "Declare that the table in --prior is public: nobody in it is protected. It must not hold the records "
    "of --data.",
)
@draft_option
@flag("--verbose", "Tell what was measured, and what tests look for, too.")
@json_option("Print the session's status as JSON.")
def open_(session: Path, data: Path | str, schema: Path, verbose: bool, as_json: bool, **given: Any) -> None:
    """Begin SESSION, a new file, over the table in --data.

    The schema declares the attributes and their cells. Opening measures the number of records and, unless
    otherwise chosen, every one-attribute marginal, with noise; the rest of the budget answers questions. The
    file holds secrets: keep it as safe as the table. What `pmw export` writes is public.
    """
    from pmw.cli.texts import opening_text
    from pmw.session.opening import open_session

    accuracy, query = given["accuracy"] is not None, given["preset"] is not None or given["test"] == "query"
    if verbose and as_json:
        raise click.UsageError("--verbose is for words, and --json prints none; leave one of the two out")
    if given["epsilon"] is None and not accuracy:
        raise click.UsageError("give --epsilon or --accuracy, or both")
    if accuracy != (given["records"] is not None):
        way = "give --records, too" if accuracy else "leave --records out, or give --accuracy"
        raise click.UsageError(f"--accuracy is a fraction of --records, which nothing else reads; {way}")
    if accuracy and query:
        raise click.UsageError("--accuracy belongs to --test marginal; choose that, or leave it out")
    read_budget(given)
    options, place = read_options(given), place_given(given, data)
    domain = load_domain(schema, given)
    refuse_drafted(schema, place, given)
    options = replace(
        options,
        prior=_prior_given(given, domain),
        drafts=drafts_given(given),
        expected=expected_given(given, domain),
    )
    delta = given["delta"] if session.exists() else _chosen_delta(domain, options, given)
    budget = {"epsilon": given["epsilon"], "delta": delta}
    with open_session(place, domain, **budget, path=session, options=options) as opened:
        if given["sparse_vector"] == "sech2":
            _note_sech2(opened.state)
        status = json_line(opened.status().to_dict()) if as_json else ""
        echo(status or opening_text(opened.state, session, verbose=verbose))


def _prior_given(given: dict[str, Any], domain: Domain) -> Prior | None:
    """Return the prior of --prior; None where there is none. The table in --data is not looked at."""
    path: Path | None = given["prior"]
    if path is None:
        if given["prior_is_public"]:
            raise click.UsageError("--prior-is-public tells of the table in --prior; name that, too")
        return None
    from pmw.session.model_file import is_model_or_session
    from pmw.session.priors import public_prior
    from pmw.session.public_model import load_model

    if is_model_or_session(path):
        if given["prior_is_public"]:
            raise click.UsageError(
                f"{path} is a model, which is public as it is; leave --prior-is-public out"
            )
        return public_prior(load_model(path), domain)
    if not given["prior_is_public"]:
        raise click.UsageError(
            f"{path} is no model, so it is read as a table: add --prior-is-public if nobody in it needs "
            "protection, or name a file that pmw export --format model wrote"
        )
    return public_prior(place_given({**given, "table": None, "inside": False}, path), domain)


def _chosen_delta(domain: Domain, options: Options, given: dict[str, Any]) -> str:
    """Return the delta of a new session. Where none was typed and one buys pairs, say or ask so first.

    Privacy: what is told follows from the schema and what was typed; no table is read.
    """
    plans = _differing(domain, options, given, [given["epsilon"]])
    if plans is None or not sys.stdin.isatty():
        _note(plans)
        return str(given["delta"])
    from pmw.cli.plan_texts import budget_table

    without, usual = plans
    titles = ("delta = 0", f"delta = {delta_of(usual)}")
    echo("No --delta was given. Whatever the table holds, the schema and the options give:", err=True)
    echo(budget_table(plans, titles, sized=False), err=True)
    echo(
        f"Delta is about the chance that more gets out than epsilon allows: 0 or {delta_of(usual)}.", err=True
    )
    taken = click.confirm(f"Open with --delta {delta_of(usual)}?", default=None, err=True)
    return delta_of(usual if taken else without)


def _differing(
    domain: Domain, options: Options, given: dict[str, Any], epsilons: Sequence[str | None]
) -> tuple[SessionPlan, SessionPlan] | None:
    """Return the plans without and with a delta of the first epsilon for which it decides what is held."""
    if typed("delta"):
        return None
    from pmw.planning.plans import delta_for_pairs

    how = {"options": options, "records": given["records"]}
    every = (delta_for_pairs(domain, epsilon=one, **how) for one in epsilons if one)
    return next(filter(None, every), None)


def _note(plans: tuple[SessionPlan, SessionPlan] | None) -> None:
    if plans is None:
        return
    usual, pairs = plans[1], counted(plans[1].held.number, "pair")
    far, near = (f"± {plan.orders[1].bound or 0:,.0f}" for plan in plans)  # single attributes are measured
    note_delta(
        f". Opening measures none of the {pairs} of attributes, and an export does not have how two "
        "attributes go together",
        usual,
        f"it measures {len(usual.held.held):,}, and a count by one attribute is within {near} records "
        f"instead of {far}",
    )


def _note_sech2(state: PublicState) -> None:
    """Say by how much tests would be narrower with exponential noise, where they would."""
    from pmw.planning.opening import open_contract
    from pmw.planning.tested_bounds import forecast_sparse_vectors

    if state.contract.budget.delta > 0 or not state.plan:
        return
    fixed = state.contract
    contract, opening = open_contract(fixed.domain, fixed.budget, fixed.options)
    found = forecast_sparse_vectors(contract, opening, state.ledger, state.total.value)
    bands = {one.name: one.half_band for one in found if one.name in ("exponential", "sech2")}
    if bands.get("exponential", math.inf) < bands["sech2"]:
        echo(
            "Note: without a delta, exponential noise is narrower: its tests err within "
            f"{counted(bands['exponential'], 'record')} of the threshold, those of sech2 within "
            f"{bands['sech2']:,.0f}.",
            err=True,
        )


@click.command(
    "plan",
    cls=SectionedCommand,
    short_help="Tell what a session will give, without data.",
    epilog="""\b
Examples:
  pmw plan --schema people.toml --records 50000 --epsilon 1 --delta 1e-9
  pmw plan --schema people.toml --records 50000 --epsilon 0.5,1,2 --delta 1e-9
  pmw plan --schema people.toml --records 50000 --epsilon 0.5 --queries 1000 --update-limit 40 --json
  pmw plan --schema people.toml --records 50000 --delta 1e-9 --accuracy 0.01 --confidence 0.999
  pmw plan --schema people.toml --epsilon 1 --delta 1e-9 --accuracy 0.1 --preset textbook
\b
The bound is the half-width of the interval that an answer will carry, at the confidence:
  a number  counts that opening measures: their noise, and how far the model is from them
  tested    any other question, while positives are left: the threshold, and what noise can hide
  measured  the answer to a question whose test was positive: the noise of the measurement
For tested questions only the bound is known beforehand: their errors depend on the table.
""",
)
@schema_option
@session_options
@json_option("Print one line of JSON: of several epsilons, a list of their plans.")
def plan(schema: Path, as_json: bool, **given: Any) -> None:
    """Tell what a session would give over a table with the schema in --schema and N records.

    It makes the choices that `pmw open` would make with the same options: noise, thresholds, number of
    measurements. It sees no data, so nothing is spent. Beside the session's own bounds it shows what the
    textbook's theorems promise for the same budget, and what delta gains.

    Several epsilons, with commas between, are planned beside each other: how near counts are, which pairs of
    attributes an export has, and what somebody can learn about one person.

    With --accuracy it plans a session under that accuracy contract: without --epsilon, of the smallest one
    that keeps it.

    With --preset textbook it takes two of --epsilon, --accuracy and --records, and gives the third by Theorem
    5 of the lecture notes; then it plans a session with these.
    """
    records, epsilons = given["records"], _epsilons(given)
    _refuse_wrong_count(records, given)
    from pmw.planning.plans import check_accuracy
    from pmw.planning.session_plan import check_records

    with wrong_values():
        if records is not None:
            check_records(records)
        if given["accuracy"] is not None:
            check_accuracy(given["accuracy"])
    options = read_options(given)
    domain = load_domain(schema, given)
    options = replace(options, expected=expected_given(given, domain))
    _note(_differing(domain, options, given, epsilons))
    planned: Callable[..., tuple[Any, str]] = _planned_budgets if len(epsilons) > 1 else _planned_session
    planned = planned if given["preset"] is None else _planned_textbook
    form, text = planned(domain, options, {**given, "epsilons": epsilons}, schema)
    echo(json_line(form) if as_json else text)


def _refuse_wrong_count(records: int | None, given: dict[str, Any]) -> None:
    budget = [given["epsilon"], given["accuracy"]]
    if given["preset"] is not None:
        told = "give two of --epsilon, --accuracy and --records: --preset textbook gives the third"
        if [records, *budget].count(None) != 1:
            raise click.UsageError(told)
    elif records is None:
        raise click.MissingParameter(param_hint="'--records'", param_type="option")
    else:
        one = "with --test query give --epsilon or --accuracy, one of the two"
        if budget == [None, None]:
            raise click.UsageError("give --epsilon or --accuracy, or both")
        if None not in budget and given["test"] == "query":
            raise click.UsageError(one)


def _epsilons(given: dict[str, Any]) -> tuple[str, ...]:
    """Return the epsilons that were typed, each a budget with delta; none where --accuracy chooses one."""
    from pmw.privacy.budget import Budget

    found = () if given["epsilon"] is None else tuple(one.strip() for one in given["epsilon"].split(","))
    missing = "expected numbers such as 1 or 0.5,1,2; one between commas is missing"
    if len(found) > _MOST_BUDGETS:
        raise click.UsageError(f"--epsilon: expected at most {_MOST_BUDGETS} budgets, got {len(found):,}")
    if "" in found:
        raise click.UsageError(f"--epsilon: {missing}")
    for one in found or (None,):
        read_budget({**given, "epsilon": one})
    other = "".join(typed("accuracy", "preset")[:1]) if len(found) > 1 else ""
    several = len({Budget.of(one).epsilon for one in found}) < len(found)
    if several:
        raise click.UsageError(f"--epsilon: expected each budget once, got {given['epsilon']}")
    if other:
        raise click.UsageError(f"{other} plans one budget; give one --epsilon, or leave {other} out")
    return found


def _planned_budgets(
    domain: Domain, options: Options, given: dict[str, Any], schema: Path
) -> tuple[list[Any], str]:
    """Return the plans of several epsilons, ready for JSON and in words."""
    from pmw.cli.plan_texts import budgets_text
    from pmw.errors import BudgetError
    from pmw.planning.plans import plan_session

    plans, how = [], {"records": given["records"], "delta": given["delta"], "options": options}
    for one in given["epsilons"]:
        try:
            plans.append(plan_session(domain, epsilon=one, **how))
        except BudgetError as error:
            raise BudgetError(f"epsilon {one}: {error}") from None
    return [plan.to_dict() for plan in plans], budgets_text(plans, schema)


def _planned_session(
    domain: Domain, options: Options, given: dict[str, Any], schema: Path
) -> tuple[dict[str, Any], str]:
    """Return the plan of a session, likewise."""
    from pmw.cli.plan_texts import plan_text
    from pmw.planning.plans import contract_budget, forecast_people, out_of_reach, plan_accuracy, plan_session

    epsilon, accuracy, delta = given["epsilon"], given["accuracy"], given["delta"]
    how = {"records": given["records"], "delta": delta, "options": options}
    if accuracy is None or epsilon is not None:
        plan = plan_session(domain, epsilon=contract_budget(domain, epsilon, delta, options).epsilon, **how)
    elif (found := plan_accuracy(domain, accuracy=accuracy, **how)) is not None:
        plan = found
    else:
        raise click.ClickException(out_of_reach(accuracy))
    people = forecast_people(plan)
    form = {"people": [asdict(one) for one in people]} if people else {}
    return {**plan.to_dict(), **form}, plan_text(plan, schema, people)


def _planned_textbook(
    domain: Domain, options: Options, given: dict[str, Any], schema: Path
) -> tuple[dict[str, Any], str]:
    """Return Theorem 5, solved, and the plan of a session with its numbers, likewise."""
    from pmw.cli.plan_texts import plan_text, theorem_text
    from pmw.planning.plans import plan_session
    from pmw.planning.theorems import solve_textbook

    how = {name: given[name] for name in ("records", "epsilon", "delta", "accuracy")}
    theorem = solve_textbook(domain, options=options, **how)
    budget = theorem.budget
    plan = plan_session(
        domain, records=theorem.records, epsilon=budget.epsilon, delta=budget.delta, options=options
    )
    text = f"{theorem_text(theorem)}\n\n{plan_text(plan, schema)}"
    return {**plan.to_dict(), "theorem": theorem.to_dict()}, text
