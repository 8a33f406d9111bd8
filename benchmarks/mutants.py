"""Mutants: a line on which privacy rests is made wrong, one at a time, and a test has to fail for it.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.mutants [--first N] [--last N] [--only NAME …] [--workers 1]

prints JSON lines: one for each mutant, then how many there were of each outcome. It works in a copy of the
checkout: for each mutant one text of a file is replaced, and its tests run until one fails.

* ``killed``: a test failed that passes where nothing is replaced.
* ``survived``: all passed. A better test is missing, unless the mutant does what the code did.
* ``not found``: the text stands in the file not once but never or often; nothing was tried.
* ``broken``: its tests could not be run, or fail in any case.
* ``hung``: they ran past the limit.

The exit code is 0 where every mutant was killed, else 1.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.runner import parser, pin_threads, tell

_ROOT = Path(__file__).parent.parent
_LEFT_OUT = (".*", "__pycache__", "build", "dist")  # of the copy
_LIMIT = 900.0  # seconds of a mutant's tests
_TOLD = 200  # characters
_PASSED, _FAILED = 0, 1  # what pytest returns
_FAULTS = ("FAILED ", "ERROR ")  # how its lines begin about a test, or a fixture, that failed


class Mutant(NamedTuple):
    """A wrong line.

    Attributes:
        name: what is wrong.
        file: below the checkout, without its suffix.
        old: a text that stands there once.
        new: what stands in its place.
        tests: files, folders, or tests of a slow file, below ``tests`` and without suffixes; one has to fail.
    """

    name: str
    file: str
    old: str
    new: str
    tests: str


# fmt: off
MUTANTS = tuple(Mutant(*row) for row in (
    # --- persons: at most K records of each, whatever else is in the table
    ("k-plus-1", "pmw/data/people", "order[ranks >= limit]", "order[ranks > limit]", "pmw/data/test_people"),
    ("crowded-from-k-plus-2", "pmw/data/people", "np.append(counts > limit,", "np.append(counts > limit + 1,",
     "pmw/data/test_people"),
    ("order-without-a-key", "pmw/data/people", "mixed = keys.copy()", "mixed = np.zeros_like(keys)",
     "pmw/data/test_people"),
    ("one-hash-of-ids", "pmw/data/people", "key.hex()[16:32])", "key.hex()[:16])", "pmw/data/test_people"),
    ("known-key-of-ids", "pmw/data/people", "(key.hex()[:16], key.hex()[16:32])", "('0' * 16, '1' * 16)",
     "pmw/data/test_people"),
    ("empty-ids-are-persons", "pmw/data/people", 'named | empty if self._person.empty == "person" else named',
     "named | empty", "pmw/data/test_people"),
    ("ids-beyond-63-bits", "pmw/data/people", " or kind == np.uint64:", ":", "pmw/data/test_id_columns"),
    ("hash-pairs-not-told-apart", "pmw/data/people", "if np.array_equal(seconds[numbers], hashes[1]):",
     "if True:", "pmw/data/test_people"),
    ("ties-not-resolved", "pmw/data/people", "if all(np.array_equal(word[before], word[after])",
     "if True or all(np.array_equal(word[before], word[after])", "pmw/data/test_people"),
    ("buckets-not-bounded", "pmw/data/memory", "self._keep(_people(self._domain, rows))",
     "self._kept.add(pack(self._domain, _people(self._domain, rows).records.columns))",
     "pmw/data/test_memory_limit pmw/data/test_people"),
    ("twice-k-are-kept", "pmw/data/people", "Bound(person, person.records, key)",
     "Bound(person, 2 * person.records, key)", "pmw/data/test_people"),
    ("malformed-lines-are-persons", "pmw/data/memory", "return domain.person is None and all(",
     "return all(", "pmw/data/test_people"),
    ("ids-of-any-pandas-type", "pmw/data/memory", 'require_ids("the table", domain,',
     "(lambda *_: 0)(domain,", "pmw/data/test_id_columns pmw/data/test_people"),
    ("ids-of-any-engine-type", "pmw/data/engine_columns", "if kind.upper().startswith(_NO_IDS):", "if False:",
     "pmw/data/test_id_columns"),
    ("wide-decimals-are-empty", "pmw/data/engine_columns",
     'text = f"TRY_CAST({value} AS VARCHAR)"\n        return f"coalesce({text}, CASE WHEN ',
     'text = f"TRY_CAST({value} AS VARCHAR)"\n        return f"coalesce({text}, CASE WHEN false AND ',
     "pmw/data/test_id_columns pmw/data/test_parquet_types"),
    ("another-bounding-is-taken", "pmw/data/source", "(bound.person, bound.key) == (person, key)", "True",
     "pmw/data/test_people"),
    ("fingerprint-of-kept-records", "pmw/data/memory",
     "if self._identity is None:  # the records never change",
     "if True:  # the records never change", "pmw/data/test_people pmw/session/test_people"),
    ("counted-records-of-numbered-persons", "pmw/data/packed", "not single and domain.size", "domain.size",
     "pmw/data/test_memory pmw/session/test_heads"),
    ("counted-records-once", "pmw/data/packed", "np.add.at(counts, cells, times)",
     "np.add.at(counts, cells, 1)", "pmw/data/test_memory"),
    ("sums-of-counted-records-once", "pmw/data/memory", "placed if times is None else placed * times",
     "placed", "pmw/data/test_memory"),
    ("counts-not-hashed-as-records", "pmw/data/packed", "np.repeat(words[some], within)", "words[some]",
     "pmw/data/test_memory"),
    ("parts-of-the-digest-overlap", "pmw/data/packed", "looked_at < looked_at.dtype.type(high)",
     "looked_at <= looked_at.dtype.type(high)", "pmw/data/test_memory"),
    ("numbers-cut-at-the-last", "pmw/data/engine_columns", "math.ceil(attribute.last) + 1",
     "math.ceil(attribute.last) - 1", "pmw/data/test_engine_columns"),
    ("readings-cut-at-the-ends", "pmw/data/engine_columns", "math.floor(attribute.ends[0]) - 1",
     "math.floor(attribute.ends[0])", "pmw/data/test_engine_columns"),
    ("places-too-wide-for-their-type", "pmw/data/engine_columns", "_TINY = 128", "_TINY = 160",
     "pmw/data/test_engine_columns"),
    ("clipped-in-the-columns-type", "pmw/data/engine_columns", "GREATEST(CAST({name} AS BIGINT), {low})",
     "GREATEST({name}, {low})", "pmw/data/test_engine_columns"),
    ("empty-numbers-are-zeros", "pmw/data/engine_columns", "NumberColumn(numbers, empty != 0)",
     "NumberColumn(numbers)", "pmw/data/test_engine_columns"),
    ("empty-texts-of-a-stream", "pmw/data/arrow_arrays", "texts[place] = None", "pass",
     "pmw/data/test_engine_columns"),
    ("a-failed-stream-has-ended", "pmw/data/arrow_arrays",
     'raise StreamError("the engine failed")', "return", "pmw/data/test_engine_columns"),
    ("what-a-stream-says", "pmw/data/engine_columns", "        raise DataError(told) from None",
     '        raise DataError(str(__import__("sys").exc_info()[1])) from None',
     "pmw/data/test_engine_columns"),
    ("empty-values-of-a-listing", "queries/records",
     "self.values.cells(attribute), values_of(attribute).empty)", "self.values.cells(attribute), 0)",
     "pmw/data/test_engine_columns"),
    ("public-count-with-persons", "pmw/public/options", " and self.person_column is None", "",
     "pmw/public/test_contract pmw/session/test_people"),
    ("persons-counted-inside", "pmw/data/engine_source", "if domain.person is not None:", "if False:",
     "pmw/data/test_id_columns pmw/data/test_engine_source"),

    # --- counting inside a database
    ("dropped-records-counted", "pmw/data/engine_source", 'f"c{place} >= 0"', 'f"c{place} >= -1"',
     "pmw/data/test_engine_source"),
    ("cast-before-clipping", "pmw/data/engine_source",
     'f"CAST(LEAST(GREATEST({number}, {low}), {high}) AS bigint)"', 'f"CAST({number} AS bigint)"',
     "pmw/data/test_engine_source"),
    ("fingerprint-without-pairs", "pmw/data/engine_source", "        if sums:", "        if False:",
     "pmw/data/test_engine_source"),
    ("several-snapshots", "pmw/data/duckdb_file", 'connection.execute("BEGIN TRANSACTION")', "pass",
     "pmw/data/test_duckdb_file pmw/data/test_engine_source"),
    ("text-of-the-engine", "pmw/data/duckdb_file", 'told = "its table could not be read"',
     'told = str(__import__("sys").exc_info()[1])', "pmw/data/test_duckdb_file pmw/data/test_engine_source"),
    ("extensions-are-loaded", "pmw/data/duckdb_file", '"autoload_known_extensions": False',
     '"autoload_known_extensions": True', "pmw/data/test_duckdb_file"),

    # --- sensitivities
    ("question-of-one-record", "pmw/public/charges", "return options.records_per_person * UNITS",
     "return UNITS", "pmw/planning/test_opening"),
    ("l1-of-one-record", "pmw/public/charges", "moves * options.records_per_person * UNITS", "moves * UNITS",
     "pmw/planning/test_opening"),
    ("l1-replaces-as-it-adds", "pmw/public/charges", "else 2\n    return moves", "else 1\n    return moves",
     "pmw/planning/test_opening"),
    ("l2-of-k", "pmw/public/charges", "moves * (options.records_per_person * UNITS) ** 2",
     "moves * options.records_per_person * UNITS**2", "pmw/planning/test_opening"),
    ("l2-replaces-as-it-adds", "pmw/public/charges", "else 2\n    return Fraction(",
     "else 1\n    return Fraction(", "pmw/planning/test_opening"),
    ("tree-charged-as-one-level-in-l1", "pmw/public/charges", "levels * l1_sensitivity(options)",
     "l1_sensitivity(options)", "pmw/planning/test_opening"),
    ("tree-charged-as-one-level-in-l2", "pmw/public/charges", "levels * l2_squared_sensitivity(options)",
     "l2_squared_sensitivity(options)", "pmw/planning/test_opening"),
    ("number-charged-for-one-record", "pmw/public/charges", "moved = query_sensitivity(options)",
     "moved = UNITS", "pmw/planning/test_error_quantiles pmw/planning/test_opening"),
    ("question-tests-of-one-record", "pmw/planning/calibration",
     "query_sensitivity(options), options.expected_queries", "2**20, options.expected_queries",
     "pmw/planning/test_calibration pmw/session/test_charges"),
    ("marginal-tests-of-one-record", "pmw/planning/calibration", "l1_sensitivity(options), expected)",
     "2**20, expected)", "pmw/planning/test_calibration"),
    ("distances-are-monotone", "pmw/planning/calibration", "self.sides is Sides.TWO_THRESHOLDS",
     "self.sides is not Sides.TWO_SIDED", "pmw/planning/test_calibration"),
    ("doubled-distance", "pmw/loop/marginals", "int(np.abs(counts * UNITS - model_units).sum())",
     "int(2 * np.abs(counts * UNITS - model_units).sum())", "pmw/loop/test_marginals"),

    # --- rows of residuals
    ("norm-of-rows-before-they-are-rounded", "pmw/model/strategy",
     "return int(self.gram.diagonal().max())",
     "return SCALE**2 if self.rows else self.size * (self.size - 1)",
     "pmw/model/test_strategy"),
    ("rows-of-the-other-relation", "pmw/model/strategy", "if not self.replaced:", "if self.replaced:",
     "pmw/model/test_strategy"),
    ("replaced-record-moves-one-column", "pmw/model/strategy", "least\n\n    def noise(",
     "least * 0\n\n    def noise(", "pmw/model/test_strategy"),
    ("replaced-record-moves-as-an-added-one", "pmw/model/strategy",
     "return 2 * largest - 2 * self.factor**2 * least", "return largest", "pmw/model/test_strategy"),
    ("replaced-record-differs-on-all-attributes", "pmw/model/strategy", "itertools.product(*ends)",
     "zip(*ends, strict=True)", "pmw/model/test_strategy"),
    ("rows-are-scaled-after-their-norm", "pmw/model/strategy", "largest = self.factor**2 * self._norm",
     "largest = self.factor * self._norm", "pmw/model/test_strategy"),
    ("norm-of-two-attributes-alone", "pmw/model/strategy", "axis.norm for axis in self.axes)",
     "axis.norm for axis in self.axes[:2])", "pmw/model/test_strategy"),
    ("rows-that-see-the-number-of-records", "pmw/model/strategy",
     "    rows[np.arange(len(rows)), np.arange(len(rows))] -= rows.sum(axis=1)\n", "",
     "pmw/model/test_strategy"),
    ("rows-that-do-not-sum-to-zero-pass", "pmw/model/strategy", "if self.matrix.sum(axis=1).any():",
     "if False:", "pmw/model/test_strategy"),
    ("rows-of-low-rank-pass", "pmw/model/strategy", "if np.linalg.matrix_rank(self.matrix) != self.size - 1:",
     "if not any(self.rows):", "pmw/model/test_strategy"),
    ("rows-too-large-for-64-bits", "pmw/model/strategy", "if self.factor**2 * self._norm > _MOST_SCALE**2:",
     "if False:", "pmw/model/test_strategy"),
    ("noise-of-rows-as-if-cells-moved-by-2", "pmw/model/strategy",
     "moved = (2 if self.replaced else 1) * UNITS**2", "moved = 2 * UNITS**2",
     "pmw/model/test_strategy"),
    ("noise-of-rows-rounded-down", "pmw/model/strategy",
     "Fraction(math.isqrt(math.ceil(wanted) - 1) + 1)", "Fraction(math.isqrt(math.ceil(wanted) - 1))",
     "pmw/model/test_strategy"),

    # --- scales
    ("laplace-scale-rounded-down", "pmw/planning/calibration", "Fraction(math.ceil(l1 / price))",
     "Fraction(math.floor(l1 / price))", "pmw/planning/test_calibration"),
    ("gaussian-scale-halved", "pmw/planning/calibration", "_sqrt_up(squared / (2 * price))",
     "_sqrt_up(squared / (8 * price))", "pmw/planning/test_calibration"),
    ("gaussian-surcharge-not-in-the-scale", "pmw/planning/calibration",
     "while (gaussian_mu_squared(squared, sigma) or 0) > price:", "while False:",
     "pmw/planning/test_calibration"),
    ("value-noise-of-one-record", "pmw/planning/calibration", "price, query_sensitivity(options), options",
     "price, 2**20, options", "pmw/planning/test_calibration"),
    ("marginal-noise-of-one-record", "pmw/planning/calibration",
     "floor_price(price), l1_sensitivity(options)", "floor_price(price), 2**20",
     "pmw/planning/test_calibration"),
    ("all-positives-at-the-price-of-one", "pmw/planning/calibration", " * (1 if kind.redraw else limit)", "",
     "pmw/planning/test_calibration"),
    ("sech2-positives-at-the-price-of-one", "pmw/planning/calibration",
     "floor_price((tests - threshold) / limit)", "floor_price(tests - threshold)",
     "pmw/planning/test_calibration"),
    ("choice-at-twice-its-price", "pmw/planning/calibration", "root_down(8 * price)", "root_down(16 * price)",
     "pmw/research/offline"),
    ("offline-marginal-chosen-at-one-unit", "pmw/research/offline/rounds",
     "l1_sensitivity(options), selection", "2**20, selection", "pmw/research/offline"),
    ("offline-question-chosen-at-one-unit", "pmw/research/offline/rounds",
     "query_sensitivity(options), selection", "2**20, selection", "pmw/research/offline"),
    ("geometric-half-as-wide", "pmw/privacy/noise", "(remainder + high * whole) // low",
     "(remainder + high * whole) // (2 * low)", "pmw/privacy/test_noise"),
    ("geometric-array-half-as-wide", "pmw/privacy/noise", "_geometric_e(count, bits)) // low",
     "_geometric_e(count, bits)) // (2 * low)", "pmw/privacy/test_noise"),
    ("zero-counts-twice", "pmw/privacy/noise", "if not (negative and size == 0):", "if True:",
     "pmw/privacy/test_noise"),
    ("sech2-noise-of-one-draw", "pmw/privacy/noise",
     "return max(self._half_logistic(bits), self._half_logistic(bits))", "return self._half_logistic(bits)",
     "pmw/privacy/test_noise"),
    ("sech2-array-of-one-draw", "pmw/privacy/noise", "pairs.reshape(2, -1).max(axis=0)",
     "pairs.reshape(2, -1)[0]", "pmw/privacy/test_noise"),
    ("sech2-draw-kept-by-one-coin", "pmw/privacy/noise", "if all(heads):", "if any(heads):",
     "pmw/privacy/test_noise"),
    ("gaussian-narrower", "pmw/privacy/noise", "distance * distance, 2 * high * high",
     "distance * distance, high * high", "pmw/privacy/test_noise"),
    ("bits-again-and-again", "pmw/privacy/random_bits", "self._counter += 1", "self._counter = 1",
     "pmw/privacy/test_random_bits"),

    # --- what an event costs
    ("no-surcharge-of-the-lattice", "pmw/privacy/budget", "l2_squared * surcharge**2 / sigma**2",
     "l2_squared / sigma**2", "pmw/privacy/test_gaussian_dp_proof"),
    ("mu-of-a-pure-event-is-epsilon", "pmw/privacy/budget", "Fraction(4 * up * up * (1 + _MARGIN))",
     "epsilon**2", "pmw/privacy/test_gaussian_dp_proof"),
    ("mu-of-a-tiny-pure-event-is-epsilon", "pmw/privacy/budget", "Fraction(11, 7) * epsilon**2", "epsilon**2",
     "pmw/privacy/test_gaussian_dp_proof::test_a_tiny_pure_event_costs_no_less_than_its_corner_says"),
    ("cap-not-held-against-delta", "pmw/privacy/budget", "1 - _DELTA_MARGIN", "2",
     "pmw/privacy/test_gaussian_dp_proof::test_a_budget_without_a_mu_has_no_filter_of_squares"),
    ("mu-rounded-down", "pmw/privacy/budget", "None if price is None else round_up(price, RHO_GRID)",
     "None if price is None else floor_price(price)", "pmw/privacy/test_gaussian_dp_proof"),
    ("mu-of-a-sum-is-the-largest", "pmw/privacy/budget", "other is None else one + other",
     "other is None else max(one, other)", "pmw/privacy/test_budget pmw/session/test_charges"),
    ("rho-of-gaussian-noise-halved", "pmw/privacy/budget", "l2_squared / (2 * sigma * sigma)",
     "l2_squared / (4 * sigma * sigma)", "pmw/privacy/test_budget"),
    ("pure-event-of-bounded-range", "pmw/privacy/budget", "epsilon * epsilon / 2, RHO_GRID",
     "epsilon * epsilon / 8, RHO_GRID", "pmw/privacy/test_budget"),
    ("cap-of-zcdp-1-percent-over", "pmw/privacy/budget", "safe = rho * (1 -",
     "safe = rho * (Decimal('1.01') -", "pmw/privacy/test_budget"),
    ("filter-1-percent-over", "pmw/privacy/filter", "self.price(charge) <= self.remaining",
     "self.price(charge) <= self.remaining + self.cap / 100", "pmw/privacy/test_filter"),
    ("no-mu-is-free", "pmw/privacy/filter",
     'raise BudgetError("expected an event that is proved in GDP, got one without a mu")',
     "return Fraction(0)", "pmw/privacy/test_gaussian_dp_proof::test_narrow_noise_has_no_mu"),
    ("charges-do-not-add", "pmw/privacy/filter", "spent=self.spent + self.price(charge)",
     "spent=max(self.spent, self.price(charge))", "pmw/privacy/test_filter"),

    # --- sparse vectors
    ("positive-at-the-monotone-rate", "pmw/sparse_vector/noisy_comparison",
     "(1 if self.monotone else 2) * self.sensitivity", "self.sensitivity",
     "pmw/sparse_vector/test_noisy_comparison pmw/sparse_vector/test_sparse"),
    ("threshold-at-half-its-price", "pmw/sparse_vector/noisy_comparison",
     'for only one is shifted."""\n        return self.sensitivity',
     'for only one is shifted."""\n        return self.sensitivity / 2',
     "pmw/sparse_vector/test_noisy_comparison pmw/sparse_vector/test_sparse"),
    ("sech2-has-a-mu", "pmw/sparse_vector/noisy_comparison",
     "return replace(pure_charge(self.positive_price), mu_squared=None)",
     "return pure_charge(self.positive_price)", "pmw/sparse_vector/test_noisy_comparison"),
    ("sech2-exponential-threshold-by-its-square", "pmw/sparse_vector/noisy_comparison",
     "Charge(self.threshold_price, round_up(self.threshold_price, RHO_GRID))",
     "pure_charge(self.threshold_price)", "pmw/sparse_vector/test_noisy_comparison"),
    ("tests-without-noise", "pmw/sparse_vector/noisy_comparison",
     "compared + self.query_noise.sample_array(bits, len(values)) >= limits", "compared >= limits",
     "pmw/sparse_vector/test_noisy_comparison pmw/sparse_vector/test_sparse"),
    ("one-draw-for-all-tests", "pmw/sparse_vector/noisy_comparison",
     "self.query_noise.sample_array(bits, len(values)) >= limits", "self.query_noise.sample(bits) >= limits",
     "pmw/sparse_vector/test_noisy_comparison pmw/sparse_vector/test_sparse"),
    ("one-draw-for-both-thresholds", "pmw/sparse_vector/noisy_comparison",
     "NoisyThreshold(upper, self.threshold_noise.sample(bits))", "NoisyThreshold(upper, upper)",
     "pmw/sparse_vector/test_noisy_comparison"),
    ("outcomes-behind-a-positive", "pmw/sparse_vector/sparse", "return None, outcomes[: positives[0] + 1]",
     "return None, outcomes", "pmw/sparse_vector/test_sparse"),
    ("one-positive-more", "pmw/sparse_vector/sparse", "if state.positives >= self.update_limit:",
     "if state.positives > self.update_limit:", "pmw/sparse_vector/test_sparse"),
    ("threshold-of-a-round-that-closed", "pmw/sparse_vector/sparse",
     "SparseState(None if self.redraw else noisy,", "SparseState(noisy,", "pmw/sparse_vector/test_sparse"),
    ("vector-in-parts", "pmw/sparse_vector/sparse", "if composition is not Composition.PURE and",
     "if composition is Composition.ZCDP and",
     "pmw/privacy/test_gaussian_dp_proof::test_a_run_that_is_not_redrawn_is_one_event"),
    ("round-without-its-positive", "pmw/sparse_vector/sparse", "pure_charge(self.round_epsilon), NOTHING",
     "pure_charge(self.test.threshold_price), NOTHING", "pmw/sparse_vector/test_sparse"),
    ("value-without-noise", "pmw/sparse_vector/numeric_sparse",
     "int(values[len(outcomes) - 1]) + self.value_noise.sample(bits)", "int(values[len(outcomes) - 1])",
     "pmw/sparse_vector/test_numeric_sparse pmw/loop/test_questions"),

    # --- draws
    ("total-without-noise", "pmw/loop/untested", "total += plan.total_noise.sample(bits)",
     "plan.total_noise.sample(bits)", "pmw/loop/test_opening"),
    ("one-draw-for-a-tree", "pmw/loop/untested", "noise.sample_array(bits, tree.nodes)",
     "noise.sample(bits)", "pmw/loop/test_opening"),
    ("opening-marginal-without-noise", "pmw/loop/untested",
     "measured_as((name,), draw_numbers(counts, noise, rows, bits), noise, rows)",
     "measured_as((name,), counts * UNITS if rows is None else rows.applied(counts), noise, rows)",
     "pmw/loop/test_opening"),
    ("opening-rows-without-noise", "pmw/loop/untested",
     "measured_as((name,), draw_numbers(counts, noise, rows, bits), noise, rows)",
     "measured_as((name,), rows.applied(counts) if rows else draw_numbers(counts, noise, rows, bits), noise, "
     "rows)", "pmw/session/test_residuals_at_opening"),
    ("table-without-noise", "pmw/loop/untested", "draw_numbers(counts, plan.table_noise, None, bits)",
     "counts * UNITS", "pmw/loop/test_opening"),
    ("bought-marginal-without-noise", "pmw/loop/marginals", "draw_numbers(measured, plan.noise, None, bits)",
     "measured * UNITS", "pmw/loop/test_measured_numbers"),
    # --- sums of values
    ("sums-without-noise", "pmw/loop/untested", "units + drawn, requested.noise)",
     "units, requested.noise)", "pmw/session/test_value_sums"),
    ("sums-half-noise", "pmw/loop/untested", "units + drawn, requested.noise)",
     "units + drawn // 2, requested.noise)", "pmw/session/test_value_sums"),
    ("sums-one-draw", "pmw/loop/untested",
     "requested.noise.sample_array(bits, units.size).reshape(units.shape)",
     "np.full(units.shape, requested.noise.sample(bits))", "pmw/session/test_value_sums"),
    ("sums-of-the-other-relation", "pmw/public/charges",
     "    squared = records * UNITS * summed.squared\n"
     "    if options.neighboring_relation is NeighboringRelation.ADD_REMOVE:",
     "    squared = records * UNITS * summed.squared\n    if True:", "pmw/model/test_value_sums"),
    ("sums-without-records-of-a-person", "pmw/public/charges", "(1 if summed.clipped else records) * UNITS",
     "UNITS", "pmw/model/test_value_sums"),
    ("numbers-of-values-without-records-of-a-person", "pmw/public/charges",
     "UNITS, records * summed.count_units", "UNITS, summed.count_units", "pmw/model/test_value_sums"),
    ("numbers-of-values-cost-nothing", "pmw/public/charges", "UNITS, records * summed.count_units",
     "UNITS, 0", "pmw/model/test_value_sums pmw/session/test_value_sums"),
    ("squares-cost-nothing", "pmw/public/charges", "squared = records * UNITS * summed.squared",
     "squared = 0", "pmw/model/test_value_sums"),
    ("joint-sums-replaced-in-one-cell-alone", "pmw/public/charges",
     "max(4 * alone**2, 2 * (alone**2 + counted**2 + squared**2))", "4 * alone**2",
     "pmw/model/test_value_sums"),
    ("joint-sums-replaced-in-two-cells-alone", "pmw/public/charges",
     "max(4 * alone**2, 2 * (alone**2 + counted**2 + squared**2))",
     "2 * (alone**2 + counted**2 + squared**2)", "pmw/model/test_value_sums"),
    ("clipped-sums-count-once", "pmw/public/charges", "4 * alone**2 + 2 * counted**2",
     "4 * alone**2 + counted**2", "pmw/model/test_value_sums"),
    ("numbers-of-empty-values", "pmw/model/value_sums",
     "held = numbers * _along(domain, self.attribute, present, over)", "held = numbers",
     "pmw/model/test_value_sums"),
    ("squares-beyond-one-record", "queries/numbers", "return max(self._top, 1) ** 2",
     "return max(self._top - 1, 1) ** 2", "pmw/model/test_value_sums"),
    ("joint-bars-of-the-sum-alone", "pmw/public/joint_sums",
     "weights[0] * self.scale, weights[1] * self.one, weights[2] * self.scale**2",
     "weights[0] * self.scale, 0.0, weights[2] * self.scale**2", "pmw/public/test_joint_sums"),
    ("variances-by-one-mean", "pmw/public/joint_sums", "np.arange(first, final + 1)",
     "np.arange((first + final) // 2, (first + final) // 2 + 1)", "pmw/public/test_joint_sums"),
    ("sums-charge-nothing", "pmw/session/releases",
     "kind: str = SUMS\n\n    def entries(self, options: Options) -> tuple[LedgerEntry, ...]:\n"
     '        """Return what they charge."""\n        return (self.batch.entry(options),)',
     "kind: str = SUMS\n\n    def entries(self, options: Options) -> tuple[LedgerEntry, ...]:\n"
     '        """Return what they charge."""\n        return ()', "pmw/session/test_value_sums"),
    ("opening-sums-charge-nothing", "pmw/public/charges",
     "    entries += [sum_entry(one, noise, options) for one, noise in plan.sums]\n", "",
     "pmw/session/test_value_sums"),
    ("sums-price-halved", "pmw/public/charges",
     "Fraction(squared), noise.sigma)\n\n\ndef sum_entry",
     "Fraction(squared) / 2, noise.sigma)\n\n\ndef sum_entry", "pmw/session/test_value_sums"),
    ("sums-pure-price-halved", "pmw/public/charges",
     "moved, squared = sum_sensitivity(summed, options)\n    if isinstance(noise, DiscreteLaplace):\n"
     "        return pure_charge(moved / noise.scale)",
     "moved, squared = sum_sensitivity(summed, options)\n    if isinstance(noise, DiscreteLaplace):\n"
     "        return pure_charge(moved / noise.scale / 2)", "pmw/session/test_value_sums"),
    ("sums-beyond-the-ends", "queries/values",
     "clipped = np.clip(np.where(valid, numbers, grid.minimum), grid.minimum, grid.maximum)",
     "clipped = np.where(valid, numbers, grid.minimum)", "pmw/model/test_value_sums pmw/data"),
    ("sums-in-half-widths", "pmw/model/value_sums", "widths = np.maximum(self.widths(domain), 1)",
     "widths = np.maximum(self.widths(domain) // 2, 1)", "pmw/model/test_value_sums"),
    ("sums-of-floats", "pmw/model/value_sums", "whole, rest = np.divmod(summed, widths)",
     "whole, rest = np.divmod(summed.astype(np.float32).astype(np.int64) + 1, widths)",
     "pmw/model/test_value_sums"),
    ("sums-from-empty-values", "pmw/data/memory",
     "places = np.zeros(grid.size, dtype=np.int64)", "places = np.arange(grid.size)",
     "pmw/model/test_value_sums"),
    ("clip-before-records-are-kept", "pmw/data/people", "    return clipped(kept, persons), persons",
     "    return kept, persons", "pmw/model/test_value_sums"),
    ("clip-of-each-value-alone", "pmw/data/people", "np.add.at(sums, numbers, np.abs(steps))",
     "np.maximum.at(sums, numbers, np.abs(steps))", "pmw/model/test_value_sums"),
    ("clip-with-signs", "pmw/data/people", "np.add.at(sums, numbers, np.abs(steps))",
     "np.add.at(sums, numbers, steps)", "pmw/model/test_value_sums"),
    ("clip-with-units-to-spare", "pmw/model/value_sums",
     "UNITS // Places.of(domain, self.attribute).grid.most",
     "UNITS // Places.of(domain, self.attribute).grid.most + 1", "pmw/model/test_value_sums"),
    ("sum-bars-without-their-noise", "pmw/public/value_sums",
     "        width = sum_half_width(measured.noise, squares, confidence, peak=largest**2 or None)\n",
     "        width = 0.0\n", "pmw/session/test_value_sums"),
    ("sum-bars-of-half-a-group", "pmw/public/value_sums", "if not np.array_equal(least, most):", "if False:",
     "pmw/session/test_value_sums"),
    ("requested-without-noise", "pmw/loop/untested", "numbers = draw_numbers(counts, noise, strategy, bits)",
     "numbers = counts * UNITS", "pmw/loop/test_requested"),
    ("cells-without-noise", "pmw/loop/measuring", "counts * UNITS + noise.sample_array(bits, counts.size)",
     "counts * UNITS + 0 * noise.sample_array(bits, counts.size)", "pmw/loop/test_measuring"),
    ("cells-with-half-their-noise", "pmw/loop/measuring",
     "noise.sample_array(bits, counts.size).reshape(counts.shape)",
     "noise.sample_array(bits, counts.size).reshape(counts.shape) // 2", "pmw/loop/test_measuring"),
    ("one-draw-for-all-cells", "pmw/loop/measuring",
     "noise.sample_array(bits, counts.size).reshape(counts.shape)", "noise.sample(bits)",
     "pmw/loop/test_measuring"),
    ("rows-without-noise", "pmw/loop/measuring", "strategy.applied(counts) + drawn",
     "strategy.applied(counts) + 0 * drawn", "pmw/loop/test_measuring"),
    ("rows-with-half-their-noise", "pmw/loop/measuring", "drawn.reshape(counts.shape)",
     "drawn.reshape(counts.shape) // 2", "pmw/loop/test_measuring"),
    ("triples-with-half-their-noise", "pmw/loop/measuring", "drawn.reshape(counts.shape)",
     "drawn.reshape(counts.shape) // (2 if counts.ndim > 2 else 1)", "pmw/loop/test_measuring"),
    ("one-draw-for-all-rows", "pmw/loop/measuring", "strategy.noise(noise).sample_array(bits, counts.size)",
     "np.full(counts.size, strategy.noise(noise).sample(bits))", "pmw/loop/test_measuring"),
    ("rows-with-the-noise-of-cells", "pmw/loop/measuring", "drawn = strategy.noise(noise)", "drawn = noise",
     "pmw/loop/test_measuring"),
    ("quantile-without-noise", "pmw/loop/untested", "error + request.noise.sample(bits)", "error",
     "pmw/loop/test_error_quantiles"),
    ("one-draw-for-all-quantiles", "pmw/loop/untested", "request.noise.sample(bits)",
     "request.noise.sample(BitSource(bits._seed))", "pmw/loop/test_error_quantiles"),
    ("threshold-noise-of-another-record", "pmw/loop/loop", "if proposal.opens_round != (noisy is None):",
     "if False:", "pmw/loop/test_loop pmw/loop/test_questions"),
    ("threshold-outlives-the-last-positive", "pmw/loop/tier",
     "after.noisy if after.positives < self.plan.update_limit else None", "after.noisy",
     "pmw/loop/test_questions pmw/session/test_engine"),

    # --- drafts of a schema
    ("drafts-without-noise", "pmw/session/drafts", "counts * UNITS + noise.sample_array(bits, counts.size)",
     "counts * UNITS + 0 * noise.sample_array(bits, counts.size)",
     "pmw/session/test_drafts pmw/session/test_drafted_keys"),
    ("drafts-with-half-the-noise", "pmw/session/drafts",
     "counts * UNITS + noise.sample_array(bits, counts.size)",
     "counts * UNITS + noise.sample_array(bits, counts.size) // 2", "pmw/session/test_drafted_keys"),
    ("drafts-with-one-noise-for-all", "pmw/session/drafts",
     "counts * UNITS + noise.sample_array(bits, counts.size)", "counts * UNITS + noise.sample(bits)",
     "pmw/session/test_drafted_keys"),
    ("drafts-replaced-as-added", "pmw/session/drafts",
     "moves = 1 if self.neighboring_relation is NeighboringRelation.ADD_REMOVE else 2", "moves = 1",
     "pmw/session/test_drafted_keys"),
    ("drafts-of-one-record-each", "pmw/session/drafts", "moved = moves * self.records_per_person * UNITS",
     "moved = moves * UNITS", "pmw/session/test_drafted_keys"),
    ("keys-below-the-threshold", "pmw/session/drafts", "return 1 + -(-least_reach(", "return -(-least_reach(",
     "pmw/session/test_drafted_keys"),
    ("delta-for-each-of-k-keys", "pmw/session/drafts",
     "least_reach(self.noise, self.delta / self.records_per_person)", "least_reach(self.noise, self.delta)",
     "pmw/session/test_drafted_keys"),
    ("keys-pass-by-units", "pmw/session/drafts", "units >= threshold * UNITS", "units >= threshold",
     "pmw/session/test_drafted_keys"),
    ("keys-in-the-order-of-the-table", "pmw/session/drafts", "tuple(sorted(keys[place]",
     "tuple(list(keys[place]", "pmw/session/test_drafted_keys"),
    ("keys-charged-nothing", "pmw/session/drafts",
     'charge = terms.charge(f"keys of {attribute}")\n    record_charge(path, charge)',
     'charge = terms.charge(f"keys of {attribute}")', "pmw/session/test_drafted_keys"),
    ("keys-charged-after-the-draw", "pmw/session/drafts",
     "record_charge(path, charge)\n    units = noisy_counts(holders.persons, noise, BitSource(fresh_seed()))",
     "units = noisy_counts(holders.persons, noise, BitSource(fresh_seed()))\n    record_charge(path, charge)",
     "pmw/session/test_drafts"),
    ("keys-charged-once-they-are-chosen", "pmw/session/drafts",
     "record_charge(path, charge)\n"
     "    units = noisy_counts(holders.persons, noise, BitSource(fresh_seed()))\n"
     "    return DraftedKeys(attribute, passing_keys(holders.keys, units, threshold), threshold, charge)",
     "units = noisy_counts(holders.persons, noise, BitSource(fresh_seed()))\n    keys = passing_keys("
     "holders.keys, units, threshold)\n    record_charge(path, charge)\n"
     "    return DraftedKeys(attribute, keys, threshold, charge)", "pmw/session/test_drafts"),
    ("ends-charged-after-the-draw", "pmw/session/drafts",
     "record_charge(path, charge)\n    units = noisy_counts(counts, noise, BitSource(fresh_seed()))",
     "units = noisy_counts(counts, noise, BitSource(fresh_seed()))\n    record_charge(path, charge)",
     "pmw/session/test_drafts"),
    ("delta-of-drafts-not-charged", "pmw/session/drafts", "self.epsilon,\n            self.delta,",
     "self.epsilon,", "pmw/session/test_drafted_keys"),
    ("delta-of-one-draft-alone", "pmw/public/drafts", "sum((one.delta for one in drafts)",
     "sum((one.delta for one in drafts[:1])", "pmw/session/test_drafts"),
    ("no-delta-takes-drafts-with-one", "pmw/public/contract", "if delta and not self.budget.delta:",
     "if False:", "pmw/session/test_drafted_keys"),
    ("drafts-of-ids-of-another-kind", "pmw/public/contract",
     'if person is not None and person.ids != "text":', "if False:", "pmw/session/test_drafted_keys"),
    ("reach-rounded-down", "pmw/privacy/tail_bounds", "max(1, math.ceil(reach + _REACH_MARGIN))",
     "max(1, math.floor(reach))", "pmw/privacy/test_tail_bounds"),
    ("reach-of-one-side", "pmw/privacy/tail_bounds", "twice = 1 + (-1 / scale).exp()", "twice = 2",
     "pmw/privacy/test_tail_bounds"),
    ("more-keys-than-k", "pmw/data/keys", "keyed_hashes(keys, bound.key), bound.records)",
     "keyed_hashes(keys, bound.key), bound.records + 1)", "pmw/data/test_keys"),
    ("keys-given-once-a-record", "pmw/data/keys", "pairs = np.unique(", "pairs = np.sort(",
     "pmw/data/test_keys"),
    ("keys-chosen-by-those-of-others", "pmw/data/keys", "lambda some: list(words[:, held[some]])",
     "lambda some: [held[some].astype(np.uint64)]", "pmw/data/test_keys"),
    ("longer-texts-are-keys", "pmw/data/keys", "len(text) <= LONGEST_KEY", "True", "pmw/data/test_keys"),

    # --- what is charged and reserved
    ("total-charges-nothing", "pmw/public/charges", "if plan.total_noise is not None:", "if False:",
     "pmw/planning/test_opening"),
    ("table-charges-nothing", "pmw/public/charges", "if plan.table_noise is not None:", "if False:",
     "pmw/planning/test_opening pmw/session/test_charges"),
    ("positive-charges-its-test-alone", "pmw/public/charges", "charges(composition)[1] + measured",
     "charges(composition)[1]", "pmw/session/test_charges"),
    ("round-reserved-without-its-threshold", "pmw/public/charges",
     "threshold_entry(tier, 0, composition).charge + positive", "positive",
     "pmw/planning/test_opening pmw/session/test_requested pmw/loop/test_questions"),
    ("open-rounds-reserve-nothing", "pmw/public/charges", "sum(map(ledger.price, prices), Fraction(0))",
     "Fraction(0)", "pmw/session/test_finish"),
    ("round-charges-nothing", "pmw/loop/tier", "if proposal.opens_round:", "if False:",
     "pmw/loop/test_questions pmw/session/test_charges"),
    ("positive-charges-nothing", "pmw/loop/tier", "if draws.released is not None:\n            request",
     "if False:\n            request", "pmw/loop/test_questions pmw/session/test_charges"),
    ("test-beyond-the-cap", "pmw/loop/tier", "return state.ledger.allows(self.reserved(state))",
     "return True", "pmw/loop/test_questions pmw/session/test_accounts"),
    ("test-in-a-closed-session", "pmw/loop/tier", "if state.closed or state.positives", "if state.positives",
     "pmw/session/test_sealed_session pmw/session/test_session"),
    ("pairs-release-without-their-price", "pmw/session/engine",
     "entries = accounts.booked_to(booked, release.entries(state.contract.options))",
     "entries = accounts.booked_to(booked, release.entries(state.contract.options) if state.settled else ())",
     "pmw/session/test_residuals_at_opening"),
    ("pairs-drawn-before-they-are-charged-for", "pmw/session/engine",
     "self._carry_out_release(*self._begin(release.kind, recorded), release, drawing, booked)",
     "drawing(BitSource(bytes(32)), self._state.ledger)\n"
     "        self._carry_out_release(*self._begin(release.kind, recorded), release, drawing, booked)",
     "pmw/session/test_residuals_at_opening"),
    ("triples-release-without-their-price", "pmw/session/releases",
     "return (replace(self.batch.entry(options), event=self.event),)",
     "return (replace(self.batch.entry(options), event=self.event),) if len(self.batch.scope) < 3 else ()",
     "pmw/session/test_residuals_at_opening"),
    ("pairs-at-more-than-their-weight", "pmw/public/plans", "self.noise.sigma**2 / (weight *",
     "self.noise.sigma**2 * (weight *", "pmw/session/test_residuals_at_opening"),
    ("triples-at-the-price-of-a-pair", "pmw/public/plans", "(weight * self.prices[len(scope) - 2])",
     "weight", "pmw/planning/test_opening"),
    ("triples-measured-without-a-part-of-the-cap", "pmw/planning/tiers",
     "for wide, price in enumerate(self.prices, start=2)",
     "for wide, price in enumerate(self.prices[:1], start=2)", "pmw/session/test_residuals_at_opening"),
    ("pairs-measured-in-a-closed-session", "pmw/public/foundations", "or state.closed", "",
     "pmw/public/test_foundations"),
    ("requested-charges-nothing", "pmw/session/releases",
     "return (replace(self.batch.entry(options), event=self.event),)", "return ()",
     "pmw/session/test_requested"),
    ("quantiles-charge-nothing", "pmw/session/releases", "tuple(one.entry(options) for one in self.batch)",
     "()", "pmw/session/test_error_quantiles"),
    ("one-quantile-of-several-charges", "pmw/session/releases",
     "tuple(one.entry(options) for one in self.batch)", "tuple(one.entry(options) for one in self.batch[:1])",
     "pmw/session/test_error_quantiles"),
    ("one-quantile-of-several-reserves", "pmw/session/releases",
     "reduce(add, (entry.charge for entry in release.entries(options)))",
     "release.entries(options)[0].charge", "pmw/session/test_resumption"),
    ("quantiles-beyond-their-share", "pmw/planning/error_quantiles", "ledger.cap * SHARE - spent",
     "ledger.cap * SHARE", "pmw/planning/test_error_quantiles pmw/session/test_error_quantiles"),

    # --- fairness: nobody spends what is not theirs
    ("repeats-counted", "pmw/session/repeats",
     "np.where(were_settled, AGAIN, np.where(settle, FIRST, UNSETTLED))",
     "np.where(settle, FIRST, UNSETTLED)", "pmw/session/test_fairness"),
    ("newer-answers-counted", "pmw/session/repeats", "were_settled, settle = stored",
     "settle, were_settled = stored", "pmw/session/test_fairness"),
    ("readers-counted", "pmw/session/accounts", "return self.share is None or may_test(limited)",
     "return True", "pmw/session/test_fairness"),
    ("untested-counted", "pmw/session/accounts", "return ARE_HELD[answers.source] & self.may_pay(limited)",
     "return np.full(len(answers), self.may_pay(limited))", "pmw/session/test_fairness"),
    ("readers-release-what-is-due", "pmw/session/engine",
     "settled == self._looked_at or not account.may_pay(self.limited(account))",
     "settled == self._looked_at", "pmw/session/test_fairness"),
    ("due-by-all-answers", "pmw/loop/finishing", "if not is_due(state.settled)", "if not is_due(state.asked)",
     "pmw/session/test_fairness pmw/session/test_spare"),
    ("quantiles-due-by-all-answers", "pmw/session/releases", "if not is_due(state.settled)",
     "if not is_due(state.asked)", "pmw/session/test_fairness pmw/session/test_error_quantiles"),
    ("spare-booked-to-nobody", "pmw/session/engine", "self._release(*spare)",
     "self._release(spare[0], SESSION.whole)", "pmw/session/test_fairness"),
    ("spare-booked-in-equal-parts", "pmw/loop/finishing", "(name, Fraction(own, count))",
     "(name, Fraction(1, len(paying)))", "pmw/session/test_fairness"),
    ("share-not-looked-at-by-spare", "pmw/session/accounts",
     "None if share is None else Payer(share, share * ledger.cap - self.of(name, ledger))", "None",
     "pmw/session/test_fairness"),
    ("room-of-payers-not-looked-at", "pmw/loop/finishing", "if price * own <= room[name] * count", "if True",
     "pmw/session/test_fairness"),
    ("no-test-kept-of-a-share", "pmw/loop/finishing", "max(one.share * reserve, test)", "one.share * reserve",
     "pmw/session/test_fairness"),
    ("parts-of-no-whole", "pmw/public/charges", "if sum(parts) != 1 or", "if", "pmw/session/test_fairness"),
    ("share-does-not-bind", "pmw/session/accounts", "if account.share is None:", "if True:",
     "pmw/session/test_accounts"),
    ("share-forgets-what-was-spent", "pmw/session/accounts",
     "account.share * ledger.cap - self.of(account.name, ledger)", "account.share * ledger.cap",
     "pmw/session/test_accounts"),
    ("share-lifts-the-cap", "pmw/session/accounts", "max(ledger.spent, ledger.cap - left)",
     "ledger.cap - left", "pmw/session/test_accounts"),
    ("tests-beyond-a-share", "pmw/session/engine", "0, len(questions), self.limited(account)",
     "0, len(questions), self._state", "pmw/session/test_accounts"),
    ("measured-beyond-a-share", "pmw/session/engine", "require_affordable(self.limited(account),",
     "require_affordable(self._state,", "pmw/session/test_accounts"),
    ("sums-never-added-again", "pmw/session/accounts", "if self._spent != ledger.spent:",
     "if self._spent is None:", "pmw/session/test_accounts"),
    ("tests-booked-to-nobody", "pmw/session/engine", "proposal.reserved, account.whole, marks",
     "proposal.reserved, SESSION.whole, marks", "pmw/session/test_accounts"),
    ("requests-booked-to-nobody", "pmw/session/engine",
     "MarginalRelease.of(requested, self._state), account.whole)",
     "MarginalRelease.of(requested, self._state), SESSION.whole)", "pmw/session/test_accounts"),
    ("finished-tests-booked-to-nobody", "pmw/session/engine", "booked_to(recorded.booked,",
     "booked_to(SESSION.whole,", "pmw/session/test_resumption"),
    ("abandoned-batch-booked-to-nobody", "pmw/session/journal", "replace(entry, booked=booked)", "entry",
     "pmw/session/test_resumption pmw/session/test_fairness"),
    ("abandoned-batch-is-free", "pmw/session/journal",
     'Outcome(ledger=ledger_rows(entries), meta={"closed"', 'Outcome(meta={"closed"',
     "pmw/session/test_accounts pmw/session/test_resumption"),
    ("keys-of-analysts-are-one", "pmw/session/requests", "if analyst else request_id",
     "if False else request_id", "pmw/session/test_accounts"),
    ("keys-tied-to-answers-within-a-bar", "pmw/session/engine", "replace(request, request_id=None)",
     "request", "pmw/session/test_accounts"),

    # --- engine: intent before noise, charge before release
    ("releases-from-known-bytes", "pmw/session/engine", "recorded), seed), BitSource(seed)",
     "recorded), seed), BitSource(seed if kind == TESTS else bytes(32))",
     "pmw/session/test_engine pmw/session/test_resumption"),
    ("batches-from-known-bytes", "pmw/session/engine", "recorded), seed), BitSource(seed)",
     "recorded), seed), BitSource(bytes(32) if kind == TESTS else seed)",
     "pmw/session/test_engine pmw/session/test_charges"),
    ("seeds-repeat", "pmw/session/journal", "return fresh_seed() if options.seed is None",
     "return repeatable_seed(0, number) if options.seed is None", "pmw/session/test_engine"),
    ("tests-drawn-before-they-are-recorded", "pmw/session/engine",
     "return self._store.begin(",
     "return self._store.last_intent() + 1 if kind == TESTS else self._store.begin(",
     "pmw/session/test_resumption"),
    ("releases-drawn-before-they-are-recorded", "pmw/session/engine",
     "return self._store.begin(",
     "return self._store.last_intent() + 1 if kind != TESTS else self._store.begin(",
     "pmw/session/test_resumption"),
    ("tests-shown-before-their-charge", "pmw/session/engine", "self._store.finish(intent, outcome)",
     "self._state = after if columns else before\n        self._store.finish(intent, outcome)",
     "pmw/session/test_resumption"),
    ("releases-shown-before-their-charge", "pmw/session/engine", "self._store.finish(intent, outcome)",
     "self._state = before if columns else after\n        self._store.finish(intent, outcome)",
     "pmw/session/test_resumption"),
    ("releases-without-the-fence-of-charges", "pmw/session/engine",
     "secret, self._secret),\n            charged_before=self._charges,",
     "secret, self._secret),\n            charged_before=self._charges if columns else None,",
     "pmw/session/test_resumption"),
    ("tests-without-the-fence-of-charges", "pmw/session/engine",
     "secret, self._secret),\n            charged_before=self._charges,",
     "secret, self._secret),\n            charged_before=self._charges if not columns else None,",
     "pmw/session/test_resumption"),
    ("free-answers-without-the-fence-of-charges", "pmw/session/engine",
     "asked=count, charged_before=self._charges)", "asked=count)", "pmw/session/test_resumption"),
    ("newer-answers-without-the-fence-of-charges", "pmw/session/repeats",
     "are_newer=True, charged_before=charges", "are_newer=True", "pmw/session/test_resumption"),
    ("release-finished-with-other-bytes", "pmw/session/engine", "intent), BitSource(intent.seed)\n",
     "intent), BitSource(intent.seed if intent.kind == TESTS else bytes(32))\n",
     "pmw/session/test_resumption"),
    ("tests-finished-with-other-bytes", "pmw/session/engine", "intent), BitSource(intent.seed)\n",
     "intent), BitSource(bytes(32) if intent.kind == TESTS else intent.seed)\n", "pmw/session/test_faults"),
    ("opening-finished-with-other-bytes", "pmw/session/engine", "BitSource(intent.seed))",
     "BitSource(bytes(32)))", "pmw/session/test_faults"),
    ("drawn-again-before-it-is-recorded-again", "pmw/session/engine",
     "self._store.begin_again(intent)", "pass", "pmw/session/store/test_companion pmw/session/test_faults"),
    ("refused-key-is-asked-again", "pmw/session/repeats", "older) & ~self.are_keyed)", "older))",
     "pmw/session/test_repeats pmw/session/test_accuracy_contracts"),
    ("key-gets-a-newer-answer", "pmw/session/repeats", "candidates = given & ~stored.are_keyed",
     "candidates = given", "pmw/session/test_repeats"),
    ("given-answer-is-tied-to-no-key", "pmw/session/repeats", "self._tie_keys(requests,",
     "(lambda *_: None)(requests,", "pmw/session/test_repeats pmw/session/test_session"),
    ("session-in-a-fork", "pmw/session/session",
     "if os.getpid() != self._process:\n            raise SessionError",
     "if False:\n            raise SessionError", "pmw/session/test_session pmw/session/test_resumption"),
    ("what-failed-is-not-loaded-again", "pmw/session/engine", "self._interrupted = True\n        return",
     "self._interrupted = kind != TESTS\n        return", "pmw/session/test_resumption"),
    ("release-that-failed-is-not-loaded-again", "pmw/session/engine",
     "self._interrupted = True\n        return", "self._interrupted = kind == TESTS\n        return",
     "pmw/session/test_resumption"),
    ("counted-after-it-is-recorded", "pmw/session/engine",
     "release.counted(self._state, self._tables())\n        recorded",
     "lambda *given: release.counted(self._state, self._tables())(*given)\n        recorded",
     "pmw/session/test_fairness"),
    ("any-table-is-the-sessions", "pmw/session/table", "if key is None or expected is None or not",
     "if key is None or expected is None and not", "pmw/session/test_table"),
    ("analysts-may-give-a-table", "pmw/session/table",
     "if data is not None and table_place(store) is not None:", "if False:",
     "pmw/session/test_table pmw/session/test_session"),

    # --- store
    ("waiting-batch-overwritten", "pmw/session/store/store",
     "if self._companion.read(session, number - 1).id != number - 1:", "if False:",
     "pmw/session/store/test_session_store"),
    ("batch-finished-twice", "pmw/session/store/store", "if intent != self.last_intent() + 1:", "if False:",
     "pmw/session/store/test_session_store pmw/session/store/test_locking"),
    ("other-charges-not-noticed", "pmw/session/store/store",
     "if outcome.charged_before not in (None, self._charges()):", "if False:",
     "pmw/session/store/test_session_store"),
    ("taken-over-and-written-to", "pmw/session/store/store", "self._fence.check()", "pass",
     "pmw/session/store/test_locking"),
    ("lost-charges-not-noticed", "pmw/session/store/store", "if last < finished or charges < newest.charges:",
     "if last < finished:", "pmw/session/store/test_companion"),
    ("lost-batches-not-noticed", "pmw/session/store/store", "if last < finished or charges < newest.charges:",
     "if charges < newest.charges:", "pmw/session/store/test_companion"),
    ("not-recorded-again", "pmw/session/store/store", "if intent.id != self._recorded:", "if False:",
     "pmw/session/store/test_companion"),
    ("older-companion-accepted", "pmw/session/store/store", "if newest.id < last:", "if False:",
     "pmw/session/store/test_companion"),
    ("seed-left-after-its-outcome", "pmw/session/store/store", "self._companion.wipe(intent)", "pass",
     "pmw/session/store/test_companion"),
    ("seed-left-by-a-kill-stays", "pmw/session/store/store", "self._companion.wipe(last)", "pass",
     "pmw/session/store/test_companion pmw/session/store/test_wiping"),
    ("batch-without-the-number-of-charges", "pmw/session/store/store",
     "IntentRow(number, kind, proposal, seed, self._charges())", "IntentRow(number, kind, proposal, seed, 0)",
     "pmw/session/store/test_companion"),
    ("resumed-without-its-companion", "pmw/session/opening", "store.require_companion()", "pass",
     "pmw/session/store/test_companion"),
    ("closed-session-keeps-its-companion", "pmw/session/store/store", "self._companion.remove()", "pass",
     "pmw/session/store/test_session_store"),
    ("outcomes-show-secrets", "pmw/session/store/rows", "slots=True, repr=False)\nclass Outcome",
     "slots=True)\nclass Outcome", "pmw/session/store/test_session_store"),
    ("log-not-emptied", "pmw/session/store/store", "self._log_tells = not empty_log(self._connection)",
     "self._log_tells = False", "pmw/session/store/test_wiping pmw/session/store/test_session_store"),
    ("closed-session-keeps-secrets", "pmw/session/store/store", 'execute("DELETE FROM secrets")',
     'execute("SELECT 1")', "pmw/session/store/test_session_store"),
    ("closed-session-keeps-its-table", "pmw/session/engine",
     "self._data = self._source = self._coarse_source = None", "pass", "pmw/session/test_sealed_session"),
    ("wiped-thresholds-stay-in-the-log", "pmw/session/store/store",
     "self._log_tells |= bool(outcome.secrets)", "pass", "pmw/session/store/test_wiping"),
    ("damage-is-written-over", "pmw/session/store/store", "self._require_whole()\n            self._fence",
     "self._fence", "pmw/session/store/test_chain"),
    ("damaged-snapshot-used", "pmw/session/store/store", "snapshot_checksum(row[0], row[1]) != row[2]",
     "False", "pmw/session/store/test_session_store"),
    ("copy-keeps-secrets", "pmw/session/store/store", 'if table != "secrets":', "if True:",
     "pmw/session/test_backup"),
    ("copy-tells-where-the-table-is", "pmw/session/store/store",
     "DELETE FROM copy.meta WHERE key = 'data'", "SELECT 1", "pmw/session/test_backup"),
    ("commits-not-durable", "pmw/session/store/connection", "synchronous = FULL", "synchronous = NORMAL",
     "pmw/session/store/test_session_store"),
    ("deleted-rows-stay", "pmw/session/store/connection", "secure_delete = ON", "secure_delete = OFF",
     "pmw/session/store/test_session_store pmw/session/store/test_wiping"),
    ("copy-without-what-waits", "pmw/session/maintenance", "closing_outcome(pending)",
     "closing_outcome(None)", "pmw/session/test_backup"),

    # --- companion
    ("companion-not-synchronised", "pmw/session/store/companion", "os.fsync(descriptor)", "pass",
     "pmw/session/store/test_companion"),
    ("newest-seed-stays", "pmw/session/store/companion", "head[2] <= last:", "head[2] < last:",
     "pmw/session/store/test_companion"),
    ("companion-of-another-session", "pmw/session/store/companion", "if owner != session:", "if False:",
     "pmw/session/store/test_companion"),
    ("torn-seed-read", "pmw/session/store/companion", "if check != _check(seed, entry[_SEED.stop :]):",
     "if False:", "pmw/session/store/test_companion"),
    ("torn-requests-read", "pmw/session/store/companion", "digest_size=32).digest() != digest:",
     "digest_size=32).digest() == b'':", "pmw/session/store/test_companion"),

    # --- chain and checksums
    ("links-not-compared", "pmw/session/store/chain", "if last.hash != found or places[0] != number:",
     "if places[0] != number:", "pmw/session/store/test_chain"),
    ("rows-beyond-the-chain", "pmw/session/store/chain", "if any(part[-1] for part in parts[:-1]) or", "if",
     "pmw/session/store/test_chain"),
    ("lost-links-not-missed", "pmw/session/store/chain", " or head != (_quoted(last) if links else None):",
     ":", "pmw/session/store/test_chain"),
    ("links-not-chained", "pmw/session/store/chain", "_hash(last.hash, [places, *rows])",
     "_hash(b'', [places, *rows])", "pmw/session/store/test_chain"),
    ("chain-without-its-contract", "pmw/session/store/chain", '("session", "contract")', '("session",)',
     "pmw/session/store/test_chain"),
    ("checksums-not-compared", "pmw/session/store/rows", "if _checksum(table, row) != found:", "if False:",
     "pmw/session/store/test_chain"),

    # --- blocks of answers
    ("keys-decide-not-texts", "pmw/session/store/answers",
     "same[at] = are_same(columns.texts, own, texts, places[at])", "same[at] = True",
     "pmw/session/store/test_blocks"),
    ("damaged-free-answer-passes", "pmw/session/store/answers", "if block_hash(*row[:-2], answers) == found:",
     "if True:", "pmw/session/store/test_chain pmw/session/store/test_blocks"),
    ("hash-without-answers", "pmw/session/store/answers", "found.update(answers)", "pass",
     "pmw/session/store/test_blocks pmw/session/store/test_chain"),
    ("hash-without-the-head", "pmw/session/store/answers", "ascii(head).encode()", "b''",
     "pmw/session/store/test_blocks pmw/session/store/test_chain"),
    ("keys-not-compared", "pmw/session/store/answers", 'astype("<u4").tobytes() == row[9])',
     'astype("<u4").tobytes() != b"")', "pmw/session/store/test_blocks"),
    ("lost-free-answers-not-missed", "pmw/session/store/store", "[1, *(end for _, end in spans)]:",
     "[1, *(end for _, end in spans)][:-1] + [count + 1]:", "pmw/session/store/test_chain"),
    ("drawn-answers-not-looked-at", "pmw/session/store/store",
     "self.answers.require_drawn()\n\n    def copy_public", "pass\n\n    def copy_public",
     "pmw/session/store/test_chain pmw/session/store/test_blocks"),
    ("older-answer-first", "pmw/session/store/answers", "(self._recent, self._sorted):",
     "(self._sorted, self._recent):", "pmw/session/store/test_blocks"),

    # --- verification
    ("charge-not-recomputed-in-rho", "pmw/session/verification/checks", 'same(f"rho of {what}",',
     "(lambda *_: 0)(0,", "pmw/session/verification/test_verification"),
    ("round-drawn-twice-not-found", "pmw/session/verification/checks",
     "require(not (is_open[number] and draws),", "require(True,", "pmw/session/verification"),
    ("positive-without-a-round-not-found", "pmw/session/verification/checks",
     "require(is_open[number] or not measures,", "require(True,", "pmw/session/verification"),
    ("measured-without-a-charge-not-found", "pmw/session/verification/checks",
     "require((intent, event, label) in paid,", "require(True,", "pmw/session/verification"),
    ("reserved-charge-not-compared", "pmw/session/verification/checks",
     'same("reserved charge", wanted, reserved)', "pass", "pmw/session/verification"),
    ("noise-of-measurements-not-compared", "pmw/session/verification/measurements",
     "None if tier is None else tier.noise, read_noise(row)", "0, 0", "pmw/session/verification"),
    ("rewritten-history-not-found", "pmw/session/verification/anchor",
     'require(links[number - 1].hex() == held["link"], fault)', "pass",
     "pmw/session/verification/test_anchor"),

    # --- bars of residuals
    ("sum-without-the-noise-of-attributes", "pmw/model/measurement",
     "found += float(own @ effect.covariance @ own)", "pass", "pmw/model/test_residual_counts"),
    ("box-without-the-noise-of-attributes", "pmw/model/measurement",
     "found += sides[axis].variances(variances) * rest((axis,)) ** 2", "pass",
     "pmw/model/test_residual_counts"),
    ("sum-without-the-noise-of-pairs", "pmw/model/measurement",
     "found += below._own_variance(weights.mean(axis=self._others(axes)))", "pass",
     "pmw/model/test_residual_counts"),
    ("box-without-the-noise-of-pairs", "pmw/model/measurement",
     "found += below._own_variances_of([sides[axis] for axis in axes]) * rest(axes) ** 2",
     "pass",
     "pmw/model/test_residual_counts"),
    ("cell-without-the-noise-of-pairs", "pmw/model/measurement",
     "found = found + self._spread(axes, below._own_variances, 2)", "pass", "pmw/model/test_residual_counts"),
    ("triples-on-two-pairs", "pmw/public/foundations", "finest=finest, residuals=residuals)",
     "finest=finest, residuals=residuals[1:])", "pmw/public/test_foundations"),
    ("triples-on-pairs-that-were-not-measured", "pmw/public/foundations",
     "if len(residuals) != 2 ** len(measurement.scope) - len(measurement.scope) - 2:", "if False:",
     "pmw/public/test_foundations"),
    ("triples-as-fine-as-their-noise-allows", "pmw/public/plans",
     "self.fine_cells if self.order <= 2 else 0", "self.fine_cells",
     "pmw/planning/test_opening"),
    ("sum-without-the-noise-of-everybody", "pmw/model/measurement",
     "return found + everybody**2 * under.variance", "return found", "pmw/model/test_residual_counts"),
    ("box-without-the-noise-of-everybody", "pmw/model/measurement",
     "found + everybody**2 * self.foundation.variance, dtype=np.float64)", "found, dtype=np.float64)",
     "pmw/model/test_residual_counts"),
    ("sum-without-the-noise-of-its-rows", "pmw/model/measurement",
     "self._own_variance(weights), mean", "0.0, mean", "pmw/model/test_residual_counts"),
    ("bins-of-one-size-alone", "pmw/public/foundations", "slope = cells / size",
     "slope = np.zeros(cells.size)", "pmw/model/test_residual_counts"),
    ("everybody-is-exact", "pmw/public/foundations", "Foundation(total.estimate, total.deviation**2,",
     "Foundation(total.estimate, 0.0,", "pmw/model/test_residual_counts"),
    ("bins-of-a-tree-are-independent", "pmw/public/foundations",
     "sum_covariance(measured.tree, bin_) * measured.variance",
     "np.diag(sum_covariance(measured.tree, bin_).diagonal()) * measured.variance",
     "pmw/model/test_residual_counts"),
    ("rows-factor-not-taken-out", "pmw/model/measurement",
     "return self.precision * float(self.strategy.factor) ** 2", "return self.precision",
     "pmw/model/test_residual_counts"),
    ("bars-in-steps-of-no-noise", "pmw/public/half_widths",
     "variances * (UNITS**2 / float(least.sigma) ** 2)", "variances", "pmw/public/test_residual_intervals"),
    ("summed-attribute-is-one-cell", "pmw/public/half_widths",
     "self.counts.units.shape[axis] - 1)", "0)", "pmw/public/test_residual_intervals"),
    # --- questions that are read from what was read before: their texts find stored answers
    ("heads-of-statements-unread", "queries/reader", "if self._heads.get(head) else None",
     "if head else None", "queries/test_reader"),
    ("nobody-without-a-note", "queries/reader", "if found is not None and found.constant:",
     "if found is not None:", "queries/test_reader"),
    ("nobody-joined-is-somebody", "queries/reader", "if one.constant == 0)", "if one.constant == -1)",
     "queries/test_reader"),
    ("joined-in-any-order", "queries/linear",
     "ordered = sorted(comparisons, key=lambda one: domain.index(one.scope[0]))",
     "ordered = list(comparisons)", "queries/test_reader"),
    ("texts-of-parts-left-out", "queries/linear", "if all(texts) else", "if texts else",
     "queries/test_reader"),
    ("first-factor-for-all", "queries/products", "take(np.array(places, dtype=np.int64))",
     "take(np.array(places, dtype=np.int64) * 0)", "queries/test_products"),
    ("runs-of-a-set-share-no-noise", "queries/products",
     "found = found + np.bincount(self.owners[one]", "found = found + 0 * np.bincount(self.owners[one]",
     "queries/test_products pmw/session/test_sets_together"),
    ("set-as-wide-as-nothing", "pmw/public/half_widths",
     "side.summed(self.half_widths(side.first, side.last))",
     "side.summed(0 * self.half_widths(side.first, side.last))", "pmw/session/test_sets_together"),
    ("tested-sets-without-the-width-of-tests", "pmw/public/free_answers",
     "np.maximum(self.ends[0], counts - width)", "np.maximum(self.ends[0], counts)",
     "pmw/session/test_sets_together"),
    ("bounds-of-the-state-before", "pmw/public/free_answers",
     "self._of, self._bounds, self._is_new = ModelAnswers(state), None, True",
     "self._of, self._is_new = ModelAnswers(state), False", "pmw/session/test_sets_together"),
    ("answers-behind-a-positive", "pmw/loop/questions", "np.searchsorted(needs, draws.negatives, \"right\")",
     "len(needs)", "pmw/loop/test_questions pmw/loop/test_loop pmw/session/test_kinds"),
    ("answers-behind-a-positive-of-marginals", "pmw/loop/marginals",
     "size = sum(need <= draws.negatives for", "size = sum(need <= math.inf for",
     "pmw/loop/test_marginals pmw/loop/test_loop"),
    ("residuals-without-what-they-stand-on-in-a-state", "pmw/public/foundations",
     "replace(below, effects=tuple(effects), finest=finest,",
     "replace(below, variance=0.0, effects=tuple(effects), finest=finest,", "pmw/public/test_foundations"),
    ("residuals-on-effects-of-other-attributes", "pmw/public/foundations", "main_effect(opened[name], bin_)",
     "main_effect(opened[measurement.scope[0]], bin_)", "pmw/public/test_foundations"),

    # --- bars and aggregates
    ("tail-of-rounds-not-shared", "pmw/public/half_widths",
     "rounds = tier.update_limit if tier.sparse.redraw else 1", "rounds = 1",
     "pmw/public/test_marginal_intervals"),
    ("simultaneous-bars-of-one", "pmw/public/half_widths", "split_confidence(options.confidence, events)",
     "options.confidence", "pmw/public/test_marginal_intervals pmw/public/test_bars"),
    ("rests-share-nothing", "pmw/public/half_widths",
     "part = 1.0 if self.together else rests.value[place] / sum(rests.value)", "part = 1.0",
     "pmw/public/test_marginal_intervals"),
    ("parts-share-nothing", "pmw/public/half_widths", "part_confidence(self._share(rests, 2), 2 / ends)",
     "self._share(rests, 2)", "pmw/public/test_marginal_intervals pmw/public/test_parts"),
    ("parts-with-all-that-may-fail", "pmw/public/half_widths",
     "part_confidence(self._share(rests, 2), 2 / ends)", "self.rest",
     "pmw/public/test_marginal_intervals pmw/public/test_parts"),
    ("everybody-with-all-that-may-fail", "pmw/public/half_widths",
     "part_confidence(options.confidence, _EVERYBODY),", "options.confidence,",
     "pmw/public/test_marginal_intervals"),
    ("runs-of-an-axis-one-by-one", "pmw/public/half_widths",
     "run_noise(measured, split_confidence(confidence, runs))", "run_noise(measured, confidence)",
     "pmw/public/test_parts"),
    ("groups-with-all-that-may-fail", "pmw/public/half_widths",
     "if parts == 1:", "if True:", "pmw/public/test_bars"),
    ("noise-of-a-population-with-all-that-may-fail", "pmw/public/population", "Bars(state, beside=1)",
     "Bars(state)", "pmw/public/test_population"),
    ("simultaneous-noise-of-a-population-not-split", "pmw/public/half_widths",
     "parts = (1 if options.simultaneous else events) * (1 + beside)",
     "parts = 1 if options.simultaneous else events * (1 + beside)", "pmw/public/test_population"),
    ("tails-of-a-population-not-split", "pmw/public/population", "tail = (1 - confidence) / 4",
     "tail = (1 - confidence) / 2", "pmw/public/test_population"),
    ("a-persons-records-count-each", "pmw/public/population", "people = fewest / records_per_person",
     "people = fewest", "pmw/public/test_population"),
    ("people-from-the-upper-end", "pmw/public/population", "people = fewest / records_per_person",
     "people = most / records_per_person", "pmw/public/test_population"),
    ("low-fraction-of-the-fewest", "pmw/public/population", "max(count[0], 0.0) / most",
     "max(count[0], 0.0) / fewest", "pmw/public/test_population"),
    ("population-of-other-weights", "pmw/public/population",
     "if query.readings is None and not (query.aligned and query.is_whole):", "if False:",
     "pmw/public/test_population"),
    ("population-of-what-a-contract-refuses", "pmw/public/population",
     "self._answers = ModelAnswers(state) if limited else None", "self._answers = None",
     "pmw/public/test_population"),
    ("bonferroni-without-everybodys-error", "pmw/public/bars",
     "everybody = self.state.total.value + self._total_error\n        return scale",
     "everybody = self.state.total.value\n        return scale", "pmw/public/test_parts"),
    ("bonferroni-with-everybody-once-less", "pmw/public/bars", "(len(lows) + beside - 1) * everybody",
     "(len(lows) + beside - 2) * everybody", "pmw/public/test_parts"),
    ("low-end-of-a-part-for-the-whole", "pmw/public/bars",
     "wider = wider._replace(low=wider.low + self._bonferroni(rest, split.scale, beside=1))", "pass",
     "pmw/public/test_parts"),
    ("high-end-of-an-alternative-is-that-of-one-part", "pmw/public/bars", "high = sum(highs)", "pass",
     "pmw/public/test_parts"),
    ("low-end-of-a-conjunction-is-that-of-one-part", "pmw/public/bars", "low = self._bonferroni(lows, 1.0)",
     "pass", "pmw/public/test_parts"),
    ("greatest-weights-as-a-sum", "pmw/public/bounded", "end: Callable[..., Array] = np.max",
     "end: Callable[..., Array] = np.sum", "pmw/public/test_parts"),
    ("negative-sums-keep-their-ends", "pmw/public/bars", "return -least, -most", "return -most, -least",
     "pmw/public/test_parts pmw/public/test_bars"),
    ("ends-of-parts-on-one-side-alone", "pmw/public/bars", "split.below if is_low else split.above",
     "split.below if is_low else ()", "pmw/public/test_parts"),
    ("certified-parts-with-all-that-may-fail", "pmw/public/bars",
     "Rests.CERTIFIED if certified else Rests.PARTS", "Rests.PARTS", "pmw/public/test_parts"),
    ("parts-chosen-by-what-they-say", "pmw/public/bars", "AxisNoise(counts, shares.measured)",
     "AxisNoise(counts, shares.measured if counts.values.sum() <= self.state.total.value else 0.5)",
     "pmw/public/test_parts"),
    ("counts-moved-out-of-their-bars", "pmw/public/agreement",
     "np.clip(self.value + by, self.low, self.high)", "self.value + by", "pmw/public/test_agreement"),
    ("totals-moved-to-their-groups", "pmw/public/agreement", "Wholes(Counts(total, total, total)",
     "Wholes(Counts(total, total - 99, total + 99)", "pmw/public/test_agreement"),
    ("groups-that-may-be-empty-promised", "pmw/public/sums",
     "bounds is not None and self.ends(counted, events)[0] > least - 1", "True",
     "pmw/public/test_aggregates"),
    ("ends-of-no-evidence-promised", "pmw/public/aggregates",
     "float(np.nanmin(low)), float(np.nanmax(high)), conditional=True)",
     "float(np.nanmin(low)), float(np.nanmax(high)))", "pmw/public/test_aggregates"),
    ("undeclared-texts-decided", "queries/cell_comparisons",
     "open_ = either_undecided(first, second) & ~never & ~named", "open_ = np.zeros(never.shape, dtype=bool)",
     "queries/test_row_conditions"),
    ("cut-cells-decided-in-comparisons", "queries/cell_comparisons",
     "least, most = ends[0] & ends[1], ends[0] | ends[1]",
     "least, most = ends[0] & ends[1], ends[0] & ends[1]",
     "queries/test_row_conditions"),
    ("frames-of-uncertain-rows-as-one-sum", "pmw/public/windows",
     "if self._chosen_of is not None or not frame.is_certain:", "if self._chosen_of is not None:",
     "pmw/public/test_windows"),
    ("frames-of-chosen-rows-as-one-sum", "pmw/public/windows",
     "if self._chosen_of is not None or not frame.is_certain:", "if not frame.is_certain:",
     "pmw/public/test_windows"),
    ("frames-of-equal-rows-as-one-sum", "pmw/public/windows",
     " or len({one.places for one in groups}) < len(groups)", "", "pmw/public/test_windows"),
    ("rows-of-windows-hold-one-by-one", "pmw/public/windows",
     "together = events * (self._chosen_of or len(partition.groups))", "together = events",
     "pmw/public/test_windows"),
    ("orders-of-rows-without-a-share", "pmw/public/windows",
     "events *= _claims(node)", "events *= 1", "pmw/public/test_windows"),
    ("defaults-of-uncertain-rows-as-certain", "pmw/public/windows",
     "return found if frame.is_certain else Estimate(found.value)", "return found",
     "pmw/public/test_windows"),
    ("ends-of-uncertain-rows-as-certain", "pmw/public/windows",
     "return found if is_certain else Estimate(found.value)", "return found", "pmw/public/test_windows"),
    ("equal-rows-in-one-order", "pmw/public/windows",
     "2 * numbers[1] + (place < len(columns))", "2 * numbers[1]", "pmw/public/test_windows"),
    ("ratio-without-its-noise", "pmw/public/sums", "bounds.high(above.minus(r, below).high) +",
     "bounds.low(above.minus(r, below).high) +", "pmw/public/test_aggregates"),
    ("quantile-without-its-part", "pmw/public/aggregates", "_shifted(inside, part, counted)[1]",
     "_shifted(inside, 0.0, counted)[1]", "pmw/public/test_aggregates"),
    ("answers-silent-of-kept-records", "pmw/public/free_answers", "kept=contract.records_kept", "kept=None",
     "pmw/session/test_people"),
    ("wider-newer-answer-given", "pmw/session/repeats", " & (found < before) & (found <= _NARROWER * before)",
     "", "pmw/session/test_repeats"),

    # --- codec
    ("unknown-keys-read", "pmw/public/codec", "if len(form) != len(wanted):", "if False:",
     "pmw/session/test_codec"),
    ("keys-read-twice", "pmw/public/codec", "if len(found) != len(pairs):", "if False:",
     "pmw/session/test_codec"),
    ("fractions-in-any-terms", "pmw/public/codec",
     '_require(str(found) == form, "no fraction in lowest terms")', "pass", "pmw/session/test_codec"),
    ("fractions-through-floats", "pmw/public/codec", "Fraction: str,",
     "Fraction: lambda one: str(Fraction(float(one))),", "pmw/session/test_codec"),
    ("arrays-of-any-type", "pmw/public/codec", 'form["dtype"] == dtype and ', "", "pmw/session/test_codec"),
    ("questions-in-any-text", "pmw/public/codec", "query.to_json() == form", "True",
     "pmw/session/test_codec"),
    ("questions-of-any-size", "pmw/public/codec", "_require(self._cells >= 0,", "_require(True,",
     "pmw/session/test_codec"),
    ("wholes-of-any-size", "pmw/public/codec", "and abs(form) <= _LARGEST", "", "pmw/session/test_codec"),

    # --- progress
    ("progress-tells-of-answers", "pmw/session/asking", "line.add(len(answers))",
     "line.add(len(answers), answers[-1].source.value)", "pmw/display/test_progress"),
    ("progress-ahead-of-answers", "pmw/session/asking", "line.add(len(answers))", "line.add(total)",
     "pmw/display/test_progress"),
    ("progress-ends-answers", "pmw/display/progress", "with suppress(OSError, ValueError):",
     "with suppress(ZeroDivisionError):", "pmw/display/test_progress"),
    ("progress-of-other-threads", "pmw/display/progress", " and _is_main()", "", "pmw/display/test_progress"),
    ("progress-switched-off-shows", "pmw/display/progress", "self.is_watched = wanted and ",
     "self.is_watched = ", "pmw/display/test_progress"),

    # --- service
    ("reader-pays-for-a-bar", "pmw/service/asking", "if needed and not pays:", "if False:",
     "pmw/service/test_app"),
    ("reader-measures", "pmw/service/app", "if user.role is Role.READER and not measured.dry_run:",
     "if False:", "pmw/service/test_app"),
    ("reader-has-a-share", "pmw/service/hosting", "0 if user.role is Role.READER else user.share",
     "user.share", "pmw/service/test_app pmw/service/test_users"),
    ("revoked-tokens-are-good", "pmw/service/users", "if found is None or found.revoked:",
     "if found is None:", "pmw/service/test_users"),
    ("sessions-of-others", "pmw/service/hosting", "if found is None or not user.may_use(name):",
     "if found is None:", "pmw/service/test_app"),
    ("questions-of-others", "pmw/service/app", "own = hosted.session.analyst(user.name).history(most)",
     "own = hosted.session.history(most)", "pmw/service/test_app"),
    ("exact-sums-of-others", "pmw/service/app", "exact=one.name == user.name", "exact=True",
     "pmw/service/test_app"),
    ("parts-of-others", "pmw/service/app", 'if one["analyst"] == user.name]', "]", "pmw/service/test_app"),
    ("requests-of-any-size", "pmw/service/limits", "if cells > MOST_CELLS:", "if False:",
     "pmw/service/test_limits"),
    ("cookies-without-end", "pmw/service/access", "if len(own) > _MOST_COOKIES:", "if False:",
     "pmw/service/test_app pmw/service/test_limits"),
    ("pages-of-others", "pmw/service/access", "    if not own:", "    if False:",
     "pmw/service/test_app pmw/service/test_pages"),
    ("log-quotes-errors", "pmw/service/guard", "error=type(error).__name__", "error=str(error)",
     "pmw/service/test_app pmw/service/test_limits"),
    ("answers-quote-errors-of-tables", "pmw/service/guard",
     '(DataError, 503, "session_unavailable", _SESSION)', '(DataError, 503, "session_unavailable", None)',
     "pmw/service/test_app"),
))
# fmt: on


