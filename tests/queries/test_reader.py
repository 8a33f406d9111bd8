"""Readers: what they read, and what they refuse, is what the parsers of single questions make of it."""

from __future__ import annotations

import functools
import itertools
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks.reading import LONGEST, adult_like, hard_statements, random_statement
from queries import (
    CategoricalAttribute,
    Domain,
    IntegerAttribute,
    LinearQuery,
    QueryError,
    parse_question,
    parse_where,
)
from queries.cell_values import CellCondition, CellValues
from queries.expressions import Linear
from queries.factors import UNITS
from queries.memory import Memory, held_bytes
from queries.parsing import parse_sql
from queries.reader import QuestionReader, questions_in_text
from queries.work import MOST_CELLS, Work, counted_reading
from tests.queries.meaning import full_weights, refusal
from tests.waiting import joined

NAMES = st.sampled_from(["age", "sex", "income", "education-num", "hours", "größe", "member", "nobody"])
VALUES = st.one_of(
    st.integers(-5, 120), st.sampled_from(["Female", "Male", "klein", "x'y", True, False, 3.5, 10_000, 1.0])
)
TERMS = st.one_of(
    st.tuples(st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"]), VALUES),
    st.tuples(st.just("between"), st.lists(VALUES, min_size=1, max_size=3)),
    st.tuples(st.just("in"), st.lists(VALUES, max_size=3)),
    st.tuples(st.sampled_from(["is_missing", "is_other", "like"]), st.sampled_from([True, False, 3])),
)
OPERATORS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def outcome(read: Any, *values: Any) -> tuple[object, ...]:
    """Return what reading comes to: the question's canonical text, or the whole refusal."""
    try:
        found = read(*values)
    except QueryError as error:
        return ("refused", error.to_dict(), error.text)
    if isinstance(found, LinearQuery):
        return (found.to_json(), found.aligned, found.scope, found.box, found.constant, found.describe())
    return (outcome(lambda: found.where), [column.names for column in found.columns], found.size)


def literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def text_of(name: str, operator: str, value: Any) -> str:
    name = f'"{name}"'
    if operator in OPERATORS:
        return f"{name} {OPERATORS[operator]} {literal(value)}"
    if isinstance(value, list):
        if operator == "between" and len(value) > 1:
            return f"{name} BETWEEN {literal(value[0])} AND {literal(value[1])}"
        return f"{name} IN ({', '.join(map(literal, value))})"
    return f"{name} IS {'' if value else 'NOT '}NULL"


@pytest.fixture(scope="module")
def reader(people: Domain) -> QuestionReader:
    return QuestionReader(people)  # one for all examples: what was read before must not matter


@given(st.lists(st.tuples(NAMES, TERMS), max_size=4))
@example([("age", ("eq", 30)), ("age", ("ge", 20))])
@example([("member", ("eq", True)), ("hours", ("eq", 1))])
@example([("member", ("eq", 1)), ("hours", ("eq", 1.0))])
@example([("income", ("between", [0, 10_000]))])
def test_structured_conditions_are_read_alike(
    people: Domain, reader: QuestionReader, terms: list[tuple[str, tuple[str, Any]]]
) -> None:
    where: dict[str, dict[str, Any]] = {}
    for name, (operator, value) in terms:
        where.setdefault(name, {})[operator] = value
    expected = outcome(parse_where, where, people)
    assert outcome(reader.where, where) == expected
    assert outcome(reader.where, where) == expected  # from memory
    asked = outcome(lambda: parse_question({"where": where}, people).query)
    assert outcome(lambda: reader.question({"where": where}).query) == asked


@given(
    st.lists(st.tuples(NAMES, TERMS), min_size=1, max_size=4),
    st.sampled_from([" AND ", " and ", "\nAND\t", " OR ", "  AND  ", " AND NOT ", "AND", " AND -- x\n"]),
    st.sampled_from(["", " ", ";", " AND", ")", " -- x", " AND 1"]),
)
@example([("age", ("eq", 30)), ("sex", ("eq", "Male"))], " AND ", "")
@example([("age", ("ge", 20)), ("age", ("lt", 40))], " AND ", "")
@example([("age", ("ge", 20)), ("sex", ("eq", "Male")), ("age", ("lt", 40))], " AND ", "")
def test_where_texts_and_counts_in_sql_are_read_alike(
    people: Domain, reader: QuestionReader, terms: list[tuple[str, tuple[str, Any]]], joint: str, tail: str
) -> None:
    where = joint.join(text_of(name, *term) for name, term in terms) + tail
    for _ in range(2):
        assert outcome(reader.where, where) == outcome(parse_where, where, people)
    for head in ("SELECT COUNT(*) FROM people WHERE ", "select count(*)  from people where  "):
        expected = outcome(parse_sql, head + where, people)
        assert outcome(reader.statement, head + where) == expected
        assert outcome(reader.statement, head + where) == expected


STATEMENTS = [  # heads are read before comparisons are
    "SELECT COUNT(*) FROM people WHERE age = 30", "SELECT COUNT(*) FROM others WHERE age = 30",
    "SELECT COUNT(*) FROM others WHERE age = 31", "SELECT COUNT(*) FROM people",
    "SELECT sex, COUNT(*) FROM people WHERE age = 30 GROUP BY sex",
    "SELECT AVG(age) FROM people WHERE sex = 'Male'", "SELECT COUNT(*) FROM people WHERE people.age = 30",
    "SELECT COUNT(*) FROM people WHERE age = 30 LIMIT 1", "SELECT COUNT(*) FROM people WHERE",
]  # fmt: skip


@pytest.mark.parametrize("where", ["k <> 'a'", "x = 3 AND k <> 'a'", "k = 'a'", "k = 'a' AND x = 3", "x = 3"])
def test_what_holds_for_nobody_or_everybody_is_read_like_alone(where: str) -> None:
    domain = Domain((IntegerAttribute("x", 0, 9), CategoricalAttribute("k", ("a",))), name="people")
    reader, text = QuestionReader(domain), f"SELECT COUNT(*) FROM people WHERE {where}"
    for _ in range(2):
        assert outcome(reader.where, where) == outcome(parse_where, where, domain)
        assert outcome(reader.statement, text) == outcome(parse_sql, text, domain)
        assert reader.statement(text).notes == parse_sql(text, domain).notes


NO_CONDITIONS: list[Any] = [
    *(None, 3, [], {"age": 3}, {"age": {}}, {3: {"eq": 1}}, {"age": {"eq": None}}, {"age": {"eq": {}}})
]


def test_what_the_reader_does_not_read_goes_to_its_parser(people: Domain, reader: QuestionReader) -> None:
    for text in 2 * STATEMENTS:
        assert outcome(reader.statement, text) == outcome(parse_sql, text, people), text
    for read, asked in ((reader.where, "age = 30 AND sex = 'Male'"), (reader.statement, STATEMENTS[0])):
        assert read(asked) is read(asked)  # from memory
    deep: Any = 3
    for _ in range(20_000):
        deep = [deep]
    for where in [*NO_CONDITIONS, {"age": {"eq": deep}}]:
        assert outcome(reader.where, where)[0] == "refused"
        assert outcome(reader.where, where) == outcome(parse_where, where, people)


@pytest.mark.parametrize("name", ["member", "education-num", "sex"])
def test_values_that_python_takes_for_equal_are_told_apart(people: Domain, name: str) -> None:
    values: list[Any] = [1, True, 1.0, "1", "True", False, 0, "Male"]
    for order, more in itertools.product((values, values[::-1]), ({}, {"age": {"eq": 30}})):
        reader = QuestionReader(people)
        for value in order:
            for condition in ({"eq": value}, {"in": [value]}, {"between": [value, value]}):
                where = {name: condition, **more}
                assert outcome(reader.where, where) == outcome(parse_where, where, people)


@pytest.mark.parametrize(
    "first",
    [
        "AGE >= 30 AND hours < 40",
        "age BETWEEN 40 AND 30 AND sex = 'Male'",  # nobody
        "income < 12345.5 AND sex = 'Male'",  # cuts a cell
    ],
)
def test_what_is_read_together_tells_nothing_of_a_comparison_alone(people: Domain, first: str) -> None:
    alone = ("sex = 'Male'", "age < 40", "age >= 30", "AGE >= 30", "hours < 40", "income < 12345.5")
    for head in ("", "SELECT COUNT(*) FROM people WHERE "):
        shared = QuestionReader(people)
        for text in (first, *alone, f"member = true AND {first}"):
            read, anew = (one.statement if head else one.where for one in (shared, QuestionReader(people)))
            assert outcome(read, head + text) == outcome(anew, head + text)


def test_comparisons_that_are_joined_make_the_query_of_their_factors(people: Domain) -> None:
    reader = QuestionReader(people)
    texts = ("sex = 'Male'", "age IN (30, 32, 60)", "income >= 10000")
    for asked in itertools.chain(itertools.permutations(texts), itertools.combinations(texts, 1)):
        found = reader.where(" AND ".join(asked))
        whole = LinearQuery(people, tuple(factor for one in asked for factor in reader.where(one).factors))
        for name in ("factors", "aligned", "readings", "scope", "box", "constant", "is_box", "is_whole"):
            assert getattr(found, name) == getattr(whole, name)
        assert found.to_json() == whole.to_json()
        assert [one.scope[0] for one in found.factors] == list(found.scope)
        assert np.array_equal(found.weights(), whole.weights())
        values = np.random.default_rng(0).random(people.scope_shape(found.scope))
        assert found.evaluate(values) == whole.evaluate(values)


# --- files of conditions, statements and objects ------------------------------------------------------------

PLAIN = Domain((IntegerAttribute("age", 0, 99), CategoricalAttribute("sex", ("f", "m"))), name="people")


def in_text(folder: Path, text: str | bytes) -> list[str]:
    """Return the canonical texts of the questions in a file, of a statement those of its groups."""
    path = folder / "questions.txt"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    found = questions_in_text(path, QuestionReader(PLAIN))
    return [
        part.query.to_json() for one in found for part in one.parts() if isinstance(part.query, LinearQuery)
    ]


def where(*conditions: str) -> list[str]:
    return [parse_where(one, PLAIN).to_json() for one in conditions]


def test_a_file_has_conditions_statements_and_objects_a_line_each(tmp_path: Path) -> None:
    text = """\ufeff-- the board's questions
age >= 65

SELECT COUNT(*) FROM people WHERE age < 18
  {"where": "sex = 'f'"}
select count(*) from people group by sex
{"sql": "SELECT COUNT(*) FROM people WHERE age = 3"}
"""
    assert in_text(tmp_path, text) == where(
        "age >= 65", "age < 18", "sex = 'f'", "sex = 'f'", "sex = 'm'", "age = 3"
    )


def test_where_a_line_ends_in_a_semicolon_questions_go_on_to_one(tmp_path: Path) -> None:
    text = """SELECT COUNT(*)
FROM people  -- of all
WHERE age < 18;
-- then
age >= 65;
sex = 'f'
  AND age = 3
"""
    assert in_text(tmp_path, text.replace("  -- of all", "")) == where(
        "age < 18", "age >= 65", "sex = 'f' AND age = 3"
    )


def test_every_line_that_is_refused_is_told_with_its_number(tmp_path: Path) -> None:
    lines = [
        b"age >= 65", b"ages < 3", b'{"where": ', b"sex = 'f'", b"SELECT COUNT(*) FROM x WHERE hours = 3",
    ]  # fmt: skip
    text = b"\n".join([*lines, b"\xff = 3"])
    with pytest.raises(QueryError) as caught:
        in_text(tmp_path, text)
    numbers = [line.split(":")[0] for line in caught.value.message.splitlines()]
    assert numbers == ["line 2", "line 3", "line 5", "line 6"]
    with pytest.raises(QueryError, match="line 2: unknown attribute 'ages'"):
        in_text(tmp_path, "age >= 65;\nages\n < 3;")


def test_a_workload_has_each_group_by_itself_and_refuses_what_counts_do_not_answer(tmp_path: Path) -> None:
    path, reader = tmp_path / "questions.txt", QuestionReader(PLAIN)
    path.write_text("age >= 65\nSELECT COUNT(*) FROM people GROUP BY sex\n")
    found = [one.query for one in questions_in_text(path, reader, counts_alone=True)]
    assert [one.to_json() for one in found if isinstance(one, LinearQuery)] == where(
        "age >= 65", "sex = 'f'", "sex = 'm'"
    )
    path.write_text("age >= 65\nSELECT AVG(age) FROM people\nages > 3\n")
    with pytest.raises(QueryError, match="line 2: a workload holds counting questions") as caught:
        questions_in_text(path, reader, counts_alone=True)
    assert "line 3: unknown attribute" in caught.value.message
    assert caught.value.code == "unsupported"


# --- work ---------------------------------------------------------------------------------------------------


ADULT = adult_like()
HARD = dict(hard_statements())
# Of what is nested ever deeper few depths are read by default, the deepest among them; no kind for a second.
LONGER = (
    *(f", {depth} deep" for depth in (3, 5, 7, 9, 15, 20, 25, 30, 40)),
    *(
        "long AND",
        "functions of sets",
        "many keys",
        "sums times constants",
        "functions of keys",
        "tests of keys",
    ),
    *("sums of 2", "long OR of a sum", "list of sums", "small list", "texts of numbers", "long sum of 3"),
)
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


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * name.endswith(LONGER)) for name in HARD]
)
def test_no_statement_takes_much_to_read(name: str, held: list[int]) -> None:
    _require_bounded(HARD[name], held)


