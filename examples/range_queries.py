"""Range queries worth answering: Sparse finds the large ranges, and only those are paid for.

Half of epsilon finds at most c ranges of T records or more, half answers them. True counts are shown beside:
for public data only. --seed N repeats the noise: without privacy.
"""

import argparse
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd

import pmw
from pmw.cli.demo.table import fertility_table
from pmw.privacy.random_bits import BitSource, fresh_seed
from pmw.research.applications import range_counts, range_query_svt
from pmw.sparse_vector import Sparse

EPSILON, LIMIT = 1, 5
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--csv", type=Path, help="a table of your own")
parser.add_argument("--column", default="age", help="its column of whole numbers")
parser.add_argument("--threshold", type=int, default=90_000, help="T, in records")
parser.add_argument("--seed", type=int, help="repeatable noise, without privacy")
options = parser.parse_args()
try:
    table = pd.read_csv(options.csv) if options.csv else fertility_table()
except pmw.DataError:  # without the extra `demo`: made-up ages
    table = pd.DataFrame({"age": 21 + np.random.default_rng(1).binomial(14, 0.67, 250_000)})
values = pd.to_numeric(table[options.column], errors="coerce").fillna(0).astype("int64").to_numpy()
threshold: int = options.threshold
bits = BitSource(fresh_seed()) if options.seed is None else BitSource.from_integer(options.seed)

ages = np.random.default_rng(3).integers(18, 60, (400, 2))  # chosen without looking at the data
ranges = np.sort(ages, axis=1)[np.abs(np.diff(ages, axis=1)[:, 0]) <= 8]
counts = range_counts(values, ranges)
tests = Sparse.textbook(epsilon=Fraction(EPSILON, 2), update_limit=LIMIT)
answers = range_query_svt(values, ranges, tests, threshold=threshold, epsilon=Fraction(EPSILON, 2), bits=bits)
large = (counts >= threshold).sum()
print(f"{len(ranges)} ranges of {options.column}, {large} of them with {threshold:,} records or more")
for answer in answers:
    true = counts[answer.place]
    print(f"range {answer.place:>3}: {answer.low} to {answer.high}: {answer.count:,} (true {true:,})")
print(f"noise per answer: scale {answers[0].scale:g} records" if answers else "no range was found")
print(f"if each of the {len(ranges)} were answered: scale {len(ranges) / EPSILON:g} records")
