"""Work and memory: reading stays in proportion to a text, and what is kept has bounds."""

from __future__ import annotations

import functools
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.reading import LONGEST, adult_like, hard_statements, random_statement
from queries import CategoricalAttribute, LinearQuery
from queries.cell_values import CellCondition, CellValues
from queries.domain import Domain
from queries.errors import QueryError
from queries.expressions import Linear
from queries.factors import UNITS, Factor
from queries.memory import Memory, held_bytes
from queries.numbers import IntegerAttribute
from queries.parsing import parse_sql, parse_where
from queries.reader import QuestionReader
from queries.work import MOST_CELLS, MOST_TOGETHER, Work, count_cells, counted_reading
from tests.queries.meaning import full_weights, refusal
from tests.waiting import joined

ADULT = adult_like()
HARD = dict(hard_statements())
_BYTES = 64  # of the arrays that a cell of a join is held in: numbers, labels and marks


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of arrays over several attributes that were made, one number for each value."""
    sizes = list[int]()

    def watched(cls: type, names: tuple[str, ...]) -> None:
        real = cls.__init__  # type: ignore[misc]

        @functools.wraps(real)
        def init(self: Any, *given: Any, **named: Any) -> None:
            real(self, *given, **named)
            arrays = (getattr(self, name) for name in names if getattr(self, name) is not None)
            sizes.append(sum(one.nbytes for one in arrays if one.ndim > 1 and one.flags.owndata))

        monkeypatch.setattr(cls, "__init__", init)

    watched(CellValues, ("low", "middle", "high", "present", "labels"))
    watched(CellCondition, ("least", "share", "most"))
    watched(Linear, ("low", "middle", "high"))
    return sizes


def _read(text: str) -> tuple[Work, QueryError | None]:
    with counted_reading() as work:
        try:
            parse_sql(text, ADULT)
        except QueryError as error:
            return work, error
    return work, None


def _require_bounded(text: str, held: list[int]) -> None:
    assert len(text.encode()) <= LONGEST
    held.clear()
    work, error = _read(text)
    if error is None:
        assert work.done <= MOST_CELLS
    elif "would evaluate" in error.message:
        assert error.code == "too_large"
        assert isinstance(error.position, int)
        assert 0 <= error.position < len(text)
    made = sum(held) if error is None or error.code != "too_large" else sum(held[:-1])
    assert made <= _BYTES * work.done


@pytest.mark.parametrize("name", HARD)
def test_no_statement_takes_much_to_read(name: str, held: list[int]) -> None:
    _require_bounded(HARD[name], held)


def test_no_statement_that_is_drawn_takes_much_to_read(held: list[int]) -> None:
    for seed in range(150):
        _require_bounded(random_statement(seed), held)


def test_the_bounds_are_those_of_the_manual() -> None:
    assert (MOST_CELLS, MOST_TOGETHER) == (2**20, 2**22)


def test_a_question_of_too_many_cells_names_them_and_its_place() -> None:
    text = "SELECT COUNT(*) FROM adult WHERE sex = 'Male' AND age + hours + gain + LENGTH(country) > 3"
    error = refusal(parse_sql, text, ADULT)
    assert error.code == "too_large"
    assert "at most 4,194,304 fit" in error.message
    assert text[int(error.position or 0) :].startswith("age")
    text = " OR ".join(f"age * {number} + hours > 3" for number in range(99))
    error = refusal(parse_where, text, ADULT)
    assert "would evaluate more than 1,048,576 cells, the last 7,326 of age, hours" in error.message
    assert text[int(error.position or 0) :].startswith("age * ")
    statement = refusal(parse_sql, f"SELECT COUNT(*) FROM adult WHERE {text}", ADULT)
    assert "would evaluate more than 1,048,576 cells" in statement.message


# --- what is counted ----------------------------------------------------------------------------------------


def _counted(text: str) -> int:
    with counted_reading() as work:
        parse_where(text, ADULT)
    return work.done


def test_equal_parts_are_evaluated_once() -> None:
    case = "CASE WHEN workclass = 'Private' THEN age ELSE hours END"
    cells = 9 * 74 * 99
    once, twice, thrice = (_counted(" OR ".join(f"{case} > {n}" for n in range(3, 3 + k))) for k in (1, 2, 3))
    assert thrice - twice == twice - once < 3.1 * cells  # its rows are evaluated, and joined
    assert once - 2 * cells < cells
    deep = "age"
    for number in range(20, 32):  # each stands in the next one twice
        deep = f"NULLIF({deep}, {number})"
    assert _counted(f"{deep} > 3") < 50 * 256


def test_small_evaluations_count_as_well_and_those_of_one_attribute_for_less() -> None:
    assert _counted("age + 0 > 3") == 3 * 256  # the attribute, its cells and their rows
    wide = Domain((IntegerAttribute("n", 0, 999_999),), name="t")
    for columns in ("AVG(n), SUM(n * 2)", "COUNT(*)"):
        with counted_reading() as work:
            parse_sql(f"SELECT {columns} FROM t WHERE n > 3 AND n * 2 < 7000", wide)
        assert 10**6 / 16 < work.done < MOST_CELLS


def test_readings_inside_another_count_as_that_one() -> None:
    with counted_reading() as whole:
        for _ in range(2):
            parse_where("age + 0 > 3", ADULT)
        with counted_reading() as inner:
            count_cells(5000, ("age", "hours"))
        assert inner is whole
    assert whole.done == 2 * 3 * 256 - 3 * 256 + 5000  # equal questions are read once, too
    count_cells(2**22, ("age", "hours"))  # where nothing is read nothing is counted
    assert whole.done == 3 * 256 + 5000
    with pytest.raises(QueryError, match="at most 4,194,304 fit"):
        count_cells(2**22 + 1, ("age", "hours"))


def test_whoever_reads_may_end_it_at_each_evaluation() -> None:
    looks = list[int]()

    def look() -> None:
        looks.append(1)
        if len(looks) > 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), counted_reading(look):
        parse_where("age + hours > 3 AND age - hours < 90", ADULT)
    assert len(looks) == 5


# --- what is read as before ---------------------------------------------------------------------------------

SMALL = Domain((IntegerAttribute("a", 0, 9), IntegerAttribute("b", 0, 6)), name="t")
A, B = np.indices((10, 7))


@given(
    numbers=st.lists(st.integers(0, 15), min_size=1, max_size=40),
    plain=st.lists(st.integers(0, 9), max_size=4),
    sign=st.sampled_from(["AND", "OR"]),
)
def test_a_chain_is_read_whole_wherever_it_is_computed(
    numbers: list[int], plain: list[int], sign: str
) -> None:
    terms = [*(f"a <> {number}" for number in plain), *(f"a + b <> {number}" for number in numbers)]
    terms += [f"b <> {number % 7}" for number in plain]
    masks = [*(number != A for number in plain), *(number != A + B for number in numbers)]
    masks += [number % 7 != B for number in plain]
    join = np.logical_and if sign == "AND" else np.logical_or
    expected = functools.reduce(join, masks)
    found = full_weights(parse_where(f" {sign} ".join(terms), SMALL)) > 0
    assert np.array_equal(found, expected)


def test_a_long_chain_is_not_nested_too_deeply() -> None:
    found = parse_where(" OR ".join(f"a + b = {number % 15}" for number in range(300)), SMALL)
    assert np.array_equal(full_weights(found) > 0, A + B < 15)


def test_too_many_groups_of_a_computed_key_are_refused_before_they_are_made() -> None:
    wide = Domain((IntegerAttribute("n", 0, 19_999),), name="t")
    error = refusal(parse_sql, "SELECT n + 1 AS k, COUNT(*) FROM t GROUP BY k", wide)
    assert "expected at most 10,000 groups, got 20,000" in error.message
    few = parse_sql("SELECT FLOOR(n / 2) AS k, COUNT(*) FROM t WHERE n < 9 GROUP BY k", wide)
    assert [group.labels[0] for group in few.groups()] == [0, 1, 2, 3, 4]


# --- memory ---------------------------------------------------------------------------------------------


def test_where_there_is_no_room_another_one_goes_and_the_newest_stays() -> None:
    memory: Memory[int] = Memory(3, 10**6)
    for number in range(50):
        memory.keep(number, number + 100, 0)
        kept = [one for one in range(50) if memory.get(one) is not None]
        assert len(kept) == min(number + 1, 3)
        assert memory.get(number) == number + 100
    memory.keep(49, 7, 0)
    assert memory.get(49) == 7


def test_what_is_asked_in_turns_and_has_little_too_much_is_mostly_found() -> None:
    memory: Memory[int] = Memory(900, 10**6)
    found = 0
    for turn in range(10):
        for number in range(1000):
            if memory.get(number) is None:
                memory.keep(number, turn, 0)
            else:
                found += 1
    assert found > 0.7 * 9 * 1000  # by what was looked for last, none


def test_which_one_goes_is_the_same_each_time() -> None:
    memories: list[Memory[int]] = [Memory(5, 10**6) for _ in range(2)]
    for number in range(100):
        for memory in memories:
            memory.keep(number, number, 0)
    first, second = ([one for one in range(100) if memory.get(one) is not None] for memory in memories)
    assert first == second


def test_it_takes_so_many_bytes_at_most_and_no_entry_an_eighth_of_them() -> None:
    memory: Memory[int] = Memory(10**6, 100_000)
    for number in range(200):
        memory.keep(number % 50, number, 10_000 + number)
        assert memory.size_in_bytes <= 100_000
    assert sum(memory.get(number) is not None for number in range(50)) == 9
    memory.keep("large", 1, 12_500)
    assert memory.get("large") is None
    assert memory.get(49) == 199


def test_threads_share_one() -> None:
    memory: Memory[int] = Memory(3, 10**6)
    faults: list[BaseException] = []

    def work() -> None:
        try:
            for number in range(20_000):
                memory.keep(number % 7, number, 1)
                memory.get(number % 5)
        except BaseException as fault:  # noqa: BLE001 - told below
            faults.append(fault)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    joined(*threads)
    assert not faults


# --- what questions about many cells are kept in ------------------------------------------------------------


CELLS = 100_000
DOMAIN = Domain((IntegerAttribute("x", 0, CELLS - 1), CategoricalAttribute("y", tuple("abcde"))))


@pytest.mark.parametrize(
    ("condition", "most"),
    [
        ("x BETWEEN 100 AND 90000", 64),
        ("x = 17", 64),
        ("x <> 17 AND y IN ('a', 'c')", 128),
        ("x IN (1, 3, 5, 7, 9000, 90000)", 256),
        ("MOD(x, 2) = 0", CELLS // 8),  # a bit for each cell
    ],
)
def test_a_question_is_kept_in_few_bytes_and_counts_the_same(condition: str, most: int) -> None:
    query = parse_where(condition, DOMAIN)
    assert query.size_in_bytes <= most
    table = np.random.default_rng(1).integers(0, 9, (CELLS, 5))
    weights = np.ones((CELLS, 5), dtype=np.int64)
    for factor in query.factors:
        shape = [CELLS if name == "x" else 1 for name in DOMAIN.names]
        shape = [
            size if name in factor.scope else 1 for name, size in zip(DOMAIN.names, DOMAIN.shape, strict=True)
        ]
        weights = weights * (factor.weights.reshape(shape) // UNITS)
    values = table if query.scope == ("x", "y") else table.sum(axis=1)
    assert query.evaluate(values.astype(np.float64)) == (table * weights).sum()
    again = LinearQuery.from_dict(DOMAIN, query.to_dict())
    assert again.to_json() == query.to_json()


@given(
    st.lists(st.tuples(st.integers(0, 2999), st.integers(1, 900)), max_size=40),
    st.sampled_from([UNITS, 1, UNITS // 3]),
    st.booleans(),
)
def test_weights_of_many_cells_come_back_as_they_were(
    runs: list[tuple[int, int]], weight: int, is_dense: bool
) -> None:
    weights = np.zeros(3000, dtype=np.int64)
    for start, length in runs:
        weights[start : start + length] = weight
    if is_dense:
        weights[::2] = np.where(weights[::2] > 0, 0, weight)
    factor, places = Factor(("x",), weights), weights.nonzero()[0]
    assert np.array_equal(factor.weights, weights)
    assert not factor.weights.flags.writeable
    assert factor.is_indicator == (weight == UNITS or not places.size)
    assert factor.constant == (int(weights[0]) if len({*weights.tolist()}) == 1 else None)
    if factor.constant is None:
        assert factor.box == (slice(places[0], places[-1] + 1),)
        assert factor.is_box == (weight == UNITS and places.size == places[-1] + 1 - places[0])


def test_a_condition_on_two_long_attributes_comes_back_as_it_was() -> None:
    weights = np.zeros((60, 50), dtype=np.int64)
    weights[10:20, 5:9], weights[30, 40] = UNITS, UNITS
    factor = Factor(("a", "b"), weights)
    assert np.array_equal(factor.weights, weights)
    assert factor.box == (slice(10, 31), slice(5, 41))
    assert not factor.is_box


def test_readers_keep_no_more_than_their_bytes_whatever_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 50 * CELLS // 8  # the bytes of the cells of half of the long ones
    monkeypatch.setattr("queries.reader._MOST_BYTES", limit)
    reader, generator = QuestionReader(DOMAIN), np.random.default_rng(2)
    memories = (reader._conditions, reader._terms, reader._statements, reader._beginnings)
    for number in range(300):
        if number % 3:
            first, last = np.sort(generator.integers(0, CELLS, 2))
            condition = f"x BETWEEN {first} AND {last}"
        else:
            condition = f"MOD(x, 2) = 0 AND x > {number}"
        reader.where(condition)
        assert all(memory.size_in_bytes <= limit for memory in memories)
    assert reader._conditions.size_in_bytes > limit - CELLS // 4  # the oldest made room, and no more went
    held = [held_bytes(found) for found, _ in reader._conditions._kept.values()]
    assert limit / 2 < sum(held) / 2 <= limit  # what is counted is there; two parts share the array of cells
