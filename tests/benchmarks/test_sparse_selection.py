from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.sparse_margins import Floats
from benchmarks.sparse_selection import (
    EXACT_NOISE,
    METHODS,
    NOISE,
    Counts,
    Kept,
    Plan,
    Task,
    error_rates,
    read_counts,
    selection_lines,
    task_for,
    zipf_counts,
)
from benchmarks.tables import TableAbsentError
from pmw.privacy.random_bits import BitSource
from pmw.research.sparse_vectors import Retraversal
from pmw.sparse_vector import NoiseKind, Ratio

RUNS = 20_000


def selected(name: str, task: Task, scores: list[float], runs: int = RUNS) -> NDArray[np.bool_]:
    shown: Floats = np.tile(np.array(scores), (runs, 1))
    return METHODS[name].select(task, shown, np.random.default_rng(7)).mask


def test_zipf_counts_sum_to_the_records_and_fall_as_one_over_rank() -> None:
    counts = zipf_counts()
    assert counts.sum() == 1_000_000
    assert (np.diff(counts) <= 0).all()
    assert list(counts[[0, 1, 24, 99, 299, 300]]) == [102170, 51085, 4087, 1022, 341, 339]


def test_other_counts_are_skipped_where_no_folder_is_named() -> None:
    with pytest.raises(TableAbsentError, match="--data-dir"):
        read_counts("retail", None)


def test_error_rates_by_hand() -> None:
    scores = np.tile(np.array([1.0, 10.0, 6.0, 4.0, 4.0]), (4, 1))  # the top 3: 10, 6 and a 4
    mask = np.array([[0, 1, 1, 1, 0], [0, 1, 0, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], dtype=np.bool_)
    rates = error_rates(mask, scores, 3)
    assert list(rates.fnr) == pytest.approx([0, 0, 2 / 3, 1])  # either 4 will do
    assert list(rates.ser) == pytest.approx([0, 1 - 6 / (20 / 3), 1 - 5.5 / (20 / 3), 1])
    assert list(rates.ser_filled) == pytest.approx([0, 1 - 18 / 20, 1 - 11 / 20, 1])


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
    generator, runs = np.random.default_rng(7), 20
    found = METHODS["retraversal +3D"].select(task, np.tile(np.array(scores), (runs, 1)), generator)
    generator = np.random.default_rng(7)
    sparse = Kept(NoiseKind.LAPLACE, Ratio.OPTIMAL_MONOTONE).sparse(task)
    again = Retraversal.of(sparse, deviations=3)
    for run in range(runs):
        bits = BitSource.from_integer(int(generator.integers(2**62)))
        places = again.run(np.array([40, 10, 35, 0]), np.full(4, 31), bits)
        assert sorted(places[:, 1]) == list(np.flatnonzero(found.mask[run]))
        assert places[-1, 0] == found.passes[run]
    assert np.median(found.passes) > 3


def test_retraversal_goes_on_after_100_passes() -> None:
    # Zipf's 25 highest at five deviations: after 100 passes, a quarter of them would be missing.
    counts = read_counts("zipf_1m_10k", None)
    (line,) = selection_lines(counts, Plan((25,), runs=4, methods=("retraversal +5D",)))
    assert line["selected"] == 25
    assert line["noise"] == EXACT_NOISE
    assert isinstance(line["fnr"], float)
    assert line["fnr"] < 0.12
    passes = line["median_passes"]
    assert isinstance(passes, float)
    assert passes > 100


@pytest.mark.statistical
def test_the_textbook_draws_a_threshold_for_each_positive() -> None:
    # Two equal scores at T, c = 2: with one threshold for both, they pass together more often.
    both = selected("textbook Sparse", Task(2, 0.0, 1.0), [0.0, 0.0]).all(axis=1).mean()
    assert both == pytest.approx(1 / 4, abs=0.015)


@pytest.mark.statistical
@pytest.mark.parametrize("distribution", ["Laplace", "exponential"])
def test_free_values_are_off_by_the_two_noises(distribution: str) -> None:
    task, kind = Task(1, 0.0, 1.0), NoiseKind(distribution.lower())
    shown = np.full((RUNS, 1), 1e6)  # always above: nothing is lost by selection
    name = f"free gap, {distribution} 1:c^(2/3)"
    errors = METHODS[name].select(task, shown, np.random.default_rng(5)).value_errors
    test = Kept(kind, Ratio.OPTIMAL_MONOTONE).sparse(task).test
    variance = (2 if distribution == "Laplace" else 1) * float(test.threshold_scale**2 + test.query_scale**2)
    assert errors.mean() == pytest.approx(0, abs=5 * (variance / RUNS) ** 0.5)
    assert errors.var() == pytest.approx(variance, rel=0.1)


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
