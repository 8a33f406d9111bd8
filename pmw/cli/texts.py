"""What commands print: public state in words."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import click

from pmw.answer_table import Answers
from pmw.answers import SEEDED_WARNING, Answer, Source
from pmw.model import NoiseLaw, noise_variance
from pmw.policy import Opening, QueryTestPlan, TestPlan
from pmw.release import guarantee
from pmw.state import PublicState
from pmw.status import Status, status_rows
from queries.domain import Attribute, CategoricalAttribute, Domain, IntegerAttribute
from queries.linear import UNITS

__all__ = [
    "answer_text",
    "answers_text",
    "example_where",
    "json_line",
    "opening_text",
    "rounded",
    "say",
    "status_json",
    "status_text",
]

_written = json.JSONEncoder(ensure_ascii=False).encode  # one for all lines

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # needs no quotes in a condition

_SOURCES = {
    Source.SYNTHETIC: "from the model; released numbers bound its error",
    Source.MEASURED: "measured for this question",
    Source.EXHAUSTED: "from the model; no more tests are paid for, so nothing is promised",
    Source.UNVERIFIED: "from the model; never tested, so nothing is promised",
}


def say(text: str) -> None:
    """Print data to standard output."""
    click.echo(text)


def json_line(form: Any) -> str:
    """Return one line of JSON that can be written as UTF-8: half a surrogate pair stays an escape."""
    return _written(form).encode(errors="backslashreplace").decode()


def status_json(status: Status) -> str:
    """Return a status as one line of JSON."""
    return json_line(status.to_dict())


def opening_text(state: PublicState, path: Path) -> str:
    """Return what a custodian is told after opening."""
    total, plan = state.total, state.plan
    error = f" ± {2 * total.deviation:,.0f}" if total.deviation else ""
    bought = "the number of records"
    if state.contract.options.opening is Opening.ONE_WAY:
        whole = any(len(one.scope) > 1 for one in state.opening)
        bought += " and the whole table" if whole else f" and {len(state.opening)} one-attribute marginals"
    lines = [
        f"Opened {path} over {state.domain.name!r}: {len(state.domain)} attributes, "
        f"{state.domain.size:,} cells, about {total.value:,.0f}{error} records.",
        f"Guarantee: {guarantee(state.contract)}.",
        f"Bought at opening: {bought} ({state.ledger.share:.1%} of the budget).",
    ]
    lender = state.contract.options.budget_from
    if lender is not None:
        lines.append(
            f"All of this budget was charged to {lender}; both together keep that session's guarantee."
        )
    lines.append(_tests_text(plan))
    lines.append(f'Next: pmw ask {path} "{example_where(state.domain)}"')
    return "\n".join(lines)


def _tests_text(plan: TestPlan | None) -> str:
    """Return what is tested, and what positives buy."""
    if plan is None:
        return "Nothing is left for tests: questions are answered from these alone."
    if isinstance(plan, QueryTestPlan):
        return (
            f"Tests look for errors above {plan.threshold / UNITS:,.0f} records; up to {plan.update_limit} "
            f"of them buy a measurement, each within about ± {2 * _deviation(plan.vector.value_noise):,.0f}."
        )
    per_cell = plan.threshold(1, 2**62) - plan.margin
    text = (
        "Tests look for marginals farther from the model than their noise would be "
        f"({rounded(per_cell / UNITS)} records per cell, and {plan.margin / UNITS:,.0f}; at first more); "
        "up to "
        f"{plan.update_limit} marginals are bought, each cell with standard deviation "
        f"{rounded(_deviation(plan.noise))}."
    )
    if plan.queries is not None:
        text += (
            f" Questions that no marginal holds are tested one by one; up to {plan.queries.update_limit} of "
            "them buy a measurement, each within about "
            f"± {2 * _deviation(plan.queries.vector.value_noise):,.0f}."
        )
    return text


def answer_text(answer: Answer) -> str:
    """Return an answer as a sentence with its error bar, and where it comes from."""
    spent = answer.spent
    delta = f", delta {spent.delta:g}" if spent.delta else ""
    sentence = answer.sentence()
    lines = [
        sentence[0].upper() + sentence[1:] + ".",
        f"({answer.source.value}: {_SOURCES[answer.source]}; model version {answer.version}; "
        f"{spent.share:.1%} of the budget spent, cap epsilon {spent.epsilon_cap:g}{delta})",
    ]
    if answer.seeded:
        lines.append(SEEDED_WARNING)
    return "\n".join(lines)


def answers_text(answers: Answers) -> str:
    """Return the answers of a grouped question as a table, and what they rest on."""
    last = answers[-1]
    delta = f", delta {last.spent.delta:g}" if last.spent.delta else ""
    first, newest = min(answer.version for answer in answers), max(answer.version for answer in answers)
    versions = f"model version {newest}" if first == newest else f"model versions {first} to {newest}"
    lines = [
        answers.to_text(),
        f"(low and high: {last.confidence:.0%} confidence each; {versions}; {last.spent.share:.1%} of the "
        f"budget spent, cap epsilon {last.spent.epsilon_cap:g}{delta})",
    ]
    if not all(answer.aligned for answer in answers):
        lines.append("Cells that the condition cuts are taken as evenly filled.")
    return "\n".join(lines)


def status_text(state: PublicState, status: Status) -> str:
    """Return a status in words."""
    rows = status_rows(state, status)
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def _deviation(noise: NoiseLaw) -> float:
    return math.sqrt(noise_variance(noise))


def rounded(value: float) -> str:
    """Return a number of records: whole from 10 on, else two digits; never with an exponent of ten."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def example_where(domain: Domain) -> str:
    """Return a where-text over the last two attributes that a newcomer can try."""
    return " AND ".join(_example_condition(attribute) for attribute in domain.attributes[-2:])


def _example_condition(attribute: Attribute) -> str:
    name = attribute.name if _PLAIN_NAME.fullmatch(attribute.name) else f'\\"{attribute.name}\\"'
    if isinstance(attribute, CategoricalAttribute):
        value = attribute.values[0]
        text = value.replace("'", "''") if isinstance(value, str) else ""
        return f"{name} = '{text}'" if isinstance(value, str) else f"{name} = {str(value).upper()}"
    if isinstance(attribute, IntegerAttribute):
        middle = attribute.base_size // 2 * attribute.width
        return f"{name} >= {attribute.minimum + middle}"
    return f"{name} < {attribute.edges[1]:g}"
