"""The values of a session repeat, and one that differs is found, with how far its ends moved."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.values import WORLDS, compared, measured


def test_a_session_has_the_same_values_again() -> None:
    one, two = (measured(WORLDS["small"], 1) for _ in range(2))
    assert set(one) == set(two) >= {"single", "stream", "arrays", "ledger", "quantiles", "rows"}
    for part, columns in one.items():
        assert list(compared(columns, two[part])) == []
    assert {"count", "ends", "source", "version", "share", "kind"} <= set(one["arrays"])


def test_a_value_that_differs_is_found() -> None:
    before = {"count": np.array([1.0, 2.0]), "source": np.array(["measured", "synthetic"])}
    after = {"count": np.array([1.0, 2.5]), "source": np.array(["measured", "measured"])}
    count, source = compared(before, after)
    assert (count["column"], count["equal"], count["elsewhere"]) == ("count", 1, 1)
    assert count["largest"] == pytest.approx(0.25)
    assert (source["column"], source["different"]) == ("source", 1)
    assert [line["only"] for line in compared(before, {"count": before["count"]})] == ["before"]


def test_ends_are_told_by_how_they_moved() -> None:
    nan = np.nan
    before = np.array([[0, 10], [0, 10], [0, 10], [0, 10], [0, 10], [0, 10], [nan, nan]], dtype=np.float64)
    after = before + np.array([[0, 0], [0, 1e-12], [1, -1], [-1, 2], [1, 1], [nan, nan], [0, 0]])
    after[6] = 0, 1
    (line,) = compared({"ends": before}, {"ends": after})
    kinds = "equal", "close", "narrower", "wider", "elsewhere", "lost", "gained"
    assert [line[kind] for kind in kinds] == [1] * 7
    assert line["width"] == [0.8, 1.3]
