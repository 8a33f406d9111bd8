"""Records and codes: the values of a table's columns, and the numbers of the cells that they fall into.

A record is kept or dropped by its own values alone, whatever the other records hold:

* an empty value (None, NaN, NaT, the empty text) goes to the ``missing`` cell; without one its record is
  dropped;
* a malformed or undeclared value goes to the ``other`` cell; without one its record is dropped;
* a number outside the declared ends is clipped to them;
* a record in an impossible cell is dropped.

A text is read as a number by one grammar (ASCII digits, sign, point, exponent, spaces around), so that a
value means the same in a CSV file, a Parquet file and a table in memory. What a value of another type says is
decided by its type (``queries.plain_values``); no value makes the reading fail or warn.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import is_
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from queries.domain import Attribute, Domain, require_domain
from queries.errors import RecordsError
from queries.frozen import dataclass
from queries.impossible import possible_records
from queries.numbers import ValueGrid
from queries.plain_values import UNREADABLE, type_name
from queries.values import DROPPED, Lean, Values, values_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CodedRecords:
    """The cell numbers of each kept record.

    Args:
        domain: the table's domain.
        columns: one unsigned integer array per attribute, in declared order, all of one length:
            the cell of each record.

    Raises:
        RecordsError: the columns are no such arrays, or do not fit the domain.
    """

    domain: Domain
    columns: tuple[NDArray[np.unsignedinteger[Any]], ...]

    def __post_init__(self) -> None:
        require_domain(self.domain)
        for column in self.columns:
            if not issubclass(type(column), np.ndarray) or column.dtype.kind != "u" or column.ndim != 1:
                raise RecordsError(f"expected arrays of unsigned integers as columns, got a {_kind(column)}")
        lengths = {len(column) for column in self.columns}
        if len(self.columns) != len(self.domain) or len(lengths) > 1:
            raise RecordsError(
                f"expected {len(self.domain)} columns of one length, got {len(self.columns)} columns"
            )
        views = tuple(column.view() for column in self.columns)
        for view in views:
            view.flags.writeable = False
        object.__setattr__(self, "columns", views)

    def __len__(self) -> int:
        return len(self.columns[0])

    def __repr__(self) -> str:
        return f"CodedRecords({self.domain.name!r}, records not shown)"


def encode_records(frame: pd.DataFrame, domain: Domain) -> CodedRecords:
    """Return the cells of every record that is not dropped, in the table's order.

    Columns that the domain does not name are ignored.

    Raises:
        RecordsError: it is no pandas table, or a declared column is absent or stands there twice.
        DomainError: the domain is none.
    """
    require_domain(domain)
    codes = encode_columns(frame_columns(frame, domain.names), domain)
    kept = kept_records(codes, domain)
    pairs = zip(domain, codes, strict=True)
    return CodedRecords(domain, tuple(one[kept].astype(np.min_scalar_type(a.size - 1)) for a, one in pairs))


def encode_columns(columns: Columns, domain: Domain) -> tuple[NDArray[np.signedinteger[Any]], ...]:
    """Return, per attribute, the cell of every value, -1 where it drops its record: integers, (records,)."""
    require_domain(domain)
    return tuple(columns[attribute.name].cells(attribute) for attribute in domain)


def encode_places(columns: Columns, domain: Domain) -> tuple[NDArray[np.signedinteger[Any]], ...]:
    """Return, per grid of the domain, the place of every value that is summed: integers, shape (records,)."""
    return tuple(columns[grid.attribute].cells(grid) for grid in domain.grids)


def kept_records(codes: Sequence[NDArray[np.signedinteger[Any]]], domain: Domain) -> NDArray[np.bool_]:
    """Return which records no value drops, by the cells of their values: bool, shape (records,).

    Args:
        codes: the cells of each attribute in declared order, and perhaps more arrays behind them.
    """
    kept = possible_records(domain.impossible, domain.names, codes)
    for column in codes:
        kept &= column != DROPPED
    return kept


def named_column(frame: pd.DataFrame, name: str) -> pd.Series[Any]:
    """Return the column of a name."""
    names = [str(label) if issubclass(type(label), str) else None for label in frame.columns]
    if names.count(name) != 1:
        # The columns that came are not listed: in a table without a header they are a person's record.
        came = "it twice" if name in names else f"no such column among {len(names)}"
        raise RecordsError(f"expected one column {name!r} in the table, got {came}")
    return frame.iloc[:, names.index(name)]


def require_frame(frame: object) -> None:
    """Refuse what is no pandas table, by its type alone."""
    import pandas as pd  # late: only where tables are handled

    # The type is asked, for a thing may say that it is of another class.
    if not issubclass(type(frame), pd.DataFrame):
        raise RecordsError(
            f"expected a pandas table, got a {type_name(frame)}; turn it into one, as "
            "table.to_pandas() and pandas.DataFrame(table) do"
        )


def decode_records(
    records: CodedRecords, generator: np.random.Generator, leans: Mapping[str, Lean] | None = None
) -> pd.DataFrame:
    """Return a table with one value per cell number.

    A cell that holds several numbers gives one of them, evenly drawn; ``missing`` gives an empty value
    and ``other`` the text ``(other)``.

    Args:
        records: cells per record.
        generator: draws the place inside a cell; nothing private depends on it.
        leans: of some attributes of numbers, the mean place of each record's number in its cell: float64,
            shape (records,), in (0, 1); others are drawn evenly.

    Raises:
        RecordsError: they are no coded records.
    """
    if not issubclass(type(records), CodedRecords):
        raise RecordsError(f"expected coded records, got a {type_name(records)}; encode_records makes them")
    return next(decode_batches(records, generator, max(1, len(records)), leans))


def decode_batches(
    records: CodedRecords, generator: np.random.Generator, size: int, leans: Mapping[str, Lean] | None = None
) -> Iterator[pd.DataFrame]:
    """Yield the rows of ``decode_records``, so many at a time; of none, one table without rows."""
    import pandas as pd  # late: only where tables are handled

    batches = [slice(start, start + size) for start in range(0, max(1, len(records)), size)]
    leans = leans or {}
    generators = _column_generators(records, generator, batches, leans)
    for batch in batches:
        table = {}
        for attribute, column, own in zip(records.domain, records.columns, generators, strict=True):
            lean = _of_batch(leans, attribute, batch)
            table[attribute.name] = _decode_column(attribute, column[batch].astype(np.int64), own, lean)
        yield pd.DataFrame(table)


def _of_batch(leans: Mapping[str, Lean], attribute: Attribute, batch: slice) -> Lean | None:
    return leans[attribute.name][batch] if attribute.name in leans else None


def _column_generators(
    records: CodedRecords, generator: np.random.Generator, batches: Sequence[slice], leans: Mapping[str, Lean]
) -> list[np.random.Generator]:
    """Return a generator for each column, which stands where the columns before it have drawn all rows."""
    if len(batches) == 1:
        return [generator] * len(records.columns)  # one column after the other draws from it
    found = []
    for attribute, column in zip(records.domain, records.columns, strict=True):
        found.append(copy.deepcopy(generator))
        for batch in batches:
            cells = column[batch].astype(np.int64)
            values_of(attribute).draw(cells, generator, _of_batch(leans, attribute, batch))
    return found


# --- one column ------------------------------------------------------------------------------------------


class Column(ABC):
    """The values of one column of some records, as whoever holds them has them."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def cells(self, attribute: Attribute | ValueGrid) -> NDArray[np.signedinteger[Any]]:
        """Return the cell of each value, -1 where it drops its record; equal to ``Values.encode`` of each.

        Returns:
            Integers, shape (records,), of as many bits as the cells need or more.
        """

    @abstractmethod
    def series(self) -> pd.Series[Any]:
        """Return the values as pandas has them."""


