"""Answering: one question as a command gets it, a stream or a workload, whose answers come line by line."""

from __future__ import annotations

import itertools
import sys
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, TypeVar, Union

import click
import numpy as np

from pmw.cli.usage import echo
from pmw.display.progress import Progress
from pmw.display.texts import counted
from pmw.errors import PriceError
from pmw.public.answer import Answer, Source
from pmw.public.answers import Answers
from pmw.session.asking import Asking
from pmw.session.local import LocalAsking
from pmw.session.requests import Part
from queries.domain import Domain
from queries.errors import QueryError
from queries.frozen import dataclass
from queries.linear import LinearQuery
from queries.memory import Memory
from queries.parsing import Question, identifier_of, parse_where, read_line, require_aligned

if TYPE_CHECKING:
    from pmw.cli.answer_formats import AnswerWriter
    from pmw.public.population import PopulationInterval, PopulationIntervals
    from pmw.public.state import PublicState
    from pmw.public.tables import AnswerTable
    from pmw.public.tabulation import Tabulation
    from queries.questions import Products
    from queries.statements import Statement
    from queries.workloads import Workload

_READ = 1 << 20  # bytes at a time
_LONGEST_LINE = 2**20 + 1  # what the parser refuses anyway; the rest of such a line is thrown away
_BATCH = 2**13  # questions at a time, where so many have come
_REMEMBERED = 2**14  # lines whose questions are kept
_MOST_BYTES = 2**25  # that they take
_LARGE = 2**10  # bytes of a question that counts for several: its text is many times longer
_CODES = {Source.EXHAUSTED: 3, Source.UNVERIFIED: 4, Source.REFUSED: 4}  # exit codes, the former --strict's
_SHORT_LINE = 2**12  # bytes of the longest that is

_Found = TypeVar("_Found")
Asked: TypeAlias = Union[LinearQuery, "Statement"]
Result: TypeAlias = Union[Answers, "AnswerTable"]  # of one condition, or of a statement
_Parsed: TypeAlias = tuple[dict[str, Any], Question | QueryError]
# How many, their strictest exit code, how many were refused, and the part of the budget that is spent.
_Step: TypeAlias = tuple[int, int, int, float]


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How questions are answered.

    Args:
        fresh: ask a newer model, or for tests that were not made, where there are stored answers.
        strict: the exit code is 3 or 4 where no test could be paid for an answer, or a question was refused.
        at_most: the part of the budget that one question may charge; None unless told.
    """

    fresh: bool = False
    strict: bool = False
    strict_cells: bool = False
    format: str = "jsonl"
    population: bool = False
    at_most: Part = None


def read_condition(where: str, domain: Domain) -> LinearQuery:
    """Return the query of a condition."""
    return parse_where(condition_of(where), domain)


def condition_of(where: str) -> str | dict[str, Any]:
    """Return a condition as it is asked: its text, or the JSON object that was written."""
    return read_line(where) if where.lstrip().startswith("{") else where


def exit_code_of(result: Answer | AnswerTable, *, strict: bool) -> int:
    """Return the exit code of an answer; see ``source_code``."""
    found = (result,) if isinstance(result, Answer) else result.estimates()
    return max((source_code(one.source, strict=strict) for one in found), default=0)


def source_code(source: Source, *, strict: bool) -> int:
    """Return the exit code of an answer: a refused one's, or under --strict that of one that no test held."""
    return _CODES.get(source, 0) if strict or source is Source.REFUSED else 0


def _strictest(answers: Answers) -> int:
    """Return the strictest exit code of some answers, at least one."""
    return max(source_code(answers.sources[code], strict=True) for code in set(answers.source.tolist()))


# --- prices -----------------------------------------------------------------------------------------------


def paid(
    session: Asking, at_most: Part, ask: Callable[[Part], _Found], price: Callable[[], str] | None = None
) -> _Found:
    """Return what one question comes to; where it could cost more than it may, after a yes to its price."""
    if at_most is None and isinstance(session, LocalAsking):
        ledger = session.state.ledger
        at_most = ledger.remaining / ledger.cap / 10
    try:
        return ask(at_most)
    except PriceError as error:
        if error.code == "above_ceiling":
            raise
        told = "" if price is None else price()
        if not agrees(told or f"This can cost {error.price:.2%} of the budget."):
            raise PriceError(f"{told} {error.message}".strip(), price=error.price) from None
        return ask(error.price)


