"""Tables of Spark: cells are made, bounded and counted where the table lives, and only counts are collected.

The workers encode the declared columns once (``pmw.data.spark_workers``). The words that they make are kept
by Spark, cut off from where they came from (``localCheckpoint``): all counts of a process are of one
snapshot, and where a part of it is lost a count fails. It is never read again from a table that may have
changed.

Privacy: what leaves Spark is grouped counts over declared cells, or bins of them, and the sums of keyed
    hashes that the fingerprint is made of.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmw.data.bins import require_bins
from pmw.data.engine_columns import require_ids
from pmw.data.spark_session import quietly
from pmw.data.spark_workers import HASHES, OWNER_COLUMNS, Layout, bounder, encoder, summer
from pmw.errors import DataError
from queries.cells import cell_count
from queries.domain import Domain
from queries.marginal import Marginal
from queries.person import Person
from queries.plain_values import type_name
from queries.schema import format_schema

_LARGEST_SCOPE = 2**28  # cells of one marginal
_MOST_AT_ONCE = 2**24  # cells of several marginals that are counted in one scan
_MOST_CACHED_CELLS = 2**24
# Types whose every value the encoder reads; values of others may fail.
_READABLE = (
    "boolean", "byte", "short", "integer", "long", "float", "double", "decimal", "string", "char", "varchar",
    "binary", "date", "timestamp", "timestamp_ntz", "void",
)  # fmt: skip

_Bins = Sequence[NDArray[np.int64] | None]


def is_spark_frame(table: object) -> bool:
    """Return whether a thing is a DataFrame of Spark, by its type alone; the library is not imported."""
    name = type_name(table)
    return name.startswith("pyspark.sql.") and name.endswith(".DataFrame")


class SparkSource:
    """A table whose records stay in Spark.

    Marginals that were counted are kept.

    Args:
        words: a DataFrame of the cells of each kept record, as ``Layout`` puts them.
        everyone: the same of all records before any person's were bounded, and whose they are.
        domain: the declared attributes, and persons.
        bound: what is declared of persons, and the key that chose which records are kept; None without.
        coarsened: a domain whose cells are bins of the declared ones, and the bin of each cell; None counts
            declared cells.

    Privacy: holds true data. Its ``repr`` shows nothing, and it cannot be copied or pickled.
    """

    __slots__ = ("_bound", "_cached", "_coarsened", "_declared", "_everyone", "_prints", "_words")

    def __init__(
        self,
        words: Any,
        everyone: Any,
        domain: Domain,
        bound: tuple[Person, bytes] | None = None,
        coarsened: tuple[Domain, _Bins] | None = None,
    ) -> None:
        self._bound = bound
        self._prints: dict[bytes, bytes] = {}  # by their keys
        self._words, self._everyone = words, everyone
        self._declared, self._coarsened = domain, coarsened
        self._cached: dict[tuple[str, ...], Marginal] = {}

    @classmethod
    def of(cls, frame: Any, domain: Domain, key: bytes | None, what: str) -> SparkSource:
        """Return the source of a DataFrame; its records are encoded here, once.

        Args:
            frame: the DataFrame.
            domain: the declared attributes, and persons.
            key: 32 bytes, secret, that choose which records of a person are kept; None where no persons are
                declared.
            what: the name of the table, for messages.

        Raises:
            DataError: a declared column is absent or of a type that is refused, there is no key and persons
                are declared, or Spark fails.
        """
        person = domain.person
        if person is not None and (key is None or person.records is None):
            raise DataError(
                f"expected a key and a number of records per person, since {domain.name!r} declares the "
                f"column {person.column!r} of ids, got none; open a session on the table itself"
            )
        chosen = quietly(
            f"{what}: the columns of the table could not be read by Spark",
            lambda: _chosen(frame, domain, what),
        )
        return quietly(
            f"{what}: Spark could not read the table, or its workers lack this package",
            lambda: cls._encoded(chosen, domain, key),
        )

    @classmethod
    def _encoded(cls, chosen: Any, domain: Domain, key: bytes | None) -> SparkSource:
        words = [f"w{place} bigint" for place in range(Layout.of(domain).words)]
        owners = [f"{name} bigint" for name in OWNER_COLUMNS]
        person = domain.person
        everyone = chosen.mapInArrow(
            encoder(domain, key), ", ".join(words if person is None else words + owners)
        ).localCheckpoint()
        if person is None or person.records is None or key is None:
            return cls(everyone, everyone, domain)
        # A fixed number of partitions: Spark never parts one of these again, so a person is in one alone.
        parts = int(chosen.sparkSession.conf.get("spark.sql.shuffle.partitions"))
        by_person = everyone.repartition(parts, *OWNER_COLUMNS[:2])
        bounded = by_person.mapInArrow(bounder(domain, person.records), ", ".join(words)).localCheckpoint()
        return cls(bounded, everyone, domain, (person, key))

    @property
    def domain(self) -> Domain:
        """The declared attributes, or bins of them."""
        return self._declared if self._coarsened is None else self._coarsened[0]

    def is_bounded(self, person: Person | None, key: bytes | None) -> bool:
        """Tell whether the records were bounded so: by this declaration, under this key, or not at all."""
        return person is None if self._bound is None else self._bound == (person, key)

    def counts(self, scope: Sequence[str]) -> Marginal:
        """Return the exact records per cell over a scope.

        Privacy: exact and secret; see ``CountSource.counts``.

        Raises:
            DataError: the scope has more cells than fit in memory, or Spark fails.
        """
        wanted = self.domain.scope(scope)
        found = self._known(wanted)
        if found is None:
            self._require_size(wanted)
            self._count([wanted])
            found = self._cached[wanted]
        return found

    def prepare(self, scopes: Iterable[Sequence[str]]) -> None:
        """Count several scopes in one scan.

        Privacy: exact and secret; nothing is returned.

        Raises:
            DataError: Spark fails.
        """
        wanted = [
            scope for scope in dict.fromkeys(map(self.domain.scope, scopes)) if self._known(scope) is None
        ]
        sizes = [self.domain.scope_size(scope) for scope in wanted]
        if len(wanted) > 1 and sum(sizes) <= _MOST_AT_ONCE:
            self._count(wanted)

    def coarsened(self, coarse: Domain, bins: _Bins) -> SparkSource:
        """Return the source of the same records over a domain whose cells are bins of this one's.

        Args:
            coarse: attributes of the same names in the same order, one cell per bin.
            bins: per attribute, the bin of each cell: int64, shape (cells,); None where it is kept as
                it is. A function of public numbers.

        Privacy: as ``CountSource.coarsened``.

        Raises:
            DataError: the bins do not fit the two domains.
        """
        if self._coarsened is not None:
            raise DataError("expected a table over its declared cells, got one over bins of them")
        require_bins(self.domain, coarse, bins)
        return SparkSource(self._words, self._everyone, self._declared, None, (coarse, tuple(bins)))

    def fingerprint(self, key: bytes) -> bytes:
        """Return 32 bytes that tell this table from others to whoever knows the key (secret).

        HMAC-SHA-256 of the declared domain, the number of records, and the sums of keyed hashes of all of
        them, before any was left out, and of their ids: the order of records and how Spark parts them are no
        matter. It is another than a table in memory has.

        Raises:
            DataError: Spark fails.
        """
        if key in self._prints:
            return self._prints[key]
        digest = hmac.new(key, format_schema(self.domain).encode(), hashlib.sha256)
        keys = hmac.new(key, b"records in spark", hashlib.sha512).hexdigest()
        chosen = [keys[16 * place : 16 * (place + 1)] for place in range(HASHES)]
        schema = ", ".join(f"s{place} bigint" for place in range(HASHES + 1))
        columns = len(self._everyone.columns)
        found = quietly(
            "Spark could not compare the table with the session's",
            lambda: self._everyone.mapInArrow(summer(columns, chosen), schema).toArrow(),
        )
        for place in range(HASHES + 1):
            total = found.column(place).to_numpy().view(np.uint64).sum(dtype=np.uint64)
            digest.update(int(total).to_bytes(8, "little"))
        self._prints[key] = digest.digest()
        return self._prints[key]

    def grouped(self, scopes: Sequence[tuple[str, ...]]) -> Any:
        """Return the DataFrame that is collected: the numbers of the cells that hold records, and counts.

        The cells of each scope are numbered behind those of the scope before it.

        Args:
            scopes: attributes in declared order each.
        """
        first, numbers = 0, []
        for scope in scopes:
            numbers.append(f"{self._cell(scope)} + {first}L")
            first += self.domain.scope_size(scope)
        cell = numbers[0] if len(numbers) == 1 else f"explode(array({', '.join(numbers)}))"
        return self._words.selectExpr(f"{cell} AS cell").groupBy("cell").count()

    def _count(self, scopes: Sequence[tuple[str, ...]]) -> None:
        sizes = [self.domain.scope_size(scope) for scope in scopes]
        found = quietly("Spark could not count the table", lambda: self.grouped(scopes).toArrow())
        counts = np.zeros(sum(sizes), dtype=np.int64)
        counts[found.column("cell").to_numpy()] = found.column("count").to_numpy()
        for scope, part in zip(scopes, np.split(counts, np.cumsum(sizes)[:-1]), strict=True):
            self._cached[scope] = Marginal(self.domain, scope, part.reshape(self.domain.scope_shape(scope)))
        while sum(known.counts.size for known in self._cached.values()) > _MOST_CACHED_CELLS:
            oldest = next(iter(self._cached))
            if oldest in scopes:
                break
            del self._cached[oldest]

    def _cell(self, scope: Sequence[str]) -> str:
        """Return the expression for the number of a record's cell; it is made of whole numbers of ours."""
        layout = Layout.of(self._declared)
        terms, stride = ["0L"], 1
        for name in reversed(scope):
            place = self.domain.index(name)
            word, low, bits = layout.places[place]
            code = f"(shiftrightunsigned(w{word}, {low}) & {2**bits - 1}L)"
            bin_ = None if self._coarsened is None else self._coarsened[1][place]
            if bin_ is not None:
                listed = ", ".join(f"{number}L" for number in bin_.tolist())
                code = f"get(array({listed}), CAST({code} AS INT))"
            terms.append(f"{code} * {stride}L")
            stride *= self.domain.shape[place]
        return " + ".join(terms)

    def _known(self, scope: tuple[str, ...]) -> Marginal | None:
        """Return the counts as they, or the fewest wider ones, are kept; None where there are none."""
        if scope in self._cached:
            return self._cached[scope]
        wider = [known for known in self._cached.values() if set(scope) <= set(known.scope)]
        return min(wider, key=lambda known: known.counts.size).project(scope) if wider else None

    def _require_size(self, scope: tuple[str, ...]) -> None:
        size = self.domain.scope_size(scope)
        if size > _LARGEST_SCOPE:
            raise DataError(
                f"a question over {', '.join(scope)} spans {cell_count(size)} cells; "
                f"at most {_LARGEST_SCOPE:,} fit"
            )

    def __repr__(self) -> str:
        return f"SparkSource({self.domain.name!r}, records not shown)"

    def __reduce__(self) -> tuple[object, ...]:
        raise DataError("a sensitive table cannot be copied or pickled")


def _chosen(frame: Any, domain: Domain, what: str) -> Any:
    """Return the declared columns of a DataFrame, by their places: Spark may confuse A with a."""
    names, kinds = list(frame.schema.names), {}
    for name in domain.columns:
        if names.count(name) != 1:
            came = "it twice" if name in names else "no such column"
            raise DataError(f"{what}: expected one column {name!r}, got {came}")
        kind = str(frame.schema.fields[names.index(name)].dataType.typeName())
        if kind not in _READABLE:
            raise DataError(
                f"{what}: expected plain values in column {name!r}, got a column of type {kind}; make a view "
                "that gives text or numbers"
            )
        kinds[name] = kind
    require_ids(what, domain, kinds)
    placed = frame.toDF(*[f"c{place}" for place in range(len(names))])
    return placed.select(*[f"c{names.index(name)}" for name in domain.columns]).toDF(
        *[f"c{place}" for place in range(len(domain.columns))]
    )
