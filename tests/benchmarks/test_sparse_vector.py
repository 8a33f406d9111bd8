"""The sparse vector benchmark: margins, what methods select, and its lines, tables and figures."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

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
    Scales,
    Stream,
    log_success,
    margin_lines,
)
from benchmarks.sparse_selection import (
    EXACT_NOISE,
    METHODS,
    NOISE,
    Counts,
    Floats,
    Kept,
    Plan,
    Task,
    error_rates,
    read_counts,
    selection_lines,
    task_for,
    zipf_counts,
)
from benchmarks.sparse_vector import VARIANTS, closed_form_lines, exponential_mechanism_accuracy
from pmw.privacy.random_bits import BitSource
from pmw.research.audit import flawed
from pmw.research.sparse_vectors import Retraversal, algorithm_1, algorithm_2
from pmw.sparse_vector import NoiseKind, Ratio


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.delenv("PMW_DATA_DIR", raising=False)
    monkeypatch.setattr("sys.argv", ["sparse_vector", *arguments])
    sparse_vector.main()


def test_lines_are_json_and_end_with_their_cost(run: Callable[..., list[Any]]) -> None:
    lines = run(sparse_vector, "--part", "variants")
    assert [line["algorithm"] for line in lines[:-1]] == [1, 2, 3, 4, 5, 6, 7]
    assert lines[-1]["part"] == "cost"


def test_absent_counts_are_named_and_the_others_selected_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ("--limit", "25", "--runs", "1", "--text")
    command(monkeypatch, "--part", "selection", "--counts", "zipf_1m_10k", "--counts", "retail", *few)
    printed = capsys.readouterr()
    assert "skipped retail: no data folder; give --data-dir" in printed.err
    assert (
        "zipf_1m_10k (exact), epsilon 0.1 (the paper's):\nfalse negative rate (FNR), by c: mean (sd)"
        in printed.out
    )
    assert "score error rate over what was selected (SER, as the paper defines it)" in printed.out
    assert "score error rate, empty places as 0 (filled)" in printed.out
    assert all(len(row) <= 100 for row in printed.out.splitlines())
    assert "exponential mechanism" in printed.out


def test_a_figure_of_the_paper_is_drawn_under_its_number(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    few = ("--limit", "25", "--limit", "50", "--runs", "2", "--text")
    command(monkeypatch, "--figure", "3", "--figure", "4", *few)
    printed = capsys.readouterr()
    assert [path.name for path in sorted((tmp_path / "figures").iterdir())] == [
        "figure-3.png",
        "figure-4.png",
    ]
    assert "textbook" in printed.out
    assert "retraversal" not in printed.out  # the methods of Figure 4 alone
    assert "skipped kosarak_first100k: no data folder" in printed.err
    assert printed.err.endswith("wrote figures/figure-3.png\nwrote figures/figure-4.png\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--figure", "4", "--part", "margins"), "leave out --part"),
        (("--figure", "2"), "--figure"),
        (("--limit", "0"), "--limit"),
        (("--figure", "4", "--counts", "retail"), "no counts to draw"),
        (("--figure", "4", "--counts", "zipf_1m_10k", "--limit", "10000"), "nothing to draw"),
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
        command(monkeypatch, *arguments)
    assert ended.value.code not in (0, None)
    assert words in capsys.readouterr().err + str(ended.value.code)


def test_the_flawed_proof_would_convict_algorithm_1(run: Callable[..., list[Any]]) -> None:
    *lines, _ = run(sparse_vector, "--part", "flawed-proof")
    found = {line["negatives"]: line["log_ratio"] for line in lines}
    assert list(found.values()) == sorted(found.values())
    assert found[8] < 0.499
    assert found[16] == found[1024] == 0.5  # epsilon/2, to four digits
    assert all(line["argued"] <= line["log_ratio"] for line in lines)
    assert lines[-1]["argued_if_fixed"] > 200
    windows = [line["window"] for line in lines]
    assert windows == sorted(windows)
    factors = [line["least_factor"] for line in lines]
    assert factors == sorted(factors, reverse=True)


# --- sparse margins -------------------------------------------------------------------------------------


@pytest.mark.parametrize("distribution", ["laplace", "exponential"])
def test_success_agrees_with_draws(distribution: str) -> None:
    scales, stream = Scales(distribution, 5.0, distribution, 8.0), Stream(40, 4)
    alpha, shift = 30.0, 3.0
    generator = np.random.default_rng(1)
    draw = generator.laplace if distribution == "laplace" else generator.exponential
    rho, nu = draw(size=(20_000, 1)) * 5, draw(size=(20_000, 40)) * 8
    values = np.where(np.arange(40) < 4, alpha, -alpha)
    right = ((values + nu >= shift + rho) == (values > 0)).all(axis=1)
    expected = math.exp(log_success(scales, stream, alpha, shift))
    assert 0.2 < expected < 0.95
    assert right.mean() == pytest.approx(expected, abs=5 * math.sqrt(0.25 / 20_000))


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
    if place or name not in ("sech^2", "Laplace, no threshold noise"):  # which take long
        assert agrees(rows[name](STREAMS[place])[0], margins[name][place])


def test_lines_compare_with_the_textbook(monkeypatch: pytest.MonkeyPatch) -> None:
    short = dict(list(PURE.items())[:3])
    monkeypatch.setattr("benchmarks.sparse_margins.PURE", short)
    monkeypatch.setattr("benchmarks.sparse_margins.APPROXIMATE", short)
    lines = list(margin_lines(STREAMS[:1]))
    assert [line["textbook_over_margin"] for line in lines[:3]] == pytest.approx([0.3, 1, 1.03], abs=0.005)
    assert {line["delta"] for line in lines} == {0.0, 1e-9}


# The scales that the table prints, at epsilon 1 and c = 3.
SCALES = {
    "0": None,
    "2/e": Fraction(2),
    "4/e": Fraction(4),
    "4/(3e)": Fraction(4, 3),
    "2c/e": Fraction(6),
    "4c/e": Fraction(12),
}


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 6])
def test_the_table_prints_the_scales_of_the_algorithms(number: int) -> None:
    variant = VARIANTS[number - 1]
    printed = SCALES[str(variant["threshold_scale"])], SCALES[str(variant["test_scale"])]
    if number < 3:
        sparse = (algorithm_1, algorithm_2)[number - 1](epsilon=1, update_limit=3)
        assert (sparse.test.threshold_scale, sparse.test.query_scale) == printed
        assert sparse.redraw == variant["redrawn"]
        return
    limit = {"update_limit": 3} if number < 5 else {}
    published = getattr(flawed, f"algorithm_{number}")(epsilon=1, **limit)
    noise = published.query_noise
    assert (published.threshold_noise.scale, None if noise is None else noise.scale) == printed
    assert (published.update_limit is not None) == variant["stops"]
    assert published.releases == (variant["tells"] != "above")


def test_the_exponential_mechanism_finds_the_best_with_probability_one_minus_beta() -> None:
    alpha = exponential_mechanism_accuracy(1000, epsilon=0.5, beta=0.1)
    weight = math.exp(0.5 * alpha)
    assert weight / (999 + weight) == pytest.approx(0.9)


def test_closed_forms_agree_with_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_vector, "CLOSED_FORMS", (100, 10**6))
    # alpha_svt = 8 (ln k + ln(2/beta)), alpha_em = ln(k - 1) + ln((1 - beta)/beta): less than an eighth.
    for line in closed_form_lines():
        ratio, exact = line["ratio"], line["alpha_svt_exact"]
        assert isinstance(ratio, float)
        assert ratio > 8
        assert isinstance(exact, float)
        assert exact < float(str(line["alpha_svt"])) / 2.9  # the theorem is a union bound, and a loose one
        assert exact > 2 * float(str(line["alpha_em"]))  # and yet the finding holds for what really happens


# --- sparse selection -----------------------------------------------------------------------------------


RUNS = 20_000


def selected(name: str, task: Task, scores: list[float], runs: int = RUNS) -> NDArray[np.bool_]:
    shown: Floats = np.tile(np.array(scores), (runs, 1))
    return METHODS[name].select(task, shown, np.random.default_rng(7))


def test_zipf_counts_sum_to_the_records_and_fall_as_one_over_rank() -> None:
    counts = zipf_counts()
    assert counts.sum() == 1_000_000
    assert (np.diff(counts) <= 0).all()
    assert list(counts[[0, 1, 24, 99, 299, 300]]) == [102170, 51085, 4087, 1022, 341, 339]


def test_error_rates_by_hand() -> None:
    scores = np.tile(np.array([1.0, 10.0, 6.0, 4.0, 4.0]), (4, 1))  # the top 3: 10, 6 and a 4
    mask = np.array([[0, 1, 1, 1, 0], [0, 1, 0, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], dtype=np.bool_)
    rates = error_rates(mask, scores, 3)
    assert list(rates["fnr"]) == pytest.approx([0, 0, 2 / 3, 1])  # either 4 will do
    assert list(rates["ser"]) == pytest.approx([0, 1 - 6 / (20 / 3), 1 - 5.5 / (20 / 3), 1])
    assert list(rates["ser_filled"]) == pytest.approx([0, 1 - 18 / 20, 1 - 11 / 20, 1])


def test_the_threshold_lies_between_the_last_wanted_and_the_next_score() -> None:
    assert task_for(np.array([9, 7, 4, 1]), 2, 0.5) == Task(2, 5.5, 0.5)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_no_method_selects_more_than_c(name: str) -> None:
    counted = selected(name, Task(2, 5.0, 0.1), [9.0, 7.0, 6.0, 4.0, 1.0, 0.0], 500).sum(axis=1)
    assert counted.max() == 2
    if not METHODS[name].online:
        assert counted.min() == 2


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_is_right_when_epsilon_is_large(name: str) -> None:
    mask = selected(name, Task(2, 500.0, 1.0), [100.0, 900.0, 120.0, 1000.0], 200)
    assert (mask == [False, True, False, True]).mean() > 0.99


@pytest.mark.parametrize("distribution", list(NoiseKind))
def test_kept_noise_is_priced_for_counts(distribution: NoiseKind) -> None:
    test = Kept(distribution, Ratio.ONE_TO_THREE).sparse(Task(10, 0.0, 0.1)).test
    assert (float(test.threshold_scale), float(test.query_scale)) == pytest.approx((40, 400 / 3))


def test_only_exponential_noise_moves_the_threshold() -> None:
    task = Task(10, 100.0, 0.1)
    assert Kept(NoiseKind.LAPLACE, Ratio.EVEN).threshold(task) == 100
    assert Kept(NoiseKind.EXPONENTIAL, Ratio.EVEN).threshold(task) == 100 + 200 - 20
    assert Kept(NoiseKind.EXPONENTIAL, Ratio.EVEN, centred=False).threshold(task) == 100


@pytest.mark.statistical
def test_the_exponential_mechanism_selects_by_its_weights() -> None:
    mask = selected("exponential mechanism", Task(1, 0.0, 0.5), [4.0, 2.0, 0.0])
    weights = np.exp(0.5 * np.array([4.0, 2.0, 0.0]))
    assert mask.mean(axis=0) == pytest.approx(weights / weights.sum(), abs=0.015)


def test_retraversal_is_the_librarys() -> None:
    task, scores = Task(2, 30.5, 0.2), [40.0, 10.0, 35.0, 0.0]
    generator = np.random.default_rng(7)
    found = METHODS["retraversal +3D"].select(task, np.tile(np.array(scores), (20, 1)), generator)
    generator = np.random.default_rng(7)
    again = Retraversal.of(Kept(NoiseKind.LAPLACE, Ratio.OPTIMAL_MONOTONE).sparse(task), deviations=3)
    for mask in found:
        bits = BitSource.from_integer(int(generator.integers(2**62)))
        places = again.run(np.array([40, 10, 35, 0]), np.full(4, 31), bits)
        assert sorted(places[:, 1]) == list(np.flatnonzero(mask))


@pytest.mark.statistical
def test_the_textbook_draws_a_threshold_for_each_positive() -> None:
    # Two equal scores at T, c = 2: with one threshold for both, they pass together more often.
    both = selected("textbook Sparse", Task(2, 0.0, 1.0), [0.0, 0.0]).all(axis=1).mean()
    assert both == pytest.approx(1 / 4, abs=0.015)


def test_lines_say_what_the_data_and_the_noise_are(capsys: pytest.CaptureFixture[str]) -> None:
    counts = Counts("some", "substitute", np.arange(60, 0, -1))
    lines = list(selection_lines(counts, Plan((5, 60), runs=3)))
    assert len(lines) == len(METHODS)
    assert capsys.readouterr().err == "skipped some at c = 60: it has 60 items\n"
    assert {line["noise"] for line in lines} == {NOISE, EXACT_NOISE}
    assert {line["data_is"] for line in lines} == {"substitute"}
    assert lines[0]["threshold"] == 55.5
    again = selection_lines(counts, Plan((5,), runs=3))
    assert [line["fnr"] for line in again] == [line["fnr"] for line in lines]


def test_a_prefix_is_run_at_the_epsilon_given_and_at_the_scaled_one() -> None:
    counts = Counts("some", "prefix", np.arange(600, 0, -10), 5.0)
    lines = list(selection_lines(counts, Plan((5,), runs=3, epsilon=0.1, methods=("Laplace 1:1",))))
    assert [(line["epsilon"], line["epsilon_is"]) for line in lines] == [
        (0.1, "the paper's"),
        (0.5, "x 5.00, for the records missing"),
    ]
    fnr = [line["fnr"] for line in lines]
    assert fnr[0] != fnr[1]


def test_prefixes_know_how_many_records_they_miss(tmp_path: Path) -> None:
    (tmp_path / "svt").mkdir()
    for name in ("kosarak_first100k", "retail"):
        np.savez(tmp_path / "svt" / f"{name}.npz", count=np.array([3, 9, 4]), n_records=np.int64(100_000))
    kosarak = read_counts("kosarak_first100k", tmp_path)
    assert (kosarak.data_is, round(kosarak.missing, 2)) == ("prefix", 9.90)
    assert list(kosarak.scores) == [9, 4, 3]
    assert read_counts("retail", tmp_path).missing == 1


def test_blocks_of_runs_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.sparse_selection._BLOCK", 130)
    counts = Counts("some", "exact", np.arange(6000, 0, -100))
    lines = {line["method"]: line for line in selection_lines(counts, Plan((1,), runs=5, epsilon=1.0))}
    assert {line["selected"] for line in lines.values()} == {1.0}
    assert lines["exponential mechanism"]["fnr"] == 0
