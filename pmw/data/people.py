"""People: at most K records of each person, chosen once, by these records alone.

Where a domain declares a column of ids, a session counts at most K records of each id. The records of a
person are put into the order of a keyed permutation of their cells, and the first K are kept. The
permutation's key is a keyed hash of the id. So what is kept of a person is a function of the secret key, of
the id and of the multiset of this person's coded records: neither the order of rows nor any other person's
record enters, and every question, resumption and export counts the same records.

Privacy: the guarantee does not rest on the hash. For any fixed key, taking all records of one person away
    changes nothing that is kept of others, so it takes at most K records away: K in L1, and in L2 where all
    of them share a cell. The key keeps people from choosing which of their records count, and the choice from
    following anything that an analyst knows. The hash is asked for one more thing, that two ids are taken for
    one person with a chance of about 2^-128 only: two independent SipHash values under secret keys tell them
    apart.

Source: SipHash-2-4: Aumasson and Bernstein (2012), as pandas has it (``hash_array``, which ends with the
    permutation below). The permutation of 64-bit words: the finaliser of SplitMix64, Steele, Lea and Flood
    (2014), after the first hash of the id was added bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from operator import is_
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pmw.data.packed import cell_words, multiset_digest
from pmw.data.scratch import Words
from pmw.errors import DataError
from queries.domain import Domain
from queries.frozen import dataclass
from queries.numbers import ValueGrid
from queries.person import Person
from queries.records import CodedRecords, objects_of

if TYPE_CHECKING:
    import pandas as pd

OWN = -1  # the number of whom a record without an id belongs to: a person of its own
_SHIFTS_AND_FACTORS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT = 31

Numbers = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, slots=True, repr=False)
class Bound:
    """How the records of a table are bounded (secret).

    Args:
        records: the most that are kept of each.
        key: 32 bytes that choose which.
    """

    person: Person
    records: int
    key: bytes


def required_bound(domain: Domain, key: bytes | None) -> Bound | None:
    """Return how the records of a table are bounded; None where no persons are declared."""
    person = domain.person
    if person is None:
        return None
    if key is None or person.records is None:
        raise DataError(
            f"expected a key and a number of records per person, since {domain.name!r} declares the column "
            f"{person.column!r} of ids, got none; open a session on the table itself"
        )
    return Bound(person, person.records, key)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PeopleRecords:
    """Records, and whose they are (secret).

    Args:
        persons: integers, shape (records,): the number of each record's person, counted by first
            appearance, or ``OWN``.
        keys: uint64, shape (2, persons): two keyed hashes of each person's id, which together tell it from
            others; the first chooses this person's records.
    """

    records: CodedRecords
    persons: Numbers
    keys: Words

    @classmethod
    def of(cls, records: CodedRecords, hashes: Words, own: NDArray[np.bool_]) -> PeopleRecords:
        """Return records whose persons are known by their hashes.

        Args:
            hashes: uint64, shape (2, records): two keyed hashes of the id of each record that has one.
            own: bool, shape (records,): which have none, and are their own persons.
        """
        persons = np.full(len(own), OWN, dtype=np.int64)
        persons[~own], keys = numbered(hashes[:, ~own])
        return cls(records, persons, keys)

    @property
    def words(self) -> list[Words]:
        """The hashes of each record's id, and its cells: uint64, shape (records,) each."""
        return [*hashes_of(self.persons, self.keys), *cell_words(self.records)]

    def identity(self) -> bytes:
        """Return 32 bytes of all records, before any is left out, and of their ids, in any order (secret)."""
        return multiset_digest(self.words)


def hashes_of(persons: Numbers, keys: Words) -> Words:
    """Return two keyed hashes of each record's id, 0 where it has none: uint64, shape (2, records)."""
    return np.concatenate([keys, np.zeros((2, 1), dtype=np.uint64)], axis=1)[:, persons]


# --- ids -------------------------------------------------------------------------------------------------


