"""The sparse vector algorithms and theorems of the literature by their names there, on one list of counts.

The counts are made up and the noise is seeded, so that this script always prints the same: no privacy.
"""

from operator import itemgetter

import numpy as np
from applications import near_abuah

from pmw import sparse_vector
from pmw.planning import theorems
from pmw.privacy.random_bits import BitSource
from pmw.research import sparse_vectors

EPSILON, C, T, BETA = 1, 3, 1_000, 0.05
counts = np.random.default_rng(1).integers(0, 300, 40)
counts[[6, 17, 23]] = 1_900, 2_500, 2_200
k, limits = len(counts), np.full(len(counts), T)
bits = BitSource.from_integer(1)
print(f"{k} counts, those at 6, 17 and 23 above T = {T:,}; epsilon = {EPSILON}, c = {C}")

# The names of Near and Abuah; each query is a function of the table.
queries = [itemgetter(place) for place in range(k)]
print("above_threshold:", near_abuah.above_threshold(queries, counts, T, EPSILON, bits=bits))
random_place = near_abuah.above_threshold(queries, counts, 9_000, EPSILON, bits=bits)
print("above_threshold, none above:", random_place, "at random")
signal = near_abuah.above_threshold_fail_signal(queries, counts, 9_000, EPSILON, bits=bits)
print("above_threshold_fail_signal, none above:", signal)
naive = near_abuah.naive_above_threshold(queries, counts, T, EPSILON / k, bits=bits)
print(f"naive_above_threshold: {naive}, epsilon = {EPSILON / k} for each of {k}")
print("sparse:", near_abuah.sparse(queries, counts, C, T, EPSILON, bits=bits))

# The name in Kamath's notes and in Machanavajjhala's slides.
numeric = sparse_vector.NumericSparse.textbook(epsilon=EPSILON, update_limit=C)
found, values = numeric.run(counts, limits, bits)
print("NumericSparse:", np.flatnonzero(found), "with values", values)

# The names of Lyu, Su and Li, Table 2.
split = sparse_vector.Split.of(sparse_vector.Ratio.OPTIMAL_MONOTONE, epsilon=EPSILON, update_limit=C)
standard = sparse_vectors.algorithm_7(sparse_vector.Comparison(monotone=True), split, C)
book = sparse_vectors.algorithm_2(epsilon=EPSILON, update_limit=C)
for name, tests in (("SVT-DPBook", book), ("SVT-S-1:c^(2/3)", standard)):
    scales = [round(float(scale), 2) for scale in (tests.test.threshold_scale, tests.test.query_scale)]
    print(f"{name}: {np.flatnonzero(tests.run(counts, limits, bits))}, noise of T and of tests {scales}")
again = sparse_vectors.Retraversal.of(standard, deviations=2)
print("SVT-ReTr, 2D:", np.sort(again.select(counts, limits, bits)))
chooser = sparse_vectors.TopC.of(epsilon=EPSILON, count=C, monotone=True)
print("EM:", np.sort(chooser.select(counts, bits)))

print(f"What the theorems promise for k = {k} and beta = {BETA}, in records:")
print(f"AboveThreshold: {theorems.above_threshold_accuracy(k, epsilon=EPSILON, beta=BETA):,.1f}")
for delta in (0.0, 1e-9):
    alpha = theorems.sparse_accuracy(k, C, epsilon=EPSILON, delta=delta, beta=BETA)
    valued = theorems.numeric_sparse_accuracy(k, C, epsilon=EPSILON, delta=delta, beta=BETA)
    print(f"delta = {delta:g}: Sparse {alpha:,.1f}, NumericSparse {valued:,.1f}")
online = theorems.online_pmw_accuracy(k, records=10**7, cells=1_000, epsilon=EPSILON, delta=1e-9, beta=BETA)
print(f"online private multiplicative weights, 10,000,000 records: {online.error:,.0f}")
