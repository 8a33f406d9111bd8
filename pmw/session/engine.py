"""The engine: questions into durable answers.

Every batch that draws noise is recorded before and after: an intent with 32 fresh bytes, then its outcome.
Whatever happens in between, the file's rows say what to do: an intent without an outcome is drawn again from
its recorded bytes, so that it has the outcome it would have had.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pmw.data import CountSource, Table
from pmw.errors import DataError, SessionCorruptError
from pmw.loop import (
    BatchDraws,
    Forecast,
    Proposal,
    RequestedMarginal,
    batch_entries,
    draw_tests,
    forecast,
    propose,
    settle,
)
from pmw.loop.secret import SecretState
from pmw.model import NoiseDistribution
from pmw.planning.error_quantiles import next_due
from pmw.privacy.random_bits import BitSource
from pmw.public.answer import Answer
from pmw.public.charges import Parts, charged
from pmw.public.contract import Contract
from pmw.public.free_answers import FreeAnswers
from pmw.public.quotes import require_affordable
from pmw.public.state import PublicState
from pmw.session import accounts, journal, loading, proposals, releases
from pmw.session.accounts import SESSION, Account
from pmw.session.asks import Ask, Deliver, Repeats, ready_answers, settled_marks, with_answers
from pmw.session.repeats import Stored
from pmw.session.snapshots import duals_of
from pmw.session.store import IntentRow, Outcome, SessionStore
from pmw.session.table import session_table
from queries.linear import LinearQuery

_BATCH = 256  # questions per intent
_COMMIT = 1024  # questions per commit, where none of them draws noise
_SNAPSHOT_EVERY = 10  # model versions between snapshots while a session runs


class Engine:
    """Answers questions over one table, with one session file as its memory.

    Public and secret state are replaced together, after their rows are durable.

    Args:
        store: the session file, created or taken over.
        data: the table, or None to read it from where the session remembers it, when first needed.

    Raises:
        SessionCorruptError: the file's rows contradict each other.
        DataError: an interrupted batch needs the table, and it cannot be read or differs.
    """

    _state: PublicState
    _secret: SecretState
    _snapshot_version: int  # of the newest model in the file's cache; -1 where there is none
    _charges: int  # how many charges the states were made from
    _interrupted: bool  # rows may be ahead of the states: load before going on

    def __init__(self, store: SessionStore, data: Table | None) -> None:
        self._store = store
        self._data = data
        self._source: CountSource | None = None
        self._coarse_source: CountSource | None = None
        self.bookings = accounts.Bookings(store)
        self._free = FreeAnswers()
        self._repeats = Repeats(store, self._free)
        self._intents = 0
        self._looked_at = -1  # settled questions when it was last looked at what is due
        self._load()

    @property
    def state(self) -> PublicState:
        """What may be published."""
        return self._state

    def limited(self, account: Account) -> PublicState:
        """Return the state in which an analyst's charges are proposed: the share binds there, too."""
        return self.bookings.limited(self._state, account)

    def answer(
        self,
        asks: Sequence[Ask],
        deliver: Deliver | None = None,
        account: Account = SESSION,
        is_awaited: Callable[[], bool] = lambda: False,
    ) -> list[Answer]:
        """Answer questions in order, each durable before it is given.

        A question that was answered before gets the same answer, or a newer model's; see ``repeats``. Where
        another thread waits, a batch is the last: the first questions alone are answered then, or even none.

        Args:
            asks: the questions.
            deliver: called with the next answers, in order, as soon as they are durable.
            account: who asks.
            is_awaited: tells whether another thread waits for the session.

        Raises:
            QueryError: a idempotency key was used for another question; nothing is answered then.
            StoreError: an answer could not be made durable; those before it are, and stay valid.
        """
        self.finish_interrupted()  # first, so that what it finishes is found among the stored answers
        self.bookings.know(account)
        asks = account.keyed(asks)
        stored, waiting, repeats = self._sorted(asks, account)
        known = self._repeats.given(self._state, asks, stored, self._charges)
        self._repeats.tie_keys([asks[place] for place in stored])
        answers: list[Answer] = []
        batches = new = 0
        while len(answers) < len(asks):
            ready = ready_answers(known, repeats, range(len(answers), len(asks)))
            answers += ready
            if deliver is not None and ready:
                deliver(ready)
            if batches and is_awaited():
                break
            if len(answers) < len(asks):  # a batch may end in a correction alone
                self._release_due(account)
                most = self._until_due([asks[place].text for place in waiting[:_COMMIT]], account)
                batch = self._answer_batch([asks[place] for place in waiting[:most]], account)
                known.update(zip(waiting, batch, strict=False))
                waiting = waiting[len(batch) :]
                batches, new = batches + 1, new + len(batch)
        if len(answers) > new:
            given = [asks[place] for place in stored if place < len(answers)]
            self._store.finish(None, Outcome(asked=len(answers) - new, repeats=account.repeats(given)))
        return answers

    def require_keys(self, asks: Sequence[Ask], account: Account = SESSION) -> None:
        """Refuse idempotency keys that were used for other questions.

        Raises:
            QueryError: one was.
        """
        self._repeats.require_keys(account.keyed(asks))

    def forecast(self, asks: Sequence[Ask], account: Account = SESSION) -> Forecast:
        """Return what answering questions could charge at most; nothing is drawn, charged or recorded."""
        known, waiting, repeats = self._sorted(asks, account)
        return forecast(
            self.limited(account), [asks[place].query for place in waiting], stored=len(known) + len(repeats)
        )

    def _sorted(
        self, asks: Sequence[Ask], account: Account
    ) -> tuple[dict[int, Stored], list[int], dict[int, int]]:
        state = self.limited(account)
        return self._repeats.sorted(state, asks, lambda query: bool(propose(state, [query]).requests))

    def _with_answers(
        self,
        rows: Outcome,
        asked: Sequence[tuple[str, str | None]],
        answers: Sequence[Answer],
        account: Account,
        *,
        tested: bool = False,
    ) -> Outcome:
        """Return an outcome with answers; those of a batch with tests settle their questions in any case."""
        asked = asked[: len(answers)]  # they end at a positive
        texts = [text for text, _ in asked]
        were_settled = self._repeats.are_settled(texts)
        self._repeats.forget(texts)
        could = not tested and account.may_pay(self.limited(account))
        settle = [tested or (could and account.settles(answer)) for answer in answers]
        marks = settled_marks(texts, were_settled, settle)
        return with_answers(rows, asked, answers, account.name, marks.tolist())

    def _until_due(self, texts: Sequence[str], account: Account) -> int:
        """Return how many of the next questions are answered before releases can come due."""
        room = next_due(self._state.settled) - self._state.settled
        if room >= len(texts) or not account.may_pay(self.limited(account)):
            return len(texts)
        new = set[str]()
        for place, (text, was) in enumerate(zip(texts, self._repeats.are_settled(texts), strict=True)):
            new.update(() if was else (text,))
            if len(new) > room:
                return place
        return len(texts)

    def save_snapshot(self) -> None:
        """Keep the model as a cache in the file, where it is newer than the one there."""
        if self._state.version > self._snapshot_version and not self._interrupted:
            self._store.save_snapshot(self._state.version, duals_of(self._state))
            self._snapshot_version = self._state.version

    def finalize(self) -> None:
        """Close the session permanently: its secrets are wiped, and nothing is spent any more.

        A batch that was interrupted is finished first. Closing is one durable commit; after it the file is
        written again, and so it is when a closed session is closed again.

        Raises:
            StoreError: the session could not be closed; or it is closed, and its file holds old copies yet.
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

    def let_go(self) -> None:
        """Let go of the table: where it is counted in a database, that is free again."""
        self._source = self._coarse_source = None

    def finish_interrupted(self) -> None:
        """Finish what was interrupted, so that the state is that of the file."""
        if self._interrupted:
            self._load()

    # --- a marginal on request ------------------------------------------------------------------------------

    def measure(self, scope: tuple[str, ...], noise: NoiseDistribution, account: Account = SESSION) -> None:
        """Measure a marginal on request, durably.

        Args:
            scope: attribute names in declared order.
            noise: on each of its cells, in units.
            account: who asks.

        Raises:
            BudgetExhaustedError: its price is not left, besides what open rounds have reserved.
            DataError: the table cannot be read or differs; nothing is spent.
            StoreError: it could not be made durable; nothing was released.
        """
        requested = RequestedMarginal(scope, noise)
        self.finish_interrupted()
        self.bookings.know(account)
        require_affordable(self.limited(account), requested.entry(self._state.contract.options))
        self._release(releases.MarginalRelease(requested), account.whole)

    def answer_untested(self, ask: Ask, account: Account = SESSION) -> Answer:
        """Answer one question from the model, within what is known of it: free, durable, without a test."""
        self.finish_interrupted()
        untested = Proposal.untested([ask.query])
        settled = settle(self._state, untested, BatchDraws((), None), self._state.ledger, self._free)
        self._commit_free(settled.state, [(ask.text, None)], settled.answers, account)
        return settled.answers[0]

    # --- one batch ------------------------------------------------------------------------------------------

    def _answer_batch(self, asks: Sequence[Ask], account: Account) -> tuple[Answer, ...]:
        """Answer questions up to and including the first positive, durably."""
        asked = [(ask.text, ask.request_id) for ask in asks]
        queries = [ask.query for ask in asks]
        proposal, state, free = self._answer_free(queries, account)
        if not free:
            try:
                self._table(self._state.contract)  # before anything is drawn
            except DataError:
                _, state, free = self._answer_free(
                    queries, account, 1
                )  # those before the first that needs the table
                if not free:
                    raise
        if free:
            self._commit_free(state, asked, free, account)
            return free
        asked = asked[: len(proposal.queries)]  # the others ask another tier for a test
        self._intents += 1
        seed = journal.next_seed(self._state.contract.options, self._intents)
        self._interrupted = True
        marks = tuple(request_id for _, request_id in asked)
        recorded = proposals.Recorded(proposal, proposal.reserved, account.whole, marks)
        text = proposals.recorded_text(recorded)
        return self._carry_out(self._store.begin("tests", text, seed), proposal, asked, seed, account)

    def _commit_free(
        self,
        state: PublicState,
        asked: Sequence[tuple[str, str | None]],
        answers: Sequence[Answer],
        account: Account,
    ) -> None:
        """Make answers that draw no noise durable, and go on from the state after them."""
        rows = self._with_answers(Outcome(charged_before=self._charges), asked, answers, account)
        self._store.finish(None, rows)
        self._state = replace(state, settled=state.settled + rows.settled)

    def _answer_free(
        self, queries: Sequence[LinearQuery], account: Account, size: int | None = None
    ) -> tuple[Proposal, PublicState, tuple[Answer, ...]]:
        """Answer the first questions, some at a time, up to a batch that draws noise.

        Nothing is durable yet: one commit takes in what several batches answered.

        Returns:
            The last batch, the state after those that draw none, and their answers.
        """
        state, size = self._state, size or _BATCH
        free = 0
        while True:
            asked = queries[free : free + size]
            proposal = propose(self.bookings.limited(state, account), asked)
            if proposal.requests:
                break
            free += len(asked)
            state = replace(state, asked=state.asked + len(asked))
            if free == len(queries):
                break
        answers = self._free.answers(self._state, queries[:free])
        return proposal, state, account.told(state, answers)

    def _carry_out(
        self,
        intent: int,
        proposal: Proposal,
        asked: Sequence[tuple[str, str | None]],
        seed: bytes,
        account: Account,
    ) -> tuple[Answer, ...]:
        """Draw a recorded batch and make its outcome durable before the new state, or an answer, is seen."""
        state = self._state
        if proposal.tier not in range(len(state.plan)):
            raise SessionCorruptError("the session file is damaged: tests were recorded without a plan")
        source, coarse = self._tables()
        draws, secret = draw_tests(proposal, state.plan, self._secret, source, BitSource(seed), coarse)
        entries = accounts.booked_to(account.whole, batch_entries(proposal, draws, state))
        settled = settle(state, proposal, draws, charged(state.ledger, entries), self._free)
        answers = settled.answers
        rows = journal.batch_outcome(entries, state, settled.state)
        outcome = self._with_answers(rows, asked, answers, account, tested=True)
        outcome = replace(
            outcome, secrets=journal.secret_facts(secret, self._secret), charged_before=self._charges
        )
        self._store.finish(intent, outcome)
        self._charges += len(entries)
        self._secret = secret
        self._state = replace(settled.state, settled=state.settled + outcome.settled)
        self._interrupted = False
        if self._state.version >= self._snapshot_version + _SNAPSHOT_EVERY:
            self.save_snapshot()
        return answers

    # --- releases that no test decides ----------------------------------------------------------------------

    def _release_due(self, account: Account) -> None:
        """Release what is due, once for each number of settled questions, for whoever could have a test."""
        settled = self._state.settled
        if settled != self._looked_at and account.may_pay(self.limited(account)):
            self._looked_at = settled
            self._release_spare()
            self._release_quantiles()

    def _release_spare(self) -> None:
        """Measure what tests do not need the price of; nothing where the table cannot be read."""
        payers = self.bookings.payers
        while spare := releases.due_marginal(self._store, self._state, payers(self._state.ledger)):
            try:
                self._release(*spare)
            except DataError:  # what is free is answered all the same
                return

    def _release_quantiles(self) -> None:
        """Release the error quantiles that are due; none where the table cannot be read."""
        release = releases.due_quantiles(self._store, self._state)
        if release is not None:
            try:
                self._release(release, SESSION.whole)
            except DataError:  # what is free is answered all the same
                return

    def _release(self, release: releases.Release, booked: Parts) -> None:
        """Count what will be released, record it durably, then draw it.

        Raises:
            DataError: the table cannot be read or counted, or differs; nothing is recorded or spent.
        """
        options = self._state.contract.options
        drawing = release.counted(self._state, self._tables())
        self._intents += 1
        seed = journal.next_seed(options, self._intents)
        self._interrupted = True
        text = proposals.recorded_text(releases.recorded(release, options, booked))
        intent = self._store.begin(release.kind, text, seed)
        self._carry_out_release(intent, release, drawing, seed, booked)

    def _carry_out_release(
        self, intent: int, release: releases.Release, drawing: releases.Drawing, seed: bytes, booked: Parts
    ) -> None:
        """Draw what was recorded and make it durable before the new state is seen."""
        state = self._state
        entries = accounts.booked_to(booked, release.entries(state.contract.options))
        after = drawing(BitSource(seed), charged(state.ledger, entries))
        outcome = journal.batch_outcome(entries, state, after)
        self._store.finish(intent, replace(outcome, charged_before=self._charges))
        self._charges += len(entries)
        self._state, self._interrupted = after, False

    # --- loading and recovery -------------------------------------------------------------------------------

    def _load(self) -> None:
        """Read the state from the file, finishing first what was interrupted."""
        self._interrupted = True
        intent = self._store.pending()
        opening = intent is not None and intent.kind == "opening"
        if intent is not None:
            self._store.begin_again(intent)
        if intent is not None and opening:
            self._finish_opening(intent)
            intent = None
        self._charges = self._store.charge_count()
        self._state = loading.load_state(self._store)
        self._secret = loading.load_secret(self._store, len(self._state.plan))
        self._snapshot_version = -1 if opening else self._state.version
        if intent is not None:
            self._finish(intent)
        self._interrupted = False
        if opening:
            self.save_snapshot()  # fitting the opening again would take the longest of all that a reader does

    def _finish(self, intent: IntentRow) -> None:
        """Draw a recorded batch again, from its own bytes."""
        recorded = proposals.read_recorded(self._state.coarsening, intent)
        batch, booked = recorded.batch, recorded.booked
        accounts.require_named(booked)
        release = releases.release_of(self._store, self._state.domain, batch)
        if release is not None:
            drawing = release.counted(self._state, self._tables())
            self._carry_out_release(intent.id, release, drawing, intent.seed, booked)
        elif isinstance(batch, Proposal):
            self._carry_out(intent.id, batch, recorded.asked, intent.seed, Account(booked[0][0]))

    def _finish_opening(self, intent: IntentRow) -> None:
        contract, plan = loading.load_contract(self._store)
        outcome = releases.opened(contract, plan, self._table(contract), BitSource(intent.seed))
        self._store.finish(intent.id, replace(outcome, charged_before=0))

    def _table(self, contract: Contract) -> CountSource:
        """Return the count source, read on first use and checked against the session's fingerprint."""
        if self._source is None:
            self._source = session_table(self._store, self._data, contract.domain)
        return self._source

    def _tables(self) -> tuple[CountSource, CountSource | None]:
        """Return the count sources over the declared cells, and over bins where there are any."""
        return self._table(self._state.contract), self._coarse_table()

    def _coarse_table(self) -> CountSource | None:
        """Return the count source over bins; None where nothing is binned."""
        coarsening = self._state.coarsening
        if self._coarse_source is None and not coarsening.is_identity:
            source = self._table(self._state.contract)
            self._coarse_source = source.coarsened(coarsening.coarse, coarsening.bins)
        return self._coarse_source
