"""The reading benchmark: its statements are what they say to be, and each is measured by itself."""

from __future__ import annotations

from collections import Counter

from benchmarks.reading import LONGEST, adult_like, cost, hard_statements, random_statement


def test_statements_are_as_long_as_they_may_be_and_each_has_a_name() -> None:
    hard = list(hard_statements())
    assert max(Counter(name for name, _ in hard).values()) == 1
    lengths = [len(text.encode()) for _, text in hard]
    assert max(lengths) <= LONGEST
    assert sum(length > LONGEST - 200 for length in lengths) > 30
    drawn = [random_statement(seed) for seed in range(100)]
    assert len(set(drawn)) > 90
    assert random_statement(7) == drawn[7]
    assert max(map(len, drawn)) <= LONGEST


def test_what_reading_takes_is_told_with_what_came_of_it() -> None:
    hard = dict(hard_statements())
    assert cost(hard["keys of 2"], adult_like())["came"] == "read"
    refused = cost(hard["choices >"], adult_like())
    assert refused["came"] == "refused: too_large"
    assert set(refused) == {"bytes", "cpu_s", "mb", "cells", "came"}
