"""The engine: questions into durable answers.

Every batch that draws noise is recorded before and after: an intent with 32 fresh bytes, then its outcome.
Whatever happens in between, the file's rows say what to do: an intent without an outcome is drawn again from
its recorded bytes, so that it has the outcome it would have had.
"""

from __future__ import annotations

import contextlib
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pmw.errors import DataError, SessionCorruptError
from pmw.loop.loop import (
    are_tested,
    batch_entries,
    draw_tests,
    forecast,
    may_test,
    most_charged,
    propose,
    settle,
)
from pmw.loop.secret import SecretState
from pmw.loop.tiers import BatchDraws, Proposal
from pmw.loop.untested import Requested
from pmw.planning.error_quantiles import next_due
from pmw.planning.parts import next_due as next_part_due
from pmw.privacy.random_bits import BitSource
from pmw.public.answer import Answer
from pmw.public.answers import Answers
from pmw.public.charges import CellNumbers, LedgerEntry, Parts, charged
from pmw.public.contract import Contract
from pmw.public.foundations import due_scopes, strategy_of
from pmw.public.free_answers import FreeAnswers
from pmw.public.plans import marginal_tier
from pmw.public.state import PublicState
from pmw.session import accounts, events, journal, loading, releases
from pmw.session.accounts import SESSION, Account
from pmw.session.repeats import Repeats, Stored, columns_of
from pmw.session.requests import Deliver, Request, Requests, require_same, used_for
from pmw.session.store.rows import OPENING, TESTS, IntentRow, Outcome
from pmw.session.store.store import SessionStore
from pmw.session.table import session_table
from queries.questions import Places, Questions

if TYPE_CHECKING:
    from pmw.data import CountSource, Table
    from pmw.loop.loop import Forecast
    from pmw.public.quotes import Quote

_LARGEST_BATCH = 256  # questions per intent
_FIRST_BATCH = 16  # the same while positives come: what waits behind one is looked at again
_MOST_TOGETHER = 2**13  # questions that are answered in one step, where nothing is drawn for them
_PARTS_AGAIN = 64  # settled questions after which a part is tried again
_VALUES = ""  # in place of a question's text: what was charged for values, which the statement tells
_SNAPSHOT_EVERY = 10  # model versions between snapshots while a session runs