def agrees(price: str) -> bool:
    """Ask whether a price is to be paid; without a terminal nobody agrees."""
    return sys.stdin.isatty() and click.confirm(f"{price} Pay it?", err=True)


# --- streams and workloads --------------------------------------------------------------------------------


def answer_stream(session: Asking, source: BinaryIO, options: StreamOptions) -> int:
    """Answer lines of questions until the source ends; return the exit code."""
    known = Memory[_Parsed](_REMEMBERED, _MOST_BYTES)
    batches = ([_parsed(*line, session, options, known) for line in lines] for lines in _batches(source))
    return _answer_batches(session, batches, options)


def answer_workload(session: Asking, workload: Workload, options: StreamOptions) -> int:
    """Answer every query of a workload, a line each, and return the exit code."""
    one_by_one = options.population or session.contract.options.bar_limit is not None
    one_by_one = one_by_one or options.at_most is not None or not isinstance(session, LocalAsking)
    if workload.boxes is not None and not one_by_one:
        from pmw.cli.answer_formats import writer_of

        writer = writer_of(options.format, withholds=session.contract.options.least_records is not None)
        steps = _answered_boxes(session, workload.boxes(), options, writer)
        return _answer_steps(session, steps, options, writer, len(workload))
    numbered = enumerate(workload, 1)

    def batches() -> Iterator[list[_Parsed]]:
        while batch := list(itertools.islice(numbered, _BATCH)):
            yield [_numbered(number, query, options) for number, query in batch]

    return _answer_batches(session, batches(), options, len(workload))


def _answer_batches(
    session: Asking, batches: Iterator[list[_Parsed]], options: StreamOptions, total: int | None = None
) -> int:
    from pmw.cli.answer_formats import writer_of

    withholds = session.contract.options.least_records is not None
    writer = writer_of(options.format, tells_population=options.population, withholds=withholds)
    steps = ((len(parsed), *_answer_batch(session, parsed, options, writer)) for parsed in batches)
    return _answer_steps(session, steps, options, writer, total)


def _answered_boxes(
    session: Asking, batches: Iterator[Products], options: StreamOptions, writer: AnswerWriter
) -> Iterator[_Step]:
    numbers = itertools.count(1)
    for boxes in batches:
        found = session.answer_arrays(boxes.scope, *boxes.ends(), fresh=options.fresh)
        writer.answers([{"id": next(numbers), "question": words} for words in boxes.describe()], found)
        writer.flush()
        yield len(boxes), _strictest(found), 0, float(found.share[-1])


def _answer_steps(
    session: Asking, steps: Iterator[_Step], options: StreamOptions, writer: AnswerWriter, total: int | None
) -> int:
    """Answer some questions after the others, of so many where that is known; return the exit code."""
    code = asked = refused = 0
    try:
        with Progress("answered", total) as progress:
            for size, strictest, failed, share in steps:
                code, asked, refused = max(code, strictest), asked + size, refused + failed
                progress.add(size, f"{share:.1%} of the budget spent")
    except KeyboardInterrupt:
        writer.close()
        echo("interrupted; everything printed so far is durable", err=True)
        return 130
    writer.close()
    if refused:
        was = "was" if refused == 1 else "were"
        # Under an accuracy contract a refusal may come after tests, which are charged.
        cost = ", at no cost" if session.contract.options.bar_limit is None else ""
        echo(f"{refused:,} of {counted(asked, 'question')} {was} refused{cost}", err=True)
    return code if options.strict or refused == asked else 0


