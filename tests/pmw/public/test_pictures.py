"""Pictures: the panels show released numbers, and files are written whole or not at all."""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.display.figures import MissingLettersWarning, draw_bars, new_figure, write_figure
from pmw.display.texts import installed_by
from pmw.errors import ReleaseError
from pmw.model.measurement import ResidualMeasurement, half_width
from pmw.public.pictures import MarginalComparison, compare_marginals, marginal_panel
from queries import CategoricalAttribute, Domain, NumericAttribute, random_conjunctions
from tests import worlds

pytest.importorskip("matplotlib", reason="pictures need the optional package matplotlib")


def opened(frame: pd.DataFrame, domain: Domain, **options: Any) -> pmw.Session:
    return pmw.open_session(
        frame, domain, epsilon=1, delta=1e-9, options=pmw.Options(test=pmw.TestKind.QUERY, seed=5, **options)
    )


@pytest.fixture(scope="module")
def session(shared_frame: pd.DataFrame, domain: Domain) -> Iterator[pmw.Session]:
    with opened(shared_frame, domain) as session:
        session.ask_all(list(random_conjunctions(domain, 60, seed=2)))
        yield session


@pytest.fixture(scope="module")
def figure(session: pmw.Session) -> Any:
    return session.plot()


def panel(figure: Any, title: str) -> Any:
    (found,) = [axes for axes in figure.axes if axes.get_title("left").startswith(title)]
    return found