Columns: TypeAlias = Mapping[str, Column]  # of some records, by name


class FrameColumn(Column):
    """A column of pandas."""

    def __init__(self, column: pd.Series[Any]) -> None:
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    def cells(self, attribute: Attribute | ValueGrid) -> NDArray[np.signedinteger[Any]]:
        own, column = values_of(attribute), self._column
        dtype = column.dtype
        if isinstance(dtype, np.dtype) and dtype.kind in "fi":
            cells = _number_cells(own, column.to_numpy())
            if cells is not None:
                return cells
        if dtype.kind in "biufM" and isinstance(dtype, np.dtype):
            # One kind of number throughout: equal ones encode equally, so encode each distinct one once.
            with np.errstate(all="ignore"):  # a NaN may signal
                positions, distinct = column.factorize()
            table = [own.encode(value) for value in (*distinct, None)]  # position -1: empty
            codes: NDArray[np.int64] = np.array(table, dtype=np.int64)[positions]
            return codes
        categories = getattr(dtype, "categories", None)
        if categories is not None and len(categories) <= len(column):
            known = [own.encode(value) for value in (*objects_of(categories.to_series()), None)]
            return np.array(known, dtype=np.int64)[column.cat.codes.to_numpy()]  # code -1: empty
        values = objects_of(column)
        find = _KnownValues(own).__getitem__ if _alike(values) else _KnownCells(own).cell
        return np.fromiter(map(find, values), dtype=np.int64, count=len(values))

    def series(self) -> pd.Series[Any]:
        return self._column


