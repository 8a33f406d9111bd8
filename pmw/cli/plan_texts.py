"""What ``pmw plan`` prints: a session that nobody has opened yet, on one screen."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

from pmw.display.texts import at_most_percent, counted, listed, number, text_table
from pmw.planning.opening import KEPT_FOR_PERSONS, KEPT_FOR_SUMS, opens_persons
from pmw.planning.outlook import OrderForecast
from pmw.planning.plans import PeopleForecast
from pmw.planning.session_plan import SessionPlan
from pmw.planning.tested_bounds import MarginalForecast
from pmw.planning.theorems import TextbookPlan
from pmw.public.clear import FULL
from pmw.public.contract import contract_words, guarantee_terms, largest_belief, replacement
from pmw.public.error_quantiles import SHARE
from queries.cells import cell_count

_ROW = "  {:<23} {:>13} {:>14} {:>11} {:>20}"
_SHOWN_ORDERS = 4  # one row each; what more attributes get is one row together


def plan_text(plan: SessionPlan, schema: Path, people: Sequence[PeopleForecast] = ()) -> str:
    """Return a plan in words and one table, and what numbers of records per person would cost."""
    told = [*_head(plan), "", *_table(plan), "", *_tests(plan), *_beside(plan), *_people(people)]
    return "\n".join([*told, _next(plan, schema)])


def budgets_text(plans: Sequence[SessionPlan], schema: Path) -> str:
    """Return the plans of several epsilons beside each other: what they give, and what one person risks."""
    contract = plans[0].contract
    delta, options = float(contract.budget.delta), contract.options
    titles = [f"epsilon = {float(plan.contract.budget.epsilon):g}" for plan in plans]
    fact = "that a person's records say one thing" if options.replaces else "that somebody is in the table"
    table = budget_table(plans, titles, sized=True)
    held = f"bounds hold at {options.confidence * 100:.6g}% confidence"
    tested = ", and while positives are left" if "if tested" in table else ""
    lines = [
        _subject(plans[0]),
        f"Guarantee: epsilon{f' and delta = {delta:g}' if delta else ''}, for {replacement(contract)}.",
        "",
        table,
        f"  In records, of the noisiest attribute or pair; {held}{tested}.",
        "",
        f"Risk: whoever thinks it 50% likely {fact} can come to think it as likely as",
        "  the last line says, at most, from all that is released together.",
    ]
    if not options.replaces:
        lines.append("  A guess about what somebody's records say can grow as at twice the epsilon.")
    if delta:
        lines.append(f"  Delta is apart: releases that tell clearly more have a chance of about {delta:g}.")
    return "\n".join([*lines, _next(plans[0], schema, "E"), "  pmw plan with one epsilon tells more of it."])


def budget_table(plans: Sequence[SessionPlan], titles: Sequence[str], *, sized: bool) -> str:
    """Return what budgets give as a table, a column for each.

    Args:
        sized: the number of records is known; else bounds that depend on it are left out.
    """

    def near(place: int) -> list[str]:
        return [_near(plan.orders[place], plan, sized=sized) for plan in plans]

    held, pairs = [len(plan.held.held) for plan in plans], plans[0].held.number
    rows = [("a count by one attribute, within ±", *near(1))]
    if pairs:
        rows.append(("a count by two attributes, within ±", *near(2)))
        rows.append(("pairs of attributes that an export has", *(f"{one:,} of {pairs:,}" for one in held)))
    beliefs = (at_most_percent(largest_belief(plan.contract)) for plan in plans)
    rows.append(("a 50% guess about one person can become", *beliefs))
    return text_table(("", *titles), rows, left=1)


def _near(order: OrderForecast, plan: SessionPlan, *, sized: bool) -> str:
    if order.bound is None:
        return "no bound"
    if order.promise == "tested":
        return f"{_bound(order.bound, plan)} if tested" if sized else "only if tested"
    return _bound(order.bound, plan) if sized else number(order.bound)


def _subject(plan: SessionPlan) -> str:
    domain = plan.contract.domain
    return (
        f"Plan for {domain.name!r}: {counted(len(domain), 'attribute')}, "
        f"{counted(cell_count(domain.size), 'cell')}, {counted(plan.records, 'record')}. "
        "No data is read, nothing is spent."
    )


def _head(plan: SessionPlan) -> Iterator[str]:
    yield _subject(plan)
    yield f"Guarantee: {guarantee_terms(plan.contract)}."
    promise = contract_words(plan.contract.options)
    if promise is not None:
        yield f"Contract: {promise}."
    attributes = "" if plan.table_measured else plan.attributes
    parts = (
        (plan.total_deviation, "the number of records"),
        (plan.table_measured, "the whole table, cell by cell"),
        (attributes, counted(len(attributes), "one-attribute marginal")),
        (plan.pairs, f"all {counted(plan.pairs, 'pair')}"),
        (plan.triples, f"all {counted(plan.triples, 'triple')}"),
    )
    measured = listed([words for is_so, words in parts if is_so]) or "nothing is measured"
    yield f"Opening: {measured} ({plan.opening_share:.1%} of the budget)."
    yield from _beside_counts(plan)
    if plan.number_bound is not None:
        share = float(plan.contract.options.reserved)
        yield f"Reserve: {share:.0%} of the budget is kept for what is asked."
        yield (
            f"  Where an error bar is wider than ± {plan.number_bound:,.0f} records, the question, or all "
            f"groups of the statement together, get numbers within that: {FULL} times, then wider ones."
        )
    if plan.expected is not None:
        found = plan.expected
        yield (
            f"Expected: {counted(found.questions, 'question')} about "
            f"{counted(found.sets, 'set')} of attributes; their typical bar is ± {found.bound:,.0f} records, "
            f"± {found.usual_bound:,.0f} without --expect."
        )
    shapes = zip(plan.contract.domain.shape, plan.coarse.shape, strict=True)
    if binned := sum(declared != coarse for declared, coarse in shapes):
        attributes = "1 long attribute is" if binned == 1 else f"{binned} long attributes are"
        yield f"  {attributes} put into bins, chosen from one-attribute counts."


def _beside_counts(plan: SessionPlan) -> Iterator[str]:
    def kept(share: Fraction, what: str) -> str:
        is_kept = plan.pairs and plan.contract.options.tests_questions
        return f"; {float(share):.0%} of the budget is kept for {what}" if is_kept else ""

    if plan.sums:
        later = kept(KEPT_FOR_SUMS, "sums on request")
        yield f"  Sums of values of {listed(plan.sums)} are measured, too{later}."
    if opens_persons(plan.contract.domain, plan.contract.options):
        later = kept(KEPT_FOR_PERSONS, "persons by group")
        yield f"  The number of persons is measured, too, where that tells more than the records do{later}."


def _people(people: Sequence[PeopleForecast]) -> Iterator[str]:
    row = "  {:>9} {:>14} {:>14} {:>14} {:>14}"
    if people:
        yield "Bounds by records per person, K (pmw check tells the custodian what share of a table K keeps):"
        yield row.format("K", "everybody", "one cell", "tested", "measured")
    for one in people:
        bounds = (one.everybody_bound, one.cell_bound, one.tested_bound, one.measured_bound)
        yield row.format(f"{one.records:,}", *("" if bound is None else f"{bound:,.0f}" for bound in bounds))


def _table(plan: SessionPlan) -> Iterator[str]:
    yield _ROW.format("question about", "cells", "records in one", "mean error", "bound")
    shown = _SHOWN_ORDERS if len(plan.orders) > _SHOWN_ORDERS + 1 else _SHOWN_ORDERS + 1
    for order in plan.orders[:shown]:
        yield from _order_rows(order, plan)
    if wider := plan.orders[shown:]:
        more, bounds = f"{_SHOWN_ORDERS} or more attributes", [order.bound for order in wider]
        widest = None if None in bounds else max(filter(None, bounds), default=0.0)
        yield _ROW.format(more, "", "", _error(wider[-1], plan), _bound(widest, plan))
    if plan.vector is not None:
        error, bound = number(plan.vector.value_error), _bound(plan.vector.value_bound, plan)
        yield _ROW.format("measured answer", "", "", error, bound)
    if plan.marginals is not None:
        error, bound = number(plan.marginals.cell_error), _bound(plan.marginals.cell_bound, plan)
        yield _ROW.format("cell, measured marginal", "", "", error, bound)
    yield from _legend(plan)


def _order_rows(order: OrderForecast, plan: SessionPlan) -> Iterator[str]:
    names = {0: "everybody", 1: "1 attribute, one cell"}
    name = names.get(order.order, f"{order.order} attributes")
    error, cells = _error(order, plan), cell_count(order.cells)
    yield _ROW.format(name, cells, number(order.mean_count), error, _bound(order.bound, plan))
    if order.order == 1 and plan.attributes:
        widest = max(plan.attributes, key=lambda attribute: attribute.range_bound)
        error, bound = number(widest.range_error), _bound(widest.range_bound, plan)
        yield _ROW.format("  its lower half", "", "", error, bound)


def _legend(plan: SessionPlan) -> Iterator[str]:
    held = f"bounds hold at {plan.contract.options.confidence * 100:.6g}% confidence"
    said = f"In records, of one attribute for the noisiest; {held}"
    if all(order.promise != "tested" for order in plan.orders):
        yield f"  {said}."
        return
    yield f"  {said}, and while positives are left. A tested"
    yield "  answer is off by less than its bound."


def _error(order: OrderForecast, plan: SessionPlan) -> str:
    if order.expected_error is not None:
        return number(order.expected_error)
    if order.promise == "tested":
        return "tested"
    return "unknown" if plan.number_bound is None else "when asked"


def _tests(plan: SessionPlan) -> Iterator[str]:
    if plan.table_measured:
        yield "Tests: none is needed; the measured table covers every question."
        return
    if plan.choice is not None:
        yield (
            "Pairs: with all of them measured, questions about two attributes err by about "
            f"{_records(plan.choice.measured)};"
        )
        yield f"  with tests of them (--opening one-way), by about {number(plan.choice.tested)}."
    if plan.marginals is not None:
        yield from _marginal_tests(plan, plan.marginals)
        return
    vector = plan.vector
    if plan.number_bound is not None:
        yield "Tests: none; numbers are drawn where error bars are wide."
        return
    if vector is None:
        yield "Tests: nothing is left for them; what opening does not cover is answered without a bound."
        return
    yield (
        f"Tests: they look for errors above {_records(vector.threshold)} (noise scales: test "
        f"{number(vector.query_scale)}, threshold {number(vector.threshold_scale)})."
    )
    deviation = number(vector.value_deviation)
    yield f"  Up to {_of_them(vector.update_limit)} measured (noise sd {deviation}) and correct the"
    yield "  model; after that, answers that opening does not cover carry no bound."
    yield from _quantiles(plan)


def _marginal_tests(plan: SessionPlan, tests: MarginalForecast) -> Iterator[str]:
    names = {1: "attributes", 2: "pairs", 3: "triples"}
    tested = ", ".join(
        f"{'at most ' if one.order > 2 else ''}{one.tested:,} of {one.marginals:,} {names[one.order]}"
        for one in tests.certificates
    )
    cells = counted(cell_count(tests.most_cells), "cell")
    yield f"Tests: they compare whole marginals of up to {cells} with the model ({tested};"
    yield (
        f"  noise scales: test {number(tests.query_scale)}, threshold "
        f"{_records(tests.threshold_scale)}). Up to {_of_them(tests.update_limit)} measured (noise sd"
    )
    yield (
        f"  {number(tests.cell_deviation)} on each cell) and correct the model. A marginal found right "
        "bounds every question"
    )
    yield "  on it; where it cuts bins, the bound is wider by half of the records in them."
    if tests.head_start >= 1:
        questions = counted(plan.contract.options.expected_queries, "question")
        yield (
            f"  Bounds are those of tests after {questions}; those "
            f"of the first are up to {number(tests.head_start / 2)} wider: so the worst is measured first."
        )
    if tests.single is not None:
        yield (
            f"  What no marginal bounds is tested by itself, for errors above "
            f"{_records(tests.single.threshold)}, until"
        )
        answers = counted(tests.single.update_limit, "such answer")
        parts = "is" if tests.single.update_limit == 1 else "are"
        yield f"  {answers} {parts} measured; after that they carry no bound."
    yield from _quantiles(plan)


def _quantiles(plan: SessionPlan) -> Iterator[str]:
    if plan.typical_margin is not None:
        part = f"{plan.contract.options.confidence:.0%}"
        yield (
            f"  {float(SHARE):.0%} of the budget is kept to tell how near {part} of the answers were; noise "
            f"adds {_records(plan.typical_margin)}."
        )


def _beside(plan: SessionPlan) -> Iterator[str]:
    if plan.sparse_vectors:
        kinds = "Kinds of tests at this price (--sparse-vector)"
        yield f"{kinds}, and how near to its threshold any test may err:"
        shown = [
            f"{one.name}{' (chosen)' if one.chosen else ''} {number(one.half_band)}"
            for one in sorted(plan.sparse_vectors, key=lambda one: one.half_band)
        ]
        yield f"  {', '.join(shown)} records."
    yield from _delta(plan)
    theorem = "4.15" if plan.contract.budget.delta else "4.14"
    textbook, answers = plan.textbook, counted(plan.contract.options.expected_queries, "answer")
    yield f"Textbook theorems (Dwork and Roth 2014) for the same budget, all {answers} at once:"
    if textbook.online_pmw_update_limit is None:
        yield "  online private multiplicative weights: nothing, its printed noise does not keep this budget"
    else:
        yield (
            f"  online private multiplicative weights, Theorem {theorem}: errors up to "
            f"{_bound(textbook.online_pmw_error, plan)}, at most "
            f"{counted(textbook.online_pmw_update_limit, 'update')}"
        )
    if textbook.numeric_sparse_error is not None and plan.vector is not None:
        positives = counted(plan.vector.update_limit, "positive")
        yield (
            f"  numeric sparse with {positives}, Theorem 3.28: errors up to "
            f"{_bound(textbook.numeric_sparse_error, plan)} around T"
        )
    size = plan.model_bytes
    memory = f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size / 1e3:,.1f} kB"
    cells = counted(cell_count(plan.model_cells), "cell")
    if plan.dense:
        yield f"Model: {cells}, {memory}; up to 2.5 times that while it is corrected."
    else:
        yield f"Model: a tree of marginals of at most {cells} together, {memory}."


def _delta(plan: SessionPlan) -> Iterator[str]:
    other = plan.other_delta
    if other is None:
        return
    parts: list[str] = []
    for name, bound, ratio in (
        ("one cell", other.cell_bound, other.cell_ratio),
        ("tested", other.tested_bound, other.tested_ratio),
        ("measured", other.value_bound, other.value_ratio),
    ):
        if bound is not None and ratio is not None:
            times = ratio if other.delta == 0 else 1 / ratio
            parts.append(f"{name} {number(bound)} (x {times:.2g})")
    if parts:
        yield f"With delta = {other.delta:g} instead, bounds would be: {', '.join(parts)}."


def _next(plan: SessionPlan, schema: Path, epsilon: str = "") -> str:
    budget = plan.contract.budget
    epsilon, delta = epsilon or f"{float(budget.epsilon):g}", float(budget.delta)
    budget_given = f"--epsilon {epsilon} --delta {delta:g}" if delta else f"--epsilon {epsilon}"
    options = f"--schema {shlex.quote(str(schema))} {budget_given}"
    others = "other options" if plan.contract.options.bar_limit is not None else "options but --records"
    return f"Next: pmw open SESSION --data FILE {options}, with the same {others}."


def theorem_text(plan: TextbookPlan) -> str:
    """Return Theorem 5 of the lecture in numbers, and the book's theorems that it rests on, by number."""
    loop, test, delta = plan.loop, plan.noise.sparse.test, float(plan.budget.delta)
    given = {
        "epsilon": f"epsilon = {float(plan.budget.epsilon):.6g}",
        "alpha": f"alpha = {plan.alpha:.4g}",
        "n": f"n = {counted(plan.records, 'record')}",
    }
    rest = " and ".join(text for name, text in given.items() if name != plan.solved)
    questions, figures = counted(plan.queries, "question"), plan.figures
    scales = [number(float(scale)) for scale in (test.threshold_scale, test.query_scale, plan.value_scale)]
    void = ", more than all: it promises nothing" if plan.alpha >= 1 else ""
    return "\n".join(
        [
            f"Theorem 5 (Kamath, Lecture 9), solved for {plan.solved}: {given[plan.solved]}",
            f"  with {rest}, delta = {delta:g}, beta = {plan.beta:.4g},",
            f"  {questions}, {cell_count(plan.cells)} cells: all errors within {_records(loop.error)}{void}.",
            "  Dwork and Roth (2014) have the constants, for the loop with the printed noise:",
            f"  Theorem {'4.15' if delta else '4.14'}, the loop: T = {_records(loop.threshold)}, eta = "
            f"{loop.learning_rate:.3g}, c = {loop.update_limit:,}; errors up to 1.5 T",
            f"  Theorem 4.10, multiplicative weights: at most {counted(loop.update_limit, 'update')}",
            "  Theorem 3.27, NumericSparse is private: Laplace noise of scale "
            f"{scales[0]} on T, {scales[1]} on tests, {scales[2]} on values",
            f"  Theorem 3.28, NumericSparse: alpha = {_records(figures['numeric_sparse'])} at c positives",
            f"  Theorem 3.26, Sparse: alpha = {_records(figures['sparse'])}",
            f"  Theorem 3.24, AboveThreshold: alpha = {_records(figures['above_threshold'])}",
            "Below is a session by the same loop, which plans T, c, eta and noise itself.",
        ]
    )


def _records(value: float) -> str:
    return counted(number(value), "record")


def _of_them(limit: int) -> str:
    return "1 of them is" if limit == 1 else f"{limit} of them are"


def _bound(records: float | None, plan: SessionPlan) -> str:
    if records is None:
        return "none"
    share = records / plan.records
    part = "more than all" if share > 1 else f"{share:.0%}" if share > 0.095 else f"{100 * share:.2g}%"
    return f"{number(records)} ({part})"