def _answer_batch(
    session: Asking, parsed: list[_Parsed], options: StreamOptions, writer: AnswerWriter
) -> tuple[int, int, float]:
    """Write what comes of each question, in order; return a step but for how many they are."""
    printer = _Printer(session, parsed, writer)
    withholds = session.contract.options.least_records is not None  # of a table's numbers, taken together
    whole = session.answers_whole_statements or options.at_most is not None or withholds
    how: dict[str, Any] = {"fresh": options.fresh, "at_most": options.at_most}
    for questions in _chunks(printer.questions, whole=whole):
        first = questions[0]
        if not isinstance(first.query, LinearQuery) and (whole or not first.is_counting):
            try:
                table = session.tabulate(first.query, request_id=first.request_id, **how)
            except QueryError as error:
                printer.refuse(error)
            else:
                printer.deliver_table(table)
            continue
        ask = partial(session.ask_all, fresh=options.fresh, deliver=printer.deliver, at_most=options.at_most)
        before = printer.answered
        try:
            ask([part for question in questions for part in question.parts()])
        except QueryError:
            # A key was used for another question, or one costs too much: answer the others one by one.
            for question in questions[printer.answered - before :]:
                try:
                    ask(question.parts())
                except QueryError as error:
                    printer.refuse(error)
    printer.finish()
    return printer.code, printer.refused, printer.share


def _chunks(questions: list[Question], *, whole: bool) -> Iterator[list[Question]]:
    """Yield questions together until their counts, and the bytes of large ones, are a batch or more.

    A statement with other aggregates stands alone: what it comes to depends on what is known just then.
    """
    chunk: list[Question] = []
    size, large = 0, dict[int, int]()  # by the object of a question, of which many come again
    for question in questions:
        alone = not question.is_counting or (whole and not isinstance(question.query, LinearQuery))
        if alone and chunk:
            yield chunk
            chunk, size = [], 0
        chunk.append(question)
        size += 1 if isinstance(question.query, LinearQuery) else question.query.size
        key = id(question.query)
        if key not in large:
            large[key] = question.query.size_in_bytes // _LARGE
        size += large[key]
        if alone or size >= _BATCH:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


class _Printer:
    """Prints a line for each question, in order, as its answer becomes durable."""

    def __init__(self, session: Asking, parsed: list[_Parsed], writer: AnswerWriter) -> None:
        self._session, self._writer = session, writer
        self.questions = [question for _, question in parsed if not isinstance(question, QueryError)]
        self.code = self.answered = self.refused = 0
        self.share = 0.0  # of the budget, as the newest answer tells it
        self._waiting = deque(parsed)
        self._table: Tabulation | None = None  # of the statement at the front
        self._answers: list[Answer] = []  # of it, so far
        self._intervals: PopulationIntervals | None = None  # of the population, in the newest state

    def deliver(self, answers: Answers) -> None:
        """Print answers that became durable together, each whole one with the refused lines before it."""
        one_by_one, start, count = list[Answer](), 0, len(answers)
        while start < count:
            self._refuse_next()
            heads, queries = self._next_conditions(count - start)
            if heads:
                stop = start + len(heads)
                self._take_all(heads, queries, answers.take(np.arange(start, stop)))
                start = stop
            else:
                one_by_one = one_by_one or list(answers)
                self._take(one_by_one[start])
                start += 1
        self._writer.flush()

    def _next_conditions(self, most: int) -> tuple[list[dict[str, Any]], list[LinearQuery]]:
        """Take the conditions off the front that stand there without anything else between them."""
        heads, queries, waiting = list[dict[str, Any]](), list[LinearQuery](), self._waiting
        while waiting and len(heads) < most:
            head, question = waiting[0]
            if isinstance(question, QueryError) or not isinstance(question.query, LinearQuery):
                break
            heads.append(head)
            queries.append(question.query)
            waiting.popleft()
        return heads, queries

    def _take_all(self, heads: list[dict[str, Any]], queries: list[LinearQuery], answers: Answers) -> None:
        """Print the answers to conditions."""
        self.share = float(answers.share[-1])
        self.code = max(self.code, _strictest(answers))
        self.refused += sum(answers.sources[code] is Source.REFUSED for code in answers.source.tolist())
        self.answered += len(heads)
        populations = list(map(self._population, queries, answers)) if self._writer.tells_population else ()
        self._writer.answers(heads, answers, populations)

    def deliver_table(self, table: AnswerTable) -> None:
        """Print the table of the next question, and the refused lines before it."""
        self._refuse_next()
        self._write(table)
        self._writer.flush()

    def _write(self, table: AnswerTable) -> None:
        self.share = table.spent.share
        self.code = max(self.code, exit_code_of(table, strict=True))
        self._writer.table(self._waiting[0][0], table)
        self._next()

    def _take(self, answer: Answer) -> None:
        """Take one of the answers to the statement at the front; print its table with the last of them."""
        self.share = answer.spent.share
        _, question = self._waiting[0]
        if isinstance(question, QueryError) or isinstance(question.query, LinearQuery):
            return
        if self._table is None:
            from pmw.public.tabulation import Tabulation

            self._table = Tabulation(self._state, question.query)
        self._answers.append(answer)
        if len(self._answers) == len(self._table):
            place = self._session.place if isinstance(self._session, LocalAsking) else None
            self._write(self._table.table(self._state, self._answers, place=place))

    def _population(self, query: LinearQuery, answer: Answer) -> PopulationInterval | None:
        """Return the interval of the population beside an answer."""
        from pmw.public.population import PopulationIntervals

        state = self._state
        self._intervals = (self._intervals or PopulationIntervals(state)).now(state)
        return self._intervals.of(query) if answer.has_count else None

    @property
    def _state(self) -> PublicState:
        """The state that answers; one far away answers statements itself."""
        if not isinstance(self._session, LocalAsking):
            raise TypeError("expected a session that answers here")
        return self._session.state

    def refuse(self, error: QueryError) -> None:
        """Print the lines that were refused before the next question, then that it is refused too."""
        self._refuse_next()
        self._refuse(self._waiting[0][0], error)
        self._writer.flush()

    def finish(self) -> None:
        """Print the refused lines at the front."""
        self._refuse_next()
        self._writer.flush()

    def _refuse_next(self) -> None:
        while self._waiting:
            head, error = self._waiting[0]
            if not isinstance(error, QueryError):
                return
            self._refuse(head, error)

    def _refuse(self, head: dict[str, Any], error: QueryError) -> None:
        self.code = 4
        self.refused += 1
        self._writer.refusal(head, error)
        self._next()

    def _next(self) -> None:
        _, question = self._waiting.popleft()
        self.answered += not isinstance(question, QueryError)
        self._table, self._answers = None, []


