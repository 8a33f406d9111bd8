"""Keys: which texts a column holds and how many persons give each, by these persons' own texts alone."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmw.data import CsvDialect, DatabaseTable, Table, TableFile
from pmw.data.keys import LONGEST_KEY, key_holders, key_of
from pmw.errors import DataError
from queries import CategoricalAttribute, DomainError
from queries.person import Person
from queries.values import values_of
from tests.pmw.data.lines import KEY

WORDS = ("a", "b", "c", "d", "e")
ROWS = st.lists(st.tuples(st.sampled_from("uvw"), st.sampled_from((*WORDS, ""))), max_size=20)


def holders(table: Table, records: int | None = None, key: bytes = KEY) -> dict[str, int]:
    person = None if records is None else Person("id", records)
    found = key_holders(table, "word", person, None if records is None else key)
    assert len(set(found.keys)) == len(found.keys)
    assert (found.persons > 0).all()
    return dict(zip(found.keys, found.persons.tolist(), strict=True))


def frame_of(rows: Sequence[tuple[str, object]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["id", "word"], dtype=object)


@given(ROWS, st.integers(1, 4))
def test_each_person_gives_its_texts_once_and_k_of_them_at_most(
    rows: list[tuple[str, str]], records: int
) -> None:
    own: defaultdict[str, set[str]] = defaultdict(set)
    for person, word in rows:
        own[person] |= {word} - {""}
    wanted: Counter[str] = Counter()
    for person in own:
        alone = holders(frame_of([row for row in rows if row[0] == person]), records)
        assert set(alone) <= own[person]
        assert set(alone.values()) <= {1}
        assert len(alone) == min(records, len(own[person]))
        wanted.update(alone)
    assert holders(frame_of(rows), records) == dict(wanted)  # others change nothing of what a person gives
    assert holders(frame_of(rows[::-1]), records) == dict(wanted)


def test_no_records_of_others_decide_which_texts_of_a_person_count() -> None:
    mine = [("u", word) for word in WORDS]
    for others in itertools.permutations([("v", "b"), ("w", "zz"), ("v", "A")]):
        found, rest = (holders(frame_of(rows), 2) for rows in ([*others, *mine], others))
        assert Counter(found) - Counter(rest) == Counter(holders(frame_of(mine), 2))


def test_which_texts_of_a_person_count_follows_from_the_key_and_the_id() -> None:
    rows = [(person, word) for person in map(str, range(30)) for word in WORDS]
    found = [holders(frame_of(rows), 1, bytes([byte]) * 32) for byte in (1, 2)]
    assert found[0] != found[1]
    assert all(set(one) == set(WORDS) and sum(one.values()) == 30 for one in found)


def test_each_record_is_a_person_where_none_are_declared() -> None:
    assert holders(frame_of([("u", "a"), ("u", "a"), ("v", "b"), ("v", None)])) == {"a": 2, "b": 1}
    assert holders(frame_of([("u", "a"), ("u", "a"), ("", "b"), (None, "b")]), 1) == {"a": 1}  # type: ignore[list-item]


VALUES: tuple[tuple[Any, str | None], ...] = (
    ("Oslo", "Oslo"), ("oslo", "oslo"), (" oslo", " oslo"), ("TRUE", "TRUE"), (True, "true"), (3, "3"),
    (3.0, "3.0"), (3.5, "3.5"), ("03", "03"), (Decimal("1.50"), "1.50"), ("é\n\t\x7f", "é\n\t\x7f"),
    ("x" * LONGEST_KEY, "x" * LONGEST_KEY),
    ("x" * (LONGEST_KEY + 1), None), ("", None), (None, None), (float("nan"), None), ("(other)", None),
    ("(missing)", None), ("\ud800", None), (b"bytes", None), ([], None), (10**500, None),
)  # fmt: skip


@pytest.mark.parametrize(("value", "key"), VALUES)
def test_a_key_is_the_declared_text_that_counts_the_value(value: object, key: str | None) -> None:
    assert key_of(value) == key
    keys = tuple(dict.fromkeys(key for _, key in VALUES if key is not None))
    declared = CategoricalAttribute("word", keys, missing=True, other=True)
    cell = values_of(declared).encode(value)
    assert cell == (cell if key is None else keys.index(key))
    assert (cell >= declared.base_size) == (key is None)
    assert holders(frame_of([("u", value)]), 1) == ({} if key is None else {key: 1})


def test_tables_of_all_kinds_hold_the_same(tmp_path: Path) -> None:
    rows = [("u", "Oslo"), ("u", "Oslo"), ("u", "oslo"), ("v", "Oslo"), ("v", " Rome"), ("w", ""), ("w", "3")]
    frame, wanted = frame_of(rows), {"Oslo": 2, "oslo": 1, " Rome": 1, "3": 1}
    frame.to_csv(tmp_path / "t.csv", index=False)
    text = (tmp_path / "t.csv").read_text()
    (tmp_path / "trimmed.csv").write_text(text.replace("w,3", "w, 3\nw,?\nmalformed"))
    dialect = CsvDialect(trim=True, missing_texts=("?",))
    duckdb.sql("CREATE VIEW t AS FROM frame")
    duckdb.sql(f"COPY (FROM frame) TO '{tmp_path}/t.parquet'")
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS FROM frame")
    tables: tuple[Any, ...] = (
        frame, frame.astype("category"), frame.astype("string"), tmp_path / "t.csv", tmp_path / "t.parquet",
        DatabaseTable(f"duckdb:{tmp_path}/t.duckdb", "t"), duckdb.sql("FROM frame"),
    )  # fmt: skip
    for table in tables:
        assert holders(table, 2) == wanted
    assert holders(TableFile(tmp_path / "trimmed.csv", dialect), 2) == {
        "Oslo": 2, "oslo": 1, "Rome": 1, "3": 1,
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["int64", "float64", "Int64", "bool", "datetime64[s]"])
def test_a_column_that_is_not_of_texts_is_refused_by_its_type(kind: Any, tmp_path: Path) -> None:
    frame = pd.DataFrame({"word": pd.Series([17, 18], dtype="int64").astype(kind), "id": ["u", "v"]})
    duckdb.sql(f"COPY (FROM frame) TO '{tmp_path}/t.parquet'")
    tables: list[Any] = [frame, frame.iloc[:0], frame.astype({"word": "category"}), tmp_path / "t.parquet"]
    for table in tables:
        with pytest.raises(DataError, match="expected texts in column 'word', got a column of type"):
            holders(table, 1)


def test_what_cannot_be_read_is_refused_without_a_record(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,secret\nu,secret\n")
    for table in (pd.DataFrame({"id": ["secret"]}), tmp_path / "t.csv", tmp_path / "none.csv"):
        with pytest.raises(DataError) as caught:
            holders(table, 1)
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is caught.value.__context__ is None
    with pytest.raises(DomainError):
        key_holders(frame_of([]), "id", Person("id", 1), KEY)
    with pytest.raises(DataError, match="expected a key"):
        key_holders(frame_of([]), "word", Person("id", 1), None)
    assert "secret" not in repr(key_holders(frame_of([("u", "secret")]), "word", None, None))


def test_nobody_holds_anything_in_an_empty_column() -> None:
    for rows in ([], [("u", None), ("u", ""), ("v", np.nan)]):
        assert holders(frame_of(rows)) == holders(frame_of(rows), 3) == {}
