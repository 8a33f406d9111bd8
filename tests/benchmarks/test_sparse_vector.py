"""The sparse vector benchmark: margins, what methods select, and its lines, tables and figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks import sparse_vector
from benchmarks.sparse_margins import (
    APPROXIMATE,
    PURE,
    STREAMS,
    TEXTBOOK,
    THEOREM,
)
from benchmarks.sparse_selection import (
    METHODS,
    Floats,
    Kept,
    Plan,
    Task,
    error_rates,
    read_counts,
    selection_lines,
)
from pmw.sparse_vector import NoiseKind, Ratio


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.delenv("PMW_DATA_DIR", raising=False)
    monkeypatch.setattr("sys.argv", ["sparse_vector", *arguments])
    sparse_vector.main()


def test_absent_counts_are_named_and_the_others_selected_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ("--limit", "25", "--runs", "1", "--text")
    command(monkeypatch, "--part", "selection", "--counts", "zipf_1m_10k", "--counts", "retail", *few)
    printed = capsys.readouterr()
    assert "skipped retail: no data folder; give --data-dir" in printed.err
    assert "zipf_1m_10k (exact), epsilon 0.1 (the paper's):\nfalse negative rate (FNR)" in printed.out
    assert all(len(row) <= 100 for row in printed.out.splitlines())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--part", "margins"), "leave out --part"),
        (("--counts", "retail"), "no counts to draw"),
        (("--counts", "zipf_1m_10k", "--limit", "10000"), "nothing to draw"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    words: str,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        command(monkeypatch, "--figure", "4", *arguments)
    assert ended.value.code not in (0, None)
    assert words in capsys.readouterr().err + str(ended.value.code)


# --- sparse margins -------------------------------------------------------------------------------------


# Margins at beta 0.05, computed apart from this program; in the order of STREAMS.
PURE_MARGINS = {
    THEOREM: (1216, 6724, 29116, 1585, 8567, 36484),
    TEXTBOOK: (361, 1964, 8402, 453, 2426, 10266),
    "Lyu-Su-Li Algorithm 1 (1:1)": (350, 1908, 8177, 442, 2367, 10033),
    "Lyu-Su-Li Algorithm 7, 1:(2c)^(2/3)": (202, 1002, 4175, 254, 1244, 5117),
    "exponential noise": (155, 689, 2601, 206, 932, 3557),
    "Lyu-Su-Li Algorithm 7, 1:c^(2/3), monotone": (109, 516, 2112, 137, 640, 2588),
    "exponential noise, monotone": (84, 360, 1333, 111, 483, 1815),
}
APPROXIMATE_MARGINS = {
    THEOREM: (4952, 12245, 26509, 6452, 15599, 33217),
    TEXTBOOK: (1469, 3577, 7650, 1843, 4417, 9346),
    "textbook split, composed exactly": (361, 1450, 3226, 453, 1790, 3942),
    "redrawn Laplace": (306, 1239, 2776, 374, 1492, 3300),
    "redrawn Laplace, monotone": (202, 823, 1844, 244, 989, 2202),
    "redrawn exponential": (262, 1056, 2344, 328, 1309, 2890),
    "redrawn exponential, monotone": (168, 691, 1557, 205, 835, 1870),
    "Gaussian (Zhu and Wang)": (351, 1464, 5137, 486, 2192, 8370),
    "Laplace, no threshold noise": (390, 721, 1360, 492, 895, 1667),
    "sech^2": (153, 468, 1053, 200, 617, 1395),
    "sech^2, monotone": (84, 247, 544, 108, 323, 718),
}
# 1 %; two of the other program's splits were searched more coarsely, and ours are up to 1.5 % below.
ABOVE, BELOW = 0.01, 0.016


def agrees(found: float, expected: float) -> bool:
    return (1 - BELOW) * expected - 0.5 <= found <= (1 + ABOVE) * expected + 0.5


@pytest.mark.parametrize(
    ("name", "delta"), [(name, 0) for name in PURE_MARGINS] + [(name, 1) for name in APPROXIMATE_MARGINS]
)
@pytest.mark.parametrize(
    "place", [pytest.param(place, marks=[pytest.mark.slow] if place else []) for place in range(6)]
)
def test_margins_are_those_computed_apart(name: str, delta: int, place: int) -> None:
    rows, margins = ((PURE, PURE_MARGINS), (APPROXIMATE, APPROXIMATE_MARGINS))[delta]
    assert list(rows) == list(margins)
    if place or name not in ("sech^2", "sech^2, monotone", "Laplace, no threshold noise"):  # which take long
        assert agrees(rows[name](STREAMS[place])[0], margins[name][place])


# The scales that the table prints, at epsilon 1 and c = 3.


# --- sparse selection -----------------------------------------------------------------------------------


RUNS = 20_000


def selected(name: str, task: Task, scores: list[float], runs: int = RUNS) -> NDArray[np.bool_]:
    shown: Floats = np.tile(np.array(scores), (runs, 1))
    return METHODS[name].select(task, shown, np.random.default_rng(7))


def test_error_rates_by_hand() -> None:
    scores = np.tile(np.array([1.0, 10.0, 6.0, 4.0, 4.0]), (4, 1))  # the top 3: 10, 6 and a 4
    mask = np.array([[0, 1, 1, 1, 0], [0, 1, 0, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], dtype=np.bool_)
    rates = error_rates(mask, scores, 3)
    assert list(rates["fnr"]) == pytest.approx([0, 0, 2 / 3, 1])  # either 4 will do
    assert list(rates["ser"]) == pytest.approx([0, 1 - 6 / (20 / 3), 1 - 5.5 / (20 / 3), 1])
    assert list(rates["ser_filled"]) == pytest.approx([0, 1 - 18 / 20, 1 - 11 / 20, 1])


@pytest.mark.parametrize("name", sorted(METHODS))
def test_no_method_selects_more_than_c_and_every_one_is_right_when_epsilon_is_large(name: str) -> None:
    counted = selected(name, Task(2, 5.0, 0.1), [9.0, 7.0, 6.0, 4.0, 1.0, 0.0], 500).sum(axis=1)
    assert counted.max() == 2
    if not METHODS[name].online:
        assert counted.min() == 2
    mask = selected(name, Task(2, 500.0, 1.0), [100.0, 900.0, 120.0, 1000.0], 200)
    assert (mask == [False, True, False, True]).mean() > 0.99


@pytest.mark.parametrize("distribution", list(NoiseKind))
def test_kept_noise_is_priced_for_counts_and_exponential_noise_alone_moves_the_threshold(
    distribution: NoiseKind,
) -> None:
    test = Kept(distribution, Ratio.ONE_TO_THREE).sparse(Task(10, 0.0, 0.1)).test
    assert (float(test.threshold_scale), float(test.query_scale)) == pytest.approx((40, 400 / 3))
    moved = 200 - 20 if distribution is NoiseKind.EXPONENTIAL else 0
    for centred in (True, False):
        threshold = Kept(distribution, Ratio.EVEN, centred=centred).threshold(Task(10, 100.0, 0.1))
        assert threshold == 100 + moved * centred


@pytest.mark.statistical
def test_the_exponential_mechanism_selects_by_its_weights() -> None:
    mask = selected("exponential mechanism", Task(1, 0.0, 0.5), [4.0, 2.0, 0.0])
    weights = np.exp(0.5 * np.array([4.0, 2.0, 0.0]))
    assert mask.mean(axis=0) == pytest.approx(weights / weights.sum(), abs=0.015)


@pytest.mark.statistical
def test_the_textbook_draws_a_threshold_for_each_positive() -> None:
    # Two equal scores at T, c = 2: with one threshold for both, they pass together more often.
    both = selected("textbook Sparse", Task(2, 0.0, 1.0), [0.0, 0.0]).all(axis=1).mean()
    assert both == pytest.approx(1 / 4, abs=0.015)


def test_a_prefix_is_run_at_the_epsilon_given_and_at_the_scaled_one(tmp_path: Path) -> None:
    (tmp_path / "svt").mkdir()
    file = tmp_path / "svt" / "kosarak_first100k.npz"
    np.savez(file, count=np.arange(0, 600, 10), n_records=np.int64(100_000))
    kosarak = read_counts("kosarak_first100k", tmp_path)
    assert (kosarak.data_is, list(kosarak.scores[:2])) == ("prefix", [590, 580])
    lines = list(selection_lines(kosarak, Plan((5,), runs=3, epsilon=0.1, methods=("Laplace 1:1",))))
    assert [(line["epsilon_is"], line["data_is"]) for line in lines] == [
        ("the paper's", "prefix"), ("x 9.90, for the records missing", "prefix"),
    ]  # fmt: skip
    assert lines[1]["epsilon"] == pytest.approx(0.99, abs=1e-3)
