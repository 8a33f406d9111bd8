"""Averages of columns on different scales with the same call: auto_avg finds the clipping bound by itself.

A third of epsilon each for the bound (AboveThreshold), the clipped sum and the count. With T = 0 the search
may run past the first bound that cuts nothing, which is dear where bounds double; a firm T < 0 stops it there
and may cut a few records. True averages are shown beside: for public data only. --seed: without privacy.
"""

import argparse
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd

import pmw
from pmw.cli.demo.table import fertility_table
from pmw.privacy.random_bits import BitSource, fresh_seed
from pmw.research.applications import auto_avg, firm_threshold
from pmw.sparse_vector import AboveThreshold

EPSILON, RUNS = 1, 10
LINEAR, DOUBLING = range(1, 150_000, 5), [2**power for power in range(21)]
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--csv", type=Path, help="a table of your own")
parser.add_argument("--column", action="append", help="a column of whole numbers; may be repeated")
parser.add_argument("--seed", type=int, help="repeatable noise, without privacy")
options = parser.parse_args()
try:
    table = pd.read_csv(options.csv) if options.csv else fertility_table()
except pmw.DataError:  # without the extra `demo`: made-up weeks of work
    weeks = np.random.default_rng(1).binomial(52, [[0.03], [0.4], [0.97]], (3, 80_000))
    table = pd.DataFrame({"work": weeks.ravel()})
if not options.csv:
    table["minutes"] = table["work"] * 40 * 60  # the same in minutes, at 40 hours a week
bits = BitSource(fresh_seed()) if options.seed is None else BitSource.from_integer(options.seed)

firm = firm_threshold(AboveThreshold.textbook(epsilon=Fraction(EPSILON, 3)), confidence=0.95)
SEARCHES = (("steps of 5", LINEAR, 0), ("doubling", DOUBLING, 0), ("doubling", DOUBLING, firm))
print(
    f"epsilon = {EPSILON}; {len(LINEAR):,} bounds in steps of 5 or {len(DOUBLING)} that double; {RUNS} runs"
)
print("column         bounds        T  true average  released   off by  clipped at: median (range)")
for column in options.column or ["work", "minutes"]:
    values = pd.to_numeric(table[column], errors="coerce").fillna(0).astype("int64").to_numpy()
    true = values.clip(min=0).mean()
    for name, bounds, threshold in SEARCHES:
        runs = [
            auto_avg(values, bounds, epsilon=EPSILON, threshold=threshold, bits=bits) for _ in range(RUNS)
        ]
        clips = [run.bound for run in runs]
        off = np.mean([abs(run.average - true) for run in runs]) / true
        print(
            f"{column:<14} {name:<10} {threshold:>4} {true:>13,.2f} {runs[0].average:>9,.2f} {off:>8.2%}"
            f"  {np.median(clips):,.0f} ({min(clips):,}..{max(clips):,})"
        )
