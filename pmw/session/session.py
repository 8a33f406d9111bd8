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
from typing import TYPE_CHECKING, Any

from pmw.disk import require_file
from pmw.errors import SessionError, SessionLockedError
from pmw.loop import refined
from pmw.privacy.budget import as_fraction
from pmw.public.state import PublicState
from pmw.session import loading
from pmw.session.accounts import Account, Booked
from pmw.session.asking import Part
from pmw.session.dialogue import Analyst, Dialogue
from pmw.session.engine import Engine
from pmw.session.publishing import LocalPublishing
from pmw.session.store import SessionStore
from pmw.session.turns import TURN_WORK, Turns
from queries.cells import cell_count

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pmw.data import Table
    from pmw.public.export import RowPlan
    from pmw.public.ledger import Ledger
    from pmw.public.quotes import Quote
    from pmw.public.status import Status
    from pmw.session.verification import Verification
    from queries.linear import LinearQuery


class Session(Dialogue, LocalPublishing):
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
        """Everything about the session that may be published."""
        return self._engine.state

    def analyst(
        self,
        name: str,
        share: Fraction | float | None = None,
        *,
        at_most: Part = None,
        stop: Callable[[], None] | None = None,
    ) -> Analyst:
        """Return the session as one analyst asks it: charges are booked to the name, up to a share.

        Args:
            name: of the analyst.
            share: the part of what opening leaves of the budget that may be charged for this analyst, in
                [0, 1]; 0 gives free answers alone, None leaves it to the cap. Shares may add up to more
                than 1.
            at_most: what each question may charge in place of a tenth, in [0, 1]; a question may allow less,
                and no more.
            stop: called at the beginning of each turn and within it; what it raises ends the work,
                and what was answered stands.

        Raises:
            BudgetError: the share is not in [0, 1].
            SessionError: the name is empty, or is none.
        """
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
        """Read the table now, where a test may need it: else the first one does, while other threads wait.

        Raises:
            DataError: it cannot be read, or differs from the one that the session was opened on.
        """
        with self._engaged() as engine:
            engine.read_table()

    def bookings(self) -> tuple[Booked, ...]:
        """Return what was charged for each analyst; the session itself comes first, with an empty name."""
        with self._engaged() as engine:
            return engine.bookings.listed(engine.state.ledger)

    def status(self) -> Status:
        from pmw.public.status import status_of

        with self._turn:
            return status_of(self.state, self._open_store().asked())

    def ledger(self) -> Ledger:
        with self._turn:
            return loading.load_ledger(self._open_store())

    def verify(self) -> Verification:
        """Check the session's ledger, measurements and answers, and return what holds; free.

        Raises:
            StoreError: the session file cannot be read.
        """
        from pmw.session.verification import verify

        with self._turn:
            return verify(self._open_store())

    def finalize(self) -> None:
        """Close the session permanently: nothing is spent any more, and its secrets are wiped.

        The fingerprint of the table, its key, the threshold noise and the bytes of an unfinished batch are
        wiped from the file; copies of it that were made earlier keep theirs. Questions and exports go on
        from the model, without the table: a repeated question gets its stored answer, one that released
        numbers cover its interval, any other the source ``exhausted`` and no interval. What is left of the
        budget is given up: ``finish`` spends it first. ``close`` is another thing: it lets go of the file.

        Raises:
            DataError: an interrupted batch needs the table, and it cannot be read or differs.
            StoreError: the session could not be closed; or it is closed, and its file holds old copies yet.
        """
        with self._turn:
            self._open_store()
            self._engine.finalize()

    def finish(self, *, dry_run: bool = False) -> tuple[Quote, ...]:
        """Spend what is left on the marginals that the asked questions rest on, then close permanently.

        All that is left is shared among them, under the session's own ledger and cap; what open rounds have
        reserved is not spent. Stopped in the middle, it is called again on the resumed session.
        The session is closed as by ``finalize``.

        Args:
            dry_run: tell what would be measured, and at which price; free, and nothing is closed.

        Returns:
            What was measured, in this order.

        Raises:
            DataError: the table cannot be read or differs.
            SessionError: the session measures nothing on request, or is closed.
            StoreError: it could not be made durable.

        Privacy: what is measured is a function of public state and of the questions.
        """
        from pmw.loop import finishing

        with self._turn:
            self._open_store()
            self._engine.finish_interrupted()
            quotes = finishing.plan_finish(self.state, self._paid_for())
            if not dry_run:
                if self.state.contract.options.reserved:
                    part = [(one.scope, one.noise) for one in quotes if one.noise and not one.of_questions]
                    self._engine.measure_part(part)
                    rest = [one for one in quotes if one.of_questions]
                else:
                    rest = list(quotes)
                for quote in rest:
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
        """Return a picture of the session, made of public state alone; free.

        It shows the first six attributes' released marginals beside the model's, and the budget over time.

        Args:
            path: where to write it too: a PNG, PDF or SVG file.
            force: overwrite an existing file.

        Raises:
            ReleaseError: matplotlib is not installed, or the file cannot be written.
        """
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
        """Write a report on the session, made of what may be published alone, as one HTML file; free.

        It tells in plain words what is promised, how accurate answers are, which tables may be quoted, what
        was asked most and what was charged. It opens offline and prints on A4.

        Args:
            path: the file to write.
            force: overwrite an existing file.

        Raises:
            ReleaseError: the file exists and ``force`` is not given, or it cannot be written.
        """
        from pmw.public.report import write_report  # late: its charts take a while to load

        with self._turn:
            store = self._open_store()
            require_file(Path(path), force=force)
            write_report(loading.load_facts(store, self.state), Path(path), force=force)

    def csv_parts(self, plan: RowPlan) -> Iterator[bytes]:
        """Return the CSV file that ``export`` writes, in parts; free. Others use the session between them."""
        from pmw.public.export import csv_parts

        return csv_parts(self._published(refine=False), plan)

    def _write_model(self, target: Path, *, force: bool) -> dict[str, Any]:
        from pmw.session.model_file import export_model

        with self._turn:
            store = self._open_store()
            self._engine.finish_interrupted()
            return export_model(loading.newest_released(store, self.state), target, force=force)

    def _published(self, refine: bool) -> PublicState:
        with self._turn:  # a dense model's array is taken over where another thread corrects it
            return refined(self.state) if refine else self.state

    def close(self) -> None:
        """Let go of the session file; ``resume_session`` goes on with it."""
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
        from pmw.display.elements import table
        from pmw.public.status import budget_meter, status_rows

        with self._turn:
            caption = f"Session over {self.domain.name}"
            if self._store is None:
                return str(table(caption, (), [("open", "no")]))
            status = self.status()
            return str(budget_meter(status) + table(caption, (), status_rows(self.contract, status)))

    def __reduce__(self) -> tuple[object, ...]:
        raise SessionError("a live session cannot be copied or pickled; resume it from its file instead")
