"""Numbers of few persons in tables: what is withheld, and that nothing that is shown tells it."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pmw.public import withholding
from pmw.public.answer import Source
from pmw.public.sums import Estimate
from pmw.public.tables import AnswerTable
from pmw.session.public_model import PublicModel
from queries import CategoricalAttribute, Domain, IntegerAttribute, QueryError
from tests import worlds

A, B, C = ("p", "q", "r"), ("x", "y", "z"), (0, 1, 2)
DOMAIN = Domain(
    (CategoricalAttribute("a", A), CategoricalAttribute("b", B), IntegerAttribute("c", 0, 2)), name="t"
)
CELLS = list(itertools.product(A, B, C))
# Of each column its text, and what a record of a cell weighs in it.
COLUMNS: dict[str, Callable[[tuple[Any, ...]], int]] = {
    "COUNT(*)": lambda cell: 1,
    "COUNT(*) FILTER (WHERE b = 'x')": lambda cell: int(cell[1] == "x"),
    "COUNT(*) FILTER (WHERE b <> 'x')": lambda cell: int(cell[1] != "x"),
    "SUM(c)": lambda cell: cell[2],
    "2 * COUNT(*) FILTER (WHERE c = 1)": lambda cell: 2 * int(cell[2] == 1),
}
GROUPINGS = (
    "a", "a, b", "ROLLUP (a)", "ROLLUP (a, b)", "CUBE (a, b)", "CUBE (a, c)", "GROUPING SETS ((a), (b))",
    "GROUPING SETS ((a, b), (c), ())", "ROLLUP (c, a)",
)  # fmt: skip


@functools.cache
def released(seed: int) -> PublicModel:
    """Return the model of a table whose cells have few records, or many; its noise is negligible."""
    generator = np.random.default_rng(seed)
    counts = generator.choice([0, 1, 3, 6, 11, 40, 200], len(CELLS))
    frame = pd.DataFrame(np.repeat(np.array(CELLS, dtype=object), counts, axis=0), columns=["a", "b", "c"])
    with worlds.opened(frame.astype({"c": int}), DOMAIN, epsilon=1000, seed=1) as session:
        return PublicModel(session.state)


def with_minimum(model: PublicModel, least: int | None, **others: object) -> PublicModel:
    """Return the same model under a rule of display."""
    contract = model.state.contract
    options = replace(contract.options, minimum_count=least, **others)  # type: ignore[arg-type]
    return PublicModel(replace(model.state, contract=replace(contract, options=options)))


def weights_of(table: AnswerTable, keys: tuple[object, ...], title: str) -> NDArray[np.float64]:
    """Return what the records of each cell weigh in a number, by its row and its column."""
    places = {"a": 0, "b": 1, "c": 2}
    held = [(places[name], key) for name, key in zip(table.keys, keys, strict=True) if key is not None]
    column = next(weight for text, weight in COLUMNS.items() if text.lower() == title.lower())
    own = [column(cell) * all(cell[place] == key for place, key in held) for cell in CELLS]
    return np.array(own, dtype=np.float64)


def numbers_of(table: AnswerTable) -> Iterator[tuple[NDArray[np.float64], Estimate]]:
    for keys, found in table.rows:
        for title, one in zip(table.titles, found, strict=True):
            yield weights_of(table, keys, title), one


def tells(shown: list[NDArray[np.float64]], hidden: NDArray[np.float64]) -> bool:
    """Tell whether a hidden number is a linear combination of shown ones, on every table."""
    if not shown or not hidden.any():
        return False
    rank = np.linalg.matrix_rank
    return bool(rank(np.array([*shown, hidden])) == rank(np.array(shown)))


@given(
    st.integers(0, 5),
    st.integers(2, 60),
    st.sampled_from(GROUPINGS),
    st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=3, unique=True),
)
def test_no_withheld_number_of_a_table_is_a_sum_or_a_difference_of_shown_ones(
    seed: int, least: int, grouping: str, columns: list[str]
) -> None:
    names = [name for name in "abc" if name in grouping.replace("CUBE", "").replace("ROLLUP", "")]
    titles = ", ".join(f'{one} AS "{one}"' for one in columns)
    text = f"SELECT {', '.join(names)}, {titles} FROM t GROUP BY {grouping}"
    plain, table = released(seed).sql(text), with_minimum(released(seed), least).sql(text)
    found = list(numbers_of(table))
    shown = [own for own, one in found if one.source is not Source.WITHHELD]
    for (own, one), before in zip(found, plain.estimates(), strict=True):
        if one.source is Source.WITHHELD:
            assert (one.value, one.interval, one.typical) == (None, None, None)
            assert not tells(shown, own)
        else:
            assert one == before  # nothing else changes
            assert one.value is not None
            assert not own.any() or set(own) - {0.0, 1.0} or one.value >= least
    assert any(one.source is Source.WITHHELD for _, one in found) == any(
        "withheld" in one for one in table.notes
    )


def test_the_next_smallest_group_is_withheld_beside_a_total() -> None:
    counts = {"p": 12, "q": 300, "r": 90}
    frame = pd.DataFrame({"a": np.repeat(list(counts), list(counts.values())), "b": "x", "c": 0})
    with worlds.opened(frame, DOMAIN, epsilon=1000, seed=1, minimum_count=13) as session:
        alone = session.sql("SELECT a, COUNT(*) AS n FROM t GROUP BY a")
        assert [one.below for one in alone.column("n")] == [13, None, None]
        assert [one.value for one in alone.column("n")] == [None, 300, 90]
        for text in (
            "SELECT a, COUNT(*) AS n FROM t GROUP BY ROLLUP (a)",
            "SELECT a, COUNT(*) AS n FROM t GROUP BY a UNION ALL SELECT 'all', COUNT(*) FROM t",
        ):
            table = session.sql(text)
            assert [one.value for one in table.column("n")] == [None, 300, None, 402]
            assert [one.below for one in table.column("n")] == [13, None, None, None]
            assert [row[1] for row in table.cells()] == ["<13", "300", "-", "402"]
        one_row = session.sql(
            "SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE a = 'p') AS p, "
            "COUNT(*) FILTER (WHERE a <> 'p') AS o FROM t"
        )
        assert [one.value for one in one_row.estimates()] == [402, None, None]


def test_a_count_is_shown_from_the_least_on() -> None:
    counts = {"p": 19, "q": 20, "r": 21}
    frame = pd.DataFrame({"a": np.repeat(list(counts), list(counts.values())), "b": "x", "c": 0})
    with worlds.opened(frame, DOMAIN, epsilon=1000, seed=1, minimum_count=20) as session:
        found = session.group_by("a").column("count")
        assert [(one.value, one.below) for one in found] == [(None, 20), (20, None), (21, None)]
    answers = with_minimum(released(0), None).ask_all([f"a = '{value}'" for value in counts])
    edge = replace(answers, count=np.array([19.0, 20.0, 21.0]), below=20).shown()
    assert np.isnan(edge.count).tolist() == [True, False, False]
    assert [one.below for one in edge] == [20, None, None]
    assert [one.has_count for one in edge] == [False, True, True]
    assert np.isnan(edge.interval).any(axis=1).tolist() == [True, False, False]


def test_what_is_computed_of_a_withheld_number_is_withheld() -> None:
    model = with_minimum(released(0), 300)
    counts = {keys[0]: one.value for keys, (one,) in model.sql("SELECT a, COUNT(*) FROM t GROUP BY a").rows}
    small = [key for key, value in counts.items() if value is None]
    assert 0 < len(small) < len(counts)
    text = (
        "SELECT a, COUNT(*) AS n, COUNT(*) * 2 AS d, COALESCE(COUNT(*), 0) AS e, AVG(c) AS m, "
        "MEDIAN(c) AS h, CASE WHEN COUNT(*) > 5 THEN 1 ELSE 0 END AS w, "
        "COUNT(*) FILTER (WHERE b = 'x') * 1.0 / COUNT(*) AS s FROM t GROUP BY a"
    )
    for keys, found in model.sql(text).rows:
        hidden = [one.source is Source.WITHHELD for one in found]
        assert keys[0] not in small or all(hidden)
        assert keys[0] in small or not any(hidden[:-1])
    shares = model.sql("SELECT a, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS s FROM t GROUP BY a")
    assert all(
        one.source is Source.WITHHELD for one in shares.column("s")
    )  # of all, the small ones among them


FEW_OF_FEW = "a = 'p' AND b = 'x' AND c = 2"


@pytest.mark.parametrize(
    "column",
    [
        "SUM(CASE WHEN {few} THEN 2 ELSE 0 END)",
        "SUM(CASE WHEN {few} THEN -1 ELSE 0 END)",
        "SUM(CASE WHEN {few} THEN 2 ELSE 1 END)",
        "SUM(CASE WHEN {few} THEN 2 ELSE 1 END) - COUNT(*)",
        "SUM(CASE WHEN {few} THEN c ELSE 0 END)",
        "SUM(CASE WHEN {few} THEN c + 1 ELSE c END) - SUM(c)",
        "AVG(CASE WHEN {few} THEN 2 ELSE 0 END)",
        "AVG(CASE WHEN {few} THEN 3 ELSE 1 END)",
        "VARIANCE(CASE WHEN {few} THEN 1 ELSE 0 END)",
        "STDDEV(CASE WHEN {few} THEN 5 ELSE 2 END)",
        "CORR(c, CASE WHEN {few} THEN 5 ELSE 2 END)",
        "COUNT(*) - COUNT(*) FILTER (WHERE NOT ({few}))",
        "SUM(c) FILTER (WHERE {few})",
    ],
)
def test_sums_that_tell_how_few_something_holds_of_are_withheld(column: str) -> None:
    model = next(
        one for one in map(released, range(20)) if 0.5 < one.ask(FEW_OF_FEW).count < one.ask("").count / 4
    )
    least = math.ceil(model.ask(FEW_OF_FEW).count) + 1
    text = f"SELECT {column.format(few=FEW_OF_FEW)} AS n FROM t"
    (hidden,) = with_minimum(model, least).sql(text).estimates()
    assert (hidden.value, hidden.source) == (None, Source.WITHHELD)
    (plain,) = model.sql(text).estimates()
    assert plain.value is not None
    wide = text.replace(FEW_OF_FEW, "c >= 1")  # of many
    (shown,) = with_minimum(model, 2).sql(wide).estimates()
    assert shown.value is not None


def test_withheld_rows_sort_last_and_fail_having() -> None:
    model = with_minimum(released(0), 300)
    for order in ("n", "n DESC", "n NULLS FIRST"):
        found = model.sql(f"SELECT a, COUNT(*) AS n FROM t GROUP BY a ORDER BY {order}").column("n")
        hidden = [one.source is Source.WITHHELD for one in found]
        assert 0 < sum(hidden) < len(hidden)
        assert hidden == sorted(hidden)
    for having in ("COUNT(*) < 1000000", "NOT COUNT(*) > 1000000"):
        kept = model.sql(f"SELECT a, COUNT(*) AS n FROM t GROUP BY a HAVING {having}").column("n")
        assert [one.value >= 300 for one in kept if one.value is not None] == [True] * 2
        assert len(kept) == 2


def test_a_condition_that_rests_on_a_withheld_number_is_refused() -> None:
    model, text = released(0), "SELECT COUNT(*) FROM t WHERE c >= (SELECT AVG(c) FROM t WHERE a = 'p')"
    assert model.sql(text).rows
    with pytest.raises(QueryError, match="nothing is promised of the number that a sub-query gives"):
        with_minimum(model, 10**5).sql(text)


def test_persons_with_several_records_are_counted_as_persons() -> None:
    ids, a = np.repeat(np.arange(300), 3), np.repeat(np.where(np.arange(300) < 25, "p", "q"), 3)
    frame = pd.DataFrame({"id": ids, "a": a, "b": "x", "c": 0})
    choices: dict[str, Any] = {"person_column": "id", "records_per_person": 3, "seed": 1}
    text = "SELECT a, COUNT(*) AS n, COUNT(DISTINCT id) AS k FROM t GROUP BY a"
    for least, below in ((20, [None, None]), (40, [120, 40])):
        with worlds.opened(frame, DOMAIN, epsilon=1000, minimum_count=least, **choices) as session:
            p, q, r = (found for _, found in session.sql(text).rows)
            assert [one.below for one in p] == below
            assert [one.below for one in q] == [None, None]
            assert [one.below for one in r] == [3 * least, least]  # nobody
            answer = session.ask("a = 'p'")
            assert (answer.below, math.isnan(answer.count)) == (below[0], below[0] is not None)


@pytest.mark.parametrize("limit", ["_MOST_TOGETHER", "_MOST_WEIGHTS"])
def test_where_a_table_is_too_large_to_be_looked_at_as_a_whole_totals_are_withheld(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(withholding, limit, 2)
    table = with_minimum(released(0), 300).sql("SELECT a, b, COUNT(*) AS n FROM t GROUP BY CUBE (a, b)")
    hidden = [one.source is Source.WITHHELD for one in table.column("n")]
    assert all(one for one, totals in zip(hidden, table.totals, strict=True) if totals)
    none = with_minimum(released(0), 2).sql("SELECT a, COUNT(*) AS n FROM t GROUP BY ROLLUP (a)")
    assert all(
        one.value is not None for one in none.column("n")
    )  # where nothing is small nothing is withheld


def test_where_a_row_is_too_large_to_be_looked_at_as_a_whole_all_of_it_is_withheld(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = next(one for one in map(released, range(20)) if 0.5 < one.ask(FEW_OF_FEW).count < 200)
    columns = ", ".join(f"COUNT(*) FILTER (WHERE {one})" for one in (FEW_OF_FEW, f"NOT ({FEW_OF_FEW})"))
    least = math.ceil(model.ask(FEW_OF_FEW).count) + 1
    for limit in (2**10, 1):
        monkeypatch.setattr(withholding, "_MOST_TOGETHER", limit)
        table = with_minimum(model, least).sql(f"SELECT {columns}, COUNT(*), SUM(c) FROM t")
        hidden = [one.source is Source.WITHHELD for one in table.estimates()]
        assert (hidden[0], all(hidden)) == (True, limit == 1)
