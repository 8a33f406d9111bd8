"""Sessions: one dialogue between a table and its analysts.

A session opens, asks, resumes and exports; it composes the other folders and decides nothing about privacy
itself. In memory or in a file it behaves alike: both keep their journal in SQLite.

What most sessions do not use, such as exports and the verification, is imported where it is used: else
loading it would be most of the time of a command that asks one question.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from pmw.disk import require_file
from pmw.display.elements import table
from pmw.errors import SessionError, SessionLockedError
from pmw.privacy.budget import as_fraction
from pmw.public.state import PublicState
from pmw.session import loading
from pmw.session.accounts import Account, Booked
from pmw.session.dialogue import Analyst, Dialogue
from pmw.session.engine import Engine
from pmw.session.requests import Part
from pmw.session.store.store import SessionStore
from pmw.session.turns import TURN_WORK, Turns
from queries.cells import cell_count

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pmw.data import Table
    from pmw.public.quotes import Quote
    from pmw.public.report import Facts
    from pmw.session.verification.report import Verification
    from queries.linear import LinearQuery


class Session(Dialogue):
    """A dialogue over one sensitive table. Made by ``open_session`` and ``resume_session``.

    A live session cannot be copied, pickled or used in a forked process: two of them would spend one budget
    twice. Threads may share it and take turns. Used with ``with``, it closes at the end.
    """

    def __init__(self, store: SessionStore, data: Table | None, held: ExitStack) -> None:
        self._turn = Turns()
        self._process = os.getpid()
        self._store: SessionStore | None = store
        self.place = store.place
        self._engine = Engine(store, data)
        self._held = held.pop_all()  # the store, and the lock of its file
        self._opening_left: Fraction | None = None  # as a part of the cap, once a share was told

    @property
    def state(self) -> PublicState:
        return self._engine.state

    def analyst(
        self,
        name: str,
        share: Fraction | float | None = None,
        *,
        at_most: Part = None,
        stop: Callable[[], None] | None = None,
    ) -> Analyst:
        account = Account.of(name, share)
        if account.share:
            account = Account.of(name, share, self._left())
        ceiling = None if at_most is None else as_fraction(at_most, "at_most")
        return Analyst(self, replace(account, own_ceiling=ceiling), stop)

    def _left(self) -> Fraction:
        """Return what opening leaves for what is asked, as a part of the cap: it never changes."""
        if self._opening_left is None:  # whoever else is asking: it waits for no turn
            self._opening_left = loading.opening_left(self.state, self._engine.opening_plan)
        return self._opening_left

    def read_table(self) -> None:
        with self._engaged() as engine:
            engine.read_table()

    def bookings(self) -> tuple[Booked, ...]:
        with self._engaged() as engine:
            return engine.bookings.listed(engine.state.ledger)

    def verify(self) -> Verification:
        from pmw.session.verification.checks import verify

        with self._turn:
            return verify(self._open_store())

    def finalize(self) -> None:
        with self._turn:
            self._open_store()
            self._engine.finalize()

    def finish(self, *, dry_run: bool = False) -> tuple[Quote, ...]:
        return self.finish_for(None, dry_run=dry_run)

    def finish_for(
        self, questions: Sequence[LinearQuery] | None, *, dry_run: bool = False
    ) -> tuple[Quote, ...]:
        """Finish the session as ``finish`` does, for other questions than those that were asked.

        Args:
            questions: public ones; None for those that were asked.
            dry_run: tell what would be measured, and at which price; free, and nothing is closed.
        """
        from pmw.loop import finishing

        with self._turn:
            self._open_store()
            self._engine.finish_interrupted()
            quotes = finishing.plan_finish(self.state, self._paid_for() if questions is None else questions)
            if not dry_run:
                reserved = self.state.contract.options.reserved
                tables = [(one.scope, one.noise) for one in quotes if one.noise and not one.of_questions]
                self._engine.measure_part(tables if reserved else ())
                for quote in quotes:
                    if quote.of_questions or not reserved:
                        self._pay(self._engine, quote)
                self._engine.finalize()
            return quotes

    def _paid_for(self) -> Sequence[LinearQuery]:
        """Return what finishing serves: in a session with a reserve, the questions of those who may pay."""
        asked = self.asked()
        if not self.state.contract.options.reserved or not asked:
            return asked
        settled = self._open_store().answers.are_settled([query.to_json() for query in asked])
        return [query for query, is_settled in zip(asked, settled.tolist(), strict=True) if is_settled]

    def plot(self, path: str | Path | None = None, *, force: bool = False) -> Figure:
        from pmw.display.figures import check_target, write_figure
        from pmw.public.pictures import status_figure

        with self._turn:
            store = self._open_store()
            if path is not None:
                check_target(Path(path), force=force)
            state, history = self.state, loading.load_history(store)
        figure = status_figure(state, history)
        if path is not None:
            write_figure(figure, Path(path), force=force)
        return figure

    def report(self, path: str | Path, *, force: bool = False) -> None:
        from pmw.public.report import write_report  # late: its charts take a while to load

        with self._turn:
            store = self._open_store()
            require_file(Path(path), force=force)
            write_report(loading.load_facts(store, self.state), Path(path), force=force)

    def facts(self) -> Facts:
        """Return what a report is made of: what was released, and how the budget was spent; free."""
        with self._turn:
            return loading.load_facts(self._open_store(), self.state)

    def close(self) -> None:
        with self._turn:
            if self._store is None or os.getpid() != self._process:
                return
            try:
                with suppress(SessionLockedError):  # whoever took the session over keeps a model of its own
                    self._engine.save_snapshot()
            finally:
                self._store = None
                self._engine.let_go()
                self._held.close()

    @contextmanager
    def _engaged(self) -> Iterator[Engine]:
        with self._turn:
            self._open_store()
            self._engine.finish_interrupted()
            yield self._engine

    def _pause(self, work: int = TURN_WORK) -> None:
        self._turn.pause(work)
        self._open_store()  # another thread may have closed the session

    def _open_store(self) -> SessionStore:
        if os.getpid() != self._process:
            raise SessionError("a session cannot be used in a forked process; resume it there instead")
        if self._store is None:
            raise SessionError("the session was closed; resume it to go on")
        return self._store

    def __repr__(self) -> str:
        state = self.state
        budget = state.contract.whole
        return (
            f"Session({state.domain.name!r}, {cell_count(state.domain.size)} cells, "
            f"epsilon={float(budget.epsilon):g}, delta={float(budget.delta):g}, "
            f"spent {state.ledger.share:.1%}, version {state.version})"
        )

    def _repr_html_(self) -> str:
        with self._turn:
            if self._store is None:
                return str(table(f"Session over {self.domain.name}", (), [("open", "no")]))
            return super()._repr_html_()

    def __reduce__(self) -> tuple[object, ...]:
        raise SessionError("a live session cannot be copied or pickled; resume it from its file instead")