class NumberColumn(Column):
    """Numbers of one kind: int64, or floats, of which NaN is empty, as ``empty`` ones are."""

    def __init__(self, numbers: NDArray[Any], empty: NDArray[np.bool_] | None = None) -> None:
        self._numbers, self._empty = numbers, empty

    def __len__(self) -> int:
        return len(self._numbers)

    def cells(self, attribute: Attribute | ValueGrid) -> NDArray[np.signedinteger[Any]]:
        own = values_of(attribute)
        cells = _number_cells(own, self._numbers)
        if cells is None:
            return FrameColumn(self.series()).cells(attribute)
        if self._empty is not None:
            cells[self._empty] = own.empty
        return cells

    def series(self) -> pd.Series[Any]:
        import pandas as pd  # late: only where a table of pandas is needed

        column = pd.Series(self._numbers)
        if self._empty is None or not self._empty.any():
            return column
        return column.astype("Int64").mask(self._empty)


class TextColumn(Column):
    """Texts; None is empty, as the empty text is."""

    def __init__(self, texts: Sequence[str | None]) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def cells(self, attribute: Attribute | ValueGrid) -> NDArray[np.signedinteger[Any]]:
        find = _KnownValues(values_of(attribute)).__getitem__
        return np.fromiter(map(find, self._texts), dtype=np.int64, count=len(self._texts))

    def series(self) -> pd.Series[Any]:
        import pandas as pd  # late: only where a table of pandas is needed

        return pd.Series(list(self._texts), dtype=object)


class Listing:
    """The values that may stand in a column, each encoded once."""

    def __init__(self, values: Column) -> None:
        self.values = values
        self._known: dict[Attribute | ValueGrid, NDArray[np.signedinteger[Any]]] = {}

    def cells(self, attribute: Attribute | ValueGrid) -> NDArray[np.signedinteger[Any]]:
        """Return the cell of each value, and behind them that of an empty one."""
        if attribute not in self._known:
            cells = np.append(self.values.cells(attribute), values_of(attribute).empty)
            # In as few bytes as hold the cells, since there may be many records.
            self._known[attribute] = cells.astype(np.min_scalar_type(-attribute.size))
        return self._known[attribute]


class ListedColumn(Column):
    """Values that are listed once, and of each record the place of its own; -1 is empty."""

    def __init__(self, places: NDArray[np.signedinteger[Any]], listing: Listing) -> None:
        self._places, self._listing = places, listing

    def __len__(self) -> int:
        return len(self._places)

    def cells(self, attribute: Attribute | ValueGrid) -> NDArray[np.signedinteger[Any]]:
        cells: NDArray[np.signedinteger[Any]] = self._listing.cells(attribute)[self._places]
        return cells

    def series(self) -> pd.Series[Any]:
        import pandas as pd  # late: only where a table of pandas is needed

        values = pd.CategoricalDtype(self._listing.values.series())
        return pd.Series(pd.Categorical.from_codes(self._places, dtype=values))


def frame_columns(frame: pd.DataFrame, names: Iterable[str]) -> Columns:
    """Return some columns of a pandas table."""
    require_frame(frame)
    return {name: FrameColumn(named_column(frame, name)) for name in names}


