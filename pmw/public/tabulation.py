"""Tabulations: statements under way, their counting questions and the tables of their answers."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from pmw.public.aggregates import Aggregates
from pmw.public.agreement import Asked, in_whole_numbers, with_sums
from pmw.public.answer import Answer, Source
from pmw.public.bars import Bars
from pmw.public.clear import may_draw
from pmw.public.contract import display_words
from pmw.public.evidence import NOT_HELD, ScopeKnowledge, holding_of, is_held
from pmw.public.free_answers import ModelAnswers, chosen_answer, spent_in
from pmw.public.plans import marginal_tier
from pmw.public.quotes import measuring, way_to_bars
from pmw.public.state import PublicState
from pmw.public.sums import Estimate, joined
from pmw.public.tables import AnswerTable, Key, Row
from pmw.public.windows import Windows, uncertain_places
from pmw.public.withholding import Told, withheld
from queries.cells import OTHER_LABEL
from queries.expressions import (
    AggregateNode,
    Arithmetic,
    Chosen,
    Coalesced,
    Compared,
    Constant,
    Correlation,
    Joined,
    KeyFunction,
    Linear,
    Node,
    Persons,
    Quantile,
    Ratio,
    Rounding,
    Share,
    Sorting,
    Test,
    Truth,
    Window,
    inner_nodes,
)
from queries.linear import LinearQuery
from queries.parsing import part_key
from queries.statements import TOTAL, Group, OutputColumn, Statement

_CONDITIONAL = "low and high of what is {} hold if there are records to take it of"
_IMPOSSIBLE = "there is no number where no record can be by the declaration"
_NO_RECORDS = "there is no number where the model has no records, or divides by 0"
_BY_ZERO = "nothing is promised of a quotient whose divisor may be 0"
_OPEN_PLACE = "nothing is promised of rows before or beside another one where the bars leave their order open"
_WITHHELD = "{}; so are others that would tell such a one by sums and differences in this table"
_NO_BAR = "CORR has no error bar"
_SUMS = "sums of {} by these groups may narrow wide bars: {} tells their price, and how far means are off"
_LAST = 3  # what sorts a withheld number: after all others
_WORK = 16  # what an aggregate of one group takes, in questions
Pause: TypeAlias = Callable[[int], None]
_Read: TypeAlias = "tuple[_Rows, tuple[str, ...]]"  # what reads rows, and what has to be known of them
_Asked: TypeAlias = tuple[AggregateNode, Group, LinearQuery]


class Tabulation:
    """A statement under way: the counting questions that its aggregates need, and the table of their answers.

    Every aggregate of a group has one question. They are asked like any others, so that tests may run and be
    charged for; what they are answered with bounds the aggregates as well.

    Args:
        pause: called with the work of each aggregate of a group, in questions that take as long.
    """

    def __init__(self, state: PublicState, statement: Statement, pause: Pause = lambda _: None) -> None:
        statement.require_one_step()
        self._statement = statement
        self.left_out: list[LinearQuery] = []  # what would say nothing, and is not asked
        self._asked: list[_Asked] = []
        self._arms = [Tabulation(state, arm, pause) for arm in statement.arms]
        if self._arms:
            self._asked = [one for arm in self._arms for one in arm._asked]
            self.left_out = [one for arm in self._arms for one in arm.left_out]
            return
        if statement.counts_alone:
            self._asked = list(statement.questions())
            return
        aggregates = Aggregates(state, statement)
        asked: list[_Asked] = []
        for group in statement.groups():
            for leaf in statement.leaves:
                asked.append((leaf, group, aggregates.question(leaf, group)))
                pause(_WORK)
        tells = [_is_counting(leaf) or _may_be_held(state, query) for leaf, _, query in asked]
        self._asked = [one for one, told in zip(asked, tells, strict=True) if told]
        self.left_out = [one[2] for one, told in zip(asked, tells, strict=True) if not told]

    def __len__(self) -> int:
        return len(self._asked)

    def questions(self, request_id: str | None = None) -> Iterator[tuple[LinearQuery, str | None]]:
        """Yield the counting questions, each with its idempotency key."""
        for leaf, group, query in self._asked:
            yield query, part_key(request_id, self._statement.question_number(leaf, group))

    def _charged(self, answers: Sequence[Answer]) -> float:
        asked = zip(self._asked, answers, strict=True)
        return sum(
            {query.to_json(): one.spent.charged for (*_, query), one in asked if one.spent.charged}.values()
        )

    def table(
        self,
        state: PublicState,
        answers: Sequence[Answer],
        pause: Pause = lambda _: None,
        place: str | None = None,
    ) -> AnswerTable:
        """Return the table, from the state after its counting questions; nothing is spent.

        Args:
            place: of the session, for notes that tell how to measure; see ``pmw.public.quotes.measuring``.
        """
        rest, arms = iter(answers), self._arms or [self]
        parts = [list(itertools.islice(rest, len(arm))) for arm in arms]
        pairs = list(zip(arms, parts, strict=True))
        readers = [arm._reader(state, own, pause, place) for arm, own in pairs]
        if state.contract.options.least_records is not None:
            _withhold(state, [reader for reader, _ in readers], pause)
        found = zip(pairs, readers, strict=True)
        tables = [arm._alone(state, own, pause, read) for (arm, own), read in found]
        return _stacked(tables, self._statement, self._charged(answers)) if self._arms else tables[0]

    def _reader(
        self, state: PublicState, answers: Sequence[Answer], pause: Pause, place: str | None
    ) -> _Read:
        """Return what reads rows off the answers, and what has to be known of these."""
        statement = self._statement
        found: Mapping[Asked, Answer] = {
            (id(leaf), group.places): answer
            for (leaf, group, _), answer in zip(self._asked, answers, strict=True)
        }
        found, moved = with_sums(state, statement, found)
        found = in_whole_numbers(statement, found)
        reader = _Rows(state, statement, found, place)
        return reader, (*moved, *reader.allow_for_choice(self._asked, pause))

    def _alone(self, state: PublicState, answers: Sequence[Answer], pause: Pause, read: _Read) -> AnswerTable:
        statement, (reader, moved) = self._statement, read
        keys = [column for column in statement.columns if column.is_key]
        shown = statement.columns[len(keys) :]
        groups = reader.ordered(reader.kept(pause), statement.order)
        end = len(groups) if statement.limit is None else statement.offset + statement.limit
        chosen, listed = slice(statement.offset, end), groups[statement.offset : end]
        rows = tuple(reader.rows(keys, shown, listed))
        if statement.limit is not None and any(one.node.events() for one in statement.order):
            moved += uncertain_places(reader, groups, statement.order, range(len(groups))[chosen])
        queries = [*self.left_out, *(query for _, _, query in self._asked)]
        moved += (*_bin_notes(state, statement, queries), *reader.reasons(shown, listed))
        # As the answers say, where they say it all; else of the newest model.
        version, spent = state.version, spent_in(state)
        if statement.counts_alone and answers:
            version, spent = max(answer.version for answer in answers), answers[-1].spent
        words = statement.where.describe()
        return AnswerTable(
            tuple(column.title for column in keys),
            tuple(column.title for column in shown),
            rows,
            state.contract.options.confidence,
            (*statement.notes, *statement.clip_notes, *moved),
            version,
            replace(spent, charged=self._charged(answers)),
            state.contract.seeded,
            state.contract.records_kept,
            whole=frozenset(column.title for column in shown if column.node.is_whole),
            totals=_totals([column.node for column in keys], listed),
            ordered=_ordered(keys, listed),
            units={column.title: unit for column in shown if (unit := _unit(column.node))},
            about="" if words == "everybody" else words,
            withholds=state.contract.options.least_records is not None,
        )


def _withhold(state: PublicState, readers: Sequence[_Rows], pause: Pause) -> None:
    """Have the readers of one table withhold what may be of few persons, and what would tell it."""
    model, counts = ModelAnswers(state), dict[bytes, float]()
    told = [one for arm, reader in enumerate(readers) for one in reader.told(arm, model, counts, pause)]
    hidden, small = withheld(told, state.domain), {one.key for one in told if one.is_small}
    for arm, reader in enumerate(readers):
        reader.withheld = {key[1:]: key in small for key in hidden if key[0] == arm}


def _stacked(tables: Sequence[AnswerTable], statement: Statement, charged: float) -> AnswerTable:
    first, rows = tables[0], [row for table in tables for row in table.rows]
    for one in reversed(statement.order):
        place = int(one.node.number) if isinstance(one.node, Constant) else 0
        is_last = [
            place >= len(keys) and found[place - len(keys)].source is Source.WITHHELD for keys, found in rows
        ]
        values: list[tuple[Key, bool]] = [  # what is shown there, and whether it is promised
            (keys[place], True)
            if place < len(keys)
            else (found[place - len(keys)].value, found[place - len(keys)].is_promised)
            for keys, found in rows
        ]
        listed = sorted(
            range(len(rows)), key=lambda row: _sort_key(values[row][0]), reverse=one.greatest_first
        )
        empty = -1 if one.nulls_first else 2
        listed.sort(key=lambda row: empty if values[row][0] is None else int(not values[row][1]))
        listed.sort(key=lambda row: is_last[row])
        rows = [rows[row] for row in listed]
    end = len(rows) if statement.limit is None else statement.offset + statement.limit
    notes = [note for table in tables for note in table.notes]
    if any(one.node.number >= len(first.keys) for one in statement.order if isinstance(one.node, Constant)):
        notes.insert(0, "ORDER BY acts on the answers, not on the true numbers")
    return replace(
        first,
        rows=tuple(rows[statement.offset : end]),
        notes=tuple(dict.fromkeys(notes)),
        version=max(table.version for table in tables),
        spent=replace(tables[-1].spent, charged=charged),
        whole=frozenset(
            title
            for place, title in enumerate(first.titles)
            if all(table.titles[place] in table.whole for table in tables)
        ),
        totals=(),
        ordered={},
        about="",
    )


def _sort_key(value: Key) -> tuple[int, float | str]:
    return (1, value) if isinstance(value, str) else (0, -math.inf if value is None else float(value))


def _bin_notes(state: PublicState, statement: Statement, queries: Iterable[LinearQuery]) -> Iterator[str]:
    """Yield which keys have values in one bin, where nothing but bins is known of the questions."""
    known = {scope: ScopeKnowledge.of(state, scope, scope) for scope in {query.scope for query in queries}}
    by_bins = {name for scope, one in known.items() if not (one.opened or one.fine) for name in scope}
    for name in state.domain.scope(sorted(by_bins)):
        bin_ = state.coarsening.bins[state.domain.index(name)]
        keys = [one.groups for one in statement.groupings if one.scope == (name,)]
        if bin_ is not None and any(
            sum(np.unique(bin_[cells]).size for _, cells in groups) > bin_.max() + 1 for groups in keys
        ):
            yield (
                f"of {name} these rows are known by {bin_.max() + 1:,} bins of {bin_.size:,} values: those "
                "that share bins are told apart by how all records are spread inside them, not by their own"
            )


def _totals(keys: Sequence[Node], groups: Sequence[Group]) -> tuple[tuple[int, ...], ...]:
    """Return the places of the keys that each group is a total over; nothing where no group is one."""
    keyed = [(number, node) for number, node in enumerate(keys) if isinstance(node, KeyFunction)]

    def is_total(node: KeyFunction, group: Group) -> bool:
        return TOTAL in (group.places[one] for one in node.places) and node.value(group.places) is None

    found = [tuple(number for number, node in keyed if is_total(node, group)) for group in groups]
    return tuple(found) if any(found) else ()


def _ordered(keys: Sequence[OutputColumn], groups: Sequence[Group]) -> dict[str, tuple[Key, ...]]:
    """Return the values of the keys that are numbers or dates, in their order; special values have none."""
    found: dict[str, tuple[Key, ...]] = {}
    for column in keys:
        node = column.node
        if isinstance(node, KeyFunction) and node.in_order:
            texts = [
                node.values[place,] for place in sorted({group.places[node.places[0]] for group in groups})
            ]
            found[column.title] = tuple(one for one in texts if one is not None and one != OTHER_LABEL)
    return found


def _unit(node: Node) -> str:
    """Return what a number counts, or of which attribute it is a value; empty where it is neither."""
    if isinstance(node, Persons):
        return "persons"
    if isinstance(node, Quantile):
        return ", ".join(node.values.scope)
    above = node.numerator if isinstance(node, Ratio) else node
    if not isinstance(above, Linear):
        return ""
    return "records" if above.counting else ", ".join(above.scope)


def _is_counting(node: Node) -> bool:
    return isinstance(node, Linear) and node.counting


def _may_be_held(state: PublicState, query: LinearQuery) -> bool:
    """Tell whether released numbers hold a question's scope, or a test of its marginal may.

    A single question that is tested says nothing of sums: asking it would spend something for nothing.
    """
    plan = marginal_tier(state.plan)
    if plan is None or is_held(state, query):
        return plan is not None
    spendable = not state.closed and state.positives_used < state.positives_limit
    may_test = spendable and plan.tests
    return may_test and state.grid(query.scope).scope_size(query.scope) <= plan.most_cells


class _Rows:
    def __init__(
        self, state: PublicState, statement: Statement, answers: Mapping[Asked, Answer], place: str | None
    ) -> None:
        self._place = place
        self._state = state
        self._statement = statement
        self._aggregates = Aggregates(state, statement)
        self._answers = dict(answers)
        self._told: dict[tuple[int, tuple[str, ...]], tuple[str, ...]] = {}
        self._sums_ways: dict[tuple[int, tuple[str, ...]], tuple[str, ...]] = {}
        self._known: dict[tuple[int, tuple[int, ...], int], Estimate] = {}
        self._are_whole: dict[int, bool] = {}
        self._groups: list[Group] = []
        self._pause: Pause = lambda _: None
        self._windows = Windows(self, (), self._aggregates, statement)
        self.withheld: Mapping[Asked, bool] = {}  # and whether the number is itself of few persons
        self._rests_on: dict[tuple[int, tuple[int, ...], int], bool] = {}  # expressions on such numbers
        self._unpromised = Source.UNVERIFIED if may_draw(state) else Source.EXHAUSTED

    def told(self, arm: int, model: ModelAnswers, counts: dict[bytes, float], pause: Pause) -> Iterator[Told]:
        """Yield what the number of each aggregate in each group would tell."""
        options, aggregates = self._state.contract.options, self._aggregates
        least, persons = options.least_records or 0, options.minimum_count or 0
        for group, leaf in itertools.product(self._statement.groups(), self._statement.leaves):
            pause(_WORK)
            asked, made = (id(leaf), group.places), aggregates.records(leaf, group)
            if _is_counting(leaf) and asked in self._answers:
                counts[made[0].key()] = self._answers[asked].count
            for query in made:
                if (key := query.key()) not in counts:
                    counts[key] = model.answer(query).count
            sizes = [counts[one.key()] for one in made]
            heads = aggregates.estimate(leaf, group).value if isinstance(leaf, Persons) else None
            few = heads is not None and heads < persons
            known = (arm, *asked), (arm, group.held)
            for query, size in zip(made, sizes, strict=True):
                yield Told(*known, query.scope, query.weights, size, few or size < least)
            if isinstance(leaf, Linear | Ratio) and not _is_counting(leaf):
                scope, summed = aggregates.scope(leaf, group), partial(aggregates.summed, leaf, group)
                yield Told(*known, scope, summed, min(sizes), min(sizes) < least)

    def _hidden(self, node: Node, group: Group) -> Estimate | None:
        """Return what stands in place of an expression that rests on a withheld number; else None."""
        if not self.withheld or not (leaves := node.leaves()):
            return None
        of_all = any(isinstance(one, Window | Share) for one in node.events())
        known = id(node), () if of_all else group.places, len(self._groups)
        if known not in self._rests_on:
            asked = itertools.product(leaves, self._groups if of_all else [group])
            self._rests_on[known] = any((id(leaf), one.places) in self.withheld for leaf, one in asked)
        if not self._rests_on[known]:
            return None
        options, below = self._state.contract.options, None
        if self.withheld.get((id(node), group.places)):
            below = options.least_records if _is_counting(node) else None
            below = options.minimum_count if isinstance(node, Persons) else below
        return Estimate(None, source=Source.WITHHELD, below=below)

    def allow_for_choice(self, asked: Iterable[_Asked], pause: Pause) -> tuple[str, ...]:
        """Give counts bars that hold whichever rows answers choose, as those of sums do; return a note."""
        groups = self._statement.choices
        if groups == 1 or self._state.contract.options.simultaneous:  # they hold for whatever is chosen
            return ()
        bars = Bars(self._state, groups=groups)
        for leaf, group, query in asked:
            pause(1)
            key = id(leaf), group.places
            if _is_counting(leaf):
                self._answers[key] = chosen_answer(bars, query, self._answers[key])
        return (
            f"answers choose these rows from {groups:,} groups: bars are wider than those of fixed rows, so "
            "that they hold whichever rows are chosen",
        )

    def kept(self, pause: Pause) -> list[Group]:
        """Return the groups that the conditions on answers keep, windows among these."""
        self._pause = pause
        having, qualify, groups = self._statement.having, self._statement.qualify, []
        for group in self._statement.groups():
            pause(_WORK * len(self._statement.columns))
            if having is None or self.holds(having, group):
                groups.append(group)
        self._groups = groups
        self._windows = Windows(self, groups, self._aggregates, self._statement)
        groups = groups if qualify is None else [group for group in groups if self.holds(qualify, group)]
        if self._statement.one_each is None:
            return groups
        first: dict[tuple[Key, ...], Group] = {}  # the first one of the groups where keys are equal
        for group in groups:
            first.setdefault(tuple(self.plain(key, group) for key in self._statement.one_each), group)
        return list(first.values())

    def rows(
        self, keys: Sequence[OutputColumn], shown: Sequence[OutputColumn], groups: Sequence[Group]
    ) -> Iterator[Row]:
        """Yield the row of each group: its keys, and what its aggregates come to."""
        for group in groups:
            self._pause(_WORK * (len(keys) + len(shown)))
            values = tuple(self.plain(column.node, group) for column in keys)
            yield values, tuple(self.estimate(column.node, group) for column in shown)

    def ordered(self, groups: Iterable[Group], order: Sequence[Sorting]) -> list[Group]:
        """Return groups in the order of their answers."""
        found = list(groups)
        for one in reversed(order):
            found.sort(key=lambda group: self.place(one.node, group), reverse=one.greatest_first)
            found.sort(key=lambda group: self.certainty(one, group))
        return found

    def estimate(self, node: Node, group: Group) -> Estimate:
        """Return what an expression comes to in a group, where it comes from, and what is cut."""
        leaves, events = node.leaves(), node.events()
        found = self._estimate(node, group, len(events))
        if found.source is Source.WITHHELD or (len(leaves) == 1 and leaves[0] is node):
            return found
        aligned = all(self._leaf(leaf, group, len(events)).aligned for leaf in leaves)
        meant = self._groups if any(isinstance(one, Window | Share) for one in events) else [group]
        if found.value is None and any(
            self._leaf(leaf, one, 1).is_refused for leaf in leaves for one in meant
        ):
            return replace(found, source=Source.REFUSED, aligned=aligned)
        return replace(found, source=self._source(found, leaves, meant), typical=None, aligned=aligned)

    def estimate_of(self, node: Node, group: Group, events: int) -> Estimate:
        """Return what an expression comes to in a group, with an interval that holds with others."""
        self._pause(_WORK)
        return self._estimate(node, group, events)

    def _source(self, found: Estimate, leaves: Sequence[AggregateNode], groups: Sequence[Group]) -> Source:
        """Return where a number comes from: measured where all that it is made of was."""
        if not found.is_promised:
            return self._unpromised
        answers = [self._answers.get((id(leaf), group.places)) for leaf in leaves for group in groups]
        measured = all(answer is not None and answer.source is Source.MEASURED for answer in answers)
        return Source.MEASURED if measured and found.value is not None else Source.SYNTHETIC

    def plain(self, node: Node, group: Group) -> Any:
        """Return the value of a group, a constant, or the number of an answer."""
        if isinstance(node, KeyFunction):
            return node.value(group.places)
        if isinstance(node, Constant):
            number = node.value
            return int(number) if isinstance(number, float) and number.is_integer() else number
        if isinstance(node, Window) and node.inner is not None and not node.leaves():
            return self._windows.neighbour(node, group)
        if isinstance(node, Coalesced) and not node.leaves():  # of keys, which may be texts
            inner = self.plain(node.inner, group)
            return self.plain(node.other, group) if inner is None else inner
        value = self._estimate(node, group, len(node.events())).value
        return int(value) if value is not None and self._are_whole[id(node)] else value

    def certainty(self, sorting: Sorting, group: Group) -> int:
        """Return what sorts a group first, in either direction: what has no promise comes after what has."""
        node, empty = sorting.node, -1 if sorting.nulls_first else 2
        if not node.leaves():
            return empty if self.plain(node, group) is None else 0
        found = self._estimate(node, group, len(node.events()))
        if found.source is Source.WITHHELD:
            return _LAST
        return empty if found.value is None else int(not found.is_promised)

    def place(self, node: Node, group: Group) -> tuple[int, float | str]:
        """Return what sorts a group: numbers before texts; a value of cells in order by its cell."""
        if isinstance(node, KeyFunction) and node.in_order:
            return 0, float(group.places[node.places[0]])
        return _sort_key(self.plain(node, group))

    def reasons(self, columns: Sequence[OutputColumn], groups: Sequence[Group]) -> tuple[str, ...]:
        """Return why numbers have no promise, each reason once, and what would give them one."""
        reasons: dict[str, None] = {}
        for column, group in itertools.product(columns, groups):
            leaves, events = column.node.leaves(), len(column.node.events())
            found = self._estimate(column.node, group, events)
            if found.source is Source.WITHHELD:
                reasons[_WITHHELD.format(display_words(self._state.contract.options))] = None
                continue
            wide = (leaf for leaf in leaves if self._is_wide(leaf, group, events))
            reasons.update(dict.fromkeys(told for leaf in wide for told in self._sums_way(leaf, group)))
            if found.is_promised:
                continue
            if any(self._leaf(leaf, group, events).is_refused for leaf in leaves):
                continue
            unpromised = [leaf for leaf in leaves if not self._leaf(leaf, group, events).is_promised]
            if found.value is None:
                reasons[_IMPOSSIBLE if found.is_null else _NO_RECORDS] = None
            elif found.conditional:
                reasons[_CONDITIONAL.format(self._unpromised.value)] = None
            elif not unpromised:
                is_open = any(
                    isinstance(one, Window) or (isinstance(one, Share) and one.window.follows_answers)
                    for one in column.node.events()
                )
                reasons[_OPEN_PLACE if is_open else _BY_ZERO] = None
            told = (one for leaf in unpromised if not found.is_null for one in self._ways(leaf, group))
            reasons.update(dict.fromkeys(told))
        return tuple(reasons)

    def _ways(self, leaf: AggregateNode, group: Group) -> tuple[str, ...]:
        """Return why an aggregate has no promise, and what measuring would cost until it was paid for."""
        key = id(leaf), group.scope
        if key not in self._told:
            state, place, scope = self._state, self._place, self._aggregates.scope(leaf, group)
            has_bars = not isinstance(leaf, Correlation)
            is_known = holding_of(state, scope) not in NOT_HELD
            ways = [] if is_known and not has_bars else [way_to_bars(state, scope, place)]
            ways += self._sums_way(leaf, group)
            if self._aggregates.is_summed(leaf, group):
                ways = []  # records are all that it may lack
            self._told[key] = tuple(ways if has_bars else (_NO_BAR, *ways))
        return self._told[key]

    def _is_wide(self, leaf: AggregateNode, group: Group, events: int) -> bool:
        """Tell whether a bar is wider than its number, or that of a mean than half of where values lie."""
        found = self._leaf(leaf, group, events)
        most = abs(found.value or 0.0)
        if isinstance(leaf, Ratio):
            most = min(most, float(leaf.numerator.high.max() - leaf.numerator.low.min()) / 2)
        return found.is_promised and found.interval is not None and np.ptp(found.interval) > most

    def _sums_way(self, leaf: AggregateNode, group: Group) -> tuple[str, ...]:
        """Return what may narrow the bar of a mean or a sum, until it was paid for; nothing of another."""
        key, state = (id(leaf), group.scope), self._state
        if key not in self._sums_ways:
            name, scope = _summed_by(state, leaf), self._aggregates.scope(leaf, group)
            by = [one for one in scope if one != name]
            paid = (one.summed for one in state.sums if not one.summed.by_cells)
            is_paid = any(one.attribute == name and {*by} <= {*one.scope} for one in paid)
            known = name is None or is_paid or state.closed or not state.contract.options.measures_apart
            told = _SUMS.format(name, measuring(self._place, by, name or ""))
            self._sums_ways[key] = () if known else (told,)
        return self._sums_ways[key]

    def holds(self, test: Test, group: Group) -> bool:
        """Tell whether a condition holds of the answers; what is compared with NULL does not."""
        return self._truth(test, group) is True

    def _truth(self, test: Test, group: Group) -> bool | None:
        if isinstance(test, Joined):
            found = [self._truth(child, group) for child in test.children]
            if test.kind == "not":
                return None if found[0] is None else not found[0]
            decisive = test.kind == "or"
            if decisive in found:
                return decisive
            return None if None in found else not decisive
        left = self.plain(test.left, group)
        if test.right is None:
            return left is None
        return _compared(test, left, self.plain(test.right, group))

    def _estimate(self, node: Node, group: Group, events: int) -> Estimate:
        if id(node) not in self._are_whole:
            self._are_whole[id(node)] = node.is_whole
        if (hidden := self._hidden(node, group)) is not None:
            return hidden
        found = self._unrounded(node, group, events)
        return found.whole() if self._are_whole[id(node)] else found

    def _unrounded(self, node: Node, group: Group, events: int) -> Estimate:
        if isinstance(node, KeyFunction | Constant):
            return _exactly(self.plain(node, group))
        if isinstance(node, Chosen):
            return self._chosen(node, group, events)
        if isinstance(node, Truth):
            return self._truth_number(node.test, group, events)
        if isinstance(node, Rounding | Coalesced | Arithmetic):
            found = [self._estimate(one, group, events) for one in inner_nodes(node)]
            if not isinstance(node, Arithmetic):
                found = [_rounded(node, *found) if isinstance(node, Rounding) else _coalesced(*found)]
            return joined(node.operator, *found) if isinstance(node, Arithmetic) else found[0]
        if isinstance(node, Window | Share):
            return self._windows.estimate(node, group, events)
        return self._leaf(node, group, events)

    def _chosen(self, node: Chosen, group: Group, events: int) -> Estimate:
        """Return what the answers choose, in an interval that holds all that the truth may choose."""
        nothing = Estimate(None, (0.0, 0.0), is_null=True)
        other = nothing if node.other is None else self._estimate(node.other, group, events)
        found, ends, open_ = None, list[Estimate](), True
        for test, inner in node.branches:
            choice = self._estimate(inner, group, events)
            may_hold, may_fail = self._outcomes(test, group, events)
            if found is None and self._truth(test, group) is True:
                found = choice
            ends += [choice] if open_ and may_hold else []
            open_ = open_ and may_fail
        ends += [other] if open_ else []
        found = other if found is None else found
        known = [one.interval for one in ends if not one.is_null]
        conditional = any(one.conditional or one.is_null for one in ends) and len(ends) > 1
        if found.value is None:
            return Estimate(None, is_null=all(one.is_null for one in ends))  # else the truth may be a number
        if None in known or not known:
            return replace(found, interval=None)
        low, high = (min(low for low, _ in known), max(high for _, high in known))  # type: ignore[misc]
        low, high = min(low, found.value), max(high, found.value)
        return Estimate(found.value, (low, high), conditional=conditional or found.conditional)

    def _truth_number(self, test: Test, group: Group, events: int) -> Estimate:
        """Return 1 where a condition holds of the answers, or 0, and an interval of what it is in truth."""
        told = self._truth(test, group)
        if told is None:
            return Estimate(None)
        may_hold, may_fail = self._outcomes(test, group, events)
        may_be_null = any(self._plain_or_ends(node, group, events) is None for node in inner_nodes(test))
        ends = float(told and not may_fail), float(told or may_hold)
        return Estimate(float(told), ends, conditional=may_be_null)

    def _outcomes(self, test: Test, group: Group, events: int) -> tuple[bool, bool]:
        """Return whether a condition may hold, and whether it may not, as far as the bars tell."""
        if isinstance(test, Joined):
            found = [self._outcomes(child, group, events) for child in test.children]
            if test.kind == "not":
                return found[0][::-1]
            hold, fail = [one for one, _ in found], [one for _, one in found]
            return (all(hold), any(fail)) if test.kind == "and" else (any(hold), all(fail))
        sides = [test.left, *(() if test.right is None else (test.right,))]
        known = [self._plain_or_ends(side, group, events) for side in sides]
        if test.right is None or None in known:
            told = self._truth(test, group)
            return (told is True, told is not True) if None not in known else (True, True)
        return _outcomes_of(test, *known)

    def _plain_or_ends(self, node: Node, group: Group, events: int) -> Any:
        """Return a text, or the ends of a number; None where nothing is promised of it."""
        if not node.leaves():
            value = self.plain(node, group)
            return value if value is None or isinstance(value, str) else (float(value), float(value))
        found = self._estimate(node, group, events)
        return found.interval if found.is_promised else None

    def _leaf(self, node: AggregateNode, group: Group, events: int) -> Estimate:
        key = id(node), group.places, events
        if key not in self._known:
            self._known[key] = self._aggregate(node, group, events)
        return self._known[key]

    def _aggregate(self, node: AggregateNode, group: Group, events: int) -> Estimate:
        answer = self._answers.get((id(node), group.places)) if _is_counting(node) else None
        if not self._aggregates.may_hold(node, group):
            return Estimate(None, source=self._unpromised, is_null=True)
        if events == 1 and answer is not None:
            count = None if answer.is_refused else answer.count
            return Estimate(count, answer.interval, answer.source, answer.typical, answer.aligned)
        found = self._aggregates.estimate(node, group, events=events)
        if answer is not None:
            found = _answered(found, answer)
        aligned = self._aggregates.is_aligned(node, group)
        return replace(found, source=self._source(found, (node,), [group]), aligned=aligned)


def _summed_by(state: PublicState, leaf: AggregateNode) -> str | None:
    """Return the attribute whose values a mean or a sum is made of, where they can be summed; else None."""
    form = leaf.numerator if isinstance(leaf, Ratio) else leaf
    summed = form.summed if isinstance(form, Linear) else None
    known = {grid.attribute for grid in state.domain.grids}
    return summed.line.attribute if summed is not None and summed.line.attribute in known else None


def _exactly(value: Any) -> Estimate:
    """Return the estimate of what is known: a number, or a text or NULL, which are none."""
    if isinstance(value, str) or value is None:
        return Estimate(None)
    return Estimate(float(value), (float(value), float(value)))


def _answered(found: Estimate, answer: Answer) -> Estimate:
    """Return an estimate with the count that is answered, in an interval that holds it too."""
    if answer.is_refused:
        return replace(found, value=None, interval=None)
    ends = found.interval
    if ends is not None:
        ends = min(ends[0], answer.count), max(ends[1], answer.count)
    return replace(found, value=answer.count, interval=ends)


def _outcomes_of(test: Compared, one: Any, two: Any) -> tuple[bool, bool]:
    texts = [isinstance(side, str) for side in (one, two)]
    if test.function in (operator.eq, operator.ne):
        sure = one == two and (any(texts) or one[0] == one[1])
        meets = one == two if any(texts) else one[0] <= two[1] and two[0] <= one[1]
        return (meets, not sure) if test.function is operator.eq else (not sure, meets)
    if texts[0] != texts[1]:
        return False, True
    results = {
        bool(test.function(*pair)) for pair in ([(one, two)] if texts[0] else itertools.product(one, two))
    }
    return True in results, False in results


def _compared(test: Compared, left: Any, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    if isinstance(left, str) != isinstance(right, str):
        return False
    return bool(test.function(left, right))


def _rounded(node: Rounding, inner: Estimate) -> Estimate:
    """Return a growing function of an estimate and of its ends, or its absolute value, or NULLIF(…, 0)."""
    if inner.value is None or (node.function == "nullif" and inner.value == 0):
        return Estimate(None, is_null=inner.is_null)
    if node.function == "nullif":
        low, high = inner.interval or (inner.value, inner.value)
        return inner if not low <= 0 <= high else replace(inner, conditional=True)
    scale = 10.0**node.digits if node.function == "round" else 1.0
    functions: dict[str, Callable[[float], float]] = {  # of halves SQL rounds away from zero
        "round": lambda number: math.copysign(math.floor(abs(number) * scale + 0.5) / scale, number),
        "cast": round,  # a half goes to the even number, as that of a DOUBLE does
        "floor": math.floor,
        "ceil": math.ceil,
        "abs": abs,
        "sign": lambda number: float(np.sign(number)),
    }
    function, ends = functions[node.function], None
    if inner.interval is not None:
        low, high = (function(end) if math.isfinite(end) else end for end in inner.interval)
        ends = (low, high)
        if node.function == "abs":
            ends = (0.0 if inner.interval[0] < 0 < inner.interval[1] else min(low, high), max(low, high))
    return Estimate(float(function(inner.value)), ends, conditional=inner.conditional)


def _coalesced(inner: Estimate, other: Estimate) -> Estimate:
    """Return an estimate, or another one where it has no value.

    Where nothing says that there are records, the true value may be either: the interval holds both.
    """
    if inner.value is None:  # of the model alone, unless it is so on every table
        return other if inner.is_null else Estimate(other.value)
    if not inner.conditional or inner.interval is None:
        return inner
    if other.interval is None:
        return Estimate(inner.value)
    ends = (*inner.interval, *other.interval)
    return replace(inner, interval=(min(ends), max(ends)))
