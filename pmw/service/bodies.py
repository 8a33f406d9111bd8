"""Bodies: what requests hold, as pydantic checks it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pmw.service.limits import MOST_QUESTIONS


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Asked(_Body):
    """One question, as ``where`` or ``sql``, or several, as ``queries``.

    One that counts may have a bar of so many records at most, ``within``; with ``dry_run`` its price is told.
    """

    where: str | dict[str, Any] | None = None
    sql: str | None = None
    queries: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MOST_QUESTIONS)] | None = None
    within: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    dry_run: bool = False
    fresh: bool = False
    strict_cells: bool = False

    @model_validator(mode="after")
    def one_form(self) -> Asked:
        """Refuse none or several of the three forms, and a bar of several questions."""
        if sum(form is not None for form in (self.where, self.sql, self.queries)) != 1:
            raise ValueError
        if self.within is None and self.dry_run:
            raise ValueError
        if self.within is not None and (self.queries is not None or self.fresh):
            raise ValueError
        return self

    def forms(self) -> list[dict[str, Any]]:
        """Return the questions as lines of a stream hold them."""
        if self.queries is not None:
            return self.queries
        return [{"where": self.where} if self.sql is None else {"sql": self.sql}]


class Measured(_Body):
    """Attributes of a table of counts."""

    scope: Annotated[list[str], Field(min_length=1, max_length=100)]
    dry_run: bool = False
