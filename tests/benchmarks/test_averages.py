"""The averages benchmark: a line for each method, whose figures are those of its own truth; and its peer."""

from __future__ import annotations

import json

import pytest

from benchmarks import averages

METHODS = {"today", "opened", "measured", "dialogue", "asked", "peer", "peer whole", "peer split"}


def test_each_method_has_a_line_a_question(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--table", "costs-5", "--opening", "one-way", "--share", "0.2", "--seeds", "1"]
    monkeypatch.setattr("sys.argv", ["averages", *given])
    averages.main()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(line["method"], *line["by"]) for line in lines} == {
        (method, *by) for method in METHODS for by in ((), ("region",))
    }
    (measured,) = [line for line in lines if line["method"] == "measured" and not line["by"]]
    (today,) = [line for line in lines if line["method"] == "today" and not line["by"]]
    assert measured["relative"] < 0.02 < today["relative"]
    assert measured["bar"] < 0.05 < today["bar"]
    assert measured["bars"] == measured["held"] == 1


def test_the_peers_scales_cost_the_price_and_no_other_split_is_better() -> None:
    most, records, off, price = 30.0, 2, 6.0, 0.05
    a, b = averages.peer_scales(most, records, off, price)
    assert most**2 / a**2 + records**2 / b**2 == pytest.approx(price)
    best = a**2 + off**2 * b**2
    for part in (0.2, 0.5, 0.9):
        other = most**2 / (part * price) + off**2 * records**2 / ((1 - part) * price)
        assert other >= best * (1 - 1e-12)