def main() -> None:
    """Try the mutants that the arguments choose."""
    made = parser(__doc__)
    made.add_argument("--first", type=int, default=0, help="number of the first mutant")
    made.add_argument("--last", type=int, default=len(MUTANTS), help="number of the one after the last")
    made.add_argument("--only", nargs="+", metavar="NAME", choices=[one.name for one in MUTANTS])
    made.add_argument("--workers", type=int, default=1, help="mutants that are tried at a time")
    given = made.parse_args()
    chosen = [
        number
        for number in range(len(MUTANTS))[given.first : given.last]
        if given.only is None or MUTANTS[number].name in given.only
    ]
    counts = Counter[str]()
    pin_threads()
    with tempfile.TemporaryDirectory() as name:
        copies = [Copy(Path(name) / str(worker)) for worker in range(given.workers)]
        for line in tried(chosen, copies):
            counts[str(line["outcome"])] += 1
            tell(line)
    tell({"mutants": counts.total(), **counts})
    sys.exit(0 if counts.total() == counts["killed"] else 1)


def tried(chosen: Sequence[int], copies: Sequence[Copy]) -> Iterator[dict[str, object]]:
    """Yield what becomes of mutants, by their numbers, in order; a copy is used for one at a time."""
    free = queue.SimpleQueue[Copy]()
    for copy in copies:
        free.put(copy)

    def one(number: int) -> dict[str, object]:
        copy, mutant, started = free.get(), MUTANTS[number], time.monotonic()
        try:
            outcome, told = copy.outcome_of(mutant)
        finally:
            free.put(copy)
        line = {"mutant": number, "name": mutant.name, "outcome": outcome, "told": told[:_TOLD]}
        return {**line, "seconds": round(time.monotonic() - started)}

    with ThreadPoolExecutor(len(copies)) as pool:
        yield from pool.map(one, chosen)


