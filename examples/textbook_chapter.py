"""Near and Abuah's chapter on the sparse vector technique, case by case, by its own names of functions.

With --csv a table that has the columns age and capital-gain, such as Adult: the chapter's is its first 32,561
rows. Without it a made-up table. True numbers are shown beside: for public data only. --seed N repeats the
noise: without privacy.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from applications import near_abuah

from pmw.privacy.random_bits import BitSource, fresh_seed

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--csv", type=Path, help="a table of your own")
parser.add_argument("--rows", type=int, default=32_561, help="how many of its rows, from the first")
parser.add_argument("--seed", type=int, help="repeatable noise, without privacy")
options = parser.parse_args()
if options.csv:
    adult = pd.read_csv(options.csv, nrows=options.rows)
    adult.columns = adult.columns.str.replace("-", " ").str.title()
else:
    made_up = np.random.default_rng(1)
    gains = made_up.lognormal(8.8, 1, options.rows) * (made_up.random(options.rows) < 0.08)
    ages = 17 + made_up.gamma(2.5, 8.6, options.rows)
    adult = pd.DataFrame({"Age": ages, "Capital Gain": gains}).clip(upper=[90, 99_999]).astype("int64")
bits = BitSource(fresh_seed()) if options.seed is None else BitSource.from_integer(options.seed)


def show(what: str, here: object, printed: str, true: object = "") -> None:
    print(f"{what:<45} {here!s:<10} {true!s:<10} {printed}")


print(f"{len(adult):,} people, {options.csv.name if options.csv else 'made up'}")
show("", "here", "printed, in English and in Chinese", "true")
show("age_sum_query, clipped at 30", "", "879,617 and 913,809", f"{near_abuah.age_sum_query(adult, 30):,}")
chosen = near_abuah.naive_select_b(near_abuah.age_sum_query, adult, 1, bits=bits)
show("naive_select_b among 1, 11, ..., 991", chosen, "81 and 81")
bounds = range(1, 150, 5)
differences = [near_abuah.create_query(b) for b in bounds]
place = near_abuah.above_threshold(differences, adult, 0, 0.1, bits=bits)
show("above_threshold among 1, 6, ..., 146", bounds[place], "81 and 91")
for column, printed in (("Age", "41.78 and 38.58"), ("Capital Gain", "1,090.47 and 1,074.71")):
    average = near_abuah.auto_avg(adult[column], 1, bits=bits)
    show(f"auto_avg of {column}", f"{average:,.2f}", printed, f"{adult[column].mean():,.2f}")
found = near_abuah.sparse(differences, adult, 3, 0, 1, bits=bits)
show("sparse, c = 3, T = 0: places", found, "[18, 19, 20] and [18, 21, 24]")
ranges = [near_abuah.create_age_range_query(bits=bits) for _ in range(10)]
counts = [query(adult) for query in ranges]
answers = near_abuah.range_query_svt(ranges, adult, 5, 10_000, 1, bits=bits)
print(f"10 random ranges of age hold {counts}")
print(f"range_query_svt, T = 10,000, c = 5: {answers}")
