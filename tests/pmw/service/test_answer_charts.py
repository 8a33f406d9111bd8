"""Charts of answers: what is drawn of how much, over which axis, in which colours."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

import pmw
from pmw.display.charts import Bars, Lines
from pmw.public.sums import Estimate
from pmw.public.tables import AnswerTable
from pmw.service.answer_charts import Chart, chart_of_count, charts_of_table
from queries import parse_sql
from tests.worlds import PEOPLE, WHOLE_YEARS, World

ROWS = (
    ("a", Estimate(-2.0, (-3.0, -1.0))),
    ("<b>", Estimate(1.0, (0.0, 3.0))),
    ("c", Estimate(math.nan)),
    ("d", Estimate(1.0, (-math.inf, 4.0))),
    ("e", Estimate(None)),
)


def table_of(rows: Any, keys: tuple[str, ...] = ("k",), **ordered: Any) -> AnswerTable:
    return AnswerTable(
        keys,
        ("<i>",),
        tuple((key if type(key) is tuple else (key,), (one,)) for key, one in rows),
        0.95,
        ordered=ordered,
    )


def charts(statement: str, world: World = PEOPLE) -> list[Chart]:
    with pmw.open_session(world.frame, world.domain, epsilon=1) as session:
        read = parse_sql(statement, world.domain)
        return charts_of_table(session.tabulate(read))


def test_bars_go_below_zero_and_what_is_not_finite_is_left_out() -> None:
    (chart,) = charts_of_table(table_of(ROWS))
    drawing = chart.drawing()
    assert "<desc>a: -2.00, -3 to -1; &lt;b&gt;: 1.00, 0 to 3; d: 1.00</desc>" in drawing
    found = [float(width) for width in re.findall(r'class="model"[^>]* width="([0-9.]+)"', drawing)]
    assert found == pytest.approx([2 * found[1], found[1], found[1]], abs=0.1)
    assert drawing.count('class="range"') == 2 * 3  # an interval is a line with two ends
    assert "<i>" not in drawing
    assert chart.caption == "3 of 5 bars. Lines across bars are intervals."
    assert charts_of_table(table_of(())) == []
    assert charts_of_table(table_of([("c", Estimate(None))])) == []
    assert chart_of_count("x", math.nan, "refused", None) == []


def test_of_many_bars_the_first_are_drawn_and_the_chart_says_so() -> None:
    (chart,) = charts_of_table(table_of([(str(place), Estimate(1.0)) for place in range(365)]))
    assert chart.drawing().count('class="model"') == 40
    assert chart.caption.startswith("40 of 365 bars.")


def test_an_attribute_in_order_is_a_line_with_a_band() -> None:
    (chart,) = charts("SELECT age, COUNT(*) FROM people GROUP BY age ORDER BY COUNT(*) DESC", WHOLE_YEARS)
    assert isinstance(chart.panel, Lines)
    (line,) = chart.panel.lines
    assert [x for x, _ in line.points] == list(range(40))  # in order, whatever the table is sorted by
    assert len(line.band) == 40
    assert all(low <= y <= high for (_, y), (_, low, high) in zip(line.points, line.band, strict=True))
    assert (chart.panel.places[0], chart.panel.places[-1]) == ("20", "59")
    assert chart.caption == "40 of 42 points. Bands are intervals."  # missing and other have no place
    drawing = chart.drawing()
    assert drawing.count("<polyline") == drawing.count('<polygon class="band line-0"') == 1


def test_a_second_key_is_lines_or_colours() -> None:
    (lines,) = charts("SELECT sex, age, COUNT(*) FROM people GROUP BY sex, age")
    assert isinstance(lines.panel, Lines)
    assert [line.name for line in lines.panel.lines] == ["Female", "Male"]
    assert [line.kind for line in lines.panel.lines] == ["line-0", "line-1"]
    assert all(f">{line.name}</text>" in lines.drawing() for line in lines.panel.lines)
    (bars,) = charts("SELECT region, sex, COUNT(*) FROM people GROUP BY region, sex")
    assert isinstance(bars.panel, Bars)
    assert bars.panel.groups == (("group-0", "Female"), ("group-1", "Male"))
    assert {bar.kind for bar in bars.panel.bars} == {"group-0", "group-1"}
    (three,) = charts("SELECT region, sex, member, COUNT(*) FROM people GROUP BY region, sex, member")
    assert isinstance(three.panel, Bars)
    assert three.panel.groups == ()


def test_of_many_lines_six_are_drawn_and_the_chart_says_so() -> None:
    rows = [((a, b), Estimate(float(a + b), (0.0, 9.0))) for a in range(10) for b in range(20)]
    (chart,) = charts_of_table(table_of(rows, ("a", "b"), a=tuple(range(10)), b=tuple(range(20))))
    assert isinstance(chart.panel, Lines)
    assert [line.name for line in chart.panel.lines] == [
        "4",
        "5",
        "6",
        "7",
        "8",
        "9",
    ]  # those that go highest
    assert chart.caption.startswith("6 of 10 lines. 120 of 200 points.")


def test_few_values_in_order_are_bars() -> None:
    rows = [(1, Estimate(2.0)), (2, Estimate(3.0))]
    (chart,) = charts_of_table(table_of(rows, k=(1, 2, 3)))
    assert isinstance(chart.panel, Bars)


def test_totals_are_no_bars() -> None:
    (chart,) = charts("SELECT region, sex, COUNT(*) FROM people GROUP BY ROLLUP (region, sex)")
    assert "(all)" not in chart.picture.description


def test_a_file_has_its_own_style_and_no_outside_address() -> None:
    (chart,) = charts("SELECT sex, COUNT(*) FROM people GROUP BY sex")
    file = chart.file()
    assert file.startswith('<svg xmlns="http://www.w3.org/2000/svg" ')
    assert "<style>:root{" in file
    assert "http" not in file.replace("http://www.w3.org/2000/svg", "")
    assert "url(" not in file
