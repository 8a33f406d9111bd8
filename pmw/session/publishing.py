"""Publishing: where a session stands, what of it may be published, and what its custodian alone does with it.

Everything that can be asked has these methods. A method that is refused to whoever asks says who may use it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

from pmw.errors import SessionError
from pmw.public.contract import Contract, guarantee
from pmw.session.session_requests import Kinds, Result, SessionRequest
from queries.domain import Domain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from pmw.public.export import ExportFormat, RowPlan
    from pmw.public.ledger import Ledger
    from pmw.public.quotes import Quote
    from pmw.public.status import Status
    from pmw.session.accounts import Booked
    from pmw.session.verification.report import Verification


class Publishing(ABC):
    """What a session tells and gives away besides its answers, and what is done with the whole of it.

    Used with ``with``, it closes at the end. What the custodian alone may do raises ``SessionError`` for
    everybody else: on an analyst, a session of a service and a model.
    """

    _role: ClassVar[str] = "a session"  # of whoever asks, in refusals
    _who_may: ClassVar[str] = "the custodian may, on the session itself or by the pmw command"

    def _refuse(self, what: str, who_may: str = "") -> NoReturn:
        """Refuse what is not for this role, and tell who may do it."""
        raise SessionError(f"{self._role} may not {what}: {who_may or self._who_may}")

    @property
    @abstractmethod
    def contract(self) -> Contract:
        """What was fixed at opening."""

    @property
    def domain(self) -> Domain:
        """The declared attributes."""
        return self.contract.domain

    @property
    def guarantee(self) -> str:
        """What the session promises, in words."""
        return guarantee(self.contract)

    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """Return the declared attributes, the number of records and the guarantee, ready for JSON; free."""

    @abstractmethod
    def do(self, request: SessionRequest[Result]) -> Result:
        """Return the result of a request: what the method of its kind returns, which makes such a request.

        Raises:
            PMWError: see that method.
        """

    def status(self) -> Status:
        """Return where the session stands; free."""
        return self.do(SessionRequest(Kinds.STATUS))

    def budget(self) -> Booked:
        """Return what was charged for whoever asks, what is left, and how many questions were asked; free.

        For a session that is what no analyst was charged: opening, and what was asked without a name.
        """
        return self.do(SessionRequest(Kinds.BUDGET))

    def ledger(self) -> Ledger:
        """Return every charge so far, in order; free.

        An analyst sees the price of every charge, but neither the questions nor the names of other analysts.

        Raises:
            SessionError: a model file holds the sum of the charges alone.
        """
        return self.do(SessionRequest(Kinds.LEDGER))

    def synthetic_records(
        self,
        rows: int | None = None,
        *,
        seed: int | None = None,
        independent: bool = False,
        refine: bool = False,
        where: str | None = None,
    ) -> pd.DataFrame:
        """Return a synthetic table drawn from the model; free.

        Args:
            rows: number of rows; None for the session's total, or the model's count of ``where``, rounded.
            seed: repeats a drawing; None draws again.
            independent: independent draws instead of systematic rounding.
            refine: first fit the model to everything released more closely, where noise allows; not kept.
            where: a condition on whole cells that every row satisfies: rows of the model given it.

        Raises:
            QueryError: the condition is refused.
            ReleaseError: the number of rows is out of range, or no record of the model satisfies ``where``.
            SessionError: a service refines no model.
        """
        from pmw.public.export import RowPlan

        return self._drawn(RowPlan(rows, independent, seed, where), refine=refine)

    @abstractmethod
    def _drawn(self, plan: RowPlan, *, refine: bool) -> pd.DataFrame:
        """Return rows as they are planned."""

    def export(
        self,
        path: str | Path,
        plan: RowPlan | None = None,
        *,
        format: str | None = None,
        force: bool = False,
        refine: bool = False,
    ) -> dict[str, Any]:
        """Write a synthetic table or the measurements, with a manifest beside it, and return that; free.

        A model is one file, for ``load_model``, with nothing beside it.

        Args:
            path: the file to write.
            plan: how rows are drawn; measurements and models have none.
            format: csv, parquet, measurements or model; None goes by the file's name (.csv, .parquet,
                .model).
            force: overwrite existing files.
            refine: first fit the model to everything released more closely, where noise allows; not kept.

        Raises:
            ReleaseError: the format is unknown or has no rows to plan, a file exists and ``force`` is not
                given, or a file cannot be written.
            SessionError: a service refines no model, and exports no measurements.
        """
        from pmw.public.export import ExportFormat

        target = Path(path)
        return self._written(target, ExportFormat.chosen(format, target), plan, force=force, refine=refine)

    @abstractmethod
    def _written(
        self, target: Path, form: ExportFormat, plan: RowPlan | None, *, force: bool, refine: bool
    ) -> dict[str, Any]:
        """Write a file of a format, and return what it is."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is held: a file, or a connection. An analyst and a model hold nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- what the custodian alone does ----------------------------------------------------------------------

    def bookings(self) -> tuple[Booked, ...]:
        """Return what was charged for each analyst; the session itself comes first, with an empty name."""
        self._refuse("see what others were charged")

    def read_table(self) -> None:
        """Read the table now, where a test may need it: else the first one does, while other threads wait.

        Raises:
            DataError: it cannot be read, or differs from the one that the session was opened on.
        """
        self._refuse("have the table read")

    def verify(self) -> Verification:
        """Check the session's ledger, measurements and answers, and return what holds; free.

        Raises:
            StoreError: the session file cannot be read.
        """
        self._refuse("verify the session's file")

    def plot(self, path: str | Path | None = None, *, force: bool = False) -> Figure:
        """Return a picture of the session, made of public state alone; free.

        It shows the first six attributes' released marginals beside the model's, and the budget over time.

        Args:
            path: where to write it too: a PNG, PDF or SVG file.
            force: overwrite an existing file.

        Raises:
            ReleaseError: matplotlib is not installed, or the file cannot be written.
        """
        self._refuse("see the budget over time")

    def report(self, path: str | Path, *, force: bool = False) -> None:
        """Write a report on the session, made of what may be published alone, as one HTML file; free.

        It tells in plain words what is promised, how accurate answers are, which tables may be quoted, what
        was asked most and what was charged. It opens offline and prints on A4.

        Args:
            force: overwrite an existing file.

        Raises:
            ReleaseError: the file exists and ``force`` is not given, or it cannot be written.
        """
        self._refuse("write a report on everybody's questions")

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
        self._refuse("spend what is left and close the session")

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
        self._refuse("close the session for good")