def draw(figure: Any) -> None:
    """Lay a figure out, so that ticks have their labels and texts their places."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.draw_without_rendering()


def words(figure: Any) -> str:
    """Return every text of a figure."""
    from matplotlib.text import Text

    draw(figure)
    return "\n".join(text.get_text() for text in figure.findobj(Text))


def centers_and_ends(axes: Any) -> tuple[Any, Any]:
    """Return the points of the one error bar series of a panel, and the ends of its bars."""
    (container,) = [one for one in axes.containers if one.get_label() == "measured"]
    line, _, (bars,) = container
    return np.array(line.get_xydata()), np.array(bars.get_segments())


def test_a_column_panel_shows_the_model_and_the_measured_marginal_with_its_error_bars(
    session: pmw.Session, figure: Any
) -> None:
    state = session.state
    axes = panel(figure, "age")
    share = 100 / state.total.value
    heights = [bar.get_height() for bar in axes.patches]
    assert heights == pytest.approx(share * state.model.marginal(("age",)))
    (measured,) = [one for one in state.opening if one.scope == ("age",)]
    points, ends = centers_and_ends(axes)
    assert points[:, 1] == pytest.approx(share * measured.values)
    width = half_width(measured.noise, 0.95)
    assert ends[:, 1, 1] - ends[:, 0, 1] == pytest.approx(np.full(10, 2 * share * width))


def test_without_one_way_measurements_the_model_stands_alone(frame: pd.DataFrame, domain: Domain) -> None:
    with opened(frame, domain, opening=pmw.Opening.NONE) as session:
        fresh = session.plot()
        session.ask_all(list(random_conjunctions(domain, 9, seed=2)))
        later = session.plot()
    for figure in (fresh, later):
        assert not any(one.get_label() == "measured" for axes in figure.axes for one in axes.containers)
        text = words(figure)
        assert "synthetic: the model" in text
        assert "measured, with" not in text
    assert "% spent, all of it at opening" in panel(fresh, "Budget").get_title("left")


def test_the_budget_panel_shows_the_share_after_each_answer(frame: pd.DataFrame, domain: Domain) -> None:
    with opened(frame, domain) as session:
        at_opening = session.state.ledger.share
        queries = list(dict.fromkeys(random_conjunctions(domain, 40, seed=2)))
        shares = [session.ask(query).spent.share for query in queries]
        session.ask(queries[0])  # a repeat adds no point
        figure = session.plot()
    axes = panel(figure, "Budget: ")
    steps = axes.lines[1].get_xydata()
    assert steps[:, 0].tolist() == list(range(len(steps)))
    assert steps[0, 1] == pytest.approx(100 * at_opening)
    assert set(np.round(steps[1:, 1], 6)) == set(np.round(100 * np.array(shares), 6))
    assert np.all(np.diff(steps[:, 1]) >= 0)
    assert axes.get_title("left") == f"Budget: {100 * shares[-1]:.1f} % spent, 11.0 % at opening"
    assert "the cap: epsilon = 1, delta = 1e-09" in words(figure)


def wide(count: int) -> tuple[pd.DataFrame, Domain]:
    """Return records and a domain of many attributes with names that a picture might stumble over."""
    generator = np.random.default_rng(3)
    attributes: list[Any] = [
        CategoricalAttribute(f"price in $ and ${number}$ and what else a name can hold", (True, False))
        for number in range(count - 2)
    ]
    attributes.append(CategoricalAttribute("land", tuple("$ x_{" + str(number) for number in range(13))))
    attributes.append(NumericAttribute("income", (-1.5, 0, 2500.5, 30000, 2e6), missing=True, other=True))
    columns: dict[str, Any] = {attribute.name: generator.random(500) < 0.3 for attribute in attributes[:-2]}
    columns["land"] = generator.choice(attributes[-2].values, 500)
    columns["income"] = generator.normal(1000, 3000, 500)
    return pd.DataFrame(columns), Domain(tuple(attributes), name="a $ table $")


@pytest.mark.parametrize(("count", "shown"), [(2, 2), (7, 6)])
def test_at_most_six_marginals_are_shown_and_no_label_overlaps_another(count: int, shown: int) -> None:
    with opened(*wide(count)) as session:
        figure: Any = session.plot()
    text = words(figure)
    assert ("Marginals of the first 6 of 7 attributes" in text) == (count == 7)
    assert "a $ table $: " in text
    assert sum(axes.get_visible() for axes in figure.axes) == shown + 1
    for axes in figure.axes:
        for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
            boxes = [label.get_window_extent() for label in labels if label.get_text()]
            for box, other in pairwise(boxes):
                assert not box.overlaps(other), [label.get_text() for label in labels]
    if count == 2:  # numbers stand at the ends of their cells, and special cells last
        axes = panel(figure, "income")
        assert [axes.xaxis.get_major_formatter()(place) for place in range(6)] == [
            "-1.5", "0", "2500.5", "30000", "2000000", "",
        ]  # fmt: skip
        assert axes.get_xlabel() == "at the right end: (missing), (other)"
        assert [bar.get_x() for bar in axes.patches] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("name", "start", "other"),
    [("a.png", b"\x89PNG", "a.jpg"), ("a.PDF", b"%PDF", "a"), ("a.svg", b"<?xml", ".png")],
)
def test_the_suffix_chooses_the_kind_of_file_and_others_are_refused(
    session: pmw.Session, tmp_path: Path, name: str, start: bytes, other: str
) -> None:
    write_figure(new_figure(2, 2), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)
    with pytest.raises(ReleaseError, match=r"expected a picture file ending in .png, .pdf or .svg, got "):
        session.plot(tmp_path / other)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_file_is_written_whole_or_not_at_all_and_over_none_unless_forced(
    session: pmw.Session, tmp_path: Path
) -> None:
    target = tmp_path / "a.png"
    target.write_text("precious")
    for path, told in (
        (target, "a.png exists; choose another name, or overwrite it with --force"),
        (tmp_path / "absent" / "a.png", "a.png: the file cannot be written: No such file or directory"),
    ):
        with pytest.raises(ReleaseError, match=told):
            write_figure(new_figure(2, 2), path)
    assert target.read_text() == "precious"
    session.plot(target, force=True)
    assert target.read_bytes().startswith(b"\x89PNG")
    assert [*tmp_path.iterdir()] == [target]


def test_without_matplotlib_the_extra_is_named(
    session: pmw.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ReleaseError) as caught:
        session.plot(tmp_path / "a.png")
    assert str(caught.value) == f"pictures need matplotlib: {installed_by('plots')}"
    assert list(tmp_path.iterdir()) == []


def test_no_global_state_of_matplotlib_is_touched() -> None:
    code = (
        "import sys, pmw.display.figures; assert 'matplotlib' not in sys.modules; "
        "figure = pmw.display.figures.new_figure(2, 2); "
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_of_many_cells_those_with_the_highest_lower_bounds_are_shown_and_ties_in_declared_order(
    session: pmw.Session,
) -> None:
    cells = CategoricalAttribute("land", tuple(f"l{place}" for place in range(13)))
    measured = np.array([5.0, 4, 9, 8, 7, 3, 2, 1, 6, 50, 90, 60, 70])
    for comparison, left_out in (
        (MarginalComparison(cells, np.linspace(20, 1, 13), measured, 10.0), ("l6", "l7", "l8")),
        (MarginalComparison(cells, measured, None), ("l5", "l6", "l7")),
    ):
        axes = new_figure(3, 2).subplots()
        draw_bars(axes, *marginal_panel(session.state, comparison))
        assert "10 of 13 values, the most frequent" in axes.get_title(loc="left")
        shown = [label.get_text() for label in axes.get_yticklabels()]
        assert shown == [value for value in cells.values if value not in left_out]


def test_a_residual_is_shown_with_the_bar_that_its_noisiest_cell_has() -> None:
    with worlds.YEARS.opened(opening=pmw.Opening.PAIRS, epsilon=3, seed=3) as session:
        state = session.state
    for comparison, one in zip(compare_marginals(state, 9), state.opening, strict=True):
        deviation = math.sqrt(float(one.cell_variances.max()))
        assert comparison.half_width == pytest.approx(1.959964 * deviation, rel=1e-3)
    assert sum(isinstance(one, ResidualMeasurement) for one in state.opening) == 3  # ages are a tree


def test_the_header_tells_table_records_and_guarantee(
    frame: pd.DataFrame, domain: Domain, figure: Any
) -> None:
    with pmw.open_session(frame, domain, epsilon=1, delta=1e-9) as session:
        text = words(session.plot()).replace("\n", " ")
        records = f"{session.state.total.value:,.0f}"
    assert f"people: 4 attributes, about {records} records" in text
    assert "Guarantee: differential privacy with epsilon = 1, delta = 1e-09, for adding or removing" in text
    assert "SEEDED" not in text
    assert figure._repr_png_().startswith(b"\x89PNG")  # as notebooks show it
    text = words(figure).replace("\n", " ")
    assert "SEEDED NOISE: no privacy" in text
    assert "Guarantee: none: the noise of this session is seeded" in text


@pytest.mark.parametrize(
    ("label", "script"), [("größe Кириллица", None), ("देवनागरी", "Devanagari"), ("中文 ไทย", "CJK and Thai")]
)
def test_letters_that_the_font_lacks_are_told_in_one_warning_of_our_own(
    tmp_path: Path, label: str, script: str | None
) -> None:
    figure = new_figure(3, 2)
    figure.subplots().set_title(label)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        write_figure(figure, tmp_path / "a.png")
    assert [one.category for one in caught] == [MissingLettersWarning] * (script is not None)
    assert all(f"does not show {script} letters" in str(one.message) for one in caught)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