def _number_cells(own: Values[Any], numbers: NDArray[Any]) -> NDArray[np.int64] | None:
    with np.errstate(all="ignore"):  # a NaN may signal, a long double may be too large
        return own.encode_numbers(numbers.astype(np.float64 if numbers.dtype.kind == "f" else np.int64))


def objects_of(column: pd.Series[Any]) -> list[object]:
    """Return the values of a column as Python's, ``UNREADABLE`` where one has no such form.

    A time at the end of all times may have none, in its zone or as a date of Python. A category is read from
    the list of categories: as a whole, a column of whole numbers becomes one of floats where one is empty.
    """
    categories = getattr(column.dtype, "categories", None)
    if categories is not None:
        known = [*objects_of(categories.to_series()), None]  # code -1: empty
        return [known[code] for code in column.cat.codes.tolist()]
    try:
        values: list[object] = column.to_numpy(dtype=object).tolist()
    except (ValueError, OverflowError, NotImplementedError):
        if len(column) == 1:
            return [UNREADABLE]
        half = len(column) // 2
        return [*objects_of(column.iloc[:half]), *objects_of(column.iloc[half:])]
    return values


def _alike(values: list[object]) -> bool:
    """Tell by their types, by identity, whether equal values have one cell: no code of theirs runs."""
    if all(map(partial(is_, str), map(type, values))):
        return True
    kinds = set(map(id, map(type, values)))
    return any(kinds <= alike for alike in _ALIKE)


class _KnownCells(dict[tuple[type, object], int]):
    """Remembers the cells of values, by type and value: True, 1 and 1.0 are equal and hash alike.

    Other objects are encoded again each time, for equal ones may be written differently, as Decimal 1.0 and
    1.00 are. So no record changes another one's cell.
    """

    def __init__(self, own: Values[Any]) -> None:
        self._own = own
        self._texts = _KnownValues(own)

    def cell(self, value: object) -> int:
        kind = type(value)
        if kind is str:
            return self._texts[value]
        if id(kind) not in _SIMPLE:
            return self._own.encode(value)
        return self[kind, value]

    def __missing__(self, key: tuple[type, object]) -> int:
        self[key] = code = self._own.encode(key[1])
        return code


class _KnownValues(dict[object, int]):
    """Remembers the cells of values, of which equal ones have one cell."""

    def __init__(self, own: Values[Any]) -> None:
        self._own = own

    def __missing__(self, value: object) -> int:
        self[value] = code = self._own.encode(value)
        return code


# Beside texts and None, one kind of number: True, 1 and 1.0 are equal. NaN is a float.
_ALIKE = tuple({id(str), id(kind), id(type(None))} for kind in (float, int, bool))
_SIMPLE = {id(int), id(float), id(bool), id(type(None))}


def _decode_column(
    attribute: Attribute, codes: NDArray[np.int64], generator: np.random.Generator, lean: Lean | None
) -> pd.Series[Any]:
    import pandas as pd  # late: only where tables are handled

    values = values_of(attribute).draw(codes, generator, lean)
    drawn: pd.Series[Any] = pd.Series(values)
    if values.dtype.kind == "O":  # empty and undeclared ones are among them
        return drawn if attribute.missing else drawn.infer_objects()
    if values.dtype.kind == "i" and attribute.missing:
        drawn = drawn.astype("Int64")
    if values.dtype.kind == "M" and attribute.other:
        drawn = time_texts(drawn, np.datetime_data(values.dtype)[0])
    if attribute.other:
        drawn = drawn.astype(object)
        drawn[codes == attribute.other_code] = attribute.label(attribute.size - 1)
    if attribute.missing:
        drawn[codes == attribute.missing_code] = None
    return drawn


def time_texts(column: pd.Series[Any], unit: str) -> pd.Series[Any]:
    """Return the texts of datetime64[s], by days (``D``) or seconds (``s``); empty values stay empty."""
    if not len(column):
        return column.astype(object)
    texts = np.strings.replace(np.datetime_as_string(column.to_numpy().astype(f"M8[{unit}]")), "T", " ")
    return column.astype(object).mask(column.notna(), texts)


def _kind(column: object) -> str:
    name = type_name(column)
    return f"{name} of {column.dtype.name}" if issubclass(type(column), np.ndarray) else name  # type: ignore[attr-defined]  # by its type
