"""Results of statements: as text, and as pictures."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

import pmw
from pmw.display.figures import GROUP_COLORS
from pmw.display.texts import installed_by
from pmw.errors import ReleaseError
from pmw.public.answer import Source, Spent
from pmw.public.results import Drawn, Result, arranged, drawn_figure
from pmw.public.sums import Estimate
from pmw.public.tables import AnswerTable, Key
from tests.worlds import PEOPLE

OPTIONS = pmw.Options(opening=pmw.Opening.ONE_WAY, seed=5)


@pytest.fixture(scope="module")
def session() -> Iterator[pmw.Session]:
    with pmw.open_session(PEOPLE.frame, PEOPLE.domain, epsilon=1, delta=1e-9, options=OPTIONS) as session:
        yield session


def hostile() -> AnswerTable:
    """Return a table with values of several types, without numbers and with ends that are none."""
    estimates = (
        Estimate(3.0, (1.0, 6.0)),
        Estimate(None),
        Estimate(5.0, (-math.inf, math.inf)),
        Estimate(-2.0, (-4.0, 1.0), source=Source.UNVERIFIED),
    )
    keys: tuple[tuple[Key, ...], ...] = (
        (1, "$x$"),
        (True, "<script>alert(1)</script>"),
        (None, None),
        ("\ud800", "'\"&"),
    )
    rows = tuple((key, (one,)) for key, one in zip(keys, estimates, strict=True))
    return AnswerTable(("<b>k</b>", "text"), ("n<i>",), rows, 0.9, ("a <note>",), spent=Spent(0.5, 1.0, 0.0))


RESULTS: dict[str, Callable[[pmw.Session], Result]] = {
    "groups": lambda session: session.group_by(["sex", "region"]),
    "means": lambda session: session.sql("SELECT age, COUNT(*) AS n, AVG(age) AS m FROM people GROUP BY age"),
    "answers": lambda session: session.ask_all(["age >= 40", "sex = 'Male'"]),
    "arrays": lambda session: session.answer_arrays("age", [0, 1], [4, 2]),
}


def test_arrow_and_polars_have_the_columns_and_rows_of_pandas(session: pmw.Session) -> None:
    pa = pytest.importorskip("pyarrow", reason="Arrow tables need the extra frames")
    pytest.importorskip("polars", reason="Polars tables need the extra frames")
    for made in RESULTS.values():
        result = made(session)
        frame, table = result.to_pandas(), result.to_arrow()
        assert table.column_names == list(frame.columns)
        assert json.loads(table.schema.metadata[b"pmw"]) == result.facts() == frame.attrs
        assert pa.table(result).equals(table)  # by the stream of its C interface
        for name in frame.columns:
            cells = [
                None if isinstance(one, float) and math.isnan(one) else one for one in frame[name].tolist()
            ]
            assert table[name].to_pylist() == cells
        assert result.to_polars().to_dict(as_series=False) == table.to_pydict()
    # Values of several types are texts, and what is no number is empty.
    assert hostile().to_polars().to_dict(as_series=False) == hostile().to_arrow().to_pydict()
    assert hostile().to_arrow().to_pydict() == {
        "<b>k</b>": ["1", "true", None, "\\ud800"],
        "text": ["$x$", "<script>alert(1)</script>", None, "'\"&"],
        "n<i>": [3.0, None, 5.0, -2.0],
        "n<i>_low": [1.0, None, -math.inf, -4.0],
        "n<i>_high": [6.0, None, math.inf, 1.0],
        "n<i>_source": ["synthetic", "synthetic", "synthetic", "unverified"],
    }


@pytest.mark.parametrize(("library", "what"), [("pyarrow", "Arrow"), ("polars", "Polars")])
def test_without_a_library_its_extra_is_named(
    library: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    for name in ("to_polars",) if library == "polars" else ("to_arrow", "__arrow_c_stream__"):
        with pytest.raises(ReleaseError) as caught:
            getattr(hostile(), name)()
        assert str(caught.value) == f"{what} tables need {library}: {installed_by('frames')}"


# --- notebooks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [*RESULTS.values(), lambda _: hostile()])
def test_notebooks_get_no_script_no_address_and_no_name_as_markup(
    made: Callable[[pmw.Session], AnswerTable], session: pmw.Session
) -> None:
    page = made(session)._repr_html_()
    tags = set(re.findall(r"</?([a-z]+)", page))
    assert tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "svg", "rect", "path", "p"}
    assert not re.search(r"<[^>]* on[a-z]+=|://|url\(", page)


def test_bars_are_drawn_as_long_as_their_numbers_with_the_ends_of_their_intervals() -> None:
    page = hostile()._repr_html_()
    first, refused, endless, negative = re.findall(r"<tr><th.*?</tr>", page.partition("<tbody>")[2])
    left, right = 3.0, 177.0  # of -4 and 6, the least and the greatest of what is finite

    def place(number: float) -> str:
        return f"{left + (right - left) * (number + 4) / 10:.1f}"

    def length(number: float) -> str:
        return f"{(right - left) * abs(number) / 10:.1f}"

    assert f'<rect x="{place(0)}" y="3" width="{length(3)}"' in first
    assert f'd="M{place(1)} 8H{place(6)}M{place(1)} 4v8M{place(6)} 4v8"' in first
    assert "<svg" not in refused
    assert f'd="M{left} 8H{right}"' in endless  # no stroke where it has no end
    assert f'<rect x="{place(-2)}" y="3" width="{length(2)}"' in negative
    assert "n&lt;i&gt;, -4 to 6" in page


# --- result pictures ------------------------------------------------------------------------------------


def drawn(
    keys: tuple[str, ...],
    groups: Sequence[tuple[str, ...]],
    ordered: Mapping[str, tuple[str, ...]] | None = None,
    **others: Any,
) -> Drawn:
    """Return numbers 1, 2, … of groups, each in an interval from half of it to twice as much."""
    values = tuple(float(number) for number in range(1, len(groups) + 1))
    given: dict[str, Any] = {
        "values": values,
        "intervals": tuple((one / 2, 2 * one) for one in values),
        **others,
    }
    return Drawn("n", "records", keys, tuple(groups), promise="95% ranges", ordered=ordered or {}, **given)


def product(*parts: Sequence[str]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = [()]
    for part in parts:
        found = [(*group, value) for group in found for value in part]
    return found


MANY = tuple("abcdefg")


# --- where things stand ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "groups", "ordered", "places"),
    [
        (("a",), product(MANY), {}, ("a", "", "", 0, 7, 1, 1)),
        (("a", "b"), product("xy", MANY), {}, ("b", "a", "", 0, 7, 2, 1)),
        (("a", "b"), product(MANY, "xy"), {}, ("a", "b", "", 0, 7, 2, 1)),
        (("a", "b"), product("xyz", "vw"), {}, ("a", "b", "", 0, 3, 2, 1)),
        (("a", "b"), product(MANY, MANY), {}, ("a", "", "b", 0, 7, 1, 7)),
        (("a", "b"), product("xy", "123"), {"b": tuple("123")}, ("b", "a", "", 3, 3, 2, 1)),
        (("a", "b", "c"), product("xy", MANY, "123"), {"c": tuple("123")}, ("c", "a", "b", 3, 3, 2, 7)),
        (("a", "b"), product("12", "345"), {"a": tuple("12"), "b": tuple("345")}, ("b", "a", "", 3, 3, 2, 1)),
        (("a", "same"), product(MANY, "x"), {}, ("a", "", "", 0, 7, 1, 1)),
        (("a",), product("1"), {"a": ("1",)}, ("a", "", "", 0, 1, 1, 1)),
        ((), [()], {}, ("", "", "", 0, 1, 1, 1)),
    ],
)  # fmt: skip
def test_numbers_and_dates_are_along_the_axis_few_values_are_colours_and_others_panels(
    keys: tuple[str, ...],
    groups: list[tuple[str, ...]],
    ordered: dict[str, tuple[str, ...]],
    places: tuple[str, str, str, int, int, int, int],
) -> None:
    found = arranged(drawn(keys, groups, ordered))
    sizes = (found.connected, len(found.places), len(found.colors), len(found.panels))
    assert (found.axis, found.color, found.panel, *sizes) == places
    assert sorted(found.rows.values()) == [*range(len(groups))]


def test_an_axis_has_the_order_of_its_values_and_special_ones_behind_them() -> None:
    groups = [("3",), ("(missing)",), ("1",), ("2",)]
    found = arranged(drawn(("age",), groups, {"age": ("1", "2", "3")}))
    assert (found.places, found.connected) == (("1", "2", "3", "(missing)"), 3)
    assert found.rows["(missing)", "", ""] == 1
    # Rows that their keys do not tell apart stand by themselves.
    assert arranged(drawn(("a",), [("x",), ("x",), ("y",)])).places == ("x (row 1)", "x (row 2)", "y")
    assert arranged(drawn((), [(), ()])).places == ("(row 1)", "(row 2)")


def test_a_statement_says_which_keys_are_in_order_and_what_its_numbers_are() -> None:
    with pmw.open_session(PEOPLE.frame, PEOPLE.domain, epsilon=1, delta=1e-9, options=OPTIONS) as session:
        table = session.sql(
            "SELECT region, age, COUNT(*) AS n, AVG(age) AS m, COUNT(*) * 2 AS d FROM people "
            "WHERE sex = 'Male' GROUP BY region, age ORDER BY n DESC"
        )
        counts = session.ask_all(["sex = 'Male'", "age >= 40"])
        totals = session.sql("SELECT sex, COUNT(*) AS n FROM people GROUP BY ROLLUP(sex)").drawn("n")
    assert list(table.ordered) == ["age"]
    assert table.ordered["age"] == tuple(dict.fromkeys(sorted(table.column("age"))))
    assert (dict(table.units), table.about) == ({"n": "records", "m": "age"}, "sex Male")
    assert counts.drawn(None).groups == (("sex Male",), ("age 40 to 59",))
    assert totals.groups == (("Female",), ("Male",))
    assert totals.notes[0] == "1 total left out"
    with pytest.raises(KeyError, match="nothing"):
        table.plot("nothing")
    with pytest.raises(KeyError, match="low"):
        counts.plot("low")


# --- what is drawn -----------------------------------------------------------------------------------------


@pytest.fixture
def pictures() -> None:
    pytest.importorskip("matplotlib", reason="pictures need the optional package matplotlib")


def texts(figure: Any) -> str:
    from matplotlib.text import Text

    figure.draw_without_rendering()
    return "\n".join(text.get_text() for text in figure.findobj(Text) if text.get_visible())


@pytest.mark.usefixtures("pictures")
def test_bars_are_as_long_as_their_numbers_and_ranges_as_their_intervals() -> None:
    groups = product(MANY, "xy")
    figure: Any = drawn_figure(drawn(("kind", "group"), groups))
    (axes,) = figure.axes
    first, second = axes.containers
    assert [bar.get_width() for bar in first] == [1, 3, 5, 7, 9, 11, 13]
    assert [bar.get_width() for bar in second] == [2, 4, 6, 8, 10, 12, 14]
    assert {bar.get_facecolor() for bar in first}.isdisjoint(bar.get_facecolor() for bar in second)
    lines = [path for one in axes.collections for path in one.get_segments()]
    ranges = sorted((line[0][0], line[1][0]) for line in lines if line[0][1] == line[1][1])
    assert ranges == sorted((one / 2, 2.0 * one) for one in range(1, 15))
    text = texts(figure)
    assert "n (records) by kind and group\n95% ranges" in text
    assert [label.get_text() for label in axes.get_yticklabels()] == list(MANY)
    legend = figure.subfigs[1].legends[0]
    assert [one.get_text() for one in legend.get_texts()] == ["x", "y"]
    assert legend.get_title().get_text() == "group"


@pytest.mark.usefixtures("pictures")
def test_a_line_goes_through_its_numbers_in_a_band_and_special_values_stand_apart() -> None:
    groups = [("3",), ("(missing)",), ("1",), ("2",)]
    figure: Any = drawn_figure(drawn(("age",), groups, {"age": ("1", "2", "3")}))
    (axes,) = figure.axes
    line, point = axes.lines
    assert line.get_xydata().tolist() == [[0, 3], [1, 4], [2, 1]]
    assert point.get_xydata().tolist() == [[3, 2]]
    band, ends = axes.collections
    assert {tuple(corner) for corner in band.get_paths()[0].vertices.tolist()} == {
        (0, 1.5), (0, 6), (1, 2), (1, 8), (2, 0.5), (2, 2)
    }  # fmt: skip
    assert ends.get_segments()[0].tolist() == [[3, 1], [3, 4]]
    assert axes.get_ylim()[0] == 0
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "3", "(missing)"]


@pytest.mark.usefixtures("pictures")
def test_what_is_not_seen_is_said() -> None:
    figure = drawn_figure(
        drawn(
            ("a",),
            product("wxyz"),
            values=(None, 2.0, 3.0, 4.0),
            intervals=(None, None, (-math.inf, 5.0), (3.0, 5.0)),
            about="sex Male",
            notes=("counts are of the records kept",),
            seeded=True,
        )
    )
    text = texts(figure)
    assert "n (records) by a, of sex Male" in text
    assert "1 row without a number." in text
    assert "2 numbers without a range: nothing is promised there, or it has no end." in text
    assert "Counts are of the records kept." in text
    with pytest.raises(ReleaseError, match="there is no number to draw: no row has one"):
        drawn_figure(drawn(("a",), product("x"), values=(None,), intervals=(None,)))


@pytest.mark.usefixtures("pictures")
def test_names_are_letters_whatever_they_look_like_and_long_ones_are_cut() -> None:
    hostile = ("$x^2", "<b>&", "\\frac{", "long " * 99, "_under", "%d")
    figure = drawn_figure(drawn(("$key$", hostile[3]), product(hostile, ("$a_b$", "c")), about="long " * 99))
    text = texts(figure)
    for name in ("$x^2", "<b>&", "\\frac{", "_under", "%d", "$a_b$", "$key$"):
        assert name in text
    assert max(map(len, text.splitlines())) <= 105


@pytest.mark.usefixtures("pictures")
def test_more_groups_than_colours_have_panels_on_one_scale_and_it_is_said_how_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pmw.public.results._MOST_BARS", 6)
    monkeypatch.setattr("pmw.public.results._MOST_PANELS", 2)
    kinds, others = [f"k{number}" for number in range(7)], [f"v{number}" for number in range(6)]
    figure: Any = drawn_figure(drawn(("kind", "other"), product(kinds, others)))
    assert [axes.get_title("left") for axes in figure.axes] == others[:2]
    assert len({axes.get_xlim() for axes in figure.axes}) == 1
    assert len(figure.axes[0].get_yticks()) == 6
    assert "The first 6 of 7 values of kind are shown." in texts(figure)
    assert "The first 2 of 6 values of other are shown." in texts(figure)
    assert len(GROUP_COLORS) == 4
