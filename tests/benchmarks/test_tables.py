"""Streams of the benchmarks: the second half of ``late`` is about attributes that the first never asks of."""

from __future__ import annotations

from benchmarks.tables import StreamChoice, late_attributes
from queries import Domain, IntegerAttribute

DOMAIN = Domain(tuple(IntegerAttribute(name, 0, 9) for name in "abcde"))


def test_the_second_half_is_about_other_attributes() -> None:
    questions = late_attributes(DOMAIN, 101, seed=3)
    assert len(questions) == 101
    early = {name for query in questions[:51] for name in query.scope}
    assert len(early) == 3
    assert not any(early.issuperset(query.scope) for query in questions[51:])
    assert {name for query in questions[51:] for name in query.scope} == set(DOMAIN.names)


def test_a_seed_repeats_it() -> None:
    first, again, other = (StreamChoice("late", seed, 20).questions(DOMAIN, 0) for seed in (1, 1, 2))
    assert [query.to_json() for query in first] == [query.to_json() for query in again]
    assert [query.to_json() for query in first] != [query.to_json() for query in other]
