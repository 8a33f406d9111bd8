"""Results: the same rows in every library, and drawn in notebooks without script, style sheet or address."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.display.texts import installed_by
from pmw.errors import ReleaseError
from pmw.public.answer import Source, Spent
from pmw.public.results import Result
from pmw.public.sums import Estimate
from pmw.public.tables import AnswerTable, Key
from queries import CategoricalAttribute, Domain, IntegerAttribute
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


@pytest.fixture(params=RESULTS)
def result(request: pytest.FixtureRequest, session: pmw.Session) -> Result:
    return RESULTS[str(request.param)](session)


def test_arrow_has_the_columns_and_rows_of_pandas(result: Result) -> None:
    pa = pytest.importorskip("pyarrow", reason="Arrow tables need the extra frames")
    frame, table = result.to_pandas(), result.to_arrow()
    assert table.column_names == list(frame.columns)
    assert json.loads(table.schema.metadata[b"pmw"]) == result.facts() == frame.attrs
    assert pa.table(result).equals(table)  # by the stream of its C interface
    for name in frame.columns:
        cells = [None if isinstance(one, float) and math.isnan(one) else one for one in frame[name].tolist()]
        assert table[name].to_pylist() == cells


def test_values_of_several_types_are_texts_in_arrow_and_what_is_no_number_is_empty() -> None:
    pytest.importorskip("pyarrow", reason="Arrow tables need the extra frames")
    assert hostile().to_arrow().to_pydict() == {
        "<b>k</b>": ["1", "true", None, "\\ud800"],
        "text": ["$x$", "<script>alert(1)</script>", None, "'\"&"],
        "n<i>": [3.0, None, 5.0, -2.0],
        "n<i>_low": [1.0, None, -math.inf, -4.0],
        "n<i>_high": [6.0, None, math.inf, 1.0],
        "n<i>_source": ["synthetic", "synthetic", "synthetic", "unverified"],
    }


@pytest.mark.parametrize("made", [*RESULTS.values(), lambda _: hostile()])
def test_polars_has_the_rows_of_arrow(made: Callable[[pmw.Session], Result], session: pmw.Session) -> None:
    pytest.importorskip("polars", reason="Polars tables need the extra frames")
    pytest.importorskip("pyarrow", reason="Arrow tables need the extra frames")
    result = made(session)
    assert result.to_polars().to_dict(as_series=False) == result.to_arrow().to_pydict()


@pytest.mark.parametrize(
    ("library", "name", "message"),
    [
        ("pyarrow", "to_arrow", "Arrow tables need pyarrow"),
        ("pyarrow", "__arrow_c_stream__", "Arrow tables need pyarrow"),
        ("polars", "to_polars", "Polars tables need polars"),
    ],
)
def test_without_a_library_its_extra_is_named(
    library: str, name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ReleaseError) as caught:
        getattr(hostile(), name)()
    assert str(caught.value) == f"{message}: {installed_by('frames')}"


def test_numbers_without_a_promise_are_empty(session: pmw.Session) -> None:
    frame = hostile().to_pandas()
    assert frame["n<i>"].isna().tolist() == [False, True, False, False]
    assert frame["n<i>_low"].tolist()[2:] == [-math.inf, -4.0]
    assert frame["n<i>_source"].tolist()[3] == "unverified"
    assert len(session.ask_all([]).to_pandas()) == 0


# --- notebooks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [*RESULTS.values(), lambda _: hostile()])
def test_notebooks_get_no_script_no_address_and_no_name_as_markup(
    made: Callable[[pmw.Session], AnswerTable], session: pmw.Session
) -> None:
    page = made(session)._repr_html_()
    tags = set(re.findall(r"</?([a-z]+)", page))
    assert tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "svg", "rect", "path", "p"}
    assert "://" not in page
    assert "url(" not in page
    assert not re.search(r"<[^>]* on[a-z]+=", page)


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


def test_long_tables_are_cut_in_notebooks_and_say_so() -> None:
    domain = Domain((IntegerAttribute("n", 0, 299), CategoricalAttribute("s", ("a", "b"))))
    frame = pd.DataFrame({"n": np.arange(300), "s": ["a"] * 300})
    with pmw.open_session(frame, domain, epsilon=1, options=OPTIONS) as session:
        found = session.group_by("n")
        few = session.group_by("s")
        page = found._repr_html_()
    assert (page.count("<svg"), page.count("<tr>")) == (20, 21)
    assert page.endswith("<p>20 of 300 rows are shown; to_pandas() has all</p>")
    assert few._repr_html_().endswith("</table>")
