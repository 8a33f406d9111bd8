"""Publishing: where a session stands, and what of it may be published, here or far away."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pmw.errors import ReleaseError
from pmw.public.state import PublicState

if TYPE_CHECKING:
    import pandas as pd

    from pmw.public.export import ExportFormat, RowPlan
    from pmw.public.ledger import Ledger
    from pmw.public.status import Status


class Publishing(ABC):
    """What a whole session tells and gives away, besides its answers.

    Used with ``with``, it closes at the end.
    """

    @abstractmethod
    def status(self) -> Status:
        """Return where the session stands."""

    @abstractmethod
    def ledger(self) -> Ledger:
        """Return every charge so far, in order."""

    def synthetic_records(
        self,
        rows: int | None = None,
        *,
        seed: int | None = None,
        independent: bool = False,
        refine: bool = False,
    ) -> pd.DataFrame:
        """Return a synthetic table drawn from the model; free.

        Args:
            rows: number of rows; None for the session's total, rounded.
            seed: repeats a drawing; None draws again.
            independent: independent draws instead of systematic rounding.
            refine: first fit the model to everything released more closely, where noise allows; not kept.

        Raises:
            ReleaseError: the number of rows is out of range.
        """
        from pmw.public.export import RowPlan

        return self._drawn(RowPlan(rows, independent, seed), refine=refine)

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
        """Let go of what is held: a file, or a connection."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LocalPublishing(Publishing):
    """What a whole session gives away, where the public state is at hand."""

    @abstractmethod
    def _published(self, refine: bool) -> PublicState:
        """Return the public state, its model fitted further if that is asked for."""

    @abstractmethod
    def _write_model(self, target: Path, *, force: bool) -> dict[str, Any]:
        """Write a model file, and return what it is."""

    def _drawn(self, plan: RowPlan, *, refine: bool) -> pd.DataFrame:
        from pmw.public.export import synthetic_frame

        return synthetic_frame(self._published(refine), plan)

    def _written(
        self, target: Path, form: ExportFormat, plan: RowPlan | None, *, force: bool, refine: bool
    ) -> dict[str, Any]:
        from pmw.public.export import ExportFormat, export

        if form is not ExportFormat.MODEL:
            state = self._published(refine)
            return export(state, target, plan, format=form.value, force=force, refined=refine)
        if refine or plan is not None:
            raise ReleaseError("a model is written as it is; leave out refine, and how rows are drawn")
        return self._write_model(target, force=force)
