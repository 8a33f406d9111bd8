"""The clipping bound of a sum by AboveThreshold, from lists of any length at one price; by noisy sums beside.

The query at bound b is the sum clipped at b minus the sum clipped at b + 1, of sensitivity 1; T = 0. True
numbers are shown beside: for public data only. --seed N repeats the noise: without privacy.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from applications.clipping import clipping_bound, clipping_queries, naive_clipping_bound

import pmw
from pmw.cli.demo import fertility_table
from pmw.display.figures import new_figure, tidy, write_figure
from pmw.privacy.random_bits import BitSource, fresh_seed
from pmw.sparse_vector import AboveThreshold

RUNS, EPSILON, SHORT, LONG = 20, 0.1, range(1, 150, 5), range(1, 150_000, 5)
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--csv", type=Path, help="a table of your own")
parser.add_argument("--column", default="work", help="its column of whole numbers")
parser.add_argument("--seed", type=int, help="repeatable noise, without privacy")
parser.add_argument("--plot", type=Path, metavar="DIR", help="write both pictures there (extra `plots`)")
options = parser.parse_args()
try:
    table = pd.read_csv(options.csv) if options.csv else fertility_table()
except pmw.DataError:  # without the extra `demo`: made-up weeks of work
    weeks = np.random.default_rng(1).binomial(52, [[0.03], [0.4], [0.97]], (3, 80_000))
    table = pd.DataFrame({"work": weeks.ravel()})
values = pd.to_numeric(table[options.column], errors="coerce").fillna(0).astype("int64").to_numpy()
bits = BitSource(fresh_seed()) if options.seed is None else BitSource.from_integer(options.seed)

algorithm = AboveThreshold.textbook(epsilon=EPSILON)
print(f"{len(values):,} values of {options.column}, the largest {values.max():,}; {RUNS} runs each")
print(f"{'':>24}AboveThreshold at epsilon = {EPSILON:<6} noisy sums at {EPSILON:<6} for the same")
print("bounds          length  bound: median (range)   beyond it   median (range)    noise, epsilon")
LISTS = {"1, 6 .. 146": SHORT, "1, 2 .. 149": range(1, 150), "1, 6 .. 149,996": LONG}
for name, bounds in (LISTS | {"1, 2, 4 .. 2^20": [2**power for power in range(21)]}).items():
    chosen = [clipping_bound(values, bounds, algorithm, bits=bits) or bounds[-1] for _ in range(RUNS)]
    naive = [naive_clipping_bound(values, bounds, epsilon=EPSILON, bits=bits) for _ in range(RUNS)]
    ours, theirs = (f"{np.median(x):,.0f} ({min(x):,}..{max(x):,})" for x in (chosen, naive))
    beyond, price = (values > np.median(chosen)).mean(), EPSILON * len(bounds)
    print(f"{name:<15}{len(bounds):>7,}  {ours:<23} {beyond:>8.2%}   {theirs:<22}{price:>8,.1f}")
print(f"AboveThreshold costs {float(algorithm.epsilon):g} on every line: a longer list costs no more")

if options.plot:
    options.plot.mkdir(parents=True, exist_ok=True)
    bounds = SHORT if values.max() < 150 else LONG
    chosen = [clipping_bound(values, bounds, algorithm, bits=bits) or bounds[-1] for _ in range(RUNS)]
    change = {"xlabel": "bound b", "ylabel": "S(b) - S(b + 1)", "title": "Clipped sum, less the next"}
    runs = {"xlabel": "chosen bound b", "ylabel": "runs", "title": f"Bounds chosen in {RUNS} runs"}
    for name, labels in (("change", change), ("chosen", runs)):
        axes = (figure := new_figure(6, 4)).subplots()
        _ = axes.hist(chosen) if name == "chosen" else axes.plot(bounds, clipping_queries(values, bounds))
        axes.set(**labels)
        tidy(axes)
        write_figure(figure, options.plot / f"{name}.png", force=True)