class Copy:
    """A copy of the checkout, compiled so that only a file whose text is replaced is compiled anew.

    Args:
        folder: where it is made.
    """

    def __init__(self, folder: Path) -> None:
        shutil.copytree(_ROOT, folder, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        hashed = py_compile.PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(folder, quiet=2, invalidation_mode=hashed)
        self._folder = folder
        self._passing = set[str]()  # tests that are known to pass where nothing is replaced

    def outcome_of(self, mutant: Mutant) -> tuple[str, str]:
        """Return what becomes of a mutant, and why; the copy is as before afterwards."""
        try:
            with self._replaced(mutant) as found:
                if found != 1:
                    return "not found", f"its text stands {found} times in {mutant.file}"
                returned, told = self._run(map(self._path, mutant.tests.split()))
            if returned != _FAILED:
                return ("survived" if returned == _PASSED else "broken"), told
            test = told.partition(" ")[2].partition(" - ")[0]
            if test not in self._passing and self._run([test])[0] != _PASSED:
                return "broken", f"it fails where nothing is replaced: {test}"
            self._passing.add(test)
            return "killed", test
        except subprocess.TimeoutExpired:
            return "hung", f"past {_LIMIT:g} seconds"

    @contextmanager
    def _replaced(self, mutant: Mutant) -> Iterator[int]:
        """Replace a mutant's text where it stands in its file once, and yield how often it does."""
        path = self._folder / f"{mutant.file}.py"
        before = path.read_text() if path.exists() else ""
        found = before.count(mutant.old)
        if found == 1:
            path.write_text(before.replace(mutant.old, mutant.new))
        try:
            yield found
        finally:
            if found == 1:
                path.write_text(before)

    def _path(self, test: str) -> str:
        place, colons, name = test.partition("::")
        is_folder = (self._folder / "tests" / place).is_dir()
        return f"tests/{place}{'' if is_folder else '.py'}{colons}{name}"

    def _run(self, tests: Iterable[str]) -> tuple[int, str]:
        """Run tests until one fails; return what pytest returns, and the first failure or the last line.

        Raises:
            subprocess.TimeoutExpired: they ran past the limit, and were ended.
        """
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
        # Processes that tests start import the copy, too, not what is installed.
        environment = {**os.environ, "PYTHONPATH": str(self._folder), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(  # noqa: S603 - our own command
            command,
            cwd=self._folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_LIMIT,
            check=False,
        )
        lines = done.stdout.splitlines() or done.stderr.splitlines() or [""]
        return done.returncode, next((one for one in lines if one.startswith(_FAULTS)), lines[-1])


if __name__ == "__main__":
    main()
