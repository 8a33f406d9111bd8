"""Has each of a list of cohorts at least T members? By Sparse, and by Laplace noise on every count.

Sparse halts after c large cohorts, and its accuracy hardly falls with the number of cohorts; "tuned" is its
Algorithm 7 with exponential noise on counts, at the same price. alpha is what the theorems promise at beta,
worst the distance from T of a wrong answer, wrong their number per run. True errors are shown: for public
data only. --seed N repeats the noise: without privacy.
"""

import argparse

import numpy as np
from applications.large_counts import laplace_cohorts, sparse_cohorts
from numpy.typing import NDArray

import pmw
import queries
from pmw.cli.demo import fertility_domain, fertility_table
from pmw.planning.theorems import laplace_accuracy, sparse_accuracy
from pmw.privacy.random_bits import BitSource, fresh_seed
from pmw.research.sparse_vectors import algorithm_7
from pmw.sparse_vector import Comparison, NoiseKind, Ratio, Sparse, Split

EPSILON, BETA, LIMIT, THRESHOLD, RUNS = 1, 0.05, 20, 12_000, 10
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--seed", type=int, help="repeatable noise, without privacy")
options = parser.parse_args()
bits = BitSource(fresh_seed()) if options.seed is None else BitSource.from_integer(options.seed)
domain = fertility_domain()
try:
    cells = np.ravel_multi_index(queries.encode_records(fertility_table(), domain).columns, domain.shape)
except pmw.DataError:  # without the extra `demo`: made-up women of the same domain
    cells = (np.random.default_rng(1).random(250_000) ** 3 * domain.size).astype(np.int64)

histogram = queries.Histogram(domain, np.bincount(cells, minlength=domain.size).reshape(domain.shape))
stream = queries.random_conjunctions(domain, 5_400, seed=1, most_attributes=8)
cohorts = [cohort for cohort in stream if len(cohort.scope) >= 6]
sizes = np.array([cohort.answer(histogram) // queries.UNITS for cohort in cohorts])


def mistakes(sizes: NDArray[np.int64], runs: list[NDArray[np.bool_]]) -> str:
    pairs = [(sizes[: len(answers)], answers) for answers in runs]
    wrong = np.concatenate([abs(asked - THRESHOLD)[said != (asked >= THRESHOLD)] for asked, said in pairs])
    return f"{wrong.max(initial=0):>8,} {len(wrong) / RUNS:>6.2f}"


counts = Comparison(NoiseKind.EXPONENTIAL, monotone=True)
split = Split.of(Ratio.OPTIMAL_MONOTONE, epsilon=EPSILON, update_limit=LIMIT)
tests, tuned = Sparse.textbook(epsilon=EPSILON, update_limit=LIMIT), algorithm_7(counts, split, LIMIT)
print(f"at least T = {THRESHOLD:,}? epsilon = {EPSILON}, c = {LIMIT}, {RUNS} runs; beta = {BETA}; in records")
print("cohorts  large  asked Sparse: alpha  worst  wrong  tuned: worst  wrong  Laplace: alpha  worst  wrong")
for k in (30, 100, 300, 1000, 2000):
    first = sizes[:k]
    ours = [sparse_cohorts(first, tests, threshold=THRESHOLD, bits=bits) for _ in range(RUNS)]
    best = [sparse_cohorts(first, tuned, threshold=THRESHOLD, bits=bits) for _ in range(RUNS)]
    naive = [laplace_cohorts(first, epsilon=EPSILON, threshold=THRESHOLD, bits=bits) for _ in range(RUNS)]
    facts = f"{k:>7,} {(first >= THRESHOLD).sum():>6} {np.mean([len(answers) for answers in ours]):>6,.0f}"
    promised = sparse_accuracy(k, LIMIT, epsilon=EPSILON, beta=BETA)
    print(f"{facts} {promised:>12,.0f}{mistakes(first, ours)}     {mistakes(first, best)}", end="")
    print(f" {laplace_accuracy(k, epsilon=EPSILON, beta=BETA):>15,.0f}{mistakes(first, naive)}")