def test_no_statement_that_is_drawn_takes_much_to_read(held: list[int]) -> None:
    for seed in range(60):
        _require_bounded(random_statement(seed), held)


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


def test_too_many_groups_of_a_computed_key_are_refused_before_they_are_made() -> None:
    wide = Domain((IntegerAttribute("n", 0, 19_999),), name="t")
    error = refusal(parse_sql, "SELECT n + 1 AS k, COUNT(*) FROM t GROUP BY k", wide)
    assert "expected at most 10,000 groups, got 20,000" in error.message
    few = parse_sql("SELECT FLOOR(n / 2) AS k, COUNT(*) FROM t WHERE n < 9 GROUP BY k", wide)
    assert [group.labels[0] for group in few.groups()] == [0, 1, 2, 3, 4]


# --- memory ---------------------------------------------------------------------------------------------


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


CELLS = 40_000
DOMAIN = Domain((IntegerAttribute("x", 0, CELLS - 1), CategoricalAttribute("y", tuple("abcde"))))


@pytest.mark.parametrize(
    ("condition", "most"),
    [
        ("x BETWEEN 100 AND 39000", 64),
        ("x <> 17 AND y IN ('a', 'c')", 128),
        ("x IN (1, 3, 5, 7, 9000, 39000)", 256),
        ("MOD(x, 2) = 0", CELLS // 8),  # a bit for each cell
    ],
)
def test_a_question_is_kept_in_few_bytes_and_counts_the_same(condition: str, most: int) -> None:
    query = parse_where(condition, DOMAIN)
    assert query.size_in_bytes <= most
    table = np.random.default_rng(1).integers(0, 9, (CELLS, 5))
    values = table if query.scope == ("x", "y") else table.sum(axis=1)
    assert query.evaluate(values.astype(np.float64)) == (table * (full_weights(query) // UNITS)).sum()
    again = LinearQuery.from_dict(DOMAIN, query.to_dict())
    assert again.to_json() == query.to_json()


def test_readers_keep_no_more_than_their_bytes_whatever_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 33 * CELLS // 8  # the bytes of the cells of half of the long ones
    monkeypatch.setattr("queries.reader._MOST_BYTES", limit)
    reader, generator = QuestionReader(DOMAIN), np.random.default_rng(2)
    memories = (reader._conditions, reader._terms, reader._statements, reader._beginnings)
    for number in range(200):
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