class Engine:
    """Answers questions over one table, with one session file as its memory.

    Public and secret state are replaced together, after their rows are durable.

    Args:
        store: the session file, created or taken over.
        data: the table, or None to read it from where the session remembers it, when first needed.
    """

    _state: PublicState
    _secret: SecretState
    _snapshot_version: int  # of the newest model in the file's cache; -1 where there is none
    _charges: int  # how many charges the states were made from
    _interrupted: bool  # rows may be ahead of the states: load before going on
    room: Fraction | None  # what the newest questions may still charge, in the filter's own measure

    def __init__(self, store: SessionStore, data: Table | None) -> None:
        self._store = store
        self._data = data
        self._source: CountSource | None = None
        self._coarse_source: CountSource | None = None
        self.bookings = accounts.Bookings(store)
        self._free = FreeAnswers()
        self._repeats = Repeats(store, self._free)
        self._intents = 0
        self._owed = dict[tuple[str, str], float]()  # what questions charged that wait for more tests
        self._looked_at = -1  # settled questions when it was last looked at what is due
        self._parts_again = 0  # settled questions, from which on a part is tried that could not be measured
        self._looked_at_parts = set[tuple[str, int]]()  # the same of analysts' own, for parts of the reserve
        self.room = None
        self._offers = releases.Offers(self.bookings, self._free)
        self._load()
        self._measure_due()

    @property
    def state(self) -> PublicState:
        """What may be published."""
        return self._state

    def limited(self, account: Account) -> PublicState:
        """Return the state in which an analyst's charges are proposed: the share binds there, too."""
        return self.bookings.limited(self._state, account)

    def answer(
        self,
        requests: Requests,
        deliver: Deliver | None = None,
        account: Account = SESSION,
        is_awaited: Callable[[], bool] = lambda: False,
        room: Fraction | None = None,
    ) -> Answers:
        """Answer questions in order, each durable before it is given.

        A question that was answered before gets the same answer, or a newer model's; see ``repeats``. Where
        another thread waits, a batch is the last: the first questions alone are answered then, or even none.

        Args:
            room: what their tests may charge, as ``price`` told it; None to find it here.
        """
        self.finish_interrupted()  # first, so that what it finishes is found among the stored answers
        self.bookings.know(account)
        first, which = requests.distinct()
        distinct = requests.of_analyst(account.name).take(first)
        stored, waiting = self._looked_up(distinct, account)
        is_given = np.ones(len(first), dtype=np.bool_)
        is_given[waiting] = False
        same = distinct.repeated(waiting)
        which, waiting = same[which], waiting[same[waiting] == waiting]
        self.room = self._price(distinct.questions.take(waiting), account) if room is None else room
        if is_given.any():
            self._repeats.give(self._state, distinct, stored, is_given, self._charges)
        ready, batches, done, share = 0, 0, 0, self._state.ledger.share
        self._draw_for_all(distinct.questions.take(waiting), account)
        while True:
            stop = int(first[waiting[done]]) if done < waiting.size else len(requests)
            if deliver is not None and stop > ready:
                deliver(stored.answers(which[ready:stop]))
            ready = stop
            if ready == len(requests) or (batches and is_awaited()):
                break
            self._release_due(account, inside=account.is_whole and (batches > 0 or not account.draws_counts))
            places = waiting[done : done + _MOST_TOGETHER]
            places = places[: self._until_due(distinct, stored, places, account)]
            answers = self._answer_in_room(distinct.take(places), stored.were_settled[places], account)
            stored.put(places[: len(answers)], answers)  # a batch may end in a correction alone
            batches, done = batches + 1, done + len(answers)
            if self._state.ledger.share != share:
                share = self._state.ledger.share
                stored.spend(distinct, share, int(waiting[done - 1]) + 1 if done else 0)
            if distinct.request_ids:  # a question may wait under several
                rest = waiting[done:]
                stored.settle(rest, self._were_settled(distinct.take(rest)))
        if ready > done:
            again = np.flatnonzero(is_given & (first < ready)) if account.name else first[:0]
            repeats = [(account.name, text) for text in distinct.take(again).texts()]
            self._store.note(ready - done, repeats)
        return stored.answers(which[:ready])

    def _answer_in_room(
        self, requests: Requests, were_settled: NDArray[np.bool_], account: Account
    ) -> Answers:
        before = self._state.ledger.spent
        answers = self._answer_batch(requests, were_settled, account)
        self._count_down(before, account)
        return answers

    def _count_down(self, before: Fraction, account: Account) -> None:
        """Take what was charged since off the room of a statement."""
        if self.room is not None and account.is_whole:
            self.room -= self._state.ledger.spent - before

    def require_keys(self, requests: Requests, account: Account = SESSION) -> None:
        """Refuse idempotency keys that were used for other questions."""
        self._repeats.require_keys(self._state, requests.of_analyst(account.name))

    def stored(self, requests: Requests) -> Answers | None:
        """Return the newest stored answers to questions; None where one has none.

        Nothing is drawn, charged or recorded, and no newer model is looked at.
        """
        first, which = requests.distinct()
        found = self._repeats.stored(self._state, requests.take(first))
        return found.answers(which) if found.numbers.all() else None

    def forecast(self, requests: Requests, account: Account = SESSION) -> Forecast:
        """Return what answering questions could charge at most; nothing is drawn, charged or recorded."""
        waiting = self._waiting(requests, account)
        asked = list(waiting)
        found = forecast(self.limited(account), asked, stored=len(requests) - len(asked))
        numbers = float(self._offers.price(self._state, waiting, account) / self._state.ledger.cap)
        return replace(found, least=found.least + numbers, most=found.most + numbers)

    def price(self, requests: Requests, account: Account) -> Fraction | None:
        """Return what questions may charge, in the filter's own measure; nothing is drawn or recorded."""
        return self._price(self._waiting(requests, account), account)

    def _waiting(self, requests: Requests, account: Account) -> Questions:
        first, _ = requests.distinct()
        distinct = requests.of_analyst(account.name).take(first)
        _, waiting = self._looked_up(distinct, account)
        return distinct.questions.take(waiting[distinct.repeated(waiting)[waiting] == waiting])

    def _price(self, asked: Questions, account: Account) -> Fraction | None:
        """Return the most that questions can charge: all of a statement, else the dearest of them.

        None is where the cap alone binds.

        Privacy: a function of public state and the questions: before anything is drawn.
        """
        state, ledger = self.limited(account), self._state.ledger
        if account.ceiling(ledger) == 1:
            return None
        numbers = self._offers.price(self._state, asked, account)
        if account.is_whole:
            most = most_charged(state, list(asked))
        else:
            state = replace(state, asked=state.asked + len(asked))
            tested = asked.take(np.flatnonzero(are_tested(state, asked)))
            are_alike = state.contract.options.bar_limit is None  # questions of a kind, to ``are_tested``
            unlike = tested.kinds()[1] if are_alike else list(tested)
            most = max((most_charged(state, [one]) for one in unlike), default=Fraction(0))
        most += numbers
        account.require_price(float(most / ledger.cap), ledger)
        return most

    def _looked_up(self, requests: Requests, account: Account) -> tuple[Stored, Places]:
        """Return the stored answers of distinct requests, and the places of those that are asked."""
        stored = self._repeats.stored(self._state, requests)

        def tested(places: Places) -> NDArray[np.bool_]:
            asked = requests.questions.take(places)
            return are_tested(self.limited(account), asked) | self._offers.are_unclear(
                self._state, asked, account
            )

        return stored, np.flatnonzero(stored.are_asked(requests.fresh, tested))

    def _were_settled(self, requests: Requests) -> NDArray[np.bool_]:
        return self._store.answers.are_settled(requests.questions.texts())

    def _until_due(self, requests: Requests, stored: Stored, places: Places, account: Account) -> int:
        """Return how many of the next questions are answered before releases can come due."""
        room = next_due(self._state.settled) - self._state.settled
        if self._state.contract.options.reserved:
            own = self._store.answers.settled_counts().get(account.name, 0)
            room = min(room, next_part_due(own) - own)
        if room >= len(places) or not account.may_pay(self.limited(account)):
            return len(places)
        is_new = ~stored.were_settled[places]
        if requests.request_ids:  # a question may wait under several
            _, repeated = np.unique(requests.take(places).texts(), return_index=True)
            is_new &= np.isin(np.arange(len(places)), repeated)
        new = np.flatnonzero(is_new)
        return int(new[room]) if len(new) > room else len(places)

    def save_snapshot(self) -> None:
        """Keep the model as a cache in the file, where it is newer than the one there."""
        if self._state.version > self._snapshot_version and not self._interrupted:
            self._store.save_snapshot(self._state.version, loading.duals_of(self._state))
            self._snapshot_version = self._state.version

    def finalize(self) -> None:
        """Close the session permanently: its secrets are wiped, and nothing is spent any more.

        A batch that was interrupted is finished first. Closing is one durable commit; after it the file is
        written again, and so it is when a closed session is closed again.
        """
        self.finish_interrupted()
        if not self._state.closed:
            self.save_snapshot()
            self._store.finalize(None, journal.closing_outcome(None))
            tiers = len(self._state.plan)
            self._state = replace(self._state, rounds=(False,) * tiers, closed=True)
            self._secret = SecretState.closed(tiers)
            self._data = self._source = self._coarse_source = None
        self._store.scrub()

    def read_table(self) -> None:
        """Read the table now, where a test may need it: else the first one does, while others wait."""
        if may_test(self._state):
            self._tables()

    def let_go(self) -> None:
        """Let go of the table: where it is counted in a database, that is free again."""
        self._source = self._coarse_source = None

    def finish_interrupted(self) -> None:
        """Finish what was interrupted, so that the state is that of the file."""
        if self._interrupted:
            self._load()

    # --- measurements on request ----------------------------------------------------------------------------

    def tied(self, kind: str | None, key: str | None, asked: str) -> Quote | None:
        """Return what a request to measure was given before; None where its key is new, or it has none.

        Args:
            kind: of what is measured: counts, questions, sums or persons; None for any.
        """
        self.finish_interrupted()  # first, so that what it finishes is found
        number = 0 if key is None else int(self._store.answers.by_request_ids([key])[0])
        if key is None or number == 0:
            return None
        if number > 0:
            raise used_for(key, "a question")
        tie = journal.read_tie(self._store.tie_of(-number))
        require_same(key, asked, tie.asked, "measurement")
        from pmw.session.ties import read_price

        return read_price(tie.quote, kind)

    def measure(
        self,
        requested: Requested,
        account: Account = SESSION,
        tie: journal.Tie | None = None,
    ) -> None:
        """Measure what was requested, durably.

        Args:
            requested: what, and under which noise.
            tie: what an idempotency key is tied to by it; a key that ``tied`` does not know.
        """
        from pmw.public import quotes

        self.finish_interrupted()
        self.bookings.know(account)
        quotes.require_affordable(self.limited(account), requested.what, requested.noise)
        self._release(releases.MeasuredRelease.of(requested, self._state), account.whole, tie)

    def measure_part(self, found: releases.Found) -> None:
        """Measure the last part of a reserve, whoever has not spent a share of it; booked to the session."""
        if found:
            self._release(releases.part_of(found, self._state), SESSION.whole)

    def answer_untested(self, request: Request, account: Account = SESSION) -> Answer:
        """Answer one question from the model, within what is known of it: free, durable, without a test.

        It is answered anew each time, so an idempotency key is tied to nothing.
        """
        self.finish_interrupted()
        requests = Requests.of([replace(request, request_id=None)])
        return self._answer_free(requests, self._were_settled(requests), account, pays=False)[0]

    # --- numbers of unclear questions -----------------------------------------------------------------------

    def draw_for(self, requests: Requests, account: Account, room: Fraction | None) -> Fraction | None:
        """Draw the numbers of a statement that is answered in several turns, and return its room after that.

        Args:
            room: what may be charged, as ``price`` told it.
        """
        self.finish_interrupted()
        self.room = room
        self._draw_for_all(self._waiting(requests, account), account)
        return self.room

    def _draw_for_all(self, questions: Questions, account: Account) -> None:
        """Draw the numbers of a statement's questions, and its values, together, where a bar is wide."""
        values = self._offers.values(self._state, account)
        rows = self._offers.together(self._state, questions, account) if account.is_whole else None
        if rows is not None:
            self._draw_numbers(rows, questions.query(0).to_json(), account)
        for one in values:
            self._draw_numbers(one, _VALUES, account)

    def charged_for_values(self, account: Account) -> float:
        """Return what was charged for values of an analyst's statement since this was last told."""
        return self._owed.pop((account.name, _VALUES), 0.0)

    def _draw_numbers(self, rows: Requested, told: str, account: Account) -> None:
        """Draw numbers, where room and table allow it; the answer to ``told`` tells what was charged."""
        from pmw.public.quotes import affordable_price

        ledger = self._state.ledger
        price = ledger.price(rows.entry(self._state.contract.options).charge)
        if price > affordable_price(self.limited(account)) or (self.room is not None and price > self.room):
            return
        with contextlib.suppress(DataError):
            self._release(releases.MeasuredRelease.of(rows, self._state), account.whole)
        self._count_down(ledger.spent, account)
        charged = self._state.ledger.spent - ledger.spent
        if charged:
            owed = self._owed.get((account.name, told), 0.0)
            self._owed[account.name, told] = owed + float(charged / ledger.cap)

    # --- one batch ------------------------------------------------------------------------------------------

    def _answer_batch(self, requests: Requests, were_settled: NDArray[np.bool_], account: Account) -> Answers:
        next_ones = requests.between(0, self._offers.ahead) if self._pays(account) else requests
        free, proposal = self._free_first(next_ones.questions, account, _LARGEST_BATCH)
        if not free and len(next_ones) < len(requests):
            free, proposal = self._free_first(requests.questions, account, _LARGEST_BATCH)
        if not free:
            try:
                self._table(self._state.contract)  # before anything is drawn
            except DataError:
                free, _ = self._free_first(requests.questions, account, 1)  # before what needs the table
                if not free:
                    raise
        if free:
            return self._answer_free(requests.between(0, free), were_settled[:free], account)
        requests = requests.between(0, len(proposal.queries))  # the others ask another tier for a test
        marks = requests.request_ids or (None,) * len(requests)
        recorded = journal.Recorded(proposal, proposal.reserved, account.whole, marks)
        return self._carry_out(*self._begin(TESTS, recorded), recorded, requests, were_settled)

    def _free_first(self, questions: Questions, account: Account, most: int) -> tuple[int, Proposal]:
        """Return how many of the first questions draw no noise, and the batch after them."""
        # They are looked at in parts, each twice the one before, and nothing behind one that is tested.
        free, count = 0, len(questions)
        state = self.bookings.limited(self._state, account, self.room)
        size = min(_batch_size(state), most)
        are_alike = state.contract.options.bar_limit is None  # questions of a kind, to ``are_tested``
        looks_ahead = are_alike and size == most > 1
        while free < count:
            are_all = not free and count <= size
            if looks_ahead and not are_all and self._are_free(questions, free, state):
                break
            now = replace(state, asked=state.asked + free) if free else state
            some = questions if are_all else questions.take(np.arange(free, min(free + size, count)))
            if not are_alike or are_tested(now, some).any():
                if free and are_alike:
                    return free, Proposal.untested(())  # looked at again once those before are answered
                proposal = propose(now, list(some))
                if proposal.requests:
                    return free, proposal
            looks_ahead = are_alike and size < most <= 2 * size
            free, size = free + len(some), min(2 * size, most)
        return count, Proposal.untested(())

    def _pays(self, account: Account) -> bool:
        """Tell whether wide bars are paid for question by question."""
        return bool(self._state.contract.options.reserved) and not account.is_whole

    @staticmethod
    def _are_free(questions: Questions, start: int, state: PublicState) -> bool:
        """Tell whether no question from a place on asks for a test, looking at all of them at once."""
        # Thresholds come down as questions are answered: where none asks for a test at the end, none does.
        last = replace(state, asked=state.asked + len(questions) - 1)
        return not are_tested(last, questions.take(np.arange(start, len(questions)))).any()

    def _answer_free(
        self, requests: Requests, were_settled: NDArray[np.bool_], account: Account, *, pays: bool = True
    ) -> Answers:
        """Answer questions from the model, durably: those before one that pays for a number, or that one."""
        pays = pays and self._pays(account)
        requests = requests.between(0, self._offers.ahead) if pays else requests
        answers = self._free.of(self._state).answers(requests.questions)
        if pays:
            stand, rows = self._offers.first(self._state, requests.questions, answers, account)
            if rows is not None:
                self._draw_numbers(rows, requests.questions.query(0).to_json(), account)
            requests = requests.between(0, max(1, stand))
            answers = (
                answers.take(np.arange(stand))
                if stand
                else self._free.of(self._state).answers(requests.questions)
            )
        were_settled = were_settled[: len(requests)]
        state, count = self._state, len(requests)
        answers = account.told(replace(state, asked=state.asked + count), answers)
        if self._owed and count:
            owed = self._owed.pop((account.name, requests.questions.query(0).to_json()), 0.0)
            answers = replace(answers, charged=np.where(np.arange(count) == 0, owed, answers.charged))
        settle = account.settled_by(self.limited(account), answers)
        columns = columns_of(requests, answers, were_settled, settle, account.name)
        outcome = Outcome(columns=columns, asked=count, charged_before=self._charges)
        self._store.finish(None, outcome)
        self._state = replace(state, asked=state.asked + count, settled=state.settled + outcome.settled)
        return answers

    def _begin(self, kind: str, recorded: journal.Recorded) -> tuple[int, BitSource]:
        """Record a batch durably before anything is drawn, and return its number and what its noise is of."""
        self._intents += 1
        seed = journal.next_seed(self._state.contract.options, self._intents)
        self._interrupted = True
        return self._store.begin(kind, journal.recorded_text(recorded), seed), BitSource(seed)

    def _carry_out(
        self,
        intent: int,
        bits: BitSource,
        recorded: journal.Recorded,
        requests: Requests,
        were_settled: NDArray[np.bool_],
    ) -> Answers:
        """Draw a recorded batch and make its outcome durable before the new state, or an answer, is seen."""
        state, proposal = self._state, recorded.batch
        if not isinstance(proposal, Proposal) or proposal.tier not in range(len(state.plan)):
            raise SessionCorruptError("the session file is damaged: tests were recorded without a plan")
        source, coarse = self._tables()
        draws, secret = draw_tests(proposal, state.plan, self._secret, source, bits, coarse)
        entries = accounts.booked_to(recorded.booked, batch_entries(proposal, draws, state))
        settled = settle(state, proposal, draws, charged(state.ledger, entries), self._free)
        answers = settled.answers
        requests = requests.between(0, len(answers))  # they end at a positive
        settle_all = np.ones(len(answers), dtype=np.bool_)
        analyst = recorded.booked[0][0]
        answers = self._priced(answers, proposal, draws, entries)
        columns = columns_of(requests, answers, were_settled[: len(answers)], settle_all, analyst)
        self._end(intent, entries, settled.state, secret, Outcome(columns=columns))
        if self._state.version >= self._snapshot_version + _SNAPSHOT_EVERY:
            self.save_snapshot()
        return answers

    def _priced(
        self, answers: Answers, proposal: Proposal, draws: BatchDraws, charged_to: Sequence[LedgerEntry]
    ) -> Answers:
        """Return answers with what each charged: a round is the first tested one's, a positive its own."""
        # What a question charged that has to be asked on is told with its answer, to the same analyst.
        analyst = charged_to[0].booked[0][0] if charged_to else ""
        charged, ledger, size = np.zeros(len(proposal.needs)), self._state.ledger, len(answers)
        tests = [0] * proposal.opens_round + [draws.negatives] * (draws.released is not None)
        for negatives, entry in zip(tests, charged_to, strict=True):
            charged[bisect(proposal.needs, negatives)] += float(ledger.price(entry.charge) / ledger.cap)
        charged[0] += self._owed.pop((analyst, proposal.queries[0].to_json()), 0.0)
        for query, own in zip(proposal.queries[size:], charged[size:].tolist(), strict=True):
            self._owed |= {(analyst, query.to_json()): own} if own else {}
        return replace(answers, charged=charged[:size])

    def _end(
        self,
        intent: int,
        entries: Sequence[LedgerEntry],
        after: PublicState,
        secret: SecretState,
        given: Outcome,
    ) -> None:
        """Make what a batch came to durable, and only then go on from the state after it.

        Args:
            entries: what it charges.
            given: its answers, or what ties a key to what it measured: in the transaction of the charge.
        """
        before = self._state
        outcome = replace(
            journal.batch_outcome(entries, before, after),
            columns=given.columns,
            asked=sum(map(len, given.columns)),
            tie=given.tie,
            secrets=journal.secret_facts(secret, self._secret),
            charged_before=self._charges,
        )
        self._store.finish(intent, outcome)
        self._charges += len(entries)
        self.bookings.add(entries, before.ledger, after.ledger)
        self._secret = secret
        self._state = replace(after, settled=before.settled + outcome.settled)
        self._interrupted = False

    # --- releases that no test decides ----------------------------------------------------------------------

    def _measure_due(self) -> None:
        """Measure what has to be known before any question, where the table can be read."""
        plan, due = marginal_tier(self._state.plan), due_scopes(self._state)
        if plan is None or not due:
            return
        with contextlib.suppress(DataError):
            for table in self._tables():
                if table is not None:
                    table.prepare([scope for scope in due if self._state.grid(scope) == table.domain])
            for scope in due:
                cells = CellNumbers(scope, strategy_of(self._state, scope))
                requested = Requested(cells, plan.noise_of(scope))
                self._release(releases.MeasuredRelease.of(requested, self._state), SESSION.whole)

    def _release_due(self, account: Account, *, inside: bool = False) -> None:
        """Release what is due, once for each number of settled questions, for whoever could have a test.

        That is parts of the reserve (not inside a statement, whose groups are from one model), what tests do
        not need the price of, and error quantiles. Where the table cannot be read, nothing is released: what
        is free is answered all the same.
        """
        if not inside:
            self._release_parts(account)
        settled = self._state.settled
        if settled == self._looked_at or not account.may_pay(self.limited(account)):
            return
        self._looked_at = settled
        with contextlib.suppress(DataError):
            while spare := releases.due_marginal(
                self._store, self._state, self.bookings.payers(self._state.ledger)
            ):
                self._release(*spare)
            quantiles = releases.due_quantiles(self._store, self._state)
            if quantiles is not None:
                self._release(quantiles, SESSION.whole)

    def _release_parts(self, account: Account) -> None:
        """Measure the parts of the reserve that are due, where whoever asks could have a number."""
        state = self._state
        if not state.contract.options.reserved or state.settled < self._parts_again:
            return
        if account.may_pay(self.limited(account)):
            try:
                while part := releases.due_part(
                    self._store, self._state, self.bookings, self._looked_at_parts
                ):
                    self._release(*part)
            except DataError:  # the table is not read for every answer
                self._parts_again = state.settled + _PARTS_AGAIN

    def _release(self, release: releases.Release, booked: Parts, tie: journal.Tie | None = None) -> None:
        """Count what will be released, record it durably, then draw it; what finishes it ties its key."""
        drawing = release.counted(self._state, self._tables())
        first, *others = (entry.charge for entry in release.entries(self._state.contract.options))
        reserved = sum(others, first)  # all that it charges
        recorded = journal.Recorded(release.batch, reserved, booked, tie=tie)
        self._carry_out_release(*self._begin(release.kind, recorded), recorded, release, drawing)

    def _carry_out_release(
        self,
        intent: int,
        bits: BitSource,
        recorded: journal.Recorded,
        release: releases.Release,
        drawing: releases.Drawing,
    ) -> None:
        state, tie = self._state, recorded.tie
        entries = accounts.booked_to(recorded.booked, release.entries(state.contract.options))
        after = drawing(bits, charged(state.ledger, entries))
        self._end(intent, entries, after, self._secret, Outcome(tie=None if tie is None else tie.row))

    # --- loading and recovery -------------------------------------------------------------------------------

    def _load(self) -> None:
        self._interrupted = True
        intent = self._store.pending()
        opening = intent is not None and intent.kind == OPENING
        if intent is not None:
            self._store.begin_again(intent)
        if intent is not None and opening:
            contract, plan = events.load_contract(self._store)
            outcome = releases.opened(contract, plan, self._table(contract), BitSource(intent.seed))
            self._store.finish(intent.id, replace(outcome, charged_before=0))
            intent = None
        self._charges = self._store.charge_count()
        self._state = loading.load_state(self._store)
        self.opening_plan = events.load_contract(self._store)[1]
        self._secret = loading.load_secret(self._store, len(self._state.plan))
        self._snapshot_version = -1 if opening else self._state.version
        if intent is not None:
            self._finish(intent)
        self._interrupted = False
        if opening:
            self.save_snapshot()  # fitting the opening again would take the longest of all that a reader does

    def _finish(self, intent: IntentRow) -> None:
        recorded, bits = journal.read_recorded(self._state.coarsening, intent), BitSource(intent.seed)
        accounts.require_named(recorded.booked)
        release = releases.release_of(self._store, self._state, recorded.batch)
        if release is not None:
            drawing = release.counted(self._state, self._tables())
            self._carry_out_release(intent.id, bits, recorded, release, drawing)
        else:
            requests = recorded.requests
            self._carry_out(intent.id, bits, recorded, requests, self._were_settled(requests))

    def _table(self, contract: Contract) -> CountSource:
        """Return the count source, read on first use and checked against the session's fingerprint."""
        if self._source is None:
            self._source = session_table(self._store, self._data, contract.domain)
        return self._source

    def _tables(self) -> tuple[CountSource, CountSource | None]:
        source, coarsening = self._table(self._state.contract), self._state.coarsening
        if self._coarse_source is None and not coarsening.is_identity:
            self._coarse_source = source.coarsened(coarsening.coarse, coarsening.bins)
        return source, self._coarse_source


def _batch_size(state: PublicState) -> int:
    """Return how many questions the next intent may hold: few after a positive, then more and more."""
    # It follows from what was released alone, so a session that comes back has the same batches.
    tier = marginal_tier(state.plan)
    if tier is None or not tier.tests:
        return _LARGEST_BATCH
    negatives = sum(one.version == state.version for one in state.certificates.values())
    return min(max(_FIRST_BATCH, negatives), _LARGEST_BATCH)
