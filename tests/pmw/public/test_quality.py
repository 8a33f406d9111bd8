"""Quality: half-widths that follow from noise, which pairs are missing, and what that means in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pmw
from pmw.public.bars import Bars
from pmw.public.report.page import quality
from queries import Domain, IntegerAttribute, LinearQuery
from tests.worlds import WIDE, World


def told(world: World = WIDE, **choices: Any) -> dict[str, Any]:
    return quality(world.state(**{"opening": "pairs", "seed": 1, **choices}))


def test_every_attribute_and_every_measured_pair_has_its_error_as_a_part_of_the_records() -> None:
    state = WIDE.state(opening="pairs", seed=1)
    found = quality(state)
    assert [row[1] for row in found["by_attribute"]] == ["6"] * 6
    assert [row[-1] for row in found["by_attribute"]] == ["5"] * 6
    assert len(found["by_pair"]) == 15
    query = LinearQuery.cells(WIDE.domain, {"a": (3, 3), "b": (3, 3)})
    width = Bars(state).half_width(query)
    row = next(row for row in found["by_pair"] if "a" in row[0] and "b" in row[0])
    assert width is not None
    assert float(row[2]) == pytest.approx(width, rel=0.05)
    assert float(row[3].rstrip("%")) == pytest.approx(100 * width / state.total.value, rel=0.05)


def test_the_widest_pair_comes_first_and_what_is_not_listed_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    widths = [float(row[2]) for row in told()["by_pair"]]
    assert widths == sorted(widths, reverse=True)
    monkeypatch.setattr("pmw.public.report.page._MOST_PAIRS", 4)
    found = told()
    assert (len(found["by_pair"]), found["more_pairs"]) == (4, "11 more pairs")


def test_pairs_that_are_not_held_are_what_a_model_lacks() -> None:
    found = told(opening="one-way", delta=0, epsilon=1)
    assert found["by_pair"] == []
    assert found["lacks"][0].startswith(
        "It does not learn how attributes of 15 pairs go together, which were"
    )
    assert found["lacks"][0].endswith(" and 5 more.")
    assert "more attributes together than counts of single attributes tell" in found["lacks"][1]


def test_a_model_of_pairs_lacks_what_three_attributes_tell_and_small_groups() -> None:
    lacks = told()["lacks"]
    assert lacks[0].startswith("It finds nothing of more attributes together than counts of 2 attributes")
    assert lacks[1].startswith("Groups of fewer than ")
    assert len(lacks) == 2


def test_counts_that_are_noise_are_named() -> None:
    lacks = told(epsilon=0.01)["lacks"]
    assert any("an error is as large as a mean count there" in one for one in lacks)


def test_a_table_that_was_measured_whole_lacks_no_interaction() -> None:
    domain = Domain((IntegerAttribute("x", 0, 3), IntegerAttribute("y", 0, 3)))
    generator = np.random.default_rng(1)
    frame = pd.DataFrame({name: generator.integers(0, 4, 5000) for name in "xy"})
    found = told(World(domain, frame))
    assert not any("It finds nothing" in one or "It does not learn" in one for one in found["lacks"])
    assert len(found["by_pair"]) == 1


def test_values_inside_bins_are_said_to_go_with_nothing() -> None:
    domain = Domain((IntegerAttribute("age", 0, 99), *WIDE.domain.attributes))
    frame = WIDE.frame.assign(age=np.random.default_rng(2).integers(0, 100, len(WIDE.frame)))
    lacks = told(World(domain, frame), epsilon=0.5)["lacks"]
    assert any("Values inside a group of neighbouring values" in one and "age" in one for one in lacks)


def test_it_stands_on_the_page_of_a_session(tmp_path: Any) -> None:
    with WIDE.opened(opening="pairs", seed=1) as session:
        session.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Expected errors, by pair of attributes, the widest first" in page
    assert isinstance(session, pmw.Session)