class Roster:
    """Numbers the persons of a table that comes part by part."""

    def __init__(self, person: Person, key: bytes) -> None:
        self._person = person
        self._key = key
        self._own: list[NDArray[np.bool_]] = [np.zeros(0, dtype=bool)]
        # Of records with an id, part by part: whole numbers, shape (records,), or hashes, shape (2, records).
        self._ids: list[Numbers | Words] = []

    def add(self, column: pd.Series[Any]) -> NDArray[np.bool_]:
        """Take in the ids of some records, and return which of these records belong to somebody."""
        wholes = _whole_numbers(column)
        if wholes is not None:
            numbers, empty = wholes
            named = ~empty
            self._ids.append(numbers[named])
        else:
            texts = _plain_texts(column) if self._person.ids == "text" else None
            try:
                named, empty = self._add_texts(_read_texts(column, self._person) if texts is None else texts)
            except UnicodeEncodeError:  # half a surrogate pair: value by value
                named, empty = self._add_texts(_read_texts(column, self._person))
        kept = named | empty if self._person.empty == "person" else named
        self._own.append(empty[kept])
        return kept

    def _add_texts(self, texts: NDArray[np.object_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Take in canonical ids, and return which are ids, and which are empty."""
        empty = texts == ""
        named = ~empty & (texts != None)  # noqa: E711 - value by value
        self._ids.append(self._hashed(texts[named]))
        return named, empty

    def finish(self) -> tuple[Numbers, Words]:
        """Return the number of each record's person, and the persons' keys, as ``PeopleRecords`` has them."""
        if self._ids and all(part.ndim == 1 for part in self._ids):
            numbers, distinct = _factorized(np.concatenate(self._ids))
            keys = self._hashed_wholes(distinct)
        else:
            parts = [part if part.ndim == 2 else self._hashed_wholes(part) for part in self._ids]
            numbers, keys = numbered(np.concatenate([np.zeros((2, 0), dtype=np.uint64), *parts], axis=1))
        own = np.concatenate(self._own)
        if not own.any():
            return numbers, keys
        persons = np.full(len(own), OWN, dtype=numbers.dtype)
        persons[~own] = numbers
        return persons, keys

    def _hashed_wholes(self, numbers: NDArray[Any]) -> Words:
        return self._hashed(np.array(list(map(str, numbers.tolist())), dtype=object))

    def _hashed(self, texts: NDArray[np.object_]) -> Words:
        return keyed_hashes(texts, self._key)


def keyed_hashes(texts: NDArray[np.object_], key: bytes) -> Words:
    """Return two keyed hashes of each text, independent of each other: uint64, shape (2, texts).

    Args:
        texts: of valid Unicode, shape (texts,).
    """
    from pandas.util import hash_array  # late: only where tables are handled

    keys = (key.hex()[:16], key.hex()[16:32])
    hashes = [hash_array(texts, hash_key=one, categorize=False) for one in keys]
    return np.array(hashes, dtype=np.uint64).reshape(2, len(texts))


def _whole_numbers(column: pd.Series[Any]) -> tuple[Numbers, NDArray[np.bool_]] | None:
    """Return the values of a column of whole numbers, and which are empty; None for another column."""
    kind = getattr(column.dtype, "numpy_dtype", column.dtype)  # of a column that may hold empty values
    if not isinstance(kind, np.dtype) or kind.kind not in "iu" or kind == np.uint64:
        return None
    empty = column.isna().to_numpy(dtype=bool)
    if isinstance(column.dtype, np.dtype):
        return column.to_numpy(dtype=np.int64), empty
    return column.to_numpy(dtype=np.int64, na_value=0), empty


def _plain_texts(column: pd.Series[Any]) -> NDArray[np.object_] | None:
    """Return a column of texts that are ids as they stand; None for another column."""
    if column.dtype.name in ("str", "string"):
        texts = column.to_numpy(dtype=object, na_value="")
    elif column.dtype == object:
        texts = column.to_numpy(copy=True)
        # By identity: comparing might run code of theirs.
        if not all(map(partial(is_, str), map(type, texts))):
            if not all(kind is str or kind is type(None) for kind in map(type, texts)):
                return None
            texts[texts == None] = ""  # noqa: E711 - value by value
    else:
        return None
    return texts


def _read_texts(column: pd.Series[Any], person: Person) -> NDArray[np.object_]:
    """Return the canonical ids of a column of any kind, as ``Person.id_of`` has them."""
    known, texts = cache(person.id_of), np.empty(len(column), dtype=object)
    texts[:] = [known(value) if type(value) is str else person.id_of(value) for value in objects_of(column)]
    return texts


def _factorized(values: NDArray[Any]) -> tuple[Numbers, NDArray[Any]]:
    """Return the number of each value, counted by first appearance, and the values."""
    import pandas as pd  # late: only where tables are handled

    numbers, distinct = pd.factorize(values)
    return numbers.astype(np.int32 if len(distinct) < 2**31 else np.int64), distinct


def numbered(hashes: Words) -> tuple[Numbers, Words]:
    """Return the number of each pair of words, counted by first appearance, and the pairs.

    Args:
        hashes: uint64, shape (2, records).
    """
    numbers, firsts = _factorized(hashes[0])
    seconds = np.empty(len(firsts), dtype=np.uint64)
    seconds[numbers] = hashes[1]
    if np.array_equal(seconds[numbers], hashes[1]):
        return numbers, np.stack([firsts, seconds])
    # Two ids share their first word: that is to be seen once in thousands of millions of years.
    pairs, places = np.unique(hashes, axis=1, return_inverse=True)
    numbers, firsts = _factorized(places.reshape(-1))
    return numbers, pairs[:, firsts]


# --- what is kept ----------------------------------------------------------------------------------------


def kept_by_limit(persons: Numbers, limits: Sequence[int]) -> dict[int, int]:
    """Return how many records are kept where at most so many of each person are, by the limit; exact."""
    own, *counts = np.bincount(persons + 1, minlength=1)
    return {limit: int(own) + int(np.minimum(counts, limit).sum()) for limit in limits}


def keep_bounded(found: PeopleRecords, limit: int) -> tuple[CodedRecords, Numbers]:
    """Return at most so many records of each person, in the table's order, and whose they are.

    Records of one person with the same cells are the same to every count: which of them is kept is no matter.

    Privacy: exact and secret. What is kept of a person depends on this person's records alone; of each
        person a record is kept.
    """
    chosen = chosen_records(found, limit)
    kept, persons = found.records, found.persons
    if not chosen.all():
        kept = CodedRecords(kept.domain, tuple(column[chosen] for column in kept.columns))
        persons = persons[chosen]
    return clipped(kept, persons), persons


def clipped(records: CodedRecords, persons: Numbers) -> CodedRecords:
    """Return records whose persons' values come to no more than is declared.

    Of each person the steps of all values are added without their signs. Beyond the most, each is multiplied
    by the most and divided by the sum, rounded towards 0.

    Args:
        records: all that are kept of these persons.

    Privacy: exact and secret. A person's clipped values depend on this person's records alone, and add up to
        at most ``ValueGrid.most`` steps, in L1 over all cells together.
    """
    domain, columns = records.domain, list(records.columns)
    grids = [grid for grid in domain.grids if grid.clip is not None]
    for grid in grids:
        place = domain.index(grid.name)
        columns[place] = _clipped(columns[place], persons, grid)
    return CodedRecords(domain, tuple(columns)) if grids else records


def _clipped(
    places: NDArray[np.unsignedinteger[Any]], persons: Numbers, grid: ValueGrid
) -> NDArray[np.unsignedinteger[Any]]:
    held = places < grid.base_size
    steps = np.where(held, places.astype(np.int64) - grid.zero, 0)
    own = persons == OWN
    numbers = np.where(own, persons.max(initial=OWN) + 1 + np.cumsum(own), persons)
    sums = np.zeros(int(numbers.max(initial=-1)) + 1, dtype=np.int64)
    np.add.at(sums, numbers, np.abs(steps))
    most = np.maximum(sums, grid.most)[numbers]
    moved = np.sign(steps) * (np.abs(steps) * grid.most // np.maximum(most, 1))
    moved = np.where(sums[numbers] > grid.most, moved, steps)
    return np.where(held, moved + grid.zero, places).astype(places.dtype)


def chosen_records(found: PeopleRecords, limit: int) -> NDArray[np.bool_]:
    """Return which records are kept: bool, shape (records,).

    What is kept of a part of the records, and then of what was kept of all parts, is what is kept of all: a
    record that is not among the first of its person in a part is not among the first of all.
    """
    return first_of_each(found.persons, found.keys, limit, partial(cell_words, found.records))


def first_of_each(
    persons: Numbers, keys: Words, limit: int, words_of: Callable[[Numbers], Sequence[Words]]
) -> NDArray[np.bool_]:
    """Return which things of persons are among the first of each in a keyed order: bool, shape (things,).

    Args:
        words_of: of the things at some places, numbers that tell them from others: uint64, shape (places,)
            each. They are functions of the thing alone.

    Privacy: exact and secret. What is chosen of a person depends on this person's things alone.
    """
    counts = np.bincount(persons + 1, minlength=keys.shape[1] + 1)[1:]  # those of ``OWN`` left out
    crowded = np.append(counts > limit, False)  # the last: of ``OWN``
    places = np.flatnonzero(crowded[persons])  # of the things that are put into order
    chosen = np.ones(len(persons), dtype=bool)
    if not len(places):
        return chosen
    groups = (np.cumsum(crowded, dtype=persons.dtype) - 1)[persons[places]]
    words = words_of(places)
    order = _ranked(groups, _permuted(words, keys[0, crowded[:-1]][groups]), words)
    starts = np.concatenate([[0], np.cumsum(counts[crowded[:-1]])])
    ranks = np.arange(len(places)) - np.repeat(starts[:-1], np.diff(starts))
    chosen[places[order[ranks >= limit]]] = False
    return chosen


def _permuted(words: Sequence[Words], keys: Words) -> Words:
    """Return a keyed number per record: of one word, different for different words under the same key."""
    mixed = keys.copy()
    for word in words:
        mixed ^= word
        for shift, factor in _SHIFTS_AND_FACTORS:
            mixed ^= mixed >> np.uint64(shift)
            mixed *= np.uint64(factor)
        mixed ^= mixed >> np.uint64(_LAST_SHIFT)
    return mixed


def _ranked(groups: Numbers, mixed: Words, words: Sequence[Words]) -> Numbers:
    """Return the order of records by group, then by keyed number, then by cells.

    The group and the leading bits of the keyed number are sorted as one word. Where two neighbours agree in
    these alone and not in all, the order is made again from all of them.
    """
    bits = int(groups[groups.argmax()]).bit_length()
    packed = (groups.astype(np.uint64) << np.uint64(63 - bits) << np.uint64(1)) | (mixed >> np.uint64(bits))
    order = np.argsort(packed)
    packed = packed[order]
    ties = np.flatnonzero(packed[1:] == packed[:-1])
    before, after = order[ties], order[ties + 1]
    if all(np.array_equal(word[before], word[after]) for word in (mixed, *words)):
        return order
    return np.lexsort((*words, mixed, groups))
