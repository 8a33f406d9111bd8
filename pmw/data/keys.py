"""Keys: the texts of a column, and how many persons hold each.

Which texts a table holds is as secret as how many persons hold them, so both leave this room together, by
one function, for a draft that releases some of the texts.

A person gives at most K different texts. Where a person holds more, they are put into the order of a keyed
permutation of their hashes, whose key is a keyed hash of the id, and the first K count. So what a person
gives is a function of the secret key, of the id and of this person's texts alone.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from pmw.data.memory import TablePart, ids_of
from pmw.data.people import OWN, Numbers, Roster, first_of_each, keyed_hashes, required_bound
from pmw.data.refusals import detached
from pmw.data.tables import Table, column_kind, table_parts
from pmw.errors import DataError
from queries.categories import CategoricalAttribute
from queries.cells import MISSING_LABEL, OTHER_LABEL
from queries.domain import Domain
from queries.frozen import dataclass
from queries.person import Person
from queries.plain_values import UNREADABLE, is_encodable, plain_value
from queries.records import objects_of
from queries.values import written_text

LONGEST_KEY = 1000  # characters
# How types of texts are called.
_TEXTS = ("VARCHAR", "ENUM", "TEXT", "CHARACTER", "NAME", "OBJECT", "STR", "LARGE_STRING")
_NO_KEYS = frozenset(("", MISSING_LABEL, OTHER_LABEL))
_NO_KEY = -1


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class KeyHolders:
    """The keys of a column (secret).

    Args:
        persons: how many give each: int64, shape (keys,), 1 or more.
    """

    keys: tuple[str, ...]
    persons: NDArray[np.int64]


def key_of(value: object) -> str | None:
    """Return the text whose declaration counts a value; None for one that no declared text does.

    These are empty values, values without a text, texts of more than 1,000 characters or with half of a pair
    of surrogates, and the names of the two special cells. Case and spaces tell texts apart, as they do where
    records are encoded.
    """
    plain = plain_value(value)
    if plain is None or plain is UNREADABLE:
        return None
    text = written_text(plain)
    fits = text not in _NO_KEYS and len(text) <= LONGEST_KEY and is_encodable(text)
    return text if fits else None


def key_holders(table: Table, attribute: str, person: Person | None, key: bytes | None) -> KeyHolders:
    """Return the keys of a column, each with the exact number of persons that give it.

    Keys, and two numbers and an id for each record, are held in memory.

    Args:
        person: whose records are whose, and K; None where each record is a person.
        key: 32 bytes, secret, that choose which keys of a person count; None where no persons are declared.

    Privacy: exact and secret, the texts too. One person changes at most K of the numbers by 1 under
        add/remove, and at most 2K under replace-one: K that one person gives and K that another does. A text
        that one of two neighbours lacks is given by one person in the other.
    """
    texts = CategoricalAttribute(attribute, ("text",), missing=True, other=True)
    domain = Domain((texts,), name="draft", person=person)
    bound = required_bound(domain, key)

    def counted() -> KeyHolders:
        _require_texts(table, attribute)
        roster = None if bound is None else Roster(bound.person, bound.key)
        keys, places, persons, hashes = _read(table_parts(table, domain), domain, roster)
        if bound is not None:
            places = _given(places, persons, hashes, keyed_hashes(keys, bound.key), bound.records)
        counts = np.bincount(places, minlength=len(keys))
        given = counts > 0
        return KeyHolders(tuple(keys[given].tolist()), counts[given].astype(np.int64))

    return detached(counted)


def _require_texts(table: Table, attribute: str) -> None:
    """Refuse a column whose type is not of texts, whatever it holds."""
    kind = column_kind(table, attribute)
    if kind is not None and not kind.upper().startswith(_TEXTS):
        got = kind.partition("(")[0]
        raise DataError(
            f"expected texts in column {attribute!r}, got a column of type {got}; declare numbers and dates "
            "by their ends, or make a view that gives texts"
        )


def _read(
    parts: Iterable[TablePart], domain: Domain, roster: Roster | None
) -> tuple[NDArray[np.object_], NDArray[np.int64], Numbers, NDArray[np.uint64]]:
    """Return the keys that occur, and of each record that has one its place among them and its person."""
    known: dict[str, int] = {}
    pieces = [np.zeros(0, dtype=np.int64)]
    for part in parts:
        found = map(key_of, objects_of(part.columns[domain.names[0]].series()))
        places = [_NO_KEY if text is None else known.setdefault(text, len(known)) for text in found]
        piece, ids = np.array(places, dtype=np.int64), ids_of(part.columns, domain)
        pieces.append(piece if roster is None or ids is None else piece[roster.add(ids)])
    keys = np.empty(len(known), dtype=object)
    keys[:] = list(known)
    places_of_all = np.concatenate(pieces)
    persons, hashes = np.full(len(places_of_all), OWN), np.zeros((2, 0), dtype=np.uint64)
    if roster is not None:
        persons, hashes = roster.finish()
    held = places_of_all != _NO_KEY
    return keys, places_of_all[held], persons[held], hashes


def _given(
    places: NDArray[np.int64],
    persons: Numbers,
    hashes: NDArray[np.uint64],
    words: NDArray[np.uint64],
    limit: int,
) -> NDArray[np.int64]:
    """Return the keys that persons give, each person a key once and at most so many."""
    own, keys = persons == OWN, max(1, words.shape[1])
    pairs = np.unique(persons[~own].astype(np.int64) * keys + places[~own])
    people, held = np.divmod(pairs, keys)
    chosen = first_of_each(people, hashes, limit, lambda some: list(words[:, held[some]]))
    return np.concatenate([places[own], held[chosen]])
