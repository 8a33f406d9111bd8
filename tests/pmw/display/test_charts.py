"""Charts: one panel, drawn as SVG and by matplotlib, shows the same numbers; a line keeps its ends."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pmw.display.charts import Bar, Bars, Line, Picture, bar_chart

PICTURE = Picture("people", "sex", "Two bars.", "% of all records")
BARS = (
    Bar("a", 30.0, measured=28.0, interval=(20.0, 36.0)),
    Bar("b", 70.0, measured=75.0, interval=(67.0, 83.0)),
)


@pytest.mark.parametrize("starts", [(), ("0", "1", "2")])
def test_a_page_and_a_figure_show_the_same_numbers(starts: tuple[str, ...]) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the optional package matplotlib")
    from pmw.display.figures import draw_bars, new_figure

    bars = Bars(BARS, "measured, with its range", "%", starts)
    axes: Any = new_figure(3, 2).subplots()
    draw_bars(axes, PICTURE, bars)
    lengths = [bar.get_height() if starts else bar.get_width() for bar in axes.patches]
    assert lengths == [30.0, 70.0]
    (container,) = [one for one in axes.containers if one.get_label() == "measured"]
    axis = 1 if starts else 0
    assert [point[axis] for point in container[0].get_xydata()] == [28.0, 75.0]
    assert [[end[axis] for end in line] for line in container[2][0].get_segments()] == [[20, 36], [67, 83]]
    page = bar_chart(PICTURE, bars)
    size = "height" if starts else "width"
    _sample, *drawn = [float(one) for one in re.findall(rf'<rect [^>]*{size}="([0-9.]+)"', page)]
    assert drawn[0] / drawn[1] == pytest.approx(30 / 70, abs=0.001)
    assert "<title>people: sex, % of all records</title><desc>Two bars.</desc>" in page


def test_a_stepped_line_stays_until_its_next_point() -> None:
    assert Line("spent", "line-0", [(0, 1), (2, 5)], is_stepped=True).corners == [(0, 1), (2, 1), (2, 5)]


def test_of_very_many_points_the_first_and_the_last_are_drawn() -> None:
    corners = Line("spent", "line-0", [(x, 2 * x) for x in range(10_000)]).corners
    assert len(corners) == 401
    assert (corners[0], corners[-1]) == ((0, 0), (9999, 19998))