def _parsed(
    number: int, line: bytes, session: Asking, options: StreamOptions, known: Memory[_Parsed]
) -> _Parsed:
    """Return what a line begins with, and its question or why it is refused; the same as it was before."""
    found = known.get(line)
    if found is not None:
        return found
    head: dict[str, Any] = {"id": None}
    try:
        form = read_line(line)
        head["id"] = identifier_of(form)
        question = session.reader.question(form)
        require_accepted(question.query, options)
    except QueryError as error:
        if head["id"] is None:
            head["line"] = number  # else nobody could tell which question was refused
        return head, error
    found = head, question
    if len(line) <= _SHORT_LINE:
        known.keep(line, found, question.query.size_in_bytes + len(line))
    return found


def _numbered(number: int, query: LinearQuery, options: StreamOptions) -> _Parsed:
    head = {"id": number, "question": query.describe()}
    try:
        require_accepted(query, options)
    except QueryError as error:
        return head, error
    return head, Question(query)


def require_accepted(asked: Asked, options: StreamOptions) -> None:
    """Refuse a question that the options do not go with."""
    if options.strict_cells:
        require_aligned(asked if isinstance(asked, LinearQuery) else asked.where)
    if not options.population:
        return
    if not isinstance(asked, LinearQuery):
        raise QueryError(
            "an interval of the population is of a condition, not of a statement; ask the condition of each "
            "group, or --workload marginals:… for the counts of a table",
            code="unsupported",
        )
    from pmw.public.population import require_condition

    require_condition(asked)


def _batches(source: BinaryIO) -> Iterator[list[tuple[int, bytes]]]:
    """Yield numbered lines that have come so far, at most ``_BATCH`` together, without waiting for more.

    Blank lines ask nothing: they are counted and left out.
    """
    rest, number = b"", 1
    while True:
        block = source.read1(_READ) if hasattr(source, "read1") else source.read(_READ)
        if not block:
            break
        *lines, rest = (rest + block).split(b"\n")
        rest = rest[:_LONGEST_LINE]
        wanted = [(place, line) for place, line in enumerate(lines, number) if line.strip()]
        number += len(lines)
        for start in range(0, len(wanted), _BATCH):
            yield wanted[start : start + _BATCH]
    if rest.strip():
        yield [(number, rest)]
