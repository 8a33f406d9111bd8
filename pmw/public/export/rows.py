"""Rows: synthetic records drawn from the model, perhaps given a condition, as a frame, as CSV and as Parquet.

A condition is a product of factors. One about a single attribute multiplies the model, and the shares of the
cells inside its bins. So does one about several attributes that are not binned, where the model's tree has
room for them. Rows of the model are chosen by the others, which leaves the same distribution. So are
rows that are in no impossible cell.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import default_rng
from numpy.typing import NDArray

from pmw.disk import CsvDialect
from pmw.errors import ReleaseError
from pmw.model.bins import Coarsening, coarse_target
from pmw.model.distribution import MarginalTerm, SyntheticDistribution
from pmw.model.graphical import GraphicalDistribution
from pmw.model.junction_tree import DEFAULT_MAX_CELLS
from pmw.model.measurement import QueryMeasurement, RowsMeasurement
from pmw.model.row_fitting import fit_rows
from pmw.public.state import PublicState, coarse_model
from pmw.public.value_sums import ValueSums
from queries.categories import CategoricalAttribute
from queries.cells import canonical_text, in_quotes
from queries.dates import DateAttribute, DatetimeAttribute, TimeAttribute
from queries.domain import Attribute, Domain
from queries.factors import UNITS, Factor
from queries.frozen import dataclass
from queries.impossible import possible_records
from queries.linear import LinearQuery
from queries.numbers import IntegerAttribute, NumericAttribute
from queries.parsing import parse_where, require_aligned
from queries.places import as_index
from queries.plain_values import type_name
from queries.records import CodedRecords, decode_batches, decode_records, time_texts
from queries.values import Lean

if TYPE_CHECKING:
    import pandas as pd

_MOST_DRAWN, _TIMES = 2 * 10**6, 8  # rows that some are chosen of: so many, or so many times as many
_BATCH = 2**20  # of these rows, which are looked at together
_LEAST = 1e-300  # part of the rows, so that its inverse is a number
_SPARE = 64  # rows that are drawn beside those that are expected to be needed


@dataclass(frozen=True, slots=True, eq=False)
class ConditionedModel:
    """The model given a condition. Everything about it is public.

    Args:
        model: over the bins, given the factors that it takes in.
        coarsening: the bins, with the shares of the cells that satisfy the condition.
        records: the model's number of records that satisfy the condition.
        chosen: the factors that rows are chosen by.
        part: of the rows of ``model`` that these leave, in (0, 1].
    """

    model: SyntheticDistribution
    coarsening: Coarsening
    records: float
    chosen: tuple[Factor, ...]
    part: float

    @classmethod
    def of(cls, state: PublicState, where: str) -> ConditionedModel:
        """Return the state's model given a condition.

        Privacy: post-processing of released numbers; free.
        """
        query = parse_where(where, state.domain)
        require_aligned(query)
        records = state.model.answer(query)
        if not records > 0:
            raise ReleaseError(f"the model has no records where {where}; ask for rows that some satisfy")
        model, coarsening, held = coarse_model(state), state.coarsening, list[Factor]()
        most = state.contract.options.max_cells or DEFAULT_MAX_CELLS
        for factor in query.factors:
            has_room = not isinstance(model, GraphicalDistribution) or model.holds(factor.scope, most)
            if len(factor.scope) == 1:
                coarsening = _within(coarsening, factor)
            elif not (has_room and coarsening.keeps(factor.scope)):
                continue
            inside = state.coarsening.averaged(factor.scope, factor.weights / UNITS)
            with np.errstate(divide="ignore"):  # minus infinity forbids a cell
                model = model.with_terms((*model.terms, MarginalTerm(factor.scope, np.log(inside))))
            held.append(factor)
        chosen = tuple(factor for factor in query.factors if factor not in held)
        around = state.model.answer(LinearQuery(state.domain, tuple(held))) if chosen else records
        part = min(1.0, max(records / around, _LEAST))
        return cls(model, coarsening, records, chosen, part)

    def draw(self, count: int, generator: np.random.Generator, *, independent: bool) -> CodedRecords:
        """Return rows over the declared cells, at least one."""
        if count / self.part > max(_MOST_DRAWN, _TIMES * count):
            names = ", ".join(dict.fromkeys(name for factor in self.chosen for name in factor.scope))
            raise ReleaseError(
                f"{count:,} rows are chosen by a condition on {names} together, which one in "
                f"{1 / self.part:,.0f} satisfies; ask for fewer rows, or for a wider condition"
            )
        kept, left = list[Sequence[NDArray[np.integer]]](), count
        domain, drawn = self.coarsening.fine, 0
        while left > 0:
            tries = min(math.ceil(left / self.part) + _SPARE, _BATCH) if self.chosen else left
            rows = self.model.sample(tries, generator, independent=independent)
            columns = self.coarsening.drawn(rows, generator, independent=independent).columns
            found = possible_records(domain.impossible, domain.names, columns)
            for factor in self.chosen:
                cells = tuple(as_index(columns[domain.index(name)]) for name in factor.scope)
                found &= factor.weights[cells] > 0
            places, drawn = np.flatnonzero(found)[:left], drawn + tries
            kept.append([column[places] for column in columns])
            left -= len(places)
            if left > 0 and domain.impossible and drawn > max(_MOST_DRAWN, _TIMES * count / self.part):
                raise ReleaseError(
                    f"{count:,} rows were looked for among {drawn:,}, nearly all of which are impossible by "
                    "the schema; ask for fewer rows, or leave [[impossible]] conditions out of it"
                )
        whole = tuple(np.concatenate(parts) for parts in zip(*kept, strict=True))
        return CodedRecords(domain, whole)


def _within(coarsening: Coarsening, factor: Factor) -> Coarsening:
    """Return bins with the shares of those cells that a factor about one attribute leaves."""
    place = coarsening.fine.index(factor.scope[0])
    bin_, share = coarsening.bins[place], coarsening.shares[place]
    if bin_ is None or share is None:
        return coarsening
    inside = share * (factor.weights > 0)
    sums = np.bincount(as_index(bin_), weights=inside)[bin_]
    left = np.where(sums > 0, inside / np.where(sums > 0, sums, 1.0), share)  # of a bin that is left out: any
    return replace(coarsening, shares=(*coarsening.shares[:place], left, *coarsening.shares[place + 1 :]))


MANIFEST_KEY = "online-pmw.manifest"  # in the metadata of a Parquet file
_MOST_ROWS = 10**8
_CSV_ROWS = 10_000  # of one part of a file
_INT64 = 2**63
_TYPES = {
    IntegerAttribute: "BIGINT",
    NumericAttribute: "DOUBLE",
    DateAttribute: "DATE",
    DatetimeAttribute: "TIMESTAMP",
    TimeAttribute: "TIME",
}


@dataclass(frozen=True, slots=True)
class RowPlan:
    """How synthetic rows are drawn. Nothing private is drawn here: the model is public.

    Args:
        rows: number of rows, at least 1; None for the session's total, or for the model's count of ``where``,
            rounded.
        independent: independent draws instead of systematic rounding.
        seed: repeats a drawing; None draws again.
        where: a condition that every row satisfies, on whole cells, such as ``age >= 65 AND sex = 'F'``.
        dialect: how a CSV file of them is written. An empty value is an empty text, and dates are ISO 8601.

    Raises:
        ReleaseError: the number of rows is out of range, the condition is no text, or the dialect is none.
    """

    rows: int | None = None
    independent: bool = False
    seed: int | None = None
    where: str | None = None
    dialect: CsvDialect = field(default_factory=CsvDialect)

    def __post_init__(self) -> None:
        if self.rows is not None and not 1 <= self.rows <= _MOST_ROWS:
            raise ReleaseError(f"expected rows from 1 to {_MOST_ROWS:,}, got rows={self.rows}")
        if self.seed is not None and self.seed < 0:
            raise ReleaseError(f"expected a seed of at least 0, got seed={self.seed}")
        if self.where is not None and not isinstance(self.where, str):
            raise ReleaseError(f"expected a condition as a text, got a {type_name(self.where)}")
        if not isinstance(self.dialect, CsvDialect):
            raise ReleaseError(f"expected a CsvDialect, got a {type_name(self.dialect)}")

    def count(self, records: float) -> int:
        """Return the number of rows that are drawn of a model of some records.

        Raises:
            ReleaseError: these are rounded to none, of a condition.
        """
        found = round(records) if self.rows is None else self.rows
        if self.where is not None and not found:
            raise ReleaseError(
                f"the model has {records:.2g} records where {self.where}, which rounds to no row; give rows"
            )
        return found


@dataclass(frozen=True, slots=True, eq=False)
class DrawnRows:
    """Synthetic rows as cell numbers, of a byte or two each. Everything about them is public.

    Args:
        records: the cell of each row along each attribute, over the declared cells.
        generator: draws the values inside the cells.
        leans: of attributes whose sums were measured, the mean place of each row's number in its cell.
        dialect: how they are written as CSV.
    """

    records: CodedRecords
    generator: np.random.Generator
    leans: Mapping[str, Lean] = field(default_factory=dict)
    dialect: CsvDialect = field(default_factory=CsvDialect)

    def frame(self) -> pd.DataFrame:
        """Return the rows as a table."""
        return decode_records(self.records, self.generator, self.leans)

    def csv_parts(self) -> Iterator[bytes]:
        """Return the rows as CSV, some at a time; lines end with a line feed."""
        batches = decode_batches(self.records, self.generator, _CSV_ROWS, self.leans)
        domain = self.records.domain
        return (_csv(frame, domain, self.dialect, header=not place) for place, frame in enumerate(batches))


def draw_rows(state: PublicState, plan: RowPlan) -> DrawnRows:
    """Return synthetic rows drawn from the model, and fitted to what it cannot hold.

    Systematic rows are drawn over the cells of the model, bins for long attributes. Where marginals are
    measured, or sums of values by groups, single values are changed until the rows are as near to all of
    these as noise lets them be (``pmw.model.row_fitting``): the model's tree holds only some. Values inside
    bins come last. Independent draws stay independent: none is changed. Inside cells numbers lean so that
    sums are about those that were measured.

    Rows that satisfy a condition are drawn from the model given it (``ConditionedModel``), and are not fitted
    to marginals, which are of all records. A row in an impossible cell gives way to another draw.

    Privacy: post-processing of released numbers; free.
    """
    generator = default_rng(plan.seed)
    if plan.where is not None:
        given = ConditionedModel.of(state, plan.where)
        chosen = given.draw(plan.count(given.records), generator, independent=plan.independent)
        return DrawnRows(chosen, generator, ValueSums(state).leans(chosen), plan.dialect)
    count = plan.count(state.total.records)
    records = coarse_model(state).sample(count, generator, independent=plan.independent)
    if state.contract.options.tests_marginals and not plan.independent:
        targets = [
            coarse_target(state.coarsening, one, state.total.value)
            for one in state.measurements
            if not isinstance(one, QueryMeasurement | RowsMeasurement)
        ]
        targets += ValueSums(state).targets()
        records = fit_rows(records, targets, state.total.value, generator)
    records = state.coarsening.drawn(records, generator, independent=plan.independent)
    records = _possible(state, records, generator)
    return DrawnRows(records, generator, ValueSums(state).leans(records), plan.dialect)


def _possible(state: PublicState, records: CodedRecords, generator: np.random.Generator) -> CodedRecords:
    """Return rows with others of the model in place of those that are in an impossible cell."""
    domain = state.domain
    places = np.flatnonzero(~possible_records(domain.impossible, domain.names, records.columns))
    if not places.size:
        return records
    whole = ConditionedModel(coarse_model(state), state.coarsening, state.total.records, (), 1.0)
    columns = [column.copy() for column in records.columns]
    others = whole.draw(places.size, generator, independent=True).columns
    for column, other in zip(columns, others, strict=True):
        column[places] = other
    return CodedRecords(records.domain, tuple(columns))


def _csv(frame: pd.DataFrame, domain: Domain, dialect: CsvDialect, *, header: bool) -> bytes:
    """Return rows as CSV. A value's text depends on its column's type alone, never on the rows beside it."""
    for attribute in domain:
        if (
            isinstance(attribute, DateAttribute | DatetimeAttribute)
            and frame[attribute.name].dtype.kind == "M"
        ):
            frame[attribute.name] = time_texts(frame[attribute.name], attribute.unit)
    fields, join = _Fields(dialect, is_alone=len(frame.columns) == 1), dialect.delimiter.join
    try:
        lines = [join([fields[name] for name in domain.names])] if header else []
        lines += map(join, zip(*(_column_fields(frame[name], fields) for name in domain.names), strict=True))
        return "".join([f"{line}\n" for line in lines]).encode(dialect.encoding)
    except (csv.Error, UnicodeEncodeError):
        told = f"a declared name or value cannot be written in {dialect.unusual}; choose Parquet"
        raise ReleaseError(told) from None


def _column_fields(column: pd.Series[Any], fields: _Fields) -> list[str]:
    if isinstance(column.dtype, np.dtype) and column.dtype.kind == "i":  # few different ones: each once
        places, distinct = column.factorize()
        texts: list[str] = np.array([str(value) for value in distinct.tolist()], object)[places].tolist()
        return texts
    given, point = column.tolist(), fields.dialect.decimal
    told = (str(one).replace(".", point) if isinstance(one, float) else str(one) for one in given)
    return [fields["" if empty else one] for one, empty in zip(told, column.isna().tolist(), strict=True)]


class _Fields(dict[str, str]):
    """Fields of CSV by their texts: quoted where they must be."""

    def __init__(self, dialect: CsvDialect, *, is_alone: bool) -> None:
        self.dialect, self._is_alone = dialect, is_alone

    def __missing__(self, text: str) -> str:
        written, dialect = StringIO(), self.dialect
        csv.writer(written, **dialect.format, lineterminator="\n").writerow([text, ""])
        empty = 2 * dialect.quote if self._is_alone and not text else ""
        self[text] = quoted = empty or written.getvalue().removesuffix(f"{dialect.delimiter}\n")
        return quoted


# --- Parquet -----------------------------------------------------------------------------------------------


def column_type(attribute: Attribute) -> str:
    """Return the type of an attribute's column, by its declaration alone.

    BIGINT for whole numbers, DOUBLE for others, DATE, TIMESTAMP and TIME for these; BIGINT, BOOLEAN or
    VARCHAR for categories, by their values.
    A column with an ``other`` cell holds the text ``(other)``, so all of it is VARCHAR.
    """
    if attribute.other:
        return "VARCHAR"
    if isinstance(attribute, CategoricalAttribute):
        if all(isinstance(value, bool) for value in attribute.values):
            return "BOOLEAN"
        whole = all(type(value) is int and -_INT64 <= value < _INT64 for value in attribute.values)
        return "BIGINT" if whole else "VARCHAR"
    whole = isinstance(attribute, NumericAttribute) and attribute.integer
    return "BIGINT" if whole else _TYPES[type(attribute)]


def write_parquet(frame: pd.DataFrame, domain: Domain, path: Path, manifest: str = "") -> None:
    """Write synthetic rows; empty values become NULL.

    Args:
        frame: one column per attribute, in declared order.
        manifest: goes into the file's own metadata, under ``MANIFEST_KEY``; none where it is empty.
    """
    folded = [name.casefold() for name in domain.names]
    if len(set(folded)) != len(folded):
        twice = next(name for name in domain.names if folded.count(name.casefold()) > 1)
        raise ReleaseError(
            f"a Parquet column is found by its name in any case, and {twice!r} would stand there twice; "
            "choose --format csv"
        )
    write_typed(frame, [column_type(attribute) for attribute in domain], path, manifest)


def write_typed(frame: pd.DataFrame, types: Sequence[str], path: Path, manifest: str = "") -> None:
    """Write a table of which each column has one type; empty values become NULL."""
    path.open("wb").close()  # an operating system's reason is told by its error
    import duckdb  # late: only needed where Parquet is written

    typed = frame.set_axis([f"c{place}" for place in range(len(types))], axis="columns")
    for name, kind in zip(typed.columns, types, strict=True):
        typed[name] = _TYPED[kind](typed[name])
    columns = ", ".join(
        f"c{place}::{kind} AS {in_quotes(name)}"
        for place, (name, kind) in enumerate(zip(frame.columns, types, strict=True))
    )
    options, values = "FORMAT parquet, USE_TMP_FILE false", {"path": str(path.absolute())}
    if manifest:
        options += f", KV_METADATA {{'{MANIFEST_KEY}': $manifest}}"
        values["manifest"] = manifest
    try:
        with duckdb.connect(":memory:") as connection:
            connection.register("typed", typed)
            connection.execute(f"COPY (SELECT {columns} FROM typed) TO $path ({options})", values)  # noqa: S608
    except duckdb.Error:
        raise ReleaseError(f"{path}: the file cannot be written as Parquet") from None


def _texts(column: pd.Series[Any]) -> pd.Series[Any]:
    empty = column.isna()
    return column.astype(object).map(canonical_text).mask(empty, None).astype("string")


_TYPED: dict[str, Callable[[pd.Series[Any]], pd.Series[Any]]] = {
    "BIGINT": lambda column: column.astype("Int64"),
    "DOUBLE": lambda column: column.astype("float64"),
    "DATE": lambda column: column,
    "TIMESTAMP": lambda column: column,
    "BOOLEAN": lambda column: column.astype("boolean"),
    "VARCHAR": _texts,
    "TIME": _texts,
}
